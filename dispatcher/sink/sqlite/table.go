package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fence/sqltoken"
)

const (
	reservedPrefix = "weir_"
	defaultSchema  = "public"
	// tablesTable holds which table of the source each replica belongs to, and its key columns with their types: what
	// is needed to tell the key bytes of a row from the row alone.
	tablesTable = "weir_tables"

	createTables = "CREATE TABLE IF NOT EXISTS " + tablesTable + ` (
	name          TEXT NOT NULL COLLATE NOCASE PRIMARY KEY,
	source_schema TEXT NOT NULL,
	source_table  TEXT NOT NULL,
	key_columns   TEXT NOT NULL
)`
)

// sinkTable is the name of a table at the sink.
func sinkTable(t dispatcher.TableName) (string, error) {
	name := t.Name
	if t.Schema != "" && t.Schema != defaultSchema {
		name = t.Schema + "." + t.Name
	}
	lower := strings.ToLower(name)
	switch {
	case t.Name == "":
		return "", &dispatcher.StopError{Reason: ReasonTableName, Text: "the table has no name"}
	case strings.HasPrefix(lower, reservedPrefix), strings.HasPrefix(lower, "sqlite_"):
		return "", &dispatcher.StopError{Reason: ReasonTableName, Text: fmt.Sprintf("table %s: names that begin with weir_ or sqlite_ are reserved at the sink; leave the table out", t)}
	case strings.ContainsRune(name, 0):
		return "", &dispatcher.StopError{Reason: ReasonTableName, Text: fmt.Sprintf("table %q: the name holds a zero byte", t)}
	}
	return name, nil
}

// quote quotes an identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// keyColumn is a primary-key column and its type at the source.
type keyColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// register notes which source table the replica belongs to, and refuses a second one under the same name.
func register(ctx context.Context, tx sqltoken.Tx, name string, source dispatcher.TableName) error {
	source = dispatcher.TableName(source.Ref())
	_, err := tx.ExecContext(ctx, "INSERT INTO "+tablesTable+" (name, source_schema, source_table, key_columns) VALUES (?, ?, ?, '[]') ON CONFLICT DO NOTHING",
		name, source.Schema, source.Name)
	if err != nil {
		return fmt.Errorf("register table %s: %w", name, err)
	}
	var there dispatcher.TableName
	err = tx.QueryRowContext(ctx, "SELECT source_schema, source_table FROM "+tablesTable+" WHERE name = ?", name).Scan(&there.Schema, &there.Name)
	if err != nil {
		return fmt.Errorf("read registration of table %s: %w", name, err)
	}
	if there != source {
		return &dispatcher.StopError{Reason: ReasonTableName, Text: fmt.Sprintf(
			"table %s would be %q at the sink, which is the replica of %s already; use another sink file for one of them", source, name, there)}
	}
	return nil
}

// loadKey returns the recorded key columns, none if nothing was ever written.
func loadKey(ctx context.Context, tx sqltoken.Tx, name string) ([]keyColumn, error) {
	var text string
	if err := tx.QueryRowContext(ctx, "SELECT key_columns FROM "+tablesTable+" WHERE name = ?", name).Scan(&text); err != nil {
		return nil, fmt.Errorf("read key of table %s: %w", name, err)
	}
	var key []keyColumn
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		return nil, fmt.Errorf("read key of table %s: %w", name, err)
	}
	return key, nil
}

// recordKey notes the key columns of the table if they differ from what is noted.
func recordKey(ctx context.Context, tx sqltoken.Tx, name string, pk []dispatcher.Column) error {
	have, err := loadKey(ctx, tx, name)
	if err != nil {
		return err
	}
	key := make([]keyColumn, len(pk))
	for i, c := range pk {
		key[i] = keyColumn{Name: c.Name, Type: c.Type}
	}
	if slices.Equal(have, key) {
		return nil
	}
	return storeKey(ctx, tx, name, key)
}

func storeKey(ctx context.Context, tx sqltoken.Tx, name string, key []keyColumn) error {
	text, err := json.Marshal(key)
	if err != nil {
		return fmt.Errorf("record key of table %s: %w", name, err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE "+tablesTable+" SET key_columns = ? WHERE name = ?", string(text), name); err != nil {
		return fmt.Errorf("record key of table %s: %w", name, err)
	}
	return nil
}

// createFor creates the table from the columns of a batch.
func createFor(ctx context.Context, tx sqltoken.Tx, name string, changes []dispatcher.Change) error {
	l := layout{name: name}
	for _, c := range changes {
		if c.Op != dispatcher.OpUpsert {
			continue
		}
		l.key = l.key[:0]
		for _, k := range c.PK {
			l.key = append(l.key, k.Name)
		}
		for _, col := range c.Columns {
			if l.find(col.Name) == nil {
				l.columns = append(l.columns, layoutColumn{name: col.Name, declared: declaredType(col.Type), source: col.Type})
			}
		}
	}
	return l.create(ctx, tx)
}

func quotedNames(cols []dispatcher.Column) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = quote(c.Name)
	}
	return strings.Join(names, ", ")
}

// declaredType is the type of a column at the sink. No type may be one that the driver reads back as a time.
func declaredType(source string) string {
	switch keycode.ClassOf(source) {
	case keycode.ClassInteger:
		return "INTEGER"
	case keycode.ClassDecimal:
		return "DECIMAL_TEXT"
	case keycode.ClassFloat:
		return "REAL"
	case keycode.ClassBool:
		return "BOOLEAN"
	case keycode.ClassBytes:
		return "BLOB"
	case keycode.ClassText:
		return "TEXT"
	default:
		return "TEXT"
	}
}

func mismatch(table, why string) error {
	return &dispatcher.StopError{Reason: ReasonMismatch, Text: "table " + table + " at the sink: " + why}
}

// keeps says whether a column of a declared type stores values of a class unchanged, by the five affinity rules of
// SQLite's documentation.
func keeps(declared string, class keycode.Class) bool {
	upper := strings.ToUpper(declared)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(upper, w) })
	}
	switch {
	case has("INT"):
		return class == keycode.ClassInteger || class == keycode.ClassBool || class == keycode.ClassBytes
	case has("CHAR", "CLOB", "TEXT"):
		return class == keycode.ClassDecimal || class == keycode.ClassText || class == keycode.ClassBytes
	case declared == "" || has("BLOB"):
		return true
	case has("REAL", "FLOA", "DOUB"): //nolint:misspell // as in the rule
		return class == keycode.ClassFloat || class == keycode.ClassBytes
	default: // NUMERIC
		return class == keycode.ClassInteger || class == keycode.ClassBool || class == keycode.ClassBytes
	}
}
