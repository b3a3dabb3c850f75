package kv

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"queen/raftlog/command"
)

// locks runs a lock call one microsecond after the last call.
func (r *rig) locks(ops ...command.LockOp) []command.LockOpResult {
	r.t.Helper()
	r.now++
	r.store.NextEntry()
	result, err := ExecuteLock(r.store, r.store, &command.Lock{Tenant: r.tenant, Ops: ops}, Moment{NowMicros: r.now, Quota: r.quota})
	locked, ok := result.(*command.LockResult)
	if err != nil || !ok || len(locked.Ops) != len(ops) {
		r.t.Fatalf("the lock call gives %+v, %v", result, err)
	}
	r.whole()
	return locked.Ops
}

func (r *rig) lock(op command.LockOp) command.LockOpResult {
	r.t.Helper()
	return r.locks(op)[0]
}

func acquire(owner string, limit uint32) command.LockOp {
	return command.LockOp{Kind: command.LockAcquire, Name: "l", Owner: owner, Limit: limit, TTLSeconds: 10}
}

func renew(token uint64, owner string) command.LockOp {
	return command.LockOp{Kind: command.LockRenew, Name: "l", Token: token, Owner: owner, TTLSeconds: 10}
}

func release(token uint64) command.LockOp {
	return command.LockOp{Kind: command.LockRelease, Name: "l", Token: token}
}

func getLock() command.LockOp { return command.LockOp{Kind: command.LockGet, Name: "l"} }

// held are slots and owners of holders.
func held(holders []command.LockHolder) (texts []string) {
	for _, h := range holders {
		texts = append(texts, fmt.Sprint(h.Slot, h.Owner))
	}
	return texts
}

func TestALockHasOneHolder(t *testing.T) {
	r := newRig(t)
	first := r.lock(acquire("a", 1))
	acquired := r.now
	if !first.Done || first.Already || first.Slot != 0 || first.Token == 0 || first.Holders != nil {
		t.Fatalf("acquired %+v", first)
	}
	if got := r.lock(acquire("b", 1)); got.Done || got.Token != 0 || !slices.Equal(held(got.Holders), []string{"0a"}) {
		t.Errorf("the second gets %+v", got)
	}
	before := r.store.Copied()
	if got := r.lock(acquire("a", 1)); !got.Done || !got.Already || got.Slot != 0 || got.Token != first.Token || !r.store.Equal(before) {
		t.Errorf("its owner gets %+v, or the permit was rewritten", got)
	}
	if got := r.lock(acquire("", 1)); got.Done || got.Already {
		t.Errorf("nobody gets %+v", got)
	}
	r.now = acquired + 10*second - 2
	if got := r.lock(acquire("b", 1)); got.Done {
		t.Errorf("too early: %+v", got)
	}
	if got := r.lock(acquire("b", 1)); !got.Done || got.Token <= first.Token {
		t.Errorf("after its lifetime: %+v", got)
	}
}

