package kv

import (
	"strings"
	"testing"
	"time"

	"queen/raftlog/command"
)

// TestCountersHaveNoSaturation: a counter with max 3 answers 1, 2, 3 and then limit with value 3 (state 2.3).
func TestCountersHaveNoSaturation(t *testing.T) {
	r := newRig(t)
	var got []string
	for range 5 {
		got = append(got, shown(r.one(within(incr("k", "1"), "", "3"))))
	}
	if text := strings.Join(got, ", "); text != "applied 1 1, applied 2 2, applied 3 3, limit 3 3, limit 3 3" {
		t.Error(text)
	}
	got = nil
	for range 3 {
		got = append(got, shown(r.one(within(incr("k", "-2"), "0", ""))))
	}
	if text := strings.Join(got, ", "); text != "applied 1 4, limit 1 4, limit 1 4" {
		t.Error(text)
	}
}

func TestOnlyTheNextNumberIsHeldAgainstTheBounds(t *testing.T) {
	r := newRig(t)
	if got := shown(r.one(within(incr("k", "10"), "", "5"))); got != "limit 0 0" || r.one(get("k")).Found {
		t.Errorf("the first call on an absent key: %s", got)
	}
	lost := r.execute(required(within(incr("k", "10"), "", "5"))).(*command.KVResult).Lost
	if lost == nil || lost.Reason != command.KVReasonLimit || lost.Version != 0 || string(lost.Value) != "0" {
		t.Errorf("with required: %+v", lost)
	}
	r.one(put("k", "100"))
	if got := shown(r.one(within(incr("k", "-98"), "1", "5"))); got != "applied 2 2" {
		t.Errorf("a delta beyond the bounds: %s", got)
	}
	if got := shown(r.one(within(incr("k", "3"), "1", "5"))); got != "applied 5 3" {
		t.Errorf("the bound itself: %s", got)
	}
}

func TestIncrCountsInNumbersOnly(t *testing.T) {
	r := newRig(t)
	for _, value := range []string{`"5"`, "null", "true", `{"n":5}`, "[5]"} {
		r.one(put("k", value))
		if got := r.one(incr("k", "1")); applied(got) != "type" || string(got.Value) != value {
			t.Errorf("%s: %+v", value, got)
		}
	}
	for value, want := range map[string]string{"5": "6", "-1": "0", "1e3": "1001", "0.5": "1.5", "9007199254740993": "9007199254740994"} {
		r.one(put("k", value))
		if got := r.one(incr("k", "1")); string(got.Value) != want {
			t.Errorf("%s: %+v", value, got)
		}
	}
}

func TestIncrKeepsTheWindowOfALiveCounter(t *testing.T) {
	r := newRig(t)
	r.one(lasting(incr("k", "1"), 10))
	ends := r.one(get("k")).ExpiresMicros
	for _, op := range []command.KVOp{incr("k", "1"), lasting(incr("k", "1"), 100)} {
		r.now += second
		r.one(op)
		if got := r.one(get("k")); got.ExpiresMicros != ends || got.UpdatedMicros != r.now-1 {
			t.Errorf("after %+v: %+v, ends at %d", op, got, ends)
		}
	}
	r.now = ends
	if got := r.one(incr("k", "1")); string(got.Value) != "1" || r.one(get("k")).ExpiresMicros != 0 {
		t.Errorf("a new window: %+v", got)
	}
	r.one(remove("k"))
	if got := r.one(incr("k", "1")); string(got.Value) != "1" {
		t.Errorf("a deleted counter goes on with %s", got.Value)
	}
	// An expired row counts as 0, whatever it held.
	r.one(lasting(put("k", `{"a":1}`), 1))
	r.now += second
	if got := r.one(lasting(incr("k", "1"), 5)); string(got.Value) != "1" || r.one(get("k")).ExpiresMicros != r.now-1+5*second {
		t.Errorf("over an expired object: %+v", got)
	}
}

// TestHostileIncrsAreCheap: a number whose plain form is longer than a value is never written out (state 2.3).
func TestHostileIncrsAreCheap(t *testing.T) {
	begin := time.Now()
	r := newRig(t)
	for _, delta := range []string{"1e999999999", "-1e999999999", "1e-999999999", "1e65536", "1e-65535", "1e99999999999999999999999999"} {
		if got := shown(r.one(incr("k", delta))); got != "limit 0 0" {
			t.Errorf("incr by %s: %s", delta, got)
		}
	}
	for _, stored := range []string{"1e999999999", "1e-999999999", "-1e65536"} {
		r.one(put("k", stored))
		if got := r.one(incr("k", "1")); applied(got) != "type" || string(got.Value) != stored {
			t.Errorf("incr of %s: %+v", stored, got)
		}
	}
	r.one(put("k", "5"))
	if got := shown(r.one(within(incr("k", "1"), "-1e999999999", "1e999999999"))); !strings.HasPrefix(got, "applied 6") {
		t.Errorf("far bounds: %s", got)
	}
	if got := shown(r.one(within(incr("k", "1"), "1e999999999", ""))); !strings.HasPrefix(got, "limit 6") {
		t.Errorf("a bound out of reach: %s", got)
	}
	r.one(put("k", "0e999999999"))
	if got := shown(r.one(incr("k", "1e65535"))); len(got) < 65_536 {
		t.Errorf("the longest number: %.40s", got)
	}
	if got := r.one(incr("k", "9e65535")); applied(got) != "limit" {
		t.Errorf("beyond the longest number: %s", applied(got))
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it takes %v", took)
	}
}
