package wal2json

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// Config is what the source needs from outside.
type Config struct {
	// Poll starts a ticker that says when to look at a followed file again, and returns its channel and what stops it.
	// Required for URIs with follow=true only.
	Poll func() (ticks <-chan time.Time, stop func())
}

// Source opens readers of wal2json files. It implements [dispatcher.Source] and is safe for concurrent use.
type Source struct{ cfg Config }

var _ dispatcher.Source = (*Source)(nil)

// New returns a source.
func New(cfg Config) (*Source, error) { return &Source{cfg: cfg}, nil }

// Open starts reading at spec.Start; see [dispatcher.Source]. A file that cannot be opened is an ordinary error, since
// it may be there on another node, or later.
func (s *Source) Open(ctx context.Context, spec dispatcher.SourceSpec) (dispatcher.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	loc, err := parseURI(spec.URI)
	if err != nil {
		return nil, err
	}
	if loc.follow && s.cfg.Poll == nil {
		return nil, errors.New("wal2json: a followed file needs Config.Poll")
	}
	g, err := openLog(loc, spec.Start)
	if err != nil {
		return nil, err
	}
	return &reader{
		spec: spec, table: spec.Table.Ref(), log: g, poll: s.cfg.Poll, delivered: spec.Start, last: spec.Start,
		known: columns{table: spec.Table.Ref()},
	}, nil
}

const (
	// progressEvery is how many transactions without changes for the span pass before progress is told.
	progressEvery = 1000
	// linesPerLook is how many lines are read between two looks at the context.
	linesPerLook = 256
)

// reader delivers one span, or the events of all tables; see [dispatcher.Reader].
type reader struct {
	spec  dispatcher.SourceSpec
	table fsm.TableRef
	log   *log
	poll  func() (<-chan time.Time, func())

	ticks    <-chan time.Time
	stopPoll func()

	parts     parts                    // of the open transaction
	before    uint64                   // ts of the transaction before it, 0: not known
	ready     []dispatcher.Transaction // read and not yet returned
	delivered fsm.Position             // of the last transaction that Next returned, or the start
	last      fsm.Position             // of the newest complete transaction
	lastMS    int64                    // commit time of last
	silent    int                      // complete transactions since delivered
	known     columns                  // of a whole row
	searched  bool                     // the log before the first key change was searched for known
	stopped   error                    // why reading ended for good
}

// Next returns the next transaction; see [dispatcher.Reader].
func (r *reader) Next(ctx context.Context) (dispatcher.Transaction, error) {
	for n := 0; r.stopped == nil || len(r.ready) > 0; n++ {
		if n%linesPerLook == 0 {
			if err := ctx.Err(); err != nil {
				return dispatcher.Transaction{}, err
			}
		}
		if len(r.ready) > 0 {
			return r.deliver(), nil
		}
		err := r.step()
		if err == nil {
			continue
		}
		if r.tellProgress() {
			r.keep(err)
			continue
		}
		if err := r.halt(ctx, err); err != nil {
			return dispatcher.Transaction{}, err
		}
	}
	return dispatcher.Transaction{}, r.stopped
}

func (r *reader) deliver() dispatcher.Transaction {
	tx := r.ready[0]
	r.ready = r.ready[1:]
	r.delivered, r.silent = tx.Position, 0
	return tx
}

// step reads one line.
func (r *reader) step() error {
	l, err := r.log.next()
	if err != nil {
		return err
	}
	switch {
	case l.Action == "B":
		r.parts = nil
		return nil
	case r.passed(l):
		if l.Action == "C" {
			r.before = r.log.open.ts
		}
		return nil
	case l.Action == "C":
		return r.commit()
	}
	if c := schemaChange(l); c != nil {
		return r.takeChange(l, c)
	}
	return r.takeRow(l)
}

// passed says whether the line lies at or before the position where reading was to begin. Of a transaction in which that
// position lies nothing has passed yet: which of its parts have is known at its end.
func (r *reader) passed(l *line) bool {
	if r.log.open != nil {
		return !r.spec.Start.Less(eventAt(r.log.open.ts))
	}
	ts, err := parseLSN(l.LSN) // a message outside of any transaction
	return err == nil && ts <= r.spec.Start.TS
}

// inside says whether reading was to begin inside the open transaction, or may have been.
func (r *reader) inside() bool {
	return r.spec.Start != (fsm.Position{}) && r.log.open.ts-r.spec.Start.TS < maxParts
}

// takeChange takes a schema change.
func (r *reader) takeChange(l *line, c *change) error {
	wanted := r.spec.Trigger || c.what.Concerns(r.table)
	if l.Action == "M" && !l.transactional() {
		if wanted {
			return r.log.stop(*outside(c, r.log.lastTS))
		}
		return nil
	}
	r.parts.add(c)
	if c.what.Concerns(r.table) {
		r.known.changed(&c.what, r.log.scan.start)
		r.searched = false
	}
	return nil
}

// takeRow takes what a line changes in the span.
func (r *reader) takeRow(l *line) error {
	switch l.Action {
	case "I", "U", "D":
	default:
		return nil
	}
	part := r.parts.current()
	if r.spec.Trigger || !l.isOf(r.spec.Table) {
		return nil
	}
	p := r.decode(l, part)
	if p == nil {
		return nil
	}
	stop := r.log.stop(*p)
	if !r.inside() {
		return stop
	}
	if part.stop == nil {
		part.stop = stop
	}
	return nil
}

