package server

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// ListNodes implements weir.v1.
func (s *Server) ListNodes(ctx context.Context, req *weirv1.ListNodesRequest) (*weirv1.ListNodesResponse, error) {
	filters := filtersOf("nodes")
	after, first, err := parsePage(req.GetPageToken(), filters)
	if err != nil {
		return nil, err
	}
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, size := &weirv1.ListNodesResponse{Header: header}, pageSize(req.GetPageSize())
	for node := range view.Nodes() {
		if !first && string(node.Name) <= after {
			continue
		}
		if n := len(resp.GetNodes()); n == size {
			resp.NextPageToken = pageToken{filters: filters, after: resp.GetNodes()[n-1].GetName()}.String()
			break
		}
		resp.Nodes = append(resp.Nodes, s.nodeRow(view, node))
	}
	return resp, nil
}

// GetNode implements weir.v1.
func (s *Server) GetNode(ctx context.Context, req *weirv1.GetNodeRequest) (*weirv1.GetNodeResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	name := fsm.NodeName(req.GetName())
	node, ok := view.Node(name)
	if !ok {
		return nil, unknown(fsm.UnknownNode, fsm.Facts{Node: name}, view.Meta().Index)
	}
	row := s.nodeRow(view, node)
	row.Pending = uint32(view.PendingCount(node.Incarnation))
	return &weirv1.GetNodeResponse{Header: header, Node: row}, nil
}

// FenceNode implements weir.v1.
func (s *Server) FenceNode(ctx context.Context, req *weirv1.FenceNodeRequest) (*weirv1.FenceNodeResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.FenceNodeResponse{Header: s.decided(v), Incarnation: uint64(v.Facts.Incarnation)}, nil
}

// StartDrain implements weir.v1.
func (s *Server) StartDrain(ctx context.Context, req *weirv1.StartDrainRequest) (*weirv1.StartDrainResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.StartDrainResponse{Header: s.decided(v)}, nil
}

// ClearDrain implements weir.v1.
func (s *Server) ClearDrain(ctx context.Context, req *weirv1.ClearDrainRequest) (*weirv1.ClearDrainResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.ClearDrainResponse{Header: s.decided(v)}, nil
}

// drainRow is how far a node's drain has come; nil without one.
func drainRow(view *fsm.View, n fsm.Node) *weirv1.Drain {
	if !n.Draining {
		return nil
	}
	left := view.DrainLeft(n)
	return &weirv1.Drain{
		Since: n.DrainSince, By: n.DrainBy, From: n.DrainFrom, Left: left, ConfirmedAt: n.DrainedAt,
		WaitsFor: drainWaitsFor(view, n, left),
	}
}

// drainWaitsFor says what must happen before a drain is over; empty when it is.
func drainWaitsFor(view *fsm.View, n fsm.Node, left uint64) string {
	switch {
	case left > 0 && !othersTakeWork(view):
		return fmt.Sprintf("a node that can take its work: none is live without being fenced or drained, so %d dispatchers stay where they run; start another node, or end a drain with: weir node clear NAME", left)
	case left > 0:
		return fmt.Sprintf("%d dispatchers to leave it; see them with: weir dispatcher list --node %s", left, n.Name)
	case n.DrainedAt == 0 && n.Status == fsm.NodeStatusLive:
		return "its own word that it holds nothing"
	default:
		return ""
	}
}

func othersTakeWork(view *fsm.View) bool {
	for n := range view.Nodes() {
		if n.Status == fsm.NodeStatusLive && !n.Draining {
			return true
		}
	}
	return false
}
