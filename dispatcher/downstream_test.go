package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// downstream is a database that checks tokens by ranges and keeps records of events. It notes whatever must not happen:
// a row that meets another layout than it was written under, an event that comes before a row that was written before
// it, or behind one that was written after it.
type downstream struct {
	up *upstream

	mu         sync.Mutex
	rng        *rand.Rand
	faults     bool // calls fail, before or after they take effect
	rows       contents
	layouts    map[string]uint64
	claims     map[string][]claimedRange // by table; the trigger's under its own name
	records    map[fsm.Position]int      // how often an event took effect
	asked      int                       // calls about events that were recorded
	violations []string
}

type claimedRange struct {
	span   fsm.Span
	token  Token
	resume fsm.Position
}

func newDownstream(up *upstream, rng *rand.Rand, tables ...string) *downstream {
	d := &downstream{
		up: up, rng: rng, rows: contents{}, layouts: map[string]uint64{}, claims: map[string][]claimedRange{},
		records: map[fsm.Position]int{},
	}
	for _, name := range tables {
		d.rows[name], d.layouts[name] = map[string]uint64{}, 0
	}
	return d
}

// fail says whether calls fail from now on.
func (d *downstream) fail(yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = yes
}

func (d *downstream) violated(format string, args ...any) {
	d.violations = append(d.violations, fmt.Sprintf(format, args...))
}

// Properties implements Sink.
func (d *downstream) Properties() SinkProperties { return SinkProperties{Fenced: true} }

// Open implements Sink.
func (d *downstream) Open(_ context.Context, spec SinkSpec) (SpanWriter, error) {
	w := &downstreamWriter{d: d, table: spec.Table.Name, span: spec.Span}
	if spec.Trigger {
		w.table, w.span = "the trigger's", fsm.Span{}
	}
	return w, nil
}

type downstreamWriter struct {
	d     *downstream
	table string
	span  fsm.Span
	token Token
}

var errLost = errors.New("connection lost")

