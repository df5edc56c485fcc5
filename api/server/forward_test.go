package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// B79: S1 thinks that S2 leads, S2 thinks that S1 leads, S3 leads. A request to S1 goes to S2 and no further; the caller
// is told why. Nothing is proposed twice.
func TestField_B79_TwoServersThatNameEachOtherDoNotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		c.Lead("s3")
		c.Server("s1").Believe("s2")
		c.Server("s2").Believe("s1")
		_, err := weirv1.NewChangefeedsClient(c.Conn("s1")).PauseChangefeed(within(t, time.Second),
			&weirv1.PauseChangefeedRequest{Header: header("one"), Name: "feed"})
		_, info, _, _ := details(t, err)
		require.Equal(t, "NOT_LEADER", info.GetReason())
		require.Equal(t, "not_proposed", info.GetMetadata()["class"])
		require.Equal(t, "s2", info.GetMetadata()["server"], "one hop: the second server answered")
		require.Equal(t, "s1", info.GetMetadata()["leader"])
		require.Equal(t, 0, c.Log.Times("one"))

		// The client asks each server once a round, whatever they say, and so gets to the third.
		_, err = c.Client("s1", "s2", "s3").PauseChangefeed(within(t, time.Second), "feed")
		require.NoError(t, err)
		require.Equal(t, 1, c.Server("s3").Proposed())
		require.Zero(t, c.Server("s1").Proposed()+c.Server("s2").Proposed())
	})
}

func TestField_B79_WithoutALeaderTheClientEndsInTimeAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.NoLeader()
		cl := c.Client()
		start := time.Now()
		_, err := cl.PauseChangefeed(within(t, 3*time.Second), "feed")
		e := asError(t, err)
		require.Equal(t, "NO_LEADER", e.Reason)
		require.Equal(t, client.NotProposed, e.Class)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 3, time.Since(start).Seconds(), 0.1)
	})
}

func TestField_B79_ALeaderWhoseAddressHasChangedIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		c.Log.MustApply(t, &fsm.AnnounceServer{Server: "s1", Address: "gone:1", HighestLevel: 1})
		_, err := weirv1.NewChangefeedsClient(c.Conn("s2")).PauseChangefeed(within(t, time.Second),
			&weirv1.PauseChangefeedRequest{Header: header("one"), Name: "feed"})
		_, info, _, _ := details(t, err)
		require.Equal(t, "LEADER_UNREACHABLE", info.GetReason())
		require.Equal(t, "not_proposed", info.GetMetadata()["class"], "nothing was sent")
		c.Log.MustApply(t, &fsm.AnnounceServer{Server: "s1", Address: apitest.Address("s1"), HighestLevel: 1})
		_, err = c.Client("s2").PauseChangefeed(within(t, time.Second), "feed")
		require.NoError(t, err)
	})
}

func TestAForwardedRequestKeepsIDDeadlineAndAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		var left time.Duration
		var seen []fsm.Proposal
		c.Server("s1").SetHooks(apitest.Hooks{Before: func(ctx context.Context, p []fsm.Proposal) error {
			deadline, ok := ctx.Deadline()
			require.True(t, ok)
			left, seen = time.Until(deadline), p
			return nil
		}})
		conn := weirv1.NewChangefeedsClient(c.Conn("s2"))
		resp, err := conn.PauseChangefeed(within(t, 700*time.Millisecond),
			&weirv1.PauseChangefeedRequest{Header: &weirv1.RequestHeader{RequestId: "mine", By: "me"}, Name: "feed"})
		require.NoError(t, err)
		require.Equal(t, "s1", resp.GetHeader().GetServer())
		require.InDelta(t, 0.7, left.Seconds(), 0.05, "the deadline travels")
		require.Equal(t, fsm.RequestID("mine"), seen[0].Request)
		require.Equal(t, "me", seen[0].By)
		require.Zero(t, seen[0].Term, "the term is stamped by the server that calls Raft, not here")

		_, err = conn.PauseChangefeed(within(t, time.Second), &weirv1.PauseChangefeedRequest{Header: header("other"), Name: "feed"})
		_, info, _, _ := details(t, err)
		require.Equal(t, "CHANGEFEED_PAUSED", info.GetReason(), "the leader's answer comes back as it is")
		require.Equal(t, "s1", info.GetMetadata()["server"])
	})
}

