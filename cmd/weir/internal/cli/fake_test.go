package cli

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
)

// fakePlane answers from rows that the test sets, notes what it was asked, and fails with err if that is set.
type fakePlane struct {
	feeds       []*weirv1.Changefeed
	tables      []*weirv1.Table
	dispatchers []*weirv1.Dispatcher
	operators   []*weirv1.Operator
	nodes       []*weirv1.Node
	history     *weirv1.GetHistoryResponse
	status      *weirv1.GetStatusResponse
	barriers    []*weirv1.Barrier
	policy      *weirv1.Policy
	explained   *weirv1.Explanation
	verdict     *weirv1.Verdict
	verdicts    []*weirv1.AdmitVerdict
	state       *weirv1.StateSummary
	drains      []*weirv1.Node // what Node answers, one after the other, before nodes
	admission   *weirv1.Admission
	waits       []waitAnswer
	err         error

	asked     proto.Message
	header    *weirv1.RequestHeader
	read      *weirv1.ReadOptions
	addresses []string
	closed    bool
}

type waitAnswer struct {
	operator *weirv1.Operator
	err      error
}

var _ plane.Plane = (*fakePlane)(nil)

const answeredAt = 42

func answer() *weirv1.ResponseHeader { return &weirv1.ResponseHeader{Index: answeredAt, Term: 3} }

func (f *fakePlane) CreateChangefeed(_ context.Context, r *weirv1.CreateChangefeedRequest) (*weirv1.CreateChangefeedResponse, error) {
	f.asked, f.header = r, r.GetHeader()
	return &weirv1.CreateChangefeedResponse{Header: answer(), ChangefeedId: 7}, f.err
}

func (f *fakePlane) Changefeeds(_ context.Context, read *weirv1.ReadOptions) ([]*weirv1.Changefeed, error) {
	f.read = read
	return f.feeds, f.err
}

