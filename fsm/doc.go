// Package fsm is Weir's state machine: every rule of the system, and nothing else.
//
// It knows servers, nodes and their incarnations, changefeeds, tables, dispatchers and their placements, operators,
// request ids, time as the log carries it, and the orders that follow from all of that. It must not know clocks, I/O,
// goroutines, locks, randomness, logging, transport, or who calls it: the same entries give the same verdicts and the
// same state on every server, for ever.
//
// Read it in this order: ids.go and position.go (words), command.go (what can be asked), verdict.go (what is answered),
// state.go and rows.go (what is kept), apply.go (one entry), then one file per subject: node.go, tick.go, changefeed.go,
// table.go, admission.go (the table of what may start), operator.go, placement.go (what reports do), orders.go (what
// each node should be doing), invariant.go (what always holds).
//
// State changes only in [State.Apply]. Readers take a [View], a copy-on-write snapshot in O(1).
package fsm
