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
	return &reader{spec: spec, log: g, poll: s.cfg.Poll, delivered: spec.Start, last: spec.Start}, nil
}

const (
	// progressEvery is how many transactions without changes for the span pass before progress is told.
	progressEvery = 1000
	// linesPerLook is how many lines are read between two looks at the context.
	linesPerLook = 256
)

// reader delivers one span; see [dispatcher.Reader].
type reader struct {
	spec dispatcher.SourceSpec
	log  *log
	poll func() (<-chan time.Time, func())

	ticks    <-chan time.Time
	stopPoll func()

	changes   []dispatcher.Change // of the open transaction, those of the span
	delivered fsm.Position        // of the last transaction that Next returned, or the start
	last      fsm.Position        // of the newest complete transaction; delivered <= last
	lastMS    int64               // commit time of last
	silent    int                 // complete transactions since delivered
	known     []string            // columns of a whole row, nil: not known
	searched  bool                // the log before the first key change was searched for known
	stopped   error               // why reading ended for good
}

// Next returns the next transaction; see [dispatcher.Reader].
func (r *reader) Next(ctx context.Context) (dispatcher.Transaction, error) {
	for n := 0; r.stopped == nil; n++ {
		if n%linesPerLook == 0 {
			if err := ctx.Err(); err != nil {
				return dispatcher.Transaction{}, err
			}
		}
		tx, ready, err := r.step()
		switch {
		case ready:
			return tx, nil
		case err == nil:
			continue
		}
		if tx, ready := r.progress(); ready {
			r.keep(err)
			return tx, nil
		}
		if err := r.halt(ctx, err); err != nil {
			return dispatcher.Transaction{}, err
		}
	}
	return dispatcher.Transaction{}, r.stopped
}

// step reads one line; ready says that tx is to be delivered.
func (r *reader) step() (tx dispatcher.Transaction, ready bool, err error) {
	l, err := r.log.next()
	if err != nil {
		return dispatcher.Transaction{}, false, err
	}
	if r.passed(l) {
		return dispatcher.Transaction{}, false, nil
	}
	if l.Action == "C" {
		tx, ready = r.commit()
		return tx, ready, nil
	}
	if p := r.take(l); p != nil {
		return dispatcher.Transaction{}, false, r.log.stop(*p)
	}
	return dispatcher.Transaction{}, false, nil
}

// passed says whether the line lies at or before the position where reading was to begin.
func (r *reader) passed(l *line) bool {
	if r.log.open != nil {
		return !r.spec.Start.Less(r.log.open.position())
	}
	ts, err := parseLSN(l.LSN) // a message outside of any transaction
	return err == nil && ts <= r.spec.Start.TS
}

// take collects what the line changes in the span.
func (r *reader) take(l *line) *problem {
	at := r.log.lastTS
	if p, ok := schemaChange(l, r.spec.Table, at); ok {
		return &p
	}
	if !l.isOf(r.spec.Table) {
		return nil
	}
	switch l.Action {
	case "I", "U", "D":
	default:
		return nil
	}
	decoded, p := decodeRow(l)
	if p != nil {
		return p
	}
	switch {
	case l.Action == "I":
		r.known = columnNames(decoded.columns)
		r.upsert(decoded.now, decoded.columns)
	case l.Action == "D":
		r.remove(decoded.old)
	case decoded.old.same(decoded.now):
		r.upsert(decoded.now, decoded.upsertColumns())
	default:
		return r.changeKey(l, &decoded)
	}
	return nil
}

func (r *reader) upsert(k key, columns []dispatcher.Column) {
	if r.spec.Span.Contains(k.bytes) {
		r.changes = append(r.changes, dispatcher.Change{
			Op: dispatcher.OpUpsert, Table: r.spec.Table, Key: k.bytes, PK: k.columns, Columns: columns,
		})
	}
}

func (r *reader) remove(k key) {
	if r.spec.Span.Contains(k.bytes) {
		r.changes = append(r.changes, dispatcher.Change{Op: dispatcher.OpDelete, Table: r.spec.Table, Key: k.bytes, PK: k.columns})
	}
}

// changeKey delivers an update that changed the key as a delete and an upsert. Both spans judge whether the row is
// whole, so that the one that loses the row does not delete what the other one cannot write.
func (r *reader) changeKey(l *line, decoded *row) *problem {
	if !r.spec.Span.Contains(decoded.old.bytes) && !r.spec.Span.Contains(decoded.now.bytes) {
		return nil
	}
	if r.known == nil && !decoded.whole && !r.searched {
		r.searched = true
		known, err := columnsBefore(r.log.loc, r.log.scan.start, r.spec.Table)
		if err != nil {
			return &problem{ReasonKeyChange, "an update changes the key, and the log before it cannot be read again: " + err.Error()}
		}
		r.known = known
	}
	columns, p := decoded.wholeRow(l, r.known)
	if p != nil {
		return p
	}
	r.remove(decoded.old)
	r.upsert(decoded.now, columns)
	return nil
}

func columnNames(cols []dispatcher.Column) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return names
}

// columnsBefore searches the first limit bytes of a log for the newest insert line of the table and returns its column
// names, so that a reader that began in the middle judges a key change as one that read everything. nil: there is none.
func columnsBefore(loc location, limit int64, table dispatcher.TableName) (known []string, err error) {
	g, err := openLog(loc, fsm.Position{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for g.scan.end() < limit {
		l, err := g.next()
		if err != nil {
			return nil, err
		}
		if _, changed := schemaChange(l, table, g.lastTS); changed {
			known = nil
		}
		if l.Action != "I" || !l.isOf(table) {
			continue
		}
		cols, err := decodeColumns(l.Columns)
		if err != nil {
			return nil, g.malformed(err.Error())
		}
		known = columnNames(cols)
	}
	return known, nil
}

// commit ends the open transaction.
func (r *reader) commit() (dispatcher.Transaction, bool) {
	open := r.log.open
	r.last, r.lastMS = open.position(), open.commitTimeMS
	if len(r.changes) == 0 {
		if r.silent++; r.silent < progressEvery {
			return dispatcher.Transaction{}, false
		}
		return r.progress()
	}
	tx := dispatcher.Transaction{Position: r.last, CommitTimeMS: r.lastMS, Changes: r.changes}
	r.changes, r.delivered, r.silent = nil, r.last, 0
	return tx, true
}

// progress is a transaction without changes, if there is progress to tell.
func (r *reader) progress() (dispatcher.Transaction, bool) {
	if !r.delivered.Less(r.last) {
		return dispatcher.Transaction{}, false
	}
	r.delivered, r.silent = r.last, 0
	return dispatcher.Transaction{Position: r.last, CommitTimeMS: r.lastMS}, true
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
