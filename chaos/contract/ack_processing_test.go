package contract

import (
	"bytes"
	"fmt"
	"testing"

	"queen/chaos/contract/harness"
)

// TestAckGroupsOfOneCallAreIndependent: 6.4.1 and 6.4.5, a bad lease fails its whole group and no other.
func TestAckGroupsOfOneCallAreIndependent(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	batch := s.redelivered(0, 3, 1)
	items := s.items(batch.lease, completed(0))
	items = append(items, s.items("not a lease", completed(2, 3))...)
	items = append(items, s.items(batch.lease, completed(1))...)
	needVerdicts(t, s.client.AckBatch(s.group, items...), kept, badLease, badLease, kept)
	s.needCursor(2)
	needVerdicts(t, batch.ack(completed(2, 3)), released)
}

// TestAckGroupsAreProcessedInOrderOfTheirFirstItem: 6.4.1, what the first group settles the second one meets.
func TestAckGroupsAreProcessedInOrderOfTheirFirstItem(t *testing.T) {
	t.Parallel()
	t.Run("6.4.1 unfenced first", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 3)
		batch := s.redelivered(0, 2, 1)
		items := append(s.items("", completed(2)), s.items(batch.lease, completed(0))...)
		needVerdicts(t, s.client.AckBatch(s.group, items...), released, noop)
		s.needCursor(3)
	})
	t.Run("6.4.1 fenced first, also when its items are spread", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 3)
		batch := s.redelivered(0, 2, 1)
		items := append(s.items(batch.lease, completed(0)), s.items("", completed(2))...)
		items = append(items, s.items(batch.lease, completed(1))...)
		needVerdicts(t, s.client.AckBatch(s.group, items...), kept, released, kept)
		s.needCursor(3)
	})
}

// TestAckOrderOfItemsDoesNotMatter: 6.4.1, the set of the items of a group decides.
func TestAckOrderOfItemsDoesNotMatter(t *testing.T) {
	t.Parallel()
	orders := [][]mark{
		{completed(0, 1), failed(2), completed(3)},
		{failed(2), completed(3), completed(1), completed(0)},
		{completed(3), completed(1), failed(2), completed(0)},
	}
	for i, marks := range orders {
		t.Run(fmt.Sprint("6.4.1 order ", i), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 4)
			needVerdicts(t, s.redelivered(0, 3, 1).ack(marks...), released)
			s.needCursor(2)
			needVerdicts(t, s.redelivered(2, 3, 2).ack(retried(2)), released)
			s.needCharged(1)
		})
	}
}

// TestRepeatedAckIsAnsweredAsTheFirstTime: 6.4.2, for every kind of release; the repeat changes nothing.
func TestRepeatedAckIsAnsweredAsTheFirstTime(t *testing.T) {
	t.Parallel()
	const batchSize = 3 // of 4 messages, so that something is left to claim after any release
	cases := map[string]struct {
		marks   []mark
		cursor  int
		charged int
		filed   []int64
	}{
		"failed":            {[]mark{completed(0), failed(1)}, 1, 1, nil},
		"retry":             {[]mark{completed(0), retried(1)}, 1, 0, nil},
		"dlq":               {[]mark{completed(0), dlqed(1).because("broken")}, 2, 0, []int64{1}},
		"dlq and completed": {[]mark{dlqed(1), completed(0, 2)}, 2, 0, []int64{1}},
		"completed":         {[]mark{completed(0, 1, 2)}, 3, 0, nil},
	}
	for name, c := range cases {
		t.Run("6.4.2 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 3}, 4)
			batch := s.claim(batchSize, 0, batchSize-1, 1)
			first := batch.ack(c.marks...)
			need(t, first.Response, 200)
			for range 3 {
				needSameAnswer(t, first, batch.ack(c.marks...))
			}
			s.needCursor(c.cursor)
			s.needDeadLetters(c.filed...)
			// The memory holds at least until the next lease is released: it lives under another live lease.
			next := s.redelivered(c.cursor, 3, anyAttempt)
			needSameAnswer(t, first, batch.ack(c.marks...))
			s.needNothing()
			needVerdicts(t, next.ack(retried(c.cursor)), released)
			s.needCharged(c.charged)
		})
	}
}

