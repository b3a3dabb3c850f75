package kv

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"queen/raftlog/command"
)

// TestOperationsFollowTheTable is the table of state 2.3, row by row, against no row, a row that has expired and a live one.
// Whatever is not applied changes nothing.
func TestOperationsFollowTheTable(t *testing.T) {
	const version = 2 // of the row in front, where there is one
	for _, c := range []struct {
		name         string
		op           command.KVOp
		none, live   string
		noneV, liveV uint64 // the version that the answer has
	}{
		{"put", put("k", `"new"`), "applied", "applied", 3, 3},
		{"put expect 0", expecting(put("k", `"new"`), 0), "applied", "exists", 3, version},
		{"putIfAbsent", putIfAbsent("k", `"new"`), "applied", "exists", 3, version},
		{"putIfAbsent expect 0", expecting(putIfAbsent("k", `"new"`), 0), "applied", "exists", 3, version},
		{"put expect its version", expecting(put("k", `"new"`), version), "absent", "applied", 0, 3},
		{"put expect another", expecting(put("k", `"new"`), 1), "absent", "version", 0, version},
		{"delete", remove("k"), "absent", "applied", 0, version},
		{"delete expect its version", expecting(remove("k"), version), "absent", "applied", 0, version},
		{"delete expect another", expecting(remove("k"), 3), "absent", "version", 0, version},
		{"delete expect 0", expecting(remove("k"), 0), "absent", "exists", 0, version},
		{"check expect 0", check("k", 0), "applied", "exists", 0, version},
		{"check expect its version", check("k", version), "absent", "applied", 0, version},
		{"check expect another", check("k", 1), "absent", "version", 0, version},
		{"incr", incr("k", "2"), "applied", "type", 3, version},
	} {
		for _, before := range []string{"none", "expired", "live"} {
			for _, must := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s on %s required %v", c.name, before, must), func(t *testing.T) {
					r := newRig(t)
					r.one(put("other", "1"))
					switch before {
					case "none":
						r.one(put("another", "1"))
					case "expired":
						r.one(lasting(put("k", `{"old":1}`), 1))
						r.now += second
					case "live":
						r.one(lasting(put("k", `{"old":1}`), 10))
					}
					want, wantVersion, value := c.none, c.noneV, ""
					if before == "live" {
						want, wantVersion, value = c.live, c.liveV, `{"old":1}`
					}
					op := c.op
					op.Required = must
					unchanged := r.store.Copied()
					result := r.execute(op).(*command.KVResult)
					if want != "applied" && !r.store.Equal(unchanged) {
						t.Fatal("an operation that is not applied changes something")
					}
					if want != "applied" && must {
						if lost := result.Lost; lost == nil || lost.Reason.String() != want || lost.Version != wantVersion || string(lost.Value) != value || lost.Op != 0 {
							t.Fatalf("lost %+v, want %s, %d", lost, want, wantVersion)
						}
						return
					}
					got := result.Ops[0]
					if applied(got) != want || got.Version != wantVersion {
						t.Fatalf("answer %+v, want %s with version %d", got, want, wantVersion)
					}
					if want != "applied" {
						if string(got.Value) != value {
							t.Errorf("shows %s, want %s", got.Value, value)
						}
						return
					}
					after := r.one(get("k"))
					switch c.op.Kind {
					case command.KVDelete:
						if after.Found {
							t.Error("the row is still there")
						}
					case command.KVIncr:
						if string(got.Value) != "2" || string(after.Value) != "2" || after.Version != 3 {
							t.Errorf("counts to %s, then %s of version %d", got.Value, after.Value, after.Version)
						}
					case command.KVCheck:
						if after.Found != (before == "live") || after.Version != wantVersion || got.Value != nil {
							t.Errorf("a check has changed the row, or answers %s", got.Value)
						}
					default:
						if string(after.Value) != `"new"` || after.Version != 3 || after.ExpiresMicros != 0 {
							t.Errorf("reads %+v", after)
						}
					}
				})
			}
		}
	}
}

func TestNullIsAValue(t *testing.T) {
	r := newRig(t)
	r.one(put("k", "null"))
	if got := r.one(get("k")); !got.Found || string(got.Value) != "null" {
		t.Errorf("read %+v", got)
	}
	if got := shown(r.one(putIfAbsent("k", "1"))); got != "exists null 1" {
		t.Error(got)
	}
}

// TestVersionsOfAKeyRise across delete, expiry and sweep (state 2.1).
func TestVersionsOfAKeyRise(t *testing.T) {
	r := newRig(t)
	last := uint64(0)
	for range 3 {
		for _, op := range []command.KVOp{put("k", "1"), incr("k", "1"), putIfAbsent("l", "1"), lasting(put("k", "1"), 1)} {
			if got := r.one(op); applied(got) == "applied" {
				if got.Version <= last {
					t.Fatalf("version %d after %d", got.Version, last)
				}
				last = got.Version
				if read := r.one(get(op.Key)); read.Version != last {
					t.Fatalf("get reports %d, the write %d", read.Version, last)
				}
			}
		}
		r.now += 2 * second
		r.sweep(10)
		r.one(put("k", "1"))
		r.one(remove("k"))
		last++
	}
}

