package history_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/jepsen/history"
)

func TestHistoryReadsBackWhatWasRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	r, err := history.NewRecorder(path)
	require.NoError(t, err)
	first := r.Begin(history.Operation{Client: "c1", Request: "r1", Spec: history.Spec{Kind: history.Add, Dispatcher: 7, To: "n1"}})
	second := r.Begin(history.Operation{Client: "c2", Request: "r2", Spec: history.Spec{Kind: history.Cancel, Operator: 9}})
	require.Len(t, r.InFlight(), 2)
	r.Try(first, "s1")
	r.End(first, history.Answer{
		Outcome: history.Rejected, Reason: "OPERATOR_EXISTS", Index: 12, Operator: 9, Facts: map[string]string{"operator": "9"},
	})
	r.Linger(second)
	done, err := r.Close()
	require.NoError(t, err)
	require.Len(t, done, 2)

	read, err := history.Read(path)
	require.NoError(t, err)
	require.Equal(t, done, read)
	require.LessOrEqual(t, read[0].Call, read[0].Return)
	require.Equal(t, history.Unknown, read[1].Answer.Outcome, "an operation that never ended is unknown, not refused")
}

func TestOutcomesOfUnknownWordsAreRefused(t *testing.T) {
	var o history.Outcome
	require.Error(t, o.UnmarshalJSON([]byte(`"fine"`)))
	require.Error(t, o.UnmarshalJSON([]byte(`""`)))
	require.NoError(t, o.UnmarshalJSON([]byte(`"unknown"`)))
	require.Equal(t, history.Unknown, o)
	require.False(t, o.Acknowledged())
	require.Equal(t, "unset", history.Outcome(0).String())
}

func TestSameVerdictIgnoresWhoToldIt(t *testing.T) {
	a := history.Answer{Outcome: history.OK, Index: 3, Operator: 4, Server: "s1"}
	b := history.Answer{Outcome: history.OK, Index: 3, Operator: 4, Server: "s2", Replayed: true}
	require.True(t, a.SameVerdict(&b))
	b.Operator = 5
	require.False(t, a.SameVerdict(&b))
}
