// Command apply measures what one command costs the state machine, and what one dispatcher costs in memory, at several
// numbers of dispatchers. It fails if the cost grows more with the number than the bounds in bounds.go allow.
//
// It knows package fsm alone: no Raft, no disk, no network. Each size is measured in a process of its own, so that no
// heap carries over; rounds of the sizes alternate, so that a noisy minute hits all of them.
//
// Instructions are counted by Valgrind's callgrind, the same on every machine; times and memory are the machine's.
package main
