package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// Orders are repeated until the state changes, and not after; what is new goes out at once.
func TestOrdersAreRepeatedUntilTheStateChanges(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 2)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		p := h.place(1, "n1")
		placed := h.now()
		start := orderKey{fsm.OrderStart, p}
		h.pass(30 * time.Millisecond)
		require.Equal(t, 1, n.ordered()[start])
		require.Less(t, n.got(isOrders)[0].at-placed, lookEvery+time.Millisecond)
		h.pass(5 * time.Second)
		require.InDelta(t, 11, n.ordered()[start], 1, "every half second")
		orders := n.got(isOrders)
		for i, m := range orders {
			require.Equal(t, uint64(1), m.Orders.Term)
			require.Equal(t, start, keyOf(m.Orders.Orders[0]))
			if i > 0 {
				require.Greater(t, m.Orders.Index, orders[i-1].Orders.Index, "a repetition comes from the newest state")
			}
		}
		n.with(func() { n.held[p] = true })
		n.say(fsm.ReportRunning, p)
		h.pass(50 * time.Millisecond)
		n.forget()
		h.pass(5 * time.Second)
		require.Empty(t, n.got(isOrders))
	})
}

// One new order must not repeat all the others.
func TestANewOrderGoesOutAlone(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 50)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		for id := range fsm.DispatcherID(49) {
			h.place(id+1, "n1")
		}
		h.pass(100 * time.Millisecond)
		n.forget()
		p := h.place(50, "n1")
		h.pass(100 * time.Millisecond)
		require.Equal(t, map[orderKey]int{{fsm.OrderStart, p}: 1}, n.ordered())
	})
}

// A message has a bound and says when more of the same state follow; so has what a node has been sent and not carried
// out. What is behind that follows as the node gets on.
func TestOrdersOfALargeStateComeInBoundedMessages(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		const spans = ordersWindow + 1_200
		h.feed("a", spans)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		var all []fsm.Proposal
		for id := range fsm.DispatcherID(spans) {
			all = append(all, fsm.Proposal{Term: 1, Command: &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id + 1, To: "n1"}})
		}
		h.log.mu.Lock()
		h.log.apply(all)
		h.log.mu.Unlock()
		h.pass(400 * time.Millisecond)
		require.Len(t, n.ordered(), ordersWindow)
		messages := n.got(isOrders)
		require.Len(t, messages, ordersWindow/ordersPerMessage)
		for i, m := range messages {
			require.Len(t, m.Orders.Orders, ordersPerMessage)
			require.Equal(t, messages[0].Orders.Index, m.Orders.Index)
			require.Equal(t, i < len(messages)-1, m.Orders.More)
		}
		h.pass(time.Second)
		require.Len(t, n.ordered(), ordersWindow, "these are repeated")
		n.with(func() { n.deaf = false })
		h.pass(3 * time.Second)
		require.Len(t, n.ordered(), spans)
		require.False(t, h.log.View().HasPending(n.inc), "all of it runs")
	})
}

// A node that does not read gets, once it reads again, what the newest state says and nothing older; it delays nobody.
func TestASlowSessionGetsTheNewestAndDelaysNobody(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 30)
		slow, other := h.join("n1"), h.join("n2")
		h.pass(time.Second)
		slow.with(func() { slow.stuck = true })
		h.pass(100 * time.Millisecond)
		for id := range fsm.DispatcherID(20) {
			h.place(id+1, "n1")
			h.pass(50 * time.Millisecond)
		}
		for id := range fsm.DispatcherID(19) {
			// All but the last are removed before the node has heard of them.
			row := h.dispatcher(id + 1)
			h.log.do(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: row.ID})
		}
		q := h.place(30, "n2")
		h.pass(300 * time.Millisecond)
		require.Equal(t, fsm.Running, h.dispatcher(q.Dispatcher).Phase, "the other node is served meanwhile")
		require.Greater(t, len(other.got(isAck)), 8)

		index := h.log.View().Meta().Index
		slow.forget()
		slow.with(func() { slow.stuck, slow.deaf = false, true })
		h.pass(100 * time.Millisecond)
		older := 0
		for _, m := range slow.got(isOrders) {
			if m.Orders.Index < index-3 {
				older++
			}
		}
		require.LessOrEqual(t, older, 1, "at most the message that was on its way")
		starts := 0
		for _, m := range slow.got(isOrders)[older:] {
			for _, o := range m.Orders.Orders {
				if o.Kind == fsm.OrderStart {
					starts++
					require.Equal(t, fsm.DispatcherID(20), o.Dispatcher)
				}
			}
		}
		require.Equal(t, 1, starts)
		require.LessOrEqual(t, len(slow.got(isAck)), 3, "one was on its way; then only the newest")
	})
}

