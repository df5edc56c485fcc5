package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

func TestAWaitEndsWithTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		op := c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Facts.Operator
		go func() {
			time.Sleep(5 * time.Second) // longer than one server is asked to wait
			c.Log.Report(t, 1, fsm.ReportRunning)
		}()
		start := time.Now()
		ended, err := c.Client("s2").WaitOperator(within(t, time.Minute), uint64(op))
		require.NoError(t, err)
		require.Equal(t, weirv1.OperatorResult_OPERATOR_RESULT_DONE, ended.GetResult())
		require.InDelta(t, 5, time.Since(start).Seconds(), 0.1)
	})
}

func TestAWaitThatIsOverShowsWhatTheOperatorWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 1)
		c.Log.Seed(t)
		op := c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Facts.Operator
		start := time.Now()
		resp, err := weirv1.NewOperatorsClient(c.Conn("s1")).WaitOperator(within(t, time.Second), &weirv1.WaitOperatorRequest{OpId: uint64(op)})
		require.NoError(t, err, "the server answers before the deadline")
		require.False(t, resp.GetEnded())
		require.Contains(t, resp.GetOperator().GetWaitsFor(), "node n1 to start dispatcher 1")
		require.InDelta(t, 0.9, time.Since(start).Seconds(), 0.05)

		seen, err := c.Client().WaitOperator(within(t, 3*time.Second), uint64(op))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, uint64(op), seen.GetId())
		require.Equal(t, client.NotProposed, asError(t, err).Class)

		_, err = c.Client().WaitOperator(within(t, time.Second), 12345)
		require.Equal(t, "NO_SUCH_OPERATOR", asError(t, err).Reason)
	})
}

func TestAWaitAtAServerThatLosesContactGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 2)
		c.Log.Seed(t)
		op := c.Log.MustApply(t, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Facts.Operator
		go func() {
			time.Sleep(500 * time.Millisecond)
			c.Server("s1").SetContact(false)
			c.Server("s1").Freeze()
			c.Lead("s2")
			time.Sleep(500 * time.Millisecond)
			c.Log.Report(t, 1, fsm.ReportRunning)
		}()
		start := time.Now()
		ended, err := c.Client().WaitOperator(within(t, time.Minute), uint64(op))
		require.NoError(t, err)
		require.NotZero(t, ended.GetResult())
		require.InDelta(t, 1, time.Since(start).Seconds(), 0.2)
	})
}
