package raftnode_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

// The tests of this file run over real TCP and real files.

type server struct {
	node   *raftnode.Node
	cancel context.CancelFunc
	result chan error
}

// stop ends the server as planned.
func (s *server) stop(t *testing.T) error {
	t.Helper()
	s.cancel()
	select {
	case err := <-s.result:
		return err
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the server does not stop")
		return nil
	}
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		ports = append(ports, l.Addr().String())
	}
	return ports
}

func diskConfig(dir string, id fsm.ServerID, addresses map[fsm.ServerID]string) raftnode.Config {
	cfg := raftnode.Config{
		ID: id, DataDir: dir, RaftBind: addresses[id], GRPCAddress: "127.0.0.1:9999",
		Clock: clock.System(), Timers: clock.SystemTimers{}, Logger: hclog.NewNullLogger(),
		Timing:     raftnode.Timing{Multiplier: 3}, // the machine of the tests may be busy
		Generation: func() fsm.Generation { return 77 }, Wall: func() int64 { return 1 },
		TrailingLogs: -1,
	}
	for peer, address := range addresses {
		cfg.Peers = append(cfg.Peers, raftnode.Peer{ID: peer, RaftAddress: address})
	}
	return cfg
}

func run(t *testing.T, cfg raftnode.Config) *server {
	t.Helper()
	node, err := raftnode.Open(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{node: node, cancel: cancel, result: make(chan error, 1)}
	go func() { s.result <- node.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = node.Close()
	})
	return s
}

func single(t *testing.T) raftnode.Config {
	t.Helper()
	cfg := diskConfig(filepath.Join(t.TempDir(), "s1"), "s1", map[fsm.ServerID]string{"s1": freePorts(t, 1)[0]})
	cfg.Timing.Multiplier = 1
	return cfg
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 10*time.Millisecond)
}

func begun(n *raftnode.Node) bool {
	view, _, ok := n.Local()
	return ok && n.Leadership().Leading && view.Meta().Generation != 0
}

// filled makes a data folder with a snapshot and entries behind it, and returns its hash at its last index.
func filled(t *testing.T, cfg raftnode.Config) (fsm.Digest, uint64) {
	t.Helper()
	s := run(t, cfg)
	eventually(t, func() bool { return begun(s.node) })
	for i := range 20 {
		require.NoError(t, raftnode.Outcome(s.node.Propose(t.Context(), register(fmt.Sprintf("a%d", i)))))
	}
	require.NoError(t, s.node.Snapshot(t.Context()))
	for i := range 5 {
		require.NoError(t, raftnode.Outcome(s.node.Propose(t.Context(), register(fmt.Sprintf("b%d", i)))))
	}
	index := s.node.AppliedIndex()
	hash, ok := s.node.HashAt(index)
	require.True(t, ok)
	require.NoError(t, s.stop(t))
	return hash, index
}

func TestDisk_restart_from_snapshot_and_log_gives_the_same_state(t *testing.T) {
	cfg := single(t)
	hash, index := filled(t, cfg)
	s := run(t, cfg)
	eventually(t, func() bool { return begun(s.node) })
	got, ok := s.node.HashAt(index)
	require.True(t, ok)
	require.Equal(t, hash, got)
	require.NotEmpty(t, s.node.Cluster())
	require.NoError(t, s.stop(t))
}

// refused opens a server that must not start, and checks that the sentence names what it should and that nothing in the
// folder has changed and nothing is left open.
func refused(t *testing.T, cfg raftnode.Config, names ...string) {
	t.Helper()
	before := tree(t, cfg.DataDir)
	node, err := raftnode.Open(cfg)
	if err == nil {
		require.NoError(t, node.Close())
	}
	require.Error(t, err)
	t.Log(err)
	require.NotContains(t, err.Error(), "\n", "one sentence")
	for _, name := range names {
		require.Contains(t, err.Error(), name)
	}
	require.Empty(t, changes(before, tree(t, cfg.DataDir)))
	if l, err := net.Listen("tcp", cfg.RaftBind); err == nil {
		require.NoError(t, l.Close())
	} else {
		require.Contains(t, strings.Join(names, " "), cfg.RaftBind, "the port was left bound")
	}
}

