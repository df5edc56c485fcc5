package raftnode

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
)

// readGate makes reads linearizable: a reader joins the next round, never one under way; a round is one barrier entry,
// and its readers look at a view taken after the barrier was applied. However many readers wait, one entry serves them.
//
// The library's cheaper VerifyLeader is no substitute: it counts answers to heartbeats that were sent before the question,
// so that a deposed leader whose answers come late passes it after its successor has committed.
type readGate struct {
	cfg     *Config
	barrier func(timeout time.Duration) raft.Future
	leading func() (term uint64, ok bool)
	view    func() (*fsm.View, *FaultError)
	// confirmed is told that a barrier of this server has been applied.
	confirmed func()

	wake     chan struct{}
	routines group

	mu     sync.Mutex
	next   *round
	closed bool
}

type round struct {
	done chan struct{}
	view *fsm.View
	err  *Error
}

func newReadGate(cfg *Config) *readGate { return &readGate{cfg: cfg, wake: make(chan struct{}, 1)} }

// read waits for a round that starts after the call.
func (g *readGate) read(ctx context.Context) (*fsm.View, error) {
	if _, ok := g.leading(); !ok {
		return nil, classError(ClassNotLeader, "")
	}
	r, err := g.join()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.ProposeTimeout)
	defer cancel()
	select {
	case <-r.done:
		if r.err != nil {
			return nil, r.err
		}
		return r.view, nil
	case <-ctx.Done():
		return nil, contextError(ctx, ClassOverloaded, "the read could not be confirmed in time")
	}
}

func (g *readGate) join() (*round, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, classError(ClassShuttingDown, "")
	}
	if g.next == nil {
		g.next = &round{done: make(chan struct{})}
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
	return g.next, nil
}

// run carries out rounds, one after the other, until the context ends.
func (g *readGate) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			g.mu.Lock()
			g.closed = true
			g.mu.Unlock()
			if r := g.begin(); r != nil {
				r.err = classError(ClassShuttingDown, "")
				close(r.done)
			}
			return
		case <-g.wake:
		}
		if r := g.begin(); r != nil {
			r.view, r.err = g.confirm(ctx)
			close(r.done)
		}
	}
}

// begin closes the next round to further readers.
func (g *readGate) begin() *round {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.next
	g.next = nil
	return r
}

// confirm appends a barrier and takes a view after it. A read proposes nothing, so that all that can go wrong with it is
// that this server does not lead.
func (g *readGate) confirm(ctx context.Context) (*fsm.View, *Error) {
	if err := g.wait(ctx); err != nil {
		return nil, err
	}
	g.confirmed()
	if _, ok := g.leading(); !ok {
		return nil, classError(ClassNotLeader, "leadership changed during the read")
	}
	view, fault := g.view()
	if fault != nil {
		return nil, classError(ClassFenced, fault.Error())
	}
	return view, nil
}

func (g *readGate) wait(ctx context.Context) *Error {
	limit := g.cfg.CommitTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	future := g.barrier(limit / 2)
	got := make(chan error, 1)
	g.routines.Go(func() { got <- future.Error() })
	select {
	case err := <-got:
		e := translate(err)
		if e != nil && e.Class == ClassUnknownOutcome {
			e.Class = ClassNotLeader
		}
		return e
	case <-ctx.Done():
		return classError(ClassNotLeader, "leadership could not be confirmed in time")
	}
}
