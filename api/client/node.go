package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// NodeDialer reaches the leader for a worker's runtime. It is safe for concurrent use. Errors are *[Error].
type NodeDialer struct {
	client *Client

	mu sync.Mutex // guards unclear
	// unclear is the registration whose outcome is not known yet: asking again for the same must not be a second request,
	// which the incarnation that the first one may have made would refuse.
	unclear *unclear
}

type unclear struct {
	registration session.Registration
	header       *weirv1.RequestHeader
}

// NodeDialer returns the worker's view of the client.
func (c *Client) NodeDialer() *NodeDialer { return &NodeDialer{client: c} }

// Register asks for an incarnation until the context ends. After an unknown outcome the same registration asks under
// the same request id.
func (d *NodeDialer) Register(ctx context.Context, r session.Registration) (session.Registered, error) {
	header, err := d.header(ctx, r)
	if err != nil {
		return session.Registered{}, err
	}
	req := nodewire.FromRegistration(r)
	req.Header = header
	resp, err := d.client.sessions.Register(ctx, req)
	d.settle(r, header, err)
	if err != nil {
		return session.Registered{}, err
	}
	return nodewire.ToRegistered(resp), nil
}

func (d *NodeDialer) header(ctx context.Context, r session.Registration) (*weirv1.RequestHeader, error) {
	d.mu.Lock()
	known := d.unclear
	d.mu.Unlock()
	if known != nil && known.registration == r {
		return known.header, nil
	}
	h, err := d.client.NewRequest(ctx)
	if err != nil {
		return nil, err
	}
	h.By = string(r.Node)
	return h, nil
}

// settle remembers a registration whose outcome is not known. One whose answer can no longer be had is given up.
func (d *NodeDialer) settle(r session.Registration, h *weirv1.RequestHeader, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unclear = nil
	var e *Error
	if errors.As(err, &e) && e.Class == Unknown && e.Reason != reasonTooOld && e.Reason != reasonTooNew {
		d.unclear = &unclear{registration: r, header: h}
	}
}

// Goodbye ends an incarnation; it asks until it knows or the context ends.
func (d *NodeDialer) Goodbye(ctx context.Context, g fsm.Goodbye) error {
	req := nodewire.FromGoodbye(g.Node, g.Incarnation, g.Stopped)
	header, err := d.client.NewRequest(ctx)
	if err != nil {
		return err
	}
	header.By = string(g.Node)
	req.Header = header
	_, err = d.client.sessions.Goodbye(ctx, req)
	return err
}

// Open finds the leader and opens a session with it. The context bounds the opening alone; the stream lives until its
// Close or until it breaks.
func (d *NodeDialer) Open(ctx context.Context, hello session.Hello) (session.NodeStream, error) {
	c := d.client
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	find, wait := c.finder.search(), c.backoff()
	var last *Error
	for {
		if ctx.Err() != nil {
			return nil, openGivenUp(ctx, last)
		}
		address, ok := find.next()
		if !ok {
			if wait.wait(ctx) != nil {
				return nil, openGivenUp(ctx, last)
			}
			find.restart()
			continue
		}
		stream, e := c.open(ctx, address, hello)
		if e == nil {
			c.finder.answered(address)
			return stream, nil
		}
		if e.Class != NotProposed {
			return nil, e
		}
		last = telling(last, e)
		c.finder.failed(address)
		find.hint(e.Facts[outcome.FactLeaderAddress])
	}
}

func openGivenUp(ctx context.Context, last *Error) *Error {
	if last == nil {
		return &Error{
			Class: NotProposed, Reason: outcome.ReasonUnreachable, Facts: map[string]string{}, Err: context.Cause(ctx),
			Message: "the time was over before a server was asked for a session",
		}
	}
	e := *last
	e.Err = errors.Join(context.Cause(ctx), last.Err)
	return &e
}

// open asks one server for a session. The server must accept within the limit of a try.
func (c *Client) open(ctx context.Context, address string, hello session.Hello) (*nodeStream, *Error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.OpenTry)
	defer cancel()
	cc, err := c.conns.Get(address)
	if err != nil {
		return nil, unreachable(address, err)
	}
	if err := conns.Ready(ctx, cc); err != nil {
		return nil, unreachable(address, err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end) // until the session stands, its life is bounded by the opening's
	s, e := c.greet(life, cc, hello)
	if e != nil || !detach() {
		end()
		if e == nil {
			e = unreachable(address, context.Cause(ctx))
		}
		return nil, e
	}
	s.end = end
	return s, nil
}

// greet says hello and waits for the server's word that it serves the session.
func (c *Client) greet(ctx context.Context, cc *grpc.ClientConn, hello session.Hello) (*nodeStream, *Error) {
	broken := func(err error) *Error { return decode(err, cc.Target(), false) }
	stream, err := weirv1.NewNodeSessionClient(cc).Session(ctx)
	if err != nil {
		return nil, broken(err)
	}
	s := &nodeStream{stream: stream}
	if err := s.Send(session.FromNode{Hello: &hello}); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv says why
		return nil, broken(err)
	}
	header, err := stream.Header()
	if err != nil {
		return nil, broken(err)
	}
	if accepted := header.Get(outcome.MetaSession); len(accepted) == 1 && accepted[0] == outcome.MetaSessionAccepted {
		return s, nil
	}
	m, err := s.Recv()
	if err != nil {
		return nil, broken(err)
	}
	if m.Close == nil {
		return nil, &Error{
			Class: Fault, Reason: outcome.ReasonInternal, Facts: map[string]string{},
			Message: "the server neither accepted the session nor said why not",
		}
	}
	return nil, refusedSession(m.Close)
}

// refusedSession is the error of a session that was closed before it was accepted.
func refusedSession(closed *session.Close) *Error {
	e := &Error{Class: Rejected, Reason: closed.Reason, Message: closed.Text, Facts: map[string]string{}}
	switch closed.Reason {
	case outcome.ReasonNotLeader, "SERVER_STOPPING":
		e.Class = NotProposed
	}
	if closed.Leader != "" {
		e.Facts[outcome.FactLeaderAddress] = closed.Leader
	}
	return e
}

// nodeStream is the node's end over gRPC.
type nodeStream struct {
	stream grpc.BidiStreamingClient[weirv1.SessionRequest, weirv1.SessionResponse]
	end    context.CancelFunc
}

// Send implements session.NodeStream.
func (s *nodeStream) Send(m session.FromNode) error {
	out, err := nodewire.FromNode(m)
	if err != nil {
		return fmt.Errorf("send to leader: %w", err)
	}
	return s.stream.Send(out)
}

// Recv implements session.NodeStream.
func (s *nodeStream) Recv() (session.FromLeader, error) {
	m, err := s.stream.Recv()
	if err != nil {
		return session.FromLeader{}, err
	}
	in, err := nodewire.ToLeader(m)
	if err != nil {
		return session.FromLeader{}, fmt.Errorf("receive from leader: %w", err)
	}
	return in, nil
}

// Close implements session.NodeStream.
func (s *nodeStream) Close() { s.end() }
