package sqlite

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/sqltoken"
)

const (
	ddlTable = "weir_ddl"

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
	// ddlSavepoint is gone after a statement that ended the transaction.
	ddlSavepoint = "weir_ddl_statement"
)

// runDDL runs a statement verbatim and leaves its record, unless the record is there: then done is true.
func runDDL(ctx context.Context, tx sqltoken.Tx, cluster string, ddl dispatcher.DDL, token sqltoken.Token) (done bool, err error) {
	if _, err := tx.ExecContext(ctx, createDDL); err != nil {
		return false, fmt.Errorf("create %s: %w", ddlTable, err)
	}
	key := []any{
		cluster, ddl.Key.Changefeed, int64(ddl.Key.Run),
		strconv.FormatUint(ddl.Key.Position.TS, 10), int64(ddl.Key.Position.Stage),
	}
	var records int
	err = tx.QueryRowContext(ctx,
		"SELECT count(*) FROM "+ddlTable+" WHERE cluster = ? AND changefeed = ? AND run = ? AND ts = ? AND stage = ?", key...).Scan(&records)
	if err != nil {
		return false, fmt.Errorf("read record of schema change: %w", err)
	}
	if records > 0 {
		return true, nil
	}
	for _, statement := range []string{"SAVEPOINT " + ddlSavepoint, ddl.Statement, "RELEASE " + ddlSavepoint} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return false, fmt.Errorf("schema change %q at %s: %w", ddl.Statement, ddl.Key.Position, err)
		}
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO "+ddlTable+" (cluster, changefeed, run, ts, stage, statement, epoch, claim) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		append(key, ddl.Statement, int64(token.Epoch), int64(token.Claim))...)
	if err != nil {
		return false, fmt.Errorf("record schema change %q: %w", ddl.Statement, err)
	}
	return false, nil
}
