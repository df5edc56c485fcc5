// Package dispatcher is the node runtime: it turns orders into running dispatchers and keeps every write inside the
// lease.
//
// It knows its session with the leader, the life of each dispatcher it was ordered to start, the write path with the
// clock test, and the [Source] and [Sink] interfaces. It must not know Raft, or any driver: sinks and sources are
// packages of their own below dispatcher/sink and dispatcher/source.
//
// What always holds: a (dispatcher, epoch) pair is started at most once in the life of an incarnation; a write starts
// only while the lease is open by the clock read in the same call; "stopped" is reported only when no write can start
// and the sink has returned.
package dispatcher
