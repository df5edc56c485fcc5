package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// probeLimit bounds each of the two questions that a probe asks a member.
const probeLimit = 300 * time.Millisecond

// GetStatus implements weir.v1.
func (s *Server) GetStatus(ctx context.Context, req *weirv1.GetStatusRequest) (*weirv1.GetStatusResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	m, lead := view.Meta(), s.config.Leader.Leadership()
	resp := &weirv1.GetStatusResponse{
		Header: header, Cluster: m.Cluster, Leader: string(lead.Leader), LeaderAddress: s.addressOf(lead.Leader),
		Term: m.Term, Generation: uint64(m.Generation), Level: m.Level, Dispatchers: uint64(view.DispatcherCount()),
		RunningOperators: uint32(view.OperatorCount()), Members: s.members(view),
	}
	for range view.Nodes() {
		resp.Nodes++
	}
	if req.GetProbeMembers() {
		s.probe(ctx, resp)
	}
	return resp, nil
}

// members joins the Raft configuration with what servers have announced. One that has announced itself and left is no
// member.
func (s *Server) members(view *fsm.View) []*weirv1.Member {
	var out []*weirv1.Member
	for _, r := range s.config.Replica.Members() {
		announced, _ := view.Server(r.ID)
		out = append(out, &weirv1.Member{
			Id: string(r.ID), Address: announced.Address, RaftAddress: r.Address, Voter: r.Voter,
			HighestLevel: announced.HighestLevel,
		})
	}
	return out
}

// probe asks every member about itself, and then for its state hash at the highest index that all who answered have
// applied: equal logs give equal hashes there.
func (s *Server) probe(ctx context.Context, resp *weirv1.GetStatusResponse) {
	s.eachMember(ctx, resp.GetMembers(), func(ctx context.Context, m *weirv1.Member) error {
		answer, err := s.askStatus(ctx, m)
		if err != nil {
			return err
		}
		m.Reachable, m.Role, m.AppliedIndex, m.InContact = true, answer.GetRole(), answer.GetAppliedIndex(), answer.GetInContact()
		return nil
	})
	for _, m := range resp.GetMembers() {
		if m.GetReachable() && (resp.GetCommonIndex() == 0 || m.GetAppliedIndex() < resp.GetCommonIndex()) {
			resp.CommonIndex = m.GetAppliedIndex()
		}
	}
	s.eachMember(ctx, resp.GetMembers(), func(ctx context.Context, m *weirv1.Member) error {
		if !m.GetReachable() {
			return nil
		}
		answer, err := s.askHash(ctx, m, resp.GetCommonIndex())
		if err != nil {
			return err
		}
		m.Hash = answer.GetHash()
		return nil
	})
	resp.HashesEqual = hashesEqual(resp.GetMembers())
}

func hashesEqual(members []*weirv1.Member) bool {
	var first *weirv1.Digest
	for _, m := range members {
		switch h := m.GetHash(); {
		case h == nil:
		case first == nil:
			first = h
		case h.GetA() != first.GetA() || h.GetB() != first.GetB():
			return false
		}
	}
	return first != nil
}

// eachMember asks all members at once; what went wrong is written to the member.
func (s *Server) eachMember(
	ctx context.Context, members []*weirv1.Member, ask func(context.Context, *weirv1.Member) error,
) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			if err := ask(ctx, m); err != nil {
				m.Error = status.Convert(err).Message()
			}
		})
	}
	wg.Wait()
}

func (s *Server) askStatus(ctx context.Context, m *weirv1.Member) (*weirv1.GetServerStatusResponse, error) {
	if m.GetId() == string(s.config.ID) {
		return s.GetServerStatus(ctx, &weirv1.GetServerStatusRequest{})
	}
	peer, err := s.peer(ctx, m)
	if err != nil {
		return nil, err
	}
	return peer.GetServerStatus(ctx, &weirv1.GetServerStatusRequest{})
}

func (s *Server) askHash(ctx context.Context, m *weirv1.Member, index uint64) (*weirv1.HashAtResponse, error) {
	req := &weirv1.HashAtRequest{Index: index}
	if m.GetId() == string(s.config.ID) {
		return s.HashAt(ctx, req)
	}
	peer, err := s.peer(ctx, m)
	if err != nil {
		return nil, err
	}
	return peer.HashAt(ctx, req)
}

func (s *Server) peer(ctx context.Context, m *weirv1.Member) (weirv1.ClusterClient, error) {
	if m.GetAddress() == "" {
		return nil, &Error{Kind: NotReady, Text: "it has not announced its address yet"}
	}
	cc, err := s.peers.Get(m.GetAddress())
	if err != nil {
		return nil, err
	}
	if err := conns.Ready(ctx, cc); err != nil {
		return nil, err
	}
	return weirv1.NewClusterClient(cc), nil
}

// GetServerStatus implements weir.v1.
func (s *Server) GetServerStatus(
	context.Context, *weirv1.GetServerStatusRequest,
) (*weirv1.GetServerStatusResponse, error) {
	contact, age := s.config.Contact.Contact()
	lead := s.config.Leader.Leadership()
	resp := &weirv1.GetServerStatusResponse{
		Header: s.ownHeader(), AppliedIndex: s.config.Replica.AppliedIndex(), InContact: contact,
		ContactAgeMs: uint64(max(age, 0).Milliseconds()),
	}
	if view, _, ok := s.config.Reader.Local(); ok {
		resp.Cluster = view.Meta().Cluster
	}
	switch {
	case lead.Leading:
		resp.Role = weirv1.Role_ROLE_LEADER
	case lead.Leader != "" && lead.Leader != s.config.ID:
		resp.Role = weirv1.Role_ROLE_FOLLOWER
	}
	return resp, nil
}

// HashAt implements weir.v1.
func (s *Server) HashAt(_ context.Context, req *weirv1.HashAtRequest) (*weirv1.HashAtResponse, error) {
	hash, ok := s.config.Replica.HashAt(req.GetIndex())
	if !ok {
		return nil, &Error{Kind: HashNotKept, Have: s.config.Replica.AppliedIndex(), Want: req.GetIndex()}
	}
	return &weirv1.HashAtResponse{Header: s.ownHeader(), Hash: digestRow(hash)}, nil
}

// ownHeader is the header of an answer about this server itself.
func (s *Server) ownHeader() *weirv1.ResponseHeader {
	view, age, ok := s.config.Reader.Local()
	if !ok {
		return &weirv1.ResponseHeader{Server: string(s.config.ID), Stale: true}
	}
	h := s.header(view)
	h.Stale, h.AgeMs = true, uint64(max(age, 0).Milliseconds())
	return h
}

// AnnounceServer implements weir.v1.
func (s *Server) AnnounceServer(
	ctx context.Context, req *weirv1.AnnounceServerRequest,
) (*weirv1.AnnounceServerResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.AnnounceServerResponse{Header: s.decided(v)}, nil
}
