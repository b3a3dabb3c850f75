package store

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/zeebo/xxh3"
)

// Batch collects the effects of one entry. It is a Reader: its own writes first, then batches that are not committed
// yet, then main at the index that was committed when the batch began.
//
// Reading is safe from several goroutines. Writing is for one goroutine at a time and must not overlap reads whose
// result should not depend on it. After Commit nothing may be written.
type Batch struct {
	store       *Store
	index, term uint64
	bucket      uint32
	own         overlay

	mu         sync.RWMutex // guards what follows
	below      []*Batch     // not committed when this one began, newest first
	overlays   []*overlay   // own, then those of below
	base       snapshot
	ended      bool // may not be read any more
	handedOver bool // may not be written any more
	chunks     []chunkSlot
	setChunks  int
	chunkBytes int // of all chunks
	releases   []ChunkRef
	undo       []undoStep

	rows []ledgerChange
	err  error // why it cannot be committed
	done func(error)
}

// chunkSlot is one ordinal of the entry's block.
type chunkSlot struct {
	data []byte
	sum  uint32
	set  bool
}

// undoStep takes back one call.
type undoStep struct {
	key     []byte // of a put or delete; nil for a chunk
	before  operation
	existed bool
	ordinal uint32
	slot    chunkSlot
}

// Index is the log index of the entry.
func (b *Batch) Index() uint64 { return b.index }

// Put sets key to value and takes ownership of both.
func (b *Batch) Put(key, value []byte) { b.write(operation{key: key, value: normal(value)}) }

// Delete removes key and takes ownership of it. Deleting what is not there is allowed.
func (b *Batch) Delete(key []byte) { b.write(operation{key: key, deleted: true}) }

func (b *Batch) write(op operation) {
	b.mu.Lock()
	b.mustBeOpen()
	before, existed := b.own.set(op)
	b.undo = append(b.undo, undoStep{key: op.key, before: before, existed: existed})
	b.mu.Unlock()
	if n := len(op.key); n == 0 || n > MaxKeyBytes {
		b.fail(fmt.Errorf("%w: key of %d bytes, 1 to %d are allowed", ErrTooBig, n, MaxKeyBytes))
	}
	if n := len(op.value); n > MaxValueBytes {
		b.fail(fmt.Errorf("%w: value of %d bytes under key %x, at most %d are allowed", ErrTooBig, n, op.key, MaxValueBytes))
	}
}

// mustBeOpen panics when the committer owns the batch already; the lock is held.
func (b *Batch) mustBeOpen() {
	if b.handedOver {
		panic(fmt.Sprintf("BUG: write to the batch of entry %d after its commit", b.index))
	}
}

func (b *Batch) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = fmt.Errorf("batch of entry %d: %w", b.index, err)
	}
	b.mu.Unlock()
}

// Bucket is the bucket that this entry's chunks go to.
func (b *Batch) Bucket() uint32 { return b.bucket }

// ReserveChunk takes the next ordinal. An ordinal that is never set costs 12 bytes and names an empty chunk.
func (b *Batch) ReserveChunk() uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustBeOpen()
	b.chunks = append(b.chunks, chunkSlot{})
	return uint32(len(b.chunks) - 1)
}

// SetChunk gives a reserved ordinal its bytes and returns the reference. It keeps data until the batch is committed.
// Setting an ordinal again replaces its bytes. Setting one that was not reserved is a bug.
func (b *Batch) SetChunk(ordinal uint32, data []byte) ChunkRef {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustBeOpen()
	if int(ordinal) >= len(b.chunks) {
		panic(fmt.Sprintf("BUG: set chunk %d of entry %d: only %d are reserved", ordinal, b.index, len(b.chunks)))
	}
	slot := &b.chunks[ordinal]
	b.undo = append(b.undo, undoStep{ordinal: ordinal, slot: *slot})
	if !slot.set {
		b.setChunks++
	}
	b.chunkBytes += len(data) - len(slot.data)
	*slot = chunkSlot{data: data, sum: chunkSum(b.index, ordinal, data), set: true}
	return ChunkRef{Bucket: b.bucket, Entry: b.index, Ordinal: ordinal, Bytes: uint32(len(data))}
}

// ReleaseChunk says that nothing refers to the chunk any more. Each chunk is released at most once.
func (b *Batch) ReleaseChunk(ref ChunkRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustBeOpen()
	b.releases = append(b.releases, ref)
}

// Size is what the batch holds so far, to be compared with MaxBatchKeys, MaxBatchBytes and MaxBlockBytes.
func (b *Batch) Size() (keys, bytes, chunkBytes int) {
	b.own.mu.RLock()
	keys, bytes = len(b.own.operations), b.own.bytes
	b.own.mu.RUnlock()
	b.mu.RLock()
	defer b.mu.RUnlock()
	return keys, bytes, blockHeaderBytes + blockChunkBytes*len(b.chunks) + b.chunkBytes
}

// Overflow returns why the batch cannot be committed: what it holds is larger than one atomic write may be. It is nil
// while it can. Rolling back to a mark before the offending writes makes it nil again.
func (b *Batch) Overflow() error {
	keys, bytes, chunkBytes := b.Size()
	b.mu.RLock()
	defer b.mu.RUnlock()
	switch {
	case b.err != nil:
		return b.err
	case keys > MaxBatchKeys || bytes > MaxBatchBytes:
		return fmt.Errorf("%w: %d keys with %d bytes, at most %d with %d are allowed",
			ErrTooBig, keys, bytes, MaxBatchKeys, MaxBatchBytes)
	case chunkBytes > MaxBlockBytes:
		return fmt.Errorf("%w: chunks of %d bytes, at most %d are allowed", ErrTooBig, chunkBytes, MaxBlockBytes)
	}
	return nil
}