// changes names the files that differ.
func changes(before, after map[string]string) []string {
	var names []string
	for path, data := range before {
		if after[path] != data {
			names = append(names, path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			names = append(names, path)
		}
	}
	return names
}

// tree is every file with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a folder that is not there has no files
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[path] = string(data)
		return nil
	})
	require.NoError(t, err)
	return files
}

func TestBadInput_configuration(t *testing.T) {
	good := single(t)
	for name, c := range map[string]struct {
		spoil func(*raftnode.Config)
		want  string
	}{
		"no id":      {func(c *raftnode.Config) { c.ID = "" }, "no server id"},
		"no folder":  {func(c *raftnode.Config) { c.DataDir = "" }, "no data folder"},
		"no peers":   {func(c *raftnode.Config) { c.Peers = nil }, "no peers"},
		"not a peer": {func(c *raftnode.Config) { c.ID = "s9" }, "s9 is not among the peers"},
		"twice":      {func(c *raftnode.Config) { c.Peers = append(c.Peers, c.Peers[0]) }, "listed twice"},
		"same address": {func(c *raftnode.Config) {
			c.Peers = append(c.Peers, raftnode.Peer{ID: "s2", RaftAddress: c.Peers[0].RaftAddress})
		}, "the same Raft address"},
		"empty peer":     {func(c *raftnode.Config) { c.Peers = append(c.Peers, raftnode.Peer{ID: "s2"}) }, "both are needed"},
		"all interfaces": {func(c *raftnode.Config) { c.RaftBind = "0.0.0.0:7000" }, "no TLS yet"},
		"another host":   {func(c *raftnode.Config) { c.RaftBind = "192.0.2.1:7000" }, "only loopback"},
		"no port":        {func(c *raftnode.Config) { c.RaftBind = "127.0.0.1" }, "host:port"},
		"peer elsewhere": {func(c *raftnode.Config) {
			c.Peers = append(c.Peers, raftnode.Peer{ID: "s2", RaftAddress: "192.0.2.1:1"})
		}, "server s2 is 192.0.2.1:1"},
		"other advertise":   {func(c *raftnode.Config) { c.RaftAdvertise = "127.0.0.1:1" }, "make them equal"},
		"multiplier":        {func(c *raftnode.Config) { c.Timing.Multiplier = 11 }, "between 1 and 10"},
		"no clock":          {func(c *raftnode.Config) { c.Clock = nil }, "a clock"},
		"endless server id": {func(c *raftnode.Config) { c.ID = fsm.ServerID(strings.Repeat("x", 300)) }, "at most 255 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			cfg.Peers = append([]raftnode.Peer{}, good.Peers...)
			c.spoil(&cfg)
			_, err := raftnode.Open(cfg)
			require.ErrorContains(t, err, c.want)
			require.NoDirExists(t, good.DataDir, "nothing was made")
		})
	}
}

func TestBadInput_data_folder_in_use(t *testing.T) {
	cfg := single(t)
	s := run(t, cfg)
	eventually(t, func() bool { return begun(s.node) })
	other := cfg
	other.RaftBind = freePorts(t, 1)[0]
	other.Peers = []raftnode.Peer{{ID: "s1", RaftAddress: other.RaftBind}}
	_, err := raftnode.Open(other)
	require.ErrorContains(t, err, cfg.DataDir)
	require.ErrorContains(t, err, fmt.Sprintf("in use by the process with pid %d", os.Getpid()))
	require.NoError(t, raftnode.Outcome(s.node.Propose(t.Context(), tick())), "the other one goes on")
	require.NoError(t, s.stop(t))
}

func TestBadInput_port_taken(t *testing.T) {
	cfg := single(t)
	l, err := net.Listen("tcp", cfg.RaftBind)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	refused(t, cfg, cfg.RaftBind, "choose another")
	require.NoDirExists(t, cfg.DataDir)
}

