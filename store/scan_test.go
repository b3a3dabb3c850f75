package store

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"queen/store/layout"
)

// TestScansAgreeWithAModel compares Get, Scan and ScanReverse of batches and views, over batches that are not committed,
// with a sorted map.
func TestScansAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	o := testOptions(t, t.TempDir())
	o.MaxUnflushed = 5
	var gate sync.RWMutex // held for writing: nothing is committed
	o.Faults = func(point string) {
		if point == FaultBlockWritten {
			gate.RLock()
			defer gate.RUnlock()
		}
	}
	s := mustOpen(t, o)
	defer mustClose(t, s)
	key := func() []byte {
		// Short keys over a small alphabet with 0xff, so that prefixes nest and successors overflow.
		n := 1 + random.IntN(3)
		k := make([]byte, n)
		for i := range k {
			k[i] = []byte{0x00, 'a', 'z', 0xfe, 0xff}[random.IntN(5)]
		}
		return k
	}
	rows := map[string]string{}
	var inFlight sync.WaitGroup
	held := false
	index := uint64(0)
	for range 300 {
		if random.IntN(3) == 0 && !held {
			inFlight.Wait() // with what is in flight already, Commit would block before the gate opens again
			gate.Lock()
			held = true
		}
		index++
		b := s.Begin(index, 1)
		for range random.IntN(8) {
			k := key()
			if random.IntN(3) == 0 {
				b.Delete(k)
				delete(rows, string(k))
			} else {
				v := fmt.Append(nil, index)
				b.Put(k, v)
				rows[string(k)] = string(v)
			}
		}
		if random.IntN(3) == 0 {
			kept := b.Mark()
			b.Put(key(), []byte("rolled back"))
			b.Delete(key())
			if random.IntN(2) == 0 {
				compareScans(t, random, b, nil, key) // builds the sorted keys, which the rollback must void
			}
			b.Rollback(kept)
		}
		compareScans(t, random, b, rows, key)
		inFlight.Add(1)
		s.Commit(b, func(err error) {
			if err != nil {
				t.Error(err)
			}
			inFlight.Done()
		})
		if held && random.IntN(4) == 0 || held && s.Usage().Unflushed >= o.MaxUnflushed {
			gate.Unlock()
			held = false
			inFlight.Wait()
			v := s.View()
			compareScans(t, random, v, rows, key)
			v.Close()
		}
	}
	if held {
		gate.Unlock()
	}
	inFlight.Wait()
}

// compareScans runs random queries; nil rows only run them.
func compareScans(t *testing.T, random *rand.Rand, r Reader, rows map[string]string, key func() []byte) {
	t.Helper()
	sorted := slices.Sorted(maps.Keys(rows))
	for range 6 {
		prefix := key()[:1]
		if random.IntN(3) > 0 {
			prefix = key()
		}
		from := key()
		switch random.IntN(3) {
		case 0:
			from = nil
		case 1:
			from = append(bytes.Clone(prefix), from...)
		}
		limit := 1 + random.IntN(20)
		reverse := random.IntN(2) == 0
		var want, got []string
		for _, k := range sorted {
			if !strings.HasPrefix(k, string(prefix)) {
				continue
			}
			if from != nil && (!reverse && k < string(from) || reverse && k > string(from)) {
				continue
			}
			want = append(want, k+"="+rows[k])
		}
		if reverse {
			slices.Reverse(want)
		}
		want = want[:min(limit, len(want))]
		visit := func(k, v []byte) bool {
			if k[0] == layout.FamilyMeta || k[0] == layout.FamilyBucket {
				return true
			}
			got = append(got, string(k)+"="+string(v))
			return len(got) < limit
		}
		scan := r.Scan
		if reverse {
			scan = r.ScanReverse
		}
		if err := scan(prefix, from, visit); err != nil {
			t.Fatal(err)
		}
		if rows != nil && !slices.Equal(got, want) {
			t.Fatalf("reverse %t, prefix %x, from %x: got %q, want %q", reverse, prefix, from, got, want)
		}
		k := key()
		value, err := r.Get(k)
		if err != nil {
			t.Fatal(err)
		}
		if wanted, ok := rows[string(k)]; rows != nil && (ok != (value != nil) || string(value) != wanted) {
			t.Fatalf("get %x: %q, want %q", k, value, wanted)
		}
	}
}
