package control

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// R2: the node's expiry is ahead of the tick that names it in the log. Both commit; the tick's verdict refuses the name,
// and no ack may follow.
func TestReview_R02_AnAckIsNotReleasedByATickThatRefusedTheNode(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n, other := h.join("n1"), h.join("n2")
		h.pass(time.Second)
		var at time.Duration
		h.log.hook(hooks{before: func(p fsm.Proposal) {
			tick, ok := p.Command.(*fsm.Tick)
			if !ok || at != 0 || !slices.Contains(names(tick), n.inc) {
				return
			}
			at = h.now()
			row := n.row()
			h.log.freeze() // only the verdict tells: nothing else has looked at the state yet
			v := h.log.do(&fsm.ExpireNode{Node: n.name, Incarnation: n.inc, ExpectTick: row.LastTick})
			require.Equal(t, fsm.Accepted, v.Reason)
		}})
		h.pass(2 * time.Second)
		require.NotZero(t, at, "a tick named the node behind its expiry")
		h.log.thaw()
		h.pass(100 * time.Millisecond)
		require.Empty(t, n.got(func(m received) bool { return isAck(m) && m.at >= at }))
		require.Equal(t, CloseStaleIncarnation, n.closed())
		require.Equal(t, uint64(1), h.leader.Counters().RefusedNames, "refused once, it is not named again")
		require.NotEmpty(t, other.got(func(m received) bool { return isAck(m) && m.at > at }), "the tick counts for others")
	})
}

// R3: ahead of a tick that names an incarnation, that incarnation expires and its node registers anew, as does another.
// The name in the tick is a number that is never used again, so neither gets the tick nor the ack.
func TestReview_R03_ATickNamesIncarnationsNeverSlots(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.pass(time.Second)
		var again, m fsm.Incarnation
		h.log.hook(hooks{before: func(p fsm.Proposal) {
			tick, ok := p.Command.(*fsm.Tick)
			if !ok || again != 0 || !slices.Contains(names(tick), n.inc) {
				return
			}
			h.log.do(&fsm.ExpireNode{Node: n.name, Incarnation: n.inc, ExpectTick: n.row().LastTick})
			again, m = h.register("n1").inc, h.register("n2").inc
		}})
		h.pass(time.Second)
		require.NotZero(t, again)
		for _, inc := range []fsm.Incarnation{again, m} {
			row, ok := h.log.View().NodeOf(inc)
			require.True(t, ok)
			require.Equal(t, row.RegisteredAt, row.LastTick, "no tick named incarnation %v", inc)
		}
		ticks, at := of[*fsm.Tick](h.log)
		for i, tick := range ticks {
			require.False(t, slices.Contains(names(tick), again) || slices.Contains(names(tick), m), "entry %d", at[i])
		}
		require.Equal(t, CloseStaleIncarnation, n.closed())
	})
}

func TestReview_R03_BitmapsNameExactlyWhatWasCaptured(t *testing.T) {
	for _, incs := range [][]uint64{
		nil, {1}, {7, 8, 9}, {1, 64, 65}, {1 << 36, 1<<36 + 1}, {5, tickBits + 4}, {5, tickBits + 5}, {1, 7<<36 + 1, 7<<36 + 90_000},
	} {
		commands := tickCommands(incs, 1234*time.Microsecond)
		var got []uint64
		for i, c := range commands {
			tick := c.(*fsm.Tick)
			require.LessOrEqual(t, len(tick.Bits), tickBits/8)
			require.Equal(t, i == 0, tick.ElapsedMS == 1, "time counts once")
			for _, inc := range names(tick) {
				got = append(got, uint64(inc))
			}
		}
		require.Equal(t, incs, got)
	}
}

// R18: a node that lives but never confirms a stop is fenced by command: no tick names it any more, its acks end, and it
// is expired once its lease is over, although its heartbeats go on.
func TestReview_R18_AFencedNodeIsExpiredWhileItsHeartbeatsGoOn(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 1)
		n := h.join("n1")
		h.join("n2")
		h.pass(time.Second)
		h.place(1, "n1")
		h.pass(time.Second)
		n.with(func() { n.deaf = true })
		require.Equal(t, fsm.Accepted, h.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: "n2"}).Reason)
		h.pass(10 * time.Second)
		require.Equal(t, fsm.Stopping, h.dispatcher(1).Phase, "nobody hands work over without the owner's word")

		fencedAt, fence := h.now(), h.log.do(&fsm.FenceNode{Node: "n1", Why: "does not stop"})
		require.Equal(t, fsm.Accepted, fence.Reason)
		h.pass(h.wait() - 500*time.Millisecond)
		require.Equal(t, fsm.Stopping, h.dispatcher(1).Phase)
		h.pass(time.Second)
		require.Equal(t, fsm.NodeStatusExpired, n.row().Status)
		ticks, at := of[*fsm.Tick](h.log)
		named := 0
		for i, tick := range ticks {
			if at[i] > fence.Index && slices.Contains(names(tick), n.inc) {
				named++
			}
		}
		require.LessOrEqual(t, named, 1, "at most what had been captured")
		require.Equal(t, fsm.Running, h.dispatcher(1).Phase, "the destination has it")
		require.Empty(t, n.got(func(m received) bool { return isAck(m) && m.at > fencedAt+200*time.Millisecond }))
		require.Equal(t, CloseStaleIncarnation, n.closed())
	})
}

