package actors

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"queen/raftlog/command"
)

// configure sets options of a queue.
func (r *rig) configure(queue string, changes ...command.OptionChange) {
	r.t.Helper()
	_, err := r.Execute(soon(), &command.Configure{Tenant: command.DefaultTenant, Queue: queue, Changes: changes})
	if err != nil {
		r.t.Fatalf("configure: %v", err)
	}
}

func seconds(key command.OptionKey, n int32) command.OptionChange {
	return command.OptionChange{Key: key, Number: n}
}

// TestParkedPopIsWokenAtTheInstant moves the leader's time and nothing else (messaging 5.7).
func TestParkedPopIsWokenAtTheInstant(t *testing.T) {
	for _, c := range []struct {
		name string
		// hide makes a message that is invisible for two seconds.
		hide    func(r *rig)
		attempt uint32
	}{
		{"end of a delay", func(r *rig) {
			r.configure("orders", seconds(command.OptionDelayedProcessing, 2))
			r.push("orders", "p", "x")
		}, 1},
		{"end of a window buffer", func(r *rig) {
			r.configure("orders", seconds(command.OptionWindowBuffer, 2))
			r.push("orders", "p", "x")
		}, 1},
		{"expiry of a lease", func(r *rig) {
			r.push("orders", "p", "x")
			r.pop(wildcard("orders", func(r *PopRequest) { r.LeaseMs = 2000 }))
		}, 2},
		{"end of a retry delay", func(r *rig) {
			r.configure("orders", seconds(command.OptionRetryDelay, 2000))
			r.push("orders", "p", "x")
			r.ack(r.pop(wildcard("orders")), command.AckFailed, "x")
		}, 2},
	} {
		for _, pinned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pinned=%t", c.name, pinned), func(t *testing.T) {
				r := newRig(t)
				r.pop(wildcard("orders"))
				c.hide(r)
				if outcome := r.pop(wildcard("orders")); len(outcome.Batches) != 0 {
					t.Fatalf("a hidden message was delivered: %+v", outcome)
				}
				request := wildcard("orders", waiting)
				if pinned {
					pinnedTo("p")(request)
				}
				pop := r.start(request)
				r.parkedIn("orders", "workers", 1)
				r.log.ahead(1200 * time.Millisecond)
				r.Execute(soon(), &command.Tick{})
				if !pop.running() {
					t.Fatalf("woken too early with %+v", pop.outcome)
				}
				r.log.ahead(time.Second)
				outcome := pop.wait(t)
				if got(outcome) != 1 || outcome.Batches[0].Attempt != c.attempt {
					t.Errorf("got %+v", outcome)
				}
			})
		}
	}
}

// TestRemovedDelayWakesAtOnce changes options under a parked pop (messaging 5.11).
func TestRemovedDelayWakesAtOnce(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	r.configure("orders", seconds(command.OptionDelayedProcessing, 3600))
	r.push("orders", "p", "x")
	pop := r.start(wildcard("orders", waiting))
	r.parkedIn("orders", "workers", 1)
	r.configure("orders", seconds(command.OptionDelayedProcessing, 0))
	if outcome := pop.wait(t); got(outcome) != 1 {
		t.Errorf("got %+v", outcome)
	}
}

// TestReleaseWakes ends leases in every way but expiry (messaging 5.7).
func TestReleaseWakes(t *testing.T) {
	for _, c := range []struct {
		name    string
		release func(r *rig, held *PopRequest, o *PopOutcome)
		first   uint64
	}{
		{"nack", func(r *rig, _ *PopRequest, o *PopOutcome) { r.ack(o, command.AckFailed, "x", "y") }, 0},
		{"retry", func(r *rig, _ *PopRequest, o *PopOutcome) { r.ack(o, command.AckRetry, "y") }, 0},
		{"ack of the batch, more behind it", func(r *rig, _ *PopRequest, o *PopOutcome) { r.ack(o, command.AckCompleted, "x", "y") }, 2},
		{"dead letter", func(r *rig, _ *PopRequest, o *PopOutcome) { r.ack(o, command.AckDeadLetter, "x") }, 1},
		{"hand-back", func(r *rig, held *PopRequest, o *PopOutcome) { r.HandBack(held, o) }, 0},
		{"seek", func(r *rig, _ *PopRequest, _ *PopOutcome) {
			_, err := r.Execute(soon(), &command.Seek{
				Tenant: command.DefaultTenant, Group: "workers", Queue: "orders", AllPartitions: true, TimestampMicros: 1,
			})
			if err != nil {
				r.t.Error(err)
			}
		}, 0},
		{"deletion of the group", func(r *rig, _ *PopRequest, _ *PopOutcome) {
			_, err := r.Execute(soon(), &command.DeleteGroup{
				Tenant: command.DefaultTenant, Group: "workers", Queue: "orders", DeleteMetadata: true,
			})
			if err != nil {
				r.t.Error(err)
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.push("orders", "p", "x", "y", "z")
			held := wildcard("orders", func(r *PopRequest) { r.Batch = 2 })
			outcome := r.pop(held)
			pop := r.start(wildcard("orders", waiting))
			r.parkedIn("orders", "workers", 1)
			c.release(r, held, outcome)
			if next := pop.wait(t); len(next.Batches) != 1 || next.Batches[0].FirstOffset != c.first {
				t.Errorf("got %+v", next)
			}
		})
	}
}

func TestDeletedQueueIsNotMadeAgainByAParkedPop(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		t.Run(fmt.Sprintf("pinned=%t", pinned), func(t *testing.T) {
			r := newRig(t)
			r.push("orders", "p", "x")
			r.ack(r.pop(wildcard("orders")), command.AckCompleted, "x")
			request := wildcard("orders", waiting)
			if pinned {
				pinnedTo("p")(request)
			}
			pop := r.start(request)
			r.parkedIn("orders", "workers", 1)
			if _, err := r.Execute(soon(), &command.DeleteQueue{Tenant: command.DefaultTenant, Queue: "orders"}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the pop waits for its queue", func() bool {
				r.directory.mu.RLock()
				defer r.directory.mu.RUnlock()
				return len(r.directory.awaiting) == 1
			})
			if r.Directory().Queue(command.DefaultTenant, "orders") != nil {
				t.Fatal("the queue is there again")
			}
			stored := r.push("orders", "p", "again")
			outcome := pop.wait(t)
			if got(outcome) != 1 || outcome.Batches[0].FirstOffset != 0 || outcome.Batches[0].Partition != stored.Partition {
				t.Errorf("got %+v", outcome)
			}
		})
	}
}

