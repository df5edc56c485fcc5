package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// feed is a changefeed that writes to a file: its trigger, and what claims its tables.
type feed struct {
	t       *testing.T
	path    string
	name    string
	run     uint64
	sink    *Sink
	trigger dispatcher.SpanWriter
	epoch   uint64
}

func newFeed(t *testing.T, path, name string) *feed {
	t.Helper()
	f := &feed{t: t, path: path, name: name, run: 1, sink: newSink(t, Config{})}
	f.openTrigger()
	return f
}

func (f *feed) openTrigger() {
	f.t.Helper()
	f.epoch++
	f.trigger = open(f.t, f.sink, target{path: f.path, changefeed: f.name, trigger: true, run: f.run})
	claim(f.t, f.trigger, f.epoch, 1, fsm.Position{})
}

func (f *feed) table(name string) dispatcher.SpanWriter {
	f.t.Helper()
	f.epoch++
	w := open(f.t, f.sink, target{path: f.path, changefeed: f.name, table: name, run: f.run})
	claim(f.t, w, f.epoch, 1, fsm.Position{})
	return w
}

func (f *feed) try(ts uint64, statement string) (bool, error) {
	event := ddl(ts, statement)
	event.Key.Changefeed, event.Key.Run = f.name, f.run
	return f.trigger.WriteDDL(f.t.Context(), event, always)
}

func (f *feed) must(ts uint64, statement string) {
	f.t.Helper()
	done, err := f.try(ts, statement)
	require.NoError(f.t, err, statement)
	require.False(f.t, done, statement)
}

// rowOf is an upsert of a row with columns given as NAME TYPE VALUE; the first is the key.
func rowOf(t *testing.T, columns ...string) dispatcher.Change {
	t.Helper()
	c := dispatcher.Change{Op: dispatcher.OpUpsert}
	for _, text := range columns {
		f := strings.SplitN(text, " ", 3)
		declared := strings.ReplaceAll(f[1], "_", " ")
		kind := dispatcher.KindText
		switch {
		case strings.HasPrefix(declared, "int"), declared == "bigint", strings.HasPrefix(declared, "numeric"), declared == "real", strings.HasPrefix(declared, "double"):
			kind = dispatcher.KindNumber
		case declared == "boolean":
			kind = dispatcher.KindBool
		}
		if f[2] == "NULL" {
			kind, f[2] = dispatcher.KindNull, ""
		}
		c.Columns = append(c.Columns, dispatcher.Column{Name: f[0], Type: declared, Value: dispatcher.Value{Kind: kind, Text: f[2]}})
	}
	c.PK = c.Columns[:1]
	return c
}

func (f *feed) rows(w dispatcher.SpanWriter, ts uint64, rows ...[]string) {
	f.t.Helper()
	var changes []dispatcher.Change
	for _, r := range rows {
		changes = append(changes, rowOf(f.t, r...))
	}
	write(f.t, w, ts, changes...)
}

// layoutOf prints a table of the file: its columns, the key, and what is noted of it.
func layoutOf(t *testing.T, path, table string) string {
	t.Helper()
	return strings.Join(query(t, path, fmt.Sprintf("SELECT name || ' ' || type || CASE WHEN pk > 0 THEN ' key' || pk ELSE '' END FROM pragma_table_info('%s') ORDER BY cid",
		strings.ReplaceAll(table, "'", "''"))), ", ")
}

func TestEventIsWrittenOnceWithItsRecord(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	f.must(5, "create table t(id bigint primary key, v text)")
	f.must(6, "alter table t add note text default 'x'")
	old := f.trigger
	f.openTrigger()
	done, err := f.try(6, "alter table t add note text default 'x'")
	require.NoError(t, err)
	require.True(t, done, "the record of the first one is found")
	_, err = old.WriteDDL(t.Context(), ddl(7, "drop table t"), always)
	var fenced *dispatcher.FencedError
	require.ErrorAs(t, err, &fenced)
	require.Equal(t, "id INTEGER key1, v TEXT, note TEXT", layoutOf(t, f.path, "t"))
	require.Equal(t, []string{"5|2|1", "6|2|1"}, query(t, f.path, "SELECT ts, stage, epoch FROM weir_ddl ORDER BY ts"))
	_, err = f.trigger.WriteDDL(t.Context(), dispatcher.DDL{Key: dispatcher.DDLKey{Position: at(9)}}, always)
	require.ErrorContains(t, err, "an event cannot stand at 9/rows")
	require.ErrorContains(t, f.trigger.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{put(1, "a")}}, always), "writes no rows")
	write(t, f.trigger, 10)
	require.Equal(t, at(10), claim(t, f.trigger, f.epoch, 2, fsm.Position{}), "a trigger stores its progress")
}

