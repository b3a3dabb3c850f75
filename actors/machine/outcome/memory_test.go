package outcome

import (
	"fmt"

	"queen/actors/machine/rowtest"
	"queen/store"
	"queen/store/layout"
)

// The store's batch and view are what the machine works on.
var (
	_ Reader = (*store.Batch)(nil)
	_ Writer = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
)

// memory panics when the row of an entry is written again. It counts each write of the entry, also those of one key.
type memory struct {
	*rowtest.Memory
	keys, bytes int
}

func newMemory() *memory { return &memory{Memory: rowtest.NewMemory()} }

// next begins an entry.
func (m *memory) next(index uint64) {
	m.NextEntry()
	m.Entry, m.keys, m.bytes = index, 0, 0
}

func (m *memory) Put(key, value []byte) {
	if key[0] != layout.FamilyMeta && m.Row(key) != nil {
		panic(fmt.Sprintf("wrote key %x again", key))
	}
	m.keys, m.bytes = m.keys+1, m.bytes+len(key)+len(value)
	m.Memory.Put(key, value)
}

func (m *memory) Delete(key []byte) {
	m.keys, m.bytes = m.keys+1, m.bytes+len(key)
	m.Memory.Delete(key)
}
