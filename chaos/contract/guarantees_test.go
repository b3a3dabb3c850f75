package contract

import (
	"fmt"
	"sync"
	"testing"

	"queen/chaos/contract/harness"
)

// ledger is what the workers of a test saw, in the order in which they saw it.
type ledger struct {
	mutex sync.Mutex
	next  int             // the offset that the next claim of the group must start at
	done  map[string]bool // by txid
	wrong []string
}

func newLedger() *ledger { return &ledger{done: map[string]bool{}} }

func (l *ledger) complain(format string, arguments ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, arguments...))
}

// delivered notes a claim while its lease is live. It must begin at the cursor and be contiguous.
func (l *ledger) delivered(messages []harness.Message) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i, message := range messages {
		if int(message.Offset) != l.next+i {
			l.complain("a claim at %d has offset %d at place %d", l.next, message.Offset, i)
		}
		if l.done[message.TransactionID] {
			l.complain("%s was acknowledged and comes again", message.TransactionID)
		}
	}
}

// settled notes that the ack of these messages answered success; the lease is over with the last one of its batch, so
// this must be noted before that ack is sent. The test ends when it is refused.
func (l *ledger) settled(messages []harness.Message) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, message := range messages {
		l.done[message.TransactionID] = true
		l.next = int(message.Offset) + 1
	}
}

func (l *ledger) finished(total int) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.done) == total
}

// needClean ends the test unless every one of total messages was delivered and nothing went wrong.
func (l *ledger) needClean(t *testing.T, total int) {
	t.Helper()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.wrong) > 0 || len(l.done) != total {
		t.Fatalf("%d of %d messages settled, complaints: %v", len(l.done), total, l.wrong[:min(len(l.wrong), 5)])
	}
}

// TestStrictOrderWithManyWorkers: 16.2, 16.3 and 5.5.4, ten workers on one partition, each completing, failing or
// handing back what it got: every claim starts at the cursor, and what was acknowledged never comes again.
func TestStrictOrderWithManyWorkers(t *testing.T) {
	t.Parallel()
	const workers, total = 10, 300
	s := newScene(t, map[string]any{"retryLimit": 1000}, total)
	book := newLedger()
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() { // ends when everything is settled, or on the first wrong answer
			for round := 0; !book.finished(total); round++ {
				reply := s.client.Pop(s.queue, s.query(7, "wait=true", "timeout=500"))
				if reply.Status == 204 {
					continue
				}
				if reply.Status != 200 || len(reply.Messages) == 0 {
					t.Errorf("pop: %v", reply.Response)
					return
				}
				book.delivered(reply.Messages)
				if !settle(t, s, book, reply.Messages, worker+round) {
					return
				}
			}
		})
	}
	group.Wait()
	book.needClean(t, total)
}

// settle acks a claim in one of four ways that the choice picks, and reports whether the answer was right.
func settle(t *testing.T, s *scene, book *ledger, messages []harness.Message, choice int) bool {
	half := len(messages) / 2
	var reply harness.AckReply
	switch choice % 4 {
	case 0: // hand back what is not done
		book.settled(messages[:half])
		items := append(ackAll(messages[:half], "completed"), messages[half].Ack("retry"))
		reply = s.client.AckBatch(s.group, items...)
	case 1: // fail in the middle
		book.settled(messages[:half])
		items := append(ackAll(messages[:half], "completed"), messages[half].Ack("failed"))
		reply = s.client.AckBatch(s.group, items...)
	case 2: // one by one
		for _, message := range messages {
			book.settled([]harness.Message{message})
			if reply = s.client.AckMessages("completed", message); !acked(reply) {
				break
			}
		}
	default:
		book.settled(messages)
		reply = s.client.AckMessages("completed", messages...)
	}
	if !acked(reply) {
		t.Errorf("ack: %v", reply)
		return false
	}
	return true
}

func ackAll(messages []harness.Message, status string) []harness.AckItem {
	items := make([]harness.AckItem, 0, len(messages)+1)
	for _, message := range messages {
		items = append(items, message.Ack(status))
	}
	return items
}

func acked(reply harness.AckReply) bool {
	if reply.Err != nil || reply.Status != 200 {
		return false
	}
	for _, item := range reply.Items {
		if !item.Success {
			return false
		}
	}
	return true
}

// TestRacingPopsHoldOneLease: 16.3 and 5.5.7, of many pops at the same moment one gets the partition.
func TestRacingPopsHoldOneLease(t *testing.T) {
	t.Parallel()
	const racers = 16
	s := newScene(t, nil, 4)
	replies := race(racers, func(int) harness.PopReply { return s.client.Pop(s.queue, s.query(2)) })
	winners := 0
	for _, reply := range replies {
		switch reply.Status {
		case 204:
		case 200:
			winners++
			s.needClaim(reply, 0, 1, 1)
		default:
			t.Fatalf("got %v", reply.Response)
		}
	}
	if winners != 1 {
		t.Fatalf("want one pop to get the partition, %d did", winners)
	}
}

// race runs n calls at the same moment and returns what they answered.
func race[T any](n int, call func(int) T) []T {
	answers := make([]T, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			answers[i] = call(i)
		})
	}
	close(start)
	group.Wait()
	return answers
}