func (f *fakePlane) Changefeed(_ context.Context, name string, read *weirv1.ReadOptions) (*weirv1.Changefeed, error) {
	f.read = read
	at := slices.IndexFunc(f.feeds, func(c *weirv1.Changefeed) bool { return c.GetName() == name })
	if f.err == nil && at < 0 {
		return nil, rejection("UNKNOWN_CHANGEFEED", "no changefeed is named "+name+"; list them with: weir changefeed list", map[string]string{"changefeed": name})
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.feeds[at], nil
}

func (f *fakePlane) AddTables(_ context.Context, r *weirv1.AddTablesRequest) (*weirv1.ResponseHeader, error) {
	f.asked, f.header = r, r.GetHeader()
	return answer(), f.err
}

func (f *fakePlane) DropTables(_ context.Context, r *weirv1.DropTablesRequest) (*weirv1.ResponseHeader, error) {
	f.asked, f.header = r, r.GetHeader()
	return answer(), f.err
}

func (f *fakePlane) Tables(context.Context, string, *weirv1.ReadOptions) ([]*weirv1.Table, error) {
	return f.tables, f.err
}

func (f *fakePlane) Dispatchers(_ context.Context, filter *weirv1.ListDispatchersRequest) iter.Seq2[*weirv1.Dispatcher, error] {
	f.asked, f.read = filter, filter.GetRead()
	return rows(f.dispatchers, f.err)
}

func rows[T any](all []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err != nil {
			yield(none, err)
			return
		}
		for _, row := range all {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (f *fakePlane) Dispatcher(_ context.Context, id uint64, _ *weirv1.ReadOptions) (*weirv1.Dispatcher, error) {
	for _, d := range f.dispatchers {
		if d.GetId() == id {
			return d, f.err
		}
	}
	return nil, rejection("UNKNOWN_DISPATCHER", "no dispatcher has that number; list them with: weir dispatcher list", nil)
}

func (f *fakePlane) History(context.Context, uint64, *weirv1.ReadOptions) (*weirv1.GetHistoryResponse, error) {
	return f.history, f.err
}

func (f *fakePlane) Admit(_ context.Context, r *weirv1.AdmitOperatorRequest) (*weirv1.Admission, error) {
	f.asked, f.header = r.GetOperator(), r.GetHeader()
	return f.admission, f.err
}

func (f *fakePlane) Operator(_ context.Context, id uint64, _ *weirv1.ReadOptions) (*weirv1.Operator, error) {
	for _, o := range f.operators {
		if o.GetId() == id {
			return o, f.err
		}
	}
	return nil, rejection("NO_SUCH_OPERATOR", "no operator has that number; list them with: weir operator list", nil)
}

func (f *fakePlane) Operators(_ context.Context, filter *weirv1.ListOperatorsRequest) iter.Seq2[*weirv1.Operator, error] {
	f.asked = filter
	return rows(f.operators, f.err)
}

func (f *fakePlane) WaitOperator(ctx context.Context, _ uint64) (*weirv1.Operator, error) {
	if len(f.waits) == 0 {
		<-ctx.Done()
		return nil, &client.Error{Class: client.NotProposed, Reason: client.ReasonStillRunning, Err: ctx.Err()}
	}
	a := f.waits[0]
	f.waits = f.waits[1:]
	return a.operator, a.err
}

func (f *fakePlane) Nodes(_ context.Context, read *weirv1.ReadOptions) ([]*weirv1.Node, error) {
	f.read = read
	return f.nodes, f.err
}

func (f *fakePlane) Node(_ context.Context, name string, _ *weirv1.ReadOptions) (*weirv1.Node, error) {
	if len(f.drains) > 0 {
		n := f.drains[0]
		f.drains = f.drains[1:]
		return n, f.err
	}
	for _, n := range f.nodes {
		if n.GetName() == name {
			return n, f.err
		}
	}
	return nil, rejection("UNKNOWN_NODE", "no node is named "+name+"; list them with: weir node list", map[string]string{"node": name})
}

func (f *fakePlane) Status(context.Context, bool, *weirv1.ReadOptions) (*weirv1.GetStatusResponse, error) {
	return f.status, f.err
}

func (f *fakePlane) named(h *weirv1.RequestHeader) (*weirv1.ResponseHeader, error) {
	f.header = h
	return answer(), f.err
}

func (f *fakePlane) Pause(_ context.Context, h *weirv1.RequestHeader, _ string) (*weirv1.ResponseHeader, error) {
	return f.named(h)
}

func (f *fakePlane) ResumeFrom(_ context.Context, r *weirv1.ResumeChangefeedRequest) (*weirv1.ResumeChangefeedResponse, error) {
	f.asked, f.header = r, r.GetHeader()
	return &weirv1.ResumeChangefeedResponse{Header: answer(), Run: 2}, f.err
}

func (f *fakePlane) UpdateChangefeed(_ context.Context, r *weirv1.UpdateChangefeedRequest) (*weirv1.ResponseHeader, error) {
	f.asked, f.header = r, r.GetHeader()
	return answer(), f.err
}

func (f *fakePlane) StartDrain(_ context.Context, h *weirv1.RequestHeader, _ string) (*weirv1.ResponseHeader, error) {
	return f.named(h)
}

func (f *fakePlane) ClearDrain(_ context.Context, h *weirv1.RequestHeader, _ string) (*weirv1.ResponseHeader, error) {
	return f.named(h)
}

func (f *fakePlane) AdmitMany(_ context.Context, r *weirv1.AdmitManyRequest) ([]*weirv1.AdmitVerdict, error) {
	f.asked, f.header = r, r.GetHeader()
	return f.verdicts, f.err
}

func (f *fakePlane) Policy(context.Context, *weirv1.ReadOptions) (*weirv1.Policy, error) {
	return proto.CloneOf(f.policy), f.err
}

func (f *fakePlane) SetPolicy(_ context.Context, r *weirv1.SetPolicyRequest) (*weirv1.ResponseHeader, error) {
	f.asked, f.header = r, r.GetHeader()
	return answer(), f.err
}

func (f *fakePlane) Barriers(_ context.Context, filter *weirv1.ListBarriersRequest) iter.Seq2[*weirv1.Barrier, error] {
	f.asked = filter
	return rows(f.barriers, f.err)
}

func (f *fakePlane) Barrier(_ context.Context, r *weirv1.GetBarrierRequest) (*weirv1.Barrier, error) {
	f.asked = r
	for _, b := range f.barriers {
		if b.GetAt().GetTs() == r.GetAt().GetTs() {
			return b, f.err
		}
	}
	return nil, rejection("UNKNOWN_BARRIER", "changefeed shop has no open event there; list them with: weir barrier list", nil)
}

func (f *fakePlane) DecideBarrier(_ context.Context, r *weirv1.DecideBarrierRequest) (*weirv1.ResponseHeader, error) {
	f.asked, f.header = r, r.GetHeader()
	return answer(), f.err
}

func (f *fakePlane) ExplainDispatcher(context.Context, uint64, *weirv1.ReadOptions) (*weirv1.Explanation, error) {
	return f.explained, f.err
}

func (f *fakePlane) ExplainOperator(context.Context, uint64, *weirv1.ReadOptions) (*weirv1.Explanation, error) {
	return f.explained, f.err
}

func (f *fakePlane) ExplainBarrier(_ context.Context, r *weirv1.ExplainBarrierRequest) (*weirv1.Explanation, error) {
	f.asked = r
	return f.explained, f.err
}

func (f *fakePlane) ExplainRequest(context.Context, string, *weirv1.ReadOptions) (*weirv1.ExplainRequestResponse, error) {
	return &weirv1.ExplainRequestResponse{Header: answer(), Verdict: f.verdict, RequestTimeMs: 900, AnsweredMs: 1000}, f.err
}

func (f *fakePlane) DryRun(_ context.Context, r *weirv1.DryRunRequest) (*weirv1.DryRunResponse, error) {
	f.asked = r
	return &weirv1.DryRunResponse{Header: answer(), AtIndex: answeredAt, Verdict: f.verdict}, f.err
}

func (f *fakePlane) StateAt(context.Context, uint64, *weirv1.ReadOptions) (*weirv1.StateSummary, error) {
	return f.state, f.err
}

func (f *fakePlane) Remove(_ context.Context, h *weirv1.RequestHeader, _ string) (*weirv1.ResponseHeader, error) {
	return f.named(h)
}

func (f *fakePlane) Cancel(_ context.Context, h *weirv1.RequestHeader, _ uint64) (*weirv1.ResponseHeader, error) {
	return f.named(h)
}

func (f *fakePlane) Fence(_ context.Context, h *weirv1.RequestHeader, _ string, incarnation uint64, _ string) (uint64, error) {
	_, err := f.named(h)
	if incarnation == 0 {
		incarnation = tok(4)
	}
	return incarnation, err
}

func (f *fakePlane) Close() { f.closed = true }

// rejection is a verdict that says no.
func rejection(reason, text string, facts map[string]string) error {
	return &client.Error{Class: client.Rejected, Reason: reason, Message: text, Facts: facts}
}

// tok is a token of generation 29 with a sequence.
func tok(sequence uint64) uint64 { return 29<<36 + sequence }
