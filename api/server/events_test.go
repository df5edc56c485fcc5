package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

const soonEnough = 20 * time.Second

// seeded is a cluster whose dispatchers 1 (of four in table t) and 6 (the trigger) run on n1.
func seeded(t *testing.T) (*apitest.Cluster, *client.Client) {
	t.Helper()
	c := apitest.New(t, 2)
	c.Log.Seed(t)
	c.Log.Run(t, 1, "n1")
	c.Log.Run(t, 6, "n1")
	return c, c.Client()
}

func split(id uint64, keys ...string) *weirv1.OperatorSpec {
	spec := &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_SPLIT, Dispatcher: id}
	for _, k := range keys {
		spec.SplitKeys = append(spec.SplitKeys, []byte(k))
	}
	return spec
}

// A split by keys is sent again after the dispatcher is gone, and becomes the same command all the same.
func TestASplitByKeysCanBeSentAgain(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	req := &weirv1.AdmitOperatorRequest{Header: &weirv1.RequestHeader{RequestId: "s", By: "ann"}, Operator: split(1, "a")}
	req.Operator.Targets = []string{"n2", ""}
	first, err := cl.Admit(ctx, req)
	require.NoError(t, err)
	op, err := cl.Operator(ctx, first.GetOpId(), nil)
	require.NoError(t, err)
	require.Len(t, op.GetSpans(), 2)
	require.Equal(t, "a", string(op.GetSpans()[0].GetEnd()))
	require.Equal(t, "b", string(op.GetSpans()[1].GetEnd()))
	require.Equal(t, "n2", op.GetTargets()[0].GetNode())
	require.Contains(t, op.GetWaitsFor(), "node n1 to stop dispatcher 1")
	c.Log.Report(t, 1, fsm.ReportStopped)
	op, err = cl.Operator(ctx, first.GetOpId(), nil)
	require.NoError(t, err)
	require.Len(t, op.GetMade(), 2)
	req.Header.RequestTimeMs = 0
	again, err := cl.Admit(ctx, req)
	require.NoError(t, err)
	require.True(t, again.GetReplayed())
	require.Equal(t, first.GetOpId(), again.GetOpId())

	_, err = cl.AdmitOperator(ctx, split(99, "a"))
	require.Equal(t, "UNKNOWN_DISPATCHER", asError(t, err).Reason)
	both := split(2, "bb")
	both.Spans = []*weirv1.Span{{}}
	_, err = cl.AdmitOperator(ctx, both)
	require.Equal(t, "MALFORMED", asError(t, err).Reason)
	_, err = cl.AdmitOperator(ctx, split(2, "bb"))
	require.Equal(t, "NOT_RUNNING", asError(t, err).Reason)
}

func TestAMergeNamesItsSources(t *testing.T) {
	_, cl := seeded(t)
	ctx := within(t, soonEnough)
	a, err := cl.AdmitOperator(ctx, &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_MERGE, Sources: []uint64{2, 1}})
	require.NoError(t, err)
	op, err := cl.Operator(ctx, a.GetOpId(), nil)
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 2}, op.GetSources(), "in key order")
	require.Contains(t, op.GetWaitsFor(), "dispatcher 1")
	_, err = cl.AdmitOperator(ctx, &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_MERGE, Sources: []uint64{3, 5}})
	require.Equal(t, "NOT_ADJACENT", asError(t, err).Reason)
}

