package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"
)

// logFiles is the file system as the log store sees it. It differs from the store's own in four ways: it flushes data
// without the file's times (fdatasync: about half the latency on ext4), it prepares files ahead of need, it passes the crash
// points of cluster 19, and the first write, flush or creation that fails makes every later one fail, since a page whose flush failed may be lost
// although the next flush succeeds.
type logFiles struct {
	faults func(point string)
	// flushed is told how long each flush took.
	flushed func(took time.Duration)
	spare   *spare
	failed  atomic.Pointer[error]
}

// err returns the first failure.
func (f *logFiles) err() error {
	if failure := f.failed.Load(); failure != nil {
		return *failure
	}
	return nil
}

func (f *logFiles) fail(what, path string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %s: %w: %w", what, path, ErrStorage, err)
	f.failed.CompareAndSwap(nil, &err)
	return err
}

// ListDir implements types.VFS.
func (f *logFiles) ListDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list log files: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Create implements types.VFS: the blocks are reserved at once, so that a full disk shows here and appending needs no
// allocation.
func (f *logFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	flags := os.O_RDWR
	spared := f.spare.take(path, int64(size))
	if !spared {
		flags |= os.O_CREATE | os.O_EXCL
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, f.fail("create log file", path, err)
	}
	if spared {
		return &logFile{File: file, files: f, dir: dir, size: int64(size), fresh: true}, nil
	}
	if err := reserve(file, int64(size)); err != nil {
		closeErr := file.Close()
		removeErr := os.Remove(path)
		return nil, f.fail("reserve log file", path, errors.Join(err, closeErr, removeErr))
	}
	return &logFile{File: file, files: f, dir: dir, size: int64(size), fresh: true}, nil
}

func reserve(file *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return file.Truncate(size)
	}
	return err
}

// Delete implements types.VFS.
func (f *logFiles) Delete(dir, name string) error {
	f.faults("gc.before_unlink")
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("delete log file: %w", err)
	}
	f.faults("gc.after_unlink")
	return syncDir(dir)
}

// OpenReader implements types.VFS.
func (f *logFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	return file, nil
}

// OpenWriter implements types.VFS.
func (f *logFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", errors.Join(err, file.Close()))
	}
	return &logFile{File: file, files: f, dir: dir, size: info.Size()}, nil
}

// logFiler makes the log store write our codec's number into the heads of new files. v0.4.1 writes that of its own codec,
// and then refuses to open them with ours.
type logFiler struct{ *segment.Filer }

// Create implements types.SegmentFiler.
func (f logFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = recordCodecID
	return f.Filer.Create(info)
}

// logFile is a log file that is appended to, by one goroutine at a time.
type logFile struct {
	*os.File
	files *logFiles
	dir   string
	size  int64
	// fresh says that the directory does not hold the file durably yet.
	fresh bool
}

// WriteAt implements types.WritableFile.
func (f *logFile) WriteAt(data []byte, offset int64) (int, error) {
	if err := f.files.err(); err != nil {
		return 0, err
	}
	n, err := f.File.WriteAt(data, offset)
	if float64(offset) >= spareShare*float64(f.size) {
		f.files.spare.prepare(f.size)
	}
	f.files.faults("log.appended")
	return n, f.files.fail("append to log file", f.Name(), err)
}

// Sync implements types.WritableFile.
func (f *logFile) Sync() error {
	if err := f.files.err(); err != nil {
		return err
	}
	began := time.Now()
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return f.files.fail("flush log file", f.Name(), err)
	}
	f.files.flushed(time.Since(began))
	if f.fresh {
		if err := syncDir(f.dir); err != nil {
			return f.files.fail("flush log file", f.Name(), err)
		}
		f.fresh = false
	}
	f.files.faults("log.flushed")
	return nil
}
