package dispatcher

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

func rowsAt(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageRows} }

// steps are what was said, in words.
func steps(reports []fsm.BarrierReport) (out []string) {
	words := map[fsm.BarrierSaid]string{
		fsm.SaidWaiting: "waiting", fsm.SaidWritten: "written", fsm.SaidPassed: "passed", fsm.SaidNotBegun: "not begun",
		fsm.SaidUnknown: "unknown",
	}
	for _, r := range reports {
		out = append(out, words[r.What])
	}
	return out
}

// unique drops repetitions in a row.
func unique(s []string) []string { return slices.Compact(slices.Clone(s)) }

func (r *rig) standing(d fsm.DispatcherID) WorkerStatus {
	for _, s := range r.node.Status().Dispatchers {
		if s.Dispatcher == d {
			return s
		}
	}
	return WorkerStatus{}
}

func (r *rig) crew() session.Crew {
	crews := r.leader.heartbeat().Crews
	require.Len(r.t, crews, 1)
	return crews[0]
}

func (m *memLedger) steps(d fsm.DispatcherID) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.notes {
		if n.Dispatcher == d {
			out = append(out, n.Kind.String()+" "+n.Key.At.String())
		}
	}
	return out
}

func TestADispatcherStandsAtAnEventUntilItsPassedIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(10, 2), tx(20, 1), alter(30), tx(40, 3)), nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		require.Equal(t, 3, rowsOf(r.world.writes()))
		last := r.world.writes()[len(r.world.writes())-1]
		require.Equal(t, rowsAt(30), last.resume, "everything before the event, and that there is nothing else")
		said := r.leader.heard()
		require.Len(t, said, 1, "what is counted is not repeated")
		require.Equal(t, fsm.BarrierReport{
			Key: ddlAt(30), What: fsm.SaidWaiting, Pairs: []session.Pair{pairOf(1, 50)}, Spec: alter(30).Event.Spec,
		}, said[0])
		s := r.standing(1)
		require.Equal(t, StandWaiting, s.Standing)
		require.Equal(t, ddlAt(30), s.Event)
		require.Equal(t, rowsAt(30), s.Position)

		r.leader.set(func() { r.leader.reply = nil }) // "passed" is lost
		r.leader.event(passOrder(ddlAt(30), pairOf(1, 50)))
		pass(2 * time.Second)
		require.Equal(t, []string{"passed"}, unique(steps(r.leader.heard())))
		require.Equal(t, StandPassing, r.standing(1).Standing)
		require.Equal(t, 3, rowsOf(r.world.writes()), "nothing beyond the event is written before the acknowledgement")
		require.Equal(t, rowsAt(30), r.crew().Minimum)

		r.leader.set(func() { r.leader.reply = always(fsm.ReportCounted) })
		pass(time.Second)
		require.Equal(t, 6, rowsOf(r.world.writes()))
		require.Equal(t, rowsAt(40), r.standing(1).Position)
		require.Zero(t, r.standing(1).Standing)
		require.Equal(t, []string{"waiting 30/ddl", "passed 30/ddl"}, r.ledger.steps(1))
		require.NoError(t, r.stop())
	})
}

func rowsOf(effects []effect) (n int) {
	for _, e := range effects {
		n += e.rows
	}
	return n
}

// holder runs a trigger up to an event and gives it the permission 1.
func holder(t *testing.T, w *world) *rig {
	t.Helper()
	r := newRig(t, w, nil)
	r.leader.reply = always(fsm.ReportCounted)
	r.leader.order(triggerOrder(2, 51))
	pass(time.Second)
	require.Equal(t, []string{"waiting"}, steps(r.leader.heard()))
	require.Empty(t, w.events(), "the acknowledgement of waiting releases nothing")
	r.leader.event(writeOrder(ddlAt(30), 1, pairOf(2, 51)))
	return r
}

