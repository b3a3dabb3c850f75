package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"queen/store/layout"
)

// Every row of main ends with a checksum of its key and value (see commonOptions for why Badger's own is not enough).
const rowSumBytes = 4

func rowSum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func appendRow(to, key, value []byte) []byte {
	to = append(to, value...)
	return binary.BigEndian.AppendUint32(to, rowSum(key, value))
}

// rowValue checks a stored row and returns its value, never nil.
func rowValue(key, stored []byte) ([]byte, error) {
	n := len(stored) - rowSumBytes
	if n < 0 || rowSum(key, stored[:n]) != binary.BigEndian.Uint32(stored[n:]) {
		return nil, fmt.Errorf("%w: row %x", ErrCorrupt, key)
	}
	return stored[:n:n], nil
}

// appliedRow is the row that says which entry main holds. previous is the index of the batch before: at an unclean
// start the rows of consecutive entries must form a chain, or a log of Badger was cut in its middle.
type appliedRow struct {
	index, term, previous uint64
	bucket                uint32 // the open bucket
}

const (
	appliedVersion = 1
	appliedBytes   = 1 + 8 + 8 + 8 + 4
)

func appliedKey() []byte { return layout.Meta("applied") }

func (r appliedRow) encode() []byte {
	to := make([]byte, 0, appliedBytes)
	to = append(to, appliedVersion)
	to = binary.BigEndian.AppendUint64(to, r.index)
	to = binary.BigEndian.AppendUint64(to, r.term)
	to = binary.BigEndian.AppendUint64(to, r.previous)
	return binary.BigEndian.AppendUint32(to, r.bucket)
}

func decodeAppliedRow(data []byte) (appliedRow, error) {
	if len(data) != appliedBytes || data[0] != appliedVersion {
		return appliedRow{}, fmt.Errorf("decode applied row: %d bytes %x", len(data), data)
	}
	return appliedRow{
		index:    binary.BigEndian.Uint64(data[1:]),
		term:     binary.BigEndian.Uint64(data[9:]),
		previous: binary.BigEndian.Uint64(data[17:]),
		bucket:   binary.BigEndian.Uint32(data[25:]),
	}, nil
}

// bucketRow is the accounting of one bucket. contents folds the checksums of all chunks ever written to the bucket, so
// that equal rows on two nodes also say that their chunks are equal.
type bucketRow struct {
	totalBytes uint64 // chunk bytes ever written
	liveBytes  uint64
	liveChunks uint64
	contents   uint64
	sealed     bool // a later bucket is open
}

const (
	bucketRowVersion = 1
	bucketRowBytes   = 1 + 4*8 + 1
)

func (r bucketRow) encode() []byte {
	to := make([]byte, 0, bucketRowBytes)
	to = append(to, bucketRowVersion)
	to = binary.BigEndian.AppendUint64(to, r.totalBytes)
	to = binary.BigEndian.AppendUint64(to, r.liveBytes)
	to = binary.BigEndian.AppendUint64(to, r.liveChunks)
	to = binary.BigEndian.AppendUint64(to, r.contents)
	if r.sealed {
		return append(to, 1)
	}
	return append(to, 0)
}

func decodeBucketRow(data []byte) (bucketRow, error) {
	if len(data) != bucketRowBytes || data[0] != bucketRowVersion || data[33] > 1 {
		return bucketRow{}, fmt.Errorf("decode bucket row: %d bytes %x", len(data), data)
	}
	return bucketRow{
		totalBytes: binary.BigEndian.Uint64(data[1:]),
		liveBytes:  binary.BigEndian.Uint64(data[9:]),
		liveChunks: binary.BigEndian.Uint64(data[17:]),
		contents:   binary.BigEndian.Uint64(data[25:]),
		sealed:     data[33] == 1,
	}, nil
}

// fold adds a chunk's checksum to the contents; the multiplier is odd, so that the order of chunks counts.
func (r *bucketRow) fold(sum uint32, bytes int) {
	r.contents = (r.contents ^ uint64(sum)<<32 ^ uint64(bytes)) * 0x9e3779b97f4a7c15
}