func TestTriggersClaimARangeOfTheirOwn(t *testing.T) {
	path := dbPath(t)
	shop, other := newFeed(t, path, "shop"), newFeed(t, path, "other")
	shop.must(1, "create table a(id bigint primary key)")
	other.must(1, "create table b(id bigint primary key)")
	require.Equal(t, []string{"weir_trigger/c1/other", "weir_trigger/c1/shop"}, query(t, path, "SELECT table_name FROM weir_fence ORDER BY table_name"))
	_, err := shop.sink.Open(t.Context(), target{path: path, table: "weir_trigger/c1/shop"}.spec())
	require.Equal(t, ReasonTableName, stop(t, err).Reason, "no table is called so")
	require.NoError(t, shop.trigger.Delete(t.Context(), always))
	require.Equal(t, []string{"other"}, query(t, path, "SELECT changefeed FROM weir_ddl"), "its records are gone, and no others")
}

func TestSyncPointIsRecordedOnce(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	event := dispatcher.DDL{Key: dispatcher.DDLKey{Changefeed: "shop", Run: 1, Position: fsm.Position{TS: 40, Stage: fsm.StageSyncPoint}}}
	for _, want := range []bool{false, true} {
		done, err := f.trigger.WriteDDL(t.Context(), event, always)
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	require.Equal(t, []string{"c1|shop|1|40|1|1"}, query(t, f.path, "SELECT cluster, changefeed, run, ts, epoch, claim FROM weir_syncpoints"))
	require.Empty(t, query(t, f.path, "SELECT ts FROM weir_ddl"))
	event.Key.Run = 2
	done, err := f.trigger.WriteDDL(t.Context(), event, always)
	require.NoError(t, err)
	require.False(t, done, "another run's is another one")
}

// changes are schema changes of a table t with two rows, and what the table is afterwards.
func changes() []struct{ statement, layout, rows string } {
	const before = "id INTEGER key1, n INTEGER, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT"
	const rows = "1|5|1.50|a|1|x   ; 2|<nil>|-0.05|<nil>|0|<nil>"
	return []struct{ statement, layout, rows string }{
		{"truncate t", before, ""},
		{"alter table t add note text", before + ", note TEXT", "1|5|1.50|a|1|x   |<nil>; 2|<nil>|-0.05|<nil>|0|<nil>|<nil>"},
		{`alter table t add "größe ""x""" numeric(6,2) not null default 7`, before + `, größe "x" DECIMAL_TEXT`, "1|5|1.50|a|1|x   |7.00; 2|<nil>|-0.05|<nil>|0|<nil>|7.00"},
		{"alter table t add ok bool default true, add n2 int default -1, drop n", "id INTEGER key1, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT, ok BOOLEAN, n2 INTEGER", "1|1.50|a|1|x   |1|-1; 2|-0.05|<nil>|0|<nil>|1|-1"},
		{"alter table t drop column n, drop column if exists nothing", "id INTEGER key1, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", "1|1.50|a|1|x   ; 2|-0.05|<nil>|0|<nil>"},
		{"alter table t rename n to \"N 2\"", "id INTEGER key1, N 2 INTEGER, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t rename n to \"N\"", "id INTEGER key1, N INTEGER, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t rename id to key", "key INTEGER key1, n INTEGER, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t alter n type bigint", before, rows},
		{"alter table t alter s type varchar(20)", before, rows},
		{"alter table t alter n type text", "id INTEGER key1, n TEXT, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t alter n type numeric(8,3), alter d type numeric(8,1)", "id INTEGER key1, n DECIMAL_TEXT, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", "1|5.000|1.5|a|1|x   ; 2|<nil>|-0.1|<nil>|0|<nil>"},
		{"alter table t alter d type int, alter b type text", "id INTEGER key1, n INTEGER, d INTEGER, s TEXT, b TEXT, c TEXT", "1|5|2|a|true|x   ; 2|<nil>|0|<nil>|false|<nil>"},
		{"alter table t alter n type double precision", "id INTEGER key1, n REAL, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t alter c type text", before, "1|5|1.50|a|1|x; 2|<nil>|-0.05|<nil>|0|<nil>"},
		{"alter table t alter id type text", "id TEXT key1, n INTEGER, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t drop constraint t_pkey, add primary key (d, id)", "id INTEGER key2, n INTEGER, d DECIMAL_TEXT key1, s TEXT, b BOOLEAN, c TEXT", rows},
		{"alter table t drop id", "n INTEGER, d DECIMAL_TEXT, s TEXT, b BOOLEAN, c TEXT", "5|1.50|a|1|x   ; <nil>|-0.05|<nil>|0|<nil>"},
	}
}

// withRows is a file in which t was created and has two rows.
func withRows(t *testing.T) *feed {
	t.Helper()
	f := newFeed(t, dbPath(t), "shop")
	f.must(1, "create table t(id bigint primary key, n int, d numeric(6,2), s text, b bool, c char(4))")
	f.rows(f.table("t"), 2,
		[]string{"id bigint 1", "n integer 5", "d numeric(6,2) 1.50", "s text a", "b boolean true", "c character(4) x   "},
		[]string{"id bigint 2", "n integer NULL", "d numeric(6,2) -0.05", "s text NULL", "b boolean false", "c character(4) NULL"})
	return f
}

func allRows(t *testing.T, path, table string) string {
	t.Helper()
	return strings.Join(query(t, path, "SELECT * FROM "+quote(table)+" ORDER BY rowid"), "; ")
}

// TestChangesOfATable: each change alone, with an index and a view of the sink's users in the way, and then again under
// another run.
func TestChangesOfATable(t *testing.T) {
	for _, c := range changes() {
		t.Run(c.statement, func(t *testing.T) {
			f := withRows(t)
			query(t, f.path, "CREATE VIEW users_view AS SELECT id FROM t")
			query(t, f.path, "CREATE INDEX users_index ON t(id)")
			if strings.Contains(c.statement, "drop id") {
				query(t, f.path, "DROP INDEX users_index")
				query(t, f.path, "DROP VIEW users_view")
			}
			f.must(10, c.statement)
			require.Equal(t, c.layout, layoutOf(t, f.path, "t"))
			require.Equal(t, c.rows, allRows(t, f.path, "t"))
			f.run, f.epoch = 2, f.epoch+10
			f.openTrigger()
			f.must(10, c.statement)
			require.Equal(t, c.layout, layoutOf(t, f.path, "t"), "again under another run")
			require.Equal(t, c.rows, allRows(t, f.path, "t"), "again under another run")
			require.Empty(t, query(t, f.path, "SELECT name FROM sqlite_schema WHERE name LIKE 'weir_re%' OR name LIKE 'weir_cast%'"))
			if !strings.Contains(c.statement, "drop id") {
				require.Equal(t, []string{"users_index", "users_view"}, query(t, f.path, "SELECT name FROM sqlite_schema WHERE name LIKE 'users%' ORDER BY name"))
			}
		})
	}
}

// TestRowsAfterAChange: writers that were there before, in the same process, write the new layout at once.
func TestRowsAfterAChange(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	f.must(1, "create table t(id bigint primary key, n int)")
	w := f.table("t")
	f.rows(w, 2, []string{"id bigint 1", "n integer 1"})
	f.must(3, "alter table t add v text default 'old'")
	f.rows(w, 4, []string{"id bigint 2", "n integer 2", "v text new"})
	f.must(5, "alter table t alter n type text, drop v")
	f.rows(w, 6, []string{"id bigint 3", "n text three"})
	f.must(7, "alter table t rename id to key")
	f.rows(w, 8, []string{"key bigint 4", "n text four"})
	require.Equal(t, "1|1; 2|2; 3|three; 4|four", allRows(t, f.path, "t"))
	require.NoError(t, w.Delete(t.Context(), always))
	require.Empty(t, allRows(t, f.path, "t"), "the key is known by its new name")
}

func TestNamesOfTablesChange(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	create := func(ts uint64, name string) {
		f.must(ts, "create table "+name+"(id bigint primary key, v text)")
	}
	tables := func() string {
		return strings.Join(query(t, f.path, "SELECT s.name || '=' || r.source_schema || '.' || r.source_table FROM sqlite_schema s LEFT JOIN weir_tables r ON r.name = s.name COLLATE BINARY WHERE s.type = 'table' AND s.name NOT LIKE 'weir_%' ORDER BY s.name"), " ")
	}
	create(1, "a")
	create(2, `s."Größe ""x"""`)
	f.rows(f.table("a"), 3, []string{"id bigint 1", "v text one"})
	require.Equal(t, `a=public.a s.Größe "x"=s.Größe "x"`, tables())
	f.must(4, "alter table a rename to b")
	require.Equal(t, "1|one", allRows(t, f.path, "b"))
	f.must(5, "alter table b rename to \"B\"")
	f.must(6, `alter table s."Größe ""x""" set schema public`)
	require.Equal(t, `B=public.B Größe "x"=public.Größe "x"`, tables())
	require.Equal(t, []string{"B|id", "B|v", `Größe "x"|id`, `Größe "x"|v`}, query(t, f.path, "SELECT table_name, name FROM weir_columns ORDER BY table_name, name"))
	create(7, "a")
	f.must(8, `drop table a, "B", "Größe ""x""", unknown`)
	require.Empty(t, tables())
	require.Empty(t, query(t, f.path, "SELECT name FROM weir_tables"))
	require.Empty(t, query(t, f.path, "SELECT name FROM weir_columns"))
	f.must(9, "drop table a")
	f.must(10, "alter table a rename to c")
	f.must(11, "alter table a add x int")
	f.must(12, "truncate a")
	require.Empty(t, tables(), "what is not there needs nothing")
}

// TestTableCreatedAgainUnderAnOldName starts clean: neither rows nor resume positions of the old one count.
func TestTableCreatedAgainUnderAnOldName(t *testing.T) {
	for _, away := range []string{"drop table t", "alter table t rename to t2"} {
		f := newFeed(t, dbPath(t), "shop")
		f.must(1, "create table t(id bigint primary key, v text)")
		old := f.table("t")
		f.rows(old, 10, []string{"id bigint 1", "v text old"})
		f.must(20, away)
		f.must(30, "create table t(id text primary key)")
		f.epoch++
		again := open(t, f.sink, target{path: f.path, table: "t"})
		start := fsm.Position{TS: 30, Stage: fsm.StageDDL}
		require.Equal(t, start, claim(t, again, f.epoch, 1, start), "the old one's resume position is before")
		var fenced *dispatcher.FencedError
		require.ErrorAs(t, old.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{put(2, "zombie")}, Resume: at(40)}, always), &fenced)
		f.rows(again, 31, []string{"id text new"})
		require.Equal(t, "new", allRows(t, f.path, "t"))
		require.Equal(t, at(31), claim(t, again, f.epoch, 2, start))
	}
}

