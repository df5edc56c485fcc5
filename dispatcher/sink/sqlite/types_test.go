package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fsm"
)

// typed is a column as the source would give it.
func typed(name, declared, text string) dispatcher.Column {
	kind := dispatcher.KindText
	switch keycode.ClassOf(declared) {
	case keycode.ClassInteger, keycode.ClassDecimal, keycode.ClassFloat:
		kind = dispatcher.KindNumber
	case keycode.ClassBool:
		kind = dispatcher.KindBool
	case keycode.ClassBytes:
		kind = dispatcher.KindBytes
	case keycode.ClassText:
	}
	return dispatcher.Column{Name: name, Type: declared, Value: dispatcher.Value{Kind: kind, Text: text}}
}

func keyed(t require.TestingT, declared, text string) dispatcher.Change {
	pk := []dispatcher.Column{typed("k", declared, text)}
	key, err := keycode.Encode(pk)
	require.NoError(t, err)
	return dispatcher.Change{Op: dispatcher.OpUpsert, Key: key, PK: pk, Columns: pk}
}

// TestValuesRoundTripExactly: what is read back from the file is the source's value, bit for bit.
func TestValuesRoundTripExactly(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	db, err := sql.Open(driverName, dsn(path, 5*time.Second))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	ts := uint64(0)
	check := func(t require.TestingT, integer, decimal, float, text, raw string, flag bool) {
		ts++
		pk := idColumn(1)
		change := dispatcher.Change{Op: dispatcher.OpUpsert, Key: intKey(1), PK: []dispatcher.Column{pk}, Columns: []dispatcher.Column{
			pk, typed("i", "bigint", integer), typed("d", "numeric(40,10)", decimal), typed("f", "double precision", float),
			typed("s", "timestamp with time zone", text), typed("b", "bytea", raw), typed("o", "boolean", strconv.FormatBool(flag)),
			{Name: "n", Type: "text", Value: dispatcher.Value{Kind: dispatcher.KindNull}},
		}}
		err := w.Write(background(), dispatcher.Batch{Changes: []dispatcher.Change{change}, Resume: at(ts)}, always)
		require.NoError(t, err)
		var i, o int64
		var f float64
		var d, s, kind string
		var b []byte
		var n any
		row := db.QueryRowContext(background(), "SELECT i, d, f, s, b, typeof(b), o, n FROM t")
		require.NoError(t, row.Scan(&i, &d, &f, &s, &b, &kind, &o, &n))
		require.Equal(t, integer, strconv.FormatInt(i, 10))
		require.Equal(t, decimal, d)
		want, err := strconv.ParseFloat(float, 64)
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(want+0), math.Float64bits(f), float) // +0 turns -0 into 0
		require.Equal(t, text, s)
		require.Equal(t, raw, string(b))
		require.Equal(t, "blob", kind, "empty is not null")
		require.Equal(t, flag, o == 1)
		require.Nil(t, n)
	}
	check(t, "9007199254740993", "6.00", "0.1", "2026-12-01 13:10:18.349895+00", "\x00\xff", true)
	check(t, "-9223372036854775808", "-0.0000000001", "-0", "", "", false)
	check(t, "0", "123456789012345678901234567890.1234567890", "Infinity", "1.0", "1", true)
	check(t, "0", "1e5", "5e-324", "a\x00b", "a\x00b", true)
	rapid.Check(t, func(t *rapid.T) {
		float := math.Float64frombits(rapid.Uint64().Draw(t, "float"))
		if math.IsNaN(float) {
			float = 1
		}
		check(t,
			strconv.FormatInt(rapid.Int64().Draw(t, "integer"), 10),
			rapid.StringMatching(`-?[1-9][0-9]{0,25}\.[0-9]{1,10}`).Draw(t, "decimal"),
			strconv.FormatFloat(float, 'g', -1, 64),
			rapid.String().Draw(t, "text"),
			string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")),
			rapid.Bool().Draw(t, "flag"))
	})
}

func TestNaNIsKept(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	c := put(1, "a")
	c.Columns = append(c.Columns, typed("f", "real", "NaN"), typed("d", "numeric", "NaN"))
	write(t, w, 1, c)
	require.Equal(t, []string{"NaN|NaN"}, query(t, path, "SELECT f, d FROM t"))
}

func TestValuesThatDoNotFit(t *testing.T) {
	w := open(t, newSink(t, Config{}), target{path: dbPath(t)})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	for declared, text := range map[string]string{"bigint": "9223372036854775808", "integer": "1.5", "double precision": "1e999", "real": "x", "boolean": "maybe"} {
		_, err := bind(typed("c", declared, text))
		require.Equal(t, ReasonValue, stop(t, err).Reason)
		require.ErrorContains(t, err, "column c of type "+declared)
	}
}

