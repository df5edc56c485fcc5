package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/history"
	"github.com/weir-project/weir/jepsen/nemesis"
	"github.com/weir-project/weir/jepsen/workload"
)

// feed is a change log, the changefeed that replicates it, and the sink.
type feed struct {
	name   string
	group  workload.Group
	tables []changelog.Table
	rate   int // rows a second
	// every is the distance of its sync points; 0: none.
	every uint64
	log   *changelog.Writer
}

func (f *feed) logFile() string  { return f.name + ".wal2json" }
func (f *feed) sinkFile() string { return f.name + ".db" }

// kills is the run of the same name.
type kills struct {
	*bench
	feeds    []*feed
	board    *workload.Board
	observer *observer
	clients  []*workload.Client
	churner  *workload.Client
	plan     killPlan
	// arrived: everything ran and had been delivered in the end.
	arrived bool
}

// killPlan is what the run must have done.
type killPlan struct {
	want               map[nemesis.Class]int
	admissions, rows   float64
	events             float64 // written between the rows of the busy log
	pauseMin, pauseMax time.Duration
	longest            time.Duration
}

func planOf(short bool) killPlan {
	p := killPlan{
		want:       map[nemesis.Class]int{nemesis.Leader: 17, nemesis.Follower: 16, nemesis.Owner: 17},
		admissions: 200, rows: 1000, events: 20, pauseMin: 800 * time.Millisecond, pauseMax: 2400 * time.Millisecond, longest: 8 * time.Minute,
	}
	if short {
		p.want = map[nemesis.Class]int{nemesis.Leader: 3, nemesis.Follower: 2, nemesis.Owner: 3}
		p.admissions, p.rows, p.events, p.longest = 120, 600, 4, 3*time.Minute
	}
	return p
}

