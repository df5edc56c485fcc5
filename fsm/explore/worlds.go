package explore

import "github.com/weir-project/weir/fsm"

// Worlds lists the worlds that are explored, the small ones first.
func Worlds() []*World {
	return []*World{
		admissionWorld(), pauseWorld(), dropWorld(), drainWorld(), moveOneWorld(), leaseWorld(),
		eventWorld(), decisionWorld(), syncWorld(), chainWorld(), eventSplitWorld(), eventMoveWorld(), eventMovesWorld(), syncMoveWorld(),
		moveWorld(), splitWorld(),
	}
}

func orders(split ...string) fsm.TableSpec {
	return fsm.TableSpec{Schema: "public", Name: "orders", SplitKeys: split}
}

// halves are the cells of the table orders, cut at m.
func halves() []cell {
	return []cell{{"orders", fsm.Span{End: "m"}}, {"orders", fsm.Span{Start: "m"}}}
}

// whole is the one cell of a table.
func whole(table string) cell { return cell{table: table} }

func admissionWorld() *World {
	return &World{
		Short: true,
		Name:  "admission",
		Bounds: "one table, added and dropped again and again, at most 2 dispatchers; 2 nodes, lost at any time; every operator but " +
			"split and merge, from every origin, cancellations, pauses",
		Nodes: 2, Cells: halves(), First: []fsm.TableSpec{orders()}, Tables: []fsm.TableSpec{orders()}, MaxDispatchers: 3,
		Asks: []kind{
			doAdd, doMove, doMoveFrom, doMoveNowhere, doRemove, doCancel, doPause, doResume, doDropTable, doAddTable, doRegister, doFence,
		},
		Losses: true, Remembered: 1,
	}
}

func pauseWorld() *World {
	return &World{
		Short:  true,
		Name:   "pause and resume",
		Bounds: "2 dispatchers, 2 nodes, lost at any time; additions, moves, removals, cancellations, pauses at any time",
		Nodes:  2, Cells: halves(), First: []fsm.TableSpec{orders("m")}, MaxDispatchers: 3,
		Asks:   []kind{doAdd, doMove, doRemove, doCancel, doPause, doResume, doRegister},
		Losses: true,
	}
}

func dropWorld() *World {
	return &World{
		Short: true,
		Name:  "drop and add again",
		Bounds: "one table, dropped and added again whole or in 2 spans while the old one still runs, at most 3 dispatchers; 2 nodes, " +
			"lost at any time; removals of single dispatchers",
		Nodes: 2, Cells: halves(), First: []fsm.TableSpec{orders()}, Tables: []fsm.TableSpec{orders(), orders("m")}, MaxDispatchers: 4,
		Asks:   []kind{doAdd, doRemove, doDropTable, doAddTable, doRegister},
		Losses: true,
	}
}

func drainWorld() *World {
	return &World{
		Name:   "drain",
		Bounds: "one dispatcher, 3 nodes, lost at any time; drains begun, confirmed and cleared at any time, moves, additions",
		Nodes:  3, Cells: halves(), First: []fsm.TableSpec{orders()}, MaxDispatchers: 2,
		Asks:   []kind{doAdd, doMove, doCancel, doStartDrain, doClearDrain, doConfirmDrain, doRegister},
		Losses: true, Remembered: 1,
	}
}

func moveOneWorld() *World {
	w := moveWorld()
	w.Name, w.Short = "move of one with losses", true
	w.Bounds = "one dispatcher, 3 nodes that are lost, fenced and come back at any time; up to 2 unacknowledged ends a node"
	w.First, w.Remembered, w.Asks = []fsm.TableSpec{orders()}, 2, []kind{doAdd, doMove, doCancel, doRegister, doFence}
	return w
}

func moveWorld() *World {
	return &World{
		Name:   "move with losses",
		Bounds: "2 dispatchers, 2 nodes that are lost, fenced and come back at any time; additions, moves, cancellations",
		Nodes:  2, Cells: halves(), First: []fsm.TableSpec{orders("m")}, MaxDispatchers: 3,
		Asks:   []kind{doAdd, doMove, doCancel, doRegister, doFence},
		Losses: true, Remembered: 1,
	}
}

func splitWorld() *World {
	return &World{
		Name:   "split and merge",
		Bounds: "one table of 2 cells, 2 nodes, lost at any time; splits with and without targets, merges, moves, removals, cancellations",
		Nodes:  2, Cells: halves(), First: []fsm.TableSpec{orders()}, MaxDispatchers: 3,
		Asks:   []kind{doAdd, doMove, doSplit, doMerge, doCancel, doRegister},
		Losses: true, Remembered: 1,
	}
}

func leaseWorld() *World {
	return &World{
		Short: true,
		Name:  "leases and registrations",
		Bounds: "one dispatcher, 2 nodes; ticks, lost acks, expiries that race with ticks, fences, processes that register under " +
			"names in use",
		Nodes: 2, Cells: halves(), First: []fsm.TableSpec{orders()}, MaxDispatchers: 2,
		Asks:   []kind{doAdd, doMove, doCancel, doRegister, doFence},
		Leases: true, Remembered: 1,
	}
}

