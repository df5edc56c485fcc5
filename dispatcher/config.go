package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Dialer reaches the leader. Each call finds it anew and returns when its context ends, whatever the servers do.
// Implementations must be safe for concurrent use.
type Dialer interface {
	// Register asks for an incarnation. It may be called again after an error, also if its outcome is unknown.
	Register(ctx context.Context, r session.Registration) (session.Registered, error)
	// Open starts a session and sends the Hello. The context limits the opening alone: the stream lives until its Close.
	Open(ctx context.Context, h session.Hello) (session.NodeStream, error)
	// Goodbye ends an incarnation; it is called once a planned stop, and retries inside until the context ends.
	Goodbye(ctx context.Context, g fsm.Goodbye) error
}

// LockIdentity names the lock that a process holds until it exits: by it a later process proves that this one is gone.
// The zero value proves nothing.
type LockIdentity struct {
	BootID        string
	Device, Inode uint64
}

// Config describes a node.
type Config struct {
	Node fsm.NodeName
	// Cluster is the id of the cluster to join; empty takes whatever the servers have.
	Cluster string
	// Address is shown to people.
	Address string
	Lock    LockIdentity
	Dialer  Dialer
	// Sources and Sinks give the implementation for a URI. They are called for each dispatcher and must be safe for
	// concurrent use.
	Sources func(uri string) (Source, error)
	Sinks   func(uri string) (Sink, error)
	Clock   clock.Clock
	Timers  clock.Timers
	// Timing asks for a lease; the one that the registration's answer names is used.
	Timing fence.Timing
	Limits Limits
	Logger hclog.Logger // nil: silent
	// Ledger hears of every edge of the gate and of every call to a sink; nil: nobody does.
	Ledger Ledger
	// Wall is the wall clock in Unix milliseconds, for lag figures only.
	Wall func() int64
	// Reason gives the stable code of a Dialer's error, empty if it has none. Nil: no error has one.
	Reason func(error) string
	// WaitForName is how long the first registration waits for a name that is live, as it is for a lease after a crash.
	// Then it ends Run, and zero at once: another process has the name.
	WaitForName time.Duration
	// Abort is called when a write path does not return within Limits.CloseBound of the closing of the gate. It has to
	// end the process. Nil: the dispatcher's range stays closed on this node until its sink returns.
	Abort func(reason string)
}

// Limits bounds what a node does at once. Zero fields take the value of DefaultLimits.
type Limits struct {
	// ConcurrentStarts is how many dispatchers are built at once; one that takes longer than StartPatience no longer
	// counts, so that a hanging sink delays nobody for long.
	ConcurrentStarts int
	StartPatience    time.Duration
	// StartTimeout ends the building of a dispatcher.
	StartTimeout time.Duration
	// BatchRows and BatchDelay end the gathering of a batch, which always holds whole transactions. ProgressDelay does so
	// for transactions without changes.
	BatchRows     int
	BatchDelay    time.Duration
	ProgressDelay time.Duration
	// Retries is how often a dispatcher repeats what its sink refuses with an error that may heal, before it stops.
	Retries int
	// BackoffMin and BackoffMax bound the waits before what is repeated.
	BackoffMin, BackoffMax time.Duration
	// StopGrace is how long a call to a sink may go on after a stop was ordered before it is cancelled.
	StopGrace time.Duration
	// LastWord is how long a dispatcher that is over waits for the answer to what it said of an event that it was to write.
	LastWord time.Duration
	// StopDeadline is how long a planned stop waits for everything to be closed.
	StopDeadline time.Duration
	// CloseBound is how long after the closing of the gate a write path may take to return.
	CloseBound time.Duration
	// RegisterTimeout and GoodbyeTimeout limit those calls.
	RegisterTimeout, GoodbyeTimeout time.Duration
	// ReportRepeat is how long a report waits for its acknowledgement before it is sent again.
	ReportRepeat time.Duration
}

