package run

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/checker"
	"github.com/weir-project/weir/jepsen/evidence"
	"github.com/weir-project/weir/jepsen/history"
)

// arriveBound is how long after the faults everything may take to run and to arrive.
const arriveBound = 90 * time.Second

// settle ends the run: the history is closed, every request is asked again, and everything comes to rest.
func (k *kills) settle(ctx context.Context) ([]*history.Operation, error) {
	for _, f := range k.feeds {
		if err := f.log.Touch(); err != nil {
			return nil, err
		}
		if err := f.log.Close(); err != nil {
			return nil, err
		}
	}
	ops, err := k.recorder.Close()
	if err != nil {
		return nil, err
	}
	healed := time.Now()
	if err := k.serving(ctx, 30*time.Second); err != nil {
		k.summary.violate("30 s after the faults: %v", err)
	}
	again, err := askAgain(ctx, k.bench, ops)
	if err != nil {
		return nil, err
	}
	k.summary.add(checker.Replays(ops, again))
	if err := k.renew(ctx); err != nil {
		return nil, err
	}
	if err := k.arrive(ctx, arriveBound); err != nil {
		k.summary.violate("%v", err)
		return ops, nil
	}
	k.arrived = true
	k.summary.note("everything ran and had arrived %.1f s after the faults", time.Since(healed).Seconds())
	return ops, nil
}

