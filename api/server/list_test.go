package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// collect lists with small pages and returns the ids in order.
func collect(t *testing.T, cl *client.Client, filter *weirv1.ListDispatchersRequest) []uint64 {
	t.Helper()
	filter.PageSize = 2
	var ids []uint64
	for d, err := range cl.Dispatchers(within(t, 20*time.Second), filter) {
		require.NoError(t, err)
		ids = append(ids, d.GetId())
	}
	return ids
}

func TestDispatchersAreListedByEveryFilterPageByPage(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t) // d1-d4 of feed.t, d5 of feed.u, d6 its trigger
	c.Log.MustApply(t, &fsm.CreateChangefeed{
		Name: "second", Source: "s", Sink: "k", SinkFenced: true, Tables: []fsm.TableSpec{{Name: "t", SplitKeys: []string{"m"}}},
	})
	c.Log.Run(t, 1, "n1")
	c.Log.Run(t, 3, "n1")
	c.Log.Run(t, 7, "n2")
	c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 5, To: "n1"})
	cl := c.Client()
	for name, row := range map[string]struct {
		filter *weirv1.ListDispatchersRequest
		want   []uint64
	}{
		"all":                {&weirv1.ListDispatchersRequest{}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"changefeed":         {&weirv1.ListDispatchersRequest{Changefeed: "feed"}, []uint64{1, 2, 3, 4, 5, 6}},
		"table":              {&weirv1.ListDispatchersRequest{Changefeed: "feed", Table: "t"}, []uint64{1, 2, 3, 4}},
		"node":               {&weirv1.ListDispatchersRequest{Node: "n1"}, []uint64{1, 3, 5}},
		"node and table":     {&weirv1.ListDispatchersRequest{Changefeed: "feed", Table: "t", Node: "n1"}, []uint64{1, 3}},
		"phase":              {&weirv1.ListDispatchersRequest{Phase: weirv1.Phase_PHASE_RUNNING}, []uint64{1, 3, 7}},
		"phase and node":     {&weirv1.ListDispatchersRequest{Phase: weirv1.Phase_PHASE_STARTING, Node: "n1"}, []uint64{5}},
		"node with nothing":  {&weirv1.ListDispatchersRequest{Node: "n3"}, nil},
		"phase of one table": {&weirv1.ListDispatchersRequest{Changefeed: "second", Phase: weirv1.Phase_PHASE_ABSENT}, []uint64{8, 9}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, collect(t, cl, row.filter)) })
	}
}

func TestAListWithManyGapsStillEnds(t *testing.T) {
	c := apitest.New(t, 1, func(config *server.Config) { config.Limits.Scan = 100 })
	c.Log.Seed(t)
	// 1,000 spans come and go: more ids without a row than one page looks at.
	keys := make([]string, 0, 1000)
	for i := range cap(keys) {
		keys = append(keys, string([]byte{byte(i >> 8), byte(i), 1}))
	}
	c.Log.MustApply(t, &fsm.AddTables{Changefeed: "feed", Tables: []fsm.TableSpec{{Name: "many", SplitKeys: keys}}})
	conn := weirv1.NewDispatchersClient(c.Conn("s1"))
	first, err := conn.ListDispatchers(within(t, 20*time.Second),
		&weirv1.ListDispatchersRequest{Changefeed: "feed", Table: "many", Phase: weirv1.Phase_PHASE_RUNNING})
	require.NoError(t, err)
	require.Empty(t, first.GetDispatchers())
	require.NotEmpty(t, first.GetNextPageToken(), "a page ends when it has looked at enough")
	c.Log.MustApply(t, &fsm.DropTables{Changefeed: "feed", Tables: []fsm.TableRef{{Name: "many"}}})
	c.Log.MustApply(t, &fsm.AddTables{Changefeed: "feed", Tables: []fsm.TableSpec{{Name: "late"}}})
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6, 1_008}, collect(t, c.Client(), &weirv1.ListDispatchersRequest{}))
}

func TestFiltersThatNameNothingAreRefused(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	cl := c.Client()
	for name, row := range map[string]struct {
		filter *weirv1.ListDispatchersRequest
		reason string
	}{
		"changefeed":               {&weirv1.ListDispatchersRequest{Changefeed: "x"}, "UNKNOWN_CHANGEFEED"},
		"table":                    {&weirv1.ListDispatchersRequest{Changefeed: "feed", Table: "x"}, "UNKNOWN_TABLE"},
		"node":                     {&weirv1.ListDispatchersRequest{Node: "x"}, "UNKNOWN_NODE"},
		"table without changefeed": {&weirv1.ListDispatchersRequest{Table: "t"}, "MALFORMED"},
		"phase":                    {&weirv1.ListDispatchersRequest{Phase: 42}, "MALFORMED"},
		"page token":               {&weirv1.ListDispatchersRequest{PageToken: "???"}, "MALFORMED"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range cl.Dispatchers(within(t, 20*time.Second), row.filter) {
				require.Equal(t, row.reason, asError(t, err).Reason)
			}
		})
	}
	page, err := weirv1.NewDispatchersClient(c.Conn("s1")).ListDispatchers(within(t, 20*time.Second), &weirv1.ListDispatchersRequest{PageSize: 1})
	require.NoError(t, err)
	_, err = weirv1.NewDispatchersClient(c.Conn("s1")).ListDispatchers(within(t, 20*time.Second),
		&weirv1.ListDispatchersRequest{PageToken: page.GetNextPageToken(), Node: "n1"})
	_, info, _, bad := details(t, err)
	require.Equal(t, "MALFORMED", info.GetReason())
	require.Equal(t, "page_token", bad.GetFieldViolations()[0].GetField())
}

