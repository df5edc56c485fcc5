package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

func healthOf(t *testing.T, c *apitest.Cluster, id fsm.ServerID, service string) bool {
	t.Helper()
	resp, err := healthv1.NewHealthClient(c.Conn(id)).Check(within(t, 20*time.Second), &healthv1.HealthCheckRequest{Service: service})
	require.NoError(t, err)
	return resp.GetStatus() == healthv1.HealthCheckResponse_SERVING
}

func TestAServerWithoutContactAnswersStaleReadsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		for _, id := range []fsm.ServerID{"s1", "s2"} { // also one that takes itself for the leader
			c.Server(id).SetContact(false)
			time.Sleep(time.Second)
			require.False(t, healthOf(t, c, id, server.HealthReady))
			require.False(t, healthOf(t, c, id, server.HealthLeader))
			require.True(t, healthOf(t, c, id, ""), "the process lives")

			conn := c.Conn(id)
			nodes := weirv1.NewNodesClient(conn)
			_, err := nodes.ListNodes(within(t, time.Second), &weirv1.ListNodesRequest{})
			_, info, _, _ := details(t, err)
			require.Equal(t, "SERVER_FENCED", info.GetReason())
			require.Equal(t, "not_proposed", info.GetMetadata()["class"])
			_, err = weirv1.NewChangefeedsClient(conn).PauseChangefeed(within(t, time.Second),
				&weirv1.PauseChangefeedRequest{Header: header("x"), Name: "feed"})
			_, info, _, _ = details(t, err)
			require.Equal(t, "SERVER_FENCED", info.GetReason())

			resp, err := nodes.ListNodes(within(t, time.Second), &weirv1.ListNodesRequest{
				Read: &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_STALE},
			})
			require.NoError(t, err)
			require.Len(t, resp.GetNodes(), 3)
			require.True(t, resp.GetHeader().GetStale())
			own, err := weirv1.NewClusterClient(conn).GetServerStatus(within(t, time.Second), &weirv1.GetServerStatusRequest{})
			require.NoError(t, err)
			require.False(t, own.GetInContact())
			require.True(t, own.GetHeader().GetStale())
		}
		require.Zero(t, c.Server("s1").Proposed())
	})
}

func TestHealthFollowsLeadershipAndContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		time.Sleep(time.Second)
		require.True(t, healthOf(t, c, "s1", server.HealthLeader))
		require.True(t, healthOf(t, c, "s1", server.HealthReady))
		require.False(t, healthOf(t, c, "s2", server.HealthLeader))
		require.True(t, healthOf(t, c, "s2", server.HealthReady))
		c.NoLeader()
		time.Sleep(time.Second)
		require.False(t, healthOf(t, c, "s1", server.HealthLeader))
		require.False(t, healthOf(t, c, "s1", server.HealthReady))
		c.Lead("s2")
		time.Sleep(time.Second)
		require.True(t, healthOf(t, c, "s2", server.HealthLeader))
	})
}

func TestReflectionListsTheServices(t *testing.T) {
	c := apitest.New(t, 1)
	stream, err := reflectionv1.NewServerReflectionClient(c.Conn("s1")).ServerReflectionInfo(within(t, 20*time.Second))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}))
	resp, err := stream.Recv()
	require.NoError(t, err)
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	require.Subset(t, names, []string{
		"weir.v1.Changefeeds", "weir.v1.Tables", "weir.v1.Dispatchers", "weir.v1.Operators", "weir.v1.Nodes",
		"weir.v1.Cluster", "weir.v1.NodeSession", "grpc.health.v1.Health",
	})
	require.NoError(t, stream.CloseSend())
}

