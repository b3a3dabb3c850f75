package cursor

import (
	"encoding/binary"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

const (
	// MaxReleasedItems bounds the remembered items of a releasing call: 128 KiB, well below the 1 MiB that a row of the
	// main database may have. Of a larger call the items that a no-op could not answer are kept first; the others are
	// completed messages below the cursor, and a repeat of those succeeds as a no-op (messaging 6.4.2, 6.7).
	MaxReleasedItems = 16384
	// inlineReleasedBytes is the most that the row of a State carries of the remembered items. Claims write that row
	// again and again; a large memory is written once, in a row of its own (State.SpillTo).
	inlineReleasedBytes = 600
	// tagBytes is how much of a txid hash is remembered. A false match needs the client to name the released lease and a
	// 64-bit collision, and would only answer a repeat.
	tagBytes = 8
	// linearRepeats is the product of items asked for and items remembered up to which a repeat is answered by scanning.
	linearRepeats = 4096
)

// Released is the last lease that an ack released and how that call answered its items, for the repeat rule (messaging
// 6.4.2). The zero value is no such lease.
type Released struct {
	Lease uuid.UUID
	// runs is the memory in its stored form: for each run of items with one status and verdict, a byte that packs both,
	// the number of items, and their tags. It is never changed in place.
	runs []byte
	// spilled tells that the items stand in a second row that has not been attached (State.AttachSpill).
	spilled bool
}

// packed joins a status and its verdict: two bits of status, three of error, one each for the flags.
func packed(status command.AckStatus, verdict command.AckVerdict) byte {
	b := byte(status) | byte(verdict.Error)<<2
	if verdict.LeaseReleased {
		b |= 1 << 5
	}
	if verdict.DeadLettered {
		b |= 1 << 6
	}
	if verdict.Noop {
		b |= 1 << 7
	}
	return b
}

func unpacked(b byte) (command.AckStatus, command.AckVerdict) {
	return command.AckStatus(b & 3), command.AckVerdict{
		Error:         command.AckError(b >> 2 & 7),
		LeaseReleased: b&(1<<5) != 0,
		DeadLettered:  b&(1<<6) != 0,
		Noop:          b&(1<<7) != 0,
	}
}

func tagOf(item *AckItem) uint64 { return binary.LittleEndian.Uint64(item.Txid[:tagBytes]) }

// remember packs a releasing call. cursor is where the call has left the cursor.
func remember(lease uuid.UUID, call *AckCall, verdicts []command.AckVerdict, cursor uint64) Released {
	items := min(len(call.Items), MaxReleasedItems)
	writer := runWriter{dst: make([]byte, 0, items*tagBytes+16)}
	if len(call.Items) <= MaxReleasedItems {
		for i := range call.Items {
			writer.add(packed(call.Items[i].Status, verdicts[i]), tagOf(&call.Items[i]))
		}
		return Released{Lease: lease, runs: writer.finish()}
	}
	left := MaxReleasedItems
	for _, wantNoop := range [2]bool{false, true} {
		for i := range call.Items {
			item := &call.Items[i]
			below := verdicts[i].Noop || item.Offset < cursor
			repeatsAsNoop := item.Status == command.AckCompleted && verdicts[i].Error == command.AckOK && below
			if repeatsAsNoop == wantNoop && left > 0 {
				writer.add(packed(item.Status, verdicts[i]), tagOf(item))
				left--
			}
		}
	}
	return Released{Lease: lease, runs: writer.finish()}
}

// runHead is the length of the head of a run: the packed outcome and the number of items as a 16-bit number.
const runHead = 3

// runWriter gathers items of one outcome into runs.
type runWriter struct {
	dst []byte
	// head is where the open run begins; count is its number of items, 0 before the first run.
	head  int
	count uint16
}

func (w *runWriter) add(outcome byte, tag uint64) {
	if w.count == 0 || w.dst[w.head] != outcome {
		w.close()
		w.head = len(w.dst)
		w.dst = append(w.dst, outcome, 0, 0)
	}
	w.count++
	w.dst = binary.LittleEndian.AppendUint64(w.dst, tag)
}

func (w *runWriter) close() {
	if w.count > 0 {
		binary.LittleEndian.PutUint16(w.dst[w.head+1:], w.count)
		w.count = 0
	}
}

func (w *runWriter) finish() []byte {
	w.close()
	return w.dst
}

// visit calls back for every remembered item until the callback returns false.
func (r Released) visit(each func(outcome byte, tag uint64) bool) {
	for rest := r.runs; len(rest) > 0; {
		outcome, count := rest[0], int(binary.LittleEndian.Uint16(rest[1:]))
		rest = rest[runHead:]
		for ; count > 0; count-- {
			if !each(outcome, binary.LittleEndian.Uint64(rest)) {
				return
			}
			rest = rest[tagBytes:]
		}
	}
}

// answer gives the verdicts of a call whose lease is not live (messaging 6.4.2): a repeat is answered as the first time, a
// completed message below the cursor is a no-op under the last released lease, everything else fails.
func (r Released) answer(call *AckCall, verdicts []command.AckVerdict) {
	repeat := func(*AckItem) (command.AckVerdict, bool) { return command.AckVerdict{}, false }
	known := r.Lease == call.Lease
	if known {
		repeat = r.index(len(call.Items))
	}
	for i := range call.Items {
		item := &call.Items[i]
		verdict, found := repeat(item)
		switch {
		case found:
			verdicts[i] = verdict
		case known && item.Status == command.AckCompleted && item.Where == Below:
			verdicts[i].Noop = true
		default:
			verdicts[i].Error = command.AckBadLease
		}
	}
}

// index returns a look-up of remembered items, made for the number of look-ups that follow.
func (r Released) index(lookups int) func(*AckItem) (command.AckVerdict, bool) {
	type key struct {
		tag    uint64
		status command.AckStatus
	}
	if lookups*(len(r.runs)/tagBytes) <= linearRepeats {
		return r.find
	}
	outcomes := make(map[key]byte, len(r.runs)/tagBytes)
	r.visit(func(outcome byte, tag uint64) bool {
		status, _ := unpacked(outcome)
		if _, seen := outcomes[key{tag, status}]; !seen {
			outcomes[key{tag, status}] = outcome
		}
		return true
	})
	return func(item *AckItem) (command.AckVerdict, bool) {
		outcome, found := outcomes[key{tagOf(item), item.Status}]
		_, verdict := unpacked(outcome)
		return verdict, found
	}
}

// find returns the verdict that the first remembered item of the same txid and status got.
func (r Released) find(item *AckItem) (verdict command.AckVerdict, found bool) {
	wanted := tagOf(item)
	r.visit(func(outcome byte, tag uint64) bool {
		if tag != wanted {
			return true
		}
		var status command.AckStatus
		if status, verdict = unpacked(outcome); status == item.Status {
			found = true
		}
		return !found
	})
	if !found {
		return command.AckVerdict{}, false
	}
	return verdict, true
}
