package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// witness remembers what one state cannot show: which placements may still run, by what the log proves; which epochs have
// been used; what was written. It knows no rule of the state machine and asks the model nothing.
type witness struct {
	epochs  map[fsm.Epoch]bool
	newest  map[fsm.DispatcherID]fsm.Epoch
	alive   map[fsm.Pair]life                   // placements that may run: ordered to start, not proved to be over
	gone    map[fsm.DispatcherID]bool           // not wanted any more: leaving, or deleted
	removed map[fsm.TableID][]fsm.Span          // taken out on purpose
	waited  map[said]bool                       // counted words of "waiting"
	written map[fsm.BarrierKey]int              // times that an event was written, skipped or decided to be
	granted map[fsm.ChangefeedID]fsm.BarrierKey // the newest event that a trigger was allowed to write
	seen    map[fsm.OpID]bool                   // operators that have been seen
}

// life is what a placement may be writing.
type life struct {
	inc  fsm.Incarnation
	sink string
	ref  fsm.TableRef
	span fsm.Span
}

type said struct {
	key  fsm.BarrierKey
	pair fsm.Pair
}

func newWitness() witness {
	return witness{
		epochs: map[fsm.Epoch]bool{}, newest: map[fsm.DispatcherID]fsm.Epoch{}, alive: map[fsm.Pair]life{},
		gone: map[fsm.DispatcherID]bool{}, removed: map[fsm.TableID][]fsm.Span{}, waited: map[said]bool{},
		written: map[fsm.BarrierKey]int{}, granted: map[fsm.ChangefeedID]fsm.BarrierKey{}, seen: map[fsm.OpID]bool{},
	}
}

