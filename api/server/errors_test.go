package server_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// fullFacts has every field set, so that one which gets lost on the way is noticed.
func fullFacts() fsm.Facts {
	return fsm.Facts{
		Operator: 11, OperatorKind: fsm.OpMove, Result: fsm.OpFailed, Dispatcher: 12, Epoch: 13, Node: "n", Incarnation: 14,
		LeaseMS: 15, Changefeed: "f", ChangefeedID: 16, Table: "t", TableID: -17, Term: 18, Server: "s9", Limit: "l", Have: 19,
		Want: 20, Detail: "d", Run: 21, At: fsm.Position{TS: 22, Stage: fsm.StageDDL}, Permission: 23,
	}
}

func pause(ctx context.Context, cl *client.Client) error {
	_, err := cl.PauseChangefeed(ctx, "feed")
	return err
}

func details(t *testing.T, err error) (*status.Status, *errdetails.ErrorInfo, *errdetails.RetryInfo, *errdetails.BadRequest) {
	t.Helper()
	st := status.Convert(err)
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	var bad *errdetails.BadRequest
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.BadRequest:
			bad = d
		}
	}
	return st, info, retry, bad
}

func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	require.ErrorAs(t, err, &e)
	return e
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// bubble runs a subtest under fake time.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func header(id string) *weirv1.RequestHeader { return &weirv1.RequestHeader{RequestId: id} }

func TestEveryVerdictSurvivesTheWire(t *testing.T) {
	want := map[fsm.Reason]codes.Code{
		fsm.StaleTerm: codes.Aborted, fsm.FeatureLevel: codes.FailedPrecondition, fsm.NotBootstrapped: codes.FailedPrecondition,
		fsm.RequestTooOld: codes.FailedPrecondition, fsm.RequestTooNew: codes.FailedPrecondition,
		fsm.RequestIDReused: codes.AlreadyExists, fsm.Malformed: codes.InvalidArgument, fsm.LimitReached: codes.ResourceExhausted,
		fsm.AlreadyBootstrapped: codes.AlreadyExists, fsm.UnknownNode: codes.NotFound, fsm.NodeLive: codes.AlreadyExists,
		fsm.NodeFenced: codes.FailedPrecondition, fsm.NodeExpired: codes.NotFound, fsm.StaleIncarnation: codes.Aborted,
		fsm.StaleExpire: codes.Aborted, fsm.UnknownChangefeed: codes.NotFound, fsm.ChangefeedExists: codes.AlreadyExists,
		fsm.ChangefeedPaused: codes.FailedPrecondition, fsm.ChangefeedNotPaused: codes.FailedPrecondition,
		fsm.ChangefeedRemoving: codes.FailedPrecondition, fsm.UnknownTable: codes.NotFound, fsm.TableExists: codes.AlreadyExists,
		fsm.UnknownDispatcher: codes.NotFound, fsm.EpochMismatch: codes.Aborted, fsm.OperatorExists: codes.AlreadyExists,
		fsm.AlreadyOwned: codes.AlreadyExists, fsm.NotOwner: codes.Aborted, fsm.SameNode: codes.FailedPrecondition,
		fsm.RangeRemoving: codes.FailedPrecondition, fsm.NoSuchOperator: codes.NotFound,
		fsm.OperatorFinished: codes.FailedPrecondition, fsm.NotCancellable: codes.FailedPrecondition,
		fsm.NodeDraining: codes.FailedPrecondition, fsm.NodeNotDraining: codes.FailedPrecondition,
		fsm.NotDrained: codes.FailedPrecondition, fsm.ChangefeedFailed: codes.FailedPrecondition,
		fsm.ChangefeedStopping: codes.FailedPrecondition, fsm.StartTooOld: codes.FailedPrecondition,
		fsm.StaleCheckpoint: codes.Aborted, fsm.CheckpointTooFar: codes.Aborted, fsm.NotRunning: codes.FailedPrecondition,
		fsm.SpansDoNotTile: codes.FailedPrecondition, fsm.NotAdjacent: codes.FailedPrecondition,
		fsm.OtherChangefeed: codes.FailedPrecondition, fsm.TriggerDispatcher: codes.FailedPrecondition,
		fsm.BarrierWriting: codes.FailedPrecondition, fsm.ItemRefused: codes.FailedPrecondition,
		fsm.UnknownBarrier: codes.NotFound, fsm.StalePermission: codes.Aborted, fsm.NotUndecided: codes.FailedPrecondition,
		fsm.BarrierPass: codes.Internal, fsm.BarrierRetry: codes.Internal, fsm.BarrierForget: codes.Internal,
		fsm.BarrierUnwritten: codes.Internal, fsm.EarlierEventOpen: codes.Internal, fsm.SpecMismatch: codes.Internal,
		fsm.SetMismatch: codes.Internal,
		// These never answer a command. If one does, that is a fault and no success.
		fsm.ReportCounted: codes.Internal, fsm.ReportInert: codes.Internal, fsm.ReportStale: codes.Aborted,
	}
	for _, reason := range fsm.Reasons() {
		if reason == fsm.Accepted {
			continue
		}
		bubble(t, reason.String(), func(t *testing.T) {
			require.Contains(t, want, reason, "a new reason needs its row")
			c := apitest.New(t, 1)
			cl, conn := c.Client(), weirv1.NewChangefeedsClient(c.Conn("s1"))
			verdict := fsm.Verdict{Reason: reason, Facts: fullFacts(), Index: 77, Replayed: true}
			c.Server("s1").SetHooks(apitest.Hooks{Verdict: func(fsm.Verdict) fsm.Verdict { return verdict }})
			_, err := conn.PauseChangefeed(within(t, 20*time.Second), &weirv1.PauseChangefeedRequest{Header: header("x"), Name: "feed"})
			st, info, _, _ := details(t, err)
			require.Equal(t, want[reason], st.Code())
			require.Equal(t, verdict.Sentence(), st.Message())
			require.Equal(t, reason.String(), info.GetReason())
			require.Equal(t, "weir", info.GetDomain())

			e := asError(t, pause(within(t, 200*time.Millisecond), cl))
			require.Equal(t, reason.String(), e.Reason)
			require.Equal(t, wantClass(reason), e.Class)
			requireFullFacts(t, reason, e.Facts)
		})
	}
}

