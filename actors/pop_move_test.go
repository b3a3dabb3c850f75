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

// free waits until the one message of orders/p can be claimed, and demands that no delivery of it was counted.
func (c *cluster) free(t *testing.T) {
	t.Helper()
	var next *PopOutcome
	eventually(t, "the message is free", func() bool {
		next = c.leading().pop(wildcard("orders"))
		return len(next.Batches) == 1
	})
	if next.Batches[0].Attempt != 1 {
		t.Errorf("the message was delivered before: attempt %d", next.Batches[0].Attempt)
	}
}

// onlyX demands that an outcome is the first delivery of one message of orders/p.
func onlyX(t *testing.T, o *PopOutcome) {
	t.Helper()
	if got(o) != 1 || o.Batches[0].PartitionName != "p" || o.Batches[0].Attempt != 1 {
		t.Errorf("got %s", told(o, nil))
	}
}

// TestForwardedPushServesPopsParkedAtTheLeader: push and claim are one entry, whoever pushes and whoever pops.
func TestForwardedPushServesPopsParkedAtTheLeader(t *testing.T) {
	c := newCluster(t, 3)
	// The first pop makes the group, which looks for what is ready before it lets a pop ride; the claim of that pop may come in
	// an entry of its own.
	first := c.members[0].start(wildcard("orders", waiting))
	c.parked("orders", "workers", 1)
	c.members[0].push("orders", "first", "x")
	if outcome := first.wait(t); got(outcome) != 1 {
		t.Errorf("got %s", told(outcome, nil))
	}
	for pushes := range 3 {
		for pops := range 3 {
			pop := c.members[pops].start(wildcard("orders", waiting))
			c.parked("orders", "workers", 1)
			c.members[pushes].push("orders", fmt.Sprint(pushes, pops), "x")
			if outcome := pop.wait(t); got(outcome) != 1 {
				t.Errorf("got %s", told(outcome, nil))
			}
			kinds := c.kinds()
			if last := kinds[len(kinds)-1]; !slices.Equal(last, []string{"*command.Push", "*command.Claim"}) {
				t.Errorf("push through %d, pop through %d: the last entry is %v", pushes, pops, last)
			}
		}
	}
}

// TestRidersAreAskedOnlyWhileSomebodyWaits covers what the log of the leader asks for a command of another node.
func TestRidersAreAskedOnlyWhileSomebodyWaits(t *testing.T) {
	r := newRig(t)
	r.pop(wildcard("orders"))
	encoded := func(c command.Command) []byte { return command.AppendItem(nil, &command.Item{Command: c}) }
	push := encoded(&command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{pushGroup("orders", "p", "x")}})
	other := encoded(&command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{pushGroup("others", "p", "x")}})
	if r.RidersFor(push) != nil {
		t.Error("there are riders while nobody waits")
	}
	pop := r.start(wildcard("orders", waiting))
	r.parkedIn("orders", "workers", 1)
	for name, bytes := range map[string][]byte{
		"a push to another queue": other, "no push": encoded(&command.Tick{}), "nothing": nil, "a part of a push": push[:len(push)-1],
	} {
		if r.RidersFor(bytes) != nil {
			t.Errorf("%s has riders", name)
		}
	}
	riders := r.RidersFor(push)
	if riders == nil {
		t.Fatal("a push for a parked pop has no riders")
	}
	claims := riders()
	if len(claims) != 1 || claims[0].Item.Command.(*command.Claim).Parts[0].Targets[0].Name != "p" {
		t.Fatalf("the riders are %+v", claims)
	}
	claims[0].Dropped(ErrRetry)
	r.parkedIn("orders", "workers", 1)
	r.push("orders", "p", "x")
	onlyX(t, pop.wait(t))
}

