package store

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// fill commits one entry with one chunk of n bytes.
func fill(t testing.TB, s *Store, index uint64, n int) ChunkRef {
	t.Helper()
	b := s.Begin(index, 1)
	ref := b.SetChunk(b.ReserveChunk(), bytes.Repeat([]byte{byte(index)}, n))
	b.Put(fmt.Appendf(nil, "c%d", index), ref.Append(nil))
	commit(t, s, b)
	return ref
}

func release(t testing.TB, s *Store, index uint64, refs ...ChunkRef) {
	t.Helper()
	b := s.Begin(index, 1)
	for _, ref := range refs {
		b.ReleaseChunk(ref)
	}
	commit(t, s, b)
}

func readable(r Reader, ref ChunkRef) error { return r.Chunk(ref, func([]byte) error { return nil }) }

func bucketDirs(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, bucketsName))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func bucketOptionsForTest(t testing.TB) Options {
	o := testOptions(t, t.TempDir())
	o.BucketBytes = 10_000
	o.HousekeepingEvery = 2 * time.Millisecond
	return o
}

func TestBucketIsCutWhereReplicatedBytesSay(t *testing.T) {
	o := bucketOptionsForTest(t)
	s := mustOpen(t, o)
	sizes := []int{9_999, 1, 5_000, 30_000, 1, 0, 9_999, 1, 1}
	want := []uint32{1, 1, 2, 2, 3, 3, 3, 4, 4}
	var got []uint32
	for i, n := range sizes {
		if i == 4 {
			mustClose(t, s) // the cut does not depend on restarts
			s = mustOpen(t, o)
		}
		b := s.Begin(uint64(i+1), 1)
		decided := b.Bucket()
		b.Discard()
		ref := fill(t, s, uint64(i+1), n)
		if ref.Bucket != decided {
			t.Fatalf("entry %d announced bucket %d and wrote to %d", i+1, decided, ref.Bucket)
		}
		got = append(got, ref.Bucket)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("buckets %v, want %v", got, want)
	}
	mustClose(t, s)
}

func TestDeadBucketIsDroppedOnlyAfterTheDurablePointAndTheLastView(t *testing.T) {
	o := bucketOptionsForTest(t)
	s := mustOpen(t, o)
	defer mustClose(t, s)
	first := fill(t, s, 1, 10_000)
	fill(t, s, 2, 10_000)
	durable(t, s)
	old := s.View()
	release(t, s, 3, first)
	exists := func() bool { return slices.Contains(bucketDirs(t, o.Dir), "00000001") }
	if s.Usage().Buckets != 1 {
		t.Fatalf("accounting still has the dead bucket: %+v", s.Usage())
	}
	s.buckets.nudge()
	if err := readable(old, first); err != nil {
		t.Fatalf("view before the release: %v", err)
	}
	if !exists() {
		t.Fatal("dropped before the durable point")
	}
	durable(t, s)
	// The view still reads at 2. Wait until the housekeeper has surely looked.
	for range 2 {
		s.buckets.wake <- struct{}{} // goes through when the housekeeper has taken the one before
	}
	s.buckets.wake <- struct{}{}
	if err := readable(old, first); err != nil || !exists() {
		t.Fatalf("dropped under a view: %v", err)
	}
	old.Close()
	eventually(t, "the dead bucket is dropped", func() bool { return !exists() })
	v := s.View()
	defer v.Close()
	if err := readable(v, first); err == nil {
		t.Fatal("a dropped chunk can be read")
	}
}

