package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/fence/clock"
)

// GateConfig joins a lease with its clock.
type GateConfig struct {
	Lease  LeaseConfig
	Clock  clock.Clock
	Timers clock.Timers
	// OnEdge, if set, hears every edge in order, for ledgers and metrics. It is called with the gate's lock held: it must
	// return soon and must not call the gate.
	OnEdge func(Edge)
}

// EdgeKind is what happened to a gate.
type EdgeKind uint8

const (
	// EdgeOpened: writes may start; claims at sinks have to be made anew.
	EdgeOpened EdgeKind = iota + 1
	// EdgeClosed: the deadline passed and what was in flight has been cancelled.
	EdgeClosed
	// EdgeFenced: closed for good.
	EdgeFenced
)

// String names the edge.
func (k EdgeKind) String() string {
	switch k {
	case EdgeOpened:
		return "opened"
	case EdgeClosed:
		return "closed"
	case EdgeFenced:
		return "fenced"
	default:
		return fmt.Sprintf("edge(%d)", uint8(k))
	}
}

// Edge is one opening or closing of a gate.
type Edge struct {
	Kind        EdgeKind
	Incarnation uint64
	Opening     uint64
	Reason      Reason
	// At is when the gate noticed.
	At clock.Reading
	// Deadline is where the lease stood: of a closing, no write started after it however late At is.
	Deadline clock.Reading
}

// Gate is the node's write gate: a Lease, the clock it is measured with, and the cancelling of what is in flight when
// the lease ends. Writes rely on Allow alone, which compares the clocks itself; the goroutine in Run only cancels. All
// methods are safe for concurrent use.
type Gate struct {
	lease  *Lease
	clock  clock.Clock
	timers clock.Timers
	onEdge func(Edge)

	mu      sync.Mutex
	open    bool                         // an opening whose closing has not been announced
	fenced  bool                         // EdgeFenced has been announced
	nextID  uint64                       // of bound
	bound   map[uint64]func(cause error) // cancels what runs under the current opening
	changed chan struct{}                // closed and replaced at every edge
	rearm   chan struct{}                // tells Run that the deadline moved to where it had none
}

// NewGate returns a closed gate. Run must be running for writes in flight to be cancelled.
func NewGate(cfg GateConfig) (*Gate, error) {
	lease, err := NewLease(cfg.Lease)
	if err != nil {
		return nil, err
	}
	if cfg.Clock == nil || cfg.Timers == nil {
		return nil, &SettingError{CodeNoClock, "Clock", "a gate needs a clock and timers; pass both"}
	}
	if class := clock.ClassOf(cfg.Clock); class.Drift() > cfg.Lease.Class.Drift() {
		return nil, &SettingError{CodeUnknownClass, "Class", "the clock (" + class.String() +
			") drifts more than the class recorded at registration (" + cfg.Lease.Class.String() + ") allows; register with " +
			class.String()}
	}
	return &Gate{
		lease: lease, clock: cfg.Clock, timers: cfg.Timers, onEdge: cfg.OnEdge,
		bound: make(map[uint64]func(error)), changed: make(chan struct{}), rearm: make(chan struct{}, 1),
	}, nil
}

// Allow returns nil if a write that takes effect within w may start now. It reads the clocks itself and must be the last
// thing before the sink, in the same call. W is zero for a sink that checks tokens. Errors are those of [Lease.Check]; a
// refused or granted write allocates nothing.
func (g *Gate) Allow(w time.Duration) error { return g.lease.Check(g.clock.Now(), w) }

// AllowIn is Allow for a writer whose claim at the sink was made under the given opening, see [Lease.CheckIn].
func (g *Gate) AllowIn(opening uint64, w time.Duration) error {
	return g.lease.CheckIn(opening, g.clock.Now(), w)
}

// Send issues the next heartbeat and records the present as its time, see [Lease.Send].
func (g *Gate) Send() (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	seq, err := g.lease.Send(now)
	if err != nil {
		g.settle(now)
	}
	return seq, err
}

// Acked takes an ack that has just been received. When the lease was over in between, everything bound to the earlier
// opening is cancelled before the gate opens, also if nobody had noticed.
func (g *Gate) Acked(ack Ack) AckResult {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	before := g.lease.window.Load()
	result := g.lease.Acked(ack, now)
	switch result {
	case AckOpened:
		g.announceClosed(now, before, ReasonLapsed)
		g.announceOpened(now)
	case AckStalled:
		g.settle(now)
	case AckExtended, AckLate, AckOld, AckOldTerm, AckForeign, AckFenced:
	}
	return result
}

// SawTerm notes that a leader of the term exists: acks of older terms no longer count.
func (g *Gate) SawTerm(term uint64) { g.lease.SawTerm(term) }