func TestTablesOfOthersAreLeftAlone(t *testing.T) {
	path := dbPath(t)
	query(t, path, "CREATE TABLE mine (id INTEGER PRIMARY KEY, v TEXT)")
	other := newFeed(t, path, "other")
	other.must(1, "create table theirs(id bigint primary key, v text)")
	other.rows(other.table("theirs"), 2, []string{"id bigint 1", "v text a"})
	f := newFeed(t, path, "shop")
	for i, name := range []string{"mine", "theirs"} {
		before := layoutOf(t, path, name)
		for j, statement := range []string{"alter table %s add x int", "truncate %s", "alter table %s rename to gone", "drop table %s"} {
			f.must(uint64(10+10*i+j), fmt.Sprintf(statement, name))
		}
		require.Equal(t, before, layoutOf(t, path, name))
	}
	require.Equal(t, "1|a", allRows(t, path, "theirs"))
	other.must(9, "drop table theirs")
	require.Empty(t, layoutOf(t, path, "theirs"), "their own trigger does")
}

func TestCreateMeetsATable(t *testing.T) {
	path := dbPath(t)
	query(t, path, "CREATE TABLE fits (id INTEGER PRIMARY KEY, v TEXT, more TEXT)")
	query(t, path, "CREATE TABLE short (id INTEGER PRIMARY KEY)")
	query(t, path, "CREATE TABLE typed (id INTEGER PRIMARY KEY, v INTEGER)")
	query(t, path, "CREATE TABLE keyed (id INTEGER, v TEXT PRIMARY KEY)")
	f := newFeed(t, path, "shop")
	f.must(1, "create table fits(id bigint primary key, v text)")
	require.Equal(t, "id INTEGER key1, v TEXT, more TEXT", layoutOf(t, path, "fits"))
	f.must(2, "create table if not exists short(id bigint primary key, v text)")
	for table, why := range map[string]string{"short": "it has no column v", "typed": "its column v is declared INTEGER, not TEXT", "keyed": "its primary key is (v), not (id)"} {
		_, err := f.try(3, "create table "+table+"(id bigint primary key, v text)")
		require.Equal(t, ReasonDDL, stop(t, err).Reason)
		require.ErrorContains(t, err, why)
	}
	_, err := f.try(4, `create table "FITS"(id bigint primary key, v text)`)
	require.ErrorContains(t, err, "which is the replica of public.fits already")
}

