package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directory holds the lock of the data directory (cluster 2.1). The lock belongs to the process: a file that was copied or
// left behind stops nobody.
type directory struct{ lock *os.File }

func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "LOCK"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses %s: %w", path, err), lock.Close())
	}
	return &directory{lock: lock}, nil
}

func (d *directory) close() error { return d.lock.Close() }
