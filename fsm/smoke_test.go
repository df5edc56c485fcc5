package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheFirstMoveOfAllMoves walks one dispatcher through Add and Move and back to absent.
func TestTheFirstMoveOfAllMoves(t *testing.T) {
	s := New()
	index := uint64(0)
	do := func(c Command) Verdict {
		t.Helper()
		index++
		v := s.Apply(Entry{Index: index, Term: 1, Proposals: []Proposal{{Term: 1, By: "test", Command: c}}})[0]
		require.NoError(t, s.CheckInvariants())
		return v
	}
	ok := func(c Command) Verdict {
		t.Helper()
		v := do(c)
		require.Equal(t, Accepted, v.Reason, "%+v", v)
		return v
	}
	ok(&BeginTerm{Server: "s1"})
	require.Equal(t, NotBootstrapped, do(&RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1}).Reason)
	ok(&BeginGeneration{Generation: 7, Cluster: "c", Why: GenerationBootstrap})
	n1 := ok(&RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1}).Facts.Incarnation
	n2 := ok(&RegisterNode{Node: "n2", LeaseMS: 2000, ClockClass: 1, Protocol: 1}).Facts.Incarnation
	require.Equal(t, "7.1", n1.String())
	ok(&CreateChangefeed{Name: "f", Source: "a:b", Sink: "c:d", SinkFenced: true, Tables: []TableSpec{{Name: "t", SplitKeys: []string{"k"}}}})
	add := ok(&AdmitOperator{Op: OpAdd, Dispatcher: 1, To: "n1"})
	lost := do(&AdmitOperator{Op: OpMove, Dispatcher: 1, To: "n2"})
	require.Equal(t, OperatorExists, lost.Reason)
	require.Equal(t, add.Facts.Operator, lost.Facts.Operator)

	report := func(n NodeName, inc Incarnation, what ReportKind) {
		row, _ := s.Dispatcher(1)
		ok(&ReportPlacements{Node: n, Incarnation: inc, Reports: []PlacementReport{{
			PlacementPosition: PlacementPosition{Dispatcher: 1, Epoch: row.Epoch, HasPosition: true, Position: At(index)}, What: what,
		}}})
	}
	report("n1", n1, ReportRunning)
	require.Equal(t, uint32(1), s.Load(n1).Set)
	ok(&AdmitOperator{Op: OpMove, Dispatcher: 1, From: "n1", To: "n2"})
	report("n1", n1, ReportStopped)
	for o := range s.Orders(n2) {
		require.Equal(t, OrderStart, o.Kind)
		require.Equal(t, At(10), o.Work.Start)
	}
	report("n2", n2, ReportRunning)
	row, _ := s.Dispatcher(1)
	require.Equal(t, Running, row.Phase)
	tick := ok(&Tick{Base: n1, Bits: []byte{3}})
	node, _ := s.Node("n2")
	require.Equal(t, tick.Index, node.LastTick)
	require.Equal(t, StaleExpire, do(&ExpireNode{Node: "n2", Incarnation: n2, ExpectTick: 1}).Reason)
	ok(&ExpireNode{Node: "n2", Incarnation: n2, ExpectTick: tick.Index})
	row, _ = s.Dispatcher(1)
	require.Equal(t, Absent, row.Phase)
	require.Equal(t, []Incarnation{n2}, ok(&Tick{Base: n1, Bits: []byte{3}}).RefusedNames)
	ok(&RemoveChangefeed{Name: "f"})
	require.Zero(t, s.DispatcherCount())
}
