package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// R39: a drain ends when the state has nothing on the node and its current incarnation says so itself, in a heartbeat
// from after that; once. It outlives the process: the next incarnation gets nothing, and must say so again.
func TestReview_R39_ADrainEndsOnTheWordOfTheCurrentIncarnation(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 6)
		n1, n2 := h.join("n1"), h.join("n2")
		h.pass(2 * time.Second)
		require.NotZero(t, n1.holds())
		require.Equal(t, fsm.Accepted, h.log.do(&fsm.StartDrain{Node: "n1"}).Reason)
		n1.with(func() { n1.deaf = true })
		h.pass(3 * time.Second)
		o, _ := h.leader.Overview()
		require.Len(t, o.Drains, 1)
		require.Equal(t, DrainInfo{Node: "n1", Incarnation: n1.inc, From: 4, Left: 4, Told: 4}, o.Drains[0])
		n1.with(func() { n1.deaf, n1.mute = false, true })
		h.pass(700 * time.Millisecond)
		confirms, _ := of[*fsm.ConfirmDrain](h.log)
		require.Empty(t, confirms, "the state has nothing there, but the node has not said so")
		require.Zero(t, h.log.View().DrainLeft(n1.row()))
		n1.with(func() { n1.mute = false })
		h.pass(5 * time.Second)
		confirms, _ = of[*fsm.ConfirmDrain](h.log)
		require.Equal(t, []*fsm.ConfirmDrain{{Node: "n1", Incarnation: n1.inc}}, confirms, "once")
		require.NotZero(t, n1.row().DrainedAt)
		require.Equal(t, 7, n2.holds())
		o, _ = h.leader.Overview()
		require.True(t, o.Drains[0].Done)

		n1.p.cut()
		h.log.do(&fsm.Goodbye{Node: "n1", Incarnation: n1.inc})
		again := h.join("n1")
		h.pass(5 * time.Second)
		require.Zero(t, again.holds())
		require.Equal(t, again.inc, n1.row().Incarnation)
		confirms, _ = of[*fsm.ConfirmDrain](h.log)
		require.Equal(t, again.inc, confirms[len(confirms)-1].Incarnation)
		require.LessOrEqual(t, len(confirms), 2)
	})
}

// The last node that is left is told to drain: nothing moves and nothing stops, and that is shown.
func TestADrainWithoutAnotherNodeMovesNothing(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 3)
		n := h.join("n1")
		h.pass(2 * time.Second)
		h.log.do(&fsm.StartDrain{Node: "n1"})
		h.feed("b", 2)
		h.pass(10 * time.Second)
		require.Equal(t, 4, n.holds())
		require.Equal(t, fsm.Absent, h.dispatcher(5).Phase, "what is absent stays absent")
		o, _ := h.leader.Overview()
		require.True(t, o.Drains[0].Stays)
		require.False(t, o.Drains[0].Done)
		h.join("n2")
		h.pass(3 * time.Second)
		require.Zero(t, n.holds())
		require.Equal(t, fsm.Running, h.dispatcher(5).Phase)
	})
}

// R18: a node that lives and never confirms a stop. The policy cancels the move once, and when that does not help fences
// the node; its work goes on elsewhere. Until then the operator shows as stuck, with what it waits for.
func TestReview_R18_ThePolicyFencesWhoNeverConfirms(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		policy := fsm.DefaultPolicy()
		policy.OperatorDeadlineMS, policy.FenceStuckMS = 5_000, 5_000
		policy.CancelStuck, policy.FenceStuck = true, true
		h.log.do(&fsm.SetPolicy{Policy: policy})
		h.feed("a", 1)
		n := h.join("n1")
		h.pass(time.Second)
		h.join("n2")
		h.pass(time.Second)
		require.Equal(t, 2, n.holds())
		n.with(func() { n.deaf = true })
		v := h.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: "n2"})
		require.Equal(t, fsm.Accepted, v.Reason)
		h.pass(4500 * time.Millisecond)
		cancels, _ := of[*fsm.CancelOperator](h.log)
		require.Empty(t, cancels)
		h.pass(4 * time.Second)
		cancels, _ = of[*fsm.CancelOperator](h.log)
		require.Equal(t, []*fsm.CancelOperator{{Op: v.Facts.Operator}}, cancels)
		o, _ := h.leader.Overview()
		require.Len(t, o.Stuck, 1)
		require.Equal(t, v.Facts.Operator, o.Stuck[0].Operator.ID)
		require.Equal(t, fsm.NodeName("n1"), o.Stuck[0].Node)
		require.Equal(t, fsm.Stopping, o.Stuck[0].WaitsFor.Phase)
		require.Equal(t, fsm.NodeStatusLive, n.row().Status)
		h.pass(3 * time.Second)
		require.NotEqual(t, fsm.NodeStatusLive, n.row().Status)
		fences, _ := of[*fsm.FenceNode](h.log)
		require.Len(t, fences, 1)
		require.Equal(t, n.inc, fences[0].Incarnation)
		h.pass(h.wait() + time.Second)
		require.Equal(t, fsm.Running, h.dispatcher(1).Phase)
		require.Equal(t, fsm.Running, h.dispatcher(2).Phase)
		cancels, _ = of[*fsm.CancelOperator](h.log)
		require.Len(t, cancels, 1)
	})
}

