package fsm

import (
	"cmp"
	"iter"
	"strconv"
)

// The methods below read the state or a view of it. Sequences must be consumed before the state changes; those of a view
// may be kept.

// Meta returns the counters and one-of-a-kind facts.
func (d *data) Meta() Meta { return d.meta }

// Hash is the state hash: equal on every server that has applied the same entries.
func (d *data) Hash() Digest { return d.hash.sum }

// Servers yields the announced servers, by id.
func (d *data) Servers() iter.Seq[Server] { return d.servers.all() }

// Server returns an announced server.
func (d *data) Server(id ServerID) (Server, bool) { return d.servers.get(Server{ID: id}) }

// Nodes yields the nodes, by name.
func (d *data) Nodes() iter.Seq[Node] { return d.nodes.all() }

// Node returns a node and its newest incarnation.
func (d *data) Node(name NodeName) (Node, bool) { return d.nodes.get(Node{Name: name}) }

// NodeOf returns the node whose newest incarnation is inc.
func (d *data) NodeOf(inc Incarnation) (Node, bool) {
	name, ok := d.nodeOf.get(inc)
	if !ok {
		return Node{}, false
	}
	return d.Node(name)
}

// Changefeeds yields the changefeeds, oldest first, those being removed included.
func (d *data) Changefeeds() iter.Seq[Changefeed] { return d.changefeeds.all() }

// Changefeed returns the changefeed that has the name.
func (d *data) Changefeed(name string) (Changefeed, bool) {
	id, ok := d.feeds.get(name)
	if !ok {
		return Changefeed{}, false
	}
	return d.ChangefeedByID(id)
}

// ChangefeedByID returns a changefeed.
func (d *data) ChangefeedByID(id ChangefeedID) (Changefeed, bool) {
	return d.changefeeds.get(Changefeed{ID: id})
}

// Tables yields the tables of a changefeed, oldest first, those being dropped included.
func (d *data) Tables(feed ChangefeedID) iter.Seq[Table] {
	return func(yield func(Table) bool) {
		for id := range d.tablesOf.of(uint64(feed)) {
			t, _ := d.Table(TableID(id))
			if !yield(t) {
				return
			}
		}
	}
}

// Table returns a table.
func (d *data) Table(id TableID) (Table, bool) { return d.tables.get(Table{ID: id}) }

// TableNamed returns the live table of a changefeed that has the name.
func (d *data) TableNamed(feed Changefeed, schema, name string) (Table, bool) {
	id, ok := d.targets.get(target{feed.Sink, schema, name})
	if !ok {
		return Table{}, false
	}
	t, ok := d.Table(id)
	return t, ok && t.Changefeed == feed.ID
}

// target names a downstream table: two tables with one target write the same rows.
type target struct{ sink, schema, name string }

func compareTargets(x, y target) int {
	return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.schema, y.schema), cmp.Compare(x.sink, y.sink))
}

// targetOf is where a table's rows go. A trigger has none; its name is its own, so that it holds no other's range.
func (d *data) targetOf(t Table) target {
	if t.Trigger {
		return target{name: strconv.FormatInt(int64(t.ID), 10)}
	}
	feed, _ := d.ChangefeedByID(t.Changefeed)
	return target{feed.Sink, t.Schema, t.Name}
}

// Dispatcher returns a dispatcher.
func (d *data) Dispatcher(id DispatcherID) (Dispatcher, bool) { return d.dispatchers.get(id) }

// DispatcherCount is the number of dispatchers.
func (d *data) DispatcherCount() int { return d.dispatchers.len() }

// Dispatchers yields every dispatcher, by id.
func (d *data) Dispatchers() iter.Seq[Dispatcher] {
	return func(yield func(Dispatcher) bool) {
		for _, row := range d.dispatchers.trie.All() {
			if !yield(row) {
				return
			}
		}
	}
}

// DispatchersOfTable yields a table's dispatchers in key order.
func (d *data) DispatchersOfTable(t TableID) iter.Seq[Dispatcher] {
	return func(yield func(Dispatcher) bool) {
		for id := range d.spans.of(t) {
			row, _ := d.Dispatcher(id)
			if !yield(row) {
				return
			}
		}
	}
}

// DispatchersOn yields the dispatchers placed on an incarnation, by id.
func (d *data) DispatchersOn(inc Incarnation) iter.Seq[Dispatcher] {
	return d.dispatcherSeq(d.placed.of(uint64(inc)))
}

// AbsentDispatchers yields the dispatchers of a changefeed that run nowhere, by id.
func (d *data) AbsentDispatchers(feed ChangefeedID) iter.Seq[Dispatcher] {
	return d.dispatcherSeq(d.absent.of(uint64(feed)))
}

func (d *data) dispatcherSeq(ids iter.Seq[uint64]) iter.Seq[Dispatcher] {
	return func(yield func(Dispatcher) bool) {
		for id := range ids {
			row, _ := d.Dispatcher(DispatcherID(id))
			if !yield(row) {
				return
			}
		}
	}
}

// PendingCount is the number of orders that the incarnation has not carried out.
func (d *data) PendingCount(inc Incarnation) int {
	n := 0
	for range d.pending.of(uint64(inc)) {
		n++
	}
	return n
}

