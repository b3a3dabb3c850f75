package actors

import "queen/raftlog/command"

// RidersFor is what Proposal.Riders is, for a command that another node has sent to this one, as command.AppendItem has
// encoded it: the leader's log asks for it. Nil when nobody waits here, which costs one look at a counter, or when the
// command is no push. The bytes must not change until the riders have been asked.
func (b *Broker) RidersFor(encodedItem []byte) func() []Proposal {
	if b.standing.Load() == 0 || command.ItemOp(encodedItem) != command.OpPush {
		return nil
	}
	item, err := command.DecodeItem(encodedItem)
	if err != nil {
		return nil // the entry it goes into will tell
	}
	push, ok := item.Command.(command.Push)
	if !ok {
		return nil
	}
	return b.riders(&push)
}

// riders returns the function that finds parked pops for a push, or nil when nobody waits: push to delivery is then one
// commit (architecture 6). It is asked when the push goes into its entry.
func (b *Broker) riders(push *command.Push) func() []Proposal {
	for i := range push.Groups {
		for _, actor := range b.ridable(push, i) {
			if actor.shared.waiters.Load() > 0 {
				return func() []Proposal { return b.ridersOf(push) }
			}
		}
	}
	return nil
}

// ridable lists the active groups that may be served in the entry of a push group: none while delays hide what is pushed.
func (b *Broker) ridable(push *command.Push, i int) []*groupActor {
	queue := b.directory.Queue(push.Tenant, push.Groups[i].Queue)
	if queue == nil || queue.Options.DelayedProcessingSeconds > 0 || queue.Options.WindowBufferSeconds > 0 {
		return nil
	}
	return b.groups.of(queue.ID)
}

// ridersMax bounds the claims that ride with one push; what else it wakes claims in the next entry.
const ridersMax = 64

func (b *Broker) ridersOf(push *command.Push) []Proposal {
	var riders []Proposal
	for i := range push.Groups {
		group := &push.Groups[i]
		var id uint64
		known := false
		for _, actor := range b.ridable(push, i) {
			if len(riders) == ridersMax {
				return riders
			}
			if actor.shared.waiters.Load() == 0 {
				continue
			}
			if !known {
				id, known = b.partitionID(actor.queueID, group.Partition), true
			}
			ride := rideRequest{partition: group.Partition, id: id}
			switch err := actor.Call(&ride); {
			case ride.waiter == nil:
			case err != nil:
				ride.waiter.lost() // the actor died after it had let the pop go
			default:
				if rider, ok := b.rider(&ride, actor); ok {
					riders = append(riders, rider)
				}
			}
		}
	}
	return riders
}

// rider is the claim of a parked pop that rides with a push; ok is false when it cannot be made, and the pop is told so.
func (b *Broker) rider(ride *rideRequest, actor *groupActor) (p Proposal, ok bool) {
	w := ride.waiter
	target := command.ClaimTarget{Partition: ride.id}
	if ride.id == 0 {
		target.Name = ride.partition
	}
	claim := w.spec.command([]command.ClaimTarget{target})
	choose(claim, ride.autoPartitions, ride.autoBatch)
	p = Proposal{
		Item: command.Item{Command: claim},
		Span: Until(w.spec.deadline),
		Gone: w.spec.gone,
	}
	p.Keys, p.Bytes = weigh(claim)
	answer := offer{kind: offerClaimed, autoPartitions: ride.autoPartitions, autoBatch: ride.autoBatch}
	applied := func(result command.Result) {
		answer.result, _ = result.(*command.ClaimResult)
		w.offers <- answer
	}
	dropped := func(error) {
		if ride.id != 0 {
			actor.Tell(&giveBack{partitions: []uint64{ride.id}, nowMicros: b.log.Now()})
		}
		w.offers <- answer
	}
	if err := b.identify(&p, applied, dropped); err != nil {
		dropped(err)
		return p, false
	}
	return p, true
}
