package timer

import (
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// Reader is what the machine reads rows through. It shows what the machine has written.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
	Chunk(ref store.ChunkRef, visit func(chunk []byte) error) error
}

// Writer takes the machine's effects.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
	ReserveChunk() uint32
	SetChunk(ordinal uint32, data []byte) store.ChunkRef
	ReleaseChunk(ref store.ChunkRef)
}

const (
	// Keys and RowBytes are what an operation of a call, or a planned timer, writes to the main database at most: the row, its
	// place, the place that it leaves, the count of its tenant, its payload in the bucket where it was and where it is. What is
	// appended and filed comes on top, and the counters once a command.
	Keys     = 6
	RowBytes = 3_072
)

// OpBytes is what an operation of a call writes to the main database at most. Queue and key stand in the key of the row, in its
// place, and twice in buckets.
func OpBytes(op *command.TimerOp) int {
	const fixed = 512
	n := fixed + 4*(len(op.Queue)+len(op.Key)) + len(op.Partition) + len(op.Txid) + len(op.ProducerSub)
	if len(op.Payload) <= inlineBytes {
		n += len(op.Payload)
	}
	return n
}

// bytes is what writing the row again takes at most.
func (row *Row) bytes() int {
	return RowBytes + len(row.Partition) + len(row.Txid) + len(row.ProducerSub) + maxReasonBytes + len(row.Inline)
}

// centuryMicros is 100 years; a longer delay counts as that much, either way (state 1.5).
const centuryMicros = 3_155_760_000 * 1_000_000

// Machine belongs to the timers actor. What it remembers is in the rows as well.
type Machine struct {
	counters counters
	front    front
}

// Load reads the machine from the store.
func Load(r Reader) (*Machine, error) {
	c, err := readCounters(r)
	if err != nil {
		return nil, err
	}
	return &Machine{counters: c, front: newFront(c.first)}, nil
}

// write stores a row that is new or has a new number; its payload is in place.
func (m *Machine) write(w Writer, row *Row) {
	w.Put(row.key(), appendRow(nil, row))
	w.Put(row.place().key(), row.key())
	m.front.add(row.place())
}

// unplace takes a row out of the order of firing.
func (m *Machine) unplace(w Writer, row *Row) {
	w.Delete(row.place().key())
	m.front.remove(row.place())
}

// nextNumber is the number of the next write of a row.
func (m *Machine) nextNumber() uint64 {
	m.counters.lastNumber++
	return m.counters.lastNumber
}

// remove deletes a timer.
func (m *Machine) remove(w Writer, t *tally, row *Row) {
	w.Delete(row.key())
	m.unplace(w, row)
	row.release(w)
	t.count(row, -1)
}

// keep puts the payload into the row, or into a chunk of its own. payload is kept until the batch is committed.
func (row *Row) keep(w Writer, payload []byte) {
	if len(payload) <= inlineBytes {
		row.Inline = payload
		return
	}
	ref := w.SetChunk(w.ReserveChunk(), payload)
	row.Chunk = &ref
	w.Put(layout.TimerChunk(ref.Bucket, row.key()), []byte{})
}

// release gives the chunk of the payload up, if there is one.
func (row *Row) release(w Writer) {
	if row.Chunk == nil {
		return
	}
	w.Delete(layout.TimerChunk(row.Chunk.Bucket, row.key()))
	w.ReleaseChunk(*row.Chunk)
}
