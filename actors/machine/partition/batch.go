package partition

import (
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// batch is a push as the machine sees it: where its messages lie in the chunk, and the hashes of their txids.
type batch struct {
	chunk []byte
	// ends[i] is where message i ends in the chunk.
	ends   []uint32
	hashes []byte
	// unnamed[i] is set for a message without a client txid, which is never a duplicate (messaging 4.6).
	unnamed      []bool
	named        int
	payloadBytes uint64
	largestBytes uint64
}

// readBatch checks that the chunk holds exactly count messages. Errors wrap ErrBadAppend or command.ErrBadChunk.
func readBatch(chunk []byte, count uint32) (*batch, error) {
	// A message takes at least 18 bytes, so an announced count cannot make this allocate much.
	if count == 0 || uint64(count)*18 > uint64(len(chunk)) {
		return nil, fmt.Errorf("read %d messages from %d bytes: %w", count, len(chunk), ErrBadAppend)
	}
	b := &batch{chunk: chunk, ends: make([]uint32, count), unnamed: make([]bool, count),
		hashes: make([]byte, 0, int(count)*hashBytes)}
	rest := chunk
	var m command.Message
	var err error
	for i := range b.ends {
		if rest, err = command.NextMessage(rest, &m); err != nil {
			return nil, fmt.Errorf("read message %d of an append: %w", i, err)
		}
		b.ends[i] = uint32(len(chunk) - len(rest))
		b.hashes = appendMessageHash(b.hashes, &m)
		if len(m.Txid) == 0 {
			b.unnamed[i] = true
		} else {
			b.named++
		}
		b.measure(&m)
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("read an append: %d bytes are left over: %w", len(rest), ErrBadAppend)
	}
	return b, nil
}

func (b *batch) measure(m *command.Message) {
	size := payloadBytes(m)
	b.payloadBytes += size
	b.largestBytes = max(b.largestBytes, size)
}

func (b *batch) count() int { return len(b.ends) }

// raw returns the encoded bytes of a message.
func (b *batch) raw(i uint32) []byte {
	start := uint32(0)
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.chunk[start:b.ends[i]]
}

func (b *batch) id(i uint32) (id uuid.UUID) {
	copy(id[:], b.raw(i)[1:17])
	return id
}

// without returns the batch of the messages that are not in dropped, which is ordered by Item.
func (b *batch) without(dropped []command.Duplicate) (*batch, error) {
	if len(dropped) == 0 {
		return b, nil
	}
	kept := &batch{ends: make([]uint32, 0, b.count()-len(dropped))}
	for i := range b.count() {
		if len(dropped) > 0 && int(dropped[0].Item) == i {
			dropped = dropped[1:]
			continue
		}
		raw := b.raw(uint32(i))
		var m command.Message
		if _, err := command.NextMessage(raw, &m); err != nil {
			return nil, fmt.Errorf("read message %d of an append: %w", i, err)
		}
		kept.measure(&m)
		kept.chunk = append(kept.chunk, raw...)
		kept.ends = append(kept.ends, uint32(len(kept.chunk)))
		kept.hashes = append(kept.hashes, b.hashes[i*hashBytes:(i+1)*hashBytes]...)
	}
	return kept, nil
}
