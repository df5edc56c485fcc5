package raftnode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// Offline is the data folder of a server that is not running, opened for reading only: nothing in it is changed. It is
// not safe for concurrent use.
type Offline struct {
	dir     string
	id      identity
	archive archive
	close   func() error
}

// OpenOffline opens a data folder for reading. It refuses one that a server has open, and one that is damaged; the error
// is one sentence that says what to do.
func OpenOffline(dir string) (*Offline, error) {
	format, err := os.ReadFile(filepath.Join(dir, formatFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is no data folder of a server: it has no %s file; name the folder that weir server --data was given", dir, formatFile)
	case err != nil:
		return nil, fmt.Errorf("read the data folder %s: %w", dir, err)
	case string(format) != formatText:
		return nil, fmt.Errorf("the data folder %s has format %q but this version knows %q only: run the version of weir that wrote it",
			dir, strings.TrimSpace(string(format)), strings.TrimSpace(formatText))
	}
	id, err := readIdentity(filepath.Join(dir, identityFile))
	if err != nil {
		return nil, err
	}
	o := &Offline{
		dir: dir, id: id, archive: archive{logs: noLog{}, snaps: snapshotFolder{dir}}, close: func() error { return nil },
	}
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	empty, err := checkPages(path)
	if err != nil {
		return nil, boltError(path, dir, err)
	}
	if empty {
		return o, nil
	}
	store, err := openBolt(path, true)
	if err != nil {
		return nil, boltError(path, dir, err)
	}
	o.archive.logs, o.close = store, store.Close
	return o, nil
}

// Close gives the folder free.
func (o *Offline) Close() error { return o.close() }

// Owner is the server that the folder belongs to, and the cluster, empty if it is not known.
func (o *Offline) Owner() (server fsm.ServerID, cluster string) { return o.id.Server, o.id.Cluster }

// Range is the lowest and the highest index whose state can be rebuilt. The last entries of a log may never have been
// committed: a server knows that only from the others.
func (o *Offline) Range() (oldest, newest uint64, err error) {
	if oldest, err = o.archive.oldest(); err != nil {
		return 0, 0, err
	}
	newest, err = o.newest()
	return oldest, newest, err
}

func (o *Offline) newest() (uint64, error) {
	last, err := o.archive.logs.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("read the last log index: %w", err)
	}
	metas, err := o.archive.snaps.List()
	if err != nil {
		return 0, err
	}
	for _, m := range metas {
		last = max(last, m.Index)
	}
	return last, nil
}

// StateAt rebuilds the state right after the log entry at index. The error is an [*IndexError], the context's, or says
// what is damaged.
func (o *Offline) StateAt(ctx context.Context, index uint64) (*fsm.View, error) {
	newest, err := o.newest()
	if err != nil {
		return nil, err
	}
	state, err := o.archive.stateAt(ctx, index, newest)
	if err != nil {
		return nil, err
	}
	return state.View(), nil
}

// RecordKind says what a log entry is to Raft.
type RecordKind uint8

// The kinds of log entries.
const (
	// RecordCommands holds commands of the state machine.
	RecordCommands RecordKind = iota + 1
	// RecordNoop opens a leader's term.
	RecordNoop
	// RecordBarrier is a mark that a leader waits for.
	RecordBarrier
	// RecordConfiguration holds the servers of the cluster.
	RecordConfiguration
	// RecordOther is none of those.
	RecordOther
)

// String is the kind's word.
func (k RecordKind) String() string {
	switch k {
	case RecordCommands:
		return "commands"
	case RecordNoop:
		return "no-op"
	case RecordBarrier:
		return "mark"
	case RecordConfiguration:
		return "configuration"
	case RecordOther:
		return "other"
	default:
		return "kind " + strconv.Itoa(int(k))
	}
}

// Record is one log entry as it is stored.
type Record struct {
	Index, Term uint64
	Kind        RecordKind
	// Entry is set for commands.
	Entry fsm.Entry
}

