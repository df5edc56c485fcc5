package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fence/sqltoken"
	"github.com/weir-project/weir/fsm"
)

// deletePage is how many rows are looked at before those of the span among them are deleted; it bounds memory.
const deletePage = 1000

// deleteSpan deletes the rows whose key lies in span and returns their number.
func deleteSpan(ctx context.Context, tx sqltoken.Tx, table string, span fsm.Span) (int, error) {
	at, err := loadLayout(ctx, tx, table)
	if err != nil || at == nil {
		return 0, err
	}
	if span == fsm.WholeTable() {
		result, err := tx.ExecContext(ctx, "DELETE FROM "+quote(table))
		if err != nil {
			return 0, fmt.Errorf("delete %s: %w", table, err)
		}
		n, err := result.RowsAffected()
		return int(n), err
	}
	key, err := loadKey(ctx, tx, table)
	if err != nil || len(key) == 0 {
		return 0, err // without a recorded key no row was ever written
	}
	d := spanDeleter{tx: tx, table: table, key: key, span: span}
	deleted := 0
	for after := []any(nil); ; {
		page, last, err := d.page(ctx, after)
		if err != nil {
			return 0, err
		}
		for _, pk := range page {
			if _, err := tx.ExecContext(ctx, deleteSQL(table, d.columns()), pk...); err != nil {
				return 0, fmt.Errorf("delete %s: %w", table, err)
			}
		}
		deleted += len(page)
		if last == nil {
			return deleted, nil
		}
		after = last
	}
}

// spanDeleter finds the rows of a span in the order of the table's primary key, page by page.
type spanDeleter struct {
	tx    sqltoken.Tx
	table string
	key   []keyColumn
	span  fsm.Span
}

// page looks at the next rows after a primary key and returns the primary keys of those in the span; last is the key
// that the page ended with, nil if it was the last page.
func (d *spanDeleter) page(ctx context.Context, after []any) (victims [][]any, last []any, err error) {
	rows, err := d.tx.QueryContext(ctx, d.query(after != nil), after...)
	if err != nil {
		return nil, nil, fmt.Errorf("read keys of %s: %w", d.table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	seen := 0
	for ; rows.Next(); seen++ {
		pk, encoded, err := d.scan(rows)
		if err != nil {
			return nil, nil, fmt.Errorf("read keys of %s: %w", d.table, err)
		}
		if d.span.Contains(encoded) {
			victims = append(victims, pk)
		}
		last = pk
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("read keys of %s: %w", d.table, err)
	}
	if seen < deletePage {
		last = nil
	}
	return victims, last, nil
}

// scan reads a row's primary key: the values as they are stored, and the key bytes.
func (d *spanDeleter) scan(rows *sql.Rows) (pk []any, encoded string, err error) {
	pk = make([]any, len(d.key))
	into := make([]any, len(d.key))
	for i := range pk {
		into[i] = &pk[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, "", err
	}
	cols := d.columns()
	for i := range cols {
		if b, ok := pk[i].([]byte); ok && len(b) == 0 {
			pk[i] = []byte{} // the driver reads an empty BLOB as nil, and would bind nil as NULL
		}
		if cols[i].Value, err = unbind(d.key[i].Type, pk[i]); err != nil {
			return nil, "", err
		}
	}
	encoded, err = keycode.Encode(cols)
	return pk, encoded, err
}

func (d *spanDeleter) query(after bool) string {
	names := quotedNames(d.columns())
	where := ""
	if after {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(d.key)), ", ")
		where = " WHERE (" + names + ") > (" + marks + ")"
	}
	return fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d", names, quote(d.table), where, names, deletePage)
}

// columns are the key columns, without values.
func (d *spanDeleter) columns() []dispatcher.Column {
	cols := make([]dispatcher.Column, len(d.key))
	for i, k := range d.key {
		cols[i] = dispatcher.Column{Name: k.Name, Type: k.Type}
	}
	return cols
}
