package raftnodetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// ErrCut is what a call over a cut link ends with.
var ErrCut = errors.New("the link is cut")

// link is one direction between two servers.
type link struct{ from, to fsm.ServerID }

// network knows which links are cut or slow. A call needs both directions: the request's and the answer's.
type network struct {
	mu    sync.Mutex
	cut   map[link]bool
	delay map[link]time.Duration
}

func newNetwork() *network {
	return &network{cut: make(map[link]bool), delay: make(map[link]time.Duration)}
}

// pass lets one message through, late or not at all.
func (n *network) pass(from, to fsm.ServerID) error {
	l := link{from, to}
	n.mu.Lock()
	cut, delay := n.cut[l], n.delay[l]
	n.mu.Unlock()
	if cut {
		return ErrCut
	}
	if delay == 0 {
		return nil
	}
	if err := clock.Sleep(context.Background(), clock.SystemTimers{}, delay); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut[l] {
		return ErrCut
	}
	return nil
}

func (n *network) set(from, to fsm.ServerID, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[link{from, to}] = cut
}

func (n *network) slow(from, to fsm.ServerID, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay[link{from, to}] = d
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.delay)
}
