package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fence/sqltoken"
)

const (
	// columnsTable holds the source's types of the columns of replicas: the declared type of a column at the sink says
	// less, and what a change of the type does to values depends on it.
	columnsTable = "weir_columns"

	createColumns = "CREATE TABLE IF NOT EXISTS " + columnsTable + ` (
	table_name  TEXT NOT NULL COLLATE NOCASE,
	name        TEXT NOT NULL COLLATE NOCASE,
	source_type TEXT NOT NULL,
	PRIMARY KEY (table_name, name)
)`
)

// layout is a table as it stands at the sink. It is read anew in every transaction, so that a change made by another
// writer, in this process or not, is never missed.
type layout struct {
	name    string
	columns []layoutColumn
	key     []string // names of the primary-key columns, in key order
}

type layoutColumn struct {
	name, declared string
	source         string // type at the source; empty if nothing was written since the column is there
	notNull        bool
}

// loadLayout returns nil if the table does not exist.
func loadLayout(ctx context.Context, tx sqltoken.Tx, name string) (l *layout, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT p.name, p.type, p."notnull", p.pk, coalesce(c.source_type, '') FROM pragma_table_info(?) p
		LEFT JOIN `+columnsTable+` c ON c.table_name = ? AND c.name = p.name ORDER BY p.cid`, name, name)
	if err != nil {
		return nil, fmt.Errorf("read layout of table %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := &layout{name: name}
	key := make(map[int]string)
	for rows.Next() {
		var col layoutColumn
		var pk int
		if err := rows.Scan(&col.name, &col.declared, &col.notNull, &pk, &col.source); err != nil {
			return nil, fmt.Errorf("read layout of table %s: %w", name, err)
		}
		found.columns = append(found.columns, col)
		if pk > 0 {
			key[pk] = col.name
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read layout of table %s: %w", name, err)
	}
	if len(found.columns) == 0 {
		return nil, nil
	}
	for i := range len(key) {
		found.key = append(found.key, key[i+1])
	}
	return found, nil
}

// sameName says whether SQLite takes two names for one: it folds ASCII letters, and those alone.
func sameName(a, b string) bool { return fold(a) == fold(b) }

func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

func sameNames(a, b []string) bool { return slices.EqualFunc(a, b, sameName) }

// find returns nil if there is no such column.
func (l *layout) find(name string) *layoutColumn {
	i := slices.IndexFunc(l.columns, func(c layoutColumn) bool { return sameName(c.name, name) })
	if i < 0 {
		return nil
	}
	return &l.columns[i]
}

func (l *layout) inKey(name string) bool {
	return slices.ContainsFunc(l.key, func(k string) bool { return sameName(k, name) })
}

// create creates the table and notes the types of its columns.
func (l *layout) create(ctx context.Context, tx sqltoken.Tx) error {
	if err := l.createAs(ctx, tx, l.name); err != nil {
		return err
	}
	for _, col := range l.columns {
		if err := noteType(ctx, tx, l.name, col.name, col.source); err != nil {
			return err
		}
	}
	return nil
}

// createAs creates a table of this layout under a name. Only key columns are NOT NULL: an update of a row that the sink
// does not have need not carry the others.
func (l *layout) createAs(ctx context.Context, tx sqltoken.Tx, name string) error {
	var b strings.Builder
	b.WriteString("CREATE TABLE " + quote(name) + " (")
	for i, col := range l.columns {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n\t" + quote(col.name))
		if col.declared != "" {
			b.WriteString(" " + col.declared)
		}
		if l.inKey(col.name) {
			b.WriteString(" NOT NULL")
		}
	}
	if len(l.key) > 0 {
		b.WriteString(",\n\tPRIMARY KEY (" + quotedList(l.key) + ")")
	}
	b.WriteString("\n)")
	if _, err := tx.ExecContext(ctx, b.String()); err != nil {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	return nil
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	return strings.Join(quoted, ", ")
}

// noteType records the source's type of a column.
func noteType(ctx context.Context, tx sqltoken.Tx, table, column, source string) error {
	if source == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+columnsTable+" (table_name, name, source_type) VALUES (?, ?, ?) "+
		"ON CONFLICT (table_name, name) DO UPDATE SET name = excluded.name, source_type = excluded.source_type", table, column, source)
	if err != nil {
		return fmt.Errorf("note type of column %s of table %s: %w", column, table, err)
	}
	return nil
}

// learn notes the types of columns of which none is known yet.
func (l *layout) learn(ctx context.Context, tx sqltoken.Tx, cols []dispatcher.Column) error {
	for i := range cols {
		col := l.find(cols[i].Name)
		if col == nil || col.source != "" {
			continue
		}
		if err := noteType(ctx, tx, l.name, col.name, cols[i].Type); err != nil {
			return err
		}
		col.source = cols[i].Type
	}
	return nil
}

// accept refuses a change that does not fit the table.
func (l *layout) accept(c *dispatcher.Change) error {
	fits := len(c.PK) == len(l.key)
	for i := range c.PK {
		fits = fits && l.inKey(c.PK[i].Name)
	}
	if !fits {
		names := make([]string, len(c.PK))
		for i := range c.PK {
			names[i] = c.PK[i].Name
		}
		return mismatch(l.name, fmt.Sprintf("its primary key is (%s), the source's is (%s); create it with the source's key, or drop it so that it is created anew",
			strings.Join(l.key, ", "), strings.Join(names, ", ")))
	}
	for i := range c.Columns {
		col := &c.Columns[i]
		have := l.find(col.Name)
		if have == nil {
			return mismatch(l.name, fmt.Sprintf("it has no column %s, which the source sends as %s; add it at the sink: ALTER TABLE %s ADD COLUMN %s %s",
				col.Name, col.Type, quote(l.name), quote(col.Name), declaredType(col.Type)))
		}
		if !keeps(have.declared, keycode.ClassOf(col.Type)) {
			return mismatch(l.name, fmt.Sprintf("column %s is declared %s, which would change values of the source's type %s; declare it %s",
				col.Name, have.declared, col.Type, declaredType(col.Type)))
		}
	}
	return nil
}
