package bubble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

var (
	errCut     = errors.New("the link is cut")
	errRefused = errors.New("connection refused")
)

// link is one direction between two hosts.
type link struct{ from, to string }

// network joins hosts: calls between replicas, and byte streams for everything else. A cut link loses calls at once and
// holds the bytes of streams back until it is whole again, as a network does under TCP. A host that is down refuses
// connections, and those that it had are reset.
type network struct {
	mu        sync.Mutex
	rand      *rand.Rand
	cut       map[link]bool
	slow      map[link]time.Duration
	down      map[string]bool
	listeners map[string]*listener
	streams   map[*stream]struct{}
}

func newNetwork(seed uint64) *network {
	return &network{
		rand: rand.New(rand.NewPCG(seed, 0x6e65)), cut: map[link]bool{}, slow: map[link]time.Duration{}, down: map[string]bool{},
		listeners: map[string]*listener{}, streams: map[*stream]struct{}{},
	}
}

// delay is how long a message takes that leaves now: 0.2 ms to 2 ms, or what the link was set to.
func (n *network) delay(l link) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.slow[l] + 200*time.Microsecond + time.Duration(n.rand.Int64N(int64(1800*time.Microsecond)))
}

// broken: nothing passes now.
func (n *network) broken(l link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[l] || n.down[l.from] || n.down[l.to]
}

// pass lets one message between replicas through, late or not at all.
func (n *network) pass(from, to string) error {
	l := link{from, to}
	if n.broken(l) {
		return errCut
	}
	time.Sleep(n.delay(l))
	if n.broken(l) {
		return errCut
	}
	return nil
}

// set changes links and lets the streams look again.
func (n *network) set(change func()) {
	n.mu.Lock()
	change()
	var all []*stream
	for s := range n.streams {
		all = append(all, s)
	}
	n.mu.Unlock()
	for _, s := range all {
		s.wake()
	}
}

// cutOneWay loses everything that from sends to to.
func (n *network) cutOneWay(from, to string) { n.set(func() { n.cut[link{from, to}] = true }) }

// cutBetween cuts both directions between a and each of the others.
func (n *network) cutBetween(a string, others ...string) {
	n.set(func() {
		for _, b := range others {
			n.cut[link{a, b}], n.cut[link{b, a}] = true, true
		}
	})
}

// slowDown makes everything that from sends to to take d longer.
func (n *network) slowDown(from, to string, d time.Duration) {
	n.set(func() { n.slow[link{from, to}] = d })
}

// heal makes all links whole and fast.
func (n *network) heal() {
	n.set(func() {
		clear(n.cut)
		clear(n.slow)
	})
}

// crash makes the host refuse everything; its streams are reset.
func (n *network) crash(host string) {
	n.mu.Lock()
	n.down[host] = true
	n.mu.Unlock()
	n.reset(host)
}

// of are the streams of a host.
func (n *network) of(host string) []*stream {
	n.mu.Lock()
	defer n.mu.Unlock()
	var mine []*stream
	for s := range n.streams {
		if s.link.from == host || s.link.to == host {
			mine = append(mine, s)
		}
	}
	return mine
}

// reset breaks the streams of a host; they can be opened anew at once.
func (n *network) reset(host string) {
	for _, s := range n.of(host) {
		s.reset()
	}
}

// boot lets a host take part again.
func (n *network) boot(host string) { n.set(func() { delete(n.down, host) }) }

func addressOf(host string) string { return host + ":7000" }

// listen makes the host reachable.
func (n *network) listen(host string) *listener {
	l := &listener{n: n, host: host, arrived: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addressOf(host)] = l
	return l
}

// dialer connects from a host.
func (n *network) dialer(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) { return n.dial(ctx, from, address) }
}

func (n *network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: no such host", address)
	}
	there, back := link{from, l.host}, link{l.host, from}
	n.mu.Lock()
	cut, down := n.cut[there] || n.cut[back], n.down[from] || n.down[l.host]
	n.mu.Unlock()
	switch {
	case cut: // nobody answers
		<-ctx.Done()
		return nil, fmt.Errorf("dial %s: %w", address, context.Cause(ctx))
	case down:
		return nil, fmt.Errorf("dial %s: %w", address, errRefused)
	}
	time.Sleep(n.delay(there) + n.delay(back))
	out, in := newStream(n, there), newStream(n, back)
	select {
	case l.arrived <- &conn{read: out, write: in}:
		return &conn{read: in, write: out}, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s: %w", address, errRefused)
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", address, context.Cause(ctx))
	}
}

// listener accepts the connections of one life of a host.
type listener struct {
	n       *network
	host    string
	arrived chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return hostAddr(l.host) }

type hostAddr string

// Network implements net.Addr.
func (hostAddr) Network() string { return "bubble" }

// String implements net.Addr.
func (h hostAddr) String() string { return addressOf(string(h)) }
