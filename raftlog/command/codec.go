package command

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The bytes of an entry:
//
//	format version   1 byte
//	stamp            8 bytes
//	seed            16 bytes
//	settings         3 × 4 bytes
//	command count    uvarint
//	items            as often as counted, see below
//	checksum         4 bytes, CRC-32C of everything in front of it
//
// and of an item:
//
//	length           4 bytes, of what follows
//	origin           8 bytes
//	sequence         uvarint
//	answered below   uvarint
//	opcode           1 byte
//	command version  1 byte
//	command          fields in the order of the Go struct
//
// Fixed-width numbers are little-endian, uvarints are in their shortest form, a byte field or a list has its length in
// front, a set of flags is one byte. Every value has exactly one encoding and the decoder accepts no other.
const (
	// commandVersion is the version of every command of format 7. A command whose fields change gets its own next one.
	commandVersion = 1
	headerFixed    = 1 + 8 + 16 + 3*4
	checksumBytes  = 4
	itemLength     = 4
	// minItemBytes is the size of the smallest item: length, origin, two numbers, opcode and version.
	minItemBytes = itemLength + 8 + 1 + 1 + 1 + 1
)

// MaxEntryOverheadBytes is how many bytes an entry is at most larger than the items in it.
const MaxEntryOverheadBytes = headerFixed + binary.MaxVarintLen32 + checksumBytes

// ErrBadEntry is returned for bytes that are no entry: cut, damaged, or not in the canonical form.
var ErrBadEntry = errors.New("entry is malformed")

// ErrChecksum is returned for an entry whose bytes differ from what was written. It is an ErrBadEntry too.
var ErrChecksum = fmt.Errorf("checksum differs: %w", ErrBadEntry)

// ErrUnknownFormat is returned for an entry or a command that a newer build wrote.
var ErrUnknownFormat = errors.New("format is unknown to this build")

// castagnoli is a read-only table; CRC-32C is the one that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodable is a command of this package.
type encodable interface {
	Command
	appendTo(dst []byte) []byte
}

// AppendItem appends the encoding of an item. A node that serves a client calls it, so that the proposer has only to copy.
// It panics when the command is not one of this package or its encoding passes 4 GiB: both are programming errors, the
// handler has bounded the sizes before.
func AppendItem(dst []byte, item *Item) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendRequest(dst, item.Request)
	dst = binary.AppendUvarint(dst, item.AnsweredBelow)
	command, ok := item.Command.(encodable)
	if !ok {
		panic(fmt.Sprintf("BUG: %T is not a command of this package", item.Command))
	}
	dst = append(dst, byte(command.Op()), commandVersion)
	dst = command.appendTo(dst)
	length := len(dst) - start - itemLength
	if uint64(length) > math.MaxUint32 {
		panic(fmt.Sprintf("BUG: item of %d bytes", length))
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(length))
	return dst
}

