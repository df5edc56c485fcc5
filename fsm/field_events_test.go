package fsm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/scenario"
)

// eventful is a cluster whose changefeed is at work, trigger included, with words for events.
type eventful struct {
	*cluster
	trigger fsm.DispatcherID
}

// newEventful runs the trigger on n3 and so many spans of table public.a on n1 and n2 by turns, from position 10.
func newEventful(tb testing.TB, spans int) *eventful {
	tb.Helper()
	e := &eventful{cluster: newCluster(tb, spans)}
	e.trigger = e.feed().Trigger
	e.runs(e.trigger, "n3")
	for d := range fsm.DispatcherID(spans) {
		e.runs(d+1, fsm.NodeName(fmt.Sprintf("n%d", 1+d%2)))
	}
	return e
}

func (e *eventful) feed() fsm.Changefeed {
	feed, _ := e.s.Changefeed("shop")
	return feed
}

func (e *eventful) ddl(ts uint64) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: e.feed().ID, Run: e.feed().Run, At: fsm.Position{TS: ts, Stage: fsm.StageDDL}}
}

func (e *eventful) sync(ts uint64) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: e.feed().ID, Run: e.feed().Run, At: fsm.At(ts)}
}

// alter is a change of public.a that the trigger writes; truncating is the same without the trigger.
func alter() fsm.BarrierSpec {
	return fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}, Trigger: true, Statement: "alter"}
}

func truncating() fsm.BarrierSpec {
	return fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}, Statement: "truncate"}
}

// reports is one report of a node about one of its placements.
func (e *eventful) reports(n fsm.NodeName, p fsm.Pair, r fsm.BarrierReport) fsm.Reason {
	e.t.Helper()
	r.Pairs = []fsm.Pair{p}
	v := e.ok(&fsm.ReportBarrier{Node: n, Incarnation: e.inc(n), Reports: []fsm.BarrierReport{r}})
	require.Len(e.t, v.Reports, 1)
	return v.Reports[0]
}

// tells is a report by the owner about its current placement.
func (e *eventful) tells(d fsm.DispatcherID, r fsm.BarrierReport) fsm.Reason {
	e.t.Helper()
	row := e.row(d)
	owner, ok := e.s.NodeOf(row.Incarnation)
	require.True(e.t, ok, "dispatcher %d has no owner", d)
	return e.reports(owner.Name, fsm.Pair{Dispatcher: d, Epoch: row.Epoch}, r)
}

func (e *eventful) waits(d fsm.DispatcherID, key fsm.BarrierKey, spec fsm.BarrierSpec) fsm.Reason {
	e.t.Helper()
	r := fsm.BarrierReport{Key: key, What: fsm.SaidWaiting, Spec: spec}
	if d == e.trigger {
		r.Earlier = e.feed().Chain
		if r.Earlier == (fsm.Position{}) {
			r.Earlier = e.row(d).Position
		}
	}
	return e.tells(d, r)
}

func (e *eventful) passes(d fsm.DispatcherID, key fsm.BarrierKey) fsm.Reason {
	e.t.Helper()
	return e.tells(d, fsm.BarrierReport{Key: key, What: fsm.SaidPassed})
}

// writes is "written" by the holder of the permission.
func (e *eventful) writes(key fsm.BarrierKey) fsm.Reason {
	e.t.Helper()
	b, open := e.s.Barrier(key)
	require.True(e.t, open)
	require.Equal(e.t, fsm.BarrierInWriting, b.Status)
	return e.tells(b.Writer, fsm.BarrierReport{Key: key, What: fsm.SaidWritten, Permission: b.Permission})
}

// status is where the barrier stands, zero if it is not open.
func (e *eventful) status(key fsm.BarrierKey) fsm.BarrierStatus {
	b, _ := e.s.Barrier(key)
	return b.Status
}

// writeOrders counts the nodes that are told to write.
func (e *eventful) writeOrders(key fsm.BarrierKey) int {
	writers := 0
	for n := range e.s.Nodes() {
		for o := range e.s.BarrierOrders(n.Incarnation) {
			if o.Key == key && o.Action == fsm.ActionWrite {
				writers++
			}
		}
	}
	return writers
}

// passOrders lists who is told to pass.
func (e *eventful) passOrders(key fsm.BarrierKey) []fsm.DispatcherID {
	var ids []fsm.DispatcherID
	for n := range e.s.Nodes() {
		for o := range e.s.BarrierOrders(n.Incarnation) {
			if o.Key == key && o.Action == fsm.ActionPass {
				for _, p := range o.Pairs {
					ids = append(ids, p.Dispatcher)
				}
			}
		}
	}
	return ids
}

