package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"queen/store/layout"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func testOptions(t testing.TB, dir string) Options {
	t.Helper()
	return Options{Dir: dir, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}
}

// quiet is for tests that provoke errors on purpose or end the store in the background.
func quiet(dir string) Options { return Options{Dir: dir, Logger: zerolog.Nop()} }

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// commit hands a batch over and waits for it.
func commit(t testing.TB, s *Store, b *Batch) {
	t.Helper()
	if err := commitErr(s, b); err != nil {
		t.Fatalf("commit entry %d: %v", b.Index(), err)
	}
}

func commitErr(s *Store, b *Batch) error {
	done := make(chan error, 1)
	s.Commit(b, func(err error) { done <- err })
	return <-done
}

func durable(t testing.TB, s *Store) uint64 {
	t.Helper()
	index, err := s.DurablePoint()
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// model is what a store should hold.
type model struct {
	rows   map[string]string
	chunks map[string]modelChunk // by the name of the row that holds the reference
}

type modelChunk struct {
	ref  ChunkRef
	data []byte
}

func newModel() model {
	return model{rows: map[string]string{}, chunks: map[string]modelChunk{}}
}

func (m model) clone() model {
	return model{rows: maps.Clone(m.rows), chunks: maps.Clone(m.chunks)}
}

// world drives stores and a model with the same entries. What entry i does depends on the seed, on i and on the model.
type world struct {
	seed    uint64
	history []model // by entry; 0 is empty
	chunkMax,
	rowMax int
}

func newWorld(seed uint64) *world {
	return &world{seed: seed, history: []model{newModel()}, chunkMax: 4000, rowMax: 200}
}

func (w *world) last() uint64 { return uint64(len(w.history) - 1) }

// apply executes an entry on a batch. The first time it also extends the model.
func (w *world) apply(t testing.TB, b *Batch) {
	t.Helper()
	i := b.Index()
	random := rand.New(rand.NewPCG(w.seed, i))
	m := w.history[i-1].clone()
	for range random.IntN(12) {
		key := fmt.Sprintf("k%03d", random.IntN(60))
		if random.IntN(4) == 0 {
			delete(m.rows, key)
			b.Delete([]byte(key))
			continue
		}
		value := randomBytes(random, random.IntN(w.rowMax))
		m.rows[key] = string(value)
		b.Put([]byte(key), value)
	}
	for range random.IntN(6) {
		key := fmt.Sprintf("z%03d", random.IntN(40))
		if old, ok := m.chunks[key]; ok {
			b.ReleaseChunk(old.ref)
			delete(m.chunks, key)
			delete(m.rows, key)
			b.Delete([]byte(key))
		}
		if random.IntN(3) == 0 {
			continue
		}
		data := randomBytes(random, random.IntN(w.chunkMax))
		ref := b.SetChunk(b.ReserveChunk(), data)
		m.chunks[key] = modelChunk{ref, data}
		m.rows[key] = string(ref.Append(nil))
		b.Put([]byte(key), ref.Append(nil))
	}
	if int(i) == len(w.history) {
		w.history = append(w.history, m)
	}
}

func randomBytes(random *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// run commits the entries up to last, one after the other.
func (w *world) run(t testing.TB, s *Store, last uint64) {
	t.Helper()
	at, _ := s.Applied()
	for i := at + 1; i <= last; i++ {
		b := s.Begin(i, i/10+1)
		w.apply(t, b)
		commit(t, s, b)
	}
}

// check compares what a reader shows with the model after an entry.
func (w *world) check(t testing.TB, r Reader, index uint64) {
	t.Helper()
	if err := w.compare(r, index); err != nil {
		t.Fatalf("seed %d, entry %d: %v", w.seed, index, err)
	}
}

func (w *world) compare(r Reader, index uint64) error {
	m := w.history[index]
	found := map[string]string{}
	buckets := map[uint32]bucketRow{}
	err := r.Scan(nil, nil, func(key, value []byte) bool {
		switch {
		case bytes.Equal(key, appliedKey()):
		case key[0] == layout.FamilyBucket:
			row, err := decodeBucketRow(value)
			if err != nil {
				return false
			}
			buckets[uint32(layout.LastNumber(key))] = row
		default:
			found[string(key)] = string(value)
		}
		return true
	})
	if err != nil {
		return err
	}
	if !maps.Equal(found, m.rows) {
		return fmt.Errorf("rows differ: %d found, %d wanted", len(found), len(m.rows))
	}
	live := map[uint32]bucketRow{}
	for _, c := range m.chunks {
		row := live[c.ref.Bucket]
		row.liveChunks++
		row.liveBytes += uint64(c.ref.Bytes)
		live[c.ref.Bucket] = row
		err := r.Chunk(c.ref, func(chunk []byte) error {
			if !bytes.Equal(chunk, c.data) {
				return errors.New("chunk has wrong bytes")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.ref, err)
		}
	}
	for id, row := range buckets {
		if row.liveChunks != live[id].liveChunks || row.liveBytes != live[id].liveBytes {
			return fmt.Errorf("bucket %d: %d live chunks of %d bytes, want %d of %d",
				id, row.liveChunks, row.liveBytes, live[id].liveChunks, live[id].liveBytes)
		}
		delete(live, id)
	}
	if len(live) > 0 {
		return fmt.Errorf("no rows for buckets %v", slices.Collect(maps.Keys(live)))
	}
	return nil
}

// checkView checks the state at the committed index.
func (w *world) checkView(t testing.TB, s *Store) {
	t.Helper()
	v := s.View()
	defer v.Close()
	w.check(t, v, v.Index())
}
