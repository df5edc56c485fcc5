package bubble

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

const (
	// syncEvery is the distance of sync points; now and then one stands at the ts of a schema change.
	syncEvery = 45
	// eventGrid: every event stands at a multiple of it.
	eventGrid = 15
)

// changeAt is the schema change at a ts of a changefeed's log. Some concern tables that users drop and add again
// meanwhile, some make tables and take them away.
func changeAt(feed string, ts uint64) (schema.Change, bool) {
	table := func(format string, args ...any) []fsm.TableRef {
		return []fsm.TableRef{{Schema: tableSchema, Name: feed + fmt.Sprintf(format, args...)}}
	}
	switch ts % 120 {
	case 30:
		return schema.Change{Kind: schema.KindAlter, Tables: table(".0"), Actions: []schema.Action{
			{Kind: schema.ActionAddColumn, Column: schema.Column{Name: fmt.Sprintf("c%d", ts), Type: "integer"}},
		}}, true
	case 60:
		return schema.Change{
			Kind: schema.KindCreate, Tables: table(".born%d", ts), Columns: []schema.Column{{Name: "k", Type: "text"}}, Key: []string{"k"},
		}, true
	case 75:
		return schema.Truncate(table(".1")...), true
	case 90:
		return schema.Change{Kind: schema.KindDrop, Tables: table(".born%d", ts-30)}, true
	default:
		return schema.Change{}, false
	}
}

// eventsUpTo are the positions of a changefeed's events up to a ts.
func eventsUpTo(feed string, last uint64) []fsm.Position {
	var all []fsm.Position
	for ts := uint64(eventGrid); ts <= last; ts += eventGrid {
		if _, there := changeAt(feed, ts); there {
			all = append(all, fsm.Position{TS: ts, Stage: fsm.StageDDL})
		}
		if ts%syncEvery == 0 {
			all = append(all, fsm.Position{TS: ts, Stage: fsm.StageSyncPoint})
		}
	}
	return all
}

// stop ends the log, a little later than now and not at an event, and returns its last ts.
func (w *world) stop() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = uint64(time.Since(w.began)/w.every)/eventGrid*eventGrid + eventGrid + 1
	return w.last
}

// until is how long it takes until the log has a ts; it never has one beyond its end.
func (w *world) until(ts uint64) (wait time.Duration, ever bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.every == 0, w.last > 0 && ts > w.last:
		return 0, false
	case w.last > 0:
		return 0, true
	default:
		return time.Until(w.began.Add(time.Duration(ts) * w.every)), true
	}
}

// source reads the log of the changefeed that its URI names.
type source struct{ w *world }

// Open implements dispatcher.Source.
func (s source) Open(_ context.Context, spec dispatcher.SourceSpec) (dispatcher.Reader, error) {
	_, feed, _ := strings.Cut(spec.URI, ":")
	return &reader{w: s.w, spec: spec, feed: feed, next: max(1, spec.Start.TS)}, nil
}

type reader struct {
	w    *world
	spec dispatcher.SourceSpec
	feed string
	next uint64
}

// Next implements dispatcher.Reader: a row at every ts, or a schema change that the reader has to know of.
func (r *reader) Next(ctx context.Context) (dispatcher.Transaction, error) {
	for {
		for {
			wait, ever := r.w.until(r.next)
			if ever && wait <= 0 {
				break
			}
			var come <-chan time.Time
			if ever {
				come = time.After(wait)
			}
			select {
			case <-come:
			case <-ctx.Done():
				return dispatcher.Transaction{}, context.Cause(ctx)
			}
		}
		tx := r.at(r.next)
		r.next++
		if r.spec.Start.Less(tx.Position) {
			return tx, nil
		}
	}
}

func (r *reader) at(ts uint64) dispatcher.Transaction {
	change, there := changeAt(r.feed, ts)
	if r.w.events && there && (r.spec.Trigger || change.Concerns(r.spec.Table.Ref())) {
		statement := fmt.Sprintf("%v at %d", change.Kind, ts)
		return dispatcher.Transaction{
			Position: fsm.Position{TS: ts, Stage: fsm.StageDDL},
			Event:    &dispatcher.Event{Statement: statement, Change: change, Spec: change.Spec(statement)},
		}
	}
	tx := dispatcher.Transaction{Position: fsm.Position{TS: ts, Stage: fsm.StageRows}}
	if !r.spec.Trigger {
		tx.Changes = []dispatcher.Change{{
			Op: dispatcher.OpUpsert, Table: r.spec.Table, Key: r.spec.Span.Start,
			Columns: []dispatcher.Column{{Name: "ts", Value: dispatcher.Value{Kind: dispatcher.KindNumber, Text: strconv.FormatUint(ts, 10)}}},
		}}
	}
	return tx
}

// Close implements dispatcher.Reader.
func (*reader) Close() error { return nil }

// tsOf is the ts of a row.
func tsOf(c *dispatcher.Change) uint64 {
	ts, err := strconv.ParseUint(c.Columns[0].Value.Text, 10, 64)
	if err != nil {
		panic(err) // it is what the reader has printed
	}
	return ts
}