// HasPending says whether the incarnation has orders to carry out.
func (d *data) HasPending(inc Incarnation) bool {
	return d.pending.some(uint64(inc))
}

// HeldBy returns the removal that holds a part of the dispatcher's range, if one does: until it has ended the
// dispatcher cannot be placed.
func (d *data) HeldBy(row Dispatcher) (Operator, bool) {
	table, ok := d.Table(row.Table)
	if !ok || d.removals.tree.Len() == 0 {
		return Operator{}, false
	}
	holder, ok := d.removals.overlapping(d.targetOf(table), row.Span)
	if !ok || holder == row.ID {
		return Operator{}, false
	}
	h, _ := d.Dispatcher(holder)
	return d.operators.get(Operator{ID: h.Slot})
}

// Operator returns a running or remembered operator.
func (d *data) Operator(id OpID) (Operator, bool) {
	if op, ok := d.operators.get(Operator{ID: id}); ok {
		return op, true
	}
	return d.finished.get(Operator{ID: id})
}

// Operators yields the running operators, oldest first.
func (d *data) Operators() iter.Seq[Operator] { return d.operators.all() }

// OperatorCount is the number of running operators.
func (d *data) OperatorCount() int { return d.operators.len() }

// FinishedOperators yields the remembered finished operators, those that ended last first.
func (d *data) FinishedOperators() iter.Seq[Operator] {
	return func(yield func(Operator) bool) {
		for p := range d.ended.tree.Backward() {
			op, _ := d.finished.get(Operator{ID: OpID(p.b)})
			if !yield(op) {
				return
			}
		}
	}
}

// History yields a dispatcher's remembered ended placements, oldest first; also those of a dispatcher that is gone.
func (d *data) History(id DispatcherID) iter.Seq[PlacementRecord] {
	return func(yield func(PlacementRecord) bool) {
		d.history.from(PlacementRecord{Dispatcher: id})(func(r PlacementRecord) bool {
			if r.Operator != 0 {
				r.Detail = r.OperatorKind.String() + " " + r.Operator.String()
			}
			return r.Dispatcher == id && yield(r)
		})
	}
}

// Load returns what an incarnation carries.
func (d *data) Load(inc Incarnation) Load {
	l, _ := d.loads.get(inc)
	return l
}

// Request returns a remembered answer.
func (d *data) Request(id RequestID) (Request, bool) { return d.requests.get(Request{ID: id}) }

// Barriers yields the open barriers of a changefeed, in key order.
func (d *data) Barriers(feed ChangefeedID) iter.Seq[Barrier] {
	return func(yield func(Barrier) bool) {
		if d.barriers.len() == 0 {
			return
		}
		d.barriers.from(Barrier{Key: BarrierKey{Changefeed: feed}})(func(b Barrier) bool {
			return b.Key.Changefeed == feed && yield(b)
		})
	}
}

// Barrier returns an open barrier.
func (d *data) Barrier(key BarrierKey) (Barrier, bool) { return d.barriers.get(Barrier{Key: key}) }

// BarrierRecord returns a barrier that has ended and is remembered.
func (d *data) BarrierRecord(key BarrierKey) (Barrier, bool) { return d.records.get(Barrier{Key: key}) }

// BarrierRecords yields the remembered ended barriers, those that ended last first.
func (d *data) BarrierRecords() iter.Seq[Barrier] {
	return func(yield func(Barrier) bool) {
		for _, key := range d.over.tree.Backward() {
			r, _ := d.records.get(Barrier{Key: key})
			if !yield(r) {
				return
			}
		}
	}
}

// BarrierProgress counts, of the dispatchers that an open barrier concerns, those that have not reached it and those
// that have not passed it.
func (d *data) BarrierProgress(key BarrierKey) (members, behind, unpassed int) {
	t := d.tallies.get(key)
	return int(t.members), int(t.behind), int(t.unpassed)
}

// BarrierMissing yields whom an open barrier waits for, in table and key order: those that have not reached it, or,
// once it is written, those that have not passed it.
func (d *data) BarrierMissing(b Barrier) iter.Seq[Dispatcher] {
	goal := b.Key.Before()
	if b.Status == BarrierPassing {
		goal = b.Key.At
	}
	return func(yield func(Dispatcher) bool) {
		for t := range d.Tables(b.Key.Changefeed) {
			if !b.Spec.concerns(t) {
				continue
			}
			for row := range d.DispatchersOfTable(t.ID) {
				if !row.Leaving && row.Position.Less(goal) && !yield(row) {
					return
				}
			}
		}
	}
}

// Crew returns what heartbeats of an incarnation must name of a changefeed: how many dispatchers, and the sum of their
// PairHash.
func (d *data) Crew(feed ChangefeedID, inc Incarnation) (set uint32, hash uint64) {
	c := d.crews.get(feed, inc)
	return c.set, c.hash
}

// Crews yields the incarnations that run a part of a changefeed.
func (d *data) Crews(feed ChangefeedID) iter.Seq[Incarnation] {
	return func(yield func(Incarnation) bool) {
		for c := range d.crews.of(feed) {
			if !yield(c.inc) {
				return
			}
		}
	}
}

// SourcesIn returns the dispatchers that are in a running Merge's slot.
func (d *data) SourcesIn(op Operator) []Dispatcher { return d.sourcesIn(op) }
