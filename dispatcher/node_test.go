package dispatcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fsm"
)

var (
	justRunning = []fsm.ReportKind{fsm.ReportRunning}
	ranStopped  = []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped}
)

func TestADispatcherRunsFromOrderToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 2), tx(20, 1), tx(30, 0))
		r := newRig(t, w, nil)
		at := r.leader.order(startOrder(7, 50))
		pass(time.Second)

		require.Equal(t, justRunning, r.leader.kinds(7, 50))
		require.Len(t, w.claims(), 1)
		require.Equal(t, Token{50, 1}, w.claims()[0].token)
		writes := w.writes()
		require.NotEmpty(t, writes)
		require.Equal(t, uint64(30), writes[len(writes)-1].resume.TS)
		hb := r.leader.heartbeat()
		require.True(t, hb.GateOpen)
		require.Equal(t, fsm.PairHash(7, 50), hb.SetHash)
		require.EqualValues(t, 1, hb.Dispatchers)
		require.Equal(t, mark{hb.OrdersTerm, hb.OrdersIndex}, at)

		s := r.node.Status()
		require.Len(t, s.Dispatchers, 1)
		require.Equal(t, PhaseRunning, s.Dispatchers[0].Phase)
		require.True(t, s.Dispatchers[0].Idle)
		require.EqualValues(t, 3, s.Dispatchers[0].Rows)
		require.EqualValues(t, 1000, s.Dispatchers[0].LagMS)

		r.leader.order(stopOrder(7, 50))
		pass(time.Second)
		require.Equal(t, ranStopped, r.leader.kinds(7, 50))
		last := r.leader.reported(7, 50)[1]
		require.True(t, last.HasPosition)
		require.Equal(t, fsm.Position{TS: 30, Stage: fsm.StageRows}, last.Position)
		require.Empty(t, last.Reason)
		hb = r.leader.heartbeat()
		require.Zero(t, hb.SetHash)
		require.Zero(t, hb.Dispatchers)
		open, closes, readers := w.openWriters()
		require.Equal(t, [3]int{0, 1, 0}, [3]int{open, closes, readers})
		require.NoError(t, r.stop())
	})
}

func TestPlannedStopSaysGoodbyeOnceWithEveryPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1))
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50), startOrder(2, 51))
		pass(time.Second)
		r.leader.set(func() { r.leader.ackReports = false })
		r.leader.order(stopOrder(9, 44)) // remembered, and in the goodbye too
		pass(100 * time.Millisecond)
		require.NoError(t, r.stop())
		require.Len(t, r.leader.goodbyes, 1)
		at := fsm.Position{TS: 20, Stage: fsm.StageRows}
		require.Equal(t, fsm.Goodbye{Node: "n1", Incarnation: 41, Stopped: []fsm.PlacementPosition{
			{Dispatcher: 1, Epoch: 50, HasPosition: true, Position: at},
			{Dispatcher: 2, Epoch: 51, HasPosition: true, Position: at},
			{Dispatcher: 9, Epoch: 44},
		}}, r.leader.goodbyes[0])
		open, _, readers := w.openWriters()
		require.Zero(t, open)
		require.Zero(t, readers)
		require.Equal(t, fence.Fenced, r.node.Status().Lease.State)
	})
}

func TestPlannedStopStartsNothingAndWaitsForWritesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		w.hook(stageWrite, func(context.Context, func() error) error {
			time.Sleep(300 * time.Millisecond)
			return nil
		})
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(100 * time.Millisecond)
		require.Equal(t, 1, w.count(stageWrite))
		r.cancel()
		synctest.Wait()
		r.leader.order(startOrder(2, 51)) // comes too late
		pass(100 * time.Millisecond)
		r.leader.set(func() { require.Empty(t, r.leader.goodbyes, "a write is still in flight") })
		require.NoError(t, r.stop())
		require.Equal(t, 1, w.count(stageSinkOpen))
		require.Len(t, w.writes(), 1)
		require.Len(t, r.leader.goodbyes, 1)
		told := r.leader.goodbyes[0].Stopped // or in a report, or in both if its acknowledgement was still on the way
		for _, p := range r.leader.reported(1, 50) {
			if p.What == fsm.ReportStopped {
				told = append(told, p.PlacementPosition)
			}
		}
		require.NotEmpty(t, told)
		for _, p := range told {
			require.Equal(t, fsm.PlacementPosition{
				Dispatcher: 1, Epoch: 50, HasPosition: true, Position: fsm.Position{TS: 10, Stage: fsm.StageRows},
			}, p)
		}
	})
}

func TestNoGoodbyeWhileASinkHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		release := make(chan struct{})
		w.hook(stageClose, func(context.Context, func() error) error { <-release; return nil })
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50), startOrder(2, 51))
		pass(time.Second)
		err := r.stop()
		require.ErrorContains(t, err, "have not returned")
		require.Empty(t, r.leader.goodbyes)
		require.NotEmpty(t, r.aborted())
		close(release)
		synctest.Wait()
	})
}

func TestWhatReturnsWhenItIsDroppedStillMakesTheGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		w.hook(stageWrite, func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() })
		r := newRig(t, w, func(c *Config) { c.Limits.StopDeadline = 200 * time.Millisecond }) // below the grace
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		require.NoError(t, r.stop())
		require.Len(t, r.leader.goodbyes, 1)
		require.Equal(t, []fsm.PlacementPosition{{Dispatcher: 1, Epoch: 50, HasPosition: true}}, r.leader.goodbyes[0].Stopped)
	})
}

func TestAFailedGoodbyeIsSaidToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(), nil)
		r.leader.set(func() { r.leader.goodbyeErr = errors.New("nobody answers") })
		require.ErrorContains(t, r.stop(), "nobody answers")
		require.Len(t, r.leader.goodbyes, 1)
	})
}

func TestHeartbeatsKeepTheirNumbersAcrossSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(), nil)
		pass(time.Second)
		r.leader.current.Close()
		pass(time.Second)
		r.leader.mu.Lock()
		require.Equal(t, 2, r.leader.sessions)
		for i, h := range r.leader.heartbeats {
			require.EqualValues(t, i+1, h.Seq)
		}
		r.leader.mu.Unlock()
		require.NoError(t, r.stop())
	})
}

func TestALeaderThatAcknowledgesNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(), nil)
		pass(500 * time.Millisecond)
		r.leader.set(func() { r.leader.acks = false })
		pass(2 * time.Second)
		r.leader.mu.Lock()
		require.GreaterOrEqual(t, r.leader.sessions, 2)
		r.leader.mu.Unlock()
		require.NoError(t, r.stop())
	})
}

// TestASilentLeaderIsLeftWithinHalfALeaseAndAHeartbeat has the leader fall silent at every point of the period in which a
// node could look: however that lies, half a lease must be left for the next session.
func TestASilentLeaderIsLeftWithinHalfALeaseAndAHeartbeat(t *testing.T) {
	const heartbeat = 250 * time.Millisecond
	for offset := time.Duration(0); offset < testLease/2; offset += 90 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newWorld(), nil)
			pass(500*time.Millisecond + offset)
			r.leader.set(func() { r.leader.acks = false })
			silent := time.Now()
			left := func() bool {
				r.leader.mu.Lock()
				defer r.leader.mu.Unlock()
				return r.leader.sessions >= 2
			}
			for !left() {
				pass(10 * time.Millisecond)
				require.Less(t, time.Since(silent), testLease, "offset %v", offset)
			}
			require.LessOrEqual(t, time.Since(silent), testLease/2+heartbeat+100*time.Millisecond, "offset %v", offset)
			require.NoError(t, r.stop())
		})
	}
}

