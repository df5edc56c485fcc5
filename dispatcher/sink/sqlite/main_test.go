package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	goleak.VerifyTestMain(m)
}

func always() error { return nil }

func newSink(t *testing.T, cfg Config) *Sink {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	return s
}

// target is where a test writes.
type target struct {
	path, table, changefeed, session string
	schema                           string // public if empty
	span                             fsm.Span
	trigger                          bool
	run                              uint64
	options                          string
}

func (x target) spec() dispatcher.SinkSpec {
	orElse := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	return dispatcher.SinkSpec{
		URI: "sqlite:" + x.path + x.options, Cluster: "c1", Changefeed: orElse(x.changefeed, "shop"), Run: max(x.run, 1),
		Table: dispatcher.TableName{Schema: orElse(x.schema, "public"), Name: orElse(x.table, "t")}, Span: x.span, Trigger: x.trigger, Session: orElse(x.session, "n1/1"),
	}
}

func open(t *testing.T, s *Sink, x target) dispatcher.SpanWriter {
	t.Helper()
	w, err := s.Open(t.Context(), x.spec())
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			require.ErrorIs(t, err, ErrClosed)
		}
	})
	return w
}

func claim(t *testing.T, w dispatcher.SpanWriter, epoch, number uint64, start fsm.Position) fsm.Position {
	t.Helper()
	p, err := w.Claim(t.Context(), dispatcher.Token{Epoch: fsm.Epoch(epoch), Claim: number}, start, always)
	require.NoError(t, err)
	return p
}

func at(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageRows} }

func intKey(id int) string {
	key, err := keycode.Encode([]dispatcher.Column{idColumn(id)})
	if err != nil {
		panic(err)
	}
	return key
}

func between(from, to int) fsm.Span {
	s := fsm.Span{}
	if from > 0 {
		s.Start = intKey(from)
	}
	if to > 0 {
		s.End = intKey(to)
	}
	return s
}

func idColumn(v int) dispatcher.Column {
	return dispatcher.Column{Name: "id", Type: "bigint", Value: dispatcher.Value{Kind: dispatcher.KindNumber, Text: fmt.Sprint(v)}}
}

func textColumn(name, v string) dispatcher.Column {
	return dispatcher.Column{Name: name, Type: "text", Value: dispatcher.Value{Kind: dispatcher.KindText, Text: v}}
}

func put(id int, v string) dispatcher.Change {
	pk := idColumn(id)
	return dispatcher.Change{
		Op: dispatcher.OpUpsert, Table: dispatcher.TableName{Schema: "public", Name: "t"}, Key: intKey(id),
		PK: []dispatcher.Column{pk}, Columns: []dispatcher.Column{pk, textColumn("v", v)},
	}
}

func gone(id int) dispatcher.Change {
	return dispatcher.Change{
		Op: dispatcher.OpDelete, Table: dispatcher.TableName{Schema: "public", Name: "t"}, Key: intKey(id), PK: []dispatcher.Column{idColumn(id)},
	}
}

func write(t *testing.T, w dispatcher.SpanWriter, ts uint64, changes ...dispatcher.Change) {
	t.Helper()
	require.NoError(t, w.Write(t.Context(), dispatcher.Batch{Changes: changes, Resume: at(ts)}, always))
}

// ddl is the event that a statement is at a ts, of run 1.
func ddl(ts uint64, statement string) dispatcher.DDL {
	return dispatcher.DDL{
		Key:    dispatcher.DDLKey{Changefeed: "shop", Run: 1, Position: fsm.Position{TS: ts, Stage: fsm.StageDDL}},
		Change: schema.Message{SQL: statement}.Change(), Statement: statement,
	}
}

func dbPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "replica.db")
}

func escapeText(s string) string { return strings.ReplaceAll(s, "'", "''") }

// query reads the file through a connection of its own and prints each row.
func query(t *testing.T, path, text string) []string {
	t.Helper()
	db, err := sql.Open(driverName, dsn(path, 5*time.Second))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.QueryContext(context.Background(), text)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	names, err := rows.Columns()
	require.NoError(t, err)
	var out []string
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range into {
			into[i] = &values[i]
		}
		require.NoError(t, rows.Scan(into...))
		line := ""
		for i, v := range values {
			if i > 0 {
				line += "|"
			}
			line += fmt.Sprint(v)
		}
		out = append(out, line)
	}
	require.NoError(t, rows.Err())
	return out
}
