package apitest

import (
	"context"
	"sync"
	"time"

	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// Hooks break a server in the ways of a real one. Nil ones do nothing.
type Hooks struct {
	// Before is called before proposals come into the log; its error is the answer, and nothing is proposed.
	Before func(ctx context.Context, proposals []fsm.Proposal) error
	// After is called when they have been applied; its error is the answer.
	After func(ctx context.Context, proposals []fsm.Proposal) error
	// Verdict replaces verdicts.
	Verdict func(fsm.Verdict) fsm.Verdict
	// Read is called before a linearizable read; its error is the answer.
	Read func(ctx context.Context) error
	// Serve serves sessions; nil: until the context or the stream ends.
	Serve func(ctx context.Context, stream session.LeaderStream, hello session.Hello) error
	// Progress and Lease answer for the soft state.
	Progress func(fsm.DispatcherID) (session.Progress, bool)
	Lease    func(fsm.Incarnation) (server.LeaseState, bool)
}

// Replica stands for everything behind the API of one server. It implements all of the server's ports.
type Replica struct {
	id      fsm.ServerID
	log     *Log
	members []fsm.ServerID

	mu       sync.Mutex // guards what follows
	leader   fsm.ServerID
	contact  bool
	hooks    Hooks
	frozen   *fsm.View
	unready  bool
	proposed int
}

// Believe sets who leads, as the server takes it; itself: it leads.
func (r *Replica) Believe(leader fsm.ServerID) { r.set(func() { r.leader = leader }) }

// SetContact sets whether the server hears the leader.
func (r *Replica) SetContact(ok bool) { r.set(func() { r.contact = ok }) }

// SetHooks replaces the hooks.
func (r *Replica) SetHooks(h Hooks) { r.set(func() { r.hooks = h }) }

// Freeze keeps the server at the present state.
func (r *Replica) Freeze() {
	v := r.log.View()
	r.set(func() { r.frozen = v })
}

// SetReady sets whether the server has a state to show.
func (r *Replica) SetReady(ok bool) { r.set(func() { r.unready = !ok }) }

// Proposed counts the proposals that were brought to this server's log.
func (r *Replica) Proposed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proposed
}

func (r *Replica) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *Replica) now() (Hooks, fsm.ServerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hooks, r.leader
}

// Propose implements server.Proposer.
func (r *Replica) Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	hooks, leader := r.now()
	if leader != r.id {
		return nil, &server.Error{Kind: server.NotLeader, Leader: leader}
	}
	if hooks.Before != nil {
		if err := hooks.Before(ctx, proposals); err != nil {
			return nil, err
		}
	}
	r.set(func() { r.proposed += len(proposals) })
	verdicts := r.log.Apply(proposals...)
	if hooks.After != nil {
		if err := hooks.After(ctx, proposals); err != nil {
			return nil, err
		}
	}
	if hooks.Verdict != nil {
		for i := range verdicts {
			verdicts[i] = hooks.Verdict(verdicts[i])
		}
	}
	return verdicts, nil
}

// Read implements server.Reader.
func (r *Replica) Read(ctx context.Context) (*fsm.View, error) {
	hooks, leader := r.now()
	if leader != r.id {
		return nil, &server.Error{Kind: server.NotLeader, Leader: leader}
	}
	if hooks.Read != nil {
		if err := hooks.Read(ctx); err != nil {
			return nil, err
		}
	}
	return r.log.View(), nil
}

// Local implements server.Reader.
func (r *Replica) Local() (*fsm.View, time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unready {
		return nil, 0, false
	}
	if r.frozen != nil {
		return r.frozen, time.Minute, true
	}
	return r.log.View(), 0, true
}

// Leadership implements server.Leader.
func (r *Replica) Leadership() server.Leadership {
	_, leader := r.now()
	return server.Leadership{Term: r.log.Term(), Leading: leader == r.id, Leader: leader}
}

// Contact implements server.Contact.
func (r *Replica) Contact() (bool, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contact, 0
}

// AppliedIndex implements server.Replica.
func (r *Replica) AppliedIndex() uint64 {
	view, _, ok := r.Local()
	if !ok {
		return 0
	}
	return view.Meta().Index
}

// HashAt implements server.Replica.
func (r *Replica) HashAt(index uint64) (fsm.Digest, bool) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	hash, ok := r.log.hashes[index]
	return hash, ok
}

// StateAt implements server.History.
func (r *Replica) StateAt(_ context.Context, index uint64) (*fsm.View, error) {
	view, oldest, ok := r.log.StateAt(index)
	if !ok {
		return nil, &server.Error{Kind: server.IndexTooOld, Have: oldest, Want: index}
	}
	return view, nil
}

// Members implements server.Replica.
func (r *Replica) Members() []server.RaftMember {
	var out []server.RaftMember
	for _, id := range r.members {
		out = append(out, server.RaftMember{ID: id, Address: string(id) + ":7001", Voter: true})
	}
	return out
}

// Serve implements server.Sessions.
func (r *Replica) Serve(ctx context.Context, stream session.LeaderStream, hello session.Hello) error {
	if hooks, _ := r.now(); hooks.Serve != nil {
		return hooks.Serve(ctx, stream, hello)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// Progress implements server.SoftState.
func (r *Replica) Progress(id fsm.DispatcherID) (session.Progress, bool) {
	if hooks, _ := r.now(); hooks.Progress != nil {
		return hooks.Progress(id)
	}
	return session.Progress{}, false
}

// Lease implements server.SoftState.
func (r *Replica) Lease(inc fsm.Incarnation) (server.LeaseState, bool) {
	if hooks, _ := r.now(); hooks.Lease != nil {
		return hooks.Lease(inc)
	}
	return server.LeaseState{}, false
}
