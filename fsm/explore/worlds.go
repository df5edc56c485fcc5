package explore

import "github.com/weir-project/weir/fsm"

// Worlds lists the worlds that are explored.
func Worlds() []*World {
	return []*World{admissionWorld(), moveWorld(), splitWorld()}
}

func orders(split ...string) fsm.TableSpec {
	return fsm.TableSpec{Schema: "public", Name: "orders", SplitKeys: split}
}

// halves are the cells of the table orders, cut at m.
func halves() []cell {
	return []cell{{"orders", fsm.Span{End: "m"}}, {"orders", fsm.Span{Start: "m"}}}
}

func admissionWorld() *World {
	return &World{
		Name:   "admission",
		Bounds: "one dispatcher, two nodes; every operator, cancellation, pause, drop and addition",
		Nodes:  2, Cells: halves(), First: []fsm.TableSpec{orders()}, Tables: []fsm.TableSpec{orders()}, MaxDispatchers: 3,
		Asks:   []kind{doAdd, doMove, doMoveFrom, doMoveNowhere, doRemove, doCancel, doPause, doResume, doDropTable, doAddTable, doRegister},
		Losses: true, Remembered: 1,
	}
}

func moveWorld() *World {
	return &World{
		Name:   "move with losses",
		Bounds: "two dispatchers, three nodes that are lost, fenced and come back at any time; additions, moves and cancellations",
		Nodes:  3, Cells: halves(), First: []fsm.TableSpec{orders("m")}, MaxDispatchers: 3,
		Asks:   []kind{doAdd, doMove, doCancel, doRegister, doFence},
		Losses: true, Remembered: 1,
	}
}

func splitWorld() *World {
	return &World{
		Name:   "split and merge",
		Bounds: "one table of two cells, two nodes; splits with and without targets, merges, moves, cancellations, losses",
		Nodes:  2, Cells: halves(), First: []fsm.TableSpec{orders()}, MaxDispatchers: 3,
		Asks:   []kind{doAdd, doMove, doSplit, doMerge, doCancel, doRegister},
		Losses: true, Remembered: 1,
	}
}
