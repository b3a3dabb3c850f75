package ledger

import (
	"slices"
	"time"
)

// attempt is one try to store one message.
type attempt struct {
	item    PushItem
	outcome Outcome // of the call
	span    Span
}

// attempts finds what the clients tried to store, by token.
type attempts map[string]attempt

func indexAttempts(books Books) attempts {
	index := attempts{}
	for _, push := range books.Pushes {
		for _, item := range push.Items {
			index[item.Token] = attempt{item: item, outcome: push.Outcome, span: push.Span}
		}
	}
	for _, transaction := range books.Transactions {
		for _, item := range transaction.Pushes {
			index[item.Token] = attempt{item: item, outcome: transaction.Outcome, span: transaction.Span}
		}
	}
	return index
}

// CheckLogs judges the logs alone, which is possible while the load goes on: before is the history as it stood before
// the logs were read, after as it stood afterwards.
func CheckLogs(before, after Books, logs map[Partition]Log) []Violation {
	return checkLogs(before, indexAttempts(after), indexLogs(logs))
}

func checkLogs(before Books, index attempts, logs shelves) []Violation {
	var found []Violation
	for partition, log := range logs {
		found = append(found, checkOffsets(partition, log)...)
		found = append(found, checkOrigins(index, partition, log)...)
		found = append(found, checkOrder(before, partition, log)...)
	}
	for _, push := range before.Pushes {
		found = append(found, checkAnswered(push, logs)...)
		found = append(found, checkWhole(push, logs)...)
	}
	found = append(found, checkIdentities(before)...)
	return sorted(found)
}

// checkOffsets: the offsets of a partition are gapless from 0, for nothing in a run removes messages.
func checkOffsets(partition Partition, log shelf) []Violation {
	var found []Violation
	next := int64(0)
	for _, record := range log.Records {
		if record.Offset != next {
			found = append(found, violation("gap", "%v has offset %d where %d is due", partition, record.Offset, next))
		}
		next = record.Offset + 1
	}
	if log.LogStart != 0 || log.Tail != next {
		found = append(found, violation("gap", "%v claims the range [%d, %d) and holds %d records up to %d",
			partition, log.LogStart, log.Tail, len(log.Records), next))
	}
	return found
}

// checkOrigins: every record stems from a push that may have stored it, and stands there once.
func checkOrigins(index attempts, partition Partition, log shelf) []Violation {
	var found []Violation
	tokens, txids := map[string]int64{}, map[string]int64{}
	for _, record := range log.Records {
		if first, twice := tokens[record.Token]; twice {
			found = append(found, violation("duplicate", "%v holds %s at %d and at %d", partition, record.Token, first, record.Offset))
		}
		if first, twice := txids[record.TransactionID]; twice {
			found = append(found, violation("duplicate", "%v holds txid %s at %d and at %d", partition, record.TransactionID, first, record.Offset))
		}
		tokens[record.Token], txids[record.TransactionID] = record.Offset, record.Offset

		origin, known := index[record.Token]
		switch {
		case !known || origin.item.Partition != partition:
			found = append(found, violation("phantom", "%v offset %d holds %q, which nobody pushed there", partition, record.Offset, record.Token))
		case origin.outcome == NotDone:
			found = append(found, violation("phantom", "%v offset %d holds %s, whose call was refused", partition, record.Offset, record.Token))
		case origin.outcome == Done && (origin.item.Status == "duplicate" || origin.item.Status == "error"):
			found = append(found, violation("phantom", "%v offset %d holds %s, which was answered %s", partition, record.Offset, record.Token, origin.item.Status))
		case origin.item.TransactionID != "" && origin.item.TransactionID != record.TransactionID:
			found = append(found, violation("altered", "%v offset %d has txid %s, pushed was %s", partition, record.Offset, record.TransactionID, origin.item.TransactionID))
		}
	}
	return found
}

