package fence_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
)

const testTerm = uint64(4)

var testWait = fence.Wait(testLease, clock.BootRaw, clock.BootRaw)

func newTracker(t *testing.T, a *fence.Appends) *fence.Tracker {
	t.Helper()
	tr, err := fence.NewTracker(fence.TrackerConfig{Term: testTerm, Class: clock.BootRaw, Appends: a})
	require.NoError(t, err)
	return tr
}

func beat(incarnation, seq uint64) fence.Heartbeat {
	return fence.Heartbeat{Incarnation: incarnation, Seq: seq, Open: true, Lease: testLease}
}

func node(incarnation, lastTick uint64) fence.Node {
	return fence.Node{Incarnation: incarnation, LastTick: lastTick, Lease: testLease, Class: clock.BootRaw}
}

func incarnations(due []fence.Expirable) []uint64 {
	var out []uint64
	for _, e := range due {
		out = append(out, e.Incarnation)
	}
	return out
}

func seqs(acks []fence.Ack) map[uint64]uint64 {
	out := make(map[uint64]uint64)
	for _, a := range acks {
		out[a.Incarnation] = a.Seq
	}
	return out
}

func TestC1_AcksAreOfExactlyTheHeartbeatsCaptured(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	tr.Heard(beat(9, 1), at(0))
	tr.Heard(beat(5, 1), at(0))
	tr.Heard(beat(5, 2), at(0))
	first := tr.Capture()
	require.Equal(t, []uint64{5, 9}, first.Incarnations())

	tr.Heard(beat(5, 3), at(10*time.Millisecond)) // before the tick is applied: waits for the next
	require.Equal(t, map[uint64]uint64{5: 2, 9: 1}, seqs(tr.Release(first, testTerm, nil, at(20*time.Millisecond))))
	require.Empty(t, tr.Release(first, testTerm, nil, at(21*time.Millisecond)), "each ack goes out once")

	second := tr.Capture()
	require.Equal(t, []uint64{5}, second.Incarnations(), "one not heard since is not named")
	require.Equal(t, map[uint64]uint64{5: 3}, seqs(tr.Release(second, testTerm, nil, at(30*time.Millisecond))))
	require.Empty(t, tr.Capture().Incarnations())
}

func TestC1_AnEntryOfAnotherTermAtTheSameIndexReleasesNothing(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	tr.Heard(beat(5, 1), at(0))
	b := tr.Capture()
	require.Empty(t, tr.Release(b, testTerm+1, nil, at(1)))
	require.Len(t, tr.Release(b, testTerm, nil, at(2)), 1)
}

func TestC1_AcksCarryTermClassAndTimeSinceTheLast(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	for i, want := range []time.Duration{0, 300 * time.Millisecond, 200 * time.Millisecond} {
		tr.Heard(beat(5, uint64(i+1)), at(0))
		now := at([]time.Duration{100, 400, 600}[i] * time.Millisecond)
		acks := tr.Release(tr.Capture(), testTerm, nil, now)
		require.Equal(t, []fence.Ack{{
			Incarnation: 5, Seq: uint64(i + 1), Term: testTerm, Elapsed: want, LeaderClass: clock.BootRaw,
		}}, acks)
	}
}

// The leader is stopped for 3 s between reading its clock and capturing; meanwhile the node sends a heartbeat.
func TestN3_APauseOfTheLeaderIsNoStallOfTheNode(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	l := newLease(t)
	seq := send(t, l, 2900*time.Millisecond)
	tr.Heard(beat(testNode, seq), at(3*time.Second))
	for _, a := range tr.Release(tr.Capture(), testTerm, nil, at(0)) {
		require.Equal(t, fence.AckOpened, l.Acked(a, at(3010*time.Millisecond)))
	}
	seq = send(t, l, 3150*time.Millisecond)
	tr.Heard(beat(testNode, seq), at(3160*time.Millisecond))
	acks := tr.Release(tr.Capture(), testTerm, nil, at(3200*time.Millisecond))
	require.Len(t, acks, 1)
	require.Equal(t, 200*time.Millisecond, acks[0].Elapsed)
	require.Equal(t, fence.AckExtended, l.Acked(acks[0], at(3210*time.Millisecond)))
}

