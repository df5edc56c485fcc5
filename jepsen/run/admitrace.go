package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/checker"
	"github.com/weir-project/weir/jepsen/evidence"
	"github.com/weir-project/weir/jepsen/history"
	"github.com/weir-project/weir/jepsen/workload"
)

// admitRace is the run of the same name.
type admitRace struct {
	*bench
	rand     *rand.Rand
	observer *observer
	clock    *caller.Caller
	pinned   [2][]*caller.Caller // of each contender, one for each server
	races    []checker.Race
	// epochs are those that the cluster gave each dispatcher, with the node.
	epochs map[uint64]map[evidence.Epoch]string
}

// AdmitRace lets an Add and a Move from nowhere race for an absent dispatcher through two servers at once, and kills the
// leader meanwhile in a third of the races.
func AdmitRace(ctx context.Context, o *Options) (err error) {
	b, err := newBench(ctx, o, "admit-race", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	races := 50
	if o.Short {
		races = 10
	}
	r := &admitRace{bench: b, rand: rand.New(rand.NewPCG(o.Seed, 0xace)), epochs: map[uint64]map[evidence.Epoch]string{}}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	// The scheduler may place the dispatcher first: such a race is checked, and another one is run instead. A kill may come
	// when both requests have been answered: then further races follow, with a kill in each, until enough have hit.
	fair, lost := 0, 0
	for n := 1; (fair < races || lost < races/4) && n <= 3*races; n++ {
		race, err := r.race(ctx, n, fair%3 == 2 || fair >= races)
		if err != nil {
			return fmt.Errorf("race %d: %w", n, err)
		}
		r.races = append(r.races, race)
		if race.Outside == nil {
			fair++
		}
		if race.LeaderLost {
			lost++
		}
		o.say("race %d: %s", n, describe(&race))
	}
	if err := r.check(ctx, races, fair); err != nil {
		return err
	}
	r.remove()
	return r.summary.finish(o)
}

func describe(race *checker.Race) string {
	parts := []string{fmt.Sprintf("dispatcher %d", race.Dispatcher)}
	for _, op := range race.Operations {
		parts = append(parts, fmt.Sprintf("%s through %v: %s", op.Spec.Kind, op.Tries, op.Answer.Brief()))
	}
	if race.Outside != nil {
		parts = append(parts, fmt.Sprintf("operator %d of %s was there first", race.Outside.ID, race.Outside.By))
	}
	if race.LeaderLost {
		parts = append(parts, "the leader was killed meanwhile")
	}
	return strings.Join(parts, "; ")
}

const raceFeed = "races"

func (r *admitRace) prepare(ctx context.Context) error {
	log, err := changelog.Create(r.path(raceFeed+".wal2json"), changelog.SmallTables("race", 1), r.options.Seed)
	if err != nil {
		return err
	}
	if err := errors.Join(log.Touch(), log.Close()); err != nil {
		return err
	}
	if _, err := r.admin.CreateChangefeed(ctx, &weirv1.CreateChangefeedRequest{
		Name: raceFeed, Source: r.sourceURI(raceFeed + ".wal2json"), Sink: r.sinkURI(raceFeed + ".db"), SinkFenced: true,
		Tables: []*weirv1.TableSpec{{Schema: "public", Name: "race000"}},
	}); err != nil {
		return fmt.Errorf("create changefeed: %w", err)
	}
	if r.observer, err = newObserver(r.bench, workload.NewBoard([]string{"n1", "n2", "n3"}), nil); err != nil {
		return err
	}
	for contender := range r.pinned {
		for i, s := range r.servers {
			c, _, err := r.pair(fmt.Sprintf("contender%d-%s", contender+1, s.ID), i, r.rand)
			if err != nil {
				return err
			}
			r.pinned[contender] = append(r.pinned[contender], c)
			r.clock = c
		}
	}
	return nil
}

// race adds a table and races for its dispatcher before the scheduler has seen it.
func (r *admitRace) race(ctx context.Context, n int, loseLeader bool) (checker.Race, error) {
	if err := r.serving(ctx, 60*time.Second); err != nil {
		return checker.Race{}, err
	}
	leader := r.awaitLeader(ctx)
	now, err := r.clock.Clock(ctx)
	if err != nil {
		return checker.Race{}, err
	}
	table := fmt.Sprintf("t%03d", n)
	if err := r.addTable(ctx, table); err != nil {
		return checker.Race{}, err
	}
	dispatcher, err := r.dispatcherOf(ctx, table)
	if err != nil {
		return checker.Race{}, err
	}
	race := checker.Race{Dispatcher: dispatcher}
	specs := [2]history.Spec{
		{Kind: history.Add, Dispatcher: dispatcher, To: "n1"}, {Kind: history.Move, Dispatcher: dispatcher, To: "n2"},
	}
	first := r.rand.IntN(len(r.servers))
	through := [2]int{first, (first + 1 + r.rand.IntN(len(r.servers)-1)) % len(r.servers)}
	skew, delay := time.Duration(r.rand.IntN(3000))*time.Microsecond, time.Duration(r.rand.IntN(6000))*time.Microsecond
	late := r.rand.IntN(2)
	var wait sync.WaitGroup
	ops := make([]*history.Operation, len(specs))
	for i := range specs {
		wait.Go(func() {
			if i == late {
				time.Sleep(skew)
			}
			request := caller.Request{ID: fmt.Sprintf("race%d-%d", n, i), TimeMS: now}
			ops[i] = r.pinned[i][through[i]].Do(ctx, request, specs[i])
		})
	}
	if loseLeader && leader >= 0 {
		time.Sleep(delay)
		cut := len(r.recorder.InFlight())
		if _, err := r.cluster.Servers[leader].Kill(); err != nil {
			return race, err
		}
		race.LeaderLost = cut > 0
		time.Sleep(time.Duration(r.rand.IntN(1500)) * time.Millisecond)
		if err := r.cluster.Servers[leader].Start(); err != nil {
			return race, err
		}
	}
	wait.Wait()
	race.Operations = ops
	return race, r.finishRace(ctx, &race, table)
}

func (r *admitRace) awaitLeader(ctx context.Context) int {
	for range 100 {
		name := r.observer.leader(ctx)
		for i, s := range r.servers {
			if s.ID == name {
				return i
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return -1
}

func (r *admitRace) addTable(ctx context.Context, table string) error {
	_, err := r.admin.AddTables(ctx, &weirv1.AddTablesRequest{
		Changefeed: raceFeed, Tables: []*weirv1.TableSpec{{Schema: "public", Name: table}},
	})
	if err != nil {
		return fmt.Errorf("add table %s: %w", table, err)
	}
	return nil
}

func (r *admitRace) dispatcherOf(ctx context.Context, table string) (uint64, error) {
	for d, err := range r.admin.Dispatchers(ctx, &weirv1.ListDispatchersRequest{Changefeed: raceFeed, Schema: "public", Table: table}) {
		if err != nil {
			return 0, fmt.Errorf("find dispatcher of table %s: %w", table, err)
		}
		return d.GetId(), nil
	}
	return 0, fmt.Errorf("table %s has no dispatcher", table)
}

// finishRace waits until the dispatcher runs, notes who was given it, and drops the table, which makes it absent for good.
func (r *admitRace) finishRace(ctx context.Context, race *checker.Race, table string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		h, err := r.admin.History(ctx, race.Dispatcher, nil)
		if err == nil && h.GetDispatcher().GetPhase() == weirv1.Phase_PHASE_RUNNING && h.GetDispatcher().GetOperator() == 0 {
			r.noteEpochs(race.Dispatcher, h)
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("dispatcher %d does not run 60 s after its race: %w", race.Dispatcher, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := r.outsider(ctx, race); err != nil {
		return err
	}
	_, err := r.admin.DropTables(ctx, &weirv1.DropTablesRequest{
		Changefeed: raceFeed, Tables: []*weirv1.TableRef{{Schema: "public", Name: table}},
	})
	if err != nil {
		return fmt.Errorf("drop table %s: %w", table, err)
	}
	return nil
}

func (r *admitRace) noteEpochs(dispatcher uint64, h *weirv1.GetHistoryResponse) {
	known := map[evidence.Epoch]string{}
	for _, p := range h.GetRecords() {
		known[evidence.Epoch(p.GetEpoch())] = p.GetNode()
	}
	known[evidence.Epoch(h.GetDispatcher().GetEpoch())] = h.GetDispatcher().GetNode()
	r.epochs[dispatcher] = known
}

// outsider finds out whether somebody else's operator was first.
func (r *admitRace) outsider(ctx context.Context, race *checker.Race) error {
	ours := map[uint64]bool{}
	for _, op := range race.Operations {
		if op.Answer.Outcome == history.OK {
			ours[op.Answer.Operator] = true
		}
	}
	for op, err := range r.admin.Operators(ctx, &weirv1.ListOperatorsRequest{
		State: weirv1.OperatorState_OPERATOR_STATE_FINISHED, Dispatcher: race.Dispatcher,
	}) {
		if err != nil {
			return fmt.Errorf("list operators of dispatcher %d: %w", race.Dispatcher, err)
		}
		r.observer.noteOperator(op)
		if !ours[op.GetId()] {
			race.Outside = &checker.Operator{ID: op.GetId(), Dispatcher: op.GetDispatcher(), By: op.GetBy(), Since: op.GetSince(), Ended: op.GetEnded()}
			race.OutsideEpoch = op.GetEpoch()
		}
	}
	return nil
}

func (r *admitRace) check(ctx context.Context, races, fair int) error {
	ops, err := r.recorder.Close()
	if err != nil {
		return err
	}
	again, err := askAgain(ctx, r.bench, ops)
	if err != nil {
		return err
	}
	r.stop()
	agents, err := r.ledgers()
	if err != nil {
		return err
	}
	if err := r.observer.save(); err != nil {
		return err
	}
	var dispatchers []uint64
	lost := 0
	for _, race := range r.races {
		dispatchers = append(dispatchers, race.Dispatcher)
		if race.LeaderLost {
			lost++
		}
	}
	s := r.summary
	s.add(
		checker.Races(r.races), checker.Starts(agents, dispatchers, r.epochs), checker.Replays(ops, again), checker.RealTime(ops),
		checker.UniqueEffects(ops), checker.OneOperator(ops, r.observer.listed()), checker.Gates(agents, r.lives()),
	)
	s.note("Add(D, n1) against Move(D, from nowhere, n2) through two servers at once, %d times; %d more were won by the scheduler",
		fair, len(r.races)-fair)
	s.count("races", float64(fair), float64(races))
	s.count("races in which a killed leader had requests in flight", float64(lost), float64(races/4))
	s.outcomes(ops)
	return nil
}
