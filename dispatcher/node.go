package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Node is a worker process's part of the cluster: it registers, keeps a session with the leader, and runs the
// dispatchers that it is ordered to run, incarnation after incarnation.
type Node struct {
	cfg    Config
	log    hclog.Logger
	ranges *ranges
	starts chan struct{} // one token for each dispatcher that may be built
	work   sync.WaitGroup

	mu         sync.Mutex
	life       *life          // the newest incarnation; nil before the first
	generation fsm.Generation // the highest seen anywhere
	counters   Counters
}

// New returns a node that does nothing until Run.
func New(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Node{
		cfg: cfg, log: cfg.Logger.Named("node").With("node", string(cfg.Node)), ranges: newRanges(),
		starts: make(chan struct{}, cfg.Limits.ConcurrentStarts),
	}, nil
}

// Run keeps the node alive until ctx ends, which is a planned stop: nothing new is started, everything is closed within
// Limits.StopDeadline, and a goodbye with all positions hands the work over without waiting for the lease. It returns
// nil when the goodbye was accepted or nothing was left to say it for, and an error when the cluster refuses this node for a
// reason that waiting does not heal, when a sink has not returned in time, or when the goodbye did not get through; the
// work then moves when the lease is over.
func (n *Node) Run(ctx context.Context) error {
	short := 0 // incarnations in a row that ended before their gate was ever open
	for first := true; ; first = false {
		reg, err := n.register(ctx, first, short)
		if ctx.Err() != nil {
			return n.await(nil)
		}
		if err != nil {
			return errors.Join(err, n.await(nil))
		}
		l, err := newLife(n, reg)
		if err != nil {
			return errors.Join(fmt.Errorf("start incarnation %v: %w", reg.Incarnation, err), n.await(nil))
		}
		n.mu.Lock()
		n.life = l
		n.mu.Unlock()
		planned := l.run(ctx)
		if planned {
			return n.farewell(ctx, l)
		}
		if ctx.Err() != nil {
			return n.await(nil)
		}
		short++
		if l.gate.State().Opening > 0 {
			short = 0
		}
		n.log.Warn("incarnation ended; everything is dropped and the node registers anew",
			"incarnation", reg.Incarnation.String(), "reason", l.gate.State().Reason.String())
	}
}

// register asks for an incarnation until it gets one, the context ends, or the answer cannot change.
func (n *Node) register(ctx context.Context, first bool, attempt int) (session.Registered, error) {
	began := n.elapsed()
	for {
		if attempt > 0 {
			wait := backoff(string(n.cfg.Node), attempt, n.cfg.Limits.BackoffMin, n.cfg.Limits.BackoffMax)
			if err := clock.Sleep(ctx, n.cfg.Timers, wait); err != nil {
				return session.Registered{}, err
			}
		}
		attempt++
		call, cancel := context.WithTimeout(ctx, n.cfg.Limits.RegisterTimeout)
		reg, err := n.cfg.Dialer.Register(call, n.registration())
		cancel()
		if err == nil {
			n.seen(reg.Incarnation.Generation())
			return reg, nil
		}
		if ctx.Err() != nil {
			return session.Registered{}, context.Cause(ctx)
		}
		if n.permanent(err, first && n.elapsed()-began >= n.cfg.WaitForName) {
			return session.Registered{}, fmt.Errorf("register node %s: %w", n.cfg.Node, err)
		}
		n.log.Warn("registration refused; trying again", "attempt", attempt, "error", err)
	}
}

// registration proves by the lock that the old incarnation is gone only when nothing of one is left in this process: a
// closer that has not returned is as alive as another process.
func (n *Node) registration() session.Registration {
	r := session.Registration{
		Cluster: n.cfg.Cluster, Node: n.cfg.Node, Address: n.cfg.Address,
		LeaseMS: uint32(n.cfg.Timing.Lease.Milliseconds()), ClockClass: uint8(clock.ClassOf(n.cfg.Clock)),
		Protocol: session.Protocol, HighestGeneration: n.highest(),
	}
	if n.ranges.len() == 0 {
		r.BootID, r.LockDevice, r.LockInode = n.cfg.Lock.BootID, n.cfg.Lock.Device, n.cfg.Lock.Inode
	}
	return r
}

// Codes of refusals that the node knows. They are the state machine's and the session's.
const (
	codeStaleIncarnation = "STALE_INCARNATION"
	codeNodeExpired      = "NODE_EXPIRED"
	codeNodeFenced       = "NODE_FENCED"
	codeNodeLive         = "NODE_LIVE"
	codeWrongCluster     = "WRONG_CLUSTER"
	codeMalformed        = "MALFORMED"
)

func (n *Node) reason(err error) string {
	if err == nil || n.cfg.Reason == nil {
		return ""
	}
	return n.cfg.Reason(err)
}

// permanent: waiting does not change the answer. A name that is live becomes free, unless another process holds it, which
// is what a wait that was long enough shows.
func (n *Node) permanent(err error, waited bool) bool {
	switch n.reason(err) {
	case codeWrongCluster, codeMalformed:
		return true
	case codeNodeLive:
		return waited
	default:
		return false
	}
}

// farewell says goodbye for an incarnation that has been stopped as planned, once nothing of it is left.
func (n *Node) farewell(ctx context.Context, l *life) error {
	held, left := l.remains()
	if left > 0 {
		return n.await(fmt.Errorf("stop node %s: the sinks of %d dispatchers have not returned within %v, so no goodbye is "+
			"said; their work moves when the lease of incarnation %v is over", n.cfg.Node, left, n.cfg.Limits.StopDeadline, l.inc))
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.Limits.GoodbyeTimeout)
	defer cancel()
	err := n.cfg.Dialer.Goodbye(call, fsm.Goodbye{Node: n.cfg.Node, Incarnation: l.inc, Stopped: held})
	switch code := n.reason(err); {
	case err == nil:
	case code == codeStaleIncarnation || code == codeNodeExpired:
		n.log.Info("the incarnation had ended before its goodbye; its work has moved", "reason", code)
		err = nil
	default:
		err = fmt.Errorf("say goodbye for node %s: %w; its work moves when the lease of incarnation %v is over",
			n.cfg.Node, err, l.inc)
	}
	return n.await(err)
}

// await waits for every dispatcher of every incarnation to return, within the stop deadline.
func (n *Node) await(err error) error {
	gone := make(chan struct{})
	go func() {
		n.work.Wait()
		close(gone)
	}()
	timer := n.cfg.Timers.NewTimer(n.cfg.Limits.StopDeadline)
	defer timer.Stop()
	select {
	case <-gone:
		return err
	case <-timer.C():
		return errors.Join(err, fmt.Errorf("stop node %s: %d sinks have not returned; end the process to be rid of them",
			n.cfg.Node, n.ranges.len()))
	}
}

// seen notes a generation that some part of the cluster has reached.
func (n *Node) seen(g fsm.Generation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.generation = max(n.generation, g)
}

func (n *Node) highest() fsm.Generation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.generation
}

func (n *Node) count(add func(c *Counters)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	add(&n.counters)
}

// abort ends the process, if the wiring can.
func (n *Node) abort(reason string) {
	n.log.Error("a write path does not return", "reason", reason)
	if n.cfg.Abort != nil {
		n.cfg.Abort(reason)
	}
}

// elapsed is the time since the origin of the node's clock, for pacing.
func (n *Node) elapsed() time.Duration { return n.cfg.Clock.Now().Boot }
