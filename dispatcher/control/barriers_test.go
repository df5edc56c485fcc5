package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// syncFeed makes changefeed a, with one table of so many spans and a sync point every ten ts.
func (h *harness) syncFeed(spans int) fsm.Changefeed {
	h.t.Helper()
	v := h.log.do(&fsm.CreateChangefeed{
		Name: "a", Source: "file:x", Sink: "sink:a", SinkFenced: true, Tables: []fsm.TableSpec{splitTable(spans)}, SyncPointEvery: 10,
	})
	require.Equal(h.t, fsm.Accepted, v.Reason, v.Facts.Detail)
	feed, _ := h.log.View().Changefeed("a")
	return feed
}

func syncPoint(feed fsm.Changefeed, ts uint64) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: feed.ID, Run: feed.Run, At: fsm.Position{TS: ts, Stage: fsm.StageSyncPoint}}
}

func word(key fsm.BarrierKey, what fsm.BarrierSaid, pairs ...fsm.Pair) fsm.BarrierReport {
	r := fsm.BarrierReport{Key: key, What: what, Pairs: pairs}
	if what == fsm.SaidWaiting {
		r.Spec = fsm.SyncPointSpec()
	}
	return r
}

// runAll places everything of a changefeed on a node, and returns the pairs with the trigger last.
func (h *harness) runAll(feed fsm.Changefeed, n *fakeNode) (pairs []fsm.Pair) {
	h.t.Helper()
	for table := range h.log.View().Tables(feed.ID) {
		for row := range h.log.View().DispatchersOfTable(table.ID) {
			pairs = append(pairs, h.place(row.ID, n.name))
		}
	}
	h.pass(time.Second)
	for _, p := range pairs {
		require.Equal(h.t, fsm.Running, h.dispatcher(p.Dispatcher).Phase)
	}
	return pairs
}

// A sync point from the first word to the end: words are counted in the log, once; the writer is told to write, the others
// to pass; what is repeated is answered without an entry.
func TestASyncPointGoesThrough(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n1, n2 := h.join("n1"), h.join("n2")
		h.pass(time.Second)
		feed := h.syncFeed(3)
		pairs := h.runAll(feed, n1)
		spans, trigger := pairs[:3], pairs[3]
		key := syncPoint(feed, 10)
		seq := n1.tell(word(key, fsm.SaidWaiting, spans...), word(key, fsm.SaidWaiting, trigger))
		h.pass(100 * time.Millisecond)
		counted := []fsm.Reason{fsm.ReportCounted, fsm.ReportCounted, fsm.ReportCounted, fsm.ReportCounted}
		require.Equal(t, counted, n1.answered(seq))
		entries, at := of[*fsm.ReportBarrier](h.log)
		require.Len(t, entries, 1)
		require.Equal(t, at[0], n1.got(isAnswer)[0].Barrier.Index)
		require.Equal(t, uint64(1), n1.got(isAnswer)[0].Barrier.Term)

		seq = n1.tell(word(key, fsm.SaidWaiting, spans...))
		h.pass(1900 * time.Millisecond)
		require.Equal(t, []fsm.Reason{fsm.ReportInert, fsm.ReportInert, fsm.ReportInert}, n1.answered(seq))
		entries, _ = of[*fsm.ReportBarrier](h.log)
		require.Len(t, entries, 1, "said again, answered from the view")
		write := n1.told()
		require.InDelta(t, 4, len(write), 1, "told at once, then every half second")
		for _, o := range write {
			require.Equal(t, fsm.ActionWrite, o.Action)
			require.Equal(t, []fsm.Pair{trigger}, o.Pairs)
		}
		require.Empty(t, n2.told())

		written := word(key, fsm.SaidWritten, trigger)
		written.Permission = write[0].Permission
		n1.forget()
		seq = n1.tell(written)
		h.pass(100 * time.Millisecond)
		require.Equal(t, counted[:1], n1.answered(seq))
		require.Len(t, n1.told(), 1)
		require.Equal(t, fsm.ActionPass, n1.told()[0].Action)
		require.ElementsMatch(t, spans, n1.told()[0].Pairs)

		n1.forget()
		n1.tell(word(key, fsm.SaidPassed, spans[0]))
		h.pass(100 * time.Millisecond)
		require.Empty(t, n1.told(), "those that are left have been told")
		seq = n1.tell(word(key, fsm.SaidPassed, spans...))
		h.pass(100 * time.Millisecond)
		require.Equal(t, []fsm.Reason{fsm.ReportInert, fsm.ReportCounted, fsm.ReportCounted}, n1.answered(seq))
		_, open := h.log.View().Barrier(key)
		require.False(t, open)
		n1.forget()
		seq = n1.tell(word(key, fsm.SaidWaiting, spans[1]))
		h.pass(2 * time.Second)
		require.Equal(t, []fsm.Reason{fsm.BarrierPass}, n1.answered(seq))
		require.Empty(t, n1.told(), "nothing is left to be done")
		require.Zero(t, h.leader.current().contact(n1.inc).connected().due())
		require.NoError(t, h.log.View().CheckInvariants())
	})
}

