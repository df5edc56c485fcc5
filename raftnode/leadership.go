package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// Leadership is who leads, as far as this server knows.
type Leadership struct {
	// Term is the term that this server leads in if Leading, else the term it is in.
	Term uint64
	// Leading says that this server's own BeginTerm has been applied in Term. Nothing less makes a leader.
	Leading bool
	// LeaderID and LeaderRaftAddress are a hint, empty while nobody is known.
	LeaderID          fsm.ServerID
	LeaderRaftAddress string
	// Since is when Leading became true.
	Since clock.Reading
}

// tenure is one term of this server, from its applied BeginTerm on.
type tenure struct {
	term   uint64
	since  clock.Reading
	cancel context.CancelFunc
	ended  chan struct{} // closed when Lead has returned
}

// leadership follows Raft's leader channel: one tenure at a time, each ended completely before the next begins.
type leadership struct {
	n        *Node
	log      hclog.Logger
	now      atomic.Pointer[tenure]
	stepDown chan string // one slot: why leadership is to be given up
}

func newLeadership(n *Node) *leadership {
	return &leadership{n: n, log: n.log.Named("leadership"), stepDown: make(chan string, 1)}
}

// leading is the term in which this server may propose and read.
func (l *leadership) leading() (term uint64, ok bool) {
	t := l.now.Load()
	if t == nil || l.n.latch.get() != nil {
		return 0, false
	}
	return t.term, true
}

// run follows leadership until the context ends. The leader channel always holds the newest change, so that two "true" in
// a row mean lost and won again.
func (l *leadership) run(ctx context.Context) {
	defer l.revoke()
	watch := l.n.cfg.Timers.NewTicker(l.n.cfg.CommitTimeout / 4)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case leads := <-l.n.raft.LeaderCh():
			l.revoke()
			if leads {
				l.establish(ctx)
			}
		case reason := <-l.stepDown:
			l.giveUp(ctx, reason)
		case <-watch.C():
			l.watch(ctx)
		}
	}
}

// watch gives leadership up when an entry does not commit: the library's own lease notices a lost quorum, but not
// followers that answer heartbeats and store nothing, nor a state machine that stands still.
func (l *leadership) watch(ctx context.Context) {
	limit := l.n.cfg.CommitTimeout
	if age := l.n.proposer.oldest(l.n.cfg.Clock.Now()); age > limit && l.now.Load() != nil {
		l.giveUp(ctx, fmt.Sprintf("an entry has not been committed and applied for %v", age))
	}
}

// patience is how long a leader that cannot work may stay one.
func (l *leadership) patience() time.Duration { return 3 * l.n.cfg.Timing.Election() }

// establish opens the term: BeginTerm applied, the cluster's first generation begun if it has none, then the gate.
func (l *leadership) establish(ctx context.Context) {
	term, ok := l.beginTerm(ctx)
	if !ok {
		return
	}
	tctx, cancel := context.WithCancel(ctx)
	t := &tenure{term: term, since: l.n.cfg.Clock.Now(), cancel: cancel, ended: make(chan struct{})}
	l.now.Store(t)
	l.log.Info("this server leads", "term", term)
	if err := l.beginGeneration(tctx); err != nil {
		l.log.Warn("begin the first generation", "term", term, "error", err)
		close(t.ended)
		l.giveUp(ctx, "the cluster's first generation could not be begun")
		return
	}
	go func() {
		defer close(t.ended)
		if l.n.cfg.Lead != nil {
			l.n.cfg.Lead(tctx, term)
		}
	}()
}

// beginTerm proposes BeginTerm until it is applied in the term that it was stamped with, or this server leads no more.
func (l *leadership) beginTerm(ctx context.Context) (term uint64, ok bool) {
	tctx, cancel := context.WithTimeout(ctx, l.patience()+l.n.cfg.CommitTimeout)
	defer cancel()
	for l.n.raft.State() == raft.Leader {
		term = l.n.raft.CurrentTerm()
		err := l.proposeBeginTerm(tctx, term)
		if err == nil {
			l.n.noteCommit()
			return term, true
		}
		l.log.Debug("begin the term", "term", term, "error", err)
		if tctx.Err() != nil {
			break
		}
		_ = clock.Sleep(tctx, l.n.cfg.Timers, retryDelay)
	}
	if ctx.Err() == nil && l.n.raft.State() == raft.Leader {
		l.giveUp(ctx, "its first entry of the term could not be committed")
	}
	return 0, false
}

