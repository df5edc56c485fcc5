package plane

import (
	"context"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
)

// Pause implements Named.
func (c connected) Pause(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error) {
	return c.PauseChangefeed(client.WithRequest(ctx, h), changefeed)
}

// StartDrain implements Named.
func (c connected) StartDrain(ctx context.Context, h *weirv1.RequestHeader, node string) (*weirv1.ResponseHeader, error) {
	return c.Client.StartDrain(client.WithRequest(ctx, h), node)
}

// ClearDrain implements Named.
func (c connected) ClearDrain(ctx context.Context, h *weirv1.RequestHeader, node string) (*weirv1.ResponseHeader, error) {
	return c.Client.ClearDrain(client.WithRequest(ctx, h), node)
}

// Remove implements Named.
func (c connected) Remove(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error) {
	return c.RemoveChangefeed(client.WithRequest(ctx, h), changefeed)
}

// Cancel implements Named.
func (c connected) Cancel(ctx context.Context, h *weirv1.RequestHeader, operator uint64) (*weirv1.ResponseHeader, error) {
	return c.CancelOperator(client.WithRequest(ctx, h), operator)
}

// Fence implements Named.
func (c connected) Fence(ctx context.Context, h *weirv1.RequestHeader, node string, incarnation uint64, why string) (uint64, error) {
	return c.FenceNode(client.WithRequest(ctx, h), node, incarnation, why)
}
