package dispatcher

import (
	"context"

	"github.com/weir-project/weir/fsm"
)

// SourceSpec says what one dispatcher reads.
type SourceSpec struct {
	// URI names the source as the changefeed gives it, for example "wal2json:/var/log/shop.ndjson".
	URI string
	// Table is the table's name at the source, Span its key range. Its reader delivers the rows of the span, and the
	// schema changes that concern the table, under its old or its new name.
	Table TableName
	Span  fsm.Span
	// Trigger: deliver the schema changes of all tables, and no rows. Table and Span are not used then.
	Trigger bool
	// Start is where to begin: the first transaction delivered is the first one after it. Any position will do, also one
	// between the rows and the schema change of one ts.
	Start fsm.Position
}

// Source opens readers of change streams. Implementations must be safe for concurrent use.
type Source interface {
	// Open starts reading at spec.Start. An error that is a *StopError says that the dispatcher cannot run with this
	// input; any other error may heal and is retried through the scheduler.
	Open(ctx context.Context, spec SourceSpec) (Reader, error)
}

// Reader delivers the transactions of one span in commit order, and its schema changes where they stand among them. It is used by one goroutine at a time.
type Reader interface {
	// Next returns the next transaction. It blocks until there is one, and returns a Transaction without changes now and
	// then so that progress is seen over silent spans. When a source with an end has reached it, Next returns io.EOF
	// (every time), after a transaction that carries the last position; the dispatcher then stays, idle. A *StopError
	// names data that this dispatcher cannot replicate: nothing of it has been skipped.
	Next(ctx context.Context) (Transaction, error)
	// Close releases what the reader holds; no Next may be running.
	Close() error
}

// StopError stops a dispatcher for a reason that retrying does not heal: a malformed line, a schema change that cannot
// be expressed at the sink. It reaches users, so Reason is stable and Text says what, where, and what to do.
type StopError struct {
	Reason string
	Text   string
}

// Error is the text with its reason.
func (e *StopError) Error() string { return e.Reason + ": " + e.Text }