// Mark remembers a point within a batch.
type Mark struct {
	undo, chunks, releases int
	failed                 bool
}

// Mark remembers the state of the batch for Rollback.
func (b *Batch) Mark() Mark {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return Mark{undo: len(b.undo), chunks: len(b.chunks), releases: len(b.releases), failed: b.err != nil}
}

// Rollback undoes everything since the mark: puts, deletes, chunks, reservations and releases. Marks taken after it are
// void.
func (b *Batch) Rollback(to Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mustBeOpen()
	for i := len(b.undo) - 1; i >= to.undo; i-- {
		step := b.undo[i]
		if step.key != nil {
			b.own.restore(step.key, step.before, step.existed)
			continue
		}
		if !step.slot.set {
			b.setChunks--
		}
		b.chunkBytes += len(step.slot.data) - len(b.chunks[step.ordinal].data)
		b.chunks[step.ordinal] = step.slot
	}
	if !to.failed {
		b.err = nil
	}
	clear(b.undo[to.undo:])
	clear(b.chunks[to.chunks:])
	b.undo, b.chunks, b.releases = b.undo[:to.undo], b.chunks[:to.chunks], b.releases[:to.releases]
}

// Digest is a fingerprint of the batch's effects, equal on two nodes exactly when the effects are equal (up to the
// chance of a collision, which nobody provokes). The first half sums up puts and deletes in any order, the second the
// chunks and releases.
func (b *Batch) Digest() [32]byte {
	var digest [32]byte
	var hi, lo uint64
	var buffer []byte
	b.own.mu.RLock()
	for _, op := range b.own.operations {
		buffer = binary.BigEndian.AppendUint32(buffer[:0], uint32(len(op.key)))
		buffer = append(buffer, op.key...)
		if op.deleted {
			buffer = append(buffer, 0)
		} else {
			buffer = append(append(buffer, 1), op.value...)
		}
		sum := xxh3.Hash128(buffer)
		hi, lo = hi+sum.Hi, lo+sum.Lo
	}
	b.own.mu.RUnlock()
	binary.BigEndian.PutUint64(digest[:], hi)
	binary.BigEndian.PutUint64(digest[8:], lo)

	b.mu.RLock()
	defer b.mu.RUnlock()
	hash := xxh3.New()
	var number [8]byte
	for i := range b.chunks {
		binary.BigEndian.PutUint64(number[:], uint64(len(b.chunks[i].data)))
		_, _ = hash.Write(number[:]) // never fails
		_, _ = hash.Write(b.chunks[i].data)
	}
	for _, ref := range b.releases {
		_, _ = hash.Write(ref.Append(buffer[:0]))
	}
	sum := hash.Sum128()
	binary.BigEndian.PutUint64(digest[16:], sum.Hi)
	binary.BigEndian.PutUint64(digest[24:], sum.Lo)
	return digest
}

// Get implements Reader.
func (b *Batch) Get(key []byte) ([]byte, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.ended {
		return nil, fmt.Errorf("read batch of entry %d: %w", b.index, ErrClosed)
	}
	for _, o := range b.overlays {
		if op, ok := o.get(key); ok {
			if op.deleted {
				return nil, nil
			}
			return op.value, nil
		}
	}
	return b.base.get(key)
}

// Scan implements Reader.
func (b *Batch) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	return b.scan(query{prefix: prefix, from: from, visit: visit})
}

// ScanReverse implements Reader.
func (b *Batch) ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error {
	return b.scan(query{prefix: prefix, from: from, reverse: true, visit: visit})
}

func (b *Batch) scan(q query) error {
	b.mu.RLock()
	base, overlays, ended := b.base, b.overlays, b.ended
	b.mu.RUnlock() // visit may write to the batch
	if ended {
		return fmt.Errorf("scan batch of entry %d: %w", b.index, ErrClosed)
	}
	return base.scan(q, overlays)
}

// Chunk implements Reader.
func (b *Batch) Chunk(ref ChunkRef, visit func(chunk []byte) error) error {
	if ref.Entry == b.index {
		return b.ownChunk(ref, visit)
	}
	b.mu.RLock()
	below := b.below
	b.mu.RUnlock()
	for _, of := range below {
		if of.index == ref.Entry {
			return of.ownChunk(ref, visit)
		}
	}
	return b.store.readChunk(ref, visit)
}

func (b *Batch) ownChunk(ref ChunkRef, visit func(chunk []byte) error) error {
	b.mu.RLock()
	var slot chunkSlot
	if int(ref.Ordinal) < len(b.chunks) {
		slot = b.chunks[ref.Ordinal]
	}
	b.mu.RUnlock()
	if len(slot.data) != int(ref.Bytes) || ref.Bucket != b.bucket {
		return fmt.Errorf("%w: read %s: the batch holds %d bytes for bucket %d", ErrMisuse, ref, len(slot.data), b.bucket)
	}
	return visit(slot.data)
}

// end releases what reading needs and the batches below, which would otherwise form an endless chain. Newer batches may
// still read this one's own writes.
func (b *Batch) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	b.below, b.overlays, b.undo = nil, nil, nil
	b.store.horizon.leave(b.base.index)
}