func TestTheHolderWritesOnceAndGoesOnAfterTheAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 2), alter(30), tx(40, 3))
		r := holder(t, w)
		pass(time.Second)
		require.Len(t, w.events(), 1)
		e := w.events()[0].event
		require.Equal(t, DDLKey{Changefeed: "feed", Run: 1, Position: ddlAt(30).At}, e.Key)
		require.Equal(t, alter(30).Event.Change, e.Change)
		require.Equal(t, []TableName{{"public", "t"}}, e.Tables)
		said := r.leader.heard()
		require.Equal(t, []string{"written"}, steps(said))
		require.EqualValues(t, 1, said[0].Permission)
		require.Equal(t, rowsAt(40), r.standing(2).Position)
		require.Equal(t, []string{"waiting 30/ddl", "written 30/ddl", "passed 30/ddl"}, r.ledger.steps(2))
		require.NoError(t, r.stop())
	})
}

func TestReview_R15_WrittenIsRepeatedUntilItIsAcknowledgedAndWhenAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		r := newRig(t, w, nil)
		r.leader.reply = func(rep *fsm.BarrierReport) []fsm.Reason {
			if rep.What == fsm.SaidWritten {
				return nil // lost
			}
			return []fsm.Reason{fsm.ReportCounted}
		}
		r.leader.order(triggerOrder(2, 51))
		pass(time.Second)
		r.leader.event(writeOrder(ddlAt(30), 1, pairOf(2, 51)))
		pass(100 * time.Millisecond)
		r.leader.heard()
		for range 3 { // the leader repeats its order: the same answer, at once
			r.leader.event(writeOrder(ddlAt(30), 1, pairOf(2, 51)))
			pass(time.Millisecond)
			require.Equal(t, []string{"written"}, steps(r.leader.heard()))
		}
		pass(2 * time.Second)
		require.GreaterOrEqual(t, len(r.leader.heard()), 3, "and unasked")
		require.Len(t, w.events(), 1, "asking again writes nothing")
		require.Equal(t, rowsAt(30), r.crew().Minimum)
		require.Equal(t, StandWritten, r.standing(2).Standing)

		// A new session repeats it at once.
		r.leader.set(func() { r.leader.current.Close() })
		pass(200 * time.Millisecond)
		require.Contains(t, steps(r.leader.heard()), "written")
		r.leader.set(func() { r.leader.reply = always(fsm.ReportCounted) })
		pass(time.Second)
		require.Zero(t, r.standing(2).Standing)
		require.Equal(t, rowsAt(40), r.standing(2).Position)
		require.NoError(t, r.stop())
	})
}

func TestReview_R15_PassedIsRepeatedWhenTheLeaderAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(alter(30), tx(40, 3)), nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		r.leader.heard()
		r.leader.say(session.FromLeader{AskBarriers: &session.AskBarriers{Key: ddlAt(30)}})
		pass(time.Millisecond)
		require.Equal(t, []string{"waiting"}, steps(r.leader.heard()), "also what had been counted")
		r.leader.say(session.FromLeader{AskBarriers: &session.AskBarriers{Key: ddlAt(31)}})
		pass(time.Second)
		require.Empty(t, r.leader.heard(), "of another event it has nothing to say")
		r.leader.set(func() { r.leader.reply = nil })
		r.leader.event(passOrder(ddlAt(30), pairOf(1, 50)))
		pass(50 * time.Millisecond)
		require.Equal(t, []string{"passed"}, steps(r.leader.heard()))
		r.leader.say(session.FromLeader{AskBarriers: &session.AskBarriers{Key: ddlAt(30)}})
		pass(time.Millisecond)
		require.Equal(t, []string{"passed"}, steps(r.leader.heard()))
		require.NoError(t, r.stop())
	})
}

func TestReview_R12_TheTriggerNamesTheEventBeforeAndStaysAtTheFirstUntilItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), alter(30), tx(35, 1), alter(50), tx(60, 1))
		r := newRig(t, w, nil)
		start := triggerOrder(2, 51)
		start.Work.Start = rowsAt(5)
		r.leader.order(start) // its first reports are lost
		pass(3 * time.Second)
		said := r.leader.heard()
		require.GreaterOrEqual(t, len(said), 3)
		for _, s := range said {
			require.Equal(t, ddlAt(30), s.Key, "the second event is not reported before the first is over")
			require.Equal(t, rowsAt(5), s.Earlier, "not the sink's resume point")
		}
		r.leader.set(func() { r.leader.reply = always(fsm.ReportCounted) })
		pass(time.Second)
		r.leader.event(writeOrder(ddlAt(30), 1, pairOf(2, 51)))
		pass(time.Second)
		said = r.leader.heard()
		last := said[len(said)-1]
		require.Equal(t, ddlAt(50), last.Key)
		require.Equal(t, ddlAt(30).At, last.Earlier)
		require.NoError(t, r.stop())
	})
}

