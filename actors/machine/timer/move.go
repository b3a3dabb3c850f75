package timer

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
	// moveTimers bounds the timers of one step.
	moveTimers = 256
	// moveKeys are what moving a payload writes: the row, and its place in the bucket before and after.
	moveKeys = 3
)

// MoveInput is one step of emptying a bucket.
type MoveInput struct {
	Bucket uint32
	// MaxBytes is how many bytes of payloads the step copies at most; one payload always goes, when it fits.
	MaxBytes uint64
	// Fits tells whether the entry has room for so much.
	Fits func(keys, bytes, chunkBytes int) bool
}

// MoveChunks copies the payloads that lie in a bucket into the block of the current entry, so that the bucket can be dropped
// (architecture 7). The timers stay what they are, for whoever has planned to fire them too. The bucket must not be the one that
// receives chunks; then nothing happens. more tells that the bucket holds more payloads.
func MoveChunks(r Reader, w MoveWriter, in MoveInput) (bytes uint64, more bool, err error) {
	if in.Bucket >= w.Bucket() {
		return 0, false, nil
	}
	keys, more, err := keptIn(r, in.Bucket)
	for i, key := range keys {
		row, err := keptRow(r, key, in.Bucket)
		if err != nil {
			return 0, false, err
		}
		size := row.PayloadBytes()
		if i > 0 && bytes+uint64(size) > in.MaxBytes || !in.Fits(moveKeys, row.bytes(), size) {
			return bytes, true, nil
		}
		payload, err := row.Payload(r)
		if err != nil {
			return 0, false, err
		}
		row.release(w)
		row.keep(w, payload)
		w.Put(key, appendRow(nil, row))
		bytes += uint64(size)
	}
	return bytes, more, err
}

// keptIn lists the first timers whose payloads lie in a bucket, by their keys.
func keptIn(r Reader, bucket uint32) (keys [][]byte, more bool, err error) {
	scanned := r.Scan(layout.TimerChunksIn(bucket), nil, func(key, _ []byte) bool {
		if more = len(keys) == moveTimers; more {
			return false
		}
		row, ok := layout.TimerOfChunk(key)
		if !ok {
			err = fmt.Errorf("read chunk %x of a bucket: %w", key, ErrBadRow)
			return false
		}
		keys = append(keys, row)
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list timers in bucket %d: %w", bucket, scanned)
	}
	return keys, more, err
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
func HoldsChunksIn(r Reader, bucket uint32) (holds bool, err error) {
	err = r.Scan(layout.TimerChunksIn(bucket), nil, func(_, _ []byte) bool {
		holds = true
		return false
	})
	return holds, err
}

var _ MoveWriter = (*store.Batch)(nil)
