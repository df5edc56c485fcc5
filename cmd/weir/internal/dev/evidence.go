package dev

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/fsm"
)

// Handover is a change of owner of one range as the sink saw it.
type Handover struct {
	Table, Keys string
	// From and To are consecutive epochs under which something was written; Before and After are the sessions that wrote.
	From, To      uint64
	Before, After string
	// Gap is the time from the last accepted write under From to the first one under To, on one clock of the machine. If it
	// is not above zero, an old owner has written after the next one.
	Gap time.Duration
}

// String says what was handed over.
func (h Handover) String() string {
	return fmt.Sprintf("%s: %s %s from %s (epoch %s) to %s (epoch %s)",
		h.Gap.Round(time.Microsecond), h.Table, h.Keys, nodeOf(h.Before), show.Token(h.From), nodeOf(h.After), show.Token(h.To))
}

// nodeOf is the node of a session, NODE/INCARNATION.
func nodeOf(session string) string {
	node, _, _ := strings.Cut(session, "/")
	return node
}

// Evidence is what the sink recorded of who wrote when.
type Evidence struct {
	// Batches and Rows count accepted writes.
	Batches, Rows int
	Handovers     []Handover
	// Backwards counts accepted writes under an epoch below one that had written the same range before.
	Backwards int
}

// Smallest is the handover with the smallest gap; ok is false if there was none.
func (e *Evidence) Smallest() (h Handover, ok bool) {
	if len(e.Handovers) == 0 {
		return Handover{}, false
	}
	return slices.MinFunc(e.Handovers, func(a, b Handover) int { return cmp.Compare(a.Gap, b.Gap) }), true
}

// write is a line of the sink's ledger.
type write struct {
	op, table, start, end string
	epoch                 uint64
	session               string
	boot                  int64
	rows                  int
	resume                fsm.Position
}

// readLedger reads the ledger that the sink keeps in the same transactions as the rows.
func readLedger(ctx context.Context, db *sql.DB) (all []write, err error) {
	const query = "SELECT op, table_name, start_key, coalesce(end_key, x''), epoch, session, boot_ns, row_count, resume_ts, resume_stage FROM " + sqlite.LedgerTable + " ORDER BY id"
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read the sink's ledger: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var w write
		var start, end []byte
		var ts string
		if err := rows.Scan(&w.op, &w.table, &start, &end, &w.epoch, &w.session, &w.boot, &w.rows, &ts, &w.resume.Stage); err != nil {
			return nil, fmt.Errorf("read the sink's ledger: %w", err)
		}
		if w.resume.TS, err = strconv.ParseUint(ts, 10, 64); err != nil {
			return nil, fmt.Errorf("read the sink's ledger: position %q: %w", ts, err)
		}
		w.start, w.end = string(start), string(end)
		all = append(all, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the sink's ledger: %w", err)
	}
	return all, nil
}

// tenure is one epoch of one range.
type tenure struct {
	epoch       uint64
	session     string
	first, last int64
}

type keyRange struct{ table, start, end string }

// pieces cuts the keys of each table wherever any write begins or ends, so that writes of a range, of its parts after a
// split and of what they were merged into can be compared key by key.
func pieces(all []write) map[string][]keyRange {
	cuts := map[string][]string{}
	for _, w := range all {
		cuts[w.table] = append(cuts[w.table], w.start)
		if w.end != "" {
			cuts[w.table] = append(cuts[w.table], w.end)
		}
	}
	parts := map[string][]keyRange{}
	for table, at := range cuts {
		slices.Sort(at)
		at = slices.Compact(at)
		for i, start := range at {
			end := ""
			if i+1 < len(at) {
				end = at[i+1]
			}
			parts[table] = append(parts[table], keyRange{table, start, end})
		}
	}
	return parts
}

// covers says whether the write is about the keys.
func (w *write) covers(r keyRange) bool {
	return w.start <= r.start && (w.end == "" || (r.end != "" && r.end <= w.end))
}

// weigh finds the handovers in accepted writes, given in the order of their commits.
func weigh(all []write) Evidence {
	parts := pieces(all)
	var e Evidence
	tenures := map[keyRange][]*tenure{}
	var order []keyRange
	for _, w := range all {
		e.Batches++
		e.Rows += w.rows
		for _, r := range parts[w.table] {
			if !w.covers(r) {
				continue
			}
			if tenures[r] == nil {
				order = append(order, r)
			}
			if held := tenures[r]; len(held) > 0 && w.epoch < slices.MaxFunc(held, byEpoch).epoch {
				e.Backwards++
			}
			tenures[r] = hold(tenures[r], w)
		}
	}
	for _, r := range order {
		held := tenures[r]
		slices.SortFunc(held, byEpoch)
		for i, t := range held[1:] {
			before := held[i]
			e.Handovers = append(e.Handovers, Handover{
				Table: r.table, Keys: keys(r), From: before.epoch, To: t.epoch, Before: before.session, After: t.session,
				Gap: time.Duration(t.first - before.last),
			})
		}
	}
	return e
}

// hold counts a write for the epoch that it was made under.
func hold(held []*tenure, w write) []*tenure {
	at := slices.IndexFunc(held, func(t *tenure) bool { return t.epoch == w.epoch })
	if at < 0 {
		return append(held, &tenure{epoch: w.epoch, session: w.session, first: w.boot, last: w.boot})
	}
	held[at].first, held[at].last = min(held[at].first, w.boot), max(held[at].last, w.boot)
	return held
}

func byEpoch(a, b *tenure) int { return cmp.Compare(a.epoch, b.epoch) }

func keys(r keyRange) string {
	start, end := "-inf", "+inf"
	if r.start != "" {
		start = keycode.Describe(r.start)
	}
	if r.end != "" {
		end = keycode.Describe(r.end)
	}
	return "[" + start + ", " + end + ")"
}

// Refusals counts what agents were kept from writing.
type Refusals struct {
	// AtSink calls met a newer token at the sink, AtGate ones a lease that was over.
	AtSink, AtGate int
}

// countRefusals reads the agents' own ledgers.
func countRefusals(dir string) (Refusals, error) {
	var r Refusals
	paths, err := filepath.Glob(filepath.Join(dir, "*.ledger.ndjson"))
	if err != nil {
		return r, fmt.Errorf("find ledgers: %w", err)
	}
	for _, path := range paths {
		if err := r.count(path); err != nil {
			return r, err
		}
	}
	return r, nil
}

// count reads one ledger. A last line that is cut short belongs to a process that was killed while it wrote.
func (r *Refusals) count(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	const longest = 1 << 20
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var l struct{ Event, Outcome string }
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Event != "outcome" {
			continue
		}
		switch l.Outcome {
		case "fenced":
			r.AtSink++
		case "refused":
			r.AtGate++
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read ledger %s: %w", path, err)
	}
	return nil
}
