package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// TestMovesOnTheirWayCountAgainstTheDestinationsLimit: else a crowd of Moves would be admitted one by one past a limit that
// none of them has reached yet.
func TestMovesOnTheirWayCountAgainstTheDestinationsLimit(t *testing.T) {
	c := newCluster(t, 3)
	for d := fsm.DispatcherID(1); d <= 3; d++ {
		c.runs(d, "n1")
	}
	policy := fsm.DefaultPolicy()
	policy.MaxPlacementsPerNode = 2
	c.ok(&fsm.SetPolicy{Policy: policy})
	move := func(d fsm.DispatcherID) fsm.Verdict {
		return c.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: d, From: "n1", To: "n2"})
	}
	require.True(t, move(1).OK())
	second := move(2)
	require.True(t, second.OK())
	refused := move(3)
	require.Equal(t, fsm.LimitReached, refused.Reason, "n2 has nothing yet, and two are on their way")
	require.Equal(t, fsm.NodeName("n2"), refused.Facts.Node)
	require.Equal(t, uint64(2), refused.Facts.Have)

	// A placed Move counts once, a cancelled one no more.
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 20))
	require.Equal(t, fsm.LimitReached, move(3).Reason)
	c.ok(&fsm.CancelOperator{Op: second.Facts.Operator})
	require.True(t, move(3).OK())
}

func TestADropOfNothingIsMalformed(t *testing.T) {
	c := newCluster(t, 1)
	c.unchanged(func() { require.Equal(t, fsm.Malformed, c.do(&fsm.DropTables{Changefeed: "shop"}).Reason) })
}
