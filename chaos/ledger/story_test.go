package ledger

import (
	"fmt"
	"slices"
	"time"
)

// story is a small true history with every kind of call in it, and the state it leads to. Tests falsify one fact of a
// copy and expect the rule that must notice.
type story struct {
	books Books
	state State
}

var (
	storyPartition = Partition{"q", "p"}
	storyOut       = Partition{"out", "o"}
	storyReader    = Reader{storyPartition, "g"}
)

const storyLease = time.Second

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func between(start, end int) Span { return Span{ms(start), ms(end)} }

// pushed makes an item whose token is its txid with a prime per attempt.
func pushed(txid, token, status string, offset int64) PushItem {
	item := PushItem{Partition: storyPartition, TransactionID: txid, Token: token, Status: status, Offset: offset}
	if status != "" {
		item.MessageID = fmt.Sprint("id", offset)
	}
	return item
}

func pop(span Span, leaseID string, attempt int, offsets ...int64) Pop {
	call := Pop{Span: span, Outcome: Done, Queue: "q", Group: "g", Lease: storyLease, LeaseID: leaseID}
	for _, offset := range offsets {
		call.Messages = append(call.Messages, Delivery{
			Partition: storyPartition, Offset: offset, TransactionID: fmt.Sprint("m", offset),
			MessageID: fmt.Sprint("id", offset), Token: fmt.Sprint("t", offset), Attempt: attempt,
		})
	}
	return call
}

func acked(status string, verdict Verdict, offsets ...int64) []AckItem {
	items := make([]AckItem, len(offsets))
	for i, offset := range offsets {
		items[i] = AckItem{Partition: storyPartition, Offset: offset, TransactionID: fmt.Sprint("m", offset), Status: status, Verdict: verdict}
	}
	return items
}

func ack(span Span, leaseID string, items ...AckItem) Ack {
	return Ack{Span: span, Outcome: Done, Group: "g", LeaseID: leaseID, Items: items}
}

var (
	ok       = Verdict{Success: true}
	released = Verdict{Success: true, Released: true}
	filed    = Verdict{Success: true, Released: true, DeadLettered: true}
	noop     = Verdict{Success: true, NoOp: true}
	refused  = Verdict{Error: badLease}
)

// newStory tells the story. The process is killed at 60 ms with a push under way, and at 320 ms with an ack under way.
func newStory() *story {
	books := Books{
		Queues: map[string]QueueRules{"q": {RetryLimit: 1, DeadLetter: true}, "out": {RetryLimit: 1, DeadLetter: true}},
		Lives: []Life{
			{Span: between(0, 60), Ready: ms(1)},
			{Span: between(70, 320), Ready: ms(100)},
			{Span: between(330, 0), Ready: ms(400)},
		},
		Pushes: []Push{
			{between(1, 10), Done, []PushItem{pushed("m0", "t0", "queued", 0), pushed("m1", "t1", "queued", 1), pushed("m2", "t2", "queued", 2)}},
			{between(20, 30), Done, []PushItem{pushed("m3", "t3", "queued", 3), pushed("m1", "t1'", "duplicate", 1)}},
			{between(40, 61), Unknown, []PushItem{pushed("m4", "t4", "", -1)}},
			{between(62, 62), NotDone, []PushItem{pushed("m4", "t4'", "", -1)}},
			{between(110, 120), Done, []PushItem{pushed("m4", "t4''", "duplicate", 4)}},
			{between(125, 128), Done, []PushItem{pushed("m5", "t5", "queued", 5)}},
		},
		Pops: []Pop{
			pop(between(130, 140), "L1", 1, 0, 1),
			pop(between(170, 180), "L2", 1, 2, 3),
			pop(between(210, 220), "L3", 2, 2, 3),
			pop(between(250, 260), "L4", 1, 3, 4),
			pop(between(290, 300), "L5", 1, 5),
		},
		Acks: []Ack{
			ack(between(150, 160), "L1", acked("completed", released, 0, 1)...),
			ack(between(190, 200), "L2", acked("failed", released, 2)...),
			ack(between(230, 240), "L3", acked("failed", filed, 2)...),
			{between(310, 321), Unknown, "g", "L5", acked("completed", Verdict{}, 5)},
			ack(between(410, 420), "L5", acked("completed", released, 5)...),
		},
		Transactions: []Transaction{{
			Span: between(270, 280), Outcome: Done, Group: "g", LeaseID: "L4", Acks: acked("completed", ok, 3, 4),
			Pushes: []PushItem{
				{Partition: storyOut, TransactionID: "x0", Token: "u0", Offset: -1},
				{Partition: storyOut, TransactionID: "x1", Token: "u1", Offset: -1},
			},
		}},
	}
	state := State{
		Logs: map[Partition]Log{storyPartition: {Tail: 6}, storyOut: {Tail: 2, Records: []Record{
			{0, "x0", "u0"}, {1, "x1", "u1"},
		}}},
		DeadLetters: []DeadLetter{{Partition: storyPartition, Group: "g", Offset: 2, MessageID: "id2", TransactionID: "m2", Token: "t2", RetryCount: 1}},
		Positions:   map[Reader]int64{storyReader: 6},
	}
	log := state.Logs[storyPartition]
	for offset := range int64(6) {
		log.Records = append(log.Records, Record{offset, fmt.Sprint("m", offset), fmt.Sprint("t", offset)})
	}
	state.Logs[storyPartition] = log
	return &story{books, state}
}

// setLog replaces the log of a partition.
func (s *story) setLog(partition Partition, change func(*Log)) {
	log := s.state.Logs[partition]
	log.Records = slices.Clone(log.Records)
	change(&log)
	s.state.Logs[partition] = log
}

// delivers changes the call of a lease.
func (s *story) delivers(leaseID string, change func(*Pop)) {
	i := slices.IndexFunc(s.books.Pops, func(p Pop) bool { return p.LeaseID == leaseID })
	change(&s.books.Pops[i])
}
