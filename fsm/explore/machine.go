package explore

import (
	"sync"
	"sync/atomic"

	"github.com/weir-project/weir/fsm"
)

// machine holds every distinct state of the state machine that a world has reached, and what each command does to it.
type machine struct {
	world *World

	mu        sync.Mutex
	standings map[digest]*standing
	applied   atomic.Int64
}

// standing is one of them. Its state is one of those that look like it; the first that was reached.
type standing struct {
	number uint32
	key    digest
	shape  *shape
	// menu is what users, the leader and stale senders may ask for here.
	menu []action

	mu        sync.Mutex
	state     *fsm.State
	edges     map[action]*edge
	disturbed bool
}

// edge is what one command does to a standing.
type edge struct {
	to      *standing
	verdict fsm.Reason
	// reports answers what a report said.
	reports []fsm.Reason
	// refused counts the names that a tick was refused.
	refused int
	// rows says where each dispatcher stands afterwards, -1 for gone; kept whether its placement is the same.
	rows []int8
	kept []bool
	// still: nothing has changed at all, neither what is placed nor under which numbers.
	still bool
	// err is the rule that the transition breaks.
	err error
}

func newMachine(w *World) *machine {
	return &machine{world: w, standings: map[digest]*standing{}}
}

// enter returns the standing of a state with this shape.
func (m *machine) enter(s *fsm.State, sh *shape) *standing {
	key := digestOf(canonOf(sh))
	m.mu.Lock()
	at, known := m.standings[key]
	m.mu.Unlock()
	if known {
		return at
	}
	fresh := &standing{shape: sh, state: s, menu: m.world.menu(sh), key: key, edges: map[action]*edge{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, known = m.standings[key]; known {
		return at
	}
	fresh.number = uint32(len(m.standings))
	m.standings[key] = fresh
	return fresh
}

// step applies an action, or remembers what it did.
func (m *machine) step(at *standing, a action) *edge {
	at.mu.Lock()
	defer at.mu.Unlock()
	if e, known := at.edges[a]; known {
		return e
	}
	e := m.apply(at, a)
	at.edges[a] = e
	return e
}

// repeatShare is the share of standings in which every request is sent twice, one in so many.
const repeatShare = 8

// disturb feeds a standing all stale input, once. It returns the first that is not refused or without effect.
func (m *machine) disturb(at *standing) (action, error) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.disturbed {
		return action{}, nil
	}
	at.disturbed = true
	noise := m.world.noise(at.shape)
	if at.key.a%repeatShare == 0 {
		noise = append(noise, m.world.repeats(at.shape)...)
	}
	for _, a := range noise {
		if e := m.apply(at, a); e.err != nil {
			return a, e.err
		}
	}
	return action{}, nil
}
