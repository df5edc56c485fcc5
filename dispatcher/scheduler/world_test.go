package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

// fatal is what testing.T and rapid.T have in common.
type fatal interface {
	require.TestingT
	Helper()
}

// world is a state machine with one command an entry.
type world struct {
	t        fatal
	s        *fsm.State
	index    uint64
	triggers bool // triggers are placed as well
}

func newWorld(t fatal) *world {
	w := &world{t: t, s: fsm.New()}
	w.must(&fsm.BeginTerm{Server: "s1"})
	w.must(&fsm.BeginGeneration{Generation: 7, Cluster: "test", Why: fsm.GenerationBootstrap})
	w.must(&fsm.Tick{})
	return w
}

func (w *world) apply(c fsm.Command) fsm.Verdict {
	w.index++
	return w.s.Apply(fsm.Entry{Index: w.index, Term: 1, Proposals: []fsm.Proposal{{Term: 1, Command: c}}})[0]
}

func (w *world) must(c fsm.Command) fsm.Verdict {
	w.t.Helper()
	v := w.apply(c)
	require.Equal(w.t, fsm.Accepted, v.Reason, "%T: %+v", c, v.Facts)
	return v
}

func (w *world) node(name string) fsm.Incarnation {
	w.t.Helper()
	return w.must(&fsm.RegisterNode{
		Node: fsm.NodeName(name), LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1,
	}).Facts.Incarnation
}

// feed makes a changefeed with one table of so many spans.
func (w *world) feed(name string, spans int) {
	w.t.Helper()
	w.must(&fsm.CreateChangefeed{
		Name: name, Source: "file:x", Sink: "sink:" + name, SinkFenced: true, Tables: []fsm.TableSpec{table("t", spans)},
	})
}

func table(name string, spans int) fsm.TableSpec {
	spec := fsm.TableSpec{Schema: "public", Name: name}
	for i := 1; i < spans; i++ {
		spec.SplitKeys = append(spec.SplitKeys, fmt.Sprintf("%08d", i))
	}
	return spec
}

func (w *world) wait(ms int) {
	w.t.Helper()
	for ; ms > 0; ms -= fsm.MaxTickMS {
		w.must(&fsm.Tick{ElapsedMS: uint32(min(ms, fsm.MaxTickMS))})
	}
}

// carryOut reports what a node was ordered: running or stopped.
func (w *world) carryOut(inc fsm.Incarnation) {
	w.t.Helper()
	v := w.s.View()
	for o := range v.Orders(inc) {
		what := fsm.ReportRunning
		if o.Kind == fsm.OrderStop {
			what = fsm.ReportStopped
		}
		w.report(inc, o.Dispatcher, what)
	}
}

func (w *world) report(inc fsm.Incarnation, id fsm.DispatcherID, what fsm.ReportKind) {
	w.t.Helper()
	row, _ := w.s.Dispatcher(id)
	n, _ := w.s.NodeOf(inc)
	w.must(&fsm.ReportPlacements{Node: n.Name, Incarnation: inc, Reports: []fsm.PlacementReport{{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: id, Epoch: row.Epoch}, What: what,
	}}})
}

// failFirst places the first dispatcher on n1 and lets its start fail.
func (w *world) failFirst() {
	w.t.Helper()
	inc := w.must(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Facts.Incarnation
	w.report(inc, 1, fsm.ReportStartFailed)
}

func (w *world) place(in scheduler.Input) scheduler.Plan {
	in.View = w.s.View()
	if in.Limits == (scheduler.Limits{}) {
		in.Limits = scheduler.DefaultLimits()
	}
	if !w.triggers {
		skip := in.Skip
		in.Skip = func(d fsm.Dispatcher) bool { return w.isTrigger(d) || (skip != nil && skip(d)) }
	}
	return scheduler.Make(in)
}

func (w *world) isTrigger(d fsm.Dispatcher) bool {
	t, _ := w.s.Table(d.Table)
	return t.Trigger
}

// shown is a plan as "dispatcher->node" words.
func shown(p scheduler.Plan) []string {
	out := make([]string, 0, len(p.Proposals))
	for _, q := range p.Proposals {
		out = append(out, word(q.Command))
	}
	return out
}

func limits(change func(*scheduler.Limits)) scheduler.Limits {
	l := scheduler.DefaultLimits()
	change(&l)
	return l
}

var _ fatal = (*testing.T)(nil)

// word is a command in short.
func word(c fsm.Command) string {
	switch c := c.(type) {
	case *fsm.CancelOperator:
		return fmt.Sprintf("cancel %v", c.Op)
	case *fsm.FenceNode:
		return fmt.Sprintf("fence %s", c.Node)
	case *fsm.AdmitOperator:
		switch c.Op {
		case fsm.OpAdd:
			return fmt.Sprintf("%d->%s", c.Dispatcher, c.To)
		case fsm.OpMove:
			return fmt.Sprintf("%d:%s->%s", c.Dispatcher, c.From, c.To)
		case fsm.OpSplit:
			return fmt.Sprintf("split %d into %v at %v", c.Dispatcher, c.Spans, c.Targets)
		case fsm.OpMerge:
			return fmt.Sprintf("merge %v", c.Sources)
		case fsm.OpRemove, fsm.OpStop:
		}
	}
	return fmt.Sprintf("%T", c)
}