// everybodyPasses ends the barrier: all that are told to pass do.
func (e *eventful) everybodyPasses(key fsm.BarrierKey) {
	e.t.Helper()
	for _, d := range e.passOrders(key) {
		require.Equal(e.t, fsm.ReportCounted, e.passes(d, key))
	}
	require.Zero(e.t, e.status(key), "the barrier has ended")
	record, known := e.s.BarrierRecord(key)
	require.True(e.t, known)
	require.Equal(e.t, fsm.BarrierWritten, record.Result)
}

// advance proposes a watermark with minima of every node, as the leader does.
func (e *eventful) advance(to fsm.Position, minimum func(fsm.NodeName) fsm.Position) fsm.Verdict {
	e.t.Helper()
	m := &fsm.AdvanceCheckpoint{Changefeed: e.feed().ID, Run: e.feed().Run, To: to, Nodes: e.minima(minimum)}
	return e.do(m)
}

func (e *eventful) minima(minimum func(fsm.NodeName) fsm.Position) []fsm.NodeMinimum {
	var nodes []fsm.NodeMinimum
	for inc := range e.s.Crews(e.feed().ID) {
		n, _ := e.s.NodeOf(inc)
		_, hash := e.s.Crew(e.feed().ID, inc)
		nodes = append(nodes, fsm.NodeMinimum{Incarnation: inc, SetHash: hash, Minimum: minimum(n.Name)})
	}
	return nodes
}

func everywhere(at fsm.Position) func(fsm.NodeName) fsm.Position {
	return func(fsm.NodeName) fsm.Position { return at }
}

// B16: a heartbeat that was made before a dispatcher existed, or about another set, does not let the watermark pass it.
func TestField_B16_TheWatermarkDoesNotPassWhatWasJustCreated(t *testing.T) {
	e := newEventful(t, 2)
	require.True(t, e.advance(fsm.At(100), everywhere(fsm.At(120))).OK())
	old := e.minima(everywhere(fsm.At(200)))
	e.ok(&fsm.AddTables{Changefeed: "shop", Start: fsm.At(150), Tables: []fsm.TableSpec{{Schema: "public", Name: "b"}}})
	added := e.s.Meta().LastDispatcher
	late := &fsm.AdvanceCheckpoint{Changefeed: e.feed().ID, Run: e.feed().Run, To: fsm.At(200), Nodes: old}
	for range 2 {
		v := e.do(late)
		require.Equal(t, fsm.CheckpointTooFar, v.Reason, "it exists from the moment it is admitted")
		require.Equal(t, added, v.Facts.Dispatcher, "and is named")
		require.Equal(t, fsm.At(150), v.Facts.At)
		e.restart()
	}
	require.True(t, e.advance(fsm.At(150), everywhere(fsm.At(200))).OK())
	e.add(added, "n1")
	require.Equal(t, fsm.CheckpointTooFar, e.do(late).Reason, "starting")
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportRunning, added, 0))
	require.Equal(t, fsm.StaleCheckpoint, e.do(late).Reason, "the minimum of n1 is about a set without it")

	// A Move in flight: its origin is covered by its node until it has stopped, then its stored position counts.
	e.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: added, From: "n1", To: "n2"})
	require.True(t, e.advance(fsm.At(160), everywhere(fsm.At(160))).OK())
	before := e.minima(everywhere(fsm.At(300)))
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, added, 170))
	v := e.do(&fsm.AdvanceCheckpoint{Changefeed: e.feed().ID, Run: e.feed().Run, To: fsm.At(300), Nodes: before})
	require.Equal(t, fsm.StaleCheckpoint, v.Reason, "n1 does not have it any more")
	v = e.advance(fsm.At(300), everywhere(fsm.At(300)))
	require.Equal(t, fsm.CheckpointTooFar, v.Reason)
	require.Equal(t, fsm.At(170), v.Facts.At)
	require.True(t, e.advance(fsm.At(170), everywhere(fsm.At(300))).OK())
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportRunning, added, 0))

	// The heartbeats of two nodes swapped: the sets do not fit.
	swapped := e.minima(everywhere(fsm.At(400)))
	swapped[0].SetHash, swapped[1].SetHash = swapped[1].SetHash, swapped[0].SetHash
	v = e.do(&fsm.AdvanceCheckpoint{Changefeed: e.feed().ID, Run: e.feed().Run, To: fsm.At(400), Nodes: swapped})
	require.Equal(t, fsm.StaleCheckpoint, v.Reason)
	require.Equal(t, fsm.CheckpointTooFar, e.advance(fsm.At(400), func(n fsm.NodeName) fsm.Position {
		if n == "n2" {
			return fsm.At(399)
		}
		return fsm.At(400)
	}).Reason)
	require.Equal(t, fsm.At(170), e.feed().Watermark)
	require.Equal(t, fsm.StaleCheckpoint, e.advance(fsm.At(160), everywhere(fsm.At(400))).Reason, "it never goes back")

	// What ran is stored where it was placed, far below: its next placement starts at the watermark, not there.
	require.Equal(t, fsm.At(10), e.row(1).Position)
	e.expire("n1")
	e.add(1, "n2")
	require.Equal(t, fsm.At(170), e.orders("n2")[0].Work.Start)
}

