package sqlite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// upstream is a database in which random transactions change rows and tables, and which writes the log of it. It knows
// what each value must be at the end, by rules of its own.
type upstream struct {
	random *rand.Rand
	log    strings.Builder
	lines  []string // of the open transaction
	xid    int
	tables []*upTable
	serial int // of rows and names
}

type upTable struct {
	name    fsm.TableRef
	columns []upColumn
	key     []string
	rows    []map[string]dispatcher.Value
}

type upColumn struct{ name, declared string }

func val(text string, kind dispatcher.Kind) dispatcher.Value {
	return dispatcher.Value{Kind: kind, Text: text}
}

// value draws a value of a type; values of key columns are never null and never twice the same.
func (u *upstream) value(c upColumn, inKey bool) dispatcher.Value {
	u.serial++
	n := u.serial
	if !inKey && u.random.IntN(5) == 0 {
		return val("", dispatcher.KindNull)
	}
	switch c.declared {
	case "integer", "bigint":
		return val(strconv.Itoa(n), dispatcher.KindNumber)
	case "numeric(12,2)":
		return val(fmt.Sprintf("%d.%02d", n-500, n%100), dispatcher.KindNumber)
	case "numeric(12,3)":
		return val(fmt.Sprintf("%d.%03d", n, n%1000), dispatcher.KindNumber)
	case "double precision":
		return val(strconv.FormatFloat(float64(n)/7, 'g', -1, 64), dispatcher.KindNumber)
	case "boolean":
		return val(strconv.FormatBool(n%2 == 0), dispatcher.KindBool)
	case "integer[]":
		return val(fmt.Sprintf("{%d,NULL,%d}", n, -n), dispatcher.KindText)
	case "jsonb":
		return val(fmt.Sprintf(`{"n": %d, "s": "\"ü\n"}`, n), dispatcher.KindText)
	case "timestamp with time zone":
		return val(fmt.Sprintf("2026-01-02 03:04:%02d.%06d+00", n%60, n), dispatcher.KindText)
	default:
		return val(fmt.Sprintf("t%d '\"\\ é😀", n), dispatcher.KindText)
	}
}

func (u *upstream) types() []string {
	return []string{"integer", "bigint", "numeric(12,2)", "double precision", "boolean", "text", "integer[]", "jsonb", "timestamp with time zone"}
}

