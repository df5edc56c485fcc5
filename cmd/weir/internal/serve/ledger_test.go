package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// TestAnEdgeNeverWaitsForTheDiskAndStandsBeforeTheNextCall blocks the file and notes an edge under the block.
func TestAnEdgeNeverWaitsForTheDiskAndStandsBeforeTheNextCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := openLedger(path, "n1", clock.System())
	require.NoError(t, err)
	l.mu.Lock() // the disk stands still
	l.Gate(fence.Edge{Kind: fence.EdgeOpened, Incarnation: 7, Opening: 1})
	l.Gate(fence.Edge{Kind: fence.EdgeClosed, Incarnation: 7, Opening: 1})
	l.mu.Unlock()
	l.Attempt(dispatcher.SinkCall{Kind: dispatcher.CallWrite, Incarnation: 7, Dispatcher: 3})
	l.Outcome(dispatcher.SinkCall{Kind: dispatcher.CallWrite, Incarnation: 7, Dispatcher: 3, Outcome: dispatcher.CallRefused})
	require.NoError(t, l.Close())

	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var got []string
	for scan := bufio.NewScanner(file); scan.Scan(); {
		var line LedgerLine
		require.NoError(t, json.Unmarshal(scan.Bytes(), &line))
		require.NotZero(t, line.At)
		require.Equal(t, "n1", line.Node)
		got = append(got, line.Event+line.Edge+line.Outcome)
	}
	require.Equal(t, []string{"gateopened", "gateclosed", "attempt", "outcomerefused"}, got)
}

func TestTheLedgerTellsOfEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := openLedger(path, "n1", clock.System())
	require.NoError(t, err)
	key := fsm.BarrierKey{Changefeed: 9, Run: 2, At: fsm.Position{TS: 30, Stage: fsm.StageDDL}}
	l.Attempt(dispatcher.SinkCall{Kind: dispatcher.CallEvent, Dispatcher: 3, Event: key, Permission: 4})
	l.Event(dispatcher.EventNote{
		Kind: dispatcher.EventWritten, Dispatcher: 3, Changefeed: "feed", Key: key, Permission: 4, Recorded: true,
		At: clock.Reading{Boot: 77},
	})
	require.NoError(t, l.Close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var call, note LedgerLine
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	require.Len(t, lines, 2)
	require.NoError(t, json.Unmarshal(lines[0], &call))
	require.NoError(t, json.Unmarshal(lines[1], &note))
	require.Equal(t, []any{"attempt", "event", uint64(2), "30/ddl", uint64(4)},
		[]any{call.Event, call.Call, call.Run, call.Key, call.Permission})
	require.Equal(t, []any{"barrier", "written", "feed", uint64(2), "30/ddl", uint64(4), true, int64(77)},
		[]any{note.Event, note.Step, note.Changefeed, note.Run, note.Key, note.Permission, note.Recorded, note.At})
}
