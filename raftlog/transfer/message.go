package transfer

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// A request is version, operation and its fields; an answer is version, status and its fields. Numbers are big-endian.
const (
	messageVersion = 1

	// MaxRangeBytes is the most that one answer carries of a part.
	MaxRangeBytes = 1 << 20
	// MaxMetaBytes bounds what the caller of the sender may add to an export.
	MaxMetaBytes = 1 << 20
	// MaxRequestBytes and MaxResponseBytes bound messages.
	MaxRequestBytes  = 64
	MaxResponseBytes = MaxRangeBytes + maxHeadBytes
	// maxHeadBytes is what an answer holds beside a range or the bytes of the caller.
	maxHeadBytes = 512
)

type operation byte

const (
	opBegin operation = 1
	opRead  operation = 2
	opEnd   operation = 3
)

type status byte

const (
	statusOK      status = 0
	statusBusy    status = 1 // ask again later
	statusGone    status = 2 // there is no such export: begin anew
	statusFailed  status = 3 // the state cannot be read
	statusRefused status = 4 // the request makes no sense
)

// exportID is random, so that an export is never taken for another sender's.
type exportID [16]byte

func (id exportID) String() string { return hex.EncodeToString(id[:]) }

type request struct {
	op     operation
	id     exportID // of Read and End
	part   uint32   // from 1
	offset int64
	limit  int
}

func (r *request) encode() []byte {
	to := []byte{messageVersion, byte(r.op)}
	if r.op == opBegin {
		return to
	}
	to = append(to, r.id[:]...)
	if r.op == opEnd {
		return to
	}
	to = binary.BigEndian.AppendUint32(to, r.part)
	to = binary.BigEndian.AppendUint64(to, uint64(r.offset))
	return binary.BigEndian.AppendUint32(to, uint32(r.limit))
}

func decodeRequest(data []byte) (request, error) {
	f := fields{data: data}
	if version := f.byte(); version != messageVersion {
		return request{}, fmt.Errorf("%w: message version %d", ErrProtocol, version)
	}
	r := request{op: operation(f.byte())}
	switch r.op {
	case opBegin:
	case opRead:
		copy(r.id[:], f.take(len(r.id)))
		r.part = f.uint32()
		r.offset = int64(f.uint64())
		r.limit = int(f.uint32())
		if r.part == 0 || r.offset < 0 || r.limit < 1 || r.limit > MaxRangeBytes {
			return request{}, fmt.Errorf("%w: read of %d bytes at %d of part %d", ErrProtocol, r.limit, r.offset, r.part)
		}
	case opEnd:
		copy(r.id[:], f.take(len(r.id)))
	default:
		return request{}, fmt.Errorf("%w: operation %d", ErrProtocol, r.op)
	}
	return r, f.end()
}

// begun is the answer to Begin.
type begun struct {
	id    exportID
	about int64 // bytes of all parts, a guess
	meta  []byte
}

func (b *begun) encode() []byte {
	to := append([]byte{messageVersion, byte(statusOK)}, b.id[:]...)
	to = binary.BigEndian.AppendUint64(to, uint64(b.about))
	return append(to, b.meta...)
}

func decodeBegun(data []byte) (begun, error) {
	f, err := openAnswer(data)
	if err != nil {
		return begun{}, err
	}
	var b begun
	copy(b.id[:], f.take(len(b.id)))
	b.about = int64(f.uint64())
	b.meta = f.rest()
	if f.bad || b.about < 0 || len(b.meta) > MaxMetaBytes {
		return begun{}, fmt.Errorf("%w: answer to begin of %d bytes", ErrProtocol, len(data))
	}
	return b, nil
}

// piece is the answer to Read: a range of a part, or that there is no such part because all have been read.
type piece struct {
	noMore bool
	name   string
	size   int64 // of the whole part
	last   bool  // the range ends the part, and sum is its SHA-256
	sum    [32]byte
	data   []byte
}

