package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fence/sqltoken"
	"github.com/weir-project/weir/fsm"
)

// DefaultBusyTimeout is how long a write waits for other processes by default.
const DefaultBusyTimeout = 5 * time.Second

// Config says how the sink behaves. The zero Config is usable.
type Config struct {
	// BusyTimeout bounds the wait for the write lock that another process holds; DefaultBusyTimeout if zero. A wait ends
	// with its context, too.
	BusyTimeout time.Duration
	// Timers makes the timers of that wait; [clock.SystemTimers] if nil.
	Timers clock.Timers
	// Clock reads CLOCK_BOOTTIME in nanoseconds, for the ledger; required for URIs with ledger=true only.
	Clock func() int64
	// OnWrite is told about every write, DDL and delete, accepted or not; optional, must not block.
	OnWrite func(WriteEvent)
	// OnRefused is told about every claim and write that the fence refused; optional, must not block.
	OnRefused func(sqltoken.Refusal)
}

// Op is what a WriteEvent did.
type Op uint8

// The operations.
const (
	OpWrite Op = iota + 1
	OpDDL      // a schema change or a sync point took effect
	OpDelete
	OpDDLKnown // it had taken effect before: its record was there
)

// String is the operation's word; the ledger holds it.
func (o Op) String() string {
	switch o {
	case OpWrite:
		return "write"
	case OpDDL:
		return "ddl"
	case OpDelete:
		return "delete"
	case OpDDLKnown:
		return "ddl-known"
	default:
		return "unset"
	}
}

// WriteEvent tells about one write.
type WriteEvent struct {
	Op    Op
	Table dispatcher.TableName
	Span  fsm.Span
	Token dispatcher.Token
	// Rows counts the changes of an accepted batch, or the rows that were deleted.
	Rows int
	// Resume is the position that was stored; zero for DDL and delete.
	Resume fsm.Position
	// Err is nil if the write was committed.
	Err error
}

// Sink writes to SQLite files. It implements [dispatcher.Sink].
type Sink struct {
	cfg   Config
	files files
}

var _ dispatcher.Sink = (*Sink)(nil)

// New returns a sink. Files are opened with their first writer and closed with their last.
func New(cfg Config) (*Sink, error) {
	if cfg.BusyTimeout < 0 {
		return nil, errors.New("sqlite: Config.BusyTimeout is negative")
	}
	if cfg.BusyTimeout == 0 {
		cfg.BusyTimeout = DefaultBusyTimeout
	}
	if cfg.Timers == nil {
		cfg.Timers = clock.SystemTimers{}
	}
	return &Sink{cfg: cfg, files: files{open: make(map[string]*file), busy: cfg.BusyTimeout, timers: cfg.Timers}}, nil
}

// Properties says that the sink is fenced.
func (s *Sink) Properties() dispatcher.SinkProperties { return dispatcher.SinkProperties{Fenced: true} }

// Open prepares a writer; see [dispatcher.Sink]. It refuses a file that is no database.
func (s *Sink) Open(ctx context.Context, spec dispatcher.SinkSpec) (dispatcher.SpanWriter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	loc, err := parseURI(spec.URI)
	if err != nil {
		return nil, err
	}
	if loc.ledger && s.cfg.Clock == nil {
		return nil, errors.New("sqlite: ledger=true needs Config.Clock")
	}
	table, err := claimedTable(&spec)
	if err != nil {
		return nil, err
	}
	f, err := s.files.acquire(loc.path)
	if err != nil {
		return nil, err
	}
	if err := f.check(ctx); err != nil {
		return nil, errors.Join(err, s.files.release(f))
	}
	w := &writer{cfg: s.cfg, files: &s.files, file: f, spec: spec, table: table, ledger: loc.ledger}
	w.guard, err = sqltoken.New(sqltoken.Config{
		DB:      f,
		Begin:   f.begin,
		Dialect: sqltoken.SQLite(),
		Table:   table,
		Range:   sqltoken.Range{Start: spec.Span.Start, End: spec.Span.End},
		Owner: sqltoken.Owner{
			Cluster: spec.Cluster, Changefeed: spec.Changefeed, Run: spec.Run, Session: spec.Session,
		},
		Prepare:   w.prepare,
		OnRefused: s.cfg.OnRefused,
	})
	if err != nil {
		return nil, errors.Join(err, s.files.release(f))
	}
	return w, nil
}

// claimedTable is the name under which the fence rows of a writer stand. A trigger's belong to no table, since no table
// may have a name that begins so.
func claimedTable(spec *dispatcher.SinkSpec) (string, error) {
	if !spec.Trigger {
		return sinkTable(spec.Table)
	}
	spec.Span = fsm.WholeTable()
	spec.Table = dispatcher.TableName{Name: triggerPrefix + spec.Cluster + "/" + spec.Changefeed}
	return spec.Table.Name, nil
}