// The positions around a schema change at 20, and a sync point at 20.
func before20() fsm.Position { return fsm.Position{TS: 20, Stage: fsm.StageRows} }
func ddl20() fsm.Position    { return fsm.Position{TS: 20, Stage: fsm.StageDDL} }
func sync20() fsm.Position   { return fsm.Position{TS: 20, Stage: fsm.StageSyncPoint} }

// alter is a schema change of one table that any of its dispatchers may write.
func alter() event {
	return event{
		at: ddl20(), words: "tables=public.orders sql=alter",
		spec: fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "orders"}}, Statement: "alter"},
	}
}

func eventWorld() *World {
	return &World{
		Name:   "event of listed tables",
		Bounds: "2 dispatchers of one table, 2 nodes, lost at any time; a schema change that one of them writes",
		Nodes:  2, Cells: halves(), First: []fsm.TableSpec{orders("m")}, MaxDispatchers: 3,
		Track: []fsm.Position{fsm.At(10), before20(), ddl20()}, Events: []event{alter()},
		Asks:   []kind{doAdd, doRegister},
		Losses: true, AllAtOnce: true,
	}
}

func eventMoveWorld() *World {
	w := eventWorld()
	w.Name, w.Short = "event with moves", true
	w.Bounds = "one dispatcher that moves, is cancelled, paused or removed at any point of a schema change; 2 nodes, lost at any time; " +
		"late reports"
	w.First, w.Late = []fsm.TableSpec{orders()}, true
	w.Asks = []kind{doAdd, doMove, doCancel, doRemove, doPause, doResume, doRegister}
	return w
}

func eventMovesWorld() *World {
	w := eventWorld()
	w.Name = "event with moves of several"
	w.Bounds = "2 dispatchers of one table on 2 nodes, of which one can be lost; each moves at any point of a schema change that one of " +
		"them writes"
	w.AllAtOnce, w.Lost = false, 1
	w.Asks = []kind{doAdd, doMove}
	return w
}

func syncMoveWorld() *World {
	w := syncWorld()
	w.Name = "sync point with moves"
	w.Bounds = "one dispatcher and the trigger, 2 nodes, of which one can be lost; moves and cancellations at any point of a sync point"
	w.Lost = 1
	w.Asks = []kind{doAdd, doMove, doCancel}
	return w
}

func decisionWorld() *World {
	w := eventWorld()
	w.Name, w.Short = "event of unknown outcome", true
	w.Bounds = "2 dispatchers of one table on one node, lost at any time; pauses; the writer may not know whether it wrote; people decide"
	w.Nodes, w.Losses, w.AllAtOnce, w.Unsure = 1, true, false, true
	w.Asks = []kind{doAdd, doPause, doResume, doRegister, doDecide}
	return w
}

func eventSplitWorld() *World {
	w := eventWorld()
	w.Name, w.Short = "event with splits and merges", true
	w.Bounds = "one table of 2 cells that is split and merged at any point of a schema change; one node, lost at any time"
	w.Nodes, w.First, w.AllAtOnce = 1, []fsm.TableSpec{orders()}, false
	w.Asks = []kind{doAdd, doSplit, doMerge, doCancel, doRegister}
	w.Remembered = 1
	return w
}

func syncWorld() *World {
	return &World{
		Name:   "sync point and watermark",
		Bounds: "one dispatcher and the trigger, 2 nodes, lost at any time; a sync point, the watermark raised whenever nodes allow it",
		Nodes:  2, Cells: []cell{whole("orders"), whole("")}, First: []fsm.TableSpec{orders()}, MaxDispatchers: 3,
		Track:      []fsm.Position{fsm.At(10), ddl20(), sync20()},
		Events:     []event{{at: sync20(), spec: fsm.SyncPointSpec()}},
		SyncPoints: 20,
		Asks:       []kind{doAdd, doRegister, doAdvance},
		Losses:     true,
	}
}

func chainWorld() *World {
	items := fsm.TableSpec{Schema: "public", Name: "items"}
	return &World{
		Short: true,
		Name:  "schema change and sync point at one ts",
		Bounds: "a schema change that drops the only table and adds another, then a sync point at the same ts; one node, lost at any " +
			"time; the watermark raised whenever the node allows it",
		Nodes: 1, Cells: []cell{whole("orders"), whole("items"), whole("")}, First: []fsm.TableSpec{orders()}, MaxDispatchers: 3,
		Track: []fsm.Position{fsm.At(10), before20(), ddl20(), sync20()},
		Events: []event{
			{
				at: ddl20(), words: "tables=public.orders drop=public.orders table=public.items sql=replace",
				spec: fsm.BarrierSpec{
					Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "orders"}},
					Drop: []fsm.TableRef{{Schema: "public", Name: "orders"}}, Add: []fsm.TableSpec{items}, Statement: "replace",
				},
			},
			{at: sync20(), spec: fsm.SyncPointSpec()},
		},
		SyncPoints: 20,
		Asks:       []kind{doAdd, doRegister, doAdvance},
		Losses:     true,
	}
}
