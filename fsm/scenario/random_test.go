package scenario_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
	"github.com/weir-project/weir/fsm/scenario"
)

// seed is printed with one line that runs the same test again; WEIR_SEED sets it.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if text := os.Getenv("WEIR_SEED"); text != "" {
		var err error
		s, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("again: WEIR_SEED=%d go test ./fsm/scenario -run '^%s$'", s, t.Name())
	return s
}

// randomLog makes entries until they hold so many commands.
func randomLog(seed uint64, commands int) []fsm.Entry {
	l := scenario.NewRandomLog(scenario.Seeded(seed))
	var entries []fsm.Entry
	for n := 0; n < commands; {
		e := l.Next()
		n += len(e.Proposals)
		entries = append(entries, e)
	}
	return entries
}

// decoded is the entry as a server reads it from its log: it shares nothing with the one that was made.
func decoded(t require.TestingT, e fsm.Entry) fsm.Entry {
	data, err := logcodec.AppendEntry(nil, e.Proposals)
	require.NoError(t, err)
	d, err := logcodec.DecodeEntry(e.Index, e.Term, data)
	require.NoError(t, err)
	require.Equal(t, e, d)
	return d
}

// TestRandomLogsKeepTheInvariants lets rapid choose the log, so that a failure shrinks to a short one.
func TestRandomLogsKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := scenario.NewRandomLog(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		s := fsm.New()
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			e := decoded(t, l.Next())
			s.Apply(e)
			require.NoError(t, s.CheckInvariants(), "after entry %d", e.Index)
			require.Equal(t, l.State().Hash(), s.Hash())
		}
	})
}

// TestALongRandomLogKeepsTheInvariants goes deeper than rapid's short logs.
func TestALongRandomLogKeepsTheInvariants(t *testing.T) {
	s := fsm.New()
	for _, e := range randomLog(seed(t), 5000) {
		s.Apply(e)
		require.NoError(t, s.CheckInvariants(), "after entry %d", e.Index)
	}
}

// TestRandomLogsReachWhatTheyShould keeps the generator from becoming harmless.
func TestRandomLogsReachWhatTheyShould(t *testing.T) {
	cells, reasons, verdicts, results := map[fsm.Cell]int{}, map[fsm.Reason]int{}, map[string]int{}, map[fsm.OpResult]int{}
	for n := range uint64(60) {
		s := fsm.New()
		s.TraceAdmissions(func(c fsm.Cell) { cells[c]++ })
		for _, e := range randomLog(n, 3000) {
			for i, v := range s.Apply(e) {
				reasons[v.Reason]++
				for _, r := range v.Reports {
					reasons[r]++
				}
				verdicts[fmt.Sprintf("%s %v", e.Proposals[i].Command.Kind(), v.OK())]++
			}
			for op := range s.FinishedOperators() {
				results[op.Result]++
			}
		}
	}
	t.Logf("cells %v, reasons %v, results %v", cells, reasons, results)
	for _, c := range fsm.AdmissionCells() {
		if c != (fsm.Cell{Slot: fsm.SlotHeld, Ask: fsm.ReqCancel}) {
			assert.NotZero(t, cells[c], "%s", c)
		}
	}
	// What no random log can reach: everything is begun in its first entry, and its level is the only one.
	never := map[fsm.Reason]bool{fsm.NotBootstrapped: true, fsm.FeatureLevel: true}
	for _, r := range fsm.Reasons() {
		if !never[r] {
			assert.NotZero(t, reasons[r], "%s", r)
		}
	}
	for kind := fsm.KindBeginTerm; kind <= fsm.KindAdvanceCheckpoint; kind++ {
		require.NotZero(t, verdicts[kind.String()+" true"], "no %s was accepted", kind)
	}
	for _, r := range []fsm.OpResult{fsm.OpDone, fsm.OpFailed, fsm.OpCanceled, fsm.OpReplaced} {
		require.NotZero(t, results[r], "%s", r)
	}
}

