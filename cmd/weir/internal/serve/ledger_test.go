package serve

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
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