// AppendHeader appends the encoding of a header that is followed by count items.
func AppendHeader(dst []byte, h *Header, count int) []byte {
	dst = append(dst, FormatVersion)
	dst = binary.LittleEndian.AppendUint64(dst, h.StampMicros)
	dst = append(dst, h.Seed[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, h.Settings.TxidWindowMinSeconds)
	dst = binary.LittleEndian.AppendUint32(dst, h.Settings.RequestIDWindowSeconds)
	dst = binary.LittleEndian.AppendUint32(dst, h.Settings.PartitionCleanupDays)
	return binary.AppendUvarint(dst, uint64(count))
}

// AppendChecksum completes an entry that consists of AppendHeader and its items. entry begins at the header.
func AppendChecksum(entry []byte) []byte {
	return binary.LittleEndian.AppendUint32(entry, crc32.Checksum(entry, castagnoli))
}

// EncodeEntry returns the encoding of an entry. The proposer does the same in steps; this is for whoever holds all items.
func EncodeEntry(e *Entry) []byte {
	data := AppendHeader(nil, &e.Header, len(e.Items))
	for i := range e.Items {
		data = AppendItem(data, &e.Items[i])
	}
	return AppendChecksum(data)
}

// DecodeEntry reads an entry and verifies its checksum. Errors are ErrChecksum, ErrBadEntry and ErrUnknownFormat, wrapped.
//
// Commands come as values (Push, not *Push). Byte slices, and the strings AckItem.Txid and AckItem.Error, alias data: data
// must never change while they live, and whoever keeps one copies it (strings.Clone). All other strings are copies.
func DecodeEntry(data []byte) (Entry, error) {
	if err := VerifyEntry(data); err != nil {
		return Entry{}, err
	}
	entry := Entry{Header: decodeHeader(data)}
	d := decoder{rest: data[headerFixed : len(data)-checksumBytes]}
	count := d.count(minItemBytes)
	if d.err != nil {
		return Entry{}, fmt.Errorf("read command count: %w", d.err)
	}
	entry.Items = make([]Item, count)
	for i := range entry.Items {
		if err := d.item(&entry.Items[i]); err != nil {
			return Entry{}, fmt.Errorf("read command %d of %d: %w", i, count, err)
		}
	}
	if len(d.rest) > 0 {
		return Entry{}, fmt.Errorf("read entry: %d bytes after the last command: %w", len(d.rest), ErrBadEntry)
	}
	return entry, nil
}

// DecodeItem reads an item as AppendItem wrote it, for whoever gets one alone. What it returns aliases the input as in
// DecodeEntry. Errors are ErrBadEntry and ErrUnknownFormat, wrapped.
func DecodeItem(encoded []byte) (Item, error) {
	var item Item
	d := decoder{rest: encoded}
	if err := d.item(&item); err != nil {
		return Item{}, err
	}
	if len(d.rest) > 0 {
		return Item{}, fmt.Errorf("read item: %d bytes after it: %w", len(d.rest), ErrBadEntry)
	}
	return item, nil
}

// ItemOp returns the opcode of an encoded item without reading its command; 0 when the bytes are no item.
func ItemOp(encoded []byte) Opcode {
	d := decoder{rest: encoded}
	d.take(itemLength, "item length")
	d.request()
	d.number() // answered below
	return Opcode(d.byte("opcode"))
}

// VerifyEntry checks length, format and checksum of an entry and looks no further.
func VerifyEntry(data []byte) error {
	if len(data) < headerFixed+1+checksumBytes {
		return fmt.Errorf("read entry of %d bytes: %w", len(data), ErrBadEntry)
	}
	body, sum := data[:len(data)-checksumBytes], data[len(data)-checksumBytes:]
	if want, got := binary.LittleEndian.Uint32(sum), crc32.Checksum(body, castagnoli); want != got {
		return fmt.Errorf("read entry of %d bytes: stored %08x, computed %08x: %w", len(data), want, got, ErrChecksum)
	}
	if data[0] != FormatVersion {
		return fmt.Errorf("read entry of format %d: %w", data[0], ErrUnknownFormat)
	}
	return nil
}

// DecodeHeader reads the header of an entry and the number of its commands, and verifies nothing else.
func DecodeHeader(data []byte) (Header, int, error) {
	if len(data) < headerFixed+1+checksumBytes {
		return Header{}, 0, fmt.Errorf("read entry of %d bytes: %w", len(data), ErrBadEntry)
	}
	if data[0] != FormatVersion {
		return Header{}, 0, fmt.Errorf("read entry of format %d: %w", data[0], ErrUnknownFormat)
	}
	d := decoder{rest: data[headerFixed : len(data)-checksumBytes]}
	count := d.count(minItemBytes)
	return decodeHeader(data), count, d.err
}

func decodeHeader(data []byte) Header {
	h := Header{StampMicros: binary.LittleEndian.Uint64(data[1:])}
	copy(h.Seed[:], data[9:25])
	h.Settings.TxidWindowMinSeconds = binary.LittleEndian.Uint32(data[25:])
	h.Settings.RequestIDWindowSeconds = binary.LittleEndian.Uint32(data[29:])
	h.Settings.PartitionCleanupDays = binary.LittleEndian.Uint32(data[33:])
	return h
}

// digestHexDigits is how much of the hash people have to type (cluster 13).
const digestHexDigits = 16

// Digest names what an entry would do: the first 16 hex digits of the SHA-256 of its command bytes, which are everything
// between header and checksum. Bytes too short for that are hashed whole, so that every entry has a digest.
func Digest(data []byte) string {
	commands := data
	if len(data) > headerFixed+checksumBytes {
		commands = data[headerFixed : len(data)-checksumBytes]
	}
	sum := sha256.Sum256(commands)
	return hex.EncodeToString(sum[:])[:digestHexDigits]
}
