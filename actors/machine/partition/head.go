package partition

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	// headVersion is the format of the head row.
	headVersion = 1
	// maxInlineBytes is how large the references inside a head may grow before they become a page: every push rewrites
	// them, and a cold partition reads them in one go.
	maxInlineBytes = 512
)

// Head is the state of a partition's log. The zero value is that of a partition nothing was ever stored in.
type Head struct {
	// CreatedMicros is the stamp of the first append ever; 0 before it.
	CreatedMicros uint64
	// LogStart is the lowest retained offset; it equals Tail when nothing is retained.
	LogStart uint64
	// Tail is the offset of the next message.
	Tail uint64
	// LastStampMicros is the stamp of the newest append, retained or not.
	LastStampMicros uint64
	// OldestStampMicros and OldestCount describe the oldest retained append; 0 when nothing is retained.
	OldestStampMicros uint64
	OldestCount       uint32
	// Segments is the number of retained appends (messaging 9.6).
	Segments uint64
	// RetainedBytes is what the retained chunks hold.
	RetainedBytes uint64
	// LargestPayloadBytes is the largest payload ever pushed here.
	LargestPayloadBytes uint64

	// The offsets from LogStart up to inlineBase stand in pages, those above in the head itself.
	inlineBase uint64
	// frontPage is the base of the page that holds LogStart; pageStamp the newest stamp in any page. Both 0 without pages.
	frontPage uint64
	pageStamp uint64
	// inline holds the encoded references from inlineBase on, inlineStamp is the stamp of the first of them.
	inline      []byte
	inlineStamp uint64
	hashes      hashState
	moves       moveState
}

// moveState is what MoveChunks has to know of itself.
type moveState struct {
	// end is the offset below which chunks may have been moved; it matters only above the log start.
	end uint64
	// A move of the chunks of bucket goes on at the offset next; 0 when none is under way.
	bucket uint32
	next   uint64
}

// hashState describes the hash rows of a partition.
type hashState struct {
	// rows is their number, floor the base of the first one. dueStamp is the newest stamp in the first row, newestStamp
	// that in any row. All 0 without rows.
	rows        uint64
	floor       uint64
	dueStamp    uint64
	newestStamp uint64
	// moved is the offset up to which the hashes of the append at the log start stand in hash rows already; it matters
	// only above the log start.
	moved uint64
}

// above returns the state without what lies at or below an offset.
func (m moveState) above(offset uint64) moveState {
	if m.end <= offset {
		m.end = 0
	}
	if m.next <= offset {
		m.bucket, m.next = 0, 0
	}
	return m
}

// Messages is the number of retained messages.
func (h *Head) Messages() uint64 { return h.Tail - h.LogStart }

func (h *Head) hasPages() bool { return h.LogStart < h.inlineBase }

const (
	headRetained = 1 << iota
	headPages
	headInline
	headHashes
	headMoved
	headMoves
	headKnown = headRetained | headPages | headInline | headHashes | headMoved | headMoves
)

func (h *Head) flags() byte {
	var flags byte
	if h.Segments > 0 {
		flags |= headRetained
	}
	if h.hasPages() {
		flags |= headPages
	}
	if len(h.inline) > 0 {
		flags |= headInline
	}
	if h.hashes.rows > 0 {
		flags |= headHashes
	}
	if h.hashes.moved > h.LogStart {
		flags |= headMoved
	}
	if h.moves != (moveState{}) {
		flags |= headMoves
	}
	return flags
}

// AppendTo appends the stored form of the head: version, flags, numbers as varints (stamps and offsets as distances where
// that is shorter), inline references last.
func (h *Head) AppendTo(dst []byte) []byte {
	flags := h.flags()
	put := func(number uint64) { dst = binary.AppendUvarint(dst, number) }
	dst = append(dst, headVersion, flags)
	put(h.CreatedMicros)
	put(h.LastStampMicros - h.CreatedMicros)
	put(h.LogStart)
	put(h.Tail - h.LogStart)
	put(h.LargestPayloadBytes)
	if flags&headRetained != 0 {
		put(h.LastStampMicros - h.OldestStampMicros)
		put(uint64(h.OldestCount))
		put(h.Segments)
		put(h.RetainedBytes)
	}
	if flags&headPages != 0 {
		put(h.inlineBase - h.LogStart)
		put(h.LogStart - h.frontPage)
		put(h.LastStampMicros - h.pageStamp)
	}
	if flags&headHashes != 0 {
		put(h.hashes.rows)
		put(h.hashes.floor)
		put(h.hashes.dueStamp)
		put(h.hashes.newestStamp - h.hashes.dueStamp)
	}
	if flags&headMoved != 0 {
		put(h.hashes.moved - h.LogStart)
	}
	if flags&headMoves != 0 {
		put(max(h.moves.end, h.LogStart) - h.LogStart)
		put(max(h.moves.next, h.LogStart) - h.LogStart)
		put(uint64(h.moves.bucket))
	}
	if flags&headInline != 0 {
		put(h.LastStampMicros - h.inlineStamp)
	}
	return append(dst, h.inline...)
}

