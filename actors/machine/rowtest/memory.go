package rowtest

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"queen/store"
)

// Memory is the Reader and the Writer of a machine, over maps. Like the store's batch it owns what it is given, and it shows
// what was written. It panics where a machine does what none has a reason to do: it deletes or releases what is not there, sets a
// chunk twice or without having reserved it, or writes while it scans. It punishes whoever keeps bytes too long: those of a chunk
// are scribbled over after visit, those of a row when the next entry begins.
type Memory struct {
	// Chunks are the chunks that are not released.
	Chunks map[store.ChunkRef][]byte
	// Entry is the index of the present entry, OpenBucket the bucket that receives its chunks.
	Entry      uint64
	OpenBucket uint32
	// FromSomewhere makes a scan panic that does not say where it begins, for a machine that deletes at the ends of a prefix:
	// such a scan walks over removed keys in the store.
	FromSomewhere bool

	// Gets and Scans count reads, scans in both directions.
	Gets, Scans int
	// ScannedFrom is where the last upward scan began, Scanned how many rows it visited.
	ScannedFrom []byte
	Scanned     int
	// Puts counts rows that were put, PutBytes the bytes of their values.
	Puts, PutBytes int
	// Written has the keys that the present entry has put or deleted, with the bytes of their values.
	Written map[string]int

	rows     map[string][]byte
	sorted   []string // the keys of rows
	handed   [][]byte // what readers hold until the entry ends
	ordinal  uint32   // the next one to be reserved
	scanning int      // scans that are under way
}

// NewMemory returns a store without rows, in its first entry, with bucket 1 open.
func NewMemory() *Memory {
	return &Memory{
		Chunks: map[store.ChunkRef][]byte{}, Entry: 1, OpenBucket: 1, Written: map[string]int{}, rows: map[string][]byte{},
	}
}

// Holding returns a store that has these rows from the start.
func Holding(rows map[string][]byte) *Memory {
	m := NewMemory()
	for key, value := range rows {
		m.Set([]byte(key), value)
	}
	return m
}

// NextEntry ends the present entry: it counts what the entry writes anew, and what was read is no longer valid.
func (m *Memory) NextEntry() {
	for _, b := range m.handed {
		scribble(b)
	}
	m.handed = m.handed[:0]
	m.Entry++
	m.ordinal = 0
	clear(m.Written)
}

func scribble(b []byte) {
	for i := range b {
		b[i] = 0xA5
	}
}

// Writes are the keys that the present entry has written, and their bytes with those of the values.
func (m *Memory) Writes() (keys, bytes int) {
	for key, n := range m.Written {
		bytes += len(key) + n
	}
	return len(m.Written), bytes
}

// Copied returns the same store, to be changed apart. It counts reads and puts from 0.
func (m *Memory) Copied() *Memory {
	return &Memory{
		Chunks: maps.Clone(m.Chunks), Entry: m.Entry, OpenBucket: m.OpenBucket, FromSomewhere: m.FromSomewhere,
		Written: maps.Clone(m.Written), rows: maps.Clone(m.rows), sorted: slices.Clone(m.sorted), ordinal: m.ordinal,
	}
}

// Mark returns what undoes everything that is written after it.
func (m *Memory) Mark() (rollback func()) {
	kept := m.Copied()
	return func() {
		m.Chunks, m.Written, m.rows, m.sorted, m.ordinal = kept.Chunks, kept.Written, kept.rows, kept.sorted, kept.ordinal
	}
}

// Equal tells whether two stores hold the same rows and chunks.
func (m *Memory) Equal(other *Memory) bool { return m.Compare(other) == nil }

// Compare returns an error that names a difference between the rows and chunks of two stores, or nil.
func (m *Memory) Compare(other *Memory) error {
	for key, value := range m.All() {
		if theirs, found := other.rows[key]; !found || !bytes.Equal(value, theirs) {
			return fmt.Errorf("row %x differs:\n%x\n%x", key, value, theirs)
		}
	}
	if len(m.rows) != len(other.rows) || len(m.Chunks) != len(other.Chunks) {
		return fmt.Errorf("%d rows and %d chunks in place of %d and %d", len(m.rows), len(m.Chunks), len(other.rows), len(other.Chunks))
	}
	for ref, chunk := range m.Chunks {
		if theirs, found := other.Chunks[ref]; !found || !bytes.Equal(chunk, theirs) {
			return fmt.Errorf("chunk %s differs", ref)
		}
	}
	return nil
}

// Len is how many rows there are.
func (m *Memory) Len() int { return len(m.rows) }

// All visits the rows in the order of their keys, uncounted. Values are not to be changed.
func (m *Memory) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, key := range m.sorted {
			if !yield(key, m.rows[key]) {
				return
			}
		}
	}
}

// Row returns a row uncounted, nil when there is none. It is not to be changed.
func (m *Memory) Row(key []byte) []byte { return m.rows[string(key)] }

