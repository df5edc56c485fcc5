package bubble

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// world is what lies outside of the cluster: a source that goes on for ever, and a sink that keeps a ledger.
type world struct {
	mu sync.Mutex
	// every is the time between two transactions of a span; zero: there are none.
	every time.Duration
	// checks: the sink refuses tokens below the newest.
	checks bool
	rows   map[place]mark
	// opening and closing hang for the tables named, an opening until it is cancelled, a closing until the channel closes.
	opening map[string]bool
	closing map[string]chan struct{}
	starts  []start
	calls   []effect
}

// place is a span downstream.
type place struct {
	table dispatcher.TableName
	span  fsm.Span
}

// mark is a fence row: the newest token, and the resume position.
type mark struct {
	token  dispatcher.Token
	resume fsm.Position
}

// start is a node that has obeyed an order to start.
type start struct {
	node  string
	place place
	at    time.Time
}

// effect is a call that reached the sink.
type effect struct {
	kind     dispatcher.CallKind
	node     string
	place    place
	token    dispatcher.Token
	resume   fsm.Position
	accepted bool
	at       time.Time
}

func newWorld() *world {
	return &world{checks: true, rows: map[place]mark{}, opening: map[string]bool{}, closing: map[string]chan struct{}{}}
}

// startsOf are the starts of a table's dispatchers.
func (w *world) startsOf(table string) []start {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []start
	for _, s := range w.starts {
		if s.place.table.Name == table {
			out = append(out, s)
		}
	}
	return out
}

// effects are all calls so far, in order.
func (w *world) effects() []effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

var errDead = errors.New("the process is dead")

type sink struct {
	w  *world
	by *worker
}

// Properties implements dispatcher.Sink.
func (sink) Properties() dispatcher.SinkProperties { return dispatcher.SinkProperties{Fenced: true} }

// Open implements dispatcher.Sink. A dead process opens nothing.
func (s sink) Open(ctx context.Context, spec dispatcher.SinkSpec) (dispatcher.SpanWriter, error) {
	if s.by.dead.Load() {
		return nil, errDead
	}
	at := place{table: spec.Table, span: spec.Span}
	s.w.mu.Lock()
	s.w.starts = append(s.w.starts, start{node: s.by.name, place: at, at: time.Now()})
	hangs := s.w.opening[spec.Table.Name]
	s.w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return &writer{sink: s, place: at}, nil
}

type writer struct {
	sink
	place place
	token dispatcher.Token
}

// do makes one call at the sink: the lease is asked as the last thing before the effect.
func (x *writer) do(kind dispatcher.CallKind, token dispatcher.Token, allow func() error, change func(*mark)) error {
	if err := allow(); err != nil {
		return err
	}
	if x.by.dead.Load() {
		return errDead
	}
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	row := w.rows[x.place]
	e := effect{kind: kind, node: x.by.name, place: x.place, token: token, at: time.Now()}
	if w.checks && row.token.Compare(token) > 0 {
		w.calls = append(w.calls, e)
		return &dispatcher.FencedError{Own: token, Found: row.token, Table: x.place.table}
	}
	change(&row)
	row.token = token
	w.rows[x.place] = row
	e.accepted, e.resume = true, row.resume
	w.calls = append(w.calls, e)
	return nil
}

// Claim implements dispatcher.SpanWriter.
func (x *writer) Claim(_ context.Context, token dispatcher.Token, start fsm.Position, allow func() error) (fsm.Position, error) {
	var resume fsm.Position
	err := x.do(dispatcher.CallClaim, token, allow, func(row *mark) {
		row.resume = row.resume.Max(start)
		resume = row.resume
	})
	if err == nil {
		x.token = token
	}
	return resume, err
}

// Write implements dispatcher.SpanWriter.
func (x *writer) Write(_ context.Context, b dispatcher.Batch, allow func() error) error {
	return x.do(dispatcher.CallWrite, x.token, allow, func(row *mark) { row.resume = row.resume.Max(b.Resume) })
}

var errNotHere = errors.New("this sink does not do that")

// WriteDDL implements dispatcher.SpanWriter.
func (*writer) WriteDDL(context.Context, dispatcher.DDL, func() error) (bool, error) {
	return false, errNotHere
}

// Delete implements dispatcher.SpanWriter.
func (*writer) Delete(context.Context, func() error) error { return errNotHere }

// Close implements dispatcher.SpanWriter.
func (x *writer) Close() error {
	x.w.mu.Lock()
	hangs := x.w.closing[x.place.table.Name]
	x.w.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return nil
}

type source struct{ w *world }

// Open implements dispatcher.Source.
func (s source) Open(_ context.Context, spec dispatcher.SourceSpec) (dispatcher.Reader, error) {
	return &reader{w: s.w, spec: spec, next: spec.Start.TS + 1}, nil
}

type reader struct {
	w    *world
	spec dispatcher.SourceSpec
	next uint64
}

// Next implements dispatcher.Reader: one row after the other.
func (r *reader) Next(ctx context.Context) (dispatcher.Transaction, error) {
	if r.w.every == 0 {
		<-ctx.Done()
		return dispatcher.Transaction{}, context.Cause(ctx)
	}
	select {
	case <-time.After(r.w.every):
	case <-ctx.Done():
		return dispatcher.Transaction{}, context.Cause(ctx)
	}
	tx := dispatcher.Transaction{
		Position: fsm.Position{TS: r.next, Stage: fsm.StageRows},
		Changes:  []dispatcher.Change{{Op: dispatcher.OpUpsert, Table: r.spec.Table, Key: r.spec.Span.Start}},
	}
	r.next++
	return tx, nil
}

// Close implements dispatcher.Reader.
func (*reader) Close() error { return nil }
