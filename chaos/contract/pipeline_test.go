package contract

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestPipelineMovesEachMessageOnceThroughKills: 8.6, 16.4 and 16.6. A worker moves messages from one queue to another
// in transactions whose pushes have no txid, so that only the ack under the lease keeps a message from being moved
// twice. The broker is killed meanwhile; a transaction whose answer was lost is not repeated: what it did not commit
// comes again when the lease has expired. In the end every message was moved once.
func TestPipelineMovesEachMessageOnceThroughKills(t *testing.T) {
	t.Parallel()
	const total, batch, kills = 120, 4, 3
	broker := privateBroker(t, nil)
	s := newSceneAt(t, broker.Client(), map[string]any{"leaseTime": 1}, total)
	out := s.queue + "-out"
	moved := make(chan struct{}, total)
	var group sync.WaitGroup
	group.Go(func() { // ends when the source is drained or the deadline has passed
		deadline := time.Now().Add(2 * delivery)
		for time.Now().Before(deadline) {
			if next, ok := s.tryPosition(); ok && next == total {
				return
			}
			s.moveOne(out, batch, moved)
		}
		t.Error("the source was not drained")
	})
	for range kills {
		for range total / batch / (kills + 2) { // a share of the work between two kills
			select {
			case <-moved:
			case <-time.After(delivery):
				t.Fatal("the worker moves nothing")
			}
		}
		if err := broker.Crash(); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	reply := s.client.Pop(out, fmt.Sprint("batch=", 2*total))
	need(t, reply.Response, 200)
	times := map[string]int{}
	for _, message := range reply.Messages {
		times[string(message.Data)]++
	}
	for offset := range total {
		if n := times[fmt.Sprintf("%q", txid(offset))]; n != 1 {
			t.Errorf("%s was moved %d times", txid(offset), n)
		}
	}
	if len(reply.Messages) != total {
		t.Errorf("want %d messages, got %d", total, len(reply.Messages))
	}
}

// moveOne moves what one pop delivers, or nothing when the broker does not answer.
func (s *scene) moveOne(out string, batch int, moved chan<- struct{}) {
	popped := s.client.Pop(s.queue, s.query(batch, "wait=true", "timeout=500"))
	if popped.Status != 200 {
		return
	}
	var all []any
	for _, message := range popped.Messages {
		all = append(all,
			map[string]any{"type": "push", "queue": out, "payload": message.TransactionID},
			map[string]any{
				"type": "ack", "transactionId": message.TransactionID, "partitionId": message.PartitionID,
				"leaseId": message.LeaseID, "consumerGroup": s.group,
			})
	}
	if reply := s.client.Transaction(map[string]any{"operations": all}); reply.Status == 200 && reply.Success {
		moved <- struct{}{}
	}
}

// tryPosition is positionOf on a broker that may be down.
func (s *scene) tryPosition() (next int, ok bool) {
	var answer struct{ Entries []storedPositionEntry }
	body := map[string]any{"entries": []any{map[string]any{"queue": s.queue, "partition": s.partition}}}
	reply := s.client.Post(groupPath(s.groupName(), "/positions"), body)
	if reply.Status != 200 || reply.Decode(&answer) != nil || len(answer.Entries) != 1 || answer.Entries[0].Offset == nil {
		return 0, false
	}
	return *answer.Entries[0].Offset, true
}
