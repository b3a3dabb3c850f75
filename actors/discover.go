package actors

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// DiscoverRequest is a pop over all queues of a namespace or task (messaging 5.12). It never waits.
type DiscoverRequest struct {
	PopRequest
	Namespace, Task       string
	HasNamespace, HasTask bool
	// Admit refuses a queue on which the group must not be registered (messaging 2.11). It is asked before the group is
	// registered anywhere; nil admits every queue.
	Admit func(queue string) error
}

func (r *DiscoverRequest) matches(o *command.Options) bool {
	return (!r.HasNamespace || o.Namespace == r.Namespace) && (!r.HasTask || o.Task == r.Task)
}

// knownTo tells whether the queue has the group already.
func (r *DiscoverRequest) knownTo(queue *QueueView) bool {
	group := queue.Groups[r.Group]
	return group != nil && (group.Registered() || group.QueueMode())
}

// discoverAttempts bounds how often a discovery pop tries again when its claims lose their races.
const discoverAttempts = 16

// discoverCall is a discovery pop on its way.
type discoverCall struct {
	*popCall
	r     *DiscoverRequest
	tries int
}

// Discover claims from the matching queues, higher priorities first, all under one lease.
func (b *Broker) Discover(r *DiscoverRequest) (*PopOutcome, error) {
	call := &discoverCall{r: r, popCall: &popCall{PopRequest: &r.PopRequest, b: b, began: time.Now()}}
	outcome, err := call.outcome(call.run(call.here, call.elsewhere))
	if outcome != nil {
		outcome.Registered, outcome.Conflation = call.registered, call.conflation
	}
	return outcome, err
}

// here claims from the groups of this node. A pop of another node has been registered there.
func (c *discoverCall) here() (outcome *PopOutcome, again bool, err error) {
	c.arrive()
	// Before it looks, and not only before it says that there is nothing: which queues match, and which comes first, was
	// perhaps committed just now.
	if err := c.confirm(); err != nil {
		return nil, false, err
	}
	var queues []*QueueView
	if c.guest() {
		queues = c.b.knowing(c.r)
	} else if queues, err = c.b.matching(c.r, c.arrivalMicros); err != nil {
		return nil, false, err
	}
	c.learn(queues)
	if c.tries++; c.tries > discoverAttempts {
		return c.empty(), false, nil
	}
	claim, reserved := c.b.reserve(c.r, queues)
	if len(reserved) == 0 {
		return nil, false, nil
	}
	return c.expecting(func(id command.RequestID) (*PopOutcome, bool, error) {
		claim.For = id
		result, err := c.propose(claim)
		if err != nil {
			for _, held := range reserved {
				held.actor.Tell(&giveBack{partitions: held.partitions, nowMicros: c.b.log.Now()})
			}
			return nil, false, err
		}
		if len(result.Batches) == 0 {
			return nil, true, nil
		}
		return c.deliver(claim.Lease, result)
	})
}

// learn notes the policy of the group: conflating when it is so on any of the queues.
func (c *discoverCall) learn(queues []*QueueView) {
	c.registered, c.conflation = false, false
	for _, queue := range queues {
		if group := queue.Groups[c.Group]; group != nil {
			c.registered = true
			c.conflation = c.conflation || group.Conflation
		}
	}
}

// matches lists the queues of a discovery pop in the order of claiming.
func (b *Broker) matches(r *DiscoverRequest) (queues []*QueueView) {
	for _, queue := range b.directory.Queues(r.Tenant) {
		if r.matches(&queue.Options) {
			queues = append(queues, queue)
		}
	}
	slices.SortFunc(queues, func(a, b *QueueView) int {
		return cmp.Or(cmp.Compare(b.Options.Priority, a.Options.Priority), cmp.Compare(a.ID, b.ID))
	})
	return queues
}

// knowing lists the queues of a discovery pop on which its group is registered. Those that its own node has not registered it
// on were made while it was on its way.
func (b *Broker) knowing(r *DiscoverRequest) []*QueueView {
	return slices.DeleteFunc(b.matches(r), func(queue *QueueView) bool { return !r.knownTo(queue) })
}

