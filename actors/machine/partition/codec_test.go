package partition

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
)

var headCodec = rowtest.Codec[Head]{
	Encode: func(h Head) []byte { return h.AppendTo(nil) }, Decode: DecodeHead, Bad: ErrBadHead,
}

// hashCodec is that of the hash rows with a base, which is in the key.
func hashCodec(base uint64) rowtest.Codec[hashRow] {
	return rowtest.Codec[hashRow]{
		Encode: func(r hashRow) []byte { return r.encode() },
		Decode: func(row []byte) (hashRow, error) { return decodeHashRow(base, row) },
		Bad:    ErrBadHashes,
	}
}

func testHashes(txids ...string) []byte {
	var hashes []byte
	for _, txid := range txids {
		hash := HashTxid([]byte(txid))
		hashes = append(hashes, hash[:]...)
	}
	return hashes
}

func testAppends() []Append {
	return []Append{
		{Base: 100, Count: 2, StampMicros: testStart + 5, Chunk: ChunkRef{Bucket: 3, Entry: 70_000, Ordinal: 2, Bytes: 900},
			PayloadBytes: 800, hashes: testHashes("a", "b")},
		{Base: 102, Count: 2000, StampMicros: testStart + 9, Chunk: ChunkRef{Bucket: 4, Entry: 70_001, Bytes: 1 << 25},
			PayloadBytes: 1 << 24},
		{Base: 2102, Count: 1, StampMicros: testStart + 10, Chunk: ChunkRef{Bucket: 4, Entry: 70_002, Ordinal: 1, Bytes: 20},
			hashes: testHashes("c")},
	}
}

func testHeads() map[string]Head {
	newest := testAppends()[2]
	inline := appendReference(nil, &newest, newest.StampMicros)
	return map[string]Head{
		"head-small": {CreatedMicros: testStart, LogStart: 2102, Tail: 2103, LastStampMicros: testStart + 10,
			OldestStampMicros: testStart + 10, OldestCount: 1, Segments: 1, RetainedBytes: 20, LargestPayloadBytes: 3,
			inlineBase: 2102, inline: inline, inlineStamp: testStart + 10},
		"head-full": {CreatedMicros: testStart, LogStart: 102, Tail: 2103, LastStampMicros: testStart + 10,
			OldestStampMicros: testStart + 9, OldestCount: 2000, Segments: 2, RetainedBytes: 1<<25 + 20, LargestPayloadBytes: 70_000,
			inlineBase: 2102, frontPage: 100, pageStamp: testStart + 9, inline: inline, inlineStamp: testStart + 10,
			hashes: hashState{rows: 2, floor: 7, dueStamp: testStart - 9, newestStamp: testStart + 5, moved: 500},
			moves:  moveState{end: 700, bucket: 3, next: 600}},
		"head-emptied": {CreatedMicros: testStart, LogStart: 2103, Tail: 2103, LastStampMicros: testStart + 10,
			LargestPayloadBytes: 3, inlineBase: 2103, hashes: hashState{rows: 1, floor: 2000, dueStamp: testStart, newestStamp: testStart}},
	}
}

func testPage() page {
	list := testAppends()
	return page{base: 100, end: 2103, firstStamp: testStart + 5, lastStamp: testStart + 10, bucket: 3, refs: encodeAppends(list)}
}

func testRow() hashRow {
	row := hashRow{base: 40}
	for i, txid := range []string{"a", "b", "c"} {
		row.add(uuid.UUID{1, byte(i)}, testHashes(txid), testStart+uint64(i/2))
	}
	return row
}

func TestHeadFormatIsStable(t *testing.T) {
	for name, head := range testHeads() {
		headCodec.Golden(t, name, head)
	}
}

func TestPageFormatIsStable(t *testing.T) {
	p := testPage()
	row := p.encode()
	rowtest.Golden(t, "page", row)
	back, err := decodePage(p.base, row)
	if err != nil || !reflect.DeepEqual(back, p) {
		t.Fatalf("read back %+v, %v", back, err)
	}
	list, err := back.appends()
	if err != nil || !reflect.DeepEqual(list, testAppends()) {
		t.Fatalf("read back %+v, %v", list, err)
	}
}

