package ledger

import (
	"slices"
	"strings"
	"testing"
)

func TestTrueHistoryHasNoViolation(t *testing.T) {
	for name, change := range map[string]func(*story){
		"as it was": func(*story) {},
		"the ack that was cut off had no effect, and the message came back after the lease": func(s *story) {
			s.books.Acks[4] = ack(between(1500, 1510), "L6", acked("completed", released, 5)...)
			s.books.Pops = append(s.books.Pops, pop(between(420, 1450), "L6", 2, 5))
		},
		"the late ack is refused": func(s *story) {
			s.books.Acks[4] = ack(between(1420, 1430), "L5", acked("completed", refused, 5)...)
			s.books.Pops = append(s.books.Pops, pop(between(1432, 1450), "L6", 2, 5))
			s.books.Acks = append(s.books.Acks, ack(between(1500, 1510), "L6", acked("completed", released, 5)...))
		},
		"a claim that nobody received explains the attempt": func(s *story) {
			s.books.Pops = append(s.books.Pops, Pop{Span: between(161, 163), Outcome: Unknown, Queue: "q", Group: "g", Lease: ms(1)})
			s.delivers("L2", func(p *Pop) { *p = pop(between(170, 180), "L2", 2, 2, 3) })
			s.delivers("L3", func(p *Pop) { *p = pop(between(210, 220), "L3", 3, 2, 3) })
		},
		"a parked pop is fed while the ack before it is under way": func(s *story) {
			s.delivers("L2", func(p *Pop) { p.Span = between(131, 159) })
		},
		"a transaction that was cut off took effect": func(s *story) {
			s.books.Transactions[0].Outcome = Unknown
		},
		"a batch is acked in two steps, the first one twice": func(s *story) {
			s.books.Acks = append(s.books.Acks[1:],
				ack(between(141, 143), "L1", acked("completed", ok, 0)...),
				ack(between(144, 146), "L1", acked("completed", noop, 0)...),
				ack(between(150, 160), "L1", acked("completed", released, 1)...))
		},
		"calls are still open": func(s *story) {
			s.books.Pushes = append(s.books.Pushes, Push{Span: Span{Start: ms(500)}, Items: []PushItem{pushed("m6", "t6", "", -1)}})
			s.books.Pops = append(s.books.Pops, Pop{Span: Span{Start: ms(500)}, Queue: "q", Group: "g", Lease: storyLease})
			s.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 7, append(l.Records, Record{6, "m6", "t6"}) })
			s.state.Positions[storyReader] = 7
		},
		"a completed message that stands above a signal comes back": func(s *story) {
			s.books.Acks[1].Items = append(acked("failed", released, 2), acked("completed", released, 3)...)
		},
		"a lease that was extended is live past its first end": func(s *story) {
			extendL5(s, storyPartition)
		},
		"what was answered in a blackout lasted, and was settled": func(s *story) {
			dark := &s.books.Pops[4]
			dark.Outcome, dark.DarkLeaseID, dark.DarkMessages = Unknown, dark.LeaseID, dark.Messages
			dark.LeaseID, dark.Messages = "", nil
		},
		"one of two partitions of a lease was extended": func(s *story) {
			extendL5(s, storyPartition, Partition{Queue: "q", Name: "settled before"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			change(s)
			for _, violation := range Check(s.books, s.state) {
				t.Error(violation)
			}
		})
	}
}

