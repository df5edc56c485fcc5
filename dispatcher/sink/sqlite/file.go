package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/weir-project/weir/fence/clock"
)

// files are the open files of a sink, each with the number of its writers.
type files struct {
	busy   time.Duration
	timers clock.Timers

	mu   sync.Mutex
	open map[string]*file
}

// file is one database file. Its pool has one connection: SQLite has one writer at a time anyhow, and spans of one
// process that queue here, in order, do not compete with each other by polling the file's lock.
type file struct {
	path  string
	db    *sql.DB
	queue queue
	users int // guarded by the mutex of files

	wal sync.Mutex // guards tried
	// tried: the write-ahead log was switched on, or could not be for good.
	tried bool
}

func (s *files) acquire(path string) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.open[path]; ok {
		f.users++
		return f, nil
	}
	db, err := sql.Open(driverName, dsn(path, s.busy))
	if err != nil {
		return nil, explain(path, err)
	}
	db.SetMaxOpenConns(1)
	f := &file{path: path, db: db, users: 1, queue: queue{busy: s.busy, timers: s.timers}}
	s.open[path] = f
	return f, nil
}

// driverName is the name under which modernc.org/sqlite registers itself.
const driverName = "sqlite"

func (s *files) release(f *file) error {
	s.mu.Lock()
	f.users--
	last := f.users == 0
	if last {
		delete(s.open, f.path)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("close sink: %w", explain(f.path, err))
	}
	return nil
}

// check refuses a file that is there but is no database. It reads through SQLite only: a descriptor that this process
// opened and closed by other means would take the locks of its connections along.
func (f *file) check(ctx context.Context) error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // the first claim creates it
	case err != nil:
		return &Error{Reason: ReasonUnwritable, Text: fmt.Sprintf("sink file %s cannot be looked at (%v); check its path and permissions", f.path, err), Err: err}
	case !info.Mode().IsRegular():
		return invalid(Scheme+":"+f.path, "it names something that is not a file")
	case info.Size() == 0:
		return nil
	}
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return explain(f.path, err)
	}
	var tables int
	err = conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables)
	return explain(f.path, errors.Join(err, conn.Close()))
}

// Conn returns the connection, with the write-ahead log switched on if that is possible.
func (f *file) Conn(ctx context.Context) (*sql.Conn, error) {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if err := f.switchToWAL(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// begin starts a transaction with the file's write lock.
func (f *file) begin(ctx context.Context, conn *sql.Conn) error { return f.queue.begin(ctx, conn) }

// isBusy says whether another process had the lock.
func isBusy(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xFF == codes.SQLITE_BUSY
}

// switchToWAL is done once for a file. It is faster and lets readers read during writes; but two processes that switch
// at the same time make each other busy at once, without a wait, and a file without it is as safe. So a busy file is
// left as it is, and the next connection looks again.
func (f *file) switchToWAL(ctx context.Context, conn *sql.Conn) error {
	f.wal.Lock()
	defer f.wal.Unlock()
	if f.tried {
		return nil
	}
	var mode string
	err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
	if isBusy(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("switch to write-ahead log: %w", err)
	}
	f.tried = strings.EqualFold(mode, "wal")
	return nil
}
