package changelog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/jepsen/changelog"
)

func TestALogReplaysToWhatItsWriterHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.ndjson")
	w, err := changelog.Create(path, changelog.MainTables(), 7)
	require.NoError(t, err)
	for range 50 {
		require.NoError(t, w.Append(100))
	}
	require.NoError(t, w.Touch())
	require.NoError(t, w.Close())
	r, err := changelog.Replay(path)
	require.NoError(t, err)
	require.Equal(t, w.Position(), r.LastTS)
	require.GreaterOrEqual(t, w.Rows(), int64(5000))
	var changes int64
	for _, n := range r.Changes {
		changes += n
	}
	require.Greater(t, changes, w.Rows(), "some updates change the key, which are two effects")
	require.Len(t, r.Tables, 3)
	for name, rows := range r.Tables {
		require.NotEmpty(t, rows, name)
	}
	require.Equal(t, []string{"order_no", "part"}, r.Keys["lines"])
}

func TestReplayFollowsTheLinesOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.ndjson")
	const pk = `"schema":"public","table":"t","pk":[{"name":"id","type":"integer"}]`
	require.NoError(t, os.WriteFile(path, []byte(strings.Join([]string{
		`{"action":"B","nextlsn":"1/A"}`,
		`{"action":"I",` + pk + `,"columns":[{"name":"id","type":"integer","value":1},{"name":"v","type":"numeric(6,2)","value":6.00}]}`,
		`{"action":"I",` + pk + `,"columns":[{"name":"id","type":"integer","value":2},{"name":"v","type":"numeric(6,2)","value":null}]}`,
		`{"action":"C","nextlsn":"1/A"}`,
		`{"action":"B","nextlsn":"1/B"}`,
		`{"action":"U",` + pk + `,"columns":[{"name":"id","type":"integer","value":3},{"name":"v","type":"numeric(6,2)","value":7}],"identity":[{"name":"id","type":"integer","value":1}]}`,
		`{"action":"C","nextlsn":"1/B"}`,
		`{"action":"B","nextlsn":"1/C"}`,
		`{"action":"D",` + pk + `,"identity":[{"name":"id","type":"integer","value":3}]}`,
		`{"action":"C","nextlsn":"1/C"}`,
	}, "\n")), 0o600))
	r, err := changelog.Replay(path)
	require.NoError(t, err)
	require.Equal(t, uint64(1)<<32|0xC, r.LastTS)
	require.Equal(t, int64(5), r.Changes["t"])
	require.Equal(t, map[string]map[string]map[string]string{"t": {"2": {"id": "2", "v": changelog.Null}}}, r.Tables)
}

func TestTheSameSeedWritesTheSameRows(t *testing.T) {
	dir := t.TempDir()
	replay := func(name string, seed uint64) *changelog.Replica {
		w, err := changelog.Create(filepath.Join(dir, name), changelog.SmallTables("s", 5), seed)
		require.NoError(t, err)
		require.NoError(t, w.Append(500))
		require.NoError(t, w.Close())
		r, err := changelog.Replay(filepath.Join(dir, name))
		require.NoError(t, err)
		return r
	}
	require.Equal(t, replay("a", 1), replay("b", 1))
	require.NotEqual(t, replay("a", 1), replay("c", 2))
}

func TestIntegerKeysKeepTheOrderOfNumbers(t *testing.T) {
	last := ""
	for _, n := range []int64{-1 << 63, -5, -1, 0, 1, 255, 256, 1 << 62} {
		key := string(changelog.IntegerKey(n))
		require.Less(t, last, key)
		last = key
	}
	require.Len(t, changelog.AccountSplits(4), 3)
}
