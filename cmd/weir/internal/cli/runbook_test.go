package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// TestRunbook: whatever code a user may meet, the runbook says what to do about it.
func TestRunbook(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	raw, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md"))
	require.NoError(t, err)
	codes := map[string]string{}
	for _, r := range fsm.Reasons() {
		if r != fsm.Accepted && r != fsm.ReportCounted && r != fsm.ReportInert { // these are no refusals
			codes[r.String()] = "fsm"
		}
	}
	constant := regexp.MustCompile(`(?m)^\s*Reason\w+\s*=\s*"([A-Z_]+)"`)
	lease := regexp.MustCompile(`errors\.New\("([A-Z_]+):`)
	for _, folder := range []string{"api", "dispatcher", "fence"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range append(constant.FindAllStringSubmatch(string(source), -1), lease.FindAllStringSubmatch(string(source), -1)...) {
				codes[m[1]] = path
			}
			return nil
		}))
	}
	require.Greater(t, len(codes), 70)
	for code, where := range codes {
		assert.True(t, strings.Contains(string(raw), "`"+code+"`"), "docs/runbook.md does not say what to do about %s of %s", code, where) //nolint:testifylint // the document is too long to print
	}
}