// TestASemaphoreHasDistinctSlots: twelve callers with limit 3 never hold more than 3 permits (state 4.4).
func TestASemaphoreHasDistinctSlots(t *testing.T) {
	r := newRig(t)
	var got []string
	for i := range 12 {
		result := r.lock(acquire(fmt.Sprint("o", i), 3))
		got = append(got, fmt.Sprint(result.Done, result.Slot, len(result.Holders)))
	}
	want := []string{"true 0 0", "true 1 0", "true 2 0"}
	for range 9 {
		want = append(want, "false 0 3")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	list := r.lock(getLock())
	if !list.Done || !slices.Equal(held(list.Holders), []string{"0o0", "1o1", "2o2"}) {
		t.Errorf("get lists %+v", list)
	}
	freed := release(list.Holders[1].Token)
	freed.Slot = 1
	if got := r.lock(freed); !got.Done || got.Slot != 1 || got.Holders != nil {
		t.Errorf("release gives %+v", got)
	}
	if got := r.lock(acquire("late", 3)); !got.Done || got.Slot != 1 {
		t.Errorf("a freed slot goes to whoever asks next: %+v", got)
	}
	// Only slots below the limit of the caller are looked at.
	if got := r.lock(acquire("o2", 2)); got.Done || len(got.Holders) != 2 {
		t.Errorf("its permit lies beyond the limit: %+v", got)
	}
	if got := r.lock(acquire("o2", 20)); !got.Already || got.Slot != 2 {
		t.Errorf("within a larger limit: %+v", got)
	}
	if got := r.lock(acquire("new", 20)); !got.Done || got.Slot != 3 {
		t.Errorf("a larger limit has more slots: %+v", got)
	}
}

func TestRenewGivesANewToken(t *testing.T) {
	r := newRig(t)
	first := r.lock(acquire("a", 1)).Token
	since := r.now
	r.now += 5 * second
	got := r.lock(renew(first, ""))
	if !got.Done || got.Token <= first || got.Slot != 0 {
		t.Fatalf("renewed %+v", got)
	}
	second2 := got.Token
	h := r.lock(getLock()).Holders[0]
	if h.Owner != "a" || h.Token != second2 || h.SinceMicros != since || h.UpdatedMicros != r.now-1 || h.ExpiresMicros != r.now-1+10*second {
		t.Errorf("holder %+v, since %d, now %d", h, since, r.now)
	}
	if got := r.lock(renew(first, "")); got.Done || !slices.Equal(held(got.Holders), []string{"0a"}) {
		t.Errorf("a stale token renews: %+v", got)
	}
	if got := r.lock(renew(first, "b")); got.Done {
		t.Errorf("a stale token of somebody else renews: %+v", got)
	}
	got = r.lock(renew(first, "a"))
	if !got.Done || got.Token <= second2 {
		t.Errorf("a stale token of the same owner: %+v", got)
	}
	if lost := r.lock(release(second2)); lost.Done || !slices.Equal(held(lost.Holders), []string{"0a"}) {
		t.Errorf("a token from before the renewal releases: %+v", lost)
	}
	third := got.Token
	if got := r.lock(release(third)); !got.Done {
		t.Errorf("released %+v", got)
	}
	for _, op := range []command.LockOp{release(third), renew(third, "a")} {
		if got := r.lock(op); got.Done || got.Holders != nil || got.Slot != 0 {
			t.Errorf("once more, with the slot free: %+v", got)
		}
	}
	if got := r.lock(getLock()); got.Done || got.Holders != nil {
		t.Errorf("get after the release: %+v", got)
	}
	r.lock(acquire("a", 1))
	r.now += 10 * second
	if got := r.lock(renew(third+1, "a")); got.Done {
		t.Errorf("what has expired is renewed: %+v", got)
	}
}

// TestAPermitWithoutOwnerIsRenewedByItsTokenAlone: no owner is not the same owner.
func TestAPermitWithoutOwnerIsRenewedByItsTokenAlone(t *testing.T) {
	r := newRig(t)
	first := r.lock(acquire("", 1)).Token
	got := r.lock(renew(first, ""))
	if !got.Done {
		t.Fatalf("renewed %+v", got)
	}
	if lost := r.lock(renew(first, "")); lost.Done || !slices.Equal(held(lost.Holders), []string{"0"}) {
		t.Errorf("a stale token without an owner: %+v", lost)
	}
	if again := r.lock(acquire("", 1)); again.Done {
		t.Errorf("nobody acquires what nobody holds: %+v", again)
	}
}

// TestManySlotsAreCutAtTheLimit: a walk over the rows of a name sees what single reads see.
func TestManySlotsAreCutAtTheLimit(t *testing.T) {
	r := newRig(t)
	for slot := range 13 {
		r.lock(acquire(fmt.Sprint("o", slot), 13))
	}
	if got := r.lock(acquire("o12", 12)); got.Done || len(got.Holders) != 12 || got.Holders[11].Slot != 11 {
		t.Errorf("a permit at the limit: %+v", got)
	}
	if got := r.lock(acquire("o12", 13)); !got.Already || got.Slot != 12 {
		t.Errorf("a permit below the limit: %+v", got)
	}
	if got := r.lock(acquire("new", MaxSlots)); !got.Done || got.Slot != 13 {
		t.Errorf("the next free slot: %+v", got)
	}
}

// TestAPermitIsARow: visible, deletable, and guarded by its version (state 4.1, 4.3).
func TestAPermitIsARow(t *testing.T) {
	r := newRig(t)
	owner := "h\"o\\s\u2028t:é"
	got := r.lock(acquire(owner, 1))
	read := r.one(command.KVOp{Kind: command.KVGet, Namespace: LockNamespace, Key: "l#0"})
	var value struct{ Owner, Since string }
	if err := json.Unmarshal(read.Value, &value); err != nil || value.Owner != owner || value.Since != "2023-11-14T22:13:20.000001Z" || read.Version != got.Token {
		t.Errorf("the row is %s of version %d, %v", read.Value, read.Version, err)
	}
	guard := Guard("l", 0, got.Token)
	if result := r.one(guard); applied(result) != "applied" {
		t.Errorf("the guard of the holder: %+v", result)
	}
	renewed := r.lock(renew(got.Token, ""))
	lost := r.execute(guard, put("k", "1")).(*command.KVResult).Lost
	if lost == nil || lost.Op != 0 || lost.Reason != command.KVReasonVersion || lost.Version != renewed.Token || string(lost.Value) != string(read.Value) {
		t.Errorf("the guard of an earlier token: %+v", lost)
	}
	if r.one(get("k")).Found {
		t.Error("a guard that lost has written something")
	}
	r.one(in(LockNamespace, remove("l#0")))
	if got := r.lock(acquire("b", 1)); !got.Done {
		t.Errorf("after the row was deleted: %+v", got)
	}
}

// TestForeignRowsHoldTheirSlot: anybody may write into the namespace of the locks.
func TestForeignRowsHoldTheirSlot(t *testing.T) {
	large := `{"owner":"a","x":"` + strings.Repeat("x", inlineBytes) + `"}`
	for value, owner := range map[string]string{
		"5": "", "null": "", `"a"`: "", `{}`: "", `[{"owner":"a"}]`: "", `{"x":{"owner":"b"},"owner":"a"}`: "a", `{"owner":null,"since":5}`: "",
		`{"owner":"\u0061","since":"soon"}`: "a", `{"OWNER":"a"}`: "", `{"owner":["a"]}`: "", `{"own\u0065r":"a"}`: "a", large: "",
		`{"x":"\",\"owner\":\"b","owner":"a"}`: "a", `{"":1,"owner":"a"}`: "a",
		`{"owner":"\ud800"}`: "", `{"owner":"a","owner":"\ud800"}`: "", `{"\ud800":1,"owner":"a"}`: "a", `{"owner":"\ud83d\ude00"}`: "\U0001f600",
	} {
		r := newRig(t)
		version := r.one(in(LockNamespace, put("l#0", value))).Version
		written := r.now
		got := r.lock(acquire("b", 1))
		want := command.LockHolder{Owner: owner, Token: version, SinceMicros: written, UpdatedMicros: written}
		if got.Done || !reflect.DeepEqual(got.Holders, []command.LockHolder{want}) {
			t.Errorf("%.40s: %+v, want %+v", value, got, want)
		}
		if got := r.lock(acquire("a", 1)); got.Already != (owner == "a") {
			t.Errorf("%.40s: its owner gets %+v", value, got)
		}
		if got := r.lock(renew(version, "")); !got.Done {
			t.Errorf("%.40s: its token renews: %+v", value, got)
		}
		if read := r.one(in(LockNamespace, get("l#0"))); string(read.Value) != value {
			t.Errorf("%.40s: the value is %.40s after a renewal", value, read.Value)
		}
	}
}

// TestKeysThatAreNoSlotsAreNotCounted, however many there are.
func TestKeysThatAreNoSlotsAreNotCounted(t *testing.T) {
	for _, foreign := range []int{10, slotScan + 1} {
		r := newRig(t)
		for slot := range 12 {
			if got := r.lock(acquire(fmt.Sprint("o", slot), 12)); got.Slot != uint32(slot) {
				t.Fatalf("acquired %+v", got)
			}
		}
		r.one(in(LockNamespace, put("l#", "1")))
		for _, suffix := range []string{"x", "01", "1024", "+1", "1 ", "99999999999999999999"} {
			r.one(in(LockNamespace, put("l#"+suffix, "1")))
		}
		row := appendRow(nil, &Row{Version: 1, Inline: []byte("1")})
		whole := r.store
		for i := range foreign {
			whole.Set(append(keyOf("")[:17], fmt.Sprintf("%s\x00l#!%05d", LockNamespace, i)...), row)
		}
		result, err := ReadLock(r.store, &command.Lock{Tenant: tenantA, Ops: []command.LockOp{getLock()}}, r.now)
		if err != nil {
			t.Fatal(err)
		}
		list := result.(*command.LockResult).Ops[0]
		if len(list.Holders) != 12 || list.Holders[10].Slot != 10 || list.Holders[10].Owner != "o10" {
			t.Errorf("beside %d other keys: %q", foreign, held(list.Holders))
		}
		if r.store.Scanned > slotScan+1 {
			t.Errorf("%d rows are visited", r.store.Scanned)
		}
	}
}

func TestTheOperationsOfALockCallAreIndependent(t *testing.T) {
	r := newRig(t)
	r.lock(acquire("a", 1))
	other := acquire("b", 1)
	other.Name = "other"
	got := r.locks(acquire("b", 1), other, command.LockOp{Kind: command.LockGet, Name: "third"})
	if got[0].Done || !got[1].Done || got[2].Done {
		t.Errorf("got %+v", got)
	}
}

func TestLocksCountAgainstTheQuota(t *testing.T) {
	r := newRig(t)
	r.quota = Quota{Rows: 1, Bytes: NoLimit}
	token := r.lock(acquire("a", 2)).Token
	c := &command.Lock{Tenant: tenantA, Ops: []command.LockOp{acquire("b", 2)}}
	before := r.store.Copied()
	result, err := ExecuteLock(r.store, r.store, c, Moment{NowMicros: r.now, Quota: r.quota})
	if refusal, ok := result.(*command.Refusal); err != nil || !ok || refusal.Code != CodeQuota || !r.store.Equal(before) {
		t.Errorf("beyond the quota: %+v, %v", result, err)
	}
	r.quota = Quota{}
	if got := r.locks(renew(token, "")); !got[0].Done {
		t.Errorf("a renewal is no growth: %+v", got)
	}
	r.now += 10 * second
	r.quota = Quota{Rows: 1, Bytes: NoLimit}
	if got := r.lock(acquire("b", 2)); !got.Done || got.Slot != 0 {
		t.Errorf("over a permit that has expired: %+v", got)
	}
}

func TestHostileLockCallsAreRefused(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{strings.Repeat("l", MaxPlaceBytes), "l\x00"} {
		c := &command.Lock{Tenant: tenantA, Ops: []command.LockOp{{Kind: command.LockAcquire, Name: name, Limit: 1, TTLSeconds: 1}}}
		if result, err := ExecuteLock(r.store, r.store, c, Moment{NowMicros: r.now, Quota: unlimited}); err != nil || result.(*command.Refusal).Code != codeBadRequest {
			t.Errorf("%.20q: %+v, %v", name, result, err)
		}
	}
	same := acquire("b", 1)
	c := &command.Lock{Tenant: tenantA, Ops: []command.LockOp{acquire("a", 1), same}}
	if result, err := ExecuteLock(r.store, r.store, c, Moment{NowMicros: r.now, Quota: unlimited}); err != nil || result.(*command.Refusal).Code != codeDuplicate {
		t.Errorf("a name twice: %+v, %v", result, err)
	}
	op := acquire("a", 1<<31)
	op.TTLSeconds = 0
	if got := r.lock(op); !got.Done || r.lock(getLock()).Holders[0].ExpiresMicros == 0 {
		t.Errorf("a limit and a lifetime out of range: %+v", got)
	}
	for key := range r.store.All() {
		if strings.HasSuffix(key, "l#0") && key[0] == 'k' {
			r.store.Set([]byte(key), []byte{9})
		}
	}
	for _, op := range []command.LockOp{getLock(), acquire("a", 1), renew(1, ""), release(1)} {
		c := &command.Lock{Tenant: tenantA, Ops: []command.LockOp{op}}
		if _, err := ExecuteLock(r.store, r.store, c, Moment{NowMicros: r.now, Quota: unlimited}); !errors.Is(err, ErrBadRow) {
			t.Errorf("a damaged permit: %v", err)
		}
	}
}

// longestOwner is how long an owner may be (state 4.2): a permit is searched for one of that length, however it is quoted.
const longestOwner = 256

func FuzzPermit(f *testing.F) {
	f.Add([]byte("0"), strings.Repeat("\x0f", longestOwner))
	f.Add([]byte(`{"owner":"a","since":"2023-11-14T22:13:20.000001Z"}`), "a")
	f.Add([]byte(`{"x":[1,{"owner":"b"}],"owner":null}`), "\"\\\x01é")
	f.Fuzz(func(t *testing.T, value []byte, owner string) {
		holder(0, &Row{Inline: value})
		if len(owner) > longestOwner {
			return // of a row that is no permit: it has no owner
		}
		written := permit(owner, testStart)
		if h := holder(0, &Row{Inline: written}); h.SinceMicros != testStart || h.Owner != owner && json.Valid(written) && strings.ToValidUTF8(owner, "\ufffd") == owner {
			t.Fatalf("%q is written as %s and read as %+v", owner, written, h)
		}
		if !json.Valid(value) || value[0] != '{' {
			return
		}
		// What the reader of permits finds is what JSON has there, where names do not repeat.
		var want map[string]json.RawMessage
		if err := json.Unmarshal(value, &want); err != nil || strings.ContainsAny(string(value), " \t\r\n\\") {
			return
		}
		got := map[string]string{}
		members(value, func(name string, value []byte) { got[name] = string(value) })
		for name, raw := range want {
			if got[name] != string(raw) && strings.ToValidUTF8(name, "") == name && strings.ToValidUTF8(string(value), "") == string(value) {
				t.Fatalf("%s: member %q is %q, want %q", value, name, got[name], raw)
			}
		}
	})
}
