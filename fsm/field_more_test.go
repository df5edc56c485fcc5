package fsm_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/scenario"
)

// rowsOf is every row of a view, the counters too.
func rowsOf(v *fsm.View) []string {
	var rows []string
	for section, row := range v.Rows() {
		rows = append(rows, fmt.Sprintf("%s %x", section, row))
	}
	return rows
}

// B10: resuming what runs is refused with a reason of its own and changes nothing: no epoch, no dispatcher. Of two that
// resume at once one does; pause and resume that race end as the log says.
func TestField_B10_ResumingWhatRunsChangesNothing(t *testing.T) {
	c := newCluster(t, 2)
	e := c.runs(1, "n1")
	last := c.s.Meta().LastEpoch
	resume := &fsm.ResumeChangefeed{Name: "shop"}
	pause := &fsm.PauseChangefeed{Name: "shop"}
	c.unchanged(func() {
		v := c.do(resume)
		require.Equal(t, fsm.ChangefeedNotPaused, v.Reason)
		require.Contains(t, v.Sentence(), "shop")
	})
	require.Equal(t, last, c.s.Meta().LastEpoch)
	require.Equal(t, e, c.row(1).Epoch)

	// Pause, then two resumes at once: one resumes, the other changes nothing, and the Stop of the pause still ends.
	c.ok(pause)
	vs := c.all(resume, resume)
	require.Equal(t, []fsm.Reason{fsm.Accepted, fsm.ChangefeedNotPaused}, []fsm.Reason{vs[0].Reason, vs[1].Reason})
	require.Equal(t, fsm.Stopping, c.row(1).Phase, "resuming takes no stop back")
	require.Equal(t, fsm.OperatorExists, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n2"}).Reason)
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 20))
	e2 := c.runs(1, "n2")
	require.Greater(t, e2, e)

	// Resume before pause in one entry: the resume has nothing to resume, the pause counts.
	vs = c.all(resume, pause)
	require.Equal(t, []fsm.Reason{fsm.ChangefeedNotPaused, fsm.Accepted}, []fsm.Reason{vs[0].Reason, vs[1].Reason})
	require.Equal(t, fsm.ChangefeedPaused, c.do(pause).Reason)
	require.Equal(t, fsm.ChangefeedPaused, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 2, To: "n1"}).Reason)
	require.Equal(t, 3, c.s.DispatcherCount(), "two spans and the trigger, as before")
	require.Equal(t, []pair{{fsm.OrderStop, 1, e2}}, c.pairs("n2"))
}

// B17: the final report of a Move's origin carries the old epoch, and it is exactly the one that is waited for; nobody
// else's word about that epoch counts.
func TestField_B17_TheOriginsLastWordCountsAndNobodyElses(t *testing.T) {
	c := newCluster(t, 1)
	old := c.runs(1, "n1")
	c.move("n1", "n2")
	c.unchanged(func() {
		require.Equal(t, fsm.ReportInert, c.report("n3", fsm.ReportStopped, 1, old, 900), "forged by n3")
		require.Equal(t, fsm.ReportInert, c.report("n2", fsm.ReportStopped, 1, old, 900), "not the destination's to say")
		require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, old+1, 900), "an epoch that n1 never had")
	})
	require.Equal(t, fsm.ReportCounted, c.report("n1", fsm.ReportStopped, 1, old, 200))
	require.Equal(t, fsm.At(200), c.row(1).Position)
	require.Equal(t, fsm.At(200), c.orders("n2")[0].Work.Start, "the destination does not replay")
	c.unchanged(func() {
		require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, old, 300), "once")
	})
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, 1, 0))
	require.Equal(t, fsm.At(200), c.row(1).Position)
}