// R35: one entry, and one answer, for everything that a node runs of a changefeed; said again it needs none.
func TestReview_R35_OneWordForEverythingOfANode(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		h.pass(time.Second)
		feed := h.syncFeed(600)
		pairs := h.runAll(feed, n)
		key := syncPoint(feed, 10)
		_, hash := h.log.View().Crew(feed.ID, n.inc)
		all := word(key, fsm.SaidWaiting)
		all.All, all.SetHash, all.Except = true, hash, []fsm.DispatcherID{pairs[7].Dispatcher}
		wrong := all
		wrong.SetHash++
		seq := n.tell(wrong, all)
		h.pass(100 * time.Millisecond)
		require.Equal(t, []fsm.Reason{fsm.SetMismatch, fsm.ReportCounted}, n.answered(seq))
		_, behind, _ := h.log.View().BarrierProgress(key)
		require.Equal(t, 2, behind, "the exception and the trigger")
		seq = n.tell(all)
		h.pass(100 * time.Millisecond)
		require.Equal(t, []fsm.Reason{fsm.ReportInert}, n.answered(seq))
		entries, _ := of[*fsm.ReportBarrier](h.log)
		require.Len(t, entries, 1)
		require.Len(t, entries[0].Reports, 1, "the wrong one did not need the log")
	})
}

// Words of many placements by name are cut into commands that fit into an entry each, and answered in their order.
func TestWordsThatDoNotFitIntoOneEntryAreCut(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		h.pass(time.Second)
		const spans = 4_000
		feed := h.syncFeed(spans)
		var all []fsm.Proposal
		for id := range fsm.DispatcherID(spans) {
			all = append(all, fsm.Proposal{Term: 1, Command: &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id + 1, To: "n1"}})
		}
		h.log.mu.Lock()
		h.log.apply(all)
		h.log.mu.Unlock()
		h.pass(3 * time.Second)
		var pairs []fsm.Pair
		for id := range fsm.DispatcherID(spans) {
			pairs = append(pairs, fsm.Pair{Dispatcher: id + 1, Epoch: h.dispatcher(id + 1).Epoch})
		}
		pairs[17].Epoch--
		seq := n.tell(word(syncPoint(feed, 10), fsm.SaidWaiting, pairs...))
		h.pass(time.Second)
		answers := n.answered(seq)
		require.Len(t, answers, spans)
		for i, a := range answers {
			require.Equal(t, map[bool]fsm.Reason{true: fsm.ReportStale, false: fsm.ReportCounted}[i == 17], a)
		}
		entries, _ := of[*fsm.ReportBarrier](h.log)
		require.Greater(t, len(entries), 1)
		for _, c := range entries {
			data, err := logcodec.AppendEntry(nil, []fsm.Proposal{{Term: 1, Command: c}})
			require.NoError(t, err)
			require.LessOrEqual(t, len(data), 64<<10)
		}
		require.Equal(t, 1, n.ordered()[orderKey{fsm.OrderStop, pairs[17]}], "what is not current must stop")
	})
}

// A word whose outcome is unknown is not answered; the node says it again.
func TestAWordWithAnUnknownOutcomeIsNotAnswered(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		n := h.join("n1")
		h.pass(time.Second)
		feed := h.syncFeed(1)
		pairs := h.runAll(feed, n)
		h.log.hook(hooks{lose: func(p fsm.Proposal) error {
			if _, is := p.Command.(*fsm.ReportBarrier); is {
				return errUnknown
			}
			return nil
		}})
		seq := n.tell(word(syncPoint(feed, 10), fsm.SaidWaiting, pairs[0]))
		h.pass(time.Second)
		require.Nil(t, n.answered(seq))
		h.log.hook(noScheduler())
		seq = n.tell(word(syncPoint(feed, 10), fsm.SaidWaiting, pairs[0]))
		h.pass(100 * time.Millisecond)
		require.Equal(t, []fsm.Reason{fsm.ReportInert}, n.answered(seq))
	})
}