// B17, the barrier: what its owner completed before it stopped is never below where the next owner starts, though the
// final report brings no position.
func TestField_B17_TheNextOwnerStartsBehindACompletedBarrier(t *testing.T) {
	e := newEventful(t, 1)
	key := e.ddl(150)
	require.Equal(t, fsm.ReportCounted, e.waits(1, key, alter()))
	require.Equal(t, fsm.ReportCounted, e.waits(e.trigger, key, alter()))
	require.Equal(t, fsm.ReportCounted, e.writes(key))
	e.everybodyPasses(key)
	e.move("n1", "n2")
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, 1, 0))
	require.Equal(t, key.At, e.orders("n2")[0].Work.Start)
}

// cells are eight parts of a table's keys; B28 counts which have reached an event.
const cells = 8

func cellSpan(from, to int) fsm.Span {
	var s fsm.Span
	if from > 0 {
		s.Start = fmt.Sprintf("%d", from)
	}
	if to < cells {
		s.End = fmt.Sprintf("%d", to)
	}
	return s
}

// B28: dispatchers that had reported are split and merged away. Only the word of a placement that was current when it was
// said counts, and the event is written when every part of the table has reached it, neither earlier nor never: a thousand
// random orders of splits, merges, losses and reports, old placements' reports among them, against a model that knows
// which parts of the table have reached the event.
func TestField_B28_OnlyCurrentOwnersCompleteTheCover(t *testing.T) {
	orders := uint64(1000)
	if testing.Short() {
		orders = 100
	}
	for seed := range orders {
		m := &cover{eventful: newEventful(t, 1), pick: scenario.Seeded(seed), seed: seed}
		m.key = m.ddl(100)
		m.spans = map[fsm.DispatcherID][2]int{1: {0, cells}}
		require.Equal(t, fsm.ReportCounted, m.waits(m.trigger, m.key, alter()))
		for range 40 {
			m.step()
			if m.done() {
				break
			}
		}
		m.finish()
	}
}

// cover is the model of B28.
type cover struct {
	*eventful
	pick    func(int) int
	seed    uint64
	key     fsm.BarrierKey
	spans   map[fsm.DispatcherID][2]int // living dispatchers and their cells
	reached [cells]bool
	over    []fsm.Pair // placements that have ended
}

func (m *cover) done() bool {
	for _, r := range m.reached {
		if !r {
			return false
		}
	}
	return true
}

// some is a living dispatcher of the table.
func (m *cover) some() fsm.DispatcherID {
	rows := m.spansOf("a")
	return rows[m.pick(len(rows))].ID
}

func (m *cover) step() {
	m.t.Helper()
	d := m.some()
	switch m.pick(6) {
	case 0:
		m.splits(d)
	case 1:
		m.merges()
	case 2:
		m.loses(d)
	case 3:
		m.lies()
	default:
		if m.row(d).Phase == fsm.Running {
			m.reportsTruly(d)
		}
	}
	m.check()
}

// check compares the barrier with the model: granted exactly when all of the table has reached the event.
func (m *cover) check() {
	m.t.Helper()
	want := fsm.BarrierCollecting
	if m.done() {
		want = fsm.BarrierInWriting
	}
	require.Equal(m.t, want, m.status(m.key), "again: seed %d", m.seed)
	for d, at := range m.spans {
		all := true
		for i := at[0]; i < at[1]; i++ {
			all = all && m.reached[i]
		}
		require.Equal(m.t, all, !m.row(d).Position.Less(m.key.Before()), "dispatcher %d; again: seed %d", d, m.seed)
	}
}

func (m *cover) reportsTruly(d fsm.DispatcherID) {
	m.t.Helper()
	got := m.waits(d, m.key, alter())
	at := m.spans[d]
	require.Contains(m.t, []fsm.Reason{fsm.ReportCounted, fsm.ReportInert}, got, "again: seed %d", m.seed)
	for i := at[0]; i < at[1]; i++ {
		m.reached[i] = true
	}
}