func (r *reader) decode(l *line, into *part) *problem {
	decoded, p := decodeRow(l)
	if p != nil {
		return p
	}
	switch {
	case l.Action == "I":
		r.known.inserted(decoded.columns)
		r.upsert(into, decoded.now, decoded.columns)
	case l.Action == "D":
		r.remove(into, decoded.old)
	case decoded.old.same(decoded.now):
		r.upsert(into, decoded.now, decoded.upsertColumns())
	default:
		return r.changeKey(l, &decoded, into)
	}
	return nil
}

func (r *reader) upsert(into *part, k key, columns []dispatcher.Column) {
	if r.spec.Span.Contains(k.bytes) {
		into.changes = append(into.changes, dispatcher.Change{
			Op: dispatcher.OpUpsert, Table: r.spec.Table, Key: k.bytes, PK: k.columns, Columns: columns,
		})
	}
}

func (r *reader) remove(into *part, k key) {
	if r.spec.Span.Contains(k.bytes) {
		into.changes = append(into.changes, dispatcher.Change{Op: dispatcher.OpDelete, Table: r.spec.Table, Key: k.bytes, PK: k.columns})
	}
}

// changeKey delivers an update that changed the key as a delete and an upsert. Both spans judge whether the row is
// whole, so that the one that loses the row does not delete what the other one cannot write.
func (r *reader) changeKey(l *line, decoded *row, into *part) *problem {
	if !r.spec.Span.Contains(decoded.old.bytes) && !r.spec.Span.Contains(decoded.now.bytes) {
		return nil
	}
	if r.known.known == nil && !decoded.whole && !r.searched {
		r.searched = true
		known, err := columnsBefore(r.log.loc, r.log.scan.start, r.table)
		if err != nil {
			return &problem{ReasonKeyChange, "an update changes the key, and the log before it cannot be read again: " + err.Error()}
		}
		r.known = columns{table: r.table, known: known}
	}
	columns, p := decoded.wholeRow(l, r.known.known)
	if p != nil {
		return p
	}
	r.remove(into, decoded.old)
	r.upsert(into, decoded.now, columns)
	return nil
}

// commit ends the open transaction: its parts get their positions, and what of them is wanted and has not passed is to
// be delivered.
func (r *reader) commit() error {
	open := r.log.open
	if p := r.parts.check(open.ts, r.before); p != nil {
		return r.log.stop(*p)
	}
	for i := range r.parts {
		if stop := r.parts[i].stop; stop != nil && r.spec.Start.Less(rowsAt(r.parts.ts(i, open.ts))) {
			return stop
		}
	}
	for i := range r.parts {
		r.finish(&r.parts[i], r.parts.ts(i, open.ts))
	}
	r.last, r.lastMS, r.before, r.parts = open.position(), open.commitTimeMS, open.ts, nil
	if len(r.ready) == 0 {
		if r.silent++; r.silent >= progressEvery {
			r.tellProgress()
		}
	}
	return nil
}

// finish makes what is wanted of a part ready.
func (r *reader) finish(p *part, ts uint64) {
	ms := r.log.open.commitTimeMS
	if at := rowsAt(ts); len(p.changes) > 0 && r.spec.Start.Less(at) {
		r.ready = append(r.ready, dispatcher.Transaction{Position: at, CommitTimeMS: ms, Changes: p.changes})
	}
	if p.ddl == nil || !r.spec.Start.Less(eventAt(ts)) {
		return
	}
	if r.spec.Trigger || p.ddl.what.Concerns(r.table) {
		r.ready = append(r.ready, dispatcher.Transaction{Position: eventAt(ts), CommitTimeMS: ms, Event: p.ddl.event()})
	}
}

// tellProgress makes a transaction without changes ready, if there is progress to tell.
func (r *reader) tellProgress() bool {
	if !r.delivered.Less(r.last) {
		return false
	}
	r.ready = append(r.ready, dispatcher.Transaction{Position: r.last, CommitTimeMS: r.lastMS})
	return true
}

// keep remembers a stop that was met while progress had to be told first.
func (r *reader) keep(err error) {
	if stop, ok := errors.AsType[*dispatcher.StopError](err); ok {
		r.stopped = stop
	}
}

// halt decides what the end of the readable log means. It returns nil when reading may go on.
func (r *reader) halt(ctx context.Context, err error) error {
	r.keep(err)
	switch {
	case r.stopped != nil:
		return r.stopped
	case !errors.Is(err, io.EOF) && !errors.Is(err, errIncomplete):
		return err
	case r.log.loc.follow:
		return r.wait(ctx)
	case errors.Is(err, io.EOF):
		return io.EOF
	default:
		r.keep(r.log.truncated())
		return r.stopped
	}
}

// wait blocks until the followed file should be looked at again. The file is checked after the wait, right before it is
// read on.
func (r *reader) wait(ctx context.Context) error {
	if r.ticks == nil {
		r.ticks, r.stopPoll = r.poll()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ticks:
	}
	if how := r.log.changed(); how != "" {
		r.keep(r.log.stop(problem{ReasonChanged, "the followed file " + how + "; create a changefeed over the new file"}))
		return r.stopped
	}
	return nil
}

// Close releases the file.
func (r *reader) Close() error {
	if r.stopPoll != nil {
		r.stopPoll()
	}
	return r.log.close()
}
