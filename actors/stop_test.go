package actors

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"queen/raftlog/command"
)

// TestStopAnswersEverybody parks pops in every way there is and stops the broker.
func TestStopAnswersEverybody(t *testing.T) {
	r := newRig(t)
	r.push("orders", "p", "x")
	r.pop(wildcard("orders")) // holds p
	var pops []*popping
	for i := range 30 {
		request := wildcard("orders", waiting, inTime(time.Minute))
		switch i % 3 {
		case 1:
			pinnedTo("p")(request)
		case 2:
			pinnedTo("nobody knows it")(request)
		}
		pops = append(pops, r.start(request))
	}
	r.parkedIn("orders", "workers", 30)
	for range 5 {
		pops = append(pops, r.start(wildcard("missing", waiting, pinnedTo("p"), inTime(time.Minute))))
	}
	eventually(t, "all are parked", func() bool { return r.Parked() == 35 })
	r.close()
	for i, pop := range pops {
		if outcome := pop.wait(t); len(outcome.Batches) != 0 {
			t.Errorf("pop %d got %+v", i, outcome)
		}
	}
	for _, late := range []*PopRequest{
		wildcard("orders"), wildcard("orders", waiting), wildcard("orders", pinnedTo("p")), wildcard("missing", waiting),
	} {
		pop := r.start(late)
		<-pop.done
		if pop.err != nil && !errors.Is(pop.err, ErrStopping) || pop.err == nil && len(pop.outcome.Batches) > 0 {
			t.Errorf("after the stop a pop got %+v and the error %v", pop.outcome, pop.err)
		}
	}
	if _, err := r.Discover(&DiscoverRequest{PopRequest: *wildcard(""), Namespace: "orders", HasNamespace: true}); err != nil {
		t.Errorf("after the stop a discovery pop gives %v", err)
	}
}

// TestCommandThatIsNotProposedInTimeHasAnError covers what Execute and Push report when the log does not take a command.
func TestCommandThatIsNotProposedInTimeHasAnError(t *testing.T) {
	r := newRig(t)
	r.log.gate.Lock()
	if _, err := r.Execute(time.Now().Add(20*time.Millisecond), &command.Tick{}); !errors.Is(err, ErrDeadline) {
		t.Errorf("the error is %v", err)
	}
	r.log.gate.Unlock()
	r.log.gate.Lock()
	_, err := r.Push(command.DefaultTenant, []command.PushGroup{pushGroup("orders", "p", "late")}, time.Now().Add(20*time.Millisecond))
	r.log.gate.Unlock()
	if !errors.Is(err, ErrDeadline) {
		t.Errorf("the error is %v", err)
	}
	r.Execute(soon(), &command.Tick{}) // what was dropped is behind us
	if queue := r.Directory().Queue(command.DefaultTenant, "orders"); queue != nil {
		t.Error("a push that was dropped has made its queue")
	}
}

func TestDiscoveryClaimsByPriorityThenByReadiness(t *testing.T) {
	r := newRig(t)
	for i, queue := range []string{"shop.low", "shop.high", "shop.middle", "other.one"} {
		r.configure(queue, command.OptionChange{Key: command.OptionNamespace, Text: queue[:4]},
			seconds(command.OptionPriority, []int32{1, 9, 5, 100}[i]))
		for p := range 2 {
			r.push(queue, fmt.Sprint("p", p), "x")
		}
	}
	discover := func(partitions int) *PopOutcome {
		t.Helper()
		outcome, err := r.Discover(&DiscoverRequest{
			PopRequest: *wildcard("", func(r *PopRequest) { r.Partitions = partitions }), Namespace: "shop", HasNamespace: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	order := func(o *PopOutcome) (names []string) {
		for i := range o.Batches {
			names = append(names, o.Batches[i].Queue+"/"+o.Batches[i].PartitionName)
		}
		return names
	}
	first := discover(3)
	if want := []string{"shop.high/p0", "shop.high/p1", "shop.middle/p0"}; !slices.Equal(order(first), want) {
		t.Errorf("claimed %v", order(first))
	}
	if want := []string{"shop.middle/p1", "shop.low/p0", "shop.low/p1"}; !slices.Equal(order(discover(64)), want) {
		t.Errorf("the rest is not %v", want)
	}
	if rest := discover(1); len(rest.Batches) != 0 || !rest.Registered {
		t.Errorf("got %+v", rest)
	}
	// All batches of one call share the lease: it is extended as a whole.
	result, err := r.Execute(soon(), &command.Extend{Tenant: command.DefaultTenant, Lease: first.Lease, Seconds: 600})
	if err != nil || result.(*command.ExtendResult).Renewed != 3 {
		t.Errorf("extend: %+v, %v", result, err)
	}
}

// TestIdleGroupIsIdleOnlyWithoutWaiters asks the clock's question at several instants.
func TestIdleGroupIsIdleOnlyWithoutWaiters(t *testing.T) {
	r := newRig(t, func(c *Config) { c.IdleUnload = time.Minute })
	r.pop(wildcard("orders"))
	actor := r.groupActor("orders", "workers")
	now := r.log.Now()
	if r.idle(actor, now) {
		t.Error("a group is idle right after a pop")
	}
	if later := now + 61*microsPerSecond; !r.idle(actor, later) {
		t.Error("a group is not idle a minute after its last pop")
	}
	pop := r.start(wildcard("orders", waiting))
	r.parkedIn("orders", "workers", 1)
	if later := now + 300*microsPerSecond; r.idle(actor, later) {
		t.Error("a group with a parked pop is idle")
	}
	r.push("orders", "p", "x")
	pop.wait(t)
}
