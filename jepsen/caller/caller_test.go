package caller_test

import (
	"context"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// operators answers one admission after the other from a list; the last answer stays.
type operators struct {
	weirv1.UnimplementedOperatorsServer
	mu      sync.Mutex
	answers []func() (*weirv1.AdmitOperatorResponse, error)
	asked   []*weirv1.AdmitOperatorRequest
}

func (o *operators) AdmitOperator(_ context.Context, req *weirv1.AdmitOperatorRequest) (*weirv1.AdmitOperatorResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, req)
	answer := o.answers[0]
	if len(o.answers) > 1 {
		o.answers = o.answers[1:]
	}
	return answer()
}

func admitted() (*weirv1.AdmitOperatorResponse, error) {
	return &weirv1.AdmitOperatorResponse{
		Header: &weirv1.ResponseHeader{Index: 9, LogTimeMs: 77, Server: "s1"}, Admission: &weirv1.Admission{OpId: 5, Dispatcher: 1, Epoch: 6, Index: 8},
	}, nil
}

func refusal(class, reason string, more ...string) func() (*weirv1.AdmitOperatorResponse, error) {
	facts := map[string]string{"class": class, "server": "s1"}
	for i := 0; i < len(more); i += 2 {
		facts[more[i]] = more[i+1]
	}
	return func() (*weirv1.AdmitOperatorResponse, error) {
		st, err := status.New(codes.Unavailable, "sentence").WithDetails(&errdetails.ErrorInfo{Domain: "weir", Reason: reason, Metadata: facts})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
}

func broken() (*weirv1.AdmitOperatorResponse, error) {
	return nil, status.Error(codes.Unavailable, "connection reset")
}

// do asks a server that gives these answers, and returns what was recorded.
func do(t *testing.T, answers ...func() (*weirv1.AdmitOperatorResponse, error)) (*history.Operation, *operators) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	fake := &operators{answers: answers}
	server := grpc.NewServer()
	weirv1.RegisterOperatorsServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	return ask(t, listener.Addr().String()), fake
}

func ask(t *testing.T, address string) *history.Operation {
	t.Helper()
	links, err := caller.Dial([]caller.Server{{ID: "s1", Address: address}})
	require.NoError(t, err)
	defer func() { require.NoError(t, links.Close()) }()
	recorder, err := history.NewRecorder(filepath.Join(t.TempDir(), "h.jsonl"))
	require.NoError(t, err)
	c := &caller.Caller{
		Name: "c", Links: links, Pinned: 0, Recorder: recorder, Rand: rand.New(rand.NewPCG(1, 2)), Try: 300 * time.Millisecond,
		Total: 600 * time.Millisecond,
	}
	c.Do(t.Context(), caller.Request{ID: "r", TimeMS: 3}, history.Spec{Kind: history.Add, Dispatcher: 1, To: "n1"})
	ops, err := recorder.Close()
	require.NoError(t, err)
	require.Len(t, ops, 1)
	return ops[0]
}

func TestAnAdmissionIsOK(t *testing.T) {
	op, fake := do(t, admitted)
	require.Equal(t, history.Answer{Outcome: history.OK, Index: 8, Operator: 5, Dispatcher: 1, Epoch: 6, Server: "s1"}, op.Answer)
	require.Equal(t, "r", fake.asked[0].GetHeader().GetRequestId())
	require.Equal(t, uint64(3), fake.asked[0].GetHeader().GetRequestTimeMs())
}

func TestARefusalKeepsTheFactsOfItsVerdict(t *testing.T) {
	op, _ := do(t, refusal("rejected", "OPERATOR_EXISTS", "index", "12", "operator", "5", "log_time_ms", "99"))
	require.Equal(t, history.Rejected, op.Answer.Outcome)
	require.Equal(t, uint64(12), op.Answer.Index)
	require.Equal(t, map[string]string{"operator": "5"}, op.Answer.Facts)
}

func TestTriesCarryTheSameRequest(t *testing.T) {
	op, fake := do(t, refusal("not_proposed", "NO_LEADER"), broken, admitted)
	require.Equal(t, history.OK, op.Answer.Outcome)
	require.True(t, op.MayLinger)
	require.Len(t, op.Tries, 3)
	for _, req := range fake.asked {
		require.Equal(t, "r", req.GetHeader().GetRequestId())
	}
}