// What is refused of moves, cancellations and fencing is made again after waits that double, as long as nothing changes.
func TestRefusedRepairsDoNotLoop(t *testing.T) {
	for name, is := range map[string]func(fsm.Command) bool{
		"cancel": func(c fsm.Command) bool { _, ok := c.(*fsm.CancelOperator); return ok },
		"fence":  func(c fsm.Command) bool { _, ok := c.(*fsm.FenceNode); return ok },
		"move":   func(c fsm.Command) bool { a, ok := c.(*fsm.AdmitOperator); return ok && a.Op == fsm.OpMove },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				t := h.t
				policy := fsm.DefaultPolicy()
				policy.OperatorDeadlineMS, policy.FenceStuckMS = 1_000, 1_000
				policy.CancelStuck, policy.FenceStuck = name == "cancel", name == "fence"
				h.log.do(&fsm.SetPolicy{Policy: policy})
				h.feed("a", 1)
				n := h.join("n1")
				h.pass(time.Second)
				h.join("n2")
				h.pass(time.Second)
				n.with(func() { n.deaf = true })
				var asked []time.Duration
				h.log.hook(hooks{answer: func(p fsm.Proposal) (fsm.Verdict, bool) {
					if p.By != scheduler.By || !is(p.Command) {
						return fsm.Verdict{}, false
					}
					asked = append(asked, h.now())
					return fsm.Verdict{Reason: fsm.LimitReached}, true
				}})
				if name == "move" {
					h.log.do(&fsm.StartDrain{Node: "n1"})
				} else {
					h.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: "n2"})
				}
				h.pass(33 * time.Second)
				require.InDelta(t, 6, len(asked), 1, "at 0, 1, 3, 7, 15 and 31 seconds: %v", asked)
				require.Equal(t, fsm.NodeStatusLive, n.row().Status)
			})
		})
	}
}

// R46: failures are a fact that the scheduler's back-off uses; admission ignores it, so a user need not wait.
func TestReview_R46_BackOffIsTheSchedulersAlone(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		h.feed("a", 1)
		for range 6 {
			h.pass(20 * time.Second)
			row := h.dispatcher(1)
			require.Equal(t, fsm.Starting, row.Phase)
			n.say(fsm.ReportStartFailed, fsm.Pair{Dispatcher: 1, Epoch: row.Epoch})
			h.pass(100 * time.Millisecond)
		}
		require.Equal(t, uint32(6), h.dispatcher(1).Failures)
		h.pass(5 * time.Second)
		require.Equal(t, fsm.Absent, h.dispatcher(1).Phase, "the scheduler waits for sixteen seconds")
		h.place(1, "n1")
		require.Equal(t, fsm.Starting, h.dispatcher(1).Phase)
	})
}

// R36: fenced nodes do not count for the guard: they expire together.
func TestReview_R36_FencedNodesAreNotSlowedDown(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		for _, name := range []fsm.NodeName{"n1", "n2", "n3"} {
			h.join(name)
		}
		h.pass(time.Second)
		for _, name := range []fsm.NodeName{"n1", "n2", "n3"} {
			h.log.do(&fsm.FenceNode{Node: name})
		}
		h.pass(h.wait() + 500*time.Millisecond)
		for row := range h.log.View().Nodes() {
			require.Equal(t, fsm.NodeStatusExpired, row.Status)
		}
	}, func(c *Config) { c.SharePercent = 0 })
}

// A node that comes late gets its share, one move at a time for each dispatcher, and then everything is left alone.
func TestANodeThatComesLateGetsItsShare(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 11)
		n1 := h.join("n1")
		h.pass(40 * time.Second)
		n2 := h.join("n2")
		h.pass(9 * time.Second)
		require.Zero(t, n2.holds(), "it might go again at once")
		h.pass(10 * time.Second)
		require.Equal(t, 7, n1.holds())
		require.Equal(t, 5, n2.holds())
		before := h.leader.Counters().Planned
		h.pass(2 * time.Minute)
		require.Equal(t, before, h.leader.Counters().Planned)
	})
}

// What a node says of rows becomes a rate; silence becomes none.
func TestRatesAreWhatNodesSayLately(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		h.feed("a", 2)
		h.pass(time.Second)
		p, idle := h.place(1, "n1"), h.place(2, "n1")
		for range 60 {
			n.with(func() {
				rows := uint64(h.now().Milliseconds()) * 3
				n.progress = []session.Progress{{Dispatcher: p.Dispatcher, Epoch: p.Epoch, Rows: rows}}
			})
			h.pass(250 * time.Millisecond)
		}
		loads := func() *loads { return h.leader.current().loads(h.log.View(), h.clk.Now()) }
		rate, known := loads().Node(n.inc)
		require.True(t, known)
		require.InDelta(t, 3_000, rate, 300)
		require.Equal(t, p, loads().Busiest(n.inc)[0].Pair)
		rate, known = loads().Rate(h.dispatcher(1))
		require.True(t, known)
		require.InDelta(t, 3_000, rate, 300)
		rate, known = loads().Rate(h.dispatcher(idle.Dispatcher))
		require.True(t, known)
		require.Zero(t, rate)
		n.with(func() { n.progress = nil })
		h.pass(15 * time.Second)
		rate, known = loads().Node(n.inc)
		require.True(t, known)
		require.Zero(t, rate)
		require.Empty(t, loads().Busiest(n.inc))
	})
}
