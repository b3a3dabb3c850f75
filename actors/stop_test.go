package actors

import (
	"errors"
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
	if _, err := r.Execute(Until(time.Now().Add(20*time.Millisecond)), &command.Tick{}); !errors.Is(err, ErrDeadline) {
		t.Errorf("the error is %v", err)
	}
	r.log.gate.Unlock()
	r.log.gate.Lock()
	_, err := r.Push(command.DefaultTenant, []command.PushGroup{pushGroup("orders", "p", "late")}, Until(time.Now().Add(20*time.Millisecond)))
	r.log.gate.Unlock()
	if !errors.Is(err, ErrDeadline) {
		t.Errorf("the error is %v", err)
	}
	r.Execute(soon(), &command.Tick{}) // what was dropped is behind us
	if queue := r.Directory().Queue(command.DefaultTenant, "orders"); queue != nil {
		t.Error("a push that was dropped has made its queue")
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
