package apitest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// ClusterID is the id of every cluster of this package.
const ClusterID = "test-cluster"

// Cluster is a few servers over one log.
type Cluster struct {
	tb  testing.TB
	Log *Log

	mu      sync.Mutex // guards what follows
	servers map[string]*Server
	down    map[string]bool // refuses connections
	mute    map[string]bool // accepts and never answers
}

// Server is one server of a cluster.
type Server struct {
	*Replica
	API      *server.Server
	Address  string
	listener *bufconn.Listener
	cancel   context.CancelFunc
	done     chan error
}

// Address is where the server with the id listens.
func Address(id fsm.ServerID) string { return string(id) + ":7000" }

// Option changes a server's configuration before it is made.
type Option func(*server.Config)

// New starts servers s1, s2, ... of which s1 leads, over a log that has begun. They stop when the test ends.
func New(tb testing.TB, servers int, options ...Option) *Cluster {
	tb.Helper()
	c := &Cluster{
		tb: tb, Log: NewLog(), servers: map[string]*Server{}, down: map[string]bool{}, mute: map[string]bool{},
	}
	var ids []fsm.ServerID
	for i := range servers {
		ids = append(ids, fsm.ServerID(fmt.Sprintf("s%d", i+1)))
	}
	c.Log.begin(tb, ids)
	for _, id := range ids {
		c.start(id, ids, options)
	}
	c.Lead("s1")
	tb.Cleanup(c.stop)
	return c
}

func (c *Cluster) start(id fsm.ServerID, ids []fsm.ServerID, options []Option) {
	c.tb.Helper()
	s := &Server{
		Replica: &Replica{id: id, log: c.Log, members: ids, contact: true}, Address: Address(id),
		listener: bufconn.Listen(1 << 16), done: make(chan error, 1),
	}
	config := server.Config{
		ID: id, Listener: s.listener, Proposer: s.Replica, Reader: s.Replica, Leader: s.Replica, Contact: s.Replica,
		Replica: s.Replica, Sessions: s.Replica, Soft: s.Replica, History: s.Replica, Timers: clock.SystemTimers{},
		Logger: hclog.NewNullLogger(), Wall: func() int64 { return 1 }, PeerDial: c.Dial,
		Tick: 100 * time.Millisecond, Heartbeat: 250 * time.Millisecond,
	}
	for _, o := range options {
		o(&config)
	}
	api, err := server.New(config)
	require.NoError(c.tb, err)
	s.API = api
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.done <- api.Run(ctx) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[s.Address] = s
}

func (c *Cluster) stop() {
	for _, s := range c.servers {
		s.cancel()
	}
	for _, s := range c.servers {
		require.NoError(c.tb, <-s.done)
	}
}

// Stop stops one server as planned and returns what Run returned.
func (c *Cluster) Stop(id fsm.ServerID) error {
	s := c.Server(id)
	s.cancel()
	err := <-s.done
	s.done <- err
	return err
}

// Server returns the server with the id.
func (c *Cluster) Server(id fsm.ServerID) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[Address(id)]
}

// Lead makes the server lead a new term, which begins at once; every other server knows.
func (c *Cluster) Lead(id fsm.ServerID) {
	c.Log.beginTerm(c.tb, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.Believe(id)
	}
}

// NoLeader leaves everybody without a leader.
func (c *Cluster) NoLeader() { c.each(func(s *Server) { s.Believe("") }) }

func (c *Cluster) each(f func(*Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		f(s)
	}
}

// Down makes a server refuse connections, or take them again. Those that stand are not touched.
func (c *Cluster) Down(id fsm.ServerID, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[Address(id)] = down
}

// Mute makes a server accept connections and never answer on them.
func (c *Cluster) Mute(id fsm.ServerID, mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute[Address(id)] = mute
}

// Dial connects to a server of the cluster.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	s, down, mute := c.servers[address], c.down[address], c.mute[address]
	c.mu.Unlock()
	switch {
	case s == nil || down:
		return nil, fmt.Errorf("dial %s: connection refused", address)
	case mute:
		return newMuteConn(), nil
	default:
		return s.listener.DialContext(ctx)
	}
}

// Client makes a client that knows the addresses of the servers with the ids, in that order; none: all of s1, s2, s3.
func (c *Cluster) Client(ids ...fsm.ServerID) *client.Client {
	c.tb.Helper()
	if len(ids) == 0 {
		ids = c.Log.ids
	}
	config := client.Config{Dial: c.Dial, By: "tester"}
	for _, id := range ids {
		config.Addresses = append(config.Addresses, Address(id))
	}
	return c.ClientWith(config)
}

// ClientWith makes a client of a configuration.
func (c *Cluster) ClientWith(config client.Config) *client.Client {
	c.tb.Helper()
	config.Dial = c.Dial
	cl, err := client.New(config)
	require.NoError(c.tb, err)
	c.tb.Cleanup(cl.Close)
	return cl
}

// Conn connects straight to one server, without the client's care.
func (c *Cluster) Conn(id fsm.ServerID) *grpc.ClientConn {
	c.tb.Helper()
	cc, err := grpc.NewClient("passthrough:///"+Address(id),
		grpc.WithContextDialer(c.Dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(c.tb, err)
	c.tb.Cleanup(func() { _ = cc.Close() })
	return cc
}

// muteConn swallows what is written and never has anything to read, like a process whose disk hangs.
type muteConn struct {
	net.Conn
	far net.Conn
}

func newMuteConn() net.Conn {
	near, far := net.Pipe()
	m := &muteConn{Conn: near, far: far}
	go func() {
		buffer := make([]byte, 4096)
		for {
			if _, err := far.Read(buffer); err != nil {
				return
			}
		}
	}()
	return m
}

// Close implements net.Conn.
func (m *muteConn) Close() error {
	_ = m.far.Close()
	return m.Conn.Close()
}
