package schema

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

func TestMessages(t *testing.T) {
	for _, c := range []struct{ tag, object, sql, want string }{
		// names: the object is what the table is called afterwards
		{"ALTER TABLE", "public.lines", "alter table order_items rename to lines", "rename table public.order_items to public.lines"},
		{"ALTER TABLE", "shop.lines", "alter table order_items rename to lines", "rename table shop.order_items to shop.lines"},
		{"ALTER TABLE", "shop.lines", "alter table shop.order_items rename to lines", "rename table shop.order_items to shop.lines"},
		{"ALTER TABLE", `shop."Lines"`, `alter table "Order Items" rename to "Lines"`, "rename table shop.Order Items to shop.Lines"},
		{"ALTER TABLE", "archive.t", "alter table t set schema archive", "rename table public.t to archive.t"},
		{"ALTER TABLE", "archive.t", "alter table s.t set schema archive", "rename table s.t to archive.t"},
		{"ALTER TABLE", "shop.orders", "alter table orders add x int", "alter table shop.orders; add x integer"},
		{"CREATE TABLE", "shop.orders", "create table orders(id int primary key)", "create table shop.orders; id integer not null; key(id)"},
		{"DROP TABLE", "shop.a", "drop table a, b", "drop table shop.a, shop.b"},
		{"DROP TABLE", "shop.b", "drop table a, b", "drop table shop.a, shop.b"},
		{"DROP TABLE", "public.a", "drop table a, s.b", "drop table public.a, s.b"},
		{"DROP TABLE", "s.b", "drop table a, s.b", "unsupported : in which schema table a is cannot be told; write the schemas of all tables"},
		{"DROP TABLE", "public.p1", "drop table p", "drop table public.p, public.p1"},
		{"DROP TABLE", "p_check on public.p", "drop table p", "drop table public.p"},
		{"", "", "drop table p", "drop table public.p"},
		// one statement, several commands
		{"CREATE SEQUENCE", "public.t_id_seq", "create table t(id serial primary key)", "nothing "},
		{"CREATE INDEX", "public.t_pkey", "create table t(id serial primary key)", "nothing "},
		{"CREATE TABLE", "public.t", "create table t(id serial primary key)", "create table public.t; id integer not null computed; key(id)"},
		{"ALTER SEQUENCE", "public.t_id_seq", "alter table t add id serial", "nothing "},
		{"ALTER TABLE", "public.t", "alter table t owner to bob", "nothing "},
		{"CREATE TYPE", "public.mood", "create type mood as enum ('a')", "nothing "},
		{"COMMENT", "public.t", "comment on table t is 'x'", "nothing "},
		{"SOMETHING NEW", "public.t", "alter table t add x int", "alter table public.t; add x integer"},
		// several statements, one message each
		{"CREATE TABLE", "public.a", "create table a(x int); create table b(y int);", "create table public.a; x integer; key()"},
		{"CREATE TABLE", "public.b", "create table a(x int); create table b(y int);", "create table public.b; y integer; key()"},
		{"ALTER TABLE", "public.a", "create table a(x int); alter table a add y int", "alter table public.a; add y integer"},
		{"ALTER TABLE", "public.c", "alter table a rename to c; alter table d add x int", "rename table public.a to public.c"},
		{"ALTER TABLE", "public.a", "begin; alter table a owner to bob; create table b(x int); commit", "nothing "},
		{
			"ALTER TABLE", "public.a", "alter table a add x int; alter table a add y int",
			"unsupported : it is one of several statements that were sent together, and which one cannot be told; send them one by one",
		},
		{"", "", "begin; alter table a add x int; commit", "alter table public.a; add x integer"},
		// what ran inside of something else
		{"CREATE TABLE", "public.p1", "select make_partition(1)", "unsupported : the log says CREATE TABLE, but the statement is another one that did so inside; run it as a statement of its own"},
		{"ALTER TABLE", "public.p1", "do $$ begin execute 'alter table p1 add x int'; end $$", "unsupported : the log says ALTER TABLE, but the statement is another one that did so inside; run it as a statement of its own"},
		{"ALTER TABLE", "public.p1", "create table x(y int)", "unsupported : the log says ALTER TABLE, but the statement is another one that did so inside; run it as a statement of its own"},
		{"DROP TABLE", "public.p1", "select drop_partition(1)", "drop table public.p1"},
		{"DROP TABLE", `s."P 1"`, "", "drop table s.P 1"},
		{"DROP TABLE", "", "select drop_partition(1)", "unsupported : the log says DROP TABLE, but the statement is another one that did so inside; run it as a statement of its own"},
		{"CREATE TABLE AS", "public.t", "create table t as select 1", "unsupported public.t: its columns and rows come from a query, and the log does not carry those rows as changes"},
		{"SELECT INTO", "public.t", "select 1 as x into t", "unsupported : what it does to tables cannot be told from its text"},
		{"CREATE TABLE", "public.t", "", "unsupported : it holds no statement"},
	} {
		content, err := json.Marshal(map[string]string{"tag": c.tag, "object": c.object, "sql": c.sql})
		require.NoError(t, err)
		require.Equal(t, c.want, show(ParseMessage(string(content)).Change()), "%s %s: %s", c.tag, c.object, c.sql)
	}
}

func TestContentThatIsNoObjectIsTheStatement(t *testing.T) {
	for _, content := range []string{"drop table a", `{"other":1}`, "[]", "", `"x"`} {
		require.Equal(t, Message{SQL: content}, ParseMessage(content))
	}
	require.Equal(t, "DROP TABLE public.x", Message{Tag: "DROP TABLE", Object: "public.x"}.Text())
	require.Equal(t, "(a message without a statement)", Message{SQL: " \n"}.Text(), "a refusal must name something")
	require.Equal(t, "drop table x", Message{Tag: "DROP TABLE", Object: "public.x", SQL: "drop table x\n"}.Text())
}