func needSameAnswer(t *testing.T, first, again harness.AckReply) {
	t.Helper()
	need(t, again.Response, 200)
	if !bytes.Equal(first.Body, again.Body) {
		t.Fatalf("want the first answer %s, got %s", first.Body, again.Body)
	}
}

// TestRepeatedItemIsJudgedByItself: 6.4.2, the repeat rule is about items, not about whole calls.
func TestRepeatedItemIsJudgedByItself(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 6)
	batch := s.claim(5, 0, 4, 1)
	needVerdicts(t, batch.ack(completed(0)), kept)
	needVerdicts(t, batch.ack(completed(1), failed(2, 3)), released)
	t.Run("6.4.2 an item of the releasing call alone", func(t *testing.T) {
		needVerdicts(t, batch.ack(failed(2)), released)
	})
	t.Run("6.4.2 its items in another order and company", func(t *testing.T) {
		needVerdicts(t, batch.ack(failed(3), completed(0), completed(1)), released, noop, released)
	})
	t.Run("6.4.2 an item of an earlier call, settled below the cursor, is a no-op", func(t *testing.T) {
		needVerdicts(t, batch.ack(completed(0)), noop)
	})
	t.Run("6.4.2 another status than in the releasing call", func(t *testing.T) {
		needVerdicts(t, batch.ack(retried(2)), badLease)
		needVerdicts(t, batch.ack(completed(2)), badLease)
		needVerdicts(t, batch.ack(dlqed(3)), badLease)
	})
	t.Run("6.4.2 an item that was not in the releasing call", func(t *testing.T) {
		needVerdicts(t, batch.ack(failed(4)), badLease)
		needVerdicts(t, batch.ack(completed(4)), badLease)
		needVerdicts(t, batch.ack(completed(5)), badLease)
	})
	s.needDeadLetters()
	s.needCursor(2)
	s.needCharged(1)
}

// TestReleasedLeaseIsNotLiveAgain: 6.4.2, after the next lease has been released nothing new is done under the old one.
func TestReleasedLeaseIsNotLiveAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	first := s.redelivered(0, 2, 1)
	needVerdicts(t, first.ack(retried(0)), released)
	second := s.redelivered(0, 2, 2)
	needVerdicts(t, first.ack(completed(0, 1, 2)), badLease)
	needVerdicts(t, first.ack(failed(1)), badLease)
	needVerdicts(t, second.ack(completed(0)), kept)
	needVerdicts(t, first.ack(completed(0)), noop) // it lies below the cursor, whichever call settled it
	s.needCursor(1)
	needVerdicts(t, second.ack(completed(1, 2)), released)
	s.needNothing()
}

// TestAckWithoutLeaseMayReleaseTheBatchOfAnother: 6.4.3.
func TestAckWithoutLeaseMayReleaseTheBatchOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		marks   []mark
		verdict verdict
		cursor  int
	}{
		"completed to the end": {[]mark{completed(2)}, released, 3},
		"failed":               {[]mark{failed(0)}, released, 0},
		"retry":                {[]mark{retried(1)}, released, 0},
		"dlq":                  {[]mark{dlqed(0)}, filed, 1},
	} {
		t.Run("6.4.3 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 4)
			batch := s.claim(3, 0, 2, 1)
			needVerdicts(t, s.ackUnfenced(c.marks...), c.verdict)
			s.needCursor(c.cursor)
			next := s.redelivered(c.cursor, 3, anyAttempt)
			needVerdicts(t, batch.ack(completed(1)), map[bool]verdict{true: noop, false: badLease}[c.cursor > 1])
			needVerdicts(t, next.ack(completed(3)), released)
		})
	}
}

// TestExpiredLeaseCannotAck: 6.4.2 and 6.4.3, the stale leaseId is refused and the same ack without it succeeds.
func TestExpiredLeaseCannotAck(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.leaseTime = 1
	batch := s.redelivered(0, 1, 1)
	eventually(t, delivery, func() (bool, string) {
		reply := batch.ack(mark{status: "completed", offsets: []int{99}})
		need(t, reply.Response, 200)
		return verdictOf(reply.Items[0]) == badLease, reply.String()
	})
	needVerdicts(t, batch.ack(completed(0)), badLease)
	needVerdicts(t, s.ackUnfenced(completed(0)), kept)
	s.needCursor(1)
	s.redelivered(1, 1, anyAttempt)
}

