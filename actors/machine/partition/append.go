package partition

import (
	"queen/raftlog/command"
	"queen/store/layout"
)

// AppendInput is one push for the partition.
type AppendInput struct {
	// StampMicros is the stamp of the command; windows are judged at it.
	StampMicros uint64
	// Chunk holds Count messages in the encoding of command.AppendMessage. Append may keep it.
	Chunk []byte
	Count uint32
	// DedupWindowMicros is the window in which a txid is refused; 0 leaves only repeats within the push.
	DedupWindowMicros uint64
	// HashWindowMicros is how long hashes are kept (messaging 1).
	HashWindowMicros uint64
}

// AppendOutput says what became of a push.
type AppendOutput struct {
	// FirstOffset is that of the first stored message; the tail when none was stored.
	FirstOffset uint64
	Stored      uint32
	// Duplicates are ordered by Item.
	Duplicates []command.Duplicate
	// StampMicros is the write stamp of the append; 0 when nothing was stored.
	StampMicros uint64
}

// Append stores the messages of a push that are no duplicates (messaging 4.4, 4.6) under consecutive offsets and one
// stamp: the larger of the command's and the partition's last one + 1. A push of duplicates only writes nothing. Errors
// wrap ErrBadAppend and command.ErrBadChunk for a malformed push; after those nothing has changed.
func (m *Machine) Append(r Reader, w Writer, in AppendInput) (AppendOutput, error) {
	b, err := readBatch(in.Chunk, in.Count)
	if err != nil {
		return AppendOutput{}, err
	}
	judgement, err := m.judge(m.log(r), b, &in)
	if err != nil {
		return AppendOutput{}, err
	}
	out := AppendOutput{FirstOffset: m.head.Tail, Duplicates: judgement.all()}
	if len(out.Duplicates) == b.count() {
		return out, nil
	}
	if b, err = b.without(out.Duplicates); err != nil {
		return AppendOutput{}, err
	}
	out.Stored = uint32(b.count())
	out.StampMicros = max(in.StampMicros, m.head.LastStampMicros+1)
	m.store(w, b, out.StampMicros, in.HashWindowMicros)
	return out, nil
}

// store appends a batch. Nothing in it can fail.
func (m *Machine) store(w Writer, b *batch, stampMicros, hashWindowMicros uint64) {
	h := &m.head
	a := Append{Base: h.Tail, Count: uint32(b.count()), StampMicros: stampMicros, PayloadBytes: b.payloadBytes}
	a.Chunk = w.SetChunk(w.ReserveChunk(), b.chunk)
	if b.count() <= maxHashedMessages {
		a.hashes = b.hashes
	}
	if h.CreatedMicros == 0 {
		h.CreatedMicros = stampMicros
	}
	if h.Segments == 0 {
		h.OldestStampMicros, h.OldestCount = stampMicros, a.Count
	}
	if len(h.inline) == 0 {
		h.inlineStamp = stampMicros
	}
	previous := h.LastStampMicros
	if len(h.inline) == 0 {
		previous = stampMicros
	}
	h.inline = appendReference(h.inline, &a, previous)
	h.Tail += uint64(a.Count)
	h.LastStampMicros = stampMicros
	h.Segments++
	h.RetainedBytes += uint64(a.Chunk.Bytes)
	h.LargestPayloadBytes = max(h.LargestPayloadBytes, b.largestBytes)
	if len(h.inline) > maxInlineBytes || len(a.hashes) == 0 {
		m.spill(w, &a, b.hashes, hashWindowMicros)
	}
	m.putHead(w)
}

// spill moves the inline references to a page of their own. newest is the last of them; its hashes are given, because a
// large append has none in its reference.
func (m *Machine) spill(w Writer, newest *Append, hashes []byte, hashWindowMicros uint64) {
	h := &m.head
	if m.index != nil {
		m.index.forget(cutoff(newest.StampMicros, hashWindowMicros))
	}
	walk := h.inlineReferences()
	var a Append
	bucket := newest.Chunk.Bucket
	for {
		more, err := walk.next(&a)
		if err != nil {
			panic("BUG: own inline references cannot be read: " + err.Error())
		}
		if !more {
			break
		}
		bucket = min(bucket, a.Chunk.Bucket)
		if m.index == nil {
			continue
		}
		if a.Base == newest.Base {
			a.hashes = hashes
		}
		m.index.addAppend(&a, a.hashes, hashWindowMicros)
	}
	p := page{base: h.inlineBase, end: h.Tail, firstStamp: h.inlineStamp, lastStamp: h.LastStampMicros, bucket: bucket,
		refs: h.inline}
	w.Put(layout.Page(m.partition, p.base), p.encode())
	if !h.hasPages() {
		h.frontPage = p.base
	}
	h.pageStamp = p.lastStamp
	h.inline, h.inlineBase, h.inlineStamp = nil, h.Tail, 0
}
