// Package recent is a bounded map that forgets what has not been used lately. It keeps two generations: a hit in the
// older one moves the entry to the younger, and when the younger is full it becomes the older and what was there goes.
// That costs no list and no clock, and never more than the stated number of entries.
package recent

// Map holds at most limit entries. The zero value is not usable; see New. It belongs to one goroutine.
type Map[K comparable, V any] struct {
	half    int
	younger map[K]V
	older   map[K]V
}

// New makes a map for at most limit entries; limit is at least 2.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{half: max(1, limit/2), younger: map[K]V{}}
}

// Get returns the value of a key that has not been forgotten.
func (m *Map[K, V]) Get(key K) (V, bool) {
	if value, ok := m.younger[key]; ok {
		return value, true
	}
	value, ok := m.older[key]
	if ok {
		delete(m.older, key)
		m.Put(key, value)
	}
	return value, ok
}

// Put remembers a value and may forget the least recently used half. What was used since fewer than half the limit of other
// keys is never forgotten.
func (m *Map[K, V]) Put(key K, value V) {
	if _, known := m.younger[key]; !known && len(m.younger) >= m.half {
		m.older, m.younger = m.younger, make(map[K]V, m.half/8)
	}
	delete(m.older, key)
	m.younger[key] = value
}

// Delete forgets a key.
func (m *Map[K, V]) Delete(key K) {
	delete(m.younger, key)
	delete(m.older, key)
}

// Clear forgets everything.
func (m *Map[K, V]) Clear() {
	m.younger, m.older = map[K]V{}, nil
}

// Len is the number of remembered entries.
func (m *Map[K, V]) Len() int { return len(m.younger) + len(m.older) }
