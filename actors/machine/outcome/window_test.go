package outcome

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"queen/raftlog/command"
	"queen/store/layout"
)

const (
	testStart  = 1_790_000_000_000_000
	testWindow = 60
	testRoom   = 4 << 20
)

// rig is a window over a memory that is fed entries.
type rig struct {
	t      testing.TB
	memory *memory
	window *Window
	index  uint64
	now    uint64
	room   int
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, memory: newMemory(), now: testStart, room: testRoom}
	r.reload()
	return r
}

func (r *rig) reload() {
	r.t.Helper()
	window, err := Load(r.memory)
	if err != nil {
		r.t.Fatal(err)
	}
	r.window = window
}

// call is a request whose result, when it is executed, names it.
func call(origin, sequence, below uint64) command.Item {
	return command.Item{Request: command.RequestID{Origin: origin, Sequence: sequence}, AnsweredBelow: below}
}

func named(id command.RequestID) command.Result {
	return &command.Refusal{Code: "named", Text: fmt.Sprint(id.Origin, "/", id.Sequence)}
}

// what became of a request.
type fate string

const (
	executed fate = "executed"
	repeated fate = "repeated"
	answered fate = "answered"
)

func (r *rig) fate(id command.RequestID) fate {
	r.t.Helper()
	result, known, err := r.window.Find(r.memory, id)
	switch {
	case err != nil:
		r.t.Fatal(err)
	case !known:
		return executed
	case reflect.DeepEqual(result, named(id)):
		return repeated
	case reflect.DeepEqual(result, forgotten()):
		return answered
	}
	r.t.Fatalf("request %+v has the result %+v", id, result)
	return ""
}

// entry applies an entry and returns what became of its requests.
func (r *rig) entry(items ...command.Item) (fates []fate) {
	r.t.Helper()
	r.index++
	r.now += 1000
	r.memory.next(r.index)
	r.window.Begin(r.index, r.now)
	for i := range items {
		fates = append(fates, r.fate(items[i].Request))
		if fates[i] == executed {
			r.window.Note(&items[i], named(items[i].Request))
		}
	}
	r.window.Finish(r.memory, FinishInput{WindowSeconds: testWindow, RoomBytes: r.room})
	return fates
}

// is applies an entry of one request.
func (r *rig) is(want fate, item command.Item) {
	r.t.Helper()
	if got := r.entry(item)[0]; got != want {
		r.t.Fatalf("request %+v was %s, want %s", item.Request, got, want)
	}
}

// startTerm applies the entry that begins a term.
func (r *rig) startTerm() {
	r.index++
	r.now += 1000
	r.memory.next(r.index)
	r.window.Begin(r.index, r.now)
	r.window.BeginTerm(r.memory)
	r.window.Finish(r.memory, FinishInput{WindowSeconds: testWindow, RoomBytes: r.room})
}

// stored lists the indexes of the rows.
func (r *rig) stored() (indexes []uint64) {
	r.t.Helper()
	err := r.memory.Scan([]byte{layout.FamilyOutcome}, nil, func(key, _ []byte) bool {
		indexes = append(indexes, layout.LastNumber(key))
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return indexes
}

func (r *rig) mustStore(indexes ...uint64) {
	r.t.Helper()
	if got := r.stored(); !slices.Equal(got, indexes) {
		r.t.Fatalf("rows of the entries %v are stored, want %v", got, indexes)
	}
}

// TestRepeatGetsTheFirstResult repeats a request in the same entry, in the next one, and after a restart (I9).
func TestRepeatGetsTheFirstResult(t *testing.T) {
	r := newRig(t)
	got := r.entry(call(1, 1, 1), call(1, 2, 1), call(1, 1, 1), call(2, 1, 1))
	if want := []fate{executed, executed, repeated, executed}; !slices.Equal(got, want) {
		t.Errorf("in one entry: %v, want %v", got, want)
	}
	for range 2 {
		r.is(repeated, call(1, 1, 1))
		r.is(repeated, call(1, 2, 1))
		r.is(repeated, call(2, 1, 1))
		r.reload()
	}
	r.is(executed, call(1, 3, 1))
	r.is(executed, call(3, 1, 1))
}

// TestEntryHasOneRow that is written once, and none when nothing of it is remembered.
func TestEntryHasOneRow(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1), call(2, 1, 1), call(1, 2, 1))
	r.entry()
	r.entry(call(1, 1, 1)) // a repeat
	r.startTerm()
	r.mustStore(1)
}

