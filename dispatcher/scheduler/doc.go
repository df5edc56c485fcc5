// Package scheduler decides what should be changed about where dispatchers run: pure functions from a view of the state
// to proposed commands.
//
// It knows the view, the limits that it is given, what nodes report of their work, and which nodes its caller holds for
// reachable. It must not know clocks, sessions, leases, logs or how a command is proposed; time is state-machine time,
// out of the view.
//
// [Make] asks one policy after another, each in a file of its own, and each with what the ones before have left of the
// round:
//
//	repair   cancels what is stuck, and fences the node that it waits for: both only if the replicated policy says so
//	place    starts absent dispatchers, away from their siblings, on the least loaded nodes
//	drain    moves work off draining nodes
//	balance  evens out how many dispatchers nodes have, then how many rows a second they write
//	split    halves busy dispatchers; off unless a rate is set and somebody knows split keys
//	merge    joins idle neighbours; off unless asked for
//
// What always holds:
//
//   - The same input gives the same plan, on every server and in every run: nothing depends on map order, clocks or
//     chance.
//   - A plan is bounded, in what it proposes and in what it looks at, however many dispatchers there are.
//   - No proposal names a destination that cannot take work in the view. Where only draining nodes are left nothing has
//     anywhere to go: what runs stays where it is, and what is absent stays absent until a node can take work.
//   - Whatever moves carries the epoch that it was planned for. A plan proposes ordinary commands and Apply decides:
//     between the view and the entry anything may have changed.
//   - No policy undoes what another one does: balancing keeps what it evens out within the slack at which it would begin
//     to even it out, and what has just been placed, moved, split or merged is left alone for a while.
package scheduler
