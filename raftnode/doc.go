// Package raftnode joins the state machine with hashicorp/raft: it proposes, reads, leads, persists and stops.
//
// It knows log and snapshot stores, the transport between servers, bootstrap and identity, leadership, group commit,
// linearizable reads, and the watchdogs that end a server which can no longer be trusted. It must not know gRPC, what a
// node or a dispatcher is, or what commands mean beyond the three that it proposes itself: BeginTerm, BeginGeneration and
// AnnounceServer.
//
// A proposal goes Propose -> queue -> one log entry with what else was waiting -> commit -> fsm.Apply -> verdict. A read
// joins the next barrier round and then looks at a view. [Error] says of everything that went wrong whether it was
// proposed; sentinels of hashicorp/raft never leave the package.
//
// # Invariants
//
//   - Every AppendEntries, heartbeats included, goes through Raft's main loop, one in flight per peer ([transport]).
//     With the library's shortcut for heartbeats a deposed leader can store an entry under its successor's term.
//   - Nothing is proposed or read linearizably before the server's own BeginTerm has been applied in the present term;
//     every proposal carries the term in which this server believed to lead when it was handed to Raft.
//   - An entry is decoded completely before its first command is applied. What cannot be decoded stops the server before
//     anything has changed; after a fault nothing is applied, served or written to a snapshot.
//   - A view that is given out never changes, and reads that are linearizable are taken after a barrier which began
//     after they were asked for.
//   - The time noted for a log entry is a reading taken after the entry was received and before it is stored; an index
//     that is stored again gets a new time.
//   - An earlier state is rebuilt from a snapshot and the log, in a copy of its own; the live state is never used for it.
//   - Every wait is bounded, by the caller's context and by a limit of this package.
package raftnode
