package powercut

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// writebackEvery is the pause between two ranges.
	writebackEvery = 5 * time.Millisecond
	// writebackMaxBytes bounds one range.
	writebackMaxBytes = 256 << 10
)

// writeBack starts the write-out of random ranges of random files under dir until the context ends, as memory
// pressure does. It forces nothing: no journal commit, no size, no name.
func writeBack(ctx context.Context, dir string, random *rand.Rand) {
	pace := time.NewTicker(writebackEvery)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if files := regularFiles(dir); len(files) > 0 {
			writeOut(files[random.IntN(len(files))], random)
		}
	}
}

// writeOut ignores failures: the broker may have removed the file, and the power may be gone.
func writeOut(path string, random *rand.Rand) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	from := random.Int64N(info.Size())
	_ = unix.SyncFileRange(int(file.Fd()), from, 1+random.Int64N(writebackMaxBytes), unix.SYNC_FILE_RANGE_WRITE)
}

// regularFiles lists what can be listed: the directory changes all the time.
func regularFiles(dir string) []string {
	var files []string
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	return files
}
