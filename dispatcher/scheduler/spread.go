package scheduler

import "github.com/weir-project/weir/fsm"

// tablesPerPlan is how many tables of the largest size that is looked at fit into the limit.
const tablesPerPlan = 16

// spread counts how many dispatchers of a table each candidate has.
type spread struct {
	view   *fsm.View
	left   int // rows that may still be read
	each   int // of one table
	number map[fsm.Incarnation]int
	counts map[fsm.TableID][]uint64 // by candidate number
}

func newSpread(in Input, nodes []*candidate) *spread {
	s := &spread{
		view: in.View, left: in.Limits.Spread, each: in.Limits.Spread / tablesPerPlan,
		number: make(map[fsm.Incarnation]int, len(nodes)), counts: make(map[fsm.TableID][]uint64),
	}
	for _, c := range nodes {
		s.number[c.incarnation] = c.number
	}
	return s
}

// of returns the counts of a table, by candidate number.
func (s *spread) of(table fsm.TableID) []uint64 {
	if counts, ok := s.counts[table]; ok {
		return counts
	}
	counts := make([]uint64, len(s.number))
	s.counts[table] = counts
	room := min(s.left, s.each)
	for d := range s.view.DispatchersOfTable(table) {
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

func (s *spread) add(table fsm.TableID, c *candidate) { s.of(table)[c.number]++ }
