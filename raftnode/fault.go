package raftnode

import (
	"fmt"
	"strconv"
	"sync"
)

// FaultCause says why a server must not go on.
type FaultCause uint8

// The causes of faults. Each has an exit code of its own.
const (
	// FaultEntry: a committed entry cannot be decoded, or has a command that this version does not know.
	FaultEntry FaultCause = iota + 1
	// FaultApply: the state machine broke off while it applied an entry.
	FaultApply
	// FaultStore: a write to the log or stable store failed or hung; what is on disk is unknown.
	FaultStore
	// FaultSnapshot: a snapshot that was received cannot be read.
	FaultSnapshot
	// FaultCluster: the log belongs to another cluster than the data folder.
	FaultCluster
	// FaultLeadership: this server can neither commit nor give leadership up.
	FaultLeadership
)

// String is the stable code of the cause.
func (c FaultCause) String() string {
	switch c {
	case FaultEntry:
		return "ENTRY"
	case FaultApply:
		return "APPLY"
	case FaultStore:
		return "STORE"
	case FaultSnapshot:
		return "SNAPSHOT"
	case FaultCluster:
		return "CLUSTER"
	case FaultLeadership:
		return "LEADERSHIP"
	default:
		return "FAULT_" + strconv.Itoa(int(c))
	}
}

// faultExitBase keeps exit codes of faults apart from those of usage errors.
const faultExitBase = 70

// FaultError ends a server: nothing is applied, served or snapshotted any more, and the process must exit. What is on
// disk has been left as it was.
type FaultError struct {
	Cause FaultCause
	// What happened, and what to do about it.
	What, Advice string
	Err          error
}

// Error is one sentence with the advice.
func (e *FaultError) Error() string {
	s := fmt.Sprintf("fault %s: %s", e.Cause, e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// Unwrap returns what was found.
func (e *FaultError) Unwrap() error { return e.Err }

// ExitCode is the status that the process should exit with.
func (e *FaultError) ExitCode() int { return faultExitBase + int(e.Cause) }

// faultLatch keeps the first fault.
type faultLatch struct {
	mu    sync.Mutex
	first *FaultError
	done  chan struct{} // closed once there is one
}

func newFaultLatch() *faultLatch { return &faultLatch{done: make(chan struct{})} }

// report keeps f if it is the first, and returns the first.
func (l *faultLatch) report(f *FaultError) *FaultError {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = f
		close(l.done)
	}
	return l.first
}

// get returns the first fault, or nil.
func (l *faultLatch) get() *FaultError {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}