// DefaultLimits suits a node with up to some thousands of dispatchers.
func DefaultLimits() Limits {
	return Limits{
		ConcurrentStarts: 16, StartPatience: 2 * time.Second, StartTimeout: 30 * time.Second,
		BatchRows: 500, BatchDelay: 20 * time.Millisecond, ProgressDelay: time.Second,
		Retries: 5, BackoffMin: 50 * time.Millisecond, BackoffMax: time.Second,
		StopGrace: time.Second, LastWord: 2 * time.Second, StopDeadline: 10 * time.Second, CloseBound: 10 * time.Second,
		RegisterTimeout: 5 * time.Second, GoodbyeTimeout: 5 * time.Second,
		ReportRepeat: 500 * time.Millisecond,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		ConcurrentStarts: cmp.Or(l.ConcurrentStarts, d.ConcurrentStarts),
		StartPatience:    cmp.Or(l.StartPatience, d.StartPatience),
		StartTimeout:     cmp.Or(l.StartTimeout, d.StartTimeout),
		BatchRows:        cmp.Or(l.BatchRows, d.BatchRows),
		BatchDelay:       cmp.Or(l.BatchDelay, d.BatchDelay),
		ProgressDelay:    cmp.Or(l.ProgressDelay, d.ProgressDelay),
		Retries:          cmp.Or(l.Retries, d.Retries),
		BackoffMin:       cmp.Or(l.BackoffMin, d.BackoffMin),
		BackoffMax:       cmp.Or(l.BackoffMax, d.BackoffMax),
		StopGrace:        cmp.Or(l.StopGrace, d.StopGrace),
		LastWord:         cmp.Or(l.LastWord, d.LastWord),
		StopDeadline:     cmp.Or(l.StopDeadline, d.StopDeadline),
		CloseBound:       cmp.Or(l.CloseBound, d.CloseBound),
		RegisterTimeout:  cmp.Or(l.RegisterTimeout, d.RegisterTimeout),
		GoodbyeTimeout:   cmp.Or(l.GoodbyeTimeout, d.GoodbyeTimeout),
		ReportRepeat:     cmp.Or(l.ReportRepeat, d.ReportRepeat),
	}
}

// validate names the first thing that is missing or out of range, and what to set.
func (c *Config) validate() error {
	for _, m := range []struct {
		missing bool
		what    string
	}{
		{c.Node == "", "Node, the lasting name of this worker"},
		{c.Dialer == nil, "Dialer"},
		{c.Sources == nil, "Sources"},
		{c.Sinks == nil, "Sinks"},
		{c.Clock == nil, "Clock"},
		{c.Timers == nil, "Timers"},
		{c.Wall == nil, "Wall"},
	} {
		if m.missing {
			return fmt.Errorf("configure node: %s is not set; set it", m.what)
		}
	}
	if err := c.Timing.Validate(); err != nil {
		return fmt.Errorf("configure node %s: %w", c.Node, err)
	}
	return c.Limits.validate()
}

func (l Limits) validate() error {
	for _, p := range []struct {
		name  string
		value int64
	}{
		{"ConcurrentStarts", int64(l.ConcurrentStarts)},
		{"StartPatience", int64(l.StartPatience)},
		{"StartTimeout", int64(l.StartTimeout)},
		{"BatchRows", int64(l.BatchRows)},
		{"BatchDelay", int64(l.BatchDelay)},
		{"ProgressDelay", int64(l.ProgressDelay)},
		{"Retries", int64(l.Retries)},
		{"BackoffMin", int64(l.BackoffMin)},
		{"BackoffMax", int64(l.BackoffMax)},
		{"StopGrace", int64(l.StopGrace)},
		{"LastWord", int64(l.LastWord)},
		{"StopDeadline", int64(l.StopDeadline)},
		{"CloseBound", int64(l.CloseBound)},
		{"RegisterTimeout", int64(l.RegisterTimeout)},
		{"GoodbyeTimeout", int64(l.GoodbyeTimeout)},
		{"ReportRepeat", int64(l.ReportRepeat)},
	} {
		if p.value < 0 {
			return fmt.Errorf("configure node: Limits.%s is %d; set it above zero, or to zero for the default", p.name, p.value)
		}
	}
	return nil
}
