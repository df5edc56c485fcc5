package raftnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
)

// Class says how a proposal or a read failed, and above all whether anything was proposed.
type Class uint8

// The classes of errors.
const (
	// ClassNotLeader: not proposed; this server does not lead, or does not lead yet. Ask the leader.
	ClassNotLeader Class = iota + 1
	// ClassOverloaded: not proposed; it waited in the queue until its time was over. Try again later.
	ClassOverloaded
	// ClassTransferring: not proposed; this server is handing leadership over. Ask again in a moment.
	ClassTransferring
	// ClassUnknownOutcome: perhaps proposed, perhaps even carried out. Retry only with the same request id.
	ClassUnknownOutcome
	// ClassShuttingDown: not proposed; this server stops.
	ClassShuttingDown
	// ClassFenced: not proposed; this server has lost contact with the leader, or has a fault, and serves nothing.
	ClassFenced
	// ClassTooLarge: not proposed; the command does not fit in a log entry.
	ClassTooLarge
)

// String is the stable code of the class.
func (c Class) String() string {
	switch c {
	case ClassNotLeader:
		return "NOT_LEADER"
	case ClassOverloaded:
		return "OVERLOADED"
	case ClassTransferring:
		return "TRANSFER_IN_PROGRESS"
	case ClassUnknownOutcome:
		return "OUTCOME_UNKNOWN"
	case ClassShuttingDown:
		return "SHUTTING_DOWN"
	case ClassFenced:
		return "SERVER_FENCED"
	case ClassTooLarge:
		return "TOO_LARGE"
	default:
		return "CLASS_" + strconv.Itoa(int(c))
	}
}

// MaybeProposed says whether what failed may have entered the log. A class that this code does not know may have.
func (c Class) MaybeProposed() bool {
	switch c {
	case ClassNotLeader, ClassOverloaded, ClassTransferring, ClassShuttingDown, ClassFenced, ClassTooLarge:
		return false
	case ClassUnknownOutcome:
		return true
	default:
		return true
	}
}

// Sentinels for errors.Is, one per class; every error that [Node.Propose] and [Node.Read] return is an [*Error] that
// matches exactly one of them.
var (
	// ErrNotLeader was not proposed.
	ErrNotLeader = errors.New("this server does not lead")
	// ErrOverloaded was not proposed.
	ErrOverloaded = errors.New("too much is waiting to be proposed")
	// ErrTransferring was not proposed.
	ErrTransferring = errors.New("leadership is being handed over")
	// ErrUnknownOutcome may have been proposed and carried out.
	ErrUnknownOutcome = errors.New("the outcome is unknown")
	// ErrShuttingDown was not proposed.
	ErrShuttingDown = errors.New("this server is stopping")
	// ErrFenced was not proposed.
	ErrFenced = errors.New("this server is fenced")
	// ErrTooLarge was not proposed.
	ErrTooLarge = errors.New("the command is too large")
)

func (c Class) sentinel() error {
	switch c {
	case ClassNotLeader:
		return ErrNotLeader
	case ClassOverloaded:
		return ErrOverloaded
	case ClassTransferring:
		return ErrTransferring
	case ClassUnknownOutcome:
		return ErrUnknownOutcome
	case ClassShuttingDown:
		return ErrShuttingDown
	case ClassFenced:
		return ErrFenced
	case ClassTooLarge:
		return ErrTooLarge
	default:
		return nil
	}
}

// LeaderHint names the server that is believed to lead. It is a hint: it may name a dead server for a moment, and its
// fields are empty when nobody is known.
type LeaderHint struct {
	ID          fsm.ServerID
	RaftAddress string
	// GRPCAddress is where clients call it, if it has announced itself.
	GRPCAddress string
}

// Error is a failed proposal or read.
type Error struct {
	Class  Class
	Leader LeaderHint
	// Detail says what happened, in words; may be empty.
	Detail string
	cause  error
}

// Error is one sentence: what happened and what to do.
func (e *Error) Error() string {
	s := ErrUnknownOutcome.Error()
	if base := e.Class.sentinel(); base != nil {
		s = base.Error()
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	switch e.Class {
	case ClassNotLeader:
		if e.Leader.ID != "" {
			return s + fmt.Sprintf(" (the leader is %s); call the leader", e.Leader.ID)
		}
		return s + " (no leader is known); try again"
	case ClassUnknownOutcome:
		return s + "; retry with the same request id only"
	case ClassOverloaded, ClassTransferring:
		return s + "; try again"
	case ClassShuttingDown, ClassFenced:
		return s + "; call another server"
	case ClassTooLarge:
		return s + "; split it"
	default:
		return s
	}
}

// Is matches the sentinel of the error's class.
func (e *Error) Is(target error) bool { return target != nil && target == e.Class.sentinel() }

// Unwrap returns the context's error, if it was the context that ended the wait.
func (e *Error) Unwrap() error { return e.cause }

func classError(c Class, detail string) *Error { return &Error{Class: c, Detail: detail} }

// contextError is the error of a wait that its context ended.
func contextError(ctx context.Context, c Class, detail string) *Error {
	return &Error{Class: c, Detail: detail, cause: ctx.Err()}
}

// translate turns an error of hashicorp/raft into one of ours. It is the only place that knows the library's sentinels;
// none of them is wrapped. What it does not know may have been proposed.
func translate(err error) *Error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrNotVoter):
		return classError(ClassNotLeader, "")
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return classError(ClassOverloaded, "the server did not take the entry in time")
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return classError(ClassTransferring, "")
	case errors.Is(err, raft.ErrLeadershipLost):
		return classError(ClassUnknownOutcome, "leadership was lost before the entry was known to be committed")
	case errors.Is(err, raft.ErrRaftShutdown):
		return classError(ClassUnknownOutcome, "the server stopped before the entry was known to be committed")
	case errors.Is(err, raft.ErrAbortedByRestore):
		return classError(ClassUnknownOutcome, "a snapshot was restored before the entry was known to be committed")
	default:
		return classError(ClassUnknownOutcome, err.Error())
	}
}

// RejectedError is a command that the state machine refused. It changed nothing.
type RejectedError struct {
	// Position of the command in its call.
	Position int
	Verdict  fsm.Verdict
}

// Error names the stable reason. The sentence for people is the verdict's.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("command %d was refused: %s", e.Position, e.Verdict.Reason)
}

// Outcome joins what Propose returned into one error that cannot be overlooked: the error, or a [*RejectedError] for the
// first command that has no accepting verdict. Whoever does not handle verdicts one by one must use it.
func Outcome(verdicts []fsm.Verdict, err error) error {
	if err != nil {
		return err
	}
	if len(verdicts) == 0 {
		return classError(ClassUnknownOutcome, "no verdict came back")
	}
	for i, v := range verdicts {
		if !v.OK() {
			return &RejectedError{Position: i, Verdict: v}
		}
	}
	return nil
}