func wantClass(r fsm.Reason) client.Class {
	switch r {
	case fsm.StaleTerm, fsm.NotBootstrapped:
		return client.NotProposed
	case fsm.Malformed:
		return client.Invalid
	case fsm.ReportCounted, fsm.ReportInert, fsm.BarrierPass, fsm.BarrierRetry, fsm.BarrierForget, fsm.BarrierUnwritten,
		fsm.EarlierEventOpen, fsm.SpecMismatch, fsm.SetMismatch:
		return client.Fault
	default:
		return client.Rejected
	}
}

func requireFullFacts(t *testing.T, reason fsm.Reason, facts map[string]string) {
	t.Helper()
	member := outcome.FactMember
	if reason == fsm.StaleTerm {
		member = outcome.FactLeader
	}
	for name, value := range map[string]string{
		outcome.FactOperator: "11", outcome.FactOperatorKind: "move", outcome.FactResult: "failed", outcome.FactDispatcher: "12",
		outcome.FactEpoch: "13", outcome.FactNode: "n", outcome.FactIncarnation: "14", outcome.FactLease: "15",
		outcome.FactChangefeed: "f", outcome.FactChangefeedID: "16", outcome.FactTable: "t", outcome.FactTableID: "-17",
		outcome.FactTerm: "18", member: "s9", outcome.FactLimit: "l", outcome.FactHave: "19", outcome.FactWant: "20",
		outcome.FactRun: "21", outcome.FactAt: "22/ddl", outcome.FactPermission: "23",
		outcome.FactDetail: "d", outcome.FactIndex: "77", outcome.FactReplayed: "true", outcome.FactServer: "s1",
	} {
		require.Equal(t, value, facts[name], "fact %s", name)
	}
}