func TestC1_TicksAppliedOutOfOrderNeverAckBackwards(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	tr.Heard(beat(5, 1), at(0))
	older := tr.Capture()
	tr.Heard(beat(5, 2), at(0))
	newer := tr.Capture()
	require.Len(t, tr.Release(newer, testTerm, nil, at(1)), 1)
	require.Empty(t, tr.Release(older, testTerm, nil, at(2)))
}

func TestReview_R02_AnAppliedTickAcksOnlyWhomItsVerdictAccepts(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	tr.Heard(beat(5, 1), at(0))
	tr.Heard(beat(6, 1), at(0))
	b := tr.Capture()
	tr.Heard(beat(5, 2), at(1))
	inFlight := tr.Capture()
	require.Equal(t, map[uint64]uint64{6: 1}, seqs(tr.Release(b, testTerm, []uint64{5}, at(2))))
	require.Empty(t, tr.Release(inFlight, testTerm, nil, at(3)), "a later tick on its way acks it neither")
	require.Equal(t, fence.HeardRefused, tr.Heard(beat(5, 3), at(4)))
	require.Empty(t, tr.Capture().Incarnations(), "it is not named again")
}

func TestC2_DueExactlyWhenTheWaitHasPassedSinceTheAppend(t *testing.T) {
	a := fence.NewAppends()
	a.NoteAppend(10, at(0))
	tr := newTracker(t, a)
	require.Empty(t, tr.Due(at(testWait-1), []fence.Node{node(5, 10)}))
	require.Equal(t, []fence.Expirable{{Incarnation: 5, ExpectTick: 10, Silent: testWait}},
		tr.Due(at(testWait), []fence.Node{node(5, 10)}))

	slow := at(testWait)
	slow.Boot -= time.Millisecond
	require.Empty(t, tr.Due(slow, []fence.Node{node(5, 10)}), "the smaller elapsed time counts here")
}

func TestC2_EachNodeIsWaitedForByItsOwnRecord(t *testing.T) {
	a := fence.NewAppends()
	a.NoteAppend(10, at(0))
	short, slewed, long := node(1, 10), node(2, 10), node(3, 10)
	slewed.Class = clock.Monotonic
	long.Lease = 3 * testLease
	nodes := []fence.Node{long, slewed, short}
	tr := newTracker(t, a)
	require.Equal(t, []uint64{1}, incarnations(tr.Due(at(testWait), nodes)))
	require.Equal(t, []uint64{1, 2}, incarnations(tr.Due(at(fence.Wait(testLease, clock.Monotonic, clock.BootRaw)), nodes)))
	require.Equal(t, []uint64{1, 2, 3}, incarnations(tr.Due(at(3*testWait), nodes)))

	other, err := fence.NewTracker(fence.TrackerConfig{Term: testTerm, Class: clock.Monotonic, Appends: a})
	require.NoError(t, err)
	require.Empty(t, other.Due(at(testWait), nodes), "a server with a slewed clock waits longer")
}

func TestC2_LongestSilentFirst(t *testing.T) {
	a := fence.NewAppends()
	a.NoteAppend(10, at(0))
	a.NoteAppend(11, at(time.Second))
	tr := newTracker(t, a)
	require.Equal(t, []uint64{2, 1, 3}, incarnations(tr.Due(at(time.Minute), []fence.Node{node(3, 11), node(1, 11), node(2, 10)})))
}

