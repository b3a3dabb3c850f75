package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestStateSurvivesAnOrderlyStop(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.BucketBytes = 20_000
	w := newWorld(1)
	for _, last := range []uint64{40, 80, 81, 120} {
		s := mustOpen(t, o)
		w.checkView(t, s)
		w.run(t, s, last)
		w.checkView(t, s)
		mustClose(t, s)
		s = mustOpen(t, o)
		if index, term := s.Applied(); index != last || term != last/10+1 || s.Durable() != last {
			t.Fatalf("applied %d of term %d, durable %d, want %d", index, term, s.Durable(), last)
		}
		mustClose(t, s)
	}
}

func TestIndexesMayHaveGaps(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := mustOpen(t, o)
	for _, i := range []uint64{5, 6, 100, 1 << 40} {
		b := s.Begin(i, 3)
		b.Put([]byte("k"), fmt.Append(nil, i))
		commit(t, s, b)
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if index, _ := s.Applied(); index != 1<<40 {
		t.Fatalf("applied %d", index)
	}
}

func TestDoneIsCalledInOrderAndAfterTheViewCanSeeIt(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := mustOpen(t, o)
	defer mustClose(t, s)
	var next uint64 = 1
	var all sync.WaitGroup
	for i := uint64(1); i <= 200; i++ {
		b := s.Begin(i, 1)
		b.Put([]byte("k"), fmt.Append(nil, i))
		all.Add(1)
		s.Commit(b, func(err error) {
			defer all.Done()
			v := s.View()
			defer v.Close()
			if err != nil || i != next || v.Index() < i {
				t.Errorf("entry %d: err %v, expected %d, view at %d", i, err, next, v.Index())
			}
			next++
		})
	}
	all.Wait()
}

func TestCommitBlocksBeyondMaxUnflushed(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.MaxUnflushed = 3
	gate := make(chan struct{})
	o.Faults = func(point string) {
		if point == FaultBlockWritten {
			<-gate
		}
	}
	s := mustOpen(t, o)
	defer mustClose(t, s)
	handed := make(chan uint64, 10)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for i := uint64(1); i <= 5; i++ {
			b := s.Begin(i, 1)
			b.Put([]byte("k"), []byte("v"))
			s.Commit(b, func(error) {})
			handed <- i
		}
	}()
	for want := uint64(1); want <= 3; want++ {
		if got := <-handed; got != want {
			t.Fatalf("handed over %d, want %d", got, want)
		}
	}
	if u := s.Usage(); u.Unflushed != 3 {
		t.Fatalf("%d unflushed, want 3", u.Unflushed)
	}
	select {
	case i := <-handed:
		t.Fatalf("entry %d was handed over beyond the bound", i)
	default:
	}
	close(gate)
	<-finished
}

