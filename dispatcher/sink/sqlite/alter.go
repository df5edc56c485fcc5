package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/dispatcher/schema/cast"
	"github.com/weir-project/weir/fence/sqltoken"
)

// keeps says whether the column stores values of a source type unchanged.
func (c *layoutColumn) keeps(source string) bool { return keeps(c.declared, keycode.ClassOf(source)) }

// alter changes the layout of a replica. A table that is not there yet is made from its first rows, which have the new
// layout.
func (e *ddlEvent) alter(ctx context.Context, name string, actions []schema.Action) error {
	for i := range actions {
		at, err := loadLayout(ctx, e.tx, name)
		if err != nil || at == nil {
			return err
		}
		if err := e.act(ctx, at, &actions[i]); err != nil {
			return err
		}
	}
	at, err := loadLayout(ctx, e.tx, name)
	if err != nil || at == nil {
		return err
	}
	return storeKey(ctx, e.tx, name, at.keyColumns())
}

func (e *ddlEvent) act(ctx context.Context, at *layout, a *schema.Action) error {
	switch a.Kind {
	case schema.ActionAddColumn:
		return e.addColumn(ctx, at, &a.Column)
	case schema.ActionDropColumn:
		return e.dropColumn(ctx, at, a.Name)
	case schema.ActionRenameColumn:
		return e.renameColumn(ctx, at, a.Name, a.To)
	case schema.ActionAlterType:
		return e.alterType(ctx, at, a)
	case schema.ActionSetKey:
		return e.setKey(ctx, at, a.Key)
	default:
		return fmt.Errorf("sqlite: alter action of unknown kind %d", a.Kind)
	}
}

// addColumn adds a column and gives the rows that are there what the upstream gave them. It is never NOT NULL.
func (e *ddlEvent) addColumn(ctx context.Context, at *layout, col *schema.Column) error {
	if have := at.find(col.Name); have != nil {
		if !have.keeps(col.Type) {
			return refuse("column %s is there and declared %s, which cannot hold values of type %s", have.name, have.declared, col.Type)
		}
		return noteType(ctx, e.tx, at.name, have.name, col.Type)
	}
	_, rows, err := exists(ctx, e.tx, at.name)
	if err != nil {
		return err
	}
	if err := e.exec(ctx, "ALTER TABLE "+quote(at.name)+" ADD COLUMN "+quote(col.Name)+" "+declaredType(col.Type)); err != nil {
		return err
	}
	if err := noteType(ctx, e.tx, at.name, col.Name, col.Type); err != nil || !rows {
		return err
	}
	value, err := cast.Fill(*col)
	if err != nil {
		return refuse("%s", err)
	}
	if value.Kind == dispatcher.KindNull {
		return nil
	}
	stored, err := bind(dispatcher.Column{Name: col.Name, Type: col.Type, Value: value})
	if err != nil {
		return err
	}
	return e.exec(ctx, "UPDATE "+quote(at.name)+" SET "+quote(col.Name)+" = ?", stored)
}

// dropColumn drops a column. With a column of the primary key goes the key, as upstream.
func (e *ddlEvent) dropColumn(ctx context.Context, at *layout, name string) error {
	have := at.find(name)
	switch {
	case have == nil:
		return nil
	case len(at.columns) == 1:
		return refuse("SQLite has no table without columns, and %s is the last one", name)
	case at.inKey(name):
		next := at.without(have.name)
		next.key = nil
		if err := e.rebuild(ctx, at, &next, nil); err != nil {
			return err
		}
	default:
		if err := e.exec(ctx, "ALTER TABLE "+quote(at.name)+" DROP COLUMN "+quote(have.name)); err != nil {
			return err
		}
	}
	return e.exec(ctx, "DELETE FROM "+columnsTable+" WHERE table_name = ? AND name = ?", at.name, have.name)
}

func (l *layout) without(column string) layout {
	next := *l
	next.columns = slices.DeleteFunc(slices.Clone(l.columns), func(c layoutColumn) bool { return c.name == column })
	return next
}

