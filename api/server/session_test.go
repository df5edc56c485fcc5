package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

func hello() session.Hello {
	return session.Hello{Cluster: apitest.ClusterID, Node: "n1", Incarnation: 1, Protocol: session.Protocol}
}

func open(t *testing.T, c *apitest.Cluster, id fsm.ServerID) weirv1.NodeSession_SessionClient {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := weirv1.NewNodeSessionClient(c.Conn(id)).Session(ctx)
	require.NoError(t, err)
	return stream
}

func say(t *testing.T, stream weirv1.NodeSession_SessionClient, m session.FromNode) {
	t.Helper()
	out, err := nodewire.FromNode(m)
	require.NoError(t, err)
	require.NoError(t, stream.Send(out))
}

func closing(t *testing.T, stream weirv1.NodeSession_SessionClient) *weirv1.Close {
	t.Helper()
	m, err := stream.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.GetClose())
	return m.GetClose()
}

func TestASessionCarriesMessagesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		got := make(chan session.FromNode, 8)
		c.Server("s1").SetHooks(apitest.Hooks{Serve: func(_ context.Context, stream session.LeaderStream, h session.Hello) error {
			if h != hello() {
				return errors.New("another hello")
			}
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			got <- m
			return errors.Join(
				stream.Send(session.FromLeader{Ack: &session.Ack{Seq: m.Heartbeat.Seq, Term: 9}}),
				stream.Send(session.FromLeader{Close: &session.Close{Reason: "STALE_INCARNATION", Text: "gone"}}),
			)
		}})
		stream, err := c.Client().NodeDialer().Open(within(t, time.Second), hello())
		require.NoError(t, err)
		defer stream.Close()
		require.NoError(t, stream.Send(session.FromNode{Heartbeat: &session.Heartbeat{Seq: 41, GateOpen: true}}))
		require.Equal(t, uint64(41), (<-got).Heartbeat.Seq)
		m, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, &session.Ack{Seq: 41, Term: 9}, m.Ack)
		m, err = stream.Recv()
		require.NoError(t, err)
		require.Equal(t, "STALE_INCARNATION", m.Close.Reason)
		_, err = stream.Recv()
		require.Error(t, err, "the session is over")
	})
}

func TestASessionIsRefusedByWhoeverMayNotServeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		stream := open(t, c, "s2")
		say(t, stream, session.FromNode{Hello: new(hello())})
		closed := closing(t, stream)
		require.Equal(t, "NOT_LEADER", closed.GetReason())
		require.Equal(t, apitest.Address("s1"), closed.GetLeader(), "it is not forwarded: the node is told where to go")

		stream = open(t, c, "s1")
		other := hello()
		other.Cluster = "other"
		say(t, stream, session.FromNode{Hello: &other})
		closed = closing(t, stream)
		require.Equal(t, "WRONG_CLUSTER", closed.GetReason())
		require.Contains(t, closed.GetText(), "other")

		c.Server("s1").SetContact(false)
		stream = open(t, c, "s1")
		say(t, stream, session.FromNode{Hello: new(hello())})
		require.Equal(t, "NOT_LEADER", closing(t, stream).GetReason())
	})
}

func TestASessionMustSayWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		stream := open(t, c, "s1")
		start := time.Now()
		_, err := stream.Recv()
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.InDelta(t, 5, time.Since(start).Seconds(), 0.1)

		stream = open(t, c, "s1")
		say(t, stream, session.FromNode{Heartbeat: &session.Heartbeat{Seq: 1}})
		_, err = stream.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err))

		stream = open(t, c, "s1")
		say(t, stream, session.FromNode{Hello: new(hello())})
		require.NoError(t, stream.Send(&weirv1.SessionRequest{}))
		_, err = stream.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err), "a message that makes no sense ends the session")
	})
}

// A session lives no longer than its term, its leader's contact and its server, even if what serves it does not notice.
func TestASessionEndsWithItsTerm(t *testing.T) {
	for name, end := range map[string]func(*apitest.Cluster) error{
		"another leader":   func(c *apitest.Cluster) error { c.Lead("s2"); return nil },
		"a later term":     func(c *apitest.Cluster) error { c.Lead("s1"); return nil },
		"no contact":       func(c *apitest.Cluster) error { c.Server("s1").SetContact(false); return nil },
		"the server stops": func(c *apitest.Cluster) error { return c.Stop("s1") },
	} {
		for how, deaf := range map[string]bool{"served": false, "hung": true} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := apitest.New(t, 2)
					gone := make(chan struct{})
					c.Server("s1").SetHooks(apitest.Hooks{Serve: func(ctx context.Context, stream session.LeaderStream, _ session.Hello) error {
						defer close(gone)
						if deaf {
							for stream.Send(session.FromLeader{Ack: &session.Ack{Seq: 1}}) == nil { // until the node's buffer is full
							}
							return nil
						}
						_, err := stream.Recv()
						return err
					}})
					stream := open(t, c, "s1")
					say(t, stream, session.FromNode{Hello: new(hello())})
					_, err := stream.Header()
					require.NoError(t, err)
					synctest.Wait()
					require.NoError(t, end(c))
					time.Sleep(time.Second) // the node reads nothing meanwhile
					select {
					case <-gone:
					default:
						t.Error("the session is still served")
					}
					for err == nil {
						_, err = stream.Recv()
					}
				})
			})
		}
	}
}

func TestRegisterAnswersWithTheRecordedLeaseAndThePeriods(t *testing.T) {
	c := apitest.New(t, 2)
	r, err := c.Client("s2").NodeDialer().Register(within(t, 20*time.Second), session.Registration{
		Node: "n9", LeaseMS: 1500, ClockClass: 1, Protocol: 1,
	})
	require.NoError(t, err)
	n, _ := c.Log.View().Node("n9")
	require.Equal(t, session.Registered{
		Cluster: apitest.ClusterID, Incarnation: n.Incarnation, LeaseMS: 1500, Index: n.RegisteredAt, Term: c.Log.Term(), TickMS: 100, HeartbeatMS: 250,
	}, r)
}

func TestANodeOfAnotherClusterOrALaterLifeIsRefused(t *testing.T) {
	c := apitest.New(t, 1)
	before := c.Log.World()
	dialer := c.Client().NodeDialer()
	_, err := dialer.Register(within(t, 20*time.Second), session.Registration{Cluster: "other", Node: "n", LeaseMS: 2000, ClockClass: 1, Protocol: 1})
	require.Equal(t, "WRONG_CLUSTER", asError(t, err).Reason)
	_, err = dialer.Register(within(t, 20*time.Second), session.Registration{Node: "n", LeaseMS: 2000, ClockClass: 1, Protocol: 1, HighestGeneration: 8})
	e := asError(t, err)
	require.Equal(t, "GENERATION_TOO_OLD", e.Reason)
	require.Equal(t, uint64(8), e.Number("want"))
	require.Equal(t, before, c.Log.World())
}

func TestARegistrationWhileTheClusterHasNotBegunIsNotProposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Server("s1").SetHooks(apitest.Hooks{Verdict: func(fsm.Verdict) fsm.Verdict { return fsm.Verdict{Reason: fsm.NotBootstrapped} }})
		_, err := c.Client().NodeDialer().Register(within(t, time.Second), session.Registration{Node: "n", LeaseMS: 2000, ClockClass: 1, Protocol: 1})
		e := asError(t, err)
		require.Equal(t, "NOT_BOOTSTRAPPED", e.Reason)
		require.Equal(t, 4, e.ExitCode())
	})
}
