package partition

import (
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/store"
)

// The store's batch is what the machine writes to and reads from.
var (
	_ Reader = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
	_ Writer = (*store.Batch)(nil)
)

const (
	minute = 60 * second
	hour   = 60 * minute
)

// newMemory is a store in which no scan walks over the rows that were deleted at an end of a prefix.
func newMemory() *rowtest.Memory {
	m := rowtest.NewMemory()
	m.FromSomewhere = true
	return m
}

// rig is a machine over a store of its own.
type rig struct {
	t       *testing.T
	store   *rowtest.Memory
	machine *Machine
	now     uint64
	serial  uint64
	dedup   uint64
	hashes  uint64
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, store: newMemory(), now: testStart, dedup: hour, hashes: hour}
	r.load()
	return r
}

func (r *rig) load() {
	r.t.Helper()
	r.store.NextEntry()
	machine, err := Load(r.store, testQueue, testPartition)
	if err != nil {
		r.t.Fatal(err)
	}
	r.machine = machine
}

func (r *rig) inputs(txids ...string) []input {
	inputs := make([]input, len(txids))
	for i, txid := range txids {
		r.serial++
		inputs[i] = input{id: uuid.UUID{0: 1, 14: byte(r.serial >> 8), 15: byte(r.serial)}, txid: txid, payload: "1"}
	}
	return inputs
}

func (r *rig) pushInputs(inputs []input) AppendOutput {
	r.t.Helper()
	r.store.NextEntry()
	out, err := r.machine.Append(r.store, r.store, AppendInput{StampMicros: r.now, Chunk: encodeInputs(inputs),
		Count: uint32(len(inputs)), DedupWindowMicros: r.dedup, HashWindowMicros: r.hashes})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) push(txids ...string) AppendOutput {
	r.t.Helper()
	return r.pushInputs(r.inputs(txids...))
}

func (r *rig) retain(rules Retention) RetainOutput {
	r.t.Helper()
	r.store.NextEntry()
	out, err := r.machine.Retain(r.store, r.store, RetainInput{NowMicros: r.now, HashWindowMicros: r.hashes, Rules: rules, MaxAppends: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) resolve(from, end uint64, leased bool, txid string) Resolution {
	r.t.Helper()
	r.store.NextEntry()
	answers, err := r.machine.Resolve(r.store, ResolveInput{Hashes: []Hash{HashTxid([]byte(txid))}, From: from, End: end,
		Leased: leased, NowMicros: r.now, HashWindowMicros: r.hashes})
	if err != nil {
		r.t.Fatal(err)
	}
	return answers[0]
}

func (r *rig) wantDuplicate(out AppendOutput, id uuid.UUID, offset uint64) {
	r.t.Helper()
	if len(out.Duplicates) != 1 || out.Duplicates[0].ID != id || out.Duplicates[0].Offset != offset {
		r.t.Errorf("answered %+v in place of a duplicate of %v at %d", out, id, offset)
	}
}
