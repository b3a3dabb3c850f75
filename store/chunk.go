package store

import (
	"encoding/binary"
	"fmt"
)

// ChunkRef names a chunk: the bucket, the log index of the entry that wrote it, its number within the entry and its
// length. The zero value names nothing.
type ChunkRef struct {
	Bucket  uint32
	Entry   uint64
	Ordinal uint32
	Bytes   uint32
}

// ChunkRefBytes is the length of an encoded ChunkRef.
const ChunkRefBytes = 20

// Append appends the fixed-size form: bucket, entry, ordinal, bytes, all big-endian.
func (r ChunkRef) Append(to []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, r.Bucket)
	to = binary.BigEndian.AppendUint64(to, r.Entry)
	to = binary.BigEndian.AppendUint32(to, r.Ordinal)
	return binary.BigEndian.AppendUint32(to, r.Bytes)
}

// DecodeChunkRef reads a ChunkRef from the front of data and returns the rest.
func DecodeChunkRef(data []byte) (ChunkRef, []byte, error) {
	if len(data) < ChunkRefBytes {
		return ChunkRef{}, nil, fmt.Errorf("decode chunk reference: %d bytes, want %d", len(data), ChunkRefBytes)
	}
	return ChunkRef{
		Bucket:  binary.BigEndian.Uint32(data),
		Entry:   binary.BigEndian.Uint64(data[4:]),
		Ordinal: binary.BigEndian.Uint32(data[12:]),
		Bytes:   binary.BigEndian.Uint32(data[16:]),
	}, data[ChunkRefBytes:], nil
}

// String is for logs and errors.
func (r ChunkRef) String() string {
	return fmt.Sprintf("chunk %d of entry %d in bucket %d (%d bytes)", r.Ordinal, r.Entry, r.Bucket, r.Bytes)
}
