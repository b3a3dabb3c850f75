package partition

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"queen/store/layout"
)

// TestHugeAppendLeavesInBoundedSteps: the hashes of an append that is larger than a step are moved piece by piece.
func TestHugeAppendLeavesInBoundedSteps(t *testing.T) {
	const messages = 2*retainHashMessages + 1000
	r := newRig(t)
	inputs := make([]input, messages)
	for i := range inputs {
		inputs[i] = input{id: uuid.UUID{1, byte(i >> 16), byte(i >> 8), byte(i)}, txid: fmt.Sprint("t", i)}
	}
	r.pushInputs(inputs)
	r.push("after")
	r.now += minute
	steps := 0
	for {
		written := r.store.PutBytes
		out := r.retain(Retention{EvictMicros: second})
		steps++
		if r.store.PutBytes-written > 600<<10 {
			t.Fatalf("a step wrote %d bytes", r.store.PutBytes-written)
		}
		r.load()
		r.wantDuplicate(r.push("t20000"), inputs[20000].id, 20000)
		if !out.More {
			break
		}
		if r.machine.LogStart() != 0 {
			t.Fatalf("the append went before its hashes were safe")
		}
	}
	if steps != 3 || r.machine.LogStart() != r.machine.Tail() || r.machine.head.Segments != 0 {
		t.Errorf("after %d steps: %+v", steps, r.machine.head)
	}
	for _, key := range r.store.Keys(layout.HashesOf(testPartition)) {
		if len(r.store.Row([]byte(key))) > 64<<10 {
			t.Errorf("a hash row has %d bytes", len(r.store.Row([]byte(key))))
		}
	}
	for _, i := range []int{0, 1023, 1024, retainHashMessages, messages - 1} {
		r.wantDuplicate(r.push(inputs[i].txid), inputs[i].id, uint64(i))
	}
	r.now += 2 * hour
	for r.retain(Retention{}).More {
	}
	if left := r.store.Keys(layout.HashesOf(testPartition)); len(left) != 0 || r.machine.head.hashes != (hashState{}) {
		t.Errorf("%d hash rows are left, %+v", len(left), r.machine.head.hashes)
	}
}

func TestRetentionOfNothingWritesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a")
	puts := r.store.Puts
	out := r.retain(Retention{AgeMicros: hour, CompletedMicros: second, Held: true})
	if r.store.Puts != puts || out.Appends != 0 || out.More || out.NextDueMicros != 0 {
		t.Errorf("%+v", out)
	}
	out = r.retain(Retention{AgeMicros: hour})
	if want := uint64(testStart + hour + 1); out.NextDueMicros != want {
		t.Errorf("next due %d in place of %d", out.NextDueMicros, want)
	}
}

func TestSweepLeavesNothing(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		r.push(fmt.Sprint("t", i))
		if i == 100 {
			r.now += minute
			r.retain(Retention{EvictMicros: second})
		}
	}
	steps := 0
	for done := false; !done; steps++ {
		r.store.NextEntry()
		var err error
		done, err = Sweep(r.store, r.store, SweepInput{Queue: testQueue, Partition: testPartition, MaxAppends: 50})
		if err != nil {
			t.Fatal(err)
		}
	}
	if r.store.Len() != 0 || len(r.store.Chunks) != 0 || steps < 4 {
		t.Errorf("%d rows and %d chunks are left after %d steps", r.store.Len(), len(r.store.Chunks), steps)
	}
	done, err := Sweep(r.store, r.store, SweepInput{Queue: testQueue, Partition: testPartition, MaxAppends: 50})
	if !done || err != nil {
		t.Errorf("once more: %v %v", done, err)
	}
}

// TestHashesOutliveTheirMessages: a partition may be cleaned up only when no txid is remembered any more.
func TestHashesOutliveTheirMessages(t *testing.T) {
	r := newRig(t)
	if r.machine.HoldsHashes(r.now, r.hashes) {
		t.Error("a partition that never held anything remembers something")
	}
	r.push("a")
	r.now += minute
	r.retain(Retention{EvictMicros: second})
	if head := r.machine.head; head.Messages() != 0 || !r.machine.HoldsHashes(r.now, r.hashes) {
		t.Errorf("the hash went with its message: %+v", head)
	}
	if r.machine.HoldsHashes(r.now+hour, r.hashes) {
		t.Error("the hash outlives its window")
	}
}
