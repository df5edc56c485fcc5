package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

func request(h *weirv1.RequestHeader, dispatcher uint64) *weirv1.AdmitOperatorRequest {
	return &weirv1.AdmitOperatorRequest{Header: h, Operator: add(dispatcher, "n1")}
}

// forget makes the state machine forget every request that it knows.
func forget(t *testing.T, c *apitest.Cluster) {
	t.Helper()
	c.Log.Pass(t, c.Log.View().Meta().Policy.KeepRequestsMS+5000)
	for range 20 {
		c.Log.Pass(t, 1000)
	}
}

// R24 (a): the verdict has been forgotten when a retry arrives, from the client or from something on the way. It is
// refused, not carried out a second time; and the caller is not told that the request was rejected.
func TestReview_R24_ALateRetryDoesNotTakeEffectAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Log.Seed(t)
		c.Log.Pass(t, 1000)
		cl := c.Client()
		h, err := cl.NewRequest(within(t, time.Second))
		require.NoError(t, err)
		first, err := cl.Admit(within(t, time.Second), request(h, 1))
		require.NoError(t, err)
		c.Log.MustApply(t, &fsm.CancelOperator{Op: fsm.OpID(first.GetOpId())})
		c.Log.Report(t, 1, fsm.ReportStopped)
		forget(t, c)

		before := c.Log.World()
		_, err = cl.Admit(within(t, time.Second), request(h, 1))
		e := asError(t, err)
		require.Equal(t, "REQUEST_TOO_OLD", e.Reason)
		require.Equal(t, h.GetRequestId(), e.RequestID)
		require.Equal(t, before, c.Log.World(), "the dispatcher is free again, and yet the old request does not take it")
	})
}

// R24 (a): a try whose outcome is unknown, and then the retry is too old: the first one may have been carried out.
func TestReview_R24_TooOldAfterAnUnknownOutcomeStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Log.Seed(t)
		c.Log.Pass(t, 1000)
		lost := true
		c.Server("s1").SetHooks(apitest.Hooks{After: func(context.Context, []fsm.Proposal) error {
			if lost {
				lost = false
				forget(t, c)
				return &server.Error{Kind: server.UnknownOutcome}
			}
			return nil
		}})
		_, err := c.Client().AdmitOperator(within(t, 5*time.Second), add(1, "n1"))
		e := asError(t, err)
		require.Equal(t, "REQUEST_TOO_OLD", e.Reason)
		require.Equal(t, client.Unknown, e.Class)
		require.Equal(t, 5, e.ExitCode())
		require.Equal(t, 1, c.Log.View().OperatorCount())
	})
}

// R24: a client that has been idle knows an old log time. Its new request was never sent before, so it is built anew.
func TestReview_R24_AnIdleClientBuildsItsRequestAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		c.Log.Pass(t, 1000)
		cl := c.Client()
		_, err := cl.AdmitOperator(within(t, time.Second), add(1, "n1"))
		require.NoError(t, err)
		forget(t, c)
		a, err := cl.AdmitOperator(within(t, time.Second), add(2, "n1"))
		require.NoError(t, err)
		require.NotZero(t, a.GetOpId())
		require.False(t, a.GetReplayed())

		// A header of the caller's own is never changed: there may have been tries before.
		old := &weirv1.RequestHeader{RequestId: "old", RequestTimeMs: 1}
		_, err = cl.Admit(within(t, time.Second), request(old, 3))
		require.Equal(t, "REQUEST_TOO_OLD", asError(t, err).Reason)
	})
}

// R24: after a restore the log's time may be behind what the client knows.
func TestReview_R24_AClientThatKnowsALaterTimeBuildsItsRequestAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := apitest.New(t, 1)
		old.Log.Pass(t, 60_000)
		c := apitest.New(t, 1)
		c.Log.Seed(t)
		now := old
		cl, err := client.New(client.Config{Addresses: []string{apitest.Address("s1")}, Dial: dialer(&now)})
		require.NoError(t, err)
		defer cl.Close()
		_, err = cl.Status(within(t, time.Second), false, nil)
		require.NoError(t, err)
		require.NoError(t, old.Stop("s1"))
		now = c
		_, err = cl.AdmitOperator(within(t, 10*time.Second), add(1, "n1"))
		require.NoError(t, err)
	})
}

// R24 (b): a refusal for a stale term is not recorded and burns no id: the same request is admitted by the next leader.
func TestReview_R24_StaleTermDoesNotBurnTheRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		stale := 3
		c.Server("s1").SetHooks(apitest.Hooks{Before: func(_ context.Context, p []fsm.Proposal) error {
			if stale--; stale >= 0 {
				return &server.RejectedError{Verdict: fsm.Verdict{
					Reason: fsm.StaleTerm, Facts: fsm.Facts{Term: 9, Server: "s2"}, Index: 4,
				}}
			}
			return nil
		}})
		cl := c.Client()
		h, err := cl.NewRequest(within(t, time.Second))
		require.NoError(t, err)
		a, err := cl.Admit(within(t, 10*time.Second), request(h, 1))
		require.NoError(t, err)
		require.False(t, a.GetReplayed())
		require.Equal(t, 1, c.Log.Times(fsm.RequestID(h.GetRequestId())))
	})
}

