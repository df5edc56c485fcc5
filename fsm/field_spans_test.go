package fsm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/scenario"
)

// pieces cuts the span of newCluster's table into so many.
func pieces(n int) []fsm.Span {
	spans := []fsm.Span{{}}
	for i := 1; i < n; i++ {
		key := fmt.Sprintf("%c", 'a'+i)
		spans[i-1].End = key
		spans = append(spans, fsm.Span{Start: key})
	}
	return spans
}

func (c *cluster) split(d fsm.DispatcherID, spans []fsm.Span, targets ...fsm.NodeName) fsm.Verdict {
	c.t.Helper()
	return c.do(&fsm.AdmitOperator{Op: fsm.OpSplit, Dispatcher: d, Spans: spans, Targets: targets})
}

func (c *cluster) merge(sources ...fsm.DispatcherID) fsm.Verdict {
	c.t.Helper()
	return c.do(&fsm.AdmitOperator{Op: fsm.OpMerge, Sources: sources})
}

// made is what a split or a merge has made.
func (c *cluster) made(op fsm.OpID) []fsm.DispatcherID {
	c.t.Helper()
	row, ok := c.s.Operator(op)
	require.True(c.t, ok)
	require.Equal(c.t, fsm.OpDone, row.Result, "%s %s", row.Reason, row.Detail)
	return row.Made
}

// spansOf lists the dispatchers of the table that has the name, in key order.
func (c *cluster) spansOf(name string) []fsm.Dispatcher {
	c.t.Helper()
	feed, _ := c.s.Changefeed("shop")
	table, ok := c.s.TableNamed(feed, "public", name)
	require.True(c.t, ok, name)
	var rows []fsm.Dispatcher
	for row := range c.s.DispatchersOfTable(table.ID) {
		rows = append(rows, row)
	}
	return rows
}

// B03: the number of children and the number of targets differ. That is refused at admission; with as many targets as
// children each child gets one Add, from the Split or from the scheduler that proposes its own at the same time, and no
// hint that has become wrong pins anything.
func TestField_B03_EveryChildOfASplitGetsOneAdd(t *testing.T) {
	c := newCluster(t, 1)
	c.register("n4")
	e := c.runs(1, "n1")
	targets := []fsm.NodeName{"n1", "n2", "n3", "n4"}
	c.unchanged(func() {
		for _, children := range []int{1, 3, 5} {
			require.Equal(t, fsm.Malformed, c.split(1, pieces(children), targets...).Reason, "%d children, 4 targets", children)
		}
		require.Equal(t, fsm.SpansDoNotTile, c.split(1, pieces(1)).Reason, "a split into one is none")
		require.Equal(t, fsm.SpansDoNotTile, c.split(1, pieces(5)[1:]).Reason)
	})
	require.Equal(t, e, c.row(1).Epoch)

	// Four children, four targets, one of which begins to drain and one of which is lost before the parent has stopped.
	op := c.split(1, pieces(4), targets...).Facts.Operator
	c.ok(&fsm.StartDrain{Node: "n3"})
	c.expire("n4")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 70))
	children := c.made(op)
	require.Len(t, children, 4)
	// The scheduler proposes its own Adds for all that it believes absent: the targeted ones are in a slot by now.
	wants := []fsm.Reason{fsm.OperatorExists, fsm.OperatorExists, fsm.Accepted, fsm.Accepted}
	for i, child := range children {
		require.Equal(t, wants[i], c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: child, To: "n2"}).Reason, "child %d", i+1)
		require.Equal(t, fsm.At(70), c.row(child).Position, "a child starts where its parent stopped")
	}
	starts := map[fsm.DispatcherID]int{}
	for _, n := range []fsm.NodeName{"n1", "n2", "n3"} {
		for _, o := range c.orders(n) {
			require.Equal(t, fsm.OrderStart, o.Kind)
			starts[o.Dispatcher]++
		}
	}
	for _, child := range children {
		require.Equal(t, 1, starts[child], "starts ordered of dispatcher %d", child)
		require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, child, 0))
	}
	c.runs(2, "n1") // the trigger
	feed, _ := c.s.Changefeed("shop")
	bound, _ := c.s.CheckpointBound(feed)
	require.True(t, fsm.At(1<<60).Less(bound), "everything runs, so nothing that is stored pins the watermark")
}

