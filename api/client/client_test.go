package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/weirv1"
)

func add(dispatcher uint64, to string) *weirv1.OperatorSpec {
	return &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: dispatcher, To: to}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestAClientFindsTheLeaderThroughAnyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		a, err := c.Client("s2").AdmitOperator(within(t, time.Second), add(1, "n1"))
		require.NoError(t, err)
		require.NotZero(t, a.GetOpId())
	})
}
