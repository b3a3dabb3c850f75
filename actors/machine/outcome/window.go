package outcome

import (
	"container/heap"
	"encoding/binary"
	"fmt"

	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// Reader is what the window reads rows through.
type Reader interface {
	Get(key []byte) ([]byte, error)
	Scan(prefix, from []byte, visit func(key, value []byte) bool) error
	Chunk(ref store.ChunkRef, visit func(chunk []byte) error) error
}

// Writer takes the window's effects and owns what it is given.
type Writer interface {
	Put(key, value []byte)
	Delete(key []byte)
	ReserveChunk() uint32
	SetChunk(ordinal uint32, data []byte) store.ChunkRef
	ReleaseChunk(ref store.ChunkRef)
}

type chunkRef = store.ChunkRef

const (
	// Unanswered bounds the sequences of one origin from the lowest that it has not answered to the newest. An origin keeps to
	// it; here it bounds what is remembered of one, whatever it says.
	Unanswered = 1 << 16
	// GraceMicros is how much longer than the window an outcome is kept (cluster 8.4).
	GraceMicros = 5_000_000
	// deletesPerEntry bounds the rows that one entry deletes. It writes one at most, so there are never many to delete, except
	// when an origin answers late or a window's worth of rows grows too old at once.
	deletesPerEntry = 64
	// inlineBytes is how large the body of a row may be; a larger one is a chunk.
	inlineBytes = 64 << 10
	keyBytes    = 1 + 8
	// MaxKeys and MaxBytes bound what Finish and BeginTerm write into the main database for one entry.
	MaxKeys  = 2 + deletesPerEntry
	MaxBytes = inlineBytes + MaxKeys*(keyBytes+32)
	// LeastRoomBytes is what an entry leaves of its block for a body that is a chunk: enough for all its requests, when
	// their results have no room.
	LeastRoomBytes = 2 << 20
)

// termKey holds the stamp of the newest TermStart.
func termKey() []byte { return layout.Meta("outcome-term") }

// Window belongs to the apply actor. For each entry it is called with Begin, then Find and Note for its commands in their
// order, then Finish. A Window whose entry was begun and not finished must be thrown away and loaded again.
type Window struct {
	origins map[uint64]*origin
	last    *origin // the one that was asked for last
	// oldest and newest end the list of the rows, in the order of their indexes.
	oldest, newest *row
	// unwanted are the rows without a wanted outcome that are still to be deleted; some may be gone.
	unwanted rowHeap
	// termMicros is the stamp of the newest TermStart.
	termMicros uint64

	// Of the entry in execution. open is its row, nil before its first note.
	index, stampMicros uint64
	unfinished         bool
	open               *row
	notes              []note
	// read is the body of the row that a repeat has read last.
	readRow *row
	read    []byte

	scratch, encoded []byte
}

// note is the outcome of a command of the entry in execution.
type note struct {
	origin   *origin
	sequence uint64
	result   command.Result
}

// Begin starts an entry.
func (w *Window) Begin(index, stampMicros uint64) {
	w.index, w.stampMicros, w.unfinished = index, stampMicros, true
}

// Unfinished tells whether an entry was begun and not finished.
func (w *Window) Unfinished() bool { return w.unfinished }

// BeginTerm notes that the entry begins a term: nothing grows too old for a window from then on.
func (w *Window) BeginTerm(to Writer) {
	w.termMicros = w.stampMicros
	to.Put(termKey(), binary.BigEndian.AppendUint64(nil, w.termMicros))
}

// Find tells whether a request has been executed, and with what result. A request that its origin has answered counts as
// executed, with a result that says no more than that: nobody waits for it.
func (w *Window) Find(r Reader, id command.RequestID) (result command.Result, known bool, err error) {
	o := w.origin(id.Origin)
	if o == nil {
		return nil, false, nil
	}
	if id.Sequence < o.below {
		return forgotten(), true, nil
	}
	s := o.find(id.Sequence)
	if s == nil {
		return nil, false, nil
	}
	if s.row == w.open {
		return w.notes[s.at].result, true, nil
	}
	if w.readRow != s.row {
		if err := w.readBody(r, s.row); err != nil {
			return nil, false, fmt.Errorf("read outcomes of entry %d: %w", s.row.index, err)
		}
	}
	result, err = resultAt(w.read, s.at)
	if err != nil {
		return nil, false, fmt.Errorf("read outcomes of entry %d: %w", s.row.index, err)
	}
	return result, true, nil
}

// forgotten is the result of a repeat whose first result is not known any more.
func forgotten() command.Result {
	return &command.Refusal{Code: "outcome_unknown", Text: "the command has been executed before, its outcome is not remembered"}
}

func (w *Window) readBody(r Reader, of *row) error {
	value, err := r.Get(layout.Outcome(of.index))
	if err != nil {
		return err
	}
	body, _, err := readBody(r, value)
	if err != nil {
		return err
	}
	w.readRow, w.read = of, body
	return nil
}

func (w *Window) origin(id uint64) *origin {
	if w.last == nil || w.last.id != id {
		w.last = w.origins[id]
	}
	return w.last
}

// Note remembers the result of a command that Find did not know and that has been executed. answeredBelow is what the item
// says of its origin: every request below it is answered. So is what lies too far back, for no origin has that many
// unanswered.
func (w *Window) Note(item *command.Item, result command.Result) {
	sequence := item.Request.Sequence
	o := w.origin(item.Request.Origin)
	if o == nil {
		o = w.add(item.Request.Origin)
	}
	if sequence < o.below {
		panic(fmt.Sprintf("BUG: request %d of origin %x is noted, which has answered those below %d", sequence, o.id, o.below))
	}
	below := min(item.AnsweredBelow, sequence)
	if sequence >= Unanswered {
		below = max(below, sequence-Unanswered+1)
	}
	w.answered(o, below)
	if w.open == nil {
		w.open = &row{index: w.index, stampMicros: w.stampMicros}
	}
	w.hold(o, w.open)
	o.put(sequence, slot{row: w.open, at: uint32(len(w.notes))})
	w.open.wanted++
	w.notes = append(w.notes, note{o, sequence, result})
}

func (w *Window) add(id uint64) *origin {
	o := &origin{id: id}
	w.origins[id], w.last = o, o
	return o
}

// answered forgets the outcomes of an origin below a sequence.
func (w *Window) answered(o *origin, below uint64) {
	o.advance(below, func(of *row) {
		if of.wanted--; of.wanted == 0 && of != w.open {
			heap.Push(&w.unwanted, of)
		}
	})
}

// hold lists an origin in a row that gets an outcome of it.
func (w *Window) hold(o *origin, of *row) {
	if o.noted == of {
		return
	}
	o.noted, o.place = of, len(of.origins)
	o.rows++
	of.origins = append(of.origins, o)
}

// FinishInput is what Finish needs of an entry.
type FinishInput struct {
	// WindowSeconds is how long an outcome is remembered.
	WindowSeconds uint32
	// RoomBytes is what the block of the entry has left, at least LeastRoomBytes.
	RoomBytes int
}

// Finish writes the row of the entry, if one of its commands was noted, and deletes rows that have had their time.
func (w *Window) Finish(to Writer, in FinishInput) {
	if w.open != nil {
		w.write(to, in.RoomBytes)
		w.link(w.open)
		w.open = nil
	}
	w.clean(to, uint64(in.WindowSeconds)*microsPerSecond)
	clear(w.notes)
	w.notes, w.readRow, w.read = w.notes[:0], nil, nil
	w.unfinished = false
}

const microsPerSecond = 1_000_000

// write encodes the notes that are still wanted. A result for which there is no room is left out, its request is not.
func (w *Window) write(to Writer, roomBytes int) {
	origins := make([]Answered, len(w.open.origins))
	for i, o := range w.open.origins {
		origins[i] = Answered{o.id, o.below}
	}
	body := appendBodyHead(w.scratch[:0], w.stampMicros, origins, w.open.wanted)
	for i := range w.notes {
		n := &w.notes[i]
		if n.sequence < n.origin.below {
			continue
		}
		body = binary.AppendUvarint(body, uint64(n.origin.place))
		body = binary.AppendUvarint(body, n.sequence-n.origin.below)
		n.origin.slot(n.sequence).at = uint32(len(body))
		w.encoded = command.AppendResult(w.encoded[:0], n.result)
		if left := roomBytes - len(body) - leastOutcomeRoom*(len(w.notes)-i); len(w.encoded) > left {
			w.encoded = w.encoded[:0]
		}
		body = binary.AppendUvarint(body, uint64(len(w.encoded)))
		body = append(body, w.encoded...)
	}
	value := make([]byte, 0, 2+min(len(body), inlineBytes))
	if len(body) <= inlineBytes {
		value = append(append(value, rowVersion, placeInline), body...)
	} else {
		ref := to.SetChunk(to.ReserveChunk(), append([]byte(nil), body...))
		value = ref.Append(append(value, rowVersion, placeChunk))
		w.open.chunk = &ref
	}
	to.Put(layout.Outcome(w.index), value)
	w.scratch = keep(body)
	w.encoded = keep(w.encoded)
}

// leastOutcomeRoom is what an outcome takes at most without its result: place of the origin, sequence, length.
const leastOutcomeRoom = 3 + 3 + 4

// scratchMaxBytes is the largest buffer that is kept for the next entry.
const scratchMaxBytes = 1 << 20

func keep(buffer []byte) []byte {
	if cap(buffer) > scratchMaxBytes {
		return nil
	}
	return buffer[:0]
}

// clean deletes the rows that are not wanted or too old, as many as one entry may.
func (w *Window) clean(to Writer, windowMicros uint64) {
	left := deletesPerEntry
	for ; left > 0 && len(w.unwanted) > 0; left-- {
		of := heap.Pop(&w.unwanted).(*row)
		if of.gone {
			left++ // it has been deleted for its age
			continue
		}
		w.delete(to, of)
	}
	if w.stampMicros < w.termMicros+windowMicros {
		return
	}
	for ; left > 0 && w.oldest != nil && w.oldest.stampMicros+windowMicros+GraceMicros < w.stampMicros; left-- {
		w.delete(to, w.oldest)
	}
}

func (w *Window) delete(to Writer, of *row) {
	to.Delete(layout.Outcome(of.index))
	if of.chunk != nil {
		to.ReleaseChunk(*of.chunk)
	}
	for _, o := range of.origins {
		if o.rows--; o.rows > 0 {
			continue
		}
		delete(w.origins, o.id)
		if w.last == o {
			w.last = nil
		}
	}
	w.unlink(of)
}

func (w *Window) link(of *row) {
	if of.older = w.newest; of.older != nil {
		of.older.newer = of
	} else {
		w.oldest = of
	}
	w.newest = of
}

func (w *Window) unlink(of *row) {
	if of.older != nil {
		of.older.newer = of.newer
	} else {
		w.oldest = of.newer
	}
	if of.newer != nil {
		of.newer.older = of.older
	} else {
		w.newest = of.older
	}
	// Slots point to it until their origin has answered: what it points to itself need not wait for that.
	*of = row{index: of.index, gone: true}
}

// rowHeap has the row with the lowest index first: which rows are deleted first must not depend on when they ceased to be
// wanted, for a node that has just loaded them does not know that.
type rowHeap []*row

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].index < h[j].index }
func (h rowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rowHeap) Push(x any)        { *h = append(*h, x.(*row)) }
func (h *rowHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
