package actors

import (
	"errors"
	"time"

	"github.com/google/uuid"

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
	// Partitions is how many partitions the call may claim.
	Partitions int
	// AutoBatch and AutoPartitions leave the choice to the server (messaging 5.10).
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

// claimAttemptMin is what a claim gets to commit even when the wait of its pop is nearly over (messaging 5.5.10).
const claimAttemptMin = time.Second

// claimMargin is how long before its deadline a pop stops claiming, but never more than a quarter of what is left.
const claimMargin = 250 * time.Millisecond

// parkMin is the least that is worth parking for: a shorter wait could be over before the group's actor has seen the pop.
const parkMin = 25 * time.Millisecond

// popCall is one pop on its way.
type popCall struct {
	*PopRequest
	b *Broker
	// arrivalMicros is the leader's time at which the pop arrived: the instant of a subscription that starts now.
	arrivalMicros uint64
	queue         *QueueView
	group         *catalog.Group
	front         bool
	offered       offer
	tried         bool
	// parks is how long the group may keep the pop; 0 asks it once. lasts tells that the call ends no earlier than its wait
	// when it gets nothing.
	parks  time.Duration
	lasts  bool
	waited time.Duration
}

// Pop claims what is ready for a group, and waits for it when it is asked to (messaging 5.5, 5.7). The error is ErrGone
// when the client has gone; whatever was claimed for it is handed back.
func (b *Broker) Pop(r *PopRequest) (*PopOutcome, error) {
	call := &popCall{PopRequest: r, b: b, arrivalMicros: b.log.Now()}
	if r.Wait {
		b.parked.Add(1)
		defer b.parked.Add(-1)
	}
	outcome, err := call.run()
	if errors.Is(err, ErrDeadline) {
		return call.empty(), nil // what was claimed after all is handed back
	}
	return outcome, err
}

func (c *popCall) run() (*PopOutcome, error) {
	for {
		found, err := c.find()
		if err != nil {
			return nil, err
		}
		if !found {
			if waited := c.awaitQueue(); !waited {
				return c.empty(), nil
			}
			continue
		}
		outcome, again, err := c.claim()
		if err != nil || !again {
			return outcome, err
		}
	}
}

func (c *popCall) empty() *PopOutcome {
	outcome := &PopOutcome{}
	if c.group != nil {
		outcome.Registered, outcome.Conflation = true, c.group.Conflation
	}
	return outcome
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
	result, err := c.b.Execute(c.claimDeadline(), &command.Register{
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

// awaitQueue parks the pop until its queue exists; false when the wait is over.
func (c *popCall) awaitQueue() bool {
	if !c.Wait {
		return false
	}
	created, end := c.b.directory.AwaitQueue(c.Tenant, c.Queue)
	defer end()
	timer := time.NewTimer(time.Until(c.Deadline))
	defer timer.Stop()
	select {
	case <-created:
		c.tried = false
		return true
	case <-timer.C:
	case <-c.Gone:
	case <-c.b.stopped.Done():
	}
	return false
}

// claimDeadline is how long a command on behalf of this pop may take.
func (r *PopRequest) claimDeadline() time.Time {
	least := time.Now().Add(claimAttemptMin)
	if r.Deadline.Before(least) {
		return least
	}
	return r.Deadline
}

// claim asks the group for partitions and claims them. again tells that the race was lost and there is time for another.
func (c *popCall) claim() (outcome *PopOutcome, again bool, err error) {
	if c.group == nil {
		// A pinned pop of a group that nobody registered: its first claim makes the group and its cursor.
		return c.claimUnregistered()
	}
	w := c.waiter()
	actor := c.b.groups.send(c.queue.ID, c.group.ID, w)
	if actor == nil {
		return c.empty(), false, nil // the node stops
	}
	c.b.ensureScanned(actor, c.group)
	if !c.park(actor, w) {
		return c.empty(), false, nil
	}
	return c.take(actor, w)
}

func (c *popCall) waiter() *waiter {
	c.plan()
	w := &waiter{
		limit: c.Partitions, autoBatch: c.AutoBatch, pinned: c.Pinned, partition: c.Partition,
		wait: c.parks > 0, front: c.front, nowMicros: c.b.log.Now(), offers: make(chan offer, 1),
	}
	if c.AutoPartitions {
		w.limit = 0
	}
	if c.Pinned {
		w.partitionID = c.b.partitionID(c.queue.ID, c.Partition)
	}
	w.spec = &claimSpec{
		tenant: c.Tenant, queue: c.Queue, group: c.Group, batch: c.Batch, leaseMs: c.LeaseMs,
		commitOnDelivery: c.CommitOnDelivery, seed: c.seed(), gone: c.IsGone, lease: c.newLease(),
		deadline: c.Deadline,
	}
	return w
}

// plan decides what the pop does with the rest of its wait: it parks until the margin before the deadline begins. With less
// than parkMin until then it asks once, and within the reply margin it does not wait either (messaging 5.5.10).
func (c *popCall) plan() {
	c.parks, c.lasts = 0, false
	if !c.Wait {
		return
	}
	left := time.Until(c.Deadline)
	c.lasts = left > c.b.config.PopReplyMargin
	if parks := left - max(min(claimMargin, left/4), c.b.config.PopReplyMargin); parks >= parkMin {
		c.parks = parks
	}
}

// seed is how the cursor of a pinned, unregistered group is made (messaging 5.8).
func (c *popCall) seed() command.Subscription {
	if !c.Pinned || c.Group == command.QueueModeGroup || (c.group != nil && c.group.Registered()) {
		return command.Subscription{}
	}
	seed := c.Subscription
	switch {
	case seed.Mode == command.SubscriptionNone:
		seed.Mode = command.SubscriptionAll // or the claim would never make the group
	case seed.Mode == command.SubscriptionNew && seed.InstantMicros == 0:
		seed.InstantMicros = c.arrivalMicros
	}
	return seed
}

func (c *popCall) newLease() command.LeaseID {
	if c.CommitOnDelivery {
		return uuid.Nil
	}
	return uuid.Must(uuid.NewV7())
}

// park waits for the answer of the group actor; false when the wait is over and nothing was offered.
func (c *popCall) park(actor *groupActor, w *waiter) bool {
	wait := c.parks
	if wait == 0 {
		wait = time.Until(c.claimDeadline())
	}
	began := time.Now()
	defer func() { c.waited += time.Since(began) }()
	var offered bool
	if c.offered, offered = c.b.awaitOffer(actor, w, wait, c.Gone); !offered {
		c.finishWait()
	}
	return offered
}

// awaitOffer waits for the answer of a group actor to a waiter that was sent to it. offered is false when the wait is over,
// the client has gone or the node stops, and nothing was offered; then nothing will be.
func (b *Broker) awaitOffer(actor *groupActor, w *waiter, wait time.Duration, gone <-chan struct{}) (o offer, offered bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case o = <-w.offers:
		return o, true
	case <-timer.C:
	case <-gone:
	case <-b.stopped.Done():
	}
	// Set before the actor is asked: a waiter that is still in the mailbox is answered when it comes out.
	w.abandoned.Store(true)
	cancel := &cancelWaiter{waiter: w}
	_ = actor.Call(cancel) // an actor that dies over it has answered the waiter, or taken it out before
	if cancel.removed {
		return offer{}, false
	}
	// Whoever has taken the waiter answers it: at once, or, when its claim rides with a push, when that is applied.
	timer.Reset(claimAttemptMin)
	select {
	case o = <-w.offers:
	case <-timer.C:
		w.forsaken.Store(true)
		select {
		case o = <-w.offers:
		default:
			return offer{}, false
		}
	}
	return o, o.kind != offerNothing
}

// finishWait keeps an empty long poll until its time is really over: the margin is for claiming only.
func (c *popCall) finishWait() {
	if !c.lasts {
		return
	}
	timer := time.NewTimer(time.Until(c.Deadline))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Gone:
	case <-c.b.stopped.Done():
	}
}

// take turns an offer into a claim.
func (c *popCall) take(actor *groupActor, w *waiter) (outcome *PopOutcome, again bool, err error) {
	switch c.offered.kind {
	case offerNothing:
		c.finishWait()
		return c.empty(), false, nil
	case offerAgain:
		return nil, true, nil
	case offerFailed:
		return nil, false, ErrRetry
	case offerClaimed:
		if c.offered.result == nil {
			return c.lost()
		}
		return c.deliver(w, c.offered.result)
	}
	if c.IsGone != nil && c.IsGone() {
		actor.Tell(&giveBack{partitions: c.offered.partitions, nowMicros: c.b.log.Now()})
		return nil, false, ErrGone
	}
	spec := *w.spec
	if c.offered.autoBatch > 0 {
		spec.batch = uint64(c.offered.autoBatch)
	}
	targets := make([]command.ClaimTarget, len(c.offered.partitions))
	for i, id := range c.offered.partitions {
		targets[i].Partition = id
	}
	result, err := c.propose(spec.command(targets))
	if err != nil {
		actor.Tell(&giveBack{partitions: c.offered.partitions, nowMicros: c.b.log.Now()})
		return nil, false, err
	}
	return c.deliver(w, result)
}

func (c *popCall) propose(claim *command.Claim) (*command.ClaimResult, error) {
	done := make(chan outcome, 1)
	deadline := c.claimDeadline()
	id := c.b.submit(Proposal{Item: command.Item{Command: claim}, Deadline: deadline, Gone: c.IsGone}, done)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case o := <-done:
		return o.claimed()
	case <-timer.C:
		// The claim may still be applied: whatever it gets is handed back then.
		waiting := c.b.pending.giveUp(id, func(result command.Result) {
			if r, ok := result.(*command.ClaimResult); ok {
				c.b.handBack(claim, r)
			}
		})
		if !waiting {
			o := <-done
			return o.claimed()
		}
		return nil, ErrDeadline
	}
}

func (o outcome) claimed() (*command.ClaimResult, error) {
	result, err := o.unpack()
	if err != nil {
		return nil, err
	}
	return result.(*command.ClaimResult), nil
}

// deliver ends the pop with what the claim got, or sends it back into the line when the claim lost its races.
func (c *popCall) deliver(w *waiter, result *command.ClaimResult) (outcome *PopOutcome, again bool, err error) {
	if len(result.Batches) == 0 {
		return c.lost()
	}
	if c.IsGone != nil && c.IsGone() {
		c.b.handBack(w.spec.command(nil), result)
		return nil, false, ErrGone
	}
	outcome = &PopOutcome{
		Lease: w.spec.lease, Batches: result.Batches,
		AutoPartitions: c.offered.autoPartitions, AutoBatch: c.offered.autoBatch, Waited: c.waited,
	}
	outcome.Registered, outcome.Conflation = true, result.Batches[0].DeliverLastOnly
	return outcome, false, nil
}

// lost sends a pop whose claim got nothing back to the front of the line, as long as there is time.
func (c *popCall) lost() (*PopOutcome, bool, error) {
	c.front = true
	if time.Until(c.Deadline) <= c.b.config.PopReplyMargin {
		return c.empty(), false, nil
	}
	return nil, true, nil
}

// HandBack undoes what a pop got when its answer could not be delivered (messaging 5.5.9).
func (b *Broker) HandBack(r *PopRequest, o *PopOutcome) {
	claim := &command.Claim{Tenant: r.Tenant, Group: r.Group, Lease: o.Lease, CommitOnDelivery: r.CommitOnDelivery}
	b.handBack(claim, &command.ClaimResult{Batches: o.Batches})
}

func (b *Broker) handBack(claim *command.Claim, result *command.ClaimResult) {
	if len(result.Batches) == 0 {
		return
	}
	back := &command.HandBack{
		Tenant: claim.Tenant, Lease: claim.Lease, Group: claim.Group, CommitOnDelivery: claim.CommitOnDelivery,
		Parts: make([]command.HandBackPart, len(result.Batches)),
	}
	for i := range result.Batches {
		batch := &result.Batches[i]
		back.Parts[i] = command.HandBackPart{Partition: batch.Partition, FirstOffset: batch.FirstOffset, LastOffset: batch.LastOffset}
	}
	// Nobody waits for the outcome: if it cannot be proposed, the lease expires instead. It is pending all the same, so that
	// it counts as unanswered until it is applied.
	p := Proposal{Item: command.Item{Command: back}, Deadline: time.Now().Add(handBackDeadline)}
	p.Keys, p.Bytes = weigh(back)
	b.propose(p, func(command.Result) {}, func(error) {})
}

// handBackDeadline bounds how long a hand-back waits for a leader.
const handBackDeadline = 30 * time.Second

func (s *claimSpec) command(targets []command.ClaimTarget) *command.Claim {
	return &command.Claim{
		Tenant: s.tenant, Lease: s.lease, Group: s.group, Batch: s.batch, LeaseMs: s.leaseMs,
		CommitOnDelivery: s.commitOnDelivery,
		Parts:            []command.ClaimPart{{Queue: s.queue, Targets: targets, Seed: s.seed}},
	}
}

// claimUnregistered claims for a pinned group that has no cursor anywhere in the queue: the claim itself makes group and
// cursor, so that a group that starts now misses nothing that is pushed while it waits.
func (c *popCall) claimUnregistered() (outcome *PopOutcome, again bool, err error) {
	w := c.waiter()
	if w.partitionID == 0 && !c.Wait {
		return c.empty(), false, nil
	}
	result, err := c.propose(w.spec.command([]command.ClaimTarget{{Name: c.Partition}}))
	if err != nil {
		return nil, false, err
	}
	if len(result.Batches) > 0 {
		return c.deliver(w, result)
	}
	if !c.Wait {
		return c.empty(), false, nil
	}
	return nil, true, nil
}
