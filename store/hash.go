package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// StateHash is a fingerprint of the state that a view shows: every row in order, the accounting of buckets included,
// which vouches for the bytes of all chunks. Two nodes that applied the same entries have equal hashes (I1). Left out is
// what may differ: which entry came before the last one. It reads all of main.
func (s *Store) StateHash(view *View) ([32]byte, error) {
	state := newStateHash()
	err := view.Scan(nil, nil, func(key, value []byte) bool {
		state.add(key, value)
		return true
	})
	if err != nil {
		return [32]byte{}, err
	}
	return state.sum(), nil
}

// stateHash is a StateHash under way.
type stateHash struct {
	hash    hash.Hash
	applied []byte // key of the applied row
	rows    uint64
}

func newStateHash() *stateHash { return &stateHash{hash: sha256.New(), applied: appliedKey()} }

// add takes the next row; rows come in the order of their keys.
func (h *stateHash) add(key, value []byte) {
	if bytes.Equal(key, h.applied) && len(value) == appliedBytes {
		value = bytes.Clone(value)
		clear(value[17:25]) // previous
	}
	var lengths [8]byte
	binary.BigEndian.PutUint32(lengths[:], uint32(len(key)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(value)))
	h.hash.Write(lengths[:])
	h.hash.Write(key)
	h.hash.Write(value)
	h.rows++
}

func (h *stateHash) sum() [32]byte { return [32]byte(h.hash.Sum(nil)) }
