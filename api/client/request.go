package client

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
)

// NewRequest makes the header of a new request. A caller that sets it in a request itself knows the request's name
// beforehand and can send it again later; without one each call makes its own.
func (c *Client) NewRequest(ctx context.Context) (*weirv1.RequestHeader, error) {
	now, e := c.time(ctx)
	if e != nil {
		return nil, e
	}
	return &weirv1.RequestHeader{RequestId: c.config.NewID(), RequestTimeMs: now, By: c.config.By}, nil
}

// headerKey finds the header that a context carries.
type headerKey struct{}

// WithRequest makes the next request for a change that is sent under the context go out under the header, which
// NewRequest made: the way to choose, and to repeat, the name of a request whose method takes no message.
func WithRequest(ctx context.Context, h *weirv1.RequestHeader) context.Context {
	return context.WithValue(ctx, headerKey{}, h)
}

// prepare gives a request for a change its name and time. What the caller has set of the header is kept; a name without
// a time is taken to be built now.
func (k *call) prepare(ctx context.Context) *Error {
	if m, mutates := k.req.(interface{ GetHeader() *weirv1.RequestHeader }); mutates {
		h := m.GetHeader()
		if chosen, ok := ctx.Value(headerKey{}).(*weirv1.RequestHeader); ok && h.GetRequestId() == "" {
			h = chosen
		}
		if e := k.complete(ctx, h); e != nil {
			return e
		}
	}
	if _, err := proto.Marshal(k.req); err != nil {
		return k.named(&Error{
			Class: Invalid, Reason: outcome.ReasonMalformed, Facts: map[string]string{}, Err: err,
			Message: fmt.Sprintf("the request cannot be sent: %v", err),
		})
	}
	return nil
}

// complete fills in what the header lacks.
func (k *call) complete(ctx context.Context, h *weirv1.RequestHeader) *Error {
	full := &weirv1.RequestHeader{RequestId: h.GetRequestId(), RequestTimeMs: h.GetRequestTimeMs(), By: h.GetBy()}
	if full.GetBy() == "" {
		full.By = k.client.config.By
	}
	if full.GetRequestId() == "" {
		k.made = true
		full.RequestId, full.RequestTimeMs = k.client.config.NewID(), 0
	}
	if full.GetRequestTimeMs() == 0 {
		now, e := k.client.time(ctx)
		if e != nil {
			return e
		}
		full.RequestTimeMs = now
	}
	k.stamp(full)
	return nil
}

// stamp sets the header in a copy of the request.
func (k *call) stamp(h *weirv1.RequestHeader) {
	k.header = h
	k.req = proto.Clone(k.req)
	m := k.req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("header"), protoreflect.ValueOfMessage(h.ProtoReflect()))
}

// outOfTime says whether the request was refused for its time alone, and no try of it can have been carried out: this
// client has been idle for so long that the time it knew is below the floor, or the cluster was set back. A header that
// the caller made is never changed: there may have been tries before this call.
func (k *call) outOfTime(e *Error) bool { return k.made && !k.maybe && outOfTime(e) }

func outOfTime(e *Error) bool {
	return e.Class == Rejected && (e.Reason == reasonTooOld || e.Reason == reasonTooNew)
}

const (
	reasonTooOld       = "REQUEST_TOO_OLD"
	reasonTooNew       = "REQUEST_TOO_NEW"
	reasonFeatureLevel = "FEATURE_LEVEL"
)

// retime builds the request anew with the time of the server that refused it.
func (k *call) retime(e *Error) {
	now, err := strconv.ParseUint(e.Facts[outcome.FactLogTime], 10, 64)
	if err != nil {
		now = 0 // the log's time is still zero
	}
	k.client.logTime.Store(now + 1)
	k.stamp(&weirv1.RequestHeader{RequestId: k.header.GetRequestId(), RequestTimeMs: now, By: k.header.GetBy()})
}

// time is the log time as this client knows it; the first time it asks.
func (c *Client) time(ctx context.Context) (uint64, *Error) {
	if t := c.logTime.Load(); t > 0 {
		return t - 1, nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	k := &call{
		client: c, method: weirv1.Cluster_GetStatus_FullMethodName, req: &weirv1.GetStatusRequest{},
		resp: &weirv1.GetStatusResponse{}, try: c.config.Try,
	}
	if e := k.run(ctx); e != nil {
		return 0, e
	}
	return c.logTime.Load() - 1, nil
}

// learn takes the log time of an answer. That of a stale one counts only if it is newer.
func (c *Client) learn(h *weirv1.ResponseHeader) {
	if h == nil {
		return
	}
	now := h.GetLogTimeMs() + 1
	if !h.GetStale() {
		c.logTime.Store(now)
		return
	}
	for {
		known := c.logTime.Load()
		if known >= now || c.logTime.CompareAndSwap(known, now) {
			return
		}
	}
}
