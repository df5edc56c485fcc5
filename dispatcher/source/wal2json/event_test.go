package wal2json

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

func trigger(path string) dispatcher.SourceSpec {
	return dispatcher.SourceSpec{URI: "wal2json:" + path, Trigger: true}
}

func of(table string, s dispatcher.SourceSpec) dispatcher.SourceSpec {
	s.Table.Name, s.Trigger = table, false
	return s
}

func read(t *testing.T, s dispatcher.SourceSpec) []string {
	t.Helper()
	got, err := drain(t, open(t, s))
	require.NoError(t, err)
	return got
}

// shopEvents are the positions of the shop log's schema changes, in the form that tests print.
func shopEvents() []string {
	return []string{
		"84433552/ddl; create table; create table orders(id bigint primary key, customer text not null, amount numeric(12,2) not null, state text not null, updated timestamptz default now())",
		"84457208/ddl; create table; create table order_items(order_id bigint, line int, sku text, qty int, primary key(order_id,line))",
		"85429816/ddl; alter table; alter table orders add column note text",
		"86116800/ddl; truncate; TRUNCATE public.pgbench_history",
		"86913528/ddl; rename table; alter table order_items rename to lines",
		"87312648/ddl; drop table; drop table lines",
	}
}

// eventsOf are the events among transactions, printed.
func eventsOf(all []dispatcher.Transaction) (printed []string) {
	for _, one := range all {
		if one.Event != nil {
			printed = append(printed, printTx(one))
		}
	}
	return printed
}

// TestShopEvents: the trigger sees all six and no row, each table's reader those of its table, at the same positions and
// with the same meaning.
func TestShopEvents(t *testing.T) {
	ref := func(name string) fsm.TableRef { return fsm.TableRef{Schema: "public", Name: name} }
	e := shopEvents()
	all := transactions(t, trigger(shopLog))
	require.Equal(t, e, eventsOf(all))
	var found []*dispatcher.Event
	for _, one := range all {
		require.Empty(t, one.Changes)
		if one.Event != nil {
			require.True(t, one.Event.Spec.TriggerTakesPart())
			require.Equal(t, fsm.InfluenceTables, one.Event.Spec.Influence)
			found = append(found, one.Event)
		}
	}
	require.Equal(t, []fsm.TableSpec{{Schema: "public", Name: "orders"}}, found[0].Spec.Add)
	require.Equal(t, []string{"id"}, found[0].Change.Key)
	require.Equal(t, "numeric(12,2)", found[0].Change.Columns[2].Type)
	require.Equal(t, []fsm.TableSpec{{Schema: "public", Name: "order_items"}}, found[1].Spec.Add)
	require.False(t, found[2].Spec.HasEffects())
	require.Equal(t, []schema.Action{{Kind: schema.ActionAddColumn, Column: schema.Column{Name: "note", Type: "text"}}}, found[2].Change.Actions)
	require.False(t, found[3].Spec.HasEffects())
	require.Equal(t, []fsm.TableRef{ref("pgbench_history")}, found[3].Spec.Tables)
	require.Equal(t, []fsm.TableRename{{From: ref("order_items"), To: ref("lines")}}, found[4].Spec.Rename)
	require.Equal(t, []fsm.TableRef{ref("order_items"), ref("lines")}, found[4].Spec.Tables)
	require.Equal(t, []fsm.TableRef{ref("lines")}, found[5].Spec.Drop)
	for table, want := range map[string][]int{"orders": {0, 2}, "order_items": {1, 4}, "lines": {4, 5}, "pgbench_tellers": nil} {
		n := 0
		for _, one := range transactions(t, of(table, trigger(shopLog))) {
			if one.Event == nil {
				continue
			}
			require.Equal(t, e[want[n]], printTx(one), table)
			require.Equal(t, found[want[n]], one.Event, table)
			n++
		}
		require.Equal(t, len(want), n, table)
	}
}

func mixed() string {
	return tx(100, insert(100, 1, "a")) +
		tx(200, insert(200, 2, "b"), ddl(200, "public.t", "alter table t add x int"), insert(200, 3, "c"), other(200),
			truncateLine(200, "u"), truncateLine(200, "t"), ddl(200, "public.w", "create table w(id int primary key)"),
			ddl(200, "public.i", "create index i on t(v)"), other(200), ddl(200, "public.t", "alter table t drop x"), insert(200, 4, "d")) +
		tx(300, ddl(300, "public.t", "alter table t rename to t2")) +
		tx(400, insert(400, 9, "another table of that name"), other(400))
}

