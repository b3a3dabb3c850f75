package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// popGrace is how long after its client gave up a pop may still claim, or hold what is to be handed back.
	popGrace = 10 * time.Second
	// longestWriteGrace is the same for a write: no command is proposed after its deadline, which is at most 60 s.
	longestWriteGrace = 65 * time.Second
	// forever is an instant after every run.
	forever = time.Duration(math.MaxInt64)
)

// checkCursors: the answers to every group are those of the reference model, for each of its partitions.
func checkCursors(books Books, logs shelves) []Violation {
	collected := collectSteps(books, logs)
	readers := slices.SortedFunc(maps.Keys(collected), func(a, b Reader) int { return cmp.Compare(a.String(), b.String()) })
	var found []Violation
	for _, reader := range readers {
		found = append(found, explain(reader, collected[reader])...)
	}
	return found
}

// collectSteps sorts the calls by the cursors they concern.
func collectSteps(books Books, logs shelves) map[Reader][]step {
	steps := map[Reader][]step{}
	for _, pop := range books.Pops {
		for reader, one := range popSteps(books, pop, logs) {
			steps[reader] = append(steps[reader], one)
		}
	}
	add := func(call ackCall) {
		for reader, one := range call.steps(books) {
			steps[reader] = append(steps[reader], one)
		}
	}
	for _, ack := range books.Acks {
		add(ackCall{span: ack.Span, outcome: ack.Outcome, group: ack.Group, leaseID: ack.LeaseID, items: ack.Items})
	}
	for _, transaction := range books.Transactions {
		outcome := transaction.settled(logs)
		if outcome == NotDone && transaction.Reason != "rejected_ack" {
			continue // it had no effect, and its acks were not the reason
		}
		call := ackCall{span: transaction.Span, outcome: outcome, group: transaction.Group, leaseID: transaction.LeaseID, items: transaction.Acks, bundled: true}
		if transaction.Outcome == Unknown {
			call.span.End = books.effectEnd(transaction.Span, books.writeGrace())
			call.unanswered = true
		}
		add(call)
	}
	for _, extend := range books.Extends {
		for _, partition := range extend.Partitions {
			if one, any := extendStep(books, extend); any {
				reader := Reader{partition, extend.Group}
				steps[reader] = append(steps[reader], one)
			}
		}
	}
	return steps
}

// effectEnd is the last instant at which a call of unknown outcome may take effect: its own deadline, or the readiness
// of the broker after the end of the process that may have received it, whichever is first. In a cluster see settledBy.
func (b Books) effectEnd(call Span, grace time.Duration) time.Duration {
	if b.Replicated != nil {
		return b.settledBy(call, grace)
	}
	end := forever
	if call.End > 0 {
		end = call.End + grace
	}
	died := false
	for _, life := range b.Lives { // in order of their starts
		if died && life.Ready > 0 {
			return min(end, max(life.Ready, call.End))
		}
		died = died || life.End >= call.Start && life.End > 0
	}
	return end
}

// popSteps gives the claim of a pop per partition. A pop without an answer may have claimed anything in its queue.
func popSteps(books Books, pop Pop, logs shelves) map[Reader]step {
	steps := map[Reader]step{}
	read := func(pop Pop, optional bool) {
		for _, by := range claims(pop) {
			steps[Reader{by.partition, pop.Group}] = step{
				span: pop.Span, optional: optional,
				apply: func(c cursor) ([]cursor, string) {
					return one(c.claimed(by.claim))
				},
				label: fmt.Sprintf("pop delivers %d..%d as attempt %d under %s (%v)", by.first, by.last, by.attempt, by.leaseID, pop.Outcome),
			}
		}
	}
	switch {
	case pop.Outcome == Done:
		read(pop, false)
	case pop.Outcome == Unknown && pop.DarkLeaseID != "":
		dark := pop
		dark.LeaseID, dark.Messages = pop.DarkLeaseID, pop.DarkMessages
		read(dark, true)
	case pop.Outcome == Unknown:
		span := Span{pop.Start, books.effectEnd(pop.Span, popGrace)}
		for partition := range logs {
			if partition.Queue != pop.Queue {
				continue
			}
			steps[Reader{partition, pop.Group}] = step{
				span: span, optional: true, unseen: true, label: "pop without an answer",
				apply: func(c cursor) ([]cursor, string) { return one(c.claimedUnseen(span.End)) },
			}
		}
	}
	return steps
}

type claimOf struct {
	claim
	partition Partition
}

// claims splits the messages of a pop by partition.
func claims(pop Pop) []claimOf {
	var split []claimOf
	for _, message := range pop.Messages {
		i := slices.IndexFunc(split, func(c claimOf) bool { return c.partition == message.Partition })
		if i < 0 {
			split = append(split, claimOf{claim{
				span: pop.Span, leaseID: pop.LeaseID, lease: pop.Lease,
				first: message.Offset, attempt: message.Attempt,
			}, message.Partition})
			i = len(split) - 1
		}
		split[i].last = message.Offset
	}
	return split
}

// ackCall is what an ack and a transaction have in common.
type ackCall struct {
	span           Span
	outcome        Outcome
	group, leaseID string
	items          []AckItem
	bundled        bool
	unanswered     bool // it took effect, and nobody saw the verdicts
}