const (
	flagNoMore = 1 << 0
	flagLast   = 1 << 1
)

// newPiece returns the buffer of an answer with room for a range, and the room.
func newPiece(limit int) (answer, room []byte) {
	answer = make([]byte, maxHeadBytes+limit)
	return answer, answer[len(answer)-limit:]
}

// encode writes the head right before the range, which lies in the room that newPiece returned.
func (p *piece) encode(answer []byte, room int) []byte {
	head := []byte{messageVersion, byte(statusOK), 0}
	if p.noMore {
		head[2] = flagNoMore
		return head
	}
	if p.last {
		head[2] = flagLast
	}
	head = binary.BigEndian.AppendUint64(head, uint64(p.size))
	head = append(head, byte(len(p.name)))
	head = append(head, p.name...)
	if p.last {
		head = append(head, p.sum[:]...)
	}
	from := len(answer) - room - len(head)
	copy(answer[from:], head)
	return answer[from : len(answer)-room+len(p.data)]
}

func decodePiece(data []byte) (piece, error) {
	f, err := openAnswer(data)
	if err != nil {
		return piece{}, err
	}
	flags := f.byte()
	if flags == flagNoMore {
		return piece{noMore: true}, f.end()
	}
	p := piece{last: flags == flagLast}
	p.size = int64(f.uint64())
	p.name = string(f.take(int(f.byte())))
	if p.last {
		copy(p.sum[:], f.take(len(p.sum)))
	}
	p.data = f.rest()
	if f.bad || flags&^flagLast != 0 || p.size < 0 || !validName(p.name) {
		return piece{}, fmt.Errorf("%w: answer to read of %d bytes for part %.100q", ErrProtocol, len(data), p.name)
	}
	return p, nil
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// halfSuffix ends the name of a part that is still coming.
const halfSuffix = ".half"

// validName says whether a part may have this name: it is the name of a file, and leads nowhere else.
func validName(name string) bool {
	return namePattern.MatchString(name) && !strings.HasSuffix(name, halfSuffix)
}

// encodeFailure is any answer but OK.
func encodeFailure(s status, text string) []byte {
	return append([]byte{messageVersion, byte(s)}, text[:min(len(text), 400)]...)
}

// openAnswer turns a failure into its error, and else returns the fields.
func openAnswer(data []byte) (fields, error) {
	f := fields{data: data}
	version, status := f.byte(), status(f.byte())
	if f.bad || version != messageVersion {
		return f, fmt.Errorf("%w: answer of %d bytes with version %d", ErrProtocol, len(data), version)
	}
	var kind error
	switch status {
	case statusOK:
		return f, nil
	case statusBusy:
		kind = ErrBusy
	case statusGone:
		kind = errGone
	case statusFailed:
		kind = ErrSender
	case statusRefused:
		kind = ErrProtocol
	default:
		return f, fmt.Errorf("%w: status %d", ErrProtocol, status)
	}
	return f, fmt.Errorf("%w: %.400q", kind, f.rest())
}

// fields reads a message from its front. After a read beyond its end everything is zero and bad is set.
type fields struct {
	data []byte
	bad  bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.data) {
		f.data, f.bad = nil, true
		return nil
	}
	taken := f.data[:n]
	f.data = f.data[n:]
	return taken
}

func (f *fields) byte() byte {
	if taken := f.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (f *fields) uint32() uint32 {
	if taken := f.take(4); taken != nil {
		return binary.BigEndian.Uint32(taken)
	}
	return 0
}

func (f *fields) uint64() uint64 {
	if taken := f.take(8); taken != nil {
		return binary.BigEndian.Uint64(taken)
	}
	return 0
}

func (f *fields) rest() []byte {
	rest := f.data
	f.data = nil
	return rest
}

func (f *fields) end() error {
	if f.bad || len(f.data) > 0 {
		return fmt.Errorf("%w: message is cut or too long", ErrProtocol)
	}
	return nil
}
