package actors

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/raftlog/command"
)

func TestPushServesParkedPopInItsOwnEntry(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*PopRequest)
		exists bool
	}{
		{"wildcard, partition exists", func(*PopRequest) {}, true},
		{"wildcard, partition is new", func(*PopRequest) {}, false},
		{"pinned, partition exists", pinnedTo("p"), true},
		{"pinned, partition is new", pinnedTo("p"), false},
		{"autopilot", func(r *PopRequest) { r.AutoBatch, r.AutoPartitions = true, true }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.pop(wildcard("orders")) // registers the group
			if c.exists {
				r.push("orders", "p", "earlier")
				r.ack(r.pop(wildcard("orders")), command.AckCompleted, "earlier")
			}
			pop := r.start(wildcard("orders", waiting, c.change))
			r.parkedIn("orders", "workers", 1)
			r.push("orders", "p", "now")
			outcome := pop.wait(t)
			if got(outcome) != 1 || outcome.Batches[0].PartitionName != "p" {
				t.Fatalf("got %+v", outcome)
			}
			if c.name == "autopilot" && (outcome.AutoBatch < autoBatchMin || outcome.AutoPartitions != 1) {
				t.Errorf("autopilot chose %+v", outcome)
			}
			entries := r.log.entries()
			if last := entries[len(entries)-1]; !slices.Equal(last, []string{"*command.Push", "*command.Claim"}) {
				t.Errorf("the last entry is %v", last)
			}
		})
	}
}

func TestRacingPopsGetDisjointPartitions(t *testing.T) {
	r := newRig(t)
	const partitions, each = 40, 5
	r.pop(wildcard("orders"))
	for p := range partitions {
		var txids []string
		for i := range each {
			txids = append(txids, fmt.Sprint("t", i))
		}
		r.push("orders", fmt.Sprint("p", p), txids...)
	}
	var mu sync.Mutex
	holders := map[uint64]int{}
	var poppers sync.WaitGroup
	for range 16 {
		poppers.Go(func() {
			for {
				outcome := r.pop(wildcard("orders", func(r *PopRequest) { r.Partitions = 3 }))
				if len(outcome.Batches) == 0 {
					return
				}
				mu.Lock()
				for _, batch := range outcome.Batches {
					holders[batch.Partition]++
					if batch.LastOffset != each-1 {
						t.Errorf("a batch ends at %d", batch.LastOffset)
					}
				}
				mu.Unlock()
			}
		})
	}
	poppers.Wait()
	if len(holders) != partitions {
		t.Errorf("%d of %d partitions were claimed", len(holders), partitions)
	}
	for partition, times := range holders {
		if times != 1 {
			t.Errorf("partition %d was claimed %d times", partition, times)
		}
	}
}

func TestLongestWaitingPopIsServedFirst(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	var pops []*popping
	for i := range 5 {
		pops = append(pops, r.start(wildcard("orders", waiting)))
		r.parkedIn("orders", "workers", int64(i+1))
	}
	for i, pop := range pops {
		r.push("orders", fmt.Sprint("p", i), "x")
		if outcome := pop.wait(t); outcome.Batches[0].PartitionName != fmt.Sprint("p", i) {
			t.Errorf("pop %d got %s", i, outcome.Batches[0].PartitionName)
		}
	}
}

func TestLongestReadyPartitionIsDeliveredFirst(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	for _, name := range []string{"c", "a", "b"} {
		r.push("orders", name, "x")
	}
	var order []string
	for range 3 {
		order = append(order, r.pop(wildcard("orders")).Batches[0].PartitionName)
	}
	if !slices.Equal(order, []string{"c", "a", "b"}) {
		t.Errorf("delivered in the order %v", order)
	}
}

