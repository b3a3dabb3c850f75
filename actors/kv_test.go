package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/actors/machine/kv"
	"queen/raftlog/command"
)

// kvOps runs a call of the default tenant through the log.
func (r *rig) kvOps(ops ...command.KVOp) *command.KVResult {
	r.t.Helper()
	result, err := r.Execute(soon(), &command.KV{Tenant: command.DefaultTenant, Limits: someKVLimits, Ops: ops})
	if err != nil {
		r.t.Fatal(err)
	}
	return result.(*command.KVResult)
}

var someKVLimits = command.KVLimits{ValueBytes: 64 << 10, ReadBytes: 4 << 20}

func putOf(key, value string, ttlSeconds uint64) command.KVOp {
	return command.KVOp{Kind: command.KVPut, Namespace: "app", Key: key, Value: []byte(value), TTLSeconds: ttlSeconds}
}

// reads tells what a read of a key finds; empty is nothing.
func (r *rig) reads(key string) string {
	r.t.Helper()
	result, err := r.ReadKV(context.Background(), &command.KV{
		Tenant: command.DefaultTenant, Limits: someKVLimits, Ops: []command.KVOp{{Kind: command.KVGet, Namespace: "app", Key: key}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return string(result.Ops[0].Value)
}

func (r *rig) storedRows() uint64 {
	r.t.Helper()
	usage, err := r.KVUsage()
	if err != nil {
		r.t.Fatal(err)
	}
	return usage.Rows
}

func TestExpiredRowsAreSwept(t *testing.T) {
	r := newRig(t, func(c *Config) { c.KV = KVConfig{SweepInterval: time.Millisecond, SweepRows: 7} })
	for i := range 50 { // more than one step
		r.kvOps(putOf(fmt.Sprint("short", i), "1", 60))
	}
	r.kvOps(putOf("long", "1", 3600), putOf("endless", "1", 0))
	r.log.ahead(59 * time.Second)
	r.kvOps(putOf("tick", "1", 0))
	if rows := r.storedRows(); rows != 53 {
		t.Fatalf("%d rows are left before their time is over", rows)
	}
	r.log.ahead(2 * time.Second)
	eventually(t, "the sweep of all rows that have expired", func() bool { return r.storedRows() == 3 })
	if r.reads("long") != "1" || r.reads("endless") != "1" || r.reads("short1") != "" {
		t.Error("the sweep took the wrong rows")
	}
}

// State 2.7: a read is judged at the leader's time, and no earlier than the newest stamp that is applied here.
func TestReadIsJudgedAtTheLeadersTime(t *testing.T) {
	r := newRig(t)
	r.kvOps(putOf("k", "1", 60))
	r.log.ahead(59 * time.Second)
	if r.reads("k") != "1" {
		t.Error("the row is gone before its time")
	}
	r.log.ahead(2 * time.Second)
	if r.reads("k") != "" {
		t.Error("the row has expired and is shown")
	}
	if r.storedRows() != 1 {
		t.Error("the row was swept: this test shows nothing")
	}
}

// untimedLog is a leader that does not tell the time at its barrier.
type untimedLog struct{ *memoryLog }

func (l untimedLog) ReadIndex(context.Context) (uint64, error) { return 0, nil }

func TestReadIsNotJudgedBeforeTheNewestStamp(t *testing.T) {
	b, s := newBroker(t)
	r := &rig{Broker: b, t: t, store: s, log: &memoryLog{
		broker: b, queue: make(chan Proposal, memoryLogDepth), stop: make(chan struct{}), done: make(chan struct{}),
	}}
	go r.log.run()
	b.Start(untimedLog{r.log})
	t.Cleanup(r.close)
	r.kvOps(putOf("k", "1", 60))
	r.log.ahead(time.Minute + time.Second)
	if r.reads("k") != "1" { // nothing here knows better
		t.Error("the row is gone before its time")
	}
	r.kvOps(putOf("tick", "1", 0))
	if r.reads("k") != "" {
		t.Error("an entry that is applied here came after the expiry of the row, and the row is shown")
	}
}

// A bucket that holds values and payloads of timers is empty only without both.
func TestMoverEmptiesBucketsOfValues(t *testing.T) {
	r := newRig(t)
	op := scheduled("q", "large", time.Hour)
	op.Payload = []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	r.callTimers(op)
	value := func(i int) string { return fmt.Sprintf(`"%d%s"`, i, strings.Repeat("v", 30<<10)) }
	for i := range 60 { // several buckets
		r.kvOps(putOf(fmt.Sprint("k", i), value(i), 0))
	}
	m := &mover{b: r.Broker, bucket: 1, rows: true}
	if holds, err := m.rowsRefer(); err != nil || !holds {
		t.Fatalf("bucket 1 holds no value: %v", err)
	}
	if !m.emptyRows() || m.rows || !m.moved {
		t.Fatalf("the bucket was not emptied: %+v", m)
	}
	if holds, err := m.rowsRefer(); err != nil || holds {
		t.Errorf("bucket 1 holds a value: %v", err)
	}
	for i := range 60 {
		if r.reads(fmt.Sprint("k", i)) != value(i) {
			t.Errorf("value %d has changed", i)
		}
	}
	if now := r.timer("q", "large"); now.Chunk.Bucket <= 1 {
		t.Errorf("the payload lies in bucket %d", now.Chunk.Bucket)
	}
}

// Cluster 1.13: the row that a test names refuses to apply, in a call and in a transaction; others do not.
func TestRowThatRefusesToApply(t *testing.T) {
	for name, c := range map[string]command.Command{
		"call": command.KV{Tenant: command.DefaultTenant, Limits: someKVLimits, Ops: []command.KVOp{putOf("a/b", "1", 0)}},
		"transaction": command.Transaction{Tenant: command.DefaultTenant, KVLimits: someKVLimits, KV: []command.KVOp{putOf("a/b", "1", 0)},
			Pushes: []command.PushGroup{pushGroup("q", "p", "t")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.broker.machine.refusedKV = (&KVConfig{RefuseApply: "app/a/b"}).refused()
			s.must(command.KV{Tenant: command.DefaultTenant, Limits: someKVLimits, Ops: []command.KVOp{putOf("a", "1", 0)}})
			before := s.dump()
			if _, err := s.do(c); !errors.Is(err, ErrApplyFailed) || !strings.Contains(err.Error(), "app/a/b refuses to apply") {
				t.Fatalf("got %v", err)
			}
			if dump := s.dump(); dump != before {
				t.Errorf("something has changed:\n%s", difference(dump, before))
			}
		})
	}
}

// A call must not be accepted by its weight and then write more than an entry may hold: the most that is allowed weighs less, and what
// weighs more is refused before it is proposed.
func TestKVCallsWeighWhatTheyWrite(t *testing.T) {
	ops := make([]command.KVOp, 256)
	for i := range ops {
		ops[i] = putOf(fmt.Sprint(strings.Repeat("k", 400), i), `"`+strings.Repeat("v", 8<<10-2)+`"`, 1)
	}
	if keys, bytes := weigh(&command.KV{Ops: ops}); keys > MaxEntryKeys || bytes > MaxEntryStateBytes {
		t.Errorf("the largest call of the defaults weighs %d keys and %d bytes", keys, bytes)
	}
	// A counter is short, whatever it could be: as many as a call may ever have are one call.
	counters := make([]command.KVOp, 4096)
	for i := range counters {
		counters[i] = command.KVOp{Kind: command.KVIncr, Namespace: "counters", Key: fmt.Sprint("visits/page/", i), Delta: "1"}
	}
	if keys, bytes := weigh(&command.KV{Ops: counters}); keys > MaxEntryKeys || bytes > MaxEntryStateBytes {
		t.Errorf("4096 counters weigh %d keys and %d bytes", keys, bytes)
	}
	for _, c := range []command.Command{
		&command.KV{Ops: make([]command.KVOp, 1)}, &command.Lock{Ops: []command.LockOp{{Kind: command.LockGet}}},
	} {
		if keys, bytes := weigh(c); keys != 0 || bytes != 0 {
			t.Errorf("a call that reads weighs %d keys and %d bytes", keys, bytes)
		}
	}
	kvKeys, kvBytes := kv.Weigh(ops)
	if keys, bytes := weigh(&command.Transaction{KV: ops}); keys != kvKeys || bytes != kvBytes {
		t.Errorf("in a transaction it weighs %d keys and %d bytes", keys, bytes)
	}
}
