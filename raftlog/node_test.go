package raftlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"queen/raftlog/command"
)

func TestCommandsAreAppliedInTheOrderOfProposing(t *testing.T) {
	machine := &recorder{}
	n := openNode(t, testOptions(t), machine)
	waitLeader(t, n)
	for i := uint64(1); i <= 2000; i++ {
		mustPropose(t, n, extend(i))
	}
	wantNumbers(t, machine, 2000)
}

func TestCommandsWaitForTheFirstLeader(t *testing.T) {
	machine := &recorder{}
	n := openNode(t, testOptions(t), machine)
	for i := uint64(1); i <= 10; i++ {
		mustPropose(t, n, extend(i))
	}
	wantNumbers(t, machine, 10)
	if _, ok := machine.items[0].Command.(command.TermStart); !ok {
		t.Fatalf("the first command of the term is %T", machine.items[0].Command)
	}
}

func TestGroupCommitPacksWaitingCommands(t *testing.T) {
	o := testOptions(t)
	o.PipelineEntries = 1
	machine := &recorder{}
	release := make(chan struct{})
	machine.applied = func(item *command.Item) {
		if e, ok := item.Command.(command.Extend); ok && e.Seconds == 1 {
			<-release
		}
	}
	n := openNode(t, o, machine)
	waitLeader(t, n)
	mustPropose(t, n, extend(1))
	eventually(t, "applying of the first entry", func() bool { return len(machine.numbers()) == 1 })
	for i := uint64(2); i <= 501; i++ {
		mustPropose(t, n, extend(i))
	}
	close(release)
	wantNumbers(t, machine, 501)
	if sizes := machine.entrySizes(); len(sizes) != 2 || sizes[1] != 500 {
		t.Fatalf("entries had %v commands, want [1 500]", sizes)
	}
}

func TestEntriesStayWithinTheLimitsOfABatch(t *testing.T) {
	o := testOptions(t)
	o.BatchMaxCommands, o.BatchMaxBytes, o.MaxEntryKeys = 10, 4096, 100
	machine := &recorder{}
	n := openNode(t, o, machine)
	for i := uint64(1); i <= 25; i++ {
		mustPropose(t, n, extend(i))
	}
	for i := uint64(26); i <= 30; i++ {
		heavy := extend(i)
		heavy.Weight.Keys = 60
		mustPropose(t, n, heavy)
	}
	mustPropose(t, n, sized(1, 3000))
	mustPropose(t, n, sized(2, 3000))
	mustPropose(t, n, sized(3, 30000))
	eventually(t, "applying", func() bool {
		machine.mu.Lock()
		defer machine.mu.Unlock()
		return len(machine.items) == 1+30+3
	})
	for _, entry := range machine.entries {
		bytes := len(command.EncodeEntry(&entry))
		if len(entry.Items) > 10 || (bytes > 4096+command.MaxEntryOverheadBytes && len(entry.Items) > 1) {
			t.Fatalf("an entry has %d commands and %d bytes", len(entry.Items), bytes)
		}
		heavy := 0
		for _, item := range entry.Items {
			if e, ok := item.Command.(command.Extend); ok && e.Seconds >= 26 {
				heavy++
			}
		}
		if heavy > 1 {
			t.Fatalf("an entry writes %d keys", 60*heavy)
		}
	}
}

func TestTooLargeCommandIsRefusedBeforeItIsProposed(t *testing.T) {
	o := testOptions(t)
	o.BatchMaxBytes, o.EntryMaxBytes = 4096, 8192
	n := openNode(t, o, &recorder{})
	if err := n.Propose(sized(1, 9000)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("err = %v", err)
	}
	heavy := extend(1)
	heavy.Weight.Bytes = o.MaxEntryStateBytes + 1
	if err := n.Propose(heavy); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("err = %v", err)
	}
}

func TestFullQueueRefuses(t *testing.T) {
	o := testOptions(t)
	o.CommandQueueDepth, o.PipelineEntries = 64, 1
	machine := &recorder{}
	release := make(chan struct{})
	machine.applied = func(item *command.Item) {
		if e, ok := item.Command.(command.Extend); ok && e.Seconds == 1 {
			<-release
		}
	}
	n := openNode(t, o, machine)
	mustPropose(t, n, extend(1))
	eventually(t, "applying of the first entry", func() bool { return len(machine.numbers()) == 1 })
	for i := uint64(2); i <= 65; i++ {
		mustPropose(t, n, extend(i))
	}
	if err := n.Propose(extend(66)); !errors.Is(err, ErrQueueFull) {
		t.Fatalf("err = %v", err)
	}
	close(release)
	wantNumbers(t, machine, 65)
}

