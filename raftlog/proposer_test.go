package raftlog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"queen/raftlog/command"
)

// fakeRaft keeps what is proposed; the test says what becomes of it.
type fakeRaft struct {
	mu   sync.Mutex
	logs []raft.Log
}

func (f *fakeRaft) ApplyLog(log raft.Log, _ time.Duration) raft.ApplyFuture {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, log)
	return nil
}

// take returns the numbers of the Extend commands of the next entry, its term and number.
func (f *fakeRaft) take(t testing.TB) (numbers []uint64, term, number uint64) {
	t.Helper()
	var log raft.Log
	eventually(t, "an entry", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.logs) == 0 {
			return false
		}
		log = f.logs[0]
		f.logs = f.logs[1:]
		return true
	})
	entry, err := command.DecodeEntry(log.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range entry.Items {
		if e, ok := item.Command.(command.Extend); ok {
			numbers = append(numbers, e.Seconds)
		}
	}
	term, number = readExtensions(log.Extensions)
	return numbers, term, number
}

func (f *fakeRaft) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.logs)
}

func startProposer(t testing.TB, change func(*Options)) (*proposer, *fakeRaft) {
	t.Helper()
	o := DefaultOptions(t.TempDir(), 1)
	o.IdleTickMs = 0
	if change != nil {
		change(&o)
	}
	library := &fakeRaft{}
	p := newProposer(&o, newLeaderTime(o.Clock, 0), o.Logger)
	p.raft = library
	p.stampEnd = func() uint64 { return 0 }
	p.leaderElsewhere = func() bool { return false }
	p.logSettled = func() bool { return false }
	go p.run()
	t.Cleanup(func() {
		p.close(ErrClosed)
		close(p.stop)
		<-p.done
	})
	return p, library
}

// begin makes the proposer lead, up to the applied first entry.
func begin(t testing.TB, p *proposer, library *fakeRaft, term uint64) {
	t.Helper()
	p.lead(term)
	numbers, gotTerm, number := library.take(t)
	if len(numbers) != 0 || gotTerm != term || number != 1 {
		t.Fatalf("the first entry of term %d has term %d, number %d and commands %v", term, gotTerm, number, numbers)
	}
	p.noteAppended(term, 1)
	p.applied(term, 1)
}

func put(t testing.TB, p *proposer, numbers ...uint64) {
	t.Helper()
	for _, number := range numbers {
		c := extend(number)
		if err := p.propose(&c); err != nil {
			t.Fatal(err)
		}
	}
}

func wantEntry(t testing.TB, library *fakeRaft, want ...uint64) uint64 {
	t.Helper()
	var got []uint64
	var number uint64
	for len(got) < len(want) {
		var numbers []uint64
		numbers, _, number = library.take(t)
		got = append(got, numbers...)
	}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("proposed %v, want %v", got, want)
		}
	}
	return number
}

func TestNothingIsProposedBeforeTheFirstEntryOfATermIsApplied(t *testing.T) {
	p, library := startProposer(t, nil)
	put(t, p, 1)
	p.lead(7)
	library.take(t)
	put(t, p, 2)
	p.mu.Lock()
	ready, inFlight := p.ready, len(p.flight)
	p.mu.Unlock()
	if ready || inFlight != 1 || library.waiting() != 0 {
		t.Fatalf("ready %v, %d entries in flight, %d proposed", ready, inFlight, library.waiting())
	}
	p.applied(7, 1)
	wantEntry(t, library, 1, 2)
}

func TestPipelineIsBounded(t *testing.T) {
	p, library := startProposer(t, func(o *Options) { o.PipelineEntries, o.BatchMaxCommands = 2, 1 })
	begin(t, p, library, 1)
	put(t, p, 1)
	first := wantEntry(t, library, 1)
	put(t, p, 2)
	wantEntry(t, library, 2)
	p.noteAppended(1, first+1)
	put(t, p, 3, 4)
	if waiting, inFlight := p.depth(); waiting != 2 || inFlight != 2 || library.waiting() != 0 {
		t.Fatalf("%d wait, %d in flight, %d more proposed", waiting, inFlight, library.waiting())
	}
	p.applied(1, first)
	wantEntry(t, library, 3)
}

func TestFewCommandsWaitForTheEntryInFlight(t *testing.T) {
	p, library := startProposer(t, nil)
	begin(t, p, library, 1)
	put(t, p, 1)
	first := wantEntry(t, library, 1)
	put(t, p, 2)
	p.noteAppended(1, first)
	if waiting, inFlight := p.depth(); waiting != 1 || inFlight != 1 {
		t.Fatalf("%d wait, %d in flight", waiting, inFlight)
	}
	// Two are many against one in flight, three are few against three.
	put(t, p, 3)
	second := wantEntry(t, library, 2, 3)
	p.noteAppended(1, second)
	put(t, p, 4, 5, 6)
	if waiting, inFlight := p.depth(); waiting != 3 || inFlight != 2 {
		t.Fatalf("%d wait, %d in flight", waiting, inFlight)
	}
	p.applied(1, first)
	p.applied(1, second)
	wantEntry(t, library, 4, 5, 6)
}

