package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fence/sqltoken"
	"github.com/weir-project/weir/fsm"
)

// replica says whether the sink has a replica of a source table, under name, and this changefeed may change it: the file
// may hold tables that nobody replicates, and those of other changefeeds, whose own triggers change them.
func (e *ddlEvent) replica(ctx context.Context, source fsm.TableRef) (name string, ours bool, err error) {
	name, can := replicaName(source)
	if !can {
		return "", false, nil
	}
	there, err := registered(ctx, e.tx, name)
	if err != nil || there != source {
		return name, false, err
	}
	others, err := e.claimedByOthers(ctx, name)
	return name, !others, err
}

// replicaName is the name of a table's replica; false: a table of that name is never replicated.
func replicaName(source fsm.TableRef) (string, bool) {
	name, err := sinkTable(dispatcher.TableName(source))
	return name, err == nil
}

// registered is the source table to which the replica of that name belongs; zero if there is none.
func registered(ctx context.Context, tx sqltoken.Tx, name string) (there fsm.TableRef, err error) {
	err = tx.QueryRowContext(ctx, "SELECT source_schema, source_table FROM "+tablesTable+" WHERE name = ?", name).Scan(&there.Schema, &there.Name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fsm.TableRef{}, fmt.Errorf("read registration of table %s: %w", name, err)
	}
	return there, nil
}

func (e *ddlEvent) claimedByOthers(ctx context.Context, name string) (others bool, err error) {
	err = e.tx.QueryRowContext(ctx, "SELECT count(*) > 0 FROM "+sqltoken.FenceTable+
		" WHERE table_name = ? AND released = 0 AND (cluster <> ? OR changefeed <> ?)", name, e.spec.Cluster, e.spec.Changefeed).Scan(&others)
	if err != nil {
		return false, fmt.Errorf("read owners of table %s: %w", name, err)
	}
	return others, nil
}

// exists says whether a table of that name is in the file, and whether it has rows.
func exists(ctx context.Context, tx sqltoken.Tx, name string) (there, rows bool, err error) {
	at, err := loadLayout(ctx, tx, name)
	if err != nil || at == nil {
		return false, false, err
	}
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+quote(name)+")").Scan(&rows); err != nil {
		return false, false, fmt.Errorf("look into table %s: %w", name, err)
	}
	return true, rows, nil
}