// R38 for words about events: a pair above what this server has issued proves the server stale.
func TestReview_R38_AWordOfAnUnissuedEpochClosesTheSession(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		n := h.join("n1")
		h.pass(time.Second)
		feed := h.syncFeed(1)
		p := fsm.Pair{Dispatcher: 1, Epoch: h.log.View().Meta().LastEpoch + 100}
		n.tell(word(syncPoint(feed, 10), fsm.SaidWaiting, p))
		h.pass(100 * time.Millisecond)
		require.Equal(t, CloseStaleServer, n.closed())
	})
}

// Those that an event waits for are asked again, the others are not, and nobody once it has ended. R44: past its deadline
// it shows as stuck, with those that it waits for.
func TestReview_R44_AnEventThatWaitsAsksAndShows(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.log.hook(noScheduler())
		policy := fsm.DefaultPolicy()
		policy.BarrierDeadlineMS = 20_000
		h.log.do(&fsm.SetPolicy{Policy: policy})
		n1, n2 := h.join("n1"), h.join("n2")
		h.pass(time.Second)
		feed := h.syncFeed(3)
		a, b := h.place(1, "n1"), h.place(2, "n2")
		h.pass(time.Second)
		key := syncPoint(feed, 10)
		n1.tell(word(key, fsm.SaidWaiting, a))
		h.pass(1500 * time.Millisecond)
		require.Empty(t, n2.got(isQuestion))
		h.pass(15 * time.Second)
		require.InDelta(t, 3, len(n2.got(isQuestion)), 1, "after two seconds, then every five")
		require.Equal(t, key, n2.got(isQuestion)[0].AskBarriers.Key)
		require.Empty(t, n1.got(isQuestion), "its word has been counted")
		h.pass(10 * time.Second)
		o, leads := h.leader.Overview()
		require.True(t, leads)
		require.Len(t, o.Barriers, 1)
		shown := o.Barriers[0]
		require.NotZero(t, shown.Barrier.StuckAt)
		require.Equal(t, []fsm.DispatcherID{b.Dispatcher, 3, 4}, shown.Missing, "2 does not answer, 3 and the trigger run nowhere")
		require.Equal(t, []int{4, 3, 4}, []int{shown.Members, shown.Behind, shown.Unpassed})
		require.Greater(t, shown.OpenMS, uint64(25_000))

		require.Equal(t, fsm.Accepted, h.log.do(&fsm.DecideBarrier{Key: key, Decision: fsm.DecideSkip}).Reason)
		h.pass(time.Second)
		n1.tell(word(key, fsm.SaidPassed, a))
		n2.tell(word(key, fsm.SaidPassed, b))
		h.log.do(&fsm.RemoveChangefeed{Name: "a"})
		h.pass(time.Second)
		n1.forget()
		n2.forget()
		h.pass(10 * time.Second)
		require.Empty(t, n1.got(isQuestion))
		require.Empty(t, n2.got(isQuestion))
	})
}

// Whatever a word says of whatever state: what is answered before the log is what Apply would have answered, and Apply
// would have changed nothing. A failing case prints its seed and how to run it again.
func TestFindBarrierAgreesWithApply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newBarrierWorld(t)
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			w.step()
		}
	})
}

// barrierWorld is a changefeed of three spans on two nodes.
type barrierWorld struct {
	t    *rapid.T
	log  *fakeLog
	incs []fsm.Incarnation
	feed fsm.Changefeed
}

func newBarrierWorld(t *rapid.T) *barrierWorld {
	w := &barrierWorld{t: t, log: newFakeLog(&clock.Manual{})}
	w.log.do(&fsm.Tick{})
	for _, name := range []fsm.NodeName{"n1", "n2"} {
		v := w.log.do(&fsm.RegisterNode{Node: name, LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1})
		w.incs = append(w.incs, v.Facts.Incarnation)
	}
	v := w.log.do(&fsm.CreateChangefeed{
		Name: "a", Source: "file:x", Sink: "sink:a", SinkFenced: true, Tables: []fsm.TableSpec{splitTable(3)}, SyncPointEvery: 10,
	})
	require.Equal(t, fsm.Accepted, v.Reason)
	w.feed, _ = w.log.View().Changefeed("a")
	return w
}

