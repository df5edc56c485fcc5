package fence_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
)

func TestWaitCoversASlowNodeAndAFastServer(t *testing.T) {
	for name, c := range map[string]struct {
		lease        time.Duration
		node, server clock.Class
		want         time.Duration
	}{
		"good clocks":            {2 * time.Second, clock.BootRaw, clock.BootRaw, 2_004_004_005},
		"slewed node":            {2 * time.Second, clock.Monotonic, clock.BootRaw, 2_224_444_445},
		"slewed server":          {2 * time.Second, clock.BootRaw, clock.Monotonic, 2_202_202_203},
		"both slewed":            {2 * time.Second, clock.Monotonic, clock.Monotonic, 2_444_444_445},
		"unknown class is worst": {2 * time.Second, 77, clock.BootRaw, 2_224_444_445},
		"no lease":               {0, clock.BootRaw, clock.BootRaw, 0},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, fence.Wait(c.lease, c.node, c.server))
		})
	}
	require.Equal(t, 36_666_666_667*time.Nanosecond, fence.MaxWait())
	require.Greater(t, fence.Wait(-1, clock.BootRaw, clock.BootRaw), time.Hour*24*365, "nonsense is never waited out")
}

func TestDefaultTimingHolds(t *testing.T) {
	d := fence.DefaultTiming()
	require.NoError(t, d.Validate())
	require.Equal(t, 2*time.Second, d.Lease)
	require.Equal(t, 250*time.Millisecond, d.Heartbeat)
	require.Equal(t, 100*time.Millisecond, d.Tick)
	require.False(t, d.PausesAtLeaderChange())
	require.Equal(t, time.Second, d.LeaderGivesUpAfter())
	require.Equal(t, 4*time.Second, d.SilenceAfter())

	fast := fence.FastTiming()
	require.NoError(t, fast.Validate())
	require.Equal(t, time.Second, fast.Lease)
	require.True(t, fast.PausesAtLeaderChange(), "to be said at start")
	require.Less(t, fast.FailoverWithin(clock.BootRaw, clock.BootRaw), d.FailoverWithin(clock.BootRaw, clock.BootRaw))
}

func TestTimingRefusesWhatBreaksTheProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*fence.Timing)
		code, setting string
	}{
		"no lease":           {func(t *fence.Timing) { t.Lease = 0 }, fence.CodePeriodNotPositive, "Lease"},
		"no heartbeat":       {func(t *fence.Timing) { t.Heartbeat = 0 }, fence.CodePeriodNotPositive, "Heartbeat"},
		"negative tick":      {func(t *fence.Timing) { t.Tick = -1 }, fence.CodePeriodNotPositive, "Tick"},
		"negative allowance": {func(t *fence.Timing) { t.Commit = -1 }, fence.CodeNegativeAllowance, "Commit"},
		"beyond the maximum": {func(t *fence.Timing) { t.Lease = fence.MaxLease + 1 }, fence.CodeLeaseTooLong, "Lease"},
		"slow heartbeat":     {func(t *fence.Timing) { t.Heartbeat = 1500 * time.Millisecond }, fence.CodeLeaseTooShort, "Lease"},
		"slow commit":        {func(t *fence.Timing) { t.Commit = 1401 * time.Millisecond }, fence.CodeLeaseTooShort, "Lease"},
	} {
		t.Run(name, func(t *testing.T) {
			timing := fence.DefaultTiming()
			c.change(&timing)
			var setting *fence.SettingError
			require.ErrorAs(t, timing.Validate(), &setting)
			require.Equal(t, c.code, setting.Code)
			require.Equal(t, c.setting, setting.Setting)
			require.Contains(t, setting.Error(), "set ")
		})
	}
	edge := fence.DefaultTiming()
	edge.Commit = 1400 * time.Millisecond
	require.NoError(t, edge.Validate(), "exactly what is needed is enough")
}

func TestWriteTimeOfAnUnfencedSinkMustFitIntoTheLease(t *testing.T) {
	d := fence.DefaultTiming()
	room := d.Lease - d.Needed()
	require.NoError(t, d.CheckWriteTime(0))
	require.NoError(t, d.CheckWriteTime(room))
	for _, w := range []time.Duration{room + 1, time.Minute, -1} {
		var setting *fence.SettingError
		require.ErrorAs(t, d.CheckWriteTime(w), &setting)
		require.Equal(t, fence.CodeWriteTimeTooLong, setting.Code)
	}
}