// B21: the start of a dispatcher is on its way when its table is dropped. Whatever the node makes of the start, it ends
// gone; what it says later is stale, and it is told so.
func TestField_B21_ADropDiscardsAStartOnItsWay(t *testing.T) {
	for _, what := range []fsm.ReportKind{fsm.ReportStopped, fsm.ReportStartFailed} {
		for _, ran := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, started first %t", what, ran), func(t *testing.T) {
				c := newCluster(t, 1)
				e := c.add(1, "n1").Facts.Epoch
				c.ok(&fsm.DropTables{Changefeed: "shop", Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}})
				require.Equal(t, []pair{{fsm.OrderStop, 1, e}}, c.pairs("n1"), "the start is taken back")
				if ran {
					c.unchanged(func() {
						require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportRunning, 1, e, 0), "it finished the start just then")
					})
				}
				require.Equal(t, fsm.ReportCounted, c.report("n1", what, 1, e, 0))
				_, there := c.s.Dispatcher(1)
				require.False(t, there)
				_, there = c.s.Table(1)
				require.False(t, there)
				c.unchanged(func() {
					require.Equal(t, fsm.ReportStale, c.report("n1", fsm.ReportRunning, 1, e, 0), "it must stop that")
					require.Equal(t, fsm.UnknownDispatcher, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Reason)
				})
				require.Empty(t, c.orders("n1"))
			})
		}
	}
}

// B57: time is the sum of what ticks say has passed. No leader's clock can stop it, turn it back or make it jump, and it
// goes on from a snapshot.
func TestField_B57_TimeGoesOnUnderEveryLeadersClock(t *testing.T) {
	c := newCluster(t, 1)
	tick := func(elapsed uint32) uint64 {
		before := c.s.Meta().TimeMS
		c.ok(&fsm.Tick{ElapsedMS: elapsed})
		now := c.s.Meta().TimeMS
		require.GreaterOrEqual(t, now, before, "time never goes back")
		require.LessOrEqual(t, now-before, uint64(fsm.MaxTickMS), "nor does it jump")
		return now - before
	}
	lead := func(server fsm.ServerID, term uint64) {
		c.term = term
		c.ok(&fsm.BeginTerm{Server: server})
	}
	const fiveMinutes = 5 * 60 * 1000
	require.Zero(t, tick(100), "the first tick of a term has nothing to count from")
	require.Equal(t, uint64(100), tick(100))
	require.Equal(t, uint64(300), tick(300), "a lost tick's time comes with the next one")
	lead("s2", 2)
	require.Zero(t, tick(fiveMinutes), "nothing is filled in for the time without a leader")
	require.Equal(t, uint64(fsm.MaxTickMS), tick(fiveMinutes), "a clock that is ahead")
	require.Zero(t, tick(0), "a clock that stands still")
	require.Equal(t, uint64(100), tick(100), "and goes on")
	old := c.s.View()
	lead("s1", 3)
	require.Zero(t, tick(100))
	require.Equal(t, uint64(100), tick(100))

	// A state restored from before goes on from its own time, also in a term that is lower than its own.
	before := old.Meta().TimeMS
	c.s, c.index = restoredFrom(t, old), old.Meta().Index
	require.Equal(t, before, c.s.Meta().TimeMS)
	lead("s3", 1)
	require.Zero(t, tick(100))
	require.Equal(t, uint64(100), tick(100))
	require.Equal(t, before+100, c.s.Meta().TimeMS)
}

// B65: nothing outside the command and the state decides: not who is traced, not who reads, not who was restarted.
func TestField_B65_WatchingAServerDoesNotChangeIt(t *testing.T) {
	for seed := range uint64(4) {
		l := scenario.NewRandomLog(scenario.Seeded(seed))
		plain, traced, read := fsm.New(), fsm.New(), fsm.New()
		cells := 0
		traced.TraceAdmissions(func(fsm.Cell) { cells++ })
		for i := range 400 {
			e := l.Next()
			want := plain.Apply(e)
			require.Equal(t, want, traced.Apply(e), "seed %d, entry %d, traced", seed, i+1)
			readHalf(read)
			require.Equal(t, want, read.Apply(e), "seed %d, entry %d, read", seed, i+1)
			if i%40 == 0 {
				rows := rowsOf(plain.View())
				require.Equal(t, rows, rowsOf(traced.View()), "seed %d, entry %d, traced", seed, i+1)
				require.Equal(t, rows, rowsOf(read.View()), "seed %d, entry %d, read", seed, i+1)
			}
		}
		require.NotZero(t, cells)
	}
}

