package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/fsm"
)

const (
	mainFeed, refusedFeed = "main", "refused"
	// patience bounds each wait of the replication tests: they run beside others on few processors.
	patience = 90 * time.Second
	// syncEvery puts three sync points into testdata/changes.ndjson.
	syncEvery = 0x1000
)

// finalTables are the upstream's tables at the end of testdata/changes.ndjson, as SQLite quotes what it holds: the
// columns, and the rows in the order of their keys.
func finalTables() map[string][]string {
	return map[string][]string{
		"lager": {
			"site, größe, qty, note",
			"'B', 1, 10, 'and back'",
			"'E', 5, 5, NULL",
			"'Q', 7, 7, 'last'",
			"'X', 4, 40, 'over the split, under the new name'",
		},
		"sorten": {
			"id, tags, doc, total, price, ratio, flag, raw, at, 注記, origin, weight",
			`1, '{a,"b,c",NULL}', '{"k": [1, null, "ü"]}', '12345678901234567890.1230', 6, 0.1, 1, X'00FF10', '2026-01-01 12:00:00.5+00', 'renamed', 'unknown', NULL`,
			"4, '{x}', NULL, '1', 1, 4.0, 1, X'AB', NULL, 'before the column came', 'unknown', NULL",
			"6, NULL, NULL, NULL, 8, NULL, NULL, NULL, NULL, 'without tiny', NULL, NULL",
			"8, NULL, NULL, NULL, 8, NULL, NULL, NULL, NULL, 'under the new name', 'there', 8.0",
			"9, NULL, NULL, NULL, 9, NULL, NULL, NULL, NULL, 'whole numbers', 'there', 9.0",
			"50, NULL, NULL, NULL, 6, NULL, NULL, NULL, NULL, 'another key', 'there', 0.25",
			"9223372036854775807, '{}', '{}', '0.000', -1, -2.5, 0, X'', '1999-12-31 23:59:59+00', 'line\nbreak, ''quotes'', \"double\", 🦫', 'unknown', NULL",
		},
		"kunden": {
			"名前, größe, aktiv",
			"'neu', 11.0, 1",
			"'zuletzt', -0.125, 0",
		},
		"visits": {
			"day, room, seats",
			"'2026-01-01', 2, 20",
			"'2026-01-02', 1, 11",
			"'2026-02-01', 1, 1",
		},
		"audit.log": {
			"n, what",
			`'1.00', '{"a": 2}'`,
		},
		"kinds": {
			"id, v",
			"'00000000-0000-0000-0000-00000000000a', '{1,NULL,3}'",
			"'00000000-0000-0000-0000-00000000000b', NULL",
		},
	}
}

// replication is a weir dev with two changefeeds that write into one file.
type replication struct {
	dir, log, replica string
	dev               dev.State
	api               *client.Client
	db                *sql.DB
	// stopped are the dispatchers of the failed changefeed as they were when the last of them had stopped.
	stopped []*weirv1.Dispatcher
	// pieces are what of the main changefeed's log is still to be appended.
	pieces []string
}

// TestAnyLogIsReplicated: a log with every kind of schema change and value, through a move and the death of the agent that
// writes the schema changes, beside a changefeed that fails of a change that the sink cannot express. The first one is not
// touched by that; the second one goes on once the change was made by hand as the refusal says.
func TestAnyLogIsReplicated(t *testing.T) {
	r := startReplication(t)
	r.create(t)

	r.feed(t)
	r.fails(t, 0x1200, "alter table prices alter column net type bigint using (net * 100)", "computes new values of column net by an expression")
	r.feed(t)
	r.move(t)
	r.feed(t)
	r.killWriter(t)
	r.arrives(t, mainFeed, rows(0x3100))

	r.judgeTables(t, finalTables())
	r.judgeEvents(t)
	r.isStopped(t)
	r.judgeTables(t, map[string][]string{"prices": {"id, net", "1, '12.50'", "2, '0.99'"}})

	r.makeByHand(t,
		"ALTER TABLE prices RENAME COLUMN net TO before",
		"ALTER TABLE prices ADD COLUMN net INTEGER",
		"UPDATE prices SET net = CAST(round(before * 100) AS INTEGER)",
		"ALTER TABLE prices DROP COLUMN before",
	)
	r.resume(t)
	r.arrives(t, refusedFeed, rows(0x1400))
	r.judgeTables(t, map[string][]string{
		"prices": {"id, cents", "1, 1300", "2, 99", "3, 500", "4, 4"},
		"extra":  {"id, v", "1, 'one'", "2, 'two'", "3, 'three'"},
	})
	r.judgeTables(t, finalTables())
}