// Entries yields the log entries from..to that are kept, in order. It ends at the first error, which it yields; an
// [*IndexError] if from is not kept or to is not there yet.
func (o *Offline) Entries(ctx context.Context, from, to uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := o.checkRange(from, to); err != nil {
			yield(Record{}, err)
			return
		}
		for i := from; i <= to; i++ {
			r, err := o.record(i)
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (o *Offline) checkRange(from, to uint64) error {
	first, err := o.archive.logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("read the first log index: %w", err)
	}
	last, err := o.archive.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the last log index: %w", err)
	}
	switch {
	case to > last:
		return &IndexError{Code: IndexNotYet, Index: to, Oldest: first, Newest: last}
	case from < first:
		return &IndexError{Code: IndexTooOld, Index: from, Oldest: first, Newest: last}
	default:
		return nil
	}
}

// LogRange is the first and the last entry that the log holds; zero if it holds none.
func (o *Offline) LogRange() (first, last uint64, err error) {
	if first, err = o.archive.logs.FirstIndex(); err == nil {
		last, err = o.archive.logs.LastIndex()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the log's bounds: %w", err)
	}
	return first, last, nil
}

func (o *Offline) record(index uint64) (Record, error) {
	l, err := o.archive.entry(index)
	if err != nil {
		return Record{}, err
	}
	r := Record{Index: l.Index, Term: l.Term, Kind: RecordOther}
	switch l.Type {
	case raft.LogCommand:
		r.Kind = RecordCommands
		r.Entry, err = logcodec.DecodeEntry(l.Index, l.Term, l.Data)
	case raft.LogNoop:
		r.Kind = RecordNoop
	case raft.LogBarrier:
		r.Kind = RecordBarrier
	case raft.LogConfiguration:
		r.Kind = RecordConfiguration
	case raft.LogAddPeerDeprecated, raft.LogRemovePeerDeprecated:
	default:
	}
	return r, err
}

// noLog is the log of a folder that has none.
type noLog struct{}

func (noLog) FirstIndex() (uint64, error)    { return 0, nil }
func (noLog) LastIndex() (uint64, error)     { return 0, nil }
func (noLog) GetLog(uint64, *raft.Log) error { return raft.ErrLogNotFound }

// snapshotFolder reads the snapshots that the library's file store has written, without its habit of writing a file to
// see whether it may.
type snapshotFolder struct{ dir string }

const (
	snapshotMetaFile  = "meta.json"
	snapshotStateFile = "state.bin"
	snapshotTemporary = ".tmp"
)

// List returns the snapshots, newest first. One that was being written at a crash is none.
func (s snapshotFolder) List() ([]*raft.SnapshotMeta, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, snapshotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the snapshots in %s: %w", s.dir, err)
	}
	var metas []*raft.SnapshotMeta
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), snapshotTemporary) {
			continue
		}
		m, err := s.meta(e.Name())
		if err != nil {
			return nil, damagedSnapshot(s.dir, e.Name(), err)
		}
		metas = append(metas, m)
	}
	slices.SortFunc(metas, func(a, b *raft.SnapshotMeta) int {
		return -cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID))
	})
	return metas, nil
}

func (s snapshotFolder) meta(id string) (*raft.SnapshotMeta, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, snapshotsDir, id, snapshotMetaFile))
	if err != nil {
		return nil, err
	}
	m := &raft.SnapshotMeta{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return m, nil
}

// Open opens a snapshot's bytes, which carry a checksum of their own.
func (s snapshotFolder) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, err := s.meta(id)
	if err != nil {
		return nil, nil, damagedSnapshot(s.dir, id, err)
	}
	f, err := os.Open(filepath.Join(s.dir, snapshotsDir, id, snapshotStateFile))
	if err != nil {
		return nil, nil, damagedSnapshot(s.dir, id, err)
	}
	return m, f, nil
}
