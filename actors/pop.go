package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/actors/machine/catalog"
	"queen/raftlog/command"
)

// PopRequest is a pop on one of the two queue routes (messaging 5.1).
type PopRequest struct {
	Tenant command.Tenant
	Queue  string
	Group  string
	// Pinned pops read one partition; the others register their group and may create the queue.
	Pinned    bool
	Partition string
	Batch     uint64
	// Partitions is how many partitions the call may claim; 0 where the request names none: see limit.
	Partitions int
	// AutoBatch and AutoPartitions leave the choice to the server (messaging 5.10), unless the group conflates.
	AutoBatch, AutoPartitions bool
	// LeaseMs is 0 for the leaseTime of the queue.
	LeaseMs          uint64
	CommitOnDelivery bool
	Subscription     command.Subscription
	// Conflation is the policy that a registration is to store; AskedConflation tells that the request named it.
	Conflation      bool
	AskedConflation bool
	Wait            bool
	Deadline        time.Time
	// Gone is closed when the client has gone; IsGone tells the same without waiting.
	Gone   <-chan struct{}
	IsGone func() bool
}

// limit is how many partitions the pop may claim: without a number one, and of a conflating group as many as its batch has
// messages (messaging 5.2, 5.9). What the group has stored decides, not what the request says.
func (r *PopRequest) limit(conflating bool) int {
	switch {
	case r.Partitions > 0:
		return r.Partitions
	case conflating:
		return int(min(r.Batch, popPartitionsMax))
	default:
		return 1
	}
}

// PopOutcome is what a pop got.
type PopOutcome struct {
	Lease   command.LeaseID
	Batches []command.ClaimedBatch
	// Registered tells whether the group is known on the queue; Conflation is its stored policy then.
	Registered     bool
	Conflation     bool
	AutoPartitions int
	AutoBatch      int
	// Waited is how much of the call was spent waiting for something to claim.
	Waited time.Duration
}

// popCall is one pop on its way. It looks at the groups of this node while this node leads, and asks the leader otherwise.
type popCall struct {
	*PopRequest
	b *Broker
	// began is when the pop came to its node.
	began time.Time
	// serves is the pop of another node that this call is for; zero for one of this node.
	serves command.RequestID
	// tenure is closed when this node does not lead any more.
	tenure <-chan struct{}
	// arrivalMicros is the leader's time at which the pop arrived: the instant of a subscription that starts now.
	arrivalMicros uint64
	queue         *QueueView
	group         *catalog.Group
	// registered and conflation are what is known of the group, for an answer without messages.
	registered, conflation bool
	offered                offer
	// tried tells that the pop has found its queue or made it, and does not make it again; asked that it has come to a leader
	// before.
	tried, asked bool
	// confirmed tells that everything committed before the pop came is applied here, or that the leader has said so of
	// itself: a look that finds nothing after that is an answer (cluster 9).
	confirmed bool
	// parks is how long the group may keep the pop; 0 asks it once. lasts tells that the call ends no earlier than its wait
	// when it gets nothing.
	parks  time.Duration
	lasts  bool
	waited time.Duration
	// doubtful tells that the attempt may have made a claim that nobody knows of, and doubts are those of attempts before.
	doubtful bool
	doubts   []doubt
	// leaderless is since when no leader has served the pop, and pauses how long it waited last before it asked again; zero
	// while one does.
	leaderless time.Time
	pauses     time.Duration
}

// Pop claims what is ready for a group, and waits for it when it is asked to (messaging 5.5, 5.7). The error is ErrGone
// when the client has gone; whatever was claimed for it is handed back.
func (b *Broker) Pop(r *PopRequest) (*PopOutcome, error) {
	if r.Wait {
		b.parked.Add(1)
		defer b.parked.Add(-1)
	}
	call := &popCall{PopRequest: r, b: b, began: time.Now()}
	return call.outcome(call.run(call.here, call.elsewhere))
}

// outcome is what the client gets when its pop ends. Whatever is claimed for it afterwards is handed back.
func (c *popCall) outcome(outcome *PopOutcome, err error) (*PopOutcome, error) {
	defer c.forget()
	switch {
	case c.gone(), err == nil && len(outcome.Batches) > 0:
		return outcome, err
	case err == nil:
		return c.clearUp(outcome)
	case errors.Is(err, ErrDeadline):
		return c.clearUp(c.empty())
	}
	return nil, err
}

// attempt is one try of a pop: an outcome ends it, again repeats it at once, neither means that nothing is ready.
type attempt func() (outcome *PopOutcome, again bool, err error)

// run tries until there is an outcome: here while this node leads, elsewhere while it does not.
func (c *popCall) run(here, elsewhere attempt) (*PopOutcome, error) {
	for {
		began := time.Now()
		c.plan()
		leads := c.leads()
		try := elsewhere
		if leads {
			try = here
		}
		outcome, again, err := c.unlessLate(try)
		if err == nil && outcome == nil && !again {
			if c.over() {
				return c.cut()
			}
			if c.confirmed {
				c.finishWait()
				return c.empty(), nil
			}
			err = c.confirm() // and look again
		}
		switch {
		case outcome != nil:
			return outcome, nil
		case err == nil:
			c.leaderless, c.pauses = time.Time{}, 0
		case errors.Is(err, ErrStopping) && c.over():
			return c.cut()
		case !wantsLeader(err) || c.guest() || leads && c.b.log.Leads():
			return nil, err
		case !c.patient(err, began):
			return nil, fmt.Errorf("%w: %w", ErrNoLeader, err)
		case c.over() || !c.pause():
			return c.cut()
		}
	}
}

