package raftnodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

const (
	waitLimit   = 30 * time.Second
	pollPeriod  = 5 * time.Millisecond
	callTimeout = 500 * time.Millisecond
)

// Options of a cluster. The zero value is three servers, s1 to s3.
type Options struct {
	// Servers is how many; zero means 3.
	Servers int
	// Configure may change the configuration of a server before each of its starts. Clocks, timers and peers are set
	// already; fault hooks that it sets are asked after the network of the cluster has let a call through.
	Configure func(cfg *raftnode.Config)
}

// Cluster is some servers on one network. Its methods must be called from the test's goroutine.
type Cluster struct {
	tb      testing.TB
	options Options
	net     *network
	servers []*Server
}

// Server is a server and what outlives its crashes.
type Server struct {
	ID     fsm.ServerID
	logs   *raft.InmemStore
	snaps  *raft.InmemSnapshotStore
	wire   *raft.InmemTransport
	node   atomic.Pointer[raftnode.Node]
	cancel context.CancelFunc
	result chan error
}

// Node is the running node; nil while the server is down.
func (s *Server) Node() *raftnode.Node { return s.node.Load() }

// New starts a cluster and stops it when the test ends.
func New(tb testing.TB, options Options) *Cluster {
	tb.Helper()
	if options.Servers == 0 {
		options.Servers = 3
	}
	c := &Cluster{tb: tb, options: options, net: newNetwork()}
	for i := range options.Servers {
		c.servers = append(c.servers, &Server{
			ID:   fsm.ServerID(fmt.Sprintf("s%d", i+1)),
			logs: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore(),
		})
	}
	tb.Cleanup(c.Stop)
	for _, s := range c.servers {
		c.start(s)
	}
	return c
}

// Server returns a server by id.
func (c *Cluster) Server(id fsm.ServerID) *Server {
	c.tb.Helper()
	i := slices.IndexFunc(c.servers, func(s *Server) bool { return s.ID == id })
	if i < 0 {
		c.tb.Fatalf("there is no server %s", id)
	}
	return c.servers[i]
}

// Servers are all servers, running or not.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// Running are the servers that run.
func (c *Cluster) Running() []*Server {
	return slices.DeleteFunc(c.Servers(), func(s *Server) bool { return s.Node() == nil })
}

func (c *Cluster) config(s *Server) raftnode.Config {
	cfg := raftnode.Config{
		ID: s.ID, Cluster: "test", GRPCAddress: "grpc-" + string(s.ID),
		Clock: clock.NewBubble(), Timers: clock.SystemTimers{},
		Generation: func() fsm.Generation { return 1000 },
		Wall:       func() int64 { return clock.Wall().UnixMilli() },
		Forward:    c.forward,
	}
	for _, p := range c.servers {
		cfg.Peers = append(cfg.Peers, raftnode.Peer{ID: p.ID, RaftAddress: string(p.ID)})
	}
	if c.options.Configure != nil {
		c.options.Configure(&cfg)
	}
	cfg.Faults = c.hooks(s.ID, cfg.Faults)
	return cfg
}

// forward proposes at whichever server leads now.
func (c *Cluster) forward(ctx context.Context, p fsm.Proposal) (fsm.Verdict, error) {
	for _, s := range c.servers {
		if node := s.Node(); node != nil && node.Leadership().Leading {
			verdicts, err := node.Propose(ctx, p)
			if err != nil {
				return fsm.Verdict{}, err
			}
			return verdicts[0], nil
		}
	}
	return fsm.Verdict{}, raftnode.ErrNotLeader
}

// hooks puts the network in front of the hooks of the test.
func (c *Cluster) hooks(self fsm.ServerID, inner *raftnode.FaultHooks) *raftnode.FaultHooks {
	if inner == nil {
		inner = &raftnode.FaultHooks{}
	}
	outer := *inner
	outer.Send = func(peer fsm.ServerID, rpc raftnode.RPC) error {
		if err := c.net.pass(self, peer); err != nil {
			return err
		}
		if inner.Send == nil {
			return nil
		}
		return inner.Send(peer, rpc)
	}
	outer.Answered = func(peer fsm.ServerID, rpc raftnode.RPC) error {
		if err := c.net.pass(peer, self); err != nil {
			return err
		}
		if inner.Answered == nil {
			return nil
		}
		return inner.Answered(peer, rpc)
	}
	return &outer
}

