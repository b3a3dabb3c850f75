package actors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// bomb is a behavior that dies a number of times, before or after its message has been dealt with.
type bomb struct {
	inner Behavior
	fuse  *int
	late  bool
}

func (b *bomb) Receive(message any) {
	if b.late {
		b.inner.Receive(message)
	}
	if *b.fuse > 0 {
		*b.fuse--
		panic("a bomb went off")
	}
	if !b.late {
		b.inner.Receive(message)
	}
}

func (b *bomb) Close() {
	if closer, ok := b.inner.(Closer); ok {
		closer.Close()
	}
}

// arm makes the actor of a handle die so many times with the messages that follow.
func arm(h *Handle, times int, late bool) {
	h.run.Lock()
	defer h.run.Unlock()
	fuse, makeInner := times, h.make
	h.make = func() Behavior { return &bomb{inner: makeInner(), fuse: &fuse, late: late} }
	h.behavior = &bomb{inner: h.behavior, fuse: &fuse, late: late}
}

// scene is a machine with a queue of one partition, of whose three messages a group holds the first two.
type scene struct {
	*machine
	sequence uint64
	index    uint64
	now      uint64
	lease    uuid.UUID
	// days is how long idle partitions are kept.
	days uint32
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{machine: newMachine(t, t.TempDir()), now: generatedEpoch, lease: uuid.UUID{0xAA, 8: 0x80}}
	group := command.PushGroup{Queue: "orders", Partition: "p"}
	for i, txid := range []string{"x", "y", "z"} {
		group.Chunk = command.AppendMessage(group.Chunk, &command.Message{ID: uuid.UUID{byte(i)}, Txid: []byte(txid), Payload: []byte("1")})
		group.Count++
	}
	s.must(command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{group}})
	s.must(command.Register{
		Tenant: command.DefaultTenant, Queue: "orders", Group: "workers",
		Subscription: command.Subscription{Mode: command.SubscriptionAll},
	})
	s.must(command.Claim{
		Tenant: command.DefaultTenant, Lease: s.lease, Group: "workers", Batch: 2,
		Parts: []command.ClaimPart{{Queue: "orders", Targets: []command.ClaimTarget{{Partition: 1}}}},
	})
	return s
}

// do applies one entry and returns the results.
func (s *scene) do(commands ...command.Command) (results []string, err error) {
	s.t.Helper()
	s.index++
	s.now += 1000
	e := &command.Entry{Header: command.Header{
		StampMicros: s.now, Seed: uuid.UUID{byte(s.index)}, Settings: command.Settings{PartitionCleanupDays: s.days},
	}}
	e.Items = s.items(commands...)
	return s.entry(e)
}

// entry applies an entry that has its header and its requests.
func (s *scene) entry(e *command.Entry) (results []string, err error) {
	s.t.Helper()
	l := newLogged(s.index, 1, e)
	if err := s.apply(l); err != nil {
		return nil, err
	}
	s.flush()
	for _, id := range l.requests {
		results = append(results, s.results[answered{l.index, id}])
	}
	return results, nil
}

func (s *scene) must(commands ...command.Command) []string {
	s.t.Helper()
	results, err := s.do(commands...)
	if err != nil {
		s.t.Fatal(err)
	}
	return results
}

// settleAll is an ack with effects in nearly every kind of actor: it files a dead letter, moves the cursor and releases the lease;
// the push behind it makes a queue, the calls behind that a row whose value lies in a chunk, and timers of which one fires.
func (s *scene) settleAll() []command.Command {
	due, far := scheduled("new", "due", -time.Second), scheduled("new", "far", time.Hour)
	due.MessageID, far.MessageID = uuid.UUID{2}, uuid.UUID{3}
	return []command.Command{
		command.Ack{Tenant: command.DefaultTenant, Group: "workers", Parts: []command.AckPart{{
			Partition: 1, Lease: s.lease, Items: []command.AckItem{{Txid: "x", Status: command.AckDeadLetter}},
		}}},
		command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{{
			Queue: "new", Partition: "p", Count: 1,
			Chunk: command.AppendMessage(nil, &command.Message{ID: uuid.UUID{1}, Payload: []byte("1")}),
		}}},
		command.KV{Tenant: command.DefaultTenant, Limits: someKVLimits, Ops: []command.KVOp{
			putOf("large", `"`+strings.Repeat("v", 9<<10)+`"`, 60), {Kind: command.KVGet, Namespace: "app", Key: "large"},
		}},
		command.Timers{Tenant: command.DefaultTenant, Ops: []command.TimerOp{due, far}},
	}
}

