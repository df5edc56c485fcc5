package bubble

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// world is what lies outside of the cluster: a source whose log grows until it is stopped, and a sink that keeps a ledger.
type world struct {
	began time.Time
	mu    sync.Mutex
	// every is the time between two transactions of the log; zero: there are none.
	every time.Duration
	// last is where the log ends; zero: it goes on.
	last uint64
	// events: there are schema changes in the log, and changefeeds have sync points.
	events bool
	// checks: the sink refuses tokens below the newest.
	checks bool
	// rows are the fence rows; those of one table do not overlap.
	rows map[place]mark
	// records are the events that were written.
	records map[dispatcher.DDLKey]bool
	// opening and closing hang for the tables named, an opening until it is cancelled, a closing until the channel closes.
	opening map[string]bool
	closing map[string]chan struct{}
	starts  []start
	calls   []effect
}

// place is a span downstream, or where a changefeed's trigger claims.
type place struct {
	feed    string
	trigger bool
	table   dispatcher.TableName
	span    fsm.Span
}

// mark is a fence row: the newest token, and the resume position of a run.
type mark struct {
	token  dispatcher.Token
	run    uint64
	resume fsm.Position
}

// overlaps says whether two places have a key in common.
func (p place) overlaps(o place) bool { return p.whole() == o.whole() && p.span.Overlaps(o.span) }

// whole is the place without its span.
func (p place) whole() place {
	p.span = fsm.Span{}
	return p
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

	// start is where a claim was ordered to begin, first and last are the ts of the rows of a write.
	start       fsm.Position
	first, last uint64
	// event is what was written, known says that its record was there.
	event dispatcher.DDL
	known bool
}

func newWorld() *world {
	return &world{
		began: time.Now(), checks: true, rows: map[place]mark{}, records: map[dispatcher.DDLKey]bool{}, opening: map[string]bool{},
		closing: map[string]chan struct{}{},
	}
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
	at := place{feed: spec.Changefeed, trigger: spec.Trigger, table: spec.Table, span: spec.Span}
	s.w.mu.Lock()
	s.w.starts = append(s.w.starts, start{node: s.by.name, place: at, at: time.Now()})
	hangs := s.w.opening[spec.Table.Name]
	s.w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return &writer{sink: s, place: at, run: spec.Run}, nil
}

type writer struct {
	sink
	place place
	run   uint64
	token dispatcher.Token
}

// do makes one call at the sink: the lease is asked as the last thing before the effect, which change makes.
func (x *writer) do(e effect, allow func() error, change func(*mark, *effect)) error {
	if err := allow(); err != nil {
		return err
	}
	if x.by.dead.Load() {
		return errDead
	}
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	e.node, e.place, e.at = x.by.name, x.place, time.Now()
	overlapped := w.overlapped(x.place)
	for _, at := range overlapped {
		if token := w.rows[at].token; w.checks && token.Compare(e.token) > 0 {
			w.calls = append(w.calls, e)
			return &dispatcher.FencedError{Own: e.token, Found: token, Table: x.place.table}
		}
	}
	row := w.rows[x.place]
	if e.kind == dispatcher.CallClaim {
		row = mark{run: x.run, resume: w.resumeOf(x.place.span, overlapped, x.run)}
	}
	change(&row, &e)
	row.token = e.token
	w.cut(x.place, overlapped)
	w.rows[x.place] = row
	e.accepted, e.resume = true, row.resume
	w.calls = append(w.calls, e)
	return nil
}

// overlapped are the fence rows that have a key in common with a place, in key order.
func (w *world) overlapped(by place) []place {
	var out []place
	for at := range w.rows {
		if at.overlaps(by) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b place) int { return strings.Compare(a.span.Start, b.span.Start) })
	return out
}

// resumeOf is the least resume position of the rows if they cover the span and are of the run.
func (w *world) resumeOf(span fsm.Span, rows []place, run uint64) fsm.Position {
	if len(rows) == 0 || rows[0].span.Start > span.Start {
		return fsm.Position{}
	}
	resume, end := w.rows[rows[0]].resume, rows[0].span.Start
	for _, at := range rows {
		if at.span.Start != end || w.rows[at].run != run {
			return fsm.Position{}
		}
		if row := w.rows[at]; row.resume.Less(resume) {
			resume = row.resume
		}
		end = at.span.End
	}
	if end != "" && (span.End == "" || end < span.End) {
		return fsm.Position{}
	}
	return resume
}

// cut takes a place out of the rows that it overlaps.
func (w *world) cut(by place, overlapped []place) {
	for _, at := range overlapped {
		row, rest := w.rows[at], at
		delete(w.rows, at)
		if at.span.Start < by.span.Start {
			rest.span = fsm.Span{Start: at.span.Start, End: by.span.Start}
			w.rows[rest] = row
		}
		if by.span.End != "" && (at.span.End == "" || by.span.End < at.span.End) {
			rest.span = fsm.Span{Start: by.span.End, End: at.span.End}
			w.rows[rest] = row
		}
	}
}

// Claim implements dispatcher.SpanWriter.
func (x *writer) Claim(_ context.Context, token dispatcher.Token, start fsm.Position, allow func() error) (fsm.Position, error) {
	var resume fsm.Position
	err := x.do(effect{kind: dispatcher.CallClaim, token: token, start: start}, allow, func(row *mark, _ *effect) {
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
	e := effect{kind: dispatcher.CallWrite, token: x.token}
	if n := len(b.Changes); n > 0 {
		e.first, e.last = tsOf(&b.Changes[0]), tsOf(&b.Changes[n-1])
	}
	return x.do(e, allow, func(row *mark, _ *effect) { row.resume = row.resume.Max(b.Resume) })
}

var errLost = errors.New("the answer was lost")

var errNotHere = errors.New("this sink does not do that")

// WriteDDL implements dispatcher.SpanWriter. It takes its time to tell that an event has been written, and sometimes it
// does not tell.
func (x *writer) WriteDDL(ctx context.Context, ddl dispatcher.DDL, allow func() error) (known bool, err error) {
	err = x.do(effect{kind: dispatcher.CallEvent, token: x.token, event: ddl}, allow, func(_ *mark, e *effect) {
		known = x.w.records[ddl.Key]
		e.known, x.w.records[ddl.Key] = known, true
	})
	if err != nil || known {
		return known, err
	}
	every := ddl.Key.Position.TS / eventGrid
	select {
	case <-time.After(time.Duration(every%7) * 20 * time.Millisecond):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if every%5 == 0 {
		return false, errLost
	}
	return false, nil
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
