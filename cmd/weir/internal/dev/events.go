package dev

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/fsm"
)

// barriers lists the events of the demo that have ended and those that are open, in the order of their positions.
func (d *demo) barriers(ctx context.Context) (all []*weirv1.Barrier, err error) {
	for _, ended := range []bool{true, false} {
		for b, err := range d.plane.Barriers(ctx, &weirv1.ListBarriersRequest{Changefeed: feedName, Ended: ended}) {
			if err != nil {
				return nil, err
			}
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b *weirv1.Barrier) int {
		return show.ToPosition(a.GetAt()).Compare(show.ToPosition(b.GetAt()))
	})
	return all, nil
}

// expected lists the positions of the log's events: its schema changes and the sync points within it.
func (d *demo) expected() []fsm.Position {
	var keys []fsm.Position
	for _, e := range d.feed.events {
		keys = append(keys, fsm.Position{TS: e.ts, Stage: fsm.StageDDL})
	}
	for at, ok := fsm.NextSyncPoint(syncEvery, d.feed.start()); ok && at.Less(d.feed.end()); at, ok = fsm.NextSyncPoint(syncEvery, at) {
		keys = append(keys, at)
	}
	slices.SortFunc(keys, fsm.Position.Compare)
	return keys
}

// judgeEvents shows how each event went, and returns what was wrong: one that is missing or was written twice, or rows on
// the wrong side of it.
func (d *demo) judgeEvents(ctx context.Context, db *sql.DB, ledger []write) (wrong []string, err error) {
	all, err := d.barriers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	g := show.NewGrid("EVENT", "AT", "STATEMENT", "STATE", "OPENED", "GRANTED", "WRITTEN", "ENDED", "PERMISSIONS", "WRITTEN BY")
	again := 0
	for n, b := range all {
		r := show.BarrierRow(b)
		text := r.Statement
		if text == "" {
			text = "sync point"
		}
		g.Add(fmt.Sprint(n+1), r.At, clip(text), r.State(), show.Entry(r.OpenedAt), show.Entry(r.GrantedAt), show.Entry(r.WrittenAt), show.Entry(r.EndedAt), fmt.Sprint(r.Permission), show.Dash(r.WriterNode))
		again += max(0, int(r.Permission)-1)
	}
	d.out.line("\nevents of the changefeed:")
	d.out.grid(g, "none")
	d.out.line("%d permissions had to be given again because their holder was lost or moved", again)
	wrong = append(wrong, judgeKeys(d.expected(), all)...)
	wrong = append(wrong, judgeWrites(all, ledger)...)
	for _, table := range goneTables() {
		var there int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = ?", table).Scan(&there); err != nil {
			return nil, fmt.Errorf("look for table %s: %w", table, err)
		}
		if there > 0 {
			wrong = append(wrong, "table "+table+" is still there")
		}
	}
	return wrong, nil
}

// longest is how much of a statement is shown.
const longest = 48

func clip(text string) string {
	if len(text) <= longest {
		return text
	}
	return text[:longest-3] + "..."
}

// judgeKeys: every event of the log has ended, written, and there is no other.
func judgeKeys(want []fsm.Position, all []*weirv1.Barrier) (wrong []string) {
	var have []fsm.Position
	for _, b := range all {
		at := show.ToPosition(b.GetAt())
		have = append(have, at)
		if b.GetStatus() != weirv1.BarrierStatus_BARRIER_STATUS_ENDED || b.GetResult() != weirv1.BarrierResult_BARRIER_RESULT_WRITTEN {
			r := show.BarrierRow(b)
			wrong = append(wrong, fmt.Sprintf("the event at %s is %s", at, r.State()))
		}
	}
	if !slices.Equal(want, have) {
		wrong = append(wrong, fmt.Sprintf("the log has events at %v, the changefeed had them at %v", want, have))
	}
	return wrong
}

// judgeWrites: by the sink's own order, each event took effect once, everything before it came before it, and everything
// after it after it, in every table that it concerns.
func judgeWrites(all []*weirv1.Barrier, ledger []write) (wrong []string) {
	for _, b := range all {
		at := show.ToPosition(b.GetAt())
		line := slices.IndexFunc(ledger, func(w write) bool { return w.op == "ddl" && w.resume == at })
		times := 0
		for _, w := range ledger {
			if w.op == "ddl" && w.resume == at {
				times++
			}
		}
		if times != 1 {
			wrong = append(wrong, fmt.Sprintf("the event at %s took effect %d times at the sink", at, times))
			continue
		}
		for n, w := range ledger {
			if w.op != "write" || w.rows == 0 || !concerns(b, w.table) {
				continue
			}
			if before := w.resume.Less(at); before != (n < line) {
				wrong = append(wrong, fmt.Sprintf("rows of %s up to %s are on the wrong side of the event at %s", w.table, w.resume, at))
				break
			}
		}
	}
	return wrong
}

func concerns(b *weirv1.Barrier, table string) bool {
	if b.GetSpec().GetInfluence() == weirv1.Influence_INFLUENCE_ALL {
		return true
	}
	return slices.ContainsFunc(b.GetSpec().GetTables(), func(t *weirv1.TableRef) bool { return t.GetName() == table })
}

// errOver says that an event had ended before a fault could hit it.
var errOver = errors.New("it was over before it was seen")

// sight waits until an event is open, or says that it is over.
func (d *demo) sight(ctx context.Context, at fsm.Position) (found *weirv1.Barrier, err error) {
	err = d.untilEvery(ctx, time.Millisecond, faultLimit, func(ctx context.Context) (bool, error) {
		all, err := d.barriers(ctx)
		for _, b := range all {
			if show.ToPosition(b.GetAt()) == at {
				found = b
			}
		}
		return found != nil, err
	})
	if err == nil && found.GetStatus() == weirv1.BarrierStatus_BARRIER_STATUS_ENDED {
		err = errOver
	}
	return found, err
}