// TestPinnedPopWaitsForWhatDoesNotExist parks pops on partitions, queues and groups that do not exist yet.
func TestPinnedPopWaitsForWhatDoesNotExist(t *testing.T) {
	r := newRig(t)
	missing := r.start(wildcard("no-queue", waiting, pinnedTo("p")))
	eventually(t, "a pop waits for its queue", func() bool { return r.Parked() == 1 })
	if r.Directory().Queue(command.DefaultTenant, "no-queue") != nil {
		t.Fatal("a pinned pop has made its queue")
	}
	r.push("no-queue", "other", "x")
	r.parkedIn("no-queue", "workers", 1)
	r.push("no-queue", "p", "x")
	if outcome := missing.wait(t); got(outcome) != 1 || outcome.Batches[0].PartitionName != "p" {
		t.Errorf("got %+v", outcome)
	}
	// A second one, in another group, on a partition whose name somebody else waits for too.
	first := r.start(wildcard("no-queue", waiting, pinnedTo("later"), func(r *PopRequest) { r.Group = "one" }))
	second := r.start(wildcard("no-queue", waiting, pinnedTo("later"), func(r *PopRequest) { r.Group = "two" }))
	r.parkedIn("no-queue", "one", 1)
	r.parkedIn("no-queue", "two", 1)
	r.push("no-queue", "later", "x")
	for _, pop := range []*popping{first, second} {
		if got(pop.wait(t)) != 1 {
			t.Errorf("got %+v", pop.outcome)
		}
	}
}

func TestHandBackTakesTheAttemptBack(t *testing.T) {
	r := newRig(t)
	r.push("orders", "p", "x")
	request := wildcard("orders")
	for range 3 {
		outcome := r.pop(request)
		if len(outcome.Batches) != 1 || outcome.Batches[0].Attempt != 1 {
			t.Fatalf("got %+v", outcome)
		}
		r.HandBack(request, outcome)
		eventually(t, "the hand-back", func() bool {
			entries := r.log.entries()
			return entries[len(entries)-1][0] == "*command.HandBack"
		})
	}
	request.LeaseMs = 1
	r.pop(request)
	r.log.ahead(time.Second)
	if outcome := r.pop(request); outcome.Batches[0].Attempt != 2 {
		t.Errorf("after an expiry the attempt is %d", outcome.Batches[0].Attempt)
	}
}

// leaving makes a pop whose client is found gone when that is asked for the nth time.
func leaving(nth int64, gone chan struct{}) func(*PopRequest) {
	var asked atomic.Int64
	return func(r *PopRequest) {
		r.Gone = gone
		r.IsGone = func() bool {
			n := asked.Add(1)
			if n == nth {
				close(gone)
			}
			return n >= nth
		}
	}
}

// TestGoneClientNeverHoldsALease lets the client go at every point where the broker looks: before the claim is proposed,
// when it is packed into an entry, and when it has been applied.
func TestGoneClientNeverHoldsALease(t *testing.T) {
	undisturbed := func(t *testing.T, r *rig) {
		t.Helper()
		var next *PopOutcome
		eventually(t, "the message is free", func() bool {
			next = r.pop(wildcard("orders"))
			return len(next.Batches) == 1
		})
		if next.Batches[0].Attempt != 1 {
			t.Errorf("the message was delivered before: attempt %d", next.Batches[0].Attempt)
		}
	}
	for nth := range int64(3) {
		t.Run(fmt.Sprint("claiming, look ", nth+1), func(t *testing.T) {
			r := newRig(t)
			r.push("orders", "p", "x")
			outcome, err := r.Pop(wildcard("orders", leaving(nth+1, make(chan struct{}))))
			if !errors.Is(err, ErrGone) {
				t.Errorf("got %+v and the error %v", outcome, err)
			}
			undisturbed(t, r)
		})
	}
	for nth := range int64(2) {
		t.Run(fmt.Sprint("riding, look ", nth+1), func(t *testing.T) {
			r := newRig(t)
			pop := r.start(wildcard("orders", waiting, leaving(nth+1, make(chan struct{}))))
			r.parkedIn("orders", "workers", 1)
			r.push("orders", "p", "x")
			<-pop.done
			if pop.err == nil && len(pop.outcome.Batches) > 0 {
				t.Errorf("a client that has gone got %+v", pop.outcome)
			}
			undisturbed(t, r)
		})
	}
	t.Run("parked", func(t *testing.T) {
		r := newRig(t)
		gone := make(chan struct{})
		pop := r.start(wildcard("orders", waiting, func(r *PopRequest) { r.Gone = gone }))
		r.parkedIn("orders", "workers", 1)
		close(gone)
		pop.wait(t)
		r.parkedIn("orders", "workers", 0)
		r.push("orders", "p", "x")
		undisturbed(t, r)
	})
}

