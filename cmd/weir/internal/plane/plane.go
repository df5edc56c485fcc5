// Package plane names what the commands and the demo ask of the control plane.
//
// It knows the messages of weir.v1 and nothing of connections: a client of api/client fits through an adapter, and tests
// bring a control plane of their own. Every error that says what became of a request can be read with [Explain].
package plane

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
)

// Changefeeds serves replication jobs.
type Changefeeds interface {
	CreateChangefeed(ctx context.Context, r *weirv1.CreateChangefeedRequest) (*weirv1.CreateChangefeedResponse, error)
	ListChangefeeds(ctx context.Context, r *weirv1.ListChangefeedsRequest) (*weirv1.ListChangefeedsResponse, error)
	GetChangefeed(ctx context.Context, r *weirv1.GetChangefeedRequest) (*weirv1.GetChangefeedResponse, error)
	PauseChangefeed(ctx context.Context, r *weirv1.PauseChangefeedRequest) (*weirv1.PauseChangefeedResponse, error)
	ResumeChangefeed(ctx context.Context, r *weirv1.ResumeChangefeedRequest) (*weirv1.ResumeChangefeedResponse, error)
	RemoveChangefeed(ctx context.Context, r *weirv1.RemoveChangefeedRequest) (*weirv1.RemoveChangefeedResponse, error)
}

// Tables serves the table sets of changefeeds.
type Tables interface {
	AddTables(ctx context.Context, r *weirv1.AddTablesRequest) (*weirv1.AddTablesResponse, error)
	DropTables(ctx context.Context, r *weirv1.DropTablesRequest) (*weirv1.DropTablesResponse, error)
	ListTables(ctx context.Context, r *weirv1.ListTablesRequest) (*weirv1.ListTablesResponse, error)
}

// Dispatchers serves who owns what.
type Dispatchers interface {
	ListDispatchers(ctx context.Context, r *weirv1.ListDispatchersRequest) (*weirv1.ListDispatchersResponse, error)
	GetDispatcher(ctx context.Context, r *weirv1.GetDispatcherRequest) (*weirv1.GetDispatcherResponse, error)
	GetHistory(ctx context.Context, r *weirv1.GetHistoryRequest) (*weirv1.GetHistoryResponse, error)
}

// Operators serves running changes to dispatchers.
type Operators interface {
	AdmitOperator(ctx context.Context, r *weirv1.AdmitOperatorRequest) (*weirv1.AdmitOperatorResponse, error)
	CancelOperator(ctx context.Context, r *weirv1.CancelOperatorRequest) (*weirv1.CancelOperatorResponse, error)
	GetOperator(ctx context.Context, r *weirv1.GetOperatorRequest) (*weirv1.GetOperatorResponse, error)
	ListOperators(ctx context.Context, r *weirv1.ListOperatorsRequest) (*weirv1.ListOperatorsResponse, error)
	WaitOperator(ctx context.Context, r *weirv1.WaitOperatorRequest) (*weirv1.WaitOperatorResponse, error)
}

// Nodes serves the workers.
type Nodes interface {
	ListNodes(ctx context.Context, r *weirv1.ListNodesRequest) (*weirv1.ListNodesResponse, error)
	GetNode(ctx context.Context, r *weirv1.GetNodeRequest) (*weirv1.GetNodeResponse, error)
	FenceNode(ctx context.Context, r *weirv1.FenceNodeRequest) (*weirv1.FenceNodeResponse, error)
}

// Plane is the whole control plane.
type Plane interface {
	Changefeeds
	Tables
	Dispatchers
	Operators
	Nodes
	GetStatus(ctx context.Context, r *weirv1.GetStatusRequest) (*weirv1.GetStatusResponse, error)
	// Close gives the connections back.
	Close() error
}

// Class says what became of a request that was not carried out as asked.
type Class uint8

// The classes. Each has an exit code of its own.
const (
	// Failed: a fault, or a check that found something wrong.
	Failed Class = iota + 1
	// Usage: the command makes no sense as written.
	Usage
	// Rejected: a rule of the state machine said no; nothing was changed.
	Rejected
	// NotReached: nobody could be asked, or nothing was proposed; it may be tried again.
	NotReached
	// Unknown: it may have been carried out; it may be tried again with the same request id only.
	Unknown
)

// String is the word that -o json prints.
func (c Class) String() string {
	switch c {
	case Failed:
		return "failed"
	case Usage:
		return "usage"
	case Rejected:
		return "rejected"
	case NotReached:
		return "not_reached"
	case Unknown:
		return "unknown"
	default:
		return "unset"
	}
}

// Error is what the commands tell about an error.
type Error struct {
	Class Class
	// Reason is a stable code; empty for errors without one.
	Reason string
	// Text is the sentence: what happened, who holds the thing, what to do.
	Text string
	// Facts are those of the verdict, by name.
	Facts map[string]string
	// RequestTimeMS is the log time at which the request was built, to be kept when it is sent again; 0 if not known.
	RequestTimeMS uint64
	Err           error
}

// Error is the reason and the sentence.
func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Text
	}
	return e.Reason + ": " + e.Text
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Each calls visit for every page until next returns an empty token.
func Each(next func(token string) (string, error)) error {
	token := ""
	for {
		following, err := next(token)
		if err != nil {
			return err
		}
		if following == "" {
			return nil
		}
		token = following
	}
}