func TestBadInput_folder_of_another_server_cluster_or_version(t *testing.T) {
	cfg := single(t)
	cfg.Cluster = "red"
	filled(t, cfg)

	other := cfg
	other.ID, other.Peers = "s2", []raftnode.Peer{{ID: "s2", RaftAddress: cfg.RaftBind}}
	refused(t, other, cfg.DataDir, "belongs to server s1, not to s2")

	other = cfg
	other.Cluster = "blue"
	refused(t, other, cfg.DataDir, "belongs to cluster red, not to blue")

	format := filepath.Join(cfg.DataDir, "FORMAT")
	require.NoError(t, os.WriteFile(format, []byte("weir-server 9\n"), 0o600))
	refused(t, cfg, cfg.DataDir, "weir-server 9", "run the version of weir that wrote it")
	require.NoError(t, os.Remove(format))
	refused(t, cfg, cfg.DataDir, "FORMAT", "damaged")
}

func TestBadInput_identity_file_damaged(t *testing.T) {
	cfg := single(t)
	filled(t, cfg)
	path := filepath.Join(cfg.DataDir, "identity.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"server":`), 0o600))
	refused(t, cfg, path, "is damaged")
	require.NoError(t, os.Remove(path))
	refused(t, cfg, path, "cannot be read")
}

func TestBadInput_log_file_gone(t *testing.T) {
	cfg := single(t)
	filled(t, cfg)
	require.NoError(t, os.Remove(filepath.Join(cfg.DataDir, "raft.db")))
	refused(t, cfg, cfg.DataDir, "has lost its log file raft.db", "new id")
}

func TestBadInput_log_file_damaged(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"no database":     func([]byte) []byte { return []byte("this is no database at all, whatever its name says") },
		"empty pages":     func(b []byte) []byte { clear(b[2*4096:]); return b },
		"random pages":    func(b []byte) []byte { fill(b[2*4096:]); return b },
		"both heads gone": func(b []byte) []byte { clear(b[:2*4096]); return b },
		"cut short":       func(b []byte) []byte { return b[:len(b)/4] },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := single(t)
			_, index := filled(t, cfg)
			path := filepath.Join(cfg.DataDir, "raft.db")
			withLog(t, cfg, func(store *raftboltdb.BoltStore) { // so that every page is in use
				var logs []*raft.Log
				for i := range uint64(400) {
					logs = append(logs, &raft.Log{Index: index + 1 + i, Term: 1, Type: raft.LogNoop, Data: make([]byte, 400)})
				}
				require.NoError(t, store.StoreLogs(logs))
			})
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, spoil(data), 0o600))
			refused(t, cfg, path, "new id")
		})
	}
}

// fill writes a pattern that is no valid page.
func fill(b []byte) {
	x := uint32(12345)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

func TestBadInput_entry_damaged(t *testing.T) {
	cfg := single(t)
	_, index := filled(t, cfg)
	withLog(t, cfg, func(store *raftboltdb.BoltStore) {
		var l raft.Log
		require.NoError(t, store.GetLog(index, &l))
		l.Data = l.Data[:len(l.Data)/2]
		require.NoError(t, store.StoreLog(&l))
	})
	refused(t, cfg, filepath.Join(cfg.DataDir, "raft.db"), fmt.Sprintf("at entry %d", index), "new id")
}

func TestBadInput_hole_in_the_log(t *testing.T) {
	cfg := single(t)
	_, index := filled(t, cfg)
	withLog(t, cfg, func(store *raftboltdb.BoltStore) { require.NoError(t, store.DeleteRange(index-2, index-2)) })
	refused(t, cfg, filepath.Join(cfg.DataDir, "raft.db"), fmt.Sprintf("at entry %d", index-2))
}

func TestBadInput_hole_between_snapshot_and_log(t *testing.T) {
	cfg := single(t)
	filled(t, cfg)
	require.NoError(t, os.RemoveAll(filepath.Join(cfg.DataDir, "snapshots", snapshotOf(t, cfg))))
	refused(t, cfg, filepath.Join(cfg.DataDir, "snapshots"), "raft.db", "are missing between", "new id")
}

func TestBadInput_snapshot_damaged(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"one byte of the state": func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, "state.bin")
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b[len(b)/2] ^= 1
			require.NoError(t, os.WriteFile(path, b, 0o600))
		},
		"no state": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "state.bin")))
		},
		"empty meta": func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.json"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := single(t)
			filled(t, cfg)
			id := snapshotOf(t, cfg)
			spoil(t, filepath.Join(cfg.DataDir, "snapshots", id))
			refused(t, cfg, filepath.Join(cfg.DataDir, "snapshots", id), "is damaged", "new id")
		})
	}
}

