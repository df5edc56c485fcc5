package fence_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
)

const (
	testLease = 2 * time.Second
	testNode  = uint64(5)
)

// at is the reading a time after an arbitrary origin; the two clocks have different ones.
func at(d time.Duration) clock.Reading {
	return clock.Reading{Boot: time.Hour + d, Raw: 3*time.Hour + d}
}

func newLease(t *testing.T) *fence.Lease {
	t.Helper()
	l, err := fence.NewLease(fence.LeaseConfig{Incarnation: testNode, Lease: testLease, Class: clock.BootRaw})
	require.NoError(t, err)
	return l
}

func send(t *testing.T, l *fence.Lease, d time.Duration) uint64 {
	t.Helper()
	seq, err := l.Send(at(d))
	require.NoError(t, err)
	return seq
}

func ack(seq, term uint64) fence.Ack {
	return fence.Ack{Incarnation: testNode, Seq: seq, Term: term, LeaderClass: clock.BootRaw}
}

// opened is a lease whose first heartbeat was sent at 0 and acknowledged at 10 ms.
func opened(t *testing.T) *fence.Lease {
	t.Helper()
	l := newLease(t)
	require.Equal(t, fence.AckOpened, l.Acked(ack(send(t, l, 0), 1), at(10*time.Millisecond)))
	return l
}

func TestLeaseStartsClosed(t *testing.T) {
	l := newLease(t)
	require.ErrorIs(t, l.Check(at(0), 0), fence.ErrNotYetOpen)
	require.Zero(t, l.Remaining(at(0)))
	s := l.State(at(0))
	require.Equal(t, fence.Closed, s.State)
	require.Equal(t, fence.ReasonNotYetOpen, s.Reason)
}

func TestN1_DeadlineCountsFromTheSend(t *testing.T) {
	l := newLease(t)
	seq := send(t, l, 0)
	require.Equal(t, fence.AckOpened, l.Acked(ack(seq, 1), at(1900*time.Millisecond)), "a slow ack still opens")
	require.NoError(t, l.Check(at(testLease-1), 0))
	require.ErrorIs(t, l.Check(at(testLease), 0), fence.ErrLapsed, "at the deadline itself it is over")
	require.Equal(t, 100*time.Millisecond, l.Remaining(at(1900*time.Millisecond)))
}

func TestN1_TheLargerElapsedTimeOfTheTwoClocksCounts(t *testing.T) {
	l := opened(t)
	suspended := at(time.Second)
	suspended.Boot += time.Second
	require.ErrorIs(t, l.Check(suspended, 0), fence.ErrLapsed, "a suspend moves only the boot clock")
	slewed := at(time.Second)
	slewed.Raw += time.Second
	require.ErrorIs(t, l.Check(slewed, 0), fence.ErrLapsed, "a boot clock slewed down leaves the raw one")
}

func TestN1_AcksThatDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		ack  func(newest uint64) fence.Ack
		want fence.AckResult
	}{
		"other incarnation":      {func(s uint64) fence.Ack { a := ack(s, 3); a.Incarnation++; return a }, fence.AckForeign},
		"heartbeat never sent":   {func(s uint64) fence.Ack { return ack(s+1, 3) }, fence.AckForeign},
		"heartbeat zero":         {func(uint64) fence.Ack { return ack(0, 3) }, fence.AckForeign},
		"older term than seen":   {func(s uint64) fence.Ack { return ack(s, 2) }, fence.AckOldTerm},
		"same heartbeat again":   {func(s uint64) fence.Ack { return ack(s-1, 3) }, fence.AckOld},
		"older one after newer":  {func(s uint64) fence.Ack { return ack(s-2, 3) }, fence.AckOld},
		"newer one of same term": {func(s uint64) fence.Ack { return ack(s, 3) }, fence.AckExtended},
		"newer one of next term": {func(s uint64) fence.Ack { return ack(s, 4) }, fence.AckExtended},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLease(t)
			send(t, l, 0)
			second := send(t, l, 250*time.Millisecond)
			third := send(t, l, 500*time.Millisecond)
			require.Equal(t, fence.AckOpened, l.Acked(ack(second, 3), at(510*time.Millisecond)))
			require.Equal(t, c.want, l.Acked(c.ack(third), at(520*time.Millisecond)))
			deadline := 250*time.Millisecond + testLease
			if c.want == fence.AckExtended {
				deadline = 500*time.Millisecond + testLease
			}
			require.NoError(t, l.Check(at(deadline-1), 0))
			require.ErrorIs(t, l.Check(at(deadline), 0), fence.ErrLapsed)
		})
	}
}