// lies falsify one fact each; rule is what must be found.
var lies = []struct {
	name, rule string
	change     func(*story)
}{
	{"the last message is gone", "lost", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 5, l.Records[:5] })
	}},
	{"the only message of a partition is gone with it", "lost", func(s *story) {
		s.books.Pushes = append(s.books.Pushes, Push{between(500, 510), Done, []PushItem{{Partition: Partition{"q", "r"}, TransactionID: "r0", Token: "r0", Status: "queued", MessageID: "id", Offset: 0}}})
	}},
	{"a message in the middle is gone", "gap", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records = slices.Delete(l.Records, 2, 3) })
	}},
	{"the beginning of the log is gone", "gap", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.LogStart, l.Records = 2, l.Records[2:] })
	}},
	{"the tail promises more than there is", "gap", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Tail = 9 })
	}},
	{"an offset holds another message than was answered", "lost", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records[2], l.Records[5] = Record{2, "m5", "t5"}, Record{5, "m2", "t2"} })
	}},
	{"a repeat was stored", "duplicate", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 7, append(l.Records, Record{6, "m1", "t1'"}) })
	}},
	{"one attempt was stored twice", "duplicate", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 7, append(l.Records, Record{6, "m4", "t4"}) })
	}},
	{"a repeat was answered with another offset", "lost", func(s *story) {
		s.books.Pushes[1].Items[1].Offset = 0
	}},
	{"a repeat was answered with another id", "altered", func(s *story) {
		s.books.Pushes[1].Items[1].MessageID = "other"
	}},
	{"a push has fewer verdicts than items", "lost", func(s *story) {
		s.books.Pushes[0].Items[2] = pushed("m2", "t2", "", -1)
	}},
	{"the log holds what nobody pushed", "phantom", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 7, append(l.Records, Record{6, "mx", "tx"}) })
	}},
	{"the log holds what was refused", "phantom", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records[4].Token = "t4'" })
	}},
	{"a message stands in another partition", "phantom", func(s *story) {
		s.setLog(storyOut, func(l *Log) { l.Tail, l.Records = 3, append(l.Records, Record{2, "m5", "t5"}) })
	}},
	{"a payload changed", "phantom", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records[3].Token = "changed" })
	}},
	{"a txid changed", "altered", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records[4].TransactionID = "mx" })
	}},
	{"a later push stands before an earlier one", "order", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records[3], l.Records[5] = Record{3, "m5", "t5"}, Record{5, "m3", "t3"} })
		s.books.Pushes[1].Items[0].Offset, s.books.Pushes[5].Items[0].Offset = 5, 3
	}},
	{"a push stands in another order than it was sent", "order", func(s *story) {
		s.setLog(storyPartition, func(l *Log) { l.Records[0], l.Records[1] = Record{0, "m1", "t1"}, Record{1, "m0", "t0"} })
		s.books.Pushes[0].Items[0].Offset, s.books.Pushes[0].Items[1].Offset = 1, 0
	}},
	{"a push that was cut off is stored in part", "torn", func(s *story) {
		s.books.Pushes[2].Items = append(s.books.Pushes[2].Items, pushed("m6", "t6", "", -1))
	}},
	{"a pop leaves one out", "order", func(s *story) {
		s.delivers("L2", func(p *Pop) { p.Messages = []Delivery{p.Messages[0], pop(Span{}, "", 1, 4).Messages[0]} })
	}},
	{"a pop is not in order", "order", func(s *story) {
		s.delivers("L1", func(p *Pop) { slices.Reverse(p.Messages) })
	}},
	{"a delivered payload changed", "altered", func(s *story) {
		s.delivers("L1", func(p *Pop) { p.Messages[1].Token = "changed" })
	}},
	{"a delivered id changed", "altered", func(s *story) {
		s.delivers("L1", func(p *Pop) { p.Messages[1].MessageID = "other" })
	}},
	{"a message was delivered that is not there", "lost", func(s *story) {
		s.delivers("L5", func(p *Pop) { p.Messages = append(p.Messages, pop(Span{}, "", 1, 6).Messages...) })
	}},
	{"a group skips a message", "cursor", func(s *story) {
		s.delivers("L1", func(p *Pop) { p.Messages = p.Messages[1:] })
	}},
	{"a batch was leased twice", "double lease", func(s *story) {
		s.books.Pops = append(s.books.Pops, pop(between(141, 148), "L1b", 2, 0, 1))
	}},
	{"a lease was given under a lease of another term", "double lease", func(s *story) {
		s.books.Acks = s.books.Acks[:4]
		s.books.Acks[3].Outcome = NotDone
		s.books.Acks[3].LeaseID = "other"
		s.books.Pops = append(s.books.Pops, pop(between(410, 420), "L6", 2, 5))
	}},
	{"two pops share a lease", "double lease", func(s *story) {
		s.delivers("L2", func(p *Pop) { p.LeaseID = "L1" })
	}},
	{"a completed message comes back", "redelivery", func(s *story) {
		s.delivers("L2", func(p *Pop) { *p = pop(between(170, 180), "L2", 1, 1, 2, 3) })
	}},
	{"a message completed in a transaction comes back", "redelivery", func(s *story) {
		s.delivers("L5", func(p *Pop) { *p = pop(between(290, 300), "L5", 1, 4, 5) })
	}},
	{"a completed message comes back after a crash", "redelivery", func(s *story) {
		s.books.Pops = append(s.books.Pops, pop(between(430, 440), "L6", 1, 5))
	}},
	{"half of a transaction is stored", "transaction", func(s *story) {
		s.books.Transactions[0].Outcome = Unknown
		s.setLog(storyOut, func(l *Log) { l.Tail, l.Records = 1, l.Records[:1] })
	}},
	{"a committed transaction stored nothing", "lost", func(s *story) {
		s.setLog(storyOut, func(l *Log) { l.Tail, l.Records = 0, nil })
	}},
	{"a transaction that rolled back is stored", "transaction", func(s *story) {
		s.books.Transactions[0].Outcome, s.books.Transactions[0].Reason = NotDone, "rejected_ack"
	}},
	{"the pushes of a transaction took effect and its acks did not", "cursor", func(s *story) {
		s.books.Transactions[0].Outcome = Unknown
		s.delivers("L5", func(p *Pop) { *p = pop(between(1290, 1300), "L5", 2, 3, 4) })
		s.books.Acks = s.books.Acks[:3]
	}},
	{"the acks of a transaction took effect and its pushes did not", "cursor", func(s *story) {
		s.books.Transactions[0].Outcome = Unknown
		s.setLog(storyOut, func(l *Log) { l.Tail, l.Records = 0, nil })
	}},
	{"a transaction was rejected under its live lease", "cursor", func(s *story) {
		s.books.Transactions = append(s.books.Transactions, s.books.Transactions[0])
		s.books.Transactions[1].Pushes = nil
		s.books.Transactions[1].Span, s.books.Transactions[1].Outcome, s.books.Transactions[1].Reason = between(262, 265), NotDone, "rejected_ack"
	}},
	{"a dead letter is missing", "dead letter", func(s *story) { s.state.DeadLetters = nil }},
	{"a dead letter stands there twice", "dead letter", func(s *story) {
		s.state.DeadLetters = append(s.state.DeadLetters, s.state.DeadLetters[0])
	}},
	{"a dead letter has no reason", "dead letter", func(s *story) {
		s.state.DeadLetters = append(s.state.DeadLetters, DeadLetter{storyPartition, "g", 3, "id3", "m3", "t3", 1})
	}},
	{"a dead letter has another count", "dead letter", func(s *story) { s.state.DeadLetters[0].RetryCount = 0 }},
	{"a dead letter holds another message", "altered", func(s *story) { s.state.DeadLetters[0].Token = "t3" }},
	{"a message was dead-lettered with budget left", "cursor", func(s *story) {
		s.books.Acks[1].Items = acked("failed", filed, 2)
		s.delivers("L3", func(p *Pop) { *p = pop(between(210, 220), "L3", 1, 3) })
		s.books.Acks[2].Items = acked("retry", released, 3)
		s.delivers("L4", func(p *Pop) { *p = pop(between(250, 260), "L4", 2, 3, 4) })
	}},
	{"a charged failure was forgotten", "cursor", func(s *story) {
		s.books.Acks[2].Items = acked("failed", released, 2)
		s.state.DeadLetters = nil
		s.delivers("L4", func(p *Pop) { *p = pop(between(250, 260), "L4", 3, 2, 3, 4) })
		s.books.Transactions[0].Acks = acked("completed", ok, 2, 3, 4)
	}},
	{"a redelivery counts as the first", "cursor", func(s *story) {
		s.delivers("L3", func(p *Pop) { *p = pop(between(210, 220), "L3", 1, 2, 3) })
	}},
	{"an attempt was counted that nobody made", "cursor", func(s *story) {
		s.delivers("L3", func(p *Pop) { *p = pop(between(210, 220), "L3", 3, 2, 3) })
	}},
	{"one claim has two attempts", "cursor", func(s *story) {
		s.delivers("L3", func(p *Pop) { p.Messages[1].Attempt = 1 })
	}},
	{"an ack succeeds under a lease that ended long ago", "cursor", func(s *story) {
		s.books.Acks[4].Span = between(2410, 2420)
		s.books.Acks = slices.Delete(s.books.Acks, 3, 4)
	}},
	{"an ack succeeds under a foreign lease", "cursor", func(s *story) { s.books.Acks[0].LeaseID = "foreign" }},
	{"an ack fails under its live lease", "cursor", func(s *story) {
		s.books.Acks[2].Items = acked("failed", refused, 2)
		s.state.DeadLetters = nil
	}},
	{"the repeat of a releasing ack is refused", "cursor", func(s *story) {
		s.books.Acks = append(s.books.Acks, ack(between(420, 430), "L5", acked("completed", refused, 5)...))
	}},
	{"an ack that finishes the batch keeps the lease", "cursor", func(s *story) { s.books.Acks[0].Items = acked("completed", ok, 0, 1) }},
	{"an ack below the cursor is no no-op", "cursor", func(s *story) {
		s.books.Acks[1].Items = append(acked("completed", released, 1), s.books.Acks[1].Items...)
	}},
	{"a claim comes before the retry delay is over", "cursor", func(s *story) {
		s.books.Queues["q"] = QueueRules{RetryLimit: 1, DeadLetter: true, RetryDelay: ms(300)}
	}},
	{"a message was dropped that must be filed", "cursor", func(s *story) {
		s.books.Acks[2].Items = acked("failed", released, 2)
		s.state.DeadLetters = nil
	}},
	{"a drained group stands before the tail", "position", func(s *story) { s.state.Positions[storyReader] = 5 }},
	{"an extension succeeds under a lease that is gone", "cursor", func(s *story) {
		s.books.Extends = []Extend{{between(165, 168), Done, "g", "L1", []Partition{storyPartition}, storyLease, 1}}
	}},
}