func TestTransactionThatMixesRowsAndSchemaChanges(t *testing.T) {
	path := logFile(t, mixed())
	require.Equal(t, []string{
		"100/rows; upsert(1) id:number=1 v:text=a",
		"196/rows; upsert(2) id:number=2 v:text=b",
		"196/ddl; alter table; alter table t add x int",
		"197/rows; upsert(3) id:number=3 v:text=c",
		"197/ddl; truncate; TRUNCATE public.u, public.t",
		"199/ddl; alter table; alter table t drop x",
		"200/rows; upsert(4) id:number=4 v:text=d",
		"300/ddl; rename table; alter table t rename to t2",
		"400/rows; upsert(9) id:number=9 v:text=another table of that name",
	}, read(t, spec(path)))
	require.Equal(t, []string{
		"196/ddl; alter table; alter table t add x int",
		"197/ddl; truncate; TRUNCATE public.u, public.t",
		"198/ddl; create table; create table w(id int primary key)",
		"199/ddl; alter table; alter table t drop x",
		"300/ddl; rename table; alter table t rename to t2",
		"400/rows",
	}, read(t, trigger(path)))
	require.Equal(t, []string{"198/ddl; create table; create table w(id int primary key)", "400/rows"}, read(t, of("w", trigger(path))))
	require.Equal(t, []string{"300/ddl; rename table; alter table t rename to t2", "400/rows"}, read(t, of("t2", trigger(path))))
	require.Equal(t, []string{"197/ddl; truncate; TRUNCATE public.u, public.t", "400/rows"}, withoutRows(read(t, of("u", trigger(path)))))
}

func withoutRows(lines []string) (rest []string) {
	for _, l := range lines {
		if !strings.Contains(l, "upsert") {
			rest = append(rest, l)
		}
	}
	return append(rest, "400/rows")
}

// TestStartAnywhereAroundEvents: what is delivered after a start is what a reader from the beginning delivers after it,
// for every position there is, at plain files and packed ones.
func TestStartAnywhereAroundEvents(t *testing.T) {
	plain, packed := logFile(t, mixed()), zipped(t, mixed())
	for _, base := range []dispatcher.SourceSpec{spec(plain), trigger(plain), of("t2", trigger(plain)), of("u", trigger(plain)), spec(packed), trigger(packed)} {
		all := transactions(t, base)
		for _, ts := range []uint64{1, 75, 76, 77, 99, 100, 101, 150, 175, 176, 177, 194, 195, 196, 197, 198, 199, 200, 201, 224, 276, 277, 299, 300, 301, 399, 400, 401} {
			for stage := fsm.StageNone; stage <= fsm.StageSyncPoint; stage++ {
				s := base
				s.Start = fsm.Position{TS: ts, Stage: stage}
				var want []string
				for _, one := range all {
					if s.Start.Less(one.Position) && (len(one.Changes) > 0 || one.Event != nil) {
						want = append(want, printTx(one))
					}
				}
				var got []string
				for _, one := range transactions(t, s) {
					require.True(t, s.Start.Less(one.Position))
					if len(one.Changes) > 0 || one.Event != nil {
						got = append(got, printTx(one))
					}
				}
				require.Equal(t, want, got, "start %s, trigger %t, table %s", s.Start, s.Trigger, s.Table)
			}
		}
	}
}

func transactions(t *testing.T, s dispatcher.SourceSpec) (all []dispatcher.Transaction) {
	t.Helper()
	source, err := New(Config{})
	require.NoError(t, err)
	r, err := source.Open(t.Context(), s)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	last := s.Start
	for {
		tx, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		require.True(t, last.Less(tx.Position), "positions increase")
		last = tx.Position
		all = append(all, tx)
	}
}

func TestMessagesThatRepeatEachOtherAreOneEvent(t *testing.T) {
	drop := "drop table a, b"
	path := logFile(t, tx(100, ddl(100, "public.a", drop), ddl(100, "public.b", drop), other(100), ddl(100, "public.a", drop)))
	require.Equal(t, []string{"99/ddl; drop table; drop table a, b", "100/ddl; drop table; drop table a, b"}, read(t, trigger(path)))
}