func TestALeaderThatIsLostWhileItHasAForwardedRequestLeavesItUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		c.Server("s1").SetHooks(apitest.Hooks{After: func(ctx context.Context, _ []fsm.Proposal) error {
			go func() { _ = c.Stop("s1") }()
			<-ctx.Done()
			return ctx.Err()
		}})
		_, err := weirv1.NewChangefeedsClient(c.Conn("s2")).PauseChangefeed(within(t, 10*time.Second),
			&weirv1.PauseChangefeedRequest{Header: header("one"), Name: "feed"})
		_, info, _, _ := details(t, err)
		require.Equal(t, "OUTCOME_UNKNOWN", info.GetReason())
		require.Equal(t, "unknown", info.GetMetadata()["class"])
	})
}

func TestStaleReadsAreAnsweredByTheServerThatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Server("s2").Freeze()
		c.Log.Seed(t)
		nodes := weirv1.NewNodesClient(c.Conn("s2"))
		resp, err := nodes.ListNodes(within(t, time.Second), &weirv1.ListNodesRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetNodes(), 3, "the default is linearizable")
		require.Equal(t, "s1", resp.GetHeader().GetServer())
		require.False(t, resp.GetHeader().GetStale())

		stale := &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_STALE}
		resp, err = nodes.ListNodes(within(t, time.Second), &weirv1.ListNodesRequest{Read: stale})
		require.NoError(t, err)
		require.Empty(t, resp.GetNodes())
		require.Equal(t, "s2", resp.GetHeader().GetServer())
		require.True(t, resp.GetHeader().GetStale())
		require.Equal(t, uint64(60_000), resp.GetHeader().GetAgeMs())

		stale.MinIndex = c.Log.View().Meta().Index
		_, err = nodes.ListNodes(within(t, time.Second), &weirv1.ListNodesRequest{Read: stale})
		require.Error(t, err, "a stale state below the index that was asked for is no answer")
	})
}

func TestAReadWaitsForTheIndexThatItAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		next := c.Log.View().Meta().Index + 1
		go func() {
			time.Sleep(100 * time.Millisecond)
			c.Log.Apply(fsm.Proposal{Command: &fsm.Tick{}})
		}()
		resp, err := weirv1.NewNodesClient(c.Conn("s1")).ListNodes(within(t, time.Second),
			&weirv1.ListNodesRequest{Read: &weirv1.ReadOptions{MinIndex: next}})
		require.NoError(t, err)
		require.GreaterOrEqual(t, resp.GetHeader().GetIndex(), next)
	})
}

func TestOnlyOneServerMayForwardARequest(t *testing.T) {
	c := apitest.New(t, 2)
	ctx := metadata.AppendToOutgoingContext(within(t, 20*time.Second), outcome.MetaForwarded, "s9")
	_, err := weirv1.NewNodesClient(c.Conn("s2")).ListNodes(ctx, &weirv1.ListNodesRequest{})
	_, info, _, _ := details(t, err)
	require.Equal(t, "NOT_LEADER", info.GetReason())
	require.Equal(t, apitest.Address("s1"), info.GetMetadata()["leader_address"])
}

func TestAServerAnnouncesItselfThroughTheLeader(t *testing.T) {
	c := apitest.New(t, 2)
	for _, via := range []fsm.ServerID{"s1", "s2"} {
		command := &fsm.AnnounceServer{Server: via, Address: "new-" + string(via) + ":1", HighestLevel: 1}
		v, err := c.Server(via).API.Forward(within(t, 20*time.Second), fsm.Proposal{By: string(via), Command: command})
		require.NoError(t, err)
		require.True(t, v.OK())
		got, _ := c.Log.View().Server(via)
		require.Equal(t, command.Address, got.Address)
		if via == "s1" { // so that the leader is found again
			command.Address = apitest.Address("s1")
			_, err = c.Server(via).API.Forward(within(t, 20*time.Second), fsm.Proposal{Command: command})
			require.NoError(t, err)
		}
	}
	_, err := c.Server("s2").API.Forward(within(t, 20*time.Second), fsm.Proposal{Command: &fsm.Tick{}})
	require.ErrorContains(t, err, "tick")
	_, err = c.Server("s2").API.Forward(within(t, 20*time.Second), fsm.Proposal{Command: &fsm.AnnounceServer{Server: "s2"}})
	require.ErrorContains(t, err, "announces")
	c.Server("s2").SetReady(false)
	_, err = c.Server("s2").API.Forward(within(t, 20*time.Second), fsm.Proposal{Command: &fsm.AnnounceServer{Server: "s2"}})
	var own *server.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, server.NotReady, own.Kind)
}
