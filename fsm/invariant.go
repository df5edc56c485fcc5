package fsm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-project/weir/fsm/internal/tree"
)

// ErrInvariant is what every violation wraps.
var ErrInvariant = errors.New("invariant violated")

func violated(rule, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvariant, rule, fmt.Sprintf(format, args...))
}

// CheckInvariants checks everything that must hold between two entries. It costs a pass over the state: after every
// entry in tests, on demand in production. The rules are named as users know them.
func (d *data) CheckInvariants() error {
	return errors.Join(
		d.checkPlacements(),
		d.checkOperators(),
		d.checkSpans(),
		d.checkChangefeeds(),
		d.checkBarriers(),
		d.checkWatermarks(),
		d.checkNumbers(),
		d.checkIndexes(),
		d.checkHash(),
	)
}

// checkPlacements: one placement a dispatcher, under an epoch of its own, on an incarnation that has not ended.
func (d *data) checkPlacements() error {
	const rule = "one placement per dispatcher"
	epochs := map[Epoch]DispatcherID{}
	for row := range d.Dispatchers() {
		if row.Phase == Absent {
			if row.Incarnation != 0 || row.Epoch != 0 || row.HasRun || row.Waits || row.Leaving {
				return violated(rule, "dispatcher %d is absent and still has a placement", row.ID)
			}
			continue
		}
		if other, twice := epochs[row.Epoch]; twice {
			return violated(rule, "dispatchers %d and %d have the same epoch %s", other, row.ID, row.Epoch)
		}
		epochs[row.Epoch] = row.ID
		n, ok := d.NodeOf(row.Incarnation)
		if !ok || (n.Status != NodeStatusLive && n.Status != NodeStatusFenced) {
			return violated("ended incarnations own nothing", "dispatcher %d is placed on incarnation %s", row.ID, row.Incarnation)
		}
		if row.Phase == Starting || row.Phase == Running {
			if op, held := d.HeldBy(row); held {
				return violated("no start while a removal holds the range", "dispatcher %d is %s while removal %s runs", row.ID, row.Phase, op.ID)
			}
		}
	}
	return nil
}

// checkOperators: the running operators are exactly those in slots, and each fits its dispatcher's phase.
func (d *data) checkOperators() error {
	const rule = "running operators are those in slots"
	inSlots := 0
	for row := range d.Dispatchers() {
		if row.Slot == 0 {
			if row.Phase != Absent && row.Phase != Running {
				return violated(rule, "dispatcher %d is %s without an operator", row.ID, row.Phase)
			}
			continue
		}
		inSlots++
		op, ok := d.operators.get(Operator{ID: row.Slot})
		if !ok || !op.works(row.ID) {
			return violated(rule, "the slot of dispatcher %d names operator %s, which is not its own", row.ID, row.Slot)
		}
		if op.Kind == OpMerge && d.sourcesIn(op)[0].ID != row.ID {
			inSlots-- // a Merge is one operator in several slots
		}
		if !fits(op, row) {
			return violated(rule, "%s %s (aborting %t) has dispatcher %d in %s", op.Kind, op.ID, op.Aborting, row.ID, row.Phase)
		}
	}
	if inSlots != d.operators.len() {
		return violated(rule, "%d operators run, %d are in slots", d.operators.len(), inSlots)
	}
	return nil
}

func fits(op Operator, row Dispatcher) bool {
	switch {
	case op.Kind == OpMerge && !op.Aborting && op.Result == 0 && row.Phase == Absent:
		return !row.Leaving
	case op.Result != 0 || row.Phase == Absent || row.Phase == Running || row.Leaving != (op.Kind == OpRemove):
		return false
	case op.Kind == OpSplit || op.Kind == OpMerge:
		return row.Phase == Stopping
	case op.Aborting || op.Kind == OpRemove || op.Kind == OpStop:
		return row.Phase == Stopping
	case op.Kind == OpAdd:
		return row.Phase == Starting
	default:
		return op.Kind == OpMove
	}
}

// works says whether the operator is about the dispatcher.
func (o *Operator) works(id DispatcherID) bool {
	return o.Dispatcher == id || slices.Contains(o.Sources, id)
}

// checkSpans: the spans of a table never overlap, and no dispatcher is without its table.
func (d *data) checkSpans() error {
	const rule = "spans of a table never overlap"
	var last Dispatcher
	var err error
	seen := 0
	for k := range d.spans.tree.All() {
		row, ok := d.Dispatcher(k.id)
		_, known := d.Table(k.table)
		switch {
		case !ok || !known || row.Table != k.table || row.Span.Start != k.start:
			err = violated(rule, "the span index names dispatcher %d of table %d, which is not there", k.id, k.table)
		case !row.Span.Valid():
			err = violated(rule, "dispatcher %d has the empty span %s", k.id, row.Span)
		case seen > 0 && last.Table == row.Table && last.Span.Overlaps(row.Span):
			err = violated(rule, "dispatchers %d %s and %d %s", last.ID, last.Span, row.ID, row.Span)
		}
		if err != nil {
			return err
		}
		seen++
		last = row
	}
	if seen != d.DispatcherCount() {
		err = violated(rule, "%d dispatchers, %d in the span index", d.DispatcherCount(), seen)
	}
	return err
}

