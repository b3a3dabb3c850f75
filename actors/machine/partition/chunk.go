package partition

import (
	"bytes"
	"fmt"

	"queen/raftlog/command"
)

// forEachMessage hands the messages of an append to visit in order, with their place in it, until visit returns false. The
// message aliases the chunk and is valid inside visit only.
func forEachMessage(r Reader, a *Append, visit func(place uint32, m *command.Message) (bool, error)) error {
	return r.Chunk(a.Chunk, func(chunk []byte) error {
		var m command.Message
		var err error
		for place := uint32(0); place < a.Count; place++ {
			if chunk, err = command.NextMessage(chunk, &m); err != nil {
				return fmt.Errorf("read message %d: %w", a.Base+uint64(place), err)
			}
			if more, err := visit(place, &m); !more || err != nil {
				return err
			}
		}
		if len(chunk) != 0 {
			return fmt.Errorf("read append %d: %d bytes are left over: %w", a.Base, len(chunk), ErrBadAppend)
		}
		return nil
	})
}

// hashesOf returns the hashes of an append, 16 bytes each: those of its reference, else computed from its chunk.
func hashesOf(r Reader, a *Append) ([]byte, error) {
	if len(a.hashes) > 0 {
		return a.hashes, nil
	}
	hashes := make([]byte, 0, int(a.Count)*hashBytes)
	err := forEachMessage(r, a, func(_ uint32, m *command.Message) (bool, error) {
		hashes = appendMessageHash(hashes, m)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("hash append %d: %w", a.Base, err)
	}
	return hashes, nil
}

// envelopePrefix begins the stored form of an encrypted payload (state 8.3).
const envelopePrefix = `{"encrypted":"`

// payloadBytes is the size of a payload as it was pushed (messaging 2.11). Of an envelope it is the size of what it
// encloses (state 8.2): the cipher keeps the length, and padded base64 tells it without decoding.
func payloadBytes(m *command.Message) uint64 {
	stored := uint64(len(m.Payload))
	if !m.Encrypted || !bytes.HasPrefix(m.Payload, []byte(envelopePrefix)) {
		return stored
	}
	text := m.Payload[len(envelopePrefix):]
	end := bytes.IndexByte(text, '"')
	if end < 0 || end%4 != 0 {
		return stored
	}
	text = text[:end]
	return uint64(end/4*3 - (len(text) - len(bytes.TrimRight(text, "="))))
}
