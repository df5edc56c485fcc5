package fsm_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/scenario"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with the output that the scripts really give")

// runScript runs a script and compares its output with what it expects, or rewrites it.
func runScript(t *testing.T, path string, o scenario.Options) scenario.Result {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	result, err := scenario.Run(strings.NewReader(string(data)), path, o)
	if *update && err == nil {
		require.NoError(t, os.WriteFile(path, []byte(result.Script), 0o600))
		result.Mismatches = nil
	}
	require.NoError(t, err, "%s", result.Script)
	for _, m := range result.Mismatches {
		t.Errorf("%s\nafter a change that is right: go test ./fsm -run Scenario -update", m)
	}
	return result
}

func scripts(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

func TestScenarios(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			require.NotZero(t, runScript(t, path, scenario.Options{}).Entries)
		})
	}
}

// TestScenariosExpectSomething makes sure that no script passes because it compares nothing.
func TestScenariosExpectSomething(t *testing.T) {
	for _, path := range scripts(t) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(data), "\n----\n", "%s expects nothing", path)
		result, err := scenario.Run(strings.NewReader(strings.ReplaceAll(string(data), "\n----\n", "\n----\nspoiled\n")), path, scenario.Options{})
		require.NoError(t, err)
		require.NotEmpty(t, result.Mismatches)
	}
}

// TestEveryReasonIsReached fails on a reason that no script shows.
func TestEveryReasonIsReached(t *testing.T) {
	var all strings.Builder
	for _, path := range scripts(t) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(data)
	}
	require.NotEmpty(t, fsm.Reasons())
	for _, r := range fsm.Reasons() {
		require.Regexp(t, `[:=,] ?`+r.String()+`\b`, all.String(), "no script of testdata shows %s", r)
	}
}

// TestAdmissionTableIsVisited fails on a cell of the admission table that no script reaches.
func TestAdmissionTableIsVisited(t *testing.T) {
	visited := map[fsm.Cell]int{}
	for _, path := range scripts(t) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = scenario.Run(strings.NewReader(string(data)), path, scenario.Options{Cell: func(c fsm.Cell) { visited[c]++ }})
		require.NoError(t, err)
	}
	// A dispatcher is held from its birth, since its table's name was free only after the drop that holds it. Until the
	// hold ends it takes no operator but a removal, with which it goes: so no operator of it can be cancelled.
	unreachable := fsm.Cell{Slot: fsm.SlotHeld, Ask: fsm.ReqCancel}
	require.Contains(t, fsm.AdmissionCells(), unreachable)
	for _, cell := range fsm.AdmissionCells() {
		switch {
		case cell == unreachable && visited[cell] != 0:
			t.Errorf("a script visits %s, which was thought to be out of reach: expect it like the others", cell)
		case cell != unreachable && visited[cell] == 0:
			t.Errorf("no script of testdata visits %s", cell)
		}
	}
}
