package dispatcher

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// eventWorld is a cluster that replicates an upstream with schema changes and sync points.
type eventWorld struct {
	t       *testing.T
	rng     *rand.Rand
	c       *smallCluster
	up      *upstream
	down    *downstream
	members map[fsm.NodeName]*member
	every   uint64
}

// seeded returns a seed that WEIR_SEED may set, and logs how to run the test again.
func seeded(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("WEIR_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d; rerun: WEIR_SEED=%d go test ./dispatcher -run '^%s$'", seed, seed, t.Name())
	return seed
}

func newEventWorld(t *testing.T, rng *rand.Rand, transactions int, every uint64) *eventWorld {
	t.Helper()
	up := newUpstream(rng, "p", "q")
	for range transactions {
		up.write()
		if rng.IntN(12) == 0 {
			up.change()
		}
	}
	up.end()
	up.slow = 20 * time.Millisecond
	x := &eventWorld{
		t: t, rng: rng, c: newSmallCluster(t), up: up, down: newDownstream(up, rand.New(rand.NewPCG(rng.Uint64(), 1)), "p", "q"), every: every,
		members: map[fsm.NodeName]*member{},
	}
	keys := []string{"h", "q"}
	if rng.IntN(2) == 0 { // enough for reports about all
		for keys = nil; len(keys) < 25; {
			keys = append(keys, string(rune('b'+len(keys))))
		}
	}
	v := x.c.do(&fsm.CreateChangefeed{
		Name: "feed", Source: "fake:src", Sink: "fake:sink", SinkFenced: true, SyncPointEvery: every,
		Tables: []fsm.TableSpec{{Schema: "public", Name: "p", SplitKeys: keys}, {Schema: "public", Name: "q"}},
	})
	require.Equal(t, fsm.Accepted, v.Reason)
	for _, name := range []fsm.NodeName{"n1", "n2", "n3"} {
		x.members[name] = x.c.join(name, nil, func(cfg *Config) {
			cfg.Sources = func(string) (Source, error) { return up, nil }
			cfg.Sinks = func(string) (Sink, error) { return x.down, nil }
			cfg.Limits.Retries = 20
			cfg.Limits.BackoffMin, cfg.Limits.BackoffMax = 10*time.Millisecond, 50*time.Millisecond
		})
	}
	return x
}

// done says whether everything is downstream, by the watermark too, every event written and passed, and every placement
// where it should be.
func (x *eventWorld) done() bool {
	view := x.c.View()
	for feed := range view.Changefeeds() {
		for range view.Barriers(feed.ID) {
			return false
		}
		if feed.Watermark != rowsAt(x.up.ts) {
			return false
		}
	}
	if !x.c.allRun() {
		return false
	}
	idle := 0
	for _, m := range x.members {
		for _, s := range m.node.Status().Dispatchers {
			if s.Phase != PhaseRunning || !s.Idle {
				return false
			}
			idle++
		}
	}
	return idle == len(x.c.owners())
}

// settle waits for the end once faults have stopped. Whatever nobody can know is decided as an operator would.
func (x *eventWorld) settle() {
	x.t.Helper()
	x.heal()
	for range 600 {
		if x.done() {
			return
		}
		x.decide()
		pass(200 * time.Millisecond)
	}
	view := x.c.View()
	for feed := range view.Changefeeds() {
		x.t.Logf("changefeed: %+v", feed)
		for b := range view.Barriers(feed.ID) {
			x.t.Logf("open: %v %v %q, permission %d of %d", b.Key.At, b.Status, b.Spec.Statement, b.Permission, b.Writer)
			for row := range view.BarrierMissing(b) {
				x.t.Logf("missing: %+v", row)
			}
		}
	}
	for name, m := range x.members {
		s := m.node.Status()
		x.t.Logf("%s: %v %v", name, s.Lease.State, s.Session)
		for _, d := range s.Dispatchers {
			x.t.Logf("%s: %+v", name, d)
		}
	}
	require.FailNow(x.t, "the events did not end", "owners %v", x.c.owners())
}

func (x *eventWorld) heal() {
	for _, m := range x.members {
		m.cable.set(false, false)
		m.cable.lose(0)
	}
	x.down.fail(false)
}

func (x *eventWorld) decide() {
	view := x.c.View()
	for feed := range view.Changefeeds() {
		if feed.Status != fsm.ChangefeedRunning {
			x.c.do(&fsm.ResumeChangefeed{Name: feed.Name})
		}
		for b := range view.Barriers(feed.ID) {
			if b.Status == fsm.BarrierUndecided {
				x.c.do(&fsm.DecideBarrier{Key: b.Key, Permission: b.Permission, Decision: fsm.DecideWriteAgain})
			}
		}
	}
}

