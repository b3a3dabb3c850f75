package trace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queen/store"
)

// ErrBadRow is returned for a row that does not decode: the store is damaged.
var ErrBadRow = errors.New("trace row does not decode")

// Row is what the main database keeps of a trace: what finding and removing it takes. The rest is its Record.
type Row struct {
	Number      uint64
	StampMicros uint64
	ID          uuid.UUID
	Tenant      uuid.UUID
	Address     Address
	// Names are the ids of the names, in the order in which the client gave them.
	Names []uint64
	// Chunk holds the record unless Inline does.
	Chunk  *store.ChunkRef
	Inline []byte
}

// Record is what readers are shown of a trace.
type Record struct {
	// Partition is the canonical text of the partition: its decimal id where it is known.
	Partition string
	Txid      string
	// Queue and PartitionName are the names of the place when the trace was recorded. Placed is false when there was none.
	Queue         string
	PartitionName string
	Placed        bool
	Group         string
	EventType     string
	Worker        string
	Names         []string
	// Data is the JSON text as it was sent.
	Data []byte
}

// nameRow is what is known of a name as long as some trace has it.
type nameRow struct {
	tenant   uuid.UUID
	name     string
	traces   uint64
	messages uint64
	// lastNumber and lastStampMicros are those of the newest trace.
	lastNumber      uint64
	lastStampMicros uint64
}

// The first byte of a row tells its format; rows of a later format are not read by this build.
const (
	rowVersion     = 1
	nameRowVersion = 1
)

const (
	placeInline = 0
	placeChunk  = 1
)

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// appendRow encodes the value of a layout.Trace key.
func appendRow(dst []byte, row *Row) []byte {
	dst = append(dst, rowVersion)
	dst = binary.AppendUvarint(dst, row.StampMicros)
	dst = append(dst, row.ID[:]...)
	dst = append(dst, row.Tenant[:]...)
	dst = append(dst, row.Address[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(row.Names)))
	for _, name := range row.Names {
		dst = binary.AppendUvarint(dst, name)
	}
	if row.Chunk != nil {
		return row.Chunk.Append(append(dst, placeChunk))
	}
	return append(append(dst, placeInline), row.Inline...)
}

// DecodeRow reads the value of the layout.Trace key of the given number. Inline aliases value.
func DecodeRow(number uint64, value []byte) (*Row, error) {
	r := reader{rest: value}
	if r.byte() != rowVersion {
		return nil, fmt.Errorf("decode trace %d: %w", number, ErrBadRow)
	}
	row := &Row{Number: number, StampMicros: r.number(), ID: r.array(), Tenant: r.array(), Address: r.array()}
	row.Names = make([]uint64, r.count())
	for i := range row.Names {
		row.Names[i] = r.number()
	}
	switch r.byte() {
	case placeInline:
		row.Inline = r.rest
	case placeChunk:
		ref, rest, err := store.DecodeChunkRef(r.rest)
		r.bad = r.bad || err != nil || len(rest) > 0
		row.Chunk = &ref
	default:
		r.bad = true
	}
	if r.bad {
		return nil, fmt.Errorf("decode trace %d: %w", number, ErrBadRow)
	}
	return row, nil
}

// appendRecord encodes a record, which lies in the row or in a chunk.
func appendRecord(dst []byte, record *Record) []byte {
	placed := byte(0)
	if record.Placed {
		placed = 1
	}
	dst = append(dst, placed)
	for _, text := range []string{record.Partition, record.Txid, record.Queue, record.PartitionName, record.Group,
		record.EventType, record.Worker} {
		dst = appendText(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(len(record.Names)))
	for _, name := range record.Names {
		dst = appendText(dst, name)
	}
	return append(dst, record.Data...)
}

// decodeRecord reads a record. Nothing of it aliases data.
func decodeRecord(data []byte) (*Record, error) {
	r := reader{rest: data}
	placed := r.byte()
	record := &Record{
		Placed: placed == 1, Partition: r.text(), Txid: r.text(), Queue: r.text(), PartitionName: r.text(), Group: r.text(),
		EventType: r.text(), Worker: r.text(),
	}
	record.Names = make([]string, r.count())
	for i := range record.Names {
		record.Names[i] = r.text()
	}
	if r.bad || placed > 1 {
		return nil, fmt.Errorf("decode trace record: %w", ErrBadRow)
	}
	record.Data = append([]byte(nil), r.rest...)
	return record, nil
}

// appendNameRow encodes the value of a layout.TraceNameRow key.
func appendNameRow(dst []byte, row *nameRow) []byte {
	dst = append(dst, nameRowVersion)
	dst = append(dst, row.tenant[:]...)
	for _, n := range []uint64{row.traces, row.messages, row.lastNumber, row.lastStampMicros} {
		dst = binary.AppendUvarint(dst, n)
	}
	return append(dst, row.name...)
}

func decodeNameRow(value []byte) (*nameRow, error) {
	r := reader{rest: value}
	version := r.byte()
	row := &nameRow{
		tenant: r.array(), traces: r.number(), messages: r.number(), lastNumber: r.number(), lastStampMicros: r.number(),
	}
	row.name = string(r.rest)
	if r.bad || version != nameRowVersion {
		return nil, fmt.Errorf("decode trace name: %w", ErrBadRow)
	}
	return row, nil
}

// number64 decodes a row that is one big-endian number; 0 when there is no row.
func number64(value []byte) (uint64, error) {
	if value == nil {
		return 0, nil
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("decode trace number of %d bytes: %w", len(value), ErrBadRow)
	}
	return binary.BigEndian.Uint64(value), nil
}

func appendNumber64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// reader reads fields from the front of rest. After the first bad one every read gives a zero value.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) byte() byte {
	if field := r.take(1); len(field) == 1 {
		return field[0]
	}
	return 0
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad || size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count reads the length of a list whose elements take at least one byte each.
func (r *reader) count() uint64 {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return 0
	}
	return n
}

func (r *reader) array() (field [16]byte) {
	copy(field[:], r.take(16))
	return field
}

func (r *reader) text() string { return string(r.take(r.number())) }
