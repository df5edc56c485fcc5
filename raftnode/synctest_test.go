package raftnode_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
	"github.com/weir-project/weir/raftnode/raftnodetest"
)

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func tick() fsm.Proposal { return fsm.Proposal{Command: &fsm.Tick{ElapsedMS: 100}} }

func TestCluster_elects_leader_and_fails_over(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := raftnodetest.New(t, raftnodetest.Options{})
		old := c.Ready()
		term := old.Node().Leadership().Term
		require.NoError(t, raftnode.Outcome(old.Node().ProposeTick(within(t, time.Second), tick())))
		c.Isolate(old.ID)
		next := c.Leader(old.ID)
		require.Greater(t, next.Node().Leadership().Term, term)
		require.NoError(t, raftnode.Outcome(next.Node().Propose(within(t, time.Second), tick())))
		c.Heal()
		c.Eventually("the old leader follows", func() bool { return !old.Node().Leadership().Leading })
		c.Settle()
	})
}
