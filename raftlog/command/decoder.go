package command

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/google/uuid"
)

// decoder reads fields from the front of rest. After the first error every read gives a zero value, so that a command is
// read straight through and the error is looked at once.
type decoder struct {
	rest []byte
	err  error
	// names remembers the last strings that were copied: the commands of an entry mostly name the same few queues,
	// partitions and groups, and one copy serves them all.
	names [4]string
	next  uint8
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("read %s with %d bytes left: %w", what, len(d.rest), ErrBadEntry)
	}
	d.rest = nil
}

func (d *decoder) take(n int, what string) []byte {
	if len(d.rest) < n {
		d.fail(what)
		return nil
	}
	field := d.rest[:n:n]
	d.rest = d.rest[n:]
	return field
}

func (d *decoder) byte(what string) byte {
	if len(d.rest) == 0 {
		d.fail(what)
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) number() uint64 {
	// Nearly all numbers are counts and lengths below 128.
	if len(d.rest) > 0 && d.rest[0] < 0x80 {
		n := d.rest[0]
		d.rest = d.rest[1:]
		return uint64(n)
	}
	value, n := binary.Uvarint(d.rest)
	// A last byte of zero is a longer form of a number that has a shorter one.
	if n <= 0 || (n > 1 && d.rest[n-1] == 0) {
		d.fail("number")
		return 0
	}
	d.rest = d.rest[n:]
	return value
}

func (d *decoder) number32() uint32 {
	value := d.number()
	if value > math.MaxUint32 {
		d.fail("number of 32 bits")
		return 0
	}
	return uint32(value)
}

func (d *decoder) signed() int64 {
	value := d.number()
	return int64(value>>1) ^ -int64(value&1)
}

func (d *decoder) signed32() int32 {
	value := d.signed()
	if value != int64(int32(value)) {
		d.fail("signed number of 32 bits")
		return 0
	}
	return int32(value)
}

// count reads the length of a list whose elements take at least minBytes each, so that nobody allocates for elements
// that cannot be there.
func (d *decoder) count(minBytes int) int {
	value := d.number()
	if value > uint64(len(d.rest)/minBytes) {
		d.fail("list length")
		return 0
	}
	return int(value)
}

// bytes returns a field that aliases the input; nil when it is empty.
func (d *decoder) bytes() []byte {
	value := d.number()
	if value > uint64(len(d.rest)) {
		d.fail("field length")
		return nil
	}
	if value == 0 {
		return nil
	}
	return d.take(int(value), "field")
}

// aliased returns a string over the bytes of the input. The input is immutable from the moment it became an entry.
func (d *decoder) aliased() string {
	field := d.bytes()
	return unsafe.String(unsafe.SliceData(field), len(field))
}

// name returns a string that outlives the input.
func (d *decoder) name() string {
	field := d.bytes()
	if len(field) == 0 {
		return ""
	}
	for _, known := range d.names {
		if known == string(field) {
			return known
		}
	}
	copied := string(field)
	d.names[d.next] = copied
	d.next = (d.next + 1) % uint8(len(d.names))
	return copied
}

func (d *decoder) uuid() (id uuid.UUID) {
	copy(id[:], d.take(len(id), "uuid"))
	return id
}

// request reads the id of a request.
func (d *decoder) request() (id RequestID) {
	if origin := d.take(8, "origin"); origin != nil {
		id.Origin = binary.LittleEndian.Uint64(origin)
	}
	id.Sequence = d.number()
	return id
}

// flags reads a byte of which only the given number of low bits may be set.
func (d *decoder) flags(known int) byte {
	bits := d.byte("flags")
	if bits>>known != 0 {
		d.fail("flags")
		return 0
	}
	return bits
}

func bit(bits byte, i int) bool { return bits>>i&1 != 0 }

// item reads one item, length included.
func (d *decoder) item(item *Item) error {
	head := d.take(itemLength, "item length")
	if d.err != nil {
		return d.err
	}
	length := binary.LittleEndian.Uint32(head)
	if uint64(length) > uint64(len(d.rest)) {
		d.fail("item")
		return d.err
	}
	after := d.rest[length:]
	d.rest = d.rest[:length]
	item.Request = d.request()
	item.AnsweredBelow = d.number()
	op := Opcode(d.byte("opcode"))
	version := d.byte("command version")
	if d.err != nil {
		return d.err
	}
	if version != commandVersion {
		return fmt.Errorf("read command %d version %d: %w", op, version, ErrUnknownFormat)
	}
	command, err := d.command(op)
	if err != nil {
		return err
	}
	if d.err != nil {
		return fmt.Errorf("read command %d: %w", op, d.err)
	}
	if len(d.rest) > 0 {
		return fmt.Errorf("read command %d: %d bytes after its last field: %w", op, len(d.rest), ErrBadEntry)
	}
	item.Command = command
	d.rest = after
	return nil
}