func TestBatchReadsItsOwnWritesThenUncommittedOnesThenMain(t *testing.T) {
	o := testOptions(t, t.TempDir())
	var once sync.Once
	gate := make(chan struct{})
	arrived := make(chan struct{})
	o.Faults = func(point string) {
		if point == FaultBlockWritten {
			once.Do(func() { close(arrived); <-gate })
		}
	}
	s := mustOpen(t, o)
	defer mustClose(t, s)
	w := newWorld(2)
	var all sync.WaitGroup
	for i := uint64(1); i <= 6; i++ {
		b := s.Begin(i, 1)
		w.check(t, b, i-1)
		w.apply(t, b)
		all.Add(1)
		s.Commit(b, func(err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
		if i == 1 {
			<-arrived // from here on nothing is committed
		}
	}
	b := s.Begin(7, 1)
	w.check(t, b, 6)
	v := s.View()
	if v.Index() != 0 {
		t.Fatalf("view at %d sees what is not committed", v.Index())
	}
	v.Close()
	close(gate)
	all.Wait()
	w.check(t, b, 6) // the batches below are committed now; the batch still sees the same
	w.apply(t, b)
	commit(t, s, b)
	w.checkView(t, s)
	if _, err := b.Get([]byte("k")); !errors.Is(err, ErrClosed) {
		t.Fatalf("a batch that is done was read: %v", err)
	}
}

func TestViewKeepsItsIndex(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.BucketBytes = 8_000
	o.HousekeepingEvery = 1e6
	s := mustOpen(t, o)
	defer mustClose(t, s)
	w := newWorld(3)
	var views []*View
	for i := uint64(1); i <= 120; i++ {
		w.run(t, s, i)
		if i%10 == 0 {
			views = append(views, s.View())
			durable(t, s)
		}
	}
	for _, v := range views {
		w.check(t, v, v.Index())
		v.Close()
		if _, err := v.Get([]byte("k")); !errors.Is(err, ErrClosed) {
			t.Fatalf("closed view was read: %v", err)
		}
	}
}

func TestRollbackUndoesEverythingSinceTheMark(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := mustOpen(t, o)
	defer mustClose(t, s)
	b := s.Begin(1, 1)
	b.Put([]byte("a"), []byte("1"))
	b.Put([]byte("b"), []byte("1"))
	reserved := b.ReserveChunk()
	first := b.SetChunk(b.ReserveChunk(), []byte("first"))
	before := b.Digest()
	mark := b.Mark()
	b.Put([]byte("a"), []byte("2"))
	b.Delete([]byte("b"))
	b.Put([]byte("c"), []byte("2"))
	b.Put([]byte("c"), []byte("3"))
	b.SetChunk(reserved, []byte("taken back"))
	b.SetChunk(first.Ordinal, []byte("replaced"))
	b.SetChunk(b.ReserveChunk(), []byte("gone"))
	b.ReleaseChunk(first)
	if b.Digest() == before {
		t.Fatal("digest does not see the changes")
	}
	b.Rollback(mark)
	if b.Digest() != before {
		t.Fatal("rollback left something behind")
	}
	var rows []string
	if err := b.Scan(nil, nil, func(key, value []byte) bool {
		rows = append(rows, string(key)+string(value))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rows, []string{"a1", "b1"}) {
		t.Fatalf("rows %v", rows)
	}
	if again := b.ReserveChunk(); again != 2 {
		t.Fatalf("ordinal %d after rollback, want 2", again)
	}
	commit(t, s, b)
	v := s.View()
	defer v.Close()
	for ordinal, want := range []string{"", "first", ""} {
		ref := ChunkRef{Bucket: first.Bucket, Entry: 1, Ordinal: uint32(ordinal), Bytes: uint32(len(want))}
		if err := v.Chunk(ref, func(chunk []byte) error {
			if string(chunk) != want {
				return fmt.Errorf("chunk %q, want %q", chunk, want)
			}
			return nil
		}); err != nil && want != "" {
			t.Fatal(err)
		}
	}
	if u := s.Usage(); u.LiveChunks != 1 || u.LiveChunkBytes != 5 {
		t.Fatalf("usage %+v", u)
	}
}

func TestEmptyValueIsNotMissing(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := mustOpen(t, o)
	defer mustClose(t, s)
	b := s.Begin(1, 1)
	b.Put([]byte("empty"), nil)
	if value, err := b.Get([]byte("empty")); value == nil || err != nil {
		t.Fatalf("%v, %v", value, err)
	}
	commit(t, s, b)
	v := s.View()
	defer v.Close()
	if value, err := v.Get([]byte("empty")); value == nil || len(value) != 0 || err != nil {
		t.Fatalf("%v, %v", value, err)
	}
	if value, err := v.Get([]byte("missing")); value != nil || err != nil {
		t.Fatalf("%v, %v", value, err)
	}
}

func TestLimitsFitIntoOneTransaction(t *testing.T) {
	o := testOptions(t, t.TempDir())
	s := mustOpen(t, o)
	defer mustClose(t, s)
	// Most keys, and all the bytes they may have.
	b := s.Begin(1, 1)
	value := make([]byte, MaxBatchBytes/MaxBatchKeys-17)
	for i := range MaxBatchKeys {
		b.Put(fmt.Appendf(nil, "%017d", i), value)
	}
	if keys, bytes, _ := b.Size(); keys != MaxBatchKeys || bytes > MaxBatchBytes || bytes < MaxBatchBytes-1024 {
		t.Fatalf("test does not reach the limits: %d keys, %d bytes", keys, bytes)
	}
	commit(t, s, b)
	// Largest values, and a block of nearly the largest size.
	b = s.Begin(2, 1)
	for i := range MaxBatchBytes / (MaxValueBytes + 1) {
		b.Put([]byte{'v', byte(i)}, make([]byte, MaxValueBytes))
	}
	ref := b.SetChunk(b.ReserveChunk(), bytes.Repeat([]byte{9}, MaxBlockBytes-100))
	commit(t, s, b)
	v := s.View()
	defer v.Close()
	if err := v.Chunk(ref, func(chunk []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestBatchBeyondTheLimitsIsRefusedAndStopsTheStore(t *testing.T) {
	tests := map[string]func(*Batch){
		"keys": func(b *Batch) {
			for i := range MaxBatchKeys + 1 {
				b.Put(fmt.Append(nil, i), nil)
			}
		},
		"bytes": func(b *Batch) {
			for i := range 5 {
				b.Put(fmt.Append(nil, i), make([]byte, MaxValueBytes))
			}
		},
		"value":     func(b *Batch) { b.Put([]byte("k"), make([]byte, MaxValueBytes+1)) },
		"key":       func(b *Batch) { b.Put(make([]byte, MaxKeyBytes+1), nil) },
		"empty key": func(b *Batch) { b.Put(nil, nil) },
		"block":     func(b *Batch) { b.SetChunk(b.ReserveChunk(), make([]byte, MaxBlockBytes)) },
	}
	for name, fill := range tests {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, quiet(t.TempDir()))
			b := s.Begin(1, 1)
			fill(b)
			if err := commitErr(s, b); !errors.Is(err, ErrTooBig) || !errors.Is(err, ErrStopped) {
				t.Fatalf("commit: %v", err)
			}
			b = s.Begin(2, 1)
			b.Put([]byte("k"), []byte("v"))
			if err := commitErr(s, b); !errors.Is(err, ErrStopped) {
				t.Fatalf("commit after the failure: %v", err)
			}
			if err := s.Close(); !errors.Is(err, ErrTooBig) {
				t.Fatalf("close: %v", err)
			}
		})
	}
}

func TestReleasingAChunkTwiceIsRefused(t *testing.T) {
	s := mustOpen(t, quiet(t.TempDir()))
	b := s.Begin(1, 1)
	ref := b.SetChunk(b.ReserveChunk(), []byte("x"))
	commit(t, s, b)
	b = s.Begin(2, 1)
	b.ReleaseChunk(ref)
	b.ReleaseChunk(ref)
	if err := commitErr(s, b); !errors.Is(err, ErrMisuse) {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil {
		t.Fatal("close of a failed store says that all is well")
	}
}

func TestFailedWriteStopsTheStoreUntilItIsOpenedAgain(t *testing.T) {
	disk := errors.New("disk is broken")
	for _, point := range []string{FaultBlockWritten, FaultStoreCommitted, FaultFilesSynced} {
		t.Run(point, func(t *testing.T) {
			o := quiet(t.TempDir())
			w := newWorld(4)
			armed := false
			o.failWrite = func(at string) error {
				if armed && at == point {
					return disk
				}
				return nil
			}
			s := mustOpen(t, o)
			w.run(t, s, 10)
			durable(t, s)
			w.run(t, s, 12)
			armed = true
			if point == FaultFilesSynced {
				if _, err := s.DurablePoint(); !errors.Is(err, disk) || !errors.Is(err, ErrStopped) {
					t.Fatal(err)
				}
			} else {
				b := s.Begin(13, 2)
				w.apply(t, b)
				if err := commitErr(s, b); !errors.Is(err, disk) || !errors.Is(err, ErrStopped) {
					t.Fatal(err)
				}
			}
			armed = false
			b := s.Begin(14, 2)
			if err := commitErr(s, b); !errors.Is(err, ErrStopped) {
				t.Fatalf("commit after the failure: %v", err)
			}
			if _, err := s.DurablePoint(); !errors.Is(err, ErrStopped) {
				t.Fatalf("durable point after the failure: %v", err)
			}
			v := s.View()
			if _, err := v.Get([]byte("k")); !errors.Is(err, ErrStopped) {
				t.Fatalf("read after the failure: %v", err)
			}
			v.Close()
			if err := s.Close(); !errors.Is(err, disk) {
				t.Fatalf("close: %v", err)
			}
			s = mustOpen(t, o)
			if index, _ := s.Applied(); index != 10 {
				t.Fatalf("applied %d after a failure, want the durable 10", index)
			}
			w.run(t, s, 20)
			w.checkView(t, s)
			mustClose(t, s)
		})
	}
}

func TestFullDiskIsAnErrorBeforeAnythingIsWritten(t *testing.T) {
	o := quiet(t.TempDir())
	s := mustOpen(t, o)
	s.opts.ReserveBytes = 1 << 60
	b := s.Begin(1, 1)
	b.Put([]byte("k"), []byte("v"))
	if err := commitErr(s, b); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	s.opts.ReserveBytes = o.ReserveBytes // there is room again, but this store has stopped
	if err := s.Close(); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	full := o
	full.ReserveBytes = 1 << 60
	if _, err := Open(full); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("opened with too little space: want ErrNoSpace, got %v", err)
	}
	mustClose(t, mustOpen(t, o)) // the refusal has changed nothing
}

func TestCommitAfterCloseSaysStopped(t *testing.T) {
	s := mustOpen(t, quiet(t.TempDir()))
	b := s.Begin(1, 1)
	mustClose(t, s)
	if err := commitErr(s, b); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	mustClose(t, s) // a second close changes nothing
}

func TestEqualEntriesGiveEqualHashes(t *testing.T) {
	hashes := map[[32]byte][]string{}
	var want uint64 = 150
	w := newWorld(5)
	w.chunkMax = 2000
	for _, restarts := range [][]uint64{{150}, {10, 60, 61, 150}} {
		o := testOptions(t, t.TempDir())
		o.BucketBytes = 10_000
		for i, last := range restarts {
			s := mustOpen(t, o)
			w.run(t, s, last)
			if i == len(restarts)-1 {
				v := s.View()
				hash, err := s.StateHash(v)
				if err != nil {
					t.Fatal(err)
				}
				hashes[hash] = append(hashes[hash], fmt.Sprint(restarts))
				v.Close()
			}
			mustClose(t, s)
		}
	}
	if len(hashes) != 1 {
		t.Fatalf("hashes differ after entry %d: %v", want, hashes)
	}
}

func TestHashSeesDifferentChunkBytes(t *testing.T) {
	var hashes [][32]byte
	for _, data := range []string{"one", "two"} {
		s := mustOpen(t, testOptions(t, t.TempDir()))
		b := s.Begin(1, 1)
		ref := b.SetChunk(b.ReserveChunk(), []byte(data))
		b.Put([]byte("k"), ref.Append(nil))
		commit(t, s, b)
		v := s.View()
		hash, err := s.StateHash(v)
		if err != nil {
			t.Fatal(err)
		}
		v.Close()
		hashes = append(hashes, hash)
		mustClose(t, s)
	}
	if hashes[0] == hashes[1] {
		t.Fatal("chunks differ, hashes do not")
	}
}

func TestBeginOutOfOrderIsABug(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer mustClose(t, s)
	commit(t, s, s.Begin(5, 1))
	panics := func(call func()) (text string) {
		defer func() { text = fmt.Sprint(recover()) }()
		call()
		return ""
	}
	if text := panics(func() { s.Begin(5, 1) }); !strings.HasPrefix(text, "BUG:") {
		t.Fatal(text)
	}
	b := s.Begin(6, 1)
	if text := panics(func() { s.Begin(7, 1) }); !strings.HasPrefix(text, "BUG:") {
		t.Fatal(text)
	}
	b.Discard()
	b = s.Begin(6, 1)
	commit(t, s, b)
	if text := panics(func() { b.Put([]byte("k"), nil) }); !strings.HasPrefix(text, "BUG:") {
		t.Fatal(text)
	}
}
