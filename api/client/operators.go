package client

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fence/clock"
)

// AdmitOperator asks for an operator on one dispatcher.
func (c *Client) AdmitOperator(ctx context.Context, operator *weirv1.OperatorSpec) (*weirv1.Admission, error) {
	return c.Admit(ctx, &weirv1.AdmitOperatorRequest{Operator: operator})
}

// Admit is AdmitOperator with a header of the caller's.
func (c *Client) Admit(ctx context.Context, req *weirv1.AdmitOperatorRequest) (*weirv1.Admission, error) {
	resp, err := c.operators.AdmitOperator(ctx, req)
	return resp.GetAdmission(), err
}

// AdmitBatch asks for many operators; each has a verdict of its own, in order. The header may be left out.
func (c *Client) AdmitBatch(
	ctx context.Context, req *weirv1.AdmitBatchRequest,
) (*weirv1.AdmitBatchResponse, error) {
	return c.operators.AdmitBatch(ctx, req)
}

// manyAtOnce is how many operators one call of AdmitMany carries: a number of whole chunks.
const manyAtOnce, manyChunk = 4096, 256

// AdmitMany asks for any number of operators, with a verdict for each, in order; or for all or nothing, at most 256 of
// them. After an error the verdicts of the calls before it come back too; the whole can be sent again under the same
// header: what was decided keeps its verdicts. The header may be left out.
func (c *Client) AdmitMany(ctx context.Context, req *weirv1.AdmitManyRequest) ([]*weirv1.AdmitVerdict, error) {
	if req.GetAllOrNothing() || len(req.GetOperators()) <= manyAtOnce {
		resp, err := c.operators.AdmitMany(ctx, req)
		return resp.GetVerdicts(), err
	}
	header := req.GetHeader()
	if header.GetRequestId() == "" {
		var err error
		if header, err = c.NewRequest(ctx); err != nil {
			return nil, err
		}
	}
	var verdicts []*weirv1.AdmitVerdict
	chunk := req.GetFirstChunk()
	for part := range slices.Chunk(req.GetOperators(), manyAtOnce) {
		resp, err := c.operators.AdmitMany(ctx, &weirv1.AdmitManyRequest{Header: header, Operators: part, FirstChunk: chunk})
		if err != nil {
			return verdicts, err
		}
		verdicts = append(verdicts, resp.GetVerdicts()...)
		chunk += manyAtOnce / manyChunk
	}
	return verdicts, nil
}

// CancelOperator stops one operator.
func (c *Client) CancelOperator(ctx context.Context, id uint64) (*weirv1.ResponseHeader, error) {
	resp, err := c.operators.CancelOperator(ctx, &weirv1.CancelOperatorRequest{OpId: id})
	return resp.GetHeader(), err
}

// Operator returns a running or remembered operator.
func (c *Client) Operator(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Operator, error) {
	resp, err := c.operators.GetOperator(ctx, &weirv1.GetOperatorRequest{Read: read, OpId: id})
	return resp.GetOperator(), err
}

// Operators yields the operators that match the request's filters, page by page. It ends at the first error, which it
// yields.
func (c *Client) Operators(
	ctx context.Context, filter *weirv1.ListOperatorsRequest,
) iter.Seq2[*weirv1.Operator, error] {
	return func(yield func(*weirv1.Operator, error) bool) {
		req := proto.CloneOf(filter)
		for more := true; more; more = req.GetPageToken() != "" {
			page, err := c.operators.ListOperators(ctx, req)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range page.GetOperators() {
				if !yield(o, nil) {
					return
				}
			}
			req.PageToken = page.GetNextPageToken()
		}
	}
}

// waitStep is how long one server is asked to wait, so that a server that dies meanwhile is noticed soon.
const waitStep = 2000

// WaitOperator returns when the operator has ended, or when the context ends: then with the operator as it last stood,
// if it was seen, and the error.
func (c *Client) WaitOperator(ctx context.Context, id uint64) (*weirv1.Operator, error) {
	var seen *weirv1.Operator
	for {
		resp, err := c.operators.WaitOperator(ctx, &weirv1.WaitOperatorRequest{OpId: id, WaitMs: waitStep})
		if err != nil && seen != nil && ctx.Err() != nil {
			return seen, notEnded(ctx, seen)
		}
		if err != nil {
			return seen, err
		}
		seen = resp.GetOperator()
		if resp.GetEnded() {
			return seen, nil
		}
		// A server answers a little before the deadline: without a pause the rest of the time would go into asking.
		if clock.Sleep(ctx, c.config.Timers, c.config.BackoffMin) != nil {
			return seen, notEnded(ctx, seen)
		}
	}
}

// notEnded is the error of a wait that was over before the operator.
func notEnded(ctx context.Context, op *weirv1.Operator) error {
	text := "the operator has not ended yet"
	if op.GetWaitsFor() != "" {
		text += "; it waits for " + op.GetWaitsFor()
	}
	return &Error{
		Class: NotProposed, Reason: ReasonStillRunning, Message: text, Facts: map[string]string{},
		Err: context.Cause(ctx),
	}
}

// ReasonStillRunning is the reason of a wait whose time was over before the operator had ended.
const ReasonStillRunning = "STILL_RUNNING"