// leads tells whether this node leads. It takes the tenure first, so that an end that comes after the question is noticed.
func (c *popCall) leads() bool {
	c.tenure = c.b.tenures.present()
	return c.b.log.Leads()
}

func (c *popCall) guest() bool { return c.serves != command.RequestID{} }

// gone tells that nobody waits for the answer any more.
func (c *popCall) gone() bool {
	select {
	case <-c.Gone:
		return true
	default:
		return false
	}
}

// over tells that the client has gone or that the node stops.
func (c *popCall) over() bool { return c.gone() || c.b.stopped.Err() != nil }

// cut ends a pop whose client has gone or whose node stops, as if its wait were over (cluster 17.1). A pop of another node
// asks the next leader.
func (c *popCall) cut() (*PopOutcome, error) {
	if c.guest() {
		return nil, ErrRetry
	}
	return c.empty(), nil
}

func (c *popCall) empty() *PopOutcome {
	return &PopOutcome{Registered: c.registered, Conflation: c.conflation}
}

// here looks the group up and claims, on the leader.
func (c *popCall) here() (outcome *PopOutcome, again bool, err error) {
	c.arrive()
	found, err := c.find()
	if err != nil {
		return nil, false, err
	}
	if c.registered = c.group != nil; c.registered {
		c.conflation = c.group.Conflation
	}
	if !found {
		return c.awaitQueue()
	}
	return c.expecting(c.claim)
}

// arrivalSlack is how much earlier than measured a pop counts as arrived that has been at another leader before: the way to
// there was perhaps shorter than the way to here, and nothing that was pushed in between is to be missed (messaging 5.8).
const arrivalSlack = 100 * time.Millisecond

// arrive notes when the pop has come, in the leader's time.
func (c *popCall) arrive() {
	if c.arrivalMicros != 0 {
		return
	}
	ago := time.Since(c.began)
	if c.asked {
		ago += arrivalSlack
	}
	c.arrivalMicros, c.asked = c.b.log.Now()-uint64(ago.Microseconds()), true
}

// find looks queue and group up, and registers what the route registers. found false means that there is no queue and the
// pop does not make one.
func (c *popCall) find() (found bool, err error) {
	c.queue = c.b.directory.Queue(c.Tenant, c.Queue)
	c.group = nil
	if c.queue != nil {
		c.group = c.queue.Groups[c.Group]
	}
	// A queue that is deleted while the pop waits is not made again by it (messaging 9.11).
	register := c.needsRegistration()
	if c.queue == nil && (!register || c.tried) {
		return false, nil
	}
	c.tried = true
	if !register {
		return true, nil
	}
	subscription := c.Subscription
	if subscription.Mode == command.SubscriptionNew && subscription.InstantMicros == 0 {
		subscription.InstantMicros = c.arrivalMicros
	}
	result, err := c.b.Execute(Until(c.claimDeadline()), &command.Register{
		Tenant: c.Tenant, Queue: c.Queue, Group: c.Group, CreateQueue: !c.Pinned,
		Subscription: subscription, Conflation: c.Conflation,
	})
	if err != nil {
		return false, err
	}
	c.queue = c.b.directory.Queue(c.Tenant, c.Queue)
	if c.queue == nil || result.(*command.RegisterResult).QueueID == 0 {
		return false, nil
	}
	c.group = c.queue.Groups[c.Group]
	return true, nil
}

// needsRegistration tells whether this pop is to store something before it claims (messaging 5.1).
func (c *popCall) needsRegistration() bool {
	named := c.Group != command.QueueModeGroup
	if c.Pinned {
		return named && c.Conflation && c.queue != nil && (c.group == nil || !c.group.Registered())
	}
	if c.queue == nil {
		return true
	}
	return c.group == nil || (named && !c.group.Registered())
}

// awaitQueue parks the pop until its queue exists.
func (c *popCall) awaitQueue() (_ *PopOutcome, again bool, err error) {
	if c.parks == 0 {
		return nil, false, nil
	}
	created, end := c.b.directory.AwaitQueue(c.Tenant, c.Queue)
	defer end()
	timer := time.NewTimer(c.parks)
	defer timer.Stop()
	select {
	case <-created:
		c.tried = false
		return nil, true, nil
	case <-c.tenure:
		return nil, true, nil
	case <-timer.C:
		err = c.confirm()
	case <-c.Gone:
	case <-c.b.stopped.Done():
	}
	select {
	case <-created: // meanwhile
		c.tried = false
		return nil, true, nil
	default:
		return nil, false, err
	}
}

// confirm makes sure that everything that was committed before the pop came is applied here, by asking whether this node
// still leads: then nothing that it does not know of can be ready (cluster 9).
func (c *popCall) confirm() error {
	if c.confirmed {
		return nil
	}
	err := c.catchUp()
	c.confirmed = err == nil
	return err
}

// catchUp waits until what is committed now is applied here.
func (c *popCall) catchUp() error {
	// A busy leader takes its time to apply what is committed: that is no reason to say that there is none.
	ctx, cancel := context.WithTimeout(c.b.stopped, c.b.config.NoLeaderAfter)
	defer cancel()
	_, err := c.b.log.ReadIndex(ctx)
	if err != nil && ctx.Err() != nil {
		// Not wrapped: the time that is over is that of the leader, and not that of a claim.
		return fmt.Errorf("%w: %v", ErrNoLeader, err)
	}
	return err
}
