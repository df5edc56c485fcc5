package raftnode_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
	"github.com/weir-project/weir/raftnode"
	"github.com/weir-project/weir/raftnode/raftnodetest"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func tick() fsm.Proposal { return fsm.Proposal{Command: &fsm.Tick{ElapsedMS: 100}} }

func register(name string) fsm.Proposal {
	return fsm.Proposal{By: "test", Command: &fsm.RegisterNode{Node: fsm.NodeName(name), Address: "127.0.0.1:1", LeaseMS: 2000, ClockClass: 1, Protocol: 1}}
}

func create(name, request string) fsm.Proposal {
	return fsm.Proposal{By: "test", Request: fsm.RequestID(request), Command: &fsm.CreateChangefeed{
		Name: name, Source: "wal2json:/x", Sink: "sqlite:/" + name, SinkFenced: true, Start: fsm.Position{TS: 1, Stage: fsm.StageRows},
		Tables: []fsm.TableSpec{{Schema: "public", Name: "t"}},
	}}
}

func TestCluster_elects_a_leader_and_fails_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		old := c.Ready()
		term := old.Node().Leadership().Term
		require.NoError(t, raftnode.Outcome(old.Node().ProposeTick(within(t, time.Second), tick())))
		c.Isolate(old.ID)
		next := c.Leader(old.ID)
		require.Greater(t, next.Node().Leadership().Term, term)
		require.NoError(t, raftnode.Outcome(next.Node().Propose(within(t, time.Second), tick())))
		c.Heal()
		c.Eventually("the old leader follows", func() bool { return !old.Node().Leadership().Leading })
		c.Settle()
	})
}

func TestCluster_idles_without_a_change_of_term(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		leader := c.Ready()
		term := leader.Node().Leadership().Term
		time.Sleep(5 * time.Minute)
		require.Equal(t, term, leader.Node().Leadership().Term)
		require.True(t, leader.Node().Leadership().Leading)
	})
}

func TestServers_announce_themselves_through_the_leader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		leader := c.Ready()
		c.Eventually("all have announced themselves", func() bool {
			view, _, _ := leader.Node().Local()
			return len(slices.Collect(view.Servers())) == 3
		})
		follower := c.Follower(leader.ID)
		c.Eventually("followers know it too", func() bool { return follower.Node().LeaderHint().GRPCAddress != "" })
		require.Equal(t, raftnode.LeaderHint{ID: leader.ID, RaftAddress: string(leader.ID), GRPCAddress: "grpc-" + string(leader.ID)},
			follower.Node().LeaderHint())
		_, err := follower.Node().Propose(t.Context(), tick())
		var e *raftnode.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, raftnode.ClassNotLeader, e.Class)
		require.Equal(t, leader.ID, e.Leader.ID)
		_, err = follower.Node().Read(t.Context())
		require.ErrorIs(t, err, raftnode.ErrNotLeader)
	})
}

func TestNewCluster_without_a_configured_id_draws_one_that_all_servers_learn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) { cfg.Cluster = "" }})
		leader := c.Ready()
		c.Settle()
		view, _, _ := leader.Node().Local()
		require.Len(t, view.Meta().Cluster, 24)
		require.Equal(t, fsm.Generation(1000), view.Meta().Generation)
		synctest.Wait()
		for _, s := range c.Servers() {
			require.Equal(t, view.Meta().Cluster, s.Node().Cluster())
		}
	})
}

func TestLead_runs_once_per_term_and_never_twice_at_a_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		terms := map[uint64]int{}
		running := map[fsm.ServerID]int{}
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			id := cfg.ID
			cfg.Lead = func(ctx context.Context, term uint64) {
				mu.Lock()
				terms[term]++
				running[id]++
				require.Equal(t, 1, running[id])
				mu.Unlock()
				<-ctx.Done()
				time.Sleep(200 * time.Millisecond) // slow to end
				mu.Lock()
				running[id]--
				mu.Unlock()
			}
		}})
		for range 6 {
			leader := c.Leader()
			c.Isolate(leader.ID)
			next := c.Leader(leader.ID)
			c.Heal()
			c.Eventually("one leads", func() bool {
				return !leader.Node().Leadership().Leading && next.Node().Leadership().Leading
			})
		}
		c.Stop()
		require.GreaterOrEqual(t, len(terms), 6)
		for term, n := range terms {
			require.Equal(t, 1, n, "term %d was led %d times", term, n)
		}
		for id, n := range running {
			require.Zero(t, n, "%s still works", id)
		}
	})
}