// lies is a report about a placement that is over, by the node that had it.
func (m *cover) lies() {
	m.t.Helper()
	if len(m.over) == 0 {
		return
	}
	p := m.over[m.pick(len(m.over))]
	n := fsm.NodeName(fmt.Sprintf("n%d", 1+m.pick(3)))
	m.unchanged(func() {
		got := m.reports(n, p, fsm.BarrierReport{Key: m.key, What: fsm.SaidWaiting, Spec: alter()})
		require.Equal(m.t, fsm.ReportStale, got, "again: seed %d", m.seed)
	})
}

// stops ends a placement, by the word of its node or by the node's loss.
func (m *cover) stops(d fsm.DispatcherID) {
	m.t.Helper()
	row := m.row(d)
	m.over = append(m.over, fsm.Pair{Dispatcher: d, Epoch: row.Epoch})
	require.Equal(m.t, fsm.ReportCounted, m.says(fsm.ReportStopped, d, 0))
}

func (m *cover) splits(d fsm.DispatcherID) {
	m.t.Helper()
	at := m.spans[d]
	if m.row(d).Phase != fsm.Running || at[1]-at[0] < 2 {
		return
	}
	cut := at[0] + 1 + m.pick(at[1]-at[0]-1)
	v := m.split(d, []fsm.Span{cellSpan(at[0], cut), cellSpan(cut, at[1])})
	require.True(m.t, v.OK(), v.Sentence())
	m.stops(d)
	made := m.made(v.Facts.Operator)
	delete(m.spans, d)
	m.spans[made[0]], m.spans[made[1]] = [2]int{at[0], cut}, [2]int{cut, at[1]}
	for _, child := range made {
		m.runs(child, fsm.NodeName(fmt.Sprintf("n%d", 1+m.pick(2))))
	}
}

// merges joins two neighbours. What only one of them had reached, the merged dispatcher has not: it starts at the lower
// position.
func (m *cover) merges() {
	m.t.Helper()
	rows := m.spansOf("a")
	if len(rows) < 2 {
		return
	}
	i := m.pick(len(rows) - 1)
	a, b := rows[i].ID, rows[i+1].ID
	v := m.merge(a, b)
	require.True(m.t, v.OK(), v.Sentence())
	for _, d := range []fsm.DispatcherID{a, b} {
		if m.row(d).Phase == fsm.Stopping {
			m.stops(d)
		}
	}
	merged := m.made(v.Facts.Operator)[0]
	at := [2]int{m.spans[a][0], m.spans[b][1]}
	all := true
	for i := at[0]; i < at[1]; i++ {
		all = all && m.reached[i]
	}
	for i := at[0]; i < at[1]; i++ {
		m.reached[i] = all
	}
	delete(m.spans, a)
	delete(m.spans, b)
	m.spans[merged] = at
	m.runs(merged, fsm.NodeName(fmt.Sprintf("n%d", 1+m.pick(2))))
}

// loses ends the placement of one dispatcher by itself and places it again.
func (m *cover) loses(d fsm.DispatcherID) {
	m.t.Helper()
	if m.row(d).Phase != fsm.Running {
		return
	}
	m.stops(d)
	m.check()
	m.runs(d, fsm.NodeName(fmt.Sprintf("n%d", 1+m.pick(2))))
}

// finish lets everybody report, and the event ends.
func (m *cover) finish() {
	m.t.Helper()
	for _, row := range m.spansOf("a") {
		if row.Position.Less(m.key.Before()) {
			m.reportsTruly(row.ID)
			m.check()
		}
	}
	require.Equal(m.t, fsm.ReportCounted, m.writes(m.key))
	for _, row := range m.spansOf("a") { // who has come since the event was reached reports it again, and is told to pass
		if row.Position.Less(m.key.At) {
			require.Contains(m.t, []fsm.Reason{fsm.ReportCounted, fsm.ReportInert}, m.waits(row.ID, m.key, alter()), "again: seed %d", m.seed)
		}
	}
	m.everybodyPasses(m.key)
}