func TestFullBucketsAreSealedBehindTheNewestTwo(t *testing.T) {
	o := bucketOptionsForTest(t)
	s := mustOpen(t, o)
	var refs []ChunkRef
	for i := uint64(1); i <= 8; i++ {
		refs = append(refs, fill(t, s, i, 10_000))
	}
	sealed := func() (ids []uint32) {
		s.buckets.mu.Lock()
		defer s.buckets.mu.Unlock()
		for id, b := range s.buckets.byID {
			if b.sealed {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return ids
	}
	eventually(t, "buckets 1 to 5 are sealed", func() bool { return slices.Equal(sealed(), []uint32{1, 2, 3, 4, 5}) })
	v := s.View()
	for _, ref := range refs {
		if err := readable(v, ref); err != nil {
			t.Fatal(err)
		}
	}
	v.Close()
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if got := sealed(); !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
		t.Fatalf("sealed after a restart: %v", got)
	}
	v = s.View()
	defer v.Close()
	for _, ref := range refs {
		if err := readable(v, ref); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenSealedBucketsAreBounded(t *testing.T) {
	o := bucketOptionsForTest(t)
	s := mustOpen(t, o)
	defer mustClose(t, s)
	var refs []ChunkRef
	const buckets = maxSealedOpen + 12
	for i := uint64(1); i <= buckets; i++ {
		refs = append(refs, fill(t, s, i, 10_000))
	}
	v := s.View()
	defer v.Close()
	for range 2 {
		for _, ref := range refs {
			if err := readable(v, ref); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "old sealed buckets are closed again", func() bool {
		return s.Usage().OpenBuckets <= maxSealedOpen+keptUnsealed+2
	})
}

func TestReadersAreServedWhileBucketsAreSealedAndDropped(t *testing.T) {
	o := bucketOptionsForTest(t)
	s := mustOpen(t, o)
	defer mustClose(t, s)
	var mu sync.Mutex
	live := map[uint64]ChunkRef{}
	quit := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				v := s.View()
				mu.Lock()
				refs := slices.Collect(maps.Values(live))
				mu.Unlock()
				for _, ref := range refs {
					if ref.Entry > v.Index() {
						continue
					}
					// The view may be newer than the list: what was released since may be gone.
					if row, err := v.Get(fmt.Appendf(nil, "c%d", ref.Entry)); err != nil {
						t.Errorf("get: %v", err)
					} else if row == nil {
						continue
					}
					if err := readable(v, ref); err != nil {
						t.Errorf("%s in a view at %d: %v", ref, v.Index(), err)
					}
				}
				v.Close()
			}
		})
	}
	for i := uint64(1); i <= 150; i++ {
		b := s.Begin(i, 1)
		ref := b.SetChunk(b.ReserveChunk(), make([]byte, 4_000))
		b.Put(fmt.Appendf(nil, "c%d", i), ref.Append(nil))
		mu.Lock()
		old, ok := live[i-20]
		mu.Unlock()
		if ok {
			b.ReleaseChunk(old)
			b.Delete(fmt.Appendf(nil, "c%d", i-20))
		}
		commit(t, s, b)
		mu.Lock()
		live[i] = ref
		delete(live, i-20)
		mu.Unlock()
		if i%10 == 0 {
			durable(t, s)
		}
	}
	close(quit)
	readers.Wait()
	eventually(t, "dead buckets are dropped", func() bool { return len(bucketDirs(t, o.Dir)) < 16 })
}

func TestReplayUnsealsABucketThatWasSealedBeyondTheDurablePoint(t *testing.T) {
	o := bucketOptionsForTest(t)
	s := mustOpen(t, o)
	fill(t, s, 1, 5_000)
	durable(t, s)
	for i := uint64(2); i <= 9; i++ {
		fill(t, s, i, 10_000)
	}
	mark := filepath.Join(o.Dir, bucketsName, "00000001", sealedMark)
	eventually(t, "bucket 1 is sealed", func() bool { _, err := os.Stat(mark); return err == nil })
	killed := takeImage(t, o.Dir)
	mustClose(t, s)

	o.Dir = killed.write(t)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if index, _ := s.Applied(); index != 1 {
		t.Fatalf("applied %d, want 1", index)
	}
	if got := bucketDirs(t, o.Dir); !slices.Equal(got, []string{"00000001"}) {
		t.Fatalf("buckets %v, want only what the durable state refers to", got)
	}
	for i := uint64(2); i <= 9; i++ {
		ref := fill(t, s, i, 10_000)
		v := s.View()
		if err := readable(v, ref); err != nil {
			t.Fatal(err)
		}
		v.Close()
	}
}
