package control

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

var errCanceled = context.Canceled

// B08: leadership goes while proposals are queued, orders are due, a stop is being reported and a node is falling silent,
// and the leader learns of it two seconds late. Nothing it does meanwhile may count, and nothing happens afterwards.
func TestField_B08_ALeaderOnItsWayOutChangesNothing(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 3)
		n, silent := h.join("n1"), h.join("n2")
		h.pass(2 * time.Second)
		silent.with(func() { silent.mute = true })
		n.with(func() { n.deaf = true })
		h.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: other(h, 1)})
		h.pass(500 * time.Millisecond)
		// Proposals are on their way when the next leader begins; this server applies no more until it learns of it.
		h.log.hook(hooks{delay: func(fsm.Proposal) time.Duration { return 50 * time.Millisecond }})
		h.feed("b", 5)
		h.pass(20 * time.Millisecond)
		h.log.freeze()
		term := h.log.begin("s2")
		before := len(h.log.entries)
		n.say(fsm.ReportStopped, session.Pair{Dispatcher: 1, Epoch: h.dispatcher(1).Epoch})
		at := h.now()
		h.pass(2 * time.Second)
		for _, e := range h.log.entries[before:] {
			require.Equal(t, term, e.Term)
			for _, p := range e.Proposals {
				require.Equal(t, uint64(1), p.Term, "what is proposed late carries the term that it was thought of in")
			}
		}
		require.Empty(t, n.got(func(m received) bool { return isAck(m) && m.at > at }), "no tick of the new term was its own")
		require.Empty(t, n.got(func(m received) bool { return isReportAck(m) && m.at > at }))
		h.log.thaw()
		rows := rowsOf(h)
		h.pass(100 * time.Millisecond)
		require.ErrorIs(t, <-h.ended, ErrTermOver)
		require.Equal(t, CloseNotLeader, n.closed())
		require.Equal(t, "leader:1", n.got(func(m received) bool { return m.Close != nil })[0].Close.Leader)

		entries := len(h.log.entries)
		n.forget()
		n.say(fsm.ReportRunning, session.Pair{Dispatcher: 2, Epoch: 1})
		h.pass(10 * time.Second)
		require.Len(t, h.log.entries, entries, "nothing is proposed after the term")
		require.Empty(t, n.got(func(received) bool { return true }), "nothing is sent after the term")
		require.Equal(t, rows, rowsOf(h))
		require.Equal(t, CloseNotLeader, h.serveOnce(n.hello()).Reason)
		require.Nil(t, h.leader.Leases())
	})
}

// other is a node on which the dispatcher is not.
func other(h *harness, id fsm.DispatcherID) fsm.NodeName {
	owner, _ := h.log.View().NodeOf(h.dispatcher(id).Incarnation)
	if owner.Name == "n1" {
		return "n2"
	}
	return "n1"
}

func rowsOf(h *harness) (rows []fsm.Dispatcher) {
	for row := range h.log.View().Dispatchers() {
		rows = append(rows, row)
	}
	return rows
}

// A term that is revoked ends at once, with proposals under way and nodes that read nothing.
func TestATermEndsWithProposalsUnderWayAndNodesThatDoNotRead(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n, stuck := h.join("n1"), h.join("n2")
		h.pass(time.Second)
		stuck.with(func() { stuck.stuck = true })
		h.pass(500 * time.Millisecond)
		h.log.hook(hooks{delay: func(fsm.Proposal) time.Duration { return time.Hour }})
		h.pass(500 * time.Millisecond)
		at := h.now()
		require.ErrorIs(t, h.depose(), errCanceled)
		require.LessOrEqual(t, h.now()-at, closeWithin)
		require.NoError(t, <-n.done)
		require.ErrorContains(t, <-stuck.done, "does not take the message")
		require.Equal(t, CloseNotLeader, n.closed())
	})
}

// Reports of a node that does not read still wait when the term ends; none of them is proposed any more.
func TestReportsThatWaitAreNotProposedAfterTheTerm(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		const spans = 3 * reportsPerEntry
		h.feed("a", spans)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		var pairs []session.Pair
		for id := range fsm.DispatcherID(spans) {
			pairs = append(pairs, h.place(id+1, "n1"))
		}
		h.pass(time.Second)
		n.with(func() { n.stuck = true })
		h.pass(time.Second)
		h.log.hook(hooks{delay: func(fsm.Proposal) time.Duration { return 30 * time.Millisecond }})
		n.say(fsm.ReportRunning, pairs...)
		h.pass(40 * time.Millisecond)
		r := h.leader.current()
		require.ErrorIs(t, h.depose(), errCanceled)
		h.pass(time.Second)
		entries, _ := of[*fsm.ReportPlacements](h.log)
		require.Len(t, entries, 1, "the one that was on its way")
		_, err := r.propose(h.ctx, byLeader, &fsm.Tick{})
		require.ErrorIs(t, err, ErrTermOver)
	})
}

