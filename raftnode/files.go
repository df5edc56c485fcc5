package raftnode

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// The data folder of a server:
//
//	FORMAT         "weir-server 1": what this folder is; an unknown version is refused
//	identity.json  whose folder it is: server, cluster (empty until known), and a random id of the folder itself
//	server.pid     who has it open, for messages; the lock is the database's own
//	raft.db        log, term and vote
//	snapshots/     one folder per snapshot
const (
	formatFile   = "FORMAT"
	formatText   = "weir-server 1\n"
	identityFile = "identity.json"
	pidFile      = "server.pid"
	databaseFile = "raft.db"
	snapshotsDir = "snapshots"

	folderMode = 0o750
	fileMode   = 0o600
)

// identity is whose a data folder is. The server is its stored id, not its address.
type identity struct {
	Server  fsm.ServerID `json:"server"`
	Cluster string       `json:"cluster"`
	// Folder is drawn when the folder is made. A server that comes back with another one has lost its log and its votes.
	Folder string `json:"folder"`
	// Begun says that the folder holds a log. One that is gone afterwards is not begun anew: with it went the server's
	// votes and what it acknowledged.
	Begun bool `json:"begun"`
	// Peers are the folders that the other servers had when they were first met.
	Peers map[fsm.ServerID]string `json:"peers,omitempty"`
}

// inspect reads whose folder cfg.DataDir is, without writing anything. A folder that does not exist or is empty gives a
// new identity with fresh set.
func inspect(cfg *Config) (id identity, fresh bool, err error) {
	format, err := os.ReadFile(filepath.Join(cfg.DataDir, formatFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		id, err = newIdentity(cfg)
		return id, true, err
	case err != nil:
		return identity{}, false, fmt.Errorf("read the data folder of server %s: %w", cfg.ID, err)
	case string(format) != formatText:
		return identity{}, false, fmt.Errorf("the data folder %s has format %q but this version knows %q only: run the version of weir that wrote it",
			cfg.DataDir, strings.TrimSpace(string(format)), strings.TrimSpace(formatText))
	}
	id, err = readIdentity(filepath.Join(cfg.DataDir, identityFile))
	if err != nil {
		return identity{}, false, err
	}
	if id.Server != cfg.ID {
		return identity{}, false, fmt.Errorf("the data folder %s belongs to server %s, not to %s: start %s with its own folder",
			cfg.DataDir, id.Server, cfg.ID, cfg.ID)
	}
	if cfg.Cluster != "" && id.Cluster != "" && cfg.Cluster != id.Cluster {
		return identity{}, false, fmt.Errorf("the data folder %s belongs to cluster %s, not to %s: name the right cluster or the right folder",
			cfg.DataDir, id.Cluster, cfg.Cluster)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, databaseFile)); id.Begun && errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, fmt.Errorf("the data folder %s has lost its log file %s: %s", cfg.DataDir, databaseFile, repairRejoin)
	}
	if id.Cluster == "" {
		id.Cluster = cfg.Cluster
	}
	return id, false, nil
}

// newIdentity is for a folder that has no FORMAT file. A log that is there all the same is not overwritten.
func newIdentity(cfg *Config) (identity, error) {
	_, err := os.Stat(filepath.Join(cfg.DataDir, databaseFile))
	if err == nil {
		return identity{}, fmt.Errorf("the data folder %s holds %s but no %s file: it is damaged; %s",
			cfg.DataDir, databaseFile, formatFile, repairRejoin)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return identity{}, fmt.Errorf("read the data folder of server %s: %w", cfg.ID, err)
	}
	return identity{Server: cfg.ID, Cluster: cfg.Cluster, Folder: randomID()}, nil
}

func readIdentity(path string) (identity, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return identity{}, fmt.Errorf("the identity file %s cannot be read: %w; restore it from a copy or move the folder away and add the server anew under a new id", path, err)
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil || id.Server == "" || id.Folder == "" {
		return identity{}, fmt.Errorf("the identity file %s is damaged: restore it from a copy or move the folder away and add the server anew under a new id", path)
	}
	return id, nil
}

// randomID draws 96 random bits; the system's source does not fail.
func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return hex.EncodeToString(b[:])
}

// prepare makes the folder of a new server. The format file comes last: without it there is no folder.
func prepare(dir string, id identity) error {
	if err := os.MkdirAll(filepath.Join(dir, snapshotsDir), folderMode); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := writeIdentity(dir, id); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, formatFile), []byte(formatText))
}

func writeIdentity(dir string, id identity) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the identity: %w", err)
	}
	return writeFile(filepath.Join(dir, identityFile), append(data, '\n'))
}

// writeFile replaces a file so that after a crash it is either the old one or the new one.
func writeFile(path string, data []byte) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// holder says who has the folder open, as far as the pid file tells.
func holder(dir string) string {
	pid, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil || len(pid) == 0 {
		return "another process"
	}
	return "the process with pid " + strings.TrimSpace(string(pid))
}
