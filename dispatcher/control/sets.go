package control

import (
	"slices"
	"sync"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// sets is what the term knows of how a node's sets have changed, so that a minimum that a node gave for its set of a
// moment ago can be turned into one for the set of now. Without it no watermark would advance while dispatchers move:
// every heartbeat would be about a set that is no longer the state's.
//
// A heartbeat's hash is looked up among the marks: states in which the node's set had that hash. The set of now has lost
// some of what the set of then had, which only makes the minimum lower than it need be, and has gained what has been
// reported running since; that has not written anything below the position at which it was started. All that comes into
// a set comes through this term's proposals, and each is noted before it is proposed.
type sets struct {
	mu    sync.Mutex
	marks map[fsm.ChangefeedID][]setMark // the oldest first
	added []addition
	floor uint64 // no mark is made of a state before it: what came into the sets since may have been forgotten
}

// setMark says that the node's set of a changefeed had the hash in the state of the index.
type setMark struct{ hash, index uint64 }

// addition is a dispatcher that has come, or may be coming, into a set.
type addition struct {
	feed fsm.ChangefeedID
	pair session.Pair
	// from is where it was started.
	from fsm.Position
	// index is that of a state that had it in the set; underWay while none is known to.
	index uint64
}

const underWay = ^uint64(0)

func newSets() *sets { return &sets{marks: make(map[fsm.ChangefeedID][]setMark)} }

// proposing notes what reports that are about to be proposed bring into the sets.
func (s *sets) proposing(view *fsm.View, reports []fsm.PlacementReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reports {
		row, ok := view.Dispatcher(reports[i].Dispatcher)
		if !ok || reports[i].What != fsm.ReportRunning {
			continue
		}
		s.added = append(s.added, addition{
			feed: feedOf(view, row), pair: session.Pair{Dispatcher: row.ID, Epoch: row.Epoch}, from: row.Position, index: underWay,
		})
	}
}

func feedOf(view *fsm.View, row fsm.Dispatcher) fsm.ChangefeedID {
	t, _ := view.Table(row.Table)
	return t.Changefeed
}

// proposed notes that the reports have been applied at the index, and marks the sets that they changed in a state after
// it.
func (s *sets) proposed(before, after *fsm.View, inc fsm.Incarnation, reports []fsm.PlacementReport, index uint64) {
	touched := make(map[fsm.ChangefeedID]bool)
	arrived := make(map[session.Pair]bool, len(reports))
	for i := range reports {
		arrived[session.Pair{Dispatcher: reports[i].Dispatcher, Epoch: reports[i].Epoch}] = true
		if row, ok := before.Dispatcher(reports[i].Dispatcher); ok {
			touched[feedOf(before, row)] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.added {
		if s.added[i].index == underWay && arrived[s.added[i].pair] {
			s.added[i].index = index
		}
	}
	for feed := range touched {
		s.markLocked(after, feed, inc)
	}
	s.prune(after, inc)
}

// seen notes that a report that had been proposed before, with an unknown outcome, has been applied.
func (s *sets) seen(rep *fsm.PlacementReport, index uint64) {
	if rep.What != fsm.ReportRunning {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.added {
		a := &s.added[i]
		if a.index == underWay && a.pair.Dispatcher == rep.Dispatcher && a.pair.Epoch == rep.Epoch {
			a.index = index
		}
	}
}

// mark remembers the hash of the node's set of a changefeed in the view.
func (s *sets) mark(view *fsm.View, feed fsm.ChangefeedID, inc fsm.Incarnation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markLocked(view, feed, inc)
}

func (s *sets) markLocked(view *fsm.View, feed fsm.ChangefeedID, inc fsm.Incarnation) {
	_, hash := view.Crew(feed, inc)
	index, marks := view.Meta().Index, s.marks[feed]
	if index < s.floor {
		return
	}
	if n := len(marks); n > 0 {
		if marks[n-1].index >= index {
			return
		}
		if marks[n-1].hash == hash {
			marks[n-1].index = index
			return
		}
	}
	if marks = append(marks, setMark{hash, index}); len(marks) > marksKept {
		marks = append(marks[:0], marks[1:]...)
	}
	s.marks[feed] = marks
}

// now turns a minimum that the node gave for a set into one for its set of now. False: the set is not known.
func (s *sets) now(crew session.Crew) (fsm.Position, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks := s.marks[crew.Changefeed]
	for _, m := range slices.Backward(marks) {
		if m.hash != crew.SetHash {
			continue
		}
		least := crew.Minimum
		for j := range s.added {
			a := &s.added[j]
			if a.feed == crew.Changefeed && a.index > m.index && a.from.Less(least) {
				least = a.from
			}
		}
		return least, true
	}
	return fsm.Position{}, false
}

// prune forgets what came into the sets before every mark, or has gone again, when much is remembered. If that is not
// enough all marks go: until heartbeats and state agree again nothing is known. What is under way is kept in any case.
func (s *sets) prune(view *fsm.View, inc fsm.Incarnation) {
	if len(s.added) <= additionsKept && len(s.marks) <= additionsKept {
		return
	}
	s.floor = view.Meta().Index
	kept := s.added[:0]
	for _, a := range s.added {
		marks := s.marks[a.feed]
		after := len(marks) > 0 && a.index > marks[0].index
		if a.index == underWay || (after && isCurrent(view, inc, a.pair)) {
			kept = append(kept, a)
		}
	}
	s.added = kept
	for feed := range s.marks {
		if set, _ := view.Crew(feed, inc); set == 0 {
			delete(s.marks, feed)
		}
	}
	if len(s.added) > additionsKept || len(s.marks) > additionsKept {
		clear(s.marks)
	}
}
