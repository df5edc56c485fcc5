package fence

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-project/weir/fence/clock"
)

// MaxLease is the longest lease that a registration may ask for, a constant of the code: after a restore the old nodes
// may be unknown, and the wait for all of them is [MaxWait].
const MaxLease = 30 * time.Second

// Timing holds the durations of the lease protocol. It is one value for both halves, so that no two programs can disagree
// on what follows from what: a node uses the lease recorded at its registration, a server waits by that record.
type Timing struct {
	// Lease is L: how long after sending an acknowledged heartbeat a node may write, on the node's clock.
	Lease time.Duration
	// Heartbeat is H: the period of a node's heartbeats.
	Heartbeat time.Duration
	// Tick is the period of the leader's ticks.
	Tick time.Duration
	// RoundTrip is the round trip between a node and the leader that must not close the gate.
	RoundTrip time.Duration
	// Commit is the time for a tick to commit and be applied that must not close the gate (its 99.9th percentile).
	Commit time.Duration
	// Pause is how long a node's process may stand still (collector, busy machine) without closing its gate.
	Pause time.Duration
	// Election is the time from the loss of a leader to the next leader's first commit.
	Election time.Duration
	// Reconnect is the time for a node to find the new leader and open its session.
	Reconnect time.Duration
}

// DefaultTiming lives through a leader change without pausing writers.
func DefaultTiming() Timing {
	return Timing{
		Lease:     2 * time.Second,
		Heartbeat: 250 * time.Millisecond,
		Tick:      100 * time.Millisecond,
		RoundTrip: 50 * time.Millisecond,
		Commit:    200 * time.Millisecond,
		Pause:     200 * time.Millisecond,
		Election:  900 * time.Millisecond,
		Reconnect: 250 * time.Millisecond,
	}
}

// FastTiming halves the time of a failover; writers may pause at a leader change, see PausesAtLeaderChange.
func FastTiming() Timing {
	t := DefaultTiming()
	t.Lease = time.Second
	return t
}

// Wait is W, how long a server waits on its own clock before it may expire a node that holds the lease:
// ceil(lease*(1+server drift)/(1-node drift)). The node's clock may be slow and the server's fast. A negative lease
// counts as the longest one, as does one that is too long to compute.
func Wait(lease time.Duration, node, server clock.Class) time.Duration {
	if lease < 0 {
		return math.MaxInt64
	}
	return clock.ScaleUp(lease, clock.Million+server.Drift(), clock.Million-node.Drift())
}

// MaxWait is the wait for the longest lease under the worst clocks on both sides: whoever is unknown has stopped after it.
func MaxWait() time.Duration { return Wait(MaxLease, clock.Monotonic, clock.Monotonic) }

// Wait is the wait for a node with this lease.
func (t Timing) Wait(node, server clock.Class) time.Duration { return Wait(t.Lease, node, server) }

// Needed is the shortest lease that the other durations allow: below it a healthy node would pause.
func (t Timing) Needed() time.Duration {
	return t.Heartbeat + t.RoundTrip + t.Tick + t.Commit + t.Pause
}

// NeededForLeaderChange is the shortest lease that lives through a leader change without a pause of writers.
func (t Timing) NeededForLeaderChange() time.Duration {
	return t.Election + t.Reconnect + t.Heartbeat
}

// PausesAtLeaderChange reports whether writers may pause when the leader changes, which is to be said at start.
func (t Timing) PausesAtLeaderChange() bool { return t.Lease < t.NeededForLeaderChange() }

// FailoverWithin is the longest time from the loss of a node to the commit of its expiry, with a leader that stays.
func (t Timing) FailoverWithin(node, server clock.Class) time.Duration {
	return t.Wait(node, server) + t.RoundTrip + t.Tick + t.Commit
}

// LeaderGivesUpAfter is how long a leader goes on whose tick does not commit: half a lease, so that another leader has
// the other half.
func (t Timing) LeaderGivesUpAfter() time.Duration { return t.Lease / 2 }

