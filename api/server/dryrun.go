package server

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// DryRun implements weir.v1.
func (s *Server) DryRun(ctx context.Context, req *weirv1.DryRunRequest) (*weirv1.DryRunResponse, error) {
	asked := dryRequest(req)
	if asked == nil {
		return nil, malformed("request", "is missing")
	}
	view, header, err := s.viewAt(ctx, req, req.GetAtIndex())
	if err != nil {
		return nil, err
	}
	command, err := commandOf(view, asked)
	if err != nil {
		return nil, err
	}
	proposal := s.proposal(asked.GetHeader(), asked.GetHeader().GetRequestId(), command)
	if proposal.RequestTimeMS == 0 {
		proposal.RequestTimeMS = view.Meta().TimeMS
	}
	return &weirv1.DryRunResponse{
		Header: header, AtIndex: view.Meta().Index, Verdict: verdictRow(s.dryRun(view, proposal)),
	}, nil
}

func (s *Server) dryRun(view *fsm.View, p fsm.Proposal) fsm.Verdict {
	s.forking.Lock()
	defer s.forking.Unlock()
	return view.DryRun(p)
}

// dryRequest is the request that is tried; nil for none. Every field of the oneof is a request that asks for a change,
// which a test holds it to.
func dryRequest(req *weirv1.DryRunRequest) mutation {
	m := req.ProtoReflect()
	set := m.WhichOneof(m.Descriptor().Oneofs().ByName("request"))
	if set == nil {
		return nil
	}
	asked, ok := m.Get(set).Message().Interface().(mutation)
	if !ok {
		return nil
	}
	return asked
}

// GetStateAt implements weir.v1.
func (s *Server) GetStateAt(ctx context.Context, req *weirv1.GetStateAtRequest) (*weirv1.GetStateAtResponse, error) {
	view, header, err := s.viewAt(ctx, req, req.GetIndex())
	if err != nil {
		return nil, err
	}
	return &weirv1.GetStateAtResponse{Header: header, State: Summary(view)}, nil
}

// viewAt is the state that a read asked for, or, with an index, the state there. The header is about the present one.
func (s *Server) viewAt(ctx context.Context, q query, index uint64) (*fsm.View, *weirv1.ResponseHeader, error) {
	view, header, err := s.view(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	switch now := view.Meta().Index; {
	case index == 0 || index == now:
		return view, header, nil
	case index > now:
		return nil, nil, &Error{Kind: IndexNotYet, Have: now, Want: index}
	case s.config.History == nil:
		return nil, nil, &Error{Kind: IndexTooOld, Have: now, Want: index}
	}
	view, err = s.config.History.StateAt(ctx, index)
	return view, header, err
}

// Summary sums up a state, as GetStateAt answers. It looks at every dispatcher.
func Summary(view *fsm.View) *weirv1.StateSummary {
	m := view.Meta()
	out := &weirv1.StateSummary{
		Index: m.Index, RaftTerm: m.RaftTerm, Hash: digestRow(view.Hash()), Cluster: m.Cluster, Generation: uint64(m.Generation),
		Level: m.Level, Term: m.Term, Leader: string(m.Leader), TimeMs: m.TimeMS,
	}
	for d := range view.Dispatchers() {
		out.Dispatchers++
		switch d.Phase {
		case fsm.Absent:
			out.Absent++
		case fsm.Starting:
			out.Starting++
		case fsm.Running:
			out.Running++
		case fsm.Stopping:
			out.Stopping++
		default:
		}
	}
	sumChangefeeds(view, out)
	for op := range view.Operators() {
		out.Operators++
		if op.StuckAt != 0 {
			out.StuckOperators++
		}
	}
	for n := range view.Nodes() {
		out.Nodes++
		if n.Status == fsm.NodeStatusLive {
			out.LiveNodes++
		}
	}
	return out
}

func sumChangefeeds(view *fsm.View, out *weirv1.StateSummary) {
	for feed := range view.Changefeeds() {
		out.Changefeeds++
		for t := range view.Tables(feed.ID) {
			if !t.Trigger {
				out.Tables++
			}
		}
		for b := range view.Barriers(feed.ID) {
			out.Barriers++
			if b.StuckAt != 0 {
				out.StuckBarriers++
			}
			if b.Status == fsm.BarrierUndecided {
				out.UndecidedBarriers++
			}
		}
	}
}
