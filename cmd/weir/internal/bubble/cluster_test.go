package bubble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/cmd/weir/internal/serve"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

const (
	waitLimit  = time.Minute
	pollPeriod = 5 * time.Millisecond
	rpcTimeout = 500 * time.Millisecond
)

// cluster is three servers and some nodes in one bubble.
type cluster struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand // of the test's goroutine alone
	net     *network
	began   time.Time
	servers []*host
	nodes   []*worker
	world   *world
	timing  fence.Timing
	admin   *client.Client
	clients []*client.Client
	ending  sync.WaitGroup
	// configure may change a replica's configuration before each start.
	configure func(*raftnode.Config)
	audit     *audit // of every entry on every server; nil: none
	supervise func() // called while the test waits; nil: nobody is
}

// host is a server and what outlives its crashes.
type host struct {
	id     string
	logs   *raft.InmemStore
	snaps  *raft.InmemSnapshotStore
	clock  *clock.Skewed
	wire   *raft.InmemTransport
	plane  *serve.Plane // nil: down
	cancel context.CancelFunc
	result chan error
	opened atomic.Pointer[raftnode.Node] // for hooks, which are called before plane is set
}

func (h *host) node() *raftnode.Node { return h.plane.Node }

// inBubble runs a test over a cluster that is ready, in fake time; tune may change the cluster before it starts.
func inBubble(t *testing.T, seed uint64, nodes int, tune func(*cluster), f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{
			t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0x636c)), net: newNetwork(seed), began: time.Now(), world: newWorld(),
			timing: fence.DefaultTiming(),
		}
		if tune != nil {
			tune(c)
		}
		for i := range 3 {
			c.servers = append(c.servers, &host{
				id: fmt.Sprintf("s%d", i+1), logs: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore(),
				clock: clock.NewSkewed(clock.NewBubble()),
			})
		}
		defer c.stop()
		for _, h := range c.servers {
			c.start(h)
		}
		c.admin = c.client("admin")
		c.ready()
		for i := range nodes {
			c.work(fmt.Sprintf("n%d", i+1))
		}
		c.attached()
		for _, w := range c.nodes {
			w.began = w.node.Status().Incarnation
		}
		f(c)
	})
}

// now is the time since the bubble began, for messages.
func (c *cluster) now() time.Duration { return time.Since(c.began) }

func (c *cluster) addresses(first ...string) []string {
	var out []string
	for _, id := range first {
		out = append(out, addressOf(id))
	}
	for _, h := range c.servers {
		out = append(out, addressOf(h.id))
	}
	return out
}

// client makes a client at a host of its own that asks the servers named first.
func (c *cluster) client(at string, first ...string) *client.Client {
	c.t.Helper()
	cl := c.loneClient(at, first...)
	c.clients = append(c.clients, cl)
	return cl
}

// loneClient is a client that its caller closes.
func (c *cluster) loneClient(at string, first ...string) *client.Client {
	c.t.Helper()
	cl, err := client.New(client.Config{Addresses: c.addresses(first...), By: at, Dial: c.net.dialer(at)})
	require.NoError(c.t, err)
	return cl
}

// start starts a server on the stores that it has.
func (c *cluster) start(h *host) {
	c.t.Helper()
	_, h.wire = raft.NewInmemTransportWithTimeout(raft.ServerAddress(h.id), rpcTimeout)
	for _, p := range c.servers {
		if p.wire != nil && p != h {
			h.wire.Connect(p.wire.LocalAddr(), p.wire)
			p.wire.Connect(h.wire.LocalAddr(), h.wire)
		}
	}
	c.net.boot(h.id)
	cfg := raftnode.Config{
		ID: fsm.ServerID(h.id), Cluster: "bubble", GRPCAddress: addressOf(h.id),
		Generation: func() fsm.Generation { return 1000 }, Faults: c.hooks(h),
	}
	for _, p := range c.servers {
		cfg.Peers = append(cfg.Peers, raftnode.Peer{ID: fsm.ServerID(p.id), RaftAddress: p.id})
	}
	if c.configure != nil {
		c.configure(&cfg)
	}
	plane, err := serve.NewPlane(serve.PlaneConfig{
		Raft: cfg, Listener: c.net.listen(h.id), PeerDial: c.net.dialer(h.id), Clock: h.clock, Timers: clock.SystemTimers{},
		Timing: c.timing, Wall: func() int64 { return time.Now().UnixMilli() }, Logger: logger(h.id),
		Open: func(cfg raftnode.Config) (*raftnode.Node, error) {
			n, err := raftnode.OpenWith(cfg, raftnode.Parts{Wire: h.wire, Logs: h.logs, Stable: h.logs, Snapshots: h.snaps})
			h.opened.Store(n)
			return n, err
		},
	})
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	h.plane, h.cancel, h.result = plane, cancel, make(chan error, 1)
	go func() { h.result <- plane.Run(ctx) }()
}

