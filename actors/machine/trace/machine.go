package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"queen/store"
	"queen/store/layout"
)

// Reader is what the machine reads rows through.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
	ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error
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
	// inlineBytes is the largest record that is kept in the row itself. A larger one becomes a chunk of its own, which keeps
	// its bucket alive as long as the trace.
	inlineBytes = 1 << 10
	// Keys and RowBytes are what recording a trace without names writes to the main database at most: the counters, the row,
	// its address, the number of names of the tenant.
	Keys     = 4
	RowBytes = inlineBytes + 256
	// NameKeys and NameBytes are what each name adds, its text aside, which is written twice: id, row, the order of names
	// before and after, the trace under the name, the message under the name.
	NameKeys  = 6
	NameBytes = 256
)

// minuteMicros is how finely the order of names is kept. What was seen in one minute is put in order when it is read, so a
// name that is in every trace moves once a minute and does not leave a deleted key behind with each of them.
const minuteMicros = 60 * 1_000_000

// counters are the numbers given out and what there is of them.
type counters struct {
	// last is the newest number, oldest the lowest one that may still be there.
	last, oldest uint64
	lastName     uint64
	stored       uint64
}

var countersKey = layout.Meta("traces")

func readCounters(r Reader) (c counters, err error) {
	value, err := r.Get(countersKey)
	if err != nil || value == nil {
		return counters{oldest: 1}, err
	}
	if len(value) != 32 {
		return c, fmt.Errorf("decode trace counters of %d bytes: %w", len(value), ErrBadRow)
	}
	return counters{
		last: binary.BigEndian.Uint64(value), oldest: binary.BigEndian.Uint64(value[8:]),
		lastName: binary.BigEndian.Uint64(value[16:]), stored: binary.BigEndian.Uint64(value[24:]),
	}, nil
}

func (c *counters) put(w Writer) {
	value := make([]byte, 0, 32)
	for _, n := range []uint64{c.last, c.oldest, c.lastName, c.stored} {
		value = binary.BigEndian.AppendUint64(value, n)
	}
	w.Put(countersKey, value)
}

// Machine belongs to the traces actor.
type Machine struct{ counters counters }

// Load reads the machine from the store.
func Load(r Reader) (*Machine, error) {
	c, err := readCounters(r)
	if err != nil {
		return nil, fmt.Errorf("load traces: %w", err)
	}
	return &Machine{counters: c}, nil
}

// Input is a trace that is to be recorded. StampMicros is above that of every trace before.
type Input struct {
	StampMicros uint64
	ID          uuid.UUID
	Tenant      uuid.UUID
	// Record is stored as it is, except that a name that repeats is dropped.
	Record Record
}

// Record stores a trace.
func (m *Machine) Record(r Reader, w Writer, in *Input) error {
	m.counters.last++
	m.counters.stored++
	row := &Row{
		Number: m.counters.last, StampMicros: in.StampMicros, ID: in.ID, Tenant: in.Tenant,
		Address: AddressOf(in.Tenant, in.Record.Partition, in.Record.Txid),
	}
	record := in.Record
	record.Names = distinct(record.Names)
	if err := m.name(r, w, row, record.Names); err != nil {
		return err
	}
	encoded := appendRecord(nil, &record)
	if len(encoded) <= inlineBytes {
		row.Inline = encoded
	} else {
		ref := w.SetChunk(w.ReserveChunk(), encoded)
		row.Chunk = &ref
	}
	w.Put(layout.Trace(row.Number), appendRow(nil, row))
	w.Put(layout.TraceAt(row.Address, row.Number), []byte{})
	m.counters.put(w)
	return nil
}

// distinct drops names that repeat.
func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	kept := make([]string, 0, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			kept = append(kept, name)
		}
	}
	return kept
}

// name files a new trace under its names.
func (m *Machine) name(r Reader, w Writer, row *Row, names []string) error {
	created := uint64(0)
	for _, name := range names {
		id, known, err := m.nameRow(r, w, row.Tenant, name)
		if err != nil {
			return err
		}
		before := known.minute()
		fresh := known.traces == 0
		known.traces, known.lastNumber, known.lastStampMicros = known.traces+1, row.Number, row.StampMicros
		if fresh {
			created++
		}
		if fresh || before != known.minute() {
			if !fresh {
				w.Delete(layout.TraceNameSeen(row.Tenant, before, id))
			}
			w.Put(layout.TraceNameSeen(row.Tenant, known.minute(), id), []byte{})
		}
		first, err := count(r, w, layout.TraceNameMessage(id, row.Address), 1)
		if err != nil {
			return err
		}
		if first == 1 {
			known.messages++
		}
		w.Put(layout.TraceNamed(id, row.Number), []byte{})
		w.Put(layout.TraceNameRow(id), appendNameRow(nil, known))
		row.Names = append(row.Names, id)
	}
	if created == 0 {
		return nil
	}
	_, err := count(r, w, layout.TraceNameCount(row.Tenant), int64(created))
	return err
}

// nameRow finds a name, or begins a new one, whose row is still to be written.
func (m *Machine) nameRow(r Reader, w Writer, tenant uuid.UUID, name string) (id uint64, row *nameRow, err error) {
	id, err = nameID(r, tenant, name)
	if err != nil {
		return 0, nil, err
	}
	if id == 0 {
		m.counters.lastName++
		w.Put(layout.TraceName(tenant, name), appendNumber64(m.counters.lastName))
		return m.counters.lastName, &nameRow{tenant: tenant, name: name}, nil
	}
	row, err = readName(r, id)
	return id, row, err
}

// minute is the place of the name in the order of names.
func (row *nameRow) minute() uint64 { return row.lastStampMicros / minuteMicros }

// nameID finds the id of a name; 0 when no trace has it.
func nameID(r Reader, tenant uuid.UUID, name string) (uint64, error) {
	value, err := r.Get(layout.TraceName(tenant, name))
	if err != nil {
		return 0, fmt.Errorf("find trace name: %w", err)
	}
	return number64(value)
}

func readName(r Reader, id uint64) (*nameRow, error) {
	value, err := r.Get(layout.TraceNameRow(id))
	if err != nil {
		return nil, fmt.Errorf("read trace name %d: %w", id, err)
	}
	return decodeNameRow(value)
}

// count adds to a row that counts, and deletes it when nothing is left.
func count(r Reader, w Writer, key []byte, change int64) (now uint64, err error) {
	value, err := r.Get(key)
	if err != nil {
		return 0, fmt.Errorf("read trace count: %w", err)
	}
	before, err := number64(value)
	if err != nil {
		return 0, err
	}
	if change < 0 && before < uint64(-change) {
		return 0, fmt.Errorf("lower trace count %d by %d: %w", before, -change, ErrBadRow)
	}
	if now = before + uint64(change); now == 0 {
		w.Delete(key)
	} else {
		w.Put(key, appendNumber64(now))
	}
	return now, nil
}
