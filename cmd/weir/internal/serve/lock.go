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

// lockFolder creates the folder if it is missing and locks it until this process exits. It refuses a folder that another
// process has locked.
//
// The descriptor is a bare number on purpose: nothing closes it, neither a defer that runs before the sinks have closed
// nor the collector, which closes files that nobody refers to.
func lockFolder(dir string) (dispatcher.LockIdentity, error) {
	var none dispatcher.LockIdentity
	if dir == "" {
		return none, errors.New("no data folder is given: name one that is this agent's alone")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return none, fmt.Errorf("make data folder: %w", err)
	}
	path := filepath.Join(dir, "agent.lock")
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return none, fmt.Errorf("open lock file %s: %w", path, err)
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		closed := syscall.Close(fd)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return none, errors.Join(fmt.Errorf("data folder %s is in use by another agent: stop that one, or give this one a folder of its own", dir), closed)
		}
		return none, errors.Join(fmt.Errorf("lock %s: %w", path, err), closed)
	}
	return identify(fd)
}

// identify names the lock: the host's boot, and the lock file's device and inode. A system without a boot id proves
// nothing by its lock.
func identify(fd int) (dispatcher.LockIdentity, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return dispatcher.LockIdentity{}, fmt.Errorf("look at lock file: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if errors.Is(err, os.ErrNotExist) {
		return dispatcher.LockIdentity{}, nil
	}
	if err != nil {
		return dispatcher.LockIdentity{}, fmt.Errorf("read boot id: %w", err)
	}
	return dispatcher.LockIdentity{BootID: strings.TrimSpace(string(boot)), Device: stat.Dev, Inode: stat.Ino}, nil
}