func TestLead_is_ended_before_leadership_is_handed_over_at_a_planned_stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			cfg.Lead = func(ctx context.Context, _ uint64) { <-ctx.Done(); ended.Store(true) }
		}})
		old := c.Ready()
		c.Settle()
		begin := time.Now()
		require.NoError(t, c.Shutdown(old.ID))
		require.True(t, ended.Load())
		c.Leader()
		require.Less(t, time.Since(begin), 250*time.Millisecond, "leadership was not handed over but timed out")
	})
}

func TestGroupCommit_packs_what_waits_and_lets_ticks_pass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		hold := make(chan struct{})
		var holding atomic.Bool
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1, Configure: func(cfg *raftnode.Config) {
			cfg.CommitTimeout = time.Minute
			cfg.ProposeTimeout = time.Minute
			cfg.GRPCAddress = ""
			cfg.Faults = &raftnode.FaultHooks{
				Proposed: func(_ uint64, n int) { mu.Lock(); sizes = append(sizes, n); mu.Unlock() },
				Apply: func(uint64) {
					if holding.Load() {
						<-hold
					}
				},
			}
		}})
		node := c.Ready().Node()
		mu.Lock()
		sizes = nil
		mu.Unlock()
		holding.Store(true)
		const callers = 3000 // more than four entries hold
		var done sync.WaitGroup
		for i := range callers {
			done.Go(func() {
				verdicts, err := node.Propose(t.Context(), register(fmt.Sprintf("n%d", i)))
				require.NoError(t, err)
				require.NotZero(t, verdicts[0].Reason)
			})
		}
		synctest.Wait() // what fits is in flight, the rest waits
		tickDone := make(chan uint64, 1)
		go func() {
			verdicts, err := node.ProposeTick(t.Context(), tick())
			if err != nil {
				close(tickDone)
				return
			}
			tickDone <- verdicts[0].Index
		}()
		synctest.Wait()
		mu.Lock()
		before := len(sizes)
		mu.Unlock()
		holding.Store(false)
		close(hold)
		done.Wait()
		tickAt, ok := <-tickDone
		require.True(t, ok, "the tick was not proposed")
		mu.Lock()
		defer mu.Unlock()
		total := 0
		for i, n := range sizes {
			total += n
			require.LessOrEqual(t, n, raftnode.MaxEntryCommands+1, "entry %d", i)
		}
		require.Equal(t, callers+1, total)
		require.LessOrEqual(t, len(sizes), 20, "%v", sizes)
		require.LessOrEqual(t, before, 4, "no more than four entries are in flight")
		view, _, _ := node.Local()
		require.Less(t, tickAt, view.Meta().Index, "the tick went before commands that had waited longer")
	})
}

func TestPropose_of_more_than_one_entry_keeps_order_and_answers_each(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		node := c.Ready().Node()
		var proposals []fsm.Proposal
		for i := range 600 {
			proposals = append(proposals, register(fmt.Sprintf("m%d", i)))
		}
		proposals = append(proposals, register("m0")) // its live incarnation is in the way
		verdicts, err := node.Propose(t.Context(), proposals...)
		require.NoError(t, err)
		require.Len(t, verdicts, 601)
		var last uint64
		for i, v := range verdicts[:600] {
			require.Equal(t, fsm.Accepted, v.Reason, "%d", i)
			require.GreaterOrEqual(t, v.Index, last)
			last = v.Index
		}
		require.Equal(t, fsm.NodeLive, verdicts[600].Reason)
		var rejected *raftnode.RejectedError
		require.ErrorAs(t, raftnode.Outcome(verdicts, err), &rejected)
		require.Equal(t, 600, rejected.Position)
		c.Settle()
	})
}