// R19: heartbeats come, but the gate stays closed, or orders are due and are not even taken note of. After 2 L no tick
// names the node any more, and W later it is expired.
func TestReview_R19_ANodeThatIsHeardButOfNoUseExpires(t *testing.T) {
	for name, spoil := range map[string]func(*fakeNode){
		"closed":         func(n *fakeNode) { n.shut = true },
		"standing still": func(n *fakeNode) { n.hung = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				t := h.t
				h.log.hook(noScheduler())
				h.feed("a", 2)
				n := h.join("n1")
				h.pass(time.Second)
				h.place(1, "n1")
				h.pass(time.Second)
				require.Equal(t, fsm.Running, h.dispatcher(1).Phase)
				n.with(func() { spoil(n) })
				h.place(2, "n1")

				h.pass(2*h.timing.Lease - 500*time.Millisecond)
				require.False(t, h.leader.Leases()[0].Silenced)
				h.pass(time.Second)
				require.True(t, h.leader.Leases()[0].Silenced)
				require.Equal(t, fsm.NodeStatusLive, n.row().Status)
				h.pass(h.wait())
				require.Equal(t, fsm.NodeStatusExpired, n.row().Status)
				require.Equal(t, fsm.Absent, h.dispatcher(1).Phase)
				require.NotZero(t, h.leader.Counters().Silenced)
			})
		})
	}
}

// A node that carries out its orders is not standing still, however many come and however long they take to change the
// state.
func TestReview_R19_ANodeThatTakesNoteOfItsOrdersIsNotStandingStill(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 1)
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		h.place(1, "n1")
		h.pass(20 * time.Second)
		require.Equal(t, fsm.NodeStatusLive, n.row().Status)
		require.Equal(t, fsm.Starting, h.dispatcher(1).Phase)
	})
}

// R29 (a): a registration counts as the first tick. An incarnation that is never heard expires W after it, not at once
// and not never.
func TestReview_R29_AnIncarnationThatWasNeverHeardExpires(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.pass(10 * time.Second)
		n := h.register("n1")
		h.pass(h.wait() - 10*time.Millisecond)
		require.Equal(t, fsm.NodeStatusLive, n.row().Status)
		h.pass(300 * time.Millisecond)
		require.Equal(t, fsm.NodeStatusExpired, n.row().Status)
	})
}

// R29 (b): the entry that named a node is stored again later, after a truncation. The wait counts from then.
func TestReview_R29_TheWaitCountsFromWhenTheEntryWasStoredAgain(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.register("n1")
		first := h.log.index
		require.ErrorIs(t, h.depose(), context.Canceled)
		h.pass(h.wait() - time.Second)
		h.log.appends.NoteAppends(first, h.log.index, h.clk.Now())
		h.lead(h.log.begin("s1"))
		h.pass(2 * time.Second)
		require.Equal(t, fsm.NodeStatusLive, n.row().Status, "the old time would be over by now")
		h.pass(h.wait() - time.Second)
		require.Equal(t, fsm.NodeStatusExpired, n.row().Status)
	})
}

// R36: nodes that fall silent together are not expired together. Beyond the share one goes every two seconds.
func TestReview_R36_MassExpiryIsSlowedDown(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		var nodes []*fakeNode
		for _, name := range []fsm.NodeName{"n1", "n2", "n3", "n4"} {
			nodes = append(nodes, h.join(name))
		}
		h.pass(3 * time.Second)
		for _, n := range nodes {
			n.with(func() { n.mute = true })
		}
		h.pass(h.wait() + 500*time.Millisecond)
		for left := 3; left >= 0; left-- {
			require.Equal(t, left, live(h), "at %v", h.now())
			if left > 0 {
				require.Equal(t, uint64(left), h.leader.Counters().HeldExpiries)
			}
			h.pass(2 * time.Second)
		}
	}, func(c *Config) { c.SharePercent = 0 })
}

