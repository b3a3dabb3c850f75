package api

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// newID mints a version 7 UUID (messaging 2.12). Every pushed message gets one, so it draws from the runtime's ChaCha8
// source rather than from the kernel, which the library would ask under a lock.
func newID(now time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|uint64(rand.Uint32()&0xffff))
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
