// Package explore walks through every state that small worlds can reach: the real state machine, and a model of the nodes
// that obey it.
//
// It knows the state machine through its public API alone, and what nodes are allowed to do with orders. It must not know
// transport, clocks, Raft, or how a node is built.
//
// A [World] is a handful of nodes, tables and barriers, and the commands that may arrive. [Explore] applies every command
// that can arrive next to every state that can be reached, breadth first: requests of users, reports of nodes (also late,
// repeated and reordered ones), expiries, fences, and what nodes do between them.
//
// # How it is fast
//
// A state of a world is a state of the state machine and the states of its nodes. Far more of the latter exist than of the
// former. So each distinct state of the state machine is kept once (a [standing]), and each command is applied to it once,
// by the real fsm.State.Apply on a fork; what came of it is remembered (an edge). The walk over whole states then costs no
// more than arithmetic.
//
// Two states of the state machine are the same here if they are equal after numbers have been replaced by their order:
// epochs, operator ids, log indexes, time, and what is only remembered (history, ended operators, answers) do not count.
// That this is right, that is, that no rule depends on what was left out, is itself tested: TestAuditRememberedSteps walks
// long random paths through real states and compares each step with what is remembered.
//
// # What the network may do
//
// Each order that was ever right for a node can reach it at any later time, any number of times, in any order: two
// sessions, one to a deposed leader, can do no worse. Of the marks that an order may carry the model takes the oldest,
// since a node that has obeyed an older mark refuses less. Each report can enter the log at any time after it became true,
// any number of times.
//
// # Invariants
//
//   - After every real transition: fsm.CheckInvariants, and what a single state cannot show: refusals change nothing,
//     numbers are never issued twice, a placement ends only by the word of its node or by its node's end.
//   - In every whole state: no key is written by two dispatchers at once.
//   - From every whole state in which users and faults fall silent, everything that was begun can end.
//
// A counter-example is printed as a script that `weir scenario run` plays.
package explore