func snapshotOf(t *testing.T, cfg raftnode.Config) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cfg.DataDir, "snapshots"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return entries[0].Name()
}

func withLog(t *testing.T, cfg raftnode.Config, change func(*raftboltdb.BoltStore)) {
	t.Helper()
	store, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(cfg.DataDir, "raft.db"), MsgpackUseNewTimeFormat: true})
	require.NoError(t, err)
	change(store)
	require.NoError(t, store.Close())
}

// trio is three servers over TCP.
type trio struct {
	configs map[fsm.ServerID]raftnode.Config
	servers map[fsm.ServerID]*server
}

func newTrio(t *testing.T, configure func(*raftnode.Config)) *trio {
	t.Helper()
	dir := t.TempDir()
	addresses := map[fsm.ServerID]string{}
	for i, port := range freePorts(t, 3) {
		addresses[fsm.ServerID(fmt.Sprintf("s%d", i+1))] = port
	}
	tr := &trio{configs: map[fsm.ServerID]raftnode.Config{}, servers: map[fsm.ServerID]*server{}}
	for id := range addresses {
		cfg := diskConfig(filepath.Join(dir, string(id)), id, addresses)
		if configure != nil {
			configure(&cfg)
		}
		tr.configs[id] = cfg
		tr.servers[id] = run(t, cfg)
	}
	return tr
}

func (tr *trio) leader(t *testing.T) fsm.ServerID {
	t.Helper()
	var leader fsm.ServerID
	eventually(t, func() bool {
		for id, s := range tr.servers {
			if begun(s.node) {
				leader = id
				return true
			}
		}
		return false
	})
	return leader
}

func (tr *trio) settle(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		index := uint64(0)
		for _, s := range tr.servers {
			index = max(index, s.node.AppliedIndex())
		}
		hashes := map[fsm.Digest]bool{}
		for _, s := range tr.servers {
			if s.node.AppliedIndex() != index {
				return false
			}
			hash, ok := s.node.HashAt(index)
			require.True(t, ok)
			hashes[hash] = true
		}
		require.Len(t, hashes, 1)
		return true
	})
}

func TestTCP_three_servers_fail_over_and_agree(t *testing.T) {
	tr := newTrio(t, nil)
	leader := tr.leader(t)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			require.NoError(t, raftnode.Outcome(tr.servers[leader].node.Propose(t.Context(), register(fmt.Sprintf("n%d", i)))))
		})
	}
	wg.Wait()
	require.NoError(t, tr.servers[leader].stop(t))
	old := leader
	stopped := tr.servers[old]
	delete(tr.servers, old)
	_, err := stopped.node.Propose(t.Context(), tick())
	require.Error(t, err)
	leader = tr.leader(t)
	require.NoError(t, raftnode.Outcome(tr.servers[leader].node.Propose(t.Context(), register("after"))))
	tr.servers[old] = run(t, tr.configs[old])
	tr.settle(t)
	for id, s := range tr.servers {
		require.NoError(t, s.stop(t), id)
	}
}

