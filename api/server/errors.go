package server

import (
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/fsm"
)

// Kind says which of the API's own errors an [Error] is.
type Kind uint8

// The kinds of errors. Each says whether the request was proposed.
const (
	// NotLeader: not proposed; another server leads.
	NotLeader Kind = iota + 1
	// NoLeader: not proposed; no leader is known right now.
	NoLeader
	// LeaderUnreachable: not proposed; the leader could not be reached from the asked server.
	LeaderUnreachable
	// Overloaded: not proposed; too much is waiting.
	Overloaded
	// Transferring: not proposed; leadership is being handed over.
	Transferring
	// UnknownOutcome: perhaps proposed, perhaps still to be carried out.
	UnknownOutcome
	// ShuttingDown: not proposed; the server is stopping.
	ShuttingDown
	// Fenced: not proposed; the server has lost contact with the leader.
	Fenced
	// NotReady: not proposed; the server has nothing to show yet.
	NotReady
	// BadRequest: not proposed; the request makes no sense as written.
	BadRequest
	// TooLarge: not proposed; the request is larger than a command may be.
	TooLarge
	// WrongCluster: not proposed; the caller belongs to another cluster.
	WrongCluster
	// GenerationTooOld: not proposed; the caller has seen a later life of the cluster than this server.
	GenerationTooOld
	// IndexNotReached: the state did not get as far as the read asked for.
	IndexNotReached
	// HashNotKept: the state hash of that index is not kept.
	HashNotKept
	// IndexTooOld: the state at that index cannot be rebuilt any more.
	IndexTooOld
	// IndexNotYet: the log has not got to that index.
	IndexNotYet
	// UnknownRequest: no answer is remembered under that request id.
	UnknownRequest
	// Deadline: a read did not end in time.
	Deadline
	// Internal: a fault.
	Internal
)

// kind is a row of the table of errors.
type kind struct {
	reason string
	code   codes.Code
	class  outcome.Class
	retry  time.Duration // when to try again; zero: not said
	text   string        // sentence, if the error has none of its own
}

// soon is when to ask again after what passes by itself.
const soon = 100 * time.Millisecond

// kinds is the table of the API's own errors, but for those of reads alone; that of verdicts is reasonCode.
func kinds() map[Kind]kind {
	return map[Kind]kind{
		NotLeader: {
			outcome.ReasonNotLeader, codes.FailedPrecondition, outcome.NotProposed, 0,
			"this server does not lead; ask the leader",
		},
		NoLeader: {
			outcome.ReasonNoLeader, codes.Unavailable, outcome.NotProposed, soon,
			"no leader is known right now; try again in a moment",
		},
		LeaderUnreachable: {
			outcome.ReasonLeaderUnreachable, codes.Unavailable, outcome.NotProposed, soon,
			"this server cannot reach the leader; ask another server",
		},
		Overloaded: {
			outcome.ReasonOverloaded, codes.ResourceExhausted, outcome.NotProposed, soon,
			"too many requests are waiting; try again in a moment",
		},
		Transferring: {
			outcome.ReasonTransferring, codes.Unavailable, outcome.NotProposed, soon,
			"leadership is being handed over; try again in a moment",
		},
		UnknownOutcome: {
			outcome.ReasonOutcomeUnknown, codes.Unavailable, outcome.Unknown, 0,
			"it is not known whether this was carried out; send it again with the same request id to learn it",
		},
		ShuttingDown: {
			outcome.ReasonShuttingDown, codes.Unavailable, outcome.NotProposed, 0,
			"this server is stopping; ask another one",
		},
		Fenced: {
			outcome.ReasonServerFenced, codes.Unavailable, outcome.NotProposed, 0,
			"this server has lost contact with the leader and answers stale reads only; ask another one",
		},
		NotReady: {
			outcome.ReasonNotReady, codes.Unavailable, outcome.NotProposed, soon,
			"this server is still starting; try again in a moment",
		},
		BadRequest: {
			outcome.ReasonMalformed, codes.InvalidArgument, outcome.Invalid, 0,
			"the request makes no sense as written",
		},
		TooLarge: {
			outcome.ReasonTooLarge, codes.InvalidArgument, outcome.Invalid, 0,
			"the request is larger than one command may be; split it",
		},
		WrongCluster: {
			outcome.ReasonWrongCluster, codes.FailedPrecondition, outcome.Rejected, 0,
			"the caller belongs to another cluster; check the addresses",
		},
		GenerationTooOld: {
			outcome.ReasonGenerationTooOld, codes.FailedPrecondition, outcome.Rejected, 0,
			"the caller has seen a later life of the cluster than this server; this server's data is old",
		},
		Internal: {
			outcome.ReasonInternal, codes.Internal, outcome.Fault, 0,
			"the server failed; its log says more",
		},
	}
}

// readKinds is the part of the table that only reads end with.
func readKinds() map[Kind]kind {
	return map[Kind]kind{
		IndexNotReached: {
			outcome.ReasonIndexNotReached, codes.Unavailable, outcome.NotProposed, soon,
			"the state has not got to the index that was asked for; try again or ask another server",
		},
		HashNotKept: {
			outcome.ReasonHashNotKept, codes.NotFound, outcome.Rejected, 0,
			"the state hash of that index is not kept; ask for a newer index",
		},
		IndexTooOld: {
			outcome.ReasonIndexTooOld, codes.OutOfRange, outcome.Rejected, 0,
			"the state at that index is not kept any more; ask for a newer one",
		},
		IndexNotYet: {
			outcome.ReasonIndexNotYet, codes.OutOfRange, outcome.Rejected, 0,
			"the log has not got to that index; ask for an earlier one",
		},
		UnknownRequest: {
			outcome.ReasonUnknownRequest, codes.NotFound, outcome.Rejected, 0,
			"no answer is remembered under that request id",
		},
		Deadline: {
			outcome.ReasonDeadline, codes.DeadlineExceeded, outcome.NotProposed, 0,
			"the answer was not ready in time; try again",
		},
	}
}

