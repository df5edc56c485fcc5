package client_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

func add(dispatcher uint64, to string) *weirv1.OperatorSpec {
	return &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: dispatcher, To: to}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	require.ErrorAs(t, err, &e)
	return e
}

// dialer connects to whichever cluster the pointer names.
func dialer(now **apitest.Cluster) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) { return (*now).Dial(ctx, address) }
}

func TestAClientFindsTheLeaderThroughAnyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		a, err := c.Client("s2").AdmitOperator(within(t, time.Second), add(1, "n1"))
		require.NoError(t, err)
		require.NotZero(t, a.GetOpId())
		op, err := c.Client("s3").Operator(within(t, time.Second), a.GetOpId(), nil)
		require.NoError(t, err)
		require.Equal(t, "tester", op.GetBy())
	})
}

func TestAClientGetsOverAServerThatAcceptsAndNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		c.Lead("s2")
		c.Mute("s1", true)
		cl := c.Client()
		start := time.Now()
		_, err := cl.AdmitOperator(within(t, 5*time.Second), add(1, "n1"))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 1500*time.Millisecond)
		start = time.Now()
		_, err = cl.AdmitOperator(within(t, 5*time.Second), add(2, "n1"))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 100*time.Millisecond, "it is not asked first again")
	})
}

// A leader whose process stands still keeps its connections: calls on one that stood before end with the limit of a try.
func TestAClientGetsOverALeaderThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		cl := c.Client()
		_, err := cl.AdmitOperator(within(t, time.Second), add(1, "n1"))
		require.NoError(t, err)
		c.Server("s1").SetHooks(apitest.Hooks{Before: func(ctx context.Context, _ []fsm.Proposal) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		go func() {
			time.Sleep(300 * time.Millisecond)
			c.Server("s2").Believe("s2")
			c.Server("s3").Believe("s2")
		}()
		start := time.Now()
		_, err = cl.AdmitOperator(within(t, 5*time.Second), add(2, "n1"))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 1500*time.Millisecond)
	})
}

func TestAClientGetsOverServersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		c.Lead("s3")
		c.Down("s1", true)
		c.Down("s2", true)
		cl := c.Client()
		start := time.Now()
		_, err := cl.AdmitOperator(within(t, 5*time.Second), add(1, "n1"))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 100*time.Millisecond)

		c.Down("s3", true)
		require.NoError(t, c.Stop("s3"))
		_, err = cl.AdmitOperator(within(t, time.Second), add(2, "n1"))
		e := asError(t, err)
		require.Equal(t, client.NotProposed, e.Class, "nothing was ever sent: %v", err)
		require.Equal(t, 4, e.ExitCode())

		c.Down("s1", false)
		c.Lead("s1")
		_, err = cl.AdmitOperator(within(t, 5*time.Second), add(2, "n1"))
		require.NoError(t, err, "a server that is back is used")
	})
}

func TestAClientFollowsHintsToServersThatItDidNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		c.Lead("s2")
		c.Server("s1").SetHooks(apitest.Hooks{})
		c.Server("s1").Believe("s1") // it takes itself for the leader, and its log does not
		c.Server("s1").SetHooks(apitest.Hooks{Before: func(context.Context, []fsm.Proposal) error {
			return &server.Error{Kind: server.NotLeader, Leader: "s2"}
		}})
		_, err := c.Client("s1").AdmitOperator(within(t, time.Second), add(1, "n1"))
		require.NoError(t, err)
		require.Equal(t, 1, c.Server("s2").Proposed())
	})
}

func TestACallWithoutADeadlineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.NoLeader()
		start := time.Now()
		_, err := c.Client().PauseChangefeed(t.Context(), "feed")
		require.Error(t, err)
		require.InDelta(t, 15, time.Since(start).Seconds(), 0.5)
	})
}

func TestAReadThatNobodyAnswersIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Mute("s1", true)
		_, err := c.Client().Nodes(within(t, 3*time.Second), nil)
		e := asError(t, err)
		require.Equal(t, client.NotProposed, e.Class)
		require.Equal(t, "UNREACHABLE", e.Reason)
		require.Empty(t, e.RequestID)
	})
}

func TestACallThatIsCancelledEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.NoLeader()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		start := time.Now()
		_, err := c.Client().Nodes(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.InDelta(t, 0.2, time.Since(start).Seconds(), 0.05)
	})
}