func (c *cluster) hooks(h *host) *raftnode.FaultHooks {
	return &raftnode.FaultHooks{
		Send:     func(peer fsm.ServerID, _ raftnode.RPC) error { return c.net.pass(h.id, string(peer)) },
		Answered: func(peer fsm.ServerID, _ raftnode.RPC) error { return c.net.pass(string(peer), h.id) },
		Apply: func(uint64) {
			if n := h.opened.Load(); n != nil && c.audit != nil {
				c.audit.look(h.id, n)
			}
		},
	}
}

// crash ends a server without a word to anybody. It takes effect at once; restart waits until nothing of it is left.
func (c *cluster) crash(h *host) {
	c.t.Helper()
	if h.plane == nil {
		return
	}
	c.net.crash(h.id)
	for _, p := range c.servers {
		if p.wire != nil && p != h {
			p.wire.Disconnect(h.wire.LocalAddr())
		}
	}
	h.wire.DisconnectAll()
	plane := h.plane
	h.plane, h.wire = nil, nil
	h.opened.Store(nil)
	c.ending.Go(func() { _ = plane.Node.Close() })
}

// ended waits for the end of a server that was crashed.
func (c *cluster) ended(h *host) {
	c.t.Helper()
	if h.result == nil {
		return
	}
	var fault *raftnode.FaultError
	if err := <-h.result; err != nil && !errors.As(err, &fault) && !errors.Is(err, raftnode.ErrClosed) {
		require.NoError(c.t, err, "%s ended", h.id)
	}
	h.cancel()
	h.result = nil
}

// gaveUp says whether the server has ended itself, as one does that must not go on.
func (h *host) gaveUp() bool { return h.plane != nil && len(h.result) > 0 }

// restart starts a server that was crashed or ended itself.
func (c *cluster) restart(h *host) {
	c.t.Helper()
	if h.gaveUp() {
		c.crash(h)
	}
	if h.plane == nil {
		c.ended(h)
		c.start(h)
	}
}

func (c *cluster) stop() {
	c.t.Helper()
	c.net.heal()
	for _, w := range c.nodes {
		w.cancel()
	}
	for _, w := range c.nodes {
		w.wait()
	}
	for _, cl := range c.clients {
		cl.Close()
	}
	for _, h := range c.servers {
		c.crash(h)
		c.ended(h)
	}
	c.ending.Wait()
}

// running are the servers that are up.
func (c *cluster) running() []*host {
	var up []*host
	for _, h := range c.servers {
		if h.plane != nil && !h.gaveUp() {
			up = append(up, h)
		}
	}
	return up
}

// leading is the server that leads in the newest term, nil for none.
func (c *cluster) leading() *host {
	var leader *host
	var newest uint64
	for _, h := range c.running() {
		if l := h.node().Leadership(); l.Leading && l.Term > newest {
			leader, newest = h, l.Term
		}
	}
	return leader
}

// eventually waits until the condition holds.
func (c *cluster) eventually(what string, condition func() bool) {
	c.t.Helper()
	c.within(waitLimit, what, condition)
}

