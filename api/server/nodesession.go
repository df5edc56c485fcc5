package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// Register implements weir.v1.
func (s *Server) Register(ctx context.Context, req *weirv1.RegisterRequest) (*weirv1.RegisterResponse, error) {
	command, err := nodeCommandOf(req)
	if err != nil {
		return nil, err
	}
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return nil, &Error{Kind: NotReady}
	}
	if err := checkCluster(view, req.GetCluster()); err != nil {
		return nil, err
	}
	if have, want := view.Meta().Generation, fsm.Generation(req.GetHighestGeneration()); want > have {
		return nil, &Error{
			Kind: GenerationTooOld, Have: uint64(have), Want: uint64(want),
			Text: fmt.Sprintf("node %s has seen generation %d and this cluster is at %d: its data is older than what the node has worked for; check the addresses, or recover the newer data", req.GetNode(), want, have),
		}
	}
	v, err := s.propose(ctx, req.GetHeader(), command)
	if err != nil {
		return nil, err
	}
	if now, _, ok := s.config.Reader.Local(); ok { // the cluster's id may be as new as the verdict
		view = now
	}
	return &weirv1.RegisterResponse{
		Header: s.decided(v), Cluster: view.Meta().Cluster, Incarnation: uint64(v.Facts.Incarnation),
		LeaseMs: v.Facts.LeaseMS, TickMs: uint32(s.config.Tick.Milliseconds()),
		HeartbeatMs: uint32(s.config.Heartbeat.Milliseconds()),
	}, nil
}

// checkCluster refuses a node of another cluster. A node that has not been told its cluster takes what it finds.
func checkCluster(view *fsm.View, cluster string) error {
	if have := view.Meta().Cluster; cluster != "" && have != "" && cluster != have {
		return &Error{
			Kind: WrongCluster,
			Text: fmt.Sprintf("the node belongs to cluster %s and these servers are cluster %s; check the addresses", cluster, have),
		}
	}
	return nil
}

// Goodbye implements weir.v1.
func (s *Server) Goodbye(ctx context.Context, req *weirv1.GoodbyeRequest) (*weirv1.GoodbyeResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.GoodbyeResponse{Header: s.decided(v)}, nil
}

// sessionEnd ends one session.
type sessionEnd struct {
	term   uint64
	cancel context.CancelFunc
}

// endSessions ends the sessions whose term the condition names.
func (s *Server) endSessions(ends func(term uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.sessions {
		if ends(e.term) {
			e.cancel()
		}
	}
}

// Session implements weir.v1. It is never forwarded: the liveness of a node is proved to the leader itself.
func (s *Server) Session(
	stream grpc.BidiStreamingServer[weirv1.SessionRequest, weirv1.SessionResponse],
) error {
	lead := s.config.Leader.Leadership()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	end := &sessionEnd{term: lead.Term, cancel: cancel}
	s.mu.Lock()
	s.sessions[end] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, end)
	}()

	leader := newLeaderStream(ctx, stream)
	hello, err := s.hello(ctx, leader)
	if err != nil {
		return s.outgoing(err, false).Err()
	}
	if refused := s.refuseSession(lead, hello); refused != nil {
		return leader.Send(session.FromLeader{Close: refused})
	}
	if err := stream.SendHeader(metadata.Pairs(outcome.MetaSession, outcome.MetaSessionAccepted)); err != nil {
		return err
	}
	return s.serve(ctx, leader, hello)
}

// serve runs the session. When its term is over or the server stops, the stream is broken even if the session does not
// notice: only then do a Send and a Recv that hang return.
func (s *Server) serve(ctx context.Context, stream *leaderStream, hello session.Hello) error {
	done := make(chan error, 1)
	go func() { done <- s.config.Sessions.Serve(ctx, stream, hello) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		timer := s.config.Timers.NewTimer(sessionGrace)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-timer.C():
			err = &Error{Kind: NoLeader, Text: "the session's term is over"}
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	s.config.Logger.Debug("session ended", "node", string(hello.Node), "incarnation", hello.Incarnation.String(), "error", err)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return status.Error(codes.Unavailable, "the session is over")
	}
	return s.outgoing(err, false).Err()
}