func TestWhatCannotBeSentIsInvalid(t *testing.T) {
	c := apitest.New(t, 1)
	_, err := c.Client().PauseChangefeed(within(t, 20*time.Second), "not utf-8: \xff")
	e := asError(t, err)
	require.Equal(t, client.Invalid, e.Class)
	require.Equal(t, 2, e.ExitCode())
}

func TestAConfigurationSaysWhatIsWrong(t *testing.T) {
	for want, config := range map[string]client.Config{
		"no server address":  {},
		"is not HOST:PORT":   {Addresses: []string{"localhost"}},
		"shortest":           {Addresses: []string{"a:1"}, BackoffMin: time.Second},
		"limit is negative,": {Addresses: []string{"a:1"}, Try: -1},
	} {
		_, err := client.New(config)
		require.ErrorContains(t, err, want)
	}
}

func TestManyCallsAtOnceFindTheNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		cl := c.Client()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				_, err := cl.FenceNode(within(t, 5*time.Second), "nobody", 0, "")
				if client.Reason(err) != "UNKNOWN_NODE" {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		for _, id := range []fsm.ServerID{"s2", "s3", "s1"} {
			time.Sleep(120 * time.Millisecond)
			c.NoLeader()
			time.Sleep(40 * time.Millisecond)
			c.Lead(id)
		}
		wg.Wait()
	})
}

func registration() session.Registration {
	return session.Registration{Node: "n9", LeaseMS: 2000, ClockClass: 1, Protocol: 1}
}

// The answer to a registration is lost and the time is over. Asking again for the same must not be refused because of
// the incarnation that the first request made.
func TestARegistrationWithAnUnknownOutcomeIsAskedForAgainUnderItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Server("s1").SetHooks(apitest.Hooks{After: func(ctx context.Context, _ []fsm.Proposal) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		d := c.Client().NodeDialer()
		_, err := d.Register(within(t, 3*time.Second), registration())
		require.Equal(t, client.Unknown, asError(t, err).Class)
		c.Server("s1").SetHooks(apitest.Hooks{})
		r, err := d.Register(within(t, time.Second), registration())
		require.NoError(t, err)
		n, _ := c.Log.View().Node("n9")
		require.Equal(t, n.Incarnation, r.Incarnation)

		_, err = d.Register(within(t, time.Second), registration())
		require.Equal(t, "NODE_LIVE", asError(t, err).Reason, "what is known is a new request")
	})
}

func TestANodeFindsTheLeaderForItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Lead("s3")
		c.Mute("s1", true)
		hello := session.Hello{Cluster: apitest.ClusterID, Node: "n1", Incarnation: 1, Protocol: 1}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		stream, err := c.Client().NodeDialer().Open(ctx, hello)
		require.NoError(t, err)
		cancel() // it bounds the opening alone
		time.Sleep(time.Minute)
		require.NoError(t, stream.Send(session.FromNode{Heartbeat: &session.Heartbeat{Seq: 1}}))
		stream.Close()
		_, err = stream.Recv()
		require.Error(t, err)
	})
}

func TestAnOpeningEndsInTimeAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		hello := session.Hello{Cluster: "other", Node: "n1", Incarnation: 1, Protocol: 1}
		_, err := c.Client("s2").NodeDialer().Open(within(t, time.Second), hello)
		e := asError(t, err)
		require.Equal(t, "WRONG_CLUSTER", e.Reason)
		require.Equal(t, client.Rejected, e.Class)
		c.NoLeader()
		start := time.Now()
		_, err = c.Client().NodeDialer().Open(within(t, 400*time.Millisecond), hello)
		require.Equal(t, "NOT_LEADER", asError(t, err).Reason)
		require.InDelta(t, 0.4, time.Since(start).Seconds(), 0.05)
		c.Mute("s1", true)
		c.Mute("s2", true)
		_, err = c.Client().NodeDialer().Open(within(t, time.Second), hello)
		require.Equal(t, "UNREACHABLE", asError(t, err).Reason)
	})
}

// The time for an opening is shorter than that of one try at a server which never answers. The next opening must not
// begin with the same server.
func TestAnOpeningThatMetAHungServerSucceedsTheNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Lead("s2")
		c.Mute("s1", true)
		hello := session.Hello{Cluster: apitest.ClusterID, Node: "n1", Incarnation: 1, Protocol: 1}
		d := c.Client().NodeDialer()
		_, err := d.Open(within(t, 150*time.Millisecond), hello)
		require.Error(t, err)
		stream, err := d.Open(within(t, 150*time.Millisecond), hello)
		require.NoError(t, err)
		stream.Close()
	})
}