// checkChangefeeds: what is dropped is being removed, what is paused starts nothing, and nothing is an orphan.
func (d *data) checkChangefeeds() error {
	for t := range d.tables.all() {
		feed, ok := d.ChangefeedByID(t.Changefeed)
		if !ok {
			return violated("no orphans", "table %d has no changefeed", t.ID)
		}
		if feed.Status == ChangefeedIsRemoving && !t.Dropping && !t.Trigger {
			return violated("a removed changefeed drops every table", "table %d of %s", t.ID, feed.Name)
		}
		for row := range d.DispatchersOfTable(t.ID) {
			op, _ := d.operators.get(Operator{ID: row.Slot})
			if t.Dropping && op.Kind != OpRemove {
				return violated("after a drop nothing is started", "dispatcher %d of dropped table %d is not in a removal", row.ID, t.ID)
			}
			if feed.stopped() && (row.Phase == Starting || row.Phase == Running) {
				return violated("a paused changefeed runs nothing", "dispatcher %d is %s", row.ID, row.Phase)
			}
		}
	}
	return nil
}

// checkNumbers: nothing carries a number that has not been issued.
func (d *data) checkNumbers() error {
	const rule = "numbers are issued before they are used"
	m := d.meta
	for row := range d.Dispatchers() {
		if row.ID > m.LastDispatcher || row.Epoch > m.LastEpoch || Epoch(row.Slot) > m.LastEpoch || row.Table > m.LastTable {
			return violated(rule, "dispatcher %d", row.ID)
		}
	}
	for n := range d.Nodes() {
		if n.Incarnation > m.LastIncarnation || n.LastTick > m.Index {
			return violated(rule, "node %s", n.Name)
		}
	}
	for f := range d.Changefeeds() {
		if f.ID > m.LastChangefeed {
			return violated(rule, "changefeed %s", f.Name)
		}
	}
	return nil
}

// checkIndexes: every secondary index equals a recomputation from the rows.
func (d *data) checkIndexes() error {
	fresh := State{data: d.cloneData()}
	fresh.derived = newDerived()
	for n := range d.Nodes() {
		fresh.indexNode(n)
	}
	for f := range d.Changefeeds() {
		fresh.feeds.set(f.Name, f.ID)
	}
	for t := range d.tables.all() {
		fresh.indexTable(t)
	}
	for row := range d.Dispatchers() {
		fresh.spans.add(row)
		fresh.moveInIndexes(Dispatcher{}, row, d.feedOf(row))
	}
	for op := range d.operators.all() {
		fresh.indexRunning(op)
	}
	for op := range d.finished.all() {
		fresh.ended.add(op.Ended, uint64(op.ID))
	}
	for r := range d.requests.all() {
		fresh.answers.set(r.Seq, r.ID)
	}
	for r := range d.history.all() {
		fresh.past.set(r.Seq, recordKey{r.Dispatcher, r.Epoch})
	}
	for b := range d.barriers.all() {
		fresh.tallies.set(fresh.recount(b))
	}
	for b := range d.records.all() {
		fresh.over.set(b.Seq, b.Key)
	}
	return compareIndexes(&d.derived, &fresh.derived)
}

func compareIndexes(have, want *derived) error {
	return errors.Join(
		same("node of incarnation", have.nodeOf.tree, want.nodeOf.tree),
		same("ended nodes", have.gone.tree, want.gone.tree),
		same("changefeed names", have.feeds.tree, want.feeds.tree),
		same("downstream tables", have.targets.tree, want.targets.tree),
		same("table titles", have.titles.tree, want.titles.tree),
		same("tables of changefeed", have.tablesOf.tree, want.tablesOf.tree),
		same("spans", have.spans.tree, want.spans.tree),
		same("loads", have.loads.tree, want.loads.tree),
		same("placed", have.placed.tree, want.placed.tree),
		same("pending orders", have.pending.tree, want.pending.tree),
		same("absent", have.absent.tree, want.absent.tree),
		same("destinations", have.bound.tree, want.bound.tree),
		same("moves on their way", have.incoming.tree, want.incoming.tree),
		same("removals", have.removals.tree, want.removals.tree),
		same("ended operators", have.ended.tree, want.ended.tree),
		same("answers", have.answers.tree, want.answers.tree),
		same("history order", have.past.tree, want.past.tree),
		same("crews", have.crews.tree, want.crews.tree),
		same("dispatchers without a minimum", have.quiet.tree, want.quiet.tree),
		same("waiting", have.waiting.tree, want.waiting.tree),
		same("tallies", have.tallies.tree, want.tallies.tree),
		same("deadlines", have.due.tree, want.due.tree),
		same("barrier records", have.over.tree, want.over.tree),
	)
}

