package scheduler

import "github.com/weir-project/weir/fsm"

// loadMoves bounds the moves of one plan for the sake of rates: these are known only roughly.
const loadMoves = 4

// balanceLoad evens out how many rows a second nodes write, by moving a dispatcher from the busiest node to the idlest,
// where both end up between what they were. It waits until rates have settled after other moves, and keeps counts within
// the slack at which these would be evened out again.
func (p *planner) balanceLoad() {
	l := p.in.Limits
	if p.in.Loads == nil || l.LoadSlack == 0 || l.BalanceMoves == 0 || p.ops.moves > 0 || !p.restful() {
		return
	}
	for range min(loadMoves, l.BalanceMoves) {
		from, to := p.rateEnds()
		if p.room() == 0 || from == nil || to == nil || from == to || from.rate <= to.rate+p.rateSlack() {
			return
		}
		row, rate, ok := p.pickBusy(from, to)
		if !ok {
			return
		}
		p.move(row, from.name, to)
		from.leaving++
		from.rate -= min(rate, from.rate)
		to.rate += rate
	}
}

// endedAtOnce is how many of the operators that ended last are looked through for moves.
const endedAtOnce = 256

// restful says whether no move has ended within the settling time.
func (p *planner) restful() bool {
	looks := endedAtOnce
	for op := range p.in.View.FinishedOperators() {
		if p.nowMS-op.EndedMS >= p.in.Limits.LoadSettleMS {
			return true
		}
		if looks--; looks == 0 || op.Kind == fsm.OpMove {
			return false
		}
	}
	return true
}

// rateEnds returns the busiest node, and the idlest that can take work.
func (p *planner) rateEnds() (from, to *node) {
	if i := least(p.nodes, func(n *node) (uint64, bool) { return ^n.rate, n.rated }); i >= 0 {
		from = p.nodes[i]
	}
	if i := least(p.nodes, func(n *node) (uint64, bool) { return n.rate, n.rated && n.free() && n.joined }); i >= 0 {
		to = p.nodes[i]
	}
	return from, to
}

func (p *planner) rateSlack() uint64 {
	total, known := uint64(0), uint64(0)
	for _, n := range p.nodes {
		if n.rated {
			total, known = total+n.rate, known+1
		}
	}
	return max(p.in.Limits.LoadSlack, total/max(known, 1)*p.in.Limits.LoadPercent/100)
}

// pickBusy returns the dispatcher that brings the two closest together; it must bring them closer by an eighth at least.
func (p *planner) pickBusy(from, to *node) (found fsm.Dispatcher, rate uint64, ok bool) {
	if to.stays()+2 > from.stays()+p.slack() {
		return found, 0, false
	}
	gap := from.rate - to.rate
	best := gap - gap/8
	for _, b := range p.in.Loads.Busiest(from.incarnation) {
		row, there := p.in.View.Dispatcher(b.Dispatcher)
		if !there || row.Epoch != b.Epoch || row.Incarnation != from.incarnation || !p.movable(row) || !p.settled(row) {
			continue
		}
		if apart := distance(gap, 2*b.Rate); apart < best {
			found, rate, best, ok = row, b.Rate, apart, true
		}
	}
	return found, rate, ok
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
