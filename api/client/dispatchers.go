package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/weirv1"
)

// Dispatchers yields the dispatchers that match the request's filters, by id, page by page; each page is a read of its
// own. It ends at the first error, which it yields.
func (c *Client) Dispatchers(
	ctx context.Context, filter *weirv1.ListDispatchersRequest,
) iter.Seq2[*weirv1.Dispatcher, error] {
	return func(yield func(*weirv1.Dispatcher, error) bool) {
		req := proto.CloneOf(filter)
		for more := true; more; more = req.GetPageToken() != "" {
			page, err := c.dispatchers.ListDispatchers(ctx, req)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, d := range page.GetDispatchers() {
				if !yield(d, nil) {
					return
				}
			}
			req.PageToken = page.GetNextPageToken()
		}
	}
}

// Dispatcher returns one dispatcher.
func (c *Client) Dispatcher(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.Dispatcher, error) {
	resp, err := c.dispatchers.GetDispatcher(ctx, &weirv1.GetDispatcherRequest{Read: read, Dispatcher: id})
	return resp.GetDispatcher(), err
}

// History returns what is remembered of a dispatcher's placements, also of one that is gone.
func (c *Client) History(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.GetHistoryResponse, error) {
	return c.dispatchers.GetHistory(ctx, &weirv1.GetHistoryRequest{Read: read, Dispatcher: id})
}
