package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen/raftlog/command"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// A goroutine of the library that hands leadership over may outlast the library by an election time-out.
	for tries := 0; code == 0 && tries < 5; tries++ {
		err := goleak.Find(abandonedTransfer, transferWait)
		if err == nil {
			break
		}
		if tries == 4 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// A transfer of the library that meets the end of the replication to its target sends into a full channel that nobody reads any
// more (its leadershipTransfer), and whoever watches it waits for its answer: two goroutines for each of these rare meetings.
var (
	abandonedTransfer = goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer")
	transferWait      = goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2")
)

// testDeadline is how long a condition may take on a busy machine.
const testDeadline = 15 * time.Second

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(testDeadline)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s did not happen within %v", what, testDeadline)
		case <-tick.C:
		}
	}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

// recorder is a state machine that remembers what was applied. It outlives its Node, as a store would.
type recorder struct {
	mu          sync.Mutex
	index, term uint64
	durable     uint64
	items       []command.Item
	entries     []command.Entry
	terms       []uint64
	stamps      []uint64
	failAt      uint64
	panicAt     uint64
	failDurable error
	// applied is called for every command, without the lock.
	applied func(item *command.Item)
}

var errRefused = errors.New("refused by the test")

func (r *recorder) Apply(entries []CommittedEntry) error {
	for _, committed := range entries {
		entry, err := command.DecodeEntry(committed.Data)
		if err != nil {
			return err
		}
		if err := r.applyOne(committed, entry); err != nil {
			return err
		}
		if r.applied != nil {
			for i := range entry.Items {
				r.applied(&entry.Items[i])
			}
		}
	}
	return nil
}

func (r *recorder) applyOne(committed CommittedEntry, entry command.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if committed.Index <= r.index {
		return fmt.Errorf("entry %d came after entry %d", committed.Index, r.index)
	}
	for _, item := range entry.Items {
		if extend, ok := item.Command.(command.Extend); ok {
			switch extend.Seconds {
			case r.failAt:
				if r.failAt > 0 {
					return errRefused
				}
			case r.panicAt:
				panic("broken")
			}
		}
	}
	r.index, r.term = committed.Index, committed.Term
	r.entries = append(r.entries, entry)
	for i, item := range entry.Items {
		r.items = append(r.items, item)
		r.terms = append(r.terms, committed.Term)
		r.stamps = append(r.stamps, entry.Header.StampMicros+uint64(i))
	}
	return nil
}

func (r *recorder) AppliedIndex() (uint64, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index, r.term
}

func (r *recorder) DurablePoint() (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failDurable != nil {
		return 0, r.failDurable
	}
	r.durable = r.index
	return r.durable, nil
}

// numbers returns the Seconds of the applied Extend commands, in order of application.
func (r *recorder) numbers() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var numbers []uint64
	for _, item := range r.items {
		if extend, ok := item.Command.(command.Extend); ok {
			numbers = append(numbers, extend.Seconds)
		}
	}
	return numbers
}

// entrySizes returns how many Extend commands each entry had.
func (r *recorder) entrySizes() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sizes []int
	for _, entry := range r.entries {
		if _, ok := entry.Items[0].Command.(command.Extend); ok {
			sizes = append(sizes, len(entry.Items))
		}
	}
	return sizes
}

func testOptions(t testing.TB) Options {
	o := DefaultOptions(t.TempDir(), 1)
	o.ElectionMs = 50
	o.IdleTickMs = 0
	return o
}

func openNode(t testing.TB, o Options, machine StateMachine) *Node {
	t.Helper()
	n, err := Open(o, machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNode(t, n) })
	return n
}

func closeNode(t testing.TB, n *Node) {
	t.Helper()
	if err := n.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func waitLeader(t testing.TB, n *Node) {
	t.Helper()
	eventually(t, "leadership", func() bool { return n.Status().Ready })
}

func extend(number uint64) Proposal {
	return Proposal{Item: command.Item{
		Request: command.RequestID{Origin: 1, Sequence: number}, Command: command.Extend{Seconds: number}}}
}

// sized is a command of about the given size.
func sized(number uint64, bytes int) Proposal {
	message := command.Message{Payload: []byte(strings.Repeat("x", bytes))}
	binary.LittleEndian.PutUint64(message.ID[:], number)
	return Proposal{Item: command.Item{
		Request: command.RequestID{Origin: 1, Sequence: number},
		Command: command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{
			{Queue: "q", Partition: "p", Count: 1, Chunk: command.AppendMessage(nil, &message)}}}}}
}

func mustPropose(t testing.TB, n *Node, c Proposal) {
	t.Helper()
	if err := n.Propose(c); err != nil {
		t.Fatalf("propose: %v", err)
	}
}

func wantNumbers(t *testing.T, machine *recorder, count uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("applying of %d commands", count),
		func() bool { return len(machine.numbers()) >= int(count) })
	for i, number := range machine.numbers() {
		if number != uint64(i+1) {
			t.Fatalf("command %d was applied at place %d", number, i+1)
		}
	}
	if got := len(machine.numbers()); got != int(count) {
		t.Fatalf("%d commands were applied, want %d", got, count)
	}
}
