package wal2json

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fsm"
)

func TestTransactionsOfOneTableInOrder(t *testing.T) {
	content := tx(1, insert(1, 1, "a"), other(1)) + tx(2, other(2)) + tx(3, update(3, 1, 1, "b"), insert(3, 2, "c")) + tx(4, remove(4, 1)) + tx(5, other(5))
	want := []string{
		"1/rows; upsert(1) id:number=1 v:text=a",
		"3/rows; upsert(1) id:number=1 v:text=b; upsert(2) id:number=2 v:text=c",
		"4/rows; delete(1)",
		"5/rows",
	}
	for _, path := range []string{logFile(t, content), zipped(t, content)} {
		got, err := drain(t, open(t, spec(path)))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestCommitTimeIsKept(t *testing.T) {
	r := open(t, spec(logFile(t, tx(1, insert(1, 1, "a")))))
	got, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1796130616392), got.CommitTimeMS)
	for stamp, want := range map[string]int64{"2026-12-01 18:40:16.39+05:30": 1796130616390, "2026-12-01 13:10:16+00": 1796130616000, "yesterday": 0, "": 0} {
		require.Equal(t, want, (&line{Timestamp: stamp}).commitTimeMS(), stamp)
	}
}

func TestStartIsExclusive(t *testing.T) {
	content := tx(1, insert(1, 1, "a")) + tx(2, insert(2, 2, "b")) + tx(3, other(3))
	for _, c := range []struct {
		start fsm.Position
		want  int
	}{
		{fsm.Position{}, 3},
		{fsm.Position{TS: 1}, 3}, // nothing at 1 has happened yet
		{rows(1), 2},
		{fsm.At(1), 2},
		{rows(2), 1}, // only the news that the end was reached
		{rows(3), 0},
		{rows(99), 0},
	} {
		s := spec(logFile(t, content))
		s.Start = c.start
		got, err := drain(t, open(t, s))
		require.NoError(t, err)
		require.Len(t, got, c.want, "start %s", c.start)
	}
}

func TestSpanAndKeyChange(t *testing.T) {
	content := tx(1, insert(1, 5, "low"), insert(1, 50, "high")) + tx(2, update(2, 5, 60, "moved")) + tx(3, update(3, 60, 61, "near"))
	cut, err := keycode.Parse("10", []string{"bigint"})
	require.NoError(t, err)
	low, high := spec(logFile(t, content)), spec(logFile(t, content))
	low.Span, high.Span = fsm.Span{End: cut}, fsm.Span{Start: cut}
	got, err := drain(t, open(t, low))
	require.NoError(t, err)
	require.Equal(t, []string{"1/rows; upsert(5) id:number=5 v:text=low", "2/rows; delete(5)", "3/rows"}, got)
	got, err = drain(t, open(t, high))
	require.NoError(t, err)
	require.Equal(t, []string{
		"1/rows; upsert(50) id:number=50 v:text=high",
		"2/rows; upsert(60) id:number=60 v:text=moved",
		"3/rows; delete(60); upsert(61) id:number=61 v:text=near",
	}, got)
}

func TestKeyThatChangesItsTextOnlyIsDeletedAndWrittenAnew(t *testing.T) {
	pk := `[{"name":"k","type":"numeric"}]`
	content := tx(1, rowLine("I", 1, "t", col("k", "numeric", "1.0"), "", pk)) +
		tx(2, rowLine("U", 2, "t", col("k", "numeric", "1.00"), col("k", "numeric", "1.0"), pk))
	got, err := drain(t, open(t, spec(logFile(t, content))))
	require.NoError(t, err)
	require.Equal(t, "2/rows; delete(1); upsert(1) k:number=1.00", got[1])
}

func TestUpdateLeavesMissingColumnsAlone(t *testing.T) {
	content := tx(1, rowLine("U", 1, "t", col("v", "text", `"x"`), id(7), pkID))
	got, err := drain(t, open(t, spec(logFile(t, content))))
	require.NoError(t, err)
	require.Equal(t, []string{"1/rows; upsert(7) v:text=x id:number=7"}, got)
}