// extendL5 makes the last claim of the story outlive its first end by an extension which reached one partition of these.
func extendL5(s *story, partitions ...Partition) {
	s.books.Extends = []Extend{{between(301, 302), Done, "g", "L5", partitions, 2 * storyLease, 1}}
	s.books.Acks[4] = ack(between(2100, 2110), "L5", acked("completed", released, 5)...)
	s.books.Acks = slices.Delete(s.books.Acks, 3, 4)
}

func TestBrokenHistoryIsRejected(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			s := newStory()
			lie.change(s)
			found := Check(s.books, s.state)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == lie.rule }) {
				t.Fatalf("want a finding of the rule %q, got %v", lie.rule, found)
			}
		})
	}
}

func TestTooManyOpenCallsAreUndecidedNotAccepted(t *testing.T) {
	s := newStory()
	for range maxOpen + 1 {
		s.books.Pops = append(s.books.Pops, Pop{Span: Span{Start: ms(165)}, Queue: "q", Group: "g", Lease: ms(1)})
	}
	s.books.Lives = nil
	found := Check(s.books, s.state)
	if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == "undecided" }) {
		t.Fatalf("want undecided, got %v", found)
	}
}

// TestManyUnseenClaimsAreDecided: each of forty pops without an answer may have claimed or not, at any time that follows.
func TestManyUnseenClaimsAreDecided(t *testing.T) {
	const unseen = 40
	story := func(attempt int) *story {
		s := newStory()
		s.books.Lives = nil
		for i := range unseen {
			s.books.Pops = append(s.books.Pops, Pop{Span: between(161, 162+i%7), Outcome: Unknown, Queue: "q", Group: "g", Lease: storyLease})
		}
		s.delivers("L2", func(p *Pop) { *p = pop(between(170, 180), "L2", attempt, 2, 3) })
		s.delivers("L3", func(p *Pop) { *p = pop(between(210, 220), "L3", attempt+1, 2, 3) })
		return s
	}
	for _, attempt := range []int{1, 2, unseen / 2, unseen + 1} {
		s := story(attempt)
		for _, violation := range Check(s.books, s.state) {
			t.Errorf("attempt %d: %v", attempt, violation)
		}
	}
	s := story(unseen + 2)
	if found := Check(s.books, s.state); len(found) == 0 || found[0].Rule != "cursor" {
		t.Errorf("one attempt too many: got %v", found)
	}
}

func TestFindingShowsWhatHappenedToTheCursor(t *testing.T) {
	s := newStory()
	s.delivers("L3", func(p *Pop) { *p = pop(between(210, 220), "L3", 3, 2, 3) })
	text := Check(s.books, s.state)[0].String()
	for _, want := range []string{"g@q/p", "pop delivers 2..3 as attempt 3 under L3", "the attempt is 2", "> [210ms, 220ms]", "ack failed 2..2"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}
