package command

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Message is one stored message. Its slices alias the chunk from which it was read.
type Message struct {
	ID uuid.UUID
	// Txid is empty when the client named none; the transaction id is then the text of ID.
	Txid []byte
	// TraceID is uuid.Nil when there is none.
	TraceID uuid.UUID
	// ProducerSub is empty when there is none (messaging 2.6).
	ProducerSub []byte
	// Payload is the JSON text as pushed, or the envelope when Encrypted is set.
	Payload   []byte
	Encrypted bool
}

// EffectiveTxid returns the transaction id under which clients know the message. It appends to scratch when it has to
// spell the id out.
func (m *Message) EffectiveTxid(scratch []byte) []byte {
	if len(m.Txid) > 0 {
		return m.Txid
	}
	var text [36]byte
	encodeUUID(&text, m.ID)
	return append(scratch[:0], text[:]...)
}

const hexDigits = "0123456789abcdef"

func encodeUUID(dst *[36]byte, id uuid.UUID) {
	j := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst[j] = '-'
			j++
		}
		dst[j] = hexDigits[b>>4]
		dst[j+1] = hexDigits[b&15]
		j += 2
	}
}

const (
	flagTxid      = 1 << 0
	flagTrace     = 1 << 1
	flagSub       = 1 << 2
	flagEncrypted = 1 << 3
	flagsKnown    = flagTxid | flagTrace | flagSub | flagEncrypted
)

// ErrBadChunk is returned for bytes that are no sequence of messages.
var ErrBadChunk = errors.New("chunk is not a sequence of messages")

// AppendMessage appends the stored form of a message to a chunk: flags, id, the optional fields that the flags name,
// payload; every variable field with its length in front.
func AppendMessage(dst []byte, m *Message) []byte {
	var flags byte
	if len(m.Txid) > 0 {
		flags |= flagTxid
	}
	if m.TraceID != uuid.Nil {
		flags |= flagTrace
	}
	if len(m.ProducerSub) > 0 {
		flags |= flagSub
	}
	if m.Encrypted {
		flags |= flagEncrypted
	}
	dst = append(dst, flags)
	dst = append(dst, m.ID[:]...)
	if flags&flagTxid != 0 {
		dst = appendBytes(dst, m.Txid)
	}
	if flags&flagTrace != 0 {
		dst = append(dst, m.TraceID[:]...)
	}
	if flags&flagSub != 0 {
		dst = appendBytes(dst, m.ProducerSub)
	}
	return appendBytes(dst, m.Payload)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// NextMessage reads the first message of a chunk into m and returns the rest of the chunk. The slices of m alias chunk.
func NextMessage(chunk []byte, m *Message) (rest []byte, err error) {
	if len(chunk) < 17 {
		return nil, fmt.Errorf("read message head of %d bytes: %w", len(chunk), ErrBadChunk)
	}
	flags := chunk[0]
	if flags&^byte(flagsKnown) != 0 {
		return nil, fmt.Errorf("read message flags %#x: %w", flags, ErrBadChunk)
	}
	*m = Message{Encrypted: flags&flagEncrypted != 0}
	copy(m.ID[:], chunk[1:17])
	rest = chunk[17:]
	if flags&flagTxid != 0 {
		if m.Txid, rest, err = takeBytes(rest); err != nil {
			return nil, err
		}
	}
	if flags&flagTrace != 0 {
		if len(rest) < 16 {
			return nil, fmt.Errorf("read trace id: %w", ErrBadChunk)
		}
		copy(m.TraceID[:], rest)
		rest = rest[16:]
	}
	if flags&flagSub != 0 {
		if m.ProducerSub, rest, err = takeBytes(rest); err != nil {
			return nil, err
		}
	}
	if m.Payload, rest, err = takeBytes(rest); err != nil {
		return nil, err
	}
	return rest, nil
}

func takeBytes(b []byte) (field, rest []byte, err error) {
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) {
		return nil, nil, fmt.Errorf("read field length: %w", ErrBadChunk)
	}
	end := n + int(length)
	return b[n:end:end], b[end:], nil
}
