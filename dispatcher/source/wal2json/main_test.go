package wal2json

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fsm"
)

const shopLog = "../../../cmd/weir/demo/shop.wal2json.ndjson.gz"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The words of a log. Transaction n has nextlsn 0/n in hex and xid n.

func begin(n int) string {
	return fmt.Sprintf(`{"action":"B","xid":%d,"timestamp":"2026-12-01 13:10:16.392576+00","lsn":"0/%X","nextlsn":"0/%X"}`, n, n, n)
}

func commit(n int) string {
	return fmt.Sprintf(`{"action":"C","xid":%d,"timestamp":"2026-12-01 13:10:16.392576+00","lsn":"0/%X","nextlsn":"0/%X"}`, n, n, n)
}

func col(name, declared, value string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"value":%s}`, name, declared, value)
}

const pkID = `[{"name":"id","type":"bigint"}]`

func rowLine(action string, n int, table, columns, identity, pk string) string {
	s := fmt.Sprintf(`{"action":%q,"xid":%d,"schema":"public","table":%q`, action, n, table)
	for _, part := range []struct{ name, value string }{{"columns", columns}, {"identity", identity}} {
		if part.value != "" {
			s += fmt.Sprintf(`,%q:[%s]`, part.name, part.value)
		}
	}
	if pk != "" {
		s += `,"pk":` + pk
	}
	return s + "}"
}

func id(v int) string { return col("id", "bigint", fmt.Sprint(v)) }

func insert(n, v int, text string) string {
	return rowLine("I", n, "t", id(v)+","+col("v", "text", fmt.Sprintf("%q", text)), "", pkID)
}

func update(n, old, now int, text string) string {
	return rowLine("U", n, "t", id(now)+","+col("v", "text", fmt.Sprintf("%q", text)), id(old), pkID)
}

func remove(n, v int) string { return rowLine("D", n, "t", "", id(v), pkID) }

func other(n int) string { return rowLine("I", n, "u", id(n), "", pkID) }

func ddl(n int, object, sql string) string {
	return fmt.Sprintf(`{"action":"M","xid":%d,"transactional":true,"prefix":"ddl","content":%q}`, n, fmt.Sprintf(`{"tag":"X","object":%q,"sql":%q}`, object, sql))
}

func truncateLine(n int, table string) string {
	return fmt.Sprintf(`{"action":"T","xid":%d,"schema":"public","table":%q}`, n, table)
}

// tx is a whole transaction.
func tx(n int, lines ...string) string {
	return text(append(append([]string{begin(n)}, lines...), commit(n))...)
}

func text(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func logFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func zipped(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.ndjson.gz")
	f, err := os.Create(path)
	require.NoError(t, err)
	w := gzip.NewWriter(f)
	_, err = io.WriteString(w, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return path
}

func spec(path string) dispatcher.SourceSpec {
	return dispatcher.SourceSpec{URI: "wal2json:" + path, Table: dispatcher.TableName{Schema: "public", Name: "t"}}
}

func open(t *testing.T, s dispatcher.SourceSpec) dispatcher.Reader {
	t.Helper()
	source, err := New(Config{})
	require.NoError(t, err)
	r, err := source.Open(t.Context(), s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// drain reads to the end and returns what it read, one line a transaction, and how reading ended.
func drain(t *testing.T, r dispatcher.Reader) ([]string, error) {
	t.Helper()
	var out []string
	for {
		tx, err := r.Next(context.Background())
		if err != nil {
			_, again := r.Next(context.Background())
			require.Equal(t, err, again, "the end stays")
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return out, err
		}
		out = append(out, printTx(tx))
	}
}

func printTx(tx dispatcher.Transaction) string {
	parts := []string{tx.Position.String()}
	if tx.Event != nil {
		parts = append(parts, tx.Event.Change.Kind.String(), tx.Event.Statement)
	}
	for _, c := range tx.Changes {
		p := c.Op.String() + keycode.Describe(c.Key)
		for _, col := range c.Columns {
			p += fmt.Sprintf(" %s:%s=%s", col.Name, col.Value.Kind, col.Value.Text)
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, "; ")
}

func stopOf(t *testing.T, err error) *dispatcher.StopError {
	t.Helper()
	stop, ok := errors.AsType[*dispatcher.StopError](err)
	require.True(t, ok, "%v is no StopError", err)
	return stop
}

func rows(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageRows} }