func TestN1_SawTermRefusesAcksOfOlderLeaders(t *testing.T) {
	l := opened(t)
	l.SawTerm(9)
	l.SawTerm(4)
	seq := send(t, l, time.Second)
	require.Equal(t, fence.AckOldTerm, l.Acked(ack(seq, 8), at(1010*time.Millisecond)))
	require.Equal(t, fence.AckExtended, l.Acked(ack(seq, 9), at(1020*time.Millisecond)))
}

func TestN2_WritesStopTheirOwnLengthEarly(t *testing.T) {
	l := opened(t)
	w := 300 * time.Millisecond
	require.NoError(t, l.Check(at(testLease-w-1), w))
	require.ErrorIs(t, l.Check(at(testLease-w), w), fence.ErrMargin)
	require.NoError(t, l.Check(at(testLease-w), 0), "a sink that checks tokens may go on")
	require.ErrorIs(t, l.Check(at(testLease), w), fence.ErrLapsed)
	require.ErrorIs(t, l.Check(at(0), math.MaxInt64), fence.ErrMargin, "no overflow opens the gate")
	require.ErrorIs(t, l.Check(at(testLease), -time.Hour), fence.ErrLapsed, "a negative length gives nothing")
}

func TestN3_LeaderTimeThatTheNodeDidNotSeeMeansAStalledClock(t *testing.T) {
	l := opened(t)
	seq := send(t, l, 250*time.Millisecond)
	a := ack(seq, 1)
	a.Elapsed = 5 * time.Second
	require.Equal(t, fence.AckStalled, l.Acked(a, at(260*time.Millisecond)))
	require.ErrorIs(t, l.Check(at(261*time.Millisecond), 0), fence.ErrFenced)
	require.Equal(t, fence.ReasonClockStall, l.State(at(261*time.Millisecond)).Reason)
	_, err := l.Send(at(time.Second))
	require.ErrorIs(t, err, fence.ErrFenced)
}

func TestN3_StallDetectionIgnoresDelaysOfTheNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		elapsed time.Duration
		term    uint64
		class   clock.Class
		want    fence.AckResult
	}{
		"within own time":                        {250 * time.Millisecond, 1, clock.BootRaw, fence.AckExtended},
		"up to receipt, from the earlier send":   {505 * time.Millisecond, 1, clock.BootRaw, fence.AckExtended},
		"beyond the allowance":                   {530 * time.Millisecond, 1, clock.BootRaw, fence.AckStalled},
		"a leader with a slewed clock runs fast": {530 * time.Millisecond, 1, clock.Monotonic, fence.AckExtended},
		"of unknown class is taken for that":     {530 * time.Millisecond, 1, 0, fence.AckExtended},
		"another leader measures from its own":   {time.Minute, 2, clock.BootRaw, fence.AckExtended},
		"first ack of a leader carries nothing":  {0, 1, clock.BootRaw, fence.AckExtended},
	} {
		t.Run(name, func(t *testing.T) {
			l := opened(t)
			a := ack(send(t, l, 250*time.Millisecond), c.term)
			a.Elapsed, a.LeaderClass = c.elapsed, c.class
			require.Equal(t, c.want, l.Acked(a, at(500*time.Millisecond)))
		})
	}
}

func TestN3_AClockThatGoesBackFences(t *testing.T) {
	l := opened(t)
	back := at(time.Second)
	back.Raw = at(0).Raw - 1
	_, err := l.Send(back)
	require.ErrorIs(t, err, fence.ErrFenced)
	require.Equal(t, fence.ReasonClockBack, l.State(at(time.Second)).Reason)
}

