package contract

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

const (
	// queueMode is the reserved group of reading without a group (section 1).
	queueMode = "__QUEUE_MODE__"
	// wholeBacklog is a batch that no test reaches.
	wholeBacklog = 1000
	// delivery bounds a long poll that must be answered: late is tolerated up to it.
	delivery = 20 * time.Second
	// stampSlack covers the rounding of a time to milliseconds and the step between the clocks that are compared.
	stampSlack = 20 * time.Millisecond

	// anyAttempt leaves the delivery attempt of a claim open where the contract does.
	anyAttempt = 0

	errLease        = "invalid or expired lease"
	errUnresolvable = "transaction is unresolvable, already committed, or acknowledgment is stale"
)

// scene is a queue of the test's own whose messages m0, m1, … stand in one partition in that order, and one group
// that reads it from the beginning.
type scene struct {
	t           *testing.T
	client      *harness.Client
	queue       string
	partition   string
	group       string // "" is queue mode
	pushed      int
	partitionID string // known after the first claim of any reader
	leaseTime   int    // leaseSeconds of the next claims; 0 sends none
}

// newScene configures a fresh queue, unless options is nil, and pushes n messages into its partition Default. The
// group is a named one.
func newScene(t *testing.T, options map[string]any, n int) *scene {
	t.Helper()
	return newSceneAt(t, suite.client, options, n)
}

// newSceneAt is newScene on another broker or for another tenant.
func newSceneAt(t *testing.T, client *harness.Client, options map[string]any, n int) *scene {
	t.Helper()
	s := &scene{t: t, client: client, queue: uniqueName(t), partition: "Default", group: "g"}
	if options != nil {
		need(t, client.Configure(s.queue, options), 200)
	}
	s.push(n)
	return s
}

// as returns the same scene seen by another group.
func (s *scene) as(group string) *scene {
	other := *s
	other.group = group
	return &other
}

// in returns the same scene reporting to a subtest.
func (s *scene) in(t *testing.T) *scene {
	other := *s
	other.t = t
	return &other
}

func txid(offset int) string { return fmt.Sprint("m", offset) }

// push appends n messages in one call: one append.
func (s *scene) push(n int) {
	s.t.Helper()
	if n == 0 {
		return
	}
	items := make([]harness.Item, n)
	for i := range items {
		items[i] = harness.Item{Queue: s.queue, Partition: s.partition, Payload: s.pushed + i, TransactionID: txid(s.pushed + i)}
	}
	for i, verdict := range pushAll(s.t, s.client, items...) {
		if verdict.Offset == nil || int(*verdict.Offset) != s.pushed+i {
			s.t.Fatalf("message %d: want offset %d, got %+v", i, s.pushed+i, verdict)
		}
	}
	s.pushed += n
}

// query is the query string of this reader.
func (s *scene) query(batch int, more ...string) string {
	query := fmt.Sprint("batch=", batch)
	if s.group != "" {
		query += "&subscriptionMode=all&consumerGroup=" + url.QueryEscape(s.group)
	}
	if s.leaseTime > 0 {
		query += fmt.Sprint("&leaseSeconds=", s.leaseTime)
	}
	return strings.Join(append([]string{query}, more...), "&")
}

func (s *scene) pop(batch int, more ...string) harness.PopReply {
	s.t.Helper()
	return s.learn(s.client.Pop(s.queue, s.query(batch, more...)))
}

// pinned is pop from the partition of the scene alone.
func (s *scene) pinned(batch int, more ...string) harness.PopReply {
	s.t.Helper()
	return s.learn(s.client.PopPartition(s.queue, s.partition, s.query(batch, more...)))
}

// learn keeps the partition id that a pop shows.
func (s *scene) learn(reply harness.PopReply) harness.PopReply {
	if reply.PartitionID != "" {
		s.partitionID = reply.PartitionID
	}
	return reply
}

// claim pops up to batch messages at once; exactly the offsets first to last must come, as this attempt.
func (s *scene) claim(batch, first, last, attempt int) claim {
	s.t.Helper()
	return s.needClaim(s.pop(batch), first, last, attempt)
}

// redelivered is claim without a limit on the batch.
func (s *scene) redelivered(first, last, attempt int) claim {
	s.t.Helper()
	return s.claim(wholeBacklog, first, last, attempt)
}

// awaited is redelivered by a long poll.
func (s *scene) awaited(first, last, attempt int) claim {
	s.t.Helper()
	return s.needClaim(s.pop(wholeBacklog, "wait=true", waitFor(delivery)), first, last, attempt)
}

func waitFor(timeout time.Duration) string { return fmt.Sprint("timeout=", timeout.Milliseconds()) }

