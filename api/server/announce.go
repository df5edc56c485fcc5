package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// Announce records where a server can be called: here if this server leads, else at the leader. Announcing the same
// again is harmless, so the caller repeats it until it succeeds. The error is an *Error, a *RejectedError, or what the
// leader answered.
func (s *Server) Announce(ctx context.Context, server *fsm.AnnounceServer) error {
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return &Error{Kind: NotReady}
	}
	// The id is the same for the same words at the same log time only: an announcement that was undone by another one in
	// between takes effect again.
	m := view.Meta()
	id := fmt.Sprintf("announce-%016x-%d", filtersOf(string(server.Server), server.Address, fmt.Sprint(server.HighestLevel)), m.Index)
	req := &weirv1.AnnounceServerRequest{
		Header: &weirv1.RequestHeader{RequestId: id, RequestTimeMs: m.TimeMS, By: string(server.Server)},
		Server: string(server.Server), Address: server.Address, HighestLevel: server.HighestLevel,
	}
	handler := func(ctx context.Context, _ any) (any, error) { return s.AnnounceServer(ctx, req) }
	_, err := s.answer(ctx, req, weirv1.Cluster_AnnounceServer_FullMethodName, grpc.UnaryHandler(handler))
	return err
}