// SilenceAfter is how long a node may be heard with a closed gate, or stand still with orders due, before ticks no longer
// name it.
func (t Timing) SilenceAfter() time.Duration { return silenceAfter(t.Lease) }

func silenceAfter(lease time.Duration) time.Duration { return 2 * lease }

// SettingError is one setting under which the protocol does not hold.
type SettingError struct {
	// Code is a stable reason.
	Code string
	// Setting names the field of Timing.
	Setting string
	// Text says what is wrong and what to set.
	Text string
}

// Error gives code and text.
func (e *SettingError) Error() string { return e.Code + ": " + e.Text }

// Stable reasons of [SettingError].
const (
	CodeLeaseTooLong      = "LEASE_TOO_LONG"
	CodeLeaseTooShort     = "LEASE_TOO_SHORT"
	CodePeriodNotPositive = "PERIOD_NOT_POSITIVE"
	CodeNegativeAllowance = "NEGATIVE_ALLOWANCE"
	CodeWriteTimeTooLong  = "WRITE_TIME_TOO_LONG"
	CodeNoIncarnation     = "NO_INCARNATION"
	CodeUnknownClass      = "UNKNOWN_CLOCK_CLASS"
	CodeNoClock           = "NO_CLOCK"
	CodeNoTerm            = "NO_TERM"
	CodeNoAppends         = "NO_APPEND_TIMES"
	CodeShareOutOfRange   = "SHARE_OUT_OF_RANGE"
)

// Validate returns nil or all violations, each a *SettingError (joined).
func (t Timing) Validate() error {
	var errs []error
	for _, p := range []struct {
		name string
		d    time.Duration
	}{{"Lease", t.Lease}, {"Heartbeat", t.Heartbeat}, {"Tick", t.Tick}} {
		if p.d <= 0 {
			errs = append(errs, &SettingError{
				CodePeriodNotPositive, p.name,
				fmt.Sprintf("%s is %v; set it above zero", p.name, p.d),
			})
		}
	}
	for _, p := range []struct {
		name string
		d    time.Duration
	}{
		{"RoundTrip", t.RoundTrip},
		{"Commit", t.Commit},
		{"Pause", t.Pause},
		{"Election", t.Election},
		{"Reconnect", t.Reconnect},
	} {
		if p.d < 0 {
			errs = append(errs, &SettingError{
				CodeNegativeAllowance, p.name,
				fmt.Sprintf("%s is %v; set it to zero or more", p.name, p.d),
			})
		}
	}
	if len(errs) == 0 {
		errs = t.leaseErrors()
	}
	return errors.Join(errs...)
}

func (t Timing) leaseErrors() []error {
	var errs []error
	if t.Lease > MaxLease {
		errs = append(errs, &SettingError{
			CodeLeaseTooLong, "Lease",
			fmt.Sprintf("lease %v is longer than %v, the longest that any cluster waits for; set it to %v or less",
				t.Lease, MaxLease, MaxLease),
		})
	}
	if need := t.Needed(); t.Lease < need {
		errs = append(errs, &SettingError{
			CodeLeaseTooShort, "Lease",
			fmt.Sprintf("lease %v is shorter than heartbeat %v + round trip %v + tick %v + commit %v + pause %v, so a "+
				"healthy node would pause; set the lease to %v or more, or shorten the others",
				t.Lease, t.Heartbeat, t.RoundTrip, t.Tick, t.Commit, t.Pause, need),
		})
	}
	return errs
}

// CheckWriteTime refuses a sink whose longest write time w leaves no time to write in: writes stop w before the deadline,
// and up to Needed of the lease is gone when a healthy node's next ack comes.
func (t Timing) CheckWriteTime(w time.Duration) error {
	room := t.Lease - t.Needed()
	if w >= 0 && w <= room {
		return nil
	}
	return &SettingError{
		CodeWriteTimeTooLong, "Lease",
		fmt.Sprintf("a sink that cannot check tokens and writes for up to %v does not fit into lease %v, which leaves %v; "+
			"lower the sink's longest write time, or set the lease to %v or more (at most %v)",
			w, t.Lease, room, t.Needed()+w, MaxLease),
	}
}