// renew adds the tables whose dispatchers are gone: a removal that was never carried out in the run was when it was asked
// for again.
func (k *kills) renew(ctx context.Context) error {
	list, err := k.observer.dispatchers(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, d := range list {
		if d.GetTrigger() {
			continue
		}
		there[d.GetChangefeed()+"."+d.GetTable()] = true
	}
	for _, f := range k.feeds {
		for _, t := range f.tables {
			if there[f.name+"."+t.Name] {
				continue
			}
			// The table may be there without a dispatcher, or not: the drop is refused then, which is as good.
			_, _ = k.admin.DropTables(ctx, &weirv1.DropTablesRequest{Changefeed: f.name, Tables: []*weirv1.TableRef{{Schema: "public", Name: t.Name}}})
			_, err := k.admin.AddTables(ctx, &weirv1.AddTablesRequest{Changefeed: f.name, Tables: []*weirv1.TableSpec{{Schema: "public", Name: t.Name}}})
			if err != nil {
				return fmt.Errorf("add table %s again: %w", t.Name, err)
			}
		}
	}
	return nil
}

// askAgain sends every request once more under its id, by several connections, and returns the answers.
func askAgain(ctx context.Context, b *bench, ops []*history.Operation) (map[string]history.Answer, error) {
	const workers = 8
	first := map[string]*history.Operation{}
	var order []string
	for _, op := range ops {
		if _, seen := first[op.Request]; !seen {
			first[op.Request] = op
			order = append(order, op.Request)
		}
	}
	var mu sync.Mutex
	answers := make(map[string]history.Answer, len(order))
	var wait sync.WaitGroup
	for w := range workers {
		links, err := b.dial()
		if err != nil {
			return nil, err
		}
		c := &caller.Caller{Name: "again", Links: links, Pinned: -1, Try: 2 * time.Second}
		wait.Go(func() {
			for i := w; i < len(order) && ctx.Err() == nil; i += workers {
				op := first[order[i]]
				a := verdict(ctx, c, (i+w)%links.Count(), op)
				mu.Lock()
				answers[op.Request] = a
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return answers, nil
}

// verdict asks until a verdict comes, for some seconds. A try that ends without one may be what a later one is told of.
func verdict(ctx context.Context, c *caller.Caller, at int, op *history.Operation) history.Answer {
	r := caller.Request{ID: op.Request, TimeMS: op.RequestTimeMS}
	var a history.Answer
	for range 50 {
		if a = c.Once(ctx, at, r, &op.Spec); a.Outcome.Acknowledged() || ctx.Err() != nil {
			return a
		}
		op.MayLinger = op.MayLinger || a.Outcome == history.Unknown
		at = (at + 1) % c.Links.Count()
		time.Sleep(100 * time.Millisecond)
	}
	return a
}

// arrive waits until no operator runs and every dispatcher runs at the end of its log.
func (k *kills) arrive(ctx context.Context, bound time.Duration) error {
	deadline := time.Now().Add(bound)
	for {
		waits, err := k.waitsFor(ctx)
		if err == nil && len(waits) == 0 {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("after %v the dispatchers cannot be listed: %w", bound, err)
			}
			return fmt.Errorf("after %v not everything runs and has arrived: %s", bound, strings.Join(waits, "; "))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// waitsFor lists what does not run or has not arrived; at most a few of them.
func (k *kills) waitsFor(ctx context.Context) ([]string, error) {
	list, err := k.observer.dispatchers(ctx)
	if err != nil {
		return nil, err
	}
	want := map[string]uint64{}
	tables := map[string]int{}
	for _, f := range k.feeds {
		want[f.name] = f.log.Position()
		tables[f.name] = len(f.tables)
	}
	var waits []string
	seen := map[string]map[string]bool{}
	for _, d := range list {
		if seen[d.GetChangefeed()] == nil {
			seen[d.GetChangefeed()] = map[string]bool{}
		}
		if !d.GetTrigger() {
			seen[d.GetChangefeed()][d.GetTable()] = true
		}
		if d.GetPhase() != weirv1.Phase_PHASE_RUNNING || d.GetOperator() != 0 || d.GetProgress().GetEpoch() != d.GetEpoch() ||
			d.GetProgress().GetPosition().GetTs() < want[d.GetChangefeed()] {
			waits = append(waits, fmt.Sprintf("dispatcher %d (%s.%s) is %s on %q, operator %d, position %d of %d, failures %d",
				d.GetId(), d.GetChangefeed(), d.GetTable(), word(d.GetPhase().String(), "PHASE_"), d.GetNode(), d.GetOperator(),
				d.GetProgress().GetPosition().GetTs(), want[d.GetChangefeed()], d.GetFailures()))
		}
	}
	for feed, n := range tables {
		if len(seen[feed]) < n {
			waits = append(waits, fmt.Sprintf("changefeed %s has dispatchers for %d of %d tables", feed, len(seen[feed]), n))
		}
	}
	const most = 6
	if len(waits) > most {
		waits = append(waits[:most], fmt.Sprintf("and %d more", len(waits)-most))
	}
	return waits, nil
}

// check looks at everything that the run left behind.
func (k *kills) check(ctx context.Context, ops []*history.Operation) error {
	for _, state := range []weirv1.OperatorState{weirv1.OperatorState_OPERATOR_STATE_FINISHED, weirv1.OperatorState_OPERATOR_STATE_RUNNING} {
		if err := k.observer.seeOperators(ctx, state); err != nil {
			k.summary.violate("operators cannot be listed after the faults: %v", err)
		}
	}
	k.observer.compareHashes(ctx)
	k.stop()
	if err := k.observer.save(); err != nil {
		return err
	}
	k.summary.add(
		checker.RealTime(ops), checker.UniqueEffects(ops), checker.OneOperator(ops, k.observer.listed()),
		checker.Hashes(k.observer.samples()),
	)
	agents, err := k.ledgers()
	if err != nil {
		return err
	}
	k.summary.add(checker.Gates(agents, k.lives()), checker.Starts(agents, nil, nil))
	for _, f := range k.feeds {
		if err := k.checkSink(ctx, f, agents); err != nil {
			return err
		}
	}
	return nil
}

func (k *kills) checkSink(ctx context.Context, f *feed, agents *evidence.Agents) (err error) {
	want, err := changelog.Replay(k.path(f.logFile()))
	if err != nil {
		return err
	}
	sink, err := evidence.OpenSink(k.path(f.sinkFile()))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := sink.Close(); err == nil {
			err = cerr
		}
	}()
	entries, err := sink.Entries(ctx)
	if err != nil {
		return err
	}
	k.summary.add(checker.SinkOrder(f.name, entries))
	if !k.arrived { // which is a violation already; that rows are missing says nothing more
		return nil
	}
	if f.every > 0 {
		events := checker.Events(f.name, entries, agents.Steps, f.every, changelog.Start, f.log.Position())
		k.summary.add(events)
		k.summary.count("events of the busy log that were written", float64(events.Figures["events written"]), k.plan.events)
	}
	k.summary.add(checker.Delivery(f.name, entries, want))
	for table, rows := range want.Tables {
		got, err := sink.Rows(ctx, table, want.Keys[table])
		if err != nil {
			return err
		}
		k.summary.add(checker.Contents(f.name, table, rows, got))
	}
	return nil
}