// eachReplica calls do for the replicas of tables that this changefeed may change.
func (e *ddlEvent) eachReplica(ctx context.Context, tables []fsm.TableRef, do func(context.Context, string) error) error {
	for _, t := range tables {
		name, ours, err := e.replica(ctx, t)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		if err := do(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (e *ddlEvent) exec(ctx context.Context, query string, args ...any) error {
	if _, err := e.tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%s: %w", clipSQL(query), err)
	}
	return nil
}

func clipSQL(query string) string {
	const most = 120
	if len(query) <= most {
		return query
	}
	return strings.ToValidUTF8(query[:most], "") + "..."
}

// create makes a table. One that is there must be able to hold the rows; after an earlier run it may have changed since,
// and is made anew, since a table that was just created is empty.
func (e *ddlEvent) create(ctx context.Context, c *schema.Change) error {
	source := dispatcher.TableName(c.Tables[0])
	name, err := sinkTable(source)
	if err != nil {
		return err
	}
	want := layout{name: name, key: c.Key}
	for i := range c.Columns {
		col := &c.Columns[i]
		if want.find(col.Name) != nil {
			return refuse("SQLite cannot tell column %s from %s", col.Name, want.find(col.Name).name)
		}
		want.columns = append(want.columns, layoutColumn{name: col.Name, declared: declaredType(col.Type), source: col.Type})
	}
	if err := register(ctx, e.tx, name, source); err != nil {
		return err
	}
	have, err := loadLayout(ctx, e.tx, name)
	switch {
	case err != nil:
		return err
	case have == nil && len(want.columns) == 0:
		return nil // SQLite has no table without columns; the first rows make it
	case have == nil:
	case c.IfNotExists, have.holds(&want) == "":
		return nil
	case e.again:
		if err := e.exec(ctx, "DROP TABLE "+quote(name)); err != nil {
			return err
		}
	default:
		return refuse("a table %q is there that cannot hold the rows: %s; drop or rename it", name, have.holds(&want))
	}
	if err := e.exec(ctx, "DELETE FROM "+columnsTable+" WHERE table_name = ?", name); err != nil {
		return err
	}
	if err := want.create(ctx, e.tx); err != nil {
		return err
	}
	return storeKey(ctx, e.tx, name, want.keyColumns())
}

// holds says what keeps a table from holding the rows of another layout; empty: nothing does. More columns do no harm.
func (l *layout) holds(want *layout) string {
	if len(want.key) > 0 && !sameNames(l.key, want.key) {
		return fmt.Sprintf("its primary key is (%s), not (%s)", strings.Join(l.key, ", "), strings.Join(want.key, ", "))
	}
	for _, col := range want.columns {
		have := l.find(col.name)
		if have == nil {
			return "it has no column " + col.name
		}
		if !have.keeps(col.source) {
			return fmt.Sprintf("its column %s is declared %s, not %s", col.name, have.declared, col.declared)
		}
	}
	return ""
}

// keyColumns are the key columns with their types, as they are recorded.
func (l *layout) keyColumns() []keyColumn {
	key := make([]keyColumn, len(l.key))
	for i, k := range l.key {
		key[i].Name = k
		if col := l.find(k); col != nil {
			key[i].Name, key[i].Type = col.name, col.source
		}
	}
	return key
}

func (e *ddlEvent) drop(ctx context.Context, name string) error {
	if err := e.exec(ctx, "DROP TABLE IF EXISTS "+quote(name)); err != nil {
		return err
	}
	return e.forget(ctx, name)
}

// forget removes what is noted of a table. Its fence rows stay, so that no older token can write to a table that is
// created again under the name.
func (e *ddlEvent) forget(ctx context.Context, name string) error {
	if err := e.exec(ctx, "DELETE FROM "+columnsTable+" WHERE table_name = ?", name); err != nil {
		return err
	}
	return e.exec(ctx, "DELETE FROM "+tablesTable+" WHERE name = ?", name)
}

func (e *ddlEvent) truncate(ctx context.Context, name string) error {
	there, _, err := exists(ctx, e.tx, name)
	if err != nil || !there {
		return err
	}
	return e.exec(ctx, "DELETE FROM "+quote(name))
}

// rename gives a replica its new name. Fence rows belong to names and stay: the table goes on as a new one.
func (e *ddlEvent) rename(ctx context.Context, from, to fsm.TableRef) error {
	old, ours, err := e.replica(ctx, from)
	if err != nil || !ours {
		return err
	}
	target, err := sinkTable(dispatcher.TableName(to))
	if err != nil {
		return err
	}
	if !sameName(old, target) {
		if over, err := e.makeRoom(ctx, old, target, to); err != nil || over {
			return err
		}
	}
	there, _, err := exists(ctx, e.tx, old)
	if err != nil {
		return err
	}
	if there {
		if err := e.renameTable(ctx, old, target); err != nil {
			return err
		}
	}
	if err := e.exec(ctx, "UPDATE "+columnsTable+" SET table_name = ? WHERE table_name = ?", target, old); err != nil {
		return err
	}
	return e.exec(ctx, "UPDATE "+tablesTable+" SET name = ?, source_schema = ?, source_table = ? WHERE name = ?", target, to.Schema, to.Name, old)
}

// makeRoom sees to it that the new name is free. After an earlier run the table may be there under its new name, with
// all that came later; then the old one, which rows of this run have made, goes, and that is all (over).
func (e *ddlEvent) makeRoom(ctx context.Context, old, target string, to fsm.TableRef) (over bool, err error) {
	there, _, err := exists(ctx, e.tx, target)
	if err != nil {
		return false, err
	}
	holder, err := registered(ctx, e.tx, target)
	switch {
	case err != nil:
		return false, err
	case holder != (fsm.TableRef{}) && holder != to:
		return false, refuse("table %q is the replica of %s already", target, holder)
	case !there:
		return false, e.forget(ctx, target) // a claim noted it
	case e.again && holder == to:
		return true, e.drop(ctx, old)
	default:
		return false, refuse("a table %q is there already; drop or rename it", target)
	}
}

// renameTable renames a table. SQLite refuses a name that differs in the case of letters only, so that one goes by way
// of another; and views of the sink's users must not stand in the way.
func (e *ddlEvent) renameTable(ctx context.Context, old, target string) error {
	steps := []string{target}
	if sameName(old, target) {
		steps = []string{reservedPrefix + "renamed", target}
	}
	for _, next := range steps {
		if err := e.exec(ctx, "ALTER TABLE "+quote(old)+" RENAME TO "+quote(next)); err != nil {
			return err
		}
		old = next
	}
	return nil
}