func TestPropose_too_large_or_too_many_is_refused_before_the_log(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1})
		node := c.Ready().Node()
		_, err := node.Propose(t.Context(), fsm.Proposal{Command: &fsm.FenceNode{Node: "n", Why: string(make([]byte, raftnode.MaxCommandBytes))}})
		require.ErrorIs(t, err, raftnode.ErrTooLarge)
		verdicts, err := node.Propose(t.Context())
		require.NoError(t, err)
		require.Empty(t, verdicts)
	})
}

func TestRequest_gets_its_first_verdict_also_after_the_leader_was_lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		old := c.Ready()
		first, err := old.Node().Propose(t.Context(), create("feed", "req-1"))
		require.NoError(t, raftnode.Outcome(first, err))
		require.NoError(t, c.Crash(old.ID))
		next := c.Leader()
		again, err := next.Node().Propose(t.Context(), create("feed", "req-1"))
		require.NoError(t, raftnode.Outcome(again, err))
		require.True(t, again[0].Replayed)
		require.Equal(t, first[0].Index, again[0].Index)
		require.Equal(t, first[0].Facts, again[0].Facts)
		other, err := next.Node().Propose(t.Context(), create("feed", "req-2"))
		require.NoError(t, err)
		require.Equal(t, fsm.ChangefeedExists, other[0].Reason)
		c.Restart(old.ID)
		c.Settle()
	})
}

// What an isolated leader was asked is unknown until it is retried with the same id; then it happened exactly once.
func TestPropose_at_a_leader_that_is_cut_off_has_an_unknown_outcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		old := c.Ready()
		c.Isolate(old.ID)
		_, err := old.Node().Propose(within(t, 5*time.Second), create("feed", "req-1"))
		require.ErrorIs(t, err, raftnode.ErrUnknownOutcome)
		next := c.Leader(old.ID)
		verdicts, err := next.Node().Propose(t.Context(), create("feed", "req-1"))
		require.NoError(t, raftnode.Outcome(verdicts, err))
		require.False(t, verdicts[0].Replayed)
		c.Heal()
		c.Settle()
		view, _, _ := old.Node().Local()
		require.Len(t, slices.Collect(view.Changefeeds()), 1)
	})
}

func TestPropose_with_a_context_that_ends_says_whether_it_was_proposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var holding atomic.Bool
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1, Configure: func(cfg *raftnode.Config) {
			cfg.CommitTimeout = time.Minute
			cfg.GRPCAddress = ""
			cfg.Faults = &raftnode.FaultHooks{Apply: func(uint64) {
				if holding.Load() {
					<-hold
				}
			}}
		}})
		node := c.Ready().Node()
		holding.Store(true)
		var first sync.WaitGroup
		for range 4 { // fill what may be in flight
			first.Go(func() {
				_, err := node.Propose(within(t, time.Second), tick())
				require.ErrorIs(t, err, raftnode.ErrUnknownOutcome)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
			synctest.Wait()
		}
		_, err := node.Propose(within(t, time.Second), register("late"))
		require.ErrorIs(t, err, raftnode.ErrOverloaded, "it was still in the queue")
		first.Wait()
		holding.Store(false)
		close(hold)
		require.NoError(t, raftnode.Outcome(node.Propose(t.Context(), tick())))
		view, err := node.Read(t.Context())
		require.NoError(t, err)
		_, there := view.Node("late")
		require.False(t, there, "what was withdrawn must not be proposed")
	})
}

