package store

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	pageBytes   = 4096
	sectorBytes = 512
)

// fileImage is the content of a file; pages that are missing are zero.
type fileImage struct {
	size  int64
	pages map[int64][]byte
}

// image is a copy of a directory, by path below it.
type image map[string]fileImage

// takeImage copies a live directory as a kill would leave it: the page cache survives. It tries again when files come or
// go meanwhile, for such a copy would show a state that never was.
func takeImage(t testing.TB, dir string) image {
	t.Helper()
	for range 500 {
		before := listing(t, dir)
		files := image{}
		whole := true
		for name := range before {
			file, err := readSparse(filepath.Join(dir, name))
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO) { // it was removed, or cut, in between
				whole = false
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files[name] = file
		}
		if whole && maps.Equal(before, listing(t, dir)) {
			return files
		}
	}
	t.Fatal("the directory never stood still")
	return nil
}

// listing maps names to sizes.
func listing(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	names := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names[name] = info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readSparse(path string) (fileImage, error) {
	file, err := os.Open(path)
	if err != nil {
		return fileImage{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileImage{}, err
	}
	image := fileImage{size: info.Size(), pages: map[int64][]byte{}}
	var zero [pageBytes]byte
	for at := int64(0); at < image.size; {
		data, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return fileImage{}, err
		}
		hole, err := unix.Seek(int(file.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return fileImage{}, err
		}
		for at = data / pageBytes * pageBytes; at < hole; at += pageBytes {
			page := make([]byte, pageBytes)
			n, err := file.ReadAt(page, at)
			if err != nil && !errors.Is(err, io.EOF) {
				return fileImage{}, err
			}
			if !bytes.Equal(page, zero[:]) {
				image.pages[at] = page[:n:n]
			}
		}
	}
	return image, nil
}

// write puts the image into a new directory.
func (i image) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, file := range i {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Truncate(file.size); err != nil {
			t.Fatal(err)
		}
		for at, page := range file.pages {
			if at < file.size {
				if _, err := out.WriteAt(page[:min(int64(len(page)), file.size-at)], at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// powerCut is what a power cut may leave of a directory that looked like now in the page cache, when everything in
// synced is known to be on the disk. Files that Badger or the store fsyncs before anything depends on them are as they
// are now. Of logs, each page that changed since may be old, new, or torn at a sector. Files that are new and were not
// fsynced may be missing or empty; files that were removed may be back.
//
// It assumes a journaling file system: a removal never reaches the disk before the fsyncs that came before it.
func powerCut(random *rand.Rand, synced, now image) image {
	after := image{}
	lostDirs := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		dir := filepath.Dir(name)
		if isBucket(dir) && !has(synced, dir) {
			lost, decided := lostDirs[dir]
			if !decided {
				lost = random.IntN(3) == 0
				lostDirs[dir] = lost
			}
			if lost {
				continue
			}
		}
		file := now[name]
		old, existed := synced[name]
		_, sealed := now[filepath.Join(dir, sealedMark)]
		switch {
		case !isLog(name) || sealed:
			after[name] = file
		case !existed && random.IntN(4) == 0: // its directory entry is lost
		case !existed && random.IntN(4) == 0:
			after[name] = fileImage{}
		default:
			after[name] = mixPages(random, old, file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(synced)) {
		dir := filepath.Dir(name)
		if _, ok := now[name]; ok {
			continue
		}
		_, sealed := now[filepath.Join(dir, sealedMark)] // the directory was fsynced before the mark was written
		if strings.HasSuffix(name, ".mem") && has(after, dir) && !sealed && random.IntN(2) == 0 {
			after[name] = synced[name]
		}
	}
	// A bucket that was dropped may be back as a whole.
	for _, name := range slices.Sorted(maps.Keys(synced)) {
		dir := filepath.Dir(name)
		if !isBucket(dir) || has(now, dir) {
			continue
		}
		back, decided := lostDirs["back "+dir]
		if !decided {
			back = random.IntN(2) == 0
			lostDirs["back "+dir] = back
		}
		if back {
			after[name] = synced[name]
		}
	}
	return after
}

func isLog(name string) bool {
	return strings.HasSuffix(name, ".mem") || strings.HasSuffix(name, ".vlog") || strings.HasSuffix(name, "DISCARD")
}

func isBucket(dir string) bool { return filepath.Dir(dir) == bucketsName }

func has(files image, dir string) bool {
	for name := range files {
		if filepath.Dir(name) == dir {
			return true
		}
	}
	return false
}

func mixPages(random *rand.Rand, old, now fileImage) fileImage {
	mixed := fileImage{size: now.size, pages: map[int64][]byte{}}
	var zero [pageBytes]byte
	page := func(of fileImage, at int64) []byte {
		if data, ok := of.pages[at]; ok {
			return append(bytes.Clone(data), zero[len(data):]...)
		}
		return zero[:]
	}
	lose := random.IntN(4) // of four pages, how many are old: from none to three
	offsets := map[int64]bool{}
	for at := range old.pages {
		offsets[at] = true
	}
	for at := range now.pages {
		offsets[at] = true
	}
	for _, at := range slices.Sorted(maps.Keys(offsets)) {
		before, after := page(old, at), page(now, at)
		result := after
		switch {
		case bytes.Equal(before, after):
		case random.IntN(4) < lose:
			result = before
		case random.IntN(4) == 0:
			result = bytes.Clone(after)
			for sector := 0; sector < pageBytes; sector += sectorBytes {
				if random.IntN(2) == 0 {
					copy(result[sector:sector+sectorBytes], before[sector:])
				}
			}
		}
		mixed.pages[at] = result
	}
	return mixed
}
