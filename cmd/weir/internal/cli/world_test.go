package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/serve"
)

// key is the key bytes of an integer below 256.
func key(n byte) []byte { return []byte{0x20, 0x80, 0, 0, 0, 0, 0, 0, n} }

// shop is a cluster in the middle of its work.
func shop() *fakePlane {
	rowsAt := func(ts uint64) *weirv1.Position { return &weirv1.Position{Ts: ts, Stage: weirv1.Stage_STAGE_ROWS} }
	moving := &weirv1.Operator{
		Id: tok(13), Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: 1, Changefeed: "shop", Table: "public.accounts",
		From: "n1", FromIncarnation: tok(1), To: "n2", ToIncarnation: tok(2), By: "ann", Since: 30, SinceMs: 4000,
		WaitsFor: "node n1 to stop dispatcher 1 under epoch 29.2",
	}
	return &fakePlane{
		feeds: []*weirv1.Changefeed{{
			Id: 7, Name: "shop", Status: weirv1.ChangefeedStatus_CHANGEFEED_STATUS_RUNNING, Source: "wal2json:/log", Sink: "sqlite:/db",
			SinkFenced: true, Run: 1, CreatedAt: 9, Tables: 2, Dispatchers: 3, Absent: 1, SyncPointEvery: 100, Trigger: 4,
			Watermark: rowsAt(90), WatermarkAt: 40, StatusAt: 9, StatusBy: "ann", Barriers: 1, Hold: &weirv1.WatermarkHold{
				At: rowsAt(100), Dispatcher: 3, Text: "dispatcher 3, which is absent at 100/rows; see why with: weir dispatcher explain 3",
			},
		}, {
			Id: 8, Name: "broken", Status: weirv1.ChangefeedStatus_CHANGEFEED_STATUS_FAILED, Source: "wal2json:/log2", Sink: "sqlite:/db2",
			SinkFenced: true, Run: 2, CreatedAt: 11, StatusAt: 33, StatusBy: "leader", Reason: "DDL_UNSUPPORTED",
			Detail: "ALTER TABLE a ADD COLUMN p point: type point is not known", FailedBy: 12, Watermark: rowsAt(70), Trigger: 12,
		}},
		tables: []*weirv1.Table{
			{Id: 1, Changefeed: "shop", Schema: "public", Name: "accounts", CreatedAt: 9, Dispatchers: 2},
			{Id: 2, Changefeed: "shop", Schema: "audit", Name: "log", CreatedAt: 9, Dispatchers: 1, Dropping: true},
		},
		dispatchers: []*weirv1.Dispatcher{
			{
				Id: 1, Changefeed: "shop", Schema: "public", Table: "accounts", TableId: 1, Span: &weirv1.Span{End: key(50)},
				Phase: weirv1.Phase_PHASE_STOPPING, Node: "n1", Incarnation: tok(1), Epoch: tok(2), Operator: tok(13),
				Position: rowsAt(100), PlacedAt: 10, PhaseAt: 30, PhaseMs: 4000,
				Progress: &weirv1.Progress{Dispatcher: 1, Epoch: tok(2), Position: rowsAt(180), LagMs: 130, Rows: 12},
			},
			{
				Id: 2, Changefeed: "shop", Schema: "public", Table: "accounts", TableId: 1, Span: &weirv1.Span{Start: key(50)},
				Phase: weirv1.Phase_PHASE_RUNNING, Node: "n2", Incarnation: tok(2), Epoch: tok(4), Position: rowsAt(100), PlacedAt: 10,
				PhaseAt: 12, PhaseMs: 2000, Progress: &weirv1.Progress{Dispatcher: 2, Epoch: tok(4), Position: rowsAt(200), LagMs: -1, Rows: 9, Idle: true},
			},
			{
				Id: 3, Changefeed: "shop", Schema: "audit", Table: "log", TableId: 2, Phase: weirv1.Phase_PHASE_ABSENT,
				HeldBy: tok(11), PhaseAt: 28, Failures: 2,
			},
		},
		operators: []*weirv1.Operator{moving, {
			Id: tok(9), Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: 3, Changefeed: "shop", Table: "audit.log", To: "n1",
			ToIncarnation: tok(1), Epoch: tok(10), By: "scheduler", Since: 20, Result: weirv1.OperatorResult_OPERATOR_RESULT_FAILED,
			Reason: "SINK_UNWRITABLE", Detail: "sink file /db cannot be opened", Ended: 25, EndedMs: 3500,
		}, {
			Id: tok(17), Kind: weirv1.OperatorKind_OPERATOR_KIND_SPLIT, Dispatcher: 2, Changefeed: "shop", Table: "public.accounts",
			From: "n2", FromIncarnation: tok(2), Epoch: tok(4), By: "ann", Since: 31, SinceMs: 4100, DeadlineMs: 64_100, StuckAt: 39,
			Spans: []*weirv1.Span{{Start: key(50), End: key(70)}, {Start: key(70)}}, Targets: []*weirv1.OperatorTarget{{Node: "n1"}, {}},
			WaitsFor: "node n2 to stop dispatcher 2 under epoch 29.4",
		}, {
			Id: tok(18), Kind: weirv1.OperatorKind_OPERATOR_KIND_MERGE, Dispatcher: 5, Changefeed: "shop", Table: "public.accounts",
			By: "scheduler", Since: 32, SinceMs: 4200, DeadlineMs: 64_200, Sources: []uint64{5, 6}, Made: []uint64{7}, Ended: 38,
			Result: weirv1.OperatorResult_OPERATOR_RESULT_DONE,
		}},
		nodes: []*weirv1.Node{
			{
				Name: "n1", Incarnation: tok(1), Status: weirv1.NodeStatus_NODE_STATUS_LIVE, LeaseMs: 2000, ClockClass: 1, Protocol: 1,
				BootId: "b", LastTick: 41, RegisteredAt: 4, Placements: 1, Pending: 1,
				Lease: &weirv1.Lease{HeardAgeMs: 120, Named: true, GateOpen: true, SetHashEqual: true},
			},
			{
				Name: "n2", Incarnation: tok(2), Status: weirv1.NodeStatus_NODE_STATUS_FENCED, LeaseMs: 2000, LastTick: 20, RegisteredAt: 5,
				Drain:    &weirv1.Drain{Since: 15, By: "ann", From: 3, Left: 1, WaitsFor: "1 dispatchers to leave it; see them with: weir dispatcher list --node n2"},
				FenceWhy: "asked for on the command line", Placements: 1, Lease: &weirv1.Lease{HeardAgeMs: 90, GateReason: "LEASE_LAPSED"},
			},
			{Name: "n3", Incarnation: tok(3), Status: weirv1.NodeStatus_NODE_STATUS_GONE, LeaseMs: 2000, LastTick: 22, RegisteredAt: 6, EndedAt: 23},
		},
		history: &weirv1.GetHistoryResponse{
			Records: []*weirv1.PlacementRecord{{
				Seq: 1, Epoch: tok(1), Node: "n3", Incarnation: tok(3), HasRun: true, PlacedAt: 7, EndedAt: 23, EndedMs: 1000, WallMs: 5,
				Reason: "GOODBYE", Detail: "planned stop", Position: rowsAt(100),
			}},
			Dispatcher: &weirv1.Dispatcher{
				Id: 1, Phase: weirv1.Phase_PHASE_RUNNING, Node: "n1", Incarnation: tok(1), Epoch: tok(2), PlacedAt: 24, Position: rowsAt(100),
			},
		},
		status: &weirv1.GetStatusResponse{
			Header: &weirv1.ResponseHeader{Index: 42, LogTimeMs: 61_000, Server: "s1"}, Cluster: "c1", Leader: "s2", LeaderAddress: "127.0.0.1:7402",
			Term: 3, Generation: 29, Level: 1, Dispatchers: 3, RunningOperators: 1, Nodes: 2, CommonIndex: 40, HashesEqual: true,
			Members: []*weirv1.Member{
				{
					Id: "s1", Address: "127.0.0.1:7401", Voter: true, Reachable: true, Role: weirv1.Role_ROLE_FOLLOWER, AppliedIndex: 41,
					InContact: true, Hash: &weirv1.Digest{A: 1, B: 2},
				},
				{
					Id: "s2", Address: "127.0.0.1:7402", Voter: true, Reachable: true, Role: weirv1.Role_ROLE_LEADER, AppliedIndex: 42,
					InContact: true, Hash: &weirv1.Digest{A: 1, B: 2},
				},
				{Id: "s3", Address: "127.0.0.1:7403", Voter: true, Error: "connection refused"},
			},
		},
		barriers: []*weirv1.Barrier{
			{
				Changefeed: "shop", ChangefeedId: 7, Run: 1, At: &weirv1.Position{Ts: 120, Stage: weirv1.Stage_STAGE_DDL},
				Spec: &weirv1.BarrierSpec{
					Influence: weirv1.Influence_INFLUENCE_TABLES, Tables: []*weirv1.TableRef{{Schema: "public", Name: "accounts"}},
					Drop: []*weirv1.TableRef{{Schema: "public", Name: "accounts"}}, Statement: "drop table accounts",
				},
				Status: weirv1.BarrierStatus_BARRIER_STATUS_COLLECTING, TriggerSaid: true, OpenedAt: 35, OpenedMs: 4500, OpenedBy: 4,
				DeadlineMs: 304_500, StuckAt: 41, Members: 3, Behind: 1, Unpassed: 3, WaitsFor: "1 of 3 dispatchers to reach it",
				Missing: []*weirv1.BarrierMissing{{
					Dispatcher: 2, Schema: "public", Table: "accounts", Span: &weirv1.Span{Start: key(50)}, Phase: weirv1.Phase_PHASE_RUNNING,
					Node: "n2", Incarnation: tok(2), Epoch: tok(4), Operator: tok(17), Position: rowsAt(100),
				}},
				MissingMore: true,
			},
			{
				Changefeed: "shop", ChangefeedId: 7, Run: 1, At: &weirv1.Position{Ts: 200, Stage: weirv1.Stage_STAGE_SYNC_POINT},
				Spec:   &weirv1.BarrierSpec{Influence: weirv1.Influence_INFLUENCE_ALL},
				Status: weirv1.BarrierStatus_BARRIER_STATUS_NEEDS_DECISION, Permission: 2, Writer: 4, WriterEpoch: tok(6), WriterNode: "n1",
				WriterIncarnation: tok(1), Unknown: true, OpenedAt: 36, GrantedAt: 37, Members: 3, Unpassed: 3,
				WaitsFor: "a decision whether it was written: compare the sink, then: weir barrier decide shop 200",
			},
		},
		policy: &weirv1.Policy{MaxDispatchers: 2_000_000, OperatorDeadlineMs: 60_000, CancelStuck: true, FailAfter: 100, DrainAtOnce: 64},
		explained: &weirv1.Explanation{Subject: "dispatcher 1", Lines: []*weirv1.ExplanationLine{
			{Index: 9, Text: "it replicates (-inf,50) of table public.accounts for changefeed shop, from 100/rows on"},
			{Index: 30, By: "ann", Text: "move 29.13 of dispatcher 1 from node n1 to node n2, waits for node n1 to stop dispatcher 1 under epoch 29.2"},
		}},
		verdict: &weirv1.Verdict{
			Accepted: true, Reason: "ACCEPTED", Message: "move 29.13 of dispatcher 1 is admitted; wait for it with: weir operator wait 29.13",
			Facts: map[string]string{"operator": "1992864825357", "operator_kind": "move", "dispatcher": "1", "node": "n2"}, Index: 43,
		},
		verdicts: []*weirv1.AdmitVerdict{
			{Verdict: &weirv1.AdmitVerdict_Admission{Admission: &weirv1.Admission{OpId: tok(20), Dispatcher: 1, Epoch: tok(21), Index: 43}}},
			{Verdict: &weirv1.AdmitVerdict_Refusal{Refusal: &weirv1.Refusal{
				Reason: "OPERATOR_EXISTS", Message: "split 29.17 was first and holds dispatcher 2; wait for it with: weir operator wait 29.17, or cancel it",
				Facts: map[string]string{"operator": "1992864825361"},
			}}},
		},
		state: &weirv1.StateSummary{
			Index: 40, RaftTerm: 3, Hash: &weirv1.Digest{A: 1, B: 2}, Cluster: "c1", Generation: 29, Level: 1, Term: 3, Leader: "s2",
			TimeMs: 61_000, Changefeeds: 2, Tables: 2, Dispatchers: 4, Absent: 1, Running: 2, Stopping: 1, Operators: 2, StuckOperators: 1,
			Barriers: 2, StuckBarriers: 1, UndecidedBarriers: 1, Nodes: 3, LiveNodes: 1,
		},
		admission: &weirv1.Admission{OpId: tok(15), Dispatcher: 1, Epoch: tok(16), Index: 43},
		waits: []waitAnswer{
			{operator: moving, err: stillRunning()},
			{err: notReached()},
			{operator: ended(moving, weirv1.OperatorResult_OPERATOR_RESULT_DONE)},
		},
	}
}

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
	server         *serve.ServerConfig
	agent          *serve.AgentConfig
	dev            *dev.Config
}

