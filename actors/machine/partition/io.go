package partition

import "queen/store"

// ChunkRef names a chunk in the store.
type ChunkRef = store.ChunkRef

// Reader is how the machine sees the store: a view, or the batch of the entry that is being applied. Slices are valid
// until the view is closed or the batch is done; those of Chunk inside visit only.
type Reader interface {
	// Get returns nil, nil when there is no such key.
	Get(key []byte) ([]byte, error)
	// Scan visits the keys of a prefix upwards, from the first one at or above from; nil starts at the prefix.
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
	// ScanReverse visits the keys of a prefix downwards, from the last one at or below from; nil starts at the end.
	ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error
	// Chunk hands the bytes of a chunk to visit.
	Chunk(ref ChunkRef, visit func(chunk []byte) error) error
}

// Writer takes the effects of the entry that is being applied. It owns every slice that it is given.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
	// Bucket is the bucket that receives the chunks of this entry.
	Bucket() uint32
	// ReserveChunk returns the next free ordinal of the entry's block.
	ReserveChunk() uint32
	// SetChunk fills an ordinal and names it.
	SetChunk(ordinal uint32, data []byte) ChunkRef
	// ReleaseChunk says that nothing refers to the chunk any more.
	ReleaseChunk(ref ChunkRef)
}
