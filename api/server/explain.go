package server

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// ExplainDispatcher implements weir.v1.
func (s *Server) ExplainDispatcher(
	ctx context.Context, req *weirv1.ExplainDispatcherRequest,
) (*weirv1.ExplainDispatcherResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	e, ok := view.ExplainDispatcher(fsm.DispatcherID(req.GetDispatcher()))
	if !ok {
		return nil, unknownDispatcher(view, req.GetDispatcher())
	}
	return &weirv1.ExplainDispatcherResponse{Header: header, Explanation: explanationRow(e)}, nil
}

// ExplainOperator implements weir.v1.
func (s *Server) ExplainOperator(
	ctx context.Context, req *weirv1.ExplainOperatorRequest,
) (*weirv1.ExplainOperatorResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	e, ok := view.ExplainOperator(fsm.OpID(req.GetOpId()))
	if !ok {
		return nil, unknown(fsm.NoSuchOperator, fsm.Facts{Operator: fsm.OpID(req.GetOpId())}, view.Meta().Index)
	}
	return &weirv1.ExplainOperatorResponse{Header: header, Explanation: explanationRow(e)}, nil
}

// ExplainBarrier implements weir.v1.
func (s *Server) ExplainBarrier(
	ctx context.Context, req *weirv1.ExplainBarrierRequest,
) (*weirv1.ExplainBarrierResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	key, err := barrierKey(view, req.GetChangefeed(), req.GetRun(), req.GetAt())
	if err != nil {
		return nil, err
	}
	e, ok := view.ExplainBarrier(key)
	if !ok {
		return nil, unknownBarrier(view, req.GetChangefeed(), key)
	}
	return &weirv1.ExplainBarrierResponse{Header: header, Explanation: explanationRow(e)}, nil
}

// ExplainRequest implements weir.v1.
func (s *Server) ExplainRequest(
	ctx context.Context, req *weirv1.ExplainRequestRequest,
) (*weirv1.ExplainRequestResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	id := req.GetRequestId()
	r, ok := view.Request(fsm.RequestID(id))
	if !ok {
		m := view.Meta()
		return nil, &Error{Kind: UnknownRequest, Have: m.TimeMS, Want: m.RequestFloorMS, Text: fmt.Sprintf(
			"no answer is remembered under request id %s: it was never carried out, or it was built before log time %d ms and has been forgotten", id, m.RequestFloorMS)}
	}
	return &weirv1.ExplainRequestResponse{
		Header: header, Verdict: verdictRow(r.Verdict), RequestTimeMs: r.TimeMS, AnsweredMs: r.KeptMS,
	}, nil
}

func explanationRow(e fsm.Explanation) *weirv1.Explanation {
	out := &weirv1.Explanation{Subject: e.Subject}
	for _, l := range e.Lines {
		out.Lines = append(out.Lines, &weirv1.ExplanationLine{Index: l.Index, By: l.By, Text: l.Text})
	}
	return out
}

func verdictRow(v fsm.Verdict) *weirv1.Verdict {
	out := &weirv1.Verdict{
		Accepted: v.OK(), Reason: v.Reason.String(), Message: (&RejectedError{Verdict: v}).Error(), Facts: verdictFacts(v),
		Code: int32(reasonCode(v.Reason)), Index: v.Index, Replayed: v.Replayed,
	}
	for _, item := range v.Items {
		out.Items = append(out.Items, verdictRow(fsm.Verdict{Reason: item.Reason, Facts: item.Facts, Index: v.Index, Replayed: v.Replayed}))
	}
	return out
}