func TestC2_OneThatWaitsForTheNextTickIsLeftToIt(t *testing.T) {
	a := fence.NewAppends()
	a.NoteAppend(10, at(0))
	tr := newTracker(t, a)
	tr.Heard(beat(5, 1), at(testWait))
	require.Empty(t, tr.Due(at(testWait), []fence.Node{node(5, 10)}))
	fenced := node(5, 10)
	fenced.Fenced = true
	require.Len(t, tr.Due(at(testWait), []fence.Node{fenced}), 1, "but a fenced one goes, however often it is heard")
}

func TestC3_AnUnknownAppendTimeCountsFromWhenItWasLearnt(t *testing.T) {
	a := fence.NewAppends()
	tr := newTracker(t, a)
	nodes := []fence.Node{node(5, 10)}
	require.Empty(t, tr.Due(at(time.Hour), nodes))
	require.Empty(t, tr.Due(at(time.Hour+testWait-1), nodes))
	require.Len(t, newTracker(t, a).Due(at(time.Hour+testWait), nodes), 1, "also for the next term's tracker")
}

func TestC3_ARestartLearnsItsLogAtItsStart(t *testing.T) {
	a := fence.NewAppends()
	a.Learn(100, at(0))
	require.Equal(t, at(0), a.LearnTick(5, 100, at(time.Minute)))
	require.Equal(t, at(0), a.LearnTick(6, 3, at(time.Minute)))
	require.Equal(t, at(time.Minute), a.LearnTick(7, 101, at(time.Minute)))
}

func TestReview_R29_RegistrationIsTheFirstTickOfAnIncarnation(t *testing.T) {
	a := fence.NewAppends()
	a.NoteAppend(10, at(time.Hour))
	tr := newTracker(t, a)
	require.Empty(t, tr.Due(at(time.Hour+testWait-1), []fence.Node{node(5, 10)}), "not expired at once")
	require.Len(t, tr.Due(at(time.Hour+testWait), []fence.Node{node(5, 10)}), 1, "and not never")
	require.Empty(t, tr.Due(at(time.Hour+testWait), []fence.Node{node(6, 0)}), "no tick at all is not a tick at time zero")
}

func TestReview_R29_AnIndexStoredAgainGetsItsNewTime(t *testing.T) {
	const later = 10 * time.Second
	a := fence.NewAppends()
	a.NoteAppends(1, 10, at(0))
	a.NoteAppend(8, at(later)) // truncated at 8, another entry stored
	require.Equal(t, at(0), a.LearnTick(1, 7, at(time.Hour)))
	require.Equal(t, at(later), a.LearnTick(2, 8, at(time.Hour)))
	require.Equal(t, at(time.Hour), a.LearnTick(3, 9, at(time.Hour)), "what was above it has gone with it")

	a.NoteAppends(9, 10, at(2*later))
	tr := newTracker(t, a)
	require.Empty(t, tr.Due(at(later+testWait-1), []fence.Node{node(4, 8)}))
	require.Len(t, tr.Due(at(later+testWait), []fence.Node{node(4, 8)}), 1)
}

func TestReview_R29_ALearntIndexStoredAgainGetsItsNewTime(t *testing.T) {
	a := fence.NewAppends()
	a.Learn(100, at(0)) // restart with 100 entries, the last ones not committed
	a.NoteAppends(95, 97, at(time.Second))
	require.Equal(t, at(0), a.LearnTick(1, 94, at(time.Hour)))
	require.Equal(t, at(time.Second), a.LearnTick(2, 95, at(time.Hour)))
	require.Equal(t, at(time.Hour), a.LearnTick(3, 98, at(time.Hour)))
}