// Kills kills leaders, followers and owners under load, and checks that nothing acknowledged is lost, no range is
// written by two, and everything is delivered.
func Kills(ctx context.Context, o *Options) (err error) {
	b, err := newBench(ctx, o, "kills", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	k := &kills{bench: b, plan: planOf(o.Short), board: workload.NewBoard([]string{"n1", "n2", "n3"})}
	k.feeds = []*feed{
		{name: "busy", group: workload.Busy, tables: changelog.MainTables(), rate: 1250, every: 150_000},
		{name: "small", group: workload.Small, tables: changelog.SmallTables("s", 40), rate: 60},
		{name: "churn", group: workload.Churn, tables: changelog.SmallTables("r", 6), rate: 15},
	}
	if err := k.prepare(ctx); err != nil {
		return err
	}
	found, elapsed, rows, err := k.underLoad(ctx)
	if err != nil {
		return err
	}
	o.say("faults over; asking every request again, waiting for everything to run and arrive")
	ops, err := k.settle(ctx)
	if err != nil {
		return err
	}
	k.counts(found, ops, elapsed, rows)
	if err := k.check(ctx, ops); err != nil {
		return err
	}
	k.remove()
	return k.summary.finish(o)
}

// prepare makes logs, changefeeds, clients.
func (k *kills) prepare(ctx context.Context) error {
	groups := map[string]workload.Group{}
	for i, f := range k.feeds {
		log, err := changelog.Create(k.path(f.logFile()), f.tables, k.options.Seed+uint64(i))
		if err != nil {
			return err
		}
		f.log = log
		if err := log.Touch(); err != nil {
			return err
		}
		groups[f.name] = f.group
		if err := k.create(ctx, f); err != nil {
			return err
		}
	}
	var err error
	if k.observer, err = newObserver(k.bench, k.board, groups); err != nil {
		return err
	}
	if err := k.makeClients(); err != nil {
		return err
	}
	return k.arrive(ctx, 60*time.Second)
}

func (k *kills) create(ctx context.Context, f *feed) error {
	var tables []*weirv1.TableSpec
	for _, t := range f.tables {
		spec := &weirv1.TableSpec{Schema: "public", Name: t.Name}
		if t.Name == "accounts" {
			spec.SplitKeys = changelog.AccountSplits(4)
		}
		tables = append(tables, spec)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := k.admin.CreateChangefeed(ctx, &weirv1.CreateChangefeedRequest{
		Name: f.name, Source: k.sourceURI(f.logFile()), Sink: k.sinkURI(f.sinkFile()), SinkFenced: true, Tables: tables,
		Start: &weirv1.Position{Ts: changelog.Start}, SyncPointEvery: f.every,
	})
	if err != nil {
		return fmt.Errorf("create changefeed %s: %w", f.name, err)
	}
	return nil
}

// makeClients makes those that roam, some of them with the product's own client, and those pinned to each server.
func (k *kills) makeClients() error {
	const roaming, shipped, batching, pins = 24, 6, 4, 2
	pinnedClients := pins * len(k.servers)
	for i := range roaming + pinnedClients + 1 {
		r := rand.New(rand.NewPCG(k.options.Seed, uint64(1000+i)))
		name, pinned := fmt.Sprintf("roam%d", i+1), -1
		switch {
		case i == roaming+pinnedClients:
			name = "churn"
		case i >= roaming:
			pinned = (i - roaming) % len(k.servers)
			name = fmt.Sprintf("pin%d-%s", (i-roaming)/len(k.servers)+1, k.servers[pinned].ID)
		}
		mine, twin, err := k.pair(name, pinned, r)
		if err != nil {
			return err
		}
		c := &workload.Client{Name: name, Doer: mine, Twin: twin, Clock: mine.Clock, Rand: r}
		if i >= roaming-batching && i < roaming {
			c.Batch, c.NoCancel = 8, true
		}
		total := 15 * time.Second
		if impatient := i%4 == 1 && i < roaming; impatient {
			// Gives up in the middle of a leader change, so that some outcomes stay unknown until the end.
			total = 400 * time.Millisecond
			mine.Total = total
		}
		if i < shipped {
			own, err := client.New(client.Config{Addresses: k.cluster.Addresses(), By: name})
			if err != nil {
				return fmt.Errorf("make client %s: %w", name, err)
			}
			c.Name, c.NoCancel = fmt.Sprintf("shipped%d", i+1), true
			c.Doer = &caller.Shipped{Name: c.Name, Client: own, Recorder: k.recorder, Total: total}
		}
		if name == "churn" {
			k.churner = c
			continue
		}
		k.clients = append(k.clients, c)
	}
	return nil
}

// pair makes a caller and its twin, each with connections of its own.
func (b *bench) pair(name string, pinned int, r *rand.Rand) (*caller.Caller, *caller.Caller, error) {
	var both [2]*caller.Caller
	for i := range both {
		links, err := b.dial()
		if err != nil {
			return nil, nil, err
		}
		both[i] = &caller.Caller{
			Name: name, Links: links, Pinned: pinned, Recorder: b.recorder, Try: 700 * time.Millisecond, Total: 15 * time.Second,
			Rand: rand.New(rand.NewPCG(r.Uint64(), r.Uint64())),
		}
	}
	both[1].Name, both[1].Pinned = name+"-twin", -1
	return both[0], both[1], nil
}

// underLoad runs clients, feeders and faults together until the faults have had their share.
func (k *kills) underLoad(ctx context.Context) (found []nemesis.Kill, elapsed time.Duration, rows int64, err error) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	errs := make(chan error, 16)
	background := func(f func(context.Context) error) {
		wait.Go(func() {
			if err := f(work); err != nil {
				errs <- err
				stop()
			}
		})
	}
	background(func(ctx context.Context) error { k.observer.run(ctx); return nil })
	for _, f := range k.feeds {
		background(func(ctx context.Context) error { return workload.Feed(ctx, f.log, f.rate) })
	}
	admissions := &workload.Admissions{Clients: k.clients, Board: k.board, Rate: 300, TwinShare: 20, Most: 45_000}
	background(admissions.Run)
	churner := &workload.Churner{Client: k.churner, Board: k.board, Changefeed: "churn", Pause: 300 * time.Millisecond}
	for _, t := range k.feeds[2].tables {
		churner.Tables = append(churner.Tables, t.Name)
	}
	background(churner.Run)
	background(func(ctx context.Context) error { k.progress(ctx); return nil })

	begun, before := time.Now(), k.feeds[0].log.Rows()
	bounded, cancel := context.WithTimeout(work, k.plan.longest)
	defer cancel()
	killer := k.killer()
	found, err = killer.Run(bounded)
	if err == nil {
		select { // the last victims get some load too
		case <-work.Done():
		case <-time.After(3 * time.Second):
		}
	}
	elapsed, rows = time.Since(begun), k.feeds[0].log.Rows()-before
	stop()
	wait.Wait()
	close(errs)
	return found, elapsed, rows, errors.Join(err, <-errs)
}

func (k *kills) killer() *nemesis.Killer {
	return &nemesis.Killer{
		Cluster: k.cluster, Recorder: k.recorder, Leader: k.observer.leader, Want: k.plan.want,
		Rand:     rand.New(rand.NewPCG(k.options.Seed, 0xdead)),
		PauseMin: k.plan.pauseMin, PauseMax: k.plan.pauseMax, DownMax: 3 * time.Second, LogFile: k.path("nemesis.jsonl"),
		Tell: func(kill nemesis.Kill) {
			k.options.say("kill %d: %s %s, %d operations and %d sink calls in flight",
				kill.N, kill.Class, kill.Victim, kill.Operations, kill.Calls)
		},
	}
}

// progress tells every ten seconds how far things are.
func (k *kills) progress(ctx context.Context) {
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Second):
		}
		k.options.say("%3.0f s: %d operations, %d in flight, %d rows in the busy log, %d hashes",
			time.Since(start).Seconds(), k.recorder.Count(), len(k.recorder.InFlight()), k.feeds[0].log.Rows(), len(k.observer.samples()))
	}
}