// matching lists the queues of a discovery pop in the order of claiming, its group registered on all of them. A subscription
// from now on begins at arrivalMicros, or with its command when that is 0.
func (b *Broker) matching(r *DiscoverRequest, arrivalMicros uint64) ([]*QueueView, error) {
	queues := b.matches(r)
	for _, queue := range queues {
		if r.Admit != nil && !r.knownTo(queue) {
			if err := r.Admit(queue.Name); err != nil {
				return nil, err
			}
		}
	}
	for i, queue := range queues {
		if r.knownTo(queue) {
			continue
		}
		subscription := r.Subscription
		if subscription.Mode == command.SubscriptionNew && subscription.InstantMicros == 0 {
			subscription.InstantMicros = arrivalMicros
		}
		_, err := b.Execute(Until(time.Now().Add(backgroundDeadline)), &command.Register{
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

// reserve asks the groups of the queues for ready partitions, as many as the pop may claim: higher priorities first, and
// among equals the longest ready.
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
	call := &discovery{Broker: b, r: r, claim: claim, left: r.limit(r.Conflation), nowMicros: b.log.Now()}
	for len(queues) > 0 && call.left > 0 {
		equals := 1
		for equals < len(queues) && queues[equals].Options.Priority == queues[0].Options.Priority {
			equals++
		}
		if equals > 1 {
			call.reserveLongestReady(queues[:equals])
		}
		for _, queue := range queues[:equals] {
			call.add(queue, call.take(queue, call.left))
		}
		queues = queues[equals:]
	}
	return claim, call.reserved
}

// discovery is a discovery pop that gathers its targets.
type discovery struct {
	*Broker
	r        *DiscoverRequest
	claim    *command.Claim
	reserved []reservation
	left     int
	// nowMicros is when it looks; ask is the message it looks with, used again and again.
	nowMicros uint64
	ask       readySince
}

// reserveLongestReady merges what is ready in queues of one priority. It looks before it reserves, so that no other pop misses
// a partition in the meantime; what somebody else takes in between, or a scan has still to find, is left to the caller.
func (d *discovery) reserveLongestReady(queues []*QueueView) {
	lines := make(readyLines, 0, len(queues))
	for i, queue := range queues {
		line := readyLine{queue: i}
		if d.look(queue, &line, 1); len(line.sinceMicros) > 0 {
			lines = append(lines, line)
		}
	}
	heap.Init(&lines)
	wanted, order := make([]int, len(queues)), make([]int, 0, d.left)
	for len(order) < d.left && len(lines) > 0 {
		first := &lines[0]
		order = append(order, first.queue)
		wanted[first.queue]++
		if first.next++; first.next == first.asked && len(order) < d.left {
			// Every group is asked for one instant, and for twice as many whenever all of them have won: with many queues
			// most of them win nothing.
			d.look(queues[first.queue], first, first.asked+min(first.asked, d.left-len(order)))
		}
		if first.next < len(first.sinceMicros) {
			heap.Fix(&lines, 0)
		} else {
			heap.Pop(&lines)
		}
	}
	taken := make([][]uint64, len(queues))
	for i, queue := range queues {
		if wanted[i] > 0 {
			taken[i] = d.take(queue, wanted[i])
		}
	}
	for _, i := range order {
		if rest := taken[i]; len(rest) > 0 {
			d.add(queues[i], rest[:1])
			taken[i] = rest[1:]
		}
	}
}

// look asks the group of a queue since when its first partitions have been ready. A group that is not in memory is made and
// scanned like for a pop: one that is looked for among others only would never be found otherwise.
func (d *discovery) look(queue *QueueView, line *readyLine, limit int) {
	line.sinceMicros, line.asked = line.sinceMicros[:0], limit
	group := queue.Groups[d.r.Group]
	if group == nil {
		return
	}
	actor := d.groups.get(queue.ID, group.ID)
	if actor == nil {
		return // the node stops
	}
	d.ensureScanned(actor, group)
	d.ask.limit, d.ask.nowMicros, d.ask.sinceMicros = limit, d.nowMicros, line.sinceMicros
	if actor.Call(&d.ask) == nil { // one that dies, or is unloaded right now, is found by the next pop
		line.sinceMicros = d.ask.sinceMicros
	}
}

// readyLine is what a queue has ready, longest first, as far as its group has been asked.
type readyLine struct {
	// queue is its place among its equals, which decides between the same instants.
	queue       int
	sinceMicros []uint64
	// next is the instant that competes with those of other queues; asked is how many were asked for.
	next, asked int
}

// readyLines is a heap of lines, the longest ready partition first.
type readyLines []readyLine

func (l readyLines) Len() int { return len(l) }
func (l readyLines) Less(i, j int) bool {
	a, b := &l[i], &l[j]
	return cmp.Or(cmp.Compare(a.sinceMicros[a.next], b.sinceMicros[b.next]), cmp.Compare(a.queue, b.queue)) < 0
}
func (l readyLines) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *readyLines) Push(x any)   { *l = append(*l, x.(readyLine)) }
func (l *readyLines) Pop() any {
	old := *l
	last := old[len(old)-1]
	*l = old[:len(old)-1]
	return last
}

// add makes reserved partitions the next targets of the claim.
func (d *discovery) add(queue *QueueView, partitions []uint64) {
	if len(partitions) == 0 {
		return
	}
	parts := &d.claim.Parts
	if last := len(*parts) - 1; last < 0 || (*parts)[last].Queue != queue.Name {
		*parts = append(*parts, command.ClaimPart{Queue: queue.Name})
	}
	part := &(*parts)[len(*parts)-1]
	for _, id := range partitions {
		part.Targets = append(part.Targets, command.ClaimTarget{Partition: id})
	}
}

// take reserves ready partitions of a queue: its group answers a pop that does not wait as soon as its scan has ended.
func (d *discovery) take(queue *QueueView, limit int) []uint64 {
	group := queue.Groups[d.r.Group]
	if limit == 0 || group == nil {
		return nil
	}
	w := &waiter{limit: limit, since: time.Now(), nowMicros: d.log.Now(), offers: make(chan offer, 1)}
	actor := d.groups.send(queue.ID, group.ID, w)
	if actor == nil {
		return nil // the node stops
	}
	d.ensureScanned(actor, group)
	answer, _ := d.awaitOffer(actor, w, parking{wait: time.Until(d.r.claimDeadline()), gone: d.r.Gone})
	if len(answer.partitions) > 0 {
		d.left -= len(answer.partitions)
		d.reserved = append(d.reserved, reservation{actor, answer.partitions})
	}
	return answer.partitions
}
