package scheduler

import "github.com/weir-project/weir/fsm"

// By is how the scheduler signs its commands.
const By = "scheduler"

// Input is everything that a plan depends on.
type Input struct {
	View   *fsm.View
	Limits Limits
	// From is where the plan before this one stopped looking; the zero value starts at the beginning.
	From Cursor
	// Usable says whether a live node should get work; nil means each. It must be a function of the node.
	Usable func(fsm.Node) bool
	// Skip leaves a dispatcher out, for instance because the same proposal has just been refused; nil leaves none out.
	// SkipOperator does the same for an operator that needs repair.
	Skip         func(fsm.Dispatcher) bool
	SkipOperator func(fsm.Operator) bool
	// Loads tells what is known of rates; nil for nothing, which turns off what needs them.
	Loads Loads
	// SplitKeys returns the inner bounds of the spans that a dispatcher is best split into, ascending; false if there are
	// none. Nil turns splitting off: only what reads a table knows where its rows lie.
	SplitKeys func(fsm.Dispatcher) ([]string, bool)
}

// Loads is what nodes report of their work, in rows a second: soft facts, which another leader may see differently. For
// one plan the answers must not change.
type Loads interface {
	// Node is the rate of everything on an incarnation; false while it is not known.
	Node(inc fsm.Incarnation) (rate uint64, known bool)
	// Rate is the rate of a dispatcher's current placement; false while it is not known.
	Rate(row fsm.Dispatcher) (rate uint64, known bool)
	// Busiest lists a few of the busiest placements of an incarnation, the busiest first.
	Busiest(inc fsm.Incarnation) []Busy
}

// Busy is a placement that writes much.
type Busy struct {
	fsm.Pair
	Rate uint64
}

// Cursor is where a plan stopped looking. Dispatchers of which nothing can be made must not hide those behind them.
type Cursor struct {
	// Changefeed and Dispatcher are a place in the order of absent dispatchers: by changefeed, then by id.
	Changefeed fsm.ChangefeedID
	Dispatcher fsm.DispatcherID
	// Merge is a place in the order of tables.
	Merge TableCursor
}

// TableCursor is a place in the order of tables, by changefeed and id, and within one in that of keys.
type TableCursor struct {
	Changefeed fsm.ChangefeedID
	Table      fsm.TableID
	Start      string
}

func (c Cursor) after(d Cursor) bool {
	if c.Changefeed != d.Changefeed {
		return c.Changefeed > d.Changefeed
	}
	return c.Dispatcher > d.Dispatcher
}