func TestHashRowFormatIsStable(t *testing.T) {
	row := testRow()
	hashCodec(row.base).Golden(t, "hashrow", row)
	back, err := decodeHashRow(row.base, row.encode())
	if err != nil {
		t.Fatal(err)
	}
	for i, txid := range []string{"a", "b", "c"} {
		offset := 40 + uint64(i)
		if !bytes.Equal(back.hash(offset), testHashes(txid)) || back.id(offset)[1] != byte(i) || back.stamp(offset) != testStart+uint64(i/2) {
			t.Errorf("offset %d: %x %v %d", offset, back.hash(offset), back.id(offset), back.stamp(offset))
		}
	}
}

// TestHashOfATxidIsStable: hashes are stored, so the function can never change.
func TestHashOfATxidIsStable(t *testing.T) {
	rowtest.Golden(t, "hashes", testHashes("", "order-1", "018f2a3b-0000-7000-8000-000000000001", strings.Repeat("long", 500)))
}

func TestLargestHashRowFitsAValue(t *testing.T) {
	row := hashRow{base: 1}
	for i := range uint64(maxRowMessages) {
		row.add(uuid.UUID{1}, testHashes("a"), testStart+i<<40)
	}
	if size := len(row.encode()); size > 64<<10 {
		t.Errorf("a full hash row takes %d bytes", size)
	}
}

// TestDamagedRowsAreRefused: no prefix of a row reads as a row, and no changed byte makes a decoder panic.
func TestDamagedRowsAreRefused(t *testing.T) {
	head := testHeads()["head-full"]
	headRow := head.AppendTo(nil)
	p, row := testPage(), testRow()
	rows := map[string]struct {
		bytes  []byte
		want   error
		decode func([]byte) error
	}{
		"head": {headRow, ErrBadHead, func(b []byte) error { _, err := DecodeHead(b); return err }},
		"page": {p.encode(), ErrBadPage, func(b []byte) error {
			p, err := decodePage(p.base, b)
			if err == nil {
				_, err = p.appends()
			}
			return err
		}},
		"hash row": {row.encode(), ErrBadHashes, func(b []byte) error { _, err := decodeHashRow(row.base, b); return err }},
	}
	for name, r := range rows {
		if err := r.decode(r.bytes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range r.bytes {
			if err := r.decode(r.bytes[:n]); !errors.Is(err, r.want) {
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
			damaged := bytes.Clone(r.bytes)
			damaged[n] ^= 0xFF
			if err := r.decode(damaged); err != nil && !errors.Is(err, r.want) {
				t.Errorf("%s damaged at %d: %v", name, n, err)
			}
		}
		version := bytes.Clone(r.bytes)
		version[0]++
		if err := r.decode(version); !errors.Is(err, r.want) {
			t.Errorf("%s of an unknown version: %v", name, err)
		}
	}
}

func FuzzDecodeHead(f *testing.F) {
	for _, head := range testHeads() {
		f.Add(head.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, row []byte) { headCodec.Stable(t, row) })
}

func FuzzDecodePage(f *testing.F) {
	p := testPage()
	f.Add(uint64(100), p.encode())
	f.Fuzz(func(t *testing.T, base uint64, row []byte) {
		p, err := decodePage(base, row)
		var list []Append
		if err == nil {
			list, err = p.appends()
		}
		if err != nil {
			if !errors.Is(err, ErrBadPage) {
				t.Fatal(err)
			}
			return
		}
		p.refs = encodeAppends(list)
		again, err := decodePage(base, p.encode())
		if err != nil {
			t.Fatal(err)
		}
		second, err := again.appends()
		if err != nil || !reflect.DeepEqual(list, second) {
			t.Fatalf("%+v reads back as %+v, %v", list, second, err)
		}
	})
}

func FuzzDecodeHashRow(f *testing.F) {
	row := testRow()
	f.Add(uint64(40), row.encode())
	f.Fuzz(func(t *testing.T, base uint64, encoded []byte) { hashCodec(base).Stable(t, encoded) })
}
