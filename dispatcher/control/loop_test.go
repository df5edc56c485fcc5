package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

func TestASoundNodeIsAcknowledgedAndPlaced(t *testing.T) {
	inBubble(t, func(h *harness) {
		t := h.t
		h.feed("a", 4)
		n1, n2 := h.join("n1"), h.join("n2")
		h.pass(5 * time.Second)
		for id := range fsm.DispatcherID(4) {
			require.Equal(t, fsm.Running, h.dispatcher(id+1).Phase)
		}
		require.Equal(t, fsm.Running, h.dispatcher(5).Phase, "the changefeed's trigger")
		require.Len(t, n1.held, 3)
		require.Len(t, n2.held, 2)
		acks := n1.got(isAck)
		require.Greater(t, len(acks), 15, "one for each heartbeat")
		for i, m := range acks {
			require.Equal(t, uint64(1), m.Ack.Term)
			if i > 0 {
				require.Greater(t, m.Ack.Seq, acks[i-1].Ack.Seq)
				require.Greater(t, m.Ack.Index, acks[i-1].Ack.Index)
				require.Greater(t, m.Ack.ElapsedNS, uint64(100*time.Millisecond))
			}
		}
		require.Zero(t, acks[0].Ack.ElapsedNS)
		require.Empty(t, h.gaveUp())
		require.NoError(t, h.log.View().CheckInvariants())
		require.Zero(t, h.leader.Counters().ListsAsked)
	})
}