// hang blocks a stage for a while, whatever its context says.
func hang(d time.Duration) func(context.Context, func() error) error {
	return func(context.Context, func() error) error {
		time.Sleep(d)
		return nil
	}
}

func TestReview_R13_AWriterThatIsStoppedWhileItWritesSaysWrittenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		w.hook(stageEvent, hang(500*time.Millisecond))
		r := holder(t, w)
		var order []string
		r.leader.set(func() {
			r.leader.reply = func(rep *fsm.BarrierReport) []fsm.Reason {
				order = append(order, steps([]fsm.BarrierReport{*rep})...)
				if len(order) < 3 {
					return nil // lost twice
				}
				return []fsm.Reason{fsm.ReportCounted}
			}
		})
		pass(100 * time.Millisecond)
		r.leader.order(stopOrder(2, 51))
		pass(800 * time.Millisecond)
		require.Len(t, w.events(), 1)
		require.Equal(t, []fsm.ReportKind{fsm.ReportRunning}, r.leader.kinds(2, 51), "stopped waits for the answer")
		require.EqualValues(t, 51, r.crewEpoch(2), "and it stays in the crew")
		pass(2 * time.Second)
		require.Equal(t, []string{"written", "written", "written"}, order)
		require.Equal(t, []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped}, r.leader.kinds(2, 51))
		require.NoError(t, r.stop())
	})
}

// crewEpoch is the epoch of a dispatcher if it alone is the crew of the newest heartbeat.
func (r *rig) crewEpoch(d fsm.DispatcherID) fsm.Epoch {
	c := r.crew()
	for e := fsm.Epoch(50); e < 60; e++ {
		if fsm.PairHash(d, e) == c.SetHash {
			return e
		}
	}
	return 0
}

func TestReview_R13_APermissionThatWasNotBegunIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(triggerOrder(2, 51))
		pass(time.Second)
		r.leader.heard()
		r.leader.set(func() { r.leader.acks = false })
		pass(3 * time.Second) // the gate closes
		r.leader.event(writeOrder(ddlAt(30), 1, pairOf(2, 51)))
		pass(time.Second)
		require.Empty(t, w.events(), "nothing is written while the gate is closed")
		require.Empty(t, r.leader.heard(), "while it waits for the gate the write is under way")
		r.leader.order(stopOrder(2, 51))
		pass(100 * time.Millisecond)
		require.Equal(t, []string{"not begun"}, steps(r.leader.heard()))
		require.Equal(t, []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped}, r.leader.kinds(2, 51))
		r.leader.set(func() { r.leader.acks = true })
		pass(time.Second)
		require.NoError(t, r.stop())
	})
}

func TestAStopDuringAWriteOfUnknownOutcomeSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		lost := errors.New("connection lost")
		w.hook(stageEventDone, func(context.Context, func() error) error { return lost })
		w.hook(stageClaim, func(ctx context.Context, _ func() error) error {
			if w.count(stageEvent) == 0 {
				return nil
			}
			<-ctx.Done() // the sink does not come back
			return context.Cause(ctx)
		})
		r := holder(t, w)
		pass(time.Second)
		require.Empty(t, r.leader.heard(), "it is not known, and will be when the sink is back")
		r.leader.order(stopOrder(2, 51))
		pass(3 * time.Second)
		said := r.leader.heard()
		require.Equal(t, []string{"unknown"}, steps(said))
		require.EqualValues(t, 1, said[0].Permission)
		require.Equal(t, []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped}, r.leader.kinds(2, 51))
		require.NoError(t, r.stop())
	})
}

func TestTheLastWordIsWaitedForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30))
		r := holder(t, w)
		r.leader.set(func() { r.leader.reply = nil })
		pass(time.Second)
		r.leader.order(stopOrder(2, 51))
		pass(1900 * time.Millisecond)
		require.Equal(t, []fsm.ReportKind{fsm.ReportRunning}, r.leader.kinds(2, 51))
		pass(200 * time.Millisecond)
		require.Equal(t, []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped}, r.leader.kinds(2, 51))
		require.NoError(t, r.stop())
	})
}

