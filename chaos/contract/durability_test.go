package contract

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// interruptions are the two ways a broker ends between a promise and its keeping.
var interruptions = map[string]func(*harness.Broker) error{
	"restart": (*harness.Broker).Restart,
	"kill -9": (*harness.Broker).Crash,
}

// promise is a rule that must hold across the end of the process: make does something before it and returns what must
// hold after it.
type promise struct {
	name string
	make func(t *testing.T, s *scene) (keep func(t *testing.T))
	// options and messages of the scene
	options  map[string]any
	messages int
}

// TestPromisesSurviveTheProcess: section 16 and the rules it draws on, across a restart and a kill -9. All promises
// are made to one broker, which ends, and are kept by the same broker started again.
func TestPromisesSurviveTheProcess(t *testing.T) {
	t.Parallel()
	for name, interrupt := range interruptions {
		t.Run(name, func(t *testing.T) {
			broker := privateBroker(t, nil)
			client := broker.Client()
			keeps := make([]func(*testing.T), len(promises))
			for i, promise := range promises {
				keeps[i] = promise.make(t, newSceneAt(t, client, promise.options, promise.messages))
			}
			if err := interrupt(broker); err != nil {
				t.Fatal(err)
			}
			for i, promise := range promises {
				t.Run(promise.name, keeps[i])
			}
		})
	}
}

