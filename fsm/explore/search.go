package explore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Result is what an exploration found.
type Result struct {
	World *World
	// States are the distinct whole states, Transitions the steps between them that were taken, those that led back to a
	// known state included.
	States, Transitions int
	// Standings are the distinct states of the state machine, Applied how often it was asked for real.
	Standings, Applied int
	// Depth is the length of the longest shortest path.
	Depth int
	// Beyond counts steps that were not taken because they lead out of the world's bounds, or change nothing.
	Beyond int
	// Found is the first violation, on a shortest path; nil if every invariant holds in every state.
	Found *Counterexample
}

// Config says how to explore.
type Config struct {
	World *World
	// Workers is the number of goroutines; zero for one each processor.
	Workers int
	// MaxStates ends an exploration that is too large with [ErrTooLarge]; zero for no limit.
	MaxStates int
}

// search is an exploration under way.
type search struct {
	stepper
	config  Config
	seen    *visited
	origins origins

	transitions, beyond atomic.Int64
	failed              atomic.Bool
	mu                  sync.Mutex
	found               *finding
	graph               graph
}

// finding is a violation: in the state number, by the action.
type finding struct {
	number uint32
	action action
	err    error
}

// visit is a state on the frontier.
type visit struct {
	number uint32
	state  state
}

// Explore visits every state of the world. The exploration is complete if the error is nil and nothing was found.
func Explore(ctx context.Context, c Config) (Result, error) {
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	s := &search{stepper: stepper{world: c.World, machine: newMachine(c.World)}, config: c, seen: newVisited()}
	if err := c.World.prepare(); err != nil {
		return Result{}, err
	}
	frontier, err := s.start()
	if err != nil {
		return Result{}, err
	}
	depth := 0
	for len(frontier) > 0 && !s.failed.Load() {
		if err := s.limits(ctx); err != nil {
			return s.result(depth), err
		}
		if frontier = s.level(frontier); len(frontier) > 0 {
			depth++
		}
	}
	r := s.result(depth)
	if s.found == nil {
		s.searchHang()
	}
	if s.found != nil {
		r.Found, err = s.explain(*s.found)
	}
	return r, err
}

func (s *search) result(depth int) Result {
	return Result{
		World: s.world, States: s.seen.len(), Transitions: int(s.transitions.Load()), Beyond: int(s.beyond.Load()),
		Standings: len(s.machine.standings), Applied: int(s.machine.applied.Load()), Depth: depth,
	}
}

// searchHang looks for a state whose work cannot end. It needs a complete exploration.
func (s *search) searchHang() {
	number, found := s.graph.hang(s.seen.len())
	s.graph = graph{}
	if found {
		s.found = &finding{number: number, err: broken("what was begun can end", "no step of the system leads on from here to rest")}
	}
}

func (s *search) limits(ctx context.Context) error {
	if s.config.MaxStates > 0 && s.seen.len() > s.config.MaxStates {
		return ErrTooLarge
	}
	return ctx.Err()
}

// start is the world's first state.
func (s *search) start() ([]visit, error) {
	first, _, err := s.machine.first()
	if err != nil {
		return nil, err
	}
	var v visitor
	v.search = s
	v.reach(first, 0, action{})
	return v.next, nil
}

// first is the state in which the world starts, and the script that leads to it.
func (m *machine) first() (state, []string, error) {
	begun, script, err := m.world.begin()
	if err != nil {
		return state{}, nil, err
	}
	first := state{at: m.enter(begun, m.world.shapeOf(begun))}
	for i := range m.world.Nodes {
		first.nodes[i].there = live(first.at.shape.nodes[i].status)
	}
	first.tidy(m.world)
	return first, script, nil
}

// share is how many states a worker takes at a time.
const share = 256

// level visits the states of one depth and returns those of the next.
func (s *search) level(frontier []visit) []visit {
	var taken atomic.Int64
	var workers sync.WaitGroup
	visitors := make([]visitor, s.config.Workers)
	for i := range visitors {
		v := &visitors[i]
		v.search = s
		workers.Go(func() {
			for !s.failed.Load() {
				from := int(taken.Add(share)) - share
				if from >= len(frontier) {
					break
				}
				for j := from; j < min(from+share, len(frontier)); j++ {
					v.expand(&frontier[j])
				}
			}
			s.transitions.Add(v.transitions)
			s.beyond.Add(v.beyond)
		})
	}
	workers.Wait()
	var next []visit
	for i := range visitors {
		next = append(next, visitors[i].next...)
		s.graph.join(&visitors[i].graph)
	}
	return next
}

// visitor is one worker's part of a level.
type visitor struct {
	*search
	next                []visit
	graph               graph
	transitions, beyond int64
	choices             []action
	code                []byte
}

// expand takes every step from a state.
func (v *visitor) expand(from *visit) {
	if a, err := v.machine.disturb(from.state.at); err != nil {
		v.report(finding{from.number, a, err})
		return
	}
	if v.atRest(&from.state) {
		v.graph.rest = append(v.graph.rest, from.number)
	}
	v.choices = v.actions(&from.state, v.choices[:0])
	for _, a := range v.choices {
		to := from.state
		ok, err := v.take(&to, a)
		switch {
		case err != nil:
			v.report(finding{from.number, a, err})
			return
		case !ok:
			v.beyond++
		default:
			v.transitions++
			number := v.reach(to, from.number, a)
			if number != from.number && v.progress(&from.state, a) {
				v.graph.from, v.graph.to = append(v.graph.from, from.number), append(v.graph.to, number)
			}
		}
	}
}

// reach puts a state on the next frontier unless it is known, and returns its number.
func (v *visitor) reach(s state, from uint32, by action) uint32 {
	v.code = s.code(v.world, v.code[:0])
	number, fresh := v.seen.add(digestOf(v.code))
	if fresh {
		v.origins.set(number, origin{from: from, by: by})
		v.next = append(v.next, visit{number: number, state: s})
	}
	return number
}

// report keeps the violation of the lowest state: all of a level are equally far from the start.
func (s *search) report(f finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed.Store(true)
	if s.found == nil || f.number < s.found.number {
		s.found = &f
	}
}