func live(h *harness) (n int) {
	for row := range h.log.View().Nodes() {
		if row.Status == fsm.NodeStatusLive {
			n++
		}
	}
	return n
}

// R38: a node knows a pair above what this server has issued: the server's state is old. It must not order a stop; it
// closes the session.
func TestReview_R38_AServerThatIsProvenStaleOrdersNothing(t *testing.T) {
	for name, say := range map[string]func(n *fakeNode, p session.Pair){
		"report":  func(n *fakeNode, p session.Pair) { n.say(fsm.ReportRunning, p) },
		"stopped": func(n *fakeNode, p session.Pair) { n.say(fsm.ReportStopped, p) },
		"list": func(n *fakeNode, p session.Pair) {
			n.send(n.p, session.FromNode{List: &session.List{Pairs: []session.Pair{p}}})
		},
		"progress": func(n *fakeNode, p session.Pair) {
			n.with(func() { n.progress = []session.Progress{{Dispatcher: p.Dispatcher, Epoch: p.Epoch}} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				t := h.t
				h.log.hook(noScheduler())
				h.feed("a", 1)
				n := h.join("n1")
				h.pass(time.Second)
				say(n, session.Pair{Dispatcher: 1, Epoch: h.log.View().Meta().LastEpoch + 1})
				h.pass(time.Second)
				require.Equal(t, CloseStaleServer, n.closed())
				require.Empty(t, n.ordered())
				require.Empty(t, n.got(isReportAck), "the report is not dealt with here")
				reports, _ := of[*fsm.ReportPlacements](h.log)
				require.Empty(t, reports)
			})
		})
	}
}

func TestReview_R38_ANewerIncarnationOrGenerationProvesItToo(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		newer := n.hello()
		newer.Incarnation++
		require.Equal(t, CloseStaleServer, h.serveOnce(newer).Reason)
		newer.Incarnation += 1 << fsm.SequenceBits
		require.Equal(t, CloseGenerationTooOld, h.serveOnce(newer).Reason)
		h.pass(time.Second)
		require.Empty(t, n.closed())
		n.with(func() { n.claims = 8 })
		h.pass(time.Second)
		require.Equal(t, CloseGenerationTooOld, n.closed())
	})
}

// R40: ticks do not commit. After L/2 the leader gives up, not before and not later than a tick after; it asks again only
// after another L/2.
func TestReview_R40_ALeaderWhoseTickDoesNotCommitGivesUp(t *testing.T) {
	for name, spoil := range map[string]hooks{
		"hanging":    {delay: func(fsm.Proposal) time.Duration { return time.Hour }},
		"failing":    {refuse: func(fsm.Proposal) error { return errNotProposed }},
		"unanswered": {lose: func(fsm.Proposal) error { return errUnknown }},
		"refused": {answer: func(fsm.Proposal) (fsm.Verdict, bool) {
			return fsm.Verdict{Reason: fsm.StaleTerm}, true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				t := h.t
				h.pass(3050 * time.Millisecond)
				require.Empty(t, h.gaveUp())
				h.log.hook(spoil)
				h.pass(10 * time.Second)
				gave, half := h.gaveUp(), h.timing.Lease/2
				require.Len(t, gave, 10)
				require.InDelta(t, 3*time.Second+half, gave[0], float64(h.timing.Tick))
				require.InDelta(t, half, gave[1]-gave[0], float64(h.timing.Tick))
				require.Equal(t, uint64(10), h.leader.Counters().StepDowns)
			})
		})
	}
}

func TestReview_R40_SlowTicksAreNoReasonToGiveUp(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.log.hook(hooks{delay: func(fsm.Proposal) time.Duration { return 450 * time.Millisecond }})
		h.pass(20 * time.Second)
		require.Empty(t, h.gaveUp())
		require.Equal(t, fsm.NodeStatusLive, n.row().Status)
		require.Greater(t, len(n.got(isAck)), 35, "one tick after the other, each with its acks")
	})
}