// Fence closes the gate for good and cancels what is in flight. The first reason stays.
func (g *Gate) Fence(reason Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lease.Fence(reason)
	g.settle(g.clock.Now())
}

// State describes the lease at present.
func (g *Gate) State() Status { return g.lease.State(g.clock.Now()) }

// Incarnation is the one this gate belongs to.
func (g *Gate) Incarnation() uint64 { return g.lease.Incarnation() }

// Bind derives a context that is cancelled when the gate closes, with the refusal as its cause. It belongs to the
// present opening, whose number it returns for AllowIn: a later opening does not revive it. The error is that of Allow.
// The release function must be called when the work is over.
func (g *Gate) Bind(parent context.Context) (ctx context.Context, opening uint64, release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	opening = g.lease.Opening()
	if err := g.lease.CheckIn(opening, g.clock.Now(), 0); err != nil {
		return nil, 0, nil, err
	}
	ctx, cancel := context.WithCancelCause(parent)
	id := g.nextID
	g.nextID++
	g.bound[id] = cancel
	return ctx, opening, func() { g.release(id) }, nil
}

func (g *Gate) release(id uint64) {
	g.mu.Lock()
	cancel := g.bound[id]
	delete(g.bound, id)
	g.mu.Unlock()
	if cancel != nil {
		cancel(context.Canceled)
	}
}

// InFlight is how many bound contexts have neither been released nor cancelled.
func (g *Gate) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.bound)
}

// WaitOpen returns the number of the opening as soon as writes may start. Its error is ErrFenced, after which the gate
// never opens again, or the cause of the context's end.
func (g *Gate) WaitOpen(ctx context.Context) (uint64, error) {
	for {
		g.mu.Lock()
		changed, opening := g.changed, g.lease.Opening()
		err := g.lease.CheckIn(opening, g.clock.Now(), 0)
		g.mu.Unlock()
		if err == nil {
			return opening, nil
		}
		if errors.Is(err, ErrFenced) {
			return 0, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Run cancels what is in flight when the deadline passes, until the context ends; then it fences the gate with
// ReasonShutdown, so end it last. It does no I/O and waits for nobody. It returns nil.
//
// Timers run on a clock of their own, so every wake-up looks at the lease's clock, and no sleep is longer than a quarter
// of the lease: after a suspend, or when the two clocks disagree, the closing is noticed within that.
func (g *Gate) Run(ctx context.Context) error {
	longest := g.lease.cfg.Lease / 4
	timer := g.timers.NewTimer(longest)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			g.Fence(ReasonShutdown)
			return nil
		case <-g.rearm:
		case <-timer.C():
		}
		timer.Reset(min(longest, g.closeIfOver(longest)))
	}
}

// closeIfOver closes an open gate whose deadline has passed. It returns when to look again.
func (g *Gate) closeIfOver(idle time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	g.settle(now)
	if !g.open {
		return idle
	}
	return max(g.lease.Remaining(now), time.Nanosecond)
}

// settle announces the closing or the fencing that the lease shows and that has not been announced.
func (g *Gate) settle(now clock.Reading) {
	s := g.lease.State(now)
	win := g.lease.window.Load()
	switch s.State {
	case Fenced:
		g.announceFenced(now, win, s.Reason)
	case Closed:
		g.announceClosed(now, win, s.Reason)
	case Open:
	}
}

func (g *Gate) announceOpened(now clock.Reading) {
	win := g.lease.window.Load()
	g.open = true
	g.edge(Edge{Kind: EdgeOpened, Opening: win.opening, Reason: ReasonNone, At: now, Deadline: win.deadline})
	select {
	case g.rearm <- struct{}{}:
	default:
	}
}

func (g *Gate) announceClosed(now clock.Reading, win *window, reason Reason) {
	if !g.open {
		return
	}
	g.open = false
	g.cancelBound(ErrLapsed)
	g.edge(Edge{Kind: EdgeClosed, Opening: win.opening, Reason: reason, At: now, Deadline: win.deadline})
}

func (g *Gate) announceFenced(now clock.Reading, win *window, reason Reason) {
	if g.fenced {
		return
	}
	g.fenced, g.open = true, false
	g.cancelBound(ErrFenced)
	g.edge(Edge{Kind: EdgeFenced, Opening: win.opening, Reason: reason, At: now, Deadline: win.deadline})
}

func (g *Gate) cancelBound(cause error) {
	for _, cancel := range g.bound {
		cancel(cause)
	}
	clear(g.bound)
}

func (g *Gate) edge(e Edge) {
	e.Incarnation = g.lease.cfg.Incarnation
	close(g.changed)
	g.changed = make(chan struct{})
	if g.onEdge != nil {
		g.onEdge(e)
	}
}