func TestADispatcherShowsOwnerProgressAndWhatHoldsIt(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	c.Log.Run(t, 1, "n1")
	d1, _ := c.Log.View().Dispatcher(1)
	epoch := d1.Epoch
	c.Server("s1").SetHooks(apitest.Hooks{
		Progress: func(id fsm.DispatcherID) (session.Progress, bool) {
			return session.Progress{Dispatcher: id, Epoch: epoch, Position: fsm.At(9), LagMS: -1, Rows: 3, Idle: true}, id == 1 || id == 5
		},
		Lease: func(fsm.Incarnation) (server.LeaseState, bool) {
			return server.LeaseState{HeardAge: 30 * time.Millisecond, Named: true, GateOpen: true, SetHashEqual: true}, true
		},
	})
	cl := c.Client()
	d, err := cl.Dispatcher(within(t, 20*time.Second), 1, nil)
	require.NoError(t, err)
	require.Equal(t, "n1", d.GetNode())
	require.Equal(t, "feed", d.GetChangefeed())
	require.Equal(t, "t", d.GetTable())
	require.Equal(t, uint64(epoch), d.GetEpoch())
	require.Equal(t, []byte("b"), d.GetSpan().GetEnd())
	require.Equal(t, weirv1.Phase_PHASE_RUNNING, d.GetPhase())
	require.Equal(t, int64(-1), d.GetProgress().GetLagMs())
	require.True(t, d.GetProgress().GetIdle())
	other, err := cl.Dispatcher(within(t, 20*time.Second), 5, nil)
	require.NoError(t, err)
	require.Nil(t, other.GetProgress(), "what was heard of another epoch says nothing about this placement")

	removal := c.Log.MustApply(t, &fsm.DropTables{Changefeed: "feed", Tables: []fsm.TableRef{{Name: "t"}}})
	require.True(t, removal.OK())
	c.Log.MustApply(t, &fsm.AddTables{Changefeed: "feed", Tables: []fsm.TableSpec{{Name: "t"}}})
	d1, _ = c.Log.View().Dispatcher(1)
	held, err := cl.Dispatcher(within(t, 20*time.Second), 7, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(d1.Slot), held.GetHeldBy())

	op, err := cl.Operator(within(t, 20*time.Second), uint64(d1.Slot), nil)
	require.NoError(t, err)
	require.Equal(t, weirv1.OperatorKind_OPERATOR_KIND_REMOVE, op.GetKind())
	require.Contains(t, op.GetWaitsFor(), "node n1 to stop dispatcher 1")

	n, err := cl.Node(within(t, 20*time.Second), "n1", nil)
	require.NoError(t, err)
	require.Equal(t, uint32(1), n.GetPending())
	require.Equal(t, uint32(1), n.GetPlacements())
	require.Equal(t, uint64(30), n.GetLease().GetHeardAgeMs())
	require.True(t, n.GetLease().GetNamed())
}

func TestHistoryShowsEndedPlacementsAndThePresentOne(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	c.Log.Run(t, 5, "n1")
	c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 5, From: "n1", To: "n2"})
	c.Log.Report(t, 5, fsm.ReportStopped)
	cl := c.Client()
	h, err := cl.History(within(t, 20*time.Second), 5, nil)
	require.NoError(t, err)
	require.Len(t, h.GetRecords(), 1)
	require.Equal(t, "n1", h.GetRecords()[0].GetNode())
	require.True(t, h.GetRecords()[0].GetHasRun())
	require.NotZero(t, h.GetRecords()[0].GetPlacedAt())
	require.NotZero(t, h.GetRecords()[0].GetEndedAt())
	require.Equal(t, "n2", h.GetDispatcher().GetNode())
	require.Greater(t, h.GetDispatcher().GetEpoch(), h.GetRecords()[0].GetEpoch())

	c.Log.MustApply(t, &fsm.DropTables{Changefeed: "feed", Tables: []fsm.TableRef{{Name: "u"}}})
	c.Log.Report(t, 5, fsm.ReportStopped)
	h, err = cl.History(within(t, 20*time.Second), 5, nil)
	require.NoError(t, err)
	require.Nil(t, h.GetDispatcher(), "it is gone")
	require.Len(t, h.GetRecords(), 2, "what it was remains")
	_, err = cl.History(within(t, 20*time.Second), 999, nil)
	require.Equal(t, "UNKNOWN_DISPATCHER", asError(t, err).Reason)
}

