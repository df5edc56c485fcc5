package evidence_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/evidence"
)

func TestLedgersJoinAttemptsAndOutcomes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n1.jsonl")
	const write = `"at":1,"node":"n1","incarnation":"1.2","opening":3,"call":"write","dispatcher":7,"epoch":"1.9","claim":1,"sink":"s","table":"public.t","begun":`
	require.NoError(t, os.WriteFile(path, []byte(`{"event":"gate","at":1,"node":"n1","incarnation":"1.2","opening":3,"edge":"opened","noticed_at":5,"deadline":9}
{"event":"attempt",`+write+`10}
{"event":"outcome",`+write+`10,"allowed":11,"returned":12,"outcome":"accepted"}
{"event":"attempt",`+write+`20}
{"event":"att{"event":"gate","at":30,"node":"n1","incarnation":"1.4","opening":1,"edge":"opened","noticed_at":31,"deadline":39}
{"event":"attempt",`+write+`40}
{"event":"outco`), 0o600))
	a, err := evidence.ReadLedgers([]string{path, filepath.Join(t.TempDir(), "missing")})
	require.NoError(t, err)
	require.Len(t, a.Calls, 3)
	require.Equal(t, int64(12), a.Calls[0].Returned)
	require.Equal(t, evidence.Epoch(1<<36|9), a.Calls[0].Epoch)
	require.True(t, a.Calls[1].Unfinished())
	require.True(t, a.Calls[2].Unfinished())
	require.Len(t, a.Edges, 2, "a part of a line that a killed process left behind does not take the next one along")
}

func TestLedgersWithoutAttemptsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n1.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"event":"outcome","epoch":"1.1","call":"write"}`+"\n"), 0o600))
	_, err := evidence.ReadLedgers([]string{path})
	require.ErrorContains(t, err, "has no attempt")
	require.NoError(t, os.WriteFile(path, []byte(`{"event":"dance"}`+"\n"), 0o600))
	_, err = evidence.ReadLedgers([]string{path})
	require.ErrorContains(t, err, "is not known")
}

func TestLedgersTellTheStepsOfEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n1.jsonl")
	const who = `"node":"n1","incarnation":"1.2","opening":3,"dispatcher":7,"epoch":"1.9","run":2,"key":"40/sync","permission":5`
	const event = `"call":"event","claim":1,"sink":"s","table":"events of f","begun":10`
	require.NoError(t, os.WriteFile(path, []byte(`{"event":"attempt","at":10,`+who+`,`+event+`}
{"event":"barrier","at":12,`+who+`,"changefeed":"f","step":"written","recorded":true}
{"event":"outcome","at":13,`+who+`,`+event+`,"allowed":11,"returned":12,"outcome":"accepted"}
`), 0o600))
	a, err := evidence.ReadLedgers([]string{path})
	require.NoError(t, err)
	require.Equal(t, []evidence.Step{{
		Node: "n1", Incarnation: "1.2", Dispatcher: 7, Epoch: 1<<36 | 9, Changefeed: "f", Run: 2, Key: "40/sync", Kind: "written",
		Permission: 5, Recorded: true, At: 12,
	}}, a.Steps)
	require.Len(t, a.Calls, 1)
	require.Equal(t, "event", a.Calls[0].Kind)
	require.False(t, a.Calls[0].Unfinished())
}

func TestSpans(t *testing.T) {
	all, low, high := evidence.Span{}, evidence.Span{To: "20"}, evidence.Span{From: "20"}
	require.True(t, all.Overlaps(low))
	require.True(t, high.Overlaps(all))
	require.False(t, low.Overlaps(high))
	require.True(t, all.Covers(low))
	require.False(t, low.Covers(all))
	require.True(t, high.Covers(evidence.Span{From: "21", To: "30"}))
}

func TestSinkRowsAreCanonical(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sink.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, statement := range []string{
		`CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount DECIMAL_TEXT, paid BOOLEAN, raw BLOB)`,
		`INSERT INTO t VALUES (1, 'ä', '6.00', 1, x'00ff'), (2, NULL, NULL, NULL, x'')`,
	} {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	s, err := evidence.OpenSink(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	rows, err := s.Rows(context.Background(), "t", []string{"id"})
	require.NoError(t, err)
	require.Equal(t, map[string]map[string]string{
		"1": {"id": "1", "name": "ä", "amount": "6.00", "paid": "1", "raw": "00ff"},
		"2": {"id": "2", "name": changelog.Null, "amount": changelog.Null, "paid": changelog.Null, "raw": ""},
	}, rows)
	rows, err = s.Rows(context.Background(), "missing", []string{"id"})
	require.NoError(t, err)
	require.Empty(t, rows)
}

func TestTheEndOfALedgerShowsWhatWasCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n1.jsonl")
	line := func(event, begun, at string) string {
		return `{"event":"` + event + `","at":` + at + `,"node":"n1","incarnation":"1.2","call":"write","dispatcher":7,"epoch":"1.9","claim":1,"begun":` + begun + "}\n"
	}
	write := func(lines ...string) {
		text := ""
		for _, l := range lines {
			text += l
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	busy, err := evidence.LastIsAttempt(path)
	require.NoError(t, err)
	require.False(t, busy, "there is no ledger yet")
	write(line("attempt", "10", "10"), line("outcome", "10", "12"))
	busy, err = evidence.LastIsAttempt(path)
	require.NoError(t, err)
	require.False(t, busy)
	write(line("attempt", "5", "5"), line("attempt", "10", "10"), line("outcome", "10", "12"), line("attempt", "20", "20"))
	busy, err = evidence.LastIsAttempt(path)
	require.NoError(t, err)
	require.True(t, busy)
	for since, want := range map[int64]int{0: 2, 7: 1, 30: 0} {
		n, err := evidence.CutOff(path, since)
		require.NoError(t, err)
		require.Equal(t, want, n, "since %d", since)
	}
}
