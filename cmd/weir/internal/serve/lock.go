package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weir-project/weir/dispatcher"
)

// folderLock keeps a data folder for one process until that process has exited: the descriptor is never closed before.
type folderLock struct {
	file     *os.File
	identity dispatcher.LockIdentity
}

// lockFolder creates the folder if it is missing and locks it. It refuses a folder that another process has locked.
func lockFolder(dir string) (*folderLock, error) {
	if dir == "" {
		return nil, errors.New("no data folder is given: name one that is this agent's alone")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	path := filepath.Join(dir, "agent.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		closed := file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("data folder %s is in use by another agent: stop that one, or give this one a folder of its own", dir), closed)
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), closed)
	}
	identity, err := identify(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &folderLock{file: file, identity: identity}, nil
}

// identify names the lock: the host's boot, and the lock file's device and inode.
func identify(file *os.File) (dispatcher.LockIdentity, error) {
	info, err := file.Stat()
	if err != nil {
		return dispatcher.LockIdentity{}, fmt.Errorf("look at lock file: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return dispatcher.LockIdentity{}, nil
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return dispatcher.LockIdentity{}, nil //nolint:nilerr // a system without a boot id proves nothing by its lock
	}
	return dispatcher.LockIdentity{BootID: strings.TrimSpace(string(boot)), Device: uint64(stat.Dev), Inode: stat.Ino}, nil
}
