package fence_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
)

// Every value has a name of its own, zero and unknown ones show as what they are.
func TestNamesAreDistinct(t *testing.T) {
	for name, values := range map[string][]fmt.Stringer{
		"state": {fence.Closed, fence.Open, fence.Fenced},
		"reason": {
			fence.ReasonNone, fence.ReasonNotYetOpen, fence.ReasonLapsed, fence.ReasonExpired, fence.ReasonClockStall,
			fence.ReasonClockBack, fence.ReasonReplaced, fence.ReasonShutdown,
		},
		"ack": {
			fence.AckExtended, fence.AckOpened, fence.AckLate, fence.AckOld, fence.AckOldTerm, fence.AckForeign,
			fence.AckStalled, fence.AckFenced,
		},
		"heard": {fence.HeardCounted, fence.HeardOld, fence.HeardSilenced, fence.HeardRefused},
		"edge":  {fence.EdgeOpened, fence.EdgeClosed, fence.EdgeFenced},
	} {
		seen := make(map[string]bool)
		for _, v := range values {
			require.False(t, seen[v.String()], "%s %q twice", name, v)
			require.NotContains(t, v.String(), "(")
			seen[v.String()] = true
		}
	}
	require.Equal(t, "state(0)", fence.State(0).String())
	require.Equal(t, "reason(99)", fence.Reason(99).String())
	require.Equal(t, "ack(99)", fence.AckResult(99).String())
	require.Equal(t, "heard(99)", fence.HeardResult(99).String())
	require.Equal(t, "edge(99)", fence.EdgeKind(99).String())
}
