package partition

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/google/uuid"
)

const (
	hashRowVersion = 1
	// maxRowMessages bounds a hash row: 32 bytes a message and up to 13 bytes a run keep it under 64 KiB.
	maxRowMessages = 1024
)

// run is a stretch of a hash row whose messages share a stamp.
type run struct {
	count uint32
	stamp uint64
}

// hashRow keeps what answers duplicates and acks of removed messages: their hashes, ids and stamps. Its offsets are
// contiguous from base on.
type hashRow struct {
	base        uint64
	count       uint32
	newestStamp uint64
	runs        []run
	// ids and hashes hold 16 bytes per message each.
	ids    []byte
	hashes []byte
}

func (h *hashRow) end() uint64 { return h.base + uint64(h.count) }

func (h *hashRow) id(offset uint64) (id uuid.UUID) {
	copy(id[:], h.ids[(offset-h.base)*16:])
	return id
}

func (h *hashRow) hash(offset uint64) []byte {
	at := (offset - h.base) * hashBytes
	return h.hashes[at : at+hashBytes]
}

func (h *hashRow) stamp(offset uint64) uint64 {
	left := offset - h.base
	for _, r := range h.runs {
		if left < uint64(r.count) {
			return r.stamp
		}
		left -= uint64(r.count)
	}
	return h.newestStamp
}

// add appends one message to the row.
func (h *hashRow) add(id uuid.UUID, hash []byte, stamp uint64) {
	if last := len(h.runs) - 1; last >= 0 && h.runs[last].stamp == stamp {
		h.runs[last].count++
	} else {
		h.runs = append(h.runs, run{count: 1, stamp: stamp})
	}
	h.ids = append(h.ids, id[:]...)
	h.hashes = append(h.hashes, hash...)
	h.count++
	h.newestStamp = stamp
}

// encode returns the stored form: version, newest stamp, messages, runs (count, distance to the newest stamp), ids, hashes.
func (h *hashRow) encode() []byte {
	row := make([]byte, 0, 32+len(h.runs)*12+len(h.ids)+len(h.hashes))
	row = append(row, hashRowVersion)
	row = binary.BigEndian.AppendUint64(row, h.newestStamp)
	row = binary.BigEndian.AppendUint32(row, h.count)
	row = binary.AppendUvarint(row, uint64(len(h.runs)))
	for _, r := range h.runs {
		row = binary.AppendUvarint(row, uint64(r.count))
		row = binary.AppendUvarint(row, h.newestStamp-r.stamp)
	}
	row = append(row, h.ids...)
	return append(row, h.hashes...)
}

// newestRowStamp reads only the newest stamp of a row.
func newestRowStamp(base uint64, row []byte) (uint64, error) {
	f := fields{rest: row}
	version, newest := f.octet(), f.uint64()
	if f.failed || version != hashRowVersion {
		return 0, fmt.Errorf("read hash row %d of version %d: %w", base, version, ErrBadHashes)
	}
	return newest, nil
}

// decodeHashRow reads the row that was stored under a base offset; ids and hashes alias it. Errors wrap ErrBadHashes.
func decodeHashRow(base uint64, row []byte) (hashRow, error) {
	newest, err := newestRowStamp(base, row)
	if err != nil {
		return hashRow{}, err
	}
	f := fields{rest: row[9:]}
	h := hashRow{base: base, newestStamp: newest, count: f.uint32()}
	runs := f.uvarint()
	if f.failed || h.count == 0 || h.count > maxRowMessages || runs > uint64(h.count) || h.end() < base {
		return hashRow{}, fmt.Errorf("read hash row header %d: %w", base, ErrBadHashes)
	}
	h.runs = make([]run, runs)
	left := uint64(h.count)
	for i := range h.runs {
		count, distance := f.uvarint(), f.uvarint()
		if f.failed || count == 0 || count > left || count > math.MaxUint32 || distance > newest {
			return hashRow{}, fmt.Errorf("read runs of hash row %d: %w", base, ErrBadHashes)
		}
		h.runs[i] = run{count: uint32(count), stamp: newest - distance}
		left -= count
	}
	h.ids = f.bytes(int(h.count) * 16)
	h.hashes = f.bytes(int(h.count) * hashBytes)
	if f.failed || left != 0 || len(f.rest) != 0 {
		return hashRow{}, fmt.Errorf("read hashes of row %d: %w", base, ErrBadHashes)
	}
	return h, nil
}