func raw(v dispatcher.Value) string {
	switch v.Kind {
	case dispatcher.KindNull:
		return "null"
	case dispatcher.KindNumber, dispatcher.KindBool:
		return v.Text
	case dispatcher.KindText, dispatcher.KindBytes:
	}
	text, err := json.Marshal(v.Text)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func quoteJSON(s string) string { return raw(val(s, dispatcher.KindText)) }

// cells prints columns of a row as the log does.
func cells(t *upTable, row map[string]dispatcher.Value, only func(string) bool) string {
	var parts []string
	for _, c := range t.columns {
		if only(c.name) {
			parts = append(parts, fmt.Sprintf(`{"name":%s,"type":%q,"value":%s}`, quoteJSON(c.name), c.declared, raw(row[c.name])))
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (u *upstream) rowLine(action string, t *upTable, columns, identity string) {
	var pk []string
	for _, k := range t.key {
		i := slices.IndexFunc(t.columns, func(c upColumn) bool { return c.name == k })
		pk = append(pk, fmt.Sprintf(`{"name":%s,"type":%q}`, quoteJSON(k), t.columns[i].declared))
	}
	line := fmt.Sprintf(`{"action":%q,"xid":%d,"schema":%s,"table":%s,"pk":[%s]`, action, u.xid, quoteJSON(t.name.Schema), quoteJSON(t.name.Name), strings.Join(pk, ","))
	if columns != "" {
		line += `,"columns":` + columns
	}
	if identity != "" {
		line += `,"identity":` + identity
	}
	u.lines = append(u.lines, line+"}")
}

func (u *upstream) ddl(tag string, object fsm.TableRef, statement string) {
	name := quote(object.Schema) + "." + quote(object.Name)
	content := fmt.Sprintf(`{"tag":%q,"object":%s,"sql":%s}`, tag, quoteJSON(name), quoteJSON(statement))
	u.lines = append(u.lines, fmt.Sprintf(`{"action":"M","xid":%d,"transactional":true,"prefix":"ddl","content":%s}`, u.xid, quoteJSON(content)))
}

// fresh is a name that no table, or no column, has now; names come again.
func (u *upstream) fresh(taken func(string) bool, names ...string) string {
	for {
		name := names[u.random.IntN(len(names))]
		if u.random.IntN(3) == 0 {
			name = fmt.Sprintf("%s %d", name, u.random.IntN(4))
		}
		if !taken(name) {
			return name
		}
	}
}

func (u *upstream) tableName() fsm.TableRef {
	schema := []string{"public", "public", "app"}[u.random.IntN(3)]
	name := u.fresh(func(name string) bool {
		return slices.ContainsFunc(u.tables, func(t *upTable) bool { return t.name == fsm.TableRef{Schema: schema, Name: name} })
	}, "orders", "Ünï \"x\"", "a.b", "items")
	return fsm.TableRef{Schema: schema, Name: name}
}

func (t *upTable) columnName(u *upstream) string {
	return u.fresh(func(name string) bool {
		return slices.ContainsFunc(t.columns, func(c upColumn) bool { return sameName(c.name, name) })
	}, "v", "größe", "select", "It's")
}

func (t *upTable) isKey(name string) bool { return slices.Contains(t.key, name) }

func (u *upstream) create() {
	t := &upTable{name: u.tableName()}
	keys := []string{"integer", "text", "numeric(12,2)", "bigint"}
	for i := range 1 + u.random.IntN(2) {
		t.key = append(t.key, fmt.Sprintf("k%d", i))
		t.columns = append(t.columns, upColumn{t.key[i], keys[u.random.IntN(len(keys))]})
	}
	for range u.random.IntN(4) {
		t.columns = append(t.columns, upColumn{t.columnName(u), u.types()[u.random.IntN(len(u.types()))]})
	}
	var parts []string
	for _, c := range t.columns {
		parts = append(parts, quote(c.name)+" "+c.declared)
	}
	u.tables = append(u.tables, t)
	u.ddl("CREATE TABLE", t.name, fmt.Sprintf("create table %s (%s, primary key (%s))", u.spell(t.name), strings.Join(parts, ", "), quotedList(t.key)))
}

// spell writes a table's name, with its schema or, if that needs no telling, without.
func (u *upstream) spell(ref fsm.TableRef) string {
	if ref.Schema == "public" && u.random.IntN(2) == 0 {
		return quote(ref.Name)
	}
	return quote(ref.Schema) + "." + quote(ref.Name)
}

func (u *upstream) pick() *upTable { return u.tables[u.random.IntN(len(u.tables))] }

// change makes one random schema change.
func (u *upstream) change() {
	if len(u.tables) == 0 || (len(u.tables) < 4 && u.random.IntN(4) == 0) {
		u.create()
		return
	}
	t := u.pick()
	switch u.random.IntN(8) {
	case 0:
		u.ddl("DROP TABLE", t.name, "drop table if exists "+u.spell(t.name)+" cascade")
		u.tables = slices.DeleteFunc(u.tables, func(x *upTable) bool { return x == t })
	case 1:
		to := u.tableName()
		old := u.spell(t.name)
		if to.Schema == t.name.Schema {
			u.ddl("ALTER TABLE", to, fmt.Sprintf("alter table %s rename to %s", old, quote(to.Name)))
			t.name = to
		}
	case 2:
		for _, x := range []*upTable{t, u.pick()} {
			x.rows = nil
			u.lines = append(u.lines, fmt.Sprintf(`{"action":"T","xid":%d,"schema":%s,"table":%s}`, u.xid, quoteJSON(x.name.Schema), quoteJSON(x.name.Name)))
		}
	case 3, 4:
		u.addColumn(t)
	case 5:
		u.dropColumn(t)
	case 6:
		u.renameColumn(t)
	default:
		u.alterType(t)
	}
}

func (u *upstream) addColumn(t *upTable) {
	constants := map[string][2]string{ // what is written, what rows get
		"integer": {"default -7", "-7"}, "numeric(12,2)": {"default 1.5 not null", "1.50"}, "text": {"default 'it''s é'::text", "it's é"},
		"boolean": {"not null default true", "true"}, "double precision": {"default 0.1", "0.1"}, "jsonb": {"default '{}'", "{}"},
	}
	c := upColumn{t.columnName(u), u.types()[u.random.IntN(len(u.types()))]}
	clause, value := "", val("", dispatcher.KindNull)
	if constant, ok := constants[c.declared]; ok && u.random.IntN(2) == 0 {
		kind := dispatcher.KindText
		if c.declared == "boolean" {
			kind = dispatcher.KindBool
		}
		clause, value = constant[0], val(constant[1], kind)
	}
	for _, row := range t.rows {
		row[c.name] = value
	}
	t.columns = append(t.columns, c)
	u.ddl("ALTER TABLE", t.name, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s %s", u.spell(t.name), quote(c.name), c.declared, clause))
}

func (u *upstream) dropColumn(t *upTable) {
	c := t.columns[u.random.IntN(len(t.columns))]
	if t.isKey(c.name) {
		return
	}
	t.columns = slices.DeleteFunc(t.columns, func(x upColumn) bool { return x == c })
	for _, row := range t.rows {
		delete(row, c.name)
	}
	u.ddl("ALTER TABLE", t.name, fmt.Sprintf("alter table %s drop column %s", u.spell(t.name), quote(c.name)))
}

func (u *upstream) renameColumn(t *upTable) {
	i := u.random.IntN(len(t.columns))
	old, name := t.columns[i].name, t.columnName(u)
	t.columns[i].name = name
	for k := range t.key {
		if t.key[k] == old {
			t.key[k] = name
		}
	}
	for _, row := range t.rows {
		row[name] = row[old]
		delete(row, old)
	}
	u.ddl("ALTER TABLE", t.name, fmt.Sprintf("alter table %s rename column %s to %s", u.spell(t.name), quote(old), quote(name)))
}

func (u *upstream) alterType(t *upTable) {
	c := &t.columns[u.random.IntN(len(t.columns))]
	next, append0 := map[string]string{
		"integer": "bigint", "bigint": "text", "numeric(12,2)": "numeric(12,3)", "boolean": "text", "jsonb": "text", "numeric(12,3)": "text",
	}[c.declared], ""
	if next == "" {
		return
	}
	if next == "numeric(12,3)" {
		append0 = "0"
	}
	for _, row := range t.rows {
		v := row[c.name]
		switch {
		case v.Kind == dispatcher.KindNull:
		case next == "text":
			row[c.name] = val(v.Text, dispatcher.KindText)
		default:
			row[c.name] = val(v.Text+append0, v.Kind)
		}
	}
	c.declared = next
	u.ddl("ALTER TABLE", t.name, fmt.Sprintf("alter table %s alter column %s type %s", u.spell(t.name), quote(c.name), next))
}

// row changes one random row.
func (u *upstream) row() {
	if len(u.tables) == 0 {
		return
	}
	t := u.pick()
	everything, keyOnly := func(string) bool { return true }, t.isKey
	if len(t.rows) == 0 || u.random.IntN(2) == 0 {
		row := make(map[string]dispatcher.Value)
		for _, c := range t.columns {
			row[c.name] = u.value(c, t.isKey(c.name))
		}
		t.rows = append(t.rows, row)
		u.rowLine("I", t, cells(t, row, everything), "")
		return
	}
	i := u.random.IntN(len(t.rows))
	row := t.rows[i]
	identity := cells(t, row, keyOnly)
	if u.random.IntN(4) == 0 {
		t.rows = slices.Delete(t.rows, i, i+1)
		u.rowLine("D", t, "", identity)
		return
	}
	newKey := u.random.IntN(4) == 0
	left := make(map[string]bool) // out, as unchanged large values are
	for _, c := range t.columns {
		switch {
		case t.isKey(c.name):
			if newKey {
				row[c.name] = u.value(c, true)
			}
		case !newKey && c.declared == "text" && u.random.IntN(2) == 0:
			left[c.name] = true
		default:
			row[c.name] = u.value(c, false)
		}
	}
	u.rowLine("U", t, cells(t, row, func(name string) bool { return !left[name] }), identity)
}

func (u *upstream) transaction() {
	u.xid++
	u.lines = nil
	for range 1 + u.random.IntN(6) {
		if u.random.IntN(5) == 0 {
			u.change()
		} else {
			u.row()
		}
	}
	lsn := fmt.Sprintf("0/%X", 64*u.xid)
	fmt.Fprintf(&u.log, `{"action":"B","xid":%d,"lsn":%q,"nextlsn":%q}`+"\n%s\n"+`{"action":"C","xid":%d,"nextlsn":%q}`+"\n",
		u.xid, lsn, lsn, strings.Join(append(u.lines, fmt.Sprintf(`{"action":"M","xid":%d,"prefix":"audit","content":"x"}`, u.xid)), "\n"), u.xid, lsn)
}

// want is what a replica must hold of a table, in any order; columns in the order of names.
func (t *upTable) want() (columns []string, rows []string) {
	for _, c := range t.columns {
		columns = append(columns, c.name)
	}
	slices.Sort(columns)
	for _, row := range t.rows {
		var cells []string
		for _, name := range columns {
			v := row[name]
			i := slices.IndexFunc(t.columns, func(c upColumn) bool { return c.name == name })
			switch {
			case v.Kind == dispatcher.KindNull:
				cells = append(cells, "<nil>")
			case t.columns[i].declared == "boolean":
				cells = append(cells, map[string]string{"true": "1", "false": "0"}[v.Text])
			case t.columns[i].declared == "double precision":
				f, err := strconv.ParseFloat(v.Text, 64)
				if err != nil {
					panic(err)
				}
				cells = append(cells, fmt.Sprint(f))
			default:
				cells = append(cells, v.Text)
			}
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	slices.Sort(rows)
	return columns, rows
}
