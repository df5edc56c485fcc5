package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// IndexCode says why there is no state at an index.
type IndexCode uint8

// The codes of an [IndexError].
const (
	// IndexTooOld: what leads to that state has been cut off behind a snapshot.
	IndexTooOld IndexCode = iota + 1
	// IndexNotYet: the log has not got there.
	IndexNotYet
)

// String is the stable code.
func (c IndexCode) String() string {
	switch c {
	case IndexTooOld:
		return "INDEX_TOO_OLD"
	case IndexNotYet:
		return "INDEX_NOT_YET"
	default:
		return "INDEX_CODE_" + strconv.Itoa(int(c))
	}
}

// IndexError says that the state at an index cannot be rebuilt.
type IndexError struct {
	Code  IndexCode
	Index uint64
	// Oldest and Newest are the indexes between which states can be rebuilt.
	Oldest, Newest uint64
}

// Error says which indexes there are.
func (e *IndexError) Error() string {
	if e.Code == IndexNotYet {
		return fmt.Sprintf("the log has got to entry %d, not to entry %d yet; ask for an earlier one, or again later", e.Newest, e.Index)
	}
	return fmt.Sprintf("the state at entry %d cannot be rebuilt: the oldest one that is kept is that at entry %d; ask for that one or a later one", e.Index, e.Oldest)
}

// StateAt rebuilds the state right after the log entry at index, from the newest snapshot at or below it and the entries
// that follow; the live state is neither used nor touched. One caller at a time rebuilds, others wait. It takes the time
// of reading a snapshot and at most as many entries as are kept, and memory for a second state. The error is an
// [*IndexError], an [*Error] of class fenced, or the context's.
func (n *Node) StateAt(ctx context.Context, index uint64) (*fsm.View, error) {
	select {
	case n.rebuilding <- struct{}{}:
		defer func() { <-n.rebuilding }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if f := n.latch.get(); f != nil {
		return nil, classError(ClassFenced, f.Error())
	}
	// What this server has applied is committed; the log may hold more.
	state, err := n.archive.stateAt(ctx, index, n.machine.Applied())
	if err != nil {
		return nil, err
	}
	return state.View(), nil
}

// snapshotReader is the part of raft.SnapshotStore that only reads.
type snapshotReader interface {
	List() ([]*raft.SnapshotMeta, error)
	Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error)
}

// logReader is the part of raft.LogStore that only reads.
type logReader interface {
	FirstIndex() (uint64, error)
	LastIndex() (uint64, error)
	GetLog(index uint64, l *raft.Log) error
}

// archive rebuilds earlier states from snapshots and log entries. It only reads; the log may be cut and snapshots may go
// while it does.
type archive struct {
	logs  logReader
	snaps snapshotReader
}

// errMoved says that what was being read has been cut off or replaced meanwhile.
var errMoved = errors.New("the log has been cut behind a newer snapshot meanwhile")

// rebuildTries bounds how often a rebuild begins anew because the log was cut under it.
const rebuildTries = 3

func (a *archive) stateAt(ctx context.Context, index, newest uint64) (*fsm.State, error) {
	if index > newest {
		oldest, err := a.oldest()
		if err != nil {
			return nil, err
		}
		return nil, &IndexError{Code: IndexNotYet, Index: index, Oldest: oldest, Newest: newest}
	}
	var err error
	for range rebuildTries {
		var state *fsm.State
		if state, err = a.rebuild(ctx, index, newest); !errors.Is(err, errMoved) {
			return state, err
		}
	}
	return nil, fmt.Errorf("rebuild the state at entry %d: %w", index, err)
}

func (a *archive) rebuild(ctx context.Context, index, newest uint64) (*fsm.State, error) {
	state, covered, err := a.base(index)
	if err != nil {
		return nil, err
	}
	first, err := a.logs.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("read the first log index: %w", err)
	}
	if state == nil || (covered < index && (first == 0 || first > covered+1)) {
		oldest, err := a.oldest()
		if err != nil {
			return nil, err
		}
		if oldest <= index {
			return nil, errMoved
		}
		return nil, &IndexError{Code: IndexTooOld, Index: index, Oldest: oldest, Newest: newest}
	}
	for i := covered + 1; i <= index; i++ {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := a.applyTo(state, i); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// base is the newest snapshot at or below index and the index that it covers, or the empty state if the log begins at
// its beginning; nil if there is neither.
func (a *archive) base(index uint64) (state *fsm.State, covered uint64, err error) {
	metas, err := a.snaps.List()
	if err != nil {
		return nil, 0, fmt.Errorf("list the snapshots: %w", err)
	}
	for _, m := range metas { // newest first
		if m.Index > index {
			continue
		}
		_, r, err := a.snaps.Open(m.ID)
		if err != nil {
			return nil, 0, errors.Join(errMoved, err)
		}
		state, err := readSnapshot(r)
		return state, m.Index, errors.Join(err, r.Close())
	}
	first, err := a.logs.FirstIndex()
	if err != nil {
		return nil, 0, fmt.Errorf("read the first log index: %w", err)
	}
	if first != 1 {
		return nil, 0, nil
	}
	return fsm.New(), 0, nil
}

// oldest is the lowest index whose state can be rebuilt.
func (a *archive) oldest() (uint64, error) {
	first, err := a.logs.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("read the first log index: %w", err)
	}
	if first == 1 {
		return 1, nil
	}
	metas, err := a.snaps.List()
	if err != nil {
		return 0, fmt.Errorf("list the snapshots: %w", err)
	}
	oldest := uint64(0)
	for i, m := range metas {
		if i == 0 || (first != 0 && first <= m.Index+1) {
			oldest = m.Index
		}
	}
	return oldest, nil
}

// applyTo applies one log entry to a state that stands right before it.
func (a *archive) applyTo(state *fsm.State, index uint64) error {
	l, err := a.entry(index)
	if err != nil {
		return err
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	e, err := logcodec.DecodeEntry(l.Index, l.Term, l.Data)
	if err != nil {
		return err
	}
	return applyRecovered(state, e)
}

func applyRecovered(state *fsm.State, e fsm.Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("applying log entry %d broke off: %v", e.Index, p)
		}
	}()
	state.Apply(e)
	return nil
}

func (a *archive) entry(index uint64) (l raft.Log, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recoverDamage(&err)
	if err := a.logs.GetLog(index, &l); err != nil {
		if errors.Is(err, raft.ErrLogNotFound) {
			return l, errMoved
		}
		return l, fmt.Errorf("read log entry %d: %w", index, err)
	}
	return l, nil
}
