package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fence/clock"
)

// Config is what a Client is made of. Zero fields take their defaults.
type Config struct {
	// Addresses of servers, host:port; at least one.
	Addresses []string
	// Credentials secure the connections; nil: plain text.
	Credentials credentials.TransportCredentials
	// Timers make the waits between tries; default: the system's.
	Timers clock.Timers
	// By names who asks, for display.
	By string
	// Try is how long one server is given to answer before the next one is asked; default 1 s. It should be well under
	// the deadline of calls.
	Try time.Duration
	// OpenTry is the same for the opening of a node session; default 200 ms.
	OpenTry time.Duration
	// Call bounds calls whose context has no deadline; default 15 s.
	Call time.Duration
	// BackoffMin and BackoffMax bound the wait after a round in which no server could answer; default 25 ms and 500 ms.
	BackoffMin, BackoffMax time.Duration
	// NewID makes request ids, at most 58 bytes; default: 130 random bits.
	NewID func() string
	// Dial opens the byte stream; default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.Try, time.Second)
	set(&c.OpenTry, 200*time.Millisecond)
	set(&c.Call, 15*time.Second)
	set(&c.BackoffMin, 25*time.Millisecond)
	set(&c.BackoffMax, 500*time.Millisecond)
	if c.Timers == nil {
		c.Timers = clock.SystemTimers{}
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	return c
}

// Validate says what is wrong.
func (c *Config) Validate() error {
	if len(c.Addresses) == 0 {
		return errors.New("client configuration: no server address is given")
	}
	for _, a := range c.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return errors.New("client configuration: server address " + a + " is not HOST:PORT")
		}
	}
	if c.Try < 0 || c.OpenTry < 0 || c.Call < 0 || c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin {
		return errors.New("client configuration: a time limit is negative, or the longest back-off is below the shortest")
	}
	return nil
}

// Client calls the servers of one cluster. It is safe for concurrent use.
//
// Every method returns an *[Error] if it fails. Its class says what that means.
type Client struct {
	config Config
	conns  *conns.Pool
	finder *finder
	// logTime is the newest log time that an answer told, plus one; zero: none has yet.
	logTime atomic.Uint64

	changefeeds weirv1.ChangefeedsClient
	tables      weirv1.TablesClient
	dispatchers weirv1.DispatchersClient
	operators   weirv1.OperatorsClient
	nodes       weirv1.NodesClient
	cluster     weirv1.ClusterClient
	barriers    weirv1.BarriersClient
	explain     weirv1.ExplainClient
	sessions    weirv1.NodeSessionClient
}

// New makes a client; it connects when it is first used.
func New(config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c := &Client{
		config: config, finder: newFinder(config.Addresses),
		conns: conns.New(conns.Config{Credentials: config.Credentials, Dial: config.Dial}),
	}
	caller := caller{client: c}
	c.changefeeds = weirv1.NewChangefeedsClient(caller)
	c.tables = weirv1.NewTablesClient(caller)
	c.dispatchers = weirv1.NewDispatchersClient(caller)
	c.operators = weirv1.NewOperatorsClient(caller)
	c.nodes = weirv1.NewNodesClient(caller)
	c.cluster = weirv1.NewClusterClient(caller)
	c.barriers = weirv1.NewBarriersClient(caller)
	c.explain = weirv1.NewExplainClient(caller)
	c.sessions = weirv1.NewNodeSessionClient(caller)
	return c, nil
}

// Close closes the connections. Calls under way fail.
func (c *Client) Close() { c.conns.Close() }
