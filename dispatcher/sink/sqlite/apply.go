package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/sqltoken"
)

// apply writes changes in order, after creating the table if it is missing.
func apply(ctx context.Context, tx sqltoken.Tx, table string, changes []dispatcher.Change) (err error) {
	if len(changes) == 0 {
		return nil
	}
	at, err := loadLayout(ctx, tx, table)
	if err != nil {
		return err
	}
	if at == nil {
		if !slices.ContainsFunc(changes, func(c dispatcher.Change) bool { return c.Op == dispatcher.OpUpsert }) {
			return nil // nothing was ever written, so nothing is to be deleted
		}
		if err := createFor(ctx, tx, table, changes); err != nil {
			return err
		}
		if at, err = loadLayout(ctx, tx, table); err != nil {
			return err
		}
	}
	if err := recordKey(ctx, tx, table, changes[0].PK); err != nil {
		return err
	}
	s := statements{tx: tx, table: table, prepared: make(map[string]*sql.Stmt)}
	defer func() { err = errors.Join(err, s.close()) }()
	for i := range changes {
		if err := at.accept(&changes[i]); err != nil {
			return err
		}
		if err := at.learn(ctx, tx, changes[i].Columns); err != nil {
			return err
		}
		if err := s.run(ctx, &changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// statements prepares each kind of statement once in a batch.
type statements struct {
	tx       sqltoken.Tx
	table    string
	prepared map[string]*sql.Stmt
}

func (s *statements) run(ctx context.Context, c *dispatcher.Change) error {
	var query string
	var cols []dispatcher.Column
	switch c.Op {
	case dispatcher.OpUpsert:
		query, cols = upsertSQL(s.table, c), c.Columns
	case dispatcher.OpDelete:
		query, cols = deleteSQL(s.table, c.PK), c.PK
	default:
		return fmt.Errorf("table %s: change of unknown kind %d", s.table, c.Op)
	}
	args := make([]any, len(cols))
	for i, col := range cols {
		var err error
		if args[i], err = bind(col); err != nil {
			return err
		}
	}
	stmt, ok := s.prepared[query]
	if !ok {
		var err error
		if stmt, err = s.tx.PrepareContext(ctx, query); err != nil {
			return fmt.Errorf("%s %s: %w", c.Op, s.table, err)
		}
		s.prepared[query] = stmt
	}
	if _, err := stmt.ExecContext(ctx, args...); err != nil {
		return fmt.Errorf("%s %s: %w", c.Op, s.table, err)
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

func upsertSQL(table string, c *dispatcher.Change) string {
	var sets []string
	for _, col := range c.Columns {
		if !slices.ContainsFunc(c.PK, func(k dispatcher.Column) bool { return k.Name == col.Name }) {
			sets = append(sets, quote(col.Name)+" = excluded."+quote(col.Name))
		}
	}
	action := "NOTHING"
	if len(sets) > 0 {
		action = "UPDATE SET " + strings.Join(sets, ", ")
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(c.Columns)), ", ")
	return "INSERT INTO " + quote(table) + " (" + quotedNames(c.Columns) + ") VALUES (" + marks +
		") ON CONFLICT (" + quotedNames(c.PK) + ") DO " + action
}

func deleteSQL(table string, pk []dispatcher.Column) string {
	conditions := make([]string, len(pk))
	for i, c := range pk {
		conditions[i] = quote(c.Name) + " = ?"
	}
	return "DELETE FROM " + quote(table) + " WHERE " + strings.Join(conditions, " AND ")
}
