package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	runFlag      = flag.String("mutants.run", "", "all, sample, or words of ids or rules with commas between them; empty: only the lists are checked")
	writeFlag    = flag.Bool("mutants.write", false, "write the table of docs/verification.md; only with all of them")
	discoverFlag = flag.Bool("mutants.discover", false, "print everything that fails for each mutant, in every stage")
)

// stage is a go test that mutants are run against.
type stage struct {
	pkg  string
	args []string
}

// stages are the tests that may tell, the cheap ones first. Seeds are fixed, so that the same mutant has the same end.
func stages() []stage {
	return []stage{
		{pkg: "./fsm", args: []string{"-run", "^(TestScenarios|TestField_|TestReview_|TestInvariant_|TestMovesOnTheirWay)"}},
		{pkg: "./fsm/scenario", args: []string{"-run", "^(TestRandomLogsKeepTheInvariants|TestALongRandomLogKeepsTheInvariants)$", "-rapid.seed=1"}},
	}
}

const (
	// perStage bounds one go test, building included; on two idle cores it takes seconds.
	perStage = 10 * time.Minute
	// atOnce is how many mutants are tested side by side.
	atOnce = 2
	// sampleSize is how many mutants the short run takes.
	sampleSize = 5
)

// outcome is what became of a mutant.
type outcome struct {
	mutant  *mutant
	caught  caught
	ok      bool
	why     string // of one that was not caught
	seconds float64
}

// TestMutantsAreCaught runs the mutants that the flag asks for. Without it the lists alone are checked, see the tests of
// the lists.
func TestMutantsAreCaught(t *testing.T) {
	if *runFlag == "" {
		t.Skip("pass -mutants.run=all, sample or words: make mutants")
	}
	chosen := choose(*runFlag)
	require.NotEmpty(t, chosen, "no mutant has %s in its id or rules", *runFlag)
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	l := lab{t: t, root: abs, dir: t.TempDir()}
	l.control()
	outcomes := l.all(chosen)
	survivors := 0
	for _, o := range outcomes {
		if !o.ok {
			survivors++
			t.Errorf("mutant %s survives: %s\n  %s\n  %s", o.mutant.id, o.mutant.breaks, strings.Join(names(o.mutant.tells), ", "), o.why)
		}
	}
	t.Logf("caught %d of %d", len(outcomes)-survivors, len(outcomes))
	if *writeFlag && !t.Failed() {
		require.Equal(t, "all", *runFlag, "the table lists all mutants")
		require.NoError(t, writeTable(filepath.Join(root, document), table(outcomes)))
	}
}

// choose picks mutants: all, a sample spread evenly over the lists, or those with one of the words.
func choose(which string) []*mutant {
	every := mutants()
	var chosen []*mutant
	for i := range every {
		m := &every[i]
		switch which {
		case "all":
			chosen = append(chosen, m)
		case "sample":
			if i*sampleSize/len(every) != (i-1)*sampleSize/len(every) || i == 0 {
				chosen = append(chosen, m)
			}
		default:
			for word := range strings.SplitSeq(which, ",") {
				if strings.Contains(m.id+" "+strings.Join(m.rules, " "), word) {
					chosen = append(chosen, m)
					break
				}
			}
		}
	}
	return chosen
}

func names(tells []catcher) []string {
	var all []string
	for _, c := range tells {
		all = append(all, c.String())
	}
	return all
}

// lab runs go test.
type lab struct {
	t    *testing.T
	root string
	dir  string
}

// control makes sure that everything passes without a mutant: else a catcher that always fails would catch them all.
func (l *lab) control() {
	l.t.Helper()
	for _, s := range stages() {
		run, err := l.goTest(s, "")
		require.NoError(l.t, err)
		require.Empty(l.t, run.broken)
		require.False(l.t, run.panicked)
		require.Empty(l.t, run.failures, "without any mutant")
		require.NotZero(l.t, run.passed, "%s runs nothing", s.pkg)
	}
}

func (l *lab) all(chosen []*mutant) []outcome {
	outcomes := make([]outcome, len(chosen))
	work := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range work {
				outcomes[i] = l.try(chosen[i])
				o := &outcomes[i]
				l.t.Logf("%-40s %5.1f s  %s %s%s", o.mutant.id, o.seconds, o.caught.by, o.caught.message, o.why)
			}
		})
	}
	for i := range chosen {
		work <- i
	}
	close(work)
	workers.Wait()
	return outcomes
}

// try runs a mutant through the stages until one of its catchers fails.
func (l *lab) try(m *mutant) outcome {
	o := outcome{mutant: m}
	start := time.Now()
	overlay, err := l.overlay(m)
	if err != nil {
		o.why = err.Error()
		return o
	}
	var others []string
	for _, s := range stages() {
		run, err := l.goTest(s, overlay)
		switch {
		case err != nil:
			o.why = err.Error()
			return o
		case run.broken != "":
			o.why = "it does not compile:\n" + run.broken
			return o
		case run.panicked:
			o.why = "a test panics, which does not count: " + s.pkg
			return o
		}
		if *discoverFlag {
			l.discover(m, run)
		}
		if o.caught, o.ok = countsFor(m, run); o.ok {
			o.seconds = time.Since(start).Seconds()
			return o
		}
		for _, f := range run.failures {
			others = append(others, f.test)
		}
	}
	o.seconds = time.Since(start).Seconds()
	o.why = "none of its catchers failed"
	if len(others) > 0 {
		o.why += "; others did: " + strings.Join(others[:min(len(others), 12)], ", ")
	}
	return o
}

func (l *lab) discover(m *mutant, run testRun) {
	for _, f := range run.failures {
		for _, c := range whatFailed(f) {
			l.t.Logf("  %s: %s in %s: %s", m.id, c.by, f.test, c.message)
		}
	}
}

// overlay writes the changed file and the map that tells the compiler of it.
func (l *lab) overlay(m *mutant) (string, error) {
	text, err := m.mutated(l.root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(l.dir, m.id+".go")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write mutant %s: %w", m.id, err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(l.root, m.file): changed}})
	if err != nil {
		return "", fmt.Errorf("describe mutant %s: %w", m.id, err)
	}
	path := filepath.Join(l.dir, m.id+".json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// goTest runs a stage, with an overlay if one is given.
func (l *lab) goTest(s stage, overlay string) (testRun, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), perStage)
	defer cancel()
	args := []string{"test", "-json", "-count=1", "-vet=off", "-short", "-p=1", "-timeout=60s"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(append(args, s.pkg), s.args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = l.root
	cmd.Env = append(os.Environ(), "WEIR_SEED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return testRun{}, fmt.Errorf("%s has not ended after %s", s.pkg, perStage)
	}
	run, readErr := readEvents(bytes.NewReader(out))
	if readErr != nil {
		return run, fmt.Errorf("read the output of go test %s: %w", s.pkg, readErr)
	}
	if err != nil && run.broken == "" && !run.panicked && len(run.failures) == 0 {
		return run, fmt.Errorf("go test %s: %w: %s", s.pkg, err, stderr.String())
	}
	return run, nil
}
