package checker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/evidence"
)

// written is what a sink has accepted for one span so far.
type written struct {
	span        evidence.Span
	epoch       evidence.Epoch
	claim       uint64
	ts          uint64
	stage       int64
	at          int64
	session     string
	hasAccepted bool
}

// SinkOrder checks the sink's own ledger: tokens never go back where ranges overlap, an epoch has one writer, the resume
// position of a range never goes back.
func SinkOrder(sink string, entries []evidence.Entry) *Report {
	r := &Report{Check: "tokens at the sink never go back"}
	tables := map[string][]*written{}
	var gaps []int64
	for _, e := range entries {
		r.Looked++
		mine := (*written)(nil)
		for _, w := range tables[e.Table] {
			if w.span == e.Span {
				mine = w
			}
			if w.span.Overlaps(e.Span) {
				gaps = afterOther(r, sink, w, &e, gaps)
			}
		}
		if mine == nil {
			mine = &written{span: e.Span}
			tables[e.Table] = append(tables[e.Table], mine)
		}
		if mine.hasAccepted && (e.TS < mine.ts || (e.TS == mine.ts && e.Stage < mine.stage)) {
			r.violate("%s, %s: entry %d goes back from position %d to %d", sink, e.Table, e.ID, mine.ts, e.TS)
		}
		*mine = written{e.Span, e.Epoch, e.Claim, e.TS, e.Stage, e.At, e.Session, true}
	}
	spread(r, "gap ns between owners at the sink", gaps)
	return r
}

func afterOther(r *Report, sink string, w *written, e *evidence.Entry, gaps []int64) []int64 {
	switch {
	case e.Epoch < w.epoch || (e.Epoch == w.epoch && e.Claim < w.claim):
		r.violate("%s, %s: entry %d of token (%d, %d) was accepted after one of (%d, %d)", sink, e.Table, e.ID, e.Epoch, e.Claim, w.epoch, w.claim)
	case e.Epoch == w.epoch && e.Session != w.session:
		r.violate("%s, %s: epoch %d was used by %s and by %s", sink, e.Table, e.Epoch, w.session, e.Session)
	case e.Epoch > w.epoch:
		gap := e.At - w.at
		if gap <= 0 {
			r.violate("%s, %s: epoch %d wrote %v before the last write of epoch %d", sink, e.Table, e.Epoch, time.Duration(-gap), w.epoch)
		}
		return append(gaps, gap)
	}
	return gaps
}

// Delivery checks that the sink was given each change exactly once: as many effects as the log has.
func Delivery(sink string, entries []evidence.Entry, want *changelog.Replica) *Report {
	r := &Report{Check: "each change is delivered once"}
	got := map[string]int64{}
	for _, e := range entries {
		if e.Op == "write" {
			got[e.Table] += e.Rows
		}
	}
	total := int64(0)
	for _, table := range slices.Sorted(maps.Keys(want.Changes)) {
		r.Looked++
		total += want.Changes[table]
		if got[table] != want.Changes[table] {
			r.violate("%s, %s: the log has %d changes, the sink accepted %d", sink, table, want.Changes[table], got[table])
		}
	}
	r.figure("changes delivered", total)
	return r
}

// Contents checks the rows of one table.
func Contents(sink, table string, want, got map[string]map[string]string) *Report {
	r := &Report{Check: "the sink holds what the log says", Looked: len(want)}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		row, there := got[key]
		switch {
		case !there:
			r.violate("%s, %s: row %q is missing", sink, table, key)
		case !maps.Equal(row, want[key]):
			r.violate("%s, %s: row %q differs: %s", sink, table, key, difference(want[key], row))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, wanted := want[key]; !wanted {
			r.violate("%s, %s: row %q should not be there", sink, table, key)
		}
	}
	return r
}

func difference(want, got map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, there := got[name]; !there || value != want[name] {
			parts = append(parts, fmt.Sprintf("%s is %q, not %q", name, value, want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, wanted := want[name]; !wanted {
			parts = append(parts, "column "+name+" should not be there")
		}
	}
	return strings.Join(parts, ", ")
}
