package oracle

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
	"github.com/weir-project/weir/fsm/scenario"
)

var (
	worlds   = flag.Int("oracle.worlds", 40, "random small worlds of 300 commands that the state machine is compared in")
	worldOf  = flag.Uint64("oracle.seed", 0, "the first world's seed; 0 for any")
	logs     = flag.Int("oracle.logs", 3, "logs that eight replicas apply")
	commands = flag.Int("oracle.commands", 300, "commands in a world")
)

// each runs a test n times, every time with a seed of its own, and prints with a failure the one line that runs it again.
func each(t *testing.T, n int, run func(t *testing.T, seed uint64)) {
	t.Helper()
	first := *worldOf
	if first == 0 {
		first = rand.Uint64()
	}
	for i := range uint64(max(n, 1)) {
		seed := first + i
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					test, _, _ := strings.Cut(t.Name(), "/")
					t.Logf("again: go test ./fsm/oracle -count=1 -run '^%s$' -oracle.worlds=1 -oracle.logs=1 -oracle.seed=%d -oracle.commands=%d",
						test, seed, *commands)
				}
			})
			run(t, seed)
		})
		if t.Failed() {
			return
		}
	}
}

// told is one command in a failure's text.
func told(e fsm.Entry, i int) string {
	return fmt.Sprintf("entry %d, command %d: %s %+v", e.Index, i, e.Proposals[i].Command.Kind(), e.Proposals[i].Command)
}

// pair is a state machine and the model beside it, and who watches.
type pair struct {
	s *fsm.State
	w *world
	witness
}

func newPair(pick func(n int) int) *pair {
	return &pair{s: fsm.New(), w: newWorld(pick), witness: newWitness()}
}

// step makes an entry of one command, tries it, applies it, and compares everything.
func (p *pair) step() error {
	e := p.w.entry(1)
	last := len(e.Proposals) - 1
	before := p.s.View()
	tried := p.s.View().DryRun(e.Proposals[last])
	verdicts, answers := p.s.Apply(e), p.w.m.apply(e)
	for i := range verdicts {
		if err := sameAnswer(verdicts[i], answers[i]); err != nil {
			return fmt.Errorf("%s: %w", told(e, i), err)
		}
	}
	// The dry run is of the term that the state holds, whatever the proposal says.
	if dry := verdicts[last]; e.Index > 1 && e.Proposals[last].Term == before.Meta().Term && e.Term == before.Meta().Term {
		if err := sameVerdict(tried, dry); err != nil {
			return fmt.Errorf("dry run of %s: %w", told(e, last), err)
		}
	}
	if err := p.w.m.compare(p.s); err != nil {
		return fmt.Errorf("after %s: %w", told(e, last), err)
	}
	if err := p.s.CheckInvariants(); err != nil {
		return fmt.Errorf("after %s: %w", told(e, last), err)
	}
	if err := p.see(before, p.s.View(), e, verdicts); err != nil {
		return fmt.Errorf("the witness, after %s: %w", told(e, last), err)
	}
	return nil
}

func sameVerdict(have, want fsm.Verdict) error {
	if have.Reason != want.Reason || have.Facts != want.Facts || have.Index != want.Index || have.Replayed != want.Replayed ||
		!slices.Equal(have.Reports, want.Reports) || !slices.Equal(have.Items, want.Items) ||
		!slices.Equal(have.RefusedNames, want.RefusedNames) {
		return fmt.Errorf("have %+v, want %+v", have, want)
	}
	return nil
}