func TestAWriteThatTheGateCutsShortIsRepeatedAfterAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		// The first call takes effect and returns with the error of its context.
		w.hook(stageEventDone, func(ctx context.Context, _ func() error) error {
			if w.count(stageEventDone) > 1 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		r := holder(t, w)
		pass(100 * time.Millisecond)
		r.leader.set(func() { r.leader.acks = false })
		pass(4 * time.Second)
		require.Len(t, w.events(), 1)
		require.Empty(t, r.leader.heard())
		claims := len(w.claims())
		r.leader.set(func() { r.leader.acks = true })
		pass(time.Second)
		require.Len(t, w.claims(), claims+1)
		require.Len(t, w.events(), 2)
		require.True(t, w.events()[1].done, "the record tells how the first call went")
		require.Equal(t, []string{"written"}, steps(r.leader.heard()))
		require.NoError(t, r.stop())
	})
}

func TestReview_R17_TheCrewsMinimumStaysBeforeTheEventUntilTheAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(10, 1), alter(30), tx(40, 1)), nil)
		r.leader.reply = always(fsm.ReportCounted)
		second := startOrder(3, 53)
		second.Work.Start = ddlAt(30).At // added by the event: it does not meet it
		r.leader.order(startOrder(1, 50), second)
		pass(2 * time.Second)
		c := r.crew()
		require.EqualValues(t, 9, c.Changefeed)
		require.Equal(t, fsm.PairHash(1, 50)+fsm.PairHash(3, 53), c.SetHash)
		require.Equal(t, rowsAt(30), c.Minimum)
		require.Equal(t, rowsAt(40), r.standing(3).Position)
		r.leader.event(passOrder(ddlAt(30), pairOf(1, 50)))
		pass(2 * time.Second)
		require.Equal(t, rowsAt(40), r.crew().Minimum)
		require.NoError(t, r.stop())
	})
}

func TestReview_R30_WhatIsStoppingStaysInTheCrewWithItsLastCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(40, 1))
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(2 * time.Second)
		require.Equal(t, rowsAt(40), r.crew().Minimum)
		release := make(chan struct{})
		w.hook(stageClose, func(context.Context, func() error) error { <-release; return nil })
		r.leader.order(stopOrder(1, 50))
		pass(time.Second)
		require.Equal(t, session.Crew{Changefeed: 9, SetHash: fsm.PairHash(1, 50), Minimum: rowsAt(40)}, r.crew(), "closing")
		r.leader.set(func() { r.leader.ackReports = false })
		close(release)
		pass(time.Second)
		require.Equal(t, session.Crew{Changefeed: 9, SetHash: fsm.PairHash(1, 50), Minimum: rowsAt(40)}, r.crew(), "closed")
		r.leader.set(func() { r.leader.ackReports = true })
		pass(time.Second)
		require.Empty(t, r.leader.heartbeat().Crews, "acknowledged")
		require.NoError(t, r.stop())
	})
}

func TestAPlacementWithoutAPositionCountsWithItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.atEnd = nil
		r := newRig(t, w, nil)
		o := startOrder(1, 50)
		o.Work.Start = rowsAt(17)
		r.leader.order(o)
		pass(time.Second)
		require.Equal(t, rowsAt(17), r.crew().Minimum)
		require.NoError(t, r.stop())
	})
}

