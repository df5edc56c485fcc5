package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

// rated are made-up rates.
type rated struct {
	node map[fsm.Incarnation]uint64
	row  map[fsm.DispatcherID]uint64
	w    *world
}

func (r rated) Node(inc fsm.Incarnation) (uint64, bool) {
	rate, known := r.node[inc]
	return rate, known
}

func (r rated) Rate(row fsm.Dispatcher) (uint64, bool) {
	rate, known := r.row[row.ID]
	return rate, known
}

func (r rated) Busiest(inc fsm.Incarnation) (out []scheduler.Busy) {
	for row := range r.w.s.DispatchersOn(inc) {
		if rate := r.row[row.ID]; rate > 0 {
			out = append(out, scheduler.Busy{Pair: fsm.Pair{Dispatcher: row.ID, Epoch: row.Epoch}, Rate: rate})
		}
	}
	slices.SortStableFunc(out, func(a, b scheduler.Busy) int { return int(b.Rate) - int(a.Rate) })
	return out
}

// rates gives each dispatcher its rate and each node the sum of what it runs.
func (w *world) rates(rows map[fsm.DispatcherID]uint64) rated {
	r := rated{node: map[fsm.Incarnation]uint64{}, row: rows, w: w}
	for n := range w.s.Nodes() {
		r.node[n.Incarnation] = 0
	}
	for id, rate := range rows {
		row, _ := w.s.Dispatcher(id)
		r.node[row.Incarnation] += rate
	}
	return r
}

// run places dispatchers on a node and lets them run.
func (w *world) run(name string, ids ...fsm.DispatcherID) {
	w.t.Helper()
	for _, id := range ids {
		inc := w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id, To: fsm.NodeName(name)}).Facts.Incarnation
		w.report(inc, id, fsm.ReportRunning)
	}
}

func (w *world) policy(change func(*fsm.Policy)) {
	w.t.Helper()
	p := w.s.Meta().Policy
	change(&p)
	w.must(&fsm.SetPolicy{Policy: p})
}

// cool lets so much time go by that everything may be moved for balance.
func (w *world) cool() { w.wait(int(scheduler.DefaultLimits().CooldownMS)) }

func ids(first, last fsm.DispatcherID) (out []fsm.DispatcherID) {
	for id := first; id <= last; id++ {
		out = append(out, id)
	}
	return out
}

