// Package deadletter is the pure machine of the dead letters of a queue: copies of messages that a group gave up on, with
// the reason. There is at most one per message and group (messaging 6.5); filing again refreshes it.
package deadletter

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// Reader is what the machine reads rows through.
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

// inlineBytes is the largest message that is kept in the row itself. A larger one becomes a chunk of its own, which keeps
// its bucket alive as long as the dead letter.
const inlineBytes = 1 << 10

// MaxErrorBytes is how much of an error text a dead letter keeps: a stack trace fits many times. The rest is cut off.
const MaxErrorBytes = 128 << 10

// Rows is the number of rows of a dead letter.
const Rows = 4

// RowBytes is what a dead letter takes in the main database at most, given the lengths of its error text and txid: both
// and a small message stand in its row in base64.
func RowBytes(errorBytes, txidBytes int) int {
	const fixed, names = 1000, 6 * 411
	return fixed + names + (min(errorBytes, MaxErrorBytes)+txidBytes+inlineBytes)*4/3
}

// Row is a dead letter as stored.
type Row struct {
	ID            uuid.UUID `json:"id"`
	QueueID       uint64    `json:"queueId"`
	PartitionID   uint64    `json:"partitionId"`
	PartitionUUID uuid.UUID `json:"partitionUuid"`
	Partition     string    `json:"partition"`
	Group         string    `json:"group"`
	Offset        uint64    `json:"offset"`
	Txid          []byte    `json:"txid"`
	Error         string    `json:"-"` // see storedRow
	HasError      bool      `json:"hasError"`
	RetryCount    uint32    `json:"retryCount"`
	FailedMicros  uint64    `json:"failedMicros"`
	// CreatedMicros is the stamp of the message.
	CreatedMicros uint64 `json:"createdMicros"`
	// Message is the stored form of the message, empty when Chunk holds it.
	Message []byte          `json:"message,omitempty"`
	Chunk   *store.ChunkRef `json:"chunk,omitempty"`
}

// ErrBadRow is returned for a row that does not decode: the store is damaged.
var ErrBadRow = errors.New("dead letter row does not decode")

// storedRow is a Row as JSON. The error text is kept as bytes: what a client sends may grow six times as an escaped
// string, and by a third at most so.
type storedRow struct {
	*Row
	ErrorText []byte `json:"error"`
}

// DecodeRow reads the value of a layout.DeadLetter key.
func DecodeRow(value []byte) (*Row, error) {
	stored := storedRow{Row: new(Row)}
	if err := json.Unmarshal(value, &stored); err != nil {
		return nil, fmt.Errorf("decode dead letter: %w: %w", ErrBadRow, err)
	}
	stored.Row.Error = string(stored.ErrorText)
	return stored.Row, nil
}

func (row *Row) encode() []byte {
	encoded, err := json.Marshal(storedRow{Row: row, ErrorText: []byte(row.Error)})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode dead letter: %v", err))
	}
	return encoded
}

// TxidHash is the hash under which dead letters are found by their address.
func TxidHash(txid []byte) [16]byte { return xxh3.Hash128(txid).Bytes() }

// place is the key that keeps dead letters unique per message and group name; the group's id changes when it is deleted,
// its dead letters stay.
func place(row *Row) []byte {
	return layout.DeadLetterPlace(row.PartitionID, row.Offset, xxh3.HashString(row.Group))
}

