// Package server serves weir.v1 on one server of the control plane.
//
// It knows the public API, how an answer of the state machine, of the proposer or of a read becomes a google.rpc.Status,
// which requests are answered here and which are forwarded to the leader (once), and when this server must not answer at
// all. It must not know Raft: what it needs of the rest of the process it names as small interfaces, in ports.go.
//
// Invariants: a verdict that is not "accepted" never becomes a successful answer; an outcome that is not known is never
// called a failure; a forwarded request is not forwarded again; a server that has lost contact with the leader answers
// explicitly stale reads and questions about itself, and nothing else.
package server
