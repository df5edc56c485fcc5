package cli

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

// stoppedServer makes the folder of a server that has registered a node and was stopped, and returns the index of that.
func stoppedServer(t *testing.T) (dir string, index uint64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	dir = filepath.Join(t.TempDir(), "s1")
	node, err := raftnode.Open(raftnode.Config{
		ID: "s1", DataDir: dir, RaftBind: address, GRPCAddress: "127.0.0.1:9", Clock: clock.System(), Timers: clock.SystemTimers{},
		Peers:      []raftnode.Peer{{ID: "s1", RaftAddress: address}},
		Generation: func() fsm.Generation { return 29 }, Wall: func() int64 { return 1 },
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	require.Eventually(t, func() bool {
		view, _, ok := node.Local()
		return ok && node.Leadership().Leading && view.Meta().Generation != 0
	}, 30*time.Second, 10*time.Millisecond)
	verdicts, err := node.Propose(t.Context(), fsm.Proposal{
		By: "ann", Request: "r1", Command: &fsm.RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1, Address: "a b"},
	})
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended)
	return dir, verdicts[0].Index
}

// TestLogOfAStoppedServer prints entries and earlier states out of a folder.
func TestLogOfAStoppedServer(t *testing.T) {
	dir, index := stoppedServer(t)
	r := run(t, shop(), "log", "show", "--data-dir", dir)
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "begin-generation generation=29")
	require.Contains(t, r.stdout, `register-node node=n1 address="a b" lease_ms=2000 clock_class=1 protocol=1  by ann  request r1`)
	require.Contains(t, r.stdout, "configuration")
	last := number(index)
	r = run(t, shop(), "log", "show", "--data-dir", dir, "--from", last, "--to", last, "-o", "json")
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, `"request_id": "r1"`)
	require.Equal(t, 1, strings.Count(r.stdout, `"commands":`))

	r = run(t, shop(), "log", "replay", "--data-dir", dir, "--to", last)
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "entry "+last)
	require.Regexp(t, `nodes +1, of which 1 are live`, r.stdout)
	r = run(t, shop(), "log", "replay", "--data-dir", dir, "--to", number(index-1))
	require.Regexp(t, `nodes +0, of which 0 are live`, r.stdout)
	r = run(t, shop(), "log", "replay", "--data-dir", dir, "--to", "99999")
	require.Equal(t, ExitRejected, r.code)
	require.Contains(t, r.stderr, "INDEX_NOT_YET")
}
