package dev

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/fsm"
)

func database(t *testing.T, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "replica.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
	return db
}

func TestCompare(t *testing.T) {
	const create = `CREATE TABLE orders (id INTEGER NOT NULL, amount DECIMAL_TEXT, note TEXT, filler TEXT, PRIMARY KEY (id))`
	const upstream = "id,amount,note\n1,6.00,\n2,-3.10,\"a,b\"\n"
	for _, c := range []struct {
		name                      string
		insert                    []string
		missing, extra, different int
		says                      []string
	}{
		{
			name:   "columns that are left out do not matter, and NULL is an empty field",
			insert: []string{`INSERT INTO orders VALUES (1, '6.00', NULL, 'x'), (2, '-3.10', 'a,b', NULL)`},
		},
		{
			name:    "a missing row",
			insert:  []string{`INSERT INTO orders VALUES (1, '6.00', '', '')`},
			missing: 1, says: []string{"row 2 is missing in the replica"},
		},
		{
			name:   "an extra row",
			insert: []string{`INSERT INTO orders VALUES (1, '6.00', '', ''), (2, '-3.10', 'a,b', ''), (9, '1', '', '')`},
			extra:  1, says: []string{"row 9 is in the replica only"},
		},
		{
			name:      "numbers are compared as text: 6.0 is not 6.00",
			insert:    []string{`INSERT INTO orders VALUES (1, '6.0', '', ''), (2, '-3.10', 'a,b', '')`},
			different: 1, says: []string{"row 1 is 1,6.0,, should be 1,6.00,"},
		},
		{
			name:    "another key is one missing and one extra row",
			insert:  []string{`INSERT INTO orders VALUES (3, '6.00', '', ''), (2, '-3.10', 'a,b', '')`},
			missing: 1, extra: 1, says: []string{"row 3 is in the replica only", "row 1 is missing in the replica"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compare(t.Context(), database(t, append([]string{create}, c.insert...)...), "orders", []byte(upstream))
			require.NoError(t, err)
			require.Equal(t, Comparison{Table: "orders", Rows: 2, Missing: c.missing, Extra: c.extra, Different: c.different, Examples: c.says}, got)
			require.Equal(t, c.missing+c.extra+c.different == 0, got.Equal())
		})
	}
}

func TestCompareWithoutTable(t *testing.T) {
	got, err := compare(t.Context(), database(t), "orders", []byte("id\n1\n2\n"))
	require.NoError(t, err)
	require.Equal(t, 2, got.Missing)
	require.False(t, got.Equal())
}

func TestCompareFewExamples(t *testing.T) {
	got, err := compare(t.Context(), database(t, `CREATE TABLE t (id INTEGER PRIMARY KEY)`), "t", []byte("id\n1\n2\n3\n4\n5\n6\n7\n"))
	require.NoError(t, err)
	require.Equal(t, 7, got.Missing)
	require.Len(t, got.Examples, maxExamples)
}

func TestCompareBadUpstream(t *testing.T) {
	db := database(t, `CREATE TABLE t (id INTEGER PRIMARY KEY, other INTEGER)`)
	for _, csv := range []string{"", "id\n1,2\n", "other\n1\n", "id,nosuch\n1,2\n"} {
		_, err := compare(t.Context(), db, "t", []byte(csv))
		require.Error(t, err, csv)
	}
}

func entry(epoch uint64, session string, boot int64) write {
	return write{table: "t", start: "a", epoch: epoch, session: session, boot: boot, rows: 2}
}

// TestEvidence: the gap is from the last write of the old epoch to the first of the next, whatever stands between them,
// and an old owner that writes late shows as a gap that is not above zero.
func TestEvidence(t *testing.T) {
	other := write{table: "t", end: "a", epoch: 9, session: "n9/1", boot: 5, rows: 1}
	for _, c := range []struct {
		name      string
		writes    []write
		handovers int
		gap       int64
		backwards int
	}{
		{"one owner", []write{entry(1, "n1/1", 10), entry(1, "n1/1", 20)}, 0, 0, 0},
		{"a handover, another range between", []write{entry(1, "n1/1", 10), other, entry(1, "n1/1", 20), entry(3, "n2/2", 50), entry(3, "n2/2", 60)}, 1, 30, 0},
		{"the smaller of two", []write{entry(1, "n1/1", 10), entry(3, "n2/2", 50), entry(4, "n1/1", 57)}, 2, 7, 0},
		{"at the same instant", []write{entry(1, "n1/1", 10), entry(3, "n2/2", 10)}, 1, 0, 0},
		{"the old owner writes late", []write{entry(1, "n1/1", 10), entry(3, "n2/2", 50), entry(1, "n1/1", 55), entry(3, "n2/2", 60)}, 1, -5, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := weigh(c.writes)
			require.Equal(t, len(c.writes), e.Batches)
			require.Len(t, e.Handovers, c.handovers)
			require.Equal(t, c.backwards, e.Backwards)
			smallest, ok := e.Smallest()
			require.Equal(t, c.handovers > 0, ok)
			require.EqualValues(t, c.gap, smallest.Gap)
		})
	}
}

// TestHandoversAcrossSplitsAndMerges: keys are compared one by one, whatever range a write was for.
func TestHandoversAcrossSplitsAndMerges(t *testing.T) {
	e := weigh([]write{
		{op: "write", table: "t", epoch: 1, session: "n1/1", boot: 10},
		{op: "write", table: "t", end: "m", epoch: 2, session: "n2/2", boot: 30},
		{op: "write", table: "t", start: "m", epoch: 3, session: "n3/3", boot: 15},
		{op: "write", table: "t", epoch: 4, session: "n1/1", boot: 40},
		{op: "write", table: "t", start: "m", epoch: 3, session: "n3/3", boot: 50},
	})
	require.Len(t, e.Handovers, 4, "both halves were handed over twice")
	smallest, _ := e.Smallest()
	require.EqualValues(t, -10, smallest.Gap, "the upper half was written under epoch 3 after epoch 4 had begun")
	require.Equal(t, 1, e.Backwards)
}

func TestReadEvidence(t *testing.T) {
	db := database(t, `CREATE TABLE `+sqlite.LedgerTable+` (id INTEGER PRIMARY KEY, op TEXT, table_name TEXT, start_key BLOB, end_key BLOB,
		epoch INTEGER, claim INTEGER, resume_ts TEXT, resume_stage INTEGER, row_count INTEGER, session TEXT, boot_ns INTEGER)`,
		`INSERT INTO `+sqlite.LedgerTable+` VALUES (1, 'write', 't', x'', NULL, 5, 1, '1', 1, 3, 'n1/1', 100),
			(2, 'write', 't', x'', NULL, 6, 1, '2', 1, 4, 'n2/2', 140)`)
	ledger, err := readLedger(t.Context(), db)
	require.NoError(t, err)
	require.Equal(t, fsm.Position{TS: 2, Stage: fsm.StageRows}, ledger[1].resume)
	e := weigh(ledger)
	require.Equal(t, 7, e.Rows)
	require.Len(t, e.Handovers, 1)
	require.EqualValues(t, 40, e.Handovers[0].Gap)
	require.Contains(t, e.Handovers[0].String(), "t [-inf, +inf) from n1 (epoch 0.5) to n2 (epoch 0.6)")

	_, err = readLedger(t.Context(), database(t))
	require.Error(t, err, "a sink without a ledger proves nothing")
}
