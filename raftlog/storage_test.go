package raftlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"queen/raftlog/command"
)

// runOnce opens a node, has the numbers from..to applied one entry each, and closes it.
func runOnce(t *testing.T, o Options, machine *recorder, from, to uint64) {
	t.Helper()
	n, err := Open(o, machine)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i <= to; i++ {
		mustPropose(t, n, extend(i))
		wantNumbers(t, machine, i)
	}
	closeNode(t, n)
}

func logFilesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("log files: %v %v", files, err)
	}
	return files
}

func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := file.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := file.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantDamage opens the directory and wants ErrDamaged with a text that has all the words.
func wantDamage(t *testing.T, o Options, machine StateMachine, words ...string) {
	t.Helper()
	n, err := Open(o, machine)
	if err == nil {
		closeNode(t, n)
		t.Fatal("the directory is accepted")
	}
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("err = %v, want ErrDamaged", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("err = %v, want it to name %q", err, word)
		}
	}
}

func TestEveryFlippedByteOfTheLogIsFoundAtBoot(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 4096
	machine := &recorder{}
	runOnce(t, o, machine, 1, 60)
	files := logFilesIn(t, o.Dir)
	if len(files) < 3 {
		t.Fatalf("%d files, want several", len(files))
	}
	meta, err := openMeta(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files[:2] {
		original, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for offset := int64(0); offset < int64(len(original)); offset += 3 {
			if allZero(original[offset:]) {
				break // never written
			}
			flip(t, path, offset)
			_, err = verifyLog(o.Dir, meta.files())
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Fatalf("byte %d of %s: err = %v", offset, filepath.Base(path), err)
			}
			flip(t, path, offset)
		}
	}
}

func TestFlippedByteInTheOpenFileNamesFileAndIndex(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 30)
	path := logFilesIn(t, o.Dir)[0]
	flip(t, path, 400)
	wantDamage(t, o, machine, filepath.Base(path), "log entry")
}

func TestTornEndOfTheLogIsCut(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 10)
	held, _ := machine.AppliedIndex()
	path := logFilesIn(t, o.Dir)[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(data)
	for end > 0 && data[end-1] == 0 {
		end--
	}
	// An append of which only a part reached the disk: a frame without its commit frame.
	end = (end + 7) / 8 * 8
	torn := append([]byte{frameEntry, 0, 0, 0, 64, 0, 0, 0}, strings.Repeat("torn ", 10)...)
	copy(data[end:], torn)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	n := openNode(t, o, machine)
	if status := n.Status(); status.LastIndex != held {
		t.Fatalf("the log ends at %d, want %d", status.LastIndex, held)
	}
	mustPropose(t, n, extend(11))
	wantNumbers(t, machine, 11)
}

func TestLogThatEndsBelowTheStoreIsRefused(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 10)
	held, term := machine.AppliedIndex()
	wantDamage(t, o, &recorder{index: held + 5, term: term}, ".wal", fmt.Sprint(held), fmt.Sprint(held+5))
	wantDamage(t, o, &recorder{index: held, term: term + 1}, fmt.Sprintf("entry %d", held))
}

func TestMissingFilesAreNamed(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 4096
	machine := &recorder{}
	runOnce(t, o, machine, 1, 60)
	files := logFilesIn(t, o.Dir)
	for _, name := range []string{filepath.Base(files[0]), filepath.Base(files[1]), metaFile} {
		copied := o
		copied.Dir = killCopy(t, o.Dir)
		if err := os.Remove(filepath.Join(copied.Dir, name)); err != nil {
			t.Fatal(err)
		}
		wantDamage(t, copied, machine, name)
	}
	copied := o
	copied.Dir = t.TempDir()
	wantDamage(t, copied, machine, metaFile)
}

func TestUnreadableRecordsAreNamed(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	runOnce(t, o, machine, 1, 5)
	for _, name := range []string{metaFile, snapshotFile} {
		copied := o
		copied.Dir = killCopy(t, o.Dir)
		flip(t, filepath.Join(copied.Dir, name), 12)
		wantDamage(t, copied, machine, name)
	}
}

func TestCrashBetweenSealAndRotationKeepsTheLogWritable(t *testing.T) {
	o := testOptions(t)
	o.fileBytes = 4096
	machine := &recorder{}
	runOnce(t, o, machine, 1, 60)
	// As if the process had died before the list of files said that the last but one is full.
	meta, err := openMeta(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	files := meta.files()
	last := files[len(files)-1]
	if err := os.Remove(filepath.Join(o.Dir, last.name())); err != nil {
		t.Fatal(err)
	}
	record := meta.record
	record.NextFile = last.ID
	record.Files = files[:len(files)-1]
	open := &record.Files[len(record.Files)-1]
	end := open.MaxIndex
	open.MaxIndex, open.IndexStart, open.Sealed = 0, 0, time.Time{}
	if err := meta.replace(record); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(o.Dir, snapshotFile)); err != nil {
		t.Fatal(err)
	}
	behind := &recorder{}
	n := openNode(t, o, behind)
	if got := n.Status().LastIndex; got < end {
		t.Fatalf("the log ends at %d, want %d", got, end)
	}
	waitLeader(t, n)
	for i := uint64(1000); i < 1100; i++ {
		mustPropose(t, n, extend(i))
	}
	eventually(t, "applying", func() bool {
		numbers := behind.numbers()
		return len(numbers) > 100 && numbers[len(numbers)-1] == 1099
	})
}

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
	if status.FirstIndex+16 > status.DurableIndex {
		t.Fatalf("the log begins at %d, durable is %d", status.FirstIndex, status.DurableIndex)
	}
}

