package kv

import (
	"fmt"
	"math"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// The store's batch and view are what the machine works on.
var (
	_ Reader = (*store.Batch)(nil)
	_ Writer = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
)

var (
	tenantA = uuid.MustParse("00000000-0000-0000-0000-00000000000a")
	tenantB = uuid.MustParse("00000000-0000-0000-0000-00000000000b")
)

const (
	testStart = 1_700_000_000_000_000
	second    = microsPerSecond
)

var unlimited = Quota{NoLimit, NoLimit}

func always(int, int) bool { return true }

// failer is a test, drawn or not.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rig is a store with the time.
type rig struct {
	t      failer
	store  *rowtest.Memory
	now    uint64
	tenant uuid.UUID
	limits command.KVLimits
	quota  Quota
}

func newRig(t failer) *rig {
	return &rig{t: t, store: rowtest.NewMemory(), now: testStart, tenant: tenantA, quota: unlimited,
		limits: command.KVLimits{ValueBytes: 65_536, ReadBytes: 4 << 20}}
}

// execute runs a call one microsecond after the last one, and looks whether the store is whole afterwards.
func (r *rig) execute(ops ...command.KVOp) command.Result {
	r.t.Helper()
	r.now++
	r.store.NextEntry()
	c := &command.KV{Tenant: r.tenant, Limits: r.limits, Ops: ops}
	result, err := Execute(r.store, r.store, c, Moment{NowMicros: r.now, Quota: r.quota})
	if err != nil {
		r.t.Fatalf("execute: %v", err)
	}
	r.whole()
	return result
}

// call is execute for a call of which nothing is lost.
func (r *rig) call(ops ...command.KVOp) []command.KVOpResult {
	r.t.Helper()
	result, ok := r.execute(ops...).(*command.KVResult)
	if !ok || result.Lost != nil || len(result.Ops) != len(ops) {
		r.t.Fatalf("the call gives %+v", result)
	}
	return result.Ops
}

// one is call for one operation.
func (r *rig) one(op command.KVOp) command.KVOpResult {
	r.t.Helper()
	return r.call(op)[0]
}

func (r *rig) sweep(maxRows int) (removed int, more bool) {
	r.t.Helper()
	r.now++
	r.store.NextEntry()
	removed, more, err := Sweep(r.store, r.store, SweepInput{NowMicros: r.now, MaxRows: maxRows, Fits: always})
	if err != nil {
		r.t.Fatalf("sweep: %v", err)
	}
	r.whole()
	return removed, more
}

// whole looks through all rows: every count, and everything that points to a row, must be what the rows make it.
func (r *rig) whole() {
	r.t.Helper()
	want := map[string]string{}
	usage := map[uuid.UUID]Usage{}
	spaces := map[place]uint64{}
	var total Usage
	chunks := 0
	c, err := readCounters(r.store)
	if err != nil {
		r.t.Fatalf("counters: %v", err)
	}
	for stored, value := range r.store.All() {
		tenant, namespace, key, ok := layout.KVPlace([]byte(stored))
		if !ok {
			continue
		}
		row, err := DecodeRow(value)
		if err != nil {
			r.t.Fatalf("row %q: %v", stored, err)
		}
		if row.Version == 0 || row.Version > c.lastVersion {
			r.t.Fatalf("row %q has version %d of %d", stored, row.Version, c.lastVersion)
		}
		want[stored] = string(value)
		charge := place{namespace, key}.charge(row.valueBytes())
		u := usage[tenant]
		usage[tenant] = Usage{u.Rows + 1, u.Bytes + charge}
		spaces[place{string(tenant[:]), namespace}]++
		total = Usage{total.Rows + 1, total.Bytes + charge}
		if row.ExpiresMicros != 0 {
			want[string(layout.KVExpiry(row.ExpiresMicros, []byte(stored)))] = string(appendNumbers(charge))
			if row.ExpiresMicros < c.sweptMicros {
				r.t.Fatalf("row %q expires at %d, before the sweeps begin at %d", stored, row.ExpiresMicros, c.sweptMicros)
			}
		}
		if row.Chunk != nil {
			chunks++
			want[string(layout.KVChunk(row.Chunk.Bucket, []byte(stored)))] = ""
			if _, held := r.store.Chunks[*row.Chunk]; !held {
				r.t.Fatalf("row %q has lost its chunk", stored)
			}
		}
	}
	for tenant, u := range usage {
		want[string(layout.KVUsage(tenant))] = string(appendNumbers(u.Rows, u.Bytes))
	}
	for space, rows := range spaces {
		want[string(layout.KVNamespace(uuid.UUID([]byte(space.namespace)), space.key))] = string(appendNumbers(rows))
	}
	if c.lastVersion > 0 || c.sweptMicros > 0 {
		want[string(countersKey)] = string(appendNumbers(c.lastVersion, c.sweptMicros, total.Rows, total.Bytes))
	}
	for key, value := range r.store.All() {
		if expected, ok := want[key]; !ok || expected != string(value) {
			r.t.Fatalf("stored %q = %x, want %x (%v)", key, value, expected, ok)
		}
	}
	if r.store.Len() != len(want) || len(r.store.Chunks) != chunks {
		r.t.Fatalf("%d rows and %d chunks are stored, want %d and %d", r.store.Len(), len(r.store.Chunks), len(want), chunks)
	}
}

func get(key string) command.KVOp {
	return command.KVOp{Kind: command.KVGet, Namespace: "n", Key: key}
}

func put(key, value string) command.KVOp {
	return command.KVOp{Kind: command.KVPut, Namespace: "n", Key: key, Value: []byte(value)}
}

func putIfAbsent(key, value string) command.KVOp {
	return command.KVOp{Kind: command.KVPutIfAbsent, Namespace: "n", Key: key, Value: []byte(value)}
}

func remove(key string) command.KVOp {
	return command.KVOp{Kind: command.KVDelete, Namespace: "n", Key: key}
}

func incr(key, delta string) command.KVOp {
	return command.KVOp{Kind: command.KVIncr, Namespace: "n", Key: key, Delta: delta}
}

func check(key string, version uint64) command.KVOp {
	return expecting(command.KVOp{Kind: command.KVCheck, Namespace: "n", Key: key}, version)
}

func prefix(of, after string, limit uint32) command.KVOp {
	return command.KVOp{Kind: command.KVGetPrefix, Namespace: "n", Key: of, After: after, Limit: limit}
}

func many(keys ...string) command.KVOp {
	return command.KVOp{Kind: command.KVGetMany, Namespace: "n", Keys: keys}
}

func expecting(op command.KVOp, version uint64) command.KVOp {
	op.Expect, op.HasExpect = version, true
	return op
}

func lasting(op command.KVOp, seconds uint64) command.KVOp {
	op.TTLSeconds = seconds
	return op
}

func required(op command.KVOp) command.KVOp {
	op.Required = true
	return op
}

func within(op command.KVOp, low, high string) command.KVOp {
	op.Min, op.Max = low, high
	return op
}

func in(namespace string, op command.KVOp) command.KVOp {
	op.Namespace = namespace
	return op
}

// applied tells what a write or check came to.
func applied(result command.KVOpResult) string {
	if result.Reason == command.KVApplied {
		return "applied"
	}
	return result.Reason.String()
}

// shown is a lost operation with the row that it shows.
func shown(result command.KVOpResult) string {
	return fmt.Sprintf("%s %s %d", applied(result), result.Value, result.Version)
}

// endless is a TTL beyond all bounds.
const endless = math.MaxUint64