// TestRunThatBeginsBeforeARename: rows of the old name make a table of that name again; the table with the new name, in
// which all that came later is, stays.
func TestRunThatBeginsBeforeARename(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	f.must(1, "create table a(id bigint primary key, v text)")
	f.rows(f.table("a"), 5, []string{"id bigint 1", "v text first"})
	f.must(10, "alter table a rename to b")
	f.rows(f.table("b"), 15, []string{"id bigint 2", "v text second"})
	f.must(20, "alter table b add x int")
	f.run = 2
	f.openTrigger()
	f.rows(f.table("a"), 5, []string{"id bigint 1", "v text first"})
	f.must(10, "alter table a rename to b")
	require.Equal(t, "1|first|<nil>; 2|second|<nil>", allRows(t, f.path, "b"))
	require.Empty(t, layoutOf(t, f.path, "a"))
	f.must(20, "alter table b add x int")
	f.rows(f.table("b"), 25, []string{"id bigint 2", "v text second", "x integer 1"})
	f.run = 3
	f.openTrigger()
	f.must(1, "create table a(id bigint primary key, v text)")
	f.must(10, "alter table a rename to b")
	require.Equal(t, "1|first|<nil>; 2|second|1", allRows(t, f.path, "b"))
}

// TestRunThatBeginsBeforeACreate: the table has another layout by now, and is made anew, empty as it then was.
func TestRunThatBeginsBeforeACreate(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	f.must(1, "create table a(id bigint primary key, v text)")
	f.rows(f.table("a"), 5, []string{"id bigint 1", "v text first"})
	f.must(10, "alter table a drop v")
	f.run = 2
	f.openTrigger()
	f.must(1, "create table a(id bigint primary key, v text)")
	require.Equal(t, "id INTEGER key1, v TEXT", layoutOf(t, f.path, "a"))
	f.rows(f.table("a"), 5, []string{"id bigint 1", "v text first"})
	f.must(10, "alter table a drop v")
	require.Equal(t, "1", allRows(t, f.path, "a"))
}

