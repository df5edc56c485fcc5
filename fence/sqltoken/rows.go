package sqltoken

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const rowColumns = "start_key, end_key, epoch, claim, cluster, changefeed, run, resume_ts, resume_stage, session, released"

// store reads and writes the fence rows of one table inside a transaction.
type store struct {
	tx      Tx
	dialect Dialect
	table   string
}

// sql replaces each ? of a statement by the dialect's placeholder.
func (s store) sql(query string) string {
	var b strings.Builder
	n := 0
	for _, part := range strings.SplitAfter(query, "?") {
		if head, ok := strings.CutSuffix(part, "?"); ok {
			n++
			part = head + s.dialect.Placeholder(n)
		}
		b.WriteString(part)
	}
	return b.String()
}

func (s store) exec(ctx context.Context, what, query string, args ...any) error {
	if _, err := s.tx.ExecContext(ctx, s.sql(query), args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// prepare creates the guard's tables and takes the table's lock row.
func (s store) prepare(ctx context.Context) error {
	for _, statement := range s.dialect.Schema {
		if err := s.exec(ctx, "create fence tables", statement); err != nil {
			return err
		}
	}
	if err := s.exec(ctx, "create lock row", s.dialect.InsertIgnore, s.table); err != nil {
		return err
	}
	var name string
	query := s.sql("SELECT table_name FROM " + LockTable + " WHERE table_name = ? " + s.dialect.ForUpdate)
	if err := s.tx.QueryRowContext(ctx, query, s.table).Scan(&name); err != nil {
		return fmt.Errorf("lock fence rows of %s: %w", s.table, err)
	}
	return nil
}

// overlapping returns the rows that overlap span, by start key.
func (s store) overlapping(ctx context.Context, span Range) (list []row, err error) {
	query := "SELECT " + rowColumns + " FROM " + FenceTable + " WHERE table_name = ? AND (end_key IS NULL OR end_key > ?)"
	args := []any{s.table, []byte(span.Start)}
	if span.End != "" {
		query += " AND start_key < ?"
		args = append(args, []byte(span.End))
	}
	rows, err := s.tx.QueryContext(ctx, s.sql(query+" ORDER BY start_key"), args...)
	if err != nil {
		return nil, fmt.Errorf("read fence rows of %s: %w", s.table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r, err := scanRow(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("read fence rows of %s: %w", s.table, err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read fence rows of %s: %w", s.table, err)
	}
	return list, nil
}

// at returns the row that starts at key, under a share lock that lasts until the end of the transaction.
func (s store) at(ctx context.Context, key string) (row, bool, error) {
	query := s.sql("SELECT " + rowColumns + " FROM " + FenceTable + " WHERE table_name = ? AND start_key = ? " + s.dialect.ForShare)
	r, err := scanRow(s.tx.QueryRowContext(ctx, query, s.table, []byte(key)).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return row{}, false, nil
	case err != nil:
		return row{}, false, fmt.Errorf("read own fence row of %s: %w", s.table, err)
	default:
		return r, true, nil
	}
}

func scanRow(scan func(...any) error) (row, error) {
	var r row
	var start, end []byte
	var epoch, claim, run, stage, released int64
	var ts string
	if err := scan(&start, &end, &epoch, &claim, &r.owner.Cluster, &r.owner.Changefeed, &run, &ts, &stage, &r.owner.Session, &released); err != nil {
		return row{}, err
	}
	resume, err := strconv.ParseUint(ts, 10, 64)
	if err != nil || epoch < 0 || claim < 0 || run < 0 || stage < 0 || stage > 255 {
		return row{}, fmt.Errorf("fence row at %x is damaged (epoch %d, claim %d, run %d, resume %s/%d)", start, epoch, claim, run, ts, stage)
	}
	r.span = Range{Start: string(start), End: string(end)}
	r.token = Token{Epoch: uint64(epoch), Claim: uint64(claim)}
	r.owner.Run = uint64(run)
	r.resume = Position{TS: resume, Stage: uint8(stage)}
	r.released = released != 0
	return r, nil
}

func (s store) remove(ctx context.Context, r row) error {
	return s.exec(ctx, "delete fence row", "DELETE FROM "+FenceTable+" WHERE table_name = ? AND start_key = ?", s.table, []byte(r.span.Start))
}

func (s store) insert(ctx context.Context, r row) error {
	var end any
	if r.span.End != "" {
		end = []byte(r.span.End)
	}
	return s.exec(ctx, "insert fence row",
		"INSERT INTO "+FenceTable+" (table_name, "+rowColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		s.table, []byte(r.span.Start), end, int64(r.token.Epoch), int64(r.token.Claim), r.owner.Cluster, r.owner.Changefeed,
		int64(r.owner.Run), strconv.FormatUint(r.resume.TS, 10), int64(r.resume.Stage), r.owner.Session, asInt(r.released))
}

func (s store) setResume(ctx context.Context, start string, p Position, released bool) error {
	return s.exec(ctx, "store resume position",
		"UPDATE "+FenceTable+" SET resume_ts = ?, resume_stage = ?, released = ? WHERE table_name = ? AND start_key = ?",
		strconv.FormatUint(p.TS, 10), int64(p.Stage), asInt(released), s.table, []byte(start))
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
