package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"queen/actors/machine/deadletter"
	"queen/actors/machine/partition"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
	"queen/store/layout"
)

// testSealer seals by wrapping, as long as it has a key.
type testSealer struct{ usable, broken atomic.Bool }

func (s *testSealer) Usable() bool { return s.usable.Load() }

func (s *testSealer) Seal(payload []byte) ([]byte, error) {
	if s.broken.Load() {
		return nil, errors.New("no")
	}
	return fmt.Appendf(nil, `{"encrypted":%q}`, payload), nil
}

// firing makes a rig fire timers quickly.
func firing(change ...func(*TimersConfig)) func(*Config) {
	return func(c *Config) {
		c.Timers = TimersConfig{
			Tick: time.Millisecond, Batch: 256, MaxBytes: 4 << 20, MaxPayloadBytes: 1 << 20,
			Backoff: command.TimerBackoff{MinMs: 1, MaxMs: 2, TransientMs: 1, MaxAttempts: 3},
		}
		for _, f := range change {
			f(&c.Timers)
		}
	}
}

// scheduled is an operation with the key as txid.
func scheduled(queue, key string, delay time.Duration) command.TimerOp {
	return command.TimerOp{
		Kind: command.TimerSchedule, Queue: queue, Key: key, Txid: key, Partition: "p", DelayMicros: delay.Microseconds(),
		MessageID: uuid.Must(uuid.NewV7()), Payload: fmt.Appendf(nil, "%q", key),
	}
}

func (r *rig) tryTimers(ops ...command.TimerOp) ([]command.TimerOpResult, error) {
	r.t.Helper()
	result, err := r.Execute(soon(), &command.Timers{Tenant: command.DefaultTenant, Ops: ops})
	if err != nil {
		return nil, err
	}
	return result.(*command.TimersResult).Ops, nil
}

func (r *rig) callTimers(ops ...command.TimerOp) []command.TimerOpResult {
	r.t.Helper()
	results, err := r.tryTimers(ops...)
	if err != nil {
		r.t.Fatal(err)
	}
	return results
}