var promises = []promise{
	{name: "16.1 an acknowledged push is never lost", messages: 50, make: func(_ *testing.T, s *scene) func(*testing.T) {
		return func(t *testing.T) { s.in(t).redelivered(0, 49, 1) }
	}},
	{name: "4.6 the dedup memory", make: func(t *testing.T, s *scene) func(*testing.T) {
		first := pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 1, TransactionID: "m0"})
		return func(t *testing.T) {
			reply := s.client.Push(harness.Item{Queue: s.queue, Payload: 1, TransactionID: "m0"})
			if need(t, reply.Response, 201); reply.Items[0].Status != "duplicate" || reply.Items[0].MessageID != first.MessageID || *reply.Items[0].Offset != 0 {
				t.Fatalf("want a duplicate of %+v, got %v", first, reply)
			}
		}
	}},
	{name: "6.4.2 the repeat of a releasing ack", messages: 3, make: func(t *testing.T, s *scene) func(*testing.T) {
		batch := s.redelivered(0, 2, 1)
		first := batch.ack(completed(0), failed(1))
		needVerdicts(t, first, released)
		return func(t *testing.T) {
			needSameAnswer(t, first, batch.ack(completed(0), failed(1)))
			s.in(t).needCursor(1)
			s.in(t).needCharged(1)
		}
	}},
	{name: "16.3 a live lease and its id", messages: 3, make: func(t *testing.T, s *scene) func(*testing.T) {
		batch := s.redelivered(0, 2, 1)
		needVerdicts(t, batch.ack(completed(0)), kept)
		return func(t *testing.T) {
			s.in(t).needNothing()
			needExtended(t, s.client.Extend(batch.lease, nil), batch.lease, 1)
			needVerdicts(t, batch.ack(completed(1, 2)), released)
			s.in(t).needCursor(3)
		}
	}},
	{name: "5.6 a lease expires all the same", messages: 1, make: func(_ *testing.T, s *scene) func(*testing.T) {
		s.leaseTime = 2
		start := time.Now()
		batch := s.redelivered(0, 0, 1)
		return func(t *testing.T) {
			s.in(t).awaited(0, 0, 2)
			if waited := time.Since(start); waited < 2*time.Second-stampSlack {
				t.Fatalf("redelivered after %v, the lease is 2s", waited)
			}
			needVerdicts(t, batch.ack(completed(0)), badLease)
		}
	}},
	{name: "5.8 a registration", messages: 2, make: func(t *testing.T, s *scene) func(*testing.T) {
		needEmpty(t, s.client.Pop(s.queue, "consumerGroup=fresh&subscriptionMode=new"))
		pushAll(t, s.client, numbered(s.queue, "later", "l", 1)...)
		return func(t *testing.T) {
			pushAll(t, s.client, numbered(s.queue, "last", "n", 1)...)
			reply := s.client.Pop(s.queue, "partitions=10&consumerGroup=fresh&subscriptionMode=all")
			need(t, reply.Response, 200)
			txids := reply.TransactionIDs()
			slices.Sort(txids)
			if !slices.Equal(txids, []string{"l0", "n0"}) {
				t.Fatalf("want what was pushed after the registration, got %v", txids)
			}
		}
	}},
	{name: "6.5 charged failures and the attempt", messages: 2, make: func(t *testing.T, s *scene) func(*testing.T) {
		needVerdicts(t, s.redelivered(0, 1, 1).ack(failed(0)), released)
		needVerdicts(t, s.redelivered(0, 1, 2).ack(failed(0)), released)
		return func(t *testing.T) {
			needVerdicts(t, s.in(t).redelivered(0, 1, 3).ack(retried(0)), released)
			s.in(t).needCharged(2)
		}
	}},
	{name: "6.5 the bound below an exhausted message", messages: 3, options: map[string]any{"retryLimit": 0}, make: func(t *testing.T, s *scene) func(*testing.T) {
		needVerdicts(t, s.redelivered(0, 2, 1).ack(failed(2)), released)
		return func(t *testing.T) {
			s := s.in(t)
			needVerdicts(t, s.redelivered(0, 1, 2).ack(completed(0, 1)), released)
			s.redelivered(2, 2, 1)
		}
	}},
	{name: "9.3 a running retry delay", messages: 1, options: map[string]any{"retryDelay": 3000}, make: func(t *testing.T, s *scene) func(*testing.T) {
		batch := s.redelivered(0, 0, 1)
		since := time.Now()
		needVerdicts(t, batch.ack(failed(0)), released)
		return func(t *testing.T) {
			s.in(t).awaited(0, 0, 2)
			if waited := time.Since(since); waited < 3*time.Second-stampSlack {
				t.Fatalf("redelivered after %v, the retry delay is 3s", waited)
			}
		}
	}},
	{name: "16.6 a transaction, whole", messages: 2, make: func(t *testing.T, s *scene) func(*testing.T) {
		batch := s.redelivered(0, 1, 1)
		body := operations(batch.operations(completed(0, 1)), []any{pushOperation(s.queue+"-a", "a"), pushOperation(s.queue+"-b", "b")})
		needCommitted(t, s.client.Transaction(body))
		return func(t *testing.T) {
			s.in(t).needCursor(2)
			needStored(t, s.client, s.queue+"-a", "a")
			needStored(t, s.client, s.queue+"-b", "b")
			needRolledBack(t, s.client.Transaction(body), "rejected_ack")
		}
	}},
	{name: "11.4 a dead letter", messages: 1, make: func(t *testing.T, s *scene) func(*testing.T) {
		fileOne(s, "broken")
		row := s.needDeadLetters(0)[0]
		return func(t *testing.T) {
			again := s.in(t).needDeadLetters(0)[0]
			if again.ID != row.ID || again.ErrorMessage == nil || *again.ErrorMessage != "broken" || !again.FailedAt.Equal(row.FailedAt) {
				t.Fatalf("want %+v, got %+v", row, again)
			}
			needReplayed(t, s.client.Post("/api/v1/dlq/"+row.ID+"/replay", nil), "moved")
		}
	}},
	{name: "9.2 options and the mark of retryDelay", messages: 1, options: map[string]any{"leaseTime": 44, "retryDelay": 60000}, make: func(t *testing.T, s *scene) func(*testing.T) {
		id := queueDetail(t, s.client, s.queue).ID
		return func(t *testing.T) {
			s := s.in(t)
			detail := queueDetail(t, s.client, s.queue)
			needOptions(t, detail.Options, withOptions(map[string]any{"leaseTime": 44.0, "retryDelay": 60000.0}))
			if detail.ID != id {
				t.Errorf("want id %s, got %s", id, detail.ID)
			}
			needVerdicts(t, s.redelivered(0, 0, 1).ack(failed(0)), released)
			s.needNothing()
		}
	}},
	{name: "10.7 a position and its metadata", messages: 4, make: func(t *testing.T, s *scene) func(*testing.T) {
		body := position(s, 3)
		body["positions"].([]any)[0].(map[string]any)["metadata"] = "kept"
		needCommitted(t, s.client.Transaction(body))
		return func(t *testing.T) {
			stored := storedPosition(t, s.in(t))
			if stored.Offset == nil || *stored.Offset != 3 || stored.Metadata == nil || *stored.Metadata != "kept" {
				t.Fatalf("got %+v", stored)
			}
			s.in(t).redelivered(3, 3, 1)
		}
	}},
	{name: "9.11 a deletion", messages: 2, make: func(t *testing.T, s *scene) func(*testing.T) {
		needDeleted(t, s.client, s.queue)
		return func(t *testing.T) {
			s := s.in(t)
			needBody(t, s.client.Get(queuePath(s.queue)), 404, `{"error":"Queue not found"}`)
			s.pushed = 0
			s.push(2)
		}
	}},
	{name: "5.6 a commit on delivery", messages: 3, make: func(t *testing.T, s *scene) func(*testing.T) {
		needMessages(t, s.pop(2, "commitOnDelivery=true"), "m0", "m1")
		return func(t *testing.T) { s.in(t).redelivered(2, 2, 1) }
	}},
}

