package nodewire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

func position(ts uint64, stage fsm.Stage) fsm.Position { return fsm.Position{TS: ts, Stage: stage} }

func fromNodeMessages() map[string]session.FromNode {
	return map[string]session.FromNode{
		"hello": {Hello: &session.Hello{Cluster: "c", Node: "n", Incarnation: math.MaxInt64, Protocol: 3}},
		"heartbeat": {Heartbeat: &session.Heartbeat{
			Seq: 1, GateOpen: true, GateReason: "r", NewestAck: 2, OrdersTerm: 3, OrdersIndex: 4, SetHash: math.MaxUint64,
			Dispatchers: 5, HighestGeneration: 6, Progress: []session.Progress{
				{Dispatcher: 7, Epoch: 8, Position: position(9, fsm.StageDDL), LagMS: -1, Rows: 10, Idle: true},
				{Dispatcher: 11, Epoch: 12},
			},
			Crews: []session.Crew{{Changefeed: 13, SetHash: math.MaxUint64, Minimum: position(14, fsm.StageRows)}, {Changefeed: 15}},
		}},
		"report": {Report: &session.Report{Reports: []fsm.PlacementReport{
			{
				PlacementPosition: fsm.PlacementPosition{Dispatcher: 1, Epoch: 2, HasPosition: true, Position: position(0, fsm.StageNone)},
				What:              fsm.ReportStopped, Reason: "R", Detail: "d",
			},
			{PlacementPosition: fsm.PlacementPosition{Dispatcher: 3, Epoch: 4}, What: fsm.ReportRunning},
			{PlacementPosition: fsm.PlacementPosition{Dispatcher: 5, Epoch: 6}, What: fsm.ReportStartFailed, Fatal: true},
		}}},
		"barrier reports": {Barrier: &session.BarrierReport{Seq: 1, Reports: barrierReports()}},
		"list":            {List: &session.List{Pairs: []session.Pair{{Dispatcher: 1, Epoch: 2}, {Dispatcher: 3, Epoch: 4}}}},
		"empty list":      {List: &session.List{}},
	}
}

func someKey(stage fsm.Stage) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: 2, Run: 3, At: position(4, stage)}
}

func barrierReports() []fsm.BarrierReport {
	ref := func(name string) fsm.TableRef { return fsm.TableRef{Schema: "s", Name: name} }
	return []fsm.BarrierReport{
		{
			Key: someKey(fsm.StageDDL), What: fsm.SaidWaiting, All: true, SetHash: math.MaxUint64, Except: []fsm.DispatcherID{5, 6},
			Earlier: position(3, fsm.StageSyncPoint), Spec: fsm.BarrierSpec{
				Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{ref("a"), ref("b")}, Schema: "s", Drop: []fsm.TableRef{ref("a")},
				Add:     []fsm.TableSpec{{Schema: "s", Name: "c", SplitKeys: []string{"\xff", "k"}}},
				Rename:  []fsm.TableRename{{From: ref("b"), To: ref("d")}},
				Trigger: true, Statement: "drop",
			},
		},
		{Key: someKey(fsm.StageSyncPoint), What: fsm.SaidWaiting, Spec: fsm.SyncPointSpec()},
		{Key: someKey(fsm.StageDDL), What: fsm.SaidWritten, Pairs: []fsm.Pair{{Dispatcher: 7, Epoch: 8}}, Permission: 9},
		{Key: someKey(fsm.StageDDL), What: fsm.SaidPassed},
		{Key: someKey(fsm.StageDDL), What: fsm.SaidNotBegun},
		{Key: someKey(fsm.StageDDL), What: fsm.SaidUnknown},
	}
}