// call makes one transaction, which may fail before or after it takes effect.
func (w *downstreamWriter) call(ctx context.Context, allow func() error, do func() error) error {
	w.d.mu.Lock()
	fault, delay := 9, time.Duration(w.d.rng.IntN(3))*time.Millisecond
	if w.d.faults {
		fault = w.d.rng.IntN(30)
		delay += time.Duration(w.d.rng.IntN(20)) * time.Millisecond
	}
	w.d.mu.Unlock()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	if err := allow(); err != nil {
		return err
	}
	if fault == 0 {
		return errLost
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	if fault == 1 {
		return errLost
	}
	return nil
}

// Claim implements SpanWriter.
func (w *downstreamWriter) Claim(ctx context.Context, token Token, start fsm.Position, allow func() error) (at fsm.Position, err error) {
	err = w.call(ctx, allow, func() error {
		at, err = w.d.claim(w.table, w.span, token, start)
		return err
	})
	if err == nil {
		w.token = token
	}
	return at, err
}

// claim cuts what the range overlaps. The resume point is the least of what is cut, if that covers the range.
func (d *downstream) claim(table string, span fsm.Span, token Token, start fsm.Position) (fsm.Position, error) {
	var left, cut []claimedRange
	for _, c := range d.claims[table] {
		if !c.span.Overlaps(span) {
			left = append(left, c)
			continue
		}
		if c.token.Compare(token) > 0 {
			return fsm.Position{}, &FencedError{Own: token, Found: c.token, Table: TableName{"public", table}}
		}
		cut = append(cut, c)
		if c.span.Start < span.Start {
			left = append(left, claimedRange{fsm.Span{Start: c.span.Start, End: span.Start}, c.token, c.resume})
		}
		if span.End != "" && (c.span.End == "" || span.End < c.span.End) {
			left = append(left, claimedRange{fsm.Span{Start: span.End, End: c.span.End}, c.token, c.resume})
		}
	}
	resume := start
	if least, covered := leastOf(cut, span); covered {
		resume = start.Max(least)
	}
	d.claims[table] = append(left, claimedRange{span, token, resume})
	return resume, nil
}

func leastOf(cut []claimedRange, span fsm.Span) (least fsm.Position, covered bool) {
	slices.SortFunc(cut, func(x, y claimedRange) int {
		if x.span.Start < y.span.Start {
			return -1
		}
		return 1
	})
	for i, c := range cut {
		if i == 0 {
			least = c.resume
			if c.span.Start > span.Start {
				return least, false
			}
		} else if cut[i-1].span.End != c.span.Start {
			return least, false
		}
		if c.resume.Less(least) {
			least = c.resume
		}
	}
	if len(cut) == 0 {
		return least, false
	}
	end := cut[len(cut)-1].span.End
	return least, end == "" || (span.End != "" && end >= span.End)
}

// own returns the writer's claim, if it is still its own.
func (w *downstreamWriter) own() (*claimedRange, error) {
	list := w.d.claims[w.table]
	for i := range list {
		if list[i].span == w.span && list[i].token == w.token {
			return &list[i], nil
		}
	}
	return nil, &FencedError{Own: w.token, Table: TableName{"public", w.table}}
}

// Write implements SpanWriter.
func (w *downstreamWriter) Write(ctx context.Context, b Batch, allow func() error) error {
	return w.call(ctx, allow, func() error {
		own, err := w.own()
		if err != nil {
			return err
		}
		for i := range b.Changes {
			w.d.upsert(&b.Changes[i], b.Resume)
		}
		own.resume = b.Resume
		return nil
	})
}

func (d *downstream) upsert(c *Change, resume fsm.Position) {
	layout, _ := strconv.ParseUint(c.Columns[0].Value.Text, 10, 64)
	have, there := d.layouts[c.Table.Name]
	if !there || have != layout {
		d.violated("a row of %s written under layout %d meets layout %d (there: %v) in the batch up to %v", c.Table.Name, layout, have, there, resume)
		return
	}
	ts, _ := strconv.ParseUint(c.Columns[1].Value.Text, 10, 64)
	d.rows[c.Table.Name][c.Key] = ts
}

// WriteDDL implements SpanWriter.
func (w *downstreamWriter) WriteDDL(ctx context.Context, ddl DDL, allow func() error) (done bool, err error) {
	err = w.call(ctx, allow, func() error {
		if _, err := w.own(); err != nil {
			return err
		}
		at := ddl.Key.Position
		if w.d.records[at] > 0 {
			w.d.asked++
			done = true
			return nil
		}
		w.d.records[at]++
		w.d.event(at, &ddl.Change)
		return nil
	})
	return done, err
}

// event makes the change, at an instant at which the replica must hold exactly what came before it, of every table that
// it concerns.
func (d *downstream) event(at fsm.Position, change *schema.Change) {
	want := d.up.before(at)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if at.Stage == fsm.StageSyncPoint || change.Concerns(ref(name)) {
			if !maps.Equal(want[name], d.rows[name]) {
				d.violated("event %v finds %v in %s, should be %v", at, d.rows[name], name, want[name])
			}
		}
	}
	if at.Stage == fsm.StageSyncPoint {
		return
	}
	d.rows.apply(change)
	lay(d.layouts, change, at.TS)
}

// holds checks that everything up to a position is there, but for what a later schema change has taken away.
func (d *downstream) holds(at fsm.Position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want, layouts := d.up.replay(fsm.Position{TS: at.TS, Stage: at.Stage + 1})
	for name, rows := range want {
		if have, there := d.layouts[name]; !there || have != layouts[name] {
			continue
		}
		for key, ts := range rows {
			if have := d.rows[name][key]; have < ts {
				d.violated("the watermark is at %v, and %s in %s is of %d, should be of %d", at, key, name, have, ts)
			}
		}
	}
}

// Delete implements SpanWriter.
func (w *downstreamWriter) Delete(context.Context, func() error) error {
	return errors.New("nothing is cleaned up here")
}

// Close implements SpanWriter.
func (w *downstreamWriter) Close() error { return nil }