func TestTablesThatDoNotFit(t *testing.T) {
	for schema, text := range map[string]string{
		"id INTEGER PRIMARY KEY":                             `no column v, which the source sends as text; add it at the sink: ALTER TABLE "t" ADD COLUMN "v" TEXT`,
		"id INTEGER, v TEXT":                                 "its primary key is (), the source's is (id)",
		"id INTEGER, v TEXT, PRIMARY KEY (id, v)":            "its primary key is (id, v)",
		"id INTEGER PRIMARY KEY, v NUMERIC":                  "column v is declared NUMERIC, which would change values of the source's type text; declare it TEXT",
		"id TEXT PRIMARY KEY, v TEXT":                        "column id is declared TEXT",
		"id INTEGER PRIMARY KEY, v TIMESTAMP":                "column v is declared TIMESTAMP",
		"id INTEGER PRIMARY KEY, v TEXT, a TEXT NOT NULL":    "",
		"ID BIGINT PRIMARY KEY, V VARCHAR(20)":               "",
		"id INTEGER PRIMARY KEY, v, extra DECIMAL DEFAULT 0": "",
	} {
		path := dbPath(t)
		db, err := sql.Open(driverName, dsn(path, 5*time.Second))
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "CREATE TABLE t ("+schema+")")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		w := open(t, newSink(t, Config{}), target{path: path})
		claim(t, w, 1, 1, fsm.Position{})
		c := put(1, "a")
		if schema == "id INTEGER PRIMARY KEY, v TEXT, a TEXT NOT NULL" {
			c.Columns = append(c.Columns, textColumn("a", "x"))
		}
		err = w.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{c}, Resume: at(1)}, always)
		if text == "" {
			require.NoError(t, err, schema)
			continue
		}
		require.Equal(t, ReasonMismatch, stop(t, err).Reason, schema)
		require.ErrorContains(t, err, text)
		require.Equal(t, []string{"0"}, query(t, path, "SELECT count(*) FROM t"))
	}
}

func TestNewColumnAtTheSource(t *testing.T) {
	w := open(t, newSink(t, Config{}), target{path: dbPath(t)})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	c := put(1, "b")
	c.Columns = append(c.Columns, typed("price", "numeric(9,2)", "1.50"))
	err := w.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{c}, Resume: at(2)}, always)
	require.ErrorContains(t, err, `SCHEMA_MISMATCH: table t at the sink: it has no column price`)
	require.ErrorContains(t, err, `ADD COLUMN "price" DECIMAL_TEXT`)
}

func TestCreatedTableHasTheSourcesTypes(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: path, table: `odd "name`})
	claim(t, w, 1, 1, fsm.Position{})
	pk := []dispatcher.Column{typed("order", "bigint", "1"), typed("line no", "integer", "2")}
	cols := append(slices.Clone(pk), typed("amount", "numeric(12,2)", "6.00"), typed("f", "real", "1.5"), typed("b", "bytea", "x"), typed("o", "boolean", "true"), typed("at", "timestamp", "now"))
	write(t, w, 1, dispatcher.Change{Op: dispatcher.OpDelete, PK: pk})
	require.Empty(t, query(t, path, `SELECT name FROM pragma_table_info('odd "name')`), "a delete creates nothing")
	write(t, w, 2, dispatcher.Change{Op: dispatcher.OpUpsert, PK: pk, Columns: pk}, dispatcher.Change{Op: dispatcher.OpUpsert, PK: pk, Columns: cols})
	require.Equal(t, []string{"order|INTEGER|1|1", "line no|INTEGER|1|2", "amount|DECIMAL_TEXT|0|0", "f|REAL|0|0", "b|BLOB|0|0", "o|BOOLEAN|0|0", "at|TEXT|0|0"},
		query(t, path, `SELECT name, type, "notnull", pk FROM pragma_table_info('odd "name')`))
	require.Equal(t, []string{"1|2|6.00"}, query(t, path, `SELECT "order", "line no", amount FROM "odd ""name"`))
}

func TestTableNames(t *testing.T) {
	path := dbPath(t)
	s := newSink(t, Config{})
	at := func(schema, name string) error {
		spec := target{path: path}.spec()
		spec.Table = dispatcher.TableName{Schema: schema, Name: name}
		w, err := s.Open(t.Context(), spec)
		if err != nil {
			return err
		}
		defer func() { require.NoError(t, w.Close()) }()
		_, err = w.Claim(t.Context(), dispatcher.Token{Epoch: 1, Claim: 1}, fsm.Position{}, always)
		return err
	}
	require.NoError(t, at("public", "orders"))
	require.NoError(t, at("", "orders"), "no schema is public")
	require.NoError(t, at("sales", "orders"))
	for _, c := range []struct{ schema, name, text string }{
		{"public", "sales.orders", `would be "sales.orders" at the sink, which is the replica of sales.orders already`},
		{"public", "Orders", "which is the replica of public.orders already"},
		{"public", "weir_fence", "reserved"},
		{"public", "SQLite_x", "reserved"},
		{"public", "", "has no name"},
		{"public", "a\x00b", "zero byte"},
	} {
		err := at(c.schema, c.name)
		require.Equal(t, ReasonTableName, stop(t, err).Reason)
		require.ErrorContains(t, err, c.text)
	}
	require.Equal(t, []string{"orders|public|orders", "sales.orders|sales|orders"}, query(t, path, "SELECT name, source_schema, source_table FROM weir_tables ORDER BY name"))
}

func background() context.Context { return context.Background() }