func (w *barrierWorld) step() {
	t := w.t
	id := fsm.DispatcherID(rapid.IntRange(1, 4).Draw(t, "dispatcher"))
	row, _ := w.log.View().Dispatcher(id)
	switch rapid.SampledFrom([]string{"place", "report", "report", "move", "remove", "advance", "word", "word", "word", "word", "all"}).Draw(t, "step") {
	case "place":
		w.log.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id, To: rapid.SampledFrom([]fsm.NodeName{"n1", "n2"}).Draw(t, "to")})
	case "report":
		what := rapid.SampledFrom([]fsm.ReportKind{fsm.ReportRunning, fsm.ReportRunning, fsm.ReportStopped}).Draw(t, "what")
		n, _ := w.log.View().NodeOf(row.Incarnation)
		w.log.do(&fsm.ReportPlacements{Node: n.Name, Incarnation: n.Incarnation, Reports: []fsm.PlacementReport{
			report(fsm.Pair{Dispatcher: id, Epoch: row.Epoch}, what),
		}})
	case "move":
		w.log.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: id, FromAny: true, To: "n1"})
	case "remove":
		if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
			w.log.do(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: id})
		}
	case "advance":
		bound, _ := w.log.View().CheckpointBound(w.feed)
		w.log.do(&fsm.AdvanceCheckpoint{Changefeed: w.feed.ID, Run: 1, To: bound})
	case "word":
		rep := w.word()
		p := fsm.Pair{Dispatcher: id, Epoch: row.Epoch}
		if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
			p.Epoch--
		}
		rep.Pairs = []fsm.Pair{p}
		inc := row.Incarnation
		if inc == 0 {
			inc = w.incs[0]
		}
		got, decided := findBarrier(w.log.View(), inc, &rep, p)
		w.compare(inc, rep, got, decided)
	case "all":
		inc := rapid.SampledFrom(w.incs).Draw(t, "inc")
		rep := w.word()
		rep.All = true
		if _, rep.SetHash = w.log.View().Crew(w.feed.ID, inc); rapid.IntRange(0, 9).Draw(t, "other set") == 0 {
			rep.SetHash++
		}
		got, decided := findBarrierAll(w.log.View(), inc, &rep)
		w.compare(inc, rep, got, decided)
	}
}

func (w *barrierWorld) word() fsm.BarrierReport {
	t := w.t
	key := syncPoint(w.feed, rapid.SampledFrom([]uint64{10, 20, 25}).Draw(t, "ts"))
	if rapid.Bool().Draw(t, "ddl") {
		key.At.Stage = fsm.StageDDL
	}
	if rapid.IntRange(0, 19).Draw(t, "other run") == 0 {
		key.Run++
	}
	if rapid.IntRange(0, 19).Draw(t, "no such stage") == 0 {
		key.At.Stage = fsm.StageRows
	}
	rep := word(key, rapid.SampledFrom([]fsm.BarrierSaid{
		fsm.SaidWaiting, fsm.SaidWaiting, fsm.SaidWaiting, fsm.SaidWritten, fsm.SaidPassed, fsm.SaidNotBegun, fsm.SaidUnknown,
	}).Draw(t, "said"))
	if rep.What == fsm.SaidWaiting && rapid.IntRange(0, 5).Draw(t, "other spec") == 0 {
		rep.Spec.Statement = "alter"
	}
	if key.At.Stage == fsm.StageDDL && rapid.Bool().Draw(t, "one table") {
		rep.Spec = fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "t"}}}
	}
	rep.Permission = rapid.Uint64Range(0, 2).Draw(t, "permission")
	return rep
}

// compare applies the report and holds what was found against it.
func (w *barrierWorld) compare(inc fsm.Incarnation, rep fsm.BarrierReport, got fsm.Reason, decided bool) {
	before := w.log.View()
	n, _ := before.NodeOf(inc)
	v := w.log.do(&fsm.ReportBarrier{Node: n.Name, Incarnation: inc, Reports: []fsm.BarrierReport{rep}})
	require.Equal(w.t, fsm.Accepted, v.Reason)
	if !decided {
		return
	}
	require.Equal(w.t, v.Reports[0], got, "%v of %v", rep.What, rep.Key)
	after := w.log.View()
	require.Equal(w.t, everything(before), everything(after), "an answer without an entry must not have needed one")
}

func everything(v *fsm.View) (out []any) {
	for f := range v.Changefeeds() {
		out = append(out, f)
		for b := range v.Barriers(f.ID) {
			out = append(out, b)
		}
	}
	for row := range v.Dispatchers() {
		out = append(out, row)
	}
	for b := range v.BarrierRecords() {
		out = append(out, b)
	}
	return out
}