func (c *Cluster) start(s *Server) {
	c.tb.Helper()
	_, s.wire = raft.NewInmemTransportWithTimeout(raft.ServerAddress(s.ID), callTimeout)
	for _, p := range c.servers {
		if p.wire != nil && p != s {
			s.wire.Connect(p.wire.LocalAddr(), p.wire)
			p.wire.Connect(s.wire.LocalAddr(), s.wire)
		}
	}
	node, err := raftnode.OpenWith(c.config(s), raftnode.Parts{Wire: s.wire, Logs: s.logs, Stable: s.logs, Snapshots: s.snaps})
	if err != nil {
		c.tb.Fatalf("start %s: %v", s.ID, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.result = cancel, make(chan error, 1)
	s.node.Store(node)
	go func() { s.result <- node.Run(ctx) }()
}

// Crash ends a server without letting it say anything more to the others; its stores stay. It returns what Run returned.
func (c *Cluster) Crash(id fsm.ServerID) error {
	c.tb.Helper()
	s := c.Server(id)
	if s.Node() == nil {
		return nil
	}
	for _, p := range c.servers {
		if p.wire != nil && p != s {
			p.wire.Disconnect(s.wire.LocalAddr())
		}
	}
	s.wire.DisconnectAll()
	_ = s.Node().Close()
	return c.ended(s)
}

// Shutdown stops a server as planned and returns what Run returned; its stores stay.
func (c *Cluster) Shutdown(id fsm.ServerID) error {
	c.tb.Helper()
	s := c.Server(id)
	if s.Node() == nil {
		return nil
	}
	s.cancel()
	return c.ended(s)
}

func (c *Cluster) ended(s *Server) error {
	c.tb.Helper()
	defer s.cancel()
	timer := clock.SystemTimers{}.NewTimer(waitLimit)
	defer timer.Stop()
	select {
	case err := <-s.result:
		s.wire = nil
		s.node.Store(nil)
		if errors.Is(err, raftnode.ErrClosed) {
			return nil // it was ended before it began to run
		}
		return err
	case <-timer.C():
		c.tb.Fatalf("%s has not stopped after %v", s.ID, waitLimit)
		return nil
	}
}

// Restart starts a server that is down, on the stores that it had.
func (c *Cluster) Restart(id fsm.ServerID) {
	c.tb.Helper()
	if s := c.Server(id); s.Node() == nil {
		c.start(s)
	}
}

// Stop ends every server. It is called at the end of the test by itself.
func (c *Cluster) Stop() {
	c.tb.Helper()
	c.Heal()
	for _, s := range c.servers {
		var fault *raftnode.FaultError
		if err := c.Crash(s.ID); err != nil && !errors.As(err, &fault) {
			c.tb.Errorf("%s ended with %v", s.ID, err)
		}
	}
}

// Cut cuts the link between two servers in both directions.
func (c *Cluster) Cut(a, b fsm.ServerID) { c.net.set(a, b, true); c.net.set(b, a, true) }

// CutOneWay loses everything that from sends to to, answers included.
func (c *Cluster) CutOneWay(from, to fsm.ServerID) { c.net.set(from, to, true) }

// Isolate cuts a server off from all others.
func (c *Cluster) Isolate(id fsm.ServerID) {
	for _, p := range c.servers {
		if p.ID != id {
			c.Cut(id, p.ID)
		}
	}
}

// Delay makes everything that from sends to to take d, answers included.
func (c *Cluster) Delay(from, to fsm.ServerID, d time.Duration) { c.net.slow(from, to, d) }

// Heal makes all links whole and fast.
func (c *Cluster) Heal() { c.net.heal() }

// Eventually waits until the condition holds and fails the test if it does not within 30 s.
func (c *Cluster) Eventually(what string, condition func() bool) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	for !condition() {
		if clock.Sleep(ctx, clock.SystemTimers{}, pollPeriod) != nil {
			c.tb.Fatalf("after %v it is still not so that %s", waitLimit, what)
		}
	}
}

// Leader waits for a running server that leads and is none of those that do not count.
func (c *Cluster) Leader(not ...fsm.ServerID) *Server {
	c.tb.Helper()
	var leader *Server
	c.Eventually("a server leads", func() bool {
		for _, s := range c.Running() {
			if !slices.Contains(not, s.ID) && s.Node().Leadership().Leading {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// Propose proposes at whichever server leads, again and again while the error says that nothing was proposed: right after
// a fault the server that looks like the leader may not be it any more.
func (c *Cluster) Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	c.tb.Helper()
	for {
		verdicts, err := c.Leader().Node().Propose(ctx, proposals...)
		e, failed := errors.AsType[*raftnode.Error](err)
		if !failed || e.Class.MaybeProposed() || clock.Sleep(ctx, clock.SystemTimers{}, pollPeriod) != nil {
			return verdicts, err
		}
	}
}

// Follower returns a running server that is not the one named.
func (c *Cluster) Follower(not ...fsm.ServerID) *Server {
	c.tb.Helper()
	for _, s := range c.Running() {
		if !slices.Contains(not, s.ID) {
			return s
		}
	}
	c.tb.Fatal("no such server runs")
	return nil
}

// Ready waits until a leader has begun the cluster's first generation, and returns it.
func (c *Cluster) Ready() *Server {
	c.tb.Helper()
	var leader *Server
	c.Eventually("the cluster has begun", func() bool {
		leader = c.Leader()
		view, _, ok := leader.Node().Local()
		return ok && view.Meta().Generation != 0
	})
	return leader
}

// Settle waits until all running servers have applied the same and have equal states, and returns the index.
func (c *Cluster) Settle() uint64 {
	c.tb.Helper()
	var index uint64
	c.Eventually("all servers have applied the same", func() bool {
		running := c.Running()
		index = running[0].Node().AppliedIndex()
		for _, s := range running {
			if s.Node().AppliedIndex() != index {
				return false
			}
		}
		return true
	})
	var first fsm.Digest
	for i, s := range c.Running() {
		hash, ok := s.Node().HashAt(index)
		if i == 0 {
			first = hash
		}
		if !ok || hash != first {
			c.tb.Fatalf("at index %d %s has state %v (known: %v), another has %v", index, s.ID, hash, ok, first)
		}
	}
	return index
}
