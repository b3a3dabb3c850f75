package ledger

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// holdSlack is by how much a lease may outlive its term: the hold for leases of an earlier term (cluster.md 10,
	// QUEEN_RAFT_MAX_CLOCK_SKEW_MS) and something for the clock of the checker.
	holdSlack = 700 * time.Millisecond
	// none stands for an offset that is not set.
	none = -1
	// unseenLease is the lease of a claim whose answer nobody received.
	unseenLease = "unseen"
)

// cursor is the state of one (partition, group) in the reference model (messaging.md 17.1). It is comparable, so that
// a search can tell states apart. Instants are ranges, because a call takes effect somewhere between its ends.
type cursor struct {
	next         int64
	leaseID      string // "" when none is held
	leaseEnd     int64
	expiresMin   time.Duration
	expiresMax   time.Duration
	failures     int
	attempt      int
	attemptStart int64
	ceiling      int64
	notBefore    time.Duration
	releasedID   string
	releasedBy   string // the items of the releasing call, as encodeItems writes them
}

func newCursor() cursor { return cursor{attemptStart: none, ceiling: none, leaseEnd: none} }

// claim is the claim part of a pop.
type claim struct {
	span        Span
	leaseID     string
	lease       time.Duration
	first, last int64
	attempt     int
}

// claimed applies a claim. The reason says why the state does not allow it.
func (c cursor) claimed(by claim) (cursor, string) {
	switch {
	case c.leaseID != "" && by.span.End < c.expiresMin:
		return c, "the lease " + c.leaseID + " is live until " + show(c.expiresMin)
	case by.span.End < c.notBefore:
		return c, "the retry delay runs until " + show(c.notBefore)
	case by.first != c.next:
		return c, "the cursor is " + strconv.FormatInt(c.next, 10)
	case c.ceiling != none && by.last >= c.ceiling:
		return c, "claims end below " + strconv.FormatInt(c.ceiling, 10)
	}
	c = c.begun(by)
	if c.attempt != by.attempt {
		return c, "the attempt is " + strconv.Itoa(c.attempt)
	}
	return c, ""
}

// begun counts the attempt and holds the lease.
func (c cursor) begun(by claim) cursor {
	if c.next == c.attemptStart {
		c.attempt++
	} else {
		c.attempt = 1
	}
	c.attemptStart = c.next
	c.leaseID, c.leaseEnd = by.leaseID, by.last
	c.expiresMin = by.span.Start + by.lease - leaseSlack(by.lease)
	c.expiresMax = by.span.End + by.lease + leaseSlack(by.lease) + holdSlack
	return c
}

// claimedUnseen applies a claim that nobody received, at the latest at an instant. Its size is unknown and does not matter. Nor does its
// lease, under which nobody can ack: it may be handed back at any time. So all claims of this kind have the same effect, which
// search relies on.
func (c cursor) claimedUnseen(latest time.Duration) (cursor, string) {
	if c.leaseID != "" && latest < c.expiresMin {
		return c, "the lease " + c.leaseID + " is live until " + show(c.expiresMin)
	}
	c = c.begun(claim{leaseID: unseenLease, last: none})
	c.expiresMin, c.expiresMax = 0, 0
	return c, ""
}

// settlement is the part of an ack call that concerns one (partition, group).
type settlement struct {
	span    Span
	leaseID string
	items   []AckItem // by rising offset, one per offset
	rules   QueueRules
	bundled bool // in a transaction, where the repeat rule does not apply
}

const badLease = "invalid or expired lease"

// settled gives every state and verdicts that the call may lead to: the lease may have expired or not.
func (c cursor) settled(by settlement) []settledCursor {
	var ways []settledCursor
	held := c.leaseID == by.leaseID
	if held && by.span.Start <= c.expiresMax {
		after, verdicts := c.applied(by)
		ways = append(ways, settledCursor{after, verdicts})
	}
	if !held || by.span.End >= c.expiresMin {
		after := c
		if held {
			after.leaseID, after.leaseEnd = "", none
		}
		ways = append(ways, settledCursor{after, after.repeated(by)})
	}
	return ways
}

type settledCursor struct {
	cursor   cursor
	verdicts []Verdict
}

// repeated judges a call under a lease that is not live (6.4 rule 2).
func (c cursor) repeated(by settlement) []Verdict {
	verdicts := make([]Verdict, len(by.items))
	for i, item := range by.items {
		verdicts[i] = Verdict{Error: badLease}
		if by.bundled || c.releasedID != by.leaseID {
			continue
		}
		if first, known := decodeItem(c.releasedBy, item); known {
			verdicts[i] = first
		} else if item.Status == "completed" && item.Offset < c.next {
			verdicts[i] = Verdict{Success: true, NoOp: true}
		}
	}
	return verdicts
}