// TestAckResolvesTheLowestOffset: 6.4.4, of several messages in range with one txid the lowest is taken, and what
// stands below the cursor is out of range.
func TestAckResolvesTheLowestOffset(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"dedupWindowSeconds": 0}, 0)
	for range 3 {
		pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m0"})
	}
	batch := s.redelivered(0, 2, 1)
	for next := 1; next <= 2; next++ {
		needVerdicts(t, batch.ack(completed(0)), kept)
		s.needCursor(next)
	}
	needVerdicts(t, batch.ack(completed(0)), released)
	s.needCursor(3)
	needVerdicts(t, s.ackUnfenced(completed(0)), noop)
}

// TestAckResolvesWithinTheBatchAlone: 6.4.4 and 6.4.5, while the group holds a batch an ack without a lease does not
// reach above its end either, and an item that cannot be resolved fails alone.
func TestAckResolvesWithinTheBatchAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 5)
	batch := s.claim(2, 0, 1, 1)
	needVerdicts(t, s.ackUnfenced(completed(3)), unresolvable)
	needVerdicts(t, batch.ack(completed(2, 0, 99)), unresolvable, kept, unresolvable)
	s.needCursor(1)
	needVerdicts(t, batch.ack(failed(3), retried(4), dlqed(99)), unresolvable)
	s.needCursor(1)
	needVerdicts(t, batch.ack(completed(1)), released)
	// Without a batch the range is from the cursor up to the tail.
	needVerdicts(t, s.ackUnfenced(completed(4)), kept)
	s.needCursor(5)
}

// TestOldTxidResolvesInALeasedBatchAlone: 6.4.4 and 6.7. With a hash window of nothing a message of the leased batch
// still resolves, one that nobody leased does not, and one below the cursor is recognised while it is retained.
func TestOldTxidResolvesInALeasedBatchAlone(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_TXN_WINDOW_MIN_S": "0"})
	s := newSceneAt(t, broker.Client(), map[string]any{"dedupWindowSeconds": 1, "completedRetentionSeconds": 0}, 4)
	batch := s.claim(2, 0, 1, 1)
	eventually(t, delivery, func() (bool, string) { // the hash window of 1 s has passed once an old txid can be pushed again
		reply := s.client.Push(harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m2"})
		need(t, reply.Response, 201)
		return reply.Items[0].Status == "queued", reply.String()
	})
	needVerdicts(t, batch.ack(completed(0)), kept)
	needVerdicts(t, batch.ack(completed(1)), released)
	needVerdicts(t, s.ackUnfenced(completed(3)), unresolvable)
	s.needCursor(2)
	pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 0, TransactionID: "fresh"})
	needVerdicts(t, s.client.Ack(s.group, harness.AckItem{TransactionID: "fresh", PartitionID: s.partitionID}), kept)
	s.needCursor(6)
	needVerdicts(t, s.ackUnfenced(completed(0, 1, 3)), noop)
}

// TestNoopIsRecognisedAmongTheLastConsumed: 6.7. Beyond the hash window the last 65,536 messages that the group
// consumed are recognised, and no older one.
func TestNoopIsRecognisedAmongTheLastConsumed(t *testing.T) {
	t.Parallel()
	const recognised, older, perPush = 65_536, 10, 8_192
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_TXN_WINDOW_MIN_S": "0"})
	s := newSceneAt(t, broker.Client(), map[string]any{"dedupWindowSeconds": 1}, 0)
	for left := recognised + older; left > 0; left -= perPush {
		s.push(min(left, perPush))
	}
	reply := s.pop(recognised+older, "autoAck=true")
	if need(t, reply.Response, 200); len(reply.Messages) != recognised+older {
		t.Fatalf("want the whole backlog, got %d messages", len(reply.Messages))
	}
	eventually(t, delivery, func() (bool, string) { // the last append leaves the hash window last
		reply := s.client.Push(harness.Item{Queue: s.queue, Payload: 0, TransactionID: txid(recognised + older - 1)})
		need(t, reply.Response, 201)
		return reply.Items[0].Status == "queued", reply.String()
	})
	needVerdicts(t, s.ackUnfenced(completed(older-1, older, older+recognised/2)), unresolvable, noop, noop)
}
