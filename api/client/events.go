package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/weirv1"
)

// Barriers yields the barriers that match the request's filters, page by page. It ends at the first error, which it
// yields.
func (c *Client) Barriers(ctx context.Context, filter *weirv1.ListBarriersRequest) iter.Seq2[*weirv1.Barrier, error] {
	return func(yield func(*weirv1.Barrier, error) bool) {
		req := proto.CloneOf(filter)
		for more := true; more; more = req.GetPageToken() != "" {
			page, err := c.barriers.ListBarriers(ctx, req)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, b := range page.GetBarriers() {
				if !yield(b, nil) {
					return
				}
			}
			req.PageToken = page.GetNextPageToken()
		}
	}
}

// Barrier returns one barrier, with who is missing.
func (c *Client) Barrier(ctx context.Context, req *weirv1.GetBarrierRequest) (*weirv1.Barrier, error) {
	resp, err := c.barriers.GetBarrier(ctx, req)
	return resp.GetBarrier(), err
}

// DecideBarrier ends what only a person can decide. The header may be left out.
func (c *Client) DecideBarrier(ctx context.Context, req *weirv1.DecideBarrierRequest) (*weirv1.ResponseHeader, error) {
	resp, err := c.barriers.DecideBarrier(ctx, req)
	return resp.GetHeader(), err
}

// ExplainDispatcher says why a dispatcher is where it is.
func (c *Client) ExplainDispatcher(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Explanation, error) {
	resp, err := c.explain.ExplainDispatcher(ctx, &weirv1.ExplainDispatcherRequest{Read: read, Dispatcher: id})
	return resp.GetExplanation(), err
}

// ExplainOperator says why an operator stands, or ended, as it does.
func (c *Client) ExplainOperator(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Explanation, error) {
	resp, err := c.explain.ExplainOperator(ctx, &weirv1.ExplainOperatorRequest{Read: read, OpId: id})
	return resp.GetExplanation(), err
}

// ExplainBarrier says what a barrier waits for and what has happened to it.
func (c *Client) ExplainBarrier(ctx context.Context, req *weirv1.ExplainBarrierRequest) (*weirv1.Explanation, error) {
	resp, err := c.explain.ExplainBarrier(ctx, req)
	return resp.GetExplanation(), err
}

// ExplainRequest returns the remembered verdict of a request.
func (c *Client) ExplainRequest(ctx context.Context, id string, read *weirv1.ReadOptions) (*weirv1.ExplainRequestResponse, error) {
	return c.explain.ExplainRequest(ctx, &weirv1.ExplainRequestRequest{Read: read, RequestId: id})
}

// DryRun returns the verdict that a request would get; nothing is changed.
func (c *Client) DryRun(ctx context.Context, req *weirv1.DryRunRequest) (*weirv1.DryRunResponse, error) {
	return c.explain.DryRun(ctx, req)
}

// StateAt sums up the state right after the log entry at index; 0: the present one.
func (c *Client) StateAt(ctx context.Context, index uint64, read *weirv1.ReadOptions) (*weirv1.StateSummary, error) {
	resp, err := c.explain.GetStateAt(ctx, &weirv1.GetStateAtRequest{Read: read, Index: index})
	return resp.GetState(), err
}
