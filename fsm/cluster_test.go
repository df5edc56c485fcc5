package fsm_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// cluster is a state machine in a test, with words for what tests do to it.
type cluster struct {
	t     testing.TB
	s     *fsm.State
	index uint64
	term  uint64
}

// newCluster has nodes n1 to n3 and a changefeed "shop" with one table "public.a" of so many spans.
func newCluster(tb testing.TB, spans int) *cluster {
	tb.Helper()
	c := &cluster{t: tb, s: fsm.New(), term: 1}
	c.ok(&fsm.BeginTerm{Server: "s1"})
	c.ok(&fsm.BeginGeneration{Generation: 1, Cluster: "test", Why: fsm.GenerationBootstrap})
	for _, n := range []fsm.NodeName{"n1", "n2", "n3"} {
		c.register(n)
	}
	table := fsm.TableSpec{Schema: "public", Name: "a"}
	for i := 1; i < spans; i++ {
		table.SplitKeys = append(table.SplitKeys, fmt.Sprintf("%06d", i))
	}
	c.ok(&fsm.CreateChangefeed{Name: "shop", Source: "x:src", Sink: "x:dst", SinkFenced: true, Start: fsm.At(10), Tables: []fsm.TableSpec{table}})
	return c
}

// entry applies commands as one entry, through its bytes, and checks the invariants.
func (c *cluster) entry(proposals ...fsm.Proposal) []fsm.Verdict {
	c.t.Helper()
	verdicts := c.apply(proposals...)
	require.NoError(c.t, c.s.CheckInvariants())
	return verdicts
}

// apply is entry without the check, for long logs.
func (c *cluster) apply(proposals ...fsm.Proposal) []fsm.Verdict {
	c.t.Helper()
	for i := range proposals {
		if proposals[i].Term == 0 {
			proposals[i].Term = c.term
		}
	}
	data, err := logcodec.AppendEntry(nil, proposals)
	require.NoError(c.t, err)
	c.index++
	e, err := logcodec.DecodeEntry(c.index, c.term, data)
	require.NoError(c.t, err)
	return c.s.Apply(e)
}

func (c *cluster) all(commands ...fsm.Command) []fsm.Verdict {
	c.t.Helper()
	proposals := make([]fsm.Proposal, len(commands))
	for i := range commands {
		proposals[i].Command = commands[i]
	}
	return c.entry(proposals...)
}

func (c *cluster) do(cmd fsm.Command) fsm.Verdict {
	c.t.Helper()
	return c.all(cmd)[0]
}

func (c *cluster) ok(cmd fsm.Command) fsm.Verdict {
	c.t.Helper()
	v := c.do(cmd)
	require.Equal(c.t, fsm.Accepted, v.Reason, "%+v", v)
	return v
}

func (c *cluster) register(n fsm.NodeName) fsm.Incarnation {
	c.t.Helper()
	return c.ok(&fsm.RegisterNode{Node: n, LeaseMS: 2000, ClockClass: 1, Protocol: 1, BootID: "b"}).Facts.Incarnation
}

func (c *cluster) inc(n fsm.NodeName) fsm.Incarnation {
	node, _ := c.s.Node(n)
	return node.Incarnation
}

func (c *cluster) row(d fsm.DispatcherID) fsm.Dispatcher {
	row, _ := c.s.Dispatcher(d)
	return row
}

func (c *cluster) expire(n fsm.NodeName) {
	c.t.Helper()
	node, _ := c.s.Node(n)
	c.ok(&fsm.ExpireNode{Node: n, Incarnation: node.Incarnation, ExpectTick: node.LastTick})
}

func (c *cluster) add(d fsm.DispatcherID, to fsm.NodeName) fsm.Verdict {
	c.t.Helper()
	return c.ok(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d, To: to})
}

// move asks to move dispatcher 1.
func (c *cluster) move(from, to fsm.NodeName) fsm.Verdict {
	c.t.Helper()
	return c.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, From: from, To: to})
}

// report says something about (d, e); a position of zero is none.
func (c *cluster) report(n fsm.NodeName, what fsm.ReportKind, d fsm.DispatcherID, e fsm.Epoch, ts uint64) fsm.Reason {
	c.t.Helper()
	v := c.ok(&fsm.ReportPlacements{Node: n, Incarnation: c.inc(n), Reports: []fsm.PlacementReport{{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: d, Epoch: e, HasPosition: ts != 0, Position: fsm.At(ts)}, What: what,
	}}})
	require.Len(c.t, v.Reports, 1)
	return v.Reports[0]
}

// says is a report of the owner about the current placement.
func (c *cluster) says(what fsm.ReportKind, d fsm.DispatcherID, ts uint64) fsm.Reason {
	c.t.Helper()
	row := c.row(d)
	owner, ok := c.s.NodeOf(row.Incarnation)
	require.True(c.t, ok, "dispatcher %d has no owner", d)
	return c.report(owner.Name, what, d, row.Epoch, ts)
}

// spans counts the dispatchers that have rows: all but the triggers.
func (c *cluster) spans() int {
	n := 0
	for row := range c.s.Dispatchers() {
		if t, _ := c.s.Table(row.Table); !t.Trigger {
			n++
		}
	}
	return n
}

// trigger is the trigger of shop.
func (c *cluster) trigger() fsm.DispatcherID {
	feed, _ := c.s.Changefeed("shop")
	return feed.Trigger
}

// runs puts d to work on n.
func (c *cluster) runs(d fsm.DispatcherID, n fsm.NodeName) fsm.Epoch {
	c.t.Helper()
	e := c.add(d, n).Facts.Epoch
	require.Equal(c.t, fsm.ReportCounted, c.says(fsm.ReportRunning, d, 0))
	return e
}

func (c *cluster) orders(n fsm.NodeName) []fsm.Order {
	var orders []fsm.Order
	for o := range c.s.Orders(c.inc(n)) {
		orders = append(orders, o)
	}
	return orders
}

// pair is what an order is about.
type pair struct {
	kind  fsm.OrderKind
	d     fsm.DispatcherID
	epoch fsm.Epoch
}

func (c *cluster) pairs(n fsm.NodeName) []pair {
	var pairs []pair
	for _, o := range c.orders(n) {
		pairs = append(pairs, pair{o.Kind, o.Dispatcher, o.Epoch})
	}
	return pairs
}

// rows is everything but the counters of the last entry: equal rows mean that nothing has changed.
func (c *cluster) rows() []string {
	var rows []string
	for section, row := range c.s.View().Rows() {
		if section != fsm.SectionMeta {
			rows = append(rows, fmt.Sprintf("%s %x", section, row))
		}
	}
	return rows
}

// unchanged runs f, which must leave every row as it is.
func (c *cluster) unchanged(f func()) {
	c.t.Helper()
	before := c.rows()
	f()
	require.Equal(c.t, before, c.rows())
}

// restart goes on with the state as it comes back from a snapshot.
func (c *cluster) restart() {
	c.t.Helper()
	c.s = restoredFrom(c.t, c.s.View())
}

func restoredFrom(tb testing.TB, v *fsm.View) *fsm.State {
	tb.Helper()
	var stream bytes.Buffer
	require.NoError(tb, logcodec.WriteSnapshot(&stream, v))
	s, err := logcodec.ReadSnapshot(&stream)
	require.NoError(tb, err)
	require.Equal(tb, v.Hash(), s.Hash())
	require.NoError(tb, s.CheckInvariants())
	return s
}
