package server

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// proposal stamps a command with what its request carries.
func (s *Server) proposal(h *weirv1.RequestHeader, id string, command fsm.Command) fsm.Proposal {
	by := h.GetBy()
	if len(by) > maxBy {
		by = by[:maxBy]
	}
	return fsm.Proposal{
		Request: fsm.RequestID(id), RequestTimeMS: h.GetRequestTimeMs(), WallMS: s.config.Wall(), By: by, Command: command,
	}
}

// maxBy bounds the display name of who asked, in bytes.
const maxBy = 64

// propose brings one command into the log and returns its verdict only if it was accepted: a refusal is an error, so
// that no handler can take one for the other.
func (s *Server) propose(ctx context.Context, h *weirv1.RequestHeader, command fsm.Command) (fsm.Verdict, error) {
	verdicts, err := s.proposeAll(ctx, s.proposal(h, h.GetRequestId(), command))
	if err != nil {
		return fsm.Verdict{}, err
	}
	return verdicts[0], s.rejection(verdicts[0])
}

// proposeAll returns a verdict for each proposal, accepted or not.
func (s *Server) proposeAll(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	verdicts, err := s.config.Proposer.Propose(ctx, proposals...)
	if err != nil {
		return nil, s.withLeader(err)
	}
	if len(verdicts) != len(proposals) {
		return nil, &Error{
			Kind: UnknownOutcome, Err: fmt.Errorf("%d verdicts for %d proposals", len(verdicts), len(proposals)),
		}
	}
	return verdicts, nil
}

// rejection is nil for an accepted verdict.
func (s *Server) rejection(v fsm.Verdict) error {
	if v.OK() {
		return nil
	}
	e := &RejectedError{Verdict: v}
	if v.Reason == fsm.NodeLive && s.config.TimeLeft != nil {
		if left, known := s.config.TimeLeft(v.Facts.Incarnation); known {
			e.TimeLeft = left
		}
	}
	return e
}

// decided is the header of an answer that a verdict decided.
func (s *Server) decided(v fsm.Verdict) *weirv1.ResponseHeader {
	h := &weirv1.ResponseHeader{Index: v.Index, Server: string(s.config.ID), Replayed: v.Replayed}
	if view, _, ok := s.config.Reader.Local(); ok {
		m := view.Meta()
		h.Term, h.LogTimeMs = m.Term, m.TimeMS
	}
	return h
}