func TestReview_R42_NoSyncPointIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, trigger := range []bool{false, true} {
			r := newRig(t, newWorld(tx(7, 1), tx(10, 1), tx(35, 2), tx(41, 1)), nil)
			r.leader.reply = func(rep *fsm.BarrierReport) []fsm.Reason {
				if rep.What == fsm.SaidWaiting {
					return []fsm.Reason{fsm.BarrierPass}
				}
				return []fsm.Reason{fsm.ReportCounted}
			}
			o := startOrder(1, 50)
			if trigger {
				o = triggerOrder(1, 50)
			}
			o.Work.SyncPointEvery = 10
			r.leader.order(o)
			pass(2 * time.Second)
			var keys []fsm.BarrierKey
			for _, s := range r.leader.heard() {
				if s.What == fsm.SaidWaiting {
					require.Equal(t, fsm.SyncPointSpec(), s.Spec)
					keys = append(keys, s.Key)
				}
			}
			require.Equal(t, []fsm.BarrierKey{syncAt(10), syncAt(20), syncAt(30), syncAt(40)}, keys, "none at 0, none beyond the end")
			require.Equal(t, rowsAt(41), r.standing(1).Position)
			if !trigger {
				require.Equal(t, 5, rowsOf(r.world.writes()))
			}
			require.NoError(t, r.stop())
		}
	})
}

func TestReview_R16_TheSchemaChangeOfATsComesBeforeItsSyncPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(20, 1), alter(20), tx(21, 1)), nil)
		r.leader.reply = func(rep *fsm.BarrierReport) []fsm.Reason {
			if rep.What == fsm.SaidWaiting {
				return slices.Repeat([]fsm.Reason{fsm.BarrierPass}, len(rep.Pairs))
			}
			return slices.Repeat([]fsm.Reason{fsm.ReportCounted}, len(rep.Pairs))
		}
		whole, ddl, both := startOrder(1, 50), startOrder(3, 53), startOrder(4, 54)
		ddl.Work.Start, both.Work.Start = ddlAt(20).At, syncAt(20).At
		for _, o := range []*fsm.Order{&whole, &ddl, &both} {
			o.Work.SyncPointEvery = 20
			r.leader.order(*o)
		}
		pass(2 * time.Second)
		require.Equal(t, []string{"waiting 20/ddl", "passed 20/ddl", "waiting 20", "passed 20"}, r.ledger.steps(1))
		require.Equal(t, []string{"waiting 20", "passed 20"}, r.ledger.steps(3), "it starts behind the schema change")
		require.Empty(t, r.ledger.steps(4), "it starts behind both")
		for _, d := range []fsm.DispatcherID{1, 3, 4} {
			require.Equal(t, rowsAt(21), r.standing(d).Position)
		}
		require.NoError(t, r.stop())
	})
}

func TestOrdersThatDoNotFitDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		before := r.leader.order(triggerOrder(2, 51))
		pass(time.Second)
		r.leader.order()
		r.leader.heard()
		otherRun := ddlAt(30)
		otherRun.Run = 2
		old := passOrder(ddlAt(30), pairOf(2, 51))
		r.leader.say(session.FromLeader{Orders: &session.Orders{Term: before.term, Index: before.index, Barriers: []fsm.BarrierOrder{old}}})
		r.leader.event(
			passOrder(ddlAt(30), pairOf(2, 50)), passOrder(ddlAt(31), pairOf(2, 51)), passOrder(otherRun, pairOf(2, 51)),
			fsm.BarrierOrder{Key: ddlAt(30), Action: fsm.ActionPass, All: true, SetHash: 1},
		)
		pass(time.Second)
		require.Empty(t, r.leader.heard())
		require.Equal(t, StandWaiting, r.standing(2).Standing)

		// What it cannot write it says it has not begun: another event, another run, another epoch.
		r.leader.event(writeOrder(ddlAt(31), 4, pairOf(2, 51)))
		pass(time.Millisecond)
		r.leader.event(writeOrder(otherRun, 5, pairOf(2, 51)), writeOrder(ddlAt(30), 6, pairOf(2, 50)))
		pass(time.Millisecond)
		said := r.leader.heard()
		require.Equal(t, []string{"not begun", "not begun", "not begun"}, steps(said))
		require.ElementsMatch(t, []uint64{4, 5, 6}, []uint64{said[0].Permission, said[1].Permission, said[2].Permission})
		require.Empty(t, w.events())

		r.leader.event(fsm.BarrierOrder{Key: ddlAt(30), Action: fsm.ActionPass, All: true, SetHash: fsm.PairHash(2, 51)})
		pass(time.Second)
		require.Equal(t, []string{"passed"}, steps(r.leader.heard()), "the set is the one that was meant")
		require.NoError(t, r.stop())
	})
}

