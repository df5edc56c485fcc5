package fence

import (
	"errors"
	"fmt"
)

// Refusals of a write. They are values made once: a refused write allocates nothing.
var (
	// ErrNotYetOpen refuses because no heartbeat of this incarnation has been acknowledged.
	ErrNotYetOpen = errors.New("LEASE_NOT_YET_OPEN: no heartbeat of this incarnation has been acknowledged by the leader; " +
		"the write has to wait for the first ack")
	// ErrLapsed refuses because the deadline has passed. State is kept; an ack to a later heartbeat re-opens.
	ErrLapsed = errors.New("LEASE_LAPSED: the lease of this node is over and the leader may give its work away; " +
		"the write has to wait for an ack to a later heartbeat")
	// ErrMargin refuses because the write might take effect after the deadline, which is not yet over.
	ErrMargin = errors.New("LEASE_MARGIN: less of the lease is left than this sink's longest write time; " +
		"the write has to wait for an ack to a later heartbeat")
	// ErrReopened refuses because the lease was closed since the caller made its claim.
	ErrReopened = errors.New("LEASE_REOPENED: the lease was over and has been renewed since this writer's claim at the sink; " +
		"claim again before writing")
	// ErrFenced refuses for good: this incarnation must drop everything and register anew.
	ErrFenced = errors.New("LEASE_FENCED: this incarnation is fenced for good and owns nothing any more; " +
		"drop its work and register as a new incarnation")
)

// State says whether writes may start.
type State uint8

const (
	// Closed: no write may start now; a later ack opens.
	Closed State = iota + 1
	// Open: writes may start.
	Open
	// Fenced: no write may ever start under this incarnation.
	Fenced
)

// String names the state as status output shows it.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case Fenced:
		return "fenced"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// Reason says why a lease is not open.
type Reason uint8

const (
	// ReasonNone: the lease is open.
	ReasonNone Reason = iota + 1
	// ReasonNotYetOpen: no ack yet.
	ReasonNotYetOpen
	// ReasonLapsed: the deadline passed without a newer ack.
	ReasonLapsed
	// ReasonExpired: a server said that the incarnation is expired or fenced.
	ReasonExpired
	// ReasonClockStall: the node's clock stood still while the leader's went on.
	ReasonClockStall
	// ReasonClockBack: a clock of the node went back.
	ReasonClockBack
	// ReasonReplaced: the process has a newer incarnation.
	ReasonReplaced
	// ReasonShutdown: the process is stopping.
	ReasonShutdown
)

// String is the stable code of the reason.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return "NONE"
	case ReasonNotYetOpen:
		return "LEASE_NOT_YET_OPEN"
	case ReasonLapsed:
		return "LEASE_LAPSED"
	case ReasonExpired:
		return "INCARNATION_EXPIRED"
	case ReasonClockStall:
		return "CLOCK_STALLED"
	case ReasonClockBack:
		return "CLOCK_WENT_BACK"
	case ReasonReplaced:
		return "INCARNATION_REPLACED"
	case ReasonShutdown:
		return "SHUTTING_DOWN"
	default:
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
}

// AckResult says what an ack did.
type AckResult uint8

const (
	// AckExtended: the lease was open and its deadline moved.
	AckExtended AckResult = iota + 1
	// AckOpened: the lease was not open and is now. Claims at sinks have to be made anew.
	AckOpened
	// AckLate: what the heartbeat gives is over already; nothing changed.
	AckLate
	// AckOld: a newer heartbeat has been acknowledged before; nothing changed.
	AckOld
	// AckOldTerm: the ack is from a leader older than one seen; nothing changed.
	AckOldTerm
	// AckForeign: the ack is for another incarnation, or for a heartbeat never sent; nothing changed.
	AckForeign
	// AckStalled: the ack proves that the clock of this node stood still; the lease is fenced.
	AckStalled
	// AckFenced: the lease was fenced before; nothing changed.
	AckFenced
)

// String names the result.
func (a AckResult) String() string {
	switch a {
	case AckExtended:
		return "extended"
	case AckOpened:
		return "opened"
	case AckLate:
		return "late"
	case AckOld:
		return "old"
	case AckOldTerm:
		return "old term"
	case AckForeign:
		return "foreign"
	case AckStalled:
		return "stalled"
	case AckFenced:
		return "fenced"
	default:
		return fmt.Sprintf("ack(%d)", uint8(a))
	}
}