// B06: a node is lost after a Merge was admitted. The Merge goes on in the same apply, without waiting for its deadline:
// the lost source counts as stopped, and with the last one the merged dispatcher can be placed.
func TestField_B06_ALostNodeDoesNotWaitForAMerge(t *testing.T) {
	for _, other := range []fsm.NodeName{"n1", "n2"} {
		t.Run("the other source on "+string(other), func(t *testing.T) {
			c := newCluster(t, 2)
			c.runs(1, "n1")
			c.runs(2, other)
			op := c.merge(1, 2).Facts.Operator
			c.expire("n1")
			if other != "n1" {
				require.Equal(t, fsm.Absent, c.row(1).Phase)
				require.Equal(t, op, c.row(1).Slot, "stopped, and waiting for the other")
				require.Equal(t, fsm.OperatorExists, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n3"}).Reason)
				require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 2, 60))
			}
			merged := c.made(op)[0]
			require.Equal(t, fsm.At(10), c.row(merged).Position, "the lost source's position, which is the lowest")
			require.Equal(t, fsm.WholeTable(), c.row(merged).Span)
			c.runs(merged, "n3")
			require.Len(t, c.spansOf("a"), 1)

			// What a lost node has left absent can be merged before it is placed again: nothing has to stop.
			op = c.split(merged, []fsm.Span{{End: "000001"}, {Start: "000001"}}).Facts.Operator
			c.expire("n3")
			both := c.made(op)
			op = c.merge(both...).Facts.Operator
			require.Equal(t, fsm.Absent, c.row(c.made(op)[0]).Phase)
		})
	}
}

// changes are the operators that B07 and B14 interrupt: each has dispatcher 1 (and 2) in a slot that waits for stops.
func changes() map[string]func(c *cluster) fsm.OpID {
	return map[string]func(c *cluster) fsm.OpID{
		"split": func(c *cluster) fsm.OpID {
			return c.split(1, []fsm.Span{{End: "0"}, {Start: "0", End: c.row(1).Span.End}}, "n2", "").Facts.Operator
		},
		"merge": func(c *cluster) fsm.OpID { return c.merge(1, 2).Facts.Operator },
		"move":  func(c *cluster) fsm.OpID { return c.move("n1", "n2").Facts.Operator },
	}
}