// B32: "written" for an event that is not there, for one that is over, from somebody who was not chosen, and under another
// permission: each is answered with its reason and changes nothing.
func TestField_B32_OnlyTheHolderSaysWritten(t *testing.T) {
	e := newEventful(t, 2)
	first, second := e.ddl(20), e.ddl(30)
	written := func(key fsm.BarrierKey, permission uint64) fsm.BarrierReport {
		return fsm.BarrierReport{Key: key, What: fsm.SaidWritten, Permission: permission}
	}
	require.Equal(t, fsm.BarrierForget, e.tells(e.trigger, written(first, 1)), "an event that nobody has reported")
	for _, d := range []fsm.DispatcherID{1, 2, e.trigger} {
		require.Equal(t, fsm.ReportCounted, e.waits(d, first, alter()))
		require.Equal(t, fsm.StalePermission, e.tells(1, written(first, 1)), "1 is not chosen, whoever waits")
	}
	require.Equal(t, fsm.BarrierInWriting, e.status(first))
	e.unchanged(func() {
		require.Equal(t, fsm.StalePermission, e.tells(e.trigger, written(first, 2)), "a permission that was never given")
		require.Equal(t, fsm.StalePermission, e.tells(1, written(first, 1)), "chosen to pass")
		row := e.row(e.trigger)
		require.Equal(t, fsm.ReportStale, e.reports("n2", fsm.Pair{Dispatcher: row.ID, Epoch: row.Epoch}, written(first, 1)), "not its owner")
		require.Equal(t, fsm.ReportStale, e.reports("n3", fsm.Pair{Dispatcher: row.ID, Epoch: row.Epoch + 9}, written(first, 1)), "another epoch")
		require.Equal(t, fsm.BarrierUnwritten, e.passes(1, first), "nobody passes before it is written")
	})
	require.Equal(t, fsm.ReportCounted, e.writes(first))
	e.unchanged(func() {
		require.Equal(t, fsm.ReportInert, e.tells(e.trigger, written(first, 1)), "said twice")
	})
	e.everybodyPasses(first)
	require.Equal(t, fsm.ReportCounted, e.waits(1, second, alter()))
	e.unchanged(func() {
		require.Equal(t, fsm.ReportInert, e.tells(e.trigger, written(first, 1)), "over")
		require.Equal(t, fsm.StalePermission, e.tells(e.trigger, written(second, 1)), "the permission of another event")
		require.Equal(t, fsm.ReportInert, e.passes(1, first), "passed twice")
		require.Equal(t, fsm.BarrierForget, e.passes(1, e.ddl(35)), "an event that was never there")
	})
}

// B33: a table is created at 20 and a sync point stands at 21. It is not written without the new table, however early
// everybody else reports it; and effects are applied in the order of their events.
func TestField_B33_ASyncPointIncludesATableUnderCreation(t *testing.T) {
	e := newEventful(t, 1)
	e.ok(&fsm.PauseChangefeed{Name: "shop"})
	for _, d := range []fsm.DispatcherID{1, e.trigger} {
		e.says(fsm.ReportStopped, d, 0)
	}
	e.ok(&fsm.UpdateChangefeed{Name: "shop", SyncPointEvery: 7, HasSyncPoints: true})
	e.ok(&fsm.ResumeChangefeed{Name: "shop"})
	e.runs(1, "n1")
	e.runs(e.trigger, "n3")
	create := fsm.BarrierSpec{
		Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "b"}},
		Add: []fsm.TableSpec{{Schema: "public", Name: "b"}}, Statement: "create table b",
	}
	point := fsm.SyncPointSpec()
	early, born, late := e.sync(14), e.ddl(20), e.sync(21)
	require.Equal(t, fsm.ReportCounted, e.waits(1, early, point))
	require.Equal(t, fsm.ReportCounted, e.waits(e.trigger, early, point))
	require.Equal(t, fsm.ReportCounted, e.writes(early))
	e.everybodyPasses(early)

	require.Equal(t, fsm.ReportCounted, e.waits(1, late, point), "it does not read b, and has nothing to wait for before 21")
	require.Equal(t, fsm.EarlierEventOpen, e.tells(e.trigger, fsm.BarrierReport{
		Key: late, What: fsm.SaidWaiting, Spec: point, Earlier: fsm.Position{TS: 20, Stage: fsm.StageDDL},
	}), "an event in between that was never reported")
	require.Equal(t, fsm.ReportCounted, e.waits(e.trigger, born, create))
	require.Equal(t, fsm.BarrierInWriting, e.status(born), "its only participant is the trigger")
	require.Equal(t, fsm.EarlierEventOpen, e.waits(e.trigger, late, point))
	require.Equal(t, fsm.ReportCounted, e.writes(born))
	added := e.spansOf("b")
	require.Len(t, added, 1, "in the apply that learns of it")
	require.Equal(t, born.At, added[0].Position)
	require.Equal(t, fsm.ReportCounted, e.waits(e.trigger, late, point))
	require.Equal(t, fsm.BarrierCollecting, e.status(late), "b has not reached 21")
	for d := range e.s.BarrierMissing(mustOpen(t, e, late)) {
		require.Equal(t, added[0].ID, d.ID, "and is named")
	}
	e.runs(added[0].ID, "n2")
	require.Equal(t, fsm.BarrierCollecting, e.status(late))
	require.Equal(t, fsm.ReportCounted, e.waits(added[0].ID, late, point))
	require.Equal(t, fsm.ReportCounted, e.writes(late))
	e.everybodyPasses(late)
}

