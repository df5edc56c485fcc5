package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		setup func(w *world) scheduler.Input
		want  []string
	}{
		{"nothing to do without nodes", func(w *world) scheduler.Input {
			w.feed("a", 2)
			return scheduler.Input{}
		}, nil},
		{"nothing to do without absent dispatchers", func(w *world) scheduler.Input {
			w.node("n1")
			return scheduler.Input{}
		}, nil},
		{"a table spreads over equal nodes, by name", func(w *world) scheduler.Input {
			w.node("n2")
			w.node("n1")
			w.node("n3")
			w.feed("a", 4)
			return scheduler.Input{}
		}, []string{"1->n1", "2->n2", "3->n3", "4->n1"}},
		{"the least loaded node comes first", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 2)
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 2, To: "n1"})
			w.node("n2")
			w.feed("b", 3)
			return scheduler.Input{}
		}, []string{"4->n2", "5->n1", "6->n2"}},
		{"siblings weigh double", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 2) // 1, 2
			w.feed("b", 2) // 4, 5
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 4, To: "n2"})
			return scheduler.Input{}
		}, []string{"2->n2", "5->n1"}},
		{"a paused changefeed is left alone", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 1)
			w.feed("b", 1)
			w.must(&fsm.PauseChangefeed{Name: "a"})
			return scheduler.Input{}
		}, []string{"3->n1"}},
		{"a range that a removal holds waits", func(w *world) scheduler.Input {
			inc := w.node("n1")
			w.feed("a", 1)
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
			w.carryOut(inc)
			w.must(&fsm.DropTables{Changefeed: "a", Tables: []fsm.TableRef{{Schema: "public", Name: "t"}}})
			w.must(&fsm.AddTables{Changefeed: "a", Tables: []fsm.TableSpec{table("t", 1), table("u", 1)}})
			return scheduler.Input{}
		}, []string{"4->n1"}},
		{"a dispatcher that has just failed backs off", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 2)
			w.failFirst()
			return scheduler.Input{}
		}, []string{"2->n1"}},
		{"and is placed again after its wait", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 1)
			w.failFirst()
			w.wait(500)
			return scheduler.Input{}
		}, []string{"1->n1"}},
		{"the wait doubles", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 1)
			w.failFirst()
			w.failFirst()
			w.wait(999)
			return scheduler.Input{}
		}, nil},
		{"up to its limit", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 1)
			for range 70 {
				w.failFirst()
			}
			w.wait(30_000)
			return scheduler.Input{}
		}, []string{"1->n1"}},
		{"a fenced node gets nothing", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.must(&fsm.FenceNode{Node: "n1"})
			w.feed("a", 1)
			return scheduler.Input{}
		}, []string{"1->n2"}},
		{"an expired node gets nothing", func(w *world) scheduler.Input {
			inc := w.node("n1")
			n, _ := w.s.Node("n1")
			w.must(&fsm.ExpireNode{Node: "n1", Incarnation: inc, ExpectTick: n.LastTick})
			w.feed("a", 1)
			return scheduler.Input{}
		}, nil},
		{"a node that cannot be reached gets nothing", func(w *world) scheduler.Input {
			w.node("n1")
			w.node("n2")
			w.feed("a", 2)
			return scheduler.Input{Usable: func(n fsm.Node) bool { return n.Name == "n2" }}
		}, []string{"1->n2", "2->n2"}},
		{"what is skipped is left out", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 2)
			return scheduler.Input{Skip: func(d fsm.Dispatcher) bool { return d.ID == 1 }}
		}, []string{"2->n1"}},
		{"a node has only so many starts under way", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 4)
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
			return scheduler.Input{Limits: limits(func(l *scheduler.Limits) { l.InFlight = 3 })}
		}, []string{"2->n1", "3->n1"}},
		{"starts that have ended make room", func(w *world) scheduler.Input {
			inc := w.node("n1")
			w.feed("a", 3)
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
			w.carryOut(inc)
			return scheduler.Input{Limits: limits(func(l *scheduler.Limits) { l.InFlight = 1 })}
		}, []string{"2->n1"}},
		{"a plan has a bound", func(w *world) scheduler.Input {
			w.node("n1")
			w.feed("a", 5)
			return scheduler.Input{Limits: limits(func(l *scheduler.Limits) { l.Round = 2 })}
		}, []string{"1->n1", "2->n1"}},
		{"a node's limit of placements holds", func(w *world) scheduler.Input {
			policy := fsm.DefaultPolicy()
			policy.MaxPlacementsPerNode = 1
			w.must(&fsm.SetPolicy{Policy: policy})
			w.node("n1")
			w.node("n2")
			w.feed("a", 3)
			return scheduler.Input{}
		}, []string{"1->n1", "2->n2"}},
		{"the limit of running operators holds", func(w *world) scheduler.Input {
			policy := fsm.DefaultPolicy()
			policy.MaxOperators = 2
			w.must(&fsm.SetPolicy{Policy: policy})
			w.node("n1")
			w.feed("a", 3)
			w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 3, To: "n1"})
			return scheduler.Input{}
		}, []string{"1->n1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			in := tt.setup(w)
			plan := w.place(in)
			require.Equal(t, append([]string{}, tt.want...), shown(plan))
			for _, p := range plan.Proposals {
				w.must(p.Command)
			}
		})
	}
}

// Dispatchers that cannot be placed stand at the head of the order for good; those behind them must be reached.
func TestPlaceLooksPastThoseThatCannotBePlaced(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.feed("a", 10)
	w.feed("b", 3)
	in := scheduler.Input{
		Limits: limits(func(l *scheduler.Limits) { l.Scan = 4 }),
		Skip:   func(d fsm.Dispatcher) bool { return d.ID <= 9 || d.ID == 13 },
	}
	var placed []string
	for range 4 {
		plan := w.place(in)
		placed = append(placed, shown(plan)...)
		for _, p := range plan.Proposals {
			w.must(p.Command)
		}
		in.From = plan.Next
	}
	require.Equal(t, []string{"10->n1", "12->n1", "14->n1"}, placed)
}

// A look that has seen everything starts anew at the head.
func TestPlaceStartsAnewAfterAWholeRound(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.feed("a", 3)
	plan := w.place(scheduler.Input{
		From: scheduler.Cursor{Changefeed: 1, Dispatcher: 2}, Limits: limits(func(l *scheduler.Limits) { l.Round = 2 }),
	})
	require.Equal(t, []string{"3->n1", "1->n1"}, shown(plan), "it goes on behind the cursor and wraps around")
	require.Equal(t, scheduler.Cursor{Changefeed: 1, Dispatcher: 1}, plan.Next)
	require.Equal(t, scheduler.Cursor{}, w.place(scheduler.Input{From: plan.Next}).Next)
}

func TestLimitsUnderWhichNothingIsPlacedAreRefused(t *testing.T) {
	require.NoError(t, scheduler.DefaultLimits().Validate())
	for name, change := range map[string]func(*scheduler.Limits){
		"Round":        func(l *scheduler.Limits) { l.Round = 0 },
		"Scan":         func(l *scheduler.Limits) { l.Scan = -1 },
		"InFlight":     func(l *scheduler.Limits) { l.InFlight = 0 },
		"MaxBackoffMS": func(l *scheduler.Limits) { l.MaxBackoffMS = l.BackoffMS - 1 },
	} {
		require.ErrorContains(t, limits(change).Validate(), name)
	}
}
