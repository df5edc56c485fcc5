package scheduler

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// Plan is what should be proposed now.
type Plan struct {
	// Proposals lack only what a proposer stamps: the term.
	Proposals []fsm.Proposal
	// Next is where the next plan should start.
	Next Cursor
}

// Make plans one round: what every policy wants, as far as the limits allow.
func Make(in Input) Plan {
	p := newPlanner(in)
	p.repair()
	p.placeAbsent()
	if p.ops.all {
		p.drain()
		p.balance()
		p.balanceLoad()
		p.split()
		p.merge()
	}
	return Plan{Proposals: p.proposals, Next: p.next}
}

// planner is a plan in the making.
type planner struct {
	in    Input
	meta  fsm.Meta
	nowMS uint64
	left  int // proposals that still fit into the round
	slots int // operators that may still be admitted
	ops   census
	nodes []*node // that get work if they have room, by name
	// spread counts kin on nodes.
	spread  spread
	feeds   map[fsm.ChangefeedID]*feed
	taken   map[fsm.DispatcherID]bool // dispatchers that this plan moves, splits or merges
	next    Cursor
	started int // absent dispatchers looked at

	proposals []fsm.Proposal
}

func newPlanner(in Input) *planner {
	meta := in.View.Meta()
	p := &planner{
		in: in, meta: meta, nowMS: meta.TimeMS, left: in.Limits.Round,
		slots: max(0, int(meta.Policy.MaxOperators)-in.View.OperatorCount()), next: in.From,
		feeds: make(map[fsm.ChangefeedID]*feed), taken: make(map[fsm.DispatcherID]bool),
	}
	p.ops = takeCensus(in)
	p.nodes = usableNodes(in, &p.ops)
	p.spread = newSpread(in, p.nodes)
	return p
}

// room is how many operators may still be asked for.
func (p *planner) room() int { return min(p.left, p.slots) }

func (p *planner) propose(c fsm.Command) {
	p.proposals = append(p.proposals, fsm.Proposal{By: By, Command: c})
	p.left--
}

func (p *planner) admit(ask *fsm.AdmitOperator) {
	p.propose(ask)
	p.slots--
}

// move asks for a move and counts it as made.
func (p *planner) move(row fsm.Dispatcher, from fsm.NodeName, to *node) {
	p.admit(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: row.ID, From: from, To: to.name, ExpectEpoch: row.Epoch})
	p.taken[row.ID] = true
	p.spread.add(p.kinOf(row), to)
	to.take()
	p.ops.moves++
}

// feed is what a plan needs to know of a changefeed.
type feed struct {
	fsm.Changefeed
	// writers are the placements that hold a live write permission: nothing may move, split or merge them.
	writers []fsm.Pair
}

func (p *planner) feedOf(row fsm.Dispatcher) *feed {
	t, _ := p.in.View.Table(row.Table)
	f := p.feeds[t.Changefeed]
	if f != nil {
		return f
	}
	f = &feed{}
	f.Changefeed, _ = p.in.View.ChangefeedByID(t.Changefeed)
	for b := range p.in.View.Barriers(t.Changefeed) {
		if b.Status == fsm.BarrierInWriting {
			f.writers = append(f.writers, fsm.Pair{Dispatcher: b.Writer, Epoch: b.WriterEpoch})
		}
	}
	p.feeds[t.Changefeed] = f
	return f
}

// movable says whether Apply would let go of a running dispatcher.
func (p *planner) movable(row fsm.Dispatcher) bool {
	if row.Phase != fsm.Running || row.Slot != 0 || row.Leaving || p.taken[row.ID] {
		return false
	}
	if p.in.Skip != nil && p.in.Skip(row) {
		return false
	}
	f := p.feedOf(row)
	return f.Status == fsm.ChangefeedRunning && !slices.Contains(f.writers, fsm.Pair{Dispatcher: row.ID, Epoch: row.Epoch})
}

// settled says whether a running dispatcher may be disturbed for nothing more than a better place: it has been running
// for the cool-down, for the healthy time if it has failed before, and does not stand at an event.
func (p *planner) settled(row fsm.Dispatcher) bool {
	ran := p.nowMS - row.PhaseMS
	if row.Failures > 0 && ran < p.meta.Policy.HealthyMS {
		return false
	}
	return ran >= p.in.Limits.CooldownMS && !row.Waits
}

// census is what a plan needs to know of the running operators.
type census struct {
	all     bool // every one has been looked at
	moves   int
	splits  int
	merges  int
	off     map[fsm.NodeName]int       // moves away from a node, by whether it still runs there or not
	leaving map[fsm.Incarnation]uint64 // placements that are being stopped for good or for another node
	stuck   []fsm.Operator             // the oldest first
}

// stuckAtOnce bounds the stuck operators that one plan sees to.
const stuckAtOnce = 64

func takeCensus(in Input) census {
	c := census{all: true, off: make(map[fsm.NodeName]int), leaving: make(map[fsm.Incarnation]uint64)}
	looks := in.Limits.Operators
	for op := range in.View.Operators() {
		if looks == 0 {
			c.all = false
			break
		}
		looks--
		c.add(op)
	}
	return c
}

func (c *census) add(op fsm.Operator) {
	switch op.Kind {
	case fsm.OpMove:
		c.moves++
		c.off[op.From]++
		if !op.Moved {
			c.leaving[op.FromIncarnation]++
		}
	case fsm.OpRemove, fsm.OpStop:
		c.leaving[op.FromIncarnation]++
	case fsm.OpSplit:
		c.splits++
	case fsm.OpMerge:
		c.merges++
	case fsm.OpAdd:
	}
	if op.StuckAt != 0 && len(c.stuck) < stuckAtOnce {
		c.stuck = append(c.stuck, op)
	}
}

// least returns the place of the item with the lowest weight, the first of equals; -1 for none.
func least[T any, W cmp.Ordered](items []T, weigh func(T) (W, bool)) int {
	best := -1
	var lowest W
	for i, x := range items {
		if w, fits := weigh(x); fits && (best < 0 || w < lowest) {
			best, lowest = i, w
		}
	}
	return best
}
