package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/schema/cast"
	"github.com/weir-project/weir/fence/sqltoken"
)

const (
	rebuiltTable = reservedPrefix + "rebuilt"
	castTable    = reservedPrefix + "cast"
	// castPage is how many values are converted between two looks; it bounds memory.
	castPage = 1000
)

// conversion is what becomes of a column's values; a nil convert keeps what is printed.
type conversion struct {
	column, from, to string
	convert          cast.Func
}

// rebuild gives a table a layout that SQLite cannot change it to in place: a new one is made, filled, and takes its
// place, with the indexes and triggers that somebody made. Foreign keys are not enforced on these connections, and views
// must not be looked at while the table is away.
func (e *ddlEvent) rebuild(ctx context.Context, old, next *layout, c *conversion) (err error) {
	extras, err := e.extras(ctx, old.name)
	if err != nil {
		return err
	}
	if err := next.createAs(ctx, e.tx, rebuiltTable); err != nil {
		return err
	}
	if err := e.copyRows(ctx, old, next, c); err != nil {
		return err
	}
	if err := e.exec(ctx, "DROP TABLE "+quote(old.name)); err != nil {
		return err
	}
	if err := e.exec(ctx, "PRAGMA legacy_alter_table = ON"); err != nil {
		return err
	}
	// the connection is used again, also when this transaction is rolled back
	defer func() { err = errors.Join(err, e.exec(context.WithoutCancel(ctx), "PRAGMA legacy_alter_table = OFF")) }()
	if err := e.exec(ctx, "ALTER TABLE "+rebuiltTable+" RENAME TO "+quote(old.name)); err != nil {
		return err
	}
	for _, statement := range extras {
		if err := e.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// extras are the statements of the indexes and triggers of a table.
func (e *ddlEvent) extras(ctx context.Context, name string) (list []string, err error) {
	return texts(ctx, e.tx, "SELECT sql FROM sqlite_schema WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY rowid", name)
}

func texts(ctx context.Context, tx sqltoken.Tx, query string, args ...any) (list []string, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clipSQL(query), err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("%s: %w", clipSQL(query), err)
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

// copyRows fills the new table. Values that change are converted once each, in a table of their own.
func (e *ddlEvent) copyRows(ctx context.Context, old, next *layout, c *conversion) error {
	into, from := "", ""
	for i, col := range next.columns {
		if i > 0 {
			into, from = into+", ", from+", "
		}
		into += quote(col.name)
		value := "t." + quote(col.name)
		if c != nil && col.name == c.column {
			value = "(SELECT m.new FROM " + castTable + " m WHERE m.old = " + value + ")"
		}
		from += value
	}
	if c != nil {
		if err := e.convertValues(ctx, old, c); err != nil {
			return err
		}
	}
	if err := e.exec(ctx, "INSERT INTO "+rebuiltTable+" ("+into+") SELECT "+from+" FROM "+quote(old.name)+" t"); err != nil {
		return err
	}
	if c != nil {
		return e.exec(ctx, "DROP TABLE temp."+castTable)
	}
	return nil
}

// convertValues makes the table of the column's different values, old and new.
func (e *ddlEvent) convertValues(ctx context.Context, old *layout, c *conversion) error {
	declared := old.find(c.column).declared
	column := quote(c.column)
	for _, statement := range []string{
		"CREATE TEMP TABLE " + castTable + " (old " + declared + " PRIMARY KEY, new)",
		"INSERT INTO " + castTable + " (old) SELECT DISTINCT " + column + " FROM " + quote(old.name) + " WHERE " + column + " IS NOT NULL",
	} {
		if err := e.exec(ctx, statement); err != nil {
			return err
		}
	}
	for after := []any(nil); ; {
		page, err := e.valuesAfter(ctx, after)
		if err != nil {
			return err
		}
		for _, stored := range page {
			value, err := c.stored(stored)
			if err != nil {
				return refuse("value %v of column %s: %s", stored, c.column, err)
			}
			if err := e.exec(ctx, "UPDATE "+castTable+" SET new = ? WHERE old = ?", value, stored); err != nil {
				return err
			}
		}
		if len(page) < castPage {
			return nil
		}
		after = page[len(page)-1:]
	}
}

func (e *ddlEvent) valuesAfter(ctx context.Context, after []any) (page []any, err error) {
	where := ""
	if len(after) > 0 {
		where = " WHERE old > ?"
	}
	rows, err := e.tx.QueryContext(ctx, fmt.Sprintf("SELECT old FROM %s%s ORDER BY old LIMIT %d", castTable, where, castPage), after...)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v any
		if err := rows.Scan(&v); err != nil {
			return nil, fmt.Errorf("read values: %w", err)
		}
		page = append(page, v)
	}
	return page, rows.Err()
}

// stored is a value in the form in which the new column keeps it.
func (c *conversion) stored(old any) (any, error) {
	value, err := unbind(c.from, old)
	if err != nil {
		return nil, err
	}
	if c.convert != nil {
		if value, err = c.convert(value); err != nil {
			return nil, err
		}
	}
	if keycode.ClassOf(c.to) == keycode.ClassText {
		value.Kind = dispatcher.KindText
	}
	return bind(dispatcher.Column{Name: c.column, Type: c.to, Value: value})
}
