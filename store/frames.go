package store

import (
	"encoding/binary"
	"fmt"
)

// Parts of main and of open buckets are frames back to back: length of the key, length of the value (both uvarints), key,
// value. In main a value is a stored row with its checksum; in a bucket the key is the entry and the value its block.

const (
	// framePartBytes is the size at which a part of frames is full.
	framePartBytes = 4 << 20
	// maxFramePartBytes is the largest part of frames: one that was nearly full when it took the largest block.
	maxFramePartBytes = framePartBytes + MaxBlockBytes + 1<<10
)

func appendFrame(to, key, value []byte) []byte {
	to = binary.AppendUvarint(to, uint64(len(key)))
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(append(to, key...), value...)
}

// nextFrame reads the frame at the front of data. Key and value alias data.
func nextFrame(data []byte) (key, value, rest []byte, err error) {
	keyBytes, n := binary.Uvarint(data)
	if n <= 0 {
		return nil, nil, nil, fmt.Errorf("%w: frame has no key length", ErrCorrupt)
	}
	data = data[n:]
	valueBytes, n := binary.Uvarint(data)
	if n <= 0 {
		return nil, nil, nil, fmt.Errorf("%w: frame has no value length", ErrCorrupt)
	}
	data = data[n:]
	left := uint64(len(data))
	if keyBytes > left || valueBytes > left-keyBytes {
		return nil, nil, nil, fmt.Errorf("%w: frame of %d and %d bytes in a rest of %d", ErrCorrupt, keyBytes, valueBytes, left)
	}
	end := keyBytes + valueBytes
	return data[:keyBytes:keyBytes], data[keyBytes:end:end], data[end:], nil
}
