package dispatcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

var stoppedReport = fsm.PlacementReport{
	PlacementPosition: fsm.PlacementPosition{Dispatcher: 1, Epoch: 50}, What: fsm.ReportStopped,
}

func ackOf(p session.Pair, what fsm.ReportKind) []session.ReportedPair {
	return []session.ReportedPair{{Pair: p, What: what}}
}

func TestBookRefusesWhateverFallsBehindInTermOrIndex(t *testing.T) {
	b := newBook()
	require.True(t, b.admit(mark{3, 100}))
	require.True(t, b.admit(mark{3, 100}), "a state's orders come in several messages")
	require.False(t, b.admit(mark{3, 99}))
	require.False(t, b.admit(mark{2, 200}))
	require.True(t, b.admit(mark{4, 101}))
	require.False(t, b.admit(mark{5, 100}), "a newer term has the older ones' entries")
}

func TestBookCountsFromTheAckOfRunningToTheAckOfStopped(t *testing.T) {
	b := newBook()
	p := session.Pair{Dispatcher: 1, Epoch: 50}
	require.True(t, b.start(p, &fsm.Work{}))
	b.running(p)
	require.Zero(t, b.setHash)
	b.acked(mark{3, 100}, ackOf(p, fsm.ReportRunning))
	b.acked(mark{3, 101}, ackOf(p, fsm.ReportRunning)) // repeated
	require.Equal(t, fsm.PairHash(1, 50), b.setHash)
	require.EqualValues(t, 1, b.counted)
	b.end(p, stoppedReport)
	require.Equal(t, fsm.PairHash(1, 50), b.setHash)
	b.acked(mark{3, 102}, ackOf(p, fsm.ReportStartFailed))
	require.Len(t, b.pairs, 1, "the ack of another report ends nothing")
	b.acked(mark{3, 103}, ackOf(p, fsm.ReportStopped))
	require.Zero(t, b.setHash)
	require.Zero(t, b.counted)
	require.Empty(t, b.pairs)
	require.Empty(t, b.outbox)
	require.False(t, b.admit(mark{3, 102}))
}

func TestBookTakesALateAckOfRunningIntoTheSet(t *testing.T) {
	b := newBook()
	p := session.Pair{Dispatcher: 1, Epoch: 50}
	b.start(p, &fsm.Work{})
	b.running(p)
	b.end(p, stoppedReport) // overtakes the ack
	b.acked(mark{3, 100}, ackOf(p, fsm.ReportRunning))
	require.Equal(t, fsm.PairHash(1, 50), b.setHash, "the state machine counts it until the stop is applied")
	require.Equal(t, []fsm.PlacementReport{stoppedReport}, b.due(0, time.Second, 10))
	b.acked(mark{3, 101}, ackOf(p, fsm.ReportStopped))
	require.Zero(t, b.setHash)
}

func TestBookRepeatsWhenAskedAndInItsOwnTime(t *testing.T) {
	b := newBook()
	p := session.Pair{Dispatcher: 1, Epoch: 50}
	require.False(t, b.stop(p), "unknown: answered, and remembered")
	require.False(t, b.start(p, &fsm.Work{}))
	want := []fsm.PlacementReport{stoppedReport}
	require.Equal(t, want, b.due(0, time.Second, 10))
	require.Empty(t, b.due(999*time.Millisecond, time.Second, 10))
	require.Equal(t, want, b.due(time.Second, time.Second, 10))
	require.Empty(t, b.due(time.Second, time.Second, 10))
	require.False(t, b.stop(p), "asked again")
	require.Equal(t, want, b.due(time.Second, time.Second, 10))
	b.resend()
	require.Equal(t, want, b.due(time.Second, time.Second, 10))
}

func TestRangesNeverOverlap(t *testing.T) {
	r := newRanges()
	table := sinkTable{"s", TableName{"public", "t"}}
	pair := func(d fsm.DispatcherID) session.Pair { return session.Pair{Dispatcher: d, Epoch: 1} }
	take := func(table sinkTable, start, end string, d fsm.DispatcherID) bool {
		_, ok := r.take(table, fsm.Span{Start: start, End: end}, pair(d))
		return ok
	}
	require.True(t, take(table, "c", "e", 1))
	require.True(t, take(table, "e", "g", 2))
	require.True(t, take(table, "a", "c", 3))
	require.False(t, take(table, "", "b", 4))
	require.False(t, take(table, "d", "f", 4))
	require.False(t, take(table, "f", "", 4))
	require.False(t, take(table, "", "", 4))
	require.True(t, take(table, "g", "", 4))
	require.True(t, take(sinkTable{"other", table.table}, "", "", 5), "another sink")
	require.Equal(t, 5, r.len())
	r.release(table, fsm.Span{Start: "c", End: "e"}, pair(9)) // not its own
	holder, ok := r.take(table, fsm.Span{Start: "d", End: "e"}, pair(6))
	require.False(t, ok)
	require.Equal(t, pair(1), holder)
	r.release(table, fsm.Span{Start: "c", End: "e"}, pair(1))
	require.True(t, take(table, "c", "e", 6))
}