func (s *scene) needClaim(reply harness.PopReply, first, last, attempt int) claim {
	s.t.Helper()
	need(s.t, reply.Response, 200)
	if len(reply.Messages) != last-first+1 {
		s.t.Fatalf("want offsets %d to %d, got %v", first, last, reply)
	}
	for i, message := range reply.Messages {
		if message.Offset != int64(first+i) || attempt != anyAttempt && message.DeliveryAttempt != attempt {
			s.t.Fatalf("want offset %d as attempt %d, got offset %d as attempt %d: %v",
				first+i, attempt, message.Offset, message.DeliveryAttempt, reply)
		}
	}
	return claim{scene: s, lease: reply.LeaseID, messages: reply.Messages}
}

// needNothing ends the test unless a pop at once finds nothing.
func (s *scene) needNothing() {
	s.t.Helper()
	needEmpty(s.t, s.pop(wholeBacklog))
}

// positionOf reads the next offset of this reader in its partition; ok is false without a cursor (10.7).
func (s *scene) positionOf() (next int, ok bool) {
	s.t.Helper()
	stored := storedPosition(s.t, s)
	if stored.Offset == nil {
		return 0, false
	}
	return *stored.Offset, true
}

func (s *scene) groupName() string {
	if s.group == "" {
		return queueMode
	}
	return s.group
}

// needCursor ends the test unless the reader stands at next.
func (s *scene) needCursor(next int) {
	s.t.Helper()
	if got, ok := s.positionOf(); !ok || got != next {
		s.t.Fatalf("want cursor %d, got %d (cursor exists: %v)", next, got, ok)
	}
}

// needCharged ends the test unless the position at the cursor has exactly this many charged failures of a retryLimit
// of 3: it fails the first message until it is dead-lettered and counts. The reader holds no lease before it.
func (s *scene) needCharged(charged int) {
	s.t.Helper()
	const retryLimit = 3
	for failures := charged; ; failures++ {
		reply := s.pop(wholeBacklog)
		need(s.t, reply.Response, 200)
		verdicts := s.client.AckMessages("failed", reply.Messages[0])
		if failures < retryLimit {
			needVerdicts(s.t, verdicts, released)
			continue
		}
		needVerdicts(s.t, verdicts, filed)
		letters := s.deadLetters()
		last := slices.IndexFunc(letters, func(letter deadLetter) bool { return letter.Offset == reply.Messages[0].Offset })
		if last < 0 || letters[last].RetryCount != retryLimit {
			s.t.Fatalf("want a dead letter of offset %d with retryCount %d, got %+v", reply.Messages[0].Offset, retryLimit, letters)
		}
		return
	}
}

// deadLetter is a row of 11.4.
type deadLetter struct {
	ID            string
	Queue         string
	Partition     string
	PartitionID   string
	ConsumerGroup string
	Offset        int64
	MessageID     string
	TransactionID string
	ErrorMessage  *string
	RetryCount    int
	CreatedAt     time.Time
	FailedAt      time.Time
}

// deadLetters lists the dead letters of this reader, lowest offset first.
func (s *scene) deadLetters() []deadLetter {
	s.t.Helper()
	var answer struct{ Messages []deadLetter }
	reply := s.client.Get(fmt.Sprintf("/api/v1/dlq?queue=%s&consumerGroup=%s", url.QueryEscape(s.queue), url.QueryEscape(s.groupName())))
	need(s.t, reply, 200)
	if err := reply.Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(answer.Messages, func(a, b deadLetter) int { return int(a.Offset - b.Offset) })
	return answer.Messages
}

// needDeadLetters ends the test unless exactly these offsets are filed for this reader.
func (s *scene) needDeadLetters(offsets ...int64) []deadLetter {
	s.t.Helper()
	letters := s.deadLetters()
	got := make([]int64, len(letters))
	for i, letter := range letters {
		got[i] = letter.Offset
	}
	if !slices.Equal(got, offsets) {
		s.t.Fatalf("want dead letters of %v, got %v", offsets, got)
	}
	return letters
}

// ackUnfenced acks without naming a lease.
func (s *scene) ackUnfenced(marks ...mark) harness.AckReply {
	s.t.Helper()
	return s.client.AckBatch(s.group, s.items("", marks...)...)
}

func (s *scene) items(lease string, marks ...mark) []harness.AckItem {
	var items []harness.AckItem
	for _, mark := range marks {
		for _, offset := range mark.offsets {
			items = append(items, harness.AckItem{
				TransactionID: txid(offset), PartitionID: s.partitionID, LeaseID: lease, Status: mark.status, Error: mark.reason,
			})
		}
	}
	return items
}