// Set writes a row behind the machine's back: it counts as no write.
func (m *Memory) Set(key, value []byte) {
	m.mustNotScan()
	if _, found := m.rows[string(key)]; !found {
		at, _ := slices.BinarySearch(m.sorted, string(key))
		m.sorted = slices.Insert(m.sorted, at, string(key))
	}
	m.rows[string(key)] = value
}

// Remove deletes a row behind the machine's back. There must be one.
func (m *Memory) Remove(key []byte) {
	m.mustNotScan()
	at, found := slices.BinarySearch(m.sorted, string(key))
	if !found {
		panic(fmt.Sprintf("deleted missing key %x", key))
	}
	m.sorted = slices.Delete(m.sorted, at, at+1)
	delete(m.rows, string(key))
}

func (m *Memory) mustNotScan() {
	if m.scanning > 0 {
		panic("a row is written during a scan")
	}
}

// Get returns a row, nil when there is none.
func (m *Memory) Get(key []byte) ([]byte, error) {
	m.Gets++
	value, found := m.rows[string(key)]
	if !found {
		return nil, nil
	}
	return m.hand(value), nil
}

// hand returns a copy that is valid until the entry ends; an empty one is not nil.
func (m *Memory) hand(value []byte) []byte {
	given := append([]byte{}, value...)
	m.handed = append(m.handed, given)
	return given
}

// Keys are the keys of a prefix, ascending. They are valid until a row is written.
func (m *Memory) Keys(prefix []byte) []string {
	low, _ := slices.BinarySearch(m.sorted, string(prefix))
	high := low
	for step := len(m.sorted) - low; step > 0; {
		if high+step <= len(m.sorted) && strings.HasPrefix(m.sorted[high+step-1], string(prefix)) {
			high += step
		} else {
			step /= 2
		}
	}
	return m.sorted[low:high]
}

// Scan visits the rows of a prefix upwards, from the first one at or above from.
func (m *Memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	m.Scans++
	m.ScannedFrom, m.Scanned = from, 0
	m.mustBegin(from)
	m.scanning++
	defer func() { m.scanning-- }()
	keys := m.Keys(prefix)
	at, _ := slices.BinarySearch(keys, string(from))
	for _, key := range keys[at:] {
		m.Scanned++
		if !m.show(key, visit) {
			break
		}
	}
	return nil
}

// ScanReverse visits the rows of a prefix downwards, from the last one at or below from, which is the last of all when it is nil.
func (m *Memory) ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error {
	m.Scans++
	m.mustBegin(from)
	m.scanning++
	defer func() { m.scanning-- }()
	keys := m.Keys(prefix)
	end := len(keys)
	if from != nil {
		at, exact := slices.BinarySearch(keys, string(from))
		if end = at; exact {
			end++
		}
	}
	for _, key := range slices.Backward(keys[:end]) {
		if !m.show(key, visit) {
			break
		}
	}
	return nil
}

func (m *Memory) mustBegin(from []byte) {
	if m.FromSomewhere && from == nil {
		panic("a scan begins at an end of a prefix, across removed keys")
	}
}

func (m *Memory) show(key string, visit func(key, value []byte) bool) bool {
	return visit(m.hand([]byte(key)), m.hand(m.rows[key]))
}

// Chunk hands a copy of a chunk to visit.
func (m *Memory) Chunk(ref store.ChunkRef, visit func(chunk []byte) error) error {
	chunk, found := m.Chunks[ref]
	if !found {
		return fmt.Errorf("no chunk %s", ref)
	}
	given := bytes.Clone(chunk)
	defer scribble(given)
	return visit(given)
}

// Put writes a row.
func (m *Memory) Put(key, value []byte) {
	m.Puts++
	m.PutBytes += len(value)
	m.Written[string(key)] = len(value)
	m.Set(key, value)
}

// Delete deletes a row, of which there must be one.
func (m *Memory) Delete(key []byte) {
	m.Written[string(key)] = 0
	m.Remove(key)
}

// Bucket is the bucket that receives the chunks of the present entry.
func (m *Memory) Bucket() uint32 { return m.OpenBucket }

// ReserveChunk returns the next ordinal of the present entry.
func (m *Memory) ReserveChunk() uint32 {
	m.ordinal++
	return m.ordinal - 1
}

// SetChunk keeps a chunk under an ordinal that was reserved.
func (m *Memory) SetChunk(ordinal uint32, data []byte) store.ChunkRef {
	ref := store.ChunkRef{Bucket: m.OpenBucket, Entry: m.Entry, Ordinal: ordinal, Bytes: uint32(len(data))}
	if ordinal >= m.ordinal {
		panic(fmt.Sprintf("chunk %s is not reserved", ref))
	}
	if _, taken := m.Chunks[ref]; taken {
		panic(fmt.Sprintf("chunk %s is set twice", ref))
	}
	m.Chunks[ref] = bytes.Clone(data)
	return ref
}

// ReleaseChunk lets go of a chunk, which must be there.
func (m *Memory) ReleaseChunk(ref store.ChunkRef) {
	if _, found := m.Chunks[ref]; !found {
		panic(fmt.Sprintf("released missing chunk %s", ref))
	}
	delete(m.Chunks, ref)
}
