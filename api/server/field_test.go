package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// refusedCall is one call that the state machine must refuse in the seeded world.
type refusedCall struct {
	name   string
	reason string
	code   codes.Code
	exit   int
	call   func(context.Context, *client.Client) error
	raw    func(context.Context, *rawClients, *weirv1.RequestHeader) error
}

type rawClients struct {
	weirv1.ChangefeedsClient
	weirv1.TablesClient
	weirv1.OperatorsClient
	weirv1.NodesClient
	weirv1.ClusterClient
	weirv1.NodeSessionClient
}

func admitSpec(kind weirv1.OperatorKind, d uint64, from, to string, epoch uint64) *weirv1.OperatorSpec {
	return &weirv1.OperatorSpec{Kind: kind, Dispatcher: d, From: from, To: to, ExpectEpoch: epoch}
}

const (
	kindAdd    = weirv1.OperatorKind_OPERATOR_KIND_ADD
	kindMove   = weirv1.OperatorKind_OPERATOR_KIND_MOVE
	kindRemove = weirv1.OperatorKind_OPERATOR_KIND_REMOVE
)

// In the world of these calls d1 runs on n1, d2 is being added to n1, n3 is fenced, and "idle" is paused.
func refusedCalls() []refusedCall {
	admit := func(spec *weirv1.OperatorSpec) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.AdmitOperator(ctx, spec)
			return err
		}
	}
	ofHeader := func(f func(context.Context, *client.Client) (*weirv1.ResponseHeader, error)) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := f(ctx, c)
			return err
		}
	}
	return []refusedCall{
		{name: "add what is owned", reason: "ALREADY_OWNED", code: codes.AlreadyExists, exit: 3, call: admit(admitSpec(kindAdd, 1, "", "n2", 0))},
		{name: "move what is in a slot", reason: "OPERATOR_EXISTS", code: codes.AlreadyExists, exit: 3, call: admit(admitSpec(kindMove, 2, "n1", "n2", 0))},
		{name: "move from a node that is not the owner", reason: "NOT_OWNER", code: codes.Aborted, exit: 3, call: admit(admitSpec(kindMove, 1, "n2", "n1", 0))},
		{name: "move to where it is", reason: "SAME_NODE", code: codes.FailedPrecondition, exit: 3, call: admit(admitSpec(kindMove, 1, "n1", "n1", 0))},
		{name: "another epoch", reason: "EPOCH_MISMATCH", code: codes.Aborted, exit: 3, call: admit(admitSpec(kindMove, 1, "n1", "n2", 5))},
		{name: "unknown dispatcher", reason: "UNKNOWN_DISPATCHER", code: codes.NotFound, exit: 3, call: admit(admitSpec(kindRemove, 99, "", "", 0))},
		{name: "unknown node", reason: "UNKNOWN_NODE", code: codes.NotFound, exit: 3, call: admit(admitSpec(kindAdd, 3, "", "nowhere", 0))},
		{name: "fenced node", reason: "NODE_FENCED", code: codes.FailedPrecondition, exit: 3, call: admit(admitSpec(kindAdd, 3, "", "n3", 0))},
		{name: "paused changefeed", reason: "CHANGEFEED_PAUSED", code: codes.FailedPrecondition, exit: 3, call: admit(admitSpec(kindAdd, 7, "", "n1", 0))},
		{name: "no kind", reason: "MALFORMED", code: codes.InvalidArgument, exit: 2, call: admit(admitSpec(0, 1, "", "n2", 0))},
		{name: "cancel nothing", reason: "NO_SUCH_OPERATOR", code: codes.NotFound, exit: 3, call: ofHeader(func(ctx context.Context, c *client.Client) (*weirv1.ResponseHeader, error) {
			return c.CancelOperator(ctx, 12345)
		})},
		{name: "create twice", reason: "CHANGEFEED_EXISTS", code: codes.AlreadyExists, exit: 3, call: func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateChangefeed(ctx, &weirv1.CreateChangefeedRequest{
				Name: "feed", Source: "s", Sink: "k", SinkFenced: true, Tables: []*weirv1.TableSpec{{Name: "x"}},
			})
			return err
		}},
		{name: "pause nothing", reason: "UNKNOWN_CHANGEFEED", code: codes.NotFound, exit: 3, call: ofHeader(func(ctx context.Context, c *client.Client) (*weirv1.ResponseHeader, error) {
			return c.PauseChangefeed(ctx, "nothing")
		})},
		{name: "resume what runs", reason: "CHANGEFEED_NOT_PAUSED", code: codes.FailedPrecondition, exit: 3, call: ofHeader(func(ctx context.Context, c *client.Client) (*weirv1.ResponseHeader, error) {
			return c.ResumeChangefeed(ctx, "feed")
		})},
		{name: "remove nothing", reason: "UNKNOWN_CHANGEFEED", code: codes.NotFound, exit: 3, call: ofHeader(func(ctx context.Context, c *client.Client) (*weirv1.ResponseHeader, error) {
			return c.RemoveChangefeed(ctx, "nothing")
		})},
		{name: "add a table that is there", reason: "TABLE_EXISTS", code: codes.AlreadyExists, exit: 3, call: ofHeader(func(ctx context.Context, c *client.Client) (*weirv1.ResponseHeader, error) {
			return c.AddTables(ctx, &weirv1.AddTablesRequest{Changefeed: "feed", Tables: []*weirv1.TableSpec{{Name: "u"}}})
		})},
		{name: "drop a table that is not there", reason: "UNKNOWN_TABLE", code: codes.NotFound, exit: 3, call: ofHeader(func(ctx context.Context, c *client.Client) (*weirv1.ResponseHeader, error) {
			return c.DropTables(ctx, &weirv1.DropTablesRequest{Changefeed: "feed", Tables: []*weirv1.TableRef{{Name: "w"}}})
		})},
		{name: "fence twice", reason: "NODE_FENCED", code: codes.FailedPrecondition, exit: 3, call: func(ctx context.Context, c *client.Client) error {
			_, err := c.FenceNode(ctx, "n3", 0, "again")
			return err
		}},
		{name: "fence an old incarnation", reason: "STALE_INCARNATION", code: codes.Aborted, exit: 3, call: func(ctx context.Context, c *client.Client) error {
			_, err := c.FenceNode(ctx, "n1", 3, "")
			return err
		}},
		{name: "register a name that is live", reason: "NODE_LIVE", code: codes.AlreadyExists, exit: 3, call: func(ctx context.Context, c *client.Client) error {
			_, err := c.NodeDialer().Register(ctx, session.Registration{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1})
			return err
		}},
		{name: "goodbye of another incarnation", reason: "STALE_INCARNATION", code: codes.Aborted, exit: 3, call: func(ctx context.Context, c *client.Client) error {
			return c.NodeDialer().Goodbye(ctx, fsm.Goodbye{Node: "n1", Incarnation: 3})
		}},
		{name: "announce without an id", reason: "MALFORMED", code: codes.InvalidArgument, exit: 2, raw: func(ctx context.Context, r *rawClients, h *weirv1.RequestHeader) error {
			_, err := r.AnnounceServer(ctx, &weirv1.AnnounceServerRequest{Header: h, Address: "a:1", HighestLevel: 1})
			return err
		}},
	}
}