func TestNothingSmallIsProposedBehindAnAppend(t *testing.T) {
	p, library := startProposer(t, nil)
	begin(t, p, library, 1)
	put(t, p, 1)
	first := wantEntry(t, library, 1)
	put(t, p, 2, 3, 4)
	if waiting, inFlight := p.depth(); waiting != 3 || inFlight != 1 || library.waiting() != 0 {
		t.Fatalf("%d wait, %d in flight, %d more proposed", waiting, inFlight, library.waiting())
	}
	p.noteAppended(1, first)
	wantEntry(t, library, 2, 3, 4)
}

func TestEntriesThatTheLibraryLostAreProposedAgain(t *testing.T) {
	clock := newFakeClock()
	var lines lineBuffer
	p, library := startProposer(t, func(o *Options) { o.Clock, o.Logger = clock, zerolog.New(&lines) })
	p.mu.Lock()
	p.logSettled = func() bool { return true }
	p.mu.Unlock()
	begin(t, p, library, 1)
	put(t, p, 1)
	wantEntry(t, library, 1)
	clock.advance(stallTime)
	wantEntry(t, library, 1)
	const phrase = `"message":"this node still leads: the pipeline restarts from the log's end"` // cluster 5.3
	if found := lines.with(phrase); len(found) != 1 || !strings.Contains(found[0], `"level":"warn"`) {
		t.Errorf("want one line, got %q", found)
	}
	// So is the first entry of a term.
	p.lead(2)
	library.take(t)
	clock.advance(stallTime)
	if _, term, number := library.take(t); term != 2 || number != 1 {
		t.Fatalf("term %d, number %d", term, number)
	}
}

func TestCommandsOfALostTermAreProposedAgainInTheirOrder(t *testing.T) {
	p, library := startProposer(t, nil)
	begin(t, p, library, 1)
	put(t, p, 1)
	first := wantEntry(t, library, 1)
	p.noteAppended(1, first)
	put(t, p, 2, 3)
	wantEntry(t, library, 2, 3)
	p.follow()
	put(t, p, 4)
	begin(t, p, library, 4)
	wantEntry(t, library, 1, 2, 3, 4)
}

func TestCommandThatWasAnsweredMeanwhileIsNotProposedAgain(t *testing.T) {
	p, library := startProposer(t, nil)
	begin(t, p, library, 1)
	var mu sync.Mutex
	answered := false
	dropped := make(chan error, 1)
	c := extend(1)
	c.Gone = func() bool {
		mu.Lock()
		defer mu.Unlock()
		return answered
	}
	c.Dropped = func(reason error) { dropped <- reason }
	if err := p.propose(&c); err != nil {
		t.Fatal(err)
	}
	wantEntry(t, library, 1)
	p.follow()
	mu.Lock()
	answered = true
	mu.Unlock()
	put(t, p, 2)
	begin(t, p, library, 2)
	wantEntry(t, library, 2)
	if reason := <-dropped; !errors.Is(reason, ErrGone) || !errors.Is(reason, ErrOutcomeUnknown) {
		t.Fatalf("dropped for %v", reason)
	}
}

func TestEntryThatWasPassedOverIsProposedAgain(t *testing.T) {
	p, library := startProposer(t, func(o *Options) { o.BatchMaxCommands = 1 })
	begin(t, p, library, 1)
	put(t, p, 1, 2)
	wantEntry(t, library, 1)
	last := wantEntry(t, library, 2)
	// The library refused the first and took the second.
	p.noteAppended(1, last)
	p.applied(1, last)
	wantEntry(t, library, 1)
}

func TestEntryOfAnOlderTermSettlesNothing(t *testing.T) {
	p, library := startProposer(t, nil)
	begin(t, p, library, 3)
	put(t, p, 1)
	last := wantEntry(t, library, 1)
	p.applied(2, last)
	if _, inFlight := p.depth(); inFlight != 1 {
		t.Fatalf("%d entries in flight", inFlight)
	}
	p.applied(3, last)
	if _, inFlight := p.depth(); inFlight != 0 {
		t.Fatalf("%d entries in flight", inFlight)
	}
}

func TestWaitingCommandsAreReportedWhenAnotherNodeLeads(t *testing.T) {
	p, _ := startProposer(t, nil)
	dropped := make(chan error, 1)
	c := extend(1)
	c.Dropped = func(reason error) { dropped <- reason }
	if err := p.propose(&c); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.leaderElsewhere = func() bool { return true }
	p.mu.Unlock()
	if reason := <-dropped; !errors.Is(reason, ErrNotLeader) || errors.Is(reason, ErrOutcomeUnknown) {
		t.Fatalf("dropped for %v", reason)
	}
	if err := p.propose(&c); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("err = %v", err)
	}
}

