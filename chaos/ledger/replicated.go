package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"
)

// deadlineSlack is how much later than its deadline a command may be proposed in the eyes of the checker: the request was on
// its way before the node began to count.
const deadlineSlack = time.Second

// writeGrace is how long after its client gave up a write may still be proposed.
func (b Books) writeGrace() time.Duration {
	if b.Replicated != nil {
		return b.Replicated.Deadline + deadlineSlack
	}
	return longestWriteGrace
}

// settledBy is the last instant at which a call of unknown outcome may take effect in a cluster.
//
// Its command is proposed until its deadline, which a request that lay in the socket of a paused node, or in front of a cut,
// meets only after the fault. What has been proposed by then is committed before the first write that was sent later and
// acknowledged: the log that holds this write holds the command in front of it, or never will, because no node that lacks the
// write can lead again.
func (b Books) settledBy(call Span, grace time.Duration) time.Duration {
	if call.End == 0 {
		return forever
	}
	from := call.End
	for _, fault := range b.Faults { // in order of their starts
		switch {
		case fault.Start > from || fault.End > 0 && fault.End < call.Start:
		case fault.End == 0:
			return forever
		default:
			from = max(from, fault.End)
		}
	}
	return b.firstWriteAfter(from + grace)
}

// firstWriteAfter is when the first write was acknowledged that had been sent at the instant or later.
func (b Books) firstWriteAfter(at time.Duration) time.Duration {
	first := forever
	consider := func(span Span, wrote bool) {
		if wrote && span.Start >= at {
			first = min(first, span.End)
		}
	}
	// Calls stand in the order of their starts.
	for i := sort.Search(len(b.Pushes), func(i int) bool { return b.Pushes[i].Start >= at }); i < len(b.Pushes); i++ {
		push := b.Pushes[i]
		if push.Start > first {
			break
		}
		consider(push.Span, push.Outcome == Done && slices.ContainsFunc(push.Items, func(item PushItem) bool { return item.Status == "queued" }))
	}
	return first
}

// CheckReplicas compares what every node of a cluster holds, read after all of them had applied the same log.
func CheckReplicas(states map[string]State) []Violation {
	nodes := slices.Sorted(maps.Keys(states))
	var found []Violation
	for _, node := range nodes[min(1, len(nodes)):] {
		found = append(found, compareStates(nodes[0], node, states[nodes[0]], states[node])...)
	}
	return sorted(found)
}

// CheckPrefixes compares logs that two nodes gave while the load went on: one may know more, none anything else.
func CheckPrefixes(one, other string, logs, others map[Partition]Log) []Violation {
	var found []Violation
	for partition, log := range logs {
		records := others[partition].Records
		shared := min(len(log.Records), len(records))
		found = append(found, firstDifference(one, other, partition, log.Records[:shared], records[:shared])...)
	}
	return sorted(found)
}

func compareStates(one, other string, a, b State) []Violation {
	var found []Violation
	for _, partition := range unionOfKeys(a.Logs, b.Logs) {
		left, right := a.Logs[partition], b.Logs[partition]
		if left.LogStart != right.LogStart || left.Tail != right.Tail || len(left.Records) != len(right.Records) {
			found = append(found, violation("divergent", "%v: %s holds %d records in [%d, %d), %s %d in [%d, %d)", partition,
				one, len(left.Records), left.LogStart, left.Tail, other, len(right.Records), right.LogStart, right.Tail))
		}
		shared := min(len(left.Records), len(right.Records))
		found = append(found, firstDifference(one, other, partition, left.Records[:shared], right.Records[:shared])...)
	}
	for _, reader := range unionOfKeys(a.Positions, b.Positions) {
		left, known := a.Positions[reader]
		right, knownToo := b.Positions[reader]
		if left != right || known != knownToo {
			found = append(found, violation("divergent", "%v stands at %d on %s and at %d on %s", reader, left, one, right, other))
		}
	}
	if left, right := sortedLetters(a), sortedLetters(b); !slices.Equal(left, right) {
		found = append(found, violation("divergent", "%s holds %d dead letters, %s %d, and they are not the same", one, len(left), other, len(right)))
	}
	return found
}

func firstDifference(one, other string, partition Partition, left, right []Record) []Violation {
	for i := range left {
		if left[i] != right[i] {
			return []Violation{violation("divergent", "%v: %s holds %s (%s) at offset %d, %s holds %s (%s) at offset %d", partition,
				one, left[i].Token, left[i].TransactionID, left[i].Offset, other, right[i].Token, right[i].TransactionID, right[i].Offset)}
		}
	}
	return nil
}

// sortedLetters brings dead letters into one order: rows of one instant may be listed in any.
func sortedLetters(state State) []DeadLetter {
	return slices.SortedFunc(slices.Values(state.DeadLetters), func(a, b DeadLetter) int {
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// unionOfKeys lists the keys of both maps, each once, in a stable order.
func unionOfKeys[K interface {
	comparable
	fmt.Stringer
}, V any](a, b map[K]V) []K {
	keys := maps.Clone(a)
	if keys == nil {
		keys = map[K]V{}
	}
	maps.Copy(keys, b)
	return slices.SortedFunc(maps.Keys(keys), func(x, y K) int { return cmp.Compare(x.String(), y.String()) })
}
