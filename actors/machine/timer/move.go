package timer

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

// moveKeys are what moving a payload writes: the row, and its place in the bucket before and after.
const moveKeys = 3

// MoveInput is one step of emptying a bucket.
type MoveInput = moving.Input

// MoveChunks copies the payloads that lie in a bucket into the block of the current entry, so that the bucket can be dropped. The
// timers stay what they are, for whoever has planned to fire them too. The bucket must not be the one that receives chunks; then
// nothing happens. more tells that the bucket holds more payloads.
func MoveChunks(r Reader, w MoveWriter, in MoveInput) (bytes uint64, more bool, err error) {
	if in.Bucket >= w.Bucket() {
		return 0, false, nil
	}
	index := moving.Index{Prefix: layout.TimerChunksIn(in.Bucket), Row: func(key []byte) ([]byte, error) {
		row, ok := layout.TimerOfChunk(key)
		if !ok {
			return nil, fmt.Errorf("read chunk %x of a bucket: %w", key, ErrBadRow)
		}
		return row, nil
	}}
	return moving.Step(r, index, in, func(key []byte) (moving.Chunk, error) {
		row, err := keptRow(r, key, in.Bucket)
		if err != nil {
			return moving.Chunk{}, err
		}
		return moving.Chunk{Bytes: row.PayloadBytes(), Keys: moveKeys, RowBytes: row.bytes(), Move: func() error { return row.move(r, w) }}, nil
	})
}

// move copies the payload.
func (row *Row) move(r Reader, w Writer) error {
	payload, err := row.Payload(r)
	if err != nil {
		return err
	}
	row.release(w)
	row.keep(w, payload)
	w.Put(row.key(), appendRow(nil, row))
	return nil
}

// keptRow reads a timer whose payload lies in a bucket.
func keptRow(r Reader, key []byte, bucket uint32) (*Row, error) {
	value, err := r.Get(key)
	if err != nil {
		return nil, fmt.Errorf("read timer of a chunk: %w", err)
	}
	if value == nil {
		return nil, fmt.Errorf("find timer of a chunk: %w", ErrBadRow)
	}
	row, err := DecodeRow(key, value)
	if err == nil && (row.Chunk == nil || row.Chunk.Bucket != bucket) {
		err = fmt.Errorf("timer %q has no chunk in bucket %d: %w", row.Key, bucket, ErrBadRow)
	}
	return row, err
}

// HoldsChunksIn tells whether a payload lies in a bucket, for the leader that looks for what keeps an old one.
func HoldsChunksIn(r Reader, bucket uint32) (bool, error) {
	return moving.Holds(r, layout.TimerChunksIn(bucket))
}

var _ MoveWriter = (*store.Batch)(nil)
