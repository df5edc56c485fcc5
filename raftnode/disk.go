package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/weir-project/weir/fsm/logcodec"
)

const (
	boltLockTimeout = time.Second
	snapshotsKept   = 2

	repairRejoin = "move the data folder away and add the server anew, empty and under a new id; the others have its data"
)

// disk is what a server keeps on disk, opened.
type disk struct {
	dir   string
	bolt  *raftboltdb.BoltStore
	snaps *raft.FileSnapshotStore
}

// openDisk checks the stores of the folder and opens them. This is the one place that chooses the log store.
func openDisk(cfg *Config) (_ *disk, err error) {
	snaps, err := raft.NewFileSnapshotStoreWithLogger(cfg.DataDir, snapshotsKept, cfg.Logger.Named("snapshots"))
	if err != nil {
		return nil, fmt.Errorf("open the snapshots in %s: %w", cfg.DataDir, err)
	}
	if err := check(cfg.DataDir, snaps); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.DataDir, databaseFile)
	bolt, err := openBolt(path, false)
	if err != nil {
		return nil, boltError(path, cfg.DataDir, err)
	}
	d := &disk{dir: cfg.DataDir, bolt: bolt, snaps: snaps}
	if err := os.WriteFile(filepath.Join(cfg.DataDir, pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"), fileMode); err != nil {
		return nil, errors.Join(fmt.Errorf("write the pid file: %w", err), d.close())
	}
	return d, nil
}

func boltOptions(readOnly bool) *bbolt.Options {
	return &bbolt.Options{
		ReadOnly: readOnly,
		Timeout:  boltLockTimeout,
		// The free list is rebuilt at open instead of being written at each commit.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}
}

func openBolt(path string, readOnly bool) (store *raftboltdb.BoltStore, err error) {
	defer recoverDamage(&err)
	return raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: boltOptions(readOnly),
		MsgpackUseNewTimeFormat: true, // from the first release on, here and in the transport
	})
}

// recoverDamage turns what bbolt does on damaged pages, panics and memory faults, into an error.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged page: %v", p)
	}
}

// check reads everything that is on disk, before anything is opened for writing: a folder that is refused stays as it is,
// and opening for writing rebuilds the free list in a goroutine of its own, where a damaged page would end the process
// with a bare panic. It makes sure that snapshot and log fit together: over a hole Raft itself would panic.
func check(dir string, snaps raft.SnapshotStore) error {
	covered, err := checkSnapshots(dir, snaps)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	empty, err := checkPages(path)
	if err != nil {
		return boltError(path, dir, err)
	}
	if empty {
		return nil
	}
	store, err := openBolt(path, true)
	if err != nil {
		return boltError(path, dir, err)
	}
	return errors.Join(checkLog(dir, store, covered), store.Close())
}

// checkPages reads every page that is in use.
func checkPages(path string) (empty bool, err error) {
	defer recoverDamage(&err)
	db, err := bbolt.Open(path, fileMode, boltOptions(true))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	empty = true
	return empty, db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes of at least %d", info.Size(), tx.Size())
		}
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			empty = false
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
}

func boltError(path, dir string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("the data folder %s is in use by %s: stop that one first or give this server another folder", dir, holder(dir))
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the log file %s cannot be opened: %w; give this user the right to read and write it", path, err)
	}
	return fmt.Errorf("the log file %s is damaged (%w): %s", path, err, repairRejoin)
}

// close closes the database, which gives the folder free.
func (d *disk) close() error {
	if err := os.Remove(filepath.Join(d.dir, pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, d.bolt.Close())
	}
	return d.bolt.Close()
}

// checkSnapshots returns the last index of the newest snapshot, whose bytes it compares with their checksum.
func checkSnapshots(dir string, snaps raft.SnapshotStore) (covered uint64, err error) {
	metas, err := snaps.List()
	if err != nil {
		return 0, fmt.Errorf("list the snapshots in %s: %w", dir, err)
	}
	readable := make(map[string]bool, len(metas))
	for _, m := range metas {
		readable[m.ID] = true
		covered = max(covered, m.Index)
	}
	entries, err := os.ReadDir(filepath.Join(dir, snapshotsDir))
	if err != nil {
		return 0, fmt.Errorf("list the snapshots in %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.IsDir() && !readable[e.Name()] && snapshotIndex(e.Name()) > covered {
			return 0, damagedSnapshot(dir, e.Name(), errors.New("its meta.json cannot be read"))
		}
	}
	if len(metas) > 0 {
		_, r, err := snaps.Open(metas[0].ID)
		if err != nil {
			return 0, damagedSnapshot(dir, metas[0].ID, err)
		}
		if err := r.Close(); err != nil {
			return 0, fmt.Errorf("read the snapshot %s: %w", metas[0].ID, err)
		}
	}
	return covered, nil
}

// snapshotIndex reads the index out of a snapshot's name, TERM-INDEX-MILLISECONDS. A name that ends in .tmp was being
// written at a crash and is none; Raft does not use it either.
func snapshotIndex(name string) uint64 {
	parts := strings.Split(name, "-")
	if len(parts) != 3 || strings.HasSuffix(name, ".tmp") {
		return 0
	}
	index, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0
	}
	return index
}

func damagedSnapshot(dir, id string, err error) error {
	return fmt.Errorf("the snapshot %s is damaged (%w): %s", filepath.Join(dir, snapshotsDir, id), err, repairRejoin)
}

// checkLog reads every entry once: indexes without a gap from at most one after the snapshot, and bytes that decode.
func checkLog(dir string, store *raftboltdb.BoltStore, covered uint64) (err error) {
	path := filepath.Join(dir, databaseFile)
	first, err := store.FirstIndex()
	if err != nil {
		return boltError(path, dir, err)
	}
	last, err := store.LastIndex()
	if err != nil {
		return boltError(path, dir, err)
	}
	if first == 0 {
		return nil // nothing yet, or everything is in the snapshot
	}
	if first > covered+1 {
		return fmt.Errorf("entries %d to %d are missing between the snapshots in %s and the log file %s: %s",
			covered+1, first-1, filepath.Join(dir, snapshotsDir), path, repairRejoin)
	}
	for i := first; i <= last; i++ {
		if err := checkEntry(store, i); err != nil {
			return fmt.Errorf("the log file %s cannot be read at entry %d (%w): run the version of weir that the other servers run; if they are the same, %s",
				path, i, err, repairRejoin)
		}
	}
	return nil
}

func checkEntry(store *raftboltdb.BoltStore, index uint64) error {
	var l raft.Log
	if err := store.GetLog(index, &l); err != nil {
		return err
	}
	if l.Index != index {
		return fmt.Errorf("it says that it is entry %d", l.Index)
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	_, err := logcodec.DecodeEntry(index, l.Term, l.Data)
	if _, unknown := errors.AsType[*logcodec.UnknownCommandError](err); unknown {
		return nil // not damage: it stops the server when it is applied, with the advice to upgrade
	}
	return err
}

// explain names the file of a snapshot that Raft could not read.
func (d *disk) explain(err error) error {
	var damaged *unreadableSnapshotError
	if !errors.As(err, &damaged) {
		return err
	}
	id := "(newest)"
	if metas, listErr := d.snaps.List(); listErr == nil && len(metas) > 0 {
		id = metas[0].ID
	}
	return damagedSnapshot(d.dir, id, damaged.fault)
}
