package kv

import (
	"fmt"
	"strings"
	"testing"

	"queen/raftlog/command"
)

// refused tells whether a call is refused for the quota; then it must not have changed anything.
func (r *rig) refused(ops ...command.KVOp) bool {
	r.t.Helper()
	before := r.store.Copied()
	refusal, ok := r.execute(ops...).(*command.Refusal)
	if ok && (refusal.Code != CodeQuota || !r.store.Equal(before)) {
		r.t.Fatalf("refused with %+v", refusal)
	}
	return ok
}

func TestQuotaRefusesGrowthOnly(t *testing.T) {
	r := newRig(t)
	r.quota = Quota{Rows: 2, Bytes: NoLimit}
	r.call(put("a", "1"), put("b", "1"))
	if !r.refused(put("c", "1")) || !r.refused(putIfAbsent("c", "1")) || !r.refused(incr("c", "1")) || !r.refused(put("a", "2"), put("c", "1")) {
		t.Error("a third row is written")
	}
	if r.refused(putIfAbsent("a", "9")) || r.refused(expecting(put("c", "1"), 7)) || r.refused(put("a", "2")) || r.refused(get("a"), check("c", 0)) {
		t.Error("what does not grow is refused")
	}
	if r.refused(remove("a"), put("c", "1")) {
		t.Error("a row in place of another one is refused")
	}
	r.quota.Rows = 1
	if r.refused(put("c", "2")) || r.refused(remove("c")) {
		t.Error("below a quota that was lowered nothing works any more")
	}
	// Another tenant has a quota of its own.
	r.tenant = tenantB
	if r.refused(put("c", "1")) {
		t.Error("the rows of another tenant count")
	}
}

func TestQuotaCountsBytesOfNamesAndValues(t *testing.T) {
	r := newRig(t)
	r.quota = Quota{Rows: NoLimit, Bytes: 10}
	if r.refused(put("k", "12345678")) { // n, k and eight bytes
		t.Fatal("ten bytes are refused")
	}
	if !r.refused(put("k", "123456789")) || !r.refused(put("l", "1")) || !r.refused(incr("k", "99999999")) {
		t.Error("the eleventh byte is written")
	}
	if r.refused(put("k", "12")) || r.refused(put("l", "1234")) || !r.refused(put("m", "1")) {
		t.Error("what became free cannot be used")
	}
	usage, err := UsageOf(r.store, tenantA)
	total, errTotal := Total(r.store)
	if err != nil || errTotal != nil || usage != (Usage{Rows: 2, Bytes: 10}) || total != usage {
		t.Errorf("usage is %+v, %v, in all %+v, %v", usage, err, total, errTotal)
	}
	large := `"` + strings.Repeat("x", inlineBytes) + `"`
	r.quota.Bytes = NoLimit
	r.one(put("m", large))
	if usage, err = UsageOf(r.store, tenantA); err != nil || usage.Bytes != 10+2+uint64(len(large)) {
		t.Errorf("with a value in a chunk: %+v, %v", usage, err)
	}
}

// TestExpiredRowsTakeNoQuota: they count as none, swept or not (state 2.7).
func TestExpiredRowsTakeNoQuota(t *testing.T) {
	r := newRig(t)
	r.quota = Quota{Rows: 3, Bytes: 9}
	r.tenant = tenantB
	r.call(lasting(put("x", "1"), 1), lasting(put("y", "1"), 1))
	r.tenant = tenantA
	r.call(lasting(put("a", "1"), 1), lasting(put("b", "1"), 1), lasting(put("c", "1"), 1))
	if !r.refused(put("d", "1")) {
		t.Error("a row beyond the quota")
	}
	r.now += 2 * second
	if r.refused(put("a", "1"), put("d", "1"), put("e", "1")) {
		t.Error("rows that have expired take the quota")
	}
	if !r.refused(put("b", "1")) {
		t.Error("a row in place of one that has expired is no growth")
	}
	r.sweep(100)
	if !r.refused(put("b", "1")) || r.refused(remove("a"), put("b", "1")) {
		t.Error("a sweep has changed something")
	}
}

// TestAQuotaIsJudgedInBoundedTime: expired rows are looked for as far as they are about to be swept.
func TestAQuotaIsJudgedInBoundedTime(t *testing.T) {
	r := newRig(t)
	r.tenant = tenantB
	for i := range 2 * spentScan / 100 {
		ops := make([]command.KVOp, 100)
		for j := range ops {
			ops[j] = lasting(put(fmt.Sprintf("k%d.%d", i, j), "1"), 1)
		}
		c := &command.KV{Tenant: tenantB, Limits: r.limits, Ops: ops}
		if _, err := Execute(r.store, r.store, c, Moment{NowMicros: r.now, Quota: unlimited}); err != nil {
			t.Fatal(err)
		}
	}
	r.now += 2 * second
	r.tenant = tenantA
	r.quota = Quota{Rows: 0, Bytes: NoLimit}
	if !r.refused(put("k", "1")) || r.store.Scanned > spentScan {
		t.Errorf("%d rows are visited", r.store.Scanned)
	}
}
