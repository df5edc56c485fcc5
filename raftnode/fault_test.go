package raftnode_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
	"github.com/weir-project/weir/raftnode/raftnodetest"
)

var _ raftnode.AppendObserver = (*fence.Appends)(nil)

// broken makes one server's disk misbehave on demand.
type broken struct {
	who    atomic.Pointer[fsm.ServerID]
	logs   func() error
	stable func() error
}

func (b *broken) configure(cfg *raftnode.Config) {
	id := cfg.ID
	is := func(do func() error) error {
		if w := b.who.Load(); w != nil && *w == id && do != nil {
			return do()
		}
		return nil
	}
	cfg.Faults = &raftnode.FaultHooks{
		StoreLogs:   func(uint64, uint64) error { return is(b.logs) },
		StoreStable: func(string) error { return is(b.stable) },
	}
}

// endsWith waits until the server has stopped by itself, and returns its fault.
func endsWith(t *testing.T, c *raftnodetest.Cluster, s *raftnodetest.Server) *raftnode.FaultError {
	t.Helper()
	select {
	case <-s.Node().Fault():
	case <-time.After(time.Minute):
		require.FailNow(t, "there is no fault")
	}
	var fault *raftnode.FaultError
	require.ErrorAs(t, c.Crash(s.ID), &fault)
	return fault
}

func TestStore_that_fails_ends_the_server_and_the_others_go_on(t *testing.T) {
	for name, b := range map[string]*broken{
		"log store of the leader":     {logs: func() error { return errors.New("no space left on device") }},
		"term of a server that votes": {stable: func() error { return errors.New("no space left on device") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := raftnodetest.New(t, raftnodetest.Options{Configure: b.configure})
				old := c.Ready()
				c.Settle()
				victim := old
				if b.stable != nil {
					victim = c.Follower(old.ID)
				}
				b.who.Store(&victim.ID)
				if b.logs != nil {
					_, err := old.Node().Propose(t.Context(), tick())
					require.Error(t, err)
				} else {
					c.Isolate(old.ID) // the others must vote
				}
				fault := endsWith(t, c, victim)
				require.Equal(t, raftnode.FaultStore, fault.Cause)
				require.ErrorContains(t, fault, "no space left on device")
				require.ErrorContains(t, fault, "check the disk")
				c.Heal()
				require.NoError(t, raftnode.Outcome(c.Propose(t.Context(), tick())))
				b.who.Store(nil)
				c.Restart(victim.ID)
				require.NoError(t, raftnode.Outcome(c.Propose(t.Context(), tick())))
				c.Settle()
			})
		})
	}
}

// A leader whose disk hangs would go on sending heartbeats for ever.
func TestStore_that_hangs_ends_the_leader_so_that_another_takes_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		b := &broken{logs: func() error { <-hang; return nil }}
		c := raftnodetest.New(t, raftnodetest.Options{Configure: b.configure})
		old := c.Ready()
		c.Settle()
		b.who.Store(&old.ID)
		begin := time.Now()
		_, err := old.Node().Propose(within(t, 3*time.Second), tick())
		// Unknown, unless an entry of the server's own hung first: then this one was never taken.
		require.True(t, errors.Is(err, raftnode.ErrUnknownOutcome) || errors.Is(err, raftnode.ErrOverloaded), "%v", err)
		next := c.Leader(old.ID)
		require.NoError(t, raftnode.Outcome(next.Node().Propose(t.Context(), tick())))
		require.Less(t, time.Since(begin), 10*time.Second)
		fault := endsWith(t, c, old)
		require.Equal(t, raftnode.FaultStore, fault.Cause)
		require.ErrorContains(t, fault, "has not returned for")
		close(hang)
	})
}

// Raft #696: an interrupted hand-over can leave the library refusing every entry. Here the state machine of a server
// without peers hangs, so that it can neither commit nor hand over nor lose leadership.
func TestWatchdog_a_leader_that_can_neither_work_nor_hand_over_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var hanging atomic.Bool
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1, Configure: func(cfg *raftnode.Config) {
			cfg.GRPCAddress = ""
			cfg.Faults = &raftnode.FaultHooks{Apply: func(uint64) {
				if hanging.Load() {
					<-hang
				}
			}}
		}})
		s := c.Ready()
		hanging.Store(true)
		_, err := s.Node().Propose(within(t, 4*time.Second), tick())
		require.ErrorIs(t, err, raftnode.ErrUnknownOutcome)
		<-s.Node().Fault()
		close(hang)
		fault := endsWith(t, c, s)
		require.Equal(t, raftnode.FaultLeadership, fault.Cause)
	})
}

