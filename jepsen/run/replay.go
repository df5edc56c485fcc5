package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/checker"
	"github.com/weir-project/weir/jepsen/cluster"
	"github.com/weir-project/weir/jepsen/history"
	"github.com/weir-project/weir/jepsen/workload"
)

// replay is the run of the same name.
type replay struct {
	*bench
	rand      *rand.Rand
	observer  *observer
	board     *workload.Board
	clients   []*workload.Client
	snapshots int // restarts that found one
	restarts  int
}

// replayPlan is what the run must have done.
type replayPlan struct{ commands, restarts int }

// operations is how many it takes for so many commands: some are sent twice.
func (p replayPlan) operations() int { return p.commands * 4 / 3 }

// Replay makes a few thousand commands while servers are killed and restart from snapshot and log, and compares their
// state hashes at many indexes, before and after.
func Replay(ctx context.Context, o *Options) (err error) {
	b, err := newBench(ctx, o, "replay", func(c *cluster.Config) {
		c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 200, time.Second, 100
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	plan := replayPlan{commands: 4000, restarts: 12}
	if o.Short {
		plan = replayPlan{commands: 1000, restarts: 3}
	}
	r := &replay{bench: b, rand: rand.New(rand.NewPCG(o.Seed, 0x5eed)), board: workload.NewBoard([]string{"n1", "n2", "n3"})}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.drive(ctx, plan); err != nil {
		return err
	}
	return r.finish(ctx, plan)
}

const replayFeed = "replayed"

func (r *replay) prepare(ctx context.Context) error {
	tables := changelog.SmallTables("p", 24)
	log, err := changelog.Create(r.path(replayFeed+".wal2json"), tables, r.options.Seed)
	if err != nil {
		return err
	}
	if err := errors.Join(log.Touch(), log.Close()); err != nil {
		return err
	}
	var specs []*weirv1.TableSpec
	for _, t := range tables {
		specs = append(specs, &weirv1.TableSpec{Schema: "public", Name: t.Name})
	}
	if _, err := r.admin.CreateChangefeed(ctx, &weirv1.CreateChangefeedRequest{
		Name: replayFeed, Source: r.sourceURI(replayFeed + ".wal2json"), Sink: r.sinkURI(replayFeed + ".db"), SinkFenced: true, Tables: specs,
	}); err != nil {
		return fmt.Errorf("create changefeed: %w", err)
	}
	if r.observer, err = newObserver(r.bench, r.board, map[string]workload.Group{replayFeed: workload.Small}); err != nil {
		return err
	}
	for i := range 6 {
		source := rand.New(rand.NewPCG(r.options.Seed, uint64(i)))
		mine, twin, err := r.pair(fmt.Sprintf("c%d", i+1), -1, source)
		if err != nil {
			return err
		}
		r.clients = append(r.clients, &workload.Client{Name: mine.Name, Doer: mine, Twin: twin, Clock: mine.Clock, Rand: source})
	}
	return nil
}

// drive makes commands and restarts servers until both have had their share.
func (r *replay) drive(ctx context.Context, plan replayPlan) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	failed := make(chan error, 1)
	wait.Go(func() { r.observer.run(work) })
	admissions := &workload.Admissions{Clients: r.clients, Board: r.board, Rate: 200, TwinShare: 20}
	wait.Go(func() {
		if err := admissions.Run(work); err != nil {
			failed <- err
		}
	})
	wait.Go(func() { r.compare(work) })
	err := r.restartAll(ctx, plan)
	for err == nil && r.recorder.Count() < plan.operations() && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	wait.Wait()
	select {
	case ferr := <-failed:
		err = errors.Join(err, ferr)
	default:
	}
	return err
}

// compare asks for the hash at one index after another.
func (r *replay) compare(ctx context.Context) {
	for last := uint64(0); ctx.Err() == nil; {
		applied, _ := r.observer.applied(ctx)
		if len(applied) == len(r.servers) {
			if index := slices.Min(slices.Collect(maps.Values(applied))); index > last {
				r.observer.hashesAt(ctx, index)
				last = index
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(40 * time.Millisecond):
		}
	}
}

// restartAll kills and restarts one server after the other, and asks each at which it is back for the hashes that were
// noted before.
func (r *replay) restartAll(ctx context.Context, plan replayPlan) error {
	each := plan.operations() / (plan.restarts + 1)
	for n := range plan.restarts {
		for r.recorder.Count() < (n+1)*each {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			time.Sleep(50 * time.Millisecond)
		}
		server := r.cluster.Servers[n%len(r.cluster.Servers)]
		r.awaitSnapshot(ctx, server.Name)
		r.awaitTail(ctx, n%len(r.servers), server.Name)
		life, err := server.Kill()
		if err != nil {
			return err
		}
		found := r.snapshotsOf(server.Name)
		if found > 0 {
			r.snapshots++
		}
		time.Sleep(time.Duration(r.rand.IntN(700)) * time.Millisecond)
		if err := server.Start(); err != nil {
			return err
		}
		r.restarts++
		r.options.say("restart %d: %s (pid %d killed), %d snapshots in its folder, %d commands so far",
			n+1, server.Name, life.PID, found, r.recorder.Count())
		if err := r.back(ctx, n%len(r.servers)); err != nil {
			return err
		}
		r.again(ctx)
	}
	return nil
}

// awaitSnapshot waits some seconds for a server to have one.
func (r *replay) awaitSnapshot(ctx context.Context, server string) {
	for range 200 {
		if r.snapshotsOf(server) > 0 || ctx.Err() != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tail is how many entries behind its newest snapshot a server is to have when it is killed, and room for how long the
// noting of their hashes takes: the next snapshot comes 200 entries after the last.
const tail, tailRoom = 50, 60

// awaitTail waits until a server has enough of its log behind its newest snapshot, and notes the hashes there: after the
// restart it must come to the same ones from the snapshot and this part of the log.
func (r *replay) awaitTail(ctx context.Context, server int, name string) {
	for range 400 {
		applied, _ := r.observer.applied(ctx)
		behind := applied[server] - min(applied[server], r.newestSnapshot(name))
		if behind >= tail && behind <= tail+tailRoom || ctx.Err() != nil {
			for index := applied[server] - tail + 1; index <= applied[server] && ctx.Err() == nil; index++ {
				r.observer.hashesAt(ctx, index)
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// newestSnapshot is the index of a server's newest snapshot, as its folder's name says it: term-index-time.
func (r *replay) newestSnapshot(server string) uint64 {
	newest := uint64(0)
	for _, pattern := range []string{"snapshots/*-*-*", "*/snapshots/*-*-*"} {
		list, err := filepath.Glob(filepath.Join(r.cluster.DataDir(server), pattern))
		if err != nil {
			continue
		}
		for _, folder := range list {
			parts := strings.Split(filepath.Base(folder), "-")
			if index, err := strconv.ParseUint(parts[1], 10, 64); err == nil {
				newest = max(newest, index)
			}
		}
	}
	return newest
}

// snapshotsOf counts complete snapshots in a server's folder.
func (r *replay) snapshotsOf(server string) int {
	found := 0
	for _, pattern := range []string{"snapshots/*/meta.json", "*/snapshots/*/meta.json"} {
		list, err := filepath.Glob(filepath.Join(r.cluster.DataDir(server), pattern))
		if err == nil {
			found += len(list)
		}
	}
	return found
}

// back waits until a server has applied something again.
func (r *replay) back(ctx context.Context, server int) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		if applied, _ := r.observer.applied(ctx); applied[server] > 0 && len(applied) == len(r.servers) {
			return nil
		}
		if crashed := r.cluster.Crashed(); len(crashed) > 0 {
			return fmt.Errorf("after a restart: %s", crashed[0])
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve 60 s after its restart", r.servers[server].ID)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// again asks every server anew for the newest hashes noted so far: a restarted one has them from snapshot and log.
func (r *replay) again(ctx context.Context) {
	const newest = 60
	seen := map[uint64]bool{}
	for _, h := range r.observer.samples() {
		seen[h.Index] = true
	}
	indexes := slices.Sorted(maps.Keys(seen))
	if len(indexes) > newest {
		indexes = indexes[len(indexes)-newest:]
	}
	for _, index := range indexes {
		r.observer.hashesAt(ctx, index)
	}
}

func (r *replay) finish(ctx context.Context, plan replayPlan) error {
	ops, err := r.recorder.Close()
	if err != nil {
		return err
	}
	if err := r.serving(ctx, 30*time.Second); err != nil {
		r.summary.violate("after the last restart: %v", err)
	}
	again, err := askAgain(ctx, r.bench, ops)
	if err != nil {
		return err
	}
	for _, state := range []weirv1.OperatorState{weirv1.OperatorState_OPERATOR_STATE_FINISHED, weirv1.OperatorState_OPERATOR_STATE_RUNNING} {
		if err := r.observer.seeOperators(ctx, state); err != nil {
			r.summary.violate("operators cannot be listed: %v", err)
		}
	}
	r.again(ctx)
	r.stop()
	if err := r.observer.save(); err != nil {
		return err
	}
	hashes := checker.Hashes(r.observer.samples())
	s := r.summary
	s.add(hashes, checker.Replays(ops, again), checker.RealTime(ops), checker.UniqueEffects(ops), checker.OneOperator(ops, r.observer.listed()))
	s.note("3 servers that snapshot after 200 entries and keep 100; %d restarts after kill -9, %d of them with a snapshot", r.restarts, r.snapshots)
	s.count("commands", float64(decided(ops)), float64(plan.commands))
	s.count("restarts from snapshot and log", float64(r.snapshots), float64(plan.restarts))
	s.count("indexes at which three servers told their hash", float64(hashes.Figures["indexes compared on three servers"]), float64(plan.commands/20))
	s.count("indexes compared before and after a restart", float64(hashes.Figures["indexes compared across a restart"]), float64(10*plan.restarts))
	s.outcomes(ops)
	r.remove()
	return s.finish(r.options)
}

// decided counts requests that got a verdict.
func decided(ops []*history.Operation) int {
	seen := map[string]bool{}
	for _, op := range ops {
		if op.Answer.Outcome.Acknowledged() {
			seen[op.Request] = true
		}
	}
	return len(seen)
}
