package raftnode

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
)

// diskGuard ends the server when a write fails or hangs. What is on disk is unknown then, and a leader whose disk hangs
// would go on sending heartbeats, so that nobody takes over.
type diskGuard struct {
	latch    *faultLatch
	clock    clock.Clock
	timers   clock.Timers
	deadline time.Duration
	broken   atomic.Bool
	// waiting is since when Raft's main loop waits for a write; nil while it does not. Writes come one at a time, but for
	// cuts of the log behind a snapshot, which may hide a later write and are as good a sign of a disk that hangs.
	waiting atomic.Pointer[clock.Reading]
}

// hanging is how long a write has been under way.
func (g *diskGuard) hanging() time.Duration {
	since := g.waiting.Load()
	if since == nil {
		return 0
	}
	return clock.MaxElapsed(*since, g.clock.Now())
}

// write runs do and waits for it no longer than the deadline. After a failure everything is refused: a write that hangs
// may still land on what would be written next.
func (g *diskGuard) write(what string, do func() error) error {
	if g.broken.Load() {
		return g.latch.get()
	}
	now := g.clock.Now()
	g.waiting.Store(&now)
	defer g.waiting.CompareAndSwap(&now, nil)
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := g.timers.NewTimer(g.deadline)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			return g.fail(what+" failed", err)
		}
		return nil
	case <-timer.C():
		return g.fail(fmt.Sprintf("%s has not returned for %v", what, g.deadline), nil)
	}
}

func (g *diskGuard) fail(what string, err error) *FaultError {
	f := g.latch.report(&FaultError{
		Cause: FaultStore, What: what, Err: err,
		Advice: "check the disk and its free space, then start the server again; the data folder has what was acknowledged",
	})
	g.broken.Store(true)
	return f
}

// logStore is the log as Raft writes it: it notes when entries were received, before they are stored, and writes under
// the guard.
type logStore struct {
	raft.LogStore
	guard   *diskGuard
	clock   clock.Clock
	appends AppendObserver
	faults  *FaultHooks
}

// StoreLog stores one entry.
func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries with consecutive indexes. The reading is taken here, after they were received; storing an
// index again replaces its time.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	first, last := logs[0].Index, logs[len(logs)-1].Index
	if s.appends != nil {
		s.appends.NoteAppends(first, last, s.clock.Now())
	}
	return s.guard.write("storing log entries", func() error {
		if err := s.faults.storeLogs(first, last); err != nil {
			return err
		}
		return s.LogStore.StoreLogs(logs)
	})
}

// DeleteRange cuts the log at either end.
func (s *logStore) DeleteRange(first, last uint64) error {
	return s.guard.write("cutting the log", func() error { return s.LogStore.DeleteRange(first, last) })
}

// stableStore holds Raft's term and vote.
type stableStore struct {
	raft.StableStore
	guard  *diskGuard
	faults *FaultHooks
	// running is set once Raft's main loop is the only caller.
	running atomic.Bool
}

// Set stores a value.
func (s *stableStore) Set(key, value []byte) error {
	return s.write(key, func() error { return s.StableStore.Set(key, value) })
}

// SetUint64 stores a number.
func (s *stableStore) SetUint64(key []byte, value uint64) error {
	return s.write(key, func() error { return s.StableStore.SetUint64(key, value) })
}

// write never returns to Raft's main loop with an error: the library panics when it cannot store its term, which would
// end the process before its message is out. The loop ends instead, with its deferred calls, and the fault ends the
// server.
func (s *stableStore) write(key []byte, do func() error) error {
	err := s.guard.write("storing Raft's term or vote", func() error {
		if err := s.faults.storeStable(key); err != nil {
			return err
		}
		return do()
	})
	if err != nil && s.running.Load() {
		runtime.Goexit()
	}
	return err
}

// snapshotStore shows Raft only the newest snapshot while it starts: falling back to an older one would leave a hole
// between it and the log.
type snapshotStore struct {
	raft.SnapshotStore
	running atomic.Bool
}

// List returns the snapshots, newest first.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	all, err := s.SnapshotStore.List()
	if err != nil || s.running.Load() || len(all) <= 1 {
		return all, err
	}
	return all[:1], nil
}
