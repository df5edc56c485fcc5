package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// TestTheStateMachineAndTheLeaseProtocolAgree compares what both have to know and neither may import from the other: the
// longest lease, from which the longest wait follows, and the numbers of clock classes.
func TestTheStateMachineAndTheLeaseProtocolAgree(t *testing.T) {
	require.Equal(t, fence.MaxLease, fsm.MaxLeaseMS*time.Millisecond)
	require.EqualValues(t, clock.BootRaw, fsm.ClockBootRaw)
	require.EqualValues(t, clock.Monotonic, fsm.ClockMonotonic)
	for _, timing := range []fence.Timing{fence.DefaultTiming(), fence.FastTiming()} {
		require.NoError(t, timing.Validate())
		require.GreaterOrEqual(t, timing.Lease, fsm.MinLeaseMS*time.Millisecond)
	}
}

func TestEverySourceAndSinkIsNamedByItsScheme(t *testing.T) {
	p, err := newPipes(clock.System(), clock.SystemTimers{})
	require.NoError(t, err)
	_, err = p.Source("wal2json:/log")
	require.NoError(t, err)
	sink, err := p.Sink("sqlite:/db")
	require.NoError(t, err)
	require.True(t, sink.Properties().Fenced)
	var stop *dispatcher.StopError
	_, err = p.Source("kafka:topic")
	require.ErrorAs(t, err, &stop)
	require.Equal(t, "UNSUPPORTED_SOURCE", stop.Reason)
	_, err = p.Sink("oracle:x")
	require.ErrorAs(t, err, &stop)
	require.Equal(t, "UNSUPPORTED_SINK", stop.Reason)
	require.ErrorContains(t, err, "sqlite:PATH")
}
