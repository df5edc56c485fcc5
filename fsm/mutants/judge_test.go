package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scriptOutput is what a failing script of TestScenarios prints.
func scriptOutput(diff ...string) string {
	text := "    scenario_test.go:35: testdata/held.txt:48: the output is not the expected one (- expected, + came)\n"
	for _, line := range diff {
		text += "        " + line + "\n"
	}
	return text + "        \n        after a change that is right: go test ./fsm -run Scenario -update\n"
}

// TestOnlyWhatARuleDecidesCounts: a script that differs in how something is told has noticed nothing.
func TestOnlyWhatARuleDecidesCounts(t *testing.T) {
	for name, output := range map[string]string{
		"a state hash": scriptOutput("- hash ebccf331a842bd68a0cf73f43e24b8cc", "+ hash 00ccf331a842bd68a0cf73f43e24b8cc"),
		"a detail": scriptOutput(
			`- n1#1 epoch=2 placed=5 ended=8 reason=OPERATOR detail="move 1.3" at=25`,
			`+ n1#1 epoch=2 placed=5 ended=8 reason=OPERATOR detail="a move" at=25`),
		"a sentence": scriptOutput(
			"- removal 1.3 still holds keys of dispatcher 2's range; wait for it",
			"+ the removal 1.3 holds keys of dispatcher 2's range; wait for it"),
		"nothing": scriptOutput("  9 add: ACCEPTED op=3"),
	} {
		_, counts := tellingLine(output)
		require.False(t, counts, name)
	}
	for want, diff := range map[string][2]string{
		"a verdict":     {"9 add: RANGE_REMOVING op=3 dispatcher=d2", "9 add: ACCEPTED op=4 dispatcher=d2"},
		"a phase":       {"  d1: running n1#1 epoch=2 at=10 -> stopping n1#1 epoch=2", "  d1: running n1#1 epoch=2 at=10 -> absent at=10"},
		"an order":      {"start d1 epoch=2 op=1", "stop d1 epoch=2 op=1"},
		"a position":    {"d1 public.a: absent at=40", "d1 public.a: absent at=10"},
		"a status":      {"  changefeed shop: running", "  changefeed shop: paused"},
		"what is left ": {"  table 1: gone", "  table 1: dropping"},
	} {
		line, counts := tellingLine(scriptOutput("- "+diff[0], "+ "+diff[1], "- hash 1", "+ hash 2"))
		require.True(t, counts, want)
		require.Equal(t, "held.txt:48: "+strings.TrimSpace(diff[0])+" came as "+strings.TrimSpace(diff[1]), line)
	}
	line, counts := tellingLine(scriptOutput("- hash 1", "+ hash 2") + scriptOutput("+ op 3: done"))
	require.True(t, counts, "the second block")
	require.Equal(t, "held.txt:48: came op 3: done", line)
}

// TestWhatIsEvidence says what a failing test stands for.
func TestWhatIsEvidence(t *testing.T) {
	kinds := func(test, output string) []string {
		var all []string
		for _, c := range whatFailed(failure{test, output}) {
			all = append(all, c.by.String())
		}
		return all
	}
	broken := "Error: invariant violated: spans of a table never overlap: dispatchers 1 and 2\n"
	require.Equal(t, []string{`invariant "spans of a table never overlap"`, "`TestField_B01_X`"}, kinds("TestField_B01_X/one", broken))
	require.Equal(t, []string{`invariant "spans of a table never overlap"`, "script `held.txt`"}, kinds("TestScenarios/held.txt", broken))
	require.Equal(t, []string{"`TestX`"}, kinds("TestX", "invariant violated: the state hash covers every row: 1, should be 2\n"))
	require.Empty(t, kinds("TestX", "Not equal: expected: fsm.Digest{A:0x1} actual: fsm.Digest{A:0x2}"))
	require.Empty(t, kinds("TestScenarios/held.txt", scriptOutput("- hash 1", "+ hash 2")))
}

