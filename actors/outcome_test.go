package actors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/raftlog/command"
	"queen/store/layout"
)

// repeat applies an entry of requests that have been applied before.
func (s *scene) repeat(items ...command.Item) []string {
	s.t.Helper()
	s.index++
	s.now += 1000
	results, err := s.entry(&command.Entry{Header: command.Header{StampMicros: s.now}, Items: items})
	if err != nil {
		s.t.Fatal(err)
	}
	return results
}

// items gives the next ids to commands.
func (s *scene) items(commands ...command.Command) (items []command.Item) {
	below := s.sequence
	for _, c := range commands {
		items = append(items, command.Item{
			Request: command.RequestID{Origin: testOrigin, Sequence: s.sequence}, AnsweredBelow: below, Command: c,
		})
		s.sequence++
	}
	return items
}

// TestRepeatChangesNothing sends commands of many kinds again, before and after a restart: same results, and nothing has
// happened but time (I9).
func TestRepeatChangesNothing(t *testing.T) {
	s := newScene(t)
	items := s.items(append(s.settleAll(),
		command.Extend{Tenant: command.DefaultTenant, Lease: s.lease, Seconds: 60},
		command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{pushGroup("orders", "q", "x")}},
		command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{pushGroup("orders", "p", "x")}}, // a duplicate
		command.DeleteQueue{Tenant: command.DefaultTenant, Queue: "new"},
		command.Trace{Tenant: command.DefaultTenant, Partition: "1", Txid: "x", Data: []byte("1")},
	)...)
	want := s.repeat(items...)
	address := traceAddress{command.DefaultTenant, "1", "x"}
	dump := s.dump(address)
	for _, restart := range []bool{false, true, false} {
		if restart {
			s.restart()
		}
		if got := s.repeat(items...); !slices.Equal(got, want) {
			t.Errorf("restart=%t:\n got %v\nwant %v", restart, got, want)
		}
		if after := s.dump(address); after != dump {
			t.Errorf("restart=%t: something has changed:\n%s", restart, difference(after, dump))
		}
	}
}

// TestAbandonedEntryLeavesNoOutcomes applies an entry that fails behind its first command, and then again: nothing of it counts
// as executed.
func TestAbandonedEntryLeavesNoOutcomes(t *testing.T) {
	calmScene := newScene(t)
	want := calmScene.must(calmScene.settleAll()...)
	for _, kind := range []Kind{KindDeadLetters, KindPartition, KindGroup, KindLeases} {
		t.Run(string(kind), func(t *testing.T) {
			s := newScene(t)
			arm(s.actorsOf()[kind], attempts, false)
			commands := append([]command.Command{command.Tick{}}, s.settleAll()...)
			if _, err := s.do(commands...); !errors.Is(err, ErrApplyFailed) {
				t.Fatalf("the error is %v", err)
			}
			s.index, s.now, s.sequence = s.index-1, s.now-1000, s.sequence-uint64(len(commands))
			got := s.must(commands...)
			if !slices.Equal(got[1:2], want[:1]) {
				t.Errorf("the second time:\n got %s\nwant %s", got[1], want[0])
			}
			// One line for each request, and one for what their origin has answered.
			if got, want := s.dumpOutcomes(), 1+len(commands); len(strings.Split(got, "\n")) != want {
				t.Errorf("remembered is\n%s\nwant %d lines", got, want)
			}
		})
	}
}

// TestInternalCommandsLeaveNoRow: nobody waits for what has no id.
func TestInternalCommandsLeaveNoRow(t *testing.T) {
	s := newScene(t)
	before := s.dumpOutcomes()
	s.repeat(command.Item{Command: command.TermStart{Node: 1}})
	s.repeat(command.Item{Command: command.Tick{}}, command.Item{Command: command.Tick{}})
	if after := s.dumpOutcomes(); after != before {
		t.Errorf("remembered is\n%s\nwant\n%s", after, before)
	}
}