// A server that lost its folder and comes back under its old id has forgotten its votes: the others do not talk to it.
func TestTCP_a_wiped_server_does_not_take_part_under_its_old_id(t *testing.T) {
	log := &lines{}
	tr := newTrio(t, func(cfg *raftnode.Config) {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log})
	})
	leader := tr.leader(t)
	require.NoError(t, raftnode.Outcome(tr.servers[leader].node.Propose(t.Context(), register("n"))))
	tr.settle(t)
	var wiped fsm.ServerID
	for id := range tr.servers {
		if id != leader {
			wiped = id
		}
	}
	require.NoError(t, tr.servers[wiped].stop(t))
	require.NoError(t, os.RemoveAll(tr.configs[wiped].DataDir))
	cfg := tr.configs[wiped]
	back := run(t, cfg)
	eventually(t, func() bool {
		return strings.Contains(log.String(), fmt.Sprintf("server %s has lost the data folder that it had", wiped))
	})
	view, _, ok := back.node.Local()
	require.True(t, ok)
	require.Zero(t, view.Meta().Index, "it was given entries")
	ok, _ = back.node.Contact()
	require.False(t, ok)
	require.NoError(t, raftnode.Outcome(tr.servers[leader].node.Propose(t.Context(), tick())))
}

func TestTCP_servers_of_two_clusters_refuse_each_other(t *testing.T) {
	log := &lines{}
	tr := newTrio(t, func(cfg *raftnode.Config) {
		cfg.Cluster = "red"
		if cfg.ID == "s3" {
			cfg.Cluster = "blue"
		}
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log})
	})
	leader := tr.leader(t)
	require.NotEqual(t, fsm.ServerID("s3"), leader)
	eventually(t, func() bool { return strings.Contains(log.String(), "of cluster blue") })
	require.NoError(t, raftnode.Outcome(tr.servers[leader].node.Propose(t.Context(), register("n"))))
	require.Equal(t, raftnode.Leadership{Term: tr.servers["s3"].node.Leadership().Term}, tr.servers["s3"].node.Leadership())
	view, _, _ := tr.servers["s3"].node.Local()
	require.Zero(t, view.Meta().Index)
}

func TestTCP_strangers_and_silent_callers_are_cut_off(t *testing.T) {
	cfg := single(t)
	s := run(t, cfg)
	eventually(t, func() bool { return begun(s.node) })
	for _, say := range []string{"", "GET / HTTP/1.1\r\n\r\n", "WEIR\x09", "WEIR\x01\x00\x00\x00", "WEIR\x01\x04blue"} {
		conn, err := net.Dial("tcp", cfg.RaftBind)
		require.NoError(t, err)
		_, err = conn.Write([]byte(say))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		buf := make([]byte, 1024)
		for err == nil {
			_, err = conn.Read(buf)
		}
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "%q was kept", say)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, raftnode.Outcome(s.node.Propose(t.Context(), tick())))
	require.NoError(t, s.stop(t))
}

// Heartbeats go through the main loop: a leader whose followers' disks stand still does not take them for healthy.
func TestTCP_followers_whose_disks_hang_do_not_keep_a_leader_alive(t *testing.T) {
	var mu sync.Mutex
	hanging := map[fsm.ServerID]chan struct{}{}
	tr := newTrio(t, func(cfg *raftnode.Config) {
		id := cfg.ID
		cfg.Timing.Multiplier = 1
		cfg.CommitTimeout = time.Minute // nothing but the lease may end the leadership
		cfg.ProposeTimeout = time.Minute
		cfg.StoreDeadline = time.Minute
		cfg.Faults = &raftnode.FaultHooks{StoreLogs: func(uint64, uint64) error {
			mu.Lock()
			hang := hanging[id]
			mu.Unlock()
			if hang != nil {
				<-hang
			}
			return nil
		}}
	})
	leader := tr.leader(t)
	release := make(chan struct{})
	mu.Lock()
	for id := range tr.servers {
		if id != leader {
			hanging[id] = release
		}
	}
	mu.Unlock()
	_, err := tr.servers[leader].node.Propose(within(t, 20*time.Second), tick())
	require.ErrorIs(t, err, raftnode.ErrUnknownOutcome)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the leader went on")
	eventually(t, func() bool { return !tr.servers[leader].node.Leadership().Leading })
	mu.Lock()
	clear(hanging)
	mu.Unlock()
	close(release)
	tr.leader(t)
}

type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