func TestGoneAndLateCommandsAreDroppedAndNeverApplied(t *testing.T) {
	clock := newFakeClock()
	o := testOptions(t)
	o.Clock = clock
	machine := &recorder{}
	n := openNode(t, o, machine)
	var mu sync.Mutex
	reasons := map[uint64]error{}
	watched := func(number uint64, gone bool, deadline time.Duration) {
		c := extend(number)
		c.Gone = func() bool { return gone }
		c.DeadlineMonotonic = deadline
		c.Dropped = func(reason error) {
			mu.Lock()
			defer mu.Unlock()
			reasons[number] = reason
		}
		mustPropose(t, n, c)
	}
	watched(100, true, 0)
	watched(101, false, clock.Monotonic())
	watched(1, false, clock.Monotonic()+time.Second)
	watched(102, true, 0)
	watched(2, false, 0)
	wantNumbers(t, machine, 2)
	mu.Lock()
	defer mu.Unlock()
	want := map[uint64]error{100: ErrGone, 101: ErrDeadline, 102: ErrGone}
	for number, reason := range want {
		if !errors.Is(reasons[number], reason) || errors.Is(reasons[number], ErrOutcomeUnknown) {
			t.Errorf("command %d was dropped for %v, want %v", number, reasons[number], reason)
		}
	}
	if len(reasons) != len(want) {
		t.Errorf("dropped: %v", reasons)
	}
}

func TestRidersShareTheEntryOfTheirCommand(t *testing.T) {
	o := testOptions(t)
	o.BatchMaxCommands = 3
	machine := &recorder{}
	n := openNode(t, o, machine)
	first := extend(1)
	first.Riders = func() []Proposal { return []Proposal{extend(2), extend(3), extend(4)} }
	mustPropose(t, n, first)
	mustPropose(t, n, extend(5))
	wantNumbers(t, machine, 5)
	if sizes := machine.entrySizes(); sizes[0] != 3 {
		t.Fatalf("entries had %v commands, want 3 in the first", sizes)
	}
}

func TestStampsRiseOverEveryCommand(t *testing.T) {
	clock := newFakeClock()
	o := testOptions(t)
	o.Clock = clock
	machine := &recorder{}
	n := openNode(t, o, machine)
	for i := uint64(1); i <= 300; i++ {
		mustPropose(t, n, extend(i))
		if i%10 == 0 {
			clock.jumpWall(time.Duration(1-2*int64(i%20/10)) * time.Hour)
		}
	}
	wantNumbers(t, machine, 300)
	for i := 1; i < len(machine.stamps); i++ {
		if machine.stamps[i] <= machine.stamps[i-1] {
			t.Fatalf("stamp %d is %d, the one before %d", i, machine.stamps[i], machine.stamps[i-1])
		}
	}
	if now := n.Now(); now <= machine.stamps[len(machine.stamps)-1] {
		t.Fatalf("now is %d, the last stamp %d", now, machine.stamps[len(machine.stamps)-1])
	}
}

func TestRestartReplaysEachEntryOnce(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	next := uint64(1)
	for range 4 {
		n, err := Open(o, machine)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			mustPropose(t, n, extend(next))
			next++
		}
		wantNumbers(t, machine, next-1)
		closeNode(t, n)
	}
	// A store that was lost is rebuilt from the log.
	lost := &recorder{}
	n := openNode(t, o, lost)
	waitLeader(t, n)
	wantNumbers(t, lost, next-1)
}

