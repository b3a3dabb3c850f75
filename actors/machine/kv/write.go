package kv

import (
	"github.com/google/uuid"

	"queen/store"
	"queen/store/layout"
)

// writing takes the effects of one command on rows, with everything that points to them.
type writing struct {
	w Writer
	account
}

// put writes a row in place of old, which may be nil. The version of row is given out here. A value of up to inline bytes is kept
// in the row.
func (x *writing) put(tenant uuid.UUID, at place, old, row *Row, value []byte, inline int) {
	x.counters.lastVersion++
	row.Version = x.counters.lastVersion
	key := layout.KV(tenant, at.namespace, at.key)
	rows, bytes := int64(1), int64(at.charge(len(value)))
	if old != nil {
		rows, bytes = 0, bytes-int64(at.charge(old.valueBytes()))
		x.unlink(key, old)
	}
	if len(value) <= inline {
		row.Inline = value
	} else {
		row.Chunk = x.chunk(key, append([]byte(nil), value...))
	}
	if row.ExpiresMicros != 0 {
		// The value lets a quota be judged without reading the rows that have expired.
		x.w.Put(layout.KVExpiry(row.ExpiresMicros, key), appendNumbers(at.charge(len(value))))
		x.counters.sweptMicros = min(x.counters.sweptMicros, row.ExpiresMicros)
	}
	x.w.Put(key, appendRow(nil, row))
	x.add(tenant, at.namespace, rows, bytes)
}

// remove deletes a row.
func (x *writing) remove(tenant uuid.UUID, at place, old *Row) {
	key := layout.KV(tenant, at.namespace, at.key)
	x.unlink(key, old)
	x.w.Delete(key)
	x.add(tenant, at.namespace, -1, -int64(at.charge(old.valueBytes())))
}

// unlink deletes what points to a row, and gives up its chunk.
func (x *writing) unlink(key []byte, old *Row) {
	if old.ExpiresMicros != 0 {
		x.w.Delete(layout.KVExpiry(old.ExpiresMicros, key))
	}
	if old.Chunk != nil {
		x.w.Delete(layout.KVChunk(old.Chunk.Bucket, key))
		x.w.ReleaseChunk(*old.Chunk)
	}
}

// chunk puts a value, which is kept, into the block of the entry.
func (x *writing) chunk(key, value []byte) *store.ChunkRef {
	ref := x.w.SetChunk(x.w.ReserveChunk(), value)
	x.w.Put(layout.KVChunk(ref.Bucket, key), []byte{})
	return &ref
}
