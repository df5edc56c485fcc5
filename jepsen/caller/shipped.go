package caller

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/history"
)

// Shipped asks through the product's own client, which finds the leader and repeats by itself. What it says of an outcome
// is taken at its word, so that a wrong word shows.
type Shipped struct {
	// Name is the client's name in the history.
	Name string
	// Client is the product's.
	Client *client.Client
	// Recorder takes the operations.
	Recorder *history.Recorder
	// Total is how long an operation is tried.
	Total time.Duration
}

// Do carries an operation out and records it. It knows no cancels: the product's client makes their request ids itself.
func (s *Shipped) Do(ctx context.Context, r Request, spec history.Spec) *history.Operation {
	op := s.Recorder.Begin(history.Operation{
		Client: s.Name, Spec: spec, Request: r.ID, RequestTimeMS: r.TimeMS, Twin: r.Twin,
	})
	ctx, cancel := context.WithTimeout(ctx, s.Total)
	defer cancel()
	s.Recorder.End(op, s.ask(ctx, r, &op.Spec))
	return op
}

func (s *Shipped) ask(ctx context.Context, r Request, spec *history.Spec) history.Answer {
	h := &weirv1.RequestHeader{RequestId: r.ID, RequestTimeMs: r.TimeMS, By: s.Name}
	var admission *weirv1.Admission
	var header *weirv1.ResponseHeader
	var err error
	switch spec.Kind {
	case history.Add, history.Move, history.Remove:
		admission, err = s.Client.Admit(ctx, &weirv1.AdmitOperatorRequest{Header: h, Operator: operator(spec)})
	case history.AddTable:
		header, err = s.Client.AddTables(ctx, &weirv1.AddTablesRequest{
			Header: h, Changefeed: spec.Changefeed, Tables: []*weirv1.TableSpec{{Schema: "public", Name: spec.Table}},
		})
	case history.DropTable:
		header, err = s.Client.DropTables(ctx, &weirv1.DropTablesRequest{
			Header: h, Changefeed: spec.Changefeed, Tables: []*weirv1.TableRef{{Schema: "public", Name: spec.Table}},
		})
	case history.Cancel:
		return history.Answer{Outcome: history.NotProposed, Reason: "NOT_ASKED"}
	}
	if err == nil {
		return okAnswer(header, admission)
	}
	return shippedAnswer(err)
}

func shippedAnswer(err error) history.Answer {
	var e *client.Error
	if !errors.As(err, &e) {
		return history.Answer{Outcome: history.Unknown, Reason: "UNTYPED_ERROR", Message: err.Error()}
	}
	a := factsAnswer(e.Reason, e.Message, e.Facts)
	if a.Outcome == 0 { // made by the client itself
		switch e.Class {
		case client.Rejected, client.Invalid:
			a.Outcome = history.Rejected
		case client.NotProposed:
			a.Outcome = history.NotProposed
		case client.Unknown, client.Fault:
			a.Outcome = history.Unknown
		}
	}
	if e.Class == client.Unknown {
		a.Outcome = history.Unknown
	}
	return a
}