// killCopy returns a copy of the directory as kill -9 would leave it. The node does nothing but make durable points; a copy
// that met one is taken again.
func killCopy(t *testing.T, dir string) string {
	t.Helper()
	var to string
	eventually(t, "a copy", func() bool {
		to = filepath.Join(t.TempDir(), "copy")
		before := pointFiles(t, dir)
		err := os.CopyFS(to, os.DirFS(dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil && pointFiles(t, dir) == before
	})
	return to
}

// pointFiles are the files that a durable point replaces.
func pointFiles(t *testing.T, dir string) (contents string) {
	t.Helper()
	for _, name := range []string{snapshotFile, metaFile} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		contents += string(content)
	}
	return contents
}

func TestKilledNodeFindsEverythingThatWasApplied(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	n := openNode(t, o, machine)
	for i := uint64(1); i <= 200; i++ {
		mustPropose(t, n, extend(i))
	}
	wantNumbers(t, machine, 200)
	copied := o
	copied.Dir = killCopy(t, o.Dir)
	// The state reached the disk up to the middle only.
	behind := &recorder{}
	machine.mu.Lock()
	half := len(machine.entries) / 2
	machine.mu.Unlock()
	for i := range half {
		behind.entries = append(behind.entries, machine.entries[i])
		behind.items = append(behind.items, machine.entries[i].Items...)
	}
	// Entry 1 is the membership and 2 the library's own, so the first of ours is 3; there was one term.
	behind.index, behind.term = uint64(half+2), machine.terms[0]
	again := openNode(t, copied, behind)
	waitLeader(t, again)
	wantNumbers(t, behind, 200)
	mustPropose(t, again, extend(201))
	wantNumbers(t, behind, 201)
}

func TestReadIndexWaitsForEverythingAcknowledgedBefore(t *testing.T) {
	machine := &recorder{}
	n := openNode(t, testOptions(t), machine)
	if _, err := n.ReadIndex(testContext(t)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range uint64(200) {
		done := make(chan struct{})
		machine.mu.Lock()
		machine.applied = func(item *command.Item) {
			if item.Request.Sequence == i+1 {
				close(done)
			}
		}
		machine.mu.Unlock()
		mustPropose(t, n, extend(i+1))
		<-done
		group.Go(func() {
			index, err := n.ReadIndex(testContext(t))
			if err != nil {
				t.Error(err)
			}
			if held, _ := machine.AppliedIndex(); held < index {
				t.Errorf("read at %d, applied %d", index, held)
			}
			if got := uint64(len(machine.numbers())); got < i+1 {
				t.Errorf("a read after command %d sees %d", i+1, got)
			}
		})
		group.Wait()
	}
}

func TestReadIndexEndsWithItsContext(t *testing.T) {
	o := testOptions(t)
	// Two of three voters do not exist.
	o.Network = newTestNetwork(t).port(o.NodeID)
	for id := uint64(1); id <= 3; id++ {
		o.Voters = append(o.Voters, Voter{ID: id, Address: fmt.Sprintf("node-%d", id)})
	}
	n := openNode(t, o, &recorder{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := n.ReadIndex(ctx); !errors.Is(err, ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err = %v", err)
	}
	if err := n.WaitApplied(ctx, 1000); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err = %v", err)
	}
}

func TestIdleLeaderTicks(t *testing.T) {
	clock := newFakeClock()
	o := testOptions(t)
	o.Clock, o.IdleTickMs = clock, 10000
	machine := &recorder{}
	n := openNode(t, o, machine)
	waitLeader(t, n)
	ticks := func() (count int) {
		machine.mu.Lock()
		defer machine.mu.Unlock()
		for _, item := range machine.items {
			if _, ok := item.Command.(command.Tick); ok {
				count++
			}
		}
		return count
	}
	for i := range 3 {
		clock.advance(10 * time.Second)
		eventually(t, "a tick", func() bool { return ticks() == i+1 })
	}
}

func TestLeadershipIsToldWhenTheTermHasBegun(t *testing.T) {
	o := testOptions(t)
	machine := &recorder{}
	n := openNode(t, o, machine)
	select {
	case change := <-n.Leadership():
		if !change.Leading || change.Term != n.Status().Term {
			t.Fatalf("change = %+v", change)
		}
	case <-testContext(t).Done():
		t.Fatal("no word about leadership")
	}
	defer func() {
		if err := n.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		var last LeadershipChange
		for last = range n.Leadership() { // until it is closed
		}
		if last.Leading {
			t.Fatal("the last word of a closed node is that it leads")
		}
	}()
	if held, term := machine.AppliedIndex(); held == 0 || term == 0 {
		t.Fatal("leadership was told before the first entry of the term was applied")
	}
	status := n.Status()
	if status.Role != RoleLeader || status.LeaderID != 1 || len(status.Voters) != 1 || status.QuorumAckMs != 0 {
		t.Fatalf("status = %+v", status)
	}
}
