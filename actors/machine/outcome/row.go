package outcome

import (
	"encoding/binary"
	"errors"
	"fmt"

	"queen/raftlog/command"
	"queen/store"
)

// The value of a layout.Outcome key:
//
//	version          1 byte
//	place            1 byte: the body follows, or the reference of the chunk that holds it
//
// and its body:
//
//	stamp            uvarint, of the entry
//	origins          uvarint, their number; then of each
//	  origin         8 bytes
//	  answered below uvarint, as it is after the entry
//	outcomes         uvarint, their number; then of each, in the order of the commands
//	  origin         uvarint, its place in the list above
//	  sequence       uvarint, less what is answered
//	  result         uvarint of its length, then command.AppendResult; nothing when there was no room for it
const (
	rowVersion  = 1
	placeInline = 0
	placeChunk  = 1
)

// ErrBadRow is returned for a row that does not decode: the store is damaged.
var ErrBadRow = errors.New("outcome row does not decode")

// Row is a decoded row.
type Row struct {
	StampMicros uint64
	Origins     []Answered
	Outcomes    []Outcome
	// chunk holds the body when it is too large for the row.
	chunk *store.ChunkRef
}

// Answered says up to which sequence an origin has answered its requests.
type Answered struct {
	Origin, Below uint64
}

// Outcome is a remembered request.
type Outcome struct {
	Request command.RequestID
	// Result is the encoding of the result, empty when there was no room for it; it aliases the row.
	Result []byte
	// at is where the length of the result stands in the body.
	at uint32
	// origin is the place of the origin in the row.
	origin int
}

// appendBodyHead encodes what stands in front of the outcomes.
func appendBodyHead(dst []byte, stampMicros uint64, origins []Answered, outcomes int) []byte {
	dst = binary.AppendUvarint(dst, stampMicros)
	dst = binary.AppendUvarint(dst, uint64(len(origins)))
	for _, o := range origins {
		dst = binary.LittleEndian.AppendUint64(dst, o.Origin)
		dst = binary.AppendUvarint(dst, o.Below)
	}
	return binary.AppendUvarint(dst, uint64(outcomes))
}

// ReadRow reads the value of the layout.Outcome key. Its results alias the value or are copies.
func ReadRow(r Reader, value []byte) (*Row, error) {
	body, chunk, err := readBody(r, value)
	if err != nil {
		return nil, err
	}
	row, err := decodeBody(body)
	if err != nil {
		return nil, err
	}
	row.chunk = chunk
	return row, nil
}

// readBody finds the body of a row; chunk is where it was when it is too large for the row.
func readBody(r Reader, value []byte) (body []byte, chunk *store.ChunkRef, err error) {
	chunk, inline, err := decodePlace(value)
	if err != nil || chunk == nil {
		return inline, nil, err
	}
	err = r.Chunk(*chunk, func(bytes []byte) error {
		body = append([]byte(nil), bytes...)
		return nil
	})
	return body, chunk, err
}

func decodePlace(value []byte) (chunk *store.ChunkRef, inline []byte, err error) {
	if len(value) < 2 || value[0] != rowVersion || value[1] > placeChunk {
		return nil, nil, fmt.Errorf("decode outcome row of %d bytes: %w", len(value), ErrBadRow)
	}
	if value[1] == placeInline {
		return nil, value[2:], nil
	}
	ref, rest, err := store.DecodeChunkRef(value[2:])
	if err != nil || len(rest) > 0 {
		return nil, nil, fmt.Errorf("decode outcome row of %d bytes: chunk reference: %w", len(value), ErrBadRow)
	}
	return &ref, nil, nil
}

func decodeBody(body []byte) (*Row, error) {
	r := reader{rest: body}
	row := &Row{StampMicros: r.number()}
	row.Origins = make([]Answered, r.count(minOriginBytes))
	for i := range row.Origins {
		row.Origins[i] = Answered{Origin: r.number64(), Below: r.number()}
	}
	row.Outcomes = make([]Outcome, r.count(minOutcomeBytes))
	for i := range row.Outcomes {
		origin := r.number()
		if origin >= uint64(len(row.Origins)) {
			r.bad = true
			break
		}
		of, o := row.Origins[origin], &row.Outcomes[i]
		o.origin = int(origin)
		o.Request = command.RequestID{Origin: of.Origin, Sequence: of.Below + r.number()}
		r.bad = r.bad || o.Request.Sequence-of.Below >= Unanswered || o.Request.Sequence < of.Below
		o.at = uint32(len(body) - len(r.rest))
		o.Result = r.bytes()
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("decode outcomes of %d bytes: %w", len(body), ErrBadRow)
	}
	return row, nil
}

const (
	// minOriginBytes: origin, number.
	minOriginBytes = 8 + 1
	// minOutcomeBytes: origin, sequence, length.
	minOutcomeBytes = 3
)

// resultAt decodes the result whose length stands at a place in a body. An empty one had no room.
func resultAt(body []byte, at uint32) (command.Result, error) {
	if uint64(at) > uint64(len(body)) {
		return nil, fmt.Errorf("read outcome at %d of %d bytes: %w", at, len(body), ErrBadRow)
	}
	r := reader{rest: body[at:]}
	encoded := r.bytes()
	if r.bad {
		return nil, fmt.Errorf("read outcome at %d of %d bytes: %w", at, len(body), ErrBadRow)
	}
	if len(encoded) == 0 {
		return forgotten(), nil
	}
	return command.DecodeResult(encoded)
}

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
	field := r.rest[:n:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad || size <= 0 || size > 1 && r.rest[size-1] == 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) number64() uint64 {
	if field := r.take(8); field != nil {
		return binary.LittleEndian.Uint64(field)
	}
	return 0
}

func (r *reader) bytes() []byte { return r.take(r.number()) }

// count reads the length of a list whose elements take at least minBytes each.
func (r *reader) count(minBytes uint64) uint64 {
	n := r.number()
	if n > uint64(len(r.rest))/minBytes {
		r.bad, r.rest = true, nil
		return 0
	}
	return n
}