// sessionGrace is how long a session that has to end may take to say why.
const sessionGrace = 500 * time.Millisecond

// hello waits for the first message, which must say who is there.
func (s *Server) hello(ctx context.Context, stream *leaderStream) (session.Hello, error) {
	timer := s.config.Timers.NewTimer(s.limits.Hello)
	defer timer.Stop()
	select {
	case m := <-stream.received:
		if m.err != nil {
			return session.Hello{}, m.err
		}
		if m.message.Hello == nil {
			return session.Hello{}, malformed("message", "must be a hello at first")
		}
		return *m.message.Hello, nil
	case <-timer.C():
		return session.Hello{}, &Error{Kind: Deadline, Text: "the session did not say who it is in time"}
	case <-ctx.Done():
		return session.Hello{}, context.Cause(ctx)
	}
}

// refuseSession says why the session cannot be served here, or nil.
func (s *Server) refuseSession(lead Leadership, hello session.Hello) *session.Close {
	if s.stopping.Load() {
		return &session.Close{Reason: "SERVER_STOPPING", Text: "this server is stopping; ask another one"}
	}
	if contact, _ := s.config.Contact.Contact(); !contact {
		e := &Error{Kind: Fenced}
		return &session.Close{Reason: outcome.ReasonNotLeader, Text: e.Error()}
	}
	if !lead.Leading {
		e := s.notLeader(lead)
		return &session.Close{Reason: outcome.ReasonNotLeader, Text: e.Error(), Leader: e.Address}
	}
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return &session.Close{Reason: outcome.ReasonNotLeader, Text: (&Error{Kind: NotReady}).Error()}
	}
	if err := checkCluster(view, hello.Cluster); err != nil {
		return &session.Close{Reason: outcome.ReasonWrongCluster, Text: err.Error()}
	}
	return nil
}

// leaderStream is the leader's end over gRPC. A pump reads, so that Recv returns when the session must end.
type leaderStream struct {
	ctx      context.Context //nolint:containedctx // the stream's own life
	stream   grpc.BidiStreamingServer[weirv1.SessionRequest, weirv1.SessionResponse]
	received chan received
}

type received struct {
	message session.FromNode
	err     error
}

func newLeaderStream(
	ctx context.Context, stream grpc.BidiStreamingServer[weirv1.SessionRequest, weirv1.SessionResponse],
) *leaderStream {
	l := &leaderStream{ctx: ctx, stream: stream, received: make(chan received)}
	go l.pump()
	return l
}

// pump ends when the stream breaks, at the latest when its handler has returned.
func (l *leaderStream) pump() {
	for {
		m, err := l.stream.Recv()
		r := received{err: err}
		if err == nil {
			r.message, r.err = nodewire.ToNode(m)
		}
		if r.err != nil && err == nil {
			r.err = &Error{Kind: BadRequest, Field: "message", Text: r.err.Error()}
		}
		select {
		case l.received <- r:
		case <-l.ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// Send implements session.LeaderStream. A session whose term is over can still say so.
func (l *leaderStream) Send(m session.FromLeader) error {
	out, err := nodewire.FromLeader(m)
	if err != nil {
		return fmt.Errorf("send to node: %w", err)
	}
	if err := l.stream.Context().Err(); err != nil { // the handler may have returned: the stream is not to be touched
		return err
	}
	return l.stream.Send(out)
}

// Recv implements session.LeaderStream.
func (l *leaderStream) Recv() (session.FromNode, error) {
	select {
	case r := <-l.received:
		return r.message, r.err
	case <-l.ctx.Done():
		return session.FromNode{}, context.Cause(l.ctx)
	}
}