func TestARestartBetweenWrittenAndItsAcknowledgementMeetsTheEventAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), alter(30), tx(40, 3), tx(50, 1))
		r := holder(t, w)
		pass(time.Second)
		require.Len(t, w.events(), 1)
		r.leader.fence() // by the state's account nothing was written
		pass(3 * time.Second)
		r.leader.heard()
		// The sink has more than the state machine knows of.
		w.mu.Lock()
		row := w.rows[triggerPlace]
		row.resume = rowsAt(45)
		w.rows[triggerPlace] = row
		w.mu.Unlock()
		o := triggerOrder(2, 71)
		o.Work.Start = rowsAt(30)
		r.leader.order(o)
		pass(time.Second)
		said := r.leader.heard()
		require.Equal(t, []string{"waiting"}, steps(said))
		require.Equal(t, rowsAt(30), said[0].Earlier)
		require.Equal(t, rowsAt(30), r.crew().Minimum, "not the sink's resume point")
		r.leader.event(writeOrder(ddlAt(30), 2, pairOf(2, 71)))
		pass(2 * time.Second)
		require.Equal(t, []string{"written"}, steps(r.leader.heard()))
		require.Len(t, w.events(), 2)
		require.True(t, w.events()[1].done)
		notes := r.ledger.notes
		require.True(t, notes[len(notes)-2].Recorded)
		require.Equal(t, rowsAt(50), r.standing(2).Position)
		require.NoError(t, r.stop())
	})
}

func TestRowsThatAreDownstreamAreNotWrittenAgainOnTheWayToAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 2), alter(30), tx(40, 4), tx(50, 8))
		w.rows[spanOf(1)] = effect{resume: rowsAt(40)}
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		require.Equal(t, []fsm.Position{{}}, w.starts, "the events between the ordered start and the resume point are seen")
		require.Empty(t, w.writes())
		require.Equal(t, []string{"waiting"}, steps(r.leader.heard()))
		r.leader.event(passOrder(ddlAt(30), pairOf(1, 50)))
		pass(2 * time.Second)
		require.Equal(t, 8, rowsOf(w.writes()))
		require.NoError(t, r.stop())
	})
}

func TestAStopErrorIsFatalAndOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30), tx(40, 3))
		w.hook(stageEvent, func(context.Context, func() error) error {
			return &StopError{Reason: ReasonDDLUnsupported, Text: "alter table t ... at 30/ddl cannot be expressed; drop the table from the changefeed"}
		})
		r := holder(t, w)
		pass(time.Second)
		require.Equal(t, []string{"not begun"}, steps(r.leader.heard()))
		reports := r.leader.reported(2, 51)
		require.Len(t, reports, 2)
		require.Equal(t, ReasonDDLUnsupported, reports[1].Reason)
		require.Contains(t, reports[1].Detail, "alter table t")
		require.True(t, reports[1].Fatal)

		w.hook(stageEvent, nil)
		w.hook(stageRead, func(context.Context, func() error) error { return &StopError{Reason: "BAD_LINE", Text: "line 7"} })
		r.leader.order(startOrder(1, 60))
		pass(time.Second)
		ended := r.leader.reported(1, 60)
		require.True(t, ended[len(ended)-1].Fatal)
		w.hook(stageRead, func(context.Context, func() error) error { return errors.New("no route to host") })
		r.leader.order(startOrder(1, 61))
		pass(time.Second)
		ended = r.leader.reported(1, 61)
		require.False(t, ended[len(ended)-1].Fatal)
		require.NoError(t, r.stop())
	})
}

func TestAnEventThatTheStateMachineDoesNotKnowEndsThePlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(alter(30), tx(40, 3)), nil)
		r.leader.reply = always(fsm.BarrierForget)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		reports := r.leader.reported(1, 50)
		require.Len(t, reports, 2)
		require.Equal(t, ReasonForgotten, reports[1].Reason)
		require.False(t, reports[1].Fatal)
		require.NoError(t, r.stop())
	})
}

