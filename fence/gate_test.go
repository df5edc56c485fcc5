package fence_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateWorld is a gate under fake time.
type gateWorld struct {
	*fence.Gate
	t     *testing.T
	clock *clock.Skewed
	edges *[]fence.Edge
	stop  func()
}

func newGateWorld(t *testing.T, timers clock.Timers) *gateWorld {
	t.Helper()
	skewed := clock.NewSkewed(clock.NewBubble())
	var edges []fence.Edge
	g, err := fence.NewGate(fence.GateConfig{
		Lease:  fence.LeaseConfig{Incarnation: testNode, Lease: testLease, Class: clock.BootRaw},
		Clock:  skewed,
		Timers: timers,
		OnEdge: func(e fence.Edge) { edges = append(edges, e) },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	w := &gateWorld{Gate: g, t: t, clock: skewed, edges: &edges}
	w.stop = func() {
		cancel()
		require.NoError(t, <-done)
	}
	return w
}

// renew sends a heartbeat that is acknowledged at once.
func (w *gateWorld) renew() fence.AckResult {
	w.t.Helper()
	seq, err := w.Send()
	require.NoError(w.t, err)
	return w.Acked(ack(seq, 1))
}

func (w *gateWorld) kinds() []fence.EdgeKind {
	var out []fence.EdgeKind
	for _, e := range *w.edges {
		out = append(out, e.Kind)
	}
	return out
}

// neverFires makes timers that do not fire: the closing goroutine is as good as stopped.
type neverFires struct{ clock.SystemTimers }

func (n neverFires) NewTimer(time.Duration) clock.Timer {
	t := n.SystemTimers.NewTimer(time.Hour)
	t.Stop()
	return stoppedTimer{t}
}

type stoppedTimer struct{ clock.Timer }

func (stoppedTimer) Reset(time.Duration) {}

func TestGateCancelsWhatIsInFlightAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		defer w.stop()
		require.Equal(t, fence.AckOpened, w.renew())
		ctx, opening, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer release()
		require.EqualValues(t, 1, opening)

		time.Sleep(testLease / 2)
		require.Equal(t, fence.AckExtended, w.renew())
		time.Sleep(testLease - 1)
		synctest.Wait()
		require.NoError(t, ctx.Err(), "the renewal moved the deadline")
		require.NoError(t, w.AllowIn(opening, 0))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), fence.ErrLapsed)
		require.ErrorIs(t, w.Allow(0), fence.ErrLapsed)
		_, _, _, err = w.Bind(t.Context())
		require.ErrorIs(t, err, fence.ErrLapsed)

		require.Equal(t, fence.AckOpened, w.renew())
		again, opening, releaseAgain, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer releaseAgain()
		require.EqualValues(t, 2, opening)
		require.NoError(t, again.Err())
		require.Error(t, ctx.Err(), "the earlier opening stays over")
		require.Equal(t, []fence.EdgeKind{fence.EdgeOpened, fence.EdgeClosed, fence.EdgeOpened}, w.kinds())
		closed := (*w.edges)[1]
		require.Equal(t, fence.ReasonLapsed, closed.Reason)
		require.EqualValues(t, 1, closed.Opening)
		require.Equal(t, closed.Deadline, closed.At, "under fake time it is noticed at the deadline itself")
	})
}

// A stopped process: no goroutine runs while the clock goes on, and on resume a writer comes before the closer.
func TestReview_R04_TheWriteItselfComparesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, neverFires{})
		defer w.stop()
		require.Equal(t, fence.AckOpened, w.renew())
		ctx, opening, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer release()
		require.NoError(t, w.Allow(0))

		w.clock.Shift(testLease) // nothing of this process has run in between
		require.NoError(t, ctx.Err(), "nobody has noticed yet")
		require.ErrorIs(t, w.Allow(0), fence.ErrLapsed)
		require.ErrorIs(t, w.AllowIn(opening, 0), fence.ErrLapsed)
	})
}

// The ack of a later heartbeat may be handled before anybody notices that the lease was over.
func TestReview_R04_ALapseThatNobodyNoticedStillEndsTheOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, neverFires{})
		defer w.stop()
		require.Equal(t, fence.AckOpened, w.renew())
		ctx, opening, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer release()
		w.clock.Shift(testLease + time.Second)
		require.Equal(t, fence.AckOpened, w.renew())
		require.ErrorIs(t, context.Cause(ctx), fence.ErrLapsed)
		require.NoError(t, w.Allow(0))
		require.ErrorIs(t, w.AllowIn(opening, 0), fence.ErrReopened)
		require.Equal(t, []fence.EdgeKind{fence.EdgeOpened, fence.EdgeClosed, fence.EdgeOpened}, w.kinds())
		require.EqualValues(t, 1, (*w.edges)[1].Opening)
		require.EqualValues(t, 2, (*w.edges)[2].Opening)
	})
}

// A machine whose clock stands still with it: the leader's time shows it at the first ack after the resume.
func TestN3_AStalledClockFencesAtTheFirstAckAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		defer w.stop()
		require.Equal(t, fence.AckOpened, w.renew())
		ctx, _, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer release()
		w.clock.Stall()
		time.Sleep(3 * testLease)
		w.clock.Resume()
		require.NoError(t, w.Allow(0), "no clock of this machine can tell: only a sink's token check holds here")
		seq, err := w.Send()
		require.NoError(t, err)
		a := ack(seq, 1)
		a.Elapsed = 3 * testLease
		require.Equal(t, fence.AckStalled, w.Acked(a))
		require.ErrorIs(t, context.Cause(ctx), fence.ErrFenced)
		require.ErrorIs(t, w.Allow(0), fence.ErrFenced)
		require.Equal(t, []fence.EdgeKind{fence.EdgeOpened, fence.EdgeFenced}, w.kinds())
		require.Equal(t, fence.ReasonClockStall, (*w.edges)[1].Reason)
	})
}