// DecodeHead reads a head row. The inline references alias row. Errors wrap ErrBadHead.
func DecodeHead(row []byte) (Head, error) {
	f := fields{rest: row}
	if version := f.octet(); f.failed || version != headVersion {
		return Head{}, fmt.Errorf("read head of version %d: %w", version, ErrBadHead)
	}
	flags := f.octet()
	if flags&^byte(headKnown) != 0 {
		return Head{}, fmt.Errorf("read head flags %#x: %w", flags, ErrBadHead)
	}
	h := Head{CreatedMicros: f.uvarint()}
	h.LastStampMicros = h.CreatedMicros + f.uvarint()
	h.LogStart = f.uvarint()
	h.Tail = h.LogStart + f.uvarint()
	h.LargestPayloadBytes = f.uvarint()
	h.decodeParts(&f, flags)
	if f.failed {
		return Head{}, fmt.Errorf("read head fields: %w", ErrBadHead)
	}
	if err := h.check(flags); err != nil {
		return Head{}, fmt.Errorf("check head: %w: %w", err, ErrBadHead)
	}
	return h, nil
}

func (h *Head) decodeParts(f *fields, flags byte) {
	h.inlineBase = h.LogStart
	if flags&headInline == 0 {
		h.inlineBase = h.Tail
	}
	if flags&headRetained != 0 {
		h.OldestStampMicros = h.LastStampMicros - f.uvarint()
		count := f.uvarint()
		f.failed = f.failed || count > math.MaxUint32
		h.OldestCount = uint32(count)
		h.Segments = f.uvarint()
		h.RetainedBytes = f.uvarint()
	}
	if flags&headPages != 0 {
		h.inlineBase = h.LogStart + f.uvarint()
		h.frontPage = h.LogStart - f.uvarint()
		h.pageStamp = h.LastStampMicros - f.uvarint()
	}
	if flags&headHashes != 0 {
		h.hashes.rows = f.uvarint()
		h.hashes.floor = f.uvarint()
		h.hashes.dueStamp = f.uvarint()
		h.hashes.newestStamp = h.hashes.dueStamp + f.uvarint()
	}
	if flags&headMoved != 0 {
		h.hashes.moved = h.LogStart + f.uvarint()
	}
	if flags&headMoves != 0 {
		h.moves.end = h.LogStart + f.uvarint()
		h.moves.next = h.LogStart + f.uvarint()
		bucket := f.uvarint()
		f.failed = f.failed || bucket > math.MaxUint32
		h.moves.bucket = uint32(bucket)
		h.moves = h.moves.above(h.LogStart)
	}
	if flags&headInline != 0 {
		h.inlineStamp = h.LastStampMicros - f.uvarint()
	}
	h.inline = f.rest
	if len(h.inline) == 0 {
		h.inline = nil
	}
}

// check refuses heads that no machine writes: they would make it walk or write astray.
func (h *Head) check(flags byte) error {
	if h.LastStampMicros < h.CreatedMicros || h.Tail < h.LogStart {
		return fmt.Errorf("stamps or offsets overflow")
	}
	if (h.Tail > h.LogStart) != (flags&headRetained != 0) || h.OldestStampMicros > h.LastStampMicros {
		return fmt.Errorf("retained part does not fit")
	}
	if flags&headPages != 0 && (h.inlineBase <= h.LogStart || h.inlineBase > h.Tail || h.frontPage > h.LogStart) {
		return fmt.Errorf("pages do not fit")
	}
	if h.flags() != flags {
		return fmt.Errorf("flags do not fit")
	}
	if h.inlineStamp > h.LastStampMicros || h.pageStamp > h.LastStampMicros || h.hashes.newestStamp < h.hashes.dueStamp {
		return fmt.Errorf("part stamps overflow")
	}
	if h.hashes.moved > h.Tail || h.moves.end > h.Tail || h.moves.next > h.Tail {
		return fmt.Errorf("part offsets are above the tail")
	}
	walk := h.inlineReferences()
	var a Append
	for {
		more, err := walk.next(&a)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if len(a.hashes) == 0 {
			return fmt.Errorf("inline append at offset %d has no hashes", a.Base)
		}
	}
	if walk.base != h.Tail {
		return fmt.Errorf("references end at %d, tail is %d", walk.base, h.Tail)
	}
	return nil
}

func (h *Head) inlineReferences() references {
	return references{base: h.inlineBase, stamp: h.inlineStamp, rest: h.inline}
}
