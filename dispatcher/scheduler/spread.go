package scheduler

import "github.com/weir-project/weir/fsm"

// tablesPerPlan is how many tables of the largest size that is looked at fit into the limit.
const tablesPerPlan = 16

// kin are dispatchers that should not all be on one node: those of a table, and the triggers of all changefeeds.
type kin fsm.TableID

// triggers is the kin of what reads a changefeed's events; no table has the number.
const triggers kin = 0

func (p *planner) kinOf(row fsm.Dispatcher) kin {
	if p.isTrigger(row) {
		return triggers
	}
	return kin(row.Table)
}

func (p *planner) isTrigger(row fsm.Dispatcher) bool { return p.feedOf(row).Trigger == row.ID }

// spread counts how many dispatchers of a kin each node has.
type spread struct {
	view   *fsm.View
	left   int // rows that may still be read
	each   int // of one kin
	number map[fsm.Incarnation]int
	counts map[kin][]uint64 // by node number
}

func newSpread(in Input, nodes []*node) spread {
	s := spread{
		view: in.View, left: in.Limits.Spread, each: in.Limits.Spread / tablesPerPlan,
		number: make(map[fsm.Incarnation]int, len(nodes)), counts: make(map[kin][]uint64),
	}
	for _, n := range nodes {
		s.number[n.incarnation] = n.number
	}
	return s
}

// of returns the counts of a kin, by node number.
func (s *spread) of(k kin) []uint64 {
	if counts, ok := s.counts[k]; ok {
		return counts
	}
	counts := make([]uint64, len(s.number))
	s.counts[k] = counts
	room := min(s.left, s.each)
	for d := range s.members(k) {
		if room == 0 {
			clear(counts)
			break
		}
		room--
		s.left--
		if i, on := s.number[d.Incarnation]; on && d.Phase != fsm.Absent {
			counts[i]++
		}
	}
	return counts
}

func (s *spread) members(k kin) func(yield func(fsm.Dispatcher) bool) {
	if k != triggers {
		return s.view.DispatchersOfTable(fsm.TableID(k))
	}
	return func(yield func(fsm.Dispatcher) bool) {
		for f := range s.view.Changefeeds() {
			if row, ok := s.view.Dispatcher(f.Trigger); ok && !yield(row) {
				return
			}
		}
	}
}

func (s *spread) add(k kin, n *node) { s.of(k)[n.number]++ }