// TestAnsweredRequestsAreForgotten checks when rows go, and that an answered request never runs again.
func TestAnsweredRequestsAreForgotten(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1), call(2, 1, 1))
	r.entry(call(1, 2, 1))
	r.entry(call(1, 3, 3))
	r.mustStore(1, 3) // that of another origin keeps the first one
	for range 2 {
		r.is(answered, call(1, 1, 1))
		r.is(answered, call(1, 2, 1))
		r.is(repeated, call(2, 1, 1))
		r.is(repeated, call(1, 3, 3))
		r.reload()
	}
	r.entry(call(2, 2, 2))
	r.mustStore(3, r.index)
}

// TestRequestAnsweredInItsOwnEntryIsForgotten: the row has what is wanted after the entry.
func TestRequestAnsweredInItsOwnEntryIsForgotten(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1), call(1, 2, 2))
	for range 2 {
		r.is(answered, call(1, 1, 1))
		r.is(repeated, call(1, 2, 2))
		r.reload()
	}
}

// TestRepeatOfAnAnsweredRequestTellsNothingOfOthers: only what is executed moves the number of its origin, for only that
// leaves a row that says so.
func TestRepeatOfAnAnsweredRequestTellsNothingOfOthers(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1), call(1, 2, 1))
	r.is(repeated, call(1, 2, 2))
	r.is(repeated, call(1, 1, 1))
}

// TestOldOutcomesAreForgotten goes by the stamps of entries: window and grace, and no age at all in the first window of a term.
func TestOldOutcomesAreForgotten(t *testing.T) {
	const kept = testWindow*microsPerSecond + GraceMicros
	r := newRig(t)
	r.entry(call(1, 1, 1))
	first := r.now
	r.entry(call(2, 1, 1))
	r.now = first + kept - 1000
	r.entry()
	r.mustStore(1, 2)
	r.now = first + kept // the next entry is younger by 1 ms than that
	r.entry()
	r.mustStore(2)
	r.is(executed, call(1, 1, 1))
	r.entry()
	r.mustStore(r.index - 1)

	r.startTerm()
	term := r.now
	r.now = term + testWindow*microsPerSecond - 2000
	r.entry()
	r.is(repeated, call(1, 1, 1)) // long beyond its time
	r.now = term + kept + 10*microsPerSecond
	r.entry()
	r.mustStore()
}

// TestOriginIsForgottenWithItsLastRow, and what it has answered with it: a log may have gone by since.
func TestOriginIsForgottenWithItsLastRow(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 9, 9))
	r.is(answered, call(1, 3, 1))
	r.now += (testWindow + 6) * microsPerSecond
	r.entry()
	r.mustStore()
	if len(r.window.origins) != 0 {
		t.Errorf("%d origins are remembered", len(r.window.origins))
	}
	r.is(executed, call(1, 3, 1))
}

// TestDeletionsOfOneEntryAreBounded lets an origin answer late, and lets rows grow too old together.
func TestDeletionsOfOneEntryAreBounded(t *testing.T) {
	for _, late := range []bool{true, false} {
		t.Run(fmt.Sprintf("answered late=%t", late), func(t *testing.T) {
			const rows = 3 * deletesPerEntry
			r := newRig(t)
			for i := range uint64(rows) {
				r.entry(call(1, 1+i, 1))
			}
			next := call(2, 1, 1)
			if late {
				next = call(1, rows+1, rows+1)
			} else {
				r.now += (testWindow + 6) * microsPerSecond
			}
			for left := rows; left > 0; {
				r.entry(next)
				left -= deletesPerEntry
				if got := r.stored(); len(got) != left+1 || left > 0 && got[0] != uint64(rows-left+1) {
					t.Fatalf("%d rows are stored, want %d: %v", len(got), left+1, got)
				}
				if r.memory.keys > MaxKeys || r.memory.bytes > MaxBytes {
					t.Errorf("an entry wrote %d keys with %d bytes", r.memory.keys, r.memory.bytes)
				}
				if left == deletesPerEntry {
					r.reload() // goes on where the other has stopped
				}
			}
		})
	}
}

// TestOriginRemembersABoundedNumber whatever it says of its answers.
func TestOriginRemembersABoundedNumber(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1))
	r.entry(call(1, 5, 1))
	r.entry(call(1, Unanswered+1, 1))
	r.is(answered, call(1, 1, 1))
	r.is(repeated, call(1, 5, 1))
	r.entry(call(1, 1<<50, 1))
	if o := r.window.origins[1]; len(o.slots) > Unanswered || o.end-o.below > Unanswered {
		t.Errorf("an origin has %d slots for [%d, %d)", len(o.slots), o.below, o.end)
	}
	r.is(answered, call(1, 5, 1))
	r.is(repeated, call(1, 1<<50, 1))
	r.is(executed, call(1, 1<<50-Unanswered+1, 1))
}

// large is a result of about so many bytes.
func large(bytes int) command.Result {
	return &command.Refusal{Code: "large", Text: strings.Repeat("x", bytes)}
}

