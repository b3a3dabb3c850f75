package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// A block is the one record that holds all chunks of an entry: version, chunk count, then for each ordinal its offset
// from the start of the block, its length and its checksum, then the chunks back to back. A checksum covers entry,
// ordinal and bytes, so it also vouches for the header fields that led to the bytes.
const (
	blockVersion     = 1
	blockHeaderBytes = 5  // version, chunk count
	blockChunkBytes  = 12 // offset, length, checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func chunkSum(entry uint64, ordinal uint32, data []byte) uint32 {
	var name [12]byte
	binary.BigEndian.PutUint64(name[:], entry)
	binary.BigEndian.PutUint32(name[8:], ordinal)
	return crc32.Update(crc32.Checksum(name[:], castagnoli), castagnoli, data)
}

// blockBytes is the length of the block of chunks.
func blockBytes(chunks []chunkSlot) int {
	n := blockHeaderBytes + blockChunkBytes*len(chunks)
	for i := range chunks {
		n += len(chunks[i].data)
	}
	return n
}

// appendBlock appends the block of an entry to an empty buffer; slots carry their checksums already.
func appendBlock(block []byte, chunks []chunkSlot) []byte {
	block = slices.Grow(block, blockBytes(chunks))
	block = append(block, blockVersion)
	block = binary.BigEndian.AppendUint32(block, uint32(len(chunks)))
	offset := blockHeaderBytes + blockChunkBytes*len(chunks)
	for i := range chunks {
		block = binary.BigEndian.AppendUint32(block, uint32(offset))
		block = binary.BigEndian.AppendUint32(block, uint32(len(chunks[i].data)))
		block = binary.BigEndian.AppendUint32(block, chunks[i].sum)
		offset += len(chunks[i].data)
	}
	for i := range chunks {
		block = append(block, chunks[i].data...)
	}
	return block
}

// chunkOf finds and checks the chunk that ref names within its block. The result aliases block.
func chunkOf(block []byte, ref ChunkRef) ([]byte, error) {
	if len(block) < blockHeaderBytes || block[0] != blockVersion {
		return nil, fmt.Errorf("%w: %s: block has no header", ErrCorrupt, ref)
	}
	count := binary.BigEndian.Uint32(block[1:])
	if ref.Ordinal >= count || uint64(len(block)) < blockHeaderBytes+blockChunkBytes*uint64(count) {
		return nil, fmt.Errorf("%w: %s: block of %d bytes says it has %d chunks", ErrCorrupt, ref, len(block), count)
	}
	at := block[blockHeaderBytes+blockChunkBytes*int(ref.Ordinal):]
	offset, length := uint64(binary.BigEndian.Uint32(at)), uint64(binary.BigEndian.Uint32(at[4:]))
	if length != uint64(ref.Bytes) || offset+length > uint64(len(block)) {
		return nil, fmt.Errorf("%w: %s: block places it at %d with %d bytes", ErrCorrupt, ref, offset, length)
	}
	chunk := block[offset : offset+length : offset+length]
	if chunkSum(ref.Entry, ref.Ordinal, chunk) != binary.BigEndian.Uint32(at[8:]) {
		return nil, fmt.Errorf("%w: %s", ErrCorrupt, ref)
	}
	return chunk, nil
}

// blockKey is the key of an entry's block in its bucket.
func blockKey(entry uint64) []byte { return binary.BigEndian.AppendUint64(nil, entry) }