func TestPolicies(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(w *world) scheduler.Input
		want  []string
	}{
		{"triggers spread like the dispatchers of one table", func(w *world) scheduler.Input {
			w.triggers = true
			w.node("n1")
			w.node("n2")
			for i := range 3 {
				w.feed(fmt.Sprintf("f%d", i), 1)
			}
			return scheduler.Input{}
		}, []string{"1->n1", "2->n2", "3->n1", "4->n1", "5->n2", "6->n2"}},
		{"an absent source of a merge waits for the others", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 3)
			w.run("n1", 1)
			w.must(&fsm.AdmitOperator{Op: fsm.OpMerge, Sources: []fsm.DispatcherID{1, 2}})
			return scheduler.Input{}
		}, []string{"3->n1"}},
		{"a draining node gets nothing", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 1)
			w.must(&fsm.StartDrain{Node: "n1"})
			return scheduler.Input{}
		}, []string{"1->n2"}},
		{"where only draining nodes are left nothing moves and nothing starts", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 3)
			w.run("n1", 1, 2)
			w.must(&fsm.StartDrain{Node: "n1"})
			w.must(&fsm.StartDrain{Node: "n2"})
			return scheduler.Input{}
		}, nil},
		{"a drain moves a bounded number at a time, the trigger too", func(w *world) scheduler.Input {
			w.triggers = true
			w.policy(func(p *fsm.Policy) { p.DrainAtOnce = 3 })
			w.node("n1")
			w.feed("a", 4)
			w.run("n1", 1, 2, 3, 4, 5)
			w.node("n2")
			w.must(&fsm.StartDrain{Node: "n1"})
			w.must(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 4, FromAny: true, To: "n2"})
			return scheduler.Input{}
		}, []string{"1:n1->n2", "2:n1->n2"}},
		{"a move of a drain counts until its destination runs", func(w *world) scheduler.Input {
			w.policy(func(p *fsm.Policy) { p.DrainAtOnce = 1 })
			inc := w.node("n1")
			w.feed("a", 2)
			w.run("n1", 1, 2)
			w.node("n2")
			w.must(&fsm.StartDrain{Node: "n1"})
			w.must(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, FromAny: true, To: "n2"})
			w.report(inc, 1, fsm.ReportStopped)
			return scheduler.Input{}
		}, nil},
		{"the holder of a write permission is not moved", func(w *world) scheduler.Input {
			inc := w.node("n1")
			w.feed("a", 2)
			w.run("n1", 1, 2, 3)
			w.node("n2")
			w.grant(inc, 3)
			w.must(&fsm.StartDrain{Node: "n1"})
			w.triggers = true
			return scheduler.Input{}
		}, []string{"1:n1->n2", "2:n1->n2"}},
		{"counts within the slack are left alone", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 2)
			w.run("n1", 1, 2)
			w.cool()
			return scheduler.Input{}
		}, nil},
		{"counts beyond the slack are evened out to it", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 7)
			w.run("n1", ids(1, 7)...)
			w.cool()
			return scheduler.Input{}
		}, []string{"1:n1->n2", "2:n1->n2", "3:n1->n2"}},
		{"balance prefers what spreads a table", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 2) // 1, 2
			w.feed("b", 3) // 4, 5, 6
			w.run("n1", 1, 4, 5, 6)
			w.run("n2", 2)
			w.cool()
			return scheduler.Input{}
		}, []string{"4:n1->n2"}},
		{"what has just begun to run is left alone", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.wait(20_000)
			w.feed("a", 7)
			w.run("n1", ids(1, 7)...)
			w.wait(29_999)
			return scheduler.Input{}
		}, nil},
		{"a node that has just come gets nothing for balance", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 7)
			w.run("n1", ids(1, 7)...)
			w.cool()
			w.node("n2")
			w.wait(9_999)
			return scheduler.Input{}
		}, nil},
		{"what has failed is left alone until it has run for long", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 4)
			w.failFirst()
			w.run("n1", ids(1, 4)...)
			w.cool()
			return scheduler.Input{}
		}, []string{"2:n1->n2"}},
		{"moves under way count", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 7)
			w.run("n1", ids(1, 7)...)
			w.cool()
			w.must(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 7, FromAny: true, To: "n2"})
			return scheduler.Input{}
		}, []string{"1:n1->n2", "2:n1->n2"}},
		{"no more than so many moves for balance run together", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 9)
			w.run("n1", ids(1, 9)...)
			w.cool()
			w.must(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 9, FromAny: true, To: "n2"})
			return scheduler.Input{Limits: limits(func(l *scheduler.Limits) { l.BalanceMoves = 2 })}
		}, []string{"1:n1->n2"}},
		{"balance can be turned off", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 9)
			w.run("n1", ids(1, 9)...)
			w.cool()
			return scheduler.Input{Limits: limits(func(l *scheduler.Limits) { l.BalanceMoves = 0 })}
		}, nil},
		{"the dispatcher that evens out rates best is moved", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 4)
			w.run("n1", 1, 2, 3)
			w.run("n2", 4)
			w.cool()
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 50_000, 2: 30_000, 3: 1, 4: 10_000})}
		}, []string{"2:n1->n2"}},
		{"rates within the slack are left alone", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 3)
			w.run("n1", 1, 2)
			w.run("n2", 3)
			w.cool()
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 5_000, 2: 1_000, 3: 1_000})}
		}, nil},
		{"one that would only carry the load over is left alone", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 2)
			w.run("n1", 1)
			w.run("n2", 2)
			w.cool()
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 90_000, 2: 1_000})}
		}, nil},
		{"rates are not evened out at the cost of counts", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 6)
			w.run("n1", 1, 2)
			w.run("n2", 3, 4, 5, 6)
			w.cool()
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 50_000, 2: 40_000})}
		}, nil},
		{"rates settle after a move before the next", func(w *world) scheduler.Input {
			inc := w.node("n1")
			to := w.node("n2")
			w.feed("a", 6)
			w.run("n1", ids(1, 4)...)
			w.run("n2", 5, 6)
			w.cool()
			w.must(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 4, FromAny: true, To: "n2"})
			w.carryOut(inc)
			w.carryOut(to)
			w.wait(14_000)
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 20_000, 2: 20_000})}
		}, nil},
		{"splitting is off unless a rate is set", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 1)
			w.run("n1", 1)
			w.cool()
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 99_000}), SplitKeys: keys("m")}
		}, nil},
		{"a busy dispatcher is split at the keys that its reader knows, over the nodes", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 2)
			w.run("n1", 1, 2)
			w.node("n2")
			w.cool()
			return scheduler.Input{
				Limits: splitting(), Loads: w.rates(map[fsm.DispatcherID]uint64{1: 20_000, 2: 9_999}), SplitKeys: keys("00000000"),
			}
		}, []string{`split 1 into [["","00000000") ["00000000","00000001")] at [n2 n2]`}},
		{"nor is one whose reader knows no keys split", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 1)
			w.run("n1", 1)
			w.cool()
			return scheduler.Input{
				Limits: splitting(), Loads: w.rates(map[fsm.DispatcherID]uint64{1: 20_000}),
				SplitKeys: func(fsm.Dispatcher) ([]string, bool) { return nil, false },
			}
		}, nil},
		{"nor at keys that do not lie in its span", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 2)
			w.run("n1", 1, 2)
			w.cool()
			return scheduler.Input{Limits: splitting(), Loads: w.rates(map[fsm.DispatcherID]uint64{1: 20_000}), SplitKeys: keys("00000005")}
		}, nil},
		{"merging is off unless asked for", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 4)
			w.run("n1", ids(1, 4)...)
			w.cool()
			return scheduler.Input{Loads: w.rates(map[fsm.DispatcherID]uint64{1: 0, 2: 0, 3: 0, 4: 0})}
		}, nil},
		{"neighbours that write little together are joined", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 8)
			w.run("n1", ids(1, 8)...)
			w.cool()
			return scheduler.Input{Limits: merging(), Loads: w.rates(map[fsm.DispatcherID]uint64{
				1: 0, 2: 40, 3: 40, 4: 40, 5: 500, 6: 0, 8: 0, // of 7 nothing is known
			})}
		}, []string{"merge [1 2 3]"}},
		{"no more than so many merges run together", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 10)
			w.run("n1", ids(1, 10)...)
			w.cool()
			w.must(&fsm.AdmitOperator{Op: fsm.OpMerge, Sources: []fsm.DispatcherID{9, 10}})
			rates := map[fsm.DispatcherID]uint64{}
			for id := range fsm.DispatcherID(8) {
				rates[id+1] = 0
			}
			return scheduler.Input{Limits: merging(), Loads: w.rates(rates)}
		}, []string{"merge [1 2 3 4]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			in := tt.setup(w)
			plan := w.place(in)
			require.Equal(t, append([]string{}, tt.want...), shown(plan))
			for _, p := range plan.Proposals {
				w.must(p.Command)
			}
			require.NoError(t, w.s.View().CheckInvariants())
		})
	}
}