func mustOpen(tb testing.TB, e *eventful, key fsm.BarrierKey) fsm.Barrier {
	tb.Helper()
	b, open := e.s.Barrier(key)
	require.True(tb, open)
	return b
}

// B34: participants are merged and moved while the event is collected and after the writer has been chosen. Nobody passes
// without a word of "written", a writer cannot be merged away, and one that is removed is replaced by another.
func TestField_B34_NobodyPassesWhatNobodyWrote(t *testing.T) {
	e := newEventful(t, 4)
	key := e.ddl(20)
	require.Equal(t, fsm.ReportCounted, e.waits(1, key, truncating()))
	merged := e.merge(3, 4).Facts.Operator
	e.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 2, FromAny: true, To: "n3"})
	require.Equal(t, fsm.ReportInert, e.waits(1, key, truncating()), "said again")
	for _, d := range []fsm.DispatcherID{2, 3, 4} {
		require.Equal(t, fsm.ReportInert, e.waits(d, key, truncating()), "it is stopping")
		require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, d, 15))
		require.Equal(t, fsm.BarrierCollecting, e.status(key))
		require.Empty(t, e.passOrders(key))
	}
	require.Equal(t, fsm.BarrierRetry, e.waits(2, key, truncating()), "its destination does not run yet")
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportRunning, 2, 0))
	m := e.made(merged)[0]
	e.runs(m, "n1")
	require.Equal(t, fsm.ReportCounted, e.waits(m, key, truncating()))
	require.Equal(t, fsm.BarrierCollecting, e.status(key))
	require.Equal(t, fsm.ReportCounted, e.waits(2, key, truncating()))
	require.Equal(t, fsm.BarrierInWriting, e.status(key))
	require.Equal(t, fsm.DispatcherID(1), mustOpen(t, e, key).Writer, "the lowest that can")
	require.Equal(t, 1, e.writeOrders(key))

	// The writer is to be merged, split, moved: refused, with the barrier's name. Others may go.
	e.unchanged(func() {
		for _, v := range []fsm.Verdict{
			e.merge(1, 2), e.split(1, []fsm.Span{{End: "0"}, {Start: "0", End: "000001"}}),
			e.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: "n2"}),
		} {
			require.Equal(t, fsm.BarrierWriting, v.Reason)
			require.Equal(t, key.At, v.Facts.At)
		}
	})
	both := e.merge(2, m).Facts.Operator

	// It is removed: never refused for a barrier. When it has stopped without a word, nobody can write until one that
	// stands at the event is there; then that one gets a permission of its own.
	e.ok(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1})
	require.Equal(t, fsm.BarrierInWriting, e.status(key), "the permission lives until its holder has stopped")
	require.Empty(t, e.passOrders(key))
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, 1, 0))
	require.Equal(t, fsm.BarrierCollecting, e.status(key))
	for _, d := range []fsm.DispatcherID{2, m} {
		require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, d, 0))
	}
	last := e.made(both)[0]
	require.Equal(t, key.Before(), e.row(last).Position, "both had reached it")
	e.runs(last, "n2")
	require.Equal(t, fsm.BarrierCollecting, e.status(key), "it has not said that it stands there")
	require.Equal(t, fsm.ReportCounted, e.waits(last, key, truncating()))
	b := mustOpen(t, e, key)
	require.Equal(t, last, b.Writer)
	require.Equal(t, uint64(2), b.Permission)
	require.Equal(t, fsm.ReportCounted, e.writes(key))
	require.Zero(t, e.status(key), "written, and the writer is past it")
}

