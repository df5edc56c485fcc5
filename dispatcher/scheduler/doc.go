// Package scheduler decides where dispatchers should run: pure functions from a view of the state to proposed commands.
//
// It knows the view, the limits that it is given, and which nodes its caller holds for reachable. It must not know
// clocks, sessions, leases, logs or how a command is proposed; time is state-machine time, out of the view.
//
// What always holds:
//
//   - The same input gives the same plan, on every server and in every run: nothing depends on map order, clocks or
//     chance.
//   - A plan is bounded, in what it proposes and in what it looks at, however many dispatchers there are.
//   - No proposal names a destination that cannot take work in the view.
//   - A plan proposes ordinary commands. Apply decides: between the view and the entry anything may have changed.
package scheduler
