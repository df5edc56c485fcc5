package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/dispatcher"
)

// Exit codes of the process, by class of error. They never change.
const (
	ExitOK         = 0
	ExitFailed     = 1 // a fault, or a check that found something wrong
	ExitUsage      = 2 // the command makes no sense as written
	ExitRejected   = 3 // a rule said no; nothing was changed
	ExitNotReached = 4 // nobody could be asked, or nothing was proposed
	ExitUnknown    = 5 // it may have been carried out
)

// faultCodes are those of a server that must not go on, one for each cause.
const faultCodes = 70

type exitCoder interface {
	error
	ExitCode() int
}

// Code is the exit code for an error; 0 for none.
func Code(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[exitCoder](err); ok && e.ExitCode() >= faultCodes {
		return e.ExitCode()
	}
	switch explain(err).Class {
	case plane.Usage:
		return ExitUsage
	case plane.Rejected:
		return ExitRejected
	case plane.NotReached:
		return ExitNotReached
	case plane.Unknown:
		return ExitUnknown
	case plane.Failed:
		return ExitFailed
	default:
		return ExitFailed
	}
}

// usage is an error of class Usage.
func usage(format string, args ...any) error {
	return &plane.Error{Class: plane.Usage, Text: fmt.Sprintf(format, args...)}
}

// failed is an error of class Failed.
func failed(format string, args ...any) error {
	return &plane.Error{Class: plane.Failed, Text: fmt.Sprintf(format, args...)}
}

// explain classifies an error that may come from anywhere.
func explain(err error) *plane.Error {
	if e, ok := errors.AsType[*plane.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return &plane.Error{
			Class: classOf(e.Class), Reason: e.Reason, Text: e.Message, Facts: e.Facts, RequestTimeMS: e.RequestTimeMS, Err: err,
		}
	}
	if e, ok := errors.AsType[*dispatcher.StopError](err); ok {
		return &plane.Error{Class: plane.Usage, Reason: e.Reason, Text: e.Text, Err: err}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &plane.Error{Class: plane.Failed, Text: "interrupted", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &plane.Error{Class: plane.NotReached, Reason: "DEADLINE", Text: "the answer was not there in time; try again, or wait longer with --timeout", Err: err}
	default:
		return &plane.Error{Class: plane.Failed, Text: err.Error(), Err: err}
	}
}

// classOf translates what the client says of a request.
func classOf(c client.Class) plane.Class {
	switch c {
	case client.Rejected:
		return plane.Rejected
	case client.NotProposed:
		return plane.NotReached
	case client.Unknown:
		return plane.Unknown
	case client.Invalid:
		return plane.Usage
	case client.Fault:
		return plane.Failed
	default:
		return plane.Failed
	}
}

// printError says what went wrong: a sentence for people, or one JSON document.
func printError(w io.Writer, asJSON bool, err error, sent request) {
	e := explain(err)
	again := sent.again(e)
	if asJSON {
		facts := make(map[string]string, len(e.Facts))
		for name, value := range e.Facts {
			facts[name] = factValue(name, value)
		}
		_ = json.NewEncoder(w).Encode(struct { // nothing is left to be done when standard error is gone
			Error errorRow `json:"error"`
		}{errorRow{Class: e.Class.String(), Code: Code(err), Reason: e.Reason, Message: e.Text, Facts: facts, RequestID: again}})
		return
	}
	_, _ = fmt.Fprintf(w, "weir: %s\n", e.Error())
	if facts := factWords(e.Facts); facts != "" {
		_, _ = fmt.Fprintf(w, "  %s\n", facts)
	}
	if e.Class == plane.Unknown && again != "" {
		_, _ = fmt.Fprintf(w, "  to learn what became of it, run the same command with: --request-id %s\n", again)
	}
}

// errorRow is an error with -o json.
type errorRow struct {
	Class     string            `json:"class"`
	Code      int               `json:"exit_code"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Facts     map[string]string `json:"facts"`
	RequestID string            `json:"request_id,omitempty"`
}

// shownFacts are those that people may want beside the sentence, in this order; JSON has all of them.
func shownFacts() []string {
	return []string{
		"operator", "operator_kind", "operator_result", "dispatcher", "node", "incarnation", "epoch", "changefeed", "table",
		"leader", "leader_address", "index", "retry_after_ms",
	}
}

func factWords(facts map[string]string) string {
	var words []string
	for _, name := range shownFacts() {
		if value := facts[name]; value != "" {
			words = append(words, name+"="+factValue(name, value))
		}
	}
	return strings.Join(words, " ")
}

// factValue spells tokens as everywhere else; they travel as decimal numbers.
func factValue(name, value string) string {
	var n uint64
	switch name {
	case "operator", "epoch", "incarnation":
		if _, err := fmt.Sscan(value, &n); err == nil {
			return show.Token(n)
		}
	}
	return value
}