func TestASnapshotVoidsTheTimesOfWhatItReplaces(t *testing.T) {
	a := fence.NewAppends()
	a.NoteAppends(1, 20, at(0))
	require.Equal(t, at(0), a.LearnTick(1, 9, at(time.Minute)))
	a.Learn(10, at(time.Second))
	require.Equal(t, at(time.Second), a.LearnTick(1, 9, at(time.Minute)), "also what was remembered")
	require.Equal(t, at(time.Second), a.LearnTick(2, 10, at(time.Minute)))
	require.Equal(t, at(0), a.LearnTick(3, 11, at(time.Minute)))
	a.Learn(50, at(2*time.Second))
	require.Equal(t, at(2*time.Second), a.LearnTick(4, 20, at(time.Minute)))
	a.NoteAppend(60, at(3*time.Second))
	require.Equal(t, at(3*time.Second), a.LearnTick(5, 55, at(time.Minute)), "a gap takes the time of what follows it")
}

func TestAppendTimesOlderThanKeptGetALaterOneAndKeepIt(t *testing.T) {
	a := fence.NewAppendsKeeping(4)
	for i := uint64(1); i <= 10; i++ {
		a.NoteAppend(i, at(time.Duration(i)*time.Second))
	}
	require.Equal(t, at(7*time.Second), a.LearnTick(1, 7, at(time.Hour)), "the oldest kept")
	require.Equal(t, at(7*time.Second), a.LearnTick(2, 2, at(time.Hour)), "stands for all before it")
	a.NoteAppends(11, 1000, at(20*time.Second))
	require.Equal(t, at(7*time.Second), a.LearnTick(2, 2, at(time.Hour)), "a wait that has begun is not begun again")
	a.Forget(func(incarnation uint64) bool { return incarnation != 2 })
	require.Equal(t, at(20*time.Second), a.LearnTick(2, 2, at(time.Hour)))
	require.Equal(t, at(7*time.Second), a.LearnTick(1, 7, at(time.Hour)))
}

func TestAppendTimesAfterATruncationBelowAllThatIsKept(t *testing.T) {
	a := fence.NewAppendsKeeping(4)
	a.NoteAppends(1, 10, at(0))
	a.NoteAppend(2, at(time.Second))
	a.NoteAppends(3, 4, at(2*time.Second))
	for index, want := range map[uint64]time.Duration{
		1: time.Second, 2: time.Second, 3: 2 * time.Second, 4: 2 * time.Second,
		5: time.Hour, 8: time.Hour, 10: time.Hour,
	} {
		require.Equal(t, at(want), a.LearnTick(index, index, at(time.Hour)), "entry %d", index)
	}
}

func TestAppendTimesInAGapAreThoseOfWhatFollows(t *testing.T) {
	a := fence.NewAppendsKeeping(64)
	a.NoteAppends(1, 20, at(0))
	a.NoteAppend(60, at(3*time.Second))
	require.Equal(t, at(3*time.Second), a.LearnTick(1, 20, at(time.Hour)))
	require.Equal(t, at(3*time.Second), a.LearnTick(2, 55, at(time.Hour)))
	require.Equal(t, at(3*time.Second), a.LearnTick(3, 60, at(time.Hour)))
}

func TestNoteAppendsIgnoresNonsense(t *testing.T) {
	a := fence.NewAppendsKeeping(4)
	a.NoteAppends(3, 2, at(time.Second))
	a.NoteAppends(0, 2, at(time.Second))
	require.Equal(t, at(time.Hour), a.LearnTick(1, 2, at(time.Hour)))
}

func TestReview_R19_HeardButClosedIsNotNamedForEver(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	closed := func(seq uint64) fence.Heartbeat { hb := beat(5, seq); hb.Open = false; return hb }
	require.Equal(t, fence.HeardCounted, tr.Heard(closed(1), at(0)))
	require.Equal(t, fence.HeardCounted, tr.Heard(closed(2), at(2*testLease)), "twice the lease is allowed")
	require.Equal(t, []uint64{5}, tr.Capture().Incarnations())
	require.Equal(t, fence.HeardSilenced, tr.Heard(closed(3), at(2*testLease+1)))
	require.Empty(t, tr.Capture().Incarnations())
	require.Equal(t, []uint64{5}, tr.Silenced(at(2*testLease+1)))
	require.Equal(t, fence.HeardCounted, tr.Heard(beat(5, 4), at(2*testLease+2)), "an ack on its way has opened it")
	require.Empty(t, tr.Silenced(at(2*testLease+2)))
}