// TestRepeatWakesNobody: a repeat of a push is no new message.
func TestRepeatWakesNobody(t *testing.T) {
	r := newRig(t)
	var pushed atomic.Pointer[command.Item]
	packed := func(e *command.Entry) {
		if _, push := e.Items[0].Command.(*command.Push); push {
			item := e.Items[0]
			pushed.CompareAndSwap(nil, &item)
		}
	}
	r.log.packed.Store(&packed)
	r.push("orders", "p", "x")
	changed := r.await("orders")
	var applied counting
	r.machine.observer = &applied
	if err := r.log.Propose(Proposal{Item: *pushed.Load(), Span: soon()}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Execute(soon(), &command.Tick{}); err != nil {
		t.Fatal(err)
	}
	if heard(changed) {
		t.Error("a reader was woken")
	}
	if n := applied.count.Load(); n != 1 {
		t.Errorf("%d commands were counted in place of the tick", n)
	}
}

// counting counts what is applied.
type counting struct {
	unobserved
	count atomic.Int64
}

func (c *counting) Applied(uint64, command.Command, command.Result) { c.count.Add(1) }

// collecting is a log that keeps what it is given.
type collecting struct {
	memoryLog
	mu        sync.Mutex
	proposals []Proposal
}

func (l *collecting) Propose(p Proposal) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proposals = append(l.proposals, p)
	return nil
}

func (l *collecting) last() *Proposal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.proposals) == 0 {
		return nil
	}
	return &l.proposals[len(l.proposals)-1]
}

func newCollecting(t *testing.T) (*Broker, *collecting) {
	t.Helper()
	m := newMachine(t, t.TempDir())
	log := &collecting{}
	m.broker.log = log
	return m.broker, log
}

// TestAnsweredCommandIsNotProposedAgain looks at Gone in every state of a request.
func TestAnsweredCommandIsNotProposedAgain(t *testing.T) {
	b, log := newCollecting(t)
	submit := func(gone func() bool) (id command.RequestID, done chan outcome) {
		done = make(chan outcome, 1)
		return b.submit(Proposal{Item: command.Item{Command: &command.Tick{}}, Gone: gone}, done), done
	}
	t.Run("waiting", func(t *testing.T) {
		id, _ := submit(nil)
		if log.last().Gone() {
			t.Error("a command that waits is gone")
		}
		b.pending.resolve(id, command.Done{})
		if !log.last().Gone() {
			t.Error("an applied command is proposed again")
		}
	})
	t.Run("client has gone", func(t *testing.T) {
		var left atomic.Bool
		id, _ := submit(left.Load)
		left.Store(true)
		if !log.last().Gone() {
			t.Error("the client is not asked")
		}
		b.pending.resolve(id, command.Done{})
	})
	t.Run("deadline", func(t *testing.T) {
		id, done := submit(nil)
		if _, err := b.await(id, time.Now(), done); !errors.Is(err, ErrDeadline) {
			t.Fatalf("the error is %v", err)
		}
		if !log.last().Gone() {
			t.Error("a command that was given up is proposed again")
		}
	})
	t.Run("claim given up", func(t *testing.T) {
		call := &popCall{b: b, PopRequest: &PopRequest{Deadline: time.Now()}}
		call.Deadline = time.Now().Add(-time.Hour)
		if _, err := call.propose(&command.Claim{}); !errors.Is(err, ErrDeadline) {
			t.Fatalf("the error is %v", err)
		}
		given := log.last()
		if !given.Gone() {
			t.Error("a claim that was given up is proposed again")
		}
		if b.pending.issued.open() != 0 {
			t.Error("a claim that nobody asks for any more counts as unanswered")
		}
		given.Dropped(ErrGone)
	})
	t.Run("hand-back", func(t *testing.T) {
		b.handBack(&command.Claim{}, &command.ClaimResult{Batches: make([]command.ClaimedBatch, 1)})
		p := log.last()
		if p.Gone() || b.pending.issued.open() != 1 {
			t.Error("a hand-back that is not applied counts as answered")
		}
		b.pending.resolve(p.Item.Request, &command.HandBackResult{})
		if !p.Gone() {
			t.Error("an applied hand-back is proposed again")
		}
	})
	if open := b.pending.issued.open(); open != 0 {
		t.Errorf("%d requests are open in the end", open)
	}
}