func (e *ddlEvent) renameColumn(ctx context.Context, at *layout, from, to string) error {
	have, taken := at.find(from), at.find(to)
	switch {
	case have == nil:
		return nil // it has its new name, or rows with it will say what it is
	case taken != nil && taken != have && e.again:
		return nil // an earlier run made it, and rows of this one the old one
	case taken != nil && taken != have:
		return refuse("column %s is there already", taken.name)
	}
	if err := e.exec(ctx, "ALTER TABLE "+quote(at.name)+" RENAME COLUMN "+quote(have.name)+" TO "+quote(to)); err != nil {
		return err
	}
	return e.exec(ctx, "UPDATE "+columnsTable+" SET name = ? WHERE table_name = ? AND name = ?", to, at.name, have.name)
}

// setKey gives the table another primary key.
func (e *ddlEvent) setKey(ctx context.Context, at *layout, key []string) error {
	if sameNames(at.key, key) {
		return nil
	}
	for _, k := range key {
		if at.find(k) == nil {
			return refuse("column %s of the new primary key is not there", k)
		}
	}
	if err := e.needsOneSpan(ctx, at.name); err != nil {
		return err
	}
	missing := make([]string, len(key))
	for i, k := range key {
		missing[i] = quote(k) + " IS NULL"
	}
	nulls := false // SQLite would number such rows
	query := "SELECT EXISTS (SELECT 1 FROM " + quote(at.name) + " WHERE " + strings.Join(missing, " OR ") + ")"
	if err := e.tx.QueryRowContext(ctx, query).Scan(&nulls); err != nil {
		return fmt.Errorf("look for rows without a key in table %s: %w", at.name, err)
	}
	if nulls {
		return refuse("table %s has rows without a value in the new primary key", at.name)
	}
	next := *at
	next.key = key
	return e.rebuild(ctx, at, &next, nil)
}

// needsOneSpan refuses what changes the keys of a table that is split: the keys by which it is would mean other rows.
func (e *ddlEvent) needsOneSpan(ctx context.Context, name string) error {
	var spans int
	err := e.tx.QueryRowContext(ctx, "SELECT count(*) FROM "+sqltoken.FenceTable+" WHERE table_name = ? AND released = 0", name).Scan(&spans)
	if err != nil {
		return fmt.Errorf("read spans of table %s: %w", name, err)
	}
	if spans > 1 {
		return refuse("it changes the primary key of table %s, which is split into %d spans by its keys; merge the spans, and try again", name, spans)
	}
	return nil
}

// alterType changes a column's type. Where the values are printed in another way, or SQLite would keep them in another
// way, the table is made anew.
func (e *ddlEvent) alterType(ctx context.Context, at *layout, a *schema.Action) error {
	have := at.find(a.Column.Name)
	if have == nil || (have.source == a.Column.Type && (!a.Using || e.again)) {
		return nil
	}
	_, rows, err := exists(ctx, e.tx, at.name)
	if err != nil {
		return err
	}
	from := have.from()
	if at.inKey(have.name) && keycode.ClassOf(from) != keycode.ClassOf(a.Column.Type) {
		if err := e.needsOneSpan(ctx, at.name); err != nil {
			return err
		}
	}
	c := conversion{column: have.name, from: from, to: a.Column.Type}
	if rows {
		if a.Using {
			return refuse("it computes new values of column %s by an expression, and the log does not carry them", have.name)
		}
		if c.convert, err = cast.Between(from, c.to); err != nil {
			return refuse("%s", err)
		}
	}
	if err := noteType(ctx, e.tx, at.name, have.name, c.to); err != nil {
		return err
	}
	next := *at
	next.columns = slices.Clone(at.columns)
	into := next.find(have.name)
	if into.source = c.to; !have.keeps(c.to) {
		into.declared = declaredType(c.to)
	}
	if c.convert == nil && into.declared == have.declared {
		return nil
	}
	return e.rebuild(ctx, at, &next, &c)
}

// from is the source's type of a column as far as it is known.
func (c *layoutColumn) from() string {
	if c.source != "" {
		return c.source
	}
	switch c.declared {
	case "INTEGER":
		return "bigint"
	case "DECIMAL_TEXT":
		return "numeric"
	case "REAL":
		return "double precision"
	case "BOOLEAN":
		return "boolean"
	case "BLOB":
		return "bytea"
	default:
		return "text"
	}
}