func TestSpecsSayWhatTheStateMachineMustKnow(t *testing.T) {
	for _, c := range []struct {
		sql  string
		want fsm.BarrierSpec
	}{
		{"create table a(x int primary key)", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a")}, Add: []fsm.TableSpec{{Schema: "public", Name: "a"}}}},
		{"drop table a, s.b", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a"), ref("s", "b")}, Drop: []fsm.TableRef{ref("public", "a"), ref("s", "b")}}},
		{"alter table a rename to b", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a"), ref("public", "b")}, Rename: []fsm.TableRename{{From: ref("public", "a"), To: ref("public", "b")}}}},
		{"alter table a set schema s", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a"), ref("s", "a")}, Rename: []fsm.TableRename{{From: ref("public", "a"), To: ref("s", "a")}}}},
		{"alter table a add x int", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a")}}},
		{"truncate a, b", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a"), ref("public", "b")}}},
		{"create table a as select 1", fsm.BarrierSpec{Tables: []fsm.TableRef{ref("public", "a")}}},
		{"select f()", fsm.BarrierSpec{Influence: fsm.InfluenceAll}},
	} {
		change := Message{SQL: c.sql}.Change()
		want := c.want
		if want.Influence == 0 {
			want.Influence = fsm.InfluenceTables
		}
		want.Trigger, want.Statement = true, c.sql
		got := change.Spec(c.sql)
		require.True(t, want.Equal(&got), "%s: %+v", c.sql, got)
		inside := func(list []fsm.TableRef, one fsm.TableRef) bool { return change.Concerns(one) && len(list) > 0 }
		for _, one := range append(got.Drop, got.Tables...) {
			require.True(t, inside(got.Tables, one), "%s: effects lie inside the influence", c.sql)
		}
		if got.Influence == fsm.InfluenceTables {
			require.False(t, change.Concerns(ref("public", "other")))
		}
	}
	long := Message{SQL: "alter table a add x text default '" + string(make([]byte, 5000)) + "é'"}
	change := long.Change()
	spec := change.Spec(long.SQL)
	require.Len(t, spec.Statement, maxStatement)
}

func TestColumnsAfterAChange(t *testing.T) {
	before := []string{"a", "b"}
	for sql, want := range map[string][]string{
		"alter table t add c int, drop a, add b int":         {"b", "c"},
		"alter table t rename a to z":                        {"z", "b"},
		"alter table t alter a type text":                    {"a", "b"},
		"create table t(x int)":                              {"x"},
		"create table if not exists t(x int)":                {"a", "b"},
		"truncate t":                                         {"a", "b"},
		"drop table t":                                       nil,
		"alter table t rename to u":                          nil,
		"select f()":                                         nil,
		"create index i on t(a)":                             {"a", "b"},
		"alter table t drop column if exists nothing_of_it":  {"a", "b"},
		"alter table t add primary key (a)":                  {"a", "b"},
		"alter table t rename column nothing_of_it to other": {"a", "b"},
	} {
		change := Message{SQL: sql}.Change()
		require.Equal(t, want, change.ColumnsAfter(before), sql)
	}
	require.Equal(t, []string{"a", "b"}, before)
	unknown := Message{SQL: "alter table t add c int"}.Change()
	require.Nil(t, unknown.ColumnsAfter(nil), "what is not known stays so")
}

// TestDeepStatementsAreReadInTime: a statement is as deep as its author likes, and every reader reads it.
func TestDeepStatementsAreReadInTime(t *testing.T) {
	const n = 50_000
	for _, sql := range []string{
		"create table t(a int default " + strings.Repeat("(", n) + strings.Repeat(")", n) + ")",
		"create table t(a int default 1" + strings.Repeat("::int", n) + ")",
		"alter table t alter a type int using " + strings.Repeat("(", n) + "a" + strings.Repeat(")", n),
		"drop table " + strings.Repeat("a,", n) + "a",
		strings.Repeat("select 1;", n),
		strings.Repeat("/*", n), strings.Repeat("(", n), "create table t" + strings.Repeat("(", n),
	} {
		done := make(chan Change, 1)
		go func() { done <- Message{SQL: sql}.Change() }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			require.Fail(t, "too slow", sql[:40])
		}
	}
}

// FuzzMessage: whatever a message holds, its change has the form that others rely on, and is the same every time.
func FuzzMessage(f *testing.F) {
	for _, s := range statements() {
		f.Add("", "public.t", s[0])
		f.Add("ALTER TABLE", `s."T"`, s[0])
	}
	f.Fuzz(func(t *testing.T, tag, object, sql string) {
		m := Message{Tag: tag, Object: object, SQL: sql}
		c, again := m.Change(), m.Change()
		require.True(t, c.Same(&again))
		for _, table := range c.Influenced() {
			require.NotEmpty(t, table.Schema)
			require.NotEmpty(t, table.Name)
			require.True(t, c.Kind == KindNothing || c.Concerns(table))
		}
		switch c.Kind {
		case KindCreate, KindRename, KindAlter:
			require.Len(t, c.Tables, 1)
		case KindDrop, KindTruncate:
			require.NotEmpty(t, c.Tables)
		case KindUnsupported:
			require.NotEmpty(t, c.Why)
		case KindNothing:
		default:
			require.Fail(t, "unset kind")
		}
		if c.Kind == KindAlter {
			require.NotEmpty(t, c.Actions)
		}
		require.NotEmpty(t, m.Text())
		if c.Kind != KindNothing {
			spec := c.Spec(m.Text())
			require.LessOrEqual(t, len(spec.Statement), maxStatement)
		}
	})
}