func TestTheGatePausesAndAckReopensWithoutLossOrRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1), tx(30, 1))
		inFlight := make(chan struct{}, 1)
		first := true
		w.hook(stageWrite, func(ctx context.Context, allow func() error) error {
			if !first {
				return nil
			}
			first = false
			if err := allow(); err != nil {
				return err
			}
			inFlight <- struct{}{}
			<-ctx.Done() // hangs until the gate closes
			return ctx.Err()
		})
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows = 1 })
		r.leader.order(startOrder(1, 50))
		<-inFlight
		r.leader.set(func() { r.leader.acks = false })
		pass(5 * time.Second)
		require.Empty(t, w.writes())
		require.Equal(t, fence.Closed, r.node.Status().Lease.State)
		require.False(t, r.leader.heartbeat().GateOpen)
		require.Equal(t, "LEASE_LAPSED", r.leader.heartbeat().GateReason)

		r.leader.set(func() { r.leader.acks = true })
		pass(2 * time.Second)
		require.Equal(t, []Token{{50, 1}, {50, 2}}, tokens(w.claims()))
		require.Equal(t, []uint64{10, 20, 30}, resumes(w.writes()))
		for _, e := range w.writes() {
			require.Equal(t, Token{50, 2}, e.token)
		}
		require.Equal(t, justRunning, r.leader.kinds(1, 50), "a pause is no end")
		require.NoError(t, r.stop())
	})
}

func TestAWriteThatLandedAlthoughItWasCancelledIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1))
		first := true
		w.hook(stageWrite, func(_ context.Context, allow func() error) error {
			if !first {
				return nil
			}
			first = false
			if err := allow(); err != nil {
				return err
			}
			w.mu.Lock()
			row := w.rows[spanOf(1)]
			row.resume = fsm.Position{TS: 10, Stage: fsm.StageRows}
			w.rows[spanOf(1)] = row
			w.mu.Unlock()
			return errors.New("the connection broke after the commit")
		})
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows = 1 })
		r.leader.order(startOrder(1, 50))
		pass(2 * time.Second)
		require.Equal(t, []uint64{20}, resumes(w.writes()))
		require.Equal(t, []Token{{50, 1}, {50, 2}}, tokens(w.claims()))
		require.NoError(t, r.stop())
	})
}

func TestASinkThatLostRowsIsFilledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1), tx(30, 1))
		writes := 0
		w.hook(stageWrite, func(context.Context, func() error) error {
			if writes++; writes != 3 {
				return nil
			}
			w.mu.Lock()
			row := w.rows[spanOf(1)]
			row.resume = fsm.Position{}
			w.rows[spanOf(1)] = row
			w.mu.Unlock()
			return errors.New("the database was restored")
		})
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows = 1 })
		r.leader.order(startOrder(1, 50))
		pass(2 * time.Second)
		require.Equal(t, []uint64{10, 20, 10, 20, 30}, resumes(w.writes()))
		require.True(t, r.node.Status().Dispatchers[0].Idle)
		require.NoError(t, r.stop())
	})
}

func TestAStopErrorEndsTheDispatcherAfterWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1))
		w.atEnd = &StopError{Reason: "MALFORMED_LOG", Text: "line 3 of x.ndjson is no JSON"}
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		reports := r.leader.reported(1, 50)
		last := reports[len(reports)-1] // "running" may have been overtaken
		require.Equal(t, fsm.ReportStopped, last.What)
		require.Equal(t, "MALFORMED_LOG", last.Reason)
		require.Equal(t, "line 3 of x.ndjson is no JSON", last.Detail)
		require.Equal(t, uint64(20), last.Position.TS)
		require.NoError(t, r.stop())
	})
}

func TestANewerTokenAtTheSinkEndsTheDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		w.rows[spanOf(1)] = effect{token: Token{99, 1}}
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		require.Equal(t, []fsm.ReportKind{fsm.ReportStartFailed}, r.leader.kinds(1, 50))
		require.Equal(t, ReasonFenced, r.leader.reported(1, 50)[0].Reason)
		require.Empty(t, w.writes())
		require.EqualValues(t, 1, r.node.Status().Counters.Fenced)
		require.NoError(t, r.stop())
	})
}

func TestRegistrationIsRepeatedUntilAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		l := newLeader(t)
		l.refuse = func(attempt int) error {
			if attempt < 4 {
				return codeError("NOT_LEADER")
			}
			return nil
		}
		r := newRig(t, w, func(c *Config) { c.Dialer = l })
		r.leader = l
		pass(5 * time.Second)
		require.Equal(t, fsm.Incarnation(41), r.node.Status().Incarnation)
		require.Equal(t, "boot", l.registrations[0].BootID)
		require.NoError(t, r.stop())
	})
}

