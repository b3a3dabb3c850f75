package kv

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"queen/raftlog/command"
	"queen/store"
)

// TestRealStoreAnswersLikeAMap runs the same random calls on the store and on maps: batches that are rolled back or not
// committed yet, restarts, values in chunks, sweeps and moves between them.
func TestRealStoreAnswersLikeAMap(t *testing.T) {
	dir := t.TempDir()
	s := &realStore{t: t, dir: dir}
	s.open()
	defer func() { s.close() }()
	r := newRig(t)
	random := rapid.Custom(func(t *rapid.T) []command.KVOp {
		ops := make([]command.KVOp, rapid.IntRange(1, 6).Draw(t, "operations"))
		for i := range ops {
			ops[i] = drawOp(t, 30)
		}
		return ops
	})
	const calls = 400
	moved := uint64(0)
	for i := range calls {
		ops := random.Example(i)
		r.now += uint64(i%5) * second / 2
		r.tenant = drawnTenants[i%2]
		want := r.execute(ops...)
		c := &command.KV{Tenant: r.tenant, Limits: r.limits, Ops: ops}
		at := Moment{NowMicros: r.now, Quota: unlimited}
		batch := s.begin()
		mark := batch.Mark()
		if _, err := Execute(batch, batch, c, at); err != nil {
			t.Fatal(err)
		}
		batch.Rollback(mark) // an actor has died: the same call meets the same rows
		got, err := Execute(batch, batch, c, at)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("call %d: %+v\ngives %+v, %v\nwant  %+v", i, ops, plainResult(got), err, plainResult(want))
		}
		if i%7 == 0 {
			in := SweepInput{NowMicros: r.now + 1, MaxRows: 3, Fits: always}
			removed, more, err := Sweep(batch, batch, in)
			if wantRemoved, wantMore := r.sweep(3); err != nil || removed != wantRemoved || more != wantMore {
				t.Fatalf("sweep: %d, %v, %v, want %d, %v", removed, more, err, wantRemoved, wantMore)
			}
		}
		bytes, _, err := MoveChunks(batch, batch, MoveInput{Bucket: batch.Bucket() - 1, MaxBytes: 1 << 20, Fits: fitsAll})
		if err != nil {
			t.Fatal(err)
		}
		moved += bytes
		s.commit(batch)
		if i%50 == 49 {
			s.close()
			s.open()
		}
		s.compare(r)
	}
	if moved == 0 {
		t.Error("no value was moved")
	}
}

type realStore struct {
	t     *testing.T
	dir   string
	store *store.Store
	index uint64
	done  chan error
}

func (s *realStore) open() {
	s.t.Helper()
	opened, err := store.Open(store.Options{Dir: s.dir, BucketBytes: 64 << 10, Logger: zerolog.Nop()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.store = opened
}

func (s *realStore) close() {
	s.t.Helper()
	if s.done != nil {
		if err := <-s.done; err != nil {
			s.t.Fatal(err)
		}
		s.done = nil
	}
	if err := s.store.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *realStore) begin() *store.Batch {
	s.index++
	return s.store.Begin(s.index, 1)
}

// commit hands a batch over and waits for the one before: so every batch reads through one that may not be committed yet.
func (s *realStore) commit(batch *store.Batch) {
	s.t.Helper()
	done := make(chan error, 1)
	s.store.Commit(batch, func(err error) { done <- err })
	if s.done != nil {
		if err := <-s.done; err != nil {
			s.t.Fatal(err)
		}
	}
	s.done = done
}

// compare lists all rows of both.
func (s *realStore) compare(r *rig) {
	s.t.Helper()
	if s.done != nil {
		if err := <-s.done; err != nil {
			s.t.Fatal(err)
		}
		s.done = nil
	}
	view := s.store.View()
	defer view.Close()
	for _, namespace := range drawnSpaces {
		in := &ListInput{Tenant: r.tenant, Namespace: namespace, IncludeExpired: true, NowMicros: r.now, ReadBytes: 4 << 20}
		got, err := List(view, in)
		want, errWant := List(r.store, in)
		if err != nil || errWant != nil || !reflect.DeepEqual(got, want) {
			s.t.Fatalf("namespace %s lists %+v, %v\nwant %+v, %v", namespace, got, err, want, errWant)
		}
	}
	spaces := func(from Reader) (text string) {
		if err := Namespaces(from, r.tenant, func(namespace string, rows uint64) bool {
			text += fmt.Sprint(namespace, " ", rows, ", ")
			return true
		}); err != nil {
			s.t.Fatal(err)
		}
		return text
	}
	if got, want := spaces(view), spaces(r.store); got != want {
		s.t.Fatalf("namespaces %s, want %s", got, want)
	}
	got, err := Total(view)
	if want, errWant := Total(r.store); err != nil || errWant != nil || got != want {
		s.t.Fatalf("in all %+v, %v, want %+v, %v", got, err, want, errWant)
	}
}