// B08: what an old leader had queued or still decides must not be committed after the change, neither by the successor's
// log nor by the same server in its next term.
func TestField_B08_nothing_queued_by_an_old_leader_commits_in_another_term(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var block atomic.Pointer[chan struct{}]
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			cfg.CommitTimeout = 20 * time.Second // the watchdog is not the subject
			cfg.Faults = &raftnode.FaultHooks{Proposed: func(uint64, int) {
				if b := block.Load(); b != nil {
					<-*b
				}
			}}
		}})
		old := c.Ready()
		term := old.Node().Leadership().Term
		gate := make(chan struct{})
		block.Store(&gate)
		const waiting = 20
		// What the leader itself decided names its term; what clients asked for does not, and may be tried again in the term
		// that the server leads by then.
		decided, asked := make(chan error, waiting), make(chan error, waiting)
		ctx := within(t, 15*time.Second)
		type both struct {
			verdicts []fsm.Verdict
			err      error
		}
		stamped := make(chan both, 1)
		go func() { // one of each in the entry that is stamped
			p := register("decided-stamped")
			p.Term = term
			verdicts, err := old.Node().Propose(ctx, p, register("asked-stamped"))
			stamped <- both{verdicts, err}
		}()
		synctest.Wait()
		for i := range waiting {
			go func() {
				p := register(fmt.Sprintf("decided%d", i))
				p.Term = term
				_, err := old.Node().Propose(ctx, p)
				decided <- err
			}()
			go func() {
				_, err := old.Node().Propose(ctx, register(fmt.Sprintf("asked%d", i)))
				asked <- err
			}()
		}
		synctest.Wait() // one entry is stamped and stands right before Raft, the rest waits
		c.Isolate(old.ID)
		next := c.Leader(old.ID)
		block.Store(nil)
		require.NoError(t, raftnode.Outcome(next.Node().Propose(t.Context(), tick())))
		c.Heal()
		c.Eventually("the old leader follows", func() bool { return !old.Node().Leadership().Leading })
		// Make the same server lead again, in a later term, while its old batch still stands there.
		c.Isolate(next.ID)
		for c.Leader(next.ID) != old {
			c.Heal()
			now := c.Leader()
			if now == old {
				break
			}
			c.Isolate(now.ID)
			c.Leader(now.ID)
		}
		c.Heal()
		require.Greater(t, old.Node().Leadership().Term, term)
		close(gate)
		accepted := 0
		if b := <-stamped; b.verdicts == nil {
			require.ErrorIs(t, b.err, raftnode.ErrNotLeader)
		} else {
			require.ErrorIs(t, b.err, raftnode.ErrUnknownOutcome, "only a part was proposed")
			require.Zero(t, b.verdicts[0].Reason)
			require.Equal(t, fsm.Accepted, b.verdicts[1].Reason)
			accepted++
		}
		for range waiting {
			require.ErrorIs(t, <-decided, raftnode.ErrNotLeader, "refused without a trace")
			if err := <-asked; err == nil {
				accepted++
			} else {
				require.ErrorIs(t, err, raftnode.ErrNotLeader)
			}
		}
		c.Settle()
		view, err := c.Leader().Node().Read(t.Context())
		require.NoError(t, err)
		nodes := 0
		for n := range view.Nodes() {
			require.NotContains(t, string(n.Name), "decided")
			nodes++
		}
		require.Equal(t, accepted, nodes, "what was answered as not proposed must not be there")
	})
}

// B08, for what the leader's own work decides: it names its term, and is refused in every other.
func TestField_B08_a_proposal_that_names_its_term_is_proposed_in_that_term_only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		node := c.Ready().Node()
		term := node.Leadership().Term
		require.NoError(t, raftnode.Outcome(node.Propose(t.Context(), raftnode.ProposeStamped(term, &fsm.Tick{}))))
		_, err := node.Propose(t.Context(), raftnode.ProposeStamped(term-1, &fsm.Tick{}))
		require.ErrorIs(t, err, raftnode.ErrNotLeader)
	})
}

// B77 over the whole way: each refusal of the state machine comes back with its own reason.
func TestField_B77_refusals_come_back_through_the_log(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		node := c.Ready().Node()
		for reason, command := range map[fsm.Reason]fsm.Command{
			fsm.UnknownDispatcher:   &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 7, To: "n"},
			fsm.NoSuchOperator:      &fsm.CancelOperator{Op: 9},
			fsm.UnknownChangefeed:   &fsm.PauseChangefeed{Name: "none"},
			fsm.UnknownNode:         &fsm.FenceNode{Node: "none"},
			fsm.AlreadyBootstrapped: &fsm.BeginGeneration{Generation: 2, Cluster: "x", Why: fsm.GenerationBootstrap},
		} {
			verdicts, err := node.Propose(t.Context(), fsm.Proposal{Command: command})
			require.NoError(t, err)
			require.Equal(t, reason, verdicts[0].Reason)
			var rejected *raftnode.RejectedError
			require.ErrorAs(t, raftnode.Outcome(verdicts, err), &rejected)
			require.Contains(t, rejected.Error(), reason.String())
		}
	})
}

