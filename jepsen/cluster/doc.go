// Package cluster runs the shipped binary: servers and agents as real processes on loopback, each server with an address
// of its own.
//
// It knows how to start, kill and restart processes and where their files are. It knows nothing of what they do.
//
// Invariants: only processes that it started are ever signalled, by their ids. Children die with the harness, also when
// that is killed: the kernel sends them SIGKILL when the thread that started them ends, so one thread starts them all and
// lives as long as the cluster. The log of a process keeps all its lives.
package cluster
