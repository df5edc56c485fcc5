package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

// A failing case prints its seed and how to run it again.
func TestPlaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.triggers = true
		g := &chaos{t: t, w: w, incs: map[string]fsm.Incarnation{}}
		in := scheduler.Input{Limits: scheduler.Limits{
			Round: rapid.IntRange(1, 8).Draw(t, "round"), Scan: rapid.IntRange(1, 10).Draw(t, "scan"),
			Spread: rapid.IntRange(0, 64).Draw(t, "spread"), InFlight: rapid.IntRange(1, 5).Draw(t, "in flight"),
			BackoffMS: 100, MaxBackoffMS: 1_000, Operators: 100, CooldownMS: 2_000, JoinMS: 500, BalanceMoves: 4, BalanceSlack: 1,
		}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			g.step()
			in.From = g.planOnce(in)
		}
		g.settle(in)
	})
}

// chaos changes a world at random.
type chaos struct {
	t    *rapid.T
	w    *world
	incs map[string]fsm.Incarnation
	feed int
}

func (g *chaos) step() {
	w := g.w
	name := fmt.Sprintf("n%d", rapid.IntRange(1, 4).Draw(g.t, "node"))
	switch rapid.SampledFrom([]string{
		"register", "expire", "fence", "feed", "carry out", "fail", "stop", "pause", "resume", "drop", "wait",
		"drain", "clear", "wait long",
	}).Draw(g.t, "step") {
	case "register":
		if v := w.apply(&fsm.RegisterNode{
			Node: fsm.NodeName(name), LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1,
		}); v.OK() {
			g.incs[name] = v.Facts.Incarnation
		}
	case "expire":
		n, _ := w.s.Node(fsm.NodeName(name))
		w.apply(&fsm.ExpireNode{Node: n.Name, Incarnation: n.Incarnation, ExpectTick: n.LastTick})
	case "fence":
		w.apply(&fsm.FenceNode{Node: fsm.NodeName(name)})
	case "feed":
		g.feed++
		w.feed(fmt.Sprintf("f%d", g.feed), rapid.IntRange(1, 12).Draw(g.t, "spans"))
	case "carry out":
		w.carryOut(g.incs[name])
	case "fail":
		g.endSome(name, fsm.ReportStartFailed)
	case "stop":
		g.endSome(name, fsm.ReportStopped)
	case "pause":
		w.apply(&fsm.PauseChangefeed{Name: g.someFeed()})
	case "resume":
		w.apply(&fsm.ResumeChangefeed{Name: g.someFeed()})
	case "drop":
		w.apply(&fsm.RemoveChangefeed{Name: g.someFeed()})
	case "drain":
		w.apply(&fsm.StartDrain{Node: fsm.NodeName(name)})
	case "clear":
		w.apply(&fsm.ClearDrain{Node: fsm.NodeName(name)})
	case "wait long":
		w.wait(3_000)
	case "wait":
		w.wait(rapid.IntRange(1, 1_500).Draw(g.t, "ms"))
	}
}

func (g *chaos) someFeed() string {
	return fmt.Sprintf("f%d", rapid.IntRange(1, max(1, g.feed)).Draw(g.t, "feed"))
}

func (g *chaos) endSome(name string, how fsm.ReportKind) {
	v := g.w.s.View()
	for row := range v.DispatchersOn(g.incs[name]) {
		if rapid.Bool().Draw(g.t, "ends") {
			g.w.report(g.incs[name], row.ID, how)
		}
	}
}

// planOnce plans twice on one view, holds the plans against each other and the rules, and applies one of them: with
// nothing in between, Apply must accept every proposal.
func (g *chaos) planOnce(in scheduler.Input) scheduler.Cursor {
	view := g.w.s.View()
	plan := g.w.place(in)
	require.Equal(g.t, plan, g.w.place(in), "the same view gives the same plan")
	require.LessOrEqual(g.t, len(plan.Proposals), in.Limits.Round)
	for _, p := range plan.Proposals {
		a := p.Command.(*fsm.AdmitOperator)
		n, ok := view.Node(a.To)
		require.True(g.t, ok && n.Status == fsm.NodeStatusLive && !n.Draining, "destination %s must be able to take work", a.To)
		g.w.must(p.Command)
	}
	for n := range g.w.s.Nodes() {
		starts := 0
		for o := range g.w.s.Orders(n.Incarnation) {
			if o.Kind == fsm.OrderStart {
				starts++
			}
		}
		require.LessOrEqual(g.t, starts, in.Limits.InFlight)
	}
	require.NoError(g.t, g.w.s.View().CheckInvariants())
	return plan.Next
}

// settle ends the chaos: nodes are there and do what they are ordered. Everything wanted must come to run.
func (g *chaos) settle(in scheduler.Input) {
	w := g.w
	for i := 1; i <= 4; i++ {
		n, known := w.s.Node(fsm.NodeName(fmt.Sprintf("n%d", i)))
		w.apply(&fsm.ClearDrain{Node: n.Name})
		if known && n.Status == fsm.NodeStatusFenced {
			w.must(&fsm.ExpireNode{Node: n.Name, Incarnation: n.Incarnation, ExpectTick: n.LastTick})
		}
	}
	if v := w.apply(&fsm.RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1}); v.OK() {
		g.incs["n1"] = v.Facts.Incarnation
	}
	for i := 1; i <= g.feed; i++ {
		w.apply(&fsm.ResumeChangefeed{Name: fmt.Sprintf("f%d", i)})
	}
	// Every round looks at one dispatcher at least, and each of them backs off once at most.
	in.Limits.BalanceMoves = 0 // what is moved does not run for a while
	for range 4*w.s.DispatcherCount() + 20 {
		if allRun(w) {
			return
		}
		for _, n := range []string{"n1", "n2", "n3", "n4"} {
			w.carryOut(g.incs[n])
		}
		w.wait(100)
		in.From = g.planOnce(in)
	}
	require.True(g.t, allRun(w), "every dispatcher must come to run")
}

func allRun(w *world) bool {
	for row := range w.s.Dispatchers() {
		if row.Phase != fsm.Running {
			return false
		}
	}
	return true
}
