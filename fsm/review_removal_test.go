package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// R6: a table is dropped and added again while its old dispatcher still runs, by the same changefeed and by another one
// of the same sink. The new dispatcher is held: it is there, absent, and no command starts it before the old one has been
// confirmed stopped or its node has expired. A changefeed's name is held likewise.
func TestReview_R06_WhatARemovalHoldsIsNotStarted(t *testing.T) {
	for _, ends := range []string{"stopped", "expired"} {
		t.Run(ends, func(t *testing.T) {
			c := newCluster(t, 1)
			c.runs(1, "n1")
			table := fsm.TableSpec{Schema: "public", Name: "a", SplitKeys: []string{"m"}}
			other := &fsm.CreateChangefeed{
				Name: "other", Source: "x:src", Sink: "x:dst", SinkFenced: true, Start: fsm.At(10), Tables: []fsm.TableSpec{table},
			}
			removal := c.dropped("shop")
			c.ok(&fsm.AddTables{Changefeed: "shop", Tables: []fsm.TableSpec{table}})
			held := c.spansOf("a")
			require.Len(t, held, 2)
			refused := func(rows []fsm.Dispatcher) {
				t.Helper()
				for _, row := range rows {
					for _, ask := range []*fsm.AdmitOperator{
						{Op: fsm.OpAdd, Dispatcher: row.ID, To: "n2"},
						{Op: fsm.OpMove, Dispatcher: row.ID, To: "n2"},
						{Op: fsm.OpMove, Dispatcher: row.ID, FromAny: true, To: "n2"},
						{Op: fsm.OpSplit, Dispatcher: row.ID, Spans: pieces(2)},
					} {
						v := c.do(ask)
						require.Equal(t, fsm.RangeRemoving, v.Reason, "%s", ask.Op)
						require.Equal(t, removal, v.Facts.Operator, "and says which removal")
						require.Equal(t, fsm.NodeName("n1"), v.Facts.Node, "and where it waits")
					}
				}
				require.Equal(t, fsm.RangeRemoving, c.merge(rows[0].ID, rows[1].ID).Reason)
				for _, n := range []fsm.NodeName{"n2", "n3"} {
					require.Empty(t, c.orders(n))
				}
			}
			c.unchanged(func() { refused(held) })
			c.restart()
			c.unchanged(func() { refused(held) })

			// By another changefeed of the same sink, after the new one was dropped as well; under the old name too.
			c.ok(&fsm.RemoveChangefeed{Name: "shop"})
			require.Equal(t, fsm.ChangefeedRemoving, c.do(&fsm.CreateChangefeed{
				Name: "shop", Source: "x:src", Sink: "x:other", SinkFenced: true, Tables: []fsm.TableSpec{table},
			}).Reason)
			c.ok(other)
			feed, _ := c.s.Changefeed("other")
			again, _ := c.s.TableNamed(feed, "public", "a")
			held = nil
			for row := range c.s.DispatchersOfTable(again.ID) {
				held = append(held, row)
			}
			c.unchanged(func() { refused(held) })

			if ends == "stopped" {
				require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 0))
			} else {
				c.expire("n1")
			}
			c.runs(held[0].ID, "n2")
			c.runs(held[1].ID, "n3")
			_, there := c.s.Changefeed("shop")
			require.False(t, there, "gone with its last removal, and its name is free")
		})
	}
}

// dropped drops table public.a, whose one dispatcher is 1, and returns its removal.
func (c *cluster) dropped(feed string) fsm.OpID {
	c.t.Helper()
	c.ok(&fsm.DropTables{Changefeed: feed, Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}})
	return c.row(1).Slot
}