func keys(k ...string) func(fsm.Dispatcher) ([]string, bool) {
	return func(fsm.Dispatcher) ([]string, bool) { return k, true }
}

func splitting() scheduler.Limits {
	return limits(func(l *scheduler.Limits) { l.SplitRate, l.LoadSlack = 10_000, 0 })
}

func merging() scheduler.Limits {
	return limits(func(l *scheduler.Limits) { l.MergeAtOnce, l.MergeRate, l.MergeSources, l.SplitRate = 2, 100, 4, 10_000 })
}

// grant makes a dispatcher, which is the trigger of its changefeed, the holder of a write permission.
func (w *world) grant(inc fsm.Incarnation, trigger fsm.DispatcherID) {
	w.t.Helper()
	row, _ := w.s.Dispatcher(trigger)
	t, _ := w.s.Table(row.Table)
	n, _ := w.s.NodeOf(inc)
	key := fsm.BarrierKey{Changefeed: t.Changefeed, Run: 1, At: fsm.Position{TS: 10, Stage: fsm.StageDDL}}
	v := w.must(&fsm.ReportBarrier{Node: n.Name, Incarnation: inc, Reports: []fsm.BarrierReport{{
		Key: key, What: fsm.SaidWaiting, Pairs: []fsm.Pair{{Dispatcher: row.ID, Epoch: row.Epoch}},
		Spec: fsm.BarrierSpec{Influence: fsm.InfluenceTables, Trigger: true, Add: []fsm.TableSpec{table("new", 1)}},
	}}})
	require.Equal(w.t, []fsm.Reason{fsm.ReportCounted}, v.Reports)
	b, _ := w.s.Barrier(key)
	require.Equal(w.t, fsm.BarrierInWriting, b.Status)
}

