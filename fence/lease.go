package fence

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/fence/clock"
)

// maxPending bounds the heartbeats that wait for their acks; the oldest give way. At the shortest sensible period it is
// more than the longest lease holds.
const maxPending = 4096

// DefaultJitter is how much longer than the node's own time the leader's time between two acks may be, beyond drift,
// before the node's clock counts as stalled. The node's time is taken over a span that encloses the leader's, so
// network delay cannot make it too small and the allowance only has to cover rounding.
const DefaultJitter = 10 * time.Millisecond

// LeaseConfig describes one incarnation's lease.
type LeaseConfig struct {
	// Incarnation is the number that registration issued; not zero.
	Incarnation uint64
	// Lease is the duration recorded at registration, the only one a server waits for; never a local setting.
	Lease time.Duration
	// Class is the node's clock class as recorded at registration.
	Class clock.Class
	// Jitter is the allowance of stall detection; zero means DefaultJitter.
	Jitter time.Duration
}

func (c LeaseConfig) validate() error {
	switch {
	case c.Incarnation == 0:
		return &SettingError{CodeNoIncarnation, "Incarnation", "incarnation 0 is not issued; register the node first"}
	case c.Lease <= 0:
		return &SettingError{
			CodeLeaseTooShort, "Lease",
			fmt.Sprintf("lease %v of the registration is not above zero; set a lease and register again", c.Lease),
		}
	case c.Lease > MaxLease:
		return &SettingError{
			CodeLeaseTooLong, "Lease",
			fmt.Sprintf("lease %v of the registration is longer than %v; set a shorter one and register again", c.Lease, MaxLease),
		}
	case !c.Class.Valid():
		return &SettingError{CodeUnknownClass, "Class", fmt.Sprintf("clock class %v is unknown; use boot+raw or monotonic", c.Class)}
	case c.Jitter < 0:
		return &SettingError{CodeNegativeAllowance, "Jitter", fmt.Sprintf("jitter is %v; set it to zero or more", c.Jitter)}
	}
	return nil
}

// Ack is a server's word that a heartbeat counts.
type Ack struct {
	// Incarnation and Seq name the heartbeat.
	Incarnation, Seq uint64
	// Term is that of the leader that acknowledges.
	Term uint64
	// Elapsed is the time on the leader's clock since its previous ack to this incarnation in this term; zero for the
	// first.
	Elapsed time.Duration
	// LeaderClass is the leader's clock class; the zero value counts as the worst.
	LeaderClass clock.Class
}

// window is what a write looks at: immutable, replaced as a whole.
type window struct {
	deadline clock.Reading
	opening  uint64 // counts how often the lease has opened; 0 before the first time
	refusal  error  // nil: compare with the deadline
}

// heartbeat is one that waits for its ack.
type heartbeat struct {
	seq uint64
	at  clock.Reading
}

// Lease is the node's half of the protocol for one incarnation, pure: every method takes the reading it decides by.
// It starts closed. A new process, or a fenced lease, needs a new incarnation and a new Lease.
//
// Check may be called from any number of goroutines and takes no lock. All other methods are safe for concurrent use.
type Lease struct {
	cfg    LeaseConfig
	window atomic.Pointer[window]

	mu       sync.Mutex
	reason   Reason        // why it is fenced; zero while it is not
	term     uint64        // the newest seen
	lastSeq  uint64        // the newest issued
	lastSent clock.Reading // when it was issued
	pending  []heartbeat   // ascending seq, all > acked, none over by more than a lease
	acked    uint64        // the newest acknowledged
	base     ackBase
}

// ackBase is the newest acknowledged heartbeat of a term: the leader's time up to a later ack of that term must fit into
// the node's time since at.
type ackBase struct {
	term uint64
	at   clock.Reading
}

