package sqltoken

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the database of the tests
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func always() error { return nil }

// database is a sink with one table of rows, (key, written by).
type database struct {
	t       *testing.T
	db      *sql.DB
	refused []Refusal
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "sink.db")+"?_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE data (k TEXT PRIMARY KEY, by TEXT NOT NULL)")
	require.NoError(t, err)
	return &database{t: t, db: db}
}

func (d *database) guard(start, end string) *Guard {
	d.t.Helper()
	return d.guardOf(Owner{Cluster: "c", Changefeed: "f", Run: 1, Session: "owner of " + start + ".." + end}, start, end)
}

func (d *database) guardOf(owner Owner, start, end string) *Guard {
	d.t.Helper()
	g, err := New(Config{
		DB: d.db, Dialect: SQLite(), Table: "data", Range: Range{Start: start, End: end}, Owner: owner,
		OnRefused: func(r Refusal) { d.refused = append(d.refused, r) },
	})
	require.NoError(d.t, err)
	return g
}

func claimed(t require.TestingT, g *Guard, epoch uint64, start Position) Position {
	p, err := g.Claim(context.Background(), Token{Epoch: epoch, Claim: 1}, start, always)
	require.NoError(t, err)
	return p
}

// put writes one row under the guard and moves the resume position to ts.
func put(g *Guard, key string, ts uint64) error {
	return g.Guarded(context.Background(), always, func(ctx context.Context, tx Tx) (Effect, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO data VALUES (?, ?) ON CONFLICT DO UPDATE SET by = excluded.by", key, g.Token().String())
		return Effect{Resume: &Position{TS: ts, Stage: 1}}, err
	})
}

func stale(t require.TestingT, err error) *StaleError {
	e, ok := errors.AsType[*StaleError](err)
	require.True(t, ok, "%v is no StaleError", err)
	return e
}

func refusedAsStale(t require.TestingT, err error) {
	var e *StaleError
	require.ErrorAs(t, err, &e)
}

// fences prints the fence rows: [start,end) token @resume.
func (d *database) fences() string {
	d.t.Helper()
	conn, err := d.db.Conn(context.Background())
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, conn.Close()) }()
	rows, err := store{tx: conn, dialect: SQLite(), table: "data"}.overlapping(context.Background(), Range{})
	require.NoError(d.t, err)
	return printRows(rows)
}

func printRows(rows []row) string {
	var parts []string
	for _, r := range rows {
		s := fmt.Sprintf("[%s,%s) %s @%d", r.span.Start, r.span.End, r.token, r.resume.TS)
		if r.released {
			s += " released"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

func pos(ts uint64) Position { return Position{TS: ts, Stage: 1} }
