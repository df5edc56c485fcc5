package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/weir-project/weir/dispatcher"
)

// The reasons that this sink gives, as Reason of [Error] or [dispatcher.StopError].
const (
	// ReasonInvalidSink: the URI cannot be used.
	ReasonInvalidSink = "INVALID_SINK"
	// ReasonBusy: another process held the file's write lock longer than the busy timeout.
	ReasonBusy = "SINK_BUSY"
	// ReasonUnwritable: the file or its folder cannot be opened or written.
	ReasonUnwritable = "SINK_UNWRITABLE"
	// ReasonFull: the disk is full.
	ReasonFull = "SINK_FULL"
	// ReasonIO: the operating system failed to read or write the file.
	ReasonIO = "SINK_IO_ERROR"
	// ReasonCorrupt: the file is damaged or no SQLite database.
	ReasonCorrupt = "SINK_CORRUPT"
	// ReasonMismatch: the table at the sink does not fit the rows.
	ReasonMismatch = "SCHEMA_MISMATCH"
	// ReasonValue: a value does not fit SQLite.
	ReasonValue = "VALUE_UNSUPPORTED"
	// ReasonDDL: a schema change cannot be made.
	ReasonDDL = dispatcher.ReasonDDLUnsupported
	// ReasonTableName: the table's name cannot be used at the sink.
	ReasonTableName = "SINK_TABLE_NAME"
)

// ErrClosed is returned by calls on a writer that was closed, or is being closed.
var ErrClosed = errors.New("sqlite: the writer is closed")

// Error is a refusal of the file that may heal: the write can be tried again.
type Error struct {
	// Reason is stable; Text says what happened and what to do.
	Reason, Text string
	Err          error
}

// Error is the reason and the text.
func (e *Error) Error() string { return e.Reason + ": " + e.Text }

// Unwrap is the driver's error.
func (e *Error) Unwrap() error { return e.Err }

// explain turns the driver's errors into sentences; other errors stay as they are.
func explain(path string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return err
	}
	heals := func(reason, text string) error {
		return &Error{Reason: reason, Text: "sink file " + path + " " + text, Err: err}
	}
	switch e.Code() & 0xFF {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_PROTOCOL:
		return heals(ReasonBusy, "is locked by another process; the write is tried again; if this lasts, end the process that holds it")
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return heals(ReasonUnwritable, fmt.Sprintf("cannot be opened for writing (%v); check that its folder exists and both are writable for this user", e))
	case codes.SQLITE_FULL:
		return heals(ReasonFull, "cannot grow: the disk is full; make room")
	case codes.SQLITE_IOERR:
		return heals(ReasonIO, fmt.Sprintf("cannot be read or written (%v); check the disk", e))
	case codes.SQLITE_NOTADB:
		return corrupt(path, "is not a SQLite database")
	case codes.SQLITE_CORRUPT:
		return corrupt(path, fmt.Sprintf("is damaged (%v)", e))
	default:
		return fmt.Errorf("sink file %s: %w", path, err)
	}
}

func corrupt(path, what string) error {
	return &dispatcher.StopError{
		Reason: ReasonCorrupt,
		Text:   "sink file " + path + " " + what + "; move it away, or name another file, and let the changefeed fill a new one",
	}
}