func TestEveryErrorOfTheAPISurvivesTheWire(t *testing.T) {
	for _, row := range []struct {
		kind   server.Kind
		code   codes.Code
		reason string
		class  client.Class
		retry  bool
	}{
		{server.NotLeader, codes.FailedPrecondition, "NOT_LEADER", client.NotProposed, false},
		{server.NoLeader, codes.Unavailable, "NO_LEADER", client.NotProposed, true},
		{server.LeaderUnreachable, codes.Unavailable, "LEADER_UNREACHABLE", client.NotProposed, true},
		{server.Overloaded, codes.ResourceExhausted, "OVERLOADED", client.NotProposed, true},
		{server.Transferring, codes.Unavailable, "TRANSFERRING", client.NotProposed, true},
		{server.UnknownOutcome, codes.Unavailable, "OUTCOME_UNKNOWN", client.Unknown, false},
		{server.ShuttingDown, codes.Unavailable, "SHUTTING_DOWN", client.NotProposed, false},
		{server.Fenced, codes.Unavailable, "SERVER_FENCED", client.NotProposed, false},
		{server.NotReady, codes.Unavailable, "NOT_READY", client.NotProposed, true},
		{server.BadRequest, codes.InvalidArgument, "MALFORMED", client.Invalid, false},
		{server.TooLarge, codes.InvalidArgument, "COMMAND_TOO_LARGE", client.Invalid, false},
		{server.WrongCluster, codes.FailedPrecondition, "WRONG_CLUSTER", client.Rejected, false},
		{server.GenerationTooOld, codes.FailedPrecondition, "GENERATION_TOO_OLD", client.Rejected, false},
		{server.IndexNotReached, codes.Unavailable, "INDEX_NOT_REACHED", client.NotProposed, true},
		{server.HashNotKept, codes.NotFound, "HASH_NOT_KEPT", client.Rejected, false},
		{server.IndexTooOld, codes.OutOfRange, "INDEX_TOO_OLD", client.Rejected, false},
		{server.IndexNotYet, codes.OutOfRange, "INDEX_NOT_YET", client.Rejected, false},
		{server.UnknownRequest, codes.NotFound, "UNKNOWN_REQUEST", client.Rejected, false},
		{server.Deadline, codes.DeadlineExceeded, "DEADLINE", client.NotProposed, false},
		{server.Internal, codes.Internal, "INTERNAL", client.Fault, false},
	} {
		bubble(t, row.reason, func(t *testing.T) {
			c := apitest.New(t, 1)
			cl, conn := c.Client(), weirv1.NewChangefeedsClient(c.Conn("s1"))
			c.Server("s1").SetHooks(apitest.Hooks{Before: func(context.Context, []fsm.Proposal) error {
				own := &server.Error{Kind: row.kind, Leader: "s9", Address: "s9:1", Field: "f", Have: 3, Want: 4, Text: "what happened"}
				return errors.Join(errors.New("wrapped"), own)
			}})
			_, err := conn.PauseChangefeed(within(t, 20*time.Second), &weirv1.PauseChangefeedRequest{Header: header("x"), Name: "feed"})
			st, info, retry, bad := details(t, err)
			require.Equal(t, row.code, st.Code())
			require.Equal(t, "what happened", st.Message())
			require.Equal(t, row.reason, info.GetReason())
			require.Equal(t, row.retry, retry != nil)
			require.Equal(t, "f", bad.GetFieldViolations()[0].GetField())

			e := asError(t, pause(within(t, 200*time.Millisecond), cl))
			require.Equal(t, row.reason, e.Reason)
			require.Equal(t, row.class, e.Class)
			require.Equal(t, "s9", e.Facts["leader"])
			require.Equal(t, "s9:1", e.Facts["leader_address"])
			require.Equal(t, uint64(3), e.Number("have"))
			require.Equal(t, uint64(4), e.Number("want"))
			require.Equal(t, row.retry, e.RetryAfter() > 0)
			_, err = strconv.ParseUint(e.Facts["log_time_ms"], 10, 64)
			require.True(t, err == nil || e.Facts["log_time_ms"] == "", "an error tells the log time too")
		})
	}
	// Every kind there is has a row above: the next number is none.
	require.Contains(t, (&server.Error{Kind: server.Internal + 1}).Error(), "unknown kind")
}

func TestAnErrorThatNobodyClassifiedIsUnknownForAChangeAndAFaultForARead(t *testing.T) {
	c := apitest.New(t, 1)
	broken := errors.New("disk on fire")
	c.Server("s1").SetHooks(apitest.Hooks{
		Before: func(context.Context, []fsm.Proposal) error { return broken },
		Read:   func(context.Context) error { return broken },
	})
	_, err := weirv1.NewChangefeedsClient(c.Conn("s1")).PauseChangefeed(within(t, 20*time.Second),
		&weirv1.PauseChangefeedRequest{Header: header("x")})
	_, info, _, _ := details(t, err)
	require.Equal(t, "OUTCOME_UNKNOWN", info.GetReason())
	_, err = weirv1.NewNodesClient(c.Conn("s1")).ListNodes(within(t, 20*time.Second), &weirv1.ListNodesRequest{})
	st, info, _, _ := details(t, err)
	require.Equal(t, "INTERNAL", info.GetReason())
	require.NotContains(t, st.Message(), "disk", "the cause stays in the server's log")
}

func TestAReadIsNeverAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Server("s1").SetHooks(apitest.Hooks{Read: func(context.Context) error { return &server.Error{Kind: server.UnknownOutcome} }})
		_, err := c.Client().Nodes(within(t, time.Second), nil)
		e := asError(t, err)
		require.Equal(t, "DEADLINE", e.Reason)
		require.Equal(t, client.NotProposed, e.Class)
	})
}

func TestARefusedRegistrationSaysWhenTheNameIsFree(t *testing.T) {
	c := apitest.New(t, 1, func(config *server.Config) {
		config.TimeLeft = func(inc fsm.Incarnation) (time.Duration, bool) { return 1800 * time.Millisecond, inc == 7<<36+1 }
	})
	c.Log.Seed(t)
	_, err := weirv1.NewNodeSessionClient(c.Conn("s1")).Register(within(t, 20*time.Second), &weirv1.RegisterRequest{
		Header: header("x"), Node: "n1", LeaseMs: 2000, ClockClass: 1, Protocol: 1,
	})
	st, info, retry, _ := details(t, err)
	require.Equal(t, codes.AlreadyExists, st.Code())
	require.Equal(t, "NODE_LIVE", info.GetReason())
	require.Equal(t, "1800", info.GetMetadata()["retry_after_ms"])
	require.Equal(t, 1800*time.Millisecond, retry.GetRetryDelay().AsDuration())
	require.Contains(t, st.Message(), "1.8s")
}

func TestAConfigurationSaysWhatIsMissing(t *testing.T) {
	_, err := server.New(server.Config{})
	require.ErrorContains(t, err, "ID is not set")
	_, err = server.New(server.Config{ID: "s1"})
	require.ErrorContains(t, err, "Listener is not set")
}