// TestChangesThatCannotBeMade name the statement, the place, why, and the way out; they leave nothing behind.
func TestChangesThatCannotBeMade(t *testing.T) {
	for statement, why := range map[string]string{
		"create table x as select 1":                                      "the log does not carry those rows as changes",
		"do $$ begin end $$":                                              "what it does to tables cannot be told from its text",
		"alter table t add x timestamptz default now()":                   "the upstream computed the value of column x in each row",
		"alter table t add id2 bigserial":                                 "the upstream computed the value of column id2",
		"alter table t add x inet default '10.0.0.1'":                     `how the upstream stores the default "10.0.0.1" of column x of type inet is not known`,
		"alter table t alter n type int using length(s)":                  "it computes new values of column n by an expression",
		"alter table t alter s type inet using s::inet":                   "what becomes of values of type text as inet is not known",
		"alter table t alter s type int using s::int":                     "value a of column s",
		"alter table t add n text":                                        "column n is there and declared INTEGER",
		"alter table t rename n to s":                                     "column s is there already",
		"alter table t drop constraint t_pkey, add primary key (nothing)": "column nothing of the new primary key is not there",
		"alter table t drop constraint t_pkey, add primary key (n)":       "rows without a value in the new primary key",
		"alter table t drop constraint t_pkey, add primary key (c, b)":    "rows without a value",
		"alter table t drop s":                                            "SQLite refuses it",
		"alter table t rename to u":                                       `a table "u" is there already`,
		"alter table t rename to weir_x":                                  "names that begin with weir_ or sqlite_ are reserved",
		"create table weir_x(id int)":                                     "names that begin with weir_ or sqlite_ are reserved",
		`create table x(a int, "A" int)`:                                  "SQLite cannot tell column A from a",
	} {
		t.Run(statement, func(t *testing.T) {
			f := withRows(t)
			query(t, f.path, "CREATE TABLE u (id INTEGER)")
			query(t, f.path, "CREATE INDEX users_index ON t(s)")
			layout, rows, noted := layoutOf(t, f.path, "t"), allRows(t, f.path, "t"), query(t, f.path, "SELECT * FROM weir_columns, weir_tables")
			_, err := f.try(10, statement)
			refusal := stop(t, err)
			require.Equal(t, ReasonDDL, refusal.Reason)
			require.Contains(t, refusal.Text, why)
			require.Contains(t, refusal.Text, fmt.Sprintf("the schema change %q at position 10/ddl cannot be made at sqlite:%s", statement, f.path))
			require.Equal(t, layout, layoutOf(t, f.path, "t"))
			require.Equal(t, rows, allRows(t, f.path, "t"))
			require.Equal(t, noted, query(t, f.path, "SELECT * FROM weir_columns, weir_tables"))
			_, remedy, found := strings.Cut(refusal.Text, "resume the changefeed: ")
			require.True(t, found)
			query(t, f.path, remedy)
			done, err := f.try(10, statement)
			require.NoError(t, err)
			require.True(t, done, "said so by hand, it is passed")
		})
	}
}