func TestEmptyLongPollLastsItsTime(t *testing.T) {
	for _, c := range []struct{ margin, wait time.Duration }{
		{0, 10 * time.Millisecond}, {0, 120 * time.Millisecond}, {0, 300 * time.Millisecond},
		{200 * time.Millisecond, 210 * time.Millisecond}, {200 * time.Millisecond, 280 * time.Millisecond},
	} {
		r := newRig(t, func(config *Config) { config.PopReplyMargin = c.margin })
		r.pop(wildcard("orders")) // registers the group
		pop := r.start(wildcard("orders", waiting, inTime(c.wait)))
		if outcome := pop.wait(t); len(outcome.Batches) != 0 {
			t.Errorf("got %+v", outcome)
		}
		if pop.took < c.wait-time.Millisecond || pop.took > c.wait+5*time.Second {
			t.Errorf("with a margin of %v a wait of %v took %v", c.margin, c.wait, pop.took)
		}
	}
}

// TestShortWaitGetsWhatIsReady makes pops whose wait ends just before or after the reply margin begins: the one attempt
// that every pop has must not be over before the group's actor has seen it.
func TestShortWaitGetsWhatIsReady(t *testing.T) {
	const margin = 50 * time.Millisecond
	r := newRig(t, func(c *Config) { c.PopReplyMargin = margin })
	r.pop(wildcard("orders"))
	const pops = 100
	for p := range pops {
		r.push("orders", fmt.Sprint("p", p), "x")
	}
	for i := range pops {
		left := margin + time.Duration(i-20)*10*time.Microsecond
		if outcome := r.pop(wildcard("orders", waiting, inTime(left))); got(outcome) != 1 {
			t.Fatalf("a pop with %v left of its wait got %+v", left, outcome)
		}
	}
}

// TestClaimThatCommitsTooLateIsHandedBack holds the log until the pop has given up, in both ways a claim can be made.
func TestClaimThatCommitsTooLateIsHandedBack(t *testing.T) {
	for _, riding := range []bool{false, true} {
		t.Run(fmt.Sprintf("riding=%t", riding), func(t *testing.T) {
			r := newRig(t)
			r.pop(wildcard("orders"))
			var pop *popping
			release := make(chan struct{})
			var once atomic.Bool
			packed := func(e *command.Entry) {
				if _, claims := e.Items[len(e.Items)-1].Command.(*command.Claim); claims && once.CompareAndSwap(false, true) {
					<-release
				}
			}
			r.log.packed.Store(&packed)
			var pushed sync.WaitGroup
			if riding {
				pop = r.start(wildcard("orders", waiting, inTime(500*time.Millisecond)))
				r.parkedIn("orders", "workers", 1)
				pushed.Go(func() { r.push("orders", "p", "x") })
			} else {
				r.push("orders", "p", "x")
				pop = r.start(wildcard("orders", waiting, inTime(500*time.Millisecond)))
			}
			if outcome := pop.wait(t); len(outcome.Batches) != 0 {
				t.Errorf("got %+v", outcome)
			}
			if pop.took > 10*time.Second {
				t.Errorf("a wait of 500 ms took %v", pop.took)
			}
			close(release)
			pushed.Wait()
			var next *PopOutcome
			eventually(t, "the message is free again", func() bool {
				next = r.pop(wildcard("orders"))
				return len(next.Batches) == 1
			})
			if next.Batches[0].Attempt != 1 {
				t.Errorf("the attempt counts: %d", next.Batches[0].Attempt)
			}
		})
	}
}