func TestN4_AckOfALaterHeartbeatReopens(t *testing.T) {
	l := opened(t)
	seq := send(t, l, testLease+time.Second)
	require.Equal(t, fence.Closed, l.State(at(testLease+time.Second)).State)
	require.Equal(t, fence.ReasonLapsed, l.State(at(testLease+time.Second)).Reason)
	first := l.Opening()
	require.Equal(t, fence.AckOpened, l.Acked(ack(seq, 1), at(testLease+1010*time.Millisecond)))
	now := at(testLease + 1011*time.Millisecond)
	require.NoError(t, l.Check(now, 0))
	require.ErrorIs(t, l.CheckIn(first, now, 0), fence.ErrReopened, "the claim of before the pause is not good any more")
	require.NoError(t, l.CheckIn(l.Opening(), now, 0))
}

func TestN4_AnAckWhoseLeaseIsOverReopensNothing(t *testing.T) {
	for name, received := range map[string]time.Duration{
		"at its deadline":              250*time.Millisecond + testLease,
		"long after":                   time.Minute,
		"when it is not kept any more": time.Minute + time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			l := opened(t)
			seq := send(t, l, 250*time.Millisecond)
			if received > time.Minute {
				send(t, l, received-time.Millisecond) // forgets those that are over
			}
			require.Equal(t, fence.AckLate, l.Acked(ack(seq, 1), at(received)))
			require.ErrorIs(t, l.Check(at(received), 0), fence.ErrLapsed)
		})
	}
}

func TestFencedLeaseNeverOpensAgain(t *testing.T) {
	l := opened(t)
	seq := send(t, l, 100*time.Millisecond)
	require.True(t, l.Fence(fence.ReasonExpired))
	require.False(t, l.Fence(fence.ReasonShutdown), "the first reason stays")
	now := at(110 * time.Millisecond)
	require.Equal(t, fence.AckFenced, l.Acked(ack(seq, 1), now))
	require.ErrorIs(t, l.Check(now, 0), fence.ErrFenced)
	s := l.State(now)
	require.Equal(t, fence.Fenced, s.State)
	require.Equal(t, fence.ReasonExpired, s.Reason)
	require.Zero(t, s.Remaining)
	require.Zero(t, l.Remaining(now))
}

func TestLeaseKeepsABoundedNumberOfHeartbeats(t *testing.T) {
	l := newLease(t)
	const many = 10_000
	for range many {
		send(t, l, 0) // the clock stands still: none is over
	}
	require.Equal(t, fence.AckLate, l.Acked(ack(1, 1), at(1)), "the oldest has given way")
	require.Equal(t, fence.AckOpened, l.Acked(ack(many, 1), at(2)))
}

func TestLeaseRefusesABadRegistration(t *testing.T) {
	good := fence.LeaseConfig{Incarnation: 1, Lease: time.Second, Class: clock.BootRaw}
	for name, c := range map[string]struct {
		change func(*fence.LeaseConfig)
		code   string
	}{
		"no incarnation":  {func(c *fence.LeaseConfig) { c.Incarnation = 0 }, fence.CodeNoIncarnation},
		"no lease":        {func(c *fence.LeaseConfig) { c.Lease = 0 }, fence.CodeLeaseTooShort},
		"lease too long":  {func(c *fence.LeaseConfig) { c.Lease = fence.MaxLease + 1 }, fence.CodeLeaseTooLong},
		"unknown class":   {func(c *fence.LeaseConfig) { c.Class = 9 }, fence.CodeUnknownClass},
		"negative jitter": {func(c *fence.LeaseConfig) { c.Jitter = -1 }, fence.CodeNegativeAllowance},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			_, err := fence.NewLease(cfg)
			var setting *fence.SettingError
			require.ErrorAs(t, err, &setting)
			require.Equal(t, c.code, setting.Code)
		})
	}
	_, err := fence.NewLease(good)
	require.NoError(t, err)
}

func TestCheckAllocatesNothing(t *testing.T) {
	l := opened(t)
	inside, outside := at(time.Second), at(time.Minute)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = l.Check(inside, time.Millisecond) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = l.Check(outside, 0) }))
}

func BenchmarkLeaseCheck(b *testing.B) {
	l, err := fence.NewLease(fence.LeaseConfig{Incarnation: testNode, Lease: testLease, Class: clock.BootRaw})
	require.NoError(b, err)
	seq, err := l.Send(at(0))
	require.NoError(b, err)
	require.Equal(b, fence.AckOpened, l.Acked(ack(seq, 1), at(1)))
	now := at(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		if l.Check(now, time.Millisecond) != nil {
			b.Fatal("refused")
		}
	}
}
