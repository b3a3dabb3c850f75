package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// damaged builds a directory with tables, logs and buckets that was not closed, changes it, and returns what Open says.
func damagedStore(t *testing.T) (files image, w *world, o Options) {
	t.Helper()
	o = quiet(t.TempDir())
	o.BucketBytes = 10_000
	w = newWorld(6)
	s := mustOpen(t, o)
	w.run(t, s, 30)
	mustClose(t, s) // everything so far goes to tables
	s = mustOpen(t, o)
	w.run(t, s, 60)
	durable(t, s)
	w.run(t, s, 70)
	files = takeImage(t, o.Dir)
	mustClose(t, s)
	return files, w, o
}

func (i image) find(t *testing.T, pattern string) string {
	t.Helper()
	for name := range i {
		if ok, err := filepath.Match(pattern, name); err != nil {
			t.Fatal(err)
		} else if ok && i[name].size > 0 {
			return name
		}
	}
	t.Fatalf("no file %s", pattern)
	return ""
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b [1]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := file.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedDirectoryIsRefusedByName(t *testing.T) {
	files, w, o := damagedStore(t)
	table := files.find(t, "main/*.sst")
	log := files.find(t, "main/*.mem")
	var live string
	for _, chunk := range w.history[60].chunks {
		live = filepath.Join(bucketsName, fmt.Sprintf("%08d", chunk.ref.Bucket))
	}
	cut := func(name string, by int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, name), max(0, files[name].size-by)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	flipAt := func(name string, at int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) { flip(t, filepath.Join(dir, name), at) }
	}
	tests := map[string]struct {
		damage func(*testing.T, string)
		names  string
	}{
		"table: flipped bit in a block": {flipAt(table, 50), table},
		"table: flipped bit in index":   {flipAt(table, files[table].size-60), table},
		"table: flipped last byte":      {flipAt(table, files[table].size-1), table},
		"table: cut":                    {cut(table, 100), table},
		"table: empty":                  {cut(table, 1<<40), table},
		"table: missing":                {remove(table), table},
		"log: flipped bit":              {flipAt(log, 5_000), "main"},
		"log: flipped first record":     {flipAt(log, logHeaderBytes+4), "main"},
		"log: empty":                    {cut(log, 1<<40), "main"},
		"log: missing":                  {remove(log), "main"},
		"manifest: flipped bit":         {flipAt("main/MANIFEST", 20), "main/MANIFEST"},
		"manifest: missing":             {remove("main/MANIFEST"), "main/MANIFEST"},
		"main: missing":                 {remove("main"), "main/MANIFEST"},
		"bucket: missing":               {remove(live), live},
		"bucket: manifest missing":      {remove(filepath.Join(live, "MANIFEST")), live},
		"durable record: missing":       {remove(durableFile), durableFile},
		"durable record: flipped bit":   {flipAt(durableFile, 20), durableFile},
		"durable record: empty":         {cut(durableFile, 1<<40), durableFile},
		"foreign file among buckets": {func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, bucketsName, "notes"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "notes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Dir = files.write(t)
			test.damage(t, o.Dir)
			// Refusing must not destroy the evidence: the second attempt refuses as well.
			for range 2 {
				s, err := Open(o)
				if err == nil {
					mustClose(t, s)
					t.Fatal("damage was not noticed")
				}
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.names) {
					t.Fatalf("error does not name %s: %v", test.names, err)
				}
			}
		})
	}
	o.Dir = files.write(t)
	s := mustOpen(t, o)
	w.run(t, s, 70)
	w.checkView(t, s)
	mustClose(t, s)
}

func TestDamageAboveTheDurablePointIsRepairedByTheReplay(t *testing.T) {
	files, w, o := damagedStore(t)
	log := files.find(t, "main/*.mem")
	end := int64(0)
	for at := range files[log].pages {
		end = max(end, at)
	}
	o.Dir = files.write(t)
	flip(t, filepath.Join(o.Dir, log), end+1)
	s := mustOpen(t, o)
	if index, _ := s.Applied(); index != 60 {
		t.Fatalf("applied %d", index)
	}
	w.checkView(t, s)
	w.run(t, s, 75)
	w.checkView(t, s)
	mustClose(t, s)
}

func TestFlippedBitIsMetWhileReading(t *testing.T) {
	o := quiet(t.TempDir())
	o.BucketBytes = 10_000
	s := mustOpen(t, o)
	b := s.Begin(1, 1)
	b.Put([]byte("row"), []byte(strings.Repeat("value", 100)))
	ref := b.SetChunk(b.ReserveChunk(), []byte(strings.Repeat("chunk", 100)))
	commit(t, s, b)
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	v := s.View()
	defer v.Close()
	if err := readable(v, ref); err != nil {
		t.Fatal(err)
	}
	flipText(t, o.Dir, "main/*.sst", "valuevalue")
	flipText(t, o.Dir, "buckets/*/*.vlog", "chunkchunk")
	if _, err := v.Get([]byte("row")); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("get: %v", err)
	}
	if err := v.Scan(nil, nil, func(_, _ []byte) bool { return true }); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("scan: %v", err)
	}
	if err := v.ScanReverse(nil, nil, func(_, _ []byte) bool { return true }); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("reverse scan: %v", err)
	}
	if err := readable(v, ref); !errors.Is(err, ErrCorrupt) || !strings.HasPrefix(err.Error(), "store checksum mismatch") {
		t.Fatalf("chunk: %v", err)
	}
	if n := s.Usage().Corruptions; n != 4 {
		t.Fatalf("%d corruptions counted, want 4", n)
	}
}

// flipText changes a bit in the first occurrence of text in the files that match.
func flipText(t *testing.T, dir, pattern, text string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := strings.Index(string(content), text); at >= 0 {
			flip(t, name, int64(at+2))
			return
		}
	}
	t.Fatalf("%q is in none of %v", text, names)
}

func TestCutFileIsAnErrorAndNotTheEndOfTheProcess(t *testing.T) {
	o := quiet(t.TempDir())
	s := mustOpen(t, o)
	b := s.Begin(1, 1)
	ref := b.SetChunk(b.ReserveChunk(), make([]byte, 100_000))
	commit(t, s, b)
	mustClose(t, s)
	s = mustOpen(t, o)
	v := s.View()
	if err := readable(v, ref); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(o.Dir, bucketsName, "*", "000001.vlog"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	if err := os.Truncate(logs[0], 10); err != nil {
		t.Fatal(err)
	}
	if err := readable(v, ref); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("chunk: %v", err)
	}
	v.Close()
	mustClose(t, s)
}