func TestVersionsEndWhereJSONNumbersEnd(t *testing.T) {
	r := newRig(t)
	r.one(put("k", "1"))
	c, err := readCounters(r.store)
	if err != nil {
		t.Fatal(err)
	}
	c.lastVersion = MaxVersion - 1
	c.put(r.store)
	if got := r.one(put("k", "2")); got.Version != MaxVersion {
		t.Errorf("version %d", got.Version)
	}
	if refusal, ok := r.execute(put("k", "3")).(*command.Refusal); !ok || refusal.Code != codeError {
		t.Errorf("beyond the last version: %+v", refusal)
	}
	if got := r.one(remove("missing")); applied(got) != "absent" {
		t.Errorf("what changes nothing needs no version: %+v", got)
	}
}

func TestALostOperationLetsTheOthersApply(t *testing.T) {
	r := newRig(t)
	r.one(put("a", "1"))
	got := r.call(putIfAbsent("a", "2"), put("b", "3"), remove("c"), check("a", 9))
	if applied(got[0]) != "exists" || applied(got[1]) != "applied" || applied(got[2]) != "absent" || applied(got[3]) != "version" {
		t.Errorf("got %+v", got)
	}
	if b := r.one(get("b")); string(b.Value) != "3" {
		t.Errorf("b is %+v", b)
	}
}

func TestTheFirstRequiredLoserIsReportedAndNothingApplies(t *testing.T) {
	r := newRig(t)
	r.one(put("a", `{"owner":"me"}`))
	before := r.store.Copied()
	result := r.execute(put("b", "1"), putIfAbsent("a", "2"), get("a"), required(check("a", 7)), required(remove("c"))).(*command.KVResult)
	if !r.store.Equal(before) {
		t.Error("something has changed")
	}
	if result.Lost == nil || result.Ops != nil || result.Lost.Op != 3 || result.Lost.Reason != command.KVReasonVersion || result.Lost.Version != 1 ||
		string(result.Lost.Value) != `{"owner":"me"}` {
		t.Errorf("lost is %+v", result.Lost)
	}
	got := r.call(required(check("a", 1)), required(check("c", 0)), required(put("b", "1")))
	if applied(got[0]) != "applied" || got[0].Version != 1 || got[1].Version != 0 || got[2].Version != 2 {
		t.Errorf("held guards give %+v", got)
	}
}

// TestConditionsAreJudgedBeforeTheCall: an operation meets the row as it was, whatever else the call writes.
func TestConditionsAreJudgedBeforeTheCall(t *testing.T) {
	r := newRig(t)
	got := r.call(put("a", "1"), required(check("a", 0)))
	if applied(got[0]) != "applied" || applied(got[1]) != "applied" {
		t.Errorf("got %+v", got)
	}
}

func TestReadsSeeAllWritesOfTheirCall(t *testing.T) {
	r := newRig(t)
	r.one(put("c", "1"))
	got := r.call(get("a"), get("c"), put("a", "1"), many("a", "b", "c"), put("b", "2"), remove("c"), prefix("a", "", 0))
	if !got[0].Found || string(got[0].Value) != "1" || got[0].Version != got[2].Version || got[1].Found {
		t.Errorf("get gives %+v, %+v", got[0], got[1])
	}
	if len(got[3].Rows) != 2 || len(got[3].Missing) != 1 || got[3].Missing[0] != 2 || len(got[6].Rows) != 1 {
		t.Errorf("getMany gives %+v, getPrefix %+v", got[3], got[6])
	}
}

func TestExpiryIsExact(t *testing.T) {
	r := newRig(t)
	r.one(lasting(put("k", "1"), 1))
	written := r.now
	if got := r.one(get("k")); got.ExpiresMicros != written+second || got.UpdatedMicros != written {
		t.Errorf("read %+v, written at %d", got, written)
	}
	r.now = written + second - 2
	if !r.one(get("k")).Found {
		t.Error("gone a microsecond too early")
	}
	if r.one(get("k")).Found {
		t.Error("there at the instant of its expiry")
	}
	if got := r.one(putIfAbsent("k", "2")); applied(got) != "applied" {
		t.Errorf("putIfAbsent over an expired row: %+v", got)
	}
	if got := r.one(get("k")); got.ExpiresMicros != 0 {
		t.Errorf("the earlier expiry is inherited: %+v", got)
	}
	r.one(lasting(put("k", "1"), endless))
	if got := r.one(get("k")); got.ExpiresMicros != r.now-1+MaxTTLSeconds*second {
		t.Errorf("an endless TTL ends at %d", got.ExpiresMicros)
	}
}

