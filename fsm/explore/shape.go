package explore

import (
	"slices"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// shape is what a state of the state machine looks like once numbers are replaced by their order. It keeps the numbers
// too, by which commands name things; they are of one of the many states with this shape.
type shape struct {
	meta  fsm.Meta
	nodes []nodeShape // as in the world
	feeds []fsm.Changefeed
	tabs  []tableShape
	rows  []rowShape // by dispatcher id
	ops   []fsm.Operator
	open  []fsm.Barrier
	over  []fsm.Barrier // records of barriers that have ended
	crews []crew
}

// crew is an incarnation that runs a part of the changefeed, and the hash of its set.
type crew struct {
	inc  fsm.Incarnation
	hash uint64
}

// standing of a node's name in the state machine.
type nodeShape struct {
	status      fsm.NodeStatus // zero: not known; gone counts as expired
	incarnation fsm.Incarnation
	lastTick    uint64
	draining    bool
	drained     bool
	// crew is the hash of the set of the changefeed's dispatchers that the incarnation runs.
	crew uint64
}

type tableShape struct {
	fsm.Table
	feed int
}

// rowShape is a dispatcher.
type rowShape struct {
	fsm.Dispatcher
	node  int // its placement's, -1 for none
	table int
	op    int // in whose slot it is, -1 for none
	held  bool
	cells cells
	// write and pass are the events that it is ordered to write and to pass, from 1; 0 for none.
	write, pass uint8
	// earlier is the epoch of its last placement that has ended, zero for none that is remembered.
	earlier fsm.Epoch
}

// cells is a set of a world's cells: the smallest pieces of key space that the world can tell apart.
type cells uint16

// cell is a piece of a downstream table.
type cell struct {
	table string
	span  fsm.Span
}

func (w *World) shapeOf(s *fsm.State) *shape {
	sh := &shape{meta: s.Meta()}
	for i := range w.Nodes {
		sh.nodes = append(sh.nodes, nodeShapeOf(s, nodeName(i)))
	}
	for feed := range s.Changefeeds() {
		for t := range s.Tables(feed.ID) {
			sh.tabs = append(sh.tabs, tableShape{Table: t, feed: len(sh.feeds)})
		}
		sh.feeds = append(sh.feeds, feed)
		for b := range s.Barriers(feed.ID) {
			sh.open = append(sh.open, b)
		}
	}
	for b := range s.BarrierRecords() {
		sh.over = append(sh.over, b)
	}
	sh.readCrews(s)
	slices.SortFunc(sh.over, func(x, y fsm.Barrier) int { return x.Key.At.Compare(y.Key.At) })
	for op := range s.Operators() {
		sh.ops = append(sh.ops, op)
	}
	for row := range s.Dispatchers() {
		sh.rows = append(sh.rows, w.rowShapeOf(s, sh, row))
	}
	w.readOrders(s, sh)
	return sh
}

func (sh *shape) readCrews(s *fsm.State) {
	for i := range sh.feeds {
		for inc := range s.Crews(sh.feeds[i].ID) {
			_, hash := s.Crew(sh.feeds[i].ID, inc)
			sh.crews = append(sh.crews, crew{inc, hash})
			if n := sh.nodeOf(inc); n >= 0 {
				sh.nodes[n].crew = hash
			}
		}
	}
}

// readOrders notes what each placement is ordered to do about events.
func (w *World) readOrders(s *fsm.State, sh *shape) {
	if len(sh.open) == 0 {
		return
	}
	for i := range sh.nodes {
		for o := range s.BarrierOrders(sh.nodes[i].incarnation) {
			number := uint8(w.eventNumber(o.Key.At) + 1)
			for _, p := range o.Pairs {
				row := &sh.rows[sh.rank(p.Dispatcher)]
				if o.Action == fsm.ActionWrite {
					row.write = number
				} else {
					row.pass = number
				}
			}
		}
	}
}

func nodeShapeOf(s *fsm.State, name fsm.NodeName) nodeShape {
	n, ok := s.Node(name)
	if !ok {
		return nodeShape{}
	}
	if n.Status == fsm.NodeStatusGone {
		n.Status = fsm.NodeStatusExpired
	}
	return nodeShape{
		status: n.Status, incarnation: n.Incarnation, lastTick: n.LastTick, draining: n.Draining, drained: n.DrainedAt != 0,
	}
}

func (w *World) rowShapeOf(s *fsm.State, sh *shape, row fsm.Dispatcher) rowShape {
	r := rowShape{Dispatcher: row, node: -1, table: -1, op: -1}
	for i := range sh.tabs {
		if sh.tabs[i].ID == row.Table {
			r.table = i
			r.cells = w.cellsOf(sh.tabs[i].Name, row.Span)
		}
	}
	for i := range sh.ops {
		if sh.ops[i].ID == row.Slot {
			r.op = i
		}
	}
	for past := range s.History(row.ID) {
		r.earlier = past.Epoch
	}
	if row.Phase != fsm.Absent {
		r.node = sh.nodeOf(row.Incarnation)
	} else {
		_, r.held = s.HeldBy(row)
	}
	return r
}

// nodeOf returns the node whose newest incarnation is inc, or -1.
func (sh *shape) nodeOf(inc fsm.Incarnation) int {
	for i := range sh.nodes {
		if sh.nodes[i].incarnation == inc {
			return i
		}
	}
	return -1
}

// placed says whether the dispatcher has a placement.
func (r *rowShape) placed() bool { return r.Phase != fsm.Absent }

func (w *World) cellsOf(table string, span fsm.Span) cells {
	var set cells
	for i, c := range w.Cells {
		if c.table == table && span.Overlaps(c.span) {
			set |= 1 << i
		}
	}
	return set
}

func nodeName(i int) fsm.NodeName { return fsm.NodeName("n" + string(rune('1'+i))) }

func nodeIndex(name fsm.NodeName) int {
	if digit, ok := strings.CutPrefix(string(name), "n"); ok && len(digit) == 1 {
		return int(digit[0] - '1')
	}
	return -1
}