// B07: a table is dropped while a Split, a Merge or a Move of it runs, in every order of the drop, the acknowledgement of
// the stop and the loss of the node. All spans go, children included; later acknowledgements are nothing; nothing of it
// can be added.
func TestField_B07_ADropTakesEverySpanWithIt(t *testing.T) {
	steps := map[string]func(c *cluster, e fsm.Epoch){
		"drop": func(c *cluster, _ fsm.Epoch) {
			c.ok(&fsm.DropTables{Changefeed: "shop", Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}})
		},
		"ack": func(c *cluster, e fsm.Epoch) {
			node, _ := c.s.Node("n1")
			if node.Status == fsm.NodeStatusLive {
				c.report("n1", fsm.ReportStopped, 1, e, 40)
				return
			}
			require.Equal(c.t, fsm.NodeExpired, c.do(&fsm.ReportPlacements{Node: "n1", Incarnation: node.Incarnation}).Reason)
		},
		"loss": func(c *cluster, _ fsm.Epoch) { c.expire("n1") },
	}
	orders := [][]string{
		{"drop", "ack", "loss"},
		{"drop", "loss", "ack"},
		{"ack", "drop", "loss"},
		{"ack", "loss", "drop"},
		{"loss", "drop", "ack"},
		{"loss", "ack", "drop"},
	}
	for name, begin := range changes() {
		for _, order := range orders {
			t.Run(fmt.Sprintf("%s: %v", name, order), func(t *testing.T) {
				c := newCluster(t, 2)
				e := c.runs(1, "n1")
				c.runs(2, "n1")
				op := begin(c)
				for _, step := range order {
					steps[step](c, e)
				}
				for _, n := range []fsm.NodeName{"n2", "n3"} { // what was started meanwhile stops as well
					for _, o := range c.orders(n) {
						require.Equal(t, fsm.OrderStop, o.Kind, "nothing of a dropped table is started")
						require.Equal(t, fsm.ReportCounted, c.report(n, fsm.ReportStopped, o.Dispatcher, o.Epoch, 0))
					}
				}
				feed, _ := c.s.Changefeed("shop")
				for row := range c.s.Dispatchers() {
					require.Equal(t, feed.Trigger, row.ID, "a span came back")
				}
				ended, known := c.s.Operator(op)
				require.True(t, known)
				require.NotZero(t, ended.Result)
				c.unchanged(func() {
					for d := fsm.DispatcherID(1); d <= c.s.Meta().LastDispatcher; d++ {
						if d != feed.Trigger {
							require.Equal(t, fsm.UnknownDispatcher, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d, To: "n3"}).Reason)
							require.NotEqual(t, fsm.ReportCounted, c.report("n3", fsm.ReportStopped, d, e, 90))
						}
					}
				})
			})
		}
	}
}

// B14: the switch from the sources to the merged dispatcher is one apply. Whatever is said of a source later, in a hundred
// merges and splits, revives nobody and pins no watermark.
func TestField_B14_WhatIsSaidOfMergedSourcesIsNothing(t *testing.T) {
	c := newCluster(t, 2)
	feed, _ := c.s.Changefeed("shop")
	c.runs(feed.Trigger, "n3")
	type gone struct {
		d fsm.DispatcherID
		e fsm.Epoch
		n fsm.NodeName
	}
	var over []gone
	pick := scenario.Seeded(14)
	late := func() {
		for range 4 {
			if len(over) == 0 {
				return
			}
			g := over[pick(len(over))]
			if c.row(g.d).Epoch == g.e {
				continue // not over yet
			}
			what := []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped, fsm.ReportStartFailed}[pick(3)]
			require.NotEqual(t, fsm.ReportCounted, c.report(g.n, what, g.d, g.e, uint64(1+pick(500))))
		}
	}
	run := func(d fsm.DispatcherID) {
		n := fsm.NodeName(fmt.Sprintf("n%d", 1+pick(2)))
		over = append(over, gone{d, c.runs(d, n), n})
	}
	rows := c.spansOf("a")
	run(rows[0].ID)
	run(rows[1].ID)
	for round := range 100 {
		rows = c.spansOf("a")
		require.Len(t, rows, 2)
		op := c.merge(rows[0].ID, rows[1].ID).Facts.Operator
		late()
		c.says(fsm.ReportStopped, rows[pick(2)].ID, uint64(100+round))
		late()
		for _, row := range rows {
			if now := c.row(row.ID); now.Phase == fsm.Stopping {
				c.says(fsm.ReportStopped, row.ID, uint64(100+round))
			}
		}
		merged := c.made(op)[0]
		c.unchanged(func() { late() })
		run(merged)
		op = c.split(merged, []fsm.Span{{End: "000001"}, {Start: "000001"}}).Facts.Operator
		c.says(fsm.ReportStopped, merged, 0)
		c.unchanged(func() { late() })
		for _, child := range c.made(op) {
			run(child)
		}
		late()
	}
	feed, _ = c.s.Changefeed("shop")
	bound, _ := c.s.CheckpointBound(feed)
	require.True(t, fsm.At(1<<60).Less(bound), "nobody is left who pins the watermark")
	require.Equal(t, 3, c.s.DispatcherCount())
}