// TestRacingAcksOfOneBatchReleaseOnce: 16.7, the same ack from many connections: one releases, the others are answered
// as it was, and nothing is charged twice.
func TestRacingAcksOfOneBatchReleaseOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 3}, 3)
	batch := s.redelivered(0, 2, 1)
	for _, reply := range race(12, func(int) harness.AckReply { return batch.ack(completed(0), failed(1)) }) {
		needVerdicts(t, reply, released)
	}
	s.needCursor(1)
	s.needCharged(1)
}

// TestRacingPushesOfOneTxidStoreOneCopy: 16.5 and 4.6, exactly one is queued, the others name its id and offset.
func TestRacingPushesOfOneTxidStoreOneCopy(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	replies := race(16, func(i int) harness.PushReply {
		return suite.client.Push(harness.Item{Queue: queue, Payload: i, TransactionID: "once"})
	})
	queued := 0
	ids := map[string]bool{}
	for _, reply := range replies {
		need(t, reply.Response, 201)
		item := reply.Items[0]
		ids[item.MessageID] = true
		if item.Status == "queued" {
			queued++
		} else if item.Status != "duplicate" {
			t.Errorf("got %+v", item)
		}
		if item.Offset == nil || *item.Offset != 0 {
			t.Errorf("want offset 0, got %+v", item)
		}
	}
	if queued != 1 || len(ids) != 1 {
		t.Fatalf("want one queued and one id, got %d queued and ids %v", queued, ids)
	}
	needStored(t, suite.client, queue, "once")
}

// TestRacingTransactionsOverOneBatchCommitOnce: 16.6, of many bundles that ack the same batch and push an output one
// commits, so the output is there once.
func TestRacingTransactionsOverOneBatchCommitOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	batch := s.redelivered(0, 2, 1)
	out := s.queue + "-out"
	replies := race(12, func(i int) harness.TransactionReply {
		return s.client.Transaction(operations(batch.operations(completed(0, 1, 2)), []any{pushOperation(out, fmt.Sprint("t", i))}))
	})
	var winner string
	for i, reply := range replies {
		if reply.Status == 200 && reply.Success {
			if winner != "" {
				t.Errorf("more than one committed: %v", reply.Response)
			}
			winner = fmt.Sprint("t", i)
			continue
		}
		needRolledBack(t, reply, "rejected_ack")
	}
	needStored(t, s.client, out, winner)
	s.needCursor(3)
}

// TestTransactionIsSeenWhole: 16.6 and 8.6, a reader that sees the second push of a bundle sees its first one too.
func TestTransactionIsSeenWhole(t *testing.T) {
	t.Parallel()
	const bundles = 40
	first, second := uniqueName(t), uniqueName(t)
	var group sync.WaitGroup
	group.Go(func() { // ends with its last transaction
		for i := range bundles {
			body := operations([]any{pushOperation(first, fmt.Sprint("t", i)), pushOperation(second, fmt.Sprint("t", i))})
			if reply := suite.client.Transaction(body); reply.Status != 200 || !reply.Success {
				t.Errorf("bundle %d: %v", i, reply.Response)
				return
			}
		}
	})
	seen := 0
	eventually(t, delivery, func() (bool, string) {
		reply := suite.client.Pop(second, "batch=1000&autoAck=true")
		if reply.Status == 200 {
			seen += len(reply.Messages)
			other := suite.client.Pop(first, "batch=1000&autoAck=true&consumerGroup="+uniqueName(t)+"&subscriptionMode=all")
			if need(t, other.Response, 200); len(other.Messages) < seen {
				t.Fatalf("%d bundles are visible in the second queue and %d in the first", seen, len(other.Messages))
			}
		}
		return seen == bundles, fmt.Sprintf("%d of %d bundles seen", seen, bundles)
	})
	group.Wait()
}

// TestNewPartitionReachesEveryRegisteredGroup: 16.8, whether the group was registered by a pop that found nothing or
// waits on the queue.
func TestNewPartitionReachesEveryRegisteredGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	groups := []string{"first", "second", "third"}
	for _, group := range groups {
		needEmpty(t, s.client.Pop(s.queue, "subscriptionMode=new&consumerGroup="+group))
	}
	parked := make(chan harness.PopReply, 1)
	go func() { parked <- s.client.Pop(s.queue, "consumerGroup=first&wait=true&"+waitFor(delivery)) }() // ends with its pop
	pushAll(t, s.client, numbered(s.queue, "new", "n", 1)...)
	needMessages(t, <-parked, "n0")
	for _, group := range groups[1:] {
		needMessages(t, s.client.Pop(s.queue, "partitions=10&consumerGroup="+group), "n0")
	}
}

// TestUnclearOutcomeRedelivers: 16.10, a consumer that vanishes without an ack loses nothing: message by message comes
// again until it is completed.
func TestUnclearOutcomeRedelivers(t *testing.T) {
	t.Parallel()
	const total = 6
	s := newScene(t, map[string]any{"leaseTime": 4, "retryLimit": 0}, total)
	s.redelivered(0, total-1, 1) // and the consumer is gone
	batch := s.awaited(0, total-1, 2)
	needVerdicts(t, batch.ack(completed(1)), kept) // and the second one after this
	rest := s.awaited(2, total-1, 3)
	needVerdicts(t, rest.ack(completed(total-1)), released)
	s.needNothing()
	s.needDeadLetters()
}
