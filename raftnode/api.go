package raftnode

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
)

// Propose puts commands into the log, stamped with the term of this server, and returns their verdicts in order once they
// have been applied here. A command that carries a term is proposed in that term or not at all. Commands of one call may
// come to stand in different entries; they keep their order unless one of them had to be tried again.
//
// The error is an [*Error]; with an error of which only a part is affected the verdicts that there are come back too, the
// others are zero. A refusal by the state machine is a verdict and no error: use [Outcome] where it must not be
// overlooked.
func (n *Node) Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	return n.propose(ctx, false, proposals)
}

// ProposeTick is Propose for the leader's pulse: it goes before everything that waits, and outside the limits of entries.
func (n *Node) ProposeTick(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	return n.propose(ctx, true, proposals)
}

func (n *Node) propose(ctx context.Context, urgent bool, proposals []fsm.Proposal) ([]fsm.Verdict, error) {
	if f := n.latch.get(); f != nil {
		return nil, classError(ClassFenced, f.Error())
	}
	verdicts, err := n.proposer.propose(ctx, urgent, proposals)
	return verdicts, n.withHint(err)
}

// Read returns a state that contains everything whose success was known to anybody when Read was called. Only a leader
// can answer.
func (n *Node) Read(ctx context.Context) (*fsm.View, error) {
	if f := n.latch.get(); f != nil {
		return nil, classError(ClassFenced, f.Error())
	}
	view, err := n.gate.read(ctx)
	return view, n.withHint(err)
}

// withHint adds who leads to an error of a server that does not.
func (n *Node) withHint(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Class != ClassNotLeader {
		return err
	}
	hinted := *e
	hinted.Leader = n.LeaderHint()
	return &hinted
}

// Local returns the state as this server knows it, which may be old, and the age of its last contact with the leader. Not
// ok means that there is no state to show, after a fault.
func (n *Node) Local() (view *fsm.View, age time.Duration, ok bool) {
	view, fault := n.machine.View()
	if fault != nil {
		return nil, never, false
	}
	return view, n.contactAge(), true
}

// Leadership is who leads, as far as this server knows.
func (n *Node) Leadership() Leadership {
	address, id := n.raft.LeaderWithID()
	l := Leadership{Term: n.raft.CurrentTerm(), LeaderID: fsm.ServerID(id), LeaderRaftAddress: string(address)}
	if t := n.lead.now.Load(); t != nil && n.latch.get() == nil {
		l.Term, l.Leading, l.Since = t.term, true, t.since
	}
	return l
}

// LeaderHint names another server that is believed to lead, with the address that it announced; empty if nobody is known.
func (n *Node) LeaderHint() LeaderHint {
	address, id := n.raft.LeaderWithID()
	if id == "" || fsm.ServerID(id) == n.cfg.ID {
		return LeaderHint{}
	}
	hint := LeaderHint{ID: fsm.ServerID(id), RaftAddress: string(address)}
	if view, fault := n.machine.View(); fault == nil {
		if s, ok := view.Server(hint.ID); ok {
			hint.GRPCAddress = s.Address
		}
	}
	return hint
}

// StepDown makes this server give up leadership if it leads. It does not wait.
func (n *Node) StepDown(reason string) {
	if n.lead.now.Load() == nil {
		return
	}
	select {
	case n.lead.stepDown <- reason:
	default: // it is being given up already
	}
}

// ID is this server's id, and Cluster the cluster's, empty while it is not known.
func (n *Node) ID() fsm.ServerID { return n.cfg.ID }

// Cluster is the cluster's id, empty while it is not known.
func (n *Node) Cluster() string { return n.known.self().Cluster }

// Members are the servers in the newest configuration that this server knows.
func (n *Node) Members() []Peer {
	future := n.raft.GetConfiguration() // answers at once, from a copy
	if future.Error() != nil {
		return nil
	}
	var peers []Peer
	for _, s := range future.Configuration().Servers {
		peers = append(peers, Peer{ID: fsm.ServerID(s.ID), RaftAddress: string(s.Address)})
	}
	return peers
}

// AppliedIndex is the index up to which the local state contains the log. (Raft's own number counts what was sent to the
// state machine.)
func (n *Node) AppliedIndex() uint64 { return n.machine.Applied() }

// HashAt is the state hash as of the index, for comparison between servers; not ok if the index is not applied yet or
// longer ago than the newest [HashesKept] entries.
func (n *Node) HashAt(index uint64) (fsm.Digest, bool) { return n.machine.HashAt(index) }

// Changed returns a channel that is closed when more than now has been applied.
func (n *Node) Changed() <-chan struct{} { return n.machine.Changed() }

// WaitApplied waits until the local state contains the log up to index; the error is the context's or a fault.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	for {
		changed := n.machine.Changed()
		if n.machine.Applied() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-n.latch.done:
			return n.latch.get()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Fault returns a channel that is closed when the server has a fault; Run returns it then.
func (n *Node) Fault() <-chan struct{} { return n.latch.done }

// Snapshot takes a snapshot now. It fails while nothing is new or a change of members is under way.
func (n *Node) Snapshot(ctx context.Context) error {
	got := make(chan error, 1)
	n.proposer.routines.Go(func() { got <- n.raft.Snapshot().Error() })
	select {
	case err := <-got:
		if errors.Is(err, raft.ErrNothingNewToSnapshot) {
			return nil
		}
		if err != nil {
			return errors.New("take a snapshot: " + err.Error()) // no sentinel of the library leaves the package
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