// T10: without ConfigurationStore the library refuses snapshots after a change of members until the next command.
func TestTrap_T10_a_snapshot_right_after_a_change_of_members(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		node := c.Ready().Node()
		c.Settle()
		require.NoError(t, node.Raft().AddNonvoter("s9", "s9", 0, 0).Error())
		require.NoError(t, node.Snapshot(t.Context()))
		c.Eventually("the change of members counts as applied", func() bool { return node.Raft().LastIndex() == node.AppliedIndex() })
		require.Len(t, node.Members(), 4)
		require.NoError(t, node.Raft().RemoveServer("s9", 0, 0).Error())
		require.NoError(t, node.Snapshot(t.Context()))
		require.Len(t, node.Members(), 3)
		require.NoError(t, node.Snapshot(t.Context()), "nothing new is no error")
		c.Settle()
	})
}

// notes remembers what an observer is told.
type notes struct {
	mu     sync.Mutex
	times  map[uint64][]clock.Reading
	learnt []uint64
}

func (n *notes) NoteAppends(first, last uint64, at clock.Reading) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := first; i <= last; i++ {
		n.times[i] = append(n.times[i], at)
	}
}

func (n *notes) Learn(index uint64, _ clock.Reading) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.learnt = append(n.learnt, index)
}

func (n *notes) of(index uint64) []clock.Reading {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.times[index])
}

// R29: append times are this process's own, taken before the entry is stored, and replaced when its index is stored again.
func TestReview_R29_append_times_are_noted_on_every_server_and_replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := map[fsm.ServerID]*notes{}
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			n := &notes{times: map[uint64][]clock.Reading{}}
			all[cfg.ID] = n
			cfg.Appends = n
		}})
		old := c.Ready()
		index := c.Settle()
		for id, n := range all {
			require.Len(t, n.of(index), 1, id)
		}
		c.Isolate(old.ID)
		_, err := old.Node().Propose(within(t, time.Second), tick()) // stored by nobody else
		require.Error(t, err)
		lost := old.Node().Raft().LastIndex()
		require.NotEmpty(t, all[old.ID].of(lost))
		next := c.Leader(old.ID)
		for next.Node().Raft().LastIndex() < lost+2 {
			require.NoError(t, raftnode.Outcome(next.Node().Propose(t.Context(), tick())))
		}
		c.Heal()
		c.Settle()
		times := all[old.ID].of(lost)
		require.GreaterOrEqual(t, len(times), 2, "the index was stored again")
		require.Greater(t, times[len(times)-1].Raw, times[0].Raw)

		last := old.Node().Raft().LastIndex()
		require.NoError(t, c.Crash(old.ID))
		c.Restart(old.ID)
		require.Contains(t, all[old.ID].learnt, last, "what is on disk at the start is learnt then")
	})
}

func TestSnapshot_that_arrives_is_learnt_by_the_observer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := map[fsm.ServerID]*notes{}
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			cfg.TrailingLogs = 1
			n := &notes{times: map[uint64][]clock.Reading{}}
			all[cfg.ID] = n
			cfg.Appends = n
		}})
		leader := c.Ready()
		away := c.Follower(leader.ID)
		c.Isolate(away.ID)
		for range 20 {
			require.NoError(t, raftnode.Outcome(leader.Node().Propose(t.Context(), tick())))
		}
		index := leader.Node().AppliedIndex()
		for _, s := range c.Servers() {
			if s != away {
				require.NoError(t, s.Node().Snapshot(t.Context()))
			}
		}
		c.Heal()
		c.Eventually("the snapshot has arrived", func() bool { return away.Node().AppliedIndex() >= index })
		require.NotEmpty(t, all[away.ID].learnt)
	})
}

// A one-way cut: the leader's calls arrive and the answers do not. It must lose leadership, and nobody acknowledges what
// is lost.
func TestCluster_one_way_cuts_do_not_lose_what_was_acknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		old := c.Ready()
		for _, s := range c.Servers() {
			if s != old {
				c.CutOneWay(s.ID, old.ID)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := old.Node().Propose(ctx, create("f", "r1"))
		require.Error(t, err)
		c.Heal()
		require.NoError(t, raftnode.Outcome(c.Propose(t.Context(), create("f", "r1"))))
		c.Settle()
		view, _, _ := old.Node().Local()
		require.Len(t, slices.Collect(view.Changefeeds()), 1)
	})
}
