package timer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// ErrBadRow is returned for a row that does not decode, or for rows that do not fit together: the store is damaged.
var ErrBadRow = errors.New("timer row does not decode")

// inlineBytes is the largest payload that is kept in the row itself: a full call stays well within what an entry may write. A
// larger one becomes a chunk of its own, which keeps its bucket alive until it is moved, see MoveChunks.
const inlineBytes = 4 << 10

// maxReasonBytes is how much of the text of a failure is kept.
const maxReasonBytes = 1 << 10

// Row is a pending timer as stored.
type Row struct {
	Tenant uuid.UUID
	Queue  string
	Key    string
	// Number is new with every write of the row.
	Number uint64
	// DueMicros is the instant from which it may fire, DeliverMicros what its clients are told. In Unix microseconds.
	DueMicros     uint64
	DeliverMicros int64
	// CreatedMicros is when the key became pending, UpdatedMicros when the row was written.
	CreatedMicros, UpdatedMicros uint64
	// Attempts counts permanent failures.
	Attempts    uint32
	MessageID   uuid.UUID
	Partition   string
	Txid        string
	ProducerSub string
	// LastError is the text of the last failure, empty when there was none.
	LastError       string
	Zstd, Encrypted bool
	// Chunk holds the payload unless Inline does.
	Chunk  *store.ChunkRef
	Inline []byte
}

func (row *Row) key() []byte { return layout.Timer(row.Tenant, row.Queue, row.Key) }

func (row *Row) place() place { return place{row.DueMicros, row.DeliverMicros, row.Number} }

// PayloadBytes is the size of the payload as stored.
func (row *Row) PayloadBytes() int {
	if row.Chunk != nil {
		return int(row.Chunk.Bytes)
	}
	return len(row.Inline)
}

// Payload reads the payload as stored: JSON, an envelope, or compressed.
func (row *Row) Payload(r Reader) (payload []byte, err error) {
	if row.Chunk == nil {
		return row.Inline, nil
	}
	err = r.Chunk(*row.Chunk, func(chunk []byte) error {
		payload = append([]byte(nil), chunk...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read payload of timer %q: %w", row.Key, err)
	}
	return payload, nil
}

// Planned names the timer as it is now, for a command.TimerFire. What it appends, or why it does not, is for the caller to add.
func (row *Row) Planned() command.PlannedTimer {
	return command.PlannedTimer{Tenant: row.Tenant, Queue: row.Queue, Key: row.Key, Number: row.Number}
}

// rowVersion is the first byte of a row; rows of a later format are not read by this build.
const rowVersion = 1

const (
	rowZstd = 1 << iota
	rowEncrypted
	rowChunk
	rowFlags = rowZstd | rowEncrypted | rowChunk
)

// appendRow encodes the value of a layout.Timer key.
func appendRow(dst []byte, row *Row) []byte {
	var flags byte
	if row.Zstd {
		flags |= rowZstd
	}
	if row.Encrypted {
		flags |= rowEncrypted
	}
	if row.Chunk != nil {
		flags |= rowChunk
	}
	dst = append(dst, rowVersion, flags)
	dst = binary.AppendUvarint(dst, row.Number)
	dst = binary.AppendUvarint(dst, row.DueMicros)
	dst = binary.AppendVarint(dst, row.DeliverMicros)
	for _, n := range []uint64{row.CreatedMicros, row.UpdatedMicros, uint64(row.Attempts)} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = append(dst, row.MessageID[:]...)
	for _, text := range []string{row.Partition, row.Txid, row.ProducerSub, row.LastError} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	if row.Chunk != nil {
		return row.Chunk.Append(dst)
	}
	return append(dst, row.Inline...)
}

// DecodeRow reads the row under a layout.Timer key. Inline aliases value.
func DecodeRow(key, value []byte) (*Row, error) {
	row := &Row{}
	var ok bool
	if row.Tenant, row.Queue, row.Key, ok = layout.SplitTimer(key); !ok {
		return nil, fmt.Errorf("decode key of a timer of %d bytes: %w", len(key), ErrBadRow)
	}
	r := reader{rest: value}
	version, flags := r.byte(), r.byte()
	r.bad = r.bad || version != rowVersion || flags&^byte(rowFlags) != 0
	row.Zstd, row.Encrypted = flags&rowZstd != 0, flags&rowEncrypted != 0
	row.Number, row.DueMicros, row.DeliverMicros = r.number(), r.number(), r.signed()
	row.CreatedMicros, row.UpdatedMicros = r.number(), r.number()
	row.Attempts = r.number32()
	copy(row.MessageID[:], r.take(16))
	row.Partition, row.Txid, row.ProducerSub, row.LastError = r.text(), r.text(), r.text(), r.text()
	if flags&rowChunk == 0 {
		row.Inline = r.rest
	} else {
		ref, rest, err := store.DecodeChunkRef(r.rest)
		r.bad = r.bad || err != nil || len(rest) > 0
		row.Chunk = &ref
	}
	if r.bad {
		return nil, fmt.Errorf("decode timer of %d bytes: %w", len(value), ErrBadRow)
	}
	return row, nil
}

// find reads the row of a timer; nil when it is not pending.
func find(r Reader, tenant uuid.UUID, queue, timerKey string) (*Row, error) {
	key := layout.Timer(tenant, queue, timerKey)
	value, err := r.Get(key)
	if err != nil {
		return nil, fmt.Errorf("read timer %q: %w", timerKey, err)
	}
	if value == nil {
		return nil, nil
	}
	return DecodeRow(key, value)
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

func (r *reader) number32() uint32 {
	n := r.number()
	if n != uint64(uint32(n)) {
		r.bad, r.rest = true, nil
		return 0
	}
	return uint32(n)
}

func (r *reader) signed() int64 {
	n := r.number()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *reader) text() string { return string(r.take(r.number())) }
