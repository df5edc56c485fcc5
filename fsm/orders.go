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
	Changefeed     string
	Run            uint64
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
		Changefeed: feed.Name, Run: feed.Run, Source: feed.Source, Sink: feed.Sink, SinkFenced: feed.SinkFenced,
		SinkMaxWriteMS: feed.SinkMaxWriteMS, Schema: table.Schema, Table: table.Name, TableID: table.ID,
		Span: row.Span, Start: row.Position,
	}
	return o
}