// TestOnlyANamedCatcherCounts: some other test that fails as well is not evidence.
func TestOnlyANamedCatcherCounts(t *testing.T) {
	m := &mutant{id: "x", tells: []catcher{test("TestReview_R06"), script("held"), invariant("barriers end")}}
	says := func(failures ...failure) string {
		c, ok := countsFor(m, testRun{failures: failures})
		if !ok {
			return ""
		}
		return c.by.String() + " " + c.message
	}
	verdict := scriptOutput("- 9 add: RANGE_REMOVING op=3", "+ 9 add: ACCEPTED op=4")
	other := failure{"TestField_B01_X", "field_test.go:9: Error: bad"}
	require.Empty(t, says(other, failure{"TestScenarios/other.txt", verdict}, failure{"TestX", "invariant violated: no orphans: x"}))
	require.Equal(t, "`TestReview_R06_Y` review_test.go:7: Not equal: expected 1, actual 2 (nobody)",
		says(other, failure{"TestReview_R06_Y", "review_test.go:7: \n Error:  Not equal: \n expected: 1\n actual  : 2\n Messages: nobody\n"}))
	require.Equal(t, "`TestReview_R06_Y` review_test.go:7: Received unexpected error: invariant violated: no orphans: x",
		says(failure{"TestReview_R06_Y", "review_test.go:7: \n Error:  Received unexpected error:\n   invariant violated: no orphans: x\n"}))
	require.Equal(t, "script `held.txt` held.txt:48: 9 add: RANGE_REMOVING op=3 came as 9 add: ACCEPTED op=4", says(other, failure{"TestScenarios/held.txt", verdict}))
	require.Equal(t, `invariant "barriers end" nobody is left`, says(failure{"TestZ", "an invariant is broken: invariant violated: barriers end: nobody is left\n"}))
	_, ok := countsFor(m, testRun{failures: []failure{{"TestReview_R06_Y", ""}}, panicked: true})
	require.False(t, ok, "a panic is no catcher")
}

