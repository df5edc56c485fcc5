package explore

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// Liveness: from every state, once users ask for nothing more and nothing more is lost, what was begun can end. A state in
// which everything has ended is at rest; the steps that servers, nodes and the scheduler take by themselves are progress.
// A state from which no progress leads to rest is a hang.

// progress says whether a step is taken by the system itself, sooner or later.
func (t *stepper) progress(s *state, a action) bool {
	//exhaustive:ignore
	switch a.kind {
	case doAdd, doRegister, doResume, doExpire, doReport, doSay, doSayAll, doAdvance, doTick, doExpireLate,
		nodeLate, askExpire,
		nodeStarts, nodeToldStop, nodeBuilt, nodeAcked, nodeMoves, nodeBegins, nodeWrites, nodePasses, nodeGoesOn:
		return true
	case doDecide: // people decide truly
		return fsm.BarrierDecision(a.b) != fsm.DecideSkip
	case nodeFenced: // a fence takes effect
		return s.at.shape.nodes[a.a].status == fsm.NodeStatusFenced
	case nodeStops: // as ordered, or because it cannot go on from an event of which it does not know whether it wrote it
		r := &s.nodes[a.a].records[a.b]
		return r.row >= 0 && (s.at.shape.rows[r.row].Phase == fsm.Stopping || r.doing == unsure)
	default:
		return false
	}
}

// atRest says whether everything that was begun has ended: no operator, no open event, everything runs and has come to the
// end of the track. Where no node can take work, or the changefeed is paused for good, there is nothing to wait for.
func (t *stepper) atRest(s *state) bool {
	sh := s.at.shape
	if len(sh.ops) > 0 {
		return false
	}
	if !t.placeable(s) {
		return true
	}
	if len(sh.open) > 0 {
		return false
	}
	for d := range sh.rows {
		row := &sh.rows[d]
		if t.world.idle(sh, d) {
			continue
		}
		if row.Phase != fsm.Running {
			return false
		}
		r := s.recordOf(int8(d))
		if r == nil || r.life != running || len(t.world.Track) > 0 && int(r.at) != len(t.world.Track)-1 {
			return false
		}
	}
	return true
}

// placeable says whether the scheduler can place anything: the world lets it, a node takes work or will be back.
func (t *stepper) placeable(s *state) bool {
	sh := s.at.shape
	if len(sh.feeds) == 0 || sh.feeds[0].Status != fsm.ChangefeedRunning && !t.world.asks(doResume) || !t.world.asks(doAdd) {
		return false
	}
	for i := range sh.nodes {
		n := &sh.nodes[i]
		back := t.world.asks(doRegister)
		if !n.draining && (back || n.status == fsm.NodeStatusLive && !s.nodes[i].fenced) {
			return true
		}
	}
	return false
}

// graph holds the steps of progress between states, and which of these are at rest.
type graph struct {
	from, to []uint32
	rest     []uint32
}

func (g *graph) join(o *graph) {
	g.from, g.to, g.rest = append(g.from, o.from...), append(g.to, o.to...), append(g.rest, o.rest...)
}

// hang returns the lowest of so many states from which progress does not lead to rest.
func (g *graph) hang(states int) (number uint32, found bool) {
	// The steps by where they lead: those to state i are back[first[i]:first[i+1]].
	first := make([]uint32, states+1)
	for _, to := range g.to {
		first[to+1]++
	}
	for i := range states {
		first[i+1] += first[i]
	}
	back := make([]uint32, len(g.to))
	at := append([]uint32(nil), first...)
	for i, to := range g.to {
		back[at[to]] = g.from[i]
		at[to]++
	}
	good := make([]bool, states)
	todo := append([]uint32(nil), g.rest...)
	for _, i := range todo {
		good[i] = true
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range back[first[i]:first[i+1]] {
			if !good[from] {
				good[from] = true
				todo = append(todo, from)
			}
		}
	}
	for i, ok := range good {
		if !ok {
			return uint32(i), true
		}
	}
	return 0, false
}

// waitsFor tells what does not end in a state.
func (t *stepper) waitsFor(s *state) string {
	sh := s.at.shape
	words := []string{fmt.Sprintf("%d operators and %d events are open", len(sh.ops), len(sh.open))}
	for d := range sh.rows {
		words = append(words, fmt.Sprintf("dispatcher %d is %s at %s", sh.rows[d].ID, sh.rows[d].Phase, sh.rows[d].Position))
	}
	return strings.Join(words, ", ")
}