// Leaders follow each other in one process, each with nothing of the one before.
func TestTermsFollowEachOther(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 2)
		n := h.join("n1")
		for term := uint64(2); term < 6; term++ {
			h.pass(time.Second)
			require.ErrorIs(t, h.depose(), errCanceled)
			require.NoError(t, <-n.done)
			synctest.Wait()
			require.Equal(t, CloseNotLeader, n.closed())
			require.Equal(t, term, h.log.begin("s1"))
			h.lead(term)
			n.forget()
			n.open()
			h.pass(500 * time.Millisecond)
			acks := n.got(isAck)
			require.NotEmpty(t, acks)
			require.Equal(t, term, acks[0].Ack.Term)
			require.Zero(t, acks[0].Ack.ElapsedNS, "times between acks are of one term")
		}
		require.Equal(t, fsm.NodeStatusLive, n.row().Status, "a change of leaders expires nobody")
		require.ErrorContains(t, h.leader.Run(h.ctx, 99), "has not ended")
	})
}

// State-machine time goes with the leader's clock, and stands still without a leader.
func TestTicksCarryTheTimeBetweenThem(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.pass(5 * time.Second)
		require.InDelta(t, 5_000, h.log.View().Meta().TimeMS, 101)
		h.log.hook(hooks{delay: func(fsm.Proposal) time.Duration { return 333 * time.Millisecond }})
		h.pass(5 * time.Second)
		require.InDelta(t, 10_000, h.log.View().Meta().TimeMS, 700)
		require.ErrorIs(t, h.depose(), errCanceled)
		h.log.hook(hooks{})
		before := h.log.View().Meta().TimeMS
		h.pass(time.Minute)
		h.lead(h.log.begin("s1"))
		h.pass(50 * time.Millisecond)
		require.Equal(t, before, h.log.View().Meta().TimeMS, "the first tick of a term carries nothing")
	})
}

// An ack needs an answer: a tick whose outcome is unknown releases nothing, even if it was applied.
func TestATickWithoutAnAnswerReleasesNothing(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.pass(time.Second)
		h.log.hook(hooks{lose: func(fsm.Proposal) error { return errUnknown }})
		at := h.now()
		h.pass(800 * time.Millisecond)
		require.Empty(t, n.got(func(m received) bool { return isAck(m) && m.at > at }))
		h.log.hook(hooks{})
		h.pass(500 * time.Millisecond)
		require.NotEmpty(t, n.got(func(m received) bool { return isAck(m) && m.at > at }), "the next heartbeats count")
	})
}

// A tick that was put into the log under another term than the one it was thought of in is not this term's tick, even if
// it was accepted.
func TestATickOfAnotherTermReleasesNothing(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.pass(time.Second)
		var at time.Duration
		h.log.hook(hooks{restamp: true, before: func(p fsm.Proposal) {
			if tick, ok := p.Command.(*fsm.Tick); ok && at == 0 && slices.Contains(names(tick), n.inc) {
				at = h.now()
				h.log.begin("s2")
			}
		}})
		h.pass(time.Second)
		require.NotZero(t, at)
		require.Empty(t, n.got(func(m received) bool { return isAck(m) && m.at >= at }))
		require.ErrorIs(t, <-h.ended, ErrTermOver)
	})
}

// The time in an ack is that between the captures of two ticks, however long either took to be applied: only then does
// the node's own time between sending and receiving enclose it.
func TestAcksCarryTheTimeBetweenCaptures(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		captured := map[*fsm.Tick]time.Duration{}
		h.log.hook(hooks{delay: func(p fsm.Proposal) time.Duration {
			tick, ok := p.Command.(*fsm.Tick)
			if !ok {
				return 0
			}
			captured[tick] = h.now()
			return time.Duration(len(captured)*61%250) * time.Millisecond
		}})
		h.pass(5 * time.Second)
		at := map[uint64]time.Duration{}
		ticks, indexes := of[*fsm.Tick](h.log)
		for i, tick := range ticks {
			at[indexes[i]] = captured[tick]
		}
		acks := n.got(isAck)
		require.Greater(t, len(acks), 10)
		for i := 2; i < len(acks); i++ {
			want := at[acks[i].Ack.Index] - at[acks[i-1].Ack.Index]
			require.Equal(t, uint64(want), acks[i].Ack.ElapsedNS)
		}
	})
}

