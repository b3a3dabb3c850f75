package actors

import (
	"time"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// claimAttemptMin is what a claim gets to commit even when the wait of its pop is nearly over (messaging 5.5.10).
const claimAttemptMin = time.Second

// claimMargin is how long before its deadline a pop stops claiming, but never more than a quarter of what is left.
const claimMargin = 250 * time.Millisecond

// parkMin is the least that is worth parking for: a shorter wait could be over before the group's actor has seen the pop.
const parkMin = 25 * time.Millisecond

// claimDeadline is how long a command on behalf of this pop may take.
func (r *PopRequest) claimDeadline() time.Time {
	least := time.Now().Add(claimAttemptMin)
	if r.Deadline.Before(least) {
		return least
	}
	return r.Deadline
}

// claim asks the group for partitions and claims them. again tells that the race was lost and there is time for another.
func (c *popCall) claim(id command.RequestID) (outcome *PopOutcome, again bool, err error) {
	w := c.waiter(id)
	if c.group == nil {
		// A pinned pop of a group that nobody registered: its first claim makes the group and its cursor.
		return c.claimUnregistered(w)
	}
	actor := c.b.groups.send(c.queue.ID, c.group.ID, w)
	if actor == nil {
		return nil, false, ErrStopping
	}
	c.b.ensureScanned(actor, c.group)
	offered, err := c.park(actor, w)
	if !offered {
		return nil, c.tenureOver(), err
	}
	return c.take(actor, w)
}

// tenureOver tells that this node has stopped to lead since the pop came to its group.
func (c *popCall) tenureOver() bool {
	select {
	case <-c.tenure:
		return true
	default:
		return false
	}
}

func (c *popCall) waiter(id command.RequestID) *waiter {
	c.plan() // a registration may have taken its time
	conflating := c.group != nil && c.group.Conflation
	w := &waiter{
		limit: c.limit(conflating), autoBatch: c.AutoBatch && !conflating, pinned: c.Pinned, partition: c.Partition,
		wait: c.parks > 0, since: c.began, nowMicros: c.b.log.Now(), offers: make(chan offer, 1),
	}
	if c.AutoPartitions && !conflating {
		w.limit = 0
	}
	if c.Pinned {
		w.partitionID = c.b.partitionID(c.queue.ID, c.Partition)
	}
	w.spec = &claimSpec{
		tenant: c.Tenant, queue: c.Queue, group: c.Group, batch: c.Batch, leaseMs: c.LeaseMs,
		commitOnDelivery: c.CommitOnDelivery, seed: c.seed(), gone: c.IsGone, lease: c.newLease(),
		deadline: c.Deadline, serves: id,
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

// park waits for the answer of the group actor; false when the wait is over and nothing was offered. The error says that
// nobody knows whether there was nothing.
func (c *popCall) park(actor *groupActor, w *waiter) (offered bool, err error) {
	stay := parking{wait: c.parks, gone: c.Gone, tenure: c.tenure}
	// Asked while the pop still waits here: whatever was committed before would have been offered to it.
	stay.timeUp = func() { err = c.confirm() }
	if c.parks == 0 {
		stay.wait = time.Until(c.claimDeadline())
	}
	began := time.Now()
	c.b.standing.Add(1)
	c.offered, offered = c.b.awaitOffer(actor, w, stay)
	c.b.standing.Add(-1)
	c.waited += time.Since(began)
	if !offered && c.offered.kind == offerRiding {
		c.doubtful = true
		return false, ErrDeadline
	}
	return offered, err
}

// parking is how a waiter stays with a group actor.
type parking struct {
	wait time.Duration
	// gone is closed when the client has gone, tenure when this node does not lead any more.
	gone, tenure <-chan struct{}
	// timeUp is called when wait is over, while the waiter still waits; nil does nothing.
	timeUp func()
}

// awaitOffer waits for the answer of a group actor to a waiter that was sent to it. offered is false when the parking is
// over, the client has gone or the node stops, and nothing was offered; then nothing will be, unless the offer is of the kind
// offerRiding.
func (b *Broker) awaitOffer(actor *groupActor, w *waiter, stay parking) (o offer, offered bool) {
	timer := time.NewTimer(stay.wait)
	defer timer.Stop()
	select {
	case o = <-w.offers:
		return o, true
	case <-timer.C:
		if stay.timeUp != nil {
			stay.timeUp()
		}
	case <-stay.gone:
	case <-stay.tenure:
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
		return offer{kind: offerRiding}, false
	}
	return o, o.kind != offerNothing
}

// finishWait keeps an empty long poll until its time is really over: the margin is for claiming only. That of another node
// waits there.
func (c *popCall) finishWait() {
	if !c.lasts || c.guest() {
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
		return nil, false, nil
	case offerAgain:
		return nil, true, nil
	case offerFailed:
		return nil, false, ErrRetry
	case offerClaimed:
		if c.offered.result == nil {
			c.doubtful = true
			return c.lost()
		}
		return c.deliver(w.spec.lease, c.offered.result)
	}
	if c.IsGone != nil && c.IsGone() {
		actor.Tell(&giveBack{partitions: c.offered.partitions, nowMicros: c.b.log.Now()})
		return nil, false, ErrGone
	}
	targets := make([]command.ClaimTarget, len(c.offered.partitions))
	for i, id := range c.offered.partitions {
		targets[i].Partition = id
	}
	claim := w.spec.command(targets)
	choose(claim, c.offered.autoPartitions, c.offered.autoBatch)
	result, err := c.propose(claim)
	if err != nil {
		actor.Tell(&giveBack{partitions: c.offered.partitions, nowMicros: c.b.log.Now()})
		return nil, false, err
	}
	return c.deliver(claim.Lease, result)
}

func (c *popCall) propose(claim *command.Claim) (*command.ClaimResult, error) {
	done := make(chan outcome, 1)
	deadline := c.claimDeadline()
	id := c.b.submit(Proposal{Item: command.Item{Command: claim}, Span: Until(deadline), Gone: c.IsGone}, done)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var o outcome
	select {
	case o = <-done:
	case <-timer.C:
		if c.b.pending.remove(id) {
			c.doubtful = true
			return nil, ErrDeadline
		}
		o = <-done
	}
	result, err := o.unpack()
	if err != nil {
		c.doubtful = c.doubtful || !certain(err)
		return nil, err
	}
	c.confirmed = true // the claim is in the log, and here is everything before it
	return result.(*command.ClaimResult), nil
}

// deliver ends the pop with what its claim got, or sends it back into the line when the claim lost its races.
func (c *popCall) deliver(lease command.LeaseID, result *command.ClaimResult) (outcome *PopOutcome, again bool, err error) {
	if len(result.Batches) == 0 {
		return c.lost()
	}
	if c.IsGone != nil && c.IsGone() {
		return nil, false, ErrGone
	}
	outcome = &PopOutcome{
		Lease: lease, Batches: result.Batches,
		AutoPartitions: c.offered.autoPartitions, AutoBatch: c.offered.autoBatch, Waited: c.waited,
	}
	outcome.Registered, outcome.Conflation = true, result.Batches[0].DeliverLastOnly
	return outcome, false, nil
}

// lost sends a pop whose claim got nothing back into the line, as long as there is time.
func (c *popCall) lost() (*PopOutcome, bool, error) {
	if time.Until(c.Deadline) <= c.b.config.PopReplyMargin {
		return c.empty(), false, nil
	}
	return nil, true, nil
}

// command is the claim of a pop for some partitions.
func (s *claimSpec) command(targets []command.ClaimTarget) *command.Claim {
	return &command.Claim{
		Tenant: s.tenant, Lease: s.lease, Group: s.group, Batch: s.batch, LeaseMs: s.leaseMs,
		CommitOnDelivery: s.commitOnDelivery,
		Parts:            []command.ClaimPart{{Queue: s.queue, Targets: targets, Seed: s.seed}},
		For:              s.serves,
	}
}

// choose puts into a claim what autopilot has chosen, and with it tells the pop, wherever that waits.
func choose(claim *command.Claim, partitions, batch int) {
	if batch > 0 {
		claim.Batch = uint64(batch)
	}
	claim.AutoPartitions, claim.AutoBatch = uint32(partitions), uint32(batch)
}

// claimUnregistered claims for a pinned group that has no cursor anywhere in the queue: the claim itself makes group and
// cursor, so that a group that starts now misses nothing that is pushed while it waits.
func (c *popCall) claimUnregistered(w *waiter) (outcome *PopOutcome, again bool, err error) {
	if w.partitionID == 0 && !c.Wait {
		return nil, false, nil
	}
	claim := w.spec.command([]command.ClaimTarget{{Name: c.Partition}})
	result, err := c.propose(claim)
	if err != nil {
		return nil, false, err
	}
	if len(result.Batches) > 0 {
		return c.deliver(claim.Lease, result)
	}
	return nil, true, nil // now the group is known, and says when there is something
}
