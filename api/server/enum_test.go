package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// The server turns enums by their numbers. Each must mean the same on both sides, and neither side may have one more.
func TestEnumsMeanTheSameOnBothSides(t *testing.T) {
	for _, c := range []struct {
		prefix string
		wire   protoreflect.EnumDescriptor
		word   func(uint8) string
	}{
		{"PHASE_", weirv1.Phase(0).Descriptor(), func(v uint8) string { return fsm.Phase(v).String() }},
		{"OPERATOR_KIND_", weirv1.OperatorKind(0).Descriptor(), func(v uint8) string { return fsm.OperatorKind(v).String() }},
		{"OPERATOR_RESULT_", weirv1.OperatorResult(0).Descriptor(), func(v uint8) string { return fsm.OpResult(v).String() }},
		{"NODE_STATUS_", weirv1.NodeStatus(0).Descriptor(), func(v uint8) string { return fsm.NodeStatus(v).String() }},
		{"CHANGEFEED_STATUS_", weirv1.ChangefeedStatus(0).Descriptor(), func(v uint8) string { return fsm.ChangefeedStatus(v).String() }},
		{"REPORT_KIND_", weirv1.ReportKind(0).Descriptor(), func(v uint8) string { return fsm.ReportKind(v).String() }},
		{"INFLUENCE_", weirv1.Influence(0).Descriptor(), func(v uint8) string { return fsm.Influence(v).String() }},
		{"BARRIER_SAID_", weirv1.BarrierSaid(0).Descriptor(), func(v uint8) string { return fsm.BarrierSaid(v).String() }},
		{"BARRIER_STATUS_", weirv1.BarrierStatus(0).Descriptor(), func(v uint8) string { return fsm.BarrierStatus(v).String() }},
		{"BARRIER_RESULT_", weirv1.BarrierResult(0).Descriptor(), func(v uint8) string { return fsm.BarrierResult(v).String() }},
		{"BARRIER_ACTION_", weirv1.BarrierAction(0).Descriptor(), func(v uint8) string { return fsm.BarrierAction(v).String() }},
		{"BARRIER_DECISION_", weirv1.BarrierDecision(0).Descriptor(), func(v uint8) string { return fsm.BarrierDecision(v).String() }},
		{"ORDER_KIND_", weirv1.OrderKind(0).Descriptor(), func(v uint8) string { return fsm.OrderKind(v).String() }},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			values := c.wire.Values()
			for i := 1; i < values.Len(); i++ {
				name := strings.ToLower(strings.TrimPrefix(string(values.Get(i).Name()), c.prefix))
				require.Equal(t, strings.ReplaceAll(name, "_", "-"), c.word(uint8(values.Get(i).Number())))
			}
			require.Contains(t, c.word(uint8(values.Len())), "unknown", "the state machine has more values than the API")
		})
	}
	// Stages are shifted by one, since a missing stage has a meaning of its own.
	require.Equal(t, int(fsm.StageNone)+1, int(weirv1.Stage_STAGE_NONE))
	require.Equal(t, int(fsm.StageRows)+1, int(weirv1.Stage_STAGE_ROWS))
	require.Equal(t, int(fsm.StageDDL)+1, int(weirv1.Stage_STAGE_DDL))
	require.Equal(t, int(fsm.StageSyncPoint)+1, int(weirv1.Stage_STAGE_SYNC_POINT))
}