// check compares the replica with the upstream, and how often each event took effect.
func (x *eventWorld) check() {
	x.t.Helper()
	x.down.mu.Lock()
	defer x.down.mu.Unlock()
	require.Empty(x.t, x.down.violations)
	ddl, sync := x.up.events(x.every)
	want := map[fsm.Position]int{}
	for _, at := range append(ddl, sync...) {
		want[at] = 1
	}
	require.Equal(x.t, want, x.down.records, "each event takes effect once")
	require.Equal(x.t, x.up.before(fsm.At(x.up.ts)), x.down.rows)
}

func (x *eventWorld) finish() {
	x.t.Helper()
	for name, m := range x.members {
		m.cancel()
		require.NoError(x.t, <-m.result, fmt.Sprint(name))
	}
	x.c.finish()
}

// fault does one thing that may happen to a cluster.
func (x *eventWorld) fault() {
	names := slices.Sorted(maps.Keys(x.members))
	m := x.members[names[x.rng.IntN(len(names))]]
	switch x.rng.IntN(12) {
	case 0:
		m.cable.set(true, false)
	case 1:
		m.cable.set(false, true)
	case 2, 3:
		m.cable.set(false, false)
	case 4, 5:
		x.c.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: x.someDispatcher().ID, FromAny: true, To: m.name})
	case 6:
		x.c.do(&fsm.FenceNode{Node: m.name, Why: "test"})
	case 7, 8:
		x.split()
	case 9:
		x.merge()
	case 10:
		x.c.do(&fsm.PauseChangefeed{Name: "feed"})
	case 11:
		m.cable.lose(x.rng.IntN(50))
	}
	x.decide()
	x.checkWatermark()
}

// checkWatermark: what the state machine says is downstream is, rows and events.
func (x *eventWorld) checkWatermark() {
	x.t.Helper()
	feed, _ := x.c.View().Changefeed("feed")
	x.down.holds(feed.Watermark)
	ddl, sync := x.up.events(x.every)
	x.down.mu.Lock()
	defer x.down.mu.Unlock()
	for _, at := range append(ddl, sync...) {
		if !feed.Watermark.Less(at) {
			require.Equal(x.t, 1, x.down.records[at], "the watermark is at %v, event %v", feed.Watermark, at)
		}
	}
	require.Empty(x.t, x.down.violations)
}

func (x *eventWorld) someDispatcher() fsm.Dispatcher {
	rows := slices.Collect(x.c.View().Dispatchers())
	return rows[x.rng.IntN(len(rows))]
}

func (x *eventWorld) split() {
	row := x.someDispatcher()
	at := string(rune('b' + x.rng.IntN(24)))
	if row.Span.Start < at && (row.Span.End == "" || at < row.Span.End) {
		x.c.do(&fsm.AdmitOperator{
			Op: fsm.OpSplit, Dispatcher: row.ID, Spans: []fsm.Span{{Start: row.Span.Start, End: at}, {Start: at, End: row.Span.End}},
		})
	}
}

func (x *eventWorld) merge() {
	view := x.c.View()
	row := x.someDispatcher()
	for next := range view.DispatchersOfTable(row.Table) {
		if row.Span.End != "" && next.Span.Start == row.Span.End {
			x.c.do(&fsm.AdmitOperator{Op: fsm.OpMerge, Sources: []fsm.DispatcherID{row.ID, next.ID}})
			return
		}
	}
}

func TestEventsGoThroughAClusterWithoutFaults(t *testing.T) {
	seed := seeded(t)
	for round := range 3 {
		synctest.Test(t, func(t *testing.T) {
			x := newEventWorld(t, rand.New(rand.NewPCG(seed, uint64(round))), 120, 50)
			x.settle()
			x.check()
			require.Zero(t, x.down.asked, "nobody is told twice to write")
			x.finish()
			noOverlap(t, x.members)
		})
	}
}

func TestEachEventTakesEffectOnceAtItsInstantUnderRandomFaults(t *testing.T) {
	seed := seeded(t)
	asked, handovers := 0, 0
	for round := range 6 {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("round %d", round)
			x := newEventWorld(t, rand.New(rand.NewPCG(seed, uint64(round))), 250, 60)
			x.down.fail(true)
			pass(time.Second)
			for range 40 {
				x.fault()
				pass(time.Duration(x.rng.IntN(500)) * time.Millisecond)
			}
			x.settle()
			x.check()
			x.finish()
			handovers += noOverlap(t, x.members)
			asked += x.down.asked
		})
	}
	t.Logf("%d handovers, %d writes of events that a record answered", handovers, asked)
	require.Greater(t, handovers, 20)
}