// Of many operators each has its own verdict, in chunks whose ids make the whole repeatable; or all or none.
func TestManyOperatorsAreAdmittedInChunks(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	keys := make([]string, 0, 299)
	for i := range cap(keys) {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	c.Log.MustApply(t, &fsm.AddTables{Changefeed: "feed", Tables: []fsm.TableSpec{{Name: "wide", SplitKeys: keys}}})
	req := &weirv1.AdmitManyRequest{Header: &weirv1.RequestHeader{RequestId: "many"}}
	for id := uint64(7); id < 7+300; id++ {
		req.Operators = append(req.Operators, &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: id, To: "n2"})
	}
	req.Operators[290].To = "nowhere"
	before := c.Log.View().Meta().Index
	verdicts, err := cl.AdmitMany(ctx, req)
	require.NoError(t, err)
	require.Len(t, verdicts, 300)
	require.Equal(t, uint64(2), c.Log.View().Meta().Index-before, "256 in one entry")
	for i, v := range verdicts {
		if i == 290 {
			require.Equal(t, "UNKNOWN_NODE", v.GetRefusal().GetReason())
			require.Contains(t, v.GetRefusal().GetMessage(), "no node is named nowhere")
			continue
		}
		require.NotZero(t, v.GetAdmission().GetOpId(), "operator %d: %s", i, v.GetRefusal().GetMessage())
	}
	again, err := cl.AdmitMany(ctx, req)
	require.NoError(t, err)
	require.True(t, again[299].GetAdmission().GetReplayed())
	require.Equal(t, verdicts[299].GetAdmission().GetOpId(), again[299].GetAdmission().GetOpId())
	known, err := cl.ExplainRequest(ctx, "many#1", nil)
	require.NoError(t, err)
	require.Len(t, known.GetVerdict().GetItems(), 44)

	all := &weirv1.AdmitManyRequest{AllOrNothing: true, Operators: []*weirv1.OperatorSpec{
		{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: 2, To: "n2"},
		{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: 1, To: "n2"},
	}}
	_, err = cl.AdmitMany(ctx, all)
	e := asError(t, err)
	require.Equal(t, "ITEM_REFUSED", e.Reason)
	require.Contains(t, e.Message, "item 2 of 2 was refused")
	require.Contains(t, e.Message, "dispatcher 1 runs on node n1", "with the winner")
	d, err := cl.Dispatcher(ctx, 2, nil)
	require.NoError(t, err)
	require.Zero(t, d.GetOperator(), "none was admitted")
	all.Operators[1].Dispatcher = 3
	verdicts, err = cl.AdmitMany(ctx, all)
	require.NoError(t, err)
	require.Len(t, verdicts, 2)
}

// event makes the trigger report an event at ts 50 that drops table t.
func event(t *testing.T, c *apitest.Cluster) {
	t.Helper()
	v := c.Log.View()
	feed, _ := v.Changefeed("feed")
	d, _ := v.Dispatcher(feed.Trigger)
	n, _ := v.NodeOf(d.Incarnation)
	ref := fsm.TableRef{Name: "t"}
	verdict := c.Log.MustApply(t, &fsm.ReportBarrier{Node: n.Name, Incarnation: n.Incarnation, Reports: []fsm.BarrierReport{{
		Key:  fsm.BarrierKey{Changefeed: feed.ID, Run: feed.Run, At: fsm.Position{TS: 50, Stage: fsm.StageDDL}},
		What: fsm.SaidWaiting, Pairs: []fsm.Pair{{Dispatcher: d.ID, Epoch: d.Epoch}}, Spec: fsm.BarrierSpec{
			Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{ref}, Drop: []fsm.TableRef{ref}, Statement: "drop table t",
		},
	}}})
	require.Equal(t, []fsm.Reason{fsm.ReportCounted}, verdict.Reports)
}

func TestABarrierShowsWhoIsMissing(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	event(t, c)
	at := &weirv1.Position{Ts: 50, Stage: weirv1.Stage_STAGE_DDL}
	for b, err := range cl.Barriers(ctx, &weirv1.ListBarriersRequest{Changefeed: "feed", PageSize: 1}) {
		require.NoError(t, err)
		require.Equal(t, at.String(), b.GetAt().String())
		require.Empty(t, b.GetMissing())
	}
	b, err := cl.Barrier(ctx, &weirv1.GetBarrierRequest{Changefeed: "feed", At: at, Missing: 3})
	require.NoError(t, err)
	require.Equal(t, weirv1.BarrierStatus_BARRIER_STATUS_COLLECTING, b.GetStatus())
	require.Equal(t, []uint64{5, 4}, []uint64{b.GetMembers(), b.GetBehind()})
	require.Equal(t, "4 of 5 dispatchers to reach it", b.GetWaitsFor())
	require.Len(t, b.GetMissing(), 3)
	require.True(t, b.GetMissingMore())
	require.Equal(t, "n1", b.GetMissing()[0].GetNode())
	require.Equal(t, "drop table t", b.GetSpec().GetStatement())
	e, err := cl.ExplainBarrier(ctx, &weirv1.ExplainBarrierRequest{Changefeed: "feed", At: at})
	require.NoError(t, err)
	require.NotEmpty(t, e.GetLines())

	feed, err := cl.Changefeed(ctx, "feed", nil)
	require.NoError(t, err)
	require.Equal(t, uint32(1), feed.GetBarriers())
	require.NotEmpty(t, feed.GetHold().GetText())

	_, err = cl.DecideBarrier(ctx, &weirv1.DecideBarrierRequest{Changefeed: "feed", At: at, Decision: weirv1.BarrierDecision_BARRIER_DECISION_WRITTEN})
	require.Equal(t, "NOT_UNDECIDED", asError(t, err).Reason)
	for reason, name := range map[string]*weirv1.GetBarrierRequest{
		"UNKNOWN_BARRIER":    {Changefeed: "feed", At: &weirv1.Position{Ts: 7, Stage: weirv1.Stage_STAGE_DDL}},
		"UNKNOWN_CHANGEFEED": {Changefeed: "x", At: at},
		"MALFORMED":          {Changefeed: "feed", At: &weirv1.Position{Ts: 7, Stage: weirv1.Stage_STAGE_ROWS}},
	} {
		_, err = cl.Barrier(ctx, name)
		require.Equal(t, reason, asError(t, err).Reason)
	}
}