// B26: the host of a split parent and the leader die together, and the servers come back from a snapshot that was taken
// between the split and the loss: the children are recovered, and the parent is not.
func TestField_B26_ASplitParentDoesNotComeBack(t *testing.T) {
	c := newCluster(t, 1)
	e := c.runs(1, "n1")
	op := c.split(1, pieces(2), "n1", "n1").Facts.Operator
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 33))
	children := c.made(op)
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, children[0], 0))
	c.restart()
	c.term = 2
	c.ok(&fsm.BeginTerm{Server: "s2"})
	c.expire("n1")
	var back []fsm.DispatcherID
	for row := range c.s.AbsentDispatchers(1) {
		if row.ID != 2 { // the trigger, which was never placed
			back = append(back, row.ID)
		}
	}
	require.Equal(t, children, back)
	_, there := c.s.Dispatcher(1)
	require.False(t, there)
	c.register("n1")
	c.unchanged(func() {
		require.Equal(t, fsm.ReportStale, c.report("n1", fsm.ReportRunning, 1, e, 0), "told to stop what it still runs")
		require.Equal(t, fsm.UnknownDispatcher, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n2"}).Reason)
	})
	for _, child := range children {
		require.Equal(t, fsm.At(33), c.row(child).Position)
		c.runs(child, "n2")
	}
}

// B56: only draining nodes are left. What runs there goes on, nothing new is placed there, and the drain is not over until
// the state has nothing on the node and its current incarnation itself has said so.
func TestField_B56_ADrainIsNotOverTooEarly(t *testing.T) {
	c := newCluster(t, 3)
	c.runs(1, "n1")
	c.runs(2, "n2")
	back := c.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 2, From: "n2", To: "n1"}).Facts.Operator
	c.ok(&fsm.StartDrain{Node: "n1"})
	require.Equal(t, fsm.NodeDraining, c.do(&fsm.StartDrain{Node: "n1"}).Reason)
	require.Equal(t, fsm.NodeDraining, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 3, To: "n1"}).Reason, "no new work after the drain's index")
	confirm := func(inc fsm.Incarnation) fsm.Verdict { return c.do(&fsm.ConfirmDrain{Node: "n1", Incarnation: inc}) }
	v := confirm(c.inc("n1"))
	require.Equal(t, fsm.NotDrained, v.Reason)
	require.Equal(t, uint64(2), v.Facts.Have, "one placement, and one on its way, admitted before the drain")

	// n2 and n3 die: the Move back counts as stopped at its origin and goes on, since n1 was admitted before it drained.
	c.expire("n2")
	c.expire("n3")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, 2, 0))
	op, _ := c.s.Operator(back)
	require.Equal(t, fsm.OpDone, op.Result)
	require.Equal(t, fsm.Running, c.row(1).Phase, "what has nowhere else to go stays where it runs")
	require.Equal(t, fsm.NotDrained, confirm(c.inc("n1")).Reason)

	// n1 restarts in the middle. The drain belongs to its name; what its former incarnation says late is refused.
	old := c.inc("n1")
	c.expire("n1")
	require.Equal(t, fsm.NodeExpired, confirm(old).Reason)
	inc := c.register("n1")
	node, _ := c.s.Node("n1")
	require.True(t, node.Draining)
	require.Equal(t, fsm.StaleIncarnation, confirm(old).Reason, "0 left, said by a process that is gone")
	require.Equal(t, fsm.NodeDraining, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Reason)
	node, _ = c.s.Node("n1")
	require.Zero(t, node.DrainedAt, "zero placements in the state are not enough")
	require.True(t, confirm(inc).OK())
	node, _ = c.s.Node("n1")
	require.Equal(t, c.index, node.DrainedAt)
	c.ok(&fsm.ClearDrain{Node: "n1"})
	require.Equal(t, fsm.NodeNotDraining, c.do(&fsm.ClearDrain{Node: "n1"}).Reason)
	c.runs(1, "n1")
}