// NewLease returns a closed lease. An error is a *SettingError.
func NewLease(cfg LeaseConfig) (*Lease, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Jitter == 0 {
		cfg.Jitter = DefaultJitter
	}
	l := &Lease{cfg: cfg}
	l.window.Store(&window{refusal: ErrNotYetOpen})
	return l, nil
}

// Send issues the number of the next heartbeat and records now as its time. Now must have been read before any byte of
// the heartbeat leaves; a heartbeat that is repeated keeps its number only if its content is the same bytes. The error is
// ErrFenced: send nothing more under this incarnation. Calls are made in the order of their readings: a clock that went
// back since the last heartbeat fences.
func (l *Lease) Send(now clock.Reading) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lastSeq > 0 && now.Regressed(l.lastSent) {
		l.fence(ReasonClockBack)
	}
	if l.reason != 0 {
		return 0, ErrFenced
	}
	l.lastSeq++
	l.lastSent = now
	l.forgetOver(now)
	l.pending = append(l.pending, heartbeat{seq: l.lastSeq, at: now})
	return l.lastSeq, nil
}

// forgetOver drops heartbeats whose ack could not open anything any more.
func (l *Lease) forgetOver(now clock.Reading) {
	n := 0
	for n < len(l.pending) && clock.MaxElapsed(l.pending[n].at, now) >= l.cfg.Lease {
		n++
	}
	n = max(n, len(l.pending)-maxPending+1)
	if n > 0 {
		l.pending = slices.Delete(l.pending, 0, n)
	}
}

// Acked takes an ack that was received at now and says what it did. The deadline counts from the sending of the
// acknowledged heartbeat; it never moves back. Only the caller that gets AckOpened sees that the lease was closed before:
// what was in flight belongs to the earlier opening.
func (l *Lease) Acked(ack Ack, now clock.Reading) AckResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.admit(ack); r != 0 {
		return r
	}
	if l.stalled(ack, now) {
		l.fence(ReasonClockStall)
		return AckStalled
	}
	sent, known := l.take(ack)
	if !known || clock.MaxElapsed(sent, now) >= l.cfg.Lease {
		return AckLate
	}
	old := l.window.Load()
	next := &window{deadline: sent.Add(l.cfg.Lease), opening: old.opening}
	result := AckExtended
	if old.check(now, 0) != nil {
		next.opening++
		result = AckOpened
	}
	l.window.Store(next)
	return result
}

// admit returns zero for an ack that names the newest heartbeats of this incarnation in the newest term.
func (l *Lease) admit(ack Ack) AckResult {
	switch {
	case l.reason != 0:
		return AckFenced
	case ack.Incarnation != l.cfg.Incarnation || ack.Seq == 0 || ack.Seq > l.lastSeq:
		return AckForeign
	case ack.Term < l.term:
		return AckOldTerm
	}
	l.term = ack.Term
	if ack.Seq <= l.acked {
		return AckOld
	}
	return 0
}

// stalled compares the leader's time between two acks with the node's time from the sending of an earlier heartbeat,
// which came before the first of them, to the receipt of the second, which came after it. The node's span encloses the
// leader's, however long messages take and whichever acks were lost; only a clock that stood still makes it shorter.
func (l *Lease) stalled(ack Ack, now clock.Reading) bool {
	if ack.Elapsed <= 0 || l.base.term != ack.Term {
		return false
	}
	least := clock.ScaleDown(ack.Elapsed, clock.Million-l.cfg.Class.Drift(), clock.Million+ack.LeaderClass.Drift())
	return least > clock.MaxElapsed(l.base.at, now)+l.cfg.Jitter
}

// take removes the acknowledged heartbeat and all before it from the pending ones.
func (l *Lease) take(ack Ack) (clock.Reading, bool) {
	l.acked = ack.Seq
	n := 0
	for n < len(l.pending) && l.pending[n].seq < ack.Seq {
		n++
	}
	known := n < len(l.pending) && l.pending[n].seq == ack.Seq
	if !known {
		l.pending = slices.Delete(l.pending, 0, n)
		return clock.Reading{}, false
	}
	at := l.pending[n].at
	l.pending = slices.Delete(l.pending, 0, n+1)
	l.base = ackBase{term: ack.Term, at: at}
	return at, true
}

