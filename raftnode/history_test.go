package raftnode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
	"github.com/weir-project/weir/raftnode/raftnodetest"
)

func asIndexError(t *testing.T, err error) *raftnode.IndexError {
	t.Helper()
	var e *raftnode.IndexError
	require.ErrorAs(t, err, &e)
	return e
}

// Every state that can be rebuilt has the hash that every server noted when it applied the entry.
func TestStateAt_rebuilds_what_was_without_touching_what_is(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{Configure: func(cfg *raftnode.Config) { cfg.TrailingLogs = 10 }})
		leader := c.Ready()
		for i := range 20 {
			require.NoError(t, raftnode.Outcome(leader.Node().Propose(t.Context(), create(fmt.Sprintf("f%d", i), ""))))
		}
		middle := c.Settle()
		rebuilt := func(index uint64) {
			view, err := leader.Node().StateAt(t.Context(), index)
			require.NoError(t, err)
			want, ok := leader.Node().HashAt(index)
			require.True(t, ok, "entry %d", index)
			require.Equal(t, want, view.Hash(), "entry %d", index)
		}
		for _, index := range []uint64{1, 5, middle - 1, middle} {
			if _, ok := leader.Node().HashAt(index); ok { // not every entry is a command
				rebuilt(index)
			}
		}
		require.NoError(t, leader.Node().Snapshot(t.Context()))
		for i := range 15 {
			require.NoError(t, raftnode.Outcome(leader.Node().Propose(t.Context(), register(fmt.Sprintf("n%d", i)))))
		}
		newest := leader.Node().AppliedIndex()
		rebuilt(middle)
		rebuilt(middle + 7)
		rebuilt(newest)
		before, _, _ := leader.Node().Local()
		require.Equal(t, newest, before.Meta().Index, "the live state has stayed where it was")

		_, err := leader.Node().StateAt(t.Context(), middle-1)
		e := asIndexError(t, err)
		require.Equal(t, raftnode.IndexTooOld, e.Code)
		require.Equal(t, middle, e.Oldest)
		require.ErrorContains(t, err, fmt.Sprintf("the oldest one that is kept is that at entry %d", middle))
		_, err = leader.Node().StateAt(t.Context(), newest+1)
		e = asIndexError(t, err)
		require.Equal(t, raftnode.IndexNotYet, e.Code)
		require.Equal(t, newest, e.Newest)
		require.Equal(t, "INDEX_NOT_YET", e.Code.String())

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = leader.Node().StateAt(ended, newest)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A folder of a stopped server tells every state and every entry, and reading leaves it as it is, byte for byte.
func TestOffline_reads_a_stopped_servers_folder_and_changes_nothing(t *testing.T) {
	cfg := single(t)
	cfg.TrailingLogs = 4
	hash, index := filled(t, cfg)
	before := tree(t, cfg.DataDir)
	o, err := raftnode.OpenOffline(cfg.DataDir)
	require.NoError(t, err)
	server, cluster := o.Owner()
	require.Equal(t, fsm.ServerID("s1"), server)
	require.NotEmpty(t, cluster)
	oldest, newest, err := o.Range()
	require.NoError(t, err)
	require.GreaterOrEqual(t, newest, index)
	view, err := o.StateAt(t.Context(), index)
	require.NoError(t, err)
	require.Equal(t, hash, view.Hash())
	_, err = o.StateAt(t.Context(), oldest)
	require.NoError(t, err)
	_, err = o.StateAt(t.Context(), oldest-1)
	require.Equal(t, raftnode.IndexTooOld, asIndexError(t, err).Code)
	_, err = o.StateAt(t.Context(), newest+1)
	require.Equal(t, raftnode.IndexNotYet, asIndexError(t, err).Code)

	first, last, err := o.LogRange()
	require.NoError(t, err)
	registered, next := 0, first
	for r, err := range o.Entries(t.Context(), first, last) {
		require.NoError(t, err)
		require.Equal(t, next, r.Index)
		next++
		for _, p := range r.Entry.Proposals {
			require.Equal(t, raftnode.RecordCommands, r.Kind)
			if command, ok := p.Command.(*fsm.RegisterNode); ok && strings.HasPrefix(string(command.Node), "b") {
				registered++
			}
		}
	}
	require.Equal(t, last+1, next)
	require.Equal(t, 5, registered)
	for _, err := range o.Entries(t.Context(), first-1, last) {
		require.Equal(t, raftnode.IndexTooOld, asIndexError(t, err).Code)
	}
	for _, err := range o.Entries(t.Context(), first, last+1) {
		require.Equal(t, raftnode.IndexNotYet, asIndexError(t, err).Code)
	}
	require.NoError(t, o.Close())
	require.Empty(t, changes(before, tree(t, cfg.DataDir)))
}

func TestOffline_refuses_with_one_sentence(t *testing.T) {
	cfg := single(t)
	filled(t, cfg)
	t.Run("a folder that a server has open", func(t *testing.T) {
		s := run(t, cfg)
		eventually(t, func() bool { return begun(s.node) })
		_, err := raftnode.OpenOffline(cfg.DataDir)
		require.ErrorContains(t, err, "is in use by the process with pid")
		require.ErrorContains(t, err, "stop that one first")
		require.NoError(t, s.stop(t))
	})
	t.Run("a folder that is none", func(t *testing.T) {
		_, err := raftnode.OpenOffline(t.TempDir())
		require.ErrorContains(t, err, "is no data folder of a server")
	})
	t.Run("a folder of another version", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "FORMAT"), []byte("weir-server 9\n"), 0o600))
		_, err := raftnode.OpenOffline(dir)
		require.ErrorContains(t, err, `has format "weir-server 9"`)
	})
	t.Run("a snapshot that is damaged", func(t *testing.T) {
		states, err := filepath.Glob(filepath.Join(cfg.DataDir, "snapshots", "*", "state.bin"))
		require.NoError(t, err)
		require.NotEmpty(t, states)
		for _, path := range states {
			require.NoError(t, os.WriteFile(path, []byte("nonsense"), 0o600))
		}
		o, err := raftnode.OpenOffline(cfg.DataDir)
		require.NoError(t, err)
		_, newest, err := o.Range()
		require.NoError(t, err)
		_, err = o.StateAt(t.Context(), newest)
		require.ErrorContains(t, err, "snapshot cannot be used")
		require.NoError(t, o.Close())
	})
}
