package trace

import (
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/store"
)

var (
	recordCodec = rowtest.Codec[*Record]{
		Encode: func(r *Record) []byte { return appendRecord(nil, r) }, Decode: decodeRecord, Bad: ErrBadRow,
	}
	nameCodec = rowtest.Codec[*nameRow]{
		Encode: func(r *nameRow) []byte { return appendNameRow(nil, r) }, Decode: decodeNameRow, Bad: ErrBadRow,
	}
)

// rowCodec is that of the rows with a number, which is in the key.
func rowCodec(number uint64) rowtest.Codec[*Row] {
	return rowtest.Codec[*Row]{
		Encode: func(r *Row) []byte { return appendRow(nil, r) },
		Decode: func(row []byte) (*Row, error) { return DecodeRow(number, row) },
		Bad:    ErrBadRow,
	}
}

func sampleRecord() *Record {
	return &Record{
		Partition: "17", Txid: "t-1", Queue: "orders", PartitionName: "p", Placed: true, Group: "workers", EventType: "info",
		Worker: "queen-1", Names: []string{"order", ""}, Data: []byte(`{"step":1}`),
	}
}

func sampleRows() (inline, chunked *Row) {
	inline = &Row{
		Number: 9, StampMicros: testStart, ID: uuid.UUID{0: 1, 15: 2}, Tenant: tenantA, Address: Address{0: 3, 15: 4},
		Names: []uint64{1, 300}, Inline: appendRecord(nil, sampleRecord()),
	}
	moved := *inline
	moved.Names, moved.Inline = []uint64{}, nil
	moved.Chunk = &store.ChunkRef{Bucket: 1, Entry: 2, Ordinal: 3, Bytes: 4}
	return inline, &moved
}

func TestRowsEqualGoldenFiles(t *testing.T) {
	inline, chunked := sampleRows()
	rowCodec(inline.Number).Golden(t, "row-inline", inline)
	rowCodec(chunked.Number).Golden(t, "row-chunk", chunked)
	recordCodec.Golden(t, "record", sampleRecord())
	recordCodec.Golden(t, "record-empty", &Record{Names: []string{}})
	nameCodec.Golden(t, "name", &nameRow{
		tenant: tenantA, name: "order/1", traces: 300, messages: 2, lastNumber: 9, lastStampMicros: testStart,
	})
	c := counters{last: 4, oldest: 3, lastName: 2, stored: 1}
	memory := rowtest.NewMemory()
	c.put(memory)
	rowtest.Golden(t, "counters", memory.Row(countersKey))
	if read, err := readCounters(memory); err != nil || read != c {
		t.Errorf("counters: read %+v, %v", read, err)
	}
}

func TestCutRowsAreRefused(t *testing.T) {
	inline, chunked := sampleRows()
	rowCodec(9).Cut(t, "row", inline, len(inline.Inline))
	rowCodec(9).Cut(t, "row with a chunk", chunked, 0)
	recordCodec.Cut(t, "record", sampleRecord(), len(sampleRecord().Data))
	nameCodec.Cut(t, "name", &nameRow{tenant: tenantA, name: ""}, 0)
}

func FuzzDecodeRow(f *testing.F) {
	inline, chunked := sampleRows()
	f.Add(appendRow(nil, inline))
	f.Add(appendRow(nil, chunked))
	f.Add(appendRecord(nil, sampleRecord()))
	f.Add(appendNameRow(nil, &nameRow{name: "n", traces: 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		rowCodec(1).Stable(t, data)
		recordCodec.Stable(t, data)
		nameCodec.Stable(t, data)
	})
}