// see checks one entry, of which at most the last command may have taken part in what the rules are about: either the
// entry holds one command, or it is the first.
func (w *witness) see(before, after *fsm.View, e fsm.Entry, verdicts []fsm.Verdict) error {
	last := len(verdicts) - 1
	c, v := e.Proposals[last].Command, verdicts[last]
	if v.Replayed {
		c = nil // whatever it asks for has been done
	}
	w.prove(c, v)
	for _, check := range []func() error{
		func() error { return w.seeStarts(before, after) },
		func() error { return w.seeGone(before, after) },
		func() error { return w.seeSpans(before, after) },
		func() error { return w.seePositions(before, after, c) },
		func() error { return w.seeEvents(before, after, c, v) },
		func() error { return w.seeWatermarks(before, after) },
		func() error { return w.seeDestinations(before, after) },
		func() error { return seeChildren(before, after, c) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// prove takes out of the living what the command proves to be over. The proof is the node's own word about its own pair,
// or the end of the incarnation.
func (w *witness) prove(c fsm.Command, v fsm.Verdict) {
	if !v.OK() {
		return
	}
	switch c := c.(type) {
	case *fsm.ReportPlacements:
		for i, r := range c.Reports {
			p := fsm.Pair{Dispatcher: r.Dispatcher, Epoch: r.Epoch}
			if r.What != fsm.ReportRunning && w.alive[p].inc == c.Incarnation && v.Reports[i] == fsm.ReportCounted {
				delete(w.alive, p)
			}
		}
	case *fsm.ExpireNode:
		w.lose(c.Incarnation)
	case *fsm.Goodbye:
		w.lose(c.Incarnation)
	}
}

func (w *witness) lose(inc fsm.Incarnation) {
	for p, l := range w.alive {
		if l.inc == inc {
			delete(w.alive, p)
		}
	}
}

// seeStarts: epochs are new and grow, and nothing may be started where anything may still run.
func (w *witness) seeStarts(before, after *fsm.View) error {
	for d := range after.Dispatchers() {
		old, _ := before.Dispatcher(d.ID)
		if d.Phase == fsm.Absent || d.Epoch == old.Epoch {
			continue
		}
		if w.epochs[d.Epoch] || d.Epoch <= w.newest[d.ID] || d.Epoch <= before.Meta().LastEpoch {
			return fmt.Errorf("dispatcher %d is placed under epoch %s, which is not new (it had %s)", d.ID, d.Epoch, w.newest[d.ID])
		}
		w.epochs[d.Epoch], w.newest[d.ID] = true, d.Epoch
		t, _ := after.Table(d.Table)
		f, _ := after.ChangefeedByID(t.Changefeed)
		l := life{inc: d.Incarnation, sink: f.Sink, ref: fsm.TableRef{Schema: t.Schema, Name: t.Name}, span: d.Span}
		if t.Trigger {
			l.sink, l.ref.Name = "", fmt.Sprintf("trigger %d", t.ID)
		}
		for p, other := range w.alive {
			if other.sink == l.sink && other.ref == l.ref && overlap(other.span, l.span) {
				return fmt.Errorf("dispatcher %d %s is started, and nothing proves that dispatcher %d under epoch %s, %s, has stopped",
					d.ID, d.Span, p.Dispatcher, p.Epoch, other.span)
			}
		}
		w.alive[fsm.Pair{Dispatcher: d.ID, Epoch: d.Epoch}] = l
	}
	return nil
}

// seeGone: what was removed or dropped is never ordered to start again, nor comes back; its placements are stopped.
func (w *witness) seeGone(before, after *fsm.View) error {
	for d := range after.Dispatchers() {
		if w.gone[d.ID] && (d.Phase != fsm.Stopping || !d.Leaving) {
			return fmt.Errorf("dispatcher %d was removed, and is %s", d.ID, d.Phase)
		}
		if t, _ := after.Table(d.Table); d.Leaving || t.Dropping {
			w.gone[d.ID] = true
		}
	}
	for d := range before.Dispatchers() {
		if _, there := after.Dispatcher(d.ID); !there {
			w.gone[d.ID] = true
		}
	}
	for n := range after.Nodes() {
		for o := range after.Orders(n.Incarnation) {
			if o.Kind == fsm.OrderStart && w.gone[o.Dispatcher] {
				return fmt.Errorf("dispatcher %d was removed, and is ordered to start", o.Dispatcher)
			}
		}
	}
	return nil
}

// seeSpans: the dispatchers of a table tile it, but for what was removed on purpose.
func (w *witness) seeSpans(before, after *fsm.View) error {
	made := map[fsm.DispatcherID]bool{} // replaced by others
	for op := range after.FinishedOperators() {
		if op.Result == fsm.OpDone && (op.Kind == fsm.OpSplit || op.Kind == fsm.OpMerge) {
			made[op.Dispatcher] = true
			for _, id := range op.Sources {
				made[id] = true
			}
		}
	}
	for d := range before.Dispatchers() {
		if _, there := after.Dispatcher(d.ID); !there && !made[d.ID] {
			w.removed[d.Table] = append(w.removed[d.Table], d.Span)
		}
	}
	for f := range after.Changefeeds() {
		for t := range after.Tables(f.ID) {
			spans := slices.Clone(w.removed[t.ID])
			for d := range after.DispatchersOfTable(t.ID) {
				spans = append(spans, d.Span)
			}
			slices.SortFunc(spans, func(a, b fsm.Span) int { return cmp.Compare(a.Start, b.Start) })
			if !tiles(fsm.Span{}, spans) {
				return fmt.Errorf("table %d: %v do not tile it (removed were %v)", t.ID, spans, w.removed[t.ID])
			}
		}
	}
	return nil
}

// seePositions: a position is raised by a word of the placement that was current, or to the watermark by a new placement,
// and goes back only with a new run.
func (w *witness) seePositions(before, after *fsm.View, c fsm.Command) error {
	for d := range after.Dispatchers() {
		old, had := before.Dispatcher(d.ID)
		if !had || old.Position == d.Position {
			continue
		}
		t, _ := after.Table(d.Table)
		feed, _ := after.ChangefeedByID(t.Changefeed)
		oldFeed, _ := before.ChangefeedByID(t.Changefeed)
		allowed := old.Position
		if feed.Run != oldFeed.Run {
			allowed = feed.Watermark
		}
		if d.Epoch != old.Epoch && d.Phase != fsm.Absent {
			allowed = later(allowed, feed.Watermark)
		}
		if p, ok := proven(old, c); ok {
			allowed = later(allowed, p)
		}
		if allowed.Less(d.Position) || (d.Position.Less(old.Position) && feed.Run == oldFeed.Run) {
			return fmt.Errorf("dispatcher %d went from %s to %s; its placement's word and the watermark allow %s", d.ID, old.Position, d.Position, allowed)
		}
	}
	return nil
}

// proven is the furthest that the command says of the placement that the row names, from its own node.
func proven(row fsm.Dispatcher, c fsm.Command) (p fsm.Position, ok bool) {
	raise := func(inc fsm.Incarnation, id fsm.DispatcherID, e fsm.Epoch, at fsm.Position) {
		if row.Phase != fsm.Absent && row.Incarnation == inc && row.ID == id && row.Epoch == e {
			p, ok = later(p, at), true
		}
	}
	switch c := c.(type) {
	case *fsm.ReportPlacements:
		for _, r := range c.Reports {
			if r.What == fsm.ReportStopped && r.HasPosition {
				raise(c.Incarnation, r.Dispatcher, r.Epoch, r.Position)
			}
		}
	case *fsm.Goodbye:
		for _, r := range c.Stopped {
			if r.HasPosition {
				raise(c.Incarnation, r.Dispatcher, r.Epoch, r.Position)
			}
		}
	case *fsm.ReportBarrier:
		for _, r := range c.Reports {
			at := r.Key.At
			if r.What == fsm.SaidWaiting {
				at.Stage--
			}
			for _, pair := range r.Pairs {
				raise(c.Incarnation, pair.Dispatcher, pair.Epoch, at)
			}
			if r.All && row.HasRun && !slices.Contains(r.Except, row.ID) {
				raise(c.Incarnation, row.ID, row.Epoch, at)
			}
		}
	}
	return p, ok
}

// seeEvents: a permission needs everybody at the event by their own words and a writer who waits there himself, at most
// one lives, the trigger's events are granted in order, each is written once, and nobody passes before.
func (w *witness) seeEvents(before, after *fsm.View, c fsm.Command, v fsm.Verdict) error {
	if err := w.hear(c, v, before, after); err != nil {
		return err
	}
	for f := range after.Changefeeds() {
		for b := range after.Barriers(f.ID) {
			old, _ := before.Barrier(b.Key)
			if b.Permission != old.Permission {
				if err := w.seeGrant(after, f, old, b); err != nil {
					return err
				}
			}
			if b.Status == fsm.BarrierPassing && w.written[b.Key] == 0 {
				return fmt.Errorf("event %s passes, and nobody has written it", b.Key)
			}
		}
	}
	for n := range after.Nodes() {
		for o := range after.BarrierOrders(n.Incarnation) {
			if o.Action == fsm.ActionPass && w.written[o.Key] == 0 {
				return fmt.Errorf("%s is to pass %s, which nobody has written", n.Name, o.Key)
			}
		}
	}
	return nil
}

// hear counts the words that count.
func (w *witness) hear(c fsm.Command, v fsm.Verdict, before, after *fsm.View) error {
	switch c := c.(type) {
	case *fsm.ReportBarrier:
		i := 0
		for _, r := range c.Reports {
			if r.All {
				w.hearAll(r, c.Incarnation, after)
				i++
				continue
			}
			for _, p := range r.Pairs {
				if i >= len(v.Reports) {
					return nil // refused as a whole
				}
				counted, told := v.Reports[i] == fsm.ReportCounted, v.Reports[i] == fsm.BarrierPass
				i++
				if err := w.hearPass(r, p, told, counted, before, after); err != nil {
					return err
				}
				if counted && r.What == fsm.SaidWaiting {
					w.waited[said{r.Key, p}] = true
				}
				if b, _ := before.Barrier(r.Key); counted && r.What == fsm.SaidWritten {
					w.written[r.Key]++
					if b.Writer != p.Dispatcher || b.WriterEpoch != p.Epoch || b.Permission != r.Permission || b.Status != fsm.BarrierInWriting {
						return fmt.Errorf("%v wrote %s without the permission: %+v", p, r.Key, b)
					}
				}
			}
		}
	case *fsm.DecideBarrier:
		if v.OK() && c.Decision != fsm.DecideWriteAgain {
			w.written[c.Key]++
		}
	}
	for key, times := range w.written {
		if times > 1 {
			return fmt.Errorf("event %s was written %d times", key, times)
		}
	}
	return nil
}

// hearPass: who is told to pass, or counts as past an event, has one before it that was written, or that is below what is
// stored and the watermark. An event that ended void, because nobody was left, counts as over by definition.
func (w *witness) hearPass(r fsm.BarrierReport, p fsm.Pair, told, counted bool, before, after *fsm.View) error {
	if record, _ := after.BarrierRecord(r.Key); record.Result == fsm.BarrierVoid || w.written[r.Key] > 0 {
		return nil
	}
	if counted && r.What == fsm.SaidPassed {
		return fmt.Errorf("%v counts as past %s, which nobody has written", p, r.Key)
	}
	row, _ := after.Dispatcher(p.Dispatcher)
	feed, _ := before.ChangefeedByID(r.Key.Changefeed)
	if told && row.Position.Less(r.Key.At) && feed.Watermark.Less(r.Key.At) {
		return fmt.Errorf("%v is told to pass %s, which nobody has written", p, r.Key)
	}
	return nil
}

// hearAll notes a "waiting" of everything that a node runs: whom it moved is what the state says of it afterwards.
func (w *witness) hearAll(r fsm.BarrierReport, inc fsm.Incarnation, after *fsm.View) {
	for d := range after.DispatchersOn(inc) {
		if r.What == fsm.SaidWaiting && d.Waits && d.HasRun && d.Position == r.Key.Before() && !slices.Contains(r.Except, d.ID) {
			w.waited[said{r.Key, fsm.Pair{Dispatcher: d.ID, Epoch: d.Epoch}}] = true
		}
	}
}

func (w *witness) seeGrant(after *fsm.View, f fsm.Changefeed, old, b fsm.Barrier) error {
	writer := fsm.Pair{Dispatcher: b.Writer, Epoch: b.WriterEpoch}
	row, _ := after.Dispatcher(b.Writer)
	switch {
	case b.Permission != old.Permission+1 || b.Status != fsm.BarrierInWriting:
		return fmt.Errorf("event %s: permission %d after %d, %s", b.Key, b.Permission, old.Permission, b.Status)
	case old.Status == fsm.BarrierInWriting && row.Epoch == old.WriterEpoch && row.ID == old.Writer:
		return fmt.Errorf("event %s: a second permission while the first one lives", b.Key)
	case w.written[b.Key] > 0:
		return fmt.Errorf("event %s is to be written again", b.Key)
	case row.Phase != fsm.Running || row.Epoch != b.WriterEpoch || !w.waited[said{b.Key, writer}]:
		return fmt.Errorf("event %s: the writer %v is %s, and has not said that it waits", b.Key, writer, row.Phase)
	}
	for d := range after.Dispatchers() {
		t, _ := after.Table(d.Table)
		if t.Changefeed == f.ID && !d.Leaving && specConcerns(&b.Spec, tableOf(t)) && d.Position.Less(b.Key.Before()) {
			return fmt.Errorf("event %s was granted, and dispatcher %d is at %s", b.Key, d.ID, d.Position)
		}
	}
	if b.Writer != f.Trigger {
		return nil
	}
	if last := w.granted[f.ID]; last.Run == b.Key.Run && b.Key.At.Less(last.At) {
		return fmt.Errorf("event %s was granted after %s", b.Key, last)
	}
	w.granted[f.ID] = b.Key
	return nil
}

func tableOf(t fsm.Table) *table {
	row := tableRow(t)
	return &row
}

// seeWatermarks: within a run they never go back, and stand before what is open and what does not run.
func (w *witness) seeWatermarks(before, after *fsm.View) error {
	for f := range after.Changefeeds() {
		old, had := before.ChangefeedByID(f.ID)
		if !had || old.Watermark == f.Watermark {
			continue
		}
		if f.Run != old.Run {
			if f.Run <= before.Meta().LastRun {
				return fmt.Errorf("run %d of %s is not new", f.Run, f.Name)
			}
			continue
		}
		if f.Watermark.Less(old.Watermark) {
			return fmt.Errorf("the watermark of %s went from %s to %s", f.Name, old.Watermark, f.Watermark)
		}
		for d := range before.Dispatchers() {
			if t, _ := before.Table(d.Table); t.Changefeed == f.ID && !d.HasRun && d.Position.Less(f.Watermark) {
				return fmt.Errorf("the watermark of %s is at %s, dispatcher %d is %s at %s", f.Name, f.Watermark, d.ID, d.Phase, d.Position)
			}
		}
		for b := range before.Barriers(f.ID) {
			if !f.Watermark.Less(b.Key.At) {
				return fmt.Errorf("the watermark of %s is at %s, event %s is open", f.Name, f.Watermark, b.Key)
			}
		}
	}
	return nil
}

// seeDestinations: nobody who is draining, fenced or over is given work by a new operator.
func (w *witness) seeDestinations(before, after *fsm.View) error {
	for op := range after.Operators() {
		if w.seen[op.ID] {
			continue
		}
		w.seen[op.ID] = true
		if op.To == "" {
			continue
		}
		n, _ := before.Node(op.To)
		if n.Incarnation != op.ToIncarnation || n.Status != fsm.NodeStatusLive || n.Draining {
			return fmt.Errorf("%s %s goes to %s, which is %s (draining %t)", op.Kind, op.ID, op.To, n.Status, n.Draining)
		}
	}
	return nil
}

// seeChildren: what replaces others starts no later than they had come, by what was stored and by their last words.
func seeChildren(before, after *fsm.View, c fsm.Command) error {
	for op := range after.FinishedOperators() {
		if _, knew := before.Dispatcher(op.Dispatcher); len(op.Made) == 0 || !knew {
			continue
		}
		sources := op.Sources
		if op.Kind == fsm.OpSplit {
			sources = []fsm.DispatcherID{op.Dispatcher}
		}
		for _, id := range op.Made {
			child, _ := after.Dispatcher(id)
			t, _ := after.Table(child.Table)
			feed, _ := after.ChangefeedByID(t.Changefeed)
			for _, source := range sources {
				row, _ := before.Dispatcher(source)
				from := later(row.Position, feed.Watermark)
				if p, ok := proven(row, c); ok {
					from = later(from, p)
				}
				if from.Less(child.Position) {
					return fmt.Errorf("dispatcher %d starts at %s, dispatcher %d had come to %s", id, child.Position, source, from)
				}
			}
		}
	}
	return nil
}
