package ledger

import (
	"slices"
	"sync"
	"time"
)

// Span is when a call was sent and when its answer was there, since the origin of the history. The end of a call that
// is still open is 0.
type Span struct {
	Start, End time.Duration
}

// Partition names one partition of a queue.
type Partition struct {
	Queue, Name string
}

// PushItem is one message of a push or of a transaction, with the verdict it got.
type PushItem struct {
	Partition     Partition
	TransactionID string // "" lets the broker mint one
	Token         string // identifies the payload; no two attempts share one

	Status    string // queued, duplicate or error; "" without a verdict
	MessageID string
	Offset    int64 // -1 where the answer has none
}

// Push is one push call.
type Push struct {
	Span
	Outcome Outcome
	Items   []PushItem
}

// Delivery is one message of a pop.
type Delivery struct {
	Partition     Partition
	Offset        int64
	TransactionID string
	MessageID     string
	Token         string
	Attempt       int
}

// Pop is one pop call. Lease is how long the lease lasts that it asked for. An empty answer is Done without messages.
type Pop struct {
	Span
	Outcome      Outcome
	Queue, Group string
	Lease        time.Duration
	LeaseID      string
	Messages     []Delivery
	// DarkLeaseID and DarkMessages are those of an answer that does not count (Blackout): the pop has claimed just this, or
	// nothing that lasts.
	DarkLeaseID  string
	DarkMessages []Delivery
}

// AckItem is one acknowledged message with its verdict. Status is completed, failed, retry or dlq.
type AckItem struct {
	Partition     Partition
	Offset        int64
	TransactionID string
	Status        string

	Verdict Verdict
}

// Verdict is the answer to one ack item (messaging.md 6.3).
type Verdict struct {
	Success, Released, DeadLettered, NoOp bool
	Error                                 string
}

// Ack is one ack call; all of its items name the same lease.
type Ack struct {
	Span
	Outcome        Outcome
	Group, LeaseID string
	Items          []AckItem
}

// Extend is one lease extension. Partitions are those that the lease covered when the call was sent, Renewed is the
// number that the answer gives.
type Extend struct {
	Span
	Outcome        Outcome
	Group, LeaseID string
	Partitions     []Partition
	By             time.Duration
	Renewed        int
}

// Transaction is one transaction of acks under one lease and of pushes. NotDone is a rollback.
type Transaction struct {
	Span
	Outcome        Outcome
	Group, LeaseID string
	Acks           []AckItem
	Pushes         []PushItem
	Reason         string
}

// Life is one run of the broker process: launched at Start, ready at Ready (0 when it never was) and gone at End (0
// while it lives).
type Life struct {
	Span
	Ready time.Duration
}

// QueueRules are the options of a queue that the reference model needs.
type QueueRules struct {
	RetryLimit int
	RetryDelay time.Duration // 0 when it is not set explicitly
	DeadLetter bool          // an exhausted message is filed, not dropped
}

// Replication says that the calls went to several nodes, any of which may carry a call out after the one that was asked has
// ended. The lives of single processes say nothing then about a call of unknown outcome.
type Replication struct {
	// Deadline is how long after its arrival a write may still be proposed: the clients send it with every write.
	Deadline time.Duration
}

// History is what happened in one run, in the words of the clients. All methods may be called from any goroutine.
type History struct {
	origin time.Time

	mutex     sync.Mutex
	books     Books
	blackouts []Span
}

// Books is a copy of a history at one instant. Its slices are not changed any more.
type Books struct {
	Queues       map[string]QueueRules
	Pushes       []Push
	Pops         []Pop
	Acks         []Ack
	Extends      []Extend
	Transactions []Transaction
	Lives        []Life
	Replicated   *Replication // nil for one broker
	Faults       []Span       // what was done to the nodes, from the first effect until all of it was over
}

// NewHistory starts the books; the rules hold for the whole run.
func NewHistory(queues map[string]QueueRules) *History {
	return &History{origin: time.Now(), books: Books{Queues: queues}}
}

// NewReplicatedHistory is NewHistory for calls to the nodes of a cluster.
func NewReplicatedHistory(queues map[string]QueueRules, how Replication) *History {
	return &History{origin: time.Now(), books: Books{Queues: queues, Replicated: &how}}
}

// Fault books that something is done to nodes or to their network. The returned function says that it is over.
func (h *History) Fault() func() {
	i := open(h, &h.books.Faults, Span{}, func(s *Span, now time.Duration) { s.Start = now })
	return func() { h.change(func(now time.Duration) { h.books.Faults[i].End = now }) }
}

// Now is the time since the origin.
func (h *History) Now() time.Duration { return time.Since(h.origin) }

// Books returns the history so far.
func (h *History) Books() Books {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	books := Books{
		Queues:       h.books.Queues,
		Pushes:       slices.Clone(h.books.Pushes),
		Pops:         slices.Clone(h.books.Pops),
		Acks:         slices.Clone(h.books.Acks),
		Extends:      slices.Clone(h.books.Extends),
		Transactions: slices.Clone(h.books.Transactions),
		Lives:        slices.Clone(h.books.Lives),
		Replicated:   h.books.Replicated,
		Faults:       slices.Clone(h.books.Faults),
	}
	for _, dark := range h.blackouts {
		books.forget(dark)
	}
	return books
}

