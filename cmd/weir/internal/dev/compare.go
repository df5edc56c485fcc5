package dev

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Comparison says how a replica differs from the upstream's table.
type Comparison struct {
	Table string
	// Rows counts those of the upstream's table.
	Rows int
	// Missing rows are not in the replica, Extra ones only there, Different ones have another value in some column.
	Missing, Extra, Different int
	// Examples are the first few of them, as sentences.
	Examples []string
}

// Equal says whether nothing differs.
func (c *Comparison) Equal() bool { return c.Missing+c.Extra+c.Different == 0 }

// maxExamples bounds what is shown of a difference.
const maxExamples = 5

// compare compares exactly the columns of a CSV with header, value by value as text. An empty field of the CSV is an
// empty text or NULL: the format cannot tell.
func compare(ctx context.Context, db *sql.DB, table string, want []byte) (Comparison, error) {
	c := Comparison{Table: table}
	records, err := csv.NewReader(bytes.NewReader(want)).ReadAll()
	if err != nil || len(records) == 0 {
		return c, fmt.Errorf("final table %s cannot be read: %w", table, errors.Join(err, errors.New("it has no header, or is malformed")))
	}
	head, records := records[0], records[1:]
	c.Rows = len(records)
	key, err := keyColumns(ctx, db, table, head)
	if err != nil {
		return c, err
	}
	if key == nil {
		c.Missing = len(records)
		c.example("the replica has no table %s", table)
		return c, nil
	}
	left := make(map[string][]string, len(records))
	for _, r := range records {
		left[keyOf(r, key)] = r
	}
	err = eachRow(ctx, db, table, head, func(row []string) {
		k := keyOf(row, key)
		r, ok := left[k]
		delete(left, k)
		switch {
		case !ok:
			c.Extra++
			c.example("row %s is in the replica only", k)
		case !slices.Equal(r, row):
			c.Different++
			c.example("row %s is %s, should be %s", k, strings.Join(row, ","), strings.Join(r, ","))
		}
	})
	if err != nil {
		return c, err
	}
	c.Missing = len(left)
	for _, r := range records {
		if k := keyOf(r, key); left[k] != nil {
			c.example("row %s is missing in the replica", k)
		}
	}
	return c, nil
}

func (c *Comparison) example(format string, args ...any) {
	if len(c.Examples) < maxExamples {
		c.Examples = append(c.Examples, fmt.Sprintf(format, args...))
	}
}

// keyOf is the text of the key columns.
func keyOf(row []string, key []int) string {
	parts := make([]string, len(key))
	for i, at := range key {
		parts[i] = row[at]
	}
	return strings.Join(parts, "|")
}

// keyColumns finds the columns of the replica's primary key in the CSV's header; nil if there is no such table.
func keyColumns(ctx context.Context, db *sql.DB, table string, head []string) (key []int, err error) {
	rows, err := db.QueryContext(ctx, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", table)
	if err != nil {
		return nil, fmt.Errorf("look at replica of %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("look at replica of %s: %w", table, err)
		}
		at := slices.Index(head, name)
		if at < 0 {
			return nil, fmt.Errorf("the final table %s has no column %s, which is part of the replica's key", table, name)
		}
		key = append(key, at)
	}
	return key, rows.Err()
}

// eachRow calls visit for every row of the replica, with the given columns as text.
func eachRow(ctx context.Context, db *sql.DB, table string, columns []string, visit func(row []string)) (err error) {
	parts := make([]string, len(columns))
	for i, c := range columns {
		// With its table: SQLite takes a quoted name alone, of a column that is not there, for a text.
		parts[i] = "CAST(" + quote(table) + "." + quote(c) + " AS TEXT)"
	}
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(parts, ", ")+" FROM "+quote(table)) //nolint:gosec // quoted names
	if err != nil {
		return fmt.Errorf("read replica of %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read replica of %s: %w", table, err)
		}
		row := make([]string, len(columns))
		for i, v := range values {
			row[i] = v.String
		}
		visit(row)
	}
	return rows.Err()
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
