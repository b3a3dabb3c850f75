package actors

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/raftlog/command"
)

// DiscoverRequest is a pop over all queues of a namespace or task (messaging 5.12). It never waits.
type DiscoverRequest struct {
	PopRequest
	Namespace, Task       string
	HasNamespace, HasTask bool
}

func (r *DiscoverRequest) matches(o *command.Options) bool {
	return (!r.HasNamespace || o.Namespace == r.Namespace) && (!r.HasTask || o.Task == r.Task)
}

// discoverAttempts bounds how often a discovery pop tries again when its claims lose their races.
const discoverAttempts = 16

// Discover claims from the matching queues, higher priorities first, all under one lease.
func (b *Broker) Discover(r *DiscoverRequest) (*PopOutcome, error) {
	arrival := b.log.Now()
	var queues []*QueueView
	for range discoverAttempts {
		var err error
		if queues, err = b.matching(r, arrival); err != nil {
			return nil, err
		}
		claim, reserved := b.reserve(r, queues)
		if len(reserved) == 0 {
			return b.discovered(queues, r), nil
		}
		call := &popCall{PopRequest: &r.PopRequest, b: b}
		result, err := call.propose(claim)
		if err != nil {
			for _, held := range reserved {
				held.actor.Tell(&giveBack{partitions: held.partitions, nowMicros: b.log.Now()})
			}
			return nil, err
		}
		if len(result.Batches) == 0 {
			continue
		}
		if r.IsGone != nil && r.IsGone() {
			b.handBack(claim, result)
			return nil, ErrGone
		}
		outcome := b.discovered(queues, r)
		outcome.Lease, outcome.Batches = claim.Lease, result.Batches
		return outcome, nil
	}
	return b.discovered(queues, r), nil
}

// discovered reports the policy of the group: conflating when it is so on any of the queues.
func (b *Broker) discovered(queues []*QueueView, r *DiscoverRequest) *PopOutcome {
	outcome := &PopOutcome{}
	for _, queue := range queues {
		if group := queue.Groups[r.Group]; group != nil {
			outcome.Registered = true
			outcome.Conflation = outcome.Conflation || group.Conflation
		}
	}
	return outcome
}

// matching lists the queues of a discovery pop in the order of claiming, its group registered on all of them.
func (b *Broker) matching(r *DiscoverRequest, arrivalMicros uint64) ([]*QueueView, error) {
	var queues []*QueueView
	for _, queue := range b.directory.Queues(r.Tenant) {
		if r.matches(&queue.Options) {
			queues = append(queues, queue)
		}
	}
	slices.SortFunc(queues, func(a, b *QueueView) int {
		return cmp.Or(cmp.Compare(b.Options.Priority, a.Options.Priority), cmp.Compare(a.ID, b.ID))
	})
	for i, queue := range queues {
		group := queue.Groups[r.Group]
		if group != nil && (group.Registered() || group.QueueMode()) {
			continue
		}
		subscription := r.Subscription
		if subscription.Mode == command.SubscriptionNew && subscription.InstantMicros == 0 {
			subscription.InstantMicros = arrivalMicros
		}
		_, err := b.Execute(time.Now().Add(backgroundDeadline), &command.Register{
			Tenant: r.Tenant, Queue: queue.Name, Group: r.Group, Subscription: subscription, Conflation: r.Conflation,
		})
		if err != nil {
			return nil, err
		}
		if view := b.directory.Queue(r.Tenant, queue.Name); view != nil {
			queues[i] = view
		}
	}
	return queues, nil
}

type reservation struct {
	actor      *groupActor
	partitions []uint64
}

// reserve asks the groups of the queues for ready partitions, as many as the pop may claim.
func (b *Broker) reserve(r *DiscoverRequest, queues []*QueueView) (*command.Claim, []reservation) {
	claim := &command.Claim{
		Tenant: r.Tenant, Group: r.Group, Batch: r.Batch, LeaseMs: r.LeaseMs, CommitOnDelivery: r.CommitOnDelivery,
	}
	if !r.CommitOnDelivery {
		claim.Lease = uuid.Must(uuid.NewV7())
	}
	if claim.LeaseMs == 0 {
		claim.LeaseMs = discoveryLeaseMs
	}
	var reserved []reservation
	left := r.Partitions
	for _, queue := range queues {
		group := queue.Groups[r.Group]
		if left == 0 || group == nil {
			continue
		}
		actor, partitions := b.takeReady(r, queue, group, left)
		if len(partitions) == 0 {
			continue
		}
		left -= len(partitions)
		reserved = append(reserved, reservation{actor, partitions})
		part := command.ClaimPart{Queue: queue.Name}
		for _, id := range partitions {
			part.Targets = append(part.Targets, command.ClaimTarget{Partition: id})
		}
		claim.Parts = append(claim.Parts, part)
	}
	return claim, reserved
}

// takeReady asks a group for what is ready: it answers a pop that does not wait as soon as its scan has ended.
func (b *Broker) takeReady(r *DiscoverRequest, queue *QueueView, group *catalog.Group, limit int) (*groupActor, []uint64) {
	w := &waiter{limit: limit, nowMicros: b.log.Now(), offers: make(chan offer, 1)}
	actor := b.groups.send(queue.ID, group.ID, w)
	if actor == nil {
		return nil, nil // the node stops
	}
	b.ensureScanned(actor, group)
	answer, _ := b.awaitOffer(actor, w, time.Until(r.claimDeadline()), r.Gone)
	return actor, answer.partitions
}
