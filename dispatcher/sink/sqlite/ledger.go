package sqlite

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/fence/sqltoken"
)

// LedgerTable is the table of accepted writes that ledger=true keeps. Lines are only ever added, in the order of their
// commits; boot_ns is the writer's CLOCK_BOOTTIME in nanoseconds, read inside the transaction after its statements.
const LedgerTable = "weir_ledger"

const createLedger = "CREATE TABLE IF NOT EXISTS " + LedgerTable + ` (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	op           TEXT NOT NULL,
	table_name   TEXT NOT NULL,
	start_key    BLOB NOT NULL,
	end_key      BLOB,
	epoch        INTEGER NOT NULL,
	claim        INTEGER NOT NULL,
	resume_ts    TEXT NOT NULL,
	resume_stage INTEGER NOT NULL,
	row_count    INTEGER NOT NULL,
	session      TEXT NOT NULL,
	boot_ns      INTEGER NOT NULL
)`

func (w *writer) prepareLedger(ctx context.Context, tx sqltoken.Tx) error {
	if !w.ledger {
		return nil
	}
	if _, err := tx.ExecContext(ctx, createLedger); err != nil {
		return fmt.Errorf("create ledger: %w", err)
	}
	return nil
}

// enter adds a line to the ledger, if one is kept.
func (w *writer) enter(ctx context.Context, tx sqltoken.Tx, e *WriteEvent) error {
	if !w.ledger {
		return nil
	}
	var end any
	if w.spec.Span.End != "" {
		end = []byte(w.spec.Span.End)
	}
	token := w.guard.Token()
	_, err := tx.ExecContext(ctx, "INSERT INTO "+LedgerTable+
		" (op, table_name, start_key, end_key, epoch, claim, resume_ts, resume_stage, row_count, session, boot_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		e.Op.String(), w.table, []byte(w.spec.Span.Start), end, int64(token.Epoch), int64(token.Claim),
		strconv.FormatUint(e.Resume.TS, 10), int64(e.Resume.Stage), e.Rows, w.spec.Session, w.cfg.Clock())
	if err != nil {
		return fmt.Errorf("enter write in the ledger: %w", err)
	}
	return nil
}
