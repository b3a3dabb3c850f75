package partition

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"queen/raftlog/command"
)

func TestDuplicateOfARemovedMessageKeepsItsIDAndOffset(t *testing.T) {
	r := newRig(t)
	first := r.inputs("a", "b")
	r.pushInputs(first)
	r.push("c")
	r.now += 10 * second
	if out := r.retain(Retention{EvictMicros: second}); out.Appends != 2 || out.Messages != 3 {
		t.Fatalf("retained %+v", out)
	}
	for range 2 {
		r.wantDuplicate(r.push("b"), first[1].id, 1)
		r.load()
	}
	r.now = testStart + hour
	if out := r.push("b"); out.Stored != 1 || out.FirstOffset != 3 {
		t.Errorf("after the window: %+v", out)
	}
}

func TestPushOfDuplicatesOnlyWritesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	puts, stamp, chunks := r.store.Puts, r.machine.LastStampMicros(), len(r.store.Chunks)
	r.now += second
	if out := r.push("b", "a", "a"); out.Stored != 0 || len(out.Duplicates) != 3 || out.StampMicros != 0 || out.FirstOffset != 2 {
		t.Errorf("answered %+v", out)
	}
	if r.store.Puts != puts || len(r.store.Chunks) != chunks || r.machine.LastStampMicros() != stamp || r.machine.Tail() != 2 {
		t.Errorf("a push of duplicates left traces")
	}
}

func TestRepeatsCollapseWithoutAWindow(t *testing.T) {
	r := newRig(t)
	r.dedup = 0
	inputs := r.inputs("a", "b", "a", "c", "b")
	out := r.pushInputs(inputs)
	want := []command.Duplicate{{Item: 2, ID: inputs[0].id, Offset: 0}, {Item: 4, ID: inputs[1].id, Offset: 1}}
	if out.Stored != 3 || !slices.Equal(out.Duplicates, want) {
		t.Errorf("answered %+v", out)
	}
	if out = r.push("a"); out.Stored != 1 {
		t.Errorf("with the window off: %+v", out)
	}
}

func TestLowestOffsetIsReportedAfterTheWindowLapsedOnce(t *testing.T) {
	r := newRig(t)
	r.dedup = minute
	first := r.inputs("a")
	r.pushInputs(first)
	for i := range 100 {
		r.push(fmt.Sprint("filler", i))
	}
	r.now += 2 * minute
	if out := r.push("a"); out.Stored != 1 || out.FirstOffset != 101 {
		t.Fatalf("after the window: %+v", out)
	}
	r.now += second
	r.wantDuplicate(r.push("a"), first[0].id, 0)
	r.load()
	r.wantDuplicate(r.push("a"), first[0].id, 0)
}

func TestMessagesWithoutTxidAreNeverDuplicates(t *testing.T) {
	r := newRig(t)
	same := r.inputs("")
	for i := range uint64(3) {
		if out := r.pushInputs([]input{same[0], same[0]}); out.Stored != 2 || out.FirstOffset != 2*i {
			t.Errorf("push %d: %+v", i, out)
		}
	}
	if got := r.resolve(0, 6, true, same[0].id.String()); got != (Resolution{Kind: InRange, Offset: 0}) {
		t.Errorf("its id resolves to %+v", got)
	}
}

func TestStampsRiseStrictly(t *testing.T) {
	r := newRig(t)
	last := uint64(0)
	for _, step := range []int{0, 0, -5, 7, 1, 0} {
		r.now = uint64(int(r.now) + step)
		out := r.push("")
		if out.StampMicros <= last || out.StampMicros < r.now {
			t.Errorf("stamp %d follows %d at %d", out.StampMicros, last, r.now)
		}
		last = out.StampMicros
	}
}

func TestMalformedPushChangesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a")
	before := r.machine.head
	chunk := encodeInputs(r.inputs("b", "c"))
	inputs := map[string]AppendInput{
		"too many":  {Chunk: chunk, Count: 3},
		"too few":   {Chunk: chunk, Count: 1},
		"none":      {Chunk: chunk, Count: 0},
		"cut":       {Chunk: chunk[:len(chunk)-1], Count: 2},
		"empty":     {Count: 1},
		"count lie": {Chunk: chunk, Count: 1 << 31},
	}
	for name, in := range inputs {
		_, err := r.machine.Append(r.store, r.store, in)
		if !errors.Is(err, ErrBadAppend) && !errors.Is(err, command.ErrBadChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r.machine.head.Tail != before.Tail || r.store.Puts != 1 || len(r.store.Chunks) != 1 {
		t.Errorf("a malformed push left traces")
	}
}

// TestSmallPushIsOneSmallPut: budgets of the hot path and of a cold start.
func TestSmallPushIsOneSmallPut(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		puts, written := r.store.Puts, r.store.PutBytes
		r.push(fmt.Sprint(i))
		if r.store.Puts != puts+1 || r.store.PutBytes-written > maxInlineBytes+100 {
			t.Errorf("push %d wrote %d rows, %d bytes", i, r.store.Puts-puts, r.store.PutBytes-written)
		}
	}
	gets := r.store.Gets
	r.load()
	if r.store.Gets != gets+1 || r.store.Scans != 0 {
		t.Errorf("a cold load took %d gets and %d scans", r.store.Gets-gets, r.store.Scans)
	}
	r.push("3")
	if r.store.Scans != 0 || r.store.Gets != gets+1 {
		t.Errorf("a duplicate in the head took %d gets, %d scans", r.store.Gets-gets-1, r.store.Scans)
	}
}

func TestSmallPartitionStaysSmall(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.push("b", "c")
	if size := int(unsafe.Sizeof(*r.machine)) + cap(r.machine.head.inline); size > 512 || r.machine.index != nil {
		t.Errorf("a machine with three messages takes %d bytes", size)
	}
	for i := range 5000 {
		r.push(fmt.Sprint(i))
		if size := int(unsafe.Sizeof(*r.machine)) + cap(r.machine.head.inline); size > 2<<10 {
			t.Fatalf("a machine with %d messages takes %d bytes beside its index", i, size)
		}
	}
}
