package caller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/history"
)

// Caller is one client. It is not safe for concurrent use.
type Caller struct {
	// Name is the client's name in the history.
	Name string
	// Links are the connections it uses.
	Links *Links
	// Pinned is the only server that it asks; -1: it roams.
	Pinned int
	// Recorder takes the operations.
	Recorder *history.Recorder
	// Rand chooses servers.
	Rand *rand.Rand
	// Try is how long one server is given to connect and to answer, Total how long an operation is tried.
	Try, Total time.Duration
}

// Request names an operation for all its tries, by whatever client.
type Request struct {
	ID     string
	TimeMS uint64
	Twin   bool
}

// Do carries an operation out and records it. A refusal that can pass by itself is tried again at once, elsewhere if the
// client roams.
func (c *Caller) Do(ctx context.Context, r Request, spec history.Spec) *history.Operation {
	op := c.Recorder.Begin(history.Operation{
		Client: c.Name, Spec: spec, Request: r.ID, RequestTimeMS: r.TimeMS, Twin: r.Twin,
	})
	ctx, cancel := context.WithTimeout(ctx, c.Total)
	defer cancel()
	c.Recorder.End(op, c.until(ctx, op))
	return op
}

// until tries until a verdict comes or the time is over.
func (c *Caller) until(ctx context.Context, op *history.Operation) history.Answer {
	at, lingers := c.first(), false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		c.Recorder.Try(op, c.Links.Server(at).ID)
		a, hint := c.ask(ctx, at, op.Request, op.RequestTimeMS, &op.Spec)
		if a.Outcome == history.Unknown {
			lingers = true
			c.Recorder.Linger(op)
		}
		switch {
		case a.Outcome == history.OK:
			return a
		case a.Outcome == history.Rejected && lingers && forgotten(a.Reason):
			a.Outcome = history.Unknown // the answer to the earlier try may be what was forgotten
			return a
		case a.Outcome == history.Rejected:
			return a
		}
		at = c.next(at, hint)
		if !sleep(ctx, pause) {
			if lingers {
				a.Outcome = history.Unknown
			}
			return a
		}
	}
}

func forgotten(reason string) bool { return reason == "REQUEST_TOO_OLD" || reason == "REQUEST_TOO_NEW" }

func (c *Caller) first() int {
	if c.Pinned >= 0 {
		return c.Pinned
	}
	return c.Rand.IntN(c.Links.Count())
}

func (c *Caller) next(at, hint int) int {
	switch {
	case c.Pinned >= 0:
		return c.Pinned
	case hint >= 0 && hint != at:
		return hint
	default:
		return (at + 1 + c.Rand.IntN(c.Links.Count()-1)) % c.Links.Count()
	}
}

// Once asks one server once, without recording anything: to hear an old verdict again.
func (c *Caller) Once(ctx context.Context, at int, r Request, spec *history.Spec) history.Answer {
	a, _ := c.ask(ctx, at, r.ID, r.TimeMS, spec)
	return a
}

// ask sends one try to one server. The hint is the leader that a refusal names, -1 if it names none.
func (c *Caller) ask(ctx context.Context, at int, id string, timeMS uint64, spec *history.Spec) (history.Answer, int) {
	ctx, cancel := context.WithTimeout(ctx, c.Try)
	defer cancel()
	server := c.Links.Server(at)
	if !c.Links.ready(ctx, at) {
		return history.Answer{Outcome: history.NotProposed, Reason: "NO_CONNECTION", Server: server.ID}, -1
	}
	h := &weirv1.RequestHeader{RequestId: id, RequestTimeMs: timeMS, By: c.Name}
	a, told, err := c.send(ctx, at, h, spec)
	if err != nil {
		c.Links.learn(logTime(err))
		return refusedAnswer(err, server.ID), c.hint(err)
	}
	c.Links.learn(told.GetLogTimeMs())
	return a, -1
}

func (c *Caller) hint(err error) int {
	leader := leaderOf(err)
	for i := range c.Links.Count() {
		if leader != "" && c.Links.Server(i).ID == leader {
			return i
		}
	}
	return -1
}

// send makes the call that the spec stands for.
func (c *Caller) send(
	ctx context.Context, at int, h *weirv1.RequestHeader, spec *history.Spec,
) (history.Answer, *weirv1.ResponseHeader, error) {
	cc := c.Links.Conn(at)
	switch spec.Kind {
	case history.Add, history.Move, history.Remove:
		resp, err := weirv1.NewOperatorsClient(cc).AdmitOperator(ctx, &weirv1.AdmitOperatorRequest{Header: h, Operator: operator(spec)})
		return okAnswer(resp.GetHeader(), resp.GetAdmission()), resp.GetHeader(), err
	case history.Cancel:
		resp, err := weirv1.NewOperatorsClient(cc).CancelOperator(ctx, &weirv1.CancelOperatorRequest{Header: h, OpId: spec.Operator})
		return okAnswer(resp.GetHeader(), nil), resp.GetHeader(), err
	case history.AddTable:
		resp, err := weirv1.NewTablesClient(cc).AddTables(ctx, &weirv1.AddTablesRequest{
			Header: h, Changefeed: spec.Changefeed, Tables: []*weirv1.TableSpec{{Schema: "public", Name: spec.Table}},
		})
		return okAnswer(resp.GetHeader(), nil), resp.GetHeader(), err
	case history.DropTable:
		resp, err := weirv1.NewTablesClient(cc).DropTables(ctx, &weirv1.DropTablesRequest{
			Header: h, Changefeed: spec.Changefeed, Tables: []*weirv1.TableRef{{Schema: "public", Name: spec.Table}},
		})
		return okAnswer(resp.GetHeader(), nil), resp.GetHeader(), err
	default:
		return history.Answer{}, nil, fmt.Errorf("operation of unknown kind %q", spec.Kind)
	}
}

func operator(spec *history.Spec) *weirv1.OperatorSpec {
	out := &weirv1.OperatorSpec{Dispatcher: spec.Dispatcher, From: spec.From, FromAny: spec.FromAny, To: spec.To}
	switch spec.Kind {
	case history.Add:
		out.Kind = weirv1.OperatorKind_OPERATOR_KIND_ADD
	case history.Move:
		out.Kind = weirv1.OperatorKind_OPERATOR_KIND_MOVE
	case history.Remove:
		out.Kind = weirv1.OperatorKind_OPERATOR_KIND_REMOVE
	case history.Cancel, history.AddTable, history.DropTable:
	}
	return out
}

// Clock makes sure that a log time is known, and returns it.
func (c *Caller) Clock(ctx context.Context) (uint64, error) {
	for c.Links.LogTime() == 0 {
		at := c.first()
		try, cancel := context.WithTimeout(ctx, c.Try)
		resp, err := weirv1.NewClusterClient(c.Links.Conn(at)).GetStatus(try, &weirv1.GetStatusRequest{})
		cancel()
		if err == nil {
			c.Links.learn(resp.GetHeader().GetLogTimeMs())
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return 0, fmt.Errorf("learn the log time: %w", context.Cause(ctx))
		}
	}
	return c.Links.LogTime(), nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
