package dev

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	data "github.com/weir-project/weir/cmd/weir/demo"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
)

// The demo's changefeed.
const (
	feedName   = "shop"
	feedSchema = "public"
	splitTable = "pgbench_accounts"
	splitInto  = 4
	// fineCuts is into how many parts the keys are cut where a split may cut.
	fineCuts = 10 * splitInto
	// syncEvery puts five sync points into the log.
	syncEvery = 1 << 20
)

// feedTables are there when the log begins; orders and order_items come with it.
func feedTables() []string {
	return []string{splitTable, "pgbench_tellers", "pgbench_branches", "pgbench_history"}
}

// finalTables are there when it ends. order_items was renamed to lines, and lines was dropped.
func finalTables() []string { return append(feedTables(), "orders") }

func goneTables() []string { return []string{"order_items", "lines"} }

// settleLimit bounds the wait for the dispatchers to run at the beginning and to catch up at the end.
const settleLimit = 120 * time.Second

// demo replicates a real change log through a move and two kills, and checks the result.
type demo struct {
	cfg   *Config
	fleet *fleet
	plane workPlane
	out   *screen
	plan  plan
	feed  *feeder
	// dir holds the demo's files; log is the complete log, growing what is fed, replica the sink.
	dir, log, growing, replica string
	final                      map[string][]byte
	cuts                       []string // keys that cut the split table finely
	began                      time.Time
}

// newDemo unpacks the data.
func newDemo(ctx context.Context, cfg *Config, f *fleet, p workPlane, out *screen) (*demo, error) {
	dir := filepath.Join(f.dir, feedName)
	d := &demo{
		cfg: cfg, fleet: f, plane: p, out: out, plan: newPlan(cfg.Seed), dir: dir, began: time.Now(),
		log: filepath.Join(dir, "upstream.ndjson"), growing: filepath.Join(dir, "feed.ndjson"), replica: filepath.Join(dir, "replica.db"),
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("folder %s holds an earlier demo; name another folder, or leave --demo away to go on with that one", f.dir)
		}
		return nil, fmt.Errorf("make folder: %w", err)
	}
	raw, err := data.Log()
	if err != nil {
		return nil, err
	}
	if d.final, err = data.Final(); err != nil {
		return nil, err
	}
	if d.feed, err = newFeeder(raw, cfg.Pace); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.log, raw, 0o600); err != nil {
		return nil, fmt.Errorf("unpack change log: %w", err)
	}
	if err := os.WriteFile(d.growing, nil, 0o600); err != nil {
		return nil, fmt.Errorf("make the growing log: %w", err)
	}
	return d, ctx.Err()
}

// say announces something.
func (d *demo) say(format string, args ...any) {
	d.out.line("%6.1f s  "+format, append([]any{time.Since(d.began).Seconds()}, args...)...)
}

// run is the whole demo. An error says what was not right.
func (d *demo) run(ctx context.Context) error {
	d.out.line("\ndemo %s: seed %d, %d lines with %d transactions over %s; repeat it with --seed %d",
		feedName, d.cfg.Seed, len(d.feed.lines), len(d.feed.transactions), d.cfg.Pace, d.cfg.Seed)
	if err := d.create(ctx); err != nil {
		return fmt.Errorf("create the changefeed: %w", err)
	}
	err := d.until(ctx, settleLimit, func(ctx context.Context) (bool, error) {
		all, err := d.dispatchers(ctx)
		return len(all) == splitInto+len(feedTables()) && running(all), err // with the trigger
	})
	if err != nil {
		return fmt.Errorf("wait until every dispatcher runs: %w", err)
	}
	d.say("the scheduler has placed every dispatcher; the feed begins")
	d.began = time.Now()
	faults, err := d.perform(ctx)
	if err != nil {
		return err
	}
	return d.judge(ctx, faults)
}