func (r *rig) turn(c command.Switches) {
	r.t.Helper()
	if _, err := r.Execute(soon(), &c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) timersPending() uint64 {
	r.t.Helper()
	usage, err := r.Timers()
	if err != nil {
		r.t.Fatal(err)
	}
	return usage.Pending
}

func (r *rig) timer(queue, key string) *timer.Row {
	r.t.Helper()
	view := r.LocalView()
	defer view.Close()
	reads := timer.Reads{Reader: view, Check: context.Background().Err}
	row, _, err := reads.Peek(command.DefaultTenant, queue, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return row
}

// stored lists the messages of a partition.
func (r *rig) stored(queue, name string) (found []command.Message) {
	r.t.Helper()
	of := r.directory.Queue(command.DefaultTenant, queue)
	if of == nil {
		return nil
	}
	id := r.partitionID(of.ID, name)
	if id == 0 {
		return nil
	}
	view := r.LocalView()
	defer view.Close()
	err := partition.ReadMessages(view, partition.MessageRange{Queue: of.ID, Partition: id, First: 0, End: 1 << 20},
		func(_, _ uint64, m *command.Message) (bool, error) {
			kept := *m
			kept.Payload, kept.Txid = append([]byte(nil), m.Payload...), append([]byte(nil), m.Txid...)
			found = append(found, kept)
			return true, nil
		})
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

func (r *rig) deadLetters(queue string) (found []*deadletter.Row) {
	r.t.Helper()
	of := r.directory.Queue(command.DefaultTenant, queue)
	if of == nil {
		return nil
	}
	view := r.LocalView()
	defer view.Close()
	if err := view.Scan(layout.DeadLettersOf(of.ID), nil, func(_, value []byte) bool {
		row, err := deadletter.DecodeRow(value)
		if err != nil {
			r.t.Fatal(err)
		}
		found = append(found, row)
		return true
	}); err != nil {
		r.t.Fatal(err)
	}
	return found
}

func zstdOf(t testing.TB, plain string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	return encoder.EncodeAll([]byte(plain), nil)
}

func TestTimerFiresWhenItIsDue(t *testing.T) {
	r := newRig(t, firing())
	op := scheduled("q", "k", time.Minute)
	op.ProducerSub = "alice"
	r.callTimers(op, scheduled("q", "later", time.Hour))
	if found := r.stored("q", "p"); found != nil || r.timersPending() != 2 {
		t.Fatalf("fired early: %+v", found)
	}
	r.log.ahead(time.Minute)
	eventually(t, "firing", func() bool { return len(r.stored("q", "p")) == 1 })
	if m := r.stored("q", "p")[0]; m.ID != op.MessageID || string(m.Txid) != "k" || string(m.Payload) != `"k"` || string(m.ProducerSub) != "alice" {
		t.Errorf("fired %+v", m)
	}
	if r.timersPending() != 1 || r.timer("q", "k") != nil {
		t.Error("a timer that has fired is pending")
	}
}

func TestFiringWakesAParkedPop(t *testing.T) {
	r := newRig(t, firing())
	p := r.start(wildcard("q", waiting))
	r.parkedIn("q", "workers", 1)
	r.callTimers(scheduled("q", "k", 20*time.Millisecond))
	outcome := p.wait(t)
	if len(outcome.Batches) != 1 {
		t.Fatalf("popped %+v", outcome)
	}
	r.ack(outcome, command.AckCompleted, "k")
	p = r.start(wildcard("q", waiting))
	r.parkedIn("q", "workers", 1)
	r.callTimers(scheduled("q", "at once", -time.Second))
	if outcome := p.wait(t); len(outcome.Batches) != 1 {
		t.Errorf("popped %+v", outcome)
	}
}

// A delay that is over fires in the entry that schedules it, also when nothing ever ticks (state 3.6).
func TestDelayThatIsOverFiresInItsEntry(t *testing.T) {
	r := newRig(t)
	entries := len(r.log.entries())
	packed := scheduled("q", "zstd", -1)
	packed.Payload, packed.Zstd, packed.Inflated = zstdOf(t, "[1]"), true, []byte("[1]")
	results := r.callTimers(scheduled("q", "now", 0), scheduled("q", "before", -time.Second), packed, scheduled("q", "later", time.Microsecond))
	for i, want := range []bool{true, true, true, false} {
		if results[i].Fired != want || results[i].Status != command.TimerScheduled {
			t.Errorf("operation %d: %+v", i, results[i])
		}
	}
	if found := r.stored("q", "p"); len(found) != 3 || string(found[2].Payload) != "[1]" || r.timersPending() != 1 {
		t.Errorf("stored %+v", found)
	}
	if n := len(r.log.entries()); n != entries+1 {
		t.Errorf("%d entries", n-entries)
	}
}

// Dedup applies to what fires (state 3.6): the timer is done, and nothing is appended.
func TestDuplicateOfATimerIsDropped(t *testing.T) {
	r := newRig(t, firing())
	r.push("q", "p", "k")
	r.callTimers(scheduled("q", "k", time.Millisecond))
	eventually(t, "the end of the timer", func() bool { return r.timersPending() == 0 })
	if found := r.stored("q", "p"); len(found) != 1 {
		t.Errorf("stored %+v", found)
	}
}

func TestCompressedPayloadIsDecompressedWhenItFires(t *testing.T) {
	r := newRig(t, firing())
	op := scheduled("q", "k", time.Millisecond)
	op.Payload, op.Zstd = zstdOf(t, `{"n":1}`), true
	r.callTimers(op)
	eventually(t, "firing", func() bool { return len(r.stored("q", "p")) == 1 })
	if m := r.stored("q", "p")[0]; string(m.Payload) != `{"n":1}` || m.Encrypted {
		t.Errorf("fired %+v", m)
	}
}

// What can never fire is put off a few times and becomes a dead letter of the destination, which is made for it (state 3.6).
func TestTimerThatCannotFireBecomesADeadLetter(t *testing.T) {
	for name, c := range map[string]struct {
		payload []byte
		reason  string
	}{
		"no zstd":   {[]byte("nonsense"), "not zstd"},
		"no JSON":   {zstdOf(t, "{"), "not JSON"},
		"too large": {zstdOf(t, `"`+strings.Repeat("x", 1<<20)+`"`), "expands beyond"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, firing())
			op := scheduled("q", "k", time.Millisecond)
			op.Payload, op.Zstd = c.payload, true
			r.callTimers(op, scheduled("q", "good", 2*time.Millisecond))
			eventually(t, "filing", func() bool { return len(r.deadLetters("q")) == 1 })
			row := r.deadLetters("q")[0]
			if row.Group != "__timer__" || row.RetryCount != 3 || string(row.Txid) != "k" || row.Partition != "p" || !strings.Contains(row.Error, c.reason) {
				t.Errorf("filed %+v", row)
			}
			eventually(t, "the other timer", func() bool { return len(r.stored("q", "p")) == 1 })
			if r.timersPending() != 0 {
				t.Error("it is still pending")
			}
			// The letter is one of the partition, and does not take the place of a message.
			if answer := r.pop(wildcard("q")); len(answer.Batches) != 1 || answer.Batches[0].FirstOffset != 0 {
				t.Errorf("popped %+v", answer)
			}
		})
	}
}

// A queue that encrypts gets nothing in clear: what was scheduled before is encrypted when it fires, and waits for a key as long as
// there is none (state 8.1, 8.2).
func TestTimerIsEncryptedWhenItFires(t *testing.T) {
	sealer := &testSealer{}
	r := newRig(t, firing(func(c *TimersConfig) { c.Sealer = sealer }))
	r.callTimers(scheduled("q", "k", time.Minute))
	r.configure("q", command.OptionChange{Key: command.OptionEncryptionEnabled, Flag: true})
	var refusal *command.Refusal
	if _, err := r.tryTimers(scheduled("q", "clear", time.Minute)); !errors.As(err, &refusal) || refusal.Code != "retry" {
		t.Errorf("a payload in clear: %v", err)
	}
	r.log.ahead(time.Minute)
	eventually(t, "putting off", func() bool { row := r.timer("q", "k"); return row.LastError != "" })
	sealer.broken.Store(true)
	sealer.usable.Store(true)
	eventually(t, "a cipher that fails", func() bool { return strings.Contains(r.timer("q", "k").LastError, "could not be encrypted") })
	if row := r.timer("q", "k"); row.Attempts != 0 || r.stored("q", "p") != nil {
		t.Errorf("without a key: %+v", row)
	}
	sealer.broken.Store(false)
	eventually(t, "firing", func() bool { return len(r.stored("q", "p")) == 1 })
	if m := r.stored("q", "p")[0]; !m.Encrypted || !strings.HasPrefix(string(m.Payload), `{"encrypted":`) {
		t.Errorf("fired %+v", m)
	}
}

func TestSwitchStopsFiringOnly(t *testing.T) {
	r := newRig(t, firing())
	r.turn(command.Switches{Off: command.SwitchTimersFire})
	r.callTimers(scheduled("q", "a", time.Millisecond), scheduled("q", "b", -time.Second), scheduled("q", "c", 2*time.Millisecond))
	time.Sleep(20 * time.Millisecond) // twenty ticks in which nothing may happen
	if r.stored("q", "p") != nil || r.timersPending() != 3 {
		t.Error("something fired")
	}
	r.callTimers(command.TimerOp{Kind: command.TimerCancel, Queue: "q", Key: "c"})
	r.turn(command.Switches{On: command.SwitchTimersFire})
	eventually(t, "the backlog", func() bool { return len(r.stored("q", "p")) == 2 })
	if found := r.stored("q", "p"); string(found[0].Txid) != "b" || string(found[1].Txid) != "a" {
		t.Errorf("not the oldest first: %+v", found)
	}
}

func TestSwitchStopsSchedulingOnly(t *testing.T) {
	r := newRig(t, firing())
	r.callTimers(scheduled("q", "a", time.Hour))
	r.turn(command.Switches{Off: command.SwitchTimersSchedule})
	if r.SwitchedOff() != command.SwitchTimersSchedule {
		t.Error("nobody is told")
	}
	cancel := command.TimerOp{Kind: command.TimerCancel, Queue: "q", Key: "a"}
	var refusal *command.Refusal
	if _, err := r.tryTimers(cancel, scheduled("q", "b", time.Hour)); !errors.As(err, &refusal) || refusal.Code != "timers_disabled" || r.timersPending() != 1 {
		t.Errorf("a call with a schedule: %v", err)
	}
	result, err := r.Execute(soon(), &command.Transaction{Tenant: command.DefaultTenant, Timers: []command.TimerOp{scheduled("q", "b", time.Hour)}})
	if err != nil || result.(*command.TransactionResult).Reason != "timers_disabled" {
		t.Errorf("a transaction: %+v, %v", result, err)
	}
	if results := r.callTimers(cancel); results[0].Status != command.TimerCancelled {
		t.Errorf("a cancel: %+v", results)
	}
}

// Timers of a transaction take effect with the rest of it, or not at all (I6).
func TestTimersRideInTransactions(t *testing.T) {
	r := newRig(t, firing())
	r.callTimers(scheduled("q", "old", time.Hour))
	ops := []command.TimerOp{
		scheduled("q", "new", time.Hour), {Kind: command.TimerCancel, Queue: "q", Key: "old"}, {Kind: command.TimerCancel, Queue: "q", Key: "none"},
		scheduled("q", "now", 0),
	}
	r.push("q", "p", "duplicate")
	run := func(txid string) *command.TransactionResult {
		result, err := r.Execute(soon(), &command.Transaction{Tenant: command.DefaultTenant, Timers: ops, Pushes: []command.PushGroup{pushGroup("q", "p", txid)}})
		if err != nil {
			t.Fatal(err)
		}
		return result.(*command.TransactionResult)
	}
	if result := run("duplicate"); result.Reason != "duplicate" || r.timersPending() != 1 || r.timer("q", "old") == nil || len(r.stored("q", "p")) != 1 {
		t.Errorf("rolled back: %+v", result)
	}
	result := run("fresh")
	var statuses []string
	for _, op := range result.Timers {
		statuses = append(statuses, op.Status.String())
	}
	if got := strings.Join(statuses, " "); result.Reason != "" || got != "scheduled cancelled absent scheduled" {
		t.Errorf("committed: %q %s", result.Reason, got)
	}
	if r.timer("q", "old") != nil || r.timer("q", "new") == nil || len(r.stored("q", "p")) != 3 {
		t.Errorf("stored %+v", r.stored("q", "p"))
	}
}

// Many timers that are due at once leave in bounded steps, in the order of deliverAt.
func TestBacklogFiresInSteps(t *testing.T) {
	r := newRig(t, firing(func(c *TimersConfig) { c.Batch = 100 }))
	const many = 1000
	for at := 0; at < many; at += 250 {
		var ops []command.TimerOp
		for i := range 250 {
			ops = append(ops, scheduled("q", fmt.Sprintf("%04d", at+i), time.Minute+time.Duration(at+i)*time.Millisecond))
		}
		r.callTimers(ops...)
	}
	fires := len(r.fires())
	r.log.ahead(time.Hour)
	eventually(t, "the backlog", func() bool { return r.timersPending() == 0 })
	found := r.stored("q", "p")
	for i, m := range found {
		if string(m.Txid) != fmt.Sprintf("%04d", i) {
			t.Fatalf("message %d is %s", i, m.Txid)
		}
	}
	if n := len(r.fires()) - fires; len(found) != many || n < many/100 {
		t.Errorf("%d messages in %d fires", len(found), n)
	}
}

func (r *rig) fires() (found []int) {
	for i, kinds := range r.log.entries() {
		for _, kind := range kinds {
			if strings.HasSuffix(kind, ".TimerFire") {
				found = append(found, i)
			}
		}
	}
	return found
}

// A fire has at most as many bytes as the settings say, except for a single payload that is larger.
func TestBytesOfOneFireAreBounded(t *testing.T) {
	r := newRig(t, firing(func(c *TimersConfig) { c.MaxBytes = 10_000 }))
	var ops []command.TimerOp
	for i, size := range []int{4000, 4000, 4000, 20_000, 1} {
		op := scheduled("q", fmt.Sprint(i), time.Minute+time.Duration(i))
		op.Payload = []byte(`"` + strings.Repeat("x", size) + `"`)
		if i == 2 {
			op.Payload, op.Zstd = zstdOf(t, string(op.Payload)), true // it grows when it is planned
		}
		ops = append(ops, op)
	}
	r.callTimers(ops...)
	r.log.ahead(time.Hour)
	eventually(t, "firing", func() bool { return r.timersPending() == 0 })
	if n := len(r.fires()); n != 4 { // two, the one that has grown, the large one, the last
		t.Errorf("%d fires", n)
	}
	if found := r.stored("q", "p"); len(found) != 5 || len(found[2].Payload) != 4002 {
		t.Errorf("%d messages", len(found))
	}
}

func TestNoTickFiresNothing(t *testing.T) {
	r := newRig(t, firing(func(c *TimersConfig) { c.Tick = 0 }))
	r.callTimers(scheduled("q", "k", time.Millisecond))
	r.log.ahead(time.Hour)
	time.Sleep(20 * time.Millisecond)
	if r.timersPending() != 1 {
		t.Error("it fired")
	}
}

// A timer that is large keeps its bucket, and the mover takes it along.
func TestMoverEmptiesABucketOfTimers(t *testing.T) {
	r := newRig(t)
	op := scheduled("q", "large", time.Hour)
	op.Payload = []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	r.callTimers(op)
	for i := range 12 { // until other buckets are open
		group := command.PushGroup{Queue: "q", Partition: "p", Count: 1, Chunk: command.AppendMessage(nil, &command.Message{
			ID: uuid.Must(uuid.NewV7()), Txid: []byte(fmt.Sprint(i)), Payload: []byte(`"` + strings.Repeat("y", 200_000) + `"`)})}
		if _, err := r.Push(command.DefaultTenant, []command.PushGroup{group}, soon()); err != nil {
			t.Fatal(err)
		}
	}
	bucket := r.timer("q", "large").Chunk.Bucket
	m := mover{b: r.Broker, bucket: bucket, rows: true}
	if !m.emptyRows() || m.rows || !m.moved {
		t.Fatalf("not emptied: %+v", m)
	}
	if now := r.timer("q", "large"); now.Chunk.Bucket <= bucket {
		t.Errorf("it lies in bucket %d, and lay in %d", now.Chunk.Bucket, bucket)
	}
	if m.rows = true; !m.emptyRows() || m.rows {
		t.Error("an empty bucket is not done with")
	}
}

// The estimates of commands with timers hold against what they write.
func TestTimersWriteNoMoreThanTheirEstimates(t *testing.T) {
	long := strings.Repeat("n", 205)
	var ops []command.TimerOp
	fire := &command.TimerFire{Backoff: command.TimerBackoff{MaxAttempts: 1}}
	for i := range firedAtOnce {
		op := scheduled(fmt.Sprintf("%03d%s", i%7, long), fmt.Sprintf("%s%d", long, i), time.Hour)
		op.Partition = fmt.Sprintf("%03d%s", i, long)
		ops = append(ops, op)
		fire.Timers = append(fire.Timers, command.PlannedTimer{Queue: op.Queue, Key: op.Key, Payload: op.Payload})
	}
	for name, c := range map[string]command.Command{"schedule": &command.Timers{Ops: ops[:256]}, "fire": fire} {
		keys, bytes := weigh(c)
		if keys > MaxEntryKeys || bytes > MaxEntryStateBytes {
			t.Errorf("%s: %d keys of %d, %d bytes of %d", name, keys, MaxEntryKeys, bytes, MaxEntryStateBytes)
		}
	}
	r := newRig(t, firing(func(c *TimersConfig) { c.Batch = 1 << 16 }))
	for at := 0; at < len(ops); at += 100 {
		r.callTimers(ops[at:min(at+100, len(ops))]...)
	}
	r.log.ahead(2 * time.Hour)
	eventually(t, "firing", func() bool { return r.timersPending() == 0 })
	if n := len(r.fires()); n != 1 {
		t.Errorf("%d timers in %d fires", len(ops), n)
	}
}

// Whoever leads fires what is due; what an earlier leader has planned and the next one plans again fires once (I9), and all nodes
// agree (I1).
func TestTimersFireOnceWhileLeadersCome(t *testing.T) {
	c := newCluster(t, 3, firing(func(c *TimersConfig) { c.Batch = 10 }))
	c.leading().configure("q", seconds(command.OptionDedupWindowSeconds, 0)) // or it would hide what fires twice
	const many = 300
	for at := 0; at < many; at += 20 {
		var ops []command.TimerOp
		for i := at; i < at+20; i++ {
			ops = append(ops, scheduled("q", fmt.Sprintf("%03d", i), time.Duration(20+i)*time.Millisecond))
		}
		c.members[at/20%3].callTimers(ops...)
	}
	for turn := 1; c.leading().timersPending() > 0; turn++ {
		if turn%4 == 0 {
			c.crash()
		}
		c.elect(turn % 3)
		time.Sleep(10 * time.Millisecond) // the time in which a leader fires
	}
	for _, m := range c.members {
		eventually(t, "the same state", func() bool { return m.timersPending() == 0 && len(m.stored("q", "p")) == many })
		seen := map[string]bool{}
		for _, message := range m.stored("q", "p") {
			seen[string(message.Txid)] = true
		}
		if len(seen) != many {
			t.Errorf("member %d has %d of %d messages", m.place, len(seen), many)
		}
	}
	eventually(t, "level members", func() bool {
		index, hash, err := c.members[0].StateHash()
		for _, m := range c.members[1:] {
			i, h, e := m.StateHash()
			if err != nil || e != nil || i != index || h != hash {
				return false
			}
		}
		return true
	})
}