func (l *leadership) proposeBeginTerm(ctx context.Context, term uint64) error {
	data, err := logcodec.AppendEntry(nil, []fsm.Proposal{{
		Term: term, WallMS: l.n.cfg.Wall(), By: "leader", Command: &fsm.BeginTerm{Server: l.n.cfg.ID},
	}})
	if err != nil {
		return fmt.Errorf("encode BeginTerm: %w", err)
	}
	future := l.n.raft.Apply(data, l.n.cfg.CommitTimeout/2)
	got := make(chan error, 1)
	l.n.proposer.routines.Go(func() {
		verdicts, err := unwrap(future, 1)
		if err != nil {
			got <- err
			return
		}
		got <- Outcome(verdicts, nil)
	})
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beginGeneration starts the cluster's life if nobody has. The cluster id is the configured one, else drawn here.
func (l *leadership) beginGeneration(ctx context.Context) error {
	view, fault := l.n.machine.View()
	if fault != nil {
		return fault
	}
	if view.Meta().Generation != 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*l.n.cfg.CommitTimeout)
	defer cancel()
	cluster := l.n.known.self().Cluster
	if cluster == "" {
		cluster = randomID()
	}
	err := Outcome(l.n.proposer.propose(ctx, true, []fsm.Proposal{{By: "leader", Command: &fsm.BeginGeneration{
		Generation: l.n.cfg.Generation(), Cluster: cluster, Why: fsm.GenerationBootstrap,
	}}}))
	var rejected *RejectedError
	if errors.As(err, &rejected) && rejected.Verdict.Reason == fsm.AlreadyBootstrapped {
		return nil
	}
	return err
}

// revoke ends the tenure: proposals and reads are refused at once, and Lead has returned when revoke does.
func (l *leadership) revoke() {
	t := l.now.Swap(nil)
	if t == nil {
		return
	}
	t.cancel()
	l.n.proposer.poke() // to answer what is queued
	slow := l.n.cfg.Timers.NewTicker(l.patience())
	defer slow.Stop()
	for {
		select {
		case <-t.ended:
			l.log.Info("this server leads no more", "term", t.term)
			return
		case <-slow.C():
			l.log.Warn("the work of a lost term has not ended yet", "term", t.term)
		}
	}
}

// giveUp hands leadership over. If Raft neither hands over nor loses it, the server ends: a leader that cannot commit
// must not stay, and an interrupted hand-over can leave the library refusing every entry for good.
func (l *leadership) giveUp(ctx context.Context, reason string) {
	term := l.n.raft.CurrentTerm()
	l.log.Warn("giving up leadership", "term", term, "reason", reason)
	l.revoke()
	// While Raft's main loop waits for the disk it can do neither, and would never answer.
	if l.n.guard.hanging() < l.n.cfg.Timing.Lease() && l.n.transfer(ctx, l.patience()) == nil {
		return
	}
	if l.lost(ctx, term) {
		return
	}
	if hung := l.n.guard.hanging(); hung >= l.n.cfg.Timing.Lease() {
		_ = l.n.guard.fail(fmt.Sprintf("a write to the log has not returned for %v", hung), nil)
		return
	}
	_ = l.n.latch.report(&FaultError{
		Cause: FaultLeadership, What: "this server can neither work as leader nor hand leadership over: " + reason,
		Advice: "start it again; if it happens again, check its disk and its network",
	})
}

// lost waits for the end of this server's leadership in the term; it reports false when that has not come in time.
func (l *leadership) lost(ctx context.Context, term uint64) bool {
	tctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	for l.n.raft.State() == raft.Leader && l.n.raft.CurrentTerm() == term {
		if clock.Sleep(tctx, l.n.cfg.Timers, retryDelay) != nil {
			return ctx.Err() != nil // the server stops anyway
		}
	}
	return true
}

// transfer asks Raft once to hand leadership over and waits for the end of it, at most for limit.
func (n *Node) transfer(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got := make(chan error, 1)
	n.proposer.routines.Go(func() { got <- n.raft.LeadershipTransfer().Error() })
	select {
	case err := <-got:
		if err != nil {
			return fmt.Errorf("hand leadership over: %s", err.Error())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hand leadership over: %w", ctx.Err())
	}
}