func TestNothingUnknownIsCalledRefused(t *testing.T) {
	op, _ := do(t, broken)
	require.Equal(t, history.Unknown, op.Answer.Outcome)
	op, _ = do(t, broken, refusal("not_proposed", "NO_LEADER"))
	require.Equal(t, history.Unknown, op.Answer.Outcome, "a later try that was not proposed says nothing of the earlier one")
	op, _ = do(t, broken, refusal("rejected", "REQUEST_TOO_OLD"))
	require.Equal(t, history.Unknown, op.Answer.Outcome, "the earlier try's answer may be what was forgotten")
	op, _ = do(t, refusal("a class of later days", "NEW"))
	require.Equal(t, history.Unknown, op.Answer.Outcome)
	op, _ = do(t, refusal("fault", "INTERNAL"))
	require.Equal(t, history.Unknown, op.Answer.Outcome)
	op, _ = do(t, refusal("not_proposed", "NO_LEADER"))
	require.Equal(t, history.NotProposed, op.Answer.Outcome)
}

func TestAServerThatCannotBeReachedProposesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	op := ask(t, listener.Addr().String())
	require.Equal(t, history.NotProposed, op.Answer.Outcome)
	require.False(t, op.MayLinger)
}

func TestTheShippedClientIsTakenAtItsWord(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	fake := &operators{answers: []func() (*weirv1.AdmitOperatorResponse, error){
		refusal("rejected", "OPERATOR_EXISTS", "index", "12", "operator", "5"), broken,
	}}
	server := grpc.NewServer()
	weirv1.RegisterOperatorsServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	own, err := client.New(client.Config{Addresses: []string{listener.Addr().String()}, Try: 200 * time.Millisecond})
	require.NoError(t, err)
	defer own.Close()
	recorder, err := history.NewRecorder(filepath.Join(t.TempDir(), "h.jsonl"))
	require.NoError(t, err)
	s := &caller.Shipped{Name: "own", Client: own, Recorder: recorder, Total: 500 * time.Millisecond}
	for _, id := range []string{"a", "b"} {
		s.Do(t.Context(), caller.Request{ID: id, TimeMS: 3}, history.Spec{Kind: history.Add, Dispatcher: 1, To: "n1"})
	}
	ops, err := recorder.Close()
	require.NoError(t, err)
	require.Equal(t, history.Rejected, ops[0].Answer.Outcome)
	require.Equal(t, uint64(5), ops[0].Answer.Operator)
	require.Equal(t, history.Unknown, ops[1].Answer.Outcome)
}

// batches answers every item of a batch, after one broken call.
type batches struct {
	weirv1.UnimplementedOperatorsServer
	calls int
}

func (b *batches) AdmitBatch(context.Context, *weirv1.AdmitBatchRequest) (*weirv1.AdmitBatchResponse, error) {
	b.calls++
	if b.calls == 1 {
		return nil, status.Error(codes.Unavailable, "connection reset")
	}
	return &weirv1.AdmitBatchResponse{Header: &weirv1.ResponseHeader{Index: 9, Server: "s1"}, Verdicts: []*weirv1.AdmitVerdict{
		{Verdict: &weirv1.AdmitVerdict_Admission{Admission: &weirv1.Admission{OpId: 5, Dispatcher: 1, Epoch: 6, Index: 8}}},
		{Verdict: &weirv1.AdmitVerdict_Refusal{Refusal: &weirv1.Refusal{
			Reason: "OPERATOR_EXISTS", Facts: map[string]string{"class": "rejected", "index": "8", "operator": "5"},
		}}},
	}}, nil
}

func TestEachItemOfABatchIsAnOperation(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	weirv1.RegisterOperatorsServer(server, &batches{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	links, err := caller.Dial([]caller.Server{{ID: "s1", Address: listener.Addr().String()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, links.Close()) }()
	recorder, err := history.NewRecorder(filepath.Join(t.TempDir(), "h.jsonl"))
	require.NoError(t, err)
	c := &caller.Caller{Name: "c", Links: links, Pinned: 0, Recorder: recorder, Try: time.Second, Total: 5 * time.Second}
	ops := c.DoBatch(t.Context(), caller.Request{ID: "r", TimeMS: 3}, []history.Spec{{Kind: history.Add, Dispatcher: 1, To: "n1"}, {Kind: history.Move, Dispatcher: 1, To: "n2"}})
	require.Len(t, ops, 2)
	require.Equal(t, "r#1", ops[1].Request)
	require.Equal(t, history.OK, ops[0].Answer.Outcome)
	require.Equal(t, history.Rejected, ops[1].Answer.Outcome)
	require.Equal(t, uint64(5), ops[1].Answer.Operator)
	require.True(t, ops[0].MayLinger && ops[1].MayLinger)
	_, err = recorder.Close()
	require.NoError(t, err)
}
