package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"queen/raftlog/command"
)

func TestLogIsCutByBytesAndARestartAfterTheCutWorks(t *testing.T) {
	o := testOptions(t)
	o.fileBytes, o.LogMaxBytes, o.DurableEveryMs, o.LogKeepEntries = 1<<20, 1<<20, 10, 1_000_000
	machine := &recorder{}
	n, err := Open(o, machine)
	if err != nil {
		t.Fatal(err)
	}
	const commands = 1000
	for i := range uint64(commands) {
		eventually(t, "room", func() bool { return !errors.Is(n.Propose(sized(i, 32_000)), ErrQueueFull) })
	}
	eventually(t, "cut", func() bool {
		status := n.Status()
		held, _ := machine.AppliedIndex()
		return status.FirstIndex > 1 && status.LogBytes <= 4<<20 && held == status.LastIndex && status.WaitingCommands == 0
	})
	first := n.Status().FirstIndex
	closeNode(t, n)
	applied := len(machine.items)

	again := openNode(t, o, machine)
	if got := again.Status().FirstIndex; got > 0 && got < first {
		t.Fatalf("the log begins at %d, was cut up to %d", got, first)
	}
	waitLeader(t, again)
	mustPropose(t, again, extend(1))
	eventually(t, "applying after the restart", func() bool { return len(machine.numbers()) == 1 })
	// The first entry of the new term, and the command; nothing twice.
	if got := len(machine.items); got != applied+2 {
		t.Fatalf("%d commands were applied after the restart, want 2", got-applied)
	}
	closeNode(t, again)
	wantDamage(t, o, &recorder{}, "the log begins at entry")
}

func TestEntriesBehindTheDurablePointAreKept(t *testing.T) {
	o := testOptions(t)
	o.fileBytes, o.DurableEveryMs, o.LogKeepEntries = 4096, 10, 16
	machine := &recorder{}
	n := openNode(t, o, machine)
	for i := uint64(1); i <= 1500; i++ {
		mustPropose(t, n, extend(i))
		if i%5 == 0 {
			wantNumbers(t, machine, i)
		}
	}
	eventually(t, "cut", func() bool { return n.Status().FirstIndex > 1 })
	status := n.Status()
	if kept := status.DurableIndex + 1 - status.FirstIndex; kept < 16 {
		t.Fatalf("the log begins at %d, durable is %d: %d entries are kept", status.FirstIndex, status.DurableIndex, kept)
	}
}

func TestStartWith64MiBOfLogIsFast(t *testing.T) {
	o := testOptions(t)
	o.ElectionMs = 150
	o.DurableEveryMs = 60000
	o.LogMaxBytes = 1 << 30
	machine := &answerer{}
	n, err := Open(o, machine)
	if err != nil {
		t.Fatal(err)
	}
	waitLeader(t, n)
	for i := range uint64(64 << 20 / 4000) {
		eventually(t, "room", func() bool { return !errors.Is(n.Propose(unanswered(i, 4000)), ErrQueueFull) })
	}
	eventually(t, "applying", func() bool { return n.Status().WaitingCommands+n.Status().InFlightEntries == 0 })
	copied := o
	copied.Dir = killCopy(t, o.Dir)
	closeNode(t, n)
	for name, options := range map[string]Options{"clean": o, "killed": copied} {
		start := time.Now()
		held, _ := machine.AppliedIndex()
		state := &answerer{}
		if name == "clean" {
			state.index.Store(held)
			state.term.Store(machine.term.Load())
		}
		again, err := Open(options, state)
		if err != nil {
			t.Fatal(err)
		}
		opened := time.Since(start)
		waitLeader(t, again)
		if err := again.WaitApplied(testContext(t), held); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: open %v, serving %v, %d MiB", name, opened, time.Since(start), again.Status().LogBytes>>20)
		closeNode(t, again)
	}
}

