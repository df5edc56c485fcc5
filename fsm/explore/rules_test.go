package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// change is a rule of the state machine that is broken in one place, while mutant has its id.
type change struct {
	id, file, old, new string
	// world is where it is found, rule what is then broken.
	world, rule string
}

func changes() []change {
	return []change{
		{
			id: "R06", file: "read.go", world: "drop and add again", rule: "one writer per key",
			old: "	if !ok || holder == row.ID {",
			new: "	if !ok || holder == row.ID || mutant == \"R06\" { // a range is free while a removal holds it",
		},
		{
			id: "R08", file: "checkpoint.go", world: "event of listed tables", rule: "positions never go back",
			old: "	return row.Position.Max(feed.Watermark)",
			new: "	if mutant == \"R08\" { // a counted waiting is forgotten with its placement\n		return feed.Watermark\n	}\n	return row.Position.Max(feed.Watermark)",
		},
		{
			id: "R13", file: "barrier.go", world: "event of unknown outcome", rule: "what was begun can end",
			old: "	case SaidWritten, SaidNotBegun, SaidUnknown:\n",
			new: "	case SaidWritten, SaidNotBegun, SaidUnknown:\n		if mutant == \"R13\" && row.Phase != Running { // a holder that stops is not heard\n			return ReportInert\n		}\n",
		},
		{
			id: "R16", file: "event.go", world: "schema change and sync point at one ts", rule: "a table that an event adds starts at the event",
			old: "		s.addTable(feed, spec, b.Key.At, x)",
			new: "		at := b.Key.At\n		if mutant == \"R16\" { // a table that an event adds starts after everything at its ts\n			at = At(at.TS)\n		}\n		s.addTable(feed, spec, at, x)",
		},
		{
			id: "I11", file: "barrier.go", world: "event of listed tables", rule: "an event is written when everybody has reached it",
			old: "	case b.Status == BarrierCollecting && sum.behind == 0:",
			new: "	case b.Status == BarrierCollecting && (sum.behind == 0 || mutant == \"I11\"): // granted to whoever comes first",
		},
		{
			id: "CAS", file: "node.go", world: "leases and registrations", rule: "stale input changes nothing",
			old: "	if n.LastTick != m.ExpectTick {",
			new: "	if n.LastTick != m.ExpectTick && mutant != \"CAS\" { // an expiry does not look at the last tick",
		},
	}
}

// A rule of the state machine that is broken is found, by the rule that it breaks and with a script that shows it. The
// invariants of the state machine find some of these as well, which does not count here: they are left out.
func TestReview_BrokenRulesOfTheStateMachineAreFound(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("builds the explorer anew and searches with it: make explore-short")
	}
	binary := brokenExplorer(t)
	for _, c := range changes() {
		t.Run(c.id, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), binary, "-only", c.world, "-most", "2000000")
			cmd.Env = append(os.Environ(), "WEIR_MUTANT="+c.id)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "%s", out)
			require.Contains(t, string(out), c.rule)
			require.Contains(t, string(out), "\nregister n1\n")
		})
	}
}

// brokenExplorer builds the explorer with every change in it, each asleep until its id is in WEIR_MUTANT.
func brokenExplorer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	fsmDir, err := filepath.Abs("..")
	require.NoError(t, err)
	replace := map[string]string{}
	put := func(file, text string) {
		path := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		replace[filepath.Join(fsmDir, file)] = path
	}
	texts := map[string]string{}
	for _, c := range changes() {
		if texts[c.file] == "" {
			source, err := os.ReadFile(filepath.Join(fsmDir, c.file))
			require.NoError(t, err)
			texts[c.file] = string(source)
		}
		require.Equal(t, 1, strings.Count(texts[c.file], c.old), "%s: %s must stand once in %s", c.id, c.old, c.file)
		texts[c.file] = strings.Replace(texts[c.file], c.old, c.new, 1)
	}
	for file, text := range texts {
		put(file, text)
	}
	source, err := os.ReadFile(filepath.Join(fsmDir, "invariant.go"))
	require.NoError(t, err)
	const barriers = "\t\td.checkBarriers(),\n"
	require.Equal(t, 1, strings.Count(string(source), barriers))
	put("invariant.go", strings.Replace(string(source), barriers, "", 1))
	put("mutant.go", "package fsm\n\nimport \"os\"\n\nvar mutant = os.Getenv(\"WEIR_MUTANT\")\n")

	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	overlayFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "explore")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlayFile, "-o", binary, "./cmd/explore").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
