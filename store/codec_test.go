package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func hexOf(t *testing.T, name string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s: %x, want %s", name, got, want)
	}
}

// Formats on disk and in the replicated state never change without a new version.
func TestGoldenFormats(t *testing.T) {
	ref := ChunkRef{Bucket: 1, Entry: 0x0203, Ordinal: 4, Bytes: 5}
	hexOf(t, "chunk reference", ref.Append(nil), "0000000100000000000002030000000400000005")

	chunks := []chunkSlot{
		{data: []byte("ab"), sum: chunkSum(7, 0, []byte("ab")), set: true},
		{},
		{data: []byte("cde"), sum: chunkSum(7, 2, []byte("cde")), set: true},
	}
	hexOf(t, "block", appendBlock(nil, chunks), "0100000003"+
		"0000002900000002"+"784dd99c"+"0000002b00000000"+"00000000"+"0000002b00000003"+"401e8a8f"+"6162636465")

	hexOf(t, "row", appendRow(nil, []byte("key"), []byte("value")), "76616c7565"+"e8008944")
	hexOf(t, "applied row", appliedRow{index: 9, term: 8, previous: 7, bucket: 6}.encode(),
		"01000000000000000900000000000000080000000000000007"+"00000006")
	hexOf(t, "bucket row", bucketRow{totalBytes: 1, liveBytes: 2, liveChunks: 3, contents: 4, sealed: true}.encode(),
		"010000000000000001000000000000000200000000000000030000000000000004"+"01")

	var row bucketRow
	row.fold(0x11223344, 5)
	row.fold(0x55667788, 9)
	if row.contents != 0x731026748dcb63e0 {
		t.Errorf("bucket contents %#x", row.contents)
	}
	record := durableRecord{Format: durableFormat, Index: 3, Term: 2, Clean: true}
	if record.sum() != 0xfa74cec1 {
		t.Errorf("durable record checksum %#x", record.sum())
	}
}

func TestCodecsRoundTrip(t *testing.T) {
	ref := ChunkRef{Bucket: 1 << 31, Entry: 1 << 63, Ordinal: 77, Bytes: 1<<32 - 1}
	got, rest, err := DecodeChunkRef(append(ref.Append(nil), "rest"...))
	if got != ref || string(rest) != "rest" || err != nil {
		t.Fatal(got, rest, err)
	}
	if _, _, err := DecodeChunkRef(make([]byte, ChunkRefBytes-1)); err == nil {
		t.Fatal("a short reference was decoded")
	}
	applied := appliedRow{index: 1 << 63, term: 2, previous: 3, bucket: 1 << 31}
	if got, err := decodeAppliedRow(applied.encode()); got != applied || err != nil {
		t.Fatal(got, err)
	}
	bucket := bucketRow{totalBytes: 1, liveBytes: 1 << 63, liveChunks: 3, contents: 1 << 62, sealed: true}
	if got, err := decodeBucketRow(bucket.encode()); got != bucket || err != nil {
		t.Fatal(got, err)
	}
}

func TestRowChecksumCoversKeyAndValue(t *testing.T) {
	stored := appendRow(nil, []byte("key"), []byte("value"))
	if value, err := rowValue([]byte("key"), stored); string(value) != "value" || err != nil {
		t.Fatal(value, err)
	}
	for bit := range len(stored) * 8 {
		bad := bytes.Clone(stored)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := rowValue([]byte("key"), bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	if _, err := rowValue([]byte("kez"), stored); !errors.Is(err, ErrCorrupt) {
		t.Fatal("another key", err)
	}
	if _, err := rowValue([]byte("key"), stored[:3]); !errors.Is(err, ErrCorrupt) {
		t.Fatal("short row", err)
	}
}

func TestEveryFlippedBitThatMattersToAChunkIsSeen(t *testing.T) {
	data := [][]byte{[]byte("first"), []byte("second"), {}}
	var chunks []chunkSlot
	for i, d := range data {
		chunks = append(chunks, chunkSlot{data: d, sum: chunkSum(9, uint32(i), d), set: true})
	}
	block := appendBlock(nil, chunks)
	for bit := range len(block) * 8 {
		bad := bytes.Clone(block)
		bad[bit/8] ^= 1 << (bit % 8)
		for i, d := range data {
			chunk, err := chunkOf(bad, ChunkRef{Entry: 9, Ordinal: uint32(i), Bytes: uint32(len(d))})
			if err == nil && !bytes.Equal(chunk, d) {
				t.Fatalf("bit %d: chunk %d is %q", bit, i, chunk)
			}
		}
	}
	for _, ref := range []ChunkRef{
		{Entry: 9, Ordinal: 3}, {Entry: 8, Ordinal: 0, Bytes: 5}, {Entry: 9, Ordinal: 0, Bytes: 4}, {Entry: 9, Ordinal: 1, Bytes: 5},
	} {
		if _, err := chunkOf(block, ref); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s was found: %v", ref, err)
		}
	}
}

func FuzzChunkOf(f *testing.F) {
	f.Add(appendBlock(nil, []chunkSlot{{data: []byte("ab")}, {}}), uint64(1), uint32(0), uint32(2))
	f.Fuzz(func(t *testing.T, block []byte, entry uint64, ordinal, length uint32) {
		chunk, err := chunkOf(block, ChunkRef{Entry: entry, Ordinal: ordinal, Bytes: length})
		if err == nil && uint32(len(chunk)) != length {
			t.Fatal("chunk of another length")
		}
	})
}

func FuzzDecodeRows(f *testing.F) {
	f.Add(appliedRow{index: 1}.encode())
	f.Add(bucketRow{sealed: true}.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if row, err := decodeAppliedRow(data); err == nil && !bytes.Equal(row.encode(), data) {
			t.Fatal("applied row does not encode to what it was decoded from")
		}
		if row, err := decodeBucketRow(data); err == nil && !bytes.Equal(row.encode(), data) {
			t.Fatal("bucket row does not encode to what it was decoded from")
		}
		_, _ = rowValue([]byte("k"), data) // must not panic
	})
}

func FuzzWalkLog(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = walkLog(data, func(appliedRow) error { return nil }) // must not panic
	})
}

func FuzzVerifyTable(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = verifyTableBytes(data) // must not panic
	})
}