// checkAnswered: what was answered queued or duplicate stands at the offset of the answer.
func checkAnswered(push Push, logs shelves) []Violation {
	var found []Violation
	if push.Outcome != Done {
		return nil
	}
	for _, item := range push.Items {
		if item.Status == "error" {
			continue
		}
		record, there := logs[item.Partition].at(item.Offset) // a partition that is gone holds nothing
		switch {
		case !there:
			found = append(found, violation("lost", "%v offset %d is missing, %s was answered %s there at %v", item.Partition, item.Offset, item.Token, item.Status, show(push.End)))
		case item.Status == "queued" && record.Token != item.Token:
			found = append(found, violation("lost", "%v offset %d holds %s, %s was answered queued there at %v", item.Partition, item.Offset, record.Token, item.Token, show(push.End)))
		case item.Status == "duplicate" && record.TransactionID != item.TransactionID:
			found = append(found, violation("lost", "%v offset %d holds txid %s, %s was answered duplicate of it", item.Partition, item.Offset, record.TransactionID, item.TransactionID))
		case item.TransactionID == "" && record.TransactionID != item.MessageID:
			found = append(found, violation("altered", "%v offset %d has txid %s, minted was %s", item.Partition, item.Offset, record.TransactionID, item.MessageID))
		}
	}
	return found
}

// checkWhole: the messages of one push for one partition are stored together and in order, or not at all. A message
// whose txid stands there already is no part of that.
func checkWhole(push Push, logs shelves) []Violation {
	var found []Violation
	groups := map[Partition][]PushItem{}
	for _, item := range push.Items {
		groups[item.Partition] = append(groups[item.Partition], item)
	}
	for partition, items := range groups {
		log := logs[partition]
		stored, missing, last := 0, 0, int64(-1)
		for _, item := range items {
			offset, there := log.find(item.Token)
			switch {
			case there && stored > 0 && offset != last+1:
				found = append(found, violation("order", "%v holds %s at %d, its predecessor in the same push at %d", partition, item.Token, offset, last))
				fallthrough
			case there:
				stored, last = stored+1, offset
			case item.TransactionID == "" || !log.has(item.TransactionID):
				missing++
			}
		}
		if stored > 0 && missing > 0 {
			found = append(found, violation("torn", "%v holds %d messages of one push and lacks %d, such as those around %s", partition, stored, missing, items[0].Token))
		}
	}
	return found
}

// checkOrder: a push that was sent after another one was answered stands behind it.
func checkOrder(books Books, partition Partition, log shelf) []Violation {
	type stored struct {
		span        Span
		done        bool
		first, last int64
	}
	var calls []stored
	for _, push := range books.Pushes {
		call := stored{span: push.Span, done: push.Outcome == Done, first: -1}
		for _, item := range push.Items {
			if offset, there := log.find(item.Token); there && item.Partition == partition {
				if call.first < 0 {
					call.first = offset
				}
				call.last = offset
			}
		}
		if call.first >= 0 {
			calls = append(calls, call)
		}
	}
	answered := slices.Clone(calls)
	answered = slices.DeleteFunc(answered, func(c stored) bool { return !c.done })
	slices.SortFunc(answered, func(a, b stored) int { return int(a.span.End - b.span.End) })
	slices.SortFunc(calls, func(a, b stored) int { return int(a.span.Start - b.span.Start) })
	var found []Violation
	highest, next := int64(-1), 0
	for _, call := range calls {
		for ; next < len(answered) && answered[next].span.End < call.span.Start; next++ {
			highest = max(highest, answered[next].last)
		}
		if call.first <= highest {
			found = append(found, violation("order", "%v offset %d was pushed at %v, after offset %d had been answered",
				partition, call.first, call.span.Start.Round(time.Millisecond), highest))
		}
	}
	return found
}

// checkIdentities: all answers about one offset name one message id.
func checkIdentities(books Books) []Violation {
	type slot struct {
		partition Partition
		offset    int64
	}
	var found []Violation
	ids := map[slot]string{}
	see := func(partition Partition, offset int64, id string) {
		if id == "" || offset < 0 {
			return
		}
		at := slot{partition, offset}
		if first, seen := ids[at]; seen && first != id {
			found = append(found, violation("altered", "%v offset %d was named %s and %s", partition, offset, first, id))
		}
		ids[at] = id
	}
	for _, push := range books.Pushes {
		for _, item := range push.Items {
			if push.Outcome == Done && item.Status != "error" {
				see(item.Partition, item.Offset, item.MessageID)
			}
		}
	}
	for _, pop := range books.Pops {
		for _, message := range pop.Messages {
			see(message.Partition, message.Offset, message.MessageID)
		}
	}
	return found
}