// TestTheOutputOfGoTestIsReadAsItIsWritten goes through events as test2json writes them.
func TestTheOutputOfGoTestIsReadAsItIsWritten(t *testing.T) {
	var b strings.Builder
	say := func(action, name, output string) {
		line, err := json.Marshal(event{Action: action, Test: name, Output: output})
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s\n", line)
	}
	say("run", "TestA", "")
	say("output", "TestA/one", "first\n")
	say("output", "TestA/one", "second\n")
	say("fail", "TestA/one", "")
	say("fail", "TestA", "")
	say("pass", "TestB", "")
	say("fail", "", "")
	run, err := readEvents(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.Equal(t, testRun{failures: []failure{{"TestA/one", "first\nsecond\n"}}, passed: 1}, run)

	say("output", "TestC", "panic: runtime error\n")
	run, err = readEvents(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.True(t, run.panicked)
	_, err = readEvents(strings.NewReader("flag provided but not defined\n"))
	require.ErrorContains(t, err, "flag provided")
}

// TestAMutantThatDoesNotFitIsAnError covers what makes a mutant worthless.
func TestAMutantThatDoesNotFitIsAnError(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\nvar a, b = 1, 1\n"), 0o600))
	for want, m := range map[string]mutant{
		"stands in x.go 0 times": {old: "c = 1", new: "c = 2"},
		"stands in x.go 2 times": {old: "1", new: "2"},
		"changes nothing":        {old: "a, b", new: "a, b"},
		"expected":               {old: "a, b =", new: "a, b = ="},
	} {
		m.id, m.file = "x", "x.go"
		_, err := m.mutated(dir)
		require.ErrorContains(t, err, want)
	}
	m := mutant{id: "x", file: "x.go", old: "1, 1", new: "1, 2"}
	text, err := m.mutated(dir)
	require.NoError(t, err)
	require.Equal(t, "package x\n\nvar a, b = 1, 2\n", text)
}

// TestVariantsStandBesideEachOther looks at a function with a receiver, one without results, and one that is variadic.
func TestVariantsStandBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	src := `package x

// T has words.
type T struct{}

// f is documented.
func (t *T) f(a, b int, _ string) (sum int, err error) {
	return a + b, nil
}

func g(xs ...int) { println(len(xs)) }

func h[A any](a A) A { return a }

var v = 1
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte(src), 0o600))
	all := []mutant{
		{id: "minus", file: "x.go", old: "a + b", new: "a - b"},
		{id: "one", file: "x.go", old: "len(xs)", new: "1"},
		{id: "times", file: "x.go", old: "a + b", new: "a * b"},
	}
	files, err := variants(dir, all)
	require.NoError(t, err)
	require.Equal(t, `package x

// T has words.
type T struct{}

// f is documented.
func (r0 *T) f(a0 int, a1 int, a2 string) (sum int, err error) {
	switch chosenMutant {
	case 1:
		return r0.f__1(a0, a1, a2)
	case 3:
		return r0.f__3(a0, a1, a2)
	}
	return r0.f__0(a0, a1, a2)
}

func (t *T) f__0(a, b int, _ string) (sum int, err error) {
	return a + b, nil
}

func (t *T) f__1(a, b int, _ string) (sum int, err error) {
	return a - b, nil
}

func (t *T) f__3(a, b int, _ string) (sum int, err error) {
	return a * b, nil
}


func g(a0 ...int)  {
	switch chosenMutant {
	case 2:
		g__2(a0...)
		return
	}
	g__0(a0...)
}

func g__0(xs ...int) { println(len(xs)) }

func g__2(xs ...int) { println(1) }


func h[A any](a A) A { return a }

var v = 1
`, files["x.go"])
	require.Contains(t, files["zz_mutants.go"], "package x\n")
	for _, old := range []string{"return a }", "v = 1", "package x"} {
		_, err := variants(dir, []mutant{{id: "nowhere", file: "x.go", old: old, new: "x"}})
		require.ErrorContains(t, err, "nowhere: its text does not lie in the body of one function")
	}
}

// TestTheTableStandsBetweenItsMarkers writes one and writes it again.
func TestTheTableStandsBetweenItsMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	require.ErrorContains(t, writeTable(path, "x"), "no such file")
	require.NoError(t, os.WriteFile(path, []byte("before\n"), 0o600))
	require.ErrorContains(t, writeTable(path, "x"), "no markers")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+tableBegins+"\nold\n"+tableEnds+"\nafter\n"), 0o600))
	text := table([]outcome{{
		mutant: &mutant{id: "held-add", rules: []string{"row held", "R06"}, breaks: "a | b", file: "fsm/admission.go"},
		caught: caught{by: invariant("barriers end"), test: "TestX", message: "came `x`\n\tand | y"}, ok: true, seconds: 3.6,
	}})
	for range 2 {
		require.NoError(t, writeTable(path, text))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "before\n"+tableBegins+"\n\nCaught 1 of 1.\n\n"+
			"| mutant | rules | what it breaks | file | caught by | what was said first | s |\n|---|---|---|---|---|---|---|\n"+
			"| held-add | row held, R06 | a \\| b | admission.go | invariant \"barriers end\" in `TestX` | `came 'x' and \\| y` | 4 |\n\n"+
			tableEnds+"\nafter\n", string(data))
	}
}

// TestTheSampleIsFiveOfAll and words choose what they name.
func TestTheSampleIsFiveOfAll(t *testing.T) {
	require.Len(t, choose("all"), len(mutants()))
	require.Len(t, choose("sample"), sampleSize)
	held := choose("row held,no such rule")
	require.NotEmpty(t, held)
	for _, m := range held {
		require.Contains(t, m.rules, "row held")
	}
	require.Empty(t, choose("no such rule"))
}