func TestAnEventOfNothingThatIsReplicatedLeavesARecordAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(alter(30))
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(triggerOrder(2, 51))
		pass(time.Second)
		o := writeOrder(ddlAt(30), 1, pairOf(2, 51))
		o.Tables = nil
		r.leader.event(o)
		pass(time.Second)
		require.Len(t, w.events(), 1)
		require.Equal(t, schema.KindNothing, w.events()[0].event.Change.Kind)
		require.Equal(t, alter(30).Event.Statement, w.events()[0].event.Statement)
		require.NoError(t, r.stop())
	})
}

// TestATableThatCannotBeMadeIsNoNothing: nobody goes on without a table that the log creates, though none of it is
// replicated yet.
func TestATableThatCannotBeMadeIsNoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tx := alter(30)
		tx.Event.Change = schema.ParseMessage(`{"tag":"CREATE TABLE AS","object":"public.t","sql":"create table t as select 1"}`).Change()
		require.Equal(t, schema.KindUnsupported, tx.Event.Change.Kind)
		w := newWorld(tx)
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(triggerOrder(2, 51))
		pass(time.Second)
		o := writeOrder(ddlAt(30), 1, pairOf(2, 51))
		o.Tables = nil
		r.leader.event(o)
		pass(time.Second)
		require.Len(t, w.events(), 1)
		require.Equal(t, schema.KindUnsupported, w.events()[0].event.Change.Kind, "the sink is asked, and refuses it")
		require.NoError(t, r.stop())
	})
}

func TestASyncPointIsWrittenWithoutAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(25, 1))
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		o := triggerOrder(2, 51)
		o.Work.SyncPointEvery = 20
		r.leader.order(o)
		pass(time.Second)
		r.leader.event(writeOrder(syncAt(20), 1, pairOf(2, 51)))
		pass(time.Second)
		require.Equal(t, DDL{Key: DDLKey{"feed", 1, syncAt(20).At}}, w.events()[0].event)
		require.NoError(t, r.stop())
	})
}

func TestWhatCameTooEarlyIsSaidAgainSoonAndWhatIsWrongSlowly(t *testing.T) {
	for _, c := range []struct {
		answer      fsm.Reason
		least, most int // messages in 10 s
		trouble     string
	}{
		{fsm.BarrierRetry, 60, 101, ""},
		{fsm.EarlierEventOpen, 15, 21, ""},
		{fsm.BarrierUnwritten, 15, 21, ""},
		{fsm.SpecMismatch, 2, 3, "SPEC_MISMATCH: the event at 30/ddl is not the event that others report there"},
		{fsm.Malformed, 2, 3, "MALFORMED: the event at 30/ddl does not fit the changefeed"},
		{fsm.ReportStale, 2, 3, ""},
		{fsm.ReportInert, 1, 1, ""},
	} {
		t.Run(c.answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newWorld(alter(30), tx(40, 3)), nil)
				r.leader.reply = always(c.answer)
				r.leader.order(startOrder(1, 50))
				pass(10 * time.Second)
				n := len(r.leader.heard())
				require.GreaterOrEqual(t, n, c.least)
				require.LessOrEqual(t, n, c.most)
				require.Contains(t, r.standing(1).LastError, c.trouble)
				require.Equal(t, c.trouble != "", r.standing(1).LastError != "")

				// Whatever was answered, it goes on when it is told to.
				r.leader.set(func() { r.leader.reply = always(fsm.ReportCounted) })
				r.leader.event(passOrder(ddlAt(30), pairOf(1, 50)))
				pass(2 * time.Second)
				require.Equal(t, rowsAt(40), r.standing(1).Position)
				require.Empty(t, r.standing(1).LastError)
				require.NoError(t, r.stop())
			})
		})
	}
}