// kindOf finds a kind's row.
func kindOf(k Kind) (kind, bool) {
	if row, ok := kinds()[k]; ok {
		return row, true
	}
	row, ok := readKinds()[k]
	return row, ok
}

// Error is an error of the API itself. The zero fields are not known or do not matter.
type Error struct {
	Kind Kind
	// Text is the sentence; empty: the kind's.
	Text string
	// Leader and Address say who leads.
	Leader  fsm.ServerID
	Address string
	// Field is what makes no sense in a BadRequest.
	Field string
	// Have and Want are the numbers of a limit, an index or a generation.
	Have, Want uint64
	// RetryAfter is when to try again; zero: the kind's.
	RetryAfter time.Duration
	// Err is the cause; it stays in this process.
	Err error
}

// Error is the sentence.
func (e *Error) Error() string {
	if e.Text != "" {
		return e.Text
	}
	if row, ok := kindOf(e.Kind); ok {
		return row.text
	}
	return "error of unknown kind " + strconv.Itoa(int(e.Kind))
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// malformed says which field makes no sense and why.
func malformed(field, text string) error {
	return &Error{Kind: BadRequest, Field: field, Text: field + " " + text}
}

// RejectedError is a verdict that is not "accepted". It changed nothing.
type RejectedError struct {
	Verdict fsm.Verdict
	// TimeLeft is, for NODE_LIVE, how long the standing incarnation's lease may still run; zero: not known.
	TimeLeft time.Duration
}

// Error is the verdict's sentence.
func (e *RejectedError) Error() string {
	text := e.Verdict.Sentence()
	if at := e.Verdict.Facts.Have; e.Verdict.Reason == fsm.ItemRefused && at < uint64(len(e.Verdict.Items)) {
		text += ": " + e.Verdict.Items[at].Sentence()
	}
	if e.TimeLeft > 0 {
		text += "; its lease is over in at most " + e.TimeLeft.Round(time.Millisecond).String()
	}
	return text
}

// unknown is the refusal of a read that names what does not exist.
func unknown(reason fsm.Reason, facts fsm.Facts, index uint64) error {
	return &RejectedError{Verdict: fsm.Verdict{Reason: reason, Facts: facts, Index: index}}
}

// reasonCode is the table of verdicts.
func reasonCode(r fsm.Reason) codes.Code {
	switch r {
	case fsm.Accepted, fsm.ReportCounted, fsm.ReportInert, fsm.BarrierPass, fsm.BarrierRetry, fsm.BarrierForget,
		fsm.BarrierUnwritten, fsm.EarlierEventOpen, fsm.SpecMismatch, fsm.SetMismatch: // no refusals of commands
		return codes.OK
	case fsm.OperatorExists, fsm.AlreadyOwned, fsm.ChangefeedExists, fsm.TableExists, fsm.NodeLive,
		fsm.AlreadyBootstrapped, fsm.RequestIDReused:
		return codes.AlreadyExists
	case fsm.StaleTerm, fsm.EpochMismatch, fsm.NotOwner, fsm.StaleIncarnation, fsm.StaleExpire, fsm.ReportStale,
		fsm.StaleCheckpoint, fsm.CheckpointTooFar, fsm.StalePermission:
		return codes.Aborted
	case fsm.UnknownNode, fsm.UnknownChangefeed, fsm.UnknownTable, fsm.UnknownDispatcher, fsm.NoSuchOperator,
		fsm.NodeExpired, fsm.UnknownBarrier:
		return codes.NotFound
	case fsm.LimitReached:
		return codes.ResourceExhausted
	case fsm.Malformed:
		return codes.InvalidArgument
	case fsm.FeatureLevel, fsm.NotBootstrapped, fsm.RequestTooOld, fsm.RequestTooNew, fsm.NodeFenced,
		fsm.ChangefeedPaused, fsm.ChangefeedNotPaused, fsm.ChangefeedRemoving, fsm.SameNode, fsm.RangeRemoving,
		fsm.OperatorFinished, fsm.NotCancellable, fsm.NodeDraining, fsm.NodeNotDraining, fsm.NotDrained,
		fsm.ChangefeedFailed, fsm.ChangefeedStopping, fsm.StartTooOld, fsm.NotRunning, fsm.SpansDoNotTile,
		fsm.NotAdjacent, fsm.OtherChangefeed, fsm.TriggerDispatcher, fsm.BarrierWriting, fsm.ItemRefused,
		fsm.NotUndecided:
		return codes.FailedPrecondition
	default:
		return codes.Internal
	}
}

// reasonClass is Rejected but for the refusals that are not remembered and pass by themselves.
func reasonClass(r fsm.Reason) outcome.Class {
	switch r { //nolint:exhaustive // every other reason is the state machine's no
	case fsm.StaleTerm, fsm.NotBootstrapped:
		return outcome.NotProposed
	case fsm.Malformed:
		return outcome.Invalid
	default:
		return outcome.Rejected
	}
}