// R38: a server whose state is behind must not be taken for the leader: until its own BeginTerm is applied, which comes
// after everything committed before, it proposes nothing and answers no read.
func TestReview_R38_a_new_leader_serves_nothing_before_its_state_has_caught_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		var who atomic.Pointer[fsm.ServerID]
		var led atomic.Bool
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			id := cfg.ID
			cfg.CommitTimeout = 20 * time.Second
			cfg.Lead = func(ctx context.Context, _ uint64) {
				if w := who.Load(); w != nil && *w == id {
					led.Store(true)
				}
				<-ctx.Done()
			}
			cfg.Faults = &raftnode.FaultHooks{Apply: func(uint64) {
				if w := who.Load(); w != nil && *w == id {
					<-slow
				}
			}}
		}})
		old := c.Ready()
		c.Settle()
		lagging := c.Follower(old.ID)
		who.Store(&lagging.ID) // its log goes on, its state stands still
		require.NoError(t, raftnode.Outcome(old.Node().Propose(t.Context(), register("fresh"))))
		future := old.Node().Raft().LeadershipTransferToServer(raft.ServerID(lagging.ID), raft.ServerAddress(lagging.ID))
		require.NoError(t, future.Error())
		node := lagging.Node()
		c.Eventually("the lagging server leads for Raft", func() bool { return node.Raft().State() == raft.Leader })
		time.Sleep(5 * time.Second)
		require.Equal(t, raft.Leader, node.Raft().State())
		require.False(t, node.Leadership().Leading)
		require.False(t, led.Load())
		_, err := node.Propose(t.Context(), tick())
		require.ErrorIs(t, err, raftnode.ErrNotLeader)
		_, err = node.Read(t.Context())
		require.ErrorIs(t, err, raftnode.ErrNotLeader)

		who.Store(nil)
		close(slow)
		c.Eventually("it leads", func() bool { return node.Leadership().Leading })
		view, err := node.Read(t.Context())
		require.NoError(t, err)
		_, ok := view.Node("fresh")
		require.True(t, ok)
	})
}

// A level that this version does not understand is refused while this server is known not to; if the log raises it all
// the same, the server stops and serves nothing.
func TestALevelThatThisVersionDoesNotUnderstandStopsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1})
		s := c.Ready()
		node := s.Node()
		level := fsm.Proposal{Command: &fsm.SetFeatureLevel{Level: raftnode.HighestLevel + 1}}
		verdicts, err := node.Propose(t.Context(), level)
		require.NoError(t, err)
		require.Equal(t, fsm.FeatureLevel, verdicts[0].Reason)

		said := fsm.Proposal{Command: &fsm.AnnounceServer{Server: s.ID, Address: "127.0.0.1:1", HighestLevel: raftnode.HighestLevel + 1}}
		_, err = node.Propose(t.Context(), said, level)
		require.ErrorIs(t, err, raftnode.ErrUnknownOutcome)
		<-node.Fault()
		_, _, ok := node.Local()
		require.False(t, ok, "nothing is served any more")
		var fault *raftnode.FaultError
		require.ErrorAs(t, c.Crash(s.ID), &fault)
		require.Equal(t, raftnode.FaultEntry, fault.Cause)
		require.ErrorContains(t, fault, "upgrade this server")
	})
}