// TestCommandsSayWhatIsAnswered: the lowest request without an outcome, dropped ones aside.
func TestCommandsSayWhatIsAnswered(t *testing.T) {
	b, log := newCollecting(t)
	var ids []command.RequestID
	next := func(below uint64) {
		t.Helper()
		ids = append(ids, b.submit(Proposal{Item: command.Item{Command: &command.Tick{}}}, make(chan outcome, 1)))
		if got := log.last().Item.AnsweredBelow; got != below {
			t.Errorf("request %d says %d, want %d", len(ids), got, below)
		}
	}
	next(1)
	first := log.last()
	next(1)
	next(1)
	b.pending.resolve(ids[1], command.Done{})
	next(1)
	first.Dropped(ErrRetry)
	next(3)
	b.pending.remove(ids[2])
	b.pending.remove(ids[3])
	b.pending.remove(ids[4])
	next(6)
}

// TestParkedPopsHoldNoRequest parks more pops than a node may have unanswered requests in a burst, one after the other.
func TestParkedPopsHoldNoRequest(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	const parked = 20
	for i := range parked {
		r.start(wildcard("orders", waiting))
		r.parkedIn("orders", "workers", int64(i+1))
	}
	if open := r.pending.issued.open(); open != 0 {
		t.Errorf("%d requests are open with %d parked pops", open, parked)
	}
}

// TestTooManyUnansweredRequestsAreRefused, and a pop whose claim can neither ride nor follow is told so and holds nothing.
func TestTooManyUnansweredRequestsAreRefused(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	pop := r.start(wildcard("orders", waiting))
	r.parkedIn("orders", "workers", 1)
	// One request stays open, and all others between it and the newest are settled but the last, which the push gets.
	stuck, _, err := r.pending.open(func(command.Result) {})
	if err != nil {
		t.Fatal(err)
	}
	for {
		sequence, below, err := r.pending.issued.mint()
		if err != nil {
			t.Fatal(err)
		}
		r.pending.issued.settle(sequence)
		if sequence-below == 1<<16-2 {
			break
		}
	}
	r.push("orders", "p", "x")
	if _, err := r.Execute(soon(), &command.Tick{}); !errors.Is(err, ErrOverloaded) {
		t.Errorf("the error is %v", err)
	}
	<-pop.done
	if !errors.Is(pop.err, ErrOverloaded) {
		t.Errorf("the pop got %+v, %v", pop.outcome, pop.err)
	}
	r.pending.remove(stuck)
	if outcome := r.pop(wildcard("orders")); got(outcome) != 1 {
		t.Errorf("the next pop got %+v", outcome)
	}
}

// TestWindowIsReadAtStart: a broker remembers what the store holds.
func TestWindowIsReadAtStart(t *testing.T) {
	s := newScene(t)
	s.restart()
	view := s.store.View()
	defer view.Close()
	if row, err := view.Get(layout.Outcome(s.index)); err != nil || row == nil {
		t.Fatalf("the row of entry %d: %v, %v", s.index, row, err)
	}
	id := command.RequestID{Origin: testOrigin, Sequence: s.sequence - 1}
	result, known, err := s.broker.machine.outcomes.Find(view, id)
	if _, claim := result.(*command.ClaimResult); err != nil || !known || !claim {
		t.Errorf("request %+v: %s, known=%t, %v", id, fmt.Sprintf("%T", result), known, err)
	}
}
