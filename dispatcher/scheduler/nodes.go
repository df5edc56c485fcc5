package scheduler

import (
	"iter"

	"github.com/weir-project/weir/fsm"
)

// node is a live node that can be reached and is not draining.
type node struct {
	number      int // among the nodes of the plan
	name        fsm.NodeName
	incarnation fsm.Incarnation
	joined      bool   // has been registered for long enough to get work for balance
	load        uint64 // placements and those on their way, planned ones included
	leaving     uint64 // of these, those that are being stopped
	most        uint64 // placements that the policy allows
	starts      int    // that may still be begun
	rate        uint64 // rows a second; as reported, with what the plan changes
	rated       bool
}

// free says whether the node has room for one more start.
func (n *node) free() bool { return n.starts > 0 && n.load < n.most }

// stays is how many placements the node will have when what is being stopped has gone.
func (n *node) stays() uint64 { return n.load - min(n.leaving, n.load) }

func (n *node) take() {
	n.load++
	n.starts--
}

func usableNodes(in Input, ops *census) []*node {
	meta := in.View.Meta()
	var out []*node
	for n := range in.View.Nodes() {
		if n.Status != fsm.NodeStatusLive || n.Draining || (in.Usable != nil && !in.Usable(n)) {
			continue
		}
		load, placed := in.View.DrainLeft(n), uint64(in.View.Load(n.Incarnation).Placements)
		c := &node{
			number: len(out), name: n.Name, incarnation: n.Incarnation, load: load, leaving: ops.leaving[n.Incarnation],
			most:   uint64(meta.Policy.MaxPlacementsPerNode),
			joined: meta.TimeMS-n.RegisteredMS >= in.Limits.JoinMS,
		}
		if coming := load - placed; coming < uint64(in.Limits.InFlight) {
			c.starts = in.Limits.InFlight - int(coming) - underWay(in.View.Orders(n.Incarnation), in.Limits.InFlight)
		}
		if in.Loads != nil {
			c.rate, c.rated = in.Loads.Node(n.Incarnation)
		}
		out = append(out, c)
	}
	return out
}

// stopsPerStart bounds how many pending stops are looked through for starts; a node with more counts as busy.
const stopsPerStart = 4

// underWay counts starts that a node has not carried out, up to limit.
func underWay(orders iter.Seq[fsm.Order], limit int) int {
	starts, stops := 0, 0
	for o := range orders {
		switch o.Kind {
		case fsm.OrderStart:
			starts++
		case fsm.OrderStop:
			stops++
		}
		if starts >= limit || stops >= limit*stopsPerStart {
			return limit
		}
	}
	return starts
}

// choose returns the best node for one more dispatcher of a kin: the least loaded one, where those of its own kin weigh
// double, so that a table spreads; of equal nodes the first by name. Nil if no node has room.
func (p *planner) choose(k kin) *node {
	same := p.spread.of(k)
	i := least(p.nodes, func(n *node) (uint64, bool) { return n.stays() + same[n.number], n.free() })
	if i < 0 {
		return nil
	}
	return p.nodes[i]
}

// has says whether any node has room for one more start.
func (p *planner) has() bool {
	for _, n := range p.nodes {
		if n.free() {
			return true
		}
	}
	return false
}