// TestLongestWaitingPopOfAllNodesIsServedFirst parks pops through all members in turn, also across a change of leader, when
// they come to the new one in any order.
func TestLongestWaitingPopOfAllNodesIsServedFirst(t *testing.T) {
	for _, moves := range []bool{false, true} {
		t.Run(fmt.Sprintf("leader changes=%t", moves), func(t *testing.T) {
			c := newCluster(t, 3)
			c.leading().pop(wildcard("orders"))
			var pops []*popping
			const count = 12
			for i := range count {
				// So long one after the other that the way to the next leader, which may be long on a busy machine, does not
				// matter.
				ago := time.Duration(count-i) * 20 * time.Second
				pops = append(pops, c.members[i%3].startAgo(wildcard("orders", waiting, inTime(time.Minute)), ago))
				c.parked("orders", "workers", int64(i+1))
			}
			if moves {
				c.elect(1)
				c.parked("orders", "workers", int64(len(pops)))
			}
			for i, pop := range pops {
				c.members[(i+1)%3].push("orders", fmt.Sprint("p", i), "x")
				if outcome := pop.wait(t); !slices.Equal(delivered(outcome), []string{fmt.Sprint("orders/p", i)}) {
					t.Errorf("pop %d got %s", i, told(outcome, nil))
				}
			}
		})
	}
}