func TestGateClosesInTimeWhenTheAckCameLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		defer w.stop()
		time.Sleep(testLease / 7) // out of step with the idle timer
		seq, err := w.Send()
		require.NoError(t, err)
		time.Sleep(testLease - testLease/20)
		require.Equal(t, fence.AckOpened, w.Acked(ack(seq, 1)))
		ctx, _, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer release()
		time.Sleep(testLease / 20)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), fence.ErrLapsed)
	})
}

func TestGateNoticesAClockThatRunsAheadOfItsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		defer w.stop()
		require.Equal(t, fence.AckOpened, w.renew())
		ctx, _, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer release()
		synctest.Wait() // the timer is armed for the whole lease
		w.clock.Shift(testLease)
		time.Sleep(testLease / 4)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), fence.ErrLapsed)
	})
}

func TestGateWaitersSeeTheOpeningAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		defer w.stop()
		type result struct {
			opening uint64
			err     error
		}
		results := make(chan result, 1)
		wait := func(ctx context.Context) {
			go func() {
				o, err := w.WaitOpen(ctx)
				results <- result{o, err}
			}()
			synctest.Wait()
		}
		wait(t.Context())
		require.Empty(t, results)
		w.renew()
		require.Equal(t, result{opening: 1}, <-results)

		time.Sleep(testLease)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx)
		cancel()
		require.ErrorIs(t, (<-results).err, context.Canceled)

		wait(t.Context())
		w.Fence(fence.ReasonExpired)
		require.ErrorIs(t, (<-results).err, fence.ErrFenced)
		_, err := w.Send()
		require.ErrorIs(t, err, fence.ErrFenced)
		require.Equal(t, fence.Fenced, w.State().State)
	})
}

func TestGateEndOfRunFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		w.renew()
		ctx, _, release, err := w.Bind(t.Context())
		require.NoError(t, err)
		w.stop()
		require.ErrorIs(t, context.Cause(ctx), fence.ErrFenced)
		require.Equal(t, fence.ReasonShutdown, w.State().Reason)
		release()
		w.Fence(fence.ReasonReplaced)
		require.Equal(t, fence.ReasonShutdown, w.State().Reason, "the first reason stays")
		require.Equal(t, []fence.EdgeKind{fence.EdgeOpened, fence.EdgeFenced}, w.kinds(), "it is announced once")
	})
}

func TestGateReleaseEndsOnlyItsOwnWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGateWorld(t, clock.SystemTimers{})
		defer w.stop()
		w.renew()
		one, _, releaseOne, err := w.Bind(t.Context())
		require.NoError(t, err)
		two, _, releaseTwo, err := w.Bind(t.Context())
		require.NoError(t, err)
		defer releaseTwo()
		require.Equal(t, 2, w.InFlight())
		releaseOne()
		releaseOne()
		require.ErrorIs(t, one.Err(), context.Canceled)
		require.NoError(t, two.Err())
		require.Equal(t, 1, w.InFlight())
		w.SawTerm(7)
		require.EqualValues(t, 7, w.State().Term)
		require.Equal(t, testNode, w.Incarnation())
	})
}

func TestGateRefusesAClockWorseThanItsRegistration(t *testing.T) {
	cfg := fence.GateConfig{
		Lease:  fence.LeaseConfig{Incarnation: 1, Lease: time.Second, Class: clock.BootRaw},
		Clock:  unclassed{},
		Timers: clock.SystemTimers{},
	}
	var setting *fence.SettingError
	_, err := fence.NewGate(cfg)
	require.ErrorAs(t, err, &setting)
	require.Equal(t, fence.CodeUnknownClass, setting.Code)
	cfg.Lease.Class = clock.Monotonic
	_, err = fence.NewGate(cfg)
	require.NoError(t, err)
	cfg.Timers = nil
	_, err = fence.NewGate(cfg)
	require.ErrorAs(t, err, &setting)
	require.Equal(t, fence.CodeNoClock, setting.Code)
}

type unclassed struct{}

func (unclassed) Now() clock.Reading { return clock.Reading{} }

func TestAllowAllocatesNothing(t *testing.T) {
	g, err := fence.NewGate(fence.GateConfig{
		Lease:  fence.LeaseConfig{Incarnation: testNode, Lease: testLease, Class: clock.Monotonic},
		Clock:  clock.System(),
		Timers: clock.SystemTimers{},
	})
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = g.Allow(0) }))
	seq, err := g.Send()
	require.NoError(t, err)
	require.Equal(t, fence.AckOpened, g.Acked(ack(seq, 1)))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = g.Allow(time.Millisecond) }))
}

func BenchmarkGateAllow(b *testing.B) {
	g, err := fence.NewGate(fence.GateConfig{
		Lease:  fence.LeaseConfig{Incarnation: testNode, Lease: fence.MaxLease, Class: clock.Monotonic},
		Clock:  clock.System(),
		Timers: clock.SystemTimers{},
	})
	require.NoError(b, err)
	seq, err := g.Send()
	require.NoError(b, err)
	require.Equal(b, fence.AckOpened, g.Acked(ack(seq, 1)))
	b.ReportAllocs()
	for b.Loop() {
		_ = g.Allow(0)
	}
}
