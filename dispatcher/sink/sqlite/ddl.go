package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fence/sqltoken"
	"github.com/weir-project/weir/fsm"
)

const (
	ddlTable = "weir_ddl"
	// SyncPointTable holds a row for each sync point: when it was written, everything of the changefeed up to its ts was
	// in the file, and nothing later.
	SyncPointTable = "weir_syncpoints"
	// triggerPrefix begins the names under which triggers claim.
	triggerPrefix = reservedPrefix + "trigger/"

	createDDL = "CREATE TABLE IF NOT EXISTS " + ddlTable + ` (
	cluster    TEXT NOT NULL,
	changefeed TEXT NOT NULL,
	run        INTEGER NOT NULL,
	ts         TEXT NOT NULL,
	stage      INTEGER NOT NULL,
	statement  TEXT NOT NULL,
	epoch      INTEGER NOT NULL,
	claim      INTEGER NOT NULL,
	PRIMARY KEY (cluster, changefeed, run, ts, stage)
)`
	createSyncPoints = "CREATE TABLE IF NOT EXISTS " + SyncPointTable + ` (
	cluster    TEXT NOT NULL,
	changefeed TEXT NOT NULL,
	run        INTEGER NOT NULL,
	ts         TEXT NOT NULL,
	epoch      INTEGER NOT NULL,
	claim      INTEGER NOT NULL,
	PRIMARY KEY (cluster, changefeed, run, ts)
)`
)

// ddlEvent is an event that is being written, inside the guard's transaction: what it does and its record commit
// together.
type ddlEvent struct {
	tx    sqltoken.Tx
	spec  *dispatcher.SinkSpec
	token sqltoken.Token
	ddl   *dispatcher.DDL
	// again: an earlier run has made this very change. What the sink holds is then that state, or a later one, and rows
	// that follow in the log bring it there again.
	again bool
}

// run makes the event and leaves its record, unless the record is there: then done is true.
func (e *ddlEvent) run(ctx context.Context) (done bool, err error) {
	switch e.ddl.Key.Position.Stage {
	case fsm.StageDDL:
		return e.schemaChange(ctx)
	case fsm.StageSyncPoint:
		return e.syncPoint(ctx)
	case fsm.StageNone, fsm.StageRows:
	}
	return false, fmt.Errorf("sqlite: an event cannot stand at %s", e.ddl.Key.Position)
}

func (e *ddlEvent) schemaChange(ctx context.Context) (done bool, err error) {
	key := &e.ddl.Key
	ts := strconv.FormatUint(key.Position.TS, 10)
	err = e.tx.QueryRowContext(ctx, "SELECT coalesce(max(run = ?), 0), count(*) > 0 FROM "+ddlTable+
		" WHERE cluster = ? AND changefeed = ? AND ts = ? AND stage = ?",
		int64(key.Run), e.spec.Cluster, key.Changefeed, ts, int64(key.Position.Stage)).Scan(&done, &e.again)
	if err != nil {
		return false, fmt.Errorf("read record of schema change: %w", err)
	}
	if done {
		return true, nil
	}
	if err := e.change(ctx); err != nil {
		return false, err
	}
	_, err = e.tx.ExecContext(ctx,
		"INSERT INTO "+ddlTable+" (cluster, changefeed, run, ts, stage, statement, epoch, claim) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		e.spec.Cluster, key.Changefeed, int64(key.Run), ts, int64(key.Position.Stage), e.ddl.Statement, int64(e.token.Epoch), int64(e.token.Claim))
	if err != nil {
		return false, fmt.Errorf("record schema change %q: %w", e.ddl.Statement, err)
	}
	return false, nil
}

func (e *ddlEvent) syncPoint(ctx context.Context) (done bool, err error) {
	key := &e.ddl.Key
	result, err := e.tx.ExecContext(ctx, "INSERT INTO "+SyncPointTable+" (cluster, changefeed, run, ts, epoch, claim) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		e.spec.Cluster, key.Changefeed, int64(key.Run), strconv.FormatUint(key.Position.TS, 10), int64(e.token.Epoch), int64(e.token.Claim))
	if err != nil {
		return false, fmt.Errorf("record sync point: %w", err)
	}
	added, err := result.RowsAffected()
	return added == 0, err
}

// deleteRecords forgets the events of a changefeed.
func deleteRecords(ctx context.Context, tx sqltoken.Tx, cluster, changefeed string) error {
	for _, table := range []string{ddlTable, SyncPointTable} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE cluster = ? AND changefeed = ?", cluster, changefeed); err != nil {
			return fmt.Errorf("delete records of %s: %w", changefeed, err)
		}
	}
	return nil
}

// refusedError carries why a change cannot be made.
type refusedError struct{ why string }

func (e refusedError) Error() string { return e.why }

func refuse(format string, args ...any) error { return refusedError{fmt.Sprintf(format, args...)} }

// change makes the change. What SQLite itself refuses, because of an index, say, that somebody made at the sink, is
// refused like what it cannot express: trying again would not help.
func (e *ddlEvent) change(ctx context.Context) error {
	err := e.make(ctx)
	if err == nil {
		return nil
	}
	why := ""
	if refused, ok := errors.AsType[refusedError](err); ok {
		why = refused.why
	} else if stop, ok := errors.AsType[*dispatcher.StopError](err); ok {
		why = stop.Text
	} else if failed, ok := errors.AsType[*driver.Error](err); ok && (failed.Code()&0xFF == codes.SQLITE_ERROR || failed.Code()&0xFF == codes.SQLITE_CONSTRAINT) {
		why = "SQLite refuses it: " + err.Error()
	} else {
		return err
	}
	return e.unsupported(why)
}

func (e *ddlEvent) unsupported(why string) error {
	key := &e.ddl.Key
	literal := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return &dispatcher.StopError{Reason: ReasonDDL, Text: fmt.Sprintf(
		"the schema change %q at position %s cannot be made at %s: %s. Make it at the sink by hand, so that the sink is as the source was then, "+
			"and say so there, then resume the changefeed: INSERT INTO %s (cluster, changefeed, run, ts, stage, statement, epoch, claim) VALUES (%s, %s, %d, '%d', %d, 'by hand', 0, 0)",
		e.ddl.Statement, key.Position, e.spec.URI, why,
		ddlTable, literal(e.spec.Cluster), literal(key.Changefeed), key.Run, key.Position.TS, key.Position.Stage)}
}

func (e *ddlEvent) make(ctx context.Context) error {
	c := &e.ddl.Change
	switch c.Kind {
	case schema.KindNothing:
		return nil
	case schema.KindCreate:
		return e.create(ctx, c)
	case schema.KindDrop:
		return e.eachReplica(ctx, c.Tables, e.drop)
	case schema.KindTruncate:
		return e.eachReplica(ctx, c.Tables, e.truncate)
	case schema.KindRename:
		return e.rename(ctx, c.Tables[0], c.To)
	case schema.KindAlter:
		return e.eachReplica(ctx, c.Tables, func(ctx context.Context, name string) error { return e.alter(ctx, name, c.Actions) })
	case schema.KindUnsupported:
		return refuse("%s", c.Why)
	default:
		return fmt.Errorf("sqlite: schema change of unknown kind %d", c.Kind)
	}
}
