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

// openDisk opens and verifies the stores of the folder. This is the one place that chooses the log store.
func openDisk(cfg *Config) (_ *disk, err error) {
	path := filepath.Join(cfg.DataDir, databaseFile)
	if err := checkBolt(path, cfg.DataDir); err != nil {
		return nil, err
	}
	bolt, err := openBolt(path)
	if err != nil {
		return nil, boltError(path, cfg.DataDir, err)
	}
	d := &disk{dir: cfg.DataDir, bolt: bolt}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := os.WriteFile(filepath.Join(cfg.DataDir, pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"), fileMode); err != nil {
		return nil, fmt.Errorf("write the pid file: %w", err)
	}
	d.snaps, err = raft.NewFileSnapshotStoreWithLogger(cfg.DataDir, snapshotsKept, cfg.Logger.Named("snapshots"))
	if err != nil {
		return nil, fmt.Errorf("open the snapshots in %s: %w", cfg.DataDir, err)
	}
	if err := d.verify(); err != nil {
		return nil, err
	}
	return d, nil
}

func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout: boltLockTimeout,
		// The free list is rebuilt at open instead of being written at each commit.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}
}

func openBolt(path string) (store *raftboltdb.BoltStore, err error) {
	defer recoverDamage(&err)
	return raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: boltOptions(),
		MsgpackUseNewTimeFormat: true, // from the first release on, here and in the transport
	})
}

// recoverDamage turns what bbolt does on damaged pages, panics and memory faults, into an error.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged page: %v", p)
	}
}

// checkBolt reads every page that is in use before the database is opened for writing: opening rebuilds the free list in
// a goroutine of its own, where a damaged page would end the process with a bare panic.
func checkBolt(path, dir string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := readAll(path); err != nil {
		return boltError(path, dir, err)
	}
	return nil
}

func readAll(path string) (err error) {
	defer recoverDamage(&err)
	db, err := bbolt.Open(path, fileMode, &bbolt.Options{ReadOnly: true, Timeout: boltLockTimeout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
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

// verify makes sure that snapshot and log fit together and can be read. Raft itself would panic over a hole and fall back
// to an older snapshot over a damaged one.
func (d *disk) verify() error {
	covered, err := d.verifySnapshots()
	if err != nil {
		return err
	}
	return d.verifyLog(covered)
}

// verifySnapshots returns the last index of the newest snapshot.
func (d *disk) verifySnapshots() (covered uint64, err error) {
	metas, err := d.snaps.List()
	if err != nil {
		return 0, fmt.Errorf("list the snapshots in %s: %w", d.dir, err)
	}
	readable := make(map[string]bool, len(metas))
	for _, m := range metas {
		readable[m.ID] = true
		covered = max(covered, m.Index)
	}
	entries, err := os.ReadDir(filepath.Join(d.dir, snapshotsDir))
	if err != nil {
		return 0, fmt.Errorf("list the snapshots in %s: %w", d.dir, err)
	}
	for _, e := range entries {
		if e.IsDir() && !readable[e.Name()] && snapshotIndex(e.Name()) > covered {
			return 0, d.damagedSnapshot(e.Name(), errors.New("its meta.json cannot be read"))
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

func (d *disk) damagedSnapshot(id string, err error) error {
	return fmt.Errorf("the snapshot %s is damaged (%w): %s", filepath.Join(d.dir, snapshotsDir, id), err, repairRejoin)
}

// verifyLog reads every entry once: indexes without a gap from at most one after the snapshot, and bytes that decode.
func (d *disk) verifyLog(covered uint64) error {
	path := filepath.Join(d.dir, databaseFile)
	first, err := d.bolt.FirstIndex()
	if err != nil {
		return boltError(path, d.dir, err)
	}
	last, err := d.bolt.LastIndex()
	if err != nil {
		return boltError(path, d.dir, err)
	}
	switch {
	case first == 0 && covered == 0:
		return nil
	case first == 0: // everything is in the snapshot
		return nil
	case first > covered+1:
		return fmt.Errorf("entries %d to %d are missing between the snapshots in %s and the log file %s: %s",
			covered+1, first-1, filepath.Join(d.dir, snapshotsDir), path, repairRejoin)
	}
	for i := first; i <= last; i++ {
		if err := d.verifyEntry(i); err != nil {
			return fmt.Errorf("the log file %s cannot be read at entry %d (%w): run the version of weir that the other servers run; if they are the same, %s",
				path, i, err, repairRejoin)
		}
	}
	return nil
}

func (d *disk) verifyEntry(index uint64) error {
	var l raft.Log
	if err := d.bolt.GetLog(index, &l); err != nil {
		return err
	}
	if l.Index != index {
		return fmt.Errorf("it says that it is entry %d", l.Index)
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	_, err := logcodec.DecodeEntry(l.Index, l.Term, l.Data)
	var unknown *logcodec.UnknownCommandError
	if errors.As(err, &unknown) {
		return nil // not damage: it stops the server when it is applied, with the advice to upgrade
	}
	return err
}

// explain names the file of a snapshot that Raft could not read.
func (d *disk) explain(err error) error {
	var damaged *damagedSnapshotError
	if !errors.As(err, &damaged) {
		return err
	}
	id := damaged.id
	if metas, listErr := d.snaps.List(); id == "" && listErr == nil && len(metas) > 0 {
		id = metas[0].ID
	}
	return d.damagedSnapshot(id, damaged.err)
}
