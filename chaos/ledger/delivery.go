package ledger

import (
	"slices"
	"time"
)

// leaseSlack is how much earlier than asked for a lease may end in the checker's eyes: the leader's clock is slewed by
// up to 0.5 % (cluster.md 10), and the checker must never be stricter than the contract.
func leaseSlack(lease time.Duration) time.Duration { return lease/100 + 20*time.Millisecond }

// checkDeliveries: what was delivered is what the log holds, and one pop delivers a contiguous rising range per
// partition under one attempt number.
func checkDeliveries(books Books, logs shelves) []Violation {
	var found []Violation
	for _, pop := range books.Pops {
		last := map[Partition]Delivery{}
		for _, message := range pop.Messages {
			if record, there := logs[message.Partition].at(message.Offset); !there {
				found = append(found, violation("lost", "%v offset %d was delivered to %s and is not in the log", message.Partition, message.Offset, pop.Group))
			} else if record.Token != message.Token || record.TransactionID != message.TransactionID {
				found = append(found, violation("altered", "%v offset %d holds %s, delivered to %s was %s", message.Partition, message.Offset, record.Token, pop.Group, message.Token))
			}
			if before, seen := last[message.Partition]; seen {
				if message.Offset != before.Offset+1 {
					found = append(found, violation("order", "%v offset %d was delivered to %s right behind %d", message.Partition, message.Offset, pop.Group, before.Offset))
				}
				if message.Attempt != before.Attempt {
					found = append(found, violation("cursor", "%v offsets %d and %d of one claim have attempts %d and %d", message.Partition, before.Offset, message.Offset, before.Attempt, message.Attempt))
				}
			}
			last[message.Partition] = message
		}
	}
	return found
}

// checkRedeliveries: a message whose completed was answered with success does not come back to the group in a pop
// that was sent afterwards. Only what stands below every signal of its call counts (16.4).
func checkRedeliveries(books Books) []Violation {
	type commit struct {
		end  time.Duration
		next int64
	}
	commits := map[Reader][]commit{}
	note := func(outcome Outcome, end time.Duration, group string, items []AckItem) {
		if outcome != Done {
			return
		}
		for partition, next := range committed(items) {
			reader := Reader{partition, group}
			commits[reader] = append(commits[reader], commit{end, next})
		}
	}
	for _, ack := range books.Acks {
		note(ack.Outcome, ack.End, ack.Group, ack.Items)
	}
	for _, transaction := range books.Transactions {
		note(transaction.Outcome, transaction.End, transaction.Group, transaction.Acks)
	}
	for _, of := range commits {
		slices.SortFunc(of, func(a, b commit) int { return int(a.end - b.end) })
		for i := 1; i < len(of); i++ {
			of[i].next = max(of[i].next, of[i-1].next)
		}
	}
	var found []Violation
	for _, pop := range books.Pops {
		for _, message := range pop.Messages {
			of := commits[Reader{message.Partition, pop.Group}]
			i, _ := slices.BinarySearchFunc(of, pop.Start, func(c commit, start time.Duration) int { return int(c.end - start) })
			if i > 0 && message.Offset < of[i-1].next {
				found = append(found, violation("redelivery", "%v offset %d came back to %s at %v, it stood committed up to %d before",
					message.Partition, message.Offset, pop.Group, pop.End.Round(time.Millisecond), of[i-1].next))
			}
		}
	}
	return found
}

// committed gives, per partition of one ack call, the offset up to which its answer has certainly committed.
func committed(items []AckItem) map[Partition]int64 {
	signal := map[Partition]int64{}
	for _, item := range items {
		if lowest, any := signal[item.Partition]; item.Status != "completed" && (!any || item.Offset < lowest) {
			signal[item.Partition] = item.Offset
		}
	}
	next := map[Partition]int64{}
	for _, item := range items {
		lowest, any := signal[item.Partition]
		if item.Verdict.Success && item.Status == "completed" && (!any || item.Offset < lowest) {
			next[item.Partition] = max(next[item.Partition], item.Offset+1)
		}
	}
	return next
}

// grant is one lease on one partition as its client saw it.
type grant struct {
	leaseID    string
	start, end time.Duration // of the pop
	release    time.Duration // no release or expiry is possible before
}

// checkLeases: at most one lease is live per (partition, group). Two grants contradict each other when neither can
// have ended before the other one was made.
func checkLeases(books Books) []Violation {
	grants := map[Reader][]grant{}
	longest := time.Duration(0)
	released := firstReleases(books)
	for _, pop := range books.Pops {
		seen := map[Partition]bool{}
		for _, message := range pop.Messages {
			if seen[message.Partition] {
				continue
			}
			seen[message.Partition] = true
			reader := Reader{message.Partition, pop.Group}
			one := grant{leaseID: pop.LeaseID, start: pop.Start, end: pop.End, release: pop.Start + pop.Lease - leaseSlack(pop.Lease)}
			if at, any := released[leaseOf{reader, pop.LeaseID}]; any {
				one.release = min(one.release, at)
			}
			grants[reader] = append(grants[reader], one)
			longest = max(longest, pop.Lease)
		}
	}
	var found []Violation
	for reader, of := range grants {
		slices.SortFunc(of, func(a, b grant) int { return int(a.end - b.end) })
		for i, first := range of {
			for _, second := range of[i+1:] {
				if second.end-first.start > longest {
					break // the first has expired by then
				}
				if first.leaseID == second.leaseID || first.release >= second.end && second.release >= first.end {
					found = append(found, violation("double lease", "%v was leased as %s (answered at %v) and as %s (answered at %v)",
						reader, first.leaseID, first.end.Round(time.Millisecond), second.leaseID, second.end.Round(time.Millisecond)))
				}
			}
		}
	}
	return sorted(found)
}

type leaseOf struct {
	reader  Reader
	leaseID string
}

// firstReleases gives the earliest instant at which an ack may have released each lease.
func firstReleases(books Books) map[leaseOf]time.Duration {
	first := map[leaseOf]time.Duration{}
	note := func(start time.Duration, group, leaseID string, items []AckItem) {
		for _, item := range items {
			key := leaseOf{Reader{item.Partition, group}, leaseID}
			if at, any := first[key]; !any || start < at {
				first[key] = start
			}
		}
	}
	for _, ack := range books.Acks {
		note(ack.Start, ack.Group, ack.LeaseID, ack.Items)
	}
	for _, transaction := range books.Transactions {
		note(transaction.Start, transaction.Group, transaction.LeaseID, transaction.Acks)
	}
	return first
}