// Blackout books an instant at which answers stop to count, such as a loss of power: a call that is open between now
// and the call of the returned function has an unknown outcome, whatever its client reads afterwards.
func (h *History) Blackout() func() {
	i := open(h, &h.blackouts, Span{}, func(s *Span, now time.Duration) { s.Start = now })
	return func() { h.change(func(now time.Duration) { h.blackouts[i].End = now }) }
}

// forget makes the calls unknown that were open in the dark. A refusal is one all the same.
func (b Books) forget(dark Span) {
	hit := func(span Span, outcome Outcome) bool {
		return outcome == Done && span.End >= dark.Start && (dark.End == 0 || span.Start <= dark.End)
	}
	for i, push := range b.Pushes {
		if hit(push.Span, push.Outcome) {
			b.Pushes[i].Outcome = Unknown
		}
	}
	for i, pop := range b.Pops {
		if hit(pop.Span, pop.Outcome) {
			b.Pops[i].Outcome, b.Pops[i].LeaseID, b.Pops[i].Messages = Unknown, "", nil
			b.Pops[i].DarkLeaseID, b.Pops[i].DarkMessages = pop.LeaseID, pop.Messages
		}
	}
	for i, ack := range b.Acks {
		if hit(ack.Span, ack.Outcome) {
			b.Acks[i].Outcome = Unknown
		}
	}
	for i, extend := range b.Extends {
		if hit(extend.Span, extend.Outcome) {
			b.Extends[i].Outcome = Unknown
		}
	}
	for i, transaction := range b.Transactions {
		if hit(transaction.Span, transaction.Outcome) {
			b.Transactions[i].Outcome = Unknown
		}
	}
}

// Push books a push that is about to be sent. The returned function closes it with the answer, once.
func (h *History) Push(items []PushItem) func(Outcome, []PushItem) {
	i := open(h, &h.books.Pushes, Push{Items: items}, func(p *Push, now time.Duration) { p.Start = now })
	return func(outcome Outcome, items []PushItem) {
		h.change(func(now time.Duration) {
			call := &h.books.Pushes[i]
			call.End, call.Outcome, call.Items = now, outcome, items
		})
	}
}

// Pop books a pop that is about to be sent. The returned function closes it with the answer, once.
func (h *History) Pop(queue, group string, lease time.Duration) func(Outcome, string, []Delivery) {
	i := open(h, &h.books.Pops, Pop{Queue: queue, Group: group, Lease: lease}, func(p *Pop, now time.Duration) { p.Start = now })
	return func(outcome Outcome, leaseID string, messages []Delivery) {
		h.change(func(now time.Duration) {
			call := &h.books.Pops[i]
			call.End, call.Outcome, call.LeaseID, call.Messages = now, outcome, leaseID, messages
		})
	}
}

// Ack books an ack that is about to be sent. The returned function closes it with the answer, once.
func (h *History) Ack(group, leaseID string, items []AckItem) func(Outcome, []AckItem) {
	ack := Ack{Group: group, LeaseID: leaseID, Items: items}
	i := open(h, &h.books.Acks, ack, func(a *Ack, now time.Duration) { a.Start = now })
	return func(outcome Outcome, items []AckItem) {
		h.change(func(now time.Duration) {
			call := &h.books.Acks[i]
			call.End, call.Outcome, call.Items = now, outcome, items
		})
	}
}

// Extend books an extension that is about to be sent. The returned function closes it with the answer, once.
func (h *History) Extend(extend Extend) func(Outcome, int) {
	i := open(h, &h.books.Extends, extend, func(e *Extend, now time.Duration) { e.Start = now })
	return func(outcome Outcome, renewed int) {
		h.change(func(now time.Duration) {
			call := &h.books.Extends[i]
			call.End, call.Outcome, call.Renewed = now, outcome, renewed
		})
	}
}

// Transaction books a transaction that is about to be sent. The returned function closes it with the answer, once.
func (h *History) Transaction(transaction Transaction) func(Outcome, Transaction) {
	i := open(h, &h.books.Transactions, transaction, func(t *Transaction, now time.Duration) { t.Start = now })
	return func(outcome Outcome, answered Transaction) {
		h.change(func(now time.Duration) {
			call := &h.books.Transactions[i]
			call.End, call.Outcome = now, outcome
			call.Acks, call.Pushes, call.Reason = answered.Acks, answered.Pushes, answered.Reason
		})
	}
}

// Launched books the start of a process, before it is started. The first returned function says that it is ready,
// the second that it is gone; call the second after the process has been waited for.
func (h *History) Launched() (ready, gone func()) {
	i := open(h, &h.books.Lives, Life{}, func(l *Life, now time.Duration) { l.Start = now })
	ready = func() { h.change(func(now time.Duration) { h.books.Lives[i].Ready = now }) }
	gone = func() { h.change(func(now time.Duration) { h.books.Lives[i].End = now }) }
	return ready, gone
}

func (h *History) change(apply func(now time.Duration)) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	apply(h.Now())
}

// open appends a call and returns its place. The instant is taken under the lock, before anything is sent.
func open[T any](h *History, calls *[]T, call T, stamp func(*T, time.Duration)) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	stamp(&call, h.Now())
	*calls = append(*calls, call)
	return len(*calls) - 1
}