// applied is the effect of an ack under the live lease (6.5) and the verdicts it answers.
func (c cursor) applied(by settlement) (cursor, []Verdict) {
	verdicts := make([]Verdict, len(by.items))
	var inRange []int
	for i, item := range by.items {
		switch {
		case item.Offset >= c.next && item.Offset <= c.leaseEnd:
			inRange = append(inRange, i)
			verdicts[i].Success = true
		case item.Offset < c.next && item.Status == "completed":
			verdicts[i] = Verdict{Success: true, NoOp: true}
		default:
			verdicts[i].Error = "transaction is unresolvable, already committed, or acknowledgment is stale"
		}
	}
	if len(inRange) == 0 {
		return c, verdicts
	}
	before, released := c, false
	signal, completed := boundaries(by.items, inRange)
	if completed != none {
		c = c.moved(completed + 1)
		c.attemptStart = completed + 1
	}
	switch {
	case signal == none:
		if completed == before.leaseEnd {
			c, released = c.cleared(), true
		}
	default:
		c, released = c.signalled(before, by, signal, inRange, verdicts), true
	}
	if released {
		for _, i := range inRange {
			verdicts[i].Released = true
		}
		c.leaseID, c.leaseEnd = "", none
		c.releasedID, c.releasedBy = by.leaseID, encodeItems(by.items, verdicts)
	}
	return c, verdicts
}

// boundaries finds the lowest offset with a signal and the highest completed one below it, or none.
func boundaries(items []AckItem, inRange []int) (signal, completed int64) {
	signal, completed = none, none
	for _, i := range inRange {
		if items[i].Status != "completed" && signal == none {
			signal = items[i].Offset
		}
		if items[i].Status == "completed" && signal == none {
			completed = items[i].Offset
		}
	}
	return signal, completed
}

// signalled applies the lowest signal, on top of the completed prefix.
func (c cursor) signalled(before cursor, by settlement, signal int64, inRange []int, verdicts []Verdict) cursor {
	ordered := map[int64]int{} // offset of each dlq item → its place
	status := ""
	for _, i := range inRange {
		if by.items[i].Status == "dlq" {
			ordered[by.items[i].Offset] = i
			verdicts[i].DeadLettered = true
		}
		if by.items[i].Offset == signal {
			status = by.items[i].Status
		}
	}
	pass := func() {
		next := signal + 1
		for _, more := ordered[next]; more; _, more = ordered[next] {
			next++
		}
		c = c.moved(next).cleared()
	}
	switch status {
	case "dlq":
		pass()
	case "retry":
	case "failed":
		failures := before.failures
		if c.next != before.next {
			failures = 0
		}
		switch {
		case failures < by.rules.RetryLimit:
			c.failures = failures + 1
			if by.rules.RetryDelay > 0 {
				c.notBefore = by.span.Start + by.rules.RetryDelay - leaseSlack(by.rules.RetryDelay)
			}
		case c.next == signal:
			for _, i := range inRange {
				if by.items[i].Offset == signal {
					verdicts[i].DeadLettered = by.rules.DeadLetter
				}
			}
			pass()
		default:
			c.ceiling = signal
		}
	}
	return c
}

// moved is move(x) of the model.
func (c cursor) moved(next int64) cursor {
	c.next, c.failures, c.notBefore = next, 0, 0
	if next >= c.ceiling {
		c.ceiling = none
	}
	return c
}

// cleared forgets the attempts.
func (c cursor) cleared() cursor {
	c.attempt, c.attemptStart = 0, none
	return c
}

// extended applies a lease extension. An answer of success proves that the lease was live.
func (c cursor) extended(by Extend) (cursor, string) {
	switch {
	case c.leaseID != by.LeaseID:
		return c, "the lease held is " + strconv.Quote(c.leaseID)
	case by.Start > c.expiresMax:
		return c, "the lease ended at " + show(c.expiresMax)
	}
	c.expiresMin = max(c.expiresMin, by.Start+by.By-leaseSlack(by.By))
	c.expiresMax = max(c.expiresMax, by.End+by.By+leaseSlack(by.By)+holdSlack)
	return c, ""
}

// encodeItems writes the items of a call with their verdicts as a comparable value.
func encodeItems(items []AckItem, verdicts []Verdict) string {
	var text strings.Builder
	for i, item := range items {
		text.WriteString(itemKey(item))
		for _, flag := range []bool{verdicts[i].Success, verdicts[i].Released, verdicts[i].DeadLettered, verdicts[i].NoOp} {
			text.WriteByte("ft"[boolean(flag)])
		}
		text.WriteString(verdicts[i].Error)
		text.WriteByte('\n')
	}
	return text.String()
}

// decodeItem finds the verdict of an item with the same message and status.
func decodeItem(text string, item AckItem) (Verdict, bool) {
	for line := range strings.Lines(text) {
		if rest, same := strings.CutPrefix(strings.TrimSuffix(line, "\n"), itemKey(item)); same {
			return Verdict{
				Success: rest[0] == 't', Released: rest[1] == 't', DeadLettered: rest[2] == 't', NoOp: rest[3] == 't',
				Error: rest[4:],
			}, true
		}
	}
	return Verdict{}, false
}

func itemKey(item AckItem) string {
	return strconv.FormatInt(item.Offset, 10) + " " + item.Status + " "
}

func boolean(flag bool) int {
	if flag {
		return 1
	}
	return 0
}

func show(at time.Duration) string { return at.Round(time.Millisecond).String() }

// sameVerdicts compares the verdicts of a call with what the model says.
func sameVerdicts(items []AckItem, verdicts []Verdict) bool {
	return slices.EqualFunc(items, verdicts, func(item AckItem, verdict Verdict) bool { return item.Verdict == verdict })
}
