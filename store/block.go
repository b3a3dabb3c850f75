package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"slices"

	"github.com/dgraph-io/badger/v4"
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

// checkBlock checks all chunks of a block, and tells visit the checksum and length of each.
func checkBlock(block []byte, bucket uint32, entry uint64, visit func(sum uint32, bytes int)) (chunks int, err error) {
	if len(block) < blockHeaderBytes {
		return 0, fmt.Errorf("%w: block of entry %d in bucket %d has no header", ErrCorrupt, entry, bucket)
	}
	count := int(binary.BigEndian.Uint32(block[1:]))
	for i := range count {
		ref := ChunkRef{Bucket: bucket, Entry: entry, Ordinal: uint32(i)}
		at := blockHeaderBytes + blockChunkBytes*i
		if at+blockChunkBytes > len(block) {
			return i, fmt.Errorf("%w: block of entry %d in bucket %d ends within its header", ErrCorrupt, entry, bucket)
		}
		ref.Bytes = binary.BigEndian.Uint32(block[at+4:])
		sum := binary.BigEndian.Uint32(block[at+8:])
		if ref.Bytes == 0 && sum == 0 {
			continue // reserved and never set
		}
		if _, err := chunkOf(block, ref); err != nil {
			return i, err
		}
		visit(sum, int(ref.Bytes))
	}
	return count, nil
}

// visitBlocks visits the blocks of a bucket from an entry on, up to the last one that counts, until visit returns false.
func (s *buckets) visitBlocks(id uint32, from, last uint64, visit func(entry uint64, block []byte) (bool, error)) error {
	b, err := s.acquire(id)
	if err != nil {
		return err
	}
	defer s.release(b)
	if err := visitBlocks(b.db, from, last, visit); err != nil {
		return fmt.Errorf("read bucket %d: %w", id, err)
	}
	return nil
}

func visitBlocks(db *badger.DB, from, last uint64, visit func(entry uint64, block []byte) (bool, error)) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	it := db.NewTransactionAt(last, false).NewIterator(badger.IteratorOptions{})
	defer it.Close()
	goOn := true
	for it.Seek(blockKey(from)); goOn && it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) != 8 {
			return fmt.Errorf("%w: key of %d bytes among blocks", ErrCorrupt, len(key))
		}
		entry := binary.BigEndian.Uint64(key)
		visited := false
		var visitErr error
		err := it.Item().Value(func(block []byte) error {
			visited = true
			goOn, visitErr = visit(entry, block)
			return nil
		})
		if err != nil && !visited {
			return fmt.Errorf("%w: block of entry %d: %w", ErrCorrupt, entry, err)
		}
		if visitErr != nil {
			return visitErr
		}
	}
	return nil
}

// blockKey is the key of an entry's block in its bucket.
func blockKey(entry uint64) []byte { return binary.BigEndian.AppendUint64(nil, entry) }
