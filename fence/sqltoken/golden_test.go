package sqltoken

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestGoldenSchema holds the fence rows' layout: they outlive the version that made them.
func TestGoldenSchema(t *testing.T) {
	file := filepath.Join("testdata", "sqlite.sql")
	got := strings.Join(SQLite().Schema, ";\n") + ";\n"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "the layout of fence rows has changed")
}