// An event that only the trigger takes part in is written at once, and leaves a record.
func TestAnEndedBarrierIsRemembered(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	_, err := cl.CreateChangefeed(ctx, &weirv1.CreateChangefeedRequest{Name: "solo", Source: "wal2json:s", Sink: "sqlite:k", SinkFenced: true})
	require.NoError(t, err, "tables come later")
	solo, err := cl.Changefeed(ctx, "solo", nil)
	require.NoError(t, err)
	require.Contains(t, solo.GetHold().GetText(), "the trigger, dispatcher")
	c.Log.Run(t, fsm.DispatcherID(solo.GetTrigger()), "n2")
	d, _ := c.Log.View().Dispatcher(fsm.DispatcherID(solo.GetTrigger()))
	n, _ := c.Log.View().NodeOf(d.Incarnation)
	say := func(what fsm.BarrierSaid, permission uint64) {
		v := c.Log.MustApply(t, &fsm.ReportBarrier{Node: n.Name, Incarnation: n.Incarnation, Reports: []fsm.BarrierReport{{
			Key:  fsm.BarrierKey{Changefeed: fsm.ChangefeedID(solo.GetId()), Run: solo.GetRun(), At: fsm.Position{TS: 50, Stage: fsm.StageDDL}},
			What: what, Permission: permission, Pairs: []fsm.Pair{{Dispatcher: d.ID, Epoch: d.Epoch}},
			Spec: fsm.BarrierSpec{Influence: fsm.InfluenceTables, Add: []fsm.TableSpec{{Name: "born"}}},
		}}})
		require.Equal(t, []fsm.Reason{fsm.ReportCounted}, v.Reports)
	}
	at := &weirv1.Position{Ts: 50, Stage: weirv1.Stage_STAGE_DDL}
	say(fsm.SaidWaiting, 0)
	b, err := cl.Barrier(ctx, &weirv1.GetBarrierRequest{Changefeed: "solo", At: at})
	require.NoError(t, err)
	require.Equal(t, weirv1.BarrierStatus_BARRIER_STATUS_WRITING, b.GetStatus())
	require.Equal(t, "n2", b.GetWriterNode())
	_, err = cl.DecideBarrier(ctx, &weirv1.DecideBarrierRequest{Changefeed: "solo", At: at, Permission: 1, Decision: 1})
	require.Equal(t, "BARRIER_WRITING", asError(t, err).Reason)
	say(fsm.SaidWritten, b.GetPermission())
	b, err = cl.Barrier(ctx, &weirv1.GetBarrierRequest{Changefeed: "solo", At: at})
	require.NoError(t, err)
	require.Equal(t, weirv1.BarrierStatus_BARRIER_STATUS_ENDED, b.GetStatus())
	require.Equal(t, weirv1.BarrierResult_BARRIER_RESULT_WRITTEN, b.GetResult())
	ended := 0
	for b, err := range cl.Barriers(ctx, &weirv1.ListBarriersRequest{Ended: true, PageSize: 1}) {
		require.NoError(t, err)
		require.Equal(t, "solo", b.GetChangefeed())
		ended++
	}
	require.Equal(t, 1, ended)
	tables, err := cl.Tables(ctx, "solo", nil)
	require.NoError(t, err)
	require.Len(t, tables, 1, "the table that the event added, and not the trigger's")
}

