package store

import (
	"errors"
	"slices"
	"testing"
)

// crowd hands over entries 1 to last so that 1 is committed alone and the others together. Their errors come in order.
func crowd(t *testing.T, o Options, last uint64, fill func(b *Batch)) (*Store, []error) {
	t.Helper()
	arrived, gate := make(chan struct{}), make(chan struct{})
	passed, faults := false, o.Faults
	o.Faults = func(point string) {
		if point == FaultBlockWritten && !passed {
			passed = true
			close(arrived)
			<-gate
		}
		if faults != nil {
			faults(point)
		}
	}
	o.MaxUnflushed = int(last)
	s := mustOpen(t, o)
	outcomes := make(chan error, last)
	for i := uint64(1); i <= last; i++ {
		b := s.Begin(i, 1)
		fill(b)
		s.Commit(b, func(err error) { outcomes <- err })
		if i == 1 {
			<-arrived
		}
	}
	close(gate)
	errs := make([]error, last)
	for i := range errs {
		errs[i] = <-outcomes
	}
	return s, errs
}

func TestBatchesThatWaitAreCommittedTogether(t *testing.T) {
	o := testOptions(t, t.TempDir())
	var points []string
	o.Faults = func(point string) {
		if point == FaultBlockWritten || point == FaultStoreCommitted {
			points = append(points, point)
		}
	}
	w := newWorld(5)
	s, errs := crowd(t, o, 4, func(b *Batch) { w.apply(t, b) })
	defer mustClose(t, s)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	want := []string{FaultBlockWritten, FaultStoreCommitted, FaultBlockWritten, FaultBlockWritten, FaultBlockWritten,
		FaultStoreCommitted, FaultStoreCommitted, FaultStoreCommitted}
	if !slices.Equal(points, want) {
		t.Fatalf("got %v", points)
	}
	w.checkView(t, s)
}

// TestFailureAmongBatchesCommittedTogether: those before it are there, it and those behind it are not.
func TestFailureAmongBatchesCommittedTogether(t *testing.T) {
	const last, failing = 6, 4
	disk := errors.New("disk is broken")
	failAt := func(point string) func(o *Options) {
		return func(o *Options) {
			calls := 0
			o.failWrite = func(at string) error {
				if at != point {
					return nil
				}
				if calls++; calls == failing {
					return disk
				}
				return nil
			}
		}
	}
	tests := map[string]struct {
		prepare func(o *Options)
		fill    func(b *Batch)
		want    error
	}{
		"its block":       {failAt(FaultBlockWritten), func(*Batch) {}, disk},
		"its transaction": {failAt(FaultStoreCommitted), func(*Batch) {}, disk},
		"its size": {func(*Options) {}, func(b *Batch) {
			if b.Index() == failing {
				b.SetChunk(b.ReserveChunk(), make([]byte, MaxBlockBytes))
			}
		}, ErrTooBig},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := quiet(t.TempDir())
			test.prepare(&o)
			w := newWorld(6)
			s, errs := crowd(t, o, last, func(b *Batch) {
				w.apply(t, b)
				test.fill(b)
			})
			for i, err := range errs {
				if index := i + 1; index < failing && err != nil {
					t.Errorf("entry %d in front: %v", index, err)
				} else if index >= failing && (!errors.Is(err, test.want) || !errors.Is(err, ErrStopped)) {
					t.Errorf("entry %d: %v", index, err)
				}
			}
			behind := s.Begin(last+1, 1)
			if value, err := behind.Get([]byte("shared")); !errors.Is(err, test.want) {
				t.Errorf("an entry behind reads %q, %v, without what was not written", value, err)
			}
			if err := behind.Scan([]byte("shared"), nil, func(_, _ []byte) bool { return true }); !errors.Is(err, test.want) {
				t.Errorf("an entry behind scans: %v", err)
			}
			ref := ChunkRef{Bucket: behind.Bucket(), Entry: failing, Bytes: 1}
			if err := behind.Chunk(ref, func([]byte) error { return nil }); !errors.Is(err, test.want) {
				t.Errorf("an entry behind reads a chunk: %v", err)
			}
			behind.Discard()
			if index, _ := s.Applied(); index != failing-1 {
				t.Errorf("applied %d, want %d", index, failing-1)
			}
			if err := s.Close(); !errors.Is(err, test.want) {
				t.Errorf("close: %v", err)
			}
			o.failWrite = nil
			s = mustOpen(t, o)
			if index, _ := s.Applied(); index != 0 {
				t.Fatalf("applied %d after a failure, want the durable 0", index)
			}
			w.run(t, s, last)
			w.checkView(t, s)
			mustClose(t, s)
		})
	}
}