func fromLeaderMessages() map[string]session.FromLeader {
	work := fsm.Work{
		Changefeed: "f", Run: 1, Source: "s", Sink: "k", SinkFenced: true, SinkMaxWriteMS: 2, Schema: "a", Table: "b",
		TableID: -3, Span: fsm.Span{Start: "\x00\xff", End: "\xff\xfe"}, Start: position(4, fsm.StageRows),
		ChangefeedID: 5, Trigger: true, SyncPointEvery: 6,
	}
	var answers []fsm.Reason
	for _, row := range answerRows() {
		answers = append(answers, row.reason)
	}
	return map[string]session.FromLeader{
		"ack": {Ack: &session.Ack{Seq: 1, Term: 2, Index: 3, ElapsedNS: 4}},
		"orders": {Orders: &session.Orders{Term: 1, Index: 2, More: true, Orders: []fsm.Order{
			{Kind: fsm.OrderStart, Dispatcher: 3, Epoch: 4, Operator: 5, Work: work},
			{Kind: fsm.OrderStop, Dispatcher: 6, Epoch: 7},
		}, Barriers: []fsm.BarrierOrder{
			{
				Key: someKey(fsm.StageDDL), Action: fsm.ActionWrite, Permission: 5, Pairs: []fsm.Pair{{Dispatcher: 6, Epoch: 7}},
				Tables: []fsm.TableRef{{Schema: "s", Name: "a"}},
			},
			{Key: someKey(fsm.StageSyncPoint), Action: fsm.ActionPass, All: true, SetHash: math.MaxUint64},
		}}},
		"barrier answer": {Barrier: &session.BarrierAnswer{Term: 1, Index: 2, Seq: 3, Answers: answers}},
		"ask barriers":   {AskBarriers: &session.AskBarriers{Key: someKey(fsm.StageDDL)}},
		"report ack": {ReportAck: &session.ReportAck{Term: 1, Index: 2, Pairs: []session.ReportedPair{
			{Pair: session.Pair{Dispatcher: 3, Epoch: 4}, What: fsm.ReportStopped},
		}}},
		"ask list": {AskList: &session.AskList{}},
		"close":    {Close: &session.Close{Reason: "R", Text: "t", Leader: "l"}},
	}
}

// onWire takes a message through its bytes.
func onWire[M proto.Message](t *testing.T, in, out M) M {
	t.Helper()
	b, err := proto.Marshal(in)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, out))
	return out
}

func TestMessagesOfANodeSurviveTheWire(t *testing.T) {
	for name, m := range fromNodeMessages() {
		t.Run(name, func(t *testing.T) {
			out, err := FromNode(m)
			require.NoError(t, err)
			back, err := ToNode(onWire(t, out, &weirv1.SessionRequest{}))
			require.NoError(t, err)
			require.Equal(t, m, back)
		})
	}
}

func TestMessagesOfTheLeaderSurviveTheWire(t *testing.T) {
	for name, m := range fromLeaderMessages() {
		t.Run(name, func(t *testing.T) {
			out, err := FromLeader(m)
			require.NoError(t, err)
			back, err := ToLeader(onWire(t, out, &weirv1.SessionResponse{}))
			require.NoError(t, err)
			require.Equal(t, m, back)
		})
	}
}

func TestEveryPositionSurvivesTheWire(t *testing.T) {
	for _, p := range []fsm.Position{
		{},
		position(0, fsm.StageRows), position(1, fsm.StageNone), position(1, fsm.StageRows), position(1, fsm.StageDDL),
		position(math.MaxUint64, fsm.StageSyncPoint),
	} {
		back, err := ToPosition(FromPosition(p))
		require.NoError(t, err)
		require.Equal(t, p, back)
	}
	bare, err := ToPosition(&weirv1.Position{Ts: 5})
	require.NoError(t, err)
	require.Equal(t, fsm.At(5), bare, "a bare ts is after everything at the ts")
	none, err := ToPosition(nil)
	require.NoError(t, err)
	require.Equal(t, fsm.Position{}, none)
}