func TestRequestsThatMayNotBecomeCommandsAreRefusedBeforeAnybodyIsAsked(t *testing.T) {
	c := apitest.New(t, 2)
	c.Log.Seed(t)
	huge := strings.Repeat("k", 300<<10)
	for _, via := range []fsm.ServerID{"s1", "s2"} {
		conn := c.Conn(via)
		for name, row := range map[string]struct {
			reason, field string
			call          func(context.Context) error
		}{
			"no request id": {"MALFORMED", "header.request_id", func(ctx context.Context) error {
				_, err := weirv1.NewChangefeedsClient(conn).PauseChangefeed(ctx, &weirv1.PauseChangefeedRequest{Name: "feed"})
				return err
			}},
			"a request id that is too long": {"MALFORMED", "header.request_id", func(ctx context.Context) error {
				_, err := weirv1.NewChangefeedsClient(conn).PauseChangefeed(ctx,
					&weirv1.PauseChangefeedRequest{Header: header(strings.Repeat("x", 65)), Name: "feed"})
				return err
			}},
			"a command that is too large": {"COMMAND_TOO_LARGE", "", func(ctx context.Context) error {
				_, err := weirv1.NewTablesClient(conn).AddTables(ctx, &weirv1.AddTablesRequest{
					Header: header("x"), Changefeed: "feed", Tables: []*weirv1.TableSpec{{Name: "x", SplitKeys: [][]byte{[]byte(huge)}}},
				})
				return err
			}},
			"a stage that is not known": {"MALFORMED", "start", func(ctx context.Context) error {
				_, err := weirv1.NewTablesClient(conn).AddTables(ctx, &weirv1.AddTablesRequest{
					Header: header("x"), Changefeed: "feed", Start: &weirv1.Position{Ts: 1, Stage: 9},
				})
				return err
			}},
			"an operator that is missing": {"MALFORMED", "operator", func(ctx context.Context) error {
				_, err := weirv1.NewOperatorsClient(conn).AdmitOperator(ctx, &weirv1.AdmitOperatorRequest{Header: header("x")})
				return err
			}},
			"a kind that is not known": {"MALFORMED", "operators[1].kind", func(ctx context.Context) error {
				_, err := weirv1.NewOperatorsClient(conn).AdmitBatch(ctx, &weirv1.AdmitBatchRequest{
					Header: header("x"), Operators: []*weirv1.OperatorSpec{{Kind: kindAdd}, {Kind: 300}},
				})
				return err
			}},
			"an empty batch": {"MALFORMED", "operators", func(ctx context.Context) error {
				_, err := weirv1.NewOperatorsClient(conn).AdmitBatch(ctx, &weirv1.AdmitBatchRequest{Header: header("x")})
				return err
			}},
			"a batch that is too large": {"COMMAND_TOO_LARGE", "", func(ctx context.Context) error {
				_, err := weirv1.NewOperatorsClient(conn).AdmitBatch(ctx, &weirv1.AdmitBatchRequest{
					Header: header("x"), Operators: make([]*weirv1.OperatorSpec, 4097),
				})
				return err
			}},
			"a clock class that does not fit": {"MALFORMED", "clock_class", func(ctx context.Context) error {
				_, err := weirv1.NewNodeSessionClient(conn).Register(ctx, &weirv1.RegisterRequest{Header: header("x"), ClockClass: 257})
				return err
			}},
		} {
			t.Run(string(via)+"/"+name, func(t *testing.T) {
				err := row.call(within(t, 20*time.Second))
				_, info, _, bad := details(t, err)
				require.Equal(t, row.reason, info.GetReason())
				if row.field != "" {
					require.Equal(t, row.field, bad.GetFieldViolations()[0].GetField())
				}
			})
		}
	}
	require.Zero(t, c.Server("s1").Proposed())
}

func TestAGoodbyeMayBeLargerThanACommand(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	n, _ := c.Log.View().Node("n1")
	g := fsm.Goodbye{Node: "n1", Incarnation: n.Incarnation}
	for i := range 20_000 {
		g.Stopped = append(g.Stopped, fsm.PlacementPosition{
			Dispatcher: fsm.DispatcherID(i), Epoch: 1 << 62, HasPosition: true, Position: fsm.At(1 << 60),
		})
	}
	require.NoError(t, c.Client().NodeDialer().Goodbye(within(t, 20*time.Second), g))
	n, _ = c.Log.View().Node("n1")
	require.Equal(t, fsm.NodeStatusGone, n.Status)
}

func TestAServerThatStopsEndsWaitsAndSessionsAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Log.Seed(t)
		op := c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Facts.Operator
		waited := make(chan error, 1)
		conn := c.Conn("s1")
		go func() {
			_, err := weirv1.NewOperatorsClient(conn).WaitOperator(t.Context(), &weirv1.WaitOperatorRequest{OpId: uint64(op)})
			waited <- err
		}()
		served := make(chan error, 1)
		c.Server("s1").SetHooks(apitest.Hooks{Serve: func(ctx context.Context, _ session.LeaderStream, _ session.Hello) error {
			<-ctx.Done()
			served <- ctx.Err()
			return ctx.Err()
		}})
		stream, err := c.Client().NodeDialer().Open(within(t, time.Second), session.Hello{Cluster: apitest.ClusterID, Node: "n1"})
		require.NoError(t, err)
		defer stream.Close()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, c.Stop("s1"))
		require.Less(t, time.Since(start), time.Second, "nothing has to be broken off")
		_, info, _, _ := details(t, <-waited)
		require.Equal(t, "SHUTTING_DOWN", info.GetReason())
		require.Error(t, <-served)
		_, err = stream.Recv()
		require.Error(t, err)
	})
}