func TestValuesOfAnySizeAreKept(t *testing.T) {
	r := newRig(t)
	for _, size := range []int{2, inlineBytes, inlineBytes + 1, 1 << 20} {
		value := `"` + strings.Repeat("x", size-2) + `"`
		r.one(put("k", value))
		if got := r.one(get("k")); string(got.Value) != value {
			t.Errorf("%d bytes come back as %d", size, len(got.Value))
		}
		if chunks := len(r.store.Chunks); (size > inlineBytes) != (chunks == 1) {
			t.Errorf("%d bytes: %d chunks", size, chunks)
		}
		if got := r.one(putIfAbsent("k", "1")); string(got.Value) != value {
			t.Errorf("a loser of %d bytes shows %d", size, len(got.Value))
		}
	}
	r.one(remove("k"))
	if len(r.store.Chunks) != 0 {
		t.Error("a chunk is left")
	}
}

func TestTenantsAndNamespacesAreApart(t *testing.T) {
	r := newRig(t)
	r.one(put("k", "1"))
	r.one(in("n2", put("k", "2")))
	r.tenant = tenantB
	if r.one(get("k")).Found || len(r.one(prefix("k", "", 0)).Rows) != 0 {
		t.Error("the row of another tenant is read")
	}
	if got := r.one(remove("k")); applied(got) != "absent" {
		t.Errorf("the row of another tenant is deleted: %+v", got)
	}
	r.tenant = tenantA
	if got := r.one(prefix("k", "", 0)); len(got.Rows) != 1 || string(got.Rows[0].Value) != "1" {
		t.Errorf("a page has %+v", got.Rows)
	}
}

func TestACallWithoutWritesWritesNothing(t *testing.T) {
	r := newRig(t)
	r.one(lasting(put("k", "1"), 1))
	r.now += 2 * second
	for _, op := range []command.KVOp{get("k"), prefix("k", "", 0), many("k"), check("k", 0), remove("k"), expecting(put("k", "1"), 7)} {
		r.one(op)
		if keys, _ := r.store.Writes(); keys != 0 {
			t.Errorf("%+v writes %d keys", op, keys)
		}
	}
	result, err := Read(r.store, &command.KV{Tenant: tenantA, Limits: r.limits, Ops: []command.KVOp{get("k"), required(check("k", 1))}}, r.now)
	if err != nil || result.(*command.KVResult).Lost.Reason != command.KVReasonAbsent {
		t.Errorf("a read with a guard gives %+v, %v", result, err)
	}
}

// TestWhatNoNodeProposesIsRefused: a command decides about the state of every node, so it must not tear it (I11).
func TestWhatNoNodeProposesIsRefused(t *testing.T) {
	r := newRig(t)
	r.one(put("k", "1"))
	for name, ops := range map[string][]command.KVOp{
		"the same row twice": {put("k", "2"), remove("k")},
		"an empty key":       {put("", "2")},
		"a zero byte":        {put("a\x00b", "2")},
		"a namespace of two": {in("n\x00k", put("k", "2"))},
		"a long key":         {put(strings.Repeat("k", MaxPlaceBytes), "2")},
		"no value":           {put("k", "")},
		"no number":          {incr("l", "one")},
		"no bound":           {within(incr("l", "1"), "", "x")},
	} {
		before := r.store.Copied()
		if refusal, ok := r.execute(ops...).(*command.Refusal); !ok || !r.store.Equal(before) {
			t.Errorf("%s: %+v", name, refusal)
		}
	}
	got := r.call(get(""), many("", "a\x00b", "k"), prefix("", "", 0), put(strings.Repeat("k", MaxPlaceBytes-1), "1"))
	if got[0].Found || len(got[1].Rows) != 1 || len(got[1].Missing) != 2 || len(got[2].Rows) != 2 {
		t.Errorf("reads of no rows give %+v", got)
	}
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "BUG:") {
			t.Errorf("recovered %q", text)
		}
	}()
	_, _ = Read(r.store, &command.KV{Ops: []command.KVOp{put("k", "1")}}, r.now)
}

func TestAPlanChangesNothingUntilItIsCommitted(t *testing.T) {
	r := newRig(t)
	r.one(put("a", "1"))
	before := r.store.Copied()
	c := &command.KV{Tenant: tenantA, Limits: r.limits, Ops: []command.KVOp{put("a", "2"), incr("b", "1"), get("b")}}
	plan, err := Judge(r.store, c, Moment{NowMicros: r.now + 1, Quota: unlimited})
	if err != nil || plan.Refusal() != nil || plan.Lost() != nil {
		t.Fatalf("%+v, %v", plan, err)
	}
	if !r.store.Equal(before) {
		t.Error("judging has changed something")
	}
	result, err := plan.Commit(r.store, r.store)
	if err != nil || result.Ops[0].Version != 2 || string(result.Ops[1].Value) != "1" || !bytes.Equal(result.Ops[2].Value, []byte("1")) {
		t.Errorf("committed %+v, %v", result, err)
	}
	r.whole()
}
