// Package fence decides about time: when a node must stop writing, and when a server may give its work away.
//
// It knows leases, heartbeats, acknowledgements, ticks by number only, and readings of clocks. It must not know Raft,
// gRPC, the state machine or what a dispatcher is; incarnations, terms and log indexes are plain numbers here.
//
// Both halves are here because their numbers depend on each other:
//
//   - [Timing] derives every duration of the protocol and refuses settings under which it does not hold.
//   - [Lease] is the node's half, pure: heartbeats sent, acks received, the deadline, and the test each write makes.
//     [Gate] joins it with a clock, cancels what is in flight when the deadline passes, and tells when it re-opens.
//   - [Tracker] is the server's half for one term, pure: who was heard, which acks a tick releases, who may be expired.
//     [Appends] holds when this server process received log entries; it outlives terms. [Guard] slows mass expiry down.
//
// # The argument
//
// A node writes until s + L on its clock, where s is when it sent the newest heartbeat whose ack came. A server releases
// that ack only after a log entry that names the incarnation, appended after the heartbeat arrived, has been applied here
// and accepted it. It expires an incarnation by compare-and-set on the last entry k that named it, W after its own log
// received k, with W >= L*(1+server drift)/(1-node drift). Everybody receives k after the heartbeat was sent, so W after
// that the lease is over; a newer ack needs a newer entry, which makes the compare fail; and an expired incarnation is
// never named again. No bound on message delay, no synchronised clocks, no leader lease is assumed. A clock that stands
// still together with its process breaks the argument; sinks that check tokens do not rely on it.
//
// # Invariants
//
//   - A deadline never moves back, and moves forward only by an ack of a heartbeat that this incarnation sent.
//   - A fenced lease never opens again.
//   - What a server assumes as the time it received an entry is never earlier than the true time.
//   - Nothing here asks for the time but [Gate], and it does so through [clock.Clock].
package fence