// counts sets what the run did against what it must have done.
func (k *kills) counts(found []nemesis.Kill, ops []*history.Operation, elapsed time.Duration, rows int64) {
	s := k.summary
	missed := k.countKills(found)
	decided, admitted, open := admissions(ops)
	s.count("admissions decided a second", float64(decided)/elapsed.Seconds(), k.plan.admissions)
	s.count("of them admitted a second", float64(admitted)/elapsed.Seconds(), k.plan.admissions/20)
	s.count("operations without a verdict, asked for afterwards", float64(open), 1)
	s.count("rows a second in the busy log", float64(rows)/elapsed.Seconds(), k.plan.rows)
	s.note("3 servers, 3 agents; %d clients (some pinned, some with the product's own client), 20 %% of requests sent twice", len(k.clients))
	s.note("%d kill -9 in %.0f s, of which %d hit nothing and do not count", len(found), elapsed.Seconds(), missed)
	s.note("servers that led: %v", slices.Sorted(maps.Keys(k.observer.leaders)))
	s.outcomes(ops)
}

// countKills counts those that hit, by class, and returns how many did not.
func (k *kills) countKills(found []nemesis.Kill) (missed int) {
	hits := map[nemesis.Class]int{}
	for _, kill := range found {
		if kill.Hit {
			hits[kill.Class]++
		} else {
			missed++
		}
	}
	total, want := 0, 0
	for _, class := range nemesis.Classes() {
		total, want = total+hits[class], want+k.plan.want[class]
		k.summary.count(fmt.Sprintf("kill -9 of a %s that hit something in flight", class), float64(hits[class]), float64(min(10, k.plan.want[class])))
	}
	k.summary.count("kills that hit something in flight", float64(total), float64(want))
	return missed
}

// admissions counts requests for admissions that were decided and admitted, and operations of any kind without a verdict.
func admissions(ops []*history.Operation) (decided, admitted, open int) {
	seen := map[string]bool{}
	for _, op := range ops {
		if !op.Answer.Outcome.Acknowledged() {
			open++
			continue
		}
		changesTables := op.Spec.Kind == history.AddTable || op.Spec.Kind == history.DropTable
		if changesTables || seen[op.Request] {
			continue
		}
		seen[op.Request] = true
		decided++
		if op.Answer.Outcome == history.OK {
			admitted++
		}
	}
	return decided, admitted, open
}
