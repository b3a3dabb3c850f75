package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// receive writes all parts of an export into dir, as a transfer does.
func receive(e *Export, dir string) error {
	for {
		name, size, err := e.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := receivePart(e, filepath.Join(dir, name), size); err != nil {
			return err
		}
	}
}

func receivePart(e *Export, path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	piece := make([]byte, min(1+size/7, 1<<20))
	for at := int64(0); at < size; {
		n, err := e.ReadAt(piece, at)
		if n == 0 {
			return err
		}
		if _, err := file.WriteAt(piece[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	if _, err := e.Sum(); err != nil {
		return err
	}
	return file.Sync()
}

func mustExport(t testing.TB, s *Store) *Export {
	t.Helper()
	e, err := s.Export()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// exported brings the present state of a store into a new staging directory.
func exported(t testing.TB, s *Store) string {
	t.Helper()
	dir := t.TempDir()
	e := mustExport(t, s)
	if err := errors.Join(receive(e, dir), e.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install imports a staging directory into an empty place and opens it.
func install(t testing.TB, staging string, o Options) (*Store, Imported) {
	t.Helper()
	imported, err := Import(t.Context(), staging, []byte("members"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := Activate(staging, o); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, o), imported
}

func stateHashNow(t testing.TB, s *Store) string {
	t.Helper()
	v := s.View()
	defer v.Close()
	sum, err := s.StateHash(v)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}

// TestExportIsTheStateAtOneIndex exports while entries are committed, durable points taken, buckets sealed and dropped;
// the export, imported elsewhere, is exactly the state of the model at its index, and goes on from there like the source
// did.
func TestExportIsTheStateAtOneIndex(t *testing.T) {
	for _, seed := range campaign(t, "STORE_EXPORTS", 4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 4))
			entries := 2 + random.Uint64N(100)
			at := 1 + random.Uint64N(entries)
			o := testOptions(t, t.TempDir())
			o.BucketBytes, o.HousekeepingEvery = 10_000+random.Int64N(50_000), 1e6
			s := mustOpen(t, o)
			w := newWorld(seed)
			w.run(t, s, at)
			e := mustExport(t, s)
			want := stateHashNow(t, s)
			staging := t.TempDir()
			var reading sync.WaitGroup
			var received error
			reading.Go(func() { received = receive(e, staging) })
			for i := at + 1; i <= entries; i++ {
				w.run(t, s, i)
				if i%7 == 0 {
					durable(t, s)
				}
			}
			reading.Wait()
			if err := errors.Join(received, e.Close()); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)

			o.Dir = filepath.Join(t.TempDir(), "store")
			copied, imported := install(t, staging, o)
			if imported.Index != at || imported.Term != at/10+1 {
				t.Fatalf("imported entry %d of term %d, want %d", imported.Index, imported.Term, at)
			}
			if hash := stateHashNow(t, copied); hash != want || hash != imported.StateHash {
				t.Fatalf("hash %s, source %s, manifest %s", hash, want, imported.StateHash)
			}
			w.checkView(t, copied)
			w.run(t, copied, w.last())
			w.checkView(t, copied)
			mustClose(t, copied)
			copied = mustOpen(t, o)
			w.checkView(t, copied)
			mustClose(t, copied)
		})
	}
}

// campaign returns seeds: a few fixed ones, or as many random ones as the environment variable says.
func campaign(t *testing.T, variable string, few int) []uint64 {
	t.Helper()
	rounds, first := few, uint64(1)
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds, first = n, rand.Uint64()
	}
	seeds := make([]uint64, rounds)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// exportSource is a store with a sealed, a full and an open bucket.
func exportSource(t *testing.T, o Options) (*Store, *world) {
	t.Helper()
	o.BucketBytes = 40_000
	o.HousekeepingEvery = 1e6
	s := mustOpen(t, o)
	w := newWorld(11)
	w.run(t, s, 60)
	durable(t, s)
	eventually(t, "a live bucket is sealed", func() bool {
		return slices.ContainsFunc(s.ledger.ids(), s.buckets.isSealed)
	})
	return s, w
}

func manifestOf(t testing.TB, staging string) *Manifest {
	t.Helper()
	m, err := ReadManifest(staging)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestExportHasPartsOfEveryKindThatVerify(t *testing.T) {
	s, _ := exportSource(t, testOptions(t, t.TempDir()))
	defer mustClose(t, s)
	staging := exported(t, s)
	kinds := map[string]int{}
	for _, part := range manifestOf(t, staging).Parts {
		if err := VerifyPart(staging, part); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"main-", "-blocks-", "-file-MANIFEST", ".vlog", ".sst"} {
			if strings.Contains(part.Name, kind) {
				kinds[kind]++
			}
		}
	}
	if len(kinds) != 5 {
		t.Fatalf("parts by kind: %v", kinds)
	}
}

// TestExportHoldsOnlyWhatItStillReads: old versions of main are held until main has been read, the buckets of the state
// until the end, and buckets born later never.
func TestExportHoldsOnlyWhatItStillReads(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.BucketBytes, o.HousekeepingEvery = 1000, 1e6
	s := mustOpen(t, o)
	defer mustClose(t, s)
	index := uint64(0)
	write := func(data byte) ChunkRef {
		index++
		b := s.Begin(index, 1)
		ref := b.SetChunk(b.ReserveChunk(), bytes.Repeat([]byte{data}, 1000))
		b.Put([]byte("k"), []byte{data})
		commit(t, s, b)
		return ref
	}
	free := func(refs ...ChunkRef) {
		index++
		b := s.Begin(index, 1)
		for _, ref := range refs {
			b.ReleaseChunk(ref)
		}
		commit(t, s, b)
	}
	gone := func(ref ChunkRef) bool {
		_, err := os.Stat(s.buckets.path(ref.Bucket))
		return os.IsNotExist(err)
	}
	held := write(1)
	e := mustExport(t, s)
	later := write(2)
	write(3)
	free(held, later)
	durable(t, s)
	if floor := s.horizon.floor(); floor != e.Index() {
		t.Fatalf("floor %d, export at %d", floor, e.Index())
	}
	if name, _, err := e.Next(); err != nil || name != "main-00000001" {
		t.Fatal(name, err)
	}
	if name, _, err := e.Next(); err != nil || !strings.HasPrefix(name, "bucket-") {
		t.Fatal(name, err)
	}
	eventually(t, "the bucket born after the export is dropped", func() bool { return gone(later) })
	if floor := s.horizon.floor(); floor != index {
		t.Fatalf("floor %d after main was read, committed %d", floor, index)
	}
	if gone(held) {
		t.Fatal("a bucket of the export was dropped")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bucket of the export is dropped", func() bool { return gone(held) })
	if _, _, err := e.Next(); !errors.Is(err, ErrClosed) {
		t.Fatalf("next after close: %v", err)
	}
}

// TestKillDuringExportLeavesNothing: an export is nothing on the disk of its source.
func TestKillDuringExportLeavesNothing(t *testing.T) {
	for _, point := range []string{FaultExportSealed, FaultExportBuilt} {
		t.Run(point, func(t *testing.T) {
			o := testOptions(t, t.TempDir())
			var left image
			o.Faults = func(passed string) {
				if passed == point {
					left = takeImage(t, o.Dir)
				}
			}
			s, w := exportSource(t, o)
			exported(t, s)
			mustClose(t, s)
			for name := range left {
				if top, _, _ := strings.Cut(name, "/"); top != mainName && top != bucketsName && top != durableFile {
					t.Errorf("%s is left", name)
				}
			}
			o.Dir, o.Faults = left.write(t), nil
			s = mustOpen(t, o)
			w.checkView(t, s)
			mustClose(t, s)
		})
	}
}

func TestExportOfNothingIsRefused(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer mustClose(t, s)
	if _, err := s.Export(); err == nil {
		t.Fatal("an empty store was exported")
	}
	if n := s.Usage().OpenViews; n != 0 {
		t.Fatalf("%d views are left", n)
	}
}

// TestDamageOfAnyPartIsFound flips a bit in each part, cuts it, or removes it.
func TestDamageOfAnyPartIsFound(t *testing.T) {
	o := quiet(t.TempDir())
	s, w := exportSource(t, o)
	staging := exported(t, s)
	mustClose(t, s)
	o.Dir = filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(5, 5))
	for i, part := range append(slices.Clone(manifestOf(t, staging).Parts), Part{Name: ManifestName}) {
		path := filepath.Join(staging, part.Name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(whole)
		flipped[random.IntN(len(whole))] ^= 1 << random.IntN(8)
		damage := []struct {
			what    string
			content []byte
		}{{"flipped bit", flipped}, {"cut", whole[:len(whole)-1]}, {"missing", nil}}
		for j, d := range damage {
			replace(t, path, d.content)
			if part.Name != ManifestName {
				if err := VerifyPart(staging, part); !errors.Is(err, ErrImport) {
					t.Fatalf("%s in %s: verify: %v", d.what, part.Name, err)
				}
			}
			if j != i%len(damage) { // an import costs much more than a checksum
				continue
			}
			if _, err := Import(t.Context(), staging, nil, o); err == nil {
				t.Fatalf("%s in %s was not noticed by the import", d.what, part.Name)
			}
		}
		replace(t, path, whole)
	}
	s, _ = install(t, staging, o)
	w.checkView(t, s)
	mustClose(t, s)
}

// replace puts a new file, nil for none, in the place of one that may be linked to elsewhere.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if content == nil {
		return
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHostileManifestIsRefused(t *testing.T) {
	good := Part{Name: "main-00000001", Bytes: 1}
	tests := map[string]Manifest{
		"format":             {Format: 2, Index: 1, Parts: []Part{good}},
		"no index":           {Format: 1, Parts: []Part{good}},
		"path":               {Format: 1, Index: 1, Parts: []Part{{Name: "../main-00000001"}}},
		"path in a bucket":   {Format: 1, Index: 1, Parts: []Part{{Name: "bucket-00000001-file-../../x.sst"}}},
		"foreign file":       {Format: 1, Index: 1, Parts: []Part{{Name: "bucket-00000001-file-SEALED"}}},
		"twice":              {Format: 1, Index: 1, Parts: []Part{good, good}},
		"gap":                {Format: 1, Index: 1, Parts: []Part{{Name: "main-00000002"}}},
		"main after buckets": {Format: 1, Index: 1, Parts: []Part{{Name: "bucket-00000001-blocks-00000001"}, good}},
		"falling buckets": {Format: 1, Index: 1, Parts: []Part{
			{Name: "bucket-00000002-blocks-00000001"}, {Name: "bucket-00000001-blocks-00000001"}}},
		"files and blocks": {Format: 1, Index: 1, Parts: []Part{
			{Name: "bucket-00000001-blocks-00000001"}, {Name: "bucket-00000001-file-MANIFEST"}}},
		"blocks and files": {Format: 1, Index: 1, Parts: []Part{
			{Name: "bucket-00000001-file-MANIFEST"}, {Name: "bucket-00000001-blocks-00000001"}}},
		"negative size":  {Format: 1, Index: 1, Parts: []Part{{Name: "main-00000001", Bytes: -1}}},
		"huge part":      {Format: 1, Index: 1, Parts: []Part{{Name: "main-00000001", Bytes: maxFramePartBytes + 1}}},
		"huge file":      {Format: 1, Index: 1, Parts: []Part{{Name: "bucket-00000001-file-000001.vlog", Bytes: 1 << 40}}},
		"too many parts": {Format: 1, Index: 1, Parts: make([]Part, MaxExportParts+1)},
	}
	for name, manifest := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := manifest.plan(); !errors.Is(err, ErrImport) {
				t.Fatalf("plan: %v", err)
			}
		})
	}
	if err := VerifyPart(t.TempDir(), Part{Name: "../" + ManifestName}); !errors.Is(err, ErrImport) {
		t.Fatalf("verify a path: %v", err)
	}
}