func TestKeyOfASplitTableCannotChange(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	f.must(1, "create table t(id bigint primary key, n int)")
	for i, span := range []fsm.Span{between(0, 10), between(10, 0)} {
		claim(t, open(t, f.sink, target{path: f.path, span: span}), uint64(10+i), 1, fsm.Position{})
	}
	for _, statement := range []string{"alter table t drop constraint t_pkey, add primary key (n)", "alter table t alter id type text"} {
		_, err := f.try(5, statement)
		require.ErrorContains(t, err, "table t, which is split into 2 spans by its keys; merge the spans")
	}
	f.must(6, "alter table t alter id type int")
}

// TestChangeOfManyValues: more different values than one page, and the transaction ends as it should when the lease does.
func TestChangeOfManyValues(t *testing.T) {
	f := newFeed(t, dbPath(t), "shop")
	f.must(1, "create table t(id bigint primary key, n int, s text)")
	var rows [][]string
	for i := range 2*castPage + 7 {
		rows = append(rows, []string{fmt.Sprintf("id bigint %d", i), fmt.Sprintf("n integer %d", -i), "s text same"})
	}
	f.rows(f.table("t"), 2, rows...)
	asked := 0
	_, err := f.trigger.WriteDDL(t.Context(), ddl(3, "alter table t alter n type numeric(9,1)"), func() error {
		if asked++; asked == 2 {
			return ErrClosed
		}
		return nil
	})
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, []string{"0"}, query(t, f.path, "SELECT max(n) FROM t"))
	f.must(3, "alter table t alter n type numeric(9,1)")
	require.Equal(t, []string{fmt.Sprintf("%d|%d", len(rows), len(rows))}, query(t, f.path, "SELECT count(*), sum(n = -id || '.0' OR (id = 0 AND n = '0.0')) FROM t"))
}