// restored is the state after a snapshot has been written and read.
func restored(t *testing.T, v *fsm.View) *fsm.State {
	t.Helper()
	var stream bytes.Buffer
	require.NoError(t, logcodec.WriteSnapshot(&stream, v))
	s, err := logcodec.ReadSnapshot(&stream)
	require.NoError(t, err)
	return s
}

// How many later entries are replayed on a snapshot; every so often, and always with WEIR_REPLAY=full, all of them.
const (
	replayNear     = 40
	replayAllEvery = 12
)

// TestReplayFromEverySnapshot takes a snapshot at every index of a random log of 2,000 commands: each restores to the same
// hash, and gives the same verdicts and hashes for the later entries.
func TestReplayFromEverySnapshot(t *testing.T) {
	entries := randomLog(seed(t), 2000)
	type step struct {
		verdicts []fsm.Verdict
		hash     fsm.Digest
	}
	var steps []step
	var views []*fsm.View
	s := fsm.New()
	for _, e := range entries {
		verdicts := s.Apply(e)
		steps = append(steps, step{verdicts, s.Hash()})
		views = append(views, s.View())
	}
	replayed, full := 0, os.Getenv("WEIR_REPLAY") == "full"
	for i, v := range views {
		r := restored(t, v)
		require.Equal(t, steps[i].hash, r.Hash(), "restored at entry %d", i+1)
		require.Equal(t, steps[i].hash, v.Hash(), "the view of entry %d has changed", i+1)
		require.NoError(t, r.CheckInvariants(), "restored at entry %d", i+1)
		end := min(i+1+replayNear, len(entries))
		if full || i%replayAllEvery == 0 {
			end = len(entries)
		}
		for j := i + 1; j < end; j++ {
			same(t, steps[j].verdicts, r.Apply(entries[j]), entries[j].Index)
			if steps[j].hash != r.Hash() {
				require.Equal(t, steps[j].hash, r.Hash(), "entry %d after a restore at entry %d", j+1, i+1)
			}
			replayed++
		}
	}
	t.Logf("%d snapshots, %d entries replayed on them", len(views), replayed)
	require.Greater(t, replayed, replayNear*(len(views)-replayNear))
}

// same compares verdicts field by field, and by reflection only to show a difference: there are a million of them.
func same(t *testing.T, want, got []fsm.Verdict, index uint64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		if w.Reason != g.Reason || w.Facts != g.Facts || w.Index != g.Index || w.Replayed != g.Replayed ||
			!slices.Equal(w.RefusedNames, g.RefusedNames) || !slices.Equal(w.Reports, g.Reports) || !slices.Equal(w.Items, g.Items) {
			require.Equal(t, w, g, "entry %d, command %d", index, i)
		}
	}
}

// TestEightReplicasAreEqual applies one log to eight replicas, each of which reads its own copy, restores itself from a
// snapshot at other times, and is read from at other times: after every entry all are equal.
func TestEightReplicasAreEqual(t *testing.T) {
	const replicas = 8
	entries := randomLog(seed(t), 3000)
	var states [replicas]*fsm.State
	for i := range states {
		states[i] = fsm.New()
	}
	for _, e := range entries {
		var first []fsm.Verdict
		for i, s := range states {
			verdicts := s.Apply(decoded(t, e))
			if i == 0 {
				first = verdicts
				continue
			}
			require.Equal(t, first, verdicts, "entry %d on replica %d", e.Index, i)
			require.Equal(t, states[0].Hash(), s.Hash(), "entry %d on replica %d", e.Index, i)
			if e.Index%uint64(20+i*7) == 0 {
				states[i] = restored(t, s.View())
			}
		}
	}
	for i, s := range states {
		require.NoError(t, s.CheckInvariants(), "replica %d", i)
	}
}

// TestEqualSeedsGiveEqualLogs is what makes a printed seed worth something.
func TestEqualSeedsGiveEqualLogs(t *testing.T) {
	first, again, other := randomLog(7, 500), randomLog(7, 500), randomLog(8, 500)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
}
