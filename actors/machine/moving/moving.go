// Package moving empties buckets of the chunks that are no messages (architecture 7): of machines that keep, beside their rows, an
// index of those whose chunk lies in a bucket.
package moving

import "fmt"

// Scanner is what the index is read through.
type Scanner interface {
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
}

// Input is one step of emptying a bucket.
type Input struct {
	Bucket uint32
	// MaxBytes is how many bytes of chunks the step copies at most; one chunk always goes, when it fits.
	MaxBytes uint64
	// Fits tells whether the entry has room for so much.
	Fits func(keys, bytes, chunkBytes int) bool
}

// rows bounds the rows of one step.
const rows = 256

// Index is how a machine finds the rows whose chunks lie in a bucket.
type Index struct {
	// Prefix is that of the keys of the bucket.
	Prefix []byte
	// Row is the key of the row that a key stands for. Its error is returned.
	Row func(key []byte) ([]byte, error)
}

// Chunk is a chunk to be moved.
type Chunk struct {
	// Bytes is its size, Keys and RowBytes what moving it writes to the main database.
	Bytes          int
	Keys, RowBytes int
	// Move copies it into the block of the current entry.
	Move func() error
}

// Step moves the first chunks of a bucket. open reads the chunk of a row, given by its key. more tells that the bucket holds
// more.
func Step(r Scanner, index Index, in Input, open func(row []byte) (Chunk, error)) (bytes uint64, more bool, err error) {
	var keys [][]byte
	scanned := r.Scan(index.Prefix, nil, func(key, _ []byte) bool {
		if more = len(keys) == rows; more {
			return false
		}
		var row []byte
		if row, err = index.Row(key); err != nil {
			return false
		}
		keys = append(keys, row)
		return true
	})
	if err == nil && scanned != nil {
		err = fmt.Errorf("list chunks in bucket %d: %w", in.Bucket, scanned)
	}
	if err != nil {
		return 0, false, err
	}
	for i, key := range keys {
		chunk, err := open(key)
		if err != nil {
			return 0, false, err
		}
		if i > 0 && bytes+uint64(chunk.Bytes) > in.MaxBytes || !in.Fits(chunk.Keys, chunk.RowBytes, chunk.Bytes) {
			return bytes, true, nil
		}
		if err := chunk.Move(); err != nil {
			return 0, false, err
		}
		bytes += uint64(chunk.Bytes)
	}
	return bytes, more, nil
}

// Holds tells whether a bucket holds a chunk of the index.
func Holds(r Scanner, prefix []byte) (holds bool, err error) {
	err = r.Scan(prefix, nil, func(_, _ []byte) bool {
		holds = true
		return false
	})
	return holds, err
}
