package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
)

// caller brings the generated clients' calls to whichever server can answer.
type caller struct{ client *Client }

// errNoStream: streams are opened by NodeDialer.
var errNoStream = errors.New("this connection carries single calls only")

// NewStream implements grpc.ClientConnInterface.
func (caller) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errNoStream
}

// Invoke implements grpc.ClientConnInterface.
func (c caller) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	req, isMessage := args.(proto.Message)
	resp, answerIs := reply.(proto.Message)
	if !isMessage || !answerIs {
		return &Error{Class: Fault, Reason: outcome.ReasonInternal, Message: fmt.Sprintf("%T is no message", args)}
	}
	ctx, cancel := c.client.bounded(ctx)
	defer cancel()
	k := &call{client: c.client, method: method, req: req, resp: resp, try: c.client.config.Try}
	if w, waits := req.(*weirv1.WaitOperatorRequest); waits {
		k.try += time.Duration(w.GetWaitMs()) * time.Millisecond
	}
	if e := k.run(ctx); e != nil {
		return e
	}
	return nil
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.config.Call)
}

// call is one request on its way through as many tries as it takes.
type call struct {
	client    *Client
	method    string
	req, resp proto.Message
	try       time.Duration

	header *weirv1.RequestHeader // nil: a read
	made   bool                  // the header was made by this call, so that no earlier try of it exists
	// maybe: a try may have been carried out, so that nothing but a verdict on the request id tells.
	maybe bool
	last  *Error
}

// run tries servers until one has decided the request or the context ends.
func (k *call) run(ctx context.Context) *Error {
	if e := k.prepare(ctx); e != nil {
		return e
	}
	find, wait := k.client.finder.search(), k.client.backoff()
	for retimed := false; ; {
		if ctx.Err() != nil {
			return k.giveUp(ctx)
		}
		address, ok := find.next()
		if !ok {
			if wait.wait(ctx) != nil {
				return k.giveUp(ctx)
			}
			find.restart()
			continue
		}
		e := k.ask(ctx, address)
		if e == nil {
			k.client.finder.answered(address)
			return nil
		}
		if !retimed && k.outOfTime(e) {
			retimed = true
			k.retime(e)
			find.restart()
			continue
		}
		if decided := k.weigh(e); decided != nil {
			return decided
		}
		k.client.finder.failed(address)
		find.hint(e.Facts[outcome.FactLeaderAddress])
	}
}

// ask sends the request to one server.
func (k *call) ask(ctx context.Context, address string) *Error {
	ctx, cancel := context.WithTimeout(ctx, k.try)
	defer cancel()
	cc, err := k.client.conns.Get(address)
	if err != nil {
		return unreachable(address, err)
	}
	if err := conns.Ready(ctx, cc); err != nil {
		return unreachable(address, err)
	}
	proto.Reset(k.resp)
	if err := cc.Invoke(ctx, k.method, k.req, k.resp); err != nil {
		return k.named(decode(err, address, k.header != nil))
	}
	if answer, ok := k.resp.(interface{ GetHeader() *weirv1.ResponseHeader }); ok {
		k.client.learn(answer.GetHeader())
	}
	return nil
}

// weigh returns the error if it decides the request, or nil if another server may know more.
func (k *call) weigh(e *Error) *Error {
	k.last = telling(k.last, e)
	switch e.Class {
	case NotProposed:
		return nil
	case Unknown:
		k.maybe = k.header != nil
		return nil
	case Rejected, Invalid, Fault:
	default:
	}
	if k.maybe && !settles(e) {
		unknown := *e
		unknown.Class = Unknown
		return &unknown
	}
	return e
}

// telling keeps what a server said over the fact that another one said nothing.
func telling(last, e *Error) *Error {
	if last != nil && e.Reason == outcome.ReasonUnreachable {
		return last
	}
	return e
}

// settles says whether an error is a verdict that is remembered under the request id. Only such a one also decides the
// earlier tries: for what was refused before the id was looked up, and for what may have been forgotten, they may have
// been carried out.
func settles(e *Error) bool {
	switch e.Reason {
	case reasonTooOld, reasonTooNew, reasonFeatureLevel:
		return false
	default:
		return e.Facts[outcome.FactIndex] != ""
	}
}

// giveUp says how things stand when the time is over.
func (k *call) giveUp(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	if k.maybe {
		return k.named(&Error{
			Class: Unknown, Reason: outcome.ReasonOutcomeUnknown, Facts: k.last.Facts, Err: errors.Join(cause, k.last.Err),
			Message: fmt.Sprintf("it is not known whether request %s was carried out (%s); send it again with the same request id to learn it",
				k.header.GetRequestId(), k.last.Message),
		})
	}
	if k.last == nil {
		return k.named(&Error{
			Class: NotProposed, Reason: outcome.ReasonUnreachable, Facts: map[string]string{}, Err: cause,
			Message: "the time was over before a server was asked",
		})
	}
	last := *k.last
	last.Err = errors.Join(cause, k.last.Err)
	return &last
}

// named adds the request's name to an error.
func (k *call) named(e *Error) *Error {
	if k.header != nil {
		e.RequestID, e.RequestTimeMS = k.header.GetRequestId(), k.header.GetRequestTimeMs()
	}
	return e
}
