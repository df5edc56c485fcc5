package plane

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/api/weirv1"
)

// recorder is a server that notes under which id it was asked.
type recorder struct {
	weirv1.UnimplementedChangefeedsServer
	weirv1.UnimplementedOperatorsServer
	weirv1.UnimplementedNodesServer
	weirv1.UnimplementedClusterServer

	header *weirv1.RequestHeader
}

func (r *recorder) note(h *weirv1.RequestHeader) *weirv1.ResponseHeader {
	r.header = h
	return &weirv1.ResponseHeader{Index: 5, LogTimeMs: 1000}
}

// GetStatus tells the time.
func (r *recorder) GetStatus(context.Context, *weirv1.GetStatusRequest) (*weirv1.GetStatusResponse, error) {
	return &weirv1.GetStatusResponse{Header: &weirv1.ResponseHeader{LogTimeMs: 900}}, nil
}

// PauseChangefeed notes the id.
func (r *recorder) PauseChangefeed(_ context.Context, q *weirv1.PauseChangefeedRequest) (*weirv1.PauseChangefeedResponse, error) {
	return &weirv1.PauseChangefeedResponse{Header: r.note(q.GetHeader())}, nil
}

// StartDrain notes the id.
func (r *recorder) StartDrain(_ context.Context, q *weirv1.StartDrainRequest) (*weirv1.StartDrainResponse, error) {
	return &weirv1.StartDrainResponse{Header: r.note(q.GetHeader())}, nil
}

// ClearDrain notes the id.
func (r *recorder) ClearDrain(_ context.Context, q *weirv1.ClearDrainRequest) (*weirv1.ClearDrainResponse, error) {
	return &weirv1.ClearDrainResponse{Header: r.note(q.GetHeader())}, nil
}

// ResumeChangefeed notes the id.
func (r *recorder) ResumeChangefeed(_ context.Context, q *weirv1.ResumeChangefeedRequest) (*weirv1.ResumeChangefeedResponse, error) {
	return &weirv1.ResumeChangefeedResponse{Header: r.note(q.GetHeader())}, nil
}

// RemoveChangefeed notes the id.
func (r *recorder) RemoveChangefeed(_ context.Context, q *weirv1.RemoveChangefeedRequest) (*weirv1.RemoveChangefeedResponse, error) {
	return &weirv1.RemoveChangefeedResponse{Header: r.note(q.GetHeader())}, nil
}

// CancelOperator notes the id.
func (r *recorder) CancelOperator(_ context.Context, q *weirv1.CancelOperatorRequest) (*weirv1.CancelOperatorResponse, error) {
	return &weirv1.CancelOperatorResponse{Header: r.note(q.GetHeader())}, nil
}

// FenceNode notes the id.
func (r *recorder) FenceNode(_ context.Context, q *weirv1.FenceNodeRequest) (*weirv1.FenceNodeResponse, error) {
	return &weirv1.FenceNodeResponse{Header: r.note(q.GetHeader()), Incarnation: 7}, nil
}

// TestChosenIDs: every request that changes something goes out under the id that the caller chose.
func TestChosenIDs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, r := grpc.NewServer(), &recorder{}
	weirv1.RegisterChangefeedsServer(server, r)
	weirv1.RegisterOperatorsServer(server, r)
	weirv1.RegisterNodesServer(server, r)
	weirv1.RegisterClusterServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	p, err := Connect([]string{listener.Addr().String()}, "ann", 10*time.Second)
	require.NoError(t, err)
	defer p.Close()
	for name, change := range map[string]func(*weirv1.RequestHeader) error{
		"pause": func(h *weirv1.RequestHeader) error { _, err := p.Pause(t.Context(), h, "f"); return err },
		"drain": func(h *weirv1.RequestHeader) error { _, err := p.StartDrain(t.Context(), h, "n"); return err },
		"clear": func(h *weirv1.RequestHeader) error { _, err := p.ClearDrain(t.Context(), h, "n"); return err },
		"resume": func(h *weirv1.RequestHeader) error {
			_, err := p.ResumeFrom(t.Context(), &weirv1.ResumeChangefeedRequest{Header: h, Name: "f"})
			return err
		},
		"remove": func(h *weirv1.RequestHeader) error { _, err := p.Remove(t.Context(), h, "f"); return err },
		"cancel": func(h *weirv1.RequestHeader) error { _, err := p.Cancel(t.Context(), h, 3); return err },
		"fence":  func(h *weirv1.RequestHeader) error { _, err := p.Fence(t.Context(), h, "n", 0, "why"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			r.header = nil
			require.NoError(t, change(&weirv1.RequestHeader{RequestId: "id-of-" + name, RequestTimeMs: 321}))
			require.Equal(t, "id-of-"+name, r.header.GetRequestId())
			require.Equal(t, "ann", r.header.GetBy())
			require.Equal(t, uint64(321), r.header.GetRequestTimeMs(), "the time decides whether a late retry is refused")
			require.NoError(t, change(&weirv1.RequestHeader{RequestId: "new-" + name}))
			require.GreaterOrEqual(t, r.header.GetRequestTimeMs(), uint64(900), "a name without a time was built now, not at the beginning")
		})
	}
}
