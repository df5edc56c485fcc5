package run

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/jepsen/checker"
)

// ended finishes a run that saw what the change says.
func ended(t *testing.T, change func(*Summary)) (out, folder string, err error) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Mkdir(folder, 0o700))
	var printed bytes.Buffer
	s := &Summary{Run: "kills", Seed: 7, Rerun: "jepsen kills --seed 7", Folder: folder, Reports: []*checker.Report{{Check: "one", Looked: 3}}}
	s.count("kills", 5, 5)
	change(s)
	err = s.finish(&Options{Out: &printed})
	return printed.String(), folder, err
}

func TestACleanRunPassesAndLeavesNothing(t *testing.T) {
	out, folder, err := ended(t, func(*Summary) {})
	require.NoError(t, err)
	require.Contains(t, out, "violations: 0")
	require.Contains(t, out, "rerun: jepsen kills --seed 7")
	require.NoDirExists(t, folder)
}

func TestARunThatDidTooLittleFails(t *testing.T) {
	for name, change := range map[string]func(*Summary){
		"a count under its floor":           func(s *Summary) { s.count("rows", 1, 2) },
		"a check that looked at nothing":    func(s *Summary) { s.add(&checker.Report{Check: "two"}) },
		"a violation of a check":            func(s *Summary) { s.add(&checker.Report{Check: "one", Looked: 1, Count: 1, Violations: []string{"v"}}) },
		"a violation outside of all checks": func(s *Summary) { s.violate("a server ended by itself") },
	} {
		out, folder, err := ended(t, change)
		require.ErrorIs(t, err, ErrFailed, name)
		require.Regexp(t, "TOO LITTLE|VIOLATION", out, name)
		require.FileExists(t, filepath.Join(folder, "summary.json"), name)
	}
}

func TestReportsOfOneCheckAddUp(t *testing.T) {
	s := &Summary{}
	s.add(&checker.Report{Check: "a", Looked: 1, Count: 1, Violations: []string{"x"}, Figures: map[string]int64{"least gap": 5, "n": 1}})
	s.add(&checker.Report{Check: "a", Looked: 2, Figures: map[string]int64{"least gap": 3, "n": 1}}, &checker.Report{Check: "b"})
	require.Len(t, s.Reports, 2)
	require.Equal(t, 3, s.Reports[0].Looked)
	require.Equal(t, map[string]int64{"least gap": 3, "n": 2}, s.Reports[0].Figures)
	require.Equal(t, 1, s.violations())
}
