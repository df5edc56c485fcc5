package control

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

func (h *harness) watermark(name string) fsm.Position {
	feed, _ := h.log.View().Changefeed(name)
	return feed.Watermark
}

// lag is how far the watermark lies behind the source.
func (h *harness) lag(name string) time.Duration {
	return time.Duration(h.position().TS-h.watermark(name).TS) * time.Millisecond
}

func (n *fakeNode) flow() { n.with(func() { n.flows = true }) }

// Watermarks follow what nodes say, once a second, many changefeeds in few entries.
func TestWatermarksFollowTheNodes(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n1, n2 := h.join("n1"), h.join("n2")
		n1.flow()
		n2.flow()
		const feeds = 300
		for i := range feeds {
			h.feed(fmt.Sprintf("f%d", i), 2)
		}
		h.pass(5 * time.Second)
		first := h.log.View().Meta().Index // entries are numbered from 1
		h.pass(10 * time.Second)
		for i := range feeds {
			require.Less(t, h.lag(fmt.Sprintf("f%d", i)), 1500*time.Millisecond)
		}
		h.log.mu.Lock()
		entries, commands := 0, 0
		for _, e := range h.log.entries[first:] {
			if _, is := e.Proposals[0].Command.(*fsm.AdvanceCheckpoint); is {
				entries++
				commands += len(e.Proposals)
			}
		}
		h.log.mu.Unlock()
		require.InDelta(t, 20, entries, 2, "two a second, since one holds 256")
		require.InDelta(t, 10*feeds, commands, feeds)
		require.Zero(t, h.leader.Counters().CheckpointsRefused)
	})
}

// What holds a watermark is known, and since when: whoever runs nowhere, has not been heard, names another set, is slow,
// or an event.
func TestWhatHoldsAWatermarkIsShown(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		n.flow()
		h.pass(time.Second)
		h.feed("a", 2)
		feed, _ := h.log.View().Changefeed("a")
		holder := func() WatermarkInfo {
			w, ok := h.leader.Watermark(feed.ID)
			require.True(t, ok)
			return w
		}
		h.pass(5 * time.Second)
		require.Equal(t, HolderDispatcher, holder().Holder.Kind)
		require.Equal(t, fsm.Absent, holder().Holder.Phase)
		require.InDelta(t, 4500*time.Millisecond, holder().For, float64(time.Second))
		require.Zero(t, h.watermark("a"))

		pairs := h.runAll(feed, n)
		h.pass(3 * time.Second)
		require.Equal(t, HolderNode, holder().Holder.Kind)
		require.Equal(t, n.name, holder().Holder.Node)
		require.Less(t, h.lag("a"), 1500*time.Millisecond)

		n.with(func() { n.extraSet = 1 }) // the set hash of the whole is no matter here
		h.pass(2 * time.Second)
		require.Less(t, h.lag("a"), 1500*time.Millisecond)
		n.with(func() { n.extraSet = 0 })

		key := fsm.BarrierKey{Changefeed: feed.ID, Run: feed.Run, At: fsm.Position{TS: h.position().TS + 100, Stage: fsm.StageDDL}}
		n.with(func() { n.stands = &key })
		h.pass(2 * time.Second)
		rep := word(key, fsm.SaidWaiting, pairs[0])
		rep.Spec = fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "t"}}}
		seq := n.tell(rep)
		h.pass(3 * time.Second)
		require.Equal(t, []fsm.Reason{fsm.ReportCounted}, n.answered(seq))
		require.Equal(t, HolderBarrier, holder().Holder.Kind)
		require.Equal(t, key, holder().Holder.Barrier)
		require.Equal(t, key.Before(), h.watermark("a"))
		o, _ := h.leader.Overview()
		require.Equal(t, []WatermarkInfo{holder()}, o.Watermarks)
	})
}

// R17: everybody stands at an event that nobody has been able to report. The watermark must not pass it.
func TestReview_R17_AnEventThatNobodyHasReportedHoldsTheWatermark(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		n.flow()
		h.pass(time.Second)
		feed := h.syncFeed(3)
		h.runAll(feed, n)
		key := syncPoint(feed, (h.position().TS/10+100)*10)
		n.with(func() { n.stands = &key })
		h.pass(10 * time.Second)
		require.Equal(t, key.Before(), h.watermark("a"))
		// The node dies; what it ran goes on before the event.
		row := n.row()
		h.log.do(&fsm.ExpireNode{Node: "n1", Incarnation: n.inc, ExpectTick: row.LastTick})
		h.pass(2 * time.Second)
		for id := range fsm.DispatcherID(3) {
			p := h.place(id+1, h.join("n2").name)
			require.True(t, h.dispatcher(p.Dispatcher).Position.Less(key.At))
			break
		}
		require.Equal(t, key.Before(), h.watermark("a"))
	})
}

