package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"queen/raftlog/command"
)

// ErrBroken says that the connection has ended: what was sent may or may not have arrived.
var ErrBroken = errors.New("the connection to the leader broke")

// kind is the first byte of a frame.
type kind uint8

const (
	kindCommand kind = 1
	kindRefusal kind = 2
	kindCall    kind = 3
	kindCancel  kind = 4
	kindAnswer  kind = 5
)

const (
	// headBytes come in front of every frame: its kind and the length of the rest.
	headBytes = 1 + 4
	// maxFrameBytes is the largest frame: a command that fills an entry, 62914560 bytes, with what is put around it.
	maxFrameBytes = 62914560 + 1024
	// maxTextBytes bounds the text of an error that travels.
	maxTextBytes = 1024
)

// Command is a command on its way to the leader.
type Command struct {
	ID command.RequestID
	// LeftMs is how long the command may still wait to be proposed; 0 is without end.
	LeftMs uint32
	// Keys and Bytes estimate what applying it writes.
	Keys, Bytes uint32
	// Encoded is the item as command.AppendItem wrote it.
	Encoded []byte
}

const commandHeadBytes = 8 + 8 + 4 + 4 + 4

func appendCommand(dst []byte, c *Command) []byte {
	dst = appendHead(dst, kindCommand, commandHeadBytes+len(c.Encoded))
	dst = appendID(dst, c.ID)
	dst = binary.BigEndian.AppendUint32(dst, c.LeftMs)
	dst = binary.BigEndian.AppendUint32(dst, c.Keys)
	dst = binary.BigEndian.AppendUint32(dst, c.Bytes)
	return append(dst, c.Encoded...)
}

func readCommand(body []byte) (Command, error) {
	if len(body) < commandHeadBytes {
		return Command{}, short(kindCommand, body)
	}
	return Command{
		ID:      readID(body),
		LeftMs:  binary.BigEndian.Uint32(body[16:]),
		Keys:    binary.BigEndian.Uint32(body[20:]),
		Bytes:   binary.BigEndian.Uint32(body[24:]),
		Encoded: body[commandHeadBytes:],
	}, nil
}

func appendRefusal(dst []byte, id command.RequestID, reason Reason) []byte {
	dst = appendHead(dst, kindRefusal, 17)
	return append(appendID(dst, id), byte(reason))
}

func readRefusal(body []byte) (id command.RequestID, reason Reason, err error) {
	if len(body) != 17 {
		return id, 0, short(kindRefusal, body)
	}
	return readID(body), Reason(body[16]), nil
}

func appendCall(dst []byte, number uint64, request []byte) []byte {
	dst = appendHead(dst, kindCall, 8+len(request))
	return append(binary.BigEndian.AppendUint64(dst, number), request...)
}

func appendCancel(dst []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(appendHead(dst, kindCancel, 8), number)
}

// appendAnswer writes the answer to a call: a reason of 0 and the response, or a reason and the text of the error.
func appendAnswer(dst []byte, number uint64, reason Reason, payload []byte) []byte {
	dst = appendHead(dst, kindAnswer, 9+len(payload))
	dst = append(binary.BigEndian.AppendUint64(dst, number), byte(reason))
	return append(dst, payload...)
}

func readAnswer(body []byte) (number uint64, reason Reason, payload []byte, err error) {
	if len(body) < 9 {
		return 0, 0, nil, short(kindAnswer, body)
	}
	return binary.BigEndian.Uint64(body), Reason(body[8]), body[9:], nil
}

func readNumbered(of kind, body []byte) (number uint64, rest []byte, err error) {
	if len(body) < 8 {
		return 0, nil, short(of, body)
	}
	return binary.BigEndian.Uint64(body), body[8:], nil
}

func appendHead(dst []byte, k kind, bytes int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(k)), uint32(bytes))
}

func appendID(dst []byte, id command.RequestID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, id.Origin), id.Sequence)
}

func readID(body []byte) command.RequestID {
	return command.RequestID{Origin: binary.BigEndian.Uint64(body), Sequence: binary.BigEndian.Uint64(body[8:])}
}

func short(k kind, body []byte) error {
	return fmt.Errorf("frame of kind %d has %d bytes", k, len(body))
}

// readFrame reads one frame. The body is the caller's.
func readFrame(r *bufio.Reader) (kind, []byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	bytes := binary.BigEndian.Uint32(head[1:])
	if bytes > maxFrameBytes {
		return 0, nil, fmt.Errorf("frame of %d bytes: at most %d", bytes, maxFrameBytes)
	}
	body := make([]byte, bytes)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return kind(head[0]), body, nil
}