// readHalf starts every kind of read and leaves it in the middle.
func readHalf(s *fsm.State) {
	view := s.View()
	for range view.Dispatchers() {
		break
	}
	for range s.Operators() {
		break
	}
	for n := range s.Nodes() {
		for range s.Orders(n.Incarnation) {
			break
		}
		for range view.DispatchersOn(n.Incarnation) {
			break
		}
		_ = s.Load(n.Incarnation)
		break
	}
	for range view.Rows() {
		break
	}
}

// B66: one log of 10,000 commands on eight servers, which restart from snapshots at different times: each gives the same
// verdict to every command, and has the same rows.
func TestField_B66_EightServersDecideAlike(t *testing.T) {
	const servers = 8
	l := scenario.NewRandomLog(scenario.Seeded(66))
	var states [servers]*fsm.State
	for i := range states {
		states[i] = fsm.New()
	}
	log := 10_000
	if testing.Short() {
		log = 1_000
	}
	for commands := 0; commands < log; {
		e := l.Next()
		commands += len(e.Proposals)
		want := states[0].Apply(e)
		for i, s := range states[1:] {
			require.Equal(t, want, s.Apply(e), "entry %d on server %d", e.Index, i+1)
			if e.Index%uint64(90+13*i) == 0 {
				states[i+1] = restoredFrom(t, s.View())
			}
		}
		if e.Index%100 == 0 {
			rows := rowsOf(states[0].View())
			for i, s := range states[1:] {
				require.Equal(t, rows, rowsOf(s.View()), "entry %d on server %d", e.Index, i+1)
			}
		}
	}
}

// B68: a restore gives nothing a new number: epochs, incarnations and log indexes are what they were, the node that works
// under an epoch is still the owner, and the next number is the next one.
func TestField_B68_ARestoreNumbersNothingAnew(t *testing.T) {
	c := newCluster(t, 3)
	e1 := c.runs(1, "n1")
	c.runs(2, "n2")
	c.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 2, From: "n2", To: "n3"})
	asked := c.entry(request("ask", 0, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 3, To: "n2"}))[0]
	before, rows := c.s.Meta(), rowsOf(c.s.View())
	c.restart()
	require.Equal(t, before, c.s.Meta())
	require.Equal(t, rows, rowsOf(c.s.View()))

	again := c.entry(request("ask", 0, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 3, To: "n2"}))[0]
	require.True(t, again.Replayed)
	require.Equal(t, asked.Index, again.Index, "a client that waits for the index waits for the right one")
	require.Equal(t, fsm.ReportCounted, c.report("n1", fsm.ReportStopped, 1, e1, 50), "n1 owns (1, e1) as before")
	require.Equal(t, before.LastEpoch+1, fsm.Epoch(c.add(1, "n1").Facts.Operator))
	require.Equal(t, before.LastIncarnation+1, c.register("n4"))
}

// B69: sixteen readers walk views while 10,000 commands are applied, under the race detector in `make test`. What a reader
// holds never changes.
func TestField_B69_AViewNeverChanges(t *testing.T) {
	const readers, each = 16, 8
	l := scenario.NewRandomLog(scenario.Seeded(69))
	views := make(chan *fsm.View, readers)
	differ := make(chan string, readers)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			var kept []*fsm.View
			var was [][]string
			for v := range views {
				kept, was = append(kept, v), append(was, rowsOf(v))
				if len(kept) > each {
					kept, was = kept[1:], was[1:]
				}
			}
			for i, v := range kept {
				err := v.CheckInvariants()
				if !slices.Equal(was[i], rowsOf(v)) {
					err = errors.New("it has changed")
				}
				if err != nil {
					differ <- fmt.Sprintf("the view of entry %d: %s", v.Meta().Index, err)
					return
				}
			}
		})
	}
	s := fsm.New()
	handed := 0
	for commands := 0; commands < 10_000; {
		e := l.Next()
		commands += len(e.Proposals)
		s.Apply(e)
		if e.Index%12 == 0 {
			views <- s.View()
			handed++
		}
	}
	close(views)
	all.Wait()
	require.Greater(t, handed, readers)
	select {
	case what := <-differ:
		t.Fatal(what)
	default:
	}
}
