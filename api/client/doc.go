// Package client calls weir.v1 from Go.
//
// A [Client] finds the leader by asking, follows hints, gets over servers that are gone or that accept and never answer,
// and repeats a request under the same request id until it knows what became of it or its context ends. [NodeDialer] is
// what a worker's runtime needs. The package knows the public API and the messages of node sessions; it knows neither
// Raft nor the rules of the state machine.
//
// Invariant: nothing whose outcome is not known is called rejected or not proposed. A request that was once perhaps
// carried out stays "unknown" until a verdict on its id comes back.
package client
