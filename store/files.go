package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncFile fsyncs a file through a descriptor of our own, which on Linux also writes the dirty pages of other mappings
// of it. A file that vanished is fine: Badger removes a log only after its table and the manifest are synced.
func syncFile(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open for sync: %w", err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

func syncDir(path string) error { return syncFile(path) }

// syncEngine fsyncs all files of a database that can hold unsynced data, and its directory. Tables in known are left
// out and new ones added to it; known may be nil. observe is told of every file that was synced.
func syncEngine(dir string, known map[string]struct{}, observe func(path string)) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // dropped meanwhile
	}
	if err != nil {
		return fmt.Errorf("list for sync: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		isTable := strings.HasSuffix(name, ".sst")
		if _, ok := known[name]; isTable && ok {
			continue
		}
		if !isTable && !strings.HasSuffix(name, ".mem") && !strings.HasSuffix(name, ".vlog") &&
			name != "MANIFEST" && name != "KEYREGISTRY" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := syncFile(path); err != nil {
			return err
		}
		observe(path)
		if isTable && known != nil {
			known[name] = struct{}{}
		}
	}
	return syncDir(dir)
}

// syncTree fsyncs everything below dir, and dir itself. observe is told of every file.
func syncTree(dir string, observe func(path string)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list for sync: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() {
			if err := syncTree(path, observe); err != nil {
				return err
			}
			continue
		}
		if err := syncFile(path); err != nil {
			return err
		}
		observe(path)
	}
	return syncDir(dir)
}

// checkFree refuses when the volume of dir is nearly full, for a write through a memory map cannot fail: it kills. A
// negative reserve means none.
func checkFree(dir string, reserve int64) error {
	if reserve < 0 {
		return nil
	}
	var volume unix.Statfs_t
	if err := unix.Statfs(dir, &volume); err != nil {
		return fmt.Errorf("look up free space: %w", err)
	}
	if free := int64(volume.Bavail) * volume.Bsize; free < reserve {
		return fmt.Errorf("%w: %d bytes are free, %d are needed", ErrNoSpace, free, reserve)
	}
	return nil
}

// writeFileDurably replaces a file so that after a crash either the old or the new content is there.
func writeFileDurably(path string, content []byte) error {
	temporary := path + ".tmp"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", temporary, err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// diskBytes is the space that the files below dir occupy; sparse files count what they occupy. Files that vanish
// meanwhile count nothing.
func diskBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			total += stat.Blocks * 512 // st_blocks counts 512 bytes, whatever the file system's block size
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return total, nil
}
