package client

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/internal/outcome"
)

// Class says what became of a request that was not carried out as asked.
type Class = outcome.Class

// The classes.
const (
	// Rejected: the answer is no, with a stable reason. Nothing was changed.
	Rejected = outcome.Rejected
	// NotProposed: nothing was carried out, and nothing will be; also a read that nobody answered.
	NotProposed = outcome.NotProposed
	// Unknown: it may have been carried out. Only the same request id may be sent again.
	Unknown = outcome.Unknown
	// Invalid: the request makes no sense as written.
	Invalid = outcome.Invalid
	// Fault: a server or this client is broken, or they do not fit together.
	Fault = outcome.Fault
)

// Error is why a call did not do what it was asked for.
type Error struct {
	Class Class
	// Reason is the stable code.
	Reason string
	// Message is one sentence for people.
	Message string
	// Facts are the verdict's facts by name: operator, epoch, node, leader and so on; numbers are decimal.
	Facts map[string]string
	// RequestID and RequestTimeMS name the request if it asked for a change: by them it can be sent again.
	RequestID     string
	RequestTimeMS uint64
	// Err is the cause: a gRPC status, or why the context ended.
	Err error
}

// Error is the reason and the sentence.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// ExitCode is a process's exit code for the class: 1 fault, 2 invalid, 3 rejected, 4 not proposed, 5 unknown.
func (e *Error) ExitCode() int {
	switch e.Class {
	case Invalid:
		return 2
	case Rejected:
		return 3
	case NotProposed:
		return 4
	case Unknown:
		return 5
	case Fault:
		return 1
	default:
		return 1
	}
}

// RetryAfter is when the server would be asked again; zero if it did not say.
func (e *Error) RetryAfter() time.Duration {
	ms, err := strconv.ParseInt(e.Facts[outcome.FactRetryAfter], 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Number is a fact that is a number; 0 if it is missing.
func (e *Error) Number(fact string) uint64 {
	v, err := strconv.ParseUint(e.Facts[fact], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// Reason is the stable code of an error of this package; empty if it has none.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// decode reads the error of one try at one server. mutates says whether the request asked for a change: a broken call
// may then have been carried out.
func decode(err error, address string, mutates bool) *Error {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == outcome.Domain {
			return decodeInfo(st, info, mutates)
		}
	}
	e := &Error{Class: NotProposed, Reason: outcome.ReasonUnreachable, Err: err, Facts: map[string]string{}}
	e.Message = fmt.Sprintf("server %s gave no answer (%s: %s)", address, st.Code(), st.Message())
	switch code := st.Code(); {
	case code == codes.Unimplemented || code == codes.PermissionDenied || code == codes.Unauthenticated:
		e.Class, e.Reason = Fault, outcome.ReasonInternal
	case code == codes.ResourceExhausted: // gRPC's own word for a message that is too large
		e.Class, e.Reason = Invalid, outcome.ReasonTooLarge
	case mutates:
		e.Class, e.Reason = Unknown, outcome.ReasonOutcomeUnknown
	}
	return e
}

func decodeInfo(st *status.Status, info *errdetails.ErrorInfo, mutates bool) *Error {
	e := &Error{Reason: info.GetReason(), Message: st.Message(), Facts: maps.Clone(info.GetMetadata()), Err: st.Err()}
	if e.Facts == nil {
		e.Facts = map[string]string{}
	}
	class, known := outcome.ParseClass(e.Facts[outcome.FactClass])
	switch {
	case known:
		e.Class = class
	case mutates: // a later server's class: what it means is not known here
		e.Class = Unknown
	default:
		e.Class = NotProposed
	}
	return e
}

// unreachable is the error of a server to which no connection stood.
func unreachable(address string, err error) *Error {
	return &Error{
		Class: NotProposed, Reason: outcome.ReasonUnreachable, Facts: map[string]string{}, Err: err,
		Message: fmt.Sprintf("server %s cannot be reached", address),
	}
}
