package ledger

import (
	"fmt"
	"slices"
)

// Check judges a finished run: the load has ended and the groups have drained their queues.
func Check(books Books, state State) []Violation {
	logs := indexLogs(state.Logs)
	found := checkLogs(books, indexAttempts(books), logs)
	found = append(found, checkTransactions(books, logs)...)
	found = append(found, checkDeliveries(books, logs)...)
	found = append(found, checkRedeliveries(books)...)
	found = append(found, checkLeases(books)...)
	found = append(found, checkDeadLetters(books, state, logs)...)
	found = append(found, checkPositions(state)...)
	return append(found, checkCursors(books, logs)...)
}

// checkPositions: a drained group stands at the tail of every partition.
func checkPositions(state State) []Violation {
	var found []Violation
	for reader, next := range state.Positions {
		if tail := state.Logs[reader.Partition].Tail; next != tail {
			found = append(found, violation("position", "%v stands at %d after draining, the tail is %d", reader, next, tail))
		}
	}
	return sorted(found)
}

// violation makes a finding.
func violation(rule, format string, values ...any) Violation {
	return Violation{Rule: rule, Detail: fmt.Sprintf(format, values...)}
}

// sorted puts findings of a walk over a map into a stable order.
func sorted(found []Violation) []Violation {
	slices.SortFunc(found, func(a, b Violation) int {
		return slices.Compare([]string{a.Rule, a.Detail}, []string{b.Rule, b.Detail})
	})
	return found
}

// String shows a partition as queue/name.
func (p Partition) String() string { return p.Queue + "/" + p.Name }

// String shows a reader as group@queue/partition.
func (r Reader) String() string { return r.Group + "@" + r.Partition.String() }