func TestMessagesThatMakeNoSenseAreRefused(t *testing.T) {
	_, err := FromNode(session.FromNode{})
	require.Error(t, err)
	_, err = FromLeader(session.FromLeader{})
	require.Error(t, err)
	_, err = ToNode(&weirv1.SessionRequest{})
	require.Error(t, err)
	_, err = ToLeader(nil)
	require.Error(t, err)
	_, err = ToPosition(&weirv1.Position{Ts: 1, Stage: 99})
	require.ErrorContains(t, err, "unknown stage 99")
	for name, what := range map[string]weirv1.ReportKind{"unset": 0, "unknown": 9, "negative": -1} {
		t.Run("report kind "+name, func(t *testing.T) {
			_, err := ToNode(&weirv1.SessionRequest{Message: &weirv1.SessionRequest_Report{Report: &weirv1.Report{
				Reports: []*weirv1.PlacementReport{{What: weirv1.ReportKind_REPORT_KIND_RUNNING}, {What: what}},
			}}})
			require.ErrorContains(t, err, "element 1: report has the unknown kind")
		})
	}
	for name, order := range map[string]*weirv1.Order{
		"no kind":       {Dispatcher: 1},
		"unknown kind":  {Kind: 7},
		"start of what": {Kind: weirv1.OrderKind_ORDER_KIND_START, Dispatcher: 1},
	} {
		t.Run("order with "+name, func(t *testing.T) {
			_, err := ToLeader(&weirv1.SessionResponse{Message: &weirv1.SessionResponse_Orders{Orders: &weirv1.Orders{
				Orders: []*weirv1.Order{order},
			}}})
			require.Error(t, err)
		})
	}
	for name, m := range map[string]*weirv1.SessionRequest{
		"no kind":           {Message: barrierReport(&weirv1.BarrierReport{})},
		"unknown kind":      {Message: barrierReport(&weirv1.BarrierReport{What: 9})},
		"unknown stage":     {Message: barrierReport(&weirv1.BarrierReport{What: 1, Key: &weirv1.BarrierKey{At: &weirv1.Position{Stage: 9}}})},
		"unknown earlier":   {Message: barrierReport(&weirv1.BarrierReport{What: 1, Earlier: &weirv1.Position{Stage: 9}})},
		"unknown influence": {Message: barrierReport(&weirv1.BarrierReport{What: 1, Spec: &weirv1.BarrierSpec{Influence: 9}})},
		"crew of nowhere": {Message: &weirv1.SessionRequest_Heartbeat{Heartbeat: &weirv1.Heartbeat{
			Crews: []*weirv1.Crew{{Minimum: &weirv1.Position{Stage: 9}}},
		}}},
	} {
		t.Run("event "+name, func(t *testing.T) {
			_, err := ToNode(m)
			require.Error(t, err)
		})
	}
	for name, m := range map[string]*weirv1.SessionResponse{
		"no action":      {Message: &weirv1.SessionResponse_Orders{Orders: &weirv1.Orders{Barriers: []*weirv1.BarrierOrder{{}}}}},
		"unknown answer": {Message: &weirv1.SessionResponse_BarrierAnswer{BarrierAnswer: &weirv1.BarrierAnswer{Answers: []weirv1.ReportAnswer{99}}}},
		"no key":         {Message: &weirv1.SessionResponse_AskBarriers{AskBarriers: &weirv1.AskBarriers{Key: &weirv1.BarrierKey{At: &weirv1.Position{Stage: -1}}}}},
	} {
		t.Run("order about an event with "+name, func(t *testing.T) {
			_, err := ToLeader(m)
			require.Error(t, err)
		})
	}
	_, err = FromLeader(session.FromLeader{Barrier: &session.BarrierAnswer{Answers: []fsm.Reason{fsm.UnknownTable}}})
	require.ErrorContains(t, err, "UNKNOWN_TABLE")
	_, err = ToRegisterNode(&weirv1.RegisterRequest{ClockClass: 257})
	require.ErrorContains(t, err, "257", "a clock class that does not fit must not become another one")
}

func barrierReport(r *weirv1.BarrierReport) *weirv1.SessionRequest_BarrierReports {
	return &weirv1.SessionRequest_BarrierReports{BarrierReports: &weirv1.BarrierReports{Reports: []*weirv1.BarrierReport{r}}}
}

func TestRegistrationAndGoodbyeSurviveTheWire(t *testing.T) {
	r := session.Registration{
		Cluster: "c", Node: "n", Address: "a", LeaseMS: 2000, ClockClass: 2, Protocol: 3, BootID: "b", LockDevice: 4,
		LockInode: 5, HighestGeneration: 6,
	}
	req := onWire(t, FromRegistration(r), &weirv1.RegisterRequest{})
	command, err := ToRegisterNode(req)
	require.NoError(t, err)
	require.Equal(t, &fsm.RegisterNode{
		Node: "n", Address: "a", LeaseMS: 2000, ClockClass: 2, Protocol: 3, BootID: "b", LockDevice: 4, LockInode: 5,
	}, command)
	require.Equal(t, "c", req.GetCluster())
	require.Equal(t, uint64(6), req.GetHighestGeneration())

	stopped := []fsm.PlacementPosition{{Dispatcher: 1, Epoch: 2, HasPosition: true, Position: fsm.At(3)}, {Dispatcher: 4, Epoch: 5}}
	bye, err := ToGoodbye(onWire(t, FromGoodbye("n", 9, stopped), &weirv1.GoodbyeRequest{}))
	require.NoError(t, err)
	require.Equal(t, &fsm.Goodbye{Node: "n", Incarnation: 9, Stopped: stopped}, bye)

	require.Equal(t, session.Registered{Cluster: "c", Incarnation: 1, LeaseMS: 2, Index: 3, Term: 4, TickMS: 5, HeartbeatMS: 6},
		ToRegistered(&weirv1.RegisterResponse{
			Header: &weirv1.ResponseHeader{Index: 3, Term: 4}, Cluster: "c", Incarnation: 1, LeaseMs: 2, TickMs: 5, HeartbeatMs: 6,
		}))
}
