package server

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// GetPolicy implements weir.v1.
func (s *Server) GetPolicy(ctx context.Context, req *weirv1.GetPolicyRequest) (*weirv1.GetPolicyResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.GetPolicyResponse{Header: header, Policy: policyRow(view.Meta().Policy)}, nil
}

// SetPolicy implements weir.v1.
func (s *Server) SetPolicy(ctx context.Context, req *weirv1.SetPolicyRequest) (*weirv1.SetPolicyResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.SetPolicyResponse{Header: s.decided(v)}, nil
}

func setPolicy(req *weirv1.SetPolicyRequest) (fsm.Command, error) {
	p := req.GetPolicy()
	if p == nil {
		return nil, malformed("policy", "is missing")
	}
	return &fsm.SetPolicy{Policy: fsm.Policy{
		MaxDispatchers: p.GetMaxDispatchers(), MaxPlacementsPerNode: p.GetMaxPlacementsPerNode(), MaxOperators: p.GetMaxOperators(),
		MaxNodes: p.GetMaxNodes(), KeepRequests: p.GetKeepRequests(), KeepRequestsMS: p.GetKeepRequestsMs(),
		KeepOperators: p.GetKeepOperators(), KeepHistory: p.GetKeepHistory(), KeepHistoryEach: p.GetKeepHistoryEach(),
		HealthyMS: p.GetHealthyMs(), KeepBarriers: p.GetKeepBarriers(), OperatorDeadlineMS: p.GetOperatorDeadlineMs(),
		BarrierDeadlineMS: p.GetBarrierDeadlineMs(), CancelStuck: p.GetCancelStuck(), FenceStuck: p.GetFenceStuck(),
		FenceStuckMS: p.GetFenceStuckMs(), FailAfter: p.GetFailAfter(), DrainAtOnce: p.GetDrainAtOnce(),
	}}, nil
}

func policyRow(p fsm.Policy) *weirv1.Policy {
	return &weirv1.Policy{
		MaxDispatchers: p.MaxDispatchers, MaxPlacementsPerNode: p.MaxPlacementsPerNode, MaxOperators: p.MaxOperators,
		MaxNodes: p.MaxNodes, KeepRequests: p.KeepRequests, KeepRequestsMs: p.KeepRequestsMS, KeepOperators: p.KeepOperators,
		KeepHistory: p.KeepHistory, KeepHistoryEach: p.KeepHistoryEach, HealthyMs: p.HealthyMS, KeepBarriers: p.KeepBarriers,
		OperatorDeadlineMs: p.OperatorDeadlineMS, BarrierDeadlineMs: p.BarrierDeadlineMS, CancelStuck: p.CancelStuck,
		FenceStuck: p.FenceStuck, FenceStuckMs: p.FenceStuckMS, FailAfter: p.FailAfter, DrainAtOnce: p.DrainAtOnce,
	}
}
