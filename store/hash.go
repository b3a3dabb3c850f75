package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// StateHash is a fingerprint of the state that a view shows: every row in order, the accounting of buckets included,
// which vouches for the bytes of all chunks. Two nodes that applied the same entries have equal hashes (I1). Left out is
// what may differ: which entry came before the last one. It reads all of main.
func (s *Store) StateHash(view *View) ([32]byte, error) {
	hash := sha256.New()
	var lengths [8]byte
	applied := appliedKey()
	err := view.Scan(nil, nil, func(key, value []byte) bool {
		if bytes.Equal(key, applied) && len(value) == appliedBytes {
			clear(value[17:25]) // previous
		}
		binary.BigEndian.PutUint32(lengths[:], uint32(len(key)))
		binary.BigEndian.PutUint32(lengths[4:], uint32(len(value)))
		hash.Write(lengths[:])
		hash.Write(key)
		hash.Write(value)
		return true
	})
	var sum [32]byte
	if err != nil {
		return sum, err
	}
	hash.Sum(sum[:0])
	return sum, nil
}
