package fsm

import "iter"

// OrderKind says what a node must do with a placement.
type OrderKind uint8

// The orders. What already runs as it should needs none.
const (
	OrderStart OrderKind = iota + 1
	OrderStop
)

// Order is what one node should do with one placement. Orders are derived from state, by the leader, and repeated until
// the state changes; they are never stored. Each goes out with the term and index of the state that it comes from, and
// a node refuses any older than the newest it has obeyed.
type Order struct {
	Kind       OrderKind
	Dispatcher DispatcherID
	Epoch      Epoch
	Operator   OpID
	// Work is set for a start.
	Work Work
}

// Work is what a start needs to know.
type Work struct {
	Changefeed   string
	ChangefeedID ChangefeedID
	Run          uint64
	// Trigger: the work is to read the source's events, not rows. Schema and Table are empty.
	Trigger bool
	// SyncPointEvery is the distance of sync points in units of ts; zero for none.
	SyncPointEvery uint64
	// SyncPointAfter: sync points stand above it.
	SyncPointAfter Position
	Source, Sink   string
	SinkFenced     bool
	SinkMaxWriteMS uint32
	Schema, Table  string
	TableID        TableID
	Span           Span
	Start          Position
}

// Orders yields what the incarnation has still to do, in dispatcher order: a start for each placement in Starting, a
// stop for each in Stopping. An incarnation that has ended holds nothing, so nothing is ordered of it.
func (d *data) Orders(inc Incarnation) iter.Seq[Order] {
	return func(yield func(Order) bool) {
		for id := range d.pending.of(uint64(inc)) {
			row, _ := d.dispatchers.get(DispatcherID(id))
			if !yield(d.order(row)) {
				return
			}
		}
	}
}

func (d *data) order(row Dispatcher) Order {
	o := Order{Kind: OrderStop, Dispatcher: row.ID, Epoch: row.Epoch, Operator: row.Slot}
	if row.Phase != Starting {
		return o
	}
	table, _ := d.Table(row.Table)
	feed, _ := d.ChangefeedByID(table.Changefeed)
	o.Kind = OrderStart
	o.Work = Work{
		Changefeed: feed.Name, ChangefeedID: feed.ID, Trigger: table.Trigger, SyncPointEvery: feed.SyncPointEvery, SyncPointAfter: feed.SyncPointAfter, Run: feed.Run, Source: feed.Source, Sink: feed.Sink, SinkFenced: feed.SinkFenced,
		SinkMaxWriteMS: feed.SinkMaxWriteMS, Schema: table.Schema, Table: table.Name, TableID: table.ID,
		Span: row.Span, Start: row.Position,
	}
	return o
}

// pairsInOrder bounds the placements that a barrier order lists; beyond it the order is about all that wait.
const pairsInOrder = 256

// BarrierOrders yields what the incarnation has to do about events: write, for the holder of a live permission; pass,
// for what waits at an event that has been written. Placements that are stopping need not pass, their stop reports the
// rest.
func (d *data) BarrierOrders(inc Incarnation) iter.Seq[BarrierOrder] {
	return func(yield func(BarrierOrder) bool) {
		for b := range d.barriers.all() {
			var o BarrierOrder
			switch {
			case b.Status == BarrierInWriting && b.WriterIncarnation == inc:
				o = d.writeOrder(b)
			case b.Status == BarrierPassing:
				o = d.passOrder(b, inc)
			}
			if o.Action != 0 && !yield(o) {
				return
			}
		}
	}
}

func (d *data) writeOrder(b Barrier) BarrierOrder {
	return BarrierOrder{
		Key: b.Key, Action: ActionWrite, Permission: b.Permission, Pairs: []Pair{{b.Writer, b.WriterEpoch}},
		Tables: d.replicated(b),
	}
}

// replicated lists the live tables that the event concerns or would change, in their order in the changefeed.
func (d *data) replicated(b Barrier) []TableRef {
	var refs []TableRef
	for t := range d.Tables(b.Key.Changefeed) {
		if !t.Trigger && !t.Dropping && b.Spec.concerns(t) {
			refs = append(refs, TableRef{t.Schema, t.Name})
		}
	}
	return refs
}

func (d *data) passOrder(b Barrier, inc Incarnation) BarrierOrder {
	o := BarrierOrder{Key: b.Key, Action: ActionPass}
	for id := range d.waiting.of(uint64(inc)) {
		row, _ := d.dispatchers.get(DispatcherID(id))
		if row.Phase != Running || row.Position != b.Key.Before() || d.feedOf(row) != uint64(b.Key.Changefeed) {
			continue
		}
		if len(o.Pairs) == pairsInOrder {
			return BarrierOrder{Key: b.Key, Action: ActionPass, All: true, SetHash: d.crews.get(b.Key.Changefeed, inc).hash}
		}
		o.Pairs = append(o.Pairs, Pair{row.ID, row.Epoch})
	}
	if len(o.Pairs) == 0 {
		return BarrierOrder{}
	}
	return o
}