func TestKeyChangeNeedsTheWholeRow(t *testing.T) {
	full := id(1) + "," + col("big", "text", `"toast"`) + "," + col("v", "text", `"a"`)
	insertBig := rowLine("I", 1, "t", full, "", pkID)
	partial := rowLine("U", 3, "t", id(2)+","+col("v", "text", `"b"`), id(1), pkID)
	whole := rowLine("U", 3, "t", id(2)+","+col("big", "text", `"t2"`)+","+col("v", "text", `"b"`), id(1), pkID)
	replica := rowLine("U", 3, "t", id(2)+","+col("v", "text", `"b"`), full, pkID)

	t.Run("identity full supplies it", func(t *testing.T) {
		got, err := drain(t, open(t, spec(logFile(t, tx(3, replica)))))
		require.NoError(t, err)
		require.Equal(t, []string{"3/rows; delete(1); upsert(2) id:number=2 v:text=b big:text=toast"}, got)
	})
	t.Run("the insert says what is whole", func(t *testing.T) {
		got, err := drain(t, open(t, spec(logFile(t, tx(1, insertBig)+tx(3, whole)))))
		require.NoError(t, err)
		require.Len(t, got, 2)
		_, err = drain(t, open(t, spec(logFile(t, tx(1, insertBig)+tx(3, partial)))))
		stop := stopOf(t, err)
		require.Equal(t, ReasonKeyChange, stop.Reason)
		require.Contains(t, stop.Text, "does not carry big")
		require.Contains(t, stop.Text, "REPLICA IDENTITY FULL")
	})
	t.Run("a restart behind the insert judges alike", func(t *testing.T) {
		s := spec(logFile(t, tx(1, insertBig)+tx(2, other(2))+tx(3, partial)))
		s.Start = rows(1)
		_, err := drain(t, open(t, s))
		require.Contains(t, stopOf(t, err).Text, "does not carry big")
		s = spec(logFile(t, tx(1, insertBig)+tx(2, other(2))+tx(3, whole)))
		s.Start = rows(2)
		got, err := drain(t, open(t, s))
		require.NoError(t, err)
		require.Len(t, got, 1)
	})
	t.Run("without an insert nobody knows", func(t *testing.T) {
		_, err := drain(t, open(t, spec(logFile(t, tx(3, whole)))))
		require.Equal(t, ReasonKeyChange, stopOf(t, err).Reason)
	})
	t.Run("both spans stop, others do not", func(t *testing.T) {
		content := tx(1, insertBig) + tx(3, partial)
		two, err := keycode.Parse("2", []string{"bigint"})
		require.NoError(t, err)
		three, err := keycode.Parse("3", []string{"bigint"})
		require.NoError(t, err)
		for _, span := range []fsm.Span{{End: two}, {Start: two, End: three}} {
			s := spec(logFile(t, content))
			s.Span = span
			_, err := drain(t, open(t, s))
			require.Equal(t, ReasonKeyChange, stopOf(t, err).Reason)
		}
		s := spec(logFile(t, content))
		s.Span = fsm.Span{Start: three}
		_, err = drain(t, open(t, s))
		require.NoError(t, err)
	})
}

func TestValuesArriveWithoutLoss(t *testing.T) {
	for _, c := range []struct {
		declared, raw string
		want          dispatcher.Value
	}{
		{"bigint", "9007199254740993", dispatcher.Value{Kind: dispatcher.KindNumber, Text: "9007199254740993"}},
		{"bigint", "-9223372036854775808", dispatcher.Value{Kind: dispatcher.KindNumber, Text: "-9223372036854775808"}},
		{"numeric(12,2)", "6.00", dispatcher.Value{Kind: dispatcher.KindNumber, Text: "6.00"}},
		{"numeric", "123456789012345678901234567890.10", dispatcher.Value{Kind: dispatcher.KindNumber, Text: "123456789012345678901234567890.10"}},
		{"numeric", `"6.00"`, dispatcher.Value{Kind: dispatcher.KindNumber, Text: "6.00"}},
		{"double precision", "1e-300", dispatcher.Value{Kind: dispatcher.KindNumber, Text: "1e-300"}},
		{"text", `"a\"\\\n\u00e9\ud83d\ude00"`, dispatcher.Value{Kind: dispatcher.KindText, Text: "a\"\\\né😀"}},
		{"text", `"\ufffd"`, dispatcher.Value{Kind: dispatcher.KindText, Text: "\uFFFD"}},
		{"text", `""`, dispatcher.Value{Kind: dispatcher.KindText}},
		{"text", "null", dispatcher.Value{Kind: dispatcher.KindNull}},
		{"boolean", "true", dispatcher.Value{Kind: dispatcher.KindBool, Text: "true"}},
		{"boolean", `"f"`, dispatcher.Value{Kind: dispatcher.KindBool, Text: "false"}},
		{"bytea", `"\\xcafe00"`, dispatcher.Value{Kind: dispatcher.KindBytes, Text: "\xca\xfe\x00"}},
		{"bytea", `"cafe00"`, dispatcher.Value{Kind: dispatcher.KindBytes, Text: "\xca\xfe\x00"}},
		{"timestamp with time zone", `"2026-12-01 13:10:18.349895+00"`, dispatcher.Value{Kind: dispatcher.KindText, Text: "2026-12-01 13:10:18.349895+00"}},
		{"integer[]", `"{1,2}"`, dispatcher.Value{Kind: dispatcher.KindText, Text: "{1,2}"}},
		{"jsonb", `"{\"a\": 1.0}"`, dispatcher.Value{Kind: dispatcher.KindText, Text: `{"a": 1.0}`}},
	} {
		got, err := decodeValue(c.declared, []byte(c.raw))
		require.NoError(t, err, c.raw)
		require.Equal(t, c.want, got, c.raw)
	}
}

func TestEveryIntegerArrivesExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := strconv.FormatInt(rapid.Int64().Draw(t, "v"), 10)
		cols, err := decodeColumns([]byte("[" + col("id", "bigint", v) + "]"))
		require.NoError(t, err)
		require.Equal(t, v, cols[0].Value.Text)
	})
}

func TestProgressOverSilentSpans(t *testing.T) {
	var b strings.Builder
	for n := 1; n <= 2500; n++ {
		b.WriteString(tx(n, other(n)))
	}
	got, err := drain(t, open(t, spec(logFile(t, b.String()))))
	require.NoError(t, err)
	require.Equal(t, []string{"1000/rows", "2000/rows", "2500/rows"}, got)
}

func TestCancelledContextEndsNextAndLosesNothing(t *testing.T) {
	r := open(t, spec(logFile(t, tx(1, insert(1, 1, "a")))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	got, err := drain(t, r)
	require.NoError(t, err)
	require.Len(t, got, 1)
}

// TestResumeAtEveryPosition reads a log of several megabytes from every kind of place; what a reader delivers depends on
// the start alone, and a plain file is not read from its beginning.
func TestResumeAtEveryPosition(t *testing.T) {
	const last = 6000
	var b strings.Builder
	offsets := make([]int64, last+1)
	for n := 1; n <= last; n++ {
		offsets[n] = int64(b.Len())
		b.WriteString(tx(n, insert(n, n, strings.Repeat("x", n%700)), other(n)))
	}
	path := logFile(t, b.String())
	require.Greater(t, b.Len(), 10*seekWindow/2)
	for _, ts := range []uint64{0, 1, 2, 57, 1500, 2999, 3000, 3001, 4711, last - 1, last} {
		s := spec(path)
		s.Start = rows(ts)
		r := open(t, s)
		at := r.(*reader).log.offset
		require.LessOrEqual(t, at, offsets[min(ts+1, last)], "nothing is jumped over")
		require.Less(t, offsets[min(ts+1, last)]-at, int64(seekWindow), "little is read twice")
		if ts == last {
			continue
		}
		got, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, rows(ts+1), got.Position)
		require.Equal(t, strconv.FormatUint(ts+1, 10), got.Changes[0].PK[0].Value.Text)
	}
}

func TestLineNumbersAreRightAfterAResume(t *testing.T) {
	var b strings.Builder
	for n := 1; n <= 5000; n++ {
		b.WriteString(tx(n, insert(n, n, strings.Repeat("x", 200))))
	}
	lines, size := strings.Count(b.String(), "\n"), b.Len()
	s := spec(logFile(t, b.String()+begin(5001)+"\n{broken\n"))
	s.Start = rows(4999)
	r := open(t, s)
	require.Positive(t, r.(*reader).log.offset)
	got, err := drain(t, r)
	require.Len(t, got, 1)
	stop := stopOf(t, err)
	require.Contains(t, stop.Text, fmt.Sprintf("line %d (byte offset %d), last good position 5000/rows", lines+2, size+len(begin(5001))+1))
}

func TestMissingFileIsNoStop(t *testing.T) {
	source, err := New(Config{})
	require.NoError(t, err)
	_, err = source.Open(t.Context(), spec("/does/not/exist"))
	require.ErrorIs(t, err, os.ErrNotExist)
	var stop *dispatcher.StopError
	require.NotErrorAs(t, err, &stop)
}