// R18, R44: what is stuck is cancelled, that very operator and once; what is stuck all the same gets the node that it
// waits for fenced, one node at a time. Each only if the replicated policy asks for it.
func TestReview_R18_WhatIsStuckIsCancelledThenItsNodeFenced(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.node("n2")
	w.node("n3")
	w.feed("a", 2)
	w.run("n1", 1)
	w.run("n2", 2)
	for id := fsm.DispatcherID(1); id <= 2; id++ {
		w.must(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: id, FromAny: true, To: "n3"})
	}
	policy := w.s.Meta().Policy
	w.wait(int(policy.OperatorDeadlineMS))
	require.Empty(t, shown(w.place(scheduler.Input{})), "a deadline hands nothing over by itself")

	w.policy(func(p *fsm.Policy) { p.CancelStuck, p.FenceStuck = true, true })
	var ops []fsm.OpID
	for op := range w.s.Operators() {
		ops = append(ops, op.ID)
	}
	plan := w.place(scheduler.Input{})
	require.Equal(t, []string{fmt.Sprintf("cancel %v", ops[0]), fmt.Sprintf("cancel %v", ops[1])}, shown(plan))
	for _, p := range plan.Proposals {
		w.must(p.Command)
	}
	require.Empty(t, shown(w.place(scheduler.Input{})), "once")

	w.wait(int(policy.FenceStuckMS))
	plan = w.place(scheduler.Input{})
	require.Equal(t, []string{"fence n1"}, shown(plan), "of two nodes one")
	require.Contains(t, plan.Proposals[0].Command.(*fsm.FenceNode).Why, "STUCK: move")
	w.must(plan.Proposals[0].Command)
	require.Empty(t, shown(w.place(scheduler.Input{})), "the other one only when the first is out")
	n, _ := w.s.Node("n1")
	w.must(&fsm.ExpireNode{Node: "n1", Incarnation: n.Incarnation, ExpectTick: n.LastTick})
	plan = w.place(scheduler.Input{})
	require.Equal(t, []string{"fence n2", "1->n3"}, shown(plan), "the work of the first goes on elsewhere")
	skipped := w.place(scheduler.Input{SkipOperator: func(fsm.Operator) bool { return true }})
	require.Equal(t, []string{"1->n3"}, shown(skipped))
}

// A removal cannot be cancelled; its node is fenced all the same.
func TestReview_R18_AStuckRemovalGetsItsNodeFenced(t *testing.T) {
	w := newWorld(t)
	w.policy(func(p *fsm.Policy) { p.CancelStuck, p.FenceStuck = true, true })
	w.node("n1")
	w.node("n2")
	w.feed("a", 1)
	w.run("n1", 1)
	w.must(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1})
	policy := w.s.Meta().Policy
	w.wait(int(policy.OperatorDeadlineMS + policy.FenceStuckMS - 100))
	require.Empty(t, shown(w.place(scheduler.Input{})))
	w.wait(200)
	require.Equal(t, []string{"fence n1"}, shown(w.place(scheduler.Input{})))
}

// R39: draining belongs to the node's name. A new incarnation of it gets nothing either.
func TestReview_R39_ANewIncarnationOfADrainingNodeGetsNothing(t *testing.T) {
	w := newWorld(t)
	inc := w.node("n1")
	w.feed("a", 2)
	w.run("n1", 1, 2)
	w.must(&fsm.StartDrain{Node: "n1"})
	n, _ := w.s.Node("n1")
	w.must(&fsm.ExpireNode{Node: "n1", Incarnation: inc, ExpectTick: n.LastTick})
	w.node("n1")
	w.wait(60_000)
	require.Empty(t, shown(w.place(scheduler.Input{})))
	w.node("n2")
	require.Equal(t, []string{"1->n2", "2->n2"}, shown(w.place(scheduler.Input{})))
}

// Merging goes through the tables bit by bit, and does not stop at what cannot be merged.
func TestMergeGoesThroughAllTables(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.feed("a", 10)
	w.feed("b", 4)
	w.run("n1", ids(1, 10)...)
	w.run("n1", ids(12, 15)...)
	w.cool()
	rates := map[fsm.DispatcherID]uint64{13: 0, 14: 0}
	in := scheduler.Input{Loads: w.rates(rates), Limits: merging()}
	in.Limits.Scan = 3
	var all []string
	for range 6 {
		plan := w.place(in)
		all = append(all, shown(plan)...)
		in.From = plan.Next
	}
	require.Contains(t, all, "merge [13 14]")
}

func TestLimitsUnderWhichPoliciesWouldUndoEachOtherAreRefused(t *testing.T) {
	for name, change := range map[string]func(*scheduler.Limits){
		"BalanceSlack": func(l *scheduler.Limits) { l.BalanceSlack = 0 },
		"MergeSources": func(l *scheduler.Limits) { l.MergeAtOnce, l.MergeSources = 1, 1 },
		"SplitRate":    func(l *scheduler.Limits) { l.MergeAtOnce, l.MergeRate, l.SplitRate = 1, 100, 399 },
	} {
		require.ErrorContains(t, limits(change).Validate(), name)
	}
	require.NoError(t, merging().Validate())
}