// A node whose word is about another set than the state's holds the watermark, until both agree.
func TestAWordAboutAnotherSetRaisesNothing(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		n.flow()
		h.pass(time.Second)
		feed := h.syncFeed(2)
		pairs := h.runAll(feed, n)
		h.pass(3 * time.Second)
		n.with(func() { n.dumb = true; delete(n.set, pairs[0]) })
		h.pass(time.Second)
		before := h.watermark("a")
		h.pass(5 * time.Second)
		require.Equal(t, before, h.watermark("a"))
		w, _ := h.leader.Watermark(feed.ID)
		require.Equal(t, HolderSet, w.Holder.Kind)
		require.Zero(t, h.leader.Counters().CheckpointsRefused, "what Apply would refuse is not proposed")
		n.with(func() { n.set[pairs[0]] = true })
		h.pass(2 * time.Second)
		require.Less(t, h.lag("a"), 1500*time.Millisecond)
	})
}

// R30: dispatchers move all the time, so that hardly any heartbeat is about the set that the state has. The watermark
// advances all the same, and never beyond what anybody has written, wherever it runs.
func TestReview_R30_WatermarksAdvanceDuringADrain(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		seed := rand.Uint64()
		t.Logf("seed %d; run again with a fixed seed in place of rand.Uint64", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		const spans = 600
		nodes := []*fakeNode{h.join("n1"), h.join("n2"), h.join("n3")}
		h.log.hook(hooks{
			delay: func(p fsm.Proposal) time.Duration { // as a log on disks, and stops that take their time
				mu.Lock()
				defer mu.Unlock()
				if _, is := p.Command.(*fsm.ReportPlacements); is {
					return time.Duration(50+rng.IntN(100)) * time.Millisecond
				}
				return time.Duration(1+rng.IntN(4)) * time.Millisecond
			},
			lose: func(p fsm.Proposal) error {
				if _, is := p.Command.(*fsm.AdvanceCheckpoint); is {
					checkWritten(t, h, nodes)
				}
				return nil
			},
		})
		for _, n := range nodes {
			n.flow()
		}
		h.feed("a", spans)
		h.pass(5 * time.Second)
		policy := fsm.DefaultPolicy()
		policy.DrainAtOnce = 10
		h.log.do(&fsm.SetPolicy{Policy: policy})
		begun := h.leader.Counters()
		for _, name := range []fsm.NodeName{"n1", "n2", "n1", "n2"} { // back and forth
			h.log.do(&fsm.StartDrain{Node: name})
			worst := time.Duration(0)
			busy := 0
			for range 40 {
				h.pass(50 * time.Millisecond)
				worst = max(worst, h.lag("a"))
				if h.log.View().OperatorCount() > 0 {
					busy++
				}
			}
			require.Less(t, worst, 4*time.Second)
			require.Greater(t, busy, 15, "moves were under way")
			h.log.do(&fsm.ClearDrain{Node: name})
		}
		n := h.leader.Counters()
		require.GreaterOrEqual(t, n.Checkpoints-begun.Checkpoints, uint64(6), "in eight seconds; %d were overtaken", n.CheckpointsRefused)
		require.NoError(t, h.log.View().CheckInvariants())
	}, func(c *Config) { c.Limits.BalanceMoves = 0 })
}

// checkWritten holds the watermark against what has really been written, everywhere.
func checkWritten(t *testing.T, h *harness, nodes []*fakeNode) {
	t.Helper()
	view := h.log.View()
	feed, _ := view.Changefeed("a")
	for row := range view.Dispatchers() {
		written := row.Position
		for _, n := range nodes {
			p := session.Pair{Dispatcher: row.ID, Epoch: row.Epoch}
			n.with(func() {
				if row.Incarnation == n.inc && (n.held[p] || n.ending[p] || n.set[p]) {
					written = n.checkpoint(p)
				}
			})
		}
		if written.Less(feed.Watermark) {
			t.Errorf("dispatcher %d has written up to %v, and the watermark is %v", row.ID, written, feed.Watermark)
		}
	}
}

