package serve

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
)

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func threePeers(t *testing.T) (peers []Peer, grpc []string) {
	t.Helper()
	for i := range 3 {
		p := Peer{ID: fmt.Sprintf("s%d", i+1), RaftAddress: freeAddress(t), GRPCAddress: freeAddress(t)}
		peers, grpc = append(peers, p), append(grpc, p.GRPCAddress)
	}
	return peers, grpc
}

// logOf makes a wal2json log of n inserts into public.t.
func logOf(n int) string {
	var b strings.Builder
	for i := range n {
		lsn := fmt.Sprintf("0/%X", 0x1000+i*0x10)
		fmt.Fprintf(&b, `{"action":"B","xid":%d,"timestamp":"2026-01-01 00:00:00+00","lsn":"%s","nextlsn":"%s"}`+"\n", i, lsn, lsn)
		fmt.Fprintf(&b, `{"action":"I","xid":%d,"timestamp":"2026-01-01 00:00:00+00","lsn":"%s","schema":"public","table":"t","columns":[{"name":"id","type":"integer","value":%d},{"name":"v","type":"text","value":"v%d"}],"pk":[{"name":"id","type":"integer"}]}`+"\n", i, lsn, i, i)
		fmt.Fprintf(&b, `{"action":"C","xid":%d,"timestamp":"2026-01-01 00:00:00+00","lsn":"%s","nextlsn":"%s"}`+"\n", i, lsn, lsn)
	}
	return b.String()
}

// TestThreeServersWithAgentsReplicateALog is a whole system in one process over real sockets and files: three servers,
// each with an agent, a changefeed placed by the scheduler, a planned stop.
func TestThreeServersWithAgentsReplicateALog(t *testing.T) {
	dir := t.TempDir()
	peers, grpc := threePeers(t)
	stops, ended := make([]context.CancelFunc, 3), make([]chan error, 3)
	for i, p := range peers {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		stops[i], ended[i] = stop, make(chan error, 1)
		go func() {
			ended[i] <- Server(ctx, ServerConfig{
				ID: p.ID, DataDir: filepath.Join(dir, p.ID), RaftAddress: p.RaftAddress, GRPCAddress: p.GRPCAddress, Peers: peers,
				LogOutput: io.Discard,
				Agent: &AgentConfig{
					Node: "n" + p.ID, DataDir: filepath.Join(dir, "n"+p.ID), Servers: grpc, LogOutput: io.Discard,
					LedgerFile: filepath.Join(dir, p.ID+".ledger"),
				},
			})
		}()
	}
	log, replica := filepath.Join(dir, "log.ndjson"), filepath.Join(dir, "replica.db")
	require.NoError(t, os.WriteFile(log, []byte(logOf(300)), 0o600))

	api, err := client.New(client.Config{Addresses: grpc, By: "test"})
	require.NoError(t, err)
	defer api.Close()
	call, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = api.CreateChangefeed(call, &weirv1.CreateChangefeedRequest{
		Name: "f", Source: "wal2json:" + log, Sink: "sqlite:" + replica, SinkFenced: true,
		Tables: []*weirv1.TableSpec{{Schema: "public", Name: "t"}},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return countRows(t, replica) == 300 }, 20*time.Second, 50*time.Millisecond)

	stops[0]()
	require.NoError(t, <-ended[0], "a planned stop of one says goodbye and hands over")
	stops[1]()
	stops[2]()
	for _, e := range ended[1:] {
		if err := <-e; err != nil { // there is no majority left to say goodbye to
			require.ErrorContains(t, err, "say goodbye")
		}
	}
	for _, p := range peers {
		require.FileExists(t, filepath.Join(dir, p.ID+".ledger"))
	}
}

func countRows(t *testing.T, path string) int {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return 0
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	n := 0
	if err := db.QueryRow("select count(*) from t").Scan(&n); err != nil {
		return 0
	}
	return n
}

func TestBadSettingsAreRefusedInOneSentence(t *testing.T) {
	dir := t.TempDir()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	peers, _ := threePeers(t)
	good := func() ServerConfig {
		return ServerConfig{
			ID: "s1", DataDir: filepath.Join(dir, "s1"), RaftAddress: peers[0].RaftAddress, GRPCAddress: peers[0].GRPCAddress,
			Peers: peers, LogOutput: io.Discard,
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*ServerConfig)
		want  string
	}{
		"gRPC port taken":        {func(c *ServerConfig) { c.GRPCAddress = taken.Addr().String() }, "stop what uses the port"},
		"gRPC beyond loopback":   {func(c *ServerConfig) { c.GRPCAddress = "0.0.0.0:7000" }, "only loopback addresses are allowed"},
		"Raft port taken":        {func(c *ServerConfig) { c.RaftAddress = taken.Addr().String(); c.Peers = withRaft(peers, c.RaftAddress) }, taken.Addr().String()},
		"Raft beyond loopback":   {func(c *ServerConfig) { c.RaftAddress = "10.0.0.1:7000" }, "only loopback addresses are allowed"},
		"unknown profile":        {func(c *ServerConfig) { c.Profile = "turbo" }, "use normal"},
		"not among its peers":    {func(c *ServerConfig) { c.ID = "s9" }, "s9 is not among the peers"},
		"address without a port": {func(c *ServerConfig) { c.GRPCAddress = "localhost" }, "must be host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good()
			tc.spoil(&cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := Server(ctx, cfg)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func withRaft(peers []Peer, address string) []Peer {
	changed := append([]Peer(nil), peers...)
	changed[0].RaftAddress = address
	return changed
}

func TestAnAgentsFolderIsForOneProcess(t *testing.T) {
	dir := t.TempDir()
	first, err := lockFolder(dir)
	require.NoError(t, err)
	require.NotZero(t, first.Inode)
	_, err = lockFolder(dir)
	require.ErrorContains(t, err, "in use by another agent")
	_, err = lockFolder("")
	require.ErrorContains(t, err, "no data folder")
}