func FuzzNextFrame(f *testing.F) {
	f.Add(appendFrame(nil, []byte("key"), []byte("value")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		key, value, rest, err := nextFrame(data)
		if err != nil {
			return
		}
		k, v, r, err := nextFrame(append(appendFrame(nil, key, value), rest...))
		if err != nil || !bytes.Equal(k, key) || !bytes.Equal(v, value) || !bytes.Equal(r, rest) {
			t.Fatalf("frame of %x and %x does not come back: %v", key, value, err)
		}
	})
}

// TestImportGoesOnAfterAFullDisk: a failed import leaves the parts as they are.
func TestImportGoesOnAfterAFullDisk(t *testing.T) {
	o := quiet(t.TempDir())
	s, w := exportSource(t, o)
	staging := exported(t, s)
	mustClose(t, s)
	o.Dir = filepath.Join(t.TempDir(), "store")
	o.ReserveBytes = 1 << 60
	if _, err := Import(t.Context(), staging, nil, o); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("import: %v", err)
	}
	if err := Activate(staging, o); !errors.Is(err, ErrImport) {
		t.Fatalf("activate what is not whole: %v", err)
	}
	o.ReserveBytes = 0
	s, _ = install(t, staging, o)
	w.checkView(t, s)
	mustClose(t, s)
}

