package kv

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"queen/store"
	"queen/store/layout"
)

// Reader is what the machine reads rows through.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
	Chunk(ref store.ChunkRef, visit func(chunk []byte) error) error
}

// Writer takes the machine's effects and owns what it is given.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
	ReserveChunk() uint32
	SetChunk(ordinal uint32, data []byte) store.ChunkRef
	ReleaseChunk(ref store.ChunkRef)
}

const (
	// inlineBytes is the largest value that is kept in the row itself: 256 writes of that size, the default of a call, fit one
	// entry. A larger one becomes a chunk of its own, which keeps its bucket alive as long as the row; MoveChunks gives the
	// bucket back.
	inlineBytes = 8 << 10
	// inlineNumberBytes is the same for a number that an incr makes, of which nobody knows before it is made how long it is: a call
	// has to reckon with the longest.
	inlineNumberBytes = 256
	// MaxVersion is where versions end: what a number of a JSON client holds exactly (state 2.1).
	MaxVersion = 1<<53 - 1
	// MaxTTLSeconds is 100 years; more counts as that much (state 1.5).
	MaxTTLSeconds = 3_155_760_000
	// MaxPlaceBytes bounds namespace and key together, with 36 bytes for the tenant (state 2.5).
	MaxPlaceBytes = 511 - 36
	// maxNamespaceBytes is how long a namespace may be (state 2.5).
	maxNamespaceBytes = 64
)

const microsPerSecond = 1_000_000

// place names a row of a tenant.
type place struct{ namespace, key string }

// valid tells whether a row may stand there. Commands name no other place; what reads or writes one is refused all the same.
func (p place) valid() bool {
	return p.namespace != "" && len(p.namespace) <= maxNamespaceBytes && p.key != "" && len(p.namespace)+len(p.key) <= MaxPlaceBytes &&
		strings.IndexByte(p.namespace, 0) < 0 && strings.IndexByte(p.key, 0) < 0
}

// charge is what a row counts against the bytes of its tenant: namespace, key and value as compact JSON.
func (p place) charge(valueBytes int) uint64 {
	return uint64(len(p.namespace) + len(p.key) + valueBytes)
}

// readRow finds a row, expired or not; nil when there is none.
func readRow(r Reader, tenant uuid.UUID, at place) (*Row, error) {
	if !at.valid() {
		return nil, nil
	}
	value, err := r.Get(layout.KV(tenant, at.namespace, at.key))
	if err != nil || value == nil {
		return nil, err
	}
	return DecodeRow(value)
}

// expiry is when a row that is written now ends.
func expiry(nowMicros, ttlSeconds uint64) uint64 {
	if ttlSeconds == 0 {
		return 0
	}
	return nowMicros + min(ttlSeconds, MaxTTLSeconds)*microsPerSecond
}

// counters are what a group knows of its KV store.
type counters struct {
	// lastVersion is the newest version given out.
	lastVersion uint64
	// sweptMicros is the instant before which no row expires any more: sweeps begin there and do not pass over what earlier ones
	// have deleted.
	sweptMicros uint64
	rows, bytes uint64
}

var countersKey = layout.Meta("kv")

func readCounters(r Reader) (c counters, err error) {
	value, err := r.Get(countersKey)
	if err != nil {
		return c, fmt.Errorf("read kv counters: %w", err)
	}
	return c, numbers("kv counters", value, &c.lastVersion, &c.sweptMicros, &c.rows, &c.bytes)
}

func (c *counters) put(w Writer) {
	w.Put(countersKey, appendNumbers(c.lastVersion, c.sweptMicros, c.rows, c.bytes))
}

// Usage is what a tenant has in the store, rows that have expired and are not swept included. Bytes are those of namespaces,
// keys and values.
type Usage struct{ Rows, Bytes uint64 }

// UsageOf reads what a tenant has.
func UsageOf(r Reader, tenant uuid.UUID) (u Usage, err error) {
	value, err := r.Get(layout.KVUsage(tenant))
	if err != nil {
		return u, fmt.Errorf("read kv usage: %w", err)
	}
	return u, numbers("kv usage", value, &u.Rows, &u.Bytes)
}

// Total is what the group has.
func Total(r Reader) (Usage, error) {
	c, err := readCounters(r)
	return Usage{Rows: c.rows, Bytes: c.bytes}, err
}