// A minimum for the set of a moment ago becomes one for the set of now: never above where anything that has come since was
// started, whatever is still under way.
func TestMinimaAreCarriedOverToTheSetOfNow(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		h.pass(time.Second)
		feed := h.syncFeed(4)
		a := h.place(1, "n1")
		h.pass(time.Second)
		s := newSets()
		v0 := h.log.View()
		_, hash := v0.Crew(feed.ID, n.inc)
		crew := session.Crew{Changefeed: feed.ID, SetHash: hash, Minimum: fsm.At(100)}
		_, known := s.now(crew)
		require.False(t, known, "nothing is known of the set")
		s.mark(v0, feed.ID, n.inc)
		least, known := s.now(crew)
		require.True(t, known)
		require.Equal(t, fsm.At(100), least)

		// A second one is about to come: from the moment at which its report is proposed it counts.
		n.with(func() { n.deaf = true })
		b := h.place(2, "n1")
		rep := []fsm.PlacementReport{report(b, fsm.ReportRunning)}
		s.proposing(h.log.View(), rep)
		least, _ = s.now(crew)
		require.Equal(t, h.dispatcher(2).Position, least)
		v := h.log.do(&fsm.ReportPlacements{Node: "n1", Incarnation: n.inc, Reports: rep})
		s.proposed(v0, h.log.View(), n.inc, rep, v.Index)
		least, _ = s.now(crew)
		require.Equal(t, h.dispatcher(2).Position, least, "it has come after the set that the word is about")

		_, crew.SetHash = h.log.View().Crew(feed.ID, n.inc)
		least, known = s.now(crew)
		require.True(t, known)
		require.Equal(t, fsm.At(100), least, "this word is about both")

		// What has gone lowers nothing.
		h.log.do(&fsm.ReportPlacements{Node: "n1", Incarnation: n.inc, Reports: []fsm.PlacementReport{report(a, fsm.ReportStopped)}})
		s.mark(h.log.View(), feed.ID, n.inc)
		least, _ = s.now(crew)
		require.Equal(t, fsm.At(100), least)
	})
}

// An unknown outcome keeps what may have come into the set from being forgotten, until it is known.
func TestWhatMayHaveComeIntoASetCounts(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		n.with(func() { n.deaf = true })
		h.pass(time.Second)
		feed := h.syncFeed(1)
		s := newSets()
		a := h.place(1, "n1")
		rep := []fsm.PlacementReport{report(a, fsm.ReportRunning)}
		s.proposing(h.log.View(), rep)
		h.log.do(&fsm.ReportPlacements{Node: "n1", Incarnation: n.inc, Reports: rep})
		after := h.log.View()
		s.mark(after, feed.ID, n.inc)
		_, hash := after.Crew(feed.ID, n.inc)
		crew := session.Crew{Changefeed: feed.ID, SetHash: hash, Minimum: fsm.At(50)}
		least, _ := s.now(crew)
		require.Equal(t, h.dispatcher(1).Position, least)
		s.seen(&rep[0], after.Meta().Index)
		least, _ = s.now(crew)
		require.Equal(t, fsm.At(50), least)
	})
}

// What is remembered has a bound, and forgetting raises nothing: a state from before what was forgotten is no mark.
func TestWhatIsRememberedOfSetsHasABound(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		h.pass(time.Second)
		feed := h.syncFeed(1)
		h.place(1, "n1")
		h.pass(time.Second)
		s := newSets()
		old := h.log.View()
		h.pass(time.Second)
		rep := []fsm.PlacementReport{report(session.Pair{Dispatcher: 1}, fsm.ReportRunning)}
		for i := range 3 * additionsKept {
			view := h.log.View()
			s.proposing(view, rep)
			rep[0].Epoch = h.dispatcher(1).Epoch
			s.proposed(view, view, n.inc, rep, view.Meta().Index)
			if i%1_000 == 0 {
				h.pass(200 * time.Millisecond)
			}
		}
		require.LessOrEqual(t, len(s.added), additionsKept)
		require.LessOrEqual(t, len(s.marks[feed.ID]), marksKept)
		clear(s.marks)
		s.mark(old, feed.ID, n.inc)
		require.Empty(t, s.marks[feed.ID])
	})
}
