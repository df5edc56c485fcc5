package server

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// change brings the command of a request into the log and returns its verdict only if it was accepted.
func (s *Server) change(ctx context.Context, req mutation) (fsm.Verdict, error) {
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return fsm.Verdict{}, &Error{Kind: NotReady}
	}
	command, err := commandOf(view, req)
	if err != nil {
		return fsm.Verdict{}, err
	}
	return s.propose(ctx, req.GetHeader(), command)
}

// commandOf is the command that a request asks for. The view serves only to look up what never changes: where the span of
// a dispatcher begins and ends.
func commandOf(view *fsm.View, req mutation) (fsm.Command, error) {
	switch r := req.(type) {
	case *weirv1.CreateChangefeedRequest:
		return createChangefeed(r)
	case *weirv1.UpdateChangefeedRequest:
		return updateChangefeed(r), nil
	case *weirv1.PauseChangefeedRequest:
		return &fsm.PauseChangefeed{Name: r.GetName()}, nil
	case *weirv1.ResumeChangefeedRequest:
		return resumeChangefeed(r)
	case *weirv1.RemoveChangefeedRequest:
		return &fsm.RemoveChangefeed{Name: r.GetName()}, nil
	case *weirv1.AddTablesRequest:
		return addTables(r)
	case *weirv1.DropTablesRequest:
		return dropTables(r), nil
	case *weirv1.AdmitOperatorRequest:
		return admitOperator(view, "operator", r.GetOperator())
	case *weirv1.AdmitManyRequest:
		return admitMany(view, r)
	case *weirv1.CancelOperatorRequest:
		return &fsm.CancelOperator{Op: fsm.OpID(r.GetOpId())}, nil
	case *weirv1.DecideBarrierRequest:
		return decideBarrier(view, r)
	case *weirv1.SetPolicyRequest:
		return setPolicy(r)
	default:
		return nodeCommandOf(req)
	}
}

// nodeCommandOf is commandOf for what concerns nodes and servers.
func nodeCommandOf(req mutation) (fsm.Command, error) {
	switch r := req.(type) {
	case *weirv1.FenceNodeRequest:
		return &fsm.FenceNode{
			Node: fsm.NodeName(r.GetName()), Incarnation: fsm.Incarnation(r.GetIncarnation()), Why: r.GetWhy(),
		}, nil
	case *weirv1.StartDrainRequest:
		return &fsm.StartDrain{Node: fsm.NodeName(r.GetName())}, nil
	case *weirv1.ClearDrainRequest:
		return &fsm.ClearDrain{Node: fsm.NodeName(r.GetName())}, nil
	case *weirv1.RegisterRequest:
		command, err := nodewire.ToRegisterNode(r)
		if err != nil {
			return nil, malformed("clock_class", err.Error())
		}
		return command, nil
	case *weirv1.GoodbyeRequest:
		command, err := nodewire.ToGoodbye(r)
		if err != nil {
			return nil, malformed("stopped", err.Error())
		}
		return command, nil
	case *weirv1.AnnounceServerRequest:
		return &fsm.AnnounceServer{
			Server: fsm.ServerID(r.GetServer()), Address: r.GetAddress(), HighestLevel: r.GetHighestLevel(),
		}, nil
	default:
		return nil, &Error{Kind: Internal, Err: fmt.Errorf("%T asks for no command", req)}
	}
}