func TestReview_R35_TenThousandThatWaitAreOneReport(t *testing.T) {
	const n = 10_000
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(25, 1)), func(c *Config) { c.Limits.ConcurrentStarts = n })
		r.leader.reply = always(fsm.ReportCounted)
		orders := []fsm.Order{triggerOrder(n+1, 51)}
		hash := fsm.PairHash(n+1, 51)
		for d := fsm.DispatcherID(1); d <= n; d++ {
			orders = append(orders, startOrder(d, 50))
			hash += fsm.PairHash(d, 50)
		}
		// They begin before any of them is in the set: nobody speaks before that.
		gate := make(chan struct{})
		r.world.hook(stageRead, func(ctx context.Context, _ func() error) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		for i := range orders {
			orders[i].Work.SyncPointEvery = 20
		}
		r.leader.order(orders...)
		pass(3 * time.Second)
		require.EqualValues(t, n+1, r.leader.heartbeat().Dispatchers)
		close(gate)
		pass(time.Second)
		said := r.leader.heard()
		require.Len(t, said, 2, "one for all, and the trigger's")
		slices.SortFunc(said, func(x, y fsm.BarrierReport) int { return len(x.Pairs) - len(y.Pairs) })
		require.Equal(t, fsm.BarrierReport{
			Key: syncAt(20), What: fsm.SaidWaiting, All: true, SetHash: hash, Spec: fsm.SyncPointSpec(),
		}, said[0])
		require.Equal(t, []session.Pair{pairOf(n+1, 51)}, said[1].Pairs)

		r.leader.event(fsm.BarrierOrder{Key: syncAt(20), Action: fsm.ActionPass, All: true, SetHash: hash})
		pass(time.Second)
		said = r.leader.heard()
		all := slices.IndexFunc(said, func(s fsm.BarrierReport) bool { return s.All })
		require.GreaterOrEqual(t, all, 0)
		require.Equal(t, fsm.SaidPassed, said[all].What)
		require.Len(t, said, 2)
		pass(2 * time.Second)
		require.Equal(t, rowsAt(25), r.crew().Minimum, "one answer lets all of them go on")
		require.NoError(t, r.stop())
	})
}

func TestReview_R35_WhenTheSetIsNotTheStatesThePairsAreListed(t *testing.T) {
	const n = 1200
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(25, 1)), func(c *Config) { c.Limits.ConcurrentStarts = n })
		r.leader.reply = func(rep *fsm.BarrierReport) []fsm.Reason {
			if rep.All {
				return []fsm.Reason{fsm.SetMismatch}
			}
			return slices.Repeat([]fsm.Reason{fsm.ReportCounted}, len(rep.Pairs))
		}
		r.world.hook(stageRead, func(context.Context, func() error) error { time.Sleep(time.Second); return nil })
		var orders []fsm.Order
		for d := fsm.DispatcherID(1); d <= n; d++ {
			o := startOrder(d, 50)
			o.Work.SyncPointEvery = 20
			if d <= 3 {
				o.Work.Start = syncAt(20).At // these do not meet it
			}
			orders = append(orders, o)
		}
		r.leader.order(orders...)
		pass(5 * time.Second)
		said := r.leader.heard()
		require.True(t, said[0].All)
		require.Equal(t, []fsm.DispatcherID{1, 2, 3}, said[0].Except)
		listed := map[session.Pair]bool{}
		for _, s := range said[1:] {
			require.False(t, s.All)
			require.LessOrEqual(t, len(s.Pairs), 500)
			for _, p := range s.Pairs {
				require.False(t, listed[p], "each once")
				listed[p] = true
			}
		}
		require.Len(t, listed, n-3)
		require.Len(t, said, 4)
		require.NoError(t, r.stop())
	})
}

func TestASinkThatWentBackTakesTheHolderBackToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 2), tx(20, 1), alter(30), tx(40, 3))
		r := newRig(t, w, nil)
		r.leader.reply = always(fsm.ReportCounted)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		r.leader.set(func() { r.leader.acks = false })
		pass(3 * time.Second)
		w.mu.Lock()
		row := w.rows[spanOf(1)]
		row.resume = rowsAt(10) // restored from a backup
		w.rows[spanOf(1)] = row
		w.mu.Unlock()
		r.leader.set(func() { r.leader.acks = true })
		r.leader.heard()
		written := rowsOf(w.writes())
		r.leader.event(writeOrder(ddlAt(30), 1, pairOf(1, 50)))
		pass(time.Second)
		require.Equal(t, []string{"not begun", "waiting"}, steps(r.leader.heard()), "it stands there again when it has written again")
		require.Equal(t, written+1, rowsOf(w.writes()))
		require.Empty(t, w.events())
		r.leader.event(writeOrder(ddlAt(30), 1, pairOf(1, 50)))
		pass(time.Second)
		require.Len(t, w.events(), 1)
		require.NoError(t, r.stop())
	})
}