// A new session of the same incarnation takes over, with everything that is still to do.
func TestANewSessionTakesOver(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 1)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		p := h.place(1, "n1")
		h.pass(100 * time.Millisecond)
		n.forget()
		first := n.done
		n.open()
		h.pass(100 * time.Millisecond)
		require.NoError(t, <-first)
		require.Equal(t, CloseReplaced, n.closed())
		require.Equal(t, 1, n.ordered()[orderKey{fsm.OrderStart, p}])
		n.forget()
		h.pass(time.Second)
		require.NotEmpty(t, n.got(isAck))
		require.Empty(t, n.closed())
		require.Equal(t, uint64(2), h.leader.Counters().Sessions)
	})
}

// A session whose stream breaks ends, and its node is expired when its lease is over, not before.
func TestABrokenSessionEnds(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.pass(time.Second)
		n.p.cut()
		h.pass(10 * time.Millisecond)
		require.ErrorIs(t, <-n.done, errBroken)
		require.False(t, h.leader.Leases()[0].Connected)
		h.pass(h.wait() - 400*time.Millisecond)
		require.Equal(t, fsm.NodeStatusLive, n.row().Status)
		h.pass(time.Second)
		require.Equal(t, fsm.NodeStatusExpired, n.row().Status)
		require.Empty(t, h.leader.Leases())
	})
}

// Reports that would change nothing are acknowledged from the view; the others share one entry.
func TestReportsThatChangeNothingNeedNoEntry(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 3)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		a, b := h.place(1, "n1"), h.place(2, "n1")
		h.pass(100 * time.Millisecond)
		n.say(fsm.ReportRunning, a, b, a)
		h.pass(100 * time.Millisecond)
		entries, at := of[*fsm.ReportPlacements](h.log)
		require.Len(t, entries, 1)
		require.Len(t, entries[0].Reports, 2)
		acks := n.got(isReportAck)
		require.Len(t, acks, 1)
		require.Equal(t, at[0], acks[0].ReportAck.Index)
		require.Equal(t, []session.ReportedPair{{Pair: a, What: fsm.ReportRunning}, {Pair: b, What: fsm.ReportRunning}},
			acks[0].ReportAck.Pairs)
		// Again, and what does not fit a running placement: no entry, an ack all the same.
		n.say(fsm.ReportRunning, a)
		n.say(fsm.ReportStartFailed, b)
		n.say(fsm.ReportStopped, session.Pair{Dispatcher: 3, Epoch: a.Epoch})
		h.pass(100 * time.Millisecond)
		entries, _ = of[*fsm.ReportPlacements](h.log)
		require.Len(t, entries, 1)
		pairs := 0
		for _, m := range n.got(isReportAck)[1:] {
			pairs += len(m.ReportAck.Pairs)
			require.GreaterOrEqual(t, m.ReportAck.Index, at[0])
		}
		require.Equal(t, 3, pairs)
		c := h.leader.Counters()
		require.Equal(t, uint64(2), c.Reports)
		require.Equal(t, uint64(3), c.ReportsDeduplicated)
	})
}

// Every report in every phase: what is found before the log is what Apply makes of it.
func TestFindAgreesWithApply(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		require.ErrorIs(t, h.depose(), errCanceled)
		n := h.register("n1")
		h.register("n2")
		h.feed("a", 16)
		next := fsm.DispatcherID(0)
		for _, phase := range []fsm.Phase{fsm.Absent, fsm.Starting, fsm.Running, fsm.Stopping} {
			for _, what := range []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped, fsm.ReportStartFailed} {
				next++
				p := h.place(next, "n1")
				tell := func(what fsm.ReportKind) fsm.Verdict {
					return h.log.do(&fsm.ReportPlacements{Node: "n1", Incarnation: n.inc, Reports: []fsm.PlacementReport{report(p, what)}})
				}
				switch phase {
				case fsm.Absent:
					tell(fsm.ReportStopped)
				case fsm.Starting:
				case fsm.Running:
					tell(fsm.ReportRunning)
				case fsm.Stopping:
					tell(fsm.ReportRunning)
					h.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: next, FromAny: true, To: "n2"})
				}
				require.Equal(t, phase, h.dispatcher(next).Phase)
				rep := report(p, what)
				found := find(h.log.View(), n.inc, &rep)
				want := map[fsm.Reason]finding{
					fsm.ReportCounted: findCounts, fsm.ReportInert: findInert, fsm.ReportStale: findStray,
				}[tell(what).Reports[0]]
				require.Equal(t, want, found, "%v reported in %v", what, phase)
			}
		}
	})
}
