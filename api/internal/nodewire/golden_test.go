package nodewire

import (
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestGoldenMessages holds the bytes of every message of a session: nodes and servers of different versions talk, so a
// field keeps its number and its meaning.
func TestGoldenMessages(t *testing.T) {
	var out strings.Builder
	line := func(name string, m proto.Message, err error) {
		require.NoError(t, err, name)
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(t, err, name)
		fmt.Fprintf(&out, "%s: %s\n", name, hex.EncodeToString(raw))
	}
	fromNode, fromLeader := fromNodeMessages(), fromLeaderMessages()
	for _, name := range slices.Sorted(maps.Keys(fromNode)) {
		m, err := FromNode(fromNode[name])
		line("node "+name, m, err)
	}
	for _, name := range slices.Sorted(maps.Keys(fromLeader)) {
		m, err := FromLeader(fromLeader[name])
		line("leader "+name, m, err)
	}
	file := filepath.Join("testdata", "messages.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String(), "messages of sessions have changed")
}