// B37: dispatchers report different batches of sync points, 10 15 20 and 10 15 20 25, with a schema change at 20, and one
// comes back and reports only the last. No sync point is skipped: each is written once, in order.
func TestField_B37_NoSyncPointIsSkipped(t *testing.T) {
	c := newCluster(t, 0)
	c.ok(&fsm.CreateChangefeed{
		Name: "points", Source: "x:src", Sink: "x:points", SinkFenced: true, Start: fsm.At(8), SyncPointEvery: 5,
		Tables: []fsm.TableSpec{{Schema: "public", Name: "a", SplitKeys: []string{"m"}}},
	})
	feed, _ := c.s.Changefeed("points")
	e := &eventful{cluster: c, trigger: feed.Trigger}
	a, b := feed.Trigger-2, feed.Trigger-1
	for _, d := range []fsm.DispatcherID{a, b, e.trigger} {
		e.runs(d, "n1")
	}
	key := func(ts uint64) fsm.BarrierKey {
		return fsm.BarrierKey{Changefeed: feed.ID, Run: feed.Run, At: fsm.At(ts)}
	}
	change := fsm.BarrierKey{Changefeed: feed.ID, Run: feed.Run, At: fsm.Position{TS: 20, Stage: fsm.StageDDL}}
	point := fsm.SyncPointSpec()
	wait := func(d fsm.DispatcherID, k fsm.BarrierKey, spec fsm.BarrierSpec, earlier fsm.Position) fsm.Reason {
		return e.tells(d, fsm.BarrierReport{Key: k, What: fsm.SaidWaiting, Spec: spec, Earlier: earlier})
	}
	require.Equal(t, fsm.Malformed, wait(a, key(12), point, fsm.Position{}), "no sync point stands there")
	require.Equal(t, fsm.ReportCounted, wait(b, key(10), point, fsm.Position{}))
	for _, ts := range []uint64{15, 20, 25} {
		require.Equal(t, fsm.EarlierEventOpen, wait(b, key(ts), point, fsm.Position{}), "the rest of the longer batch")
	}
	require.Equal(t, fsm.EarlierEventOpen, wait(e.trigger, key(25), point, fsm.At(8)), "only the last one")
	require.Equal(t, fsm.EarlierEventOpen, wait(e.trigger, key(15), point, fsm.At(8)), "10 is left out")

	writes := map[fsm.Position]int{}
	earlier := fsm.At(8)
	for _, k := range []fsm.BarrierKey{key(10), key(15), change, key(20), key(25)} {
		spec := point
		if k == change {
			spec = alter()
		}
		for _, d := range []fsm.DispatcherID{a, b} {
			require.Contains(t, []fsm.Reason{fsm.ReportCounted, fsm.ReportInert}, wait(d, k, spec, fsm.Position{}))
		}
		if k == change {
			require.Equal(t, fsm.EarlierEventOpen, wait(b, key(20), point, fsm.Position{}), "the schema change at the same ts comes first")
		}
		if k == key(20) { // a stops and comes back in the middle, and would rather go on at 25
			e.says(fsm.ReportStopped, a, 0)
			e.runs(a, "n2")
			require.Equal(t, fsm.EarlierEventOpen, wait(a, key(25), point, fsm.Position{}))
			require.Equal(t, fsm.ReportCounted, wait(a, k, spec, fsm.Position{}))
		}
		require.Equal(t, fsm.ReportCounted, wait(e.trigger, k, spec, earlier))
		require.Equal(t, 1, e.writeOrders(k))
		require.Equal(t, fsm.ReportCounted, e.tells(e.trigger, fsm.BarrierReport{Key: k, What: fsm.SaidWritten, Permission: 1}))
		writes[k.At]++
		e.everybodyPasses(k)
		require.Equal(t, fsm.BarrierPass, wait(a, k, spec, fsm.Position{}), "it is over, and never opens again")
		earlier = k.At
	}
	require.Len(t, writes, 5)
}

// B38: every server is lost between any two steps of an event. The watermark is below the event until it has been written,
// and it is written once.
func TestField_B38_TheWatermarkWaitsForTheWrite(t *testing.T) {
	key := func(e *eventful) fsm.BarrierKey { return e.ddl(100) }
	steps := []func(e *eventful){
		func(e *eventful) { require.Equal(e.t, fsm.ReportCounted, e.waits(1, key(e), alter())) },
		func(e *eventful) { require.Equal(e.t, fsm.ReportCounted, e.waits(2, key(e), alter())) },
		func(e *eventful) { require.Equal(e.t, fsm.ReportCounted, e.waits(e.trigger, key(e), alter())) },
		func(e *eventful) { require.Equal(e.t, fsm.ReportCounted, e.writes(key(e))) },
		func(e *eventful) { require.Equal(e.t, fsm.ReportCounted, e.passes(1, key(e))) },
		func(e *eventful) { require.Equal(e.t, fsm.ReportCounted, e.passes(2, key(e))) },
	}
	const writing = 3
	for crash := range len(steps) + 1 {
		t.Run(fmt.Sprintf("after step %d", crash), func(t *testing.T) {
			e := newEventful(t, 2)
			grants := 0
			for i, step := range steps {
				if i == crash {
					e.restart()
					e.term++
					e.ok(&fsm.BeginTerm{Server: "s2"})
				}
				if i == writing {
					require.Equal(t, 1, e.writeOrders(key(e)))
					require.Equal(t, uint64(1), mustOpen(t, e, key(e)).Permission)
					grants++
				}
				step(e)
				v := e.advance(fsm.At(100), everywhere(fsm.At(100)))
				if i < len(steps)-1 {
					require.Equal(t, fsm.CheckpointTooFar, v.Reason, "the event is open, whatever the nodes say")
					require.Equal(t, key(e).Before(), v.Facts.At)
					require.LessOrEqual(t, e.feed().Watermark.TS, uint64(100))
				} else {
					require.True(t, v.OK(), v.Sentence())
				}
			}
			require.Equal(t, 1, grants)
			require.Zero(t, e.status(key(e)))
			require.Equal(t, fsm.BarrierPass, e.waits(1, key(e), alter()), "past the watermark nothing is written again")
		})
	}
}

