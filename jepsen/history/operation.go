package history

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Outcome says what a client knows of an operation.
type Outcome uint8

// The outcomes.
const (
	// OK: it was carried out.
	OK Outcome = iota + 1
	// Rejected: the answer was no, with a reason.
	Rejected
	// NotProposed: it was not carried out, and never will be.
	NotProposed
	// Unknown: it may have been carried out, or still be.
	Unknown
)

func outcomeNames() []string {
	return []string{OK: "ok", Rejected: "rejected", NotProposed: "not-proposed", Unknown: "unknown"}
}

// String is the outcome's word.
func (o Outcome) String() string {
	if names := outcomeNames(); o != 0 && int(o) < len(names) {
		return names[o]
	}
	return "unset"
}

// Acknowledged says whether the client was told a verdict, which must stand.
func (o Outcome) Acknowledged() bool { return o == OK || o == Rejected }

// MarshalJSON writes the word.
func (o Outcome) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }

// UnmarshalJSON reads the word.
func (o *Outcome) UnmarshalJSON(raw []byte) error {
	var word string
	if err := json.Unmarshal(raw, &word); err != nil {
		return fmt.Errorf("read outcome: %w", err)
	}
	for i, name := range outcomeNames() {
		if name != "" && name == word {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("read outcome: %q is none", word)
}

// Kind says what an operation asks for.
type Kind string

// The kinds.
const (
	Add    Kind = "add"
	Move   Kind = "move"
	Remove Kind = "remove"
	Cancel Kind = "cancel"
	// AddTable and DropTable change what a changefeed replicates.
	AddTable  Kind = "add-table"
	DropTable Kind = "drop-table"
)

// Spec is what an operation asks for. It holds all that is needed to send the very same request again.
type Spec struct {
	Kind       Kind   `json:"kind"`
	Dispatcher uint64 `json:"dispatcher,omitempty"`
	// From is the owner that a move expects; "" with FromAny unset: nobody.
	From    string `json:"from,omitempty"`
	FromAny bool   `json:"from_any,omitempty"`
	To      string `json:"to,omitempty"`
	// Operator is what a cancel names.
	Operator uint64 `json:"operator,omitempty"`
	// Changefeed and Table are what table changes name.
	Changefeed string `json:"changefeed,omitempty"`
	Table      string `json:"table,omitempty"`
}

// Answer is what a client was told.
type Answer struct {
	Outcome Outcome `json:"outcome"`
	// Reason is the stable code of a refusal or an error.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Index is the log entry that decided; 0 if nothing did.
	Index uint64 `json:"index,omitempty"`
	// Operator, Dispatcher and Epoch are those of an admission; Operator of a refusal is the one in the way.
	Operator   uint64 `json:"operator,omitempty"`
	Dispatcher uint64 `json:"dispatcher,omitempty"`
	Epoch      uint64 `json:"epoch,omitempty"`
	// Facts are those of a refusal that belong to the verdict, not to the server that told it.
	Facts map[string]string `json:"facts,omitempty"`
	// Replayed: the request had been answered before.
	Replayed bool   `json:"replayed,omitempty"`
	Server   string `json:"server,omitempty"`
}

// SameVerdict says whether two answers to one request are the same verdict, whoever told them and however often.
func (a *Answer) SameVerdict(b *Answer) bool {
	return a.Outcome == b.Outcome && a.Reason == b.Reason && a.Index == b.Index && a.Operator == b.Operator &&
		a.Dispatcher == b.Dispatcher && a.Epoch == b.Epoch && maps.Equal(a.Facts, b.Facts)
}

// Brief is the verdict in a few words, for reports.
func (a *Answer) Brief() string {
	text := a.Outcome.String()
	if a.Reason != "" {
		text += " " + a.Reason
	}
	if a.Index != 0 {
		text += fmt.Sprintf(" at entry %d", a.Index)
	}
	if a.Operator != 0 {
		text += fmt.Sprintf(" operator %d", a.Operator)
	}
	return text
}

// Operation is one request of one client, with all its tries.
type Operation struct {
	// ID orders operations by their calls.
	ID     int    `json:"id"`
	Client string `json:"client"`
	Spec   Spec   `json:"spec"`
	// Request and RequestTimeMS name the request; every try carries them.
	Request       string `json:"request"`
	RequestTimeMS uint64 `json:"request_time_ms"`
	// Twin: the request was deliberately sent by two clients.
	Twin bool `json:"twin,omitempty"`
	// Call is just before the first try, Return just after the last; Return is 0 while the operation is open.
	Call   int64 `json:"call"`
	Return int64 `json:"return,omitempty"`
	// Tries names the servers that were asked, in order.
	Tries []string `json:"tries,omitempty"`
	// MayLinger: a try ended without a verdict, so that it may have been carried out whatever came after.
	MayLinger bool `json:"may_linger,omitempty"`
	// Answer is the outcome.
	Answer Answer `json:"answer"`
}