// R47: an unknown command at position 5 of an entry: nothing of the entry is applied, the server stops.
func TestReview_R47_the_whole_entry_is_decoded_before_its_first_command_is_applied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1})
		s := c.Ready()
		node := s.Node()
		var proposals []fsm.Proposal
		for i := range 6 {
			p := register(fmt.Sprintf("n%d", i))
			p.Term = node.Leadership().Term
			proposals = append(proposals, p)
		}
		index := node.AppliedIndex()
		hash, ok := node.HashAt(index)
		require.True(t, ok)
		proposals[4].Command = unknownCommand{proposals[4].Command}
		data, err := logcodec.AppendEntry(nil, proposals)
		require.NoError(t, err)
		require.ErrorIs(t, node.ApplyRaw(data), raftnode.ErrUnknownOutcome)

		<-node.Fault()
		require.Equal(t, index, node.AppliedIndex())
		_, _, ok = node.Local()
		require.False(t, ok, "nothing is served any more")
		_, err = node.Read(t.Context())
		require.ErrorIs(t, err, raftnode.ErrFenced)
		_, err = node.Propose(t.Context(), tick())
		require.ErrorIs(t, err, raftnode.ErrFenced)
		require.Error(t, node.Snapshot(t.Context()), "a state after a fault is not kept")
		ok, _ = node.Contact()
		require.False(t, ok)

		var fault *raftnode.FaultError
		require.ErrorAs(t, c.Crash(s.ID), &fault)
		require.Equal(t, raftnode.FaultEntry, fault.Cause)
		require.Contains(t, fault.Error(), "upgrade this server")
		var unknown *logcodec.UnknownCommandError
		require.ErrorAs(t, fault, &unknown)
		require.Equal(t, 4, unknown.Position)

		// After a restart it stops at the same place, with the state of before.
		c.Restart(s.ID)
		<-s.Node().Fault()
		require.Equal(t, hash, s.Node().LastHash())
	})
}

// unknownCommand is a command of a later version.
type unknownCommand struct{ fsm.Command }

func (unknownCommand) Kind() fsm.CommandKind { return 250 }

func TestBrokenApply_stops_the_server_and_shows_no_half_state(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1})
		s := c.Ready()
		require.ErrorIs(t, s.Node().ApplyRaw([]byte("garbage")), raftnode.ErrUnknownOutcome)
		err := c.Crash(s.ID)
		var fault *raftnode.FaultError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, raftnode.FaultEntry, fault.Cause)
		require.NotZero(t, fault.ExitCode())
	})
}

func TestReads_that_wait_share_one_round_and_see_what_was_acknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) { cfg.GRPCAddress = "" }})
		leader := c.Ready()
		node := leader.Node()
		verdicts, err := node.Propose(t.Context(), register("n"))
		require.NoError(t, raftnode.Outcome(verdicts, err))
		for _, s := range c.Servers() { // a round takes its time, so that all join the second
			c.Delay(leader.ID, s.ID, 10*time.Millisecond)
		}
		before := node.Raft().LastIndex()
		var readers sync.WaitGroup
		for range 200 {
			readers.Go(func() {
				view, err := node.Read(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, view.Meta().Index, verdicts[0].Index)
			})
		}
		readers.Wait()
		require.LessOrEqual(t, node.Raft().LastIndex()-before, uint64(2), "readers do not share rounds")

		c.Isolate(leader.ID)
		_, err = node.Read(within(t, 5*time.Second))
		require.ErrorIs(t, err, raftnode.ErrNotLeader)
		view, age, ok := node.Local()
		require.True(t, ok)
		require.NotNil(t, view)
		require.Positive(t, age)
	})
}

func TestContact_is_lost_by_both_sides_of_a_cut_and_comes_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			cfg.Lead = func(ctx context.Context, _ uint64) { <-ctx.Done() }
		}})
		leader := c.Ready()
		ticking, stop := context.WithCancel(t.Context())
		var ticks sync.WaitGroup
		ticks.Go(func() {
			for clock.Sleep(ticking, clock.SystemTimers{}, 100*time.Millisecond) == nil {
				for _, s := range c.Servers() {
					if n := s.Node(); n != nil {
						_, _ = n.ProposeTick(ticking, tick())
					}
				}
			}
		})
		inContact := func(s *raftnodetest.Server) bool { ok, _ := s.Node().Contact(); return ok }
		c.Eventually("all have contact", func() bool {
			return !slices.ContainsFunc(c.Servers(), func(s *raftnodetest.Server) bool { return !inContact(s) })
		})
		alone := c.Follower(leader.ID)
		c.Isolate(alone.ID)
		c.Eventually("a follower that is cut off notices", func() bool { return !inContact(alone) })
		require.True(t, inContact(leader))
		c.Heal()
		c.Eventually("it has contact again", func() bool { return inContact(alone) })
		leader = c.Leader()
		c.Isolate(leader.ID)
		c.Eventually("the deposed leader notices", func() bool { return !leader.Node().Leadership().Leading })
		for range 1000 { // its own last contact looks fresh just after it was deposed
			require.False(t, inContact(leader))
			time.Sleep(time.Millisecond)
		}
		stop()
		ticks.Wait()
	})
}

