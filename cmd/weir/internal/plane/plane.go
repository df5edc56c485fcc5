// Package plane names what the commands ask of the control plane, and fits the client to it.
//
// It knows the messages of weir.v1 and the Go client; tests bring a control plane of their own. It must not know flags
// or how anything is printed.
//
// What always holds: every request that changes something goes out under the request id that its caller chose.
package plane

import (
	"context"
	"iter"
	"time"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
)

// Changefeeds serves replication jobs and their tables.
type Changefeeds interface {
	CreateChangefeed(ctx context.Context, r *weirv1.CreateChangefeedRequest) (*weirv1.CreateChangefeedResponse, error)
	Changefeeds(ctx context.Context, read *weirv1.ReadOptions) ([]*weirv1.Changefeed, error)
	Changefeed(ctx context.Context, name string, read *weirv1.ReadOptions) (*weirv1.Changefeed, error)
	UpdateChangefeed(ctx context.Context, r *weirv1.UpdateChangefeedRequest) (*weirv1.ResponseHeader, error)
	// ResumeFrom lets dispatchers be placed again, from a position if the request has one.
	ResumeFrom(ctx context.Context, r *weirv1.ResumeChangefeedRequest) (*weirv1.ResumeChangefeedResponse, error)
	AddTables(ctx context.Context, r *weirv1.AddTablesRequest) (*weirv1.ResponseHeader, error)
	DropTables(ctx context.Context, r *weirv1.DropTablesRequest) (*weirv1.ResponseHeader, error)
	Tables(ctx context.Context, changefeed string, read *weirv1.ReadOptions) ([]*weirv1.Table, error)
}

// Dispatchers serves who owns what.
type Dispatchers interface {
	Dispatchers(ctx context.Context, filter *weirv1.ListDispatchersRequest) iter.Seq2[*weirv1.Dispatcher, error]
	Dispatcher(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Dispatcher, error)
	History(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.GetHistoryResponse, error)
}

// Operators serves running changes to dispatchers.
type Operators interface {
	Admit(ctx context.Context, r *weirv1.AdmitOperatorRequest) (*weirv1.Admission, error)
	// AdmitMany returns a verdict for each operator, in order; after an error those that were decided before it.
	AdmitMany(ctx context.Context, r *weirv1.AdmitManyRequest) ([]*weirv1.AdmitVerdict, error)
	Operator(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Operator, error)
	Operators(ctx context.Context, filter *weirv1.ListOperatorsRequest) iter.Seq2[*weirv1.Operator, error]
	// WaitOperator returns when the operator has ended or the context ends: then the operator as it last stood, if it was
	// seen, and an error.
	WaitOperator(ctx context.Context, id uint64) (*weirv1.Operator, error)
}

// Cluster serves the workers and the control plane itself.
type Cluster interface {
	Nodes(ctx context.Context, read *weirv1.ReadOptions) ([]*weirv1.Node, error)
	Node(ctx context.Context, name string, read *weirv1.ReadOptions) (*weirv1.Node, error)
	Policy(ctx context.Context, read *weirv1.ReadOptions) (*weirv1.Policy, error)
	SetPolicy(ctx context.Context, r *weirv1.SetPolicyRequest) (*weirv1.ResponseHeader, error)
	Status(ctx context.Context, probe bool, read *weirv1.ReadOptions) (*weirv1.GetStatusResponse, error)
}

// Barriers serves the events of changefeeds.
type Barriers interface {
	Barriers(ctx context.Context, filter *weirv1.ListBarriersRequest) iter.Seq2[*weirv1.Barrier, error]
	Barrier(ctx context.Context, r *weirv1.GetBarrierRequest) (*weirv1.Barrier, error)
	DecideBarrier(ctx context.Context, r *weirv1.DecideBarrierRequest) (*weirv1.ResponseHeader, error)
}

// Explain says why things are as they are, and what would happen.
type Explain interface {
	ExplainDispatcher(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Explanation, error)
	ExplainOperator(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Explanation, error)
	ExplainBarrier(ctx context.Context, r *weirv1.ExplainBarrierRequest) (*weirv1.Explanation, error)
	ExplainRequest(ctx context.Context, id string, read *weirv1.ReadOptions) (*weirv1.ExplainRequestResponse, error)
	DryRun(ctx context.Context, r *weirv1.DryRunRequest) (*weirv1.DryRunResponse, error)
	StateAt(ctx context.Context, index uint64, read *weirv1.ReadOptions) (*weirv1.StateSummary, error)
}

// Named changes what has a name or an id; the request goes out under the header's id.
type Named interface {
	Pause(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error)
	StartDrain(ctx context.Context, h *weirv1.RequestHeader, node string) (*weirv1.ResponseHeader, error)
	ClearDrain(ctx context.Context, h *weirv1.RequestHeader, node string) (*weirv1.ResponseHeader, error)
	Remove(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error)
	Cancel(ctx context.Context, h *weirv1.RequestHeader, operator uint64) (*weirv1.ResponseHeader, error)
	// Fence returns the incarnation that was fenced; 0 asks for the live one.
	Fence(ctx context.Context, h *weirv1.RequestHeader, node string, incarnation uint64, why string) (uint64, error)
}

// Plane is the whole control plane.
type Plane interface {
	Changefeeds
	Dispatchers
	Operators
	Cluster
	Barriers
	Explain
	Named
	// Close gives the connections back.
	Close()
}

// connected fits the client.
type connected struct{ *client.Client }

// Connect makes a client of the servers; by says who asks. It connects when it is first used.
func Connect(addresses []string, by string, timeout time.Duration) (Plane, error) {
	c, err := client.New(client.Config{Addresses: addresses, By: by, Call: timeout, Try: min(time.Second, timeout/3)})
	if err != nil {
		return nil, err
	}
	return connected{c}, nil
}