// TestRacingPopsOfAllNodesGetDisjointPartitions claims through all members at once.
func TestRacingPopsOfAllNodesGetDisjointPartitions(t *testing.T) {
	c := newCluster(t, 3)
	const partitions = 60
	c.leading().pop(wildcard("orders"))
	for p := range partitions {
		c.members[p%3].push("orders", fmt.Sprint("p", p), "x", "y")
	}
	var mu sync.Mutex
	holders := map[uint64]int{}
	var poppers sync.WaitGroup
	for i := range 12 {
		poppers.Go(func() {
			for {
				outcome := c.members[i%3].pop(wildcard("orders", func(r *PopRequest) { r.Partitions = 2 }))
				if len(outcome.Batches) == 0 {
					return
				}
				mu.Lock()
				for _, batch := range outcome.Batches {
					holders[batch.Partition]++
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
	c.forgotten()
}

// TestLeaderChangeInEveryPhase changes the leader while a pop of a follower is on its way. The pop gets the message once,
// as its first delivery.
func TestLeaderChangeInEveryPhase(t *testing.T) {
	type phase struct {
		name string
		run  func(t *testing.T, c *cluster, at *member) *popping
	}
	c := newCluster(t, 3)
	claims := func(c *cluster) func() bool {
		before := c.count("*command.Claim")
		return func() bool { return c.count("*command.Claim") > before }
	}
	for _, p := range []phase{
		{"before the call", func(t *testing.T, c *cluster, at *member) *popping {
			c.depose()
			var calls atomic.Int64
			at.before = func() { calls.Add(1) }
			pop := at.start(wildcard("orders", waiting))
			eventually(t, "the pop finds no leader", func() bool { return calls.Load() > 2 })
			c.elect(1)
			at.push("orders", "p", "x")
			return pop
		}},
		{"before the call, this node is next", func(t *testing.T, c *cluster, at *member) *popping {
			c.depose()
			pop := at.start(wildcard("orders", waiting))
			eventually(t, "the pop waits", func() bool { return at.Parked() == 1 })
			c.elect(at.place)
			at.push("orders", "p", "x")
			return pop
		}},
		{"parked, the leader hands over", func(t *testing.T, c *cluster, at *member) *popping {
			pop := at.start(wildcard("orders", waiting))
			c.parked("orders", "workers", 1)
			c.elect(1)
			c.parked("orders", "workers", 1)
			at.push("orders", "p", "x")
			return pop
		}},
		{"parked, the leader dies", func(t *testing.T, c *cluster, at *member) *popping {
			pop := at.start(wildcard("orders", waiting))
			c.parked("orders", "workers", 1)
			c.crash()
			c.elect(1)
			c.parked("orders", "workers", 1)
			at.push("orders", "p", "x")
			return pop
		}},
		{"parked, this node is next", func(t *testing.T, c *cluster, at *member) *popping {
			pop := at.start(wildcard("orders", waiting))
			c.parked("orders", "workers", 1)
			c.elect(at.place)
			c.parked("orders", "workers", 1)
			c.members[0].push("orders", "p", "x")
			return pop
		}},
		{"waiting for its queue", func(t *testing.T, c *cluster, at *member) *popping {
			c.clear()
			pop := at.start(wildcard("orders", waiting, pinnedTo("p")))
			c.standing(1)
			c.elect(1)
			c.standing(1)
			at.push("orders", "p", "x")
			return pop
		}},
		{"claim proposed, the leader dies", func(t *testing.T, c *cluster, at *member) *popping {
			at.push("orders", "p", "x")
			c.set(func() { c.frozen = true })
			pop := at.start(wildcard("orders", waiting))
			eventually(t, "the claim is proposed", func() bool { return c.taken.Load() })
			c.crash()
			c.set(func() { c.frozen = false })
			c.elect(1)
			return pop
		}},
		{"claim committed, not applied anywhere, the leader dies", func(t *testing.T, c *cluster, at *member) *popping {
			at.push("orders", "p", "x")
			c.settle()
			c.set(func() { c.members[1].slow, at.slow = true, true })
			claimed := claims(c)
			pop := at.start(wildcard("orders", waiting))
			eventually(t, "the claim is committed", claimed)
			c.crash()
			c.set(func() { c.members[1].slow, at.slow = false, false })
			c.elect(1)
			return pop
		}},
		{"claim applied, the answer is lost", func(t *testing.T, c *cluster, at *member) *popping {
			at.push("orders", "p", "x")
			at.after = func([]byte, error) ([]byte, error) { return nil, errLinkBroken }
			return at.start(wildcard("orders", waiting))
		}},
		{"claim rides, the leader dies before it is applied there", func(t *testing.T, c *cluster, at *member) *popping {
			pop := at.start(wildcard("orders", waiting))
			c.parked("orders", "workers", 1)
			c.set(func() { c.members[0].slow = true })
			claimed := claims(c)
			var pushed sync.WaitGroup
			pushed.Go(func() { at.push("orders", "p", "x") })
			eventually(t, "the claim is committed", claimed)
			c.crash()
			c.elect(1)
			c.set(func() { c.members[0].slow = false })
			pushed.Wait()
			return pop
		}},
	} {
		t.Run(p.name, func(t *testing.T) {
			at := c.members[2]
			at.pop(wildcard("orders"))
			onlyX(t, p.run(t, c, at).wait(t))
			c.forgotten()
			if again := c.leading().pop(wildcard("orders")); len(again.Batches) > 0 {
				t.Errorf("the message is delivered again: %s", told(again, nil))
			}
			c.sameState()
			at.before, at.after = nil, nil
			c.elect(0)
			c.clear()
		})
	}
}

// TestEmptyAnswerThatIsLostIsAskedForAgain: the leader has said that there is nothing, and nobody heard it.
func TestEmptyAnswerThatIsLostIsAskedForAgain(t *testing.T) {
	c := newCluster(t, 2)
	at := c.members[1]
	var lost atomic.Int64
	at.after = func(answer []byte, err error) ([]byte, error) {
		if lost.Add(1) < 3 {
			return nil, errLinkBroken
		}
		return answer, err
	}
	if outcome := at.pop(wildcard("orders")); len(outcome.Batches) > 0 || !outcome.Registered || lost.Load() != 3 {
		t.Errorf("got %s after %d calls", told(outcome, nil), lost.Load())
	}
}

// TestClaimThatNobodyWaitsForIsHandedBackByItsNode applies a claim for a pop that has ended: its own node takes it back,
// with the attempt, and nobody else does.
func TestClaimThatNobodyWaitsForIsHandedBackByItsNode(t *testing.T) {
	for _, commits := range []bool{false, true} {
		t.Run(fmt.Sprintf("commit on delivery=%t", commits), func(t *testing.T) {
			c := newCluster(t, 3)
			leader := c.leading()
			leader.pop(wildcard("orders"))
			stored := leader.push("orders", "p", "x")
			claim := &command.Claim{
				Tenant: command.DefaultTenant, Group: "workers", Batch: 1, CommitOnDelivery: commits,
				Parts: []command.ClaimPart{{Queue: "orders", Targets: []command.ClaimTarget{{Partition: stored.Partition}}}},
				For:   command.RequestID{Origin: c.members[2].pending.origin, Sequence: 1 << 40},
			}
			if !commits {
				claim.Lease = command.NoSuchLease
			}
			result, err := leader.Execute(soon(), claim)
			if err != nil || len(result.(*command.ClaimResult).Batches) != 1 {
				t.Fatalf("%+v, %v", result, err)
			}
			c.free(t)
			if n := c.count("*command.HandBack"); n != 1 {
				t.Errorf("%d hand-backs", n)
			}
		})
	}
}

// TestGoneClientOfAFollowerHoldsNoLease lets the client go in every phase.
func TestGoneClientOfAFollowerHoldsNoLease(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, c *cluster, at *member, gone chan struct{}) *popping{
		"while no leader is known": func(t *testing.T, c *cluster, at *member, gone chan struct{}) *popping {
			c.depose()
			pop := at.start(wildcard("orders", waiting, clientOf(gone)))
			eventually(t, "the pop waits", func() bool { return at.Parked() == 1 })
			close(gone)
			<-pop.done
			c.elect(0)
			return pop
		},
		"parked": func(t *testing.T, c *cluster, at *member, gone chan struct{}) *popping {
			pop := at.start(wildcard("orders", waiting, clientOf(gone)))
			c.parked("orders", "workers", 1)
			close(gone)
			<-pop.done
			c.parked("orders", "workers", 0)
			return pop
		},
		"claim proposed": func(t *testing.T, c *cluster, at *member, gone chan struct{}) *popping {
			at.push("orders", "p", "x")
			c.set(func() { c.frozen = true })
			pop := at.start(wildcard("orders", clientOf(gone)))
			eventually(t, "the claim is proposed", func() bool { return c.taken.Load() })
			close(gone)
			<-pop.done
			c.set(func() { c.frozen = false })
			return pop
		},
		"claim committed, not applied at its node": func(t *testing.T, c *cluster, at *member, gone chan struct{}) *popping {
			at.push("orders", "p", "x")
			c.settle()
			c.set(func() { at.slow = true })
			before := c.count("*command.Claim")
			pop := at.start(wildcard("orders", clientOf(gone)))
			eventually(t, "the claim is committed", func() bool { return c.count("*command.Claim") > before })
			close(gone)
			<-pop.done
			c.set(func() { at.slow = false })
			return pop
		},
		"claim applied": func(t *testing.T, c *cluster, at *member, gone chan struct{}) *popping {
			at.push("orders", "p", "x")
			pop := at.start(wildcard("orders", leaving(1, gone)))
			<-pop.done
			if !errors.Is(pop.err, ErrGone) {
				t.Errorf("the error is %v", pop.err)
			}
			return pop
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			at := c.members[1]
			at.pop(wildcard("orders"))
			pop := run(t, c, at, make(chan struct{}))
			if pop.took > testDeadline/2 {
				t.Errorf("the pop of a client that has gone took %v", pop.took)
			}
			if pop.err == nil && len(pop.outcome.Batches) > 0 {
				t.Errorf("a client that has gone got %s", told(pop.outcome, nil))
			}
			if len(c.leading().Directory().Queue(command.DefaultTenant, "orders").Groups) == 0 {
				t.Fatal("the group is not known")
			}
			if c.count("*command.Push") == 0 {
				at.push("orders", "p", "x")
			}
			c.free(t)
			c.forgotten()
		})
	}
}

// clientOf makes a pop whose client has gone when the channel is closed.
func clientOf(gone chan struct{}) func(*PopRequest) {
	return func(r *PopRequest) {
		r.Gone = gone
		r.IsGone = func() bool {
			select {
			case <-gone:
				return true
			default:
				return false
			}
		}
	}
}

// TestPopWithoutLeaderIsAnsweredInTime: a node that hears of no leader sends its consumers elsewhere (cluster 8.3).
func TestPopWithoutLeaderIsAnsweredInTime(t *testing.T) {
	const patience = 300 * time.Millisecond
	c := newCluster(t, 2, func(config *Config) { config.NoLeaderAfter = patience })
	at := c.members[1]
	parked := at.start(wildcard("orders", waiting))
	c.parked("orders", "workers", 1)
	c.depose()
	began := time.Now()
	fresh := at.start(wildcard("orders"))
	discovery := make(chan error, 1)
	go func() {
		_, err := at.Discover(inShop(1))
		discovery <- err
	}()
	for _, pop := range []*popping{parked, fresh} {
		<-pop.done
		if !errors.Is(pop.err, ErrNoLeader) {
			t.Errorf("got %s", told(pop.outcome, pop.err))
		}
	}
	if err := <-discovery; !errors.Is(err, ErrNoLeader) {
		t.Errorf("discovery: %v", err)
	}
	if waited := time.Since(began); waited < patience/2 || waited > testDeadline {
		t.Errorf("answered after %v", waited)
	}
	short := at.start(wildcard("orders", waiting, inTime(0)))
	if <-short.done; !errors.Is(short.err, ErrNoLeader) {
		t.Errorf("a wait that is over: %s", told(short.outcome, short.err))
	}
}

// TestLeaderThatHearsNobodyNeverSaysThatThereIsNothing cuts the leader off, which does not know it yet (cluster 9).
func TestLeaderThatHearsNobodyNeverSaysThatThereIsNothing(t *testing.T) {
	c := newCluster(t, 3, func(config *Config) { config.NoLeaderAfter = 200 * time.Millisecond })
	old := c.leading()
	old.pop(wildcard("orders"))
	requests := map[string]*PopRequest{
		"once":              wildcard("orders"),
		"pinned":            wildcard("orders", pinnedTo("p")),
		"missing queue":     wildcard("nowhere", pinnedTo("p")),
		"long poll":         wildcard("orders", waiting, inTime(250*time.Millisecond)),
		"long poll, queue":  wildcard("nowhere", waiting, pinnedTo("p"), inTime(250*time.Millisecond)),
		"long poll, pinned": wildcard("orders", waiting, pinnedTo("p"), inTime(250*time.Millisecond)),
	}
	c.set(func() { old.cut = true })
	for name, request := range requests {
		pop := old.start(request)
		if <-pop.done; !errors.Is(pop.err, ErrNoLeader) {
			t.Errorf("%s: got %s", name, told(pop.outcome, pop.err))
		}
	}
	if _, err := old.Discover(inShop(1)); !errors.Is(err, ErrNoLeader) {
		t.Errorf("discovery: %v", err)
	}
	c.set(func() { old.cut = false })
}

// TestLeaderThatIsBehindFindsWhatIsCommitted: a pop that does not wait sees every push that was acknowledged before it.
func TestLeaderThatIsBehindFindsWhatIsCommitted(t *testing.T) {
	c := newCluster(t, 2)
	leader, at := c.leading(), c.follower(0)
	for i, popper := range []*member{leader, at} {
		for round := range 20 {
			queue := fmt.Sprintf("orders-%d-%d", i, round)
			leader.pop(wildcard(queue))
			c.settle()
			c.set(func() { leader.slow = true })
			at.push(queue, "p", "x")
			pop := popper.start(wildcard(queue))
			c.set(func() { leader.slow = false })
			if outcome := pop.wait(t); got(outcome) != 1 {
				t.Fatalf("%s: got %s", queue, told(outcome, nil))
			}
		}
	}
}

// TestParkedPopOfADeletedQueueDoesNotMakeItAgain, whichever leader it is parked at (messaging 9.11).
func TestParkedPopOfADeletedQueueDoesNotMakeItAgain(t *testing.T) {
	c := newCluster(t, 3)
	for _, moves := range []string{"never", "before the deletion", "after the deletion"} {
		t.Run("leader changes "+moves, func(t *testing.T) {
			c.elect(0)
			at := c.members[2]
			pop := at.start(wildcard("orders", waiting, func(r *PopRequest) { r.Subscription.Mode = command.SubscriptionNew }))
			c.parked("orders", "workers", 1)
			if moves == "before the deletion" {
				c.elect(1)
				c.parked("orders", "workers", 1)
			}
			if _, err := at.Execute(soon(), &command.DeleteQueue{Tenant: command.DefaultTenant, Queue: "orders"}); err != nil {
				t.Fatal(err)
			}
			c.standing(1)
			if moves == "after the deletion" {
				c.elect(1)
				c.standing(1)
			}
			if c.leading().Directory().Queue(command.DefaultTenant, "orders") != nil {
				t.Fatal("the queue is there again")
			}
			at.push("orders", "p", "x")
			onlyX(t, pop.wait(t))
			c.clear()
		})
	}
}

// TestPopArrivesOnceWhateverTheLeader: a group that starts now starts when its first pop came, not when it came to the leader
// that claims for it (messaging 5.8).
func TestPopArrivesOnceWhateverTheLeader(t *testing.T) {
	c := newCluster(t, 3)
	at := c.members[2]
	at.push("orders", "other", "x")
	pop := at.startAgo(wildcard("orders", waiting, pinnedTo("p"), func(r *PopRequest) {
		r.Group, r.Subscription.Mode = "strangers", command.SubscriptionNew
	}), 20*time.Second)
	c.parked("orders", "strangers", 1)
	c.set(func() { c.frozen = true })
	c.crash()
	c.set(func() { c.frozen = false })
	var pushed sync.WaitGroup
	pushed.Go(func() { c.members[1].push("orders", "p", "x") })
	eventually(t, "the push is proposed", func() bool { return c.taken.Load() })
	c.elect(1)
	pushed.Wait()
	onlyX(t, pop.wait(t))
}

// TestStopOfEitherSideEndsTheWait: the pops of a node that stops are answered, those that it serves for others go on.
func TestStopOfEitherSideEndsTheWait(t *testing.T) {
	c := newCluster(t, 3)
	stays := c.members[1].start(wildcard("orders", waiting))
	ends := c.members[2].start(wildcard("orders", waiting))
	c.parked("orders", "workers", 2)
	c.members[2].AnswerParked()
	if outcome := ends.wait(t); len(outcome.Batches) > 0 || ends.took > testDeadline {
		t.Errorf("got %s after %v", told(outcome, nil), ends.took)
	}
	c.parked("orders", "workers", 1)
	c.leading().AnswerParked()
	c.elect(1)
	c.parked("orders", "workers", 1)
	c.members[1].push("orders", "p", "x")
	onlyX(t, stays.wait(t))
}

// TestConsumptionGoesOnWhileLeadersCome moves leadership around, gracefully and not, while messages are pushed and consumed
// through all members: everything is delivered once, in order, as a first attempt.
func TestConsumptionGoesOnWhileLeadersCome(t *testing.T) {
	c := newCluster(t, 3)
	var ticks atomic.Int64
	consumeThrough(t, c.rigs(), func() {
		n := ticks.Add(1)
		if n%20 != 0 {
			return
		}
		if n%40 == 0 {
			c.crash()
		}
		c.elect(int(n/20) % 3)
	})
	c.forgotten()
	c.sameState()
	if moves := ticks.Load() / 20; moves < 3 {
		t.Errorf("leadership moved only %d times", moves)
	}
}

// TestUnreadableCallIsAnError covers what another node could send.
func TestUnreadableCallIsAnError(t *testing.T) {
	r := newRig(t)
	if _, err := r.ServeCall(t.Context(), []byte("no call")); !errors.Is(err, command.ErrUnknownFormat) {
		t.Errorf("the error is %v", err)
	}
	if _, err := r.ServeCall(t.Context(), nil); !errors.Is(err, command.ErrBadCall) {
		t.Errorf("the error is %v", err)
	}
	r.guests.Store(guestsMax)
	bytes, err := r.ServeCall(t.Context(), command.AppendPopCall(nil, &command.PopCall{Queue: "orders"}))
	if answer, _ := command.DecodePopAnswer(bytes); err != nil || answer.Verdict != command.PopOverloaded {
		t.Errorf("with too many pops of others the answer is %+v, %v", answer, err)
	}
	r.guests.Store(0)
}