func TestADrainShowsItsProgress(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	_, err := cl.StartDrain(ctx, "n1")
	require.NoError(t, err)
	n, err := cl.Node(ctx, "n1", nil)
	require.NoError(t, err)
	require.Equal(t, uint32(2), n.GetDrain().GetFrom())
	require.Equal(t, uint64(2), n.GetDrain().GetLeft())
	require.Equal(t, "tester", n.GetDrain().GetBy())
	require.Contains(t, n.GetDrain().GetWaitsFor(), "2 dispatchers to leave it")
	_, err = cl.StartDrain(ctx, "n1")
	require.Equal(t, "NODE_DRAINING", asError(t, err).Reason)
	for _, other := range []string{"n2", "n3"} {
		_, err = cl.StartDrain(ctx, other)
		require.NoError(t, err)
	}
	n, err = cl.Node(ctx, "n1", nil)
	require.NoError(t, err)
	require.Contains(t, n.GetDrain().GetWaitsFor(), "a node that can take its work")
	n, err = cl.Node(ctx, "n2", nil)
	require.NoError(t, err)
	require.Equal(t, "its own word that it holds nothing", n.GetDrain().GetWaitsFor())
	node, _ := c.Log.View().Node("n2")
	confirmed := c.Log.MustApply(t, &fsm.ConfirmDrain{Node: "n2", Incarnation: node.Incarnation})
	n, err = cl.Node(ctx, "n2", nil)
	require.NoError(t, err)
	require.Equal(t, confirmed.Index, n.GetDrain().GetConfirmedAt())
	require.Empty(t, n.GetDrain().GetWaitsFor())
	_, err = cl.ClearDrain(ctx, "n2")
	require.NoError(t, err)
	n, err = cl.Node(ctx, "n2", nil)
	require.NoError(t, err)
	require.Nil(t, n.GetDrain())
}

// A dry run gives the verdict that the request would get, now or then, and leaves no entry.
func TestADryRunGivesTheVerdictWithoutAnEntry(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	add := &weirv1.AdmitOperatorRequest{Operator: &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: 2, To: "n2"}}
	try := func(at uint64) *weirv1.DryRunResponse {
		r, err := cl.DryRun(ctx, &weirv1.DryRunRequest{AtIndex: at, Request: &weirv1.DryRunRequest_AdmitOperator{AdmitOperator: add}})
		require.NoError(t, err)
		return r
	}
	before := c.Log.View()
	r := try(0)
	require.True(t, r.GetVerdict().GetAccepted())
	require.Equal(t, before.Meta().Index, r.GetAtIndex())
	require.Equal(t, before.Meta().Index+1, r.GetVerdict().GetIndex())
	require.Equal(t, before.Hash(), c.Log.View().Hash(), "nothing is changed")
	free := before.Meta().Index
	real, err := cl.Admit(ctx, add)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(real.GetOpId()), r.GetVerdict().GetFacts()["operator"], "the real one is as foretold")

	now := try(0).GetVerdict()
	require.Equal(t, "OPERATOR_EXISTS", now.GetReason())
	require.Contains(t, now.GetMessage(), "was first")
	require.True(t, try(free).GetVerdict().GetAccepted(), "then it would have been admitted")
	c.Log.Cut(free)
	for reason, at := range map[string]uint64{"INDEX_TOO_OLD": free - 1, "INDEX_NOT_YET": 10_000} {
		_, err := cl.DryRun(ctx, &weirv1.DryRunRequest{AtIndex: at, Request: &weirv1.DryRunRequest_AdmitOperator{AdmitOperator: add}})
		require.Equal(t, reason, asError(t, err).Reason)
		_, err = cl.StateAt(ctx, at, nil)
		require.Equal(t, reason, asError(t, err).Reason)
	}
	_, err = cl.DryRun(ctx, &weirv1.DryRunRequest{})
	require.Equal(t, "MALFORMED", asError(t, err).Reason)

	then, err := cl.StateAt(ctx, free, nil)
	require.NoError(t, err)
	require.Equal(t, before.Hash().A, then.GetHash().GetA())
	require.Equal(t, []uint64{6, 2, 4}, []uint64{then.GetDispatchers(), then.GetRunning(), then.GetAbsent()})
	require.Zero(t, then.GetOperators())
	present, err := cl.StateAt(ctx, 0, nil)
	require.NoError(t, err)
	require.Equal(t, uint32(1), present.GetOperators())
}

// Every request that asks for a change has a field in DryRunRequest, and none of them fails as a fault.
func TestEveryChangeCanBeTried(t *testing.T) {
	_, cl := seeded(t)
	ctx := within(t, soonEnough)
	fields := (&weirv1.DryRunRequest{}).ProtoReflect().Descriptor().Oneofs().ByName("request").Fields()
	require.Equal(t, 18, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		require.NotNil(t, f.Message().Fields().ByName("header"), "%s asks for a change", f.Name())
		dry := &weirv1.DryRunRequest{}
		m := dry.ProtoReflect()
		m.Set(f, protoreflect.ValueOfMessage(m.NewField(f).Message()))
		r, err := cl.DryRun(ctx, proto.CloneOf(dry))
		if err != nil { // what is empty makes no sense, or names nothing
			require.NotEqual(t, client.Fault, asError(t, err).Class, "%s: %v", f.Name(), err)
			continue
		}
		require.NotEmpty(t, r.GetVerdict().GetMessage(), f.Name())
	}
}