func (a ackCall) steps(books Books) map[Reader]step {
	split := map[Partition][]AckItem{}
	for _, item := range a.items {
		split[item.Partition] = append(split[item.Partition], item)
	}
	steps := map[Reader]step{}
	for partition, items := range split {
		items = slices.SortedFunc(slices.Values(items), func(x, y AckItem) int { return cmp.Compare(x.Offset, y.Offset) })
		by := settlement{span: a.span, leaseID: a.leaseID, items: items, rules: books.Queues[partition.Queue], bundled: a.bundled}
		name := "ack"
		if a.bundled {
			name = "transaction"
		}
		this := step{span: a.span, label: fmt.Sprintf("%s %s under %s (%v)", name, showItems(items), a.leaseID, a.outcome)}
		switch {
		case a.outcome == Done && a.bundled:
			this.apply = func(c cursor) ([]cursor, string) { return c.committed(by, !a.unanswered) }
		case a.outcome == Done:
			this.apply = func(c cursor) ([]cursor, string) { return c.answered(by) }
		case a.outcome == NotDone && a.bundled && len(split) == 1:
			this.apply = func(c cursor) ([]cursor, string) { return c.rejected(by) }
		case a.outcome == Unknown:
			this.span.End = books.effectEnd(a.span, books.writeGrace())
			by.span = this.span
			this.optional = true
			this.apply = func(c cursor) ([]cursor, string) { return c.anyWay(by) }
		default:
			continue // refused: nothing to see for the cursor
		}
		steps[Reader{partition, a.group}] = this
	}
	return steps
}

// answered keeps the ways in which the model gives the verdicts of the answer.
func (c cursor) answered(by settlement) ([]cursor, string) {
	var after []cursor
	reason := "the lease can neither be live nor over"
	for _, way := range c.settled(by) {
		if sameVerdicts(by.items, way.verdicts) {
			after = append(after, way.cursor)
			continue
		}
		reason = "the verdicts are " + showVerdicts(by.items, way.verdicts)
	}
	if after != nil {
		reason = ""
	}
	return after, reason
}

// anyWay takes every way that changes something.
func (c cursor) anyWay(by settlement) ([]cursor, string) {
	var after []cursor
	for _, way := range c.settled(by) {
		after = append(after, way.cursor)
	}
	return after, ""
}

// committed is the effect of a transaction that happened: its fence was live and every ack resolved.
func (c cursor) committed(by settlement, compare bool) ([]cursor, string) {
	if c.leaseID != by.leaseID || by.span.Start > c.expiresMax {
		return nil, "the lease held is " + c.leaseID + ", at most until " + show(c.expiresMax)
	}
	after, verdicts := c.applied(by)
	for i, verdict := range verdicts {
		if !verdict.Success || compare && verdict.DeadLettered != by.items[i].Verdict.DeadLettered {
			return nil, "the verdicts are " + showVerdicts(by.items, verdicts)
		}
	}
	return []cursor{after}, ""
}

// rejected is a transaction that was rolled back because of its ack: the lease must not have been live for certain.
func (c cursor) rejected(by settlement) ([]cursor, string) {
	if c.leaseID != by.leaseID || by.span.End >= c.expiresMin {
		return []cursor{c}, ""
	}
	if _, verdicts := c.applied(by); slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.Success }) {
		return []cursor{c}, ""
	}
	return nil, "the lease " + c.leaseID + " is live until " + show(c.expiresMin) + " and every ack resolves"
}

func extendStep(books Books, extend Extend) (step, bool) {
	this := step{span: extend.Span, label: fmt.Sprintf("extend of %s by %v (%v)", extend.LeaseID, extend.By, extend.Outcome)}
	switch {
	case extend.Outcome == Unknown:
		this.span.End = books.effectEnd(extend.Span, books.writeGrace())
		extend.Span = this.span
		this.optional = true
	case extend.Outcome == NotDone || extend.Renewed == 0:
		return step{}, false
	case extend.Renewed != len(extend.Partitions):
		this.optional = true // it does not say which partitions it reached
	}
	this.apply = func(c cursor) ([]cursor, string) { return one(c.extended(extend)) }
	return this, true
}

// one wraps a single successor.
func one(after cursor, reason string) ([]cursor, string) {
	if reason != "" {
		return nil, reason
	}
	return []cursor{after}, ""
}

func showItems(items []AckItem) string {
	verdicts := make([]Verdict, len(items))
	for i, item := range items {
		verdicts[i] = item.Verdict
	}
	return showVerdicts(items, verdicts)
}

// showVerdicts lists items, runs of equal ones as one.
func showVerdicts(items []AckItem, verdicts []Verdict) string {
	var runs []string
	for i := 0; i < len(items); {
		last := i
		for last+1 < len(items) && items[last+1].Status == items[i].Status && verdicts[last+1] == verdicts[i] && items[last+1].Offset == items[last].Offset+1 {
			last++
		}
		runs = append(runs, fmt.Sprintf("%s %d..%d%s", items[i].Status, items[i].Offset, items[last].Offset, verdicts[i]))
		i = last + 1
	}
	return strings.Join(runs, ", ")
}

// String shows the flags of a verdict that are set.
func (v Verdict) String() string {
	text := ""
	for _, flag := range []struct {
		set  bool
		name string
	}{{v.Success, " ok"}, {v.Released, " released"}, {v.DeadLettered, " dlq"}, {v.NoOp, " noop"}, {v.Error != "", " " + v.Error}} {
		if flag.set {
			text += flag.name
		}
	}
	return text
}
