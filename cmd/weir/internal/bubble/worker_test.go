package bubble

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// worker is one life of a node's process.
type worker struct {
	c      *cluster
	name   string
	host   string // of this life alone: a dead process must not be heard again when the next one has started
	node   *dispatcher.Node
	api    *client.Client
	clock  *clock.Skewed
	dead   atomic.Bool // killed: nothing of it reaches a sink any more
	aborts atomic.Int32
	cancel context.CancelFunc
	result chan error
	ended  bool            // waited for
	left   bool            // asked to stop
	began  fsm.Incarnation // the first one of a node that was there from the beginning
}

// work starts a node.
func (c *cluster) work(name string) {
	c.t.Helper()
	w := &worker{c: c, name: name, host: fmt.Sprintf("%s.%d", name, len(c.nodes)+1), clock: clock.NewSkewed(clock.NewBubble()), result: make(chan error, 1)}
	w.api = c.loneClient(w.host)
	node, err := dispatcher.New(dispatcher.Config{
		Node: fsm.NodeName(name), Cluster: "bubble", Address: name, Dialer: w.api.NodeDialer(), Reason: client.Reason,
		Sources: func(string) (dispatcher.Source, error) { return source{c.world}, nil },
		Sinks:   func(string) (dispatcher.Sink, error) { return sink{c.world, w}, nil },
		Clock:   w.clock, Timers: clock.SystemTimers{}, Timing: c.timing, Logger: logger(name),
		Wall: func() int64 { return clock.Wall().UnixMilli() }, Abort: func(string) { w.aborts.Add(1) },
		WaitForName: waitLimit,
	})
	require.NoError(c.t, err)
	w.node = node
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go func() { w.result <- node.Run(ctx) }()
	c.nodes = append(c.nodes, w)
}

// kill ends a node as kill -9 does: from this instant on nothing that it does has an effect anywhere.
func (w *worker) kill() {
	w.dead.Store(true)
	w.c.net.crash(w.host)
	w.cancel()
}

// leave stops a node as planned.
func (w *worker) leave() {
	w.left = true
	w.cancel()
}

// alive are the nodes that run.
func (c *cluster) alive() []*worker {
	var out []*worker
	for _, w := range c.nodes {
		if !w.left && !w.dead.Load() {
			out = append(out, w)
		}
	}
	return out
}

// named is the newest life of a node.
func (c *cluster) named(name string) *worker {
	c.t.Helper()
	for _, w := range slices.Backward(c.nodes) {
		if w.name == name {
			return w
		}
	}
	c.t.Fatalf("there is no node %s", name)
	return nil
}

// wait waits for the end of a node that was cancelled or killed. One that was killed, or stopped among faults, may not have
// been able to say goodbye.
func (w *worker) wait() {
	w.c.t.Helper()
	if w.ended {
		return
	}
	w.ended = true
	err := <-w.result
	w.api.Close()
	if !w.dead.Load() && !w.left {
		require.NoError(w.c.t, err, "%s ended, seed %d", w.name, w.c.seed)
	}
}
