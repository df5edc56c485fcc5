package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
)

// ErrClosed is returned by Run when the node has been closed or has already run.
var ErrClosed = errors.New("the node is closed or has run already")

// Run leads, proposes and reads until the context ends, and then stops as planned: the work of the term ends, leadership
// is handed over once, Raft stops, the files are closed. It returns nil after that, a [*FaultError] when the server must
// not go on, and every goroutine of the node has ended then, but for those that a hung disk holds.
func (n *Node) Run(ctx context.Context) error {
	if !n.take() {
		return ErrClosed
	}
	defer close(n.finished)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	proposing, stopProposing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProposing()
	for _, task := range []func(context.Context){n.lead.run, n.gate.run, n.announce, n.learn} {
		tasks.Go(func() { task(ctx) })
	}
	var packing sync.WaitGroup
	packing.Go(func() { n.proposer.run(proposing) })

	planned := false
	select {
	case <-ctx.Done():
		planned = true
	case <-n.stopping:
	case <-n.latch.done:
	}
	cancel()
	tasks.Wait() // Lead has returned; nothing decides any more, and what is in flight may still land
	stopProposing()
	packing.Wait()
	n.settle()
	if planned && n.raft.State() == raft.Leader {
		if err := n.transfer(context.WithoutCancel(ctx), 2*n.cfg.Timing.Election()); err != nil {
			n.log.Warn("stopping", "error", err)
		}
	}
	err := n.shutdown()
	if f := n.latch.get(); f != nil {
		n.log.Error("the server stops", "error", f.Error(), "exit", f.ExitCode())
		return f
	}
	return err
}

// Close stops the node at once, without handing leadership over, and waits until it has. It may be called at any time and
// more than once.
func (n *Node) Close() error {
	n.stopOnce.Do(func() { close(n.stopping) })
	if n.take() {
		n.settle()
		n.closeErr = n.shutdown()
		close(n.finished)
		return n.closeErr
	}
	<-n.finished
	return n.closeErr
}

// take makes the caller the one that ends the node.
func (n *Node) take() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken {
		return false
	}
	n.taken = true
	return true
}

// settle waits until Raft has answered for everything in flight. It answers within its lease, since a leader without a
// quorum loses leadership; after Raft's end it would not answer for entries on their way to the state machine.
func (n *Node) settle() {
	limit := 2*n.cfg.Timing.Election() + n.cfg.Timing.Lease()
	if !n.within(&n.proposer.routines, limit) || !n.within(&n.gate.routines, limit) {
		n.log.Warn("entries in flight have no outcome yet")
	}
}

// within waits for the group, at most for limit.
func (n *Node) within(g *group, limit time.Duration) bool {
	timer := n.cfg.Timers.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-g.idle():
		return true
	case <-timer.C():
		return false
	}
}

// shutdown ends Raft in the order that neither hangs on a peer nor closes the store under a call: tell Raft, cut the
// network, wait for Raft, close the stores.
func (n *Node) shutdown() error {
	var raftEnds group
	future := n.raft.Shutdown()
	err := n.transport.Close()
	var raftErr error
	raftEnds.Go(func() { raftErr = future.Error() })
	if !n.within(&raftEnds, n.cfg.ShutdownTimeout) {
		return errors.Join(err, fmt.Errorf("stop Raft: it has not ended after %v; the files are left to the end of the process", n.cfg.ShutdownTimeout))
	}
	if n.guard.broken.Load() {
		return errors.Join(err, raftErr) // closing would wait for the write that hangs
	}
	return errors.Join(err, raftErr, n.release())
}

// learn writes down the cluster that the log names.
func (n *Node) learn(ctx context.Context) {
	select {
	case <-ctx.Done():
	case cluster := <-n.learnt:
		if err := n.known.joined(cluster); err != nil {
			_ = n.latch.report(&FaultError{
				Cause: FaultStore, Err: err, What: "the cluster id cannot be written to the data folder",
				Advice: "check the disk and its free space, then start the server again",
			})
		}
	}
}

func (n *Node) noteCommit() {
	now := n.cfg.Clock.Now()
	n.contact.Store(&now)
}

// Contact says whether this server has contact with a leader, and how old the newest proof of it is. A leader's proof is
// an entry of its own that was committed; a follower's is a call from the leader that it knows, answered by Raft's main
// loop. Neither Raft's state nor its last contact alone prove anything: both look fresh just after a leader was deposed.
func (n *Node) Contact() (ok bool, age time.Duration) {
	if n.latch.get() != nil {
		return false, never
	}
	age = n.contactAge()
	return age <= n.cfg.ContactTimeout, age
}

// never is the age of a contact that was not.
const never = time.Duration(1<<63 - 1)

func (n *Node) contactAge() time.Duration {
	if _, leads := n.lead.leading(); leads {
		at := n.contact.Load()
		if at == nil {
			return never
		}
		return clock.MaxElapsed(*at, n.cfg.Clock.Now())
	}
	// Raft forgets its leader whenever its state or term changes or it votes, and learns it from a call that also sets the
	// time of the last contact: with a known leader that time is the leader's.
	address, _ := n.raft.LeaderWithID()
	last := n.raft.LastContact()
	if n.raft.State() != raft.Follower || address == "" || last.IsZero() {
		return never
	}
	return max(0, clock.Wall().Sub(last)) // both carry the monotonic clock
}
