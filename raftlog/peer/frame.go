package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
)

// ErrFrameTooLarge says that a frame is larger than the one who reads or writes it allows. The connection is of no use
// afterwards.
var ErrFrameTooLarge = errors.New("a frame is larger than allowed")

const (
	// frameHeaderBytes is the length in front of a payload, big endian.
	frameHeaderBytes = 4
	// frameChunkBytes is how much memory a frame gets on the word of its length alone. More follows as the bytes arrive.
	frameChunkBytes = 64 << 10
)

// readFrame reads one frame of at most maxBytes. A stream that ends between two frames is io.EOF.
func readFrame(r io.Reader, maxBytes int) ([]byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if uint64(size) > uint64(max(maxBytes, 0)) {
		return nil, &frameSizeError{header: header, maxBytes: maxBytes}
	}
	payload := make([]byte, 0, min(int(size), frameChunkBytes))
	for len(payload) < int(size) {
		if len(payload) == cap(payload) {
			payload = slices.Grow(payload, min(int(size)-len(payload), len(payload)))
		}
		part := payload[len(payload):min(cap(payload), int(size))]
		n, err := io.ReadFull(r, part)
		payload = payload[:len(payload)+n]
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return payload, nil
}

// frameSizeError keeps the header, which may show that the other side does not speak this protocol.
type frameSizeError struct {
	header   [frameHeaderBytes]byte
	maxBytes int
}

func (e *frameSizeError) Error() string {
	return fmt.Sprintf("read frame of %d bytes: at most %d: %v",
		binary.BigEndian.Uint32(e.header[:]), e.maxBytes, ErrFrameTooLarge)
}

func (e *frameSizeError) Unwrap() error { return ErrFrameTooLarge }

// writeFrame writes header and payload in one system call where the connection can.
func writeFrame(conn net.Conn, payload []byte) error {
	if uint64(len(payload)) > math.MaxUint32 {
		return fmt.Errorf("write frame of %d bytes: %w", len(payload), ErrFrameTooLarge)
	}
	header := binary.BigEndian.AppendUint32(make([]byte, 0, frameHeaderBytes), uint32(len(payload)))
	parts := net.Buffers{header, payload}
	_, err := parts.WriteTo(conn)
	return err
}
