package partition

import (
	"encoding/binary"
	"fmt"
	"math"
)

// maxHashedMessages is the most messages of an append whose hashes are stored with its reference: 16 KiB of hashes. The
// hashes of larger appends are computed from their chunk when they are needed.
const maxHashedMessages = 1024

// Append is the stored reference to the messages of one push (messaging 1).
type Append struct {
	// Base is the offset of its first message.
	Base        uint64
	Count       uint32
	StampMicros uint64
	Chunk       ChunkRef
	// PayloadBytes is the sum of its payloads as they were pushed.
	PayloadBytes uint64
	// hashes holds 16 bytes per message, or nothing when the append is too large for that.
	hashes []byte
}

// End is the offset above its last message.
func (a *Append) End() uint64 { return a.Base + uint64(a.Count) }

// flagUnhashed marks a reference without hashes.
const flagUnhashed = 1

// appendReference appends the stored form: count, stamp since previousStamp, flags, chunk, payload bytes, hashes. The base
// is not stored, it follows from what stands before.
func appendReference(dst []byte, a *Append, previousStamp uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(a.Count))
	dst = binary.AppendUvarint(dst, a.StampMicros-previousStamp)
	if len(a.hashes) == 0 {
		dst = append(dst, flagUnhashed)
	} else {
		dst = append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(a.Chunk.Bucket))
	dst = binary.AppendUvarint(dst, a.Chunk.Entry)
	dst = binary.AppendUvarint(dst, uint64(a.Chunk.Ordinal))
	dst = binary.AppendUvarint(dst, uint64(a.Chunk.Bytes))
	dst = binary.AppendUvarint(dst, a.PayloadBytes)
	return append(dst, a.hashes...)
}

// references walks encoded references. A copy of it is an independent walk.
type references struct {
	base  uint64
	stamp uint64
	rest  []byte
}

// next reads the next reference into a, whose hashes alias the encoded bytes. It returns false at the end.
func (s *references) next(a *Append) (bool, error) {
	if len(s.rest) == 0 {
		return false, nil
	}
	b := s.rest
	count, b := takeUvarint(b)
	delta, b := takeUvarint(b)
	if len(b) == 0 {
		return false, fmt.Errorf("read reference at offset %d: it is cut off", s.base)
	}
	flags, b := b[0], b[1:]
	bucket, b := takeUvarint(b)
	entry, b := takeUvarint(b)
	ordinal, b := takeUvarint(b)
	bytes, b := takeUvarint(b)
	payload, b := takeUvarint(b)
	valid := b != nil && count > 0 && count <= math.MaxUint32 && flags&^flagUnhashed == 0 &&
		bucket <= math.MaxUint32 && ordinal <= math.MaxUint32 && bytes <= math.MaxUint32 &&
		s.base+count > s.base && s.stamp+delta >= s.stamp && (flags != 0 || count <= maxHashedMessages)
	if !valid {
		return false, fmt.Errorf("read reference at offset %d", s.base)
	}
	a.hashes = nil
	if flags == 0 {
		size := int(count) * hashBytes
		if size > len(b) {
			return false, fmt.Errorf("read hashes at offset %d", s.base)
		}
		a.hashes, b = b[:size:size], b[size:]
	}
	a.Base, a.Count, a.StampMicros, a.PayloadBytes = s.base, uint32(count), s.stamp+delta, payload
	a.Chunk = ChunkRef{Bucket: uint32(bucket), Entry: entry, Ordinal: uint32(ordinal), Bytes: uint32(bytes)}
	s.base, s.stamp, s.rest = a.Base+count, a.StampMicros, b
	return true, nil
}

// takeUvarint reads a number from the front of b; the rest is nil when there is none. Most numbers take one byte, and that
// case is inlined: references are walked on every push and ack.
func takeUvarint(b []byte) (uint64, []byte) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:]
	}
	return takeLongUvarint(b)
}

func takeLongUvarint(b []byte) (uint64, []byte) {
	value, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil
	}
	return value, b[n:]
}

// fields reads the fields of a row one after the other; failed sticks.
type fields struct {
	rest   []byte
	failed bool
}

func (f *fields) uvarint() uint64 {
	if len(f.rest) > 0 && f.rest[0] < 0x80 {
		value := uint64(f.rest[0])
		f.rest = f.rest[1:]
		return value
	}
	value, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.failed, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return value
}

func (f *fields) octet() byte {
	b := f.bytes(1)
	if f.failed {
		return 0
	}
	return b[0]
}

func (f *fields) uint32() uint32 {
	b := f.bytes(4)
	if f.failed {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func (f *fields) uint64() uint64 {
	b := f.bytes(8)
	if f.failed {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (f *fields) bytes(n int) []byte {
	if n > len(f.rest) {
		f.failed, f.rest = true, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}
