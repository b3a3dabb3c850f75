package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserveFileBytes is room on the data volume that nobody else can take (cluster 2.1). It is given back when a write meets a full
// disk, so that the store, which has to write to be closed, can be closed.
const reserveFileBytes = 64 << 20

func (n *Node) reservePath() string { return filepath.Join(n.config.RaftDirectory, "reserve") }

// keepReserve makes the reserve where it is missing. A volume on which little would be left then does without.
func (n *Node) keepReserve() {
	switch info, err := os.Stat(n.reservePath()); {
	case err == nil && info.Size() == reserveFileBytes:
		return
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		n.log.Warn().Err(err).Msg("the reserve of the data volume cannot be looked at")
		return
	}
	free, err := freeBytes(n.config.RaftDirectory)
	if err == nil && free-reserveFileBytes < 2*n.disk.ReserveBytes() {
		return
	}
	if err == nil {
		err = allocate(n.reservePath(), reserveFileBytes)
	}
	if err != nil {
		n.log.Warn().Err(err).Msg("the data volume has no reserve")
		n.releaseReserve() // what there is of it is of no use
	}
}

// releaseReserve gives the reserve back.
func (n *Node) releaseReserve() {
	if err := os.Remove(n.reservePath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Warn().Err(err).Msg("the reserve of the data volume cannot be given back")
	}
}

// allocate makes a file of blocks that are in use and hold nothing.
func allocate(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("create reserve: %w", err)
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, bytes)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("allocate reserve: %w", err)
	}
	return nil
}
