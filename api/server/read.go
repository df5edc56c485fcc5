package server

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// pollPeriod is how often a call looks at the state that it waits for.
const pollPeriod = 20 * time.Millisecond

// view is the state that a read asked for, and the header that tells which it is.
func (s *Server) view(ctx context.Context, q query) (*fsm.View, *weirv1.ResponseHeader, error) {
	read := q.GetRead()
	switch read.GetConsistency() {
	case weirv1.Consistency_CONSISTENCY_STALE:
		return s.staleView(ctx, read.GetMinIndex())
	case weirv1.Consistency_CONSISTENCY_UNSPECIFIED, weirv1.Consistency_CONSISTENCY_LINEARIZABLE:
	default:
		return nil, nil, malformed("read.consistency", "is not known")
	}
	for {
		view, err := s.config.Reader.Read(ctx)
		if err != nil {
			return nil, nil, s.withLeader(err)
		}
		if view.Meta().Index >= read.GetMinIndex() {
			return view, s.header(view), nil
		}
		if err := s.sleep(ctx, pollPeriod); err != nil {
			return nil, nil, notReached(err, view, read.GetMinIndex())
		}
	}
}

func (s *Server) staleView(ctx context.Context, minIndex uint64) (*fsm.View, *weirv1.ResponseHeader, error) {
	for {
		view, age, ok := s.config.Reader.Local()
		if !ok {
			return nil, nil, &Error{Kind: NotReady}
		}
		if view.Meta().Index >= minIndex {
			h := s.header(view)
			h.Stale, h.AgeMs = true, uint64(max(age, 0).Milliseconds())
			return view, h, nil
		}
		if err := s.sleep(ctx, pollPeriod); err != nil {
			return nil, nil, notReached(err, view, minIndex)
		}
	}
}

// notReached says how far the state has got, unless the server is stopping.
func notReached(err error, view *fsm.View, minIndex uint64) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	return &Error{Kind: IndexNotReached, Have: view.Meta().Index, Want: minIndex, Err: err}
}

// withLeader adds the leader's address to an error that names a leader or should.
func (s *Server) withLeader(err error) error {
	var own *Error
	if !errors.As(err, &own) || own.Kind != NotLeader || own.Address != "" {
		return err
	}
	lead := s.config.Leader.Leadership()
	if own.Leader != "" {
		lead.Leader = own.Leader
	}
	named := s.notLeader(lead)
	named.Err = err
	return named
}

func (s *Server) header(view *fsm.View) *weirv1.ResponseHeader {
	m := view.Meta()
	return &weirv1.ResponseHeader{Index: m.Index, Term: m.Term, LogTimeMs: m.TimeMS, Server: string(s.config.ID)}
}