// TestLargeOutcomesAreAChunk that goes with its row.
func TestLargeOutcomesAreAChunk(t *testing.T) {
	r := newRig(t)
	r.index++
	r.memory.next(r.index)
	r.window.Begin(r.index, r.now)
	items := []command.Item{call(1, 1, 1), call(1, 2, 1)}
	results := []command.Result{large(inlineBytes), named(items[1].Request)}
	for i := range items {
		r.window.Note(&items[i], results[i])
	}
	r.window.Finish(r.memory, FinishInput{WindowSeconds: testWindow, RoomBytes: r.room})
	if len(r.memory.Chunks) != 1 || r.memory.bytes > 64 {
		t.Fatalf("%d chunks, %d bytes in the row", len(r.memory.Chunks), r.memory.bytes)
	}
	for range 2 {
		result, known, err := r.window.Find(r.memory, items[0].Request)
		if err != nil || !known || !reflect.DeepEqual(result, results[0]) {
			t.Fatalf("known=%t, %v", known, err)
		}
		r.is(repeated, items[1])
		r.reload()
	}
	r.is(executed, call(1, 3, 3))
	if len(r.memory.Chunks) != 0 {
		t.Error("the chunk is still there")
	}
}

// TestResultWithoutRoomIsLeftOut: its request is remembered all the same.
func TestResultWithoutRoomIsLeftOut(t *testing.T) {
	r := newRig(t)
	r.room = LeastRoomBytes
	r.index++
	r.memory.next(r.index)
	r.window.Begin(r.index, r.now)
	items := []command.Item{call(1, 1, 1), call(1, 2, 1), call(1, 3, 1)}
	for i, result := range []command.Result{named(items[0].Request), large(r.room), named(items[2].Request)} {
		r.window.Note(&items[i], result)
	}
	r.window.Finish(r.memory, FinishInput{WindowSeconds: testWindow, RoomBytes: r.room})
	for range 2 {
		r.is(repeated, items[0])
		r.is(answered, items[1])
		r.is(repeated, items[2])
		r.reload()
	}
}

// TestLeastRoomHoldsEveryRequest of the largest entry, results aside, from more origins than there will ever be nodes.
func TestLeastRoomHoldsEveryRequest(t *testing.T) {
	const commands, origins = 65_536, 8192 // QUEEN_RAFT_BATCH_MAX_CMDS
	r := newRig(t)
	r.room = LeastRoomBytes
	items := make([]command.Item, commands)
	for i := range items {
		items[i] = call(1<<60+uint64(i%origins), 1<<62+uint64(i/origins), 1<<62)
	}
	r.entry(items...)
	for ref := range r.memory.Chunks {
		if int(ref.Bytes) > r.room {
			t.Errorf("a chunk of %d bytes, there is room for %d", ref.Bytes, r.room)
		}
	}
	r.is(repeated, items[0])
	r.is(answered, items[commands-1]) // it had no room for its result
	heads := make([]Answered, commands)
	for i := range heads {
		heads[i] = Answered{Origin: uint64(i), Below: math.MaxUint64}
	}
	if least := len(appendBodyHead(nil, math.MaxUint64, heads, commands)) + commands*leastOutcomeRoom; least > LeastRoomBytes {
		t.Errorf("%d commands of as many origins take %d bytes, %d are left for them", commands, least, LeastRoomBytes)
	}
}

// TestRepeatsReadARowOnce: work is in proportion to the entry.
func TestRepeatsReadARowOnce(t *testing.T) {
	const requests = 1000
	r := newRig(t)
	items := make([]command.Item, requests)
	for i := range items {
		items[i] = call(1, 1+uint64(i), 1)
	}
	r.entry(items...)
	r.memory.Gets = 0
	for i, fate := range r.entry(items...) {
		if fate != repeated {
			t.Fatalf("request %d was %s", i, fate)
		}
	}
	if r.memory.Gets != 1 {
		t.Errorf("%d reads", r.memory.Gets)
	}
}

func TestUnfinishedEntryIsTold(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1))
	if r.window.Unfinished() {
		t.Error("a finished entry is unfinished")
	}
	r.window.Begin(2, r.now)
	item := call(1, 2, 2)
	r.window.Note(&item, named(item.Request))
	if !r.window.Unfinished() {
		t.Error("an entry that was begun is finished")
	}
	r.reload()
	r.is(repeated, call(1, 1, 1))
}

func TestDamagedRowIsNotLoaded(t *testing.T) {
	r := newRig(t)
	r.entry(call(1, 1, 1))
	key := layout.Outcome(1)
	good := r.memory.Row(key)
	for n := range good {
		r.memory.Set(key, bytes.Clone(good[:n]))
		if _, err := Load(r.memory); !errors.Is(err, ErrBadRow) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
}