// actorsOf lists the actors that settleAll asks.
func (s *scene) actorsOf() map[Kind]*Handle {
	a := s.broker.machine
	return map[Kind]*Handle{
		KindCatalog: a.catalog, KindDeadLetters: a.deadLetters, KindLeases: a.leases[1],
		KindPartition: a.partitions.get(1, 1).Handle, KindGroup: a.groups.get(1, 1).Handle,
		KindKV: a.kv, KindTimers: a.timers, KindApply: s.broker.apply,
	}
}

// TestCrashAfterPartialEffectsRollsBack lets each kind of actor die twice over a command that has had effects in others,
// before and after its own. Result and state are those of a run without deaths (I10).
func TestCrashAfterPartialEffectsRollsBack(t *testing.T) {
	calmScene := newScene(t)
	want := calmScene.must(calmScene.settleAll()...)
	if !strings.Contains(want[0], `"DeadLettered":true`) {
		t.Fatalf("the ack gave %s", want[0])
	}
	wantDump := calmScene.dump()
	for kind := range calmScene.actorsOf() {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late=%t", kind, late), func(t *testing.T) {
				s := newScene(t)
				fuse := attempts - 1
				if kind == KindApply && late {
					fuse = 1 // its entry is done when it has dealt with it
				}
				arm(s.actorsOf()[kind], fuse, late)
				got := s.must(s.settleAll()...)
				for i := range want {
					if got[i] != want[i] {
						t.Errorf("command %d\n got %s\nwant %s", i, got[i], want[i])
					}
				}
				if dump := s.dump(); dump != wantDump {
					t.Errorf("the state differs:\n%s", difference(dump, wantDump))
				}
				if _, restarts, _ := s.broker.system.Counts(kind); restarts != uint64(fuse) {
					t.Errorf("%d deaths in place of %d", restarts, fuse)
				}
			})
		}
	}
}

// TestThreeCrashesOfOneCommandAreAnApplyFailure checks the error, and that nothing of the entry has happened.
func TestThreeCrashesOfOneCommandAreAnApplyFailure(t *testing.T) {
	for kind := range newScene(t).actorsOf() {
		t.Run(string(kind), func(t *testing.T) {
			s := newScene(t)
			before, applied := s.dump(), s.index
			arm(s.actorsOf()[kind], attempts, false)
			_, err := s.do(s.settleAll()...)
			if !errors.Is(err, ErrApplyFailed) || !errors.Is(err, ErrCrashed) {
				t.Fatalf("the error is %v", err)
			}
			for _, part := range []string{"entry 4", string(kind) + " actor", "a bomb went off"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %q: %v", part, err)
				}
			}
			if index, _ := s.broker.AppliedIndex(); index != applied {
				t.Errorf("applied is %d after a failure at %d", index, applied+1)
			}
			if dump := s.dump(); dump != before {
				t.Errorf("something has changed:\n%s", difference(dump, before))
			}
		})
	}
}

// TestUnreadableEntryIsAnApplyFailure checks that what cannot be read is not skipped (architecture 3).
func TestUnreadableEntryIsAnApplyFailure(t *testing.T) {
	s := newScene(t)
	before := s.dump()
	err := s.broker.Apply(s.index+1, 1, []byte("no entry"))
	if !errors.Is(err, ErrApplyFailed) || !errors.Is(err, command.ErrBadEntry) {
		t.Errorf("the error is %v", err)
	}
	if dump := s.dump(); dump != before {
		t.Errorf("something has changed:\n%s", difference(dump, before))
	}
}