// TestKilledUnderLoadLosesNothingAcknowledged: 16.1, 16.2 and 16.5. Producers push through three kills; what was
// answered 201 is there once, at the offset that was answered, and every repeat is a duplicate.
func TestKilledUnderLoadLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	const producers, perProducer, kills = 4, 60, 3
	broker := privateBroker(t, nil)
	client := broker.Client()
	queue := uniqueName(t)
	var (
		mutex        sync.Mutex
		acknowledged = map[string]harness.Pushed{}
		answered     = make(chan struct{}, producers*perProducer)
		group        sync.WaitGroup
	)
	for producer := range producers {
		group.Go(func() { // ends when all of its messages are acknowledged or the deadline has passed
			for i := range perProducer {
				id := fmt.Sprintf("p%d-%d", producer, i)
				verdict, ok := pushUntilAnswered(client, harness.Item{Queue: queue, Payload: id, TransactionID: id})
				if !ok {
					return
				}
				mutex.Lock()
				acknowledged[id] = verdict
				mutex.Unlock()
				answered <- struct{}{}
			}
		})
	}
	for range kills {
		for range producers * perProducer / (kills + 2) { // a share of the load between two kills
			select {
			case <-answered:
			case <-time.After(delivery):
				t.Fatal("the producers are not answered")
			}
		}
		if err := broker.Crash(); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	if len(acknowledged) != producers*perProducer {
		t.Fatalf("only %d of %d pushes were ever acknowledged", len(acknowledged), producers*perProducer)
	}
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	reply := client.Pop(queue, fmt.Sprintf("batch=%d", 2*producers*perProducer))
	if need(t, reply.Response, 200); len(reply.Messages) != producers*perProducer {
		t.Fatalf("want %d messages, got %d", producers*perProducer, len(reply.Messages))
	}
	for i, message := range reply.Messages {
		verdict := acknowledged[message.TransactionID]
		if message.Offset != int64(i) || verdict.Offset == nil || *verdict.Offset != message.Offset || verdict.MessageID != message.ID ||
			string(message.Data) != fmt.Sprintf("%q", message.TransactionID) {
			t.Fatalf("place %d: got %+v, acknowledged as %+v", i, message, verdict)
		}
	}
	for id, verdict := range acknowledged {
		again, ok := pushUntilAnswered(client, harness.Item{Queue: queue, Payload: id, TransactionID: id})
		if !ok || again.Status != "duplicate" || again.MessageID != verdict.MessageID || *again.Offset != *verdict.Offset {
			t.Fatalf("want a duplicate of %+v, got %+v", verdict, again)
		}
	}
}

// pushUntilAnswered repeats a push with a client txid, which is safe, until it is answered 201.
func pushUntilAnswered(client *harness.Client, item harness.Item) (harness.Pushed, bool) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	deadline := time.Now().Add(2 * delivery)
	for time.Now().Before(deadline) {
		reply := client.Push(item)
		if reply.Err == nil && reply.Status == 201 && reply.Items[0].Status != "error" {
			return reply.Items[0], true
		}
		<-ticker.C
	}
	return harness.Pushed{}, false
}