func rows(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageRows} }

func startReplication(t *testing.T) *replication {
	t.Helper()
	dir, out := t.TempDir(), newOutput()
	cmd := program(t, out, "dev", "--servers", "1", "--agents", "3", "--port", "0", "--dir", dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // at the end of the test, as planned
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if err := cmd.Wait(); !errors.Is(err, context.Canceled) || t.Failed() {
			t.Log(err, out.String())
		}
	})
	out.waitFor(t, "it stays up until Ctrl-C")
	r := &replication{dir: dir, log: filepath.Join(dir, "changes.ndjson"), replica: filepath.Join(dir, "replica.db")}
	var err error
	r.dev, err = dev.ReadState(dir)
	require.NoError(t, err)
	r.api, err = client.New(client.Config{Addresses: r.dev.Servers, By: "test"})
	require.NoError(t, err)
	t.Cleanup(r.api.Close)
	r.db, err = sql.Open("sqlite", "file:"+r.replica+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.db.Close()) })
	return r
}

// create makes both changefeeds. The one that goes well reads a log that grows, and has a table that is split.
func (r *replication) create(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile("testdata/changes.ndjson")
	require.NoError(t, err)
	rest := string(raw)
	for _, begin := range []string{"0/1400", "0/2300"} {
		at := strings.Index(rest, `{"action":"B","nextlsn":"`+begin+`"}`)
		require.Positive(t, at, begin)
		r.pieces, rest = append(r.pieces, rest[:at]), rest[at:]
	}
	r.pieces = append(r.pieces, rest)
	require.NoError(t, os.WriteFile(r.log, nil, 0o600))
	refused, err := filepath.Abs("testdata/refused.ndjson")
	require.NoError(t, err)
	atM, err := keycode.Encode([]dispatcher.Column{{Name: "site", Type: "text", Value: dispatcher.Value{Kind: dispatcher.KindText, Text: "M"}}})
	require.NoError(t, err)
	public := func(name string, at ...[]byte) *weirv1.TableSpec {
		return &weirv1.TableSpec{Schema: "public", Name: name, SplitKeys: at}
	}
	for _, req := range []*weirv1.CreateChangefeedRequest{
		{
			Name: mainFeed, Source: "wal2json:" + r.log + "?follow=true", SyncPointEvery: syncEvery,
			Tables: []*weirv1.TableSpec{public("stock", []byte(atM)), public("kinds"), public("Zoë's 表")},
		},
		{Name: refusedFeed, Source: "wal2json:" + refused, Tables: []*weirv1.TableSpec{public("prices"), public("extra")}},
	} {
		req.Sink, req.SinkFenced = "sqlite:"+r.replica+"?ledger=true", true
		_, err = r.api.CreateChangefeed(t.Context(), req)
		require.NoError(t, err)
	}
}

// feed appends the next piece of the main changefeed's log.
func (r *replication) feed(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(r.log, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(r.pieces[0])
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r.pieces = r.pieces[1:]
}

// wait asks until nothing is missing. Errors are answers, too: a server that is busy is asked again.
func wait(t *testing.T, what string, missing func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		last := missing(ctx)
		if last == "" {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			require.FailNow(t, what, last)
		}
	}
}

