package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// mutation is a request that changes something.
type mutation interface {
	proto.Message
	GetHeader() *weirv1.RequestHeader
}

// query is a request that only reads.
type query interface {
	proto.Message
	GetRead() *weirv1.ReadOptions
}

// unary stands before every call: it bounds it, decides who answers it, and puts errors on the wire.
func (s *Server) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if s.answers[info.FullMethod] == nil {
		return handler(ctx, req) // health and reflection
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limits.Call)
		defer cancel()
	}
	_, mutates := req.(mutation)
	resp, err := s.answer(ctx, req, info.FullMethod, handler)
	if err == nil {
		return resp, nil
	}
	st := s.outgoing(err, mutates)
	s.config.Logger.Debug("refused", "method", info.FullMethod, "code", st.Code().String(), "error", err)
	return nil, st.Err()
}

// outgoing is the status of an error. One that the leader has made for a forwarded call stays as it is.
func (s *Server) outgoing(err error, mutates bool) *status.Status {
	if relayed, ok := errors.AsType[*relayedError](err); ok {
		return relayed.status
	}
	r := refuse(err, mutates)
	r.facts[outcome.FactServer] = string(s.config.ID)
	if view, _, ok := s.config.Reader.Local(); ok {
		putNumber(r.facts, outcome.FactLogTime, view.Meta().TimeMS)
	}
	return r.status()
}

// answer lets this server answer, or the leader.
func (s *Server) answer(ctx context.Context, req any, method string, handler grpc.UnaryHandler) (any, error) {
	if s.stopping.Load() {
		return nil, &Error{Kind: ShuttingDown}
	}
	m, mutates := req.(mutation)
	if mutates {
		if err := s.checkMutation(m); err != nil {
			return nil, err
		}
	}
	q, reads := req.(query)
	if !mutates && (!reads || q.GetRead().GetConsistency() == weirv1.Consistency_CONSISTENCY_STALE) {
		return handler(ctx, req)
	}
	if ok, _ := s.config.Contact.Contact(); !ok {
		return nil, &Error{Kind: Fenced}
	}
	lead := s.config.Leader.Leadership()
	if lead.Leading {
		return handler(ctx, req)
	}
	return s.forward(ctx, req, method, lead)
}

// checkMutation refuses what may not become a command, before anybody is asked.
func (s *Server) checkMutation(m mutation) error {
	id := m.GetHeader().GetRequestId()
	if id == "" {
		return malformed("header.request_id", "is missing: without one a retry could be carried out twice")
	}
	if len(id) > fsm.MaxRequestID {
		return malformed("header.request_id", "is longer than 64 bytes")
	}
	limit := s.limits.Command
	switch m := m.(type) {
	case *weirv1.GoodbyeRequest:
		limit = s.limits.Goodbye
	case *weirv1.AdmitBatchRequest: // each of its items is a command of its own
		limit = maxReceive
	case *weirv1.AdmitManyRequest: // so is each of its chunks
		if !m.GetAllOrNothing() {
			limit = maxReceive
		}
	}
	if size := proto.Size(m); size > limit {
		return &Error{Kind: TooLarge, Have: uint64(size), Want: uint64(limit)}
	}
	return nil
}

// forwarded says whether another server has sent the call on.
func forwarded(ctx context.Context) bool {
	md, ok := metadata.FromIncomingContext(ctx)
	return ok && len(md.Get(outcome.MetaForwarded)) > 0
}