func refusedWorld(t *testing.T, c *apitest.Cluster) {
	t.Helper()
	c.Log.Seed(t)
	c.Log.Run(t, 1, "n1")
	c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 2, To: "n1"})
	c.Log.MustApply(t, &fsm.FenceNode{Node: "n3", Why: "test"})
	c.Log.MustApply(t, &fsm.CreateChangefeed{
		Name: "idle", Source: "s", Sink: "other", SinkFenced: true, Tables: []fsm.TableSpec{{Name: "v"}},
	})
	c.Log.MustApply(t, &fsm.PauseChangefeed{Name: "idle"})
}

// B77: the state machine said no, the handler said yes. Every call that changes something, refused for its own reason,
// through the leader and through a follower: the caller gets code, reason and exit code, and nothing has changed.
func TestField_B77_EveryRefusalReachesTheCallerAndChangesNothing(t *testing.T) {
	c := apitest.New(t, 2)
	refusedWorld(t, c)
	for _, via := range []fsm.ServerID{"s1", "s2"} {
		cl := c.Client(via)
		conn := c.Conn(via)
		raw := &rawClients{
			weirv1.NewChangefeedsClient(conn), weirv1.NewTablesClient(conn), weirv1.NewOperatorsClient(conn),
			weirv1.NewNodesClient(conn), weirv1.NewClusterClient(conn), weirv1.NewNodeSessionClient(conn),
		}
		for _, r := range refusedCalls() {
			t.Run(string(via)+"/"+r.name, func(t *testing.T) {
				before := c.Log.World()
				ctx := within(t, 20*time.Second)
				if r.raw != nil {
					_, info, _, _ := details(t, r.raw(ctx, raw, header(string(via)+"/"+r.name)))
					require.Equal(t, r.reason, info.GetReason())
				} else {
					e := asError(t, r.call(ctx, cl))
					require.Equal(t, r.reason, e.Reason, e.Message)
					require.Equal(t, r.exit, e.ExitCode())
					st, _, _, _ := details(t, e.Err)
					require.Equal(t, r.code, st.Code())
					require.NotEmpty(t, e.Message)
				}
				require.Equal(t, before, c.Log.World(), "a refusal changes nothing")
			})
		}
	}
}