// R41: a node runs a pair that the state does not have there, and has no reason to report it. Its set hash gives it away:
// the leader asks for the list and stops exactly that pair.
func TestReview_R41_AnOrphanThatReportsNothingIsFoundAndStopped(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 2)
		n := h.join("n1")
		h.pass(time.Second)
		good, orphan := h.place(1, "n1"), h.place(2, "n1")
		h.pass(time.Second)
		// The node's report of the stop is believed, but it runs on: the state forgets what the node holds.
		h.log.do(&fsm.ReportPlacements{
			Node: "n1", Incarnation: n.inc, Reports: []fsm.PlacementReport{report(orphan, fsm.ReportStopped)},
		})
		h.pass(700 * time.Millisecond)
		require.Empty(t, n.got(isAsk), "differences are usual for a moment")
		h.pass(time.Second)
		require.Len(t, n.got(isAsk), 1)
		stop := orderKey{fsm.OrderStop, orphan}
		require.Equal(t, 1, n.ordered()[stop])
		require.Zero(t, n.ordered()[orderKey{fsm.OrderStop, good}])
		h.pass(5 * time.Second)
		require.Equal(t, 1, n.ordered()[stop], "it has answered, so it is not ordered again")
		require.Equal(t, map[session.Pair]bool{good: true}, n.held)
		require.Len(t, n.got(isAsk), 1)
		require.True(t, h.leader.Leases()[0].SetHashEqual)
		require.Equal(t, uint64(1), h.leader.Counters().Strays)
	})
}

// R41: the state says Running and the node does not hold the pair. Nobody but the node may say that it has stopped: it is
// ordered to stop the pair, answers so, and the dispatcher is free to be placed again.
func TestReview_R41_WhatTheNodeDoesNotHoldIsOrderedToStop(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 2)
		n := h.join("n1")
		h.pass(time.Second)
		good, lost := h.place(1, "n1"), h.place(2, "n1")
		h.pass(time.Second)
		n.with(func() { delete(n.held, lost); delete(n.set, lost); n.deaf = true })
		h.pass(3 * time.Second)
		require.Len(t, n.got(isAsk), 1)
		require.Equal(t, fsm.Running, h.dispatcher(2).Phase, "the leader reports nothing on its behalf")
		require.Positive(t, n.ordered()[orderKey{fsm.OrderStop, lost}])
		require.Zero(t, n.ordered()[orderKey{fsm.OrderStop, good}])
		n.with(func() { n.deaf = false })
		h.pass(2 * time.Second)
		require.Equal(t, fsm.Absent, h.dispatcher(2).Phase)
		require.Equal(t, fsm.Running, h.dispatcher(1).Phase)
	})
}

// R41: between the question and the answer another dispatcher begins to run. The list does not have it, and it must not
// be stopped.
func TestReview_R41_WhatBeganToRunAfterTheQuestionIsLeftAlone(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 2)
		n := h.join("n1")
		h.pass(time.Second)
		h.place(1, "n1")
		h.pass(time.Second)
		n.with(func() { n.extraSet, n.dumb = 99, true })
		h.pass(2 * time.Second)
		require.Len(t, n.got(isAsk), 1)
		var old *session.List
		n.with(func() { old = n.list() })
		young := h.place(2, "n1")
		h.pass(time.Second)
		require.Equal(t, fsm.Running, h.dispatcher(2).Phase)
		n.send(n.p, session.FromNode{List: old})
		h.pass(time.Second)
		require.Zero(t, n.ordered()[orderKey{fsm.OrderStop, young}])
		require.Equal(t, fsm.Running, h.dispatcher(2).Phase)
		require.Len(t, n.got(isAsk), 1, "the difference counts anew after an answer")
		h.pass(time.Second)
		require.Len(t, n.got(isAsk), 2)
	})
}

// A stale "running" is answered by a stop for exactly that pair and an ack, without an entry.
func TestAStaleRunningGetsAStopForExactlyThatPair(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		h.feed("a", 1)
		n := h.join("n1")
		h.pass(time.Second)
		old := h.place(1, "n1")
		h.pass(time.Second)
		n.say(fsm.ReportStopped, old)
		h.pass(time.Second)
		cur := h.place(1, "n1")
		h.pass(time.Second)
		before, _ := of[*fsm.ReportPlacements](h.log)
		n.forget()
		n.with(func() { n.deaf = true })
		n.say(fsm.ReportRunning, old)
		h.pass(1200 * time.Millisecond)
		require.Equal(t, map[orderKey]int{{fsm.OrderStop, old}: 3}, n.ordered(), "repeated until the node answers")
		n.say(fsm.ReportStopped, old)
		h.pass(2 * time.Second)
		require.Equal(t, 3, n.ordered()[orderKey{fsm.OrderStop, old}])
		require.Len(t, n.got(isReportAck), 2)
		after, _ := of[*fsm.ReportPlacements](h.log)
		require.Len(t, after, len(before), "neither report needed an entry")
		require.Equal(t, cur.Epoch, h.dispatcher(1).Epoch)
		require.Equal(t, fsm.Running, h.dispatcher(1).Phase)
	})
}
