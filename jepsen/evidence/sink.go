package evidence

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the sink is read through its own file, not through the product

	"github.com/weir-project/weir/jepsen/changelog"
)

// Entry is a line of the sink's own ledger: something that it accepted. Entries are in the order of their commits.
type Entry struct {
	ID      int64
	Op      string
	Table   string
	Span    Span
	Epoch   Epoch
	Claim   uint64
	TS      uint64
	Stage   int64
	Rows    int64
	Session string
	At      int64
}

// Sink is a SQLite file that a changefeed wrote, opened for reading.
type Sink struct{ db *sql.DB }

// OpenSink opens the file.
func OpenSink(path string) (*Sink, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(10000)"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("open sink %s: %w", path, err)
	}
	return &Sink{db: db}, nil
}

// Close closes the file.
func (s *Sink) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close sink: %w", err)
	}
	return nil
}

// Entries reads the sink's ledger.
func (s *Sink) Entries(ctx context.Context) (list []Entry, err error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT id, op, table_name, start_key, end_key, epoch, claim, resume_ts, resume_stage, row_count, session, boot_ns FROM weir_ledger ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read sink ledger: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e Entry
		var start, end []byte
		var ts string
		if err := rows.Scan(&e.ID, &e.Op, &e.Table, &start, &end, &e.Epoch, &e.Claim, &ts, &e.Stage, &e.Rows, &e.Session, &e.At); err != nil {
			return nil, fmt.Errorf("read sink ledger: %w", err)
		}
		if e.TS, err = strconv.ParseUint(ts, 10, 64); err != nil {
			return nil, fmt.Errorf("read sink ledger, entry %d: %w", e.ID, err)
		}
		e.Span = Span{From: hex.EncodeToString(start), To: hex.EncodeToString(end)}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read sink ledger: %w", err)
	}
	return list, nil
}

// Rows reads a table in canonical text, by the names of its key columns. A table that does not exist has no rows.
func (s *Sink) Rows(ctx context.Context, table string, key []string) (out map[string]map[string]string, err error) {
	out = map[string]map[string]string{}
	var n int
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", table).Scan(&n); err != nil {
		return nil, fmt.Errorf("read sink: %w", err)
	}
	if n == 0 {
		return out, nil
	}
	//nolint:gosec // the name is one of the harness's own tables
	rows, err := s.db.QueryContext(ctx, `SELECT * FROM "`+strings.ReplaceAll(table, `"`, `""`)+`"`)
	if err != nil {
		return nil, fmt.Errorf("read sink table %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("read sink table %s: %w", table, err)
	}
	for rows.Next() {
		row, err := scanRow(rows, columns)
		if err != nil {
			return nil, fmt.Errorf("read sink table %s: %w", table, err)
		}
		var parts []string
		for _, k := range key {
			parts = append(parts, row[k])
		}
		out[changelog.RowKey(parts)] = row
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read sink table %s: %w", table, err)
	}
	return out, nil
}

func scanRow(rows *sql.Rows, columns []string) (map[string]string, error) {
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	if err := rows.Scan(pointers...); err != nil {
		return nil, err
	}
	row := make(map[string]string, len(columns))
	for i, name := range columns {
		row[name] = canonical(values[i])
	}
	return row, nil
}

func canonical(v any) string {
	switch v := v.(type) {
	case nil:
		return changelog.Null
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		if v {
			return "1"
		}
		return "0"
	case []byte:
		return hex.EncodeToString(v)
	default:
		return fmt.Sprint(v)
	}
}
