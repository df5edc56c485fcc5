package fsm

import (
	"errors"
	"fmt"

	"github.com/google/btree"
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
			if row.Incarnation != 0 || row.Epoch != 0 || row.Slot != 0 || row.HasRun {
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
		if !ok || op.Dispatcher != row.ID {
			return violated(rule, "the slot of dispatcher %d names operator %s, which is not its own", row.ID, row.Slot)
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
	case op.Result != 0 || row.Phase == Absent || row.Phase == Running:
		return false
	case op.Aborting || op.Kind == OpRemove || op.Kind == OpStop:
		return row.Phase == Stopping
	case op.Kind == OpAdd:
		return row.Phase == Starting
	default:
		return op.Kind == OpMove
	}
}

// checkSpans: the spans of a table never overlap, and no dispatcher is without its table.
func (d *data) checkSpans() error {
	const rule = "spans of a table never overlap"
	var last Dispatcher
	var err error
	seen := 0
	d.spans.tree.Ascend(func(k spanKey) bool {
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
		seen++
		last = row
		return err == nil
	})
	if err == nil && seen != d.DispatcherCount() {
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
		if feed.Status == ChangefeedIsRemoving && !t.Dropping {
			return violated("a removed changefeed drops every table", "table %d of %s", t.ID, feed.Name)
		}
		for row := range d.DispatchersOfTable(t.ID) {
			op, _ := d.operators.get(Operator{ID: row.Slot})
			if t.Dropping && op.Kind != OpRemove {
				return violated("after a drop nothing is started", "dispatcher %d of dropped table %d is not in a removal", row.ID, t.ID)
			}
			if feed.Status == ChangefeedIsPaused && (row.Phase == Starting || row.Phase == Running) {
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
		fresh.indexPlacement(row)
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
		fresh.records.set(r.Seq, recordKey{r.Dispatcher, r.Epoch})
	}
	return compareIndexes(&d.derived, &fresh.derived)
}

func compareIndexes(have, want *derived) error {
	return errors.Join(
		same("node of incarnation", have.nodeOf.tree, want.nodeOf.tree),
		same("ended nodes", have.gone.tree, want.gone.tree),
		same("changefeed names", have.feeds.tree, want.feeds.tree),
		same("downstream tables", have.targets.tree, want.targets.tree),
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
		same("history order", have.records.tree, want.records.tree),
	)
}

func same[T comparable](index string, have, want *btree.BTreeG[T]) error {
	const rule = "indexes equal a recomputation"
	if have.Len() != want.Len() {
		return violated(rule, "%s: %d entries, should be %d", index, have.Len(), want.Len())
	}
	var expect []T
	want.Ascend(func(x T) bool {
		expect = append(expect, x)
		return true
	})
	var err error
	i := 0
	have.Ascend(func(x T) bool {
		if x != expect[i] {
			err = violated(rule, "%s: %+v, should be %+v", index, x, expect[i])
		}
		i++
		return err == nil
	})
	return err
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