func TestField_B77_ARefusalNamesTheWinner(t *testing.T) {
	c := apitest.New(t, 1)
	refusedWorld(t, c)
	d2, _ := c.Log.View().Dispatcher(2)
	_, err := c.Client().AdmitOperator(within(t, 20*time.Second), admitSpec(kindAdd, 2, "", "n2", 0))
	e := asError(t, err)
	require.Equal(t, "OPERATOR_EXISTS", e.Reason)
	require.Equal(t, uint64(d2.Slot), e.Number("operator"))
	d1, _ := c.Log.View().Dispatcher(1)
	_, err = c.Client().AdmitOperator(within(t, 20*time.Second), admitSpec(kindAdd, 1, "", "n2", 0))
	e = asError(t, err)
	require.Equal(t, "n1", e.Facts["node"])
	require.Equal(t, uint64(d1.Epoch), e.Number("epoch"))
}

func TestField_B77_ABatchHasAVerdictForEachItem(t *testing.T) {
	c := apitest.New(t, 1)
	refusedWorld(t, c)
	resp, err := c.Client().AdmitBatch(within(t, 20*time.Second), &weirv1.AdmitBatchRequest{Operators: []*weirv1.OperatorSpec{
		admitSpec(kindAdd, 1, "", "n2", 0), admitSpec(kindAdd, 3, "", "n2", 0), admitSpec(kindAdd, 99, "", "n2", 0),
	}})
	require.NoError(t, err)
	v := resp.GetVerdicts()
	require.Len(t, v, 3)
	require.Equal(t, "ALREADY_OWNED", v[0].GetRefusal().GetReason())
	require.Equal(t, int32(codes.AlreadyExists), v[0].GetRefusal().GetCode())
	require.Equal(t, "n1", v[0].GetRefusal().GetFacts()["node"])
	require.NotZero(t, v[1].GetAdmission().GetOpId())
	require.Equal(t, "UNKNOWN_DISPATCHER", v[2].GetRefusal().GetReason())
}

// A large batch takes several entries. When the leader is lost after the first, the caller learns that the outcome is
// unknown, and the same id again gives the first verdicts for what was decided.
func TestABatchThatIsCutOffCanBeRepeated(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	keys := make([]string, 0, 299)
	for i := range 299 {
		keys = append(keys, string([]byte{byte(i/100) + 1, byte(i % 100)}))
	}
	c.Log.MustApply(t, &fsm.AddTables{Changefeed: "feed", Tables: []fsm.TableSpec{{Name: "many", SplitKeys: keys}}})
	req := &weirv1.AdmitBatchRequest{Header: header("batch")}
	for d := uint64(6); d < 306; d++ {
		req.Operators = append(req.Operators, admitSpec(kindAdd, d, "", "n1", 0))
	}
	entries := 0
	c.Server("s1").SetHooks(apitest.Hooks{Before: func(context.Context, []fsm.Proposal) error {
		if entries++; entries == 2 {
			return &server.Error{Kind: server.NotLeader}
		}
		return nil
	}})
	_, err := weirv1.NewOperatorsClient(c.Conn("s1")).AdmitBatch(within(t, 20*time.Second), req)
	_, info, _, _ := details(t, err)
	require.Equal(t, "OUTCOME_UNKNOWN", info.GetReason(), "a part was decided: this must not be called not proposed")
	require.Equal(t, 256, c.Log.View().OperatorCount())

	resp, err := c.Client().AdmitBatch(within(t, 20*time.Second), req)
	require.NoError(t, err)
	require.Equal(t, 300, c.Log.View().OperatorCount())
	for i, v := range resp.GetVerdicts() {
		require.NotZero(t, v.GetAdmission().GetOpId(), "item %d", i)
		require.Equal(t, i < 256, v.GetAdmission().GetReplayed(), "item %d", i)
	}
}