// R24 (b) against the state machine itself: the entry's term is not the one that has begun.
func TestReview_R24_StaleTermIsNotRemembered(t *testing.T) {
	s := fsm.New()
	entry := func(index, term, stamped uint64, command fsm.Command) fsm.Verdict {
		return s.Apply(fsm.Entry{Index: index, Term: term, Proposals: []fsm.Proposal{{Term: stamped, Request: "id", Command: command}}})[0]
	}
	require.True(t, s.Apply(fsm.Entry{Index: 1, Term: 1, Proposals: []fsm.Proposal{
		{Term: 1, Command: &fsm.BeginTerm{Server: "s1"}},
		{Term: 1, Command: &fsm.BeginGeneration{Generation: 1, Cluster: "c", Why: fsm.GenerationBootstrap}},
	}})[1].OK())
	command := &fsm.RegisterNode{Node: "n", LeaseMS: 2000, ClockClass: 1, Protocol: 1}
	require.Equal(t, fsm.StaleTerm, entry(2, 2, 1, command).Reason)
	v := entry(3, 1, 1, command)
	require.True(t, v.OK(), "the id was not burnt: %s", v.Sentence())
	require.True(t, entry(4, 1, 1, command).Replayed)
}

// R24 (c): the same id with another body.
func TestReview_R24_AnIDThatIsUsedForTwoThingsIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		cl := c.Client("s2")
		h, err := cl.NewRequest(within(t, time.Second))
		require.NoError(t, err)
		_, err = cl.Admit(within(t, time.Second), request(h, 1))
		require.NoError(t, err)
		_, err = cl.Admit(within(t, time.Second), request(h, 2))
		e := asError(t, err)
		require.Equal(t, "REQUEST_ID_REUSED", e.Reason)
		require.Equal(t, client.Rejected, e.Class)
		require.Equal(t, 1, c.Log.View().OperatorCount())
	})
}

// Promise 4: an outcome that is unknown is asked for again under the same id, also at another leader, and the first
// verdict comes back, accepted or refused.
func TestReview_R24_TheSameIDBringsTheFirstVerdictAfterAFailover(t *testing.T) {
	for name, spec := range map[string]*weirv1.OperatorSpec{"accepted": add(1, "n1"), "refused": add(1, "nowhere")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.New(t, 3)
				c.Log.Seed(t)
				c.Server("s1").SetHooks(apitest.Hooks{After: func(context.Context, []fsm.Proposal) error {
					c.Lead("s3")
					return &server.Error{Kind: server.UnknownOutcome}
				}})
				cl := c.Client()
				h, err := cl.NewRequest(within(t, time.Second))
				require.NoError(t, err)
				a, err := cl.Admit(within(t, 5*time.Second), &weirv1.AdmitOperatorRequest{Header: h, Operator: spec})
				if name == "accepted" {
					require.NoError(t, err)
					require.True(t, a.GetReplayed())
				} else {
					e := asError(t, err)
					require.Equal(t, "UNKNOWN_NODE", e.Reason)
					require.Equal(t, client.Rejected, e.Class, "a verdict on the id decides the earlier tries too")
					require.Equal(t, "true", e.Facts["replayed"])
				}
				require.Equal(t, 2, c.Log.Times(fsm.RequestID(h.GetRequestId())), "once for real, once replayed")
			})
		})
	}
}

func TestReview_R24_AnOutcomeThatNobodyCanTellIsReportedAsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		c.Server("s1").SetHooks(apitest.Hooks{After: func(context.Context, []fsm.Proposal) error {
			c.NoLeader()
			return &server.Error{Kind: server.UnknownOutcome}
		}})
		_, err := c.Client().AdmitOperator(within(t, 3*time.Second), add(1, "n1"))
		e := asError(t, err)
		require.Equal(t, client.Unknown, e.Class, "later answers of servers without a leader do not make it not proposed")
		require.Equal(t, "OUTCOME_UNKNOWN", e.Reason)
		require.NotEmpty(t, e.RequestID)
		require.Contains(t, e.Message, e.RequestID)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// What is refused before the request id is looked up says nothing about an earlier try.
func TestReview_R24_ARefusalThatDoesNotKnowTheIDLeavesAnUnknownOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		calls := 0
		c.Server("s1").SetHooks(apitest.Hooks{Before: func(context.Context, []fsm.Proposal) error {
			if calls++; calls == 1 {
				return &server.Error{Kind: server.UnknownOutcome}
			}
			return &server.Error{Kind: server.TooLarge}
		}})
		_, err := c.Client().AdmitOperator(within(t, 3*time.Second), add(1, "n1"))
		require.Equal(t, client.Unknown, asError(t, err).Class)
	})
}
