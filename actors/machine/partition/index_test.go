package partition

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func numberHash(n uint64) []byte {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], n)
	hash := HashTxid(text[:])
	return hash[:]
}

func follow(t trail) (offsets []uint64) {
	for {
		offset, ok := t.next()
		if !ok {
			return offsets
		}
		offsets = append(offsets, offset)
	}
}

// TestIndexProposesEveryPlace: within its range a trail names every offset of a hash, in order, and nothing that was
// forgotten.
func TestIndexProposesEveryPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &index{}
		places := map[uint64][]uint64{}
		stamps := map[uint64]uint64{}
		offset, stamp := rapid.Uint64Range(0, 1<<40).Draw(t, "base"), uint64(testStart)
		window := uint64(rapid.IntRange(1, 1000).Draw(t, "window"))
		start := offset
		for range rapid.IntRange(0, 300).Draw(t, "messages") {
			key := rapid.Uint64Range(0, 20).Draw(t, "key")
			x.add(numberHash(key), offset, stamp, window)
			places[key] = append(places[key], offset)
			stamps[offset] = stamp
			offset += 1 + uint64(rapid.SampledFrom([]int{0, 0, 0, 7, 1 << 33}).Draw(t, "gap"))
			stamp += uint64(rapid.IntRange(0, 20).Draw(t, "time"))
		}
		cut := stamp - uint64(rapid.IntRange(0, 2000).Draw(t, "age"))
		x.forget(cut)
		low := rapid.Uint64Range(start, offset).Draw(t, "low")
		high := rapid.Uint64Range(low, offset).Draw(t, "high")
		for _, key := range slices.Sorted(maps.Keys(places)) {
			var want []uint64
			for _, place := range places[key] {
				if place >= max(low, x.floor(offset)) && place < high {
					want = append(want, place)
				}
				if stamps[place] >= cut && place < x.floor(offset) {
					t.Fatalf("offset %d was forgotten too early", place)
				}
			}
			if got := follow(x.trail(numberHash(key), low, high, false)); !slices.Equal(got, want) {
				t.Fatalf("rising: %v in place of %v", got, want)
			}
			slices.Reverse(want)
			if got := follow(x.trail(numberHash(key), low, high, true)); !slices.Equal(got, want) {
				t.Fatalf("falling: %v in place of %v", got, want)
			}
		}
	})
}

// TestIndexForgetsWhatIsOld: a slow partition remembers little more than its window, however long it lives.
func TestIndexForgetsWhatIsOld(t *testing.T) {
	x := &index{}
	const window = hour
	for i := range uint64(100_000) {
		stamp := testStart + i*second
		x.forget(cutoff(stamp, window))
		x.add(numberHash(i), i, stamp, window)
		remembered := 0
		for _, g := range x.generations {
			remembered += g.added
		}
		if remembered > 3600*5/4+2 || len(x.generations) > windowShares+2 {
			t.Fatalf("%d messages in %d generations are remembered", remembered, len(x.generations))
		}
	}
}

func TestFastPartitionHasFewGenerations(t *testing.T) {
	x := &index{}
	for i := range uint64(1_000_000) {
		x.add(numberHash(i), i, testStart+i, hour)
	}
	if len(x.generations) > 12 {
		t.Errorf("1,000,000 messages lie in %d generations", len(x.generations))
	}
	slots := 0
	for _, g := range x.generations {
		slots += len(g.slots)
	}
	if slots > 4_500_000 {
		t.Errorf("they take %d slots", slots)
	}
}

// TestOneTxidOverAndOverCostsLittle: with the window off a client may push one id for ever.
func TestOneTxidOverAndOverCostsLittle(t *testing.T) {
	x := &index{}
	hash := numberHash(1)
	for i := range uint64(500_000) {
		x.add(hash, i, testStart+i, hour)
	}
	for range 100_000 {
		rising, falling := x.trail(hash, 250_000, 400_000, false), x.trail(hash, 250_000, 400_000, true)
		first, _ := rising.next()
		last, _ := falling.next()
		if first != 250_000 || last != 399_999 {
			t.Fatalf("proposed %d and %d", first, last)
		}
	}
}

func TestHashSetTellsEqualFingerprintsApart(t *testing.T) {
	hashes := slices.Concat(numberHash(1), numberHash(2), numberHash(1), numberHash(3))
	set := newHashSet(hashes)
	// Entries 0 and 3 share a fingerprint on purpose.
	set.table.add(fingerprint(numberHash(3)), 0)
	for i, want := range []uint32{0, 1, 0, 3} {
		if first, existed := set.enter(uint32(i)); first != want || existed != (want != uint32(i)) {
			t.Errorf("entry %d is %d %v", i, first, existed)
		}
	}
	for _, entry := range []uint32{0, 1, 3} {
		if got, found := set.lookup(set.at(entry)); got != entry || !found {
			t.Errorf("entry %d is looked up as %d %v", entry, got, found)
		}
	}
	if got, found := set.lookup(numberHash(4)); found {
		t.Errorf("an unknown hash is entry %d", got)
	}
}