func TestThingsAreExplained(t *testing.T) {
	_, cl := seeded(t)
	ctx := within(t, soonEnough)
	a, err := cl.Admit(ctx, &weirv1.AdmitOperatorRequest{
		Header:   &weirv1.RequestHeader{RequestId: "why"},
		Operator: &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: 1, From: "n1", To: "n2"},
	})
	require.NoError(t, err)
	d, err := cl.ExplainDispatcher(ctx, 1, nil)
	require.NoError(t, err)
	require.Equal(t, "dispatcher 1", d.GetSubject())
	require.NotEmpty(t, d.GetLines())
	op, err := cl.ExplainOperator(ctx, a.GetOpId(), nil)
	require.NoError(t, err)
	require.Equal(t, "tester", op.GetLines()[0].GetBy())
	r, err := cl.ExplainRequest(ctx, "why", nil)
	require.NoError(t, err)
	require.True(t, r.GetVerdict().GetAccepted())
	require.Equal(t, a.GetIndex(), r.GetVerdict().GetIndex())
	_, err = cl.ExplainRequest(ctx, "never", nil)
	require.Equal(t, "UNKNOWN_REQUEST", asError(t, err).Reason)
	_, err = cl.ExplainDispatcher(ctx, 99, nil)
	require.Equal(t, "UNKNOWN_DISPATCHER", asError(t, err).Reason)
	_, err = cl.ExplainOperator(ctx, 99, nil)
	require.Equal(t, "NO_SUCH_OPERATOR", asError(t, err).Reason)
}

func TestPoliciesAreReadAndReplaced(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	p, err := cl.Policy(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, fsm.DefaultPolicy().OperatorDeadlineMS, p.GetOperatorDeadlineMs())
	// Each field goes there and back: no two share a value.
	m := p.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); f.Kind() {
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(uint32(1000+i)))
		default:
			m.Set(f, protoreflect.ValueOfUint64(uint64(1000+i)))
		}
	}
	_, err = cl.SetPolicy(ctx, &weirv1.SetPolicyRequest{Policy: p})
	require.NoError(t, err)
	back, err := cl.Policy(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, p.String(), back.String())
	require.Equal(t, uint32(1000+fields.ByName("fail_after").Index()), c.Log.View().Meta().Policy.FailAfter)
	_, err = cl.SetPolicy(ctx, &weirv1.SetPolicyRequest{})
	require.Equal(t, "MALFORMED", asError(t, err).Reason)
}

func TestAChangefeedIsUpdatedAndSetBack(t *testing.T) {
	c, cl := seeded(t)
	ctx := within(t, soonEnough)
	every := uint64(7)
	update := &weirv1.UpdateChangefeedRequest{Name: "feed", Source: "wal2json:elsewhere", SyncPointEvery: &every}
	_, err := cl.UpdateChangefeed(ctx, proto.CloneOf(update))
	require.Equal(t, "CHANGEFEED_NOT_PAUSED", asError(t, err).Reason)
	_, err = cl.PauseChangefeed(ctx, "feed")
	require.NoError(t, err)
	_, err = cl.UpdateChangefeed(ctx, proto.CloneOf(update))
	require.Equal(t, "CHANGEFEED_STOPPING", asError(t, err).Reason)
	c.Log.Report(t, 1, fsm.ReportStopped)
	c.Log.Report(t, 6, fsm.ReportStopped)
	_, err = cl.UpdateChangefeed(ctx, proto.CloneOf(update))
	require.NoError(t, err)
	feed, err := cl.Changefeed(ctx, "feed", nil)
	require.NoError(t, err)
	require.Equal(t, "wal2json:elsewhere", feed.GetSource())
	require.Equal(t, every, feed.GetSyncPointEvery())
	require.Equal(t, "tester", feed.GetStatusBy())
	_, err = cl.ResumeFrom(ctx, &weirv1.ResumeChangefeedRequest{Name: "feed", From: &weirv1.Position{Ts: 99}})
	require.Equal(t, "MALFORMED", asError(t, err).Reason, "a changefeed cannot skip changes")
	r, err := cl.ResumeFrom(ctx, &weirv1.ResumeChangefeedRequest{Name: "feed"})
	require.NoError(t, err)
	require.Equal(t, feed.GetRun(), r.GetRun())
}