func TestFailedAppendStopsTheNodeAndAcknowledgesNothing(t *testing.T) {
	machine := &recorder{}
	n := openNode(t, testOptions(t), machine)
	waitLeader(t, n)
	mustPropose(t, n, extend(1))
	wantNumbers(t, machine, 1)
	err := n.log.files.fail("flush log file", "test", syscall.ENOSPC)
	if !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("err = %v", err)
	}
	reasons := make(chan error, 1)
	lost := extend(2)
	lost.Dropped = func(reason error) { reasons <- reason }
	mustPropose(t, n, lost)
	select {
	case reason := <-reasons:
		if !errors.Is(reason, ErrStorage) || !errors.Is(reason, ErrOutcomeUnknown) || !errors.Is(reason, syscall.ENOSPC) {
			t.Fatalf("dropped for %v", reason)
		}
	case <-testContext(t).Done():
		t.Fatal("the command was forgotten")
	}
	if err := n.Propose(extend(3)); !errors.Is(err, ErrStorage) {
		t.Fatalf("err = %v", err)
	}
	if _, err := n.ReadIndex(testContext(t)); !errors.Is(err, ErrStorage) {
		t.Fatalf("err = %v", err)
	}
	if status := n.Status(); status.Role != RoleStopped || !errors.Is(status.Failure, syscall.ENOSPC) {
		t.Fatalf("status = %+v", status)
	}
	if got := machine.numbers(); len(got) != 1 {
		t.Fatalf("applied %v", got)
	}
}

func TestApplyFailureStopsTheGroupAndSaysWhere(t *testing.T) {
	for name, machine := range map[string]*recorder{"error": {failAt: 3}, "panic": {panicAt: 3}} {
		t.Run(name, func(t *testing.T) {
			n := openNode(t, testOptions(t), machine)
			waitLeader(t, n)
			for i := uint64(1); i <= 2; i++ {
				mustPropose(t, n, extend(i))
				wantNumbers(t, machine, i)
			}
			held, _ := machine.AppliedIndex()
			mustPropose(t, n, extend(3))
			eventually(t, "stop", func() bool { return n.Status().Role == RoleStopped })
			failure := n.Status().ApplyFailure
			if failure == nil || failure.Index != held+1 || len(failure.Digest) != 16 || !errors.Is(failure, ErrApply) {
				t.Fatalf("failure = %+v", failure)
			}
			if name == "error" && !errors.Is(n.Failed(), errRefused) {
				t.Fatalf("failed = %v", n.Failed())
			}
			if err := n.Propose(extend(4)); !errors.Is(err, ErrApply) {
				t.Fatalf("err = %v", err)
			}
			if err := n.WaitApplied(testContext(t), held+1); !errors.Is(err, ErrApply) {
				t.Fatalf("err = %v", err)
			}
		})
	}
}

func TestFailedDurablePointStopsTheNode(t *testing.T) {
	o := testOptions(t)
	o.DurableEveryMs = 10
	n := openNode(t, o, &recorder{failDurable: syscall.EIO})
	eventually(t, "stop", func() bool { return n.Status().Role == RoleStopped })
	if !errors.Is(n.Failed(), ErrStorage) || !errors.Is(n.Failed(), syscall.EIO) {
		t.Fatalf("failed = %v", n.Failed())
	}
}

func TestCloseDropsOrAppliesEveryCommand(t *testing.T) {
	for range 8 {
		machine := &recorder{}
		n, err := Open(testOptions(t), machine)
		if err != nil {
			t.Fatal(err)
		}
		waitLeader(t, n)
		var accepted, dropped, unknown atomic.Int64
		var group sync.WaitGroup
		for client := range uint64(4) {
			group.Go(func() {
				for i := uint64(1); ; i++ {
					c := extend(client<<32 | i)
					c.Dropped = func(reason error) {
						dropped.Add(1)
						if errors.Is(reason, ErrOutcomeUnknown) {
							unknown.Add(1)
						}
					}
					switch err := n.Propose(c); {
					case err == nil:
						accepted.Add(1)
					case !errors.Is(err, ErrQueueFull):
						return
					}
				}
			})
		}
		eventually(t, "work", func() bool { return accepted.Load() > 100 })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		applied := int64(len(machine.numbers()))
		if sum := applied + dropped.Load(); sum < accepted.Load() || sum > accepted.Load()+unknown.Load() {
			t.Fatalf("accepted %d, applied %d, dropped %d of which unknown %d",
				accepted.Load(), applied, dropped.Load(), unknown.Load())
		}
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
