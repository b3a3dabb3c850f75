package kv

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"queen/raftlog/command"
	"queen/store/layout"
)

func fitsAll(int, int, int) bool { return true }

func (r *rig) move(in MoveInput) (bytes uint64, more bool) {
	r.t.Helper()
	if in.Fits == nil {
		in.Fits = fitsAll
	}
	r.store.NextEntry()
	bytes, more, err := MoveChunks(r.store, r.store, in)
	if err != nil {
		r.t.Fatalf("move: %v", err)
	}
	r.whole()
	return bytes, more
}

// TestMovingEmptiesABucket: a bucket is kept by the values in it, which may be there for ever.
func TestMovingEmptiesABucket(t *testing.T) {
	r := newRig(t)
	size := 2 * inlineBytes
	large := func(i int) string { return fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", size-3)) }
	for i := range 5 {
		r.one(lasting(put(fmt.Sprint(i), large(i)), uint64(i)))
	}
	r.store.OpenBucket = 2
	r.one(put("5", large(5)))
	before := r.one(prefix("", "", 0))
	if bytes, more := r.move(MoveInput{Bucket: 2, MaxBytes: 1 << 20}); bytes != 0 || more {
		t.Errorf("the open bucket: moved %d, %v", bytes, more)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: uint64(2*size + 1)}); bytes != uint64(2*size) || !more {
		t.Errorf("a step of two: moved %d, %v", bytes, more)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1}); bytes != uint64(size) || !more {
		t.Errorf("one always goes: moved %d, %v", bytes, more)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1 << 20, Fits: func(int, int, int) bool { return false }}); bytes != 0 || !more {
		t.Errorf("a full entry: moved %d, %v", bytes, more)
	}
	if holds, err := HoldsChunksIn(r.store, 1); err != nil || !holds {
		t.Errorf("the bucket holds %v, %v", holds, err)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1 << 20}); bytes != uint64(2*size) || more {
		t.Errorf("the rest: moved %d, %v", bytes, more)
	}
	if holds, err := HoldsChunksIn(r.store, 1); err != nil || holds {
		t.Errorf("the bucket holds %v, %v", holds, err)
	}
	for ref := range r.store.Chunks {
		if ref.Bucket != 2 {
			t.Errorf("%s is left", ref)
		}
	}
	if after := r.one(prefix("", "", 0)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("what is read has changed")
	}
}

// moveRows is how many rows a step moves.
const moveRows = 256

func TestAStepOfMovingIsBounded(t *testing.T) {
	r := newRig(t)
	value := strings.Repeat("1", inlineBytes+1)
	for i := range 2 {
		ops := make([]command.KVOp, moveRows*3/4)
		for j := range ops {
			ops[j] = put(fmt.Sprintf("%d.%d", i, j), value)
		}
		r.call(ops...)
	}
	r.store.OpenBucket = 2
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1 << 30}); bytes != moveRows*(inlineBytes+1) || !more {
		t.Errorf("moved %d, %v", bytes, more)
	}
	r.store.Set(layout.KVChunk(1, keyOf("missing")), []byte{})
	if _, _, err := MoveChunks(r.store, r.store, MoveInput{Bucket: 1, MaxBytes: 1 << 30, Fits: fitsAll}); !errors.Is(err, ErrBadRow) {
		t.Errorf("a chunk of no row: %v", err)
	}
}

// TestWritesStayWithinTheirEstimates: a batch that is too large ends the node, so estimates are from above.
func TestWritesStayWithinTheirEstimates(t *testing.T) {
	r := newRig(t)
	r.limits.ValueBytes = 1 << 20
	space := strings.Repeat("s", maxNamespaceBytes)
	long := func(i int) string {
		return fmt.Sprintf("%03d%s", i, strings.Repeat("k", MaxPlaceBytes-maxNamespaceBytes-3))
	}
	within := func(what string, keys, bytes int) {
		t.Helper()
		if k, b := r.store.Writes(); k > keys || b > bytes {
			t.Errorf("%s: wrote %d keys of %d, %d bytes of %d", what, k, keys, b, bytes)
		}
	}
	for _, size := range []int{1, inlineNumberBytes, inlineNumberBytes + 1, inlineBytes, inlineBytes + 1, inlineBytes, 20 * inlineBytes} {
		for _, count := range []int{1, 3, 100} {
			ops := make([]command.KVOp, count)
			for i := range ops {
				ops[i] = in(space, lasting(put(long(i), strings.Repeat("1", size)), 1))
				if i%3 == 1 {
					ops[i] = in(fmt.Sprintf("%03d%s", i, space[3:]), lasting(put(long(i), strings.Repeat("1", size)), 1))
				}
			}
			keys, bytes := Weigh(ops)
			r.store.OpenBucket++
			r.call(ops...)
			within(fmt.Sprintf("%d puts of %d bytes", count, size), keys, bytes)
			for i := range ops {
				ops[i].Kind, ops[i].Value, ops[i].Delta = command.KVIncr, nil, "1"
			}
			keys, bytes = Weigh(ops)
			r.store.OpenBucket++
			r.call(ops...)
			within(fmt.Sprintf("%d incrs of %d bytes", count, size), keys, bytes)
			r.now += 2 * second
			if count < 100 {
				continue
			}
			keys, bytes = WeighSweep(100)
			r.sweep(100)
			within("a sweep of 100", keys, bytes)
		}
	}
	locks := make([]command.LockOp, 64)
	for i := range locks {
		locks[i] = acquire(strings.Repeat("o", 256), 1)
		locks[i].Name = fmt.Sprintf("%03d%s", i, strings.Repeat("l", 253))
	}
	keys, bytes := WeighLock(locks)
	r.locks(locks...)
	within("64 locks", keys, bytes)
	if keys, bytes := Weigh([]command.KVOp{get("k"), check("k", 1)}); keys != 0 || bytes != 0 {
		t.Errorf("reads weigh %d, %d", keys, bytes)
	}
	if keys, bytes := WeighLock([]command.LockOp{getLock()}); keys != 0 || bytes != 0 {
		t.Errorf("a get of a lock weighs %d, %d", keys, bytes)
	}
}