func (c *cluster) within(limit time.Duration, what string, condition func() bool) {
	c.t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(pollPeriod) {
		if c.supervise != nil {
			c.supervise()
		}
		if !time.Now().Before(end) {
			c.t.Fatalf("%v after the beginning, after waiting for %v, it is still not so that %s\n%s", c.now(), limit, what, c.describe())
		}
	}
}

// describe shows how everything stands, for failures.
func (c *cluster) describe() string {
	text := fmt.Sprintf("seed %d", c.seed)
	for _, h := range c.servers {
		if h.plane == nil {
			text += fmt.Sprintf("\n%s is down", h.id)
			continue
		}
		l := h.node().Leadership()
		text += fmt.Sprintf("\n%s: term %d leading %t leader %s applied %d", h.id, l.Term, l.Leading, l.LeaderID, h.node().AppliedIndex())
	}
	for _, w := range c.nodes {
		s := w.node.Status()
		text += fmt.Sprintf("\n%s: %v gate %v session %+v dispatchers %d", w.name, s.Incarnation, s.Lease.State, s.Session, len(s.Dispatchers))
	}
	if h := c.leading(); h != nil {
		for row := range h.view().Dispatchers() {
			text += fmt.Sprintf("\n%+v", row)
		}
		for feed := range h.view().Changefeeds() {
			text += fmt.Sprintf("\n%s: %v watermark %v %s", feed.Name, feed.Status, feed.Watermark, feed.Detail)
			for b := range h.view().Barriers(feed.ID) {
				text += fmt.Sprintf("\n%v: %v %q permission %d of %d", b.Key, b.Status, b.Spec.Statement, b.Permission, b.Writer)
			}
		}
	}
	return text
}

func (h *host) view() *fsm.View {
	if v, _, ok := h.node().Local(); ok {
		return v
	}
	return fsm.New().View()
}

// ready waits until a leader has begun the cluster and knows how every server is called.
func (c *cluster) ready() *host {
	c.t.Helper()
	var leader *host
	c.eventually("a leader leads a cluster that has begun", func() bool {
		if leader = c.leading(); leader == nil {
			return false
		}
		view, known := leader.view(), 0
		for range view.Servers() {
			known++
		}
		return view.Meta().Generation != 0 && view.Meta().Term == leader.node().Leadership().Term && known == len(c.servers)
	})
	return leader
}

// attached waits until every node that runs may write and has a session, and every server has caught up.
func (c *cluster) attached() *host {
	c.t.Helper()
	var leader *host
	c.eventually("every node has a session with the leader", func() bool {
		if leader = c.leading(); leader == nil || len(c.running()) != len(c.servers) {
			return false
		}
		for _, h := range c.servers {
			if h.node().Leadership().LeaderID != fsm.ServerID(leader.id) {
				return false
			}
		}
		for _, w := range c.alive() {
			if s := w.node.Status(); s.Lease.State != fence.Open || !c.hasSession(leader, s.Incarnation) {
				return false
			}
		}
		return true
	})
	return leader
}

// hasSession says whether the leader has heard the incarnation and named it in its term.
func (c *cluster) hasSession(leader *host, inc fsm.Incarnation) bool {
	for _, l := range leader.plane.Leader.Leases() {
		if l.Incarnation == inc {
			return l.Heard && l.Named
		}
	}
	return false
}

// settled waits until all servers have applied the same, and compares their states.
func (c *cluster) settled() {
	c.t.Helper()
	c.eventually("all servers have the same state at the same index", func() bool {
		index, equal := c.servers[0].node().AppliedIndex(), 0
		want, known := c.servers[0].node().HashAt(index)
		for _, h := range c.servers {
			if got, ok := h.node().HashAt(index); known && ok {
				require.Equal(c.t, want, got, "state of %s at index %d, seed %d", h.id, index, c.seed)
				equal++
			}
		}
		return equal == len(c.servers)
	})
	for _, h := range c.servers {
		require.NoError(c.t, h.view().CheckInvariants(), "%s, seed %d", h.id, c.seed)
	}
}

func logger(name string) hclog.Logger {
	if *logFlag == "" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.LevelFromString(*logFlag)})
}