// B40: a participant waits in a barrier and is removed, or moved. Its stop counts although the barrier is open, and both
// the first and the next barrier end.
func TestField_B40_AParticipantLeavesWhileItWaits(t *testing.T) {
	e := newEventful(t, 3)
	key := e.ddl(20)
	require.Equal(t, fsm.ReportCounted, e.waits(1, key, alter()))
	require.Equal(t, fsm.ReportCounted, e.waits(2, key, alter()))
	remove := e.ok(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1}).Facts.Operator
	move := e.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 2, FromAny: true, To: "n3"}).Facts.Operator
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, 1, 0))
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, 2, 99), "which claims to be past an event that nobody has written")
	for _, op := range []fsm.OpID{remove, move} {
		row, _ := e.s.Operator(op)
		if op == remove {
			require.Equal(t, fsm.OpDone, row.Result)
		}
	}
	require.Equal(t, key.Before(), e.row(2).Position, "what it had said is a fact about its span")
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportRunning, 2, 0))
	require.Equal(t, fsm.ReportCounted, e.waits(e.trigger, key, alter()))
	require.Equal(t, fsm.BarrierCollecting, e.status(key), "dispatcher 3 is missing, nobody else")
	require.Equal(t, fsm.ReportCounted, e.waits(3, key, alter()))
	require.Equal(t, fsm.ReportCounted, e.writes(key))
	require.Equal(t, fsm.ReportCounted, e.waits(2, key, alter()), "it has come to the event again")
	e.everybodyPasses(key)

	next := e.ddl(30)
	for _, d := range []fsm.DispatcherID{2, 3, e.trigger} {
		require.Equal(t, fsm.ReportCounted, e.waits(d, next, alter()))
	}
	require.Equal(t, fsm.ReportCounted, e.writes(next))
	e.everybodyPasses(next)

	// Everybody leaves: an event that nobody writes and nobody is left for ends unwritten.
	last := e.ddl(40)
	require.Equal(t, fsm.ReportCounted, e.waits(2, last, truncating()))
	e.ok(&fsm.DropTables{Changefeed: "shop", Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}})
	require.Zero(t, e.status(last))
	record, known := e.s.BarrierRecord(last)
	require.True(t, known)
	require.Equal(t, fsm.BarrierVoid, record.Result)
	for _, d := range []fsm.DispatcherID{2, 3} {
		require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, d, 0))
	}

	// The whole changefeed is removed, its trigger last: what that still reports is written by nobody, and ends with it.
	e.ok(&fsm.AddTables{Changefeed: "shop", Tables: []fsm.TableSpec{{Schema: "public", Name: "b"}}})
	b := e.spansOf("b")[0].ID
	e.runs(b, "n1")
	feed := e.feed()
	e.ok(&fsm.RemoveChangefeed{Name: "shop"})
	never := e.ddl(50)
	require.Equal(t, fsm.ReportCounted, e.waits(e.trigger, never, fsm.BarrierSpec{
		Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "c"}},
		Add: []fsm.TableSpec{{Schema: "public", Name: "c"}}, Statement: "create table c",
	}))
	require.Equal(t, fsm.BarrierCollecting, e.status(never), "no permission while the changefeed goes")
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, b, 0))
	require.Zero(t, e.status(never))
	require.Equal(t, fsm.ReportCounted, e.says(fsm.ReportStopped, e.trigger, 0))
	_, there := e.s.ChangefeedByID(feed.ID)
	require.False(t, there)
}
