package actors

import (
	"errors"
	"time"

	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// A push over many partitions is split at its groups, which are independent, so that one entry stays within a store
// transaction (architecture 7).
const (
	pushMaxKeys  = 4096
	pushMaxBytes = 1 << 20
)

// Push stores groups of messages and returns one result per group, in order. A group that fits into no entry gets a
// refusal of its own.
func (b *Broker) Push(tenant command.Tenant, groups []command.PushGroup, deadline time.Time) ([]command.PushGroupResult, error) {
	calls := b.splitPush(tenant, groups)
	for i := range calls {
		calls[i].start(b, deadline)
	}
	results := make([]command.PushGroupResult, 0, len(groups))
	var failure error
	for i := range calls {
		answer, err := calls[i].wait(b, deadline)
		if err != nil {
			failure = err
			continue
		}
		results = append(results, answer...)
	}
	return results, failure
}

// pushCall is one command of a push.
type pushCall struct {
	push command.Push
	done chan outcome
	id   command.RequestID
}

func (b *Broker) splitPush(tenant command.Tenant, groups []command.PushGroup) []pushCall {
	calls := make([]pushCall, 0, 1)
	for len(groups) > 0 {
		n, keys, bytes, payload := 0, 0, 0, 0
		for n < len(groups) {
			k, size := weighGroups(groups[n : n+1])
			if n > 0 && (keys+k > pushMaxKeys || bytes+size > pushMaxBytes || payload+len(groups[n].Chunk) > pushMaxBytes) {
				break
			}
			keys, bytes, payload = keys+k, bytes+size, payload+len(groups[n].Chunk)
			n++
		}
		calls = append(calls, pushCall{push: command.Push{Tenant: tenant, Groups: groups[:n]}})
		groups = groups[n:]
	}
	return calls
}

func (c *pushCall) start(b *Broker, deadline time.Time) {
	c.done = make(chan outcome, 1)
	c.id = b.submit(Proposal{
		Item: command.Item{Command: &c.push}, Deadline: deadline, Riders: b.riders(&c.push),
	}, c.done)
}

func (c *pushCall) wait(b *Broker, deadline time.Time) ([]command.PushGroupResult, error) {
	result, err := b.await(c.id, deadline, c.done)
	if errors.Is(err, ErrTooLarge) {
		refused := make([]command.PushGroupResult, len(c.push.Groups))
		for i := range refused {
			refused[i].Refusal = &command.Refusal{Code: "too_large", Text: "the messages for one partition exceed one log entry"}
		}
		return refused, nil
	}
	if err != nil {
		return nil, err
	}
	return result.(*command.PushResult).Groups, nil
}

// riders returns the function that finds parked pops for a push, or nil when nobody waits: push to delivery is then one
// commit (architecture 6). It is asked when the push goes into its entry.
func (b *Broker) riders(push *command.Push) func() []Proposal {
	waiting := false
	for i := range push.Groups {
		queue := b.directory.Queue(push.Tenant, push.Groups[i].Queue)
		if queue == nil || queue.Options.DelayedProcessingSeconds > 0 || queue.Options.WindowBufferSeconds > 0 {
			continue
		}
		for _, actor := range b.groups.of(queue.ID) {
			waiting = waiting || actor.shared.waiters.Load() > 0
		}
	}
	if !waiting {
		return nil
	}
	return func() []Proposal { return b.ridersOf(push) }
}

// ridersMax bounds the claims that ride with one push; what else it wakes claims in the next entry.
const ridersMax = 64

func (b *Broker) ridersOf(push *command.Push) []Proposal {
	var riders []Proposal
	for i := range push.Groups {
		group := &push.Groups[i]
		queue := b.directory.Queue(push.Tenant, group.Queue)
		if queue == nil {
			continue
		}
		id := b.partitionID(queue.ID, group.Partition)
		for _, actor := range b.groups.of(queue.ID) {
			if len(riders) == ridersMax {
				return riders
			}
			if actor.shared.waiters.Load() == 0 {
				continue
			}
			request := &rideRequest{partition: group.Partition, id: id}
			if err := actor.Call(request); err == nil && request.waiter != nil {
				riders = append(riders, b.rider(request, actor))
			}
		}
	}
	return riders
}

// rider is the claim of a parked pop that rides with a push.
func (b *Broker) rider(request *rideRequest, actor *groupActor) Proposal {
	w := request.waiter
	target := command.ClaimTarget{Partition: request.id}
	if request.id == 0 {
		target.Name = request.partition
	}
	claim := w.spec.command([]command.ClaimTarget{target})
	p := Proposal{
		Item:     command.Item{Request: b.nextRequest(), Command: claim},
		Deadline: w.spec.deadline,
		Gone:     w.spec.gone,
	}
	p.Keys, p.Bytes = weigh(claim)
	b.pending.add(p.Item.Request, func(result command.Result) {
		claimed, _ := result.(*command.ClaimResult)
		w.offers <- offer{kind: offerClaimed, result: claimed}
	})
	id := p.Item.Request
	p.Dropped = func(error) {
		if !b.pending.remove(id) {
			return
		}
		if request.id != 0 {
			actor.Tell(&giveBack{partitions: []uint64{request.id}, nowMicros: b.log.Now()})
		}
		w.offers <- offer{kind: offerClaimed}
	}
	return p
}

// partitionID looks a partition up by name; 0 when it does not exist here yet.
func (b *Broker) partitionID(queueID uint64, name string) uint64 {
	view := b.store.View()
	defer view.Close()
	return partitionIDIn(view, queueID, name)
}

func partitionIDIn(r store.Reader, queueID uint64, name string) uint64 {
	row, err := r.Get(layout.PartitionName(queueID, name))
	if err != nil || len(row) != 8 {
		return 0
	}
	return layout.LastNumber(row)
}