func TestTooManySchemaChangesInOneTransaction(t *testing.T) {
	many := func(n int) string {
		var lines []string
		for i := range n {
			lines = append(lines, ddl(100, "public.t", fmt.Sprintf("alter table t add c%d int", i)))
		}
		return tx(100, lines...)
	}
	require.Len(t, read(t, trigger(logFile(t, many(maxParts)))), maxParts)
	for _, s := range []dispatcher.SourceSpec{trigger(logFile(t, many(maxParts+1))), of("other", trigger(logFile(t, many(maxParts+1))))} {
		_, err := drain(t, open(t, s))
		stop := stopOf(t, err)
		require.Equal(t, ReasonDDL, stop.Reason)
		require.Contains(t, stop.Text, "25 schema changes")
		require.Contains(t, stop.Text, "at most 24 in one transaction")
	}
	close := tx(99, other(99)) + tx(100, ddl(100, "public.t", "drop table t"), ddl(100, "public.t", "create table t(id int)"))
	_, err := drain(t, open(t, trigger(logFile(t, close))))
	require.Equal(t, ReasonMalformed, stopOf(t, err).Reason)
	require.Contains(t, stopOf(t, err).Text, "too few positions")
}

// TestBadRowBeforeTheStartStopsNobody: a start behind the bad row of a transaction, and before its schema change.
func TestBadRowBeforeTheStartStopsNobody(t *testing.T) {
	bad := rowLine("I", 100, "t", id(1), "", "")
	path := logFile(t, tx(100, bad, ddl(100, "public.t", "truncate t"), insert(100, 2, "b")))
	s := spec(path)
	s.Start = rowsAt(99)
	require.Equal(t, []string{"99/ddl; truncate; truncate t", "100/rows; upsert(2) id:number=2 v:text=b"}, read(t, s))
	s.Start = fsm.Position{TS: 99}
	_, err := drain(t, open(t, s))
	require.Equal(t, ReasonNoPrimaryKey, stopOf(t, err).Reason)
	require.Len(t, read(t, trigger(path)), 2, "a trigger reads no rows")
}

func TestUnsupportedChangesAreEventsOfTheTablesTheyConcern(t *testing.T) {
	path := logFile(t, tx(100, ddl(100, "public.t", "create table t as select 1"))+tx(200, ddl(200, "", "do $$ begin end $$")))
	want := []string{"100/ddl; unsupported; create table t as select 1", "200/ddl; unsupported; do $$ begin end $$"}
	require.Equal(t, want, read(t, trigger(path)))
	require.Equal(t, want, read(t, spec(path)))
	require.Equal(t, want[1:], read(t, of("u", trigger(path))))
}

func TestOtherMessagesAreNoEvents(t *testing.T) {
	content := tx(100, `{"action":"M","xid":100,"transactional":true,"prefix":"audit","content":"drop table t"}`,
		ddl(100, "public.t", "comment on table t is 'x'"), insert(100, 1, "a")) +
		text(`{"action":"M","xid":9,"lsn":"0/1","transactional":false,"prefix":"note","content":"x"}`,
			`{"action":"M","xid":9,"lsn":"0/65","transactional":false,"prefix":"ddl","content":"drop table other"}`)
	require.Equal(t, []string{"100/rows; upsert(1) id:number=1 v:text=a"}, read(t, spec(logFile(t, content))))
	_, err := drain(t, open(t, trigger(logFile(t, content))))
	require.Contains(t, stopOf(t, err).Text, "outside of transactions")
	s := trigger(logFile(t, content))
	s.Start = rowsAt(0x65)
	require.Empty(t, read(t, s), "what lies before the start is done")
}