func TestCommandsThatWaitInVainAreDroppedAtTheirDeadline(t *testing.T) {
	clock := newFakeClock()
	p, _ := startProposer(t, func(o *Options) { o.Clock = clock })
	dropped := make(chan error, 1)
	c := extend(1)
	c.DeadlineMonotonic = clock.Monotonic() + time.Second
	c.Dropped = func(reason error) { dropped <- reason }
	if err := p.propose(&c); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Second)
	if reason := <-dropped; !errors.Is(reason, ErrDeadline) {
		t.Fatalf("dropped for %v", reason)
	}
}

func TestWaitIdleEndsWhenEverythingIsSettled(t *testing.T) {
	p, library := startProposer(t, nil)
	begin(t, p, library, 1)
	put(t, p, 1)
	last := wantEntry(t, library, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.waitIdle(context.Background())
	}()
	eventually(t, "waiting", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.idle != nil
	})
	p.applied(1, last)
	<-done
}

// However often terms end, a command is in the log of proposals in the order in which it was put, and settles once.
func TestQueueKeepsOrderUnderAnyHistory(t *testing.T) {
	o := DefaultOptions("unused", 1)
	o.BatchMaxCommands = 3
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []uint64
		next := uint64(1)
		id := func(p pending) uint64 { return uint64(p.deadline) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				q.push(pending{deadline: time.Duration(next)})
				model = append(model, next)
				next++
			case 1:
				taken := q.takeBatch(nil, &o)
				for i, p := range taken {
					if id(p) != model[i] {
						t.Fatalf("took %d, want %d", id(p), model[i])
					}
				}
				keep := rapid.IntRange(0, len(taken)).Draw(t, "settled")
				q.pushFront(taken[keep:])
				model = append(append([]uint64(nil), model[:0]...), model[keep:]...)
			case 2:
				limit := rapid.Uint64Range(0, next).Draw(t, "now")
				var kept []uint64
				for _, number := range model {
					if number > limit {
						kept = append(kept, number)
					}
				}
				if got := len(q.takeExpired(time.Duration(limit))); got != len(model)-len(kept) {
					t.Fatalf("%d expired, want %d", got, len(model)-len(kept))
				}
				model = kept
			case 3:
				if q.len() != len(model) {
					t.Fatalf("length %d, want %d", q.len(), len(model))
				}
			}
		}
		for i, p := range q.takeAll() {
			if id(p) != model[i] {
				t.Fatalf("left %d, want %d", id(p), model[i])
			}
		}
	})
}

// slowest notes slow commands.
type slowest struct {
	unobserved
	names []string
}

func (s *slowest) CommandSlow(name string, _ time.Duration) { s.names = append(s.names, name) }

func TestCommandsBeyondTheThresholdAreToldOfAsSlow(t *testing.T) {
	for threshold, want := range map[time.Duration]int{0: 0, 1: 1, time.Hour: 0} {
		told := &slowest{}
		p, library := startProposer(t, func(o *Options) { o.Observer, o.SlowCommand = told, threshold })
		begin(t, p, library, 2)
		put(t, p, 7)
		_, term, number := library.take(t)
		p.noteAppended(term, number)
		p.applied(term, number)
		if len(told.names) != want || want == 1 && told.names[0] != "Extend" {
			t.Errorf("threshold %v: %q", threshold, told.names)
		}
	}
}

// proposedAfter notes how long requests took to their proposal, and commands.
type proposedAfter struct {
	unobserved
	requests, commands []time.Duration
}

func (p *proposedAfter) RequestProposed(took time.Duration) { p.requests = append(p.requests, took) }
func (p *proposedAfter) CommandWaited(took time.Duration)   { p.commands = append(p.commands, took) }

// TestRequestsCountFromTheirArrivalAtTheNode: operations 3.4, queen_raft_arrival_to_proposed_seconds has what a request did
// before its command came to the log, unlike queen_raft_queue_wait_seconds; a command of no request counts there alone.
func TestRequestsCountFromTheirArrivalAtTheNode(t *testing.T) {
	clock, told := newFakeClock(), &proposedAfter{}
	p, library := startProposer(t, func(o *Options) { o.Clock, o.Observer = clock, told })
	begin(t, p, library, 2)
	clock.advance(10 * time.Second)
	c := extend(1)
	c.ArrivedMonotonic = clock.Monotonic() - 3*time.Second
	if err := p.propose(&c); err != nil {
		t.Fatal(err)
	}
	number := wantEntry(t, library, 1)
	p.noteAppended(2, number)
	p.applied(2, number)
	put(t, p, 2)
	wantEntry(t, library, 2)
	if len(told.requests) != 1 || told.requests[0] != 3*time.Second {
		t.Errorf("requests took %v", told.requests)
	}
	if len(told.commands) != 2 || told.commands[0] != 0 || told.commands[1] != 0 {
		t.Errorf("commands waited %v", told.commands)
	}
}
