package server

import (
	"context"

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
	v, err := s.propose(ctx, req.GetHeader(), &fsm.FenceNode{
		Node: fsm.NodeName(req.GetName()), Incarnation: fsm.Incarnation(req.GetIncarnation()), Why: req.GetWhy(),
	})
	if err != nil {
		return nil, err
	}
	return &weirv1.FenceNodeResponse{Header: s.decided(v), Incarnation: uint64(v.Facts.Incarnation)}, nil
}
