package kv

import (
	"fmt"

	"queen/store"
	"queen/store/layout"
)

// MoveWriter is what moving needs of a writer besides.
type MoveWriter interface {
	Writer
	// Bucket is the one that receives chunks.
	Bucket() uint32
}

const (
	// moveRows bounds the rows of one step.
	moveRows = 256
	// moveKeys and moveBytes are what moving a row writes: the row, and its place in the bucket before and after.
	moveKeys  = 3
	moveBytes = 3 * (MaxPlaceBytes + 64)
)

// MoveInput is one step of emptying a bucket.
type MoveInput struct {
	Bucket uint32
	// MaxBytes is how many bytes of values the step copies at most; one value always goes, when it fits.
	MaxBytes uint64
	// Fits tells whether the entry has room for so much.
	Fits func(keys, bytes, chunkBytes int) bool
}

// MoveChunks copies the values that lie in a bucket into the block of the current entry, so that the bucket can be dropped
// (architecture 7). What is read stays the same, its version too. The bucket must not be the one that receives chunks; then
// nothing happens. more tells that the bucket holds more values.
func MoveChunks(r Reader, w MoveWriter, in MoveInput) (bytes uint64, more bool, err error) {
	if in.Bucket >= w.Bucket() {
		return 0, false, nil
	}
	var keys [][]byte
	scanned := r.Scan(layout.KVChunksIn(in.Bucket), nil, func(key, _ []byte) bool {
		if more = len(keys) == moveRows; more {
			return false
		}
		_, row, ok := layout.KVIndexed(key)
		if !ok {
			err = fmt.Errorf("read chunk %x of a bucket: %w", key, ErrBadRow)
			return false
		}
		keys = append(keys, row)
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list values in bucket %d: %w", in.Bucket, scanned)
	}
	if err != nil {
		return 0, false, err
	}
	x := &writing{w: w}
	for i, key := range keys {
		row, err := chunkedRow(r, key, in.Bucket)
		if err != nil {
			return 0, false, fmt.Errorf("move value of row %x: %w", key, err)
		}
		size := uint64(row.Chunk.Bytes)
		if i > 0 && bytes+size > in.MaxBytes || !in.Fits(moveKeys, moveBytes, int(size)) {
			return bytes, true, nil
		}
		if err := x.move(r, key, row); err != nil {
			return 0, false, fmt.Errorf("move value of row %x: %w", key, err)
		}
		bytes += size
	}
	return bytes, more, nil
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
func HoldsChunksIn(r Reader, bucket uint32) (holds bool, err error) {
	err = r.Scan(layout.KVChunksIn(bucket), nil, func(_, _ []byte) bool {
		holds = true
		return false
	})
	return holds, err
}

var _ MoveWriter = (*store.Batch)(nil)
