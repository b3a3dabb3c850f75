package kv

import (
	"fmt"

	"queen/actors/machine/moving"
	"queen/store"
	"queen/store/layout"
)

// MoveWriter is what moving needs of a writer besides.
type MoveWriter interface {
	Writer
	// Bucket is the one that receives chunks.
	Bucket() uint32
}

// moveKeys and moveBytes are what moving a row writes: the row, and its place in the bucket before and after.
const (
	moveKeys  = 3
	moveBytes = 3 * (MaxPlaceBytes + 64)
)

// MoveInput is one step of emptying a bucket.
type MoveInput = moving.Input

// MoveChunks copies the values that lie in a bucket into the block of the current entry, so that the bucket can be dropped
// (architecture 7). What is read stays the same, its version too. The bucket must not be the one that receives chunks; then
// nothing happens. more tells that the bucket holds more values.
func MoveChunks(r Reader, w MoveWriter, in MoveInput) (bytes uint64, more bool, err error) {
	if in.Bucket >= w.Bucket() {
		return 0, false, nil
	}
	index := moving.Index{Prefix: layout.KVChunksIn(in.Bucket), Row: func(key []byte) ([]byte, error) {
		_, row, ok := layout.KVIndexed(key)
		if !ok {
			return nil, fmt.Errorf("read chunk %x of a bucket: %w", key, ErrBadRow)
		}
		return row, nil
	}}
	x := &writing{w: w}
	return moving.Step(r, index, in, func(key []byte) (moving.Chunk, error) {
		row, err := chunkedRow(r, key, in.Bucket)
		if err != nil {
			return moving.Chunk{}, fmt.Errorf("move value of row %x: %w", key, err)
		}
		return moving.Chunk{Bytes: int(row.Chunk.Bytes), Keys: moveKeys, RowBytes: moveBytes, Move: func() error { return x.move(r, key, row) }}, nil
	})
}

// chunkedRow reads a row whose value lies in a bucket.
func chunkedRow(r Reader, key []byte, bucket uint32) (*Row, error) {
	value, err := r.Get(key)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, fmt.Errorf("find row of a chunk: %w", ErrBadRow)
	}
	row, err := DecodeRow(value)
	if err == nil && (row.Chunk == nil || row.Chunk.Bucket != bucket) {
		err = fmt.Errorf("row has no chunk in bucket %d: %w", bucket, ErrBadRow)
	}
	return row, err
}

func (x *writing) move(r Reader, key []byte, row *Row) error {
	value, err := row.value(r)
	if err != nil {
		return err
	}
	x.w.Delete(layout.KVChunk(row.Chunk.Bucket, key))
	x.w.ReleaseChunk(*row.Chunk)
	row.Chunk = x.chunk(key, value)
	x.w.Put(key, appendRow(nil, row))
	return nil
}

// HoldsChunksIn tells whether a value lies in a bucket, for the leader that looks for what keeps an old one.
func HoldsChunksIn(r Reader, bucket uint32) (bool, error) {
	return moving.Holds(r, layout.KVChunksIn(bucket))
}

var _ MoveWriter = (*store.Batch)(nil)
