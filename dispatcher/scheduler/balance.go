package scheduler

import "github.com/weir-project/weir/fsm"

// balance evens out how many dispatchers nodes have, step by step: one from the fullest to the emptiest, for as long as
// these are further apart than the slack. Each step lowers the sum of squares of the counts, so that there is an end, and
// none can be undone by another one.
func (p *planner) balance() {
	looks := p.in.Limits.Scan
	var spent []bool // nodes that have nothing to give
	for looks > 0 && p.room() > 0 && p.ops.moves < p.in.Limits.BalanceMoves {
		if spent == nil {
			spent = make([]bool, len(p.nodes))
		}
		from, to := p.ends(spent)
		if from == nil || to == nil || from.stays() <= to.stays()+p.slack() {
			return
		}
		row, ok := p.pick(from, to, &looks)
		if !ok {
			spent[from.number] = true
			continue
		}
		p.move(row, from.name, to)
		from.leaving++
	}
}

// ends returns the fullest node that has something to give, and the emptiest that can take it.
func (p *planner) ends(spent []bool) (from, to *node) {
	if i := least(p.nodes, func(n *node) (uint64, bool) { return ^n.stays(), !spent[n.number] }); i >= 0 {
		from = p.nodes[i]
	}
	if i := least(p.nodes, func(n *node) (uint64, bool) { return n.stays(), n.free() && n.joined }); i >= 0 {
		to = p.nodes[i]
	}
	return from, to
}

// slack is how far counts may be apart.
func (p *planner) slack() uint64 {
	total := uint64(0)
	for _, n := range p.nodes {
		total += n.stays()
	}
	return max(p.in.Limits.BalanceSlack, total/uint64(len(p.nodes))*p.in.Limits.BalancePercent/100)
}

// pick returns a dispatcher to move: one that leaves its kin more evenly spread if one is found, else the first that may
// be moved.
func (p *planner) pick(from, to *node, looks *int) (found fsm.Dispatcher, ok bool) {
	for row := range p.in.View.DispatchersOn(from.incarnation) {
		if *looks == 0 {
			break
		}
		*looks--
		if !p.movable(row) || !p.settled(row) {
			continue
		}
		if same := p.spread.of(p.kinOf(row)); same[from.number] > same[to.number] {
			return row, true
		}
		if !ok {
			found, ok = row, true
		}
	}
	return found, ok
}
