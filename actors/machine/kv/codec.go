package kv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"queen/store"
)

// ErrBadRow is returned for a row that does not decode: the store is damaged.
var ErrBadRow = errors.New("kv row does not decode")

// Row is a row as stored.
type Row struct {
	Version uint64
	// ExpiresMicros is the first instant at which the row is none, 0 for never.
	ExpiresMicros uint64
	UpdatedMicros uint64
	// Chunk holds the value unless Inline does.
	Chunk  *store.ChunkRef
	Inline []byte
}

// The first byte of a row tells its format; rows of a later format are not read by this build.
const rowVersion = 1

const (
	placeInline = 0
	placeChunk  = 1
)

// appendRow encodes the value of a layout.KV key.
func appendRow(dst []byte, row *Row) []byte {
	dst = append(dst, rowVersion)
	for _, n := range [...]uint64{row.Version, row.ExpiresMicros, row.UpdatedMicros} {
		dst = binary.AppendUvarint(dst, n)
	}
	if row.Chunk != nil {
		return row.Chunk.Append(append(dst, placeChunk))
	}
	return append(append(dst, placeInline), row.Inline...)
}

// DecodeRow reads the value of a layout.KV key. Inline aliases value.
func DecodeRow(value []byte) (*Row, error) {
	r := reader{rest: value}
	version := r.byte()
	row := &Row{Version: r.number(), ExpiresMicros: r.number(), UpdatedMicros: r.number()}
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
	if r.bad || version != rowVersion {
		return nil, fmt.Errorf("decode row: %w", ErrBadRow)
	}
	return row, nil
}

// live tells whether the row counts as one at an instant; there may be none.
func (row *Row) live(nowMicros uint64) bool {
	return row != nil && (row.ExpiresMicros == 0 || row.ExpiresMicros > nowMicros)
}

// valueBytes is the length of the value.
func (row *Row) valueBytes() int {
	if row.Chunk != nil {
		return int(row.Chunk.Bytes)
	}
	return len(row.Inline)
}

// value returns a copy of the value.
func (row *Row) value(r Reader) (value []byte, err error) {
	if row.Chunk == nil {
		return append([]byte(nil), row.Inline...), nil
	}
	err = r.Chunk(*row.Chunk, func(chunk []byte) error {
		value = append([]byte(nil), chunk...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read value of a row: %w", err)
	}
	return value, nil
}

// reader reads fields from the front of rest. After the first bad one every read gives a zero value.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) byte() byte {
	if r.bad || len(r.rest) == 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// number reads a number in its shortest form.
func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad || size <= 0 || size > 1 && r.rest[size-1] == 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// numbers decodes a row that is a format and a fixed number of numbers; all of them are zero when there is no row.
func numbers(what string, value []byte, fields ...*uint64) error {
	if value == nil {
		return nil
	}
	r := reader{rest: value}
	version := r.byte()
	for _, field := range fields {
		*field = r.number()
	}
	if r.bad || version != rowVersion || len(r.rest) > 0 {
		return fmt.Errorf("decode %s of %d bytes: %w", what, len(value), ErrBadRow)
	}
	return nil
}

func appendNumbers(fields ...uint64) []byte {
	value := make([]byte, 1, 1+len(fields)*binary.MaxVarintLen64)
	value[0] = rowVersion
	for _, field := range fields {
		value = binary.AppendUvarint(value, field)
	}
	return value
}