// TestKeyChangeAfterSchemaChanges: what a whole row has is what the newest insert had, changed as the table was.
func TestKeyChangeAfterSchemaChanges(t *testing.T) {
	full := func(n int) string {
		return rowLine("I", n, "t", id(1)+","+col("v", "text", `"a"`)+","+col("w", "text", `"b"`), "", pkID)
	}
	move := func(n int, table string, columns ...string) string {
		return rowLine("U", n, table, strings.Join(append([]string{id(2)}, columns...), ","), id(1), pkID)
	}
	v, w, x := col("v", "text", `"a"`), col("w", "text", `"b"`), col("x", "integer", "1")
	for name, c := range map[string]struct{ log, table, missing string }{
		"column added, row whole":       {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t add x int")) + tx(300, move(300, "t", v, w, x)), "t", ""},
		"column added, row without":     {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t add x int")) + tx(300, move(300, "t", v, w)), "t", "does not carry x,"},
		"column dropped":                {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t drop w")) + tx(300, move(300, "t", v)), "t", ""},
		"column renamed, row whole":     {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t rename w to x")) + tx(300, move(300, "t", v, x)), "t", ""},
		"column renamed, row without":   {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t rename w to x")) + tx(300, move(300, "t", v)), "t", "does not carry x,"},
		"table renamed, row whole":      {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t rename to t2")) + tx(300, move(300, "t2", v, w)), "t2", ""},
		"table renamed, row without":    {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t rename to t2")) + tx(300, move(300, "t2", v)), "t2", "does not carry w,"},
		"renamed twice and changed":     {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t drop w"), other(200), ddl(200, "", "alter table t rename to t1"), ddl(200, "", "alter table t1 add x int"), ddl(200, "", "alter table t1 rename to t2")) + tx(300, move(300, "t2", v)), "t2", "does not carry x,"},
		"created by the log":            {tx(100, ddl(100, "", "create table t(id bigint primary key, v text, w text)")) + tx(300, move(300, "t", v)), "t", "does not carry w,"},
		"dropped and created":           {tx(100, full(100)) + tx(200, ddl(200, "", "drop table t"), other(200), ddl(200, "", "create table t(id bigint primary key, v text)")) + tx(300, move(300, "t", v)), "t", ""},
		"another table under that name": {tx(100, full(100)) + tx(200, ddl(200, "", "alter table t rename to t2"), ddl(200, "", "create table t(id bigint primary key, v text)")) + tx(300, move(300, "t", v)), "t", ""},
		"nothing known":                 {tx(200, ddl(200, "", "alter table t add x int")) + tx(300, move(300, "t", v)), "t", "no insert of the log tells"},
	} {
		t.Run(name, func(t *testing.T) {
			path := logFile(t, c.log)
			for _, start := range []fsm.Position{{}, rowsAt(100), eventAt(100), rowsAt(199), rowsAt(200), eventAt(200), fsm.At(299)} {
				s := of(c.table, spec(path))
				s.Start = start
				got, err := drain(t, open(t, s))
				if c.missing == "" {
					require.NoError(t, err, "start %s", start)
					require.Contains(t, strings.Join(got, "\n"), "300/rows; delete(1); upsert(2)")
					continue
				}
				require.Equal(t, ReasonKeyChange, stopOf(t, err).Reason, "start %s", start)
				require.Contains(t, stopOf(t, err).Text, c.missing, "start %s", start)
			}
		})
	}
}

// TestSpanReadersFindEventsWhateverTheirKeys: an event concerns every span of its table.
func TestSpanReadersFindEventsWhateverTheirKeys(t *testing.T) {
	cut, err := keycode.Parse("100", []string{"bigint"})
	require.NoError(t, err)
	s := spec(logFile(t, mixed()))
	s.Span = fsm.Span{Start: cut}
	require.Equal(t, eventsOf(transactions(t, spec(logFile(t, mixed())))), eventsOf(transactions(t, s)))
}

func TestSurveyTellsWhichTablesTheLogCreates(t *testing.T) {
	s, err := SurveyLog(t.Context(), "wal2json:"+shopLog)
	require.NoError(t, err)
	created := make(map[string]fsm.Position)
	for _, table := range s.Tables {
		created[table.Table.Name] = table.Created
	}
	require.Equal(t, map[string]fsm.Position{
		"orders": eventAt(84433552), "order_items": eventAt(84457208), "lines": eventAt(86913528),
		"pgbench_accounts": {}, "pgbench_branches": {}, "pgbench_history": {}, "pgbench_tellers": {},
	}, created)
	again := tx(100, insert(100, 1, "a"), ddl(100, "", "drop table t"), ddl(100, "", "create table t(id int)")) +
		tx(200, ddl(200, "", "create table u(id int)"), other(200), ddl(200, "", "create table w(id int)"))
	s, err = SurveyLog(t.Context(), "wal2json:"+logFile(t, again))
	require.NoError(t, err)
	require.Equal(t, fsm.Position{}, s.Tables[0].Created, "it was there")
	require.Equal(t, eventAt(199), s.Tables[1].Created)
	require.Len(t, s.Tables, 2, "a table without rows is none of the log's")
}