func TestInstallationIsKnownUntilItIsAcknowledged(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s, _ := exportSource(t, o)
	staging := exported(t, s)
	mustClose(t, s)
	o.Dir = filepath.Join(t.TempDir(), "store")
	s, imported := install(t, staging, o)
	defer mustClose(t, s)
	for range 2 {
		got, ok, err := Installed(o.Dir)
		if err != nil || !ok || got.Index != imported.Index || got.Term != imported.Term ||
			got.StateHash != imported.StateHash || string(got.Meta) != "members" {
			t.Fatalf("installed %+v %t %v, imported %+v", got, ok, err, imported)
		}
	}
	for range 2 {
		if err := ForgetInstalled(o.Dir); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := Installed(o.Dir); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if err := os.WriteFile(filepath.Join(o.Dir, installedFile), []byte(`{"format":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Installed(o.Dir); !errors.Is(err, ErrDamaged) {
		t.Fatalf("damaged record: %v", err)
	}
}

func TestCleanStagingRemovesLeftOvers(t *testing.T) {
	dir := t.TempDir()
	if err := CleanStaging(filepath.Join(dir, "missing")); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		path := filepath.Join(dir, fmt.Sprint(i), "store", "main")
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := CleanStaging(dir); err != nil {
		t.Fatal(err)
	}
	if left := listing(t, dir); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Fatal(entries, err)
	}
}
