package plane

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
)

// under makes the client send the next request under the header's id. The client's own methods for these requests take
// no header, but ask for an id.
func (c *connected) under(h *weirv1.RequestHeader) (unlock func()) {
	c.mu.Lock()
	c.id = h.GetRequestId()
	return c.mu.Unlock
}

// Pause implements Named.
func (c *connected) Pause(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error) {
	defer c.under(h)()
	return c.PauseChangefeed(ctx, changefeed)
}

// Resume implements Named.
func (c *connected) Resume(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error) {
	defer c.under(h)()
	return c.ResumeChangefeed(ctx, changefeed)
}

// Remove implements Named.
func (c *connected) Remove(ctx context.Context, h *weirv1.RequestHeader, changefeed string) (*weirv1.ResponseHeader, error) {
	defer c.under(h)()
	return c.RemoveChangefeed(ctx, changefeed)
}

// Cancel implements Named.
func (c *connected) Cancel(ctx context.Context, h *weirv1.RequestHeader, operator uint64) (*weirv1.ResponseHeader, error) {
	defer c.under(h)()
	return c.CancelOperator(ctx, operator)
}

// Fence implements Named.
func (c *connected) Fence(ctx context.Context, h *weirv1.RequestHeader, node string, incarnation uint64, why string) (uint64, error) {
	defer c.under(h)()
	return c.FenceNode(ctx, node, incarnation, why)
}
