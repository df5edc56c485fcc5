// Package fsm is Weir's state machine: every rule of the system, and nothing else.
//
// It knows servers, nodes and their incarnations, changefeeds, tables, dispatchers and their placements, operators,
// barriers, watermarks, request ids, time as the log carries it, and the orders that follow from all of that. It must
// not know clocks, I/O, goroutines, locks, randomness, logging, transport, or who calls it: the same entries give the
// same verdicts and the same state on every server, for ever.
//
// Read it in this order: ids.go and position.go (words), command.go and barrier_types.go (what can be asked and said),
// verdict.go (what is answered), state.go and rows.go (what is kept), apply.go (one entry); then one file per subject:
//
//	node.go, drain.go             incarnations, and taking a node's work away
//	changefeed.go, table.go       jobs and what belongs to them
//	admission.go                  the table of what may start
//	operator.go, placement.go     what an operator does as reports come in
//	span_change.go                splits and merges
//	barrier.go, event.go          events: who waits, who writes, what they change
//	checkpoint.go                 watermarks
//	deadline.go                   what has waited too long
//	orders.go                     what each node should be doing
//	explain.go, fork.go           why things stand so, and what would happen if
//	invariant.go                  what always holds
//
// State changes only in [State.Apply]. Readers take a [View], a copy-on-write snapshot in O(1).
package fsm