// run runs a command line against a plane.
func run(t *testing.T, f *fakePlane, args ...string) result {
	t.Helper()
	return runIn(t.Context(), f, args...)
}

// manyLines is what commands find on standard input.
const manyLines = "# two moves\nop dispatcher from to epoch\nmove 1 n1 n2 29.2\n{\"op\":\"move\",\"dispatcher\":2,\"to\":\"n1\"}\n"

func runIn(ctx context.Context, f *fakePlane, args ...string) result {
	var r result
	var stdout, stderr bytes.Buffer
	r.code = Run(ctx, Env{
		Stdin: strings.NewReader(manyLines), Stdout: &stdout, Stderr: &stderr, User: "ann", Getenv: func(string) string { return "" },
		Connect: func(addresses []string, _ string, _ time.Duration) (plane.Plane, error) {
			f.addresses = addresses
			return f, nil
		},
		Server: func(_ context.Context, c serve.ServerConfig) error { r.server = &c; return nil },
		Agent:  func(_ context.Context, c serve.AgentConfig) error { r.agent = &c; return nil },
		Dev:    func(_ context.Context, c dev.Config) error { r.dev = &c; return nil },
	}, args)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

// logFile writes a small complete change log and returns its path.
func logFile(t *testing.T) string {
	t.Helper()
	row := func(table, column, kind, value string) string {
		return `{"action":"I","xid":1,"schema":"public","table":"` + table + `","columns":[{"name":"` + column + `","type":"` + kind +
			`","value":` + value + `}],"pk":[{"name":"` + column + `","type":"` + kind + `"}]}`
	}
	lines := []string{`{"action":"B","xid":1,"timestamp":"2026-01-01 00:00:00+00","lsn":"0/1","nextlsn":"0/10"}`}
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
		lines = append(lines, row("accounts", "id", "integer", id))
	}
	lines = append(lines, row("names", "name", "text", `"a,b:c"`), `{"action":"C","xid":1,"timestamp":"2026-01-01 00:00:00+00","lsn":"0/1","nextlsn":"0/10"}`)
	path := filepath.Join(t.TempDir(), "log.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}
