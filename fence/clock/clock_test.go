package clock_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence/clock"
)

func TestElapsedTakesTheSideThatIsSafe(t *testing.T) {
	from := clock.Reading{Boot: 100, Raw: 1000}
	for name, c := range map[string]struct {
		to       clock.Reading
		max, min time.Duration
	}{
		"both alike":           {clock.Reading{Boot: 107, Raw: 1007}, 7, 7},
		"suspended":            {clock.Reading{Boot: 150, Raw: 1007}, 50, 7},
		"slewed down":          {clock.Reading{Boot: 105, Raw: 1007}, 7, 5},
		"no time":              {from, 0, 0},
		"one went back":        {clock.Reading{Boot: 90, Raw: 1007}, 7, 0},
		"read before the from": {clock.Reading{Boot: 90, Raw: 990}, -10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.max, clock.MaxElapsed(from, c.to))
			require.Equal(t, c.min, clock.MinElapsed(from, c.to))
		})
	}
}

func TestRegressed(t *testing.T) {
	from := clock.Reading{Boot: 100, Raw: 1000}
	require.False(t, from.Regressed(from))
	require.False(t, from.Add(1).Regressed(from))
	require.True(t, clock.Reading{Boot: 99, Raw: 1001}.Regressed(from))
	require.True(t, clock.Reading{Boot: 101, Raw: 999}.Regressed(from))
}

func TestLaterTakesEachClock(t *testing.T) {
	require.Equal(t, clock.Reading{Boot: 5, Raw: 9}, clock.Later(clock.Reading{Boot: 5, Raw: 7}, clock.Reading{Boot: 4, Raw: 9}))
}

func TestClasses(t *testing.T) {
	require.EqualValues(t, 1, clock.BootRaw, "on the wire and in the log")
	require.EqualValues(t, 2, clock.Monotonic, "on the wire and in the log")
	require.EqualValues(t, 1_000, clock.BootRaw.Drift())
	require.EqualValues(t, 100_000, clock.Monotonic.Drift())
	require.Equal(t, clock.WorstDrift, clock.Class(0).Drift())
	require.True(t, clock.BootRaw.Valid())
	require.False(t, clock.Class(0).Valid())
	require.Equal(t, "class(9)", clock.Class(9).String())
	require.Equal(t, clock.Monotonic, clock.ClassOf(bare{}), "who does not say is taken for the worst")
	require.Equal(t, clock.BootRaw, clock.ClassOf(clock.NewSkewed(&clock.Manual{})))
}

type bare struct{}

func (bare) Now() clock.Reading { return clock.Reading{} }

func TestScalingAgreesWithBigIntegers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 10_000 {
		d := time.Duration(rng.Int64() >> rng.IntN(63))
		num, den := clock.PPM(rng.Int64N(2_000_000)), clock.PPM(1+rng.Int64N(2_000_000))
		product := new(big.Int).Mul(big.NewInt(int64(d)), big.NewInt(int64(num)))
		down, rest := new(big.Int).QuoRem(product, big.NewInt(int64(den)), new(big.Int))
		up := new(big.Int).Set(down)
		if rest.Sign() > 0 {
			up.Add(up, big.NewInt(1))
		}
		require.Equal(t, clamp(down), clock.ScaleDown(d, num, den), "%d*%d/%d, seed %d", d, num, den, seed)
		require.Equal(t, clamp(up), clock.ScaleUp(d, num, den), "%d*%d/%d, seed %d", d, num, den, seed)
	}
}

func clamp(n *big.Int) time.Duration {
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(n.Int64())
}

func TestSystemClockAdvancesAndNeverRegresses(t *testing.T) {
	c := clock.System()
	require.Equal(t, c.Class(), clock.ClassOf(c))
	first := c.Now()
	last := first
	for range 1000 {
		now := c.Now()
		require.False(t, now.Regressed(last))
		last = now
	}
	require.Positive(t, clock.MaxElapsed(first, last))
	require.Zero(t, testing.AllocsPerRun(100, func() { last = c.Now() }))
}

func TestBubbleFollowsFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := clock.NewBubble()
		from := b.Now()
		require.Positive(t, from.Boot, "zero stays free for never")
		time.Sleep(3 * time.Second)
		require.Equal(t, from.Add(3*time.Second), b.Now())
	})
}

func TestSkewedClock(t *testing.T) {
	base := &clock.Manual{}
	base.Advance(time.Hour)
	s := clock.NewSkewed(base)
	require.Equal(t, base.Now(), s.Now(), "sound until told otherwise")

	s.SetRate(100_000)
	base.Advance(10 * time.Second)
	fast := base.Now().Add(time.Second)
	require.Equal(t, fast, s.Now(), "11 s for 10 s")

	s.SetRate(-500_000)
	base.Advance(10 * time.Second)
	require.Equal(t, fast.Add(5*time.Second), s.Now(), "a change of rate does not jump")

	s.SetRate(0)
	s.Stall()
	base.Advance(time.Minute)
	require.Equal(t, fast.Add(5*time.Second), s.Now(), "it stands still")
	s.Resume()
	base.Advance(time.Second)
	require.Equal(t, fast.Add(6*time.Second), s.Now(), "and never catches up")

	s.Shift(-10 * time.Second)
	require.Equal(t, fast.Add(-4*time.Second), s.Now())
	base.AdvanceBoth(time.Minute, 0)
	require.Equal(t, fast.Boot-4*time.Second+time.Minute, s.Now().Boot)
	require.Equal(t, fast.Raw-4*time.Second, s.Now().Raw)
}

func TestTimersFollowFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers clock.Timers = clock.SystemTimers{}
		start := time.Now()
		timer := timers.NewTimer(time.Minute)
		require.True(t, timer.Stop())
		timer.Reset(2 * time.Second)
		<-timer.C()
		require.Equal(t, 2*time.Second, time.Since(start))
		require.False(t, timer.Stop())

		ticker := timers.NewTicker(time.Second)
		<-ticker.C()
		ticker.Reset(5 * time.Second)
		<-ticker.C()
		ticker.Stop()
		require.Equal(t, 8*time.Second, time.Since(start))
		require.Equal(t, time.Now(), clock.Wall())
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, clock.Sleep(t.Context(), clock.SystemTimers{}, time.Second))
		require.Equal(t, time.Second, time.Since(start))
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		require.ErrorIs(t, clock.Sleep(ctx, clock.SystemTimers{}, time.Hour), why)
	})
}

func BenchmarkSystemNow(b *testing.B) {
	c := clock.System()
	b.ReportAllocs()
	for b.Loop() {
		_ = c.Now()
	}
}
