package dispatcher

import (
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Ledger receives the evidence by which others check that no two nodes write one range at one instant. Implementations
// must be safe for concurrent use.
type Ledger interface {
	// Gate hears the edges of the gate, in order. It is called with the gate's lock held: it must return soon and must
	// not call back.
	Gate(edge fence.Edge)
	// Attempt hears of a call to a sink before it is made: if the process dies, it may have taken effect.
	Attempt(call SinkCall)
	// Outcome hears how the call ended.
	Outcome(call SinkCall)
	// Event hears what a dispatcher does about an event.
	Event(note EventNote)
}

// EventKind says what a dispatcher did about an event.
type EventKind uint8

// What is done about an event, in this order. Passed is noted before anything beyond the event is written.
const (
	EventWaiting EventKind = iota + 1 // everything before it is downstream, nothing beyond it is written
	EventWritten
	EventPassed
)

// String is the kind's word.
func (k EventKind) String() string {
	switch k {
	case EventWaiting:
		return "waiting"
	case EventWritten:
		return "written"
	case EventPassed:
		return "passed"
	default:
		return "unset"
	}
}

// EventNote is one step of one dispatcher about one event.
type EventNote struct {
	Kind        EventKind
	Node        fsm.NodeName
	Incarnation fsm.Incarnation
	Dispatcher  fsm.DispatcherID
	Epoch       fsm.Epoch
	Changefeed  string
	Key         fsm.BarrierKey
	// Permission is that under which it was written; Recorded says that the sink had a record of it already, and did
	// nothing.
	Permission uint64
	Recorded   bool
	// At is read when the step is done.
	At clock.Reading
}

// CallKind says what a call to a sink was for.
type CallKind uint8

// The calls.
const (
	CallClaim CallKind = iota + 1
	CallWrite
	CallEvent
)

// String is the kind's word.
func (k CallKind) String() string {
	switch k {
	case CallClaim:
		return "claim"
	case CallWrite:
		return "write"
	case CallEvent:
		return "event"
	default:
		return "unset"
	}
}

// CallOutcome says how a call to a sink ended.
type CallOutcome uint8

// The outcomes. Only CallAccepted is known to have taken effect; CallUnknown may have.
const (
	CallAccepted CallOutcome = iota + 1
	// CallRefused: nothing was sent, because the gate was closed by the clock read in the call itself.
	CallRefused
	// CallFenced: the sink refused the token.
	CallFenced
	// CallUnknown: the call was allowed and ended with an error.
	CallUnknown
	// CallFailed: the call ended with an error before it asked whether it may send anything.
	CallFailed
)

// String is the outcome's word.
func (o CallOutcome) String() string {
	switch o {
	case CallAccepted:
		return "accepted"
	case CallRefused:
		return "refused"
	case CallFenced:
		return "fenced"
	case CallUnknown:
		return "unknown"
	case CallFailed:
		return "failed"
	default:
		return "unset"
	}
}

// SinkCall is one call to a sink.
type SinkCall struct {
	Kind        CallKind
	Node        fsm.NodeName
	Incarnation fsm.Incarnation
	Dispatcher  fsm.DispatcherID
	Token       Token
	Sink        string
	Table       TableName
	Span        fsm.Span
	// Opening is that of the gate under which the call was made.
	Opening uint64
	// Resume and Rows are those of a written batch; Resume is the answer for a claim.
	Resume fsm.Position
	Rows   int
	// Event and Permission are those of an event that is written.
	Event      fsm.BarrierKey
	Permission uint64
	// Begun is read before the call, Allowed just before the newest granted test of the lease (zero: never granted), and
	// Returned after the call: its effect, if any, lies between Allowed and Returned.
	Begun, Allowed, Returned clock.Reading
	// Outcome and Err are set when the call has ended.
	Outcome CallOutcome
	Err     error
}
