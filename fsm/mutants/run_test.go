package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// stage is a package whose tests may tell.
type stage struct {
	pkg  string
	args []string
}

// stages are the packages with the tests of each that may tell, the cheap ones first. Seeds are fixed, so that the same
// mutant has the same end.
func stages() []stage {
	return []stage{
		{pkg: "./fsm", args: []string{"-test.run=^(TestScenarios|TestField_|TestReview_|TestMovesOnTheirWay)"}},
		{pkg: "./fsm/scenario", args: []string{"-test.run=^(TestRandomLogsKeepTheInvariants|TestALongRandomLogKeepsTheInvariants)$", "-rapid.seed=1"}},
	}
}

const (
	// perBuild and perRun bound the compiler and one process of tests. On two idle cores the one takes a minute, the
	// others seconds.
	perBuild = 15 * time.Minute
	perRun   = 5 * time.Minute
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
	l := lab{t: t, root: abs, dir: t.TempDir(), binaries: map[string]string{}}
	l.build()
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

// lab holds the test binaries.
type lab struct {
	t        *testing.T
	root     string
	dir      string
	binaries map[string]string // by package
}

// build compiles the tests of every stage with all mutants in them.
func (l *lab) build() {
	l.t.Helper()
	files, err := variants(l.root, mutants())
	require.NoError(l.t, err)
	replace := map[string]string{}
	for path, text := range files {
		changed := filepath.Join(l.dir, strings.ReplaceAll(path, "/", "_"))
		require.NoError(l.t, os.WriteFile(changed, []byte(text), 0o600))
		replace[filepath.Join(l.root, path)] = changed
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(l.t, err)
	overlayPath := filepath.Join(l.dir, "overlay.json")
	require.NoError(l.t, os.WriteFile(overlayPath, overlay, 0o600))
	ctx, cancel := context.WithTimeout(l.t.Context(), perBuild)
	defer cancel()
	for _, s := range stages() {
		binary := filepath.Join(l.dir, filepath.Base(s.pkg)+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlayPath, "-vet=off", "-o", binary, s.pkg)
		cmd.Dir = l.root
		out, err := cmd.CombinedOutput()
		require.NoError(l.t, err, "a mutant does not compile; NAME__3 is NAME of the third mutant\n%s", out)
		l.binaries[s.pkg] = binary
	}
}

// control makes sure that everything passes without a mutant: else a catcher that always fails would catch them all.
func (l *lab) control() {
	l.t.Helper()
	for _, s := range stages() {
		run, err := l.run(s, 0)
		require.NoError(l.t, err)
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
	start := time.Now()
	o := l.judge(m)
	o.mutant, o.seconds = m, time.Since(start).Seconds()
	return o
}

func (l *lab) judge(m *mutant) (o outcome) {
	others := map[string]bool{}
	for _, s := range append([]stage{named(m)}, stages()...) {
		run, err := l.run(s, m.number)
		if err != nil {
			o.why = err.Error()
			return o
		}
		if *discoverFlag {
			l.discover(m, run)
		}
		if o.caught, o.ok = countsFor(m, run); o.ok {
			return o
		}
		if run.panicked {
			o.why = "a test panics, which does not count: " + s.pkg
			return o
		}
		for _, f := range run.failures {
			others[f.test] = true
		}
	}
	o.why = "none of its catchers failed; others that did: " + strings.Join(slices.Sorted(maps.Keys(others)), ", ")
	return o
}

// named is what is run first: the scripts, and the tests that the mutant names.
func named(m *mutant) stage {
	run := []string{"TestScenarios$"}
	for _, c := range m.tells {
		if c.kind == byTest {
			run = append(run, c.name)
		}
	}
	return stage{pkg: stages()[0].pkg, args: []string{"-test.run=^(" + strings.Join(run, "|") + ")"}}
}

func (l *lab) discover(m *mutant, run testRun) {
	for _, f := range run.failures {
		for _, c := range whatFailed(f) {
			l.t.Logf("  %s: %s in %s: %s", m.id, c.by, f.test, c.message)
		}
	}
}

// run executes the tests of a stage in a process that has one mutant, or none for zero.
func (l *lab) run(s stage, number int) (testRun, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), perRun)
	defer cancel()
	args := append([]string{"tool", "test2json", "-t", l.binaries[s.pkg], "-test.v=test2json", "-test.short", "-test.timeout=" + perRun.String()}, s.args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(l.root, s.pkg)
	cmd.Env = append(os.Environ(), "WEIR_SEED=1", fmt.Sprintf("%s=%d", chosenBy, number))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return testRun{}, fmt.Errorf("the tests of %s have not ended after %s", s.pkg, perRun)
	}
	run, readErr := readEvents(bytes.NewReader(out))
	if readErr != nil {
		return run, fmt.Errorf("read the output of the tests of %s: %w", s.pkg, readErr)
	}
	if err != nil && !run.panicked && len(run.failures) == 0 {
		return run, fmt.Errorf("run the tests of %s: %w: %s", s.pkg, err, stderr.String())
	}
	return run, nil
}