func TestWatchdog_a_leader_whose_state_machine_hangs_gives_up_leadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var who atomic.Pointer[fsm.ServerID]
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) {
			id := cfg.ID
			cfg.Faults = &raftnode.FaultHooks{Apply: func(uint64) {
				if w := who.Load(); w != nil && *w == id {
					<-hang
				}
			}}
		}})
		old := c.Ready()
		c.Settle()
		who.Store(&old.ID)
		begin := time.Now()
		_, err := old.Node().Propose(within(t, 4*time.Second), tick())
		require.ErrorIs(t, err, raftnode.ErrUnknownOutcome)
		c.Leader(old.ID)
		require.Less(t, time.Since(begin), 5*time.Second)
		who.Store(nil)
		close(hang)
		c.Settle()
	})
}

func TestStepDown_hands_leadership_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		old := c.Ready()
		c.Settle()
		old.Node().StepDown("the test asks for it")
		next := c.Leader(old.ID)
		require.NoError(t, raftnode.Outcome(next.Node().Propose(t.Context(), tick())))
		next.Node().StepDown("nothing to do for a follower")
		old.Node().StepDown("nothing to do for a follower")
	})
}

func TestRestart_from_snapshot_and_log_gives_the_same_state(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) { cfg.TrailingLogs = 1 }})
		leader := c.Ready()
		for i := range 50 {
			require.NoError(t, raftnode.Outcome(leader.Node().Propose(t.Context(), create(fmt.Sprintf("f%d", i), ""))))
		}
		c.Settle()
		for _, s := range c.Servers() {
			require.NoError(t, s.Node().Snapshot(t.Context()))
		}
		for i := range 20 {
			require.NoError(t, raftnode.Outcome(leader.Node().Propose(t.Context(), register(fmt.Sprintf("n%d", i)))))
		}
		index := c.Settle()
		hash, ok := leader.Node().HashAt(index)
		require.True(t, ok)
		for _, s := range c.Servers() {
			require.NoError(t, c.Crash(s.ID))
		}
		for _, s := range c.Servers() {
			c.Restart(s.ID)
		}
		c.Leader()
		after := c.Settle()
		for _, s := range c.Servers() {
			got, ok := s.Node().HashAt(index)
			require.True(t, ok)
			require.Equal(t, hash, got, "%s at %d of %d", s.ID, index, after)
		}
	})
}

func TestFollower_that_was_away_for_long_is_sent_a_snapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) { cfg.TrailingLogs = 1 }})
		leader := c.Ready()
		away := c.Follower(leader.ID)
		require.NoError(t, c.Crash(away.ID))
		for i := range 30 {
			require.NoError(t, raftnode.Outcome(leader.Node().Propose(t.Context(), register(fmt.Sprintf("n%d", i)))))
		}
		for _, s := range c.Running() {
			require.NoError(t, s.Node().Snapshot(t.Context()))
		}
		c.Restart(away.ID)
		require.NoError(t, raftnode.Outcome(c.Propose(t.Context(), tick())))
		c.Settle()
	})
}

func TestWaitApplied_returns_when_the_state_is_there(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		leader := c.Ready()
		follower := c.Follower(leader.ID).Node()
		verdicts, err := leader.Node().Propose(t.Context(), register("n"))
		require.NoError(t, err)
		require.NoError(t, follower.WaitApplied(within(t, time.Second), verdicts[0].Index))
		view, _, _ := follower.Local()
		_, ok := view.Node("n")
		require.True(t, ok)
		require.ErrorIs(t, follower.WaitApplied(within(t, time.Second), verdicts[0].Index+100), context.DeadlineExceeded)
	})
}

func TestRun_twice_and_after_Close_is_refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Servers: 1})
		node := c.Ready().Node()
		require.ErrorIs(t, node.Run(t.Context()), raftnode.ErrClosed)
		require.NoError(t, c.Shutdown("s1"))
		require.NoError(t, node.Close())
		_, err := node.Propose(t.Context(), tick())
		require.Error(t, err)
		require.NotErrorIs(t, err, raftnode.ErrUnknownOutcome)
	})
}