// A session is refused with the reason that says what to do.
func TestSessionsThatCannotBeOpened(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.register("n1")
		for want, change := range map[string]func(*session.Hello){
			CloseWrongCluster:     func(m *session.Hello) { m.Cluster = "elsewhere" },
			CloseProtocol:         func(m *session.Hello) { m.Protocol = 99 },
			CloseStaleIncarnation: func(m *session.Hello) { m.Incarnation-- },
		} {
			hello := n.hello()
			change(&hello)
			c := h.serveOnce(hello)
			require.Equal(t, want, c.Reason)
			require.NotEmpty(t, c.Text)
		}
		unknown := n.hello()
		unknown.Node = "nobody"
		require.Equal(t, CloseStaleIncarnation, h.serveOnce(unknown).Reason)
		h.log.do(&fsm.Goodbye{Node: "n1", Incarnation: n.inc})
		require.Equal(t, CloseStaleIncarnation, h.serveOnce(n.hello()).Reason)
		require.Equal(t, uint64(5), h.leader.Counters().RefusedSessions)
	})
}

// The end of the context that a session is served under closes it as SERVER_STOPPING.
func TestAServerThatStopsClosesItsSessions(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.pass(time.Second)
		h.stop()
		require.NoError(t, <-n.done)
		synctest.Wait()
		require.Contains(t, []string{CloseServerStopping, CloseNotLeader}, n.closed())
	})
}

// What Apply refuses is not proposed over and over: again at once when the dispatcher has changed, else after waits that
// double.
func TestARefusedPlanDoesNotLoop(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 1)
		h.join("n1")
		var asked []time.Duration
		h.log.hook(hooks{answer: func(p fsm.Proposal) (fsm.Verdict, bool) {
			if p.By != scheduler.By {
				return fsm.Verdict{}, false
			}
			asked = append(asked, h.now())
			return fsm.Verdict{Reason: fsm.LimitReached}, true
		}})
		h.pass(40 * time.Second)
		require.Len(t, asked, 6, "at 0, 1, 3, 7, 15 and 31 seconds: %v", asked)
		require.Equal(t, uint64(12), h.leader.Counters().PlansRefused, "the table's dispatcher and the trigger")
		// The dispatcher changes: somebody has placed it, and it has come back.
		p := h.place(1, "n1")
		h.pass(time.Second)
		v := h.log.do(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: p.Dispatcher})
		require.Equal(t, fsm.Accepted, v.Reason)
		h.feed("b", 1)
		h.log.hook(hooks{})
		h.pass(500 * time.Millisecond)
		require.Equal(t, fsm.Running, h.dispatcher(3).Phase)
	})
}

// Nodes that cannot be reached get no work, although they have not expired yet.
func TestNoWorkForNodesThatCannotBeReached(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.register("n0") // never opens a session
		n1 := h.join("n1")
		h.pass(time.Second)
		h.feed("a", 4)
		h.pass(time.Second)
		require.Len(t, n1.held, 5)
	})
}

// Progress is the owner's word under the current epoch, and nobody else's.
func TestProgressIsTheOwnersWord(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 2)
		n1, n2 := h.join("n1"), h.join("n2")
		h.pass(time.Second)
		p := h.place(1, "n1")
		h.pass(time.Second)
		_, ok := h.leader.Progress(1)
		require.False(t, ok)
		word := session.Progress{Dispatcher: 1, Epoch: p.Epoch, Position: fsm.At(10), Rows: 3}
		n1.with(func() { n1.progress = []session.Progress{word, {Dispatcher: 9, Epoch: p.Epoch}} })
		lie := word
		lie.Position = fsm.At(99)
		n2.with(func() { n2.progress = []session.Progress{lie} })
		h.pass(time.Second)
		got, ok := h.leader.Progress(1)
		require.True(t, ok)
		require.Equal(t, word, got)
		require.Len(t, h.leader.current().contact(n1.inc).progress, 1, "only what it owns is kept")
		h.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: "n2"})
		h.pass(time.Second)
		require.Equal(t, n2.inc, h.dispatcher(1).Incarnation)
		_, ok = h.leader.Progress(1)
		require.False(t, ok, "the new owner has not said anything yet")
	})
}

func TestLeasesDescribeTheNodes(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.register("n2")
		h.pass(time.Second)
		all := h.leader.Leases()
		require.Len(t, all, 2)
		a, b := all[0], all[1]
		require.Equal(t, n.inc, a.Incarnation)
		require.True(t, a.Connected && a.Heard && a.Named && a.GateOpen && a.SetHashEqual)
		require.LessOrEqual(t, a.HeardAge, h.timing.Heartbeat)
		require.Greater(t, a.ExpiresIn, h.timing.Lease/2)
		require.False(t, b.Connected || b.Heard || b.Named || b.GateOpen)
		require.InDelta(t, h.wait()-time.Second, b.ExpiresIn, float64(20*time.Millisecond))
	})
}

func TestSettingsThatAreMissingAreNamed(t *testing.T) {
	_, err := New(Config{})
	for _, name := range []string{"Proposer", "Viewer", "Appends", "Clock", "Timers", "StepDown", "WallMS", "Logger", "Lease"} {
		require.ErrorContains(t, err, name)
	}
}