// File stores a dead letter, or refreshes the one that the message and group have already: its id stays. row.ID is used
// when it is new. stored is the message in its stored form.
func File(r Reader, w Writer, row Row, stored []byte) error {
	row.Error = cut(row.Error)
	key := place(&row)
	value, err := r.Get(key)
	if err != nil {
		return fmt.Errorf("read dead letter place: %w", err)
	}
	if value != nil {
		old, err := byPlace(r, value)
		if err != nil {
			return err
		}
		old.Error, old.HasError, old.RetryCount, old.FailedMicros = row.Error, row.HasError, row.RetryCount, row.FailedMicros
		w.Put(layout.DeadLetter(old.QueueID, old.ID), old.encode())
		return nil
	}
	if len(stored) <= inlineBytes {
		row.Message = stored
	} else {
		ref := w.SetChunk(w.ReserveChunk(), append([]byte(nil), stored...))
		row.Chunk = &ref
	}
	w.Put(key, append(binary.BigEndian.AppendUint64(nil, row.QueueID), row.ID[:]...))
	w.Put(layout.DeadLetterID(row.ID), binary.BigEndian.AppendUint64(nil, row.QueueID))
	w.Put(layout.DeadLetterTxid(row.PartitionID, TxidHash(row.Txid), row.ID), []byte{})
	w.Put(layout.DeadLetter(row.QueueID, row.ID), row.encode())
	return nil
}

// cut shortens an error text to what a dead letter keeps, at a character's boundary.
func cut(text string) string {
	if len(text) <= MaxErrorBytes {
		return text
	}
	end := MaxErrorBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func byPlace(r Reader, value []byte) (*Row, error) {
	if len(value) != 24 {
		return nil, fmt.Errorf("decode dead letter place of %d bytes: %w", len(value), ErrBadRow)
	}
	row, err := Get(r, binary.BigEndian.Uint64(value), uuid.UUID(value[8:]))
	if err == nil && row == nil {
		return nil, fmt.Errorf("find dead letter of its place: %w", ErrBadRow)
	}
	return row, err
}

// Get reads a dead letter of a queue; nil when there is none.
func Get(r Reader, queue uint64, letter uuid.UUID) (*Row, error) {
	value, err := r.Get(layout.DeadLetter(queue, letter))
	if err != nil || value == nil {
		return nil, err
	}
	return DecodeRow(value)
}

// Find reads a dead letter by its id alone; nil when there is none.
func Find(r Reader, letter uuid.UUID) (*Row, error) {
	value, err := r.Get(layout.DeadLetterID(letter))
	if err != nil || value == nil {
		return nil, err
	}
	return Get(r, binary.BigEndian.Uint64(value), letter)
}

// addressLimit bounds the dead letters of one address that one call handles: one per group.
const addressLimit = 4096

// At lists the dead letters of an address in the order of their ids, oldest first.
func At(r Reader, partition uint64, txid []byte) ([]*Row, error) {
	prefix := layout.DeadLettersAt(partition, TxidHash(txid))
	var letters []uuid.UUID
	err := r.Scan(prefix, nil, func(key, _ []byte) bool {
		letters = append(letters, uuid.UUID(key[len(prefix):]))
		return len(letters) < addressLimit
	})
	if err != nil {
		return nil, err
	}
	var rows []*Row
	for _, letter := range letters {
		row, err := Find(r, letter)
		if err != nil {
			return nil, err
		}
		if row != nil {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Delete removes a dead letter with everything that points to it.
func Delete(w Writer, row *Row) {
	w.Delete(place(row))
	w.Delete(layout.DeadLetterID(row.ID))
	w.Delete(layout.DeadLetterTxid(row.PartitionID, TxidHash(row.Txid), row.ID))
	w.Delete(layout.DeadLetter(row.QueueID, row.ID))
	if row.Chunk != nil {
		w.ReleaseChunk(*row.Chunk)
	}
}

// Stored calls visit with the message in its stored form; the bytes are valid inside visit only.
func (row *Row) Stored(r Reader, visit func(stored []byte) error) error {
	if row.Chunk == nil {
		return visit(row.Message)
	}
	return r.Chunk(*row.Chunk, visit)
}

// DecodeMessage reads the dead letter's message; its slices alias stored.
func DecodeMessage(stored []byte) (command.Message, error) {
	var message command.Message
	_, err := command.NextMessage(stored, &message)
	return message, err
}
