package recent

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMapIsRightAboutWhatItRemembers compares with a plain map and the order of use: what is found is what was put last,
// nothing that was deleted is found, never more than the limit is held, and the younger half of what was used is held.
func TestMapIsRightAboutWhatItRemembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 12).Draw(t, "limit")
		m := New[int, int](limit)
		values := map[int]int{}
		var used []int // newest last
		use := func(key int) {
			used = append(slices.DeleteFunc(used, func(k int) bool { return k == key }), key)
		}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				m.Put(key, i)
				values[key] = i
				use(key)
			case 2, 3:
				got, found := m.Get(key)
				want, known := values[key]
				if found && (!known || got != want) {
					t.Fatalf("Get(%d) = %d, want %d, known %t", key, got, want, known)
				}
				at := slices.Index(used, key)
				if young := len(used) - at; known && at >= 0 && young <= max(1, limit/2) && !found {
					t.Fatalf("%d was forgotten although only %d others were used since", key, young-1)
				}
				if found {
					use(key)
				} else {
					delete(values, key) // forgotten for good
				}
			case 4:
				m.Delete(key)
				delete(values, key)
			case 5:
				if rapid.IntRange(0, 9).Draw(t, "clear") == 0 {
					m.Clear()
					clear(values)
					used = nil
				}
			}
			if m.Len() > limit {
				t.Fatalf("%d entries, limit %d", m.Len(), limit)
			}
		}
	})
}

func TestSmallestMapHoldsSomething(t *testing.T) {
	m := New[string, int](1)
	m.Put("a", 1)
	if value, found := m.Get("a"); !found || value != 1 {
		t.Errorf("Get = %d, %t", value, found)
	}
}

func BenchmarkHit(b *testing.B) {
	m := New[uint64, int](1 << 14)
	for i := range uint64(8000) {
		m.Put(i, 0)
	}
	for i := uint64(0); b.Loop(); i++ {
		m.Get(i % 8000)
	}
}