// SawTerm notes that a leader of the term exists: acks of older terms no longer count.
func (l *Lease) SawTerm(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = max(l.term, term)
}

// Fence closes the lease for good. The first reason stays; it reports whether it was this call's.
func (l *Lease) Fence(reason Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fence(reason)
}

func (l *Lease) fence(reason Reason) bool {
	if l.reason != 0 {
		return false
	}
	l.reason = reason
	old := l.window.Load()
	l.window.Store(&window{deadline: old.deadline, opening: old.opening, refusal: ErrFenced})
	l.pending = nil
	return true
}

// Check is the test that every write makes itself, as the last thing before the sink: nil if a write that takes effect
// at most w after now is inside the lease. W is zero for a sink that checks tokens. It allocates nothing and takes no
// lock. The error is ErrNotYetOpen, ErrLapsed, ErrMargin or ErrFenced.
func (l *Lease) Check(now clock.Reading, w time.Duration) error {
	return l.window.Load().check(now, w)
}

// CheckIn is Check for a writer whose claim at the sink was made under the given opening: it refuses with ErrReopened
// when the lease was closed since, however short.
func (l *Lease) CheckIn(opening uint64, now clock.Reading, w time.Duration) error {
	win := l.window.Load()
	if err := win.check(now, w); err != nil {
		return err
	}
	if win.opening != opening {
		return ErrReopened
	}
	return nil
}

// check subtracts readings rather than adding w to one: no w can overflow into the past.
func (w *window) check(now clock.Reading, margin time.Duration) error {
	if w.refusal != nil {
		return w.refusal
	}
	left := w.left(now)
	switch {
	case left <= 0:
		return ErrLapsed
	case left <= margin:
		return ErrMargin
	}
	return nil
}

func (w *window) left(now clock.Reading) time.Duration {
	return min(w.deadline.Boot-now.Boot, w.deadline.Raw-now.Raw)
}

// Remaining is the time to the deadline, zero when no write may start.
func (l *Lease) Remaining(now clock.Reading) time.Duration {
	win := l.window.Load()
	if win.refusal != nil {
		return 0
	}
	return max(0, win.left(now))
}

// Opening counts how often the lease has opened; claims at sinks are good for one opening.
func (l *Lease) Opening() uint64 { return l.window.Load().opening }

// Incarnation is the one this lease belongs to.
func (l *Lease) Incarnation() uint64 { return l.cfg.Incarnation }

// Status is what a status page and a heartbeat say about a lease.
type Status struct {
	Incarnation uint64
	State       State
	Reason      Reason
	// Remaining is the time to the deadline; zero unless open.
	Remaining time.Duration
	Lease     time.Duration
	// Opening counts how often the lease has opened.
	Opening uint64
	// Term is the newest leader's that was seen, NewestAck the newest heartbeat acknowledged, LastSent the newest sent.
	Term, NewestAck, LastSent uint64
}

// State describes the lease at now.
func (l *Lease) State(now clock.Reading) Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	win := l.window.Load()
	s := Status{
		Incarnation: l.cfg.Incarnation, Lease: l.cfg.Lease, Opening: win.opening,
		Term: l.term, NewestAck: l.acked, LastSent: l.lastSeq,
	}
	switch {
	case l.reason != 0:
		s.State, s.Reason = Fenced, l.reason
	case win.refusal != nil:
		s.State, s.Reason = Closed, ReasonNotYetOpen
	case win.left(now) <= 0:
		s.State, s.Reason = Closed, ReasonLapsed
	default:
		s.State, s.Reason, s.Remaining = Open, ReasonNone, win.left(now)
	}
	return s
}
