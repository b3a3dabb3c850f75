package kv

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"queen/raftlog/command"
	"queen/store/layout"
)

func TestSweepRemovesWhatHasExpiredFirst(t *testing.T) {
	r := newRig(t)
	for i, key := range []string{"c", "a", "b"} {
		r.one(lasting(put(key, "1"), uint64(i+1)))
	}
	r.one(put("d", "1"))
	if removed, more := r.sweep(10); removed != 0 || more {
		t.Errorf("nothing is due: %d, %v", removed, more)
	}
	r.now += 10 * second
	if removed, more := r.sweep(2); removed != 2 || !more {
		t.Errorf("a step of two: %d, %v", removed, more)
	}
	if r.store.Row(keyOf("b")) == nil || r.store.Row(keyOf("c")) != nil {
		t.Error("the wrong rows are gone")
	}
	if removed, more := r.sweep(2); removed != 1 || more {
		t.Errorf("the rest: %d, %v", removed, more)
	}
	if removed, more := r.sweep(2); removed != 0 || more {
		t.Errorf("once more: %d, %v", removed, more)
	}
	if got := r.one(get("d")); !got.Found {
		t.Error("a row that never expires is gone")
	}
}

// TestSweepsBeginWhereTheLastOneEnded: none walks over the keys that earlier ones have deleted (architecture 7).
func TestSweepsBeginWhereTheLastOneEnded(t *testing.T) {
	r := newRig(t)
	r.one(lasting(put("a", "1"), 1))
	r.one(lasting(put("b", "1"), 2))
	r.now += 5 * second
	r.sweep(1)
	r.sweep(1)
	swept := r.now
	r.now += second
	r.sweep(1)
	if !bytes.Equal(r.store.ScannedFrom, layout.KVExpiryFrom(swept+1)) {
		t.Errorf("the sweep begins at %x", r.store.ScannedFrom)
	}
	// A row that is written now expires later than that, whatever its TTL.
	r.one(lasting(put("c", "1"), 1))
	r.now += 5 * second
	if removed, _ := r.sweep(1); removed != 1 {
		t.Error("the row is not found")
	}
}

func TestSweepStopsWhereTheEntryIsFull(t *testing.T) {
	r := newRig(t)
	r.tenant = tenantB
	for i := range 3 {
		r.one(lasting(put(fmt.Sprint(i), "1"), 1))
	}
	r.now += 2 * second
	room := 2
	r.store.NextEntry()
	removed, more, err := Sweep(r.store, r.store, SweepInput{NowMicros: r.now, MaxRows: 10, Fits: func(int, int) bool { room--; return room >= 0 }})
	if err != nil || removed != 2 || !more {
		t.Errorf("removed %d, %v, %v", removed, more, err)
	}
	r.whole()
	room = 0
	r.store.NextEntry()
	removed, more, err = Sweep(r.store, r.store, SweepInput{NowMicros: r.now, MaxRows: 10, Fits: func(int, int) bool { return false }})
	if keys, _ := r.store.Writes(); err != nil || removed != 0 || !more || keys != 0 {
		t.Errorf("a full entry: removed %d, %v, %v, %d keys", removed, more, err, keys)
	}
}

func TestSweepStaysWithinItsStep(t *testing.T) {
	r := newRig(t)
	for i := range sweepRows/256 + 1 {
		ops := make([]command.KVOp, 256)
		for j := range ops {
			ops[j] = lasting(put(fmt.Sprintf("%d.%d", i, j), "1"), 1)
		}
		r.call(ops...)
	}
	r.now += 2 * second
	if removed, more := r.sweep(1 << 30); removed != sweepRows || !more {
		t.Errorf("removed %d, %v", removed, more)
	}
}

func TestDueTellsWhatASweepWouldDo(t *testing.T) {
	r := newRig(t)
	due := func() bool {
		t.Helper()
		due, err := Due(r.store, r.now)
		if err != nil {
			t.Fatal(err)
		}
		return due
	}
	if due() {
		t.Error("an empty store is due")
	}
	r.one(lasting(put("a", "1"), 1))
	if !due() { // its place was never set
		t.Error("a new store does not set where sweeps begin")
	}
	r.sweep(10)
	if due() {
		t.Error("nothing has expired")
	}
	r.now += second
	if !due() {
		t.Error("a row has expired")
	}
	r.sweep(10)
	if due() {
		t.Error("the row is swept")
	}
	r.now += sweptLagMicros + second
	if !due() {
		t.Error("the place where sweeps begin falls behind")
	}
	r.sweep(10)
	if due() {
		t.Error("it has caught up")
	}
}

// TestSweepChangesNothingThatIsSeen: every answer is the same with and without it, except for the rows of a namespace.
func TestSweepChangesNothingThatIsSeen(t *testing.T) {
	r := newRig(t)
	r.quota = Quota{Rows: 4, Bytes: NoLimit}
	for i, key := range []string{"a", "b", "c", "d"} {
		r.one(lasting(put(key, fmt.Sprint(i)), uint64(i)))
	}
	r.now += 2 * second // b and c are gone, d is not
	unswept := &rig{t: t, store: r.store.Copied(), now: r.now + 1, tenant: tenantA, limits: r.limits, quota: r.quota}
	if removed, _ := r.sweep(10); removed != 2 {
		t.Fatalf("removed %d", removed)
	}
	for _, ops := range [][]command.KVOp{
		{get("a"), get("b"), many("a", "b", "c", "d"), prefix("", "", 1), prefix("", "a", 1), check("b", 2), remove("c")},
		{put("e", "1"), put("f", "1"), incr("b", "1")}, // one too many
		{put("e", "1"), incr("b", "1")},
		{putIfAbsent("c", "1")}, // one too many
		{get("b"), get("e"), prefix("", "", 0)},
	} {
		got, want := fmt.Sprintf("%+v", plainResult(r.execute(ops...))), fmt.Sprintf("%+v", plainResult(unswept.execute(ops...)))
		if got != want {
			t.Errorf("swept: %s\nunswept: %s", got, want)
		}
	}
}

// plainResult is a result without pointers, to be compared as text.
func plainResult(result command.Result) any {
	switch result := result.(type) {
	case *command.Refusal:
		return *result
	case *command.KVResult:
		if result.Lost != nil {
			return *result.Lost
		}
		return result.Ops
	}
	return result
}

func TestExpiryMovesWithItsRow(t *testing.T) {
	r := newRig(t)
	instants := func() (instants []uint64) {
		for key := range r.store.All() {
			if key[0] == layout.FamilyKVExpiry {
				instant, _, _ := layout.KVIndexed([]byte(key))
				instants = append(instants, instant-r.now)
			}
		}
		slices.Sort(instants)
		return instants
	}
	for _, step := range []struct {
		op   command.KVOp
		want []uint64
	}{
		{lasting(put("k", "1"), 1), []uint64{second}},
		{lasting(put("k", "1"), 9), []uint64{9 * second}},
		{lasting(incr("k", "99"), 5), []uint64{9*second - 1}},
		{put("k", "1"), nil},
		{lasting(put("k", "1"), 2), []uint64{2 * second}},
		{remove("k"), nil},
	} {
		r.one(step.op)
		if got := instants(); !slices.Equal(got, step.want) {
			t.Errorf("after %+v: %v, want %v", step.op, got, step.want)
		}
	}
}