func same[K, V comparable](index string, have, want tree.Map[K, V]) error {
	const rule = "indexes equal a recomputation"
	if have.Len() != want.Len() {
		return violated(rule, "%s: %d entries, should be %d", index, have.Len(), want.Len())
	}
	type pairing struct {
		key   K
		value V
	}
	var expect []pairing
	for k, v := range want.All() {
		expect = append(expect, pairing{k, v})
	}
	i := 0
	for k, v := range have.All() {
		if found := (pairing{k, v}); found != expect[i] {
			return violated(rule, "%s: %+v, should be %+v", index, found, expect[i])
		}
		i++
	}
	return nil
}

// checkHash: the incremental hash equals the sum over all rows.
func (d *data) checkHash() error {
	v := View{data: d.cloneData()}
	var sum Digest
	for section, row := range v.Rows() {
		sum.add(digestOf(uint8(section), row))
	}
	if sum != d.hash.sum {
		return violated("the state hash covers every row", "%s, should be %s", d.hash.sum, sum)
	}
	return nil
}

// checkBarriers: a permission needs everybody at the event and ends with its holder; everybody passes only what has been
// written; events end.
func (d *data) checkBarriers() error {
	for b := range d.barriers.all() {
		feed, ok := d.ChangefeedByID(b.Key.Changefeed)
		if !ok || feed.Run != b.Key.Run {
			return violated("no orphans", "barrier %s is of a changefeed or a run that is over", b.Key)
		}
		if err := d.checkBarrier(b); err != nil {
			return err
		}
	}
	return d.checkEventOrder()
}

func (d *data) checkBarrier(b Barrier) error {
	sum := d.tallies.get(b.Key)
	row, there := d.Dispatcher(b.Writer)
	writing, passing := b.Status == BarrierInWriting, b.Status == BarrierPassing
	switch {
	case writing && (!there || !b.heldBy(row) || row.Phase == Absent || row.Phase == Starting):
		return violated("a permission ends with its holder", "barrier %s: dispatcher %d under epoch %s is over", b.Key, b.Writer, b.WriterEpoch)
	case writing && sum.behind > 0:
		return violated("a permission needs everybody at the event", "barrier %s: %d are behind", b.Key, sum.behind)
	case passing && b.Result != BarrierWritten && b.Result != BarrierSkipped:
		return violated("nobody passes before the event is written", "barrier %s", b.Key)
	case passing && sum.unpassed == 0:
		return violated("barriers end", "everybody has passed %s, which is open", b.Key)
	case !writing && !passing && sum.members == 0:
		return violated("barriers end", "nobody is left for %s, which is open", b.Key)
	case b.Status < BarrierCollecting || b.Status >= BarrierEnded:
		return violated("barriers end", "barrier %s is %s and open", b.Key, b.Status)
	default:
		return nil
	}
}

// checkEventOrder: of one changefeed at most one event that the trigger writes is open and not written, and nobody of
// those concerned is past an event that is not written.
func (d *data) checkEventOrder() error {
	unwritten := map[ChangefeedID]BarrierKey{}
	for b := range d.barriers.all() {
		if b.Status == BarrierPassing {
			continue
		}
		if other, twice := unwritten[b.Key.Changefeed]; twice && b.TriggerSaid {
			return violated("events are written in order", "the trigger has reported %s before %s was written", b.Key, other)
		}
		if b.TriggerSaid {
			unwritten[b.Key.Changefeed] = b.Key
		}
	}
	return nil
}

// checkWatermarks: the watermark stands before every open barrier, and nothing that is being started starts below it.
func (d *data) checkWatermarks() error {
	for b := range d.barriers.all() {
		if feed, _ := d.ChangefeedByID(b.Key.Changefeed); b.Key.Before().Less(feed.Watermark) {
			return violated("the watermark waits for open barriers", "%s is at %s, barrier %s is open", feed.Name, feed.Watermark, b.Key)
		}
	}
	for k := range d.pending.all() {
		row, _ := d.Dispatcher(DispatcherID(k.b))
		feed, _ := d.ChangefeedByID(ChangefeedID(d.feedOf(row)))
		if row.Phase == Starting && row.Position.Less(feed.Watermark) {
			return violated("a start is not below the watermark", "dispatcher %d starts at %s, %s is at %s", row.ID, row.Position, feed.Name, feed.Watermark)
		}
	}
	return nil
}
