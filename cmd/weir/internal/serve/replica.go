package serve

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/dispatcher/control"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

// replica is a raftnode.Node in the words of those who need one. It is made before the node, which needs them in turn.
type replica struct{ opened atomic.Pointer[raftnode.Node] }

func (r *replica) set(n *raftnode.Node) { r.opened.Store(n) }

func (r *replica) node() *raftnode.Node { return r.opened.Load() }

// Propose implements control.Proposer and server.Proposer.
func (r *replica) Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	verdicts, err := r.node().Propose(ctx, proposals...)
	return verdicts, apiError(err)
}

// ProposeTick implements control.Proposer.
func (r *replica) ProposeTick(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	verdicts, err := r.node().ProposeTick(ctx, proposals...)
	return verdicts, apiError(err)
}

// View implements control.Viewer. After a fault there is nothing to see, and nothing may be done on old state: the empty
// state orders nothing and has expired nobody.
func (r *replica) View() *fsm.View {
	if view, _, ok := r.node().Local(); ok {
		return view
	}
	return fsm.New().View()
}

// Read implements server.Reader.
func (r *replica) Read(ctx context.Context) (*fsm.View, error) {
	view, err := r.node().Read(ctx)
	return view, apiError(err)
}

// Local implements server.Reader.
func (r *replica) Local() (*fsm.View, time.Duration, bool) { return r.node().Local() }

// Leadership implements server.Leader.
func (r *replica) Leadership() server.Leadership {
	l := r.node().Leadership()
	return server.Leadership{Term: l.Term, Leading: l.Leading, Leader: l.LeaderID}
}

// Contact implements server.Contact.
func (r *replica) Contact() (bool, time.Duration) { return r.node().Contact() }

// AppliedIndex implements server.Replica.
func (r *replica) AppliedIndex() uint64 { return r.node().AppliedIndex() }

// HashAt implements server.Replica.
func (r *replica) HashAt(index uint64) (fsm.Digest, bool) { return r.node().HashAt(index) }

// StateAt implements server.History.
func (r *replica) StateAt(ctx context.Context, index uint64) (*fsm.View, error) {
	view, err := r.node().StateAt(ctx, index)
	if e, ok := errors.AsType[*raftnode.IndexError](err); ok {
		if e.Code == raftnode.IndexNotYet {
			return nil, &server.Error{Kind: server.IndexNotYet, Have: e.Newest, Want: e.Index, Text: e.Error(), Err: err}
		}
		return nil, &server.Error{Kind: server.IndexTooOld, Have: e.Oldest, Want: e.Index, Text: e.Error(), Err: err}
	}
	return view, apiError(err)
}

// Members implements server.Replica.
func (r *replica) Members() []server.RaftMember {
	var members []server.RaftMember
	for _, p := range r.node().Members() {
		members = append(members, server.RaftMember{ID: p.ID, Address: p.RaftAddress, Voter: true})
	}
	return members
}

// apiError translates the replica's errors into the API's; both say whether anything was proposed.
func apiError(err error) error {
	var e *raftnode.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	out := &server.Error{Kind: kindOf(e), Leader: e.Leader.ID, Address: e.Leader.GRPCAddress, Err: err}
	if e.Class == raftnode.ClassTooLarge {
		out.Text = e.Error()
	}
	return out
}

func kindOf(e *raftnode.Error) server.Kind {
	switch e.Class {
	case raftnode.ClassNotLeader:
		if e.Leader.ID == "" {
			return server.NoLeader
		}
		return server.NotLeader
	case raftnode.ClassOverloaded:
		return server.Overloaded
	case raftnode.ClassTransferring:
		return server.Transferring
	case raftnode.ClassShuttingDown:
		return server.ShuttingDown
	case raftnode.ClassFenced:
		return server.Fenced
	case raftnode.ClassTooLarge:
		return server.TooLarge
	case raftnode.ClassUnknownOutcome:
		return server.UnknownOutcome
	default:
		return server.UnknownOutcome
	}
}

// softState is what the leader's loop knows and the log does not.
type softState struct{ leader *control.Leader }

// Progress implements server.SoftState.
func (s softState) Progress(id fsm.DispatcherID) (session.Progress, bool) {
	return s.leader.Progress(id)
}

// Lease implements server.SoftState.
func (s softState) Lease(inc fsm.Incarnation) (server.LeaseState, bool) {
	for _, l := range s.leader.Leases() {
		if l.Incarnation == inc && l.Heard {
			return server.LeaseState{
				HeardAge: l.HeardAge, Named: l.Named, GateOpen: l.GateOpen, GateReason: l.GateReason, SetHashEqual: l.SetHashEqual,
			}, true
		}
	}
	return server.LeaseState{}, false
}