// unanswered is a command for the answerer that no client waits for.
func unanswered(number uint64, bytes int) Proposal {
	c := sized(number, bytes)
	c.Item.Request = command.RequestID{}
	return c
}

func TestRecordOfTheLogSurvivesTheCodec(t *testing.T) {
	logs := []raft.Log{
		{Index: 1, Term: 2, Type: raft.LogNoop},
		{Index: 1 << 40, Term: 3, Type: raft.LogCommand, Data: []byte("data"), Extensions: []byte("more"),
			AppendedAt: time.Unix(1_700_000_000, 123)},
		{Index: 3, Term: 3, Type: raft.LogConfiguration, Data: []byte("x")},
		{Index: 4, Term: 3, Extensions: []byte("only")},
	}
	for _, want := range logs {
		var buffer strings.Builder
		if err := (recordCodec{}).Encode(&want, &buffer); err != nil {
			t.Fatal(err)
		}
		var got raft.Log
		if err := (recordCodec{}).Decode([]byte(buffer.String()), &got); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		for i := range buffer.Len() {
			broken := []byte(buffer.String())
			broken[i] ^= 1
			if err := (recordCodec{}).Decode(broken, &got); !errors.Is(err, errBadRecord) {
				t.Fatalf("flipped byte %d: err = %v", i, err)
			}
		}
	}
}

func FuzzRecordDecode(f *testing.F) {
	var buffer strings.Builder
	if err := (recordCodec{}).Encode(&raft.Log{Index: 5, Data: []byte("d"), Extensions: []byte("e")}, &buffer); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(buffer.String()))
	f.Fuzz(func(t *testing.T, data []byte) {
		var log raft.Log
		if err := (recordCodec{}).Decode(data, &log); err != nil && !errors.Is(err, errBadRecord) {
			t.Fatalf("undeclared error %v", err)
		}
	})
}

func TestCommandLargerThanALogFileIsFoundAgain(t *testing.T) {
	o := testOptions(t)
	machine := &answerer{}
	n, err := Open(o, machine)
	if err != nil {
		t.Fatal(err)
	}
	waitLeader(t, n)
	mustPropose(t, n, unanswered(1, logFileBytes+1000))
	mustPropose(t, n, unanswered(2, 100))
	eventually(t, "applying", func() bool { return n.Status().WaitingCommands+n.Status().InFlightEntries == 0 })
	held := machine.index.Load()
	copied := o
	copied.Dir = killCopy(t, o.Dir)
	closeNode(t, n)
	again := &answerer{}
	if err := openNode(t, copied, again).WaitApplied(testContext(t), held); err != nil {
		t.Fatal(err)
	}
}

func TestLogCacheStaysWithinItsBounds(t *testing.T) {
	const maxBytes = 1000
	rapid.Check(t, func(t *rapid.T) {
		cache := &logCache{maxBytes: maxBytes}
		next := uint64(1)
		have := map[uint64]int{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.IntRange(0, 20).Draw(t, "step") == 0 {
				cache.drop()
				clear(have)
				next = rapid.Uint64Range(1, 1000).Draw(t, "next")
			}
			size := rapid.IntRange(0, 300).Draw(t, "size")
			cache.put([]*raft.Log{{Index: next, Data: make([]byte, size)}})
			have[next] = size
			next++
			var log raft.Log
			if !cache.get(next-1, &log) || len(log.Data) != size || cache.get(next, &log) {
				t.Fatalf("the newest entry is not %d", next-1)
			}
			total, count := 0, 0
			for index := uint64(1); index < next; index++ {
				if cache.get(index, &log) {
					if size, ok := have[index]; !ok || size != len(log.Data) || log.Index != index {
						t.Fatalf("entry %d is wrong", index)
					}
					total += len(log.Data)
					count++
				}
			}
			if total > maxBytes || count > logCacheEntries || int64(total) != cache.bytes {
				t.Fatalf("%d entries with %d bytes, counted %d", count, total, cache.bytes)
			}
		}
	})
}