func (r *replication) dispatchers(ctx context.Context, feed string) (all []*weirv1.Dispatcher, err error) {
	for one, err := range r.api.Dispatchers(ctx, &weirv1.ListDispatchersRequest{Changefeed: feed}) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// arrives waits until every dispatcher of a changefeed runs and is at the end of its log.
func (r *replication) arrives(t *testing.T, feed string, end fsm.Position) {
	t.Helper()
	wait(t, "these of changefeed "+feed+" are not at the end", func(ctx context.Context) string {
		all, err := r.dispatchers(ctx, feed)
		if err != nil || len(all) == 0 {
			return fmt.Sprint("no dispatchers: ", err)
		}
		behind := ""
		for _, one := range all {
			if at := show.ToPosition(one.GetProgress().GetPosition()); one.GetPhase() != weirv1.Phase_PHASE_RUNNING || at.Less(end) {
				behind += fmt.Sprintf("%d of %q is %s at %s; ", one.GetId(), one.GetTable(), show.Phase(one.GetPhase()), at)
			}
		}
		return behind
	})
}

// fails waits for the refusal of the statement at a position, looks at what it says, and waits until everything has
// stopped.
func (r *replication) fails(t *testing.T, ts uint64, statement, why string) {
	t.Helper()
	var c *weirv1.Changefeed
	wait(t, "it has not failed", func(ctx context.Context) string {
		var err error
		if c, err = r.api.Changefeed(ctx, refusedFeed, nil); err != nil {
			return err.Error()
		}
		if c.GetStatus() != weirv1.ChangefeedStatus_CHANGEFEED_STATUS_FAILED {
			return c.GetStatus().String()
		}
		return ""
	})
	require.Equal(t, sqlite.ReasonDDL, c.GetReason())
	require.Equal(t, c.GetTrigger(), c.GetFailedBy())
	for _, said := range []string{statement, fsm.Position{TS: ts, Stage: fsm.StageDDL}.String(), why, "resume the changefeed"} {
		require.Contains(t, c.GetDetail(), said)
	}
	wait(t, "these have not stopped", func(ctx context.Context) string {
		all, err := r.dispatchers(ctx, refusedFeed)
		if err != nil || len(all) != 3 {
			return fmt.Sprint(len(all), " dispatchers: ", err)
		}
		r.stopped = all
		still := ""
		for _, one := range all {
			if one.GetPhase() != weirv1.Phase_PHASE_ABSENT {
				still += fmt.Sprintf("%d is %s; ", one.GetId(), show.Phase(one.GetPhase()))
			}
		}
		return still
	})
}

// isStopped checks that nothing of the failed changefeed has moved since it stopped, and that what the event concerns
// stands before it.
func (r *replication) isStopped(t *testing.T) {
	t.Helper()
	c, err := r.api.Changefeed(t.Context(), refusedFeed, nil)
	require.NoError(t, err)
	require.Equal(t, weirv1.ChangefeedStatus_CHANGEFEED_STATUS_FAILED, c.GetStatus())
	all, err := r.dispatchers(t.Context(), refusedFeed)
	require.NoError(t, err)
	require.Len(t, all, len(r.stopped))
	for i, one := range all {
		require.Equal(t, weirv1.Phase_PHASE_ABSENT, one.GetPhase(), one)
		require.Equal(t, r.stopped[i].GetPhaseAt(), one.GetPhaseAt(), one)
		require.Equal(t, show.Position(r.stopped[i].GetPosition()), show.Position(one.GetPosition()), one)
		if one.GetTrigger() || one.GetTable() == "prices" {
			require.False(t, rows(0x1200).Less(show.ToPosition(one.GetPosition())), "it went past the event: %s", one)
		}
	}
}

// move takes a half of the split table to another agent, while events and changes of keys concern both halves.
func (r *replication) move(t *testing.T) {
	t.Helper()
	var op uint64
	wait(t, "the move is not admitted", func(ctx context.Context) string {
		all, err := r.dispatchers(ctx, mainFeed)
		if err != nil {
			return err.Error()
		}
		at := slices.IndexFunc(all, func(one *weirv1.Dispatcher) bool {
			return len(one.GetSpan().GetStart()) > 0 && one.GetPhase() == weirv1.Phase_PHASE_RUNNING
		})
		if at < 0 {
			return "no half of the split table runs"
		}
		to := "n1"
		if all[at].GetNode() == to {
			to = "n2"
		}
		a, err := r.api.AdmitOperator(ctx, &weirv1.OperatorSpec{
			Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: all[at].GetId(), From: all[at].GetNode(), To: to,
			ExpectEpoch: all[at].GetEpoch(),
		})
		if err != nil {
			return err.Error()
		}
		op = a.GetOpId()
		return ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o, err := r.api.WaitOperator(ctx, op)
	require.NoError(t, err)
	require.Equal(t, weirv1.OperatorResult_OPERATOR_RESULT_DONE, o.GetResult(), o)
}

// killWriter kills the agent that writes the events.
func (r *replication) killWriter(t *testing.T) {
	t.Helper()
	node := ""
	wait(t, "nobody writes the events", func(ctx context.Context) string {
		all, err := r.dispatchers(ctx, mainFeed)
		if err != nil {
			return err.Error()
		}
		at := slices.IndexFunc(all, (*weirv1.Dispatcher).GetTrigger)
		if at < 0 || all[at].GetNode() == "" {
			return "the trigger is nowhere"
		}
		node = all[at].GetNode()
		return ""
	})
	at := slices.IndexFunc(r.dev.Processes, func(p dev.ProcessState) bool { return p.Name == node })
	require.GreaterOrEqual(t, at, 0, node)
	require.NoError(t, syscall.Kill(r.dev.Processes[at].PID, syscall.SIGKILL))
}

// judgeTables compares tables of the replica, and knows that dropped and renamed ones are gone.
func (r *replication) judgeTables(t *testing.T, want map[string][]string) {
	t.Helper()
	for name, lines := range want {
		require.Equal(t, lines, r.table(t, name), name)
	}
	for _, gone := range []string{"stock", "Zoë's 表"} {
		require.Empty(t, r.column(t, "SELECT name FROM sqlite_schema WHERE name = ?", gone))
	}
}

// table is the columns of a table, and its rows in the order of their keys.
func (r *replication) table(t *testing.T, name string) []string {
	t.Helper()
	names := r.column(t, "SELECT name FROM pragma_table_info(?) ORDER BY cid", name)
	key := r.column(t, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", name)
	require.NotEmpty(t, key, "table %s is not there, or has no key", name)
	quoted := func(names []string, before, after, between string) string {
		words := make([]string, len(names))
		for i, n := range names {
			words[i] = before + `"` + n + `"` + after
		}
		return strings.Join(words, between)
	}
	query := "SELECT " + quoted(names, "quote(", ")", " || ', ' || ") + ` FROM "` + name + `" ORDER BY ` + quoted(key, "", "", ", ")
	return append([]string{strings.Join(names, ", ")}, r.column(t, query)...)
}

// column is the one column that a query returns.
func (r *replication) column(t *testing.T, query string, args ...any) (values []string) {
	t.Helper()
	found, err := r.db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err, query)
	defer func() { require.NoError(t, found.Close()) }()
	for found.Next() {
		var v string
		require.NoError(t, found.Scan(&v), query)
		values = append(values, v)
	}
	require.NoError(t, found.Err())
	return values
}

// judgeEvents checks that each event of the log was written once, and that by the sink's own order of commits every row
// before it was there before it, and every row after it came after it. So a row whose key was changed from one half of the
// split table to the other one is in exactly one of them at each event and sync point.
func (r *replication) judgeEvents(t *testing.T) {
	t.Helper()
	var positions []string
	for b, err := range r.api.Barriers(t.Context(), &weirv1.ListBarriersRequest{Changefeed: mainFeed, Ended: true}) {
		require.NoError(t, err)
		at := show.ToPosition(b.GetAt())
		positions = append(positions, at.String())
		require.Equal(t, weirv1.BarrierResult_BARRIER_RESULT_WRITTEN, b.GetResult(), b)
		const written = ` FROM weir_ledger e WHERE e.op = 'ddl' AND e.table_name LIKE '%/main' AND e.resume_ts = ? AND e.resume_stage = ?`
		key := []any{strconv.FormatUint(at.TS, 10), int(at.Stage)}
		require.Equal(t, []string{"1"}, r.column(t, "SELECT count(*)"+written, key...), at)
		const wrongSide = `SELECT w.table_name || ' at ' || w.resume_ts FROM weir_ledger w, (SELECT e.id` + written + `) e
			WHERE w.op = 'write' AND w.row_count > 0 AND w.table_name IN (SELECT value FROM json_each(?))
			AND (w.id < e.id) <> ((CAST(w.resume_ts AS INTEGER), w.resume_stage) < (?, ?))`
		require.Empty(t, r.column(t, wrongSide, append(key, concerned(t, b), int64(at.TS), int(at.Stage))...), at)
	}
	slices.Reverse(positions)
	require.Equal(t, []string{
		"4096", "5119/ddl", "5375/ddl", "5887/ddl", "6143/ddl", "6399/ddl", "6656/ddl", "6911/ddl", "8192", "8447/ddl",
		"8703/ddl", "8957/ddl", "8958/ddl", "8959/ddl", "9215/ddl", "9470/ddl", "9471/ddl", "9727/ddl", "12288",
	}, positions)
	require.Equal(t, []string{"4096", "8192", "12288"}, r.column(t, "SELECT ts FROM weir_syncpoints WHERE changefeed = 'main' ORDER BY CAST(ts AS INTEGER)"))
	r.judgeSplit(t)
}

// concerned is the list of the sink's tables that an event concerns, a sync point all of them.
func concerned(t *testing.T, b *weirv1.Barrier) string {
	t.Helper()
	names := []string{"stock", "lager", "kinds", "sorten", "Zoë's 表", "kunden", "visits", "audit.log"}
	if b.GetSpec().GetInfluence() != weirv1.Influence_INFLUENCE_ALL {
		names = nil
		for _, one := range b.GetSpec().GetTables() {
			names = append(names, strings.TrimPrefix(one.GetSchema()+"."+one.GetName(), "public."))
		}
	}
	require.NotEmpty(t, names)
	list, err := json.Marshal(names)
	require.NoError(t, err)
	return string(list)
}

// judgeSplit knows that a change of keys from one half of the split table to the other was written by both halves, each in
// a transaction of its own, between the same two events: under the old name between two sync points, under the new one
// between the renaming and a sync point.
func (r *replication) judgeSplit(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		table       string
		after, upTo int64
	}{
		{"stock", 4096, 8192},
		{"lager", 8703, 12288},
	} {
		halves := r.column(t, `SELECT DISTINCT hex(start_key) FROM weir_ledger WHERE op = 'write' AND row_count > 0 AND table_name = ?
			AND CAST(resume_ts AS INTEGER) > ? AND CAST(resume_ts AS INTEGER) <= ?`, c.table, c.after, c.upTo)
		require.Len(t, halves, 2, c.table)
	}
}

// makeByHand makes the refused change at the sink, and says so there as the refusal tells.
func (r *replication) makeByHand(t *testing.T, statements ...string) {
	t.Helper()
	c, err := r.api.Changefeed(t.Context(), refusedFeed, nil)
	require.NoError(t, err)
	told := regexp.MustCompile(`INSERT INTO weir_ddl .*VALUES \([^)]*\)`).FindString(c.GetDetail())
	require.NotEmpty(t, told, c.GetDetail())
	tx, err := r.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for _, statement := range append(statements, told) {
		_, err := tx.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	require.NoError(t, tx.Commit())
}

func (r *replication) resume(t *testing.T) {
	t.Helper()
	_, err := r.api.ResumeChangefeed(t.Context(), refusedFeed)
	require.NoError(t, err)
}