// TestTheModelAgrees lets rapid choose the world, so that a failure shrinks; rapid prints how to run it again.
func TestTheModelAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			if err := p.step(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTheModelAgreesForLong goes deeper than rapid's short logs.
func TestTheModelAgreesForLong(t *testing.T) {
	each(t, *worlds, func(t *testing.T, seed uint64) {
		p := newPair(scenario.Seeded(seed))
		for range *commands {
			require.NoError(t, p.step())
		}
	})
}

// TestTheModelAgreesOnLargerWorlds compares on logs that somebody else makes: more nodes, changefeeds and sinks, entries of
// several commands.
func TestTheModelAgreesOnLargerWorlds(t *testing.T) {
	each(t, *worlds/10, func(t *testing.T, seed uint64) {
		l, s, m := scenario.NewRandomLog(scenario.Seeded(seed)), fsm.New(), newModel()
		for range *commands {
			e := l.Next()
			verdicts, answers := s.Apply(e), m.apply(e)
			for i := range verdicts {
				require.NoError(t, sameAnswer(verdicts[i], answers[i]), told(e, i))
			}
			require.NoError(t, m.compare(s), "entry %d", e.Index)
		}
	})
}

// decoded is the entry as a server reads it from its log: it shares nothing with the one that was made.
func decoded(t require.TestingT, e fsm.Entry) fsm.Entry {
	data, err := logcodec.AppendEntry(nil, e.Proposals)
	require.NoError(t, err)
	d, err := logcodec.DecodeEntry(e.Index, e.Term, data)
	require.NoError(t, err)
	return d
}

// restored is the state after a snapshot has been written and read.
func restored(t require.TestingT, s *fsm.State) *fsm.State {
	var stream bytes.Buffer
	require.NoError(t, logcodec.WriteSnapshot(&stream, s.View()))
	r, err := logcodec.ReadSnapshot(&stream)
	require.NoError(t, err)
	return r
}

// TestEightReplicasOfOneLog: one replica applies what was made, the others what they read of it; each but the first is now
// and then thrown away and restored from its snapshot. After every entry all have the same hash, verdicts, and the model's
// state.
func TestEightReplicasOfOneLog(t *testing.T) {
	const replicas = 8
	each(t, *logs, func(t *testing.T, seed uint64) {
		w, when := newWorld(scenario.Seeded(seed)), scenario.Seeded(^seed)
		states := make([]*fsm.State, replicas)
		for r := range states {
			states[r] = fsm.New()
		}
		for range *commands / 2 {
			e := w.entry(1 + when(4))
			w.m.apply(e)
			first := states[0].Apply(e)
			for r := 1; r < replicas; r++ {
				verdicts := states[r].Apply(decoded(t, e))
				for v := range verdicts {
					require.NoError(t, sameVerdict(verdicts[v], first[v]), "replica %d: %s", r, told(e, v))
				}
				require.Equal(t, states[0].Hash(), states[r].Hash(), "entry %d, replica %d", e.Index, r)
				if when(10+3*r) == 0 {
					states[r] = restored(t, states[r])
					require.Equal(t, states[0].Hash(), states[r].Hash(), "restored at entry %d, replica %d", e.Index, r)
				}
			}
			require.NoError(t, w.m.compare(states[0]), "entry %d", e.Index)
		}
		for r := range states {
			require.NoError(t, states[r].CheckInvariants(), "replica %d", r)
			require.NoError(t, w.m.compare(states[r]), "replica %d", r)
		}
	})
}

// TestADryRunLeavesNoTrace: neither the state nor the view notices that something was tried on it.
func TestADryRunLeavesNoTrace(t *testing.T) {
	each(t, *logs, func(t *testing.T, seed uint64) { dryRuns(t, newWorld(scenario.Seeded(seed))) })
}

func dryRuns(t *testing.T, w *world) {
	t.Helper()
	s := fsm.New()
	for range *commands {
		e := w.entry(1)
		view, hash := s.View(), s.Hash()
		fork := s.Fork()
		fork.Apply(decoded(t, e))
		for _, p := range e.Proposals {
			view.DryRun(p)
		}
		require.Equal(t, hash, s.Hash(), "entry %d", e.Index)
		require.Equal(t, hash, view.Hash(), "entry %d", e.Index)
		require.NoError(t, w.m.compare(s), "before entry %d", e.Index)
		s.Apply(e)
		w.m.apply(e)
		require.Equal(t, s.Hash(), fork.Hash(), "entry %d", e.Index)
	}
}

// TestSmallWorldsReachWhatTheyShould keeps the worlds from becoming harmless: every cell of the admission table, every
// reason, every result, and every kind of command accepted and refused.
func TestSmallWorldsReachWhatTheyShould(t *testing.T) {
	cells, reasons, reached := map[fsm.Cell]int{}, map[fsm.Reason]int{}, map[string]int{}
	for seed := range uint64(100) {
		w, s := newWorld(scenario.Seeded(seed)), fsm.New()
		s.TraceAdmissions(func(c fsm.Cell) { cells[c]++ })
		for range 400 {
			e := w.entry(1)
			w.m.apply(e)
			for i, v := range s.Apply(e) {
				reasons[v.Reason]++
				for _, r := range v.Reports {
					reasons[r]++
				}
				reached[fmt.Sprintf("%s %t", e.Proposals[i].Command.Kind(), v.OK())]++
			}
			for _, op := range w.m.finished {
				reached[op.kind.String()+" "+op.result.String()]++
			}
			for _, b := range w.m.records {
				reached["event "+b.result.String()]++
			}
		}
	}
	t.Logf("cells %v\nreasons %v\nreached %v", cells, reasons, reached)
	for _, c := range fsm.AdmissionCells() {
		if c != (fsm.Cell{Slot: fsm.SlotHeld, Ask: fsm.ReqCancel}) { // there is no operator to cancel
			assert.NotZero(t, cells[c], "%s", c)
		}
	}
	for _, r := range fsm.Reasons() {
		if r != fsm.NotBootstrapped { // the first entry starts the cluster
			assert.NotZero(t, reasons[r], "%s", r)
		}
	}
	for kind := fsm.KindBeginTerm; kind <= fsm.KindAdvanceCheckpoint; kind++ {
		assert.NotZero(t, reached[kind.String()+" true"], "no %s was accepted", kind)
	}
	for _, what := range []string{
		"add done", "add failed", "add canceled", "add replaced", "move done", "move failed", "move canceled", "move replaced",
		"split done", "split canceled", "split replaced", "merge done", "merge canceled", "merge replaced", "remove done", "stop done",
		"stop replaced", "event written", "event skipped", "event void",
	} {
		assert.NotZero(t, reached[what], what)
	}
}
