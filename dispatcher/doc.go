// Package dispatcher is the node runtime: it turns orders into running dispatchers and keeps every write inside the
// lease.
//
// It knows its session with the leader, the life of each dispatcher it was ordered to start, the write path with the
// clock test, and the [Source] and [Sink] interfaces. It must not know Raft, or any driver: sinks and sources are
// packages of their own below dispatcher/sink and dispatcher/source.
//
// How it hangs together. A [Node] registers and lives one incarnation after the other. An incarnation (life) has a gate,
// which is the lease; a session with the leader, opened again whenever it breaks; a book, the memory of orders and of
// reports that wait for their acknowledgement; and a worker for each placement. A worker opens the sink, claims the
// range, opens the source at the resume point of the claim, and moves batches. When the gate closes workers wait and keep
// what they have read; when it opens again they claim anew before they write. When the gate is fenced the incarnation is
// over: workers close by themselves, each in its own time, and hold their ranges until they have returned.
//
// Events. A schema change that concerns a dispatcher, and each sync point, is a place at which it stands: it writes
// everything before it and nothing beyond it, until its "written" or "passed" has been acknowledged and is so in the log.
// The roll is the memory of who stands where and of every word about events that has not been answered; words about one
// event leave the node together. Every event after the ordered start of a placement is met, whatever the sink has.
//
// Locks are taken in the order life, then worker or node or gate; the gate's edges are heard with its lock held and only
// leave a signal.
//
// What always holds: a (dispatcher, epoch) pair is started at most once in the life of an incarnation; a write starts
// only while the lease is open by the clock read in the same call; "stopped" is reported only when no write can start
// and the sink has returned; no row beyond an event is written, and no position beyond it is told, before the
// acknowledgement; an event is written only under a permission for exactly this (event, dispatcher, epoch), and a holder
// that ends says first how that went.
package dispatcher
