package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

// From any state, with nodes that do what they are ordered, a cluster becomes calm: everything runs, draining nodes are
// empty, counts are within the slack, and then nothing is proposed any more. On the way each dispatcher is moved a bounded
// number of times, never twice within the cool-down. A failing case prints its seed and how to run it again.
func TestClustersBecomeCalm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCalming(t)
		for range rapid.IntRange(1, 3).Draw(t, "upheavals") {
			c.upheaval()
			c.becomeCalm()
		}
	})
}

type calming struct {
	t     *rapid.T
	w     *world
	in    scheduler.Input
	nodes int
	feeds int
	moved map[fsm.DispatcherID]uint64 // when, in state-machine time
	moves int
}

func newCalming(t *rapid.T) *calming {
	c := &calming{t: t, w: newWorld(t), moved: map[fsm.DispatcherID]uint64{}}
	c.w.triggers = true
	c.w.policy(func(p *fsm.Policy) { p.DrainAtOnce = uint32(rapid.IntRange(1, 4).Draw(t, "drain at once")) })
	c.in.Limits = limits(func(l *scheduler.Limits) {
		l.CooldownMS, l.JoinMS = 2_000, 1_000
		l.BalanceMoves = rapid.IntRange(1, 4).Draw(t, "moves")
		l.BalanceSlack = uint64(rapid.IntRange(1, 3).Draw(t, "slack"))
		l.Round, l.Scan = rapid.IntRange(4, 64).Draw(t, "round"), rapid.IntRange(4, 64).Draw(t, "scan")
	})
	return c
}

// upheaval brings nodes and changefeeds, lets nodes die, drains some and clears others. One that can take work is left.
func (c *calming) upheaval() {
	t := c.t
	for range rapid.IntRange(1, 3).Draw(t, "new nodes") {
		c.nodes++
		c.w.node(fmt.Sprintf("n%d", c.nodes))
	}
	for i := 1; i < c.nodes; i++ {
		name := fsm.NodeName(fmt.Sprintf("n%d", i))
		n, _ := c.w.s.Node(name)
		switch rapid.SampledFrom([]string{"stay", "stay", "die", "drain", "clear", "return"}).Draw(t, string(name)) {
		case "die":
			c.w.apply(&fsm.ExpireNode{Node: name, Incarnation: n.Incarnation, ExpectTick: n.LastTick})
		case "drain":
			c.w.apply(&fsm.StartDrain{Node: name})
		case "clear":
			c.w.apply(&fsm.ClearDrain{Node: name})
		case "return":
			c.w.apply(&fsm.RegisterNode{Node: name, LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1})
		}
	}
	if rapid.Bool().Draw(t, "new feed") || c.feeds == 0 {
		c.feeds++
		c.w.feed(fmt.Sprintf("f%d", c.feeds), rapid.IntRange(1, 30).Draw(t, "spans"))
	}
}

func (c *calming) becomeCalm() {
	c.moves = 0
	quiet := 0
	rows := c.w.s.DispatcherCount()
	for round := 0; quiet < 20; round++ { // twenty rounds are as long as the cool-down
		require.Less(c.t, round, 40*rows+200, "the cluster must become calm")
		if c.plan() == 0 {
			quiet++
		} else {
			quiet = 0
		}
		c.w.wait(100)
		for n := range c.w.s.Nodes() {
			c.w.carryOut(n.Incarnation)
		}
	}
	require.LessOrEqual(c.t, c.moves, 2*rows, "moves for %d dispatchers", rows)
	c.checkCalm()
}

func (c *calming) plan() int {
	w := c.w
	plan := w.place(c.in)
	require.Equal(c.t, plan, w.place(c.in), "the same input gives the same plan")
	require.LessOrEqual(c.t, len(plan.Proposals), c.in.Limits.Round)
	for _, p := range plan.Proposals {
		a := p.Command.(*fsm.AdmitOperator)
		if a.Op == fsm.OpMove {
			c.noteMove(a)
		}
		w.must(p.Command)
	}
	require.NoError(c.t, w.s.View().CheckInvariants())
	c.in.From = plan.Next
	return len(plan.Proposals)
}

func (c *calming) noteMove(a *fsm.AdmitOperator) {
	nowMS := c.w.s.Meta().TimeMS
	from, _ := c.w.s.Node(a.From)
	if at, before := c.moved[a.Dispatcher]; before && !from.Draining {
		require.GreaterOrEqual(c.t, nowMS-at, c.in.Limits.CooldownMS, "dispatcher %d was moved a moment ago", a.Dispatcher)
	}
	c.moved[a.Dispatcher] = nowMS
	c.moves++
}

func (c *calming) checkCalm() {
	least, most := ^uint64(0), uint64(0)
	total, able := uint64(0), uint64(0)
	for n := range c.w.s.Nodes() {
		load := uint64(c.w.s.Load(n.Incarnation).Placements)
		if n.Draining && n.Status == fsm.NodeStatusLive {
			require.Zero(c.t, load, "%s is drained", n.Name)
			c.w.must(&fsm.ConfirmDrain{Node: n.Name, Incarnation: n.Incarnation})
		}
		if n.Status == fsm.NodeStatusLive && !n.Draining {
			least, most = min(least, load), max(most, load)
			total, able = total+load, able+1
		}
	}
	slack := max(c.in.Limits.BalanceSlack, total/able*c.in.Limits.BalancePercent/100)
	require.LessOrEqual(c.t, most-least, slack)
	require.True(c.t, allRun(c.w))
}

// Rates that change at random under the scheduler's feet: it moves no dispatcher twice within the cool-down, and does not
// move one back to where it came from while rates stay as they are.
func TestRatesBecomeEvenWithoutPingPong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		nodes, rows := rapid.IntRange(2, 4).Draw(t, "nodes"), rapid.IntRange(2, 24).Draw(t, "dispatchers")
		for i := range nodes {
			w.node(fmt.Sprintf("n%d", i))
		}
		w.feed("a", rows)
		for id := range rows {
			w.run(fmt.Sprintf("n%d", id%nodes), fsm.DispatcherID(id+1))
		}
		rates := map[fsm.DispatcherID]uint64{}
		for id := range rows {
			rates[fsm.DispatcherID(id+1)] = rapid.Uint64Range(0, 50_000).Draw(t, "rate")
		}
		moves, from := 0, map[string]bool{}
		for round := range 400 {
			plan := w.place(scheduler.Input{Loads: w.rates(rates)})
			for _, p := range plan.Proposals {
				a := p.Command.(*fsm.AdmitOperator)
				moves++
				from[fmt.Sprint(a.Dispatcher, a.From)] = true
				require.False(t, from[fmt.Sprint(a.Dispatcher, a.To)] && nodes == 2, "dispatcher %d goes back to %s in round %d", a.Dispatcher, a.To, round)
				w.must(p.Command)
			}
			for n := range w.s.Nodes() {
				w.carryOut(n.Incarnation)
			}
			w.wait(1_000)
		}
		require.Empty(t, w.place(scheduler.Input{Loads: w.rates(rates)}).Proposals)
		require.LessOrEqual(t, moves, 2*rows)
	})
}