// perform feeds the log, shows what happens, and carries out the faults, until everything has arrived.
func (d *demo) perform(ctx context.Context) (done, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.feed.hold(0)
	shown, fed := make(chan struct{}), make(chan struct{})
	go func() { defer close(shown); d.show(ctx) }()
	go func() {
		defer close(fed)
		if err := d.feed.run(ctx, d.growing); err != nil {
			cancel(err)
		}
	}()
	faults, err := d.faults(ctx)
	if err == nil {
		d.say("every planned fault has happened and is over; the rest of the log follows")
		err = d.arrived(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-shown
	<-fed
	return faults, err
}

// arrived waits until every dispatcher has come to the end of the log.
func (d *demo) arrived(ctx context.Context) error {
	end := d.feed.end()
	var behind string
	err := d.until(ctx, d.cfg.Pace+settleLimit, func(ctx context.Context) (bool, error) {
		all, err := d.dispatchers(ctx)
		if err != nil || d.feed.share() < 1 {
			return false, err
		}
		behind = ""
		for _, one := range all {
			if gone := slices.Contains(goneTables(), one.GetTable()); gone || one.GetPhase() != weirv1.Phase_PHASE_RUNNING || show.ToPosition(one.GetProgress().GetPosition()).Less(end) {
				behind += fmt.Sprintf(" %d (%s)", one.GetId(), show.Phase(one.GetPhase()))
			}
		}
		return behind == "", nil
	})
	if err != nil {
		return fmt.Errorf("wait until every dispatcher is at the end of the log: these are behind:%s: %w", behind, err)
	}
	d.say("every dispatcher is at the end of the log, position %s", end)
	return nil
}

// create starts the changefeed over the growing log. Where the accounts are cut follows from the complete one.
func (d *demo) create(ctx context.Context) error {
	tables := make([]*weirv1.TableSpec, 0, len(feedTables()))
	for _, name := range feedTables() {
		spec := &weirv1.TableSpec{Schema: feedSchema, Name: name}
		if name == splitTable {
			keys, err := wal2json.SplitKeys(ctx, wal2json.Scheme+":"+d.log, dispatcher.TableName{Schema: feedSchema, Name: name}, splitInto)
			if err != nil {
				return err
			}
			if d.cuts, err = wal2json.SplitKeys(ctx, wal2json.Scheme+":"+d.log, dispatcher.TableName{Schema: feedSchema, Name: name}, fineCuts); err != nil {
				return err
			}
			for _, k := range keys {
				spec.SplitKeys = append(spec.SplitKeys, []byte(k))
			}
		}
		tables = append(tables, spec)
	}
	_, err := d.plane.CreateChangefeed(ctx, &weirv1.CreateChangefeedRequest{
		Name: feedName, Source: wal2json.Scheme + ":" + d.growing + "?follow=true", Sink: sqlite.Scheme + ":" + d.replica + "?ledger=true",
		SinkFenced: true, Start: show.FromPosition(d.feed.start()), Tables: tables, SyncPointEvery: syncEvery,
	})
	return err
}

// dispatchers are those of the demo, by id.
func (d *demo) dispatchers(ctx context.Context) (all []*weirv1.Dispatcher, err error) {
	for one, err := range d.plane.Dispatchers(ctx, &weirv1.ListDispatchersRequest{Changefeed: feedName}) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func running(all []*weirv1.Dispatcher) bool {
	return !slices.ContainsFunc(all, func(one *weirv1.Dispatcher) bool { return one.GetPhase() != weirv1.Phase_PHASE_RUNNING })
}

// judge compares, weighs the evidence, and says what it found. An error says everything that was wrong.
func (d *demo) judge(ctx context.Context, faults done) (err error) {
	db, err := sql.Open("sqlite", "file:"+d.replica+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return fmt.Errorf("open the replica: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var wrong []string
	g := show.NewGrid("TABLE", "ROWS", "MISSING", "EXTRA", "DIFFERENT")
	var examples []string
	for _, table := range finalTables() {
		c, err := compare(ctx, db, table, d.final[table])
		if err != nil {
			return err
		}
		g.Add(table, fmt.Sprint(c.Rows), fmt.Sprint(c.Missing), fmt.Sprint(c.Extra), fmt.Sprint(c.Different))
		examples = append(examples, c.Examples...)
		if !c.Equal() {
			wrong = append(wrong, "table "+table+" differs from the upstream's")
		}
	}
	d.out.line("\nthe replica %s against the upstream's final tables:", d.replica)
	d.out.grid(g, "")
	for _, e := range examples {
		d.out.line("  %s", e)
	}
	ledger, err := readLedger(ctx, db)
	if err != nil {
		return err
	}
	evidence := weigh(ledger)
	wrongEvents, err := d.judgeEvents(ctx, db, ledger)
	if err != nil {
		return err
	}
	wrong = append(wrong, wrongEvents...)
	refused, err := countRefusals(d.fleet.dir)
	if err != nil {
		return err
	}
	wrong = append(wrong, d.evidence(&evidence, refused, faults)...)
	if err := d.history(ctx, faults.moved); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the demo with seed %d went wrong: %s; everything is kept in %s", d.cfg.Seed, strings.Join(wrong, "; "), d.fleet.dir)
	}
	d.out.line("\nright: the replica equals the upstream, each event was written once and in order, every planned fault happened, no old owner wrote after the next one (seed %d)", d.cfg.Seed)
	return nil
}

// evidence says what the sink recorded, and returns what is wrong with it.
func (d *demo) evidence(e *Evidence, refused Refusals, faults done) (wrong []string) {
	d.out.line("\nfaults that hit work under way:")
	for _, w := range faults.words {
		d.out.line("  %s", w)
	}
	d.out.line("what the sink recorded in the same transactions as the rows:")
	d.out.line("  %d accepted batches with %d changes, %d handovers between epochs", e.Batches, e.Rows, len(e.Handovers))
	d.out.line("  %d stale writes refused at the sink, %d held back by a lease that was over", refused.AtSink, refused.AtGate)
	smallest, ok := e.Smallest()
	if !ok {
		return []string{"no handover was seen"}
	}
	d.out.line("  smallest gap between the last write of an old epoch and the first of the next: %s", smallest)
	if least := 1 + len(faults.victims); len(e.Handovers) < least {
		wrong = append(wrong, fmt.Sprintf("%d handovers were seen, the faults ask for at least %d", len(e.Handovers), least))
	}
	if smallest.Gap <= 0 {
		wrong = append(wrong, "an old owner wrote after the next one: "+smallest.String())
	}
	if e.Backwards > 0 {
		wrong = append(wrong, fmt.Sprintf("%d accepted writes carried an epoch below one that had written before", e.Backwards))
	}
	if !slices.ContainsFunc(e.Handovers, func(h Handover) bool { return h.From == faults.from && h.To == faults.to }) {
		wrong = append(wrong, fmt.Sprintf("the sink saw no handover from epoch %s to epoch %s, which is the move", show.Token(faults.from), show.Token(faults.to)))
	}
	return wrong
}

func (d *demo) history(ctx context.Context, id uint64) error {
	h, err := d.plane.History(ctx, id, nil)
	if err != nil {
		return fmt.Errorf("history of dispatcher %d: %w", id, err)
	}
	d.out.line("\nownership history of dispatcher %d:", id)
	d.out.grid(show.HistoryGrid(show.History(h)), "none")
	return nil
}
