package timer

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store/layout"
)

// large is a schedule whose payload is a chunk.
func (r *rig) large(key string) command.TimerOp {
	op := r.schedule(key, second)
	op.Payload = bytes.Repeat([]byte(key[:1]), 2*inlineBytes)
	return op
}

func (r *rig) move(in MoveInput) (bytes uint64, more bool) {
	r.t.Helper()
	if in.Fits == nil {
		in.Fits = always
	}
	r.space.NextEntry()
	bytes, more, err := MoveChunks(r.space, r.space, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return bytes, more
}

func (r *rig) holds(bucket uint32) bool {
	r.t.Helper()
	holds, err := HoldsChunksIn(r.space, bucket)
	if err != nil {
		r.t.Fatal(err)
	}
	return holds
}

// TestMovingEmptiesABucket: a timer may wait for years, and must not keep its bucket alive that long.
func TestMovingEmptiesABucket(t *testing.T) {
	const size = 2 * inlineBytes
	m := rowtest.NewMemory()
	r := newRig(t, m)
	for i := range 5 {
		r.call(r.large(fmt.Sprint(i)))
	}
	r.call(r.schedule("small", second))
	m.OpenBucket = 2
	r.call(r.large("5"))
	planned := r.planAt(r.now + 2*second)
	if bytes, more := r.move(MoveInput{Bucket: 2, MaxBytes: 1 << 20}); bytes != 0 || more {
		t.Errorf("the open bucket: moved %d, %v", bytes, more)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 2*size + 1}); bytes != 2*size || !more {
		t.Errorf("a step of two: moved %d, %v", bytes, more)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1}); bytes != size || !more {
		t.Errorf("one always goes: moved %d, %v", bytes, more)
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1 << 20, Fits: func(int, int, int) bool { return false }}); bytes != 0 || !more {
		t.Errorf("a full entry: moved %d, %v", bytes, more)
	}
	if !r.holds(1) {
		t.Error("the bucket is said to hold nothing")
	}
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1 << 20}); bytes != 2*size || more || r.holds(1) {
		t.Errorf("the rest: moved %d, %v, holds more %v", bytes, more, r.holds(1))
	}
	for ref := range m.Chunks {
		if ref.Bucket != 2 {
			t.Errorf("%s is left", ref)
		}
	}
	// What was planned before holds, and what was moved is found.
	r.now += 2 * second
	for i, fate := range fates(r.fire(planned)) {
		if fate != command.TimerFired {
			t.Errorf("timer %d: %d", i, fate)
		}
	}
	if m.Len() > 1 || len(m.Chunks) > 0 {
		t.Errorf("%d rows and %d chunks are left", m.Len(), len(m.Chunks))
	}
}

// planAt plans what is due at an instant.
func (r *rig) planAt(at uint64) []command.PlannedTimer {
	now := r.now
	r.now = at
	defer func() { r.now = now }()
	return r.plan()
}

func TestEndedTimersLeaveTheirBucket(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"cancelled":   func(r *rig) { r.call(cancel("a")) },
		"rescheduled": func(r *rig) { r.call(r.schedule("a", second)) },
		"fired": func(r *rig) {
			r.now += 2 * second
			r.fire(r.plan())
		},
		"given up": func(r *rig) {
			for range testBackoff.MaxAttempts {
				r.now += 100 * second
				r.fire(failing(r.plan(), command.TimerPermanent, "no"))
			}
		},
	} {
		m := rowtest.NewMemory()
		r := newRig(t, m)
		r.call(r.large("a"))
		if !r.holds(1) {
			t.Fatalf("%s: the bucket holds nothing", name)
		}
		m.OpenBucket = 2
		end(r)
		if r.holds(1) || r.holds(2) || len(m.Chunks) > 0 {
			t.Errorf("%s: the buckets hold %v %v, %d chunks", name, r.holds(1), r.holds(2), len(m.Chunks))
		}
	}
}

// A timer that is put off stays where it is, and can be moved.
func TestPutOffTimerIsMoved(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	r.call(r.large("a"))
	r.now += 2 * second
	r.fire(failing(r.plan(), command.TimerTransient, "no key"))
	m.OpenBucket = 2
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1}); bytes != 2*inlineBytes || more || r.holds(1) || !r.holds(2) {
		t.Errorf("moved %d, %v", bytes, more)
	}
	if row, payload := r.peek(tenantA, "q", "a"); row.LastError != "no key" || len(payload) != 2*inlineBytes {
		t.Errorf("the timer is %+v", row)
	}
}

// moveTimers is how many timers a step moves.
const moveTimers = 256

func TestAStepOfMovingIsBounded(t *testing.T) {
	m := rowtest.NewMemory()
	r := newRig(t, m)
	for i := range moveTimers + 1 {
		r.call(r.large(fmt.Sprint(i)))
	}
	m.OpenBucket = 2
	if bytes, more := r.move(MoveInput{Bucket: 1, MaxBytes: 1 << 30}); bytes != moveTimers*2*inlineBytes || !more {
		t.Errorf("moved %d, %v", bytes, more)
	}
	m.Set(layout.TimerChunk(1, layout.Timer(tenantA, "q", "missing")), []byte{})
	if _, _, err := MoveChunks(m, m, MoveInput{Bucket: 1, MaxBytes: 1 << 30, Fits: always}); !errors.Is(err, ErrBadRow) {
		t.Errorf("a chunk of no timer: %v", err)
	}
}
