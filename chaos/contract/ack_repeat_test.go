package contract

import (
	"fmt"
	"testing"

	"queen/chaos/contract/harness"
)

// twoPartitions is a scene whose reader holds one lease over the partitions a and b, with two messages in each.
func twoPartitions(t *testing.T) (s *scene, byTxid map[string]harness.Message) {
	t.Helper()
	s = newScene(t, map[string]any{"retryLimit": 3}, 0)
	pushAll(t, s.client, append(numbered(s.queue, "a", "a", 2), numbered(s.queue, "b", "b", 2)...)...)
	reply := s.pop(wholeBacklog, "partitions=2")
	if need(t, reply.Response, 200); reply.PartitionsClaimed != 2 || len(reply.Messages) != 4 {
		t.Fatalf("want both partitions under one lease, got %v", reply)
	}
	byTxid = map[string]harness.Message{}
	for _, message := range reply.Messages {
		byTxid[message.TransactionID] = message
	}
	return s, byTxid
}

// TestRepeatOverSeveralPartitions: 6.4.2, each (partition, group) remembers for itself the lease that was released
// there and the items of the releasing call.
func TestRepeatOverSeveralPartitions(t *testing.T) {
	t.Parallel()
	t.Run("6.4.2 one call releases both", func(t *testing.T) {
		t.Parallel()
		s, message := twoPartitions(t)
		ack := func() harness.AckReply {
			return s.client.AckBatch(s.group, message["b0"].Ack("completed"), message["a0"].Ack("completed"), message["b1"].Ack("retry"),
				message["a1"].Ack("failed"))
		}
		first := ack()
		needVerdicts(t, first, released)
		needSameAnswer(t, first, ack())
		needVerdicts(t, s.client.AckBatch(s.group, message["a1"].Ack("failed")), released)
		needVerdicts(t, s.client.AckBatch(s.group, message["b1"].Ack("retry")), released)
		needVerdicts(t, s.client.AckBatch(s.group, message["a1"].Ack("retry"), message["b1"].Ack("failed")), badLease)
		s.partition = "a"
		s.needCursor(1)
		again := s.pinned(wholeBacklog)
		needMessages(t, again, "a1")
		needVerdicts(t, s.client.AckMessages("completed", again.Messages...), released)
		// The next lease of a has been released; what b remembers is as it was.
		needVerdicts(t, s.client.AckBatch(s.group, message["b0"].Ack("completed"), message["b1"].Ack("retry")), released)
		s.partition = "b"
		s.needCursor(1)
	})
	t.Run("6.4.2 a call for each", func(t *testing.T) {
		t.Parallel()
		s, message := twoPartitions(t)
		acks := map[string][]harness.AckItem{
			"a": {message["a0"].Ack("failed"), message["a1"].Ack("completed")},
			"b": {message["b1"].Ack("dlq"), message["b0"].Ack("completed")},
		}
		first := map[string]harness.AckReply{}
		for _, partition := range []string{"a", "b"} {
			first[partition] = s.client.AckBatch(s.group, acks[partition]...)
		}
		needVerdicts(t, first["a"], released)
		needVerdicts(t, first["b"], filed, released)
		for range 2 {
			for _, partition := range []string{"a", "b"} {
				needSameAnswer(t, first[partition], s.client.AckBatch(s.group, acks[partition]...))
			}
		}
		needVerdicts(t, s.client.AckBatch(s.group, append(acks["a"], acks["b"]...)...), released, released, filed, released)
		s.needDeadLetters(1)
	})
	t.Run("6.4.2 another group of the partition", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 2)
		other := s.as("other")
		batch := s.redelivered(0, 1, 1)
		first := batch.ack(completed(0), retried(1))
		needVerdicts(t, first, released)
		for attempt := 1; attempt <= 2; attempt++ {
			needVerdicts(t, other.redelivered(0, 1, attempt).ack(retried(0)), released)
		}
		needSameAnswer(t, first, batch.ack(completed(0), retried(1)))
	})
}

// TestRepeatOfTwoStatusesOnOneOffset: 6.4.2, an item is a repeat when the call had it with that status, also when the
// call had the message with a stronger status besides.
func TestRepeatOfTwoStatusesOnOneOffset(t *testing.T) {
	t.Parallel()
	cases := []struct {
		weak, strong, absent string
		verdict              verdict
		unknown              verdict // of the status that the call did not have
		cursor, charged      int
		filed                []int64
	}{
		{"completed", "failed", "retry", released, badLease, 0, 1, nil},
		{"completed", "retry", "failed", released, badLease, 0, 0, nil},
		{"retry", "failed", "dlq", released, badLease, 0, 1, nil},
		{"failed", "dlq", "retry", filed, badLease, 1, 0, []int64{0}},
		{"retry", "dlq", "completed", filed, noop, 1, 0, []int64{0}}, // the message lies below the cursor by now
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("6.4.2 %s and %s", c.weak, c.strong), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 3}, 3)
			batch := s.claim(2, 0, 1, 1)
			on := func(statuses ...string) harness.AckReply {
				marks := make([]mark, len(statuses))
				for i, status := range statuses {
					marks[i] = mark{status: status, offsets: []int{0}}
				}
				return batch.ack(marks...)
			}
			first := on(c.weak, c.strong)
			needVerdicts(t, first, c.verdict)
			needSameAnswer(t, first, on(c.weak, c.strong))
			needVerdicts(t, on(c.strong, c.weak), c.verdict)
			for _, alone := range []string{c.weak, c.strong} {
				needVerdicts(t, on(alone), c.verdict)
			}
			needVerdicts(t, on(c.absent), c.unknown)
			s.needCursor(c.cursor)
			s.needDeadLetters(c.filed...)
			s.needCharged(c.charged)
		})
	}
}

// TestRepeatOfAFailedItem: 6.4.2, an item that failed in the releasing call is answered as the first time too.
func TestRepeatOfAFailedItem(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	batch := s.claim(3, 0, 2, 1)
	items := append(s.items(batch.lease, failed(99), completed(3, 0), retried(1)), batch.messages[2].Ack("bogus"))
	ack := func() harness.AckReply { return s.client.AckBatch(s.group, items...) }
	first := ack()
	needVerdicts(t, first, unresolvable, unresolvable, released, released, refused(`unknown ack status "bogus"`))
	needSameAnswer(t, first, ack())
	s.needCursor(1)
}