func operatorIDs(t *testing.T, cl *client.Client, filter *weirv1.ListOperatorsRequest) []uint64 {
	t.Helper()
	filter.PageSize = 2
	var ids []uint64
	for o, err := range cl.Operators(within(t, 20*time.Second), filter) {
		require.NoError(t, err)
		ids = append(ids, o.GetId())
	}
	return ids
}

func TestOperatorsAreListedRunningAndFinished(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	var ids []uint64
	for d := fsm.DispatcherID(1); d <= 5; d++ {
		node := fsm.NodeName("n1")
		if d%2 == 0 {
			node = "n2"
		}
		v := c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d, To: node})
		ids = append(ids, uint64(v.Facts.Operator))
	}
	cl := c.Client()
	require.Equal(t, ids, operatorIDs(t, cl, &weirv1.ListOperatorsRequest{}))
	require.Equal(t, []uint64{ids[1], ids[3]}, operatorIDs(t, cl, &weirv1.ListOperatorsRequest{Node: "n2"}))
	require.Equal(t, []uint64{ids[2]}, operatorIDs(t, cl, &weirv1.ListOperatorsRequest{Dispatcher: 3}))
	require.Nil(t, operatorIDs(t, cl, &weirv1.ListOperatorsRequest{Changefeed: "other"}))
	for _, d := range []fsm.DispatcherID{2, 4, 1} {
		c.Log.Report(t, d, fsm.ReportRunning)
	}
	finished := weirv1.OperatorState_OPERATOR_STATE_FINISHED
	require.Equal(t, []uint64{ids[0], ids[3], ids[1]}, operatorIDs(t, cl, &weirv1.ListOperatorsRequest{State: finished}))
	require.Equal(t, []uint64{ids[2], ids[4]}, operatorIDs(t, cl, &weirv1.ListOperatorsRequest{}))
	for _, err := range cl.Operators(within(t, 20*time.Second), &weirv1.ListOperatorsRequest{State: 9}) {
		require.Equal(t, "MALFORMED", asError(t, err).Reason)
	}
	_, err := cl.Operator(within(t, 20*time.Second), 1, nil)
	require.Equal(t, "NO_SUCH_OPERATOR", asError(t, err).Reason)
}

func TestChangefeedsTablesAndNodesAreListedPageByPage(t *testing.T) {
	c := apitest.New(t, 1)
	c.Log.Seed(t)
	c.Log.MustApply(t, &fsm.CreateChangefeed{Name: "b", Source: "s", Sink: "k", SinkFenced: true, Tables: []fsm.TableSpec{{Name: "t"}}})
	c.Log.Run(t, 1, "n1")
	conn := c.Conn("s1")
	ctx := within(t, 20*time.Second)

	feeds, err := weirv1.NewChangefeedsClient(conn).ListChangefeeds(ctx, &weirv1.ListChangefeedsRequest{PageSize: 1})
	require.NoError(t, err)
	require.Equal(t, "feed", feeds.GetChangefeeds()[0].GetName())
	feeds, err = weirv1.NewChangefeedsClient(conn).ListChangefeeds(ctx, &weirv1.ListChangefeedsRequest{PageToken: feeds.GetNextPageToken()})
	require.NoError(t, err)
	require.Equal(t, "b", feeds.GetChangefeeds()[0].GetName())
	require.Empty(t, feeds.GetNextPageToken())

	tables, err := weirv1.NewTablesClient(conn).ListTables(ctx, &weirv1.ListTablesRequest{Changefeed: "feed", PageSize: 1})
	require.NoError(t, err)
	require.Equal(t, uint32(4), tables.GetTables()[0].GetDispatchers())
	require.NotEmpty(t, tables.GetNextPageToken())

	nodes, err := weirv1.NewNodesClient(conn).ListNodes(ctx, &weirv1.ListNodesRequest{PageSize: 2})
	require.NoError(t, err)
	require.NotEmpty(t, nodes.GetNextPageToken())

	cl := c.Client()
	all, err := cl.Changefeeds(ctx, nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	feed, err := cl.Changefeed(ctx, "feed", nil)
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 6, 5}, []uint64{uint64(feed.GetTables()), feed.GetDispatchers(), feed.GetAbsent()})
	list, err := cl.Tables(ctx, "feed", nil)
	require.NoError(t, err)
	require.Len(t, list, 2)
	workers, err := cl.Nodes(ctx, nil)
	require.NoError(t, err)
	require.Len(t, workers, 3)
	for reason, call := range map[string]func(context.Context) error{
		"UNKNOWN_NODE":       func(ctx context.Context) error { _, err := cl.Node(ctx, "x", nil); return err },
		"UNKNOWN_CHANGEFEED": func(ctx context.Context) error { _, err := cl.Tables(ctx, "x", nil); return err },
		"UNKNOWN_DISPATCHER": func(ctx context.Context) error { _, err := cl.Dispatcher(ctx, 99, nil); return err },
	} {
		require.Equal(t, reason, asError(t, call(ctx)).Reason)
	}
}