func TestReview_R19_SilencedWhileItWaitsForATick(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	hb := beat(5, 1)
	hb.Open = false
	tr.Heard(hb, at(0))
	hb.Seq = 2
	require.Equal(t, fence.HeardSilenced, tr.Heard(hb, at(2*testLease+1)))
	require.Empty(t, tr.Capture().Incarnations())
}

func TestReview_R19_StandingStillWithOrdersDueIsNotNamedForEver(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	orders := func(seq, done, due uint64) fence.Heartbeat {
		hb := beat(5, seq)
		hb.Done, hb.Due = done, due
		return hb
	}
	require.Equal(t, fence.HeardCounted, tr.Heard(orders(1, 10, 10), at(0)))
	require.Equal(t, fence.HeardCounted, tr.Heard(orders(2, 10, 10), at(time.Hour)), "nothing is due: it may stand for ever")
	require.Equal(t, fence.HeardCounted, tr.Heard(orders(3, 10, 20), at(time.Hour)))
	require.Equal(t, fence.HeardCounted, tr.Heard(orders(4, 12, 20), at(time.Hour+2*testLease)), "slow progress is progress")
	require.Equal(t, fence.HeardCounted, tr.Heard(orders(5, 12, 20), at(time.Hour+4*testLease)))
	require.Equal(t, fence.HeardSilenced, tr.Heard(orders(6, 12, 25), at(time.Hour+4*testLease+1)))
	require.Equal(t, fence.HeardCounted, tr.Heard(orders(7, 20, 25), at(time.Hour+5*testLease)), "it moves again")
}

func TestHeardCountsOnlyNewHeartbeats(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	require.Equal(t, fence.HeardCounted, tr.Heard(beat(5, 7), at(0)))
	tr.Capture()
	require.Equal(t, fence.HeardOld, tr.Heard(beat(5, 7), at(1)))
	require.Equal(t, fence.HeardOld, tr.Heard(beat(5, 6), at(1)))
	require.Empty(t, tr.Capture().Incarnations())
}

func TestDueForgetsIncarnationsThatAreGone(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	tr.Heard(beat(5, 7), at(0))
	tr.Heard(beat(6, 7), at(0))
	tr.Capture()
	tr.Heard(beat(6, 8), at(0))
	tr.Due(at(0), nil)
	require.Equal(t, fence.HeardCounted, tr.Heard(beat(5, 7), at(1)), "5 is unknown again")
	require.Equal(t, fence.HeardOld, tr.Heard(beat(6, 8), at(1)), "6 has just been heard: the state read may be the older one")
}

func TestDueForgetsSinceWhenAGoneIncarnationWasWaitedFor(t *testing.T) {
	tr := newTracker(t, fence.NewAppends())
	nodes := []fence.Node{node(5, 10)}
	require.Empty(t, tr.Due(at(0), nodes))
	require.Empty(t, tr.Due(at(time.Second), nil))
	require.Empty(t, tr.Due(at(testWait), nodes), "learnt anew")
	require.Len(t, tr.Due(at(2*testWait), nodes), 1)
}

func TestTrackerRefusesABadConfig(t *testing.T) {
	for name, c := range map[string]fence.TrackerConfig{
		fence.CodeNoTerm:       {Class: clock.BootRaw, Appends: fence.NewAppends()},
		fence.CodeNoAppends:    {Term: 1, Class: clock.BootRaw},
		fence.CodeUnknownClass: {Term: 1, Appends: fence.NewAppends()},
	} {
		_, err := fence.NewTracker(c)
		var setting *fence.SettingError
		require.ErrorAs(t, err, &setting)
		require.Equal(t, name, setting.Code)
	}
}
