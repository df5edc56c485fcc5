package dev

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	data "github.com/weir-project/weir/cmd/weir/demo"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
	"github.com/weir-project/weir/fsm"
)

const smallLog = `{"action":"B","nextlsn":"0/10"}
{"action":"I"}
{"action":"C","nextlsn":"0/10"}
{"action":"B","nextlsn":"1/0"}
{"action":"I"}
{"action":"C","nextlsn":"1/0"}
`

func rowsAt(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageRows} }

// TestFeed: lines come whole, in order, over the pace, and none passes a hold.
func TestFeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	synctest.Test(t, func(t *testing.T) {
		f, err := newFeeder([]byte(smallLog), 6*time.Second)
		require.NoError(t, err)
		f.hold(0.5)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- f.run(ctx, path) }()
		lines := func() int {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix([]byte(smallLog), raw))
			return bytes.Count(raw, []byte("\n"))
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, lines())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 3, lines(), "held")
		require.InDelta(t, 0.5, f.share(), 0.001)
		require.Zero(t, f.lag(rowsAt(0x10), time.Now()), "everything that was fed is done")
		require.Greater(t, f.lag(fsm.Position{}, time.Now()), 9*time.Second)
		f.hold(1)
		require.NoError(t, <-result)
		require.Equal(t, 6, lines())
	})
}

func TestFeedPositions(t *testing.T) {
	f, err := newFeeder([]byte(smallLog), time.Second)
	require.NoError(t, err)
	require.Equal(t, rowsAt(1<<32), f.end())
	for position, share := range map[fsm.Position]float64{{}: 0, {TS: 0x10}: 0, rowsAt(0x10): 0.5, rowsAt(0x11): 0.5, rowsAt(1 << 32): 1, fsm.At(1 << 40): 1} {
		require.InDelta(t, share, f.reached(position), 0.001, position)
	}
}

func TestBadFeed(t *testing.T) {
	for _, log := range []string{"", "nonsense\n", `{"action":"B","nextlsn":"x"}` + "\n", `{"action":"I"}` + "\n"} {
		_, err := newFeeder([]byte(log), time.Second)
		require.Error(t, err, log)
	}
}

// TestDemoData: the embedded log is complete, its end is where the source says it is, and the demo's tables are there.
func TestDemoData(t *testing.T) {
	raw, err := data.Log()
	require.NoError(t, err)
	f, err := newFeeder(raw, time.Second)
	require.NoError(t, err)
	require.Len(t, f.lines, 43996)
	require.Len(t, f.transactions, 8407)
	path := filepath.Join(t.TempDir(), "log.ndjson")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	s, err := wal2json.SurveyLog(t.Context(), wal2json.Scheme+":"+path)
	require.NoError(t, err)
	require.Equal(t, s.Last, f.end())
	final, err := data.Final()
	require.NoError(t, err)
	for _, table := range feedTables() {
		require.NotEmpty(t, final[table], table)
	}
}