// TestNewGroupMissesNothing lets a group become active while a push is on its way, again and again: whatever the order, the
// message reaches the pop.
func TestNewGroupMissesNothing(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	for i := range 300 {
		txid := fmt.Sprint("t", i)
		var both sync.WaitGroup
		both.Go(func() {
			if actor := r.groupActor("orders", "workers"); actor != nil {
				r.groups.stop(actor)
			}
			outcome := r.pop(wildcard("orders", waiting))
			if got(outcome) != 1 {
				t.Errorf("round %d: got %+v", i, outcome)
				return
			}
			r.ack(outcome, command.AckCompleted, txid)
		})
		both.Go(func() { r.push("orders", "p", txid) })
		both.Wait()
		if t.Failed() {
			return
		}
	}
}

// TestUnloadedGroupsLoseNothing stops group actors at random while pops, acks and pushes go on.
func TestUnloadedGroupsLoseNothing(t *testing.T) {
	r := newRig(t)
	r.consumeUnder(t, func() {
		if actor := r.groupActor("orders", "workers"); actor != nil {
			r.groups.stop(actor)
		}
	})
}

// consumeUnder is consumeThrough one broker.
func (r *rig) consumeUnder(t *testing.T, disturb func()) {
	t.Helper()
	consumeThrough(t, []*rig{r}, disturb)
}

// consumeThrough pushes 2,000 messages to 20 partitions and consumes them with 8 waiting pops, through brokers of one group,
// while something disturbs. Everything is delivered exactly once, in order, and no pop lasts longer than it may.
func consumeThrough(t *testing.T, brokers []*rig, disturb func()) {
	t.Helper()
	const partitions, perPartition, poppers = 20, 100, 8
	brokers[0].pop(wildcard("orders"))
	stop := make(chan struct{})
	var mu sync.Mutex
	next := map[string]uint64{}
	total := 0
	var work, trouble sync.WaitGroup
	trouble.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				disturb()
			}
		}
	})
	consumed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return total >= partitions*perPartition
	}
	began := time.Now()
	for i := range poppers {
		r := brokers[i%len(brokers)]
		work.Go(func() {
			for !consumed() && time.Since(began) < 3*testDeadline {
				const timeout = 2 * time.Second
				pop := r.start(wildcard("orders", waiting, inTime(timeout), func(r *PopRequest) { r.Batch, r.Partitions = 7, 2 }))
				<-pop.done
				if len(brokers) > 1 && errors.Is(pop.err, ErrNoLeader) {
					continue // an election has lasted longer than the pop
				}
				if pop.err != nil {
					t.Errorf("pop: %v", pop.err)
					return
				}
				if pop.took > timeout+2*claimAttemptMin+2*time.Second {
					t.Errorf("a pop of %v took %v", timeout, pop.took)
				}
				for _, batch := range pop.outcome.Batches {
					part := command.AckPart{Partition: batch.Partition, Lease: pop.outcome.Lease}
					mu.Lock()
					if batch.FirstOffset != next[batch.PartitionName] || batch.Attempt != 1 {
						t.Errorf("partition %s: got offset %d as attempt %d, want offset %d", batch.PartitionName,
							batch.FirstOffset, batch.Attempt, next[batch.PartitionName])
					}
					next[batch.PartitionName] = batch.LastOffset + 1
					total += int(batch.LastOffset - batch.FirstOffset + 1)
					mu.Unlock()
					for offset := batch.FirstOffset; offset <= batch.LastOffset; offset++ {
						part.Items = append(part.Items, command.AckItem{Txid: fmt.Sprint("t", offset)})
					}
					results, err := r.Ack(command.DefaultTenant, "workers", []command.AckPart{part}, soon())
					if err != nil {
						t.Errorf("ack: %v", err)
						return
					}
					for _, verdict := range results[0].Items {
						if verdict.Error != command.AckOK {
							t.Errorf("partition %s: ack of [%d, %d]: %+v", batch.PartitionName, batch.FirstOffset, batch.LastOffset, verdict)
						}
					}
				}
			}
		})
	}
	for p := range partitions {
		r := brokers[p%len(brokers)]
		work.Go(func() {
			for i := range perPartition {
				r.push("orders", fmt.Sprint("p", p), fmt.Sprint("t", i))
			}
		})
	}
	work.Wait()
	close(stop)
	trouble.Wait()
	if total != partitions*perPartition {
		t.Errorf("%d of %d messages were delivered", total, partitions*perPartition)
	}
}