// TestRefusalChangesNothing applies commands that say no in every way there is.
func TestRefusalChangesNothing(t *testing.T) {
	tenant, other := command.DefaultTenant, uuid.New()
	position := func(queue string, offset int64) command.Command {
		return command.Transaction{
			Tenant: tenant, Pushes: []command.PushGroup{pushGroup("new", "p", "n")},
			Positions: []command.Position{{Queue: queue, Group: "g", Partition: "p", HasOffset: true, Offset: offset}},
		}
	}
	ack := func(lease uuid.UUID, txid string, status command.AckStatus) command.AckPart {
		return command.AckPart{Partition: 1, Lease: lease, Items: []command.AckItem{{Txid: txid, Status: status}}}
	}
	transaction := func(group string, part command.AckPart) command.Command {
		return command.Transaction{
			Tenant: tenant, Pushes: []command.PushGroup{pushGroup("new", "p", "n")},
			Acks: []command.TransactionAck{{Group: group, AckPart: part}},
		}
	}
	lostGate := command.KVOp{Kind: command.KVCheck, Namespace: "app", Key: "none", Expect: 1, HasExpect: true, Required: true}
	for name, c := range map[string]struct {
		command func(s *scene) command.Command
		says    string
	}{
		"ack under a wrong lease": {func(*scene) command.Command {
			return command.Ack{Tenant: tenant, Group: "workers", Parts: []command.AckPart{ack(uuid.New(), "x", 0)}}
		}, `"Error":1`},
		"ack of an unknown txid": {func(s *scene) command.Command {
			return command.Ack{Tenant: tenant, Group: "workers", Parts: []command.AckPart{ack(s.lease, "?", 0)}}
		}, `"Error":2`},
		"ack of an unknown partition": {func(*scene) command.Command {
			return command.Ack{Tenant: tenant, Group: "workers", Parts: []command.AckPart{{Partition: 99, Items: make([]command.AckItem, 1)}}}
		}, `"Error":3`},
		"ack of another tenant": {func(s *scene) command.Command {
			return command.Ack{Tenant: other, Group: "workers", Parts: []command.AckPart{ack(s.lease, "x", 0)}}
		}, `"Error":4`},
		"ack of a new group under a lease": {func(s *scene) command.Command {
			return command.Ack{Tenant: tenant, Group: "strangers", Parts: []command.AckPart{ack(s.lease, "x", 0)}}
		}, `"Error":1`},
		"push of a duplicate": {func(*scene) command.Command {
			return command.Push{Tenant: tenant, Groups: []command.PushGroup{pushGroup("orders", "p", "x")}}
		}, `"Offset":0`},
		"claim of a leased partition": {func(*scene) command.Command {
			return command.Claim{Tenant: tenant, Lease: uuid.New(), Group: "workers", Batch: 1, Parts: []command.ClaimPart{{
				Queue: "orders", Targets: []command.ClaimTarget{{Partition: 1}, {Partition: 77}, {Name: "nope"}},
			}}}
		}, `"Batches":null`},
		"claim of an unknown group": {func(*scene) command.Command {
			return command.Claim{Tenant: tenant, Lease: uuid.New(), Group: "strangers", Batch: 1, Parts: []command.ClaimPart{{
				Queue: "orders", Targets: []command.ClaimTarget{{Partition: 1}},
			}}}
		}, `"Batches":null`},
		"extend of an unknown lease": {func(*scene) command.Command {
			return command.Extend{Tenant: tenant, Lease: uuid.New(), Seconds: 5}
		}, `"Renewed":0`},
		"extend by another tenant": {func(s *scene) command.Command {
			return command.Extend{Tenant: other, Lease: s.lease, Seconds: 5}
		}, `"Renewed":0`},
		"hand-back of another lease": {func(*scene) command.Command {
			return command.HandBack{Tenant: tenant, Lease: uuid.New(), Group: "workers", Parts: []command.HandBackPart{{Partition: 1, LastOffset: 1}}}
		}, `"Undone":0`},
		"register without queue": {func(*scene) command.Command {
			return command.Register{Tenant: tenant, Queue: "new", Group: "workers"}
		}, `"QueueID":0`},
		"delete of a missing queue": {func(*scene) command.Command {
			return command.DeleteQueue{Tenant: other, Queue: "orders"}
		}, `"Existed":false`},
		"delete of a missing group": {func(*scene) command.Command {
			return command.DeleteGroup{Tenant: tenant, Group: "strangers", AllQueues: true}
		}, `"Queues":null`},
		"seek in a missing queue": {func(*scene) command.Command {
			return command.Seek{Tenant: tenant, Queue: "new", Group: "workers", AllPartitions: true, ToEnd: true}
		}, `"Updated":0`},
		"transaction with a wrong lease": {func(*scene) command.Command {
			return transaction("workers", ack(uuid.New(), "x", 0))
		}, "QTXN invalid or expired lease"},
		"transaction with an unknown txid": {func(s *scene) command.Command {
			return transaction("workers", ack(s.lease, "?", 0))
		}, "QTXN transaction is unresolvable"},
		"transaction with a required lease that is not live": {func(*scene) command.Command {
			return command.Transaction{Tenant: tenant, RequiredLeases: []uuid.UUID{uuid.New()}, Pushes: []command.PushGroup{pushGroup("new", "p", "n")}}
		}, "rejected_ack"},
		"transaction with a duplicate behind a good ack": {func(s *scene) command.Command {
			return command.Transaction{
				Tenant: tenant, Pushes: []command.PushGroup{pushGroup("new", "p", "n"), pushGroup("orders", "p", "y")},
				Acks: []command.TransactionAck{{Group: "workers", AckPart: ack(s.lease, "x", command.AckDeadLetter)}},
			}
		}, "original offset 1"},
		"transaction with a position above the tail": {func(*scene) command.Command { return position("orders", 4) }, "bad_request"},
		"transaction with a position in no queue":    {func(*scene) command.Command { return position("new", 0) }, "queue_not_found"},
		"replay of an unknown dead letter": {func(*scene) command.Command {
			return command.DeadLetterReplay{Tenant: tenant, Row: uuid.New(), MessageID: uuid.New()}
		}, `"Outcome":0`},
		"retention with nothing due": {func(*scene) command.Command {
			return command.Retain{Partitions: []command.RetainPartition{{Partition: 1, MaxAppends: 10}, {Partition: 99, MaxAppends: 1}}}
		}, `"Appends":0`},
		"move of chunks from an unknown bucket": {func(*scene) command.Command {
			return command.MoveChunks{Bucket: 77, Partition: 1, MaxBytes: 1000}
		}, `"Bytes":0`},
		"move of values from an unknown bucket": {func(*scene) command.Command {
			return command.MoveChunks{Bucket: 77, Partition: command.NoPartition, MaxBytes: 1000}
		}, `"Bytes":0`},
		"call with a lost gate behind a write": {func(*scene) command.Command {
			return command.KV{Tenant: tenant, Limits: someKVLimits, Ops: []command.KVOp{putOf("k", "1", 60), lostGate}}
		}, `"Lost":{"Op":1`},
		"call that writes a row twice": {func(*scene) command.Command {
			return command.KV{Tenant: tenant, Limits: someKVLimits, Ops: []command.KVOp{putOf("k", "1", 60), putOf("k", "2", 60)}}
		}, "kv_duplicate_key_in_call"},
		"transaction with a lost gate behind a good ack": {func(s *scene) command.Command {
			return command.Transaction{
				Tenant: tenant, Pushes: []command.PushGroup{pushGroup("new", "p", "n")}, KVLimits: someKVLimits, KV: []command.KVOp{putOf("k", "1", 60), lostGate},
				Acks: []command.TransactionAck{{Group: "workers", AckPart: ack(s.lease, "x", command.AckDeadLetter)}},
			}
		}, "kv_precondition"},
		"release of no lock": {func(*scene) command.Command {
			return command.Lock{Tenant: tenant, Ops: []command.LockOp{{Kind: command.LockRelease, Name: "l", Token: 5}}}
		}, `"Done":false`},
		"call with a row while KV is off": {func(s *scene) command.Command {
			s.must(command.Switches{Off: command.SwitchKV})
			return command.KV{Tenant: tenant, Limits: someKVLimits, Ops: []command.KVOp{putOf("k", "1", 60)}}
		}, "kv_disabled"},
		"lock while KV is off": {func(s *scene) command.Command {
			s.must(command.Switches{Off: command.SwitchKV})
			return command.Lock{Tenant: tenant, Ops: []command.LockOp{{Kind: command.LockAcquire, Name: "l", Limit: 1, TTLSeconds: 60}}}
		}, "kv_disabled"},
		"transaction with a row behind a timer while KV is off": {func(s *scene) command.Command {
			s.must(command.Switches{Off: command.SwitchKV | command.SwitchTimersSchedule})
			return command.Transaction{
				Tenant: tenant, Pushes: []command.PushGroup{pushGroup("new", "p", "n")}, KVLimits: someKVLimits, KV: []command.KVOp{putOf("k", "1", 60)},
				Timers: []command.TimerOp{scheduled("q", "k", time.Hour)},
			}
		}, "kv_disabled"},
		"transaction with a timer behind a row while scheduling is off": {func(s *scene) command.Command {
			s.must(command.Switches{Off: command.SwitchTimersSchedule})
			return command.Transaction{
				Tenant: tenant, KVLimits: someKVLimits, KV: []command.KVOp{putOf("k", "1", 60)}, Timers: []command.TimerOp{scheduled("q", "k", time.Hour)},
			}
		}, "timers_disabled"},
		"sweep of no rows": {func(*scene) command.Command { return command.KVSweep{MaxRows: 10} }, `"Removed":0`},
		"sweep of nothing": {func(*scene) command.Command { return command.Sweep{MaxKeys: 100} }, `"More":false`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			refused := c.command(s)
			before := s.dump()
			if result := s.must(refused)[0]; !strings.Contains(result, c.says) {
				t.Errorf("the result is %s, without %s", result, c.says)
			}
			if dump := s.dump(); dump != before {
				t.Errorf("something has changed:\n%s", difference(dump, before))
			}
		})
	}
}
