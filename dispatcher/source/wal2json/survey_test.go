package wal2json

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fsm"
)

// TestSurveyOfTheShopLog compares with the counts that the log was published with.
func TestSurveyOfTheShopLog(t *testing.T) {
	s, err := SurveyLog(t.Context(), "wal2json:"+shopLog)
	require.NoError(t, err)
	require.Equal(t, int64(8407), s.Transactions)
	var inserts, updates, deletes, truncates int64
	tables := make(map[string]TableSurvey)
	var names []string
	for _, table := range s.Tables {
		inserts, updates, deletes, truncates = inserts+table.Inserts, updates+table.Updates, deletes+table.Deletes, truncates+table.Truncates
		tables[table.Table.Name] = table
		names = append(names, table.Table.Name)
		require.False(t, table.First.Less(s.First))
		require.False(t, s.Last.Less(table.Last))
	}
	require.Equal(t, []int64{9889, 16947, 340, 1}, []int64{inserts, updates, deletes, truncates})
	require.Equal(t, []string{"lines", "order_items", "orders", "pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"}, names)
	items, accounts := tables["order_items"], tables["pgbench_accounts"]
	require.Equal(t, []KeyColumn{{"order_id", "bigint"}, {"line", "integer"}}, items.Key)
	require.Equal(t, []string{"integer"}, accounts.Types())
	require.Equal(t, fsm.Position{TS: 0x53C4B60, Stage: fsm.StageRows}, s.Last)
	require.Equal(t, fsm.Position{TS: 0x4EEE6C0, Stage: fsm.StageRows}, s.First)
}

func TestSurveyOfBadAndGrowingLogs(t *testing.T) {
	path := logFile(t, tx(1, insert(1, 1, "a"))+begin(2)+"\n")
	_, err := SurveyLog(t.Context(), "wal2json:"+path)
	require.Contains(t, stopOf(t, err).Text, "truncated")
	s, err := SurveyLog(t.Context(), "wal2json:"+path+"?follow=true")
	require.NoError(t, err)
	require.Equal(t, int64(1), s.Transactions)
	_, err = SurveyLog(t.Context(), path)
	require.Equal(t, ReasonInvalidSource, stopOf(t, err).Reason)
}

func TestSplitKeysOfTheShopLog(t *testing.T) {
	accounts := dispatcher.TableName{Name: "pgbench_accounts"}
	cuts, err := SplitKeys(t.Context(), "wal2json:"+shopLog, accounts, 4)
	require.NoError(t, err)
	spans := Spans(cuts)
	require.True(t, fsm.Tile(fsm.WholeTable(), spans))
	counts := make([]int, len(spans))
	total := 0
	err = eachLine(t.Context(), "wal2json:"+shopLog, func(_ *log, l *line) error {
		if l.isOf(accounts) {
			r, p := decodeRow(l)
			require.Nil(t, p)
			for i, span := range spans {
				if span.Contains(r.now.bytes) {
					counts[i]++
					total++
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	for i, n := range counts {
		require.InDelta(t, total/4, n, float64(total)/50, "span %d %s", i, keycode.Describe(spans[i].Start))
	}
}

func TestSplitOfATableThatIsTooSmall(t *testing.T) {
	uri := "wal2json:" + logFile(t, tx(1, insert(1, 1, "a"), insert(1, 2, "b"))+tx(2, update(2, 2, 3, "b"), remove(2, 1)))
	table := dispatcher.TableName{Schema: "public", Name: "t"}
	cuts, err := SplitKeys(t.Context(), uri, table, 3)
	require.NoError(t, err)
	require.Equal(t, []string{"(2)", "(3)"}, []string{keycode.Describe(cuts[0]), keycode.Describe(cuts[1])})
	again, err := SplitKeys(t.Context(), uri, table, 3)
	require.NoError(t, err)
	require.Equal(t, cuts, again, "the same log gives the same keys")
	_, err = SplitKeys(t.Context(), uri, table, 4)
	stop := stopOf(t, err)
	require.Equal(t, ReasonTooFewKeys, stop.Reason)
	require.Contains(t, stop.Text, "has 3 distinct keys in the log, too few for 4 spans")
	cuts, err = SplitKeys(t.Context(), uri, table, 1)
	require.NoError(t, err)
	require.Equal(t, []fsm.Span{fsm.WholeTable()}, Spans(cuts))
	for _, k := range []int{0, -1, MaxSplit + 1} {
		_, err = SplitKeys(t.Context(), uri, table, k)
		require.Equal(t, ReasonTooFewKeys, stopOf(t, err).Reason)
	}
	_, err = SplitKeys(t.Context(), uri, dispatcher.TableName{Name: "nowhere"}, 2)
	require.Equal(t, ReasonUnknownTable, stopOf(t, err).Reason)
	_, err = SplitKeys(t.Context(), "wal2json:"+logFile(t, tx(1, rowLine("I", 1, "t", id(1), "", ""))), table, 2)
	require.Equal(t, ReasonNoPrimaryKey, stopOf(t, err).Reason)
}

// TestSampleIsBoundedAndUniform: far more keys than the sample holds, in order, still give even spans.
func TestSampleIsBoundedAndUniform(t *testing.T) {
	const keys, most, k = 200_000, 4096, 8
	s := newSample(most)
	for i := range keys {
		s.add(fmt.Sprintf("%08d", i))
	}
	require.Len(t, s.held, most)
	require.Len(t, s.top, most)
	for i, cut := range s.quantiles(k) {
		var at int
		_, err := fmt.Sscanf(strings.TrimLeft(cut, "0"), "%d", &at)
		require.NoError(t, err)
		require.InDelta(t, (i+1)*keys/k, at, keys/k*0.2)
	}
}
