package scheduler

import (
	"iter"

	"github.com/weir-project/weir/fsm"
)

// By is how the scheduler signs its commands.
const By = "scheduler"

// Input is everything that a plan depends on.
type Input struct {
	View   *fsm.View
	Limits Limits
	// From is where the plan before this one stopped looking; the zero value starts with the oldest changefeed.
	From Cursor
	// Usable says whether a live node should get work; nil means each. It must be a function of the node.
	Usable func(fsm.Node) bool
	// Skip leaves a dispatcher out, for instance because the same proposal has just been refused; nil leaves none out.
	Skip func(fsm.Dispatcher) bool
}

// Cursor is a place in the order of absent dispatchers: by changefeed, then by id.
type Cursor struct {
	Changefeed fsm.ChangefeedID
	Dispatcher fsm.DispatcherID
}

// Plan is what should be proposed now.
type Plan struct {
	// Proposals lack only what a proposer stamps: the term.
	Proposals []fsm.Proposal
	// Next is where the next plan should start: dispatchers that cannot be placed must not hide those behind them.
	Next Cursor
}

// Place proposes an Add for absent dispatchers of running changefeeds that are in no operator, not held by a removal and
// not backing off after a failure. Each goes to the least loaded node that can take work, where the dispatchers of the
// same table weigh double, so that a table spreads; of equal nodes the first by name.
func Place(in Input) Plan {
	p := newPlacer(in)
	if p.room == 0 || len(p.nodes) == 0 {
		return Plan{Next: in.From}
	}
	done := p.walk(func(at Cursor) bool { return at.after(in.From) }) &&
		p.walk(func(at Cursor) bool { return !at.after(in.From) })
	if done {
		p.at = Cursor{}
	}
	return Plan{Proposals: p.proposals, Next: p.at}
}

func (c Cursor) after(d Cursor) bool {
	if c.Changefeed != d.Changefeed {
		return c.Changefeed > d.Changefeed
	}
	return c.Dispatcher > d.Dispatcher
}

// placer is a plan in the making.
type placer struct {
	in        Input
	nowMS     uint64
	nodes     []*candidate // by name
	room      int          // proposals left
	scan      int          // looks left
	spread    *spread
	at        Cursor // looked at last
	proposals []fsm.Proposal
}

func newPlacer(in Input) *placer {
	meta := in.View.Meta()
	p := &placer{in: in, nowMS: meta.TimeMS, room: in.Limits.Round, scan: in.Limits.Scan, at: in.From}
	p.room = min(p.room, max(0, int(meta.Policy.MaxOperators)-in.View.OperatorCount()))
	p.nodes = candidates(in)
	p.spread = newSpread(in, p.nodes)
	return p
}

// walk looks at the absent dispatchers that lie in the wanted part of the order; it reports whether it saw them all.
func (p *placer) walk(wanted func(Cursor) bool) bool {
	for feed := range p.in.View.Changefeeds() {
		if feed.Status != fsm.ChangefeedRunning || !p.reaches(feed.ID, wanted) {
			continue
		}
		for row := range p.in.View.AbsentDispatchers(feed.ID) {
			at := Cursor{Changefeed: feed.ID, Dispatcher: row.ID}
			if !wanted(at) {
				continue
			}
			if p.room == 0 || p.scan == 0 || len(p.nodes) == 0 {
				return false
			}
			p.scan--
			p.at = at
			p.place(row)
		}
	}
	return true
}

// reaches says whether any dispatcher of the changefeed can lie in the wanted part.
func (p *placer) reaches(feed fsm.ChangefeedID, wanted func(Cursor) bool) bool {
	return wanted(Cursor{Changefeed: feed}) || wanted(Cursor{Changefeed: feed, Dispatcher: ^fsm.DispatcherID(0)})
}

func (p *placer) place(row fsm.Dispatcher) {
	if !p.placeable(row) {
		return
	}
	to := p.choose(row.Table)
	p.proposals = append(p.proposals, fsm.Proposal{
		By: By, Command: &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: row.ID, To: p.nodes[to].name},
	})
	p.room--
	p.spread.add(row.Table, p.nodes[to])
	p.nodes[to].take()
	if !p.nodes[to].free() {
		p.nodes = append(p.nodes[:to], p.nodes[to+1:]...)
	}
}

func (p *placer) placeable(row fsm.Dispatcher) bool {
	if row.Slot != 0 || p.nowMS < row.FailedMS+p.in.Limits.backoff(row.Failures) {
		return false
	}
	if p.in.Skip != nil && p.in.Skip(row) {
		return false
	}
	_, held := p.in.View.HeldBy(row)
	return !held
}

// choose returns the best node's place in p.nodes, which is not empty.
func (p *placer) choose(table fsm.TableID) int {
	same := p.spread.of(table)
	best, least := 0, ^uint64(0)
	for i, n := range p.nodes {
		if weight := n.load + same[n.number]; weight < least {
			best, least = i, weight
		}
	}
	return best
}

// candidate is a node that can take work.
type candidate struct {
	number      int // among the candidates at the start of the plan
	name        fsm.NodeName
	incarnation fsm.Incarnation
	load        uint64 // placements, planned ones included
	most        uint64 // placements that the policy allows
	starts      int    // that may still be begun
}

func (c *candidate) free() bool { return c.starts > 0 && c.load < c.most }

func (c *candidate) take() {
	c.load++
	c.starts--
}

func candidates(in Input) []*candidate {
	most := uint64(in.View.Meta().Policy.MaxPlacementsPerNode)
	var out []*candidate
	for n := range in.View.Nodes() {
		if n.Status != fsm.NodeStatusLive || (in.Usable != nil && !in.Usable(n)) {
			continue
		}
		c := &candidate{
			number: len(out), name: n.Name, incarnation: n.Incarnation, load: uint64(in.View.Load(n.Incarnation).Placements), most: most,
			starts: in.Limits.InFlight - underWay(in.View.Orders(n.Incarnation), in.Limits.InFlight),
		}
		if c.free() {
			out = append(out, c)
		}
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
