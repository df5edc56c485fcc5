package raftnode

import "sync"

// group counts goroutines. Unlike a sync.WaitGroup it may be waited for with a limit, and while others are added.
type group struct {
	mu      sync.Mutex
	running int
	waiters chan struct{} // closed when nothing runs; nil while nobody waits
}

// Go runs f in a goroutine of the group.
func (g *group) Go(f func()) {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	go func() {
		defer g.end()
		f()
	}()
}

func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.waiters != nil {
		close(g.waiters)
		g.waiters = nil
	}
}

// idle returns a channel that is closed once nothing of the group runs.
func (g *group) idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if g.waiters == nil {
		g.waiters = make(chan struct{})
	}
	return g.waiters
}