func TestANameThatIsLiveIsWaitedForAsLongAsTold(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := newLeader(t)
			l.refuse = func(attempt int) error {
				if attempt < 4 {
					return codeError(codeNodeLive)
				}
				return nil
			}
			r := newRig(t, newWorld(), func(c *Config) { c.Dialer, c.WaitForName = l, wait })
			r.leader = l
			pass(5 * time.Second)
			if wait > 0 {
				require.Equal(t, fsm.Incarnation(41), r.node.Status().Incarnation)
				require.NoError(t, r.stop())
				return
			}
			require.ErrorContains(t, <-r.result, "NODE_LIVE")
			require.Len(t, l.registrations, 1)
		})
	}
}

func TestProgressIsBoundedAndReachesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 700
		w := newWorld(tx(10, 1))
		r := newRig(t, w, nil)
		var orders []fsm.Order
		for d := range fsm.DispatcherID(n) {
			orders = append(orders, startOrder(d+1, fsm.Epoch(100+d)))
		}
		r.leader.order(orders...)
		pass(3 * time.Second)
		told := make(map[fsm.DispatcherID]uint64)
		r.leader.mu.Lock()
		for _, h := range r.leader.heartbeats {
			require.LessOrEqual(t, len(h.Progress), maxProgress)
			for _, p := range h.Progress {
				told[p.Dispatcher] = p.Rows
			}
		}
		r.leader.mu.Unlock()
		require.Len(t, told, n)
		for d, rows := range told {
			require.EqualValues(t, 1, rows, "dispatcher %d", d)
		}
		require.EqualValues(t, n, r.leader.heartbeat().Dispatchers)
		require.NoError(t, r.stop())
		gone := make(map[fsm.DispatcherID]bool) // by the goodbye, or by a report that was acknowledged before
		for _, p := range r.leader.goodbyes[0].Stopped {
			gone[p.Dispatcher] = p.HasPosition
		}
		for _, p := range r.leader.reports {
			if p.What == fsm.ReportStopped {
				gone[p.Dispatcher] = p.HasPosition
			}
		}
		require.Len(t, gone, n)
		for d, positioned := range gone {
			require.True(t, positioned, "dispatcher %d", d)
		}
	})
}

func TestReportsAreRepeatedUntilAcknowledgedAlsoInTheNextSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		r := newRig(t, w, nil)
		r.leader.set(func() { r.leader.ackReports = false })
		r.leader.order(startOrder(1, 50))
		pass(3 * time.Second)
		r.leader.mu.Lock()
		raw := r.leader.raw
		r.leader.mu.Unlock()
		require.GreaterOrEqual(t, raw, 4)
		require.Zero(t, r.leader.heartbeat().SetHash, "nothing is in the set before its running is acknowledged")
		r.leader.current.Close()
		r.leader.set(func() { r.leader.ackReports = true })
		pass(time.Second)
		require.Equal(t, fsm.PairHash(1, 50), r.leader.heartbeat().SetHash)
		r.leader.mu.Lock()
		raw = r.leader.raw
		r.leader.mu.Unlock()
		pass(3 * time.Second)
		r.leader.mu.Lock()
		require.Equal(t, raw, r.leader.raw, "an acknowledged report is not repeated")
		r.leader.mu.Unlock()
		require.NoError(t, r.stop())
	})
}

func TestANewSessionRepeatsAtOnceWhatTheOldOneMayHaveLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(10, 1)), func(c *Config) { c.Limits.ReportRepeat = time.Hour })
		r.leader.set(func() { r.leader.ackReports = false })
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		r.leader.set(func() { r.leader.ackReports = true })
		r.leader.current.Close()
		pass(time.Second)
		require.Equal(t, fsm.PairHash(1, 50), r.leader.heartbeat().SetHash)
		require.NoError(t, r.stop())
	})
}

func TestOneHangingStartDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		release := make(chan struct{})
		hanging := 0
		w.hook(stageSinkOpen, func(context.Context, func() error) error {
			w.mu.Lock()
			hanging++
			mine := hanging <= 2
			w.mu.Unlock()
			if mine {
				<-release
			}
			return nil
		})
		r := newRig(t, w, func(c *Config) { c.Limits.ConcurrentStarts = 2 })
		r.leader.order(startOrder(1, 50), startOrder(2, 51), startOrder(3, 52), startOrder(4, 53))
		pass(time.Second)
		require.Equal(t, 2, w.count(stageSinkOpen))
		pass(2 * time.Second)
		running := 0
		for d := range fsm.DispatcherID(4) {
			running += len(r.leader.kinds(d+1, fsm.Epoch(50+d)))
		}
		require.Equal(t, 2, running)
		close(release)
		pass(time.Second)
		require.NoError(t, r.stop())
	})
}

func TestAStartHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		w.hook(stageClaim, func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() })
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(31 * time.Second)
		require.Equal(t, []fsm.ReportKind{fsm.ReportStartFailed}, r.leader.kinds(1, 50))
		require.Equal(t, ReasonStartTimeout, r.leader.reported(1, 50)[0].Reason)
		require.NoError(t, r.stop())
	})
}

func TestAskListIsAnsweredWithEverythingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(10, 1)), nil)
		r.leader.order(startOrder(2, 51), startOrder(1, 50))
		pass(time.Second)
		r.leader.say(session.FromLeader{AskList: &session.AskList{}})
		pass(time.Second)
		require.Equal(t, []session.List{{Pairs: []session.Pair{{Dispatcher: 1, Epoch: 50}, {Dispatcher: 2, Epoch: 51}}}}, r.leader.lists)
		require.NoError(t, r.stop())
	})
}

func tokens(es []effect) []Token {
	var out []Token
	for _, e := range es {
		out = append(out, e.token)
	}
	return out
}

func resumes(es []effect) []uint64 {
	var out []uint64
	for _, e := range es {
		out = append(out, e.resume.TS)
	}
	return out
}

func TestAGoodbyeForWhatHasEndedIsNoFailure(t *testing.T) {
	for _, code := range []string{codeStaleIncarnation, codeNodeExpired} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newWorld(), nil)
			r.leader.set(func() { r.leader.goodbyeErr = codeError(code) })
			require.NoError(t, r.stop())
			require.Len(t, r.leader.goodbyes, 1)
		})
	}
}

func TestAnOrderBeforeTheGateIsOpenWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		l := newLeader(t)
		l.acks = false
		r := newRig(t, w, func(c *Config) { c.Dialer = l })
		r.leader = l
		l.order(startOrder(1, 50))
		pass(300 * time.Millisecond)
		require.Zero(t, w.count(stageSinkOpen))
		require.Equal(t, "LEASE_NOT_YET_OPEN", l.heartbeat().GateReason)
		l.set(func() { l.acks = true })
		pass(time.Second)
		require.Equal(t, justRunning, l.kinds(1, 50))
		require.NoError(t, r.stop())
	})
}

func TestAConfigurationIsRefusedWithWhatToSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := newRig(t, newWorld(), nil)
		require.NoError(t, good.stop())
		for want, spoil := range map[string]func(c *Config){
			"Node, the lasting name": func(c *Config) { c.Node = "" },
			"Dialer is not set":      func(c *Config) { c.Dialer = nil },
			"Wall is not set":        func(c *Config) { c.Wall = nil },
			"LEASE_TOO_LONG":         func(c *Config) { c.Timing.Lease = time.Hour },
			"Limits.BatchRows is -1": func(c *Config) { c.Limits.BatchRows = -1 },
		} {
			cfg := good.node.cfg
			spoil(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, want)
		}
	})
}

func TestBackoffGrowsIsBoundedAndSpreads(t *testing.T) {
	least, most := 50*time.Millisecond, time.Second
	seen := make(map[time.Duration]bool)
	for n := 1; n < 100; n++ {
		d := backoff("n1", n, least, most)
		require.GreaterOrEqual(t, d, least/2)
		require.LessOrEqual(t, d, most)
		if n > 6 {
			require.GreaterOrEqual(t, d, most/2)
		}
		seen[d] = true
		require.Equal(t, d, backoff("n1", n, least, most))
	}
	require.Greater(t, len(seen), 50)
	require.NotEqual(t, backoff("n1", 7, least, most), backoff("n2", 7, least, most))
}
