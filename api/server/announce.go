package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// Forward records where a server can be called: here if this server leads, else at the leader. It takes AnnounceServer
// alone; every other command comes from a caller of the API, with a request id of its own. Announcing the same again is
// harmless, so the caller repeats it until it succeeds. The verdict is accepted if the error is nil.
func (s *Server) Forward(ctx context.Context, p fsm.Proposal) (fsm.Verdict, error) {
	command, ok := p.Command.(*fsm.AnnounceServer)
	if !ok {
		return fsm.Verdict{}, errors.New("only the announcement of a server is forwarded, not " + p.Command.Kind().String())
	}
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return fsm.Verdict{}, &Error{Kind: NotReady}
	}
	// The id is the same only for the same words about the same state: an announcement that another one has undone
	// meanwhile takes effect again.
	m := view.Meta()
	level := strconv.FormatUint(uint64(command.HighestLevel), 10)
	words := filtersOf(string(command.Server), command.Address, level)
	req := &weirv1.AnnounceServerRequest{
		Header: &weirv1.RequestHeader{
			RequestId: fmt.Sprintf("announce-%016x-%d", words, m.Index), RequestTimeMs: m.TimeMS, By: p.By,
		},
		Server: string(command.Server), Address: command.Address, HighestLevel: command.HighestLevel,
	}
	handler := func(ctx context.Context, _ any) (any, error) { return s.AnnounceServer(ctx, req) }
	resp, err := s.answer(ctx, req, weirv1.Cluster_AnnounceServer_FullMethodName, handler)
	if err != nil {
		return fsm.Verdict{}, err
	}
	answer, ok := resp.(*weirv1.AnnounceServerResponse)
	if !ok {
		return fsm.Verdict{}, fmt.Errorf("announce: answer is a %T", resp)
	}
	return fsm.Verdict{
		Reason: fsm.Accepted, Facts: fsm.Facts{Server: command.Server}, Index: answer.GetHeader().GetIndex(),
		Replayed: answer.GetHeader().GetReplayed(),
	}, nil
}
