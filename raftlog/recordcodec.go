package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// A log record, numbers little-endian:
//
//	version      1 byte
//	type         1 byte, of the library
//	index, term  8 bytes each
//	appended at  8 bytes, Unix nanoseconds by the leader's wall clock, 0 for none; only for the library's metrics
//	extensions   2 bytes length and the bytes
//	data         the rest, except the last
//	checksum     4 bytes, CRC-32C of everything in front of it
const (
	recordVersion  = 1
	recordHead     = 1 + 1 + 8 + 8 + 8 + 2
	recordChecksum = 4
	maxExtensions  = 1<<16 - 1
	// recordCodecID names this format in the head of a log file. It is any number that no other codec has.
	recordCodecID = 0x5175_6565_6e01
)

var errBadRecord = errors.New("log record is malformed")

// recordCodec implements wal.Codec: the log store checks nothing when it reads a record back (cluster 20, note 10).
type recordCodec struct{}

// ID implements wal.Codec.
func (recordCodec) ID() uint64 { return recordCodecID }

// Encode implements wal.Codec.
func (recordCodec) Encode(log *raft.Log, w io.Writer) error {
	if len(log.Extensions) > maxExtensions {
		return fmt.Errorf("encode log record %d: %d bytes of extensions", log.Index, len(log.Extensions))
	}
	var head [recordHead]byte
	head[0], head[1] = recordVersion, byte(log.Type)
	binary.LittleEndian.PutUint64(head[2:], log.Index)
	binary.LittleEndian.PutUint64(head[10:], log.Term)
	if !log.AppendedAt.IsZero() {
		binary.LittleEndian.PutUint64(head[18:], uint64(log.AppendedAt.UnixNano()))
	}
	binary.LittleEndian.PutUint16(head[26:], uint16(len(log.Extensions)))
	sum := crc32.Update(0, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, log.Extensions)
	sum = crc32.Update(sum, castagnoli, log.Data)
	if buffer, ok := w.(*bytes.Buffer); ok {
		buffer.Grow(recordHead + len(log.Extensions) + len(log.Data) + recordChecksum)
	}
	var tail [recordChecksum]byte
	binary.LittleEndian.PutUint32(tail[:], sum)
	for _, part := range [][]byte{head[:], log.Extensions, log.Data, tail[:]} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("encode log record %d: %w", log.Index, err)
		}
	}
	return nil
}

// Decode implements wal.Codec. What it returns does not alias record.
func (recordCodec) Decode(record []byte, log *raft.Log) error {
	view, err := viewRecord(record)
	if err != nil {
		return err
	}
	*log = raft.Log{Type: view.kind, Index: view.index, Term: view.term}
	if view.appended > 0 {
		log.AppendedAt = time.Unix(0, view.appended)
	}
	// One allocation for both; empty ones stay nil.
	payload := make([]byte, 0, len(view.extensions)+len(view.data))
	if payload = append(payload, view.extensions...); len(view.extensions) > 0 {
		log.Extensions = payload[:len(payload):len(payload)]
	}
	if payload = append(payload, view.data...); len(view.data) > 0 {
		log.Data = payload[len(view.extensions):]
	}
	return nil
}

// recordView is a record whose checksum is right. Its slices alias the record.
type recordView struct {
	kind        raft.LogType
	index, term uint64
	appended    int64
	extensions  []byte
	data        []byte
}

func viewRecord(record []byte) (view recordView, err error) {
	if len(record) < recordHead+recordChecksum {
		return view, fmt.Errorf("%w: %d bytes", errBadRecord, len(record))
	}
	body := record[:len(record)-recordChecksum]
	stored := binary.LittleEndian.Uint32(record[len(body):])
	if computed := crc32.Checksum(body, castagnoli); computed != stored {
		return view, fmt.Errorf("%w: checksum %08x, computed %08x", errBadRecord, stored, computed)
	}
	if body[0] != recordVersion {
		return view, fmt.Errorf("%w: version %d", errBadRecord, body[0])
	}
	extensions := int(binary.LittleEndian.Uint16(body[26:]))
	if extensions > len(body)-recordHead {
		return view, fmt.Errorf("%w: %d bytes of extensions", errBadRecord, extensions)
	}
	return recordView{
		kind:       raft.LogType(body[1]),
		index:      binary.LittleEndian.Uint64(body[2:]),
		term:       binary.LittleEndian.Uint64(body[10:]),
		appended:   int64(binary.LittleEndian.Uint64(body[18:])),
		extensions: body[recordHead : recordHead+extensions],
		data:       body[recordHead+extensions:],
	}, nil
}
