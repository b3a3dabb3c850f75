package actors

import (
	"queen/raftlog/command"
)

// someQueue is one that exists, if there is any.
func (g *generator) someQueue() *modelQueue {
	for range 8 {
		if queue := g.model.queue(g.tenant(), g.queue()); queue != nil {
			return queue
		}
	}
	return nil
}

// somePartition is one that exists; mostly in the given queue.
func (g *generator) somePartition(queue *modelQueue) *modelPartition {
	for range 8 {
		if queue != nil {
			if p := queue.parts[g.partitionName()]; p != nil {
				return p
			}
		}
	}
	return nil
}

// partitionID names a partition that exists, or, rarely, one that does not or is another tenant's.
func (g *generator) partitionID() uint64 {
	if p := g.somePartition(g.someQueue()); p != nil && !g.oneIn(30) {
		return p.id
	}
	return g.random.Uint64N(g.model.lastPartition + 3)
}

func (g *generator) claim() command.Command {
	c := command.Claim{
		Tenant: g.tenant(), Group: g.group(), Batch: 1 + g.random.Uint64N(12), CommitOnDelivery: g.oneIn(8),
		LeaseMs: pick(g, []uint64{0, 0, 1, 500, 5000, 60_000}),
	}
	if !c.CommitOnDelivery {
		c.Lease = g.uuid()
	}
	for range 1 + g.random.IntN(2)*g.random.IntN(2) {
		part := command.ClaimPart{Queue: g.queue()}
		if g.oneIn(6) {
			part.Seed = g.subscription()
		}
		taken := map[string]bool{}
		for range 1 + g.random.IntN(3) {
			target := command.ClaimTarget{Name: g.partitionName()}
			if taken[target.Name] || len(c.Parts) > 0 && c.Parts[0].Queue == part.Queue {
				continue
			}
			taken[target.Name] = true
			if queue := g.model.queue(c.Tenant, part.Queue); queue != nil && queue.parts[target.Name] != nil && !g.oneIn(6) {
				target = command.ClaimTarget{Partition: queue.parts[target.Name].id}
			} else if g.oneIn(20) {
				target = command.ClaimTarget{Partition: g.partitionID()}
			}
			part.Targets = append(part.Targets, target)
		}
		c.Parts = append(c.Parts, part)
	}
	return c
}

func (g *generator) status() command.AckStatus {
	return pick(g, []command.AckStatus{
		command.AckCompleted, command.AckCompleted, command.AckCompleted, command.AckCompleted, command.AckCompleted,
		command.AckFailed, command.AckFailed, command.AckRetry, command.AckDeadLetter,
	})
}

// items settles messages of a partition from an offset on.
func (g *generator) items(p *modelPartition, from, end uint64) (items []command.AckItem) {
	whole := g.oneIn(2)
	status := g.status()
	for offset := from; offset < min(end, p.tail()); offset++ {
		if !whole && g.oneIn(3) {
			continue
		}
		if !whole && g.oneIn(3) {
			status = g.status()
		}
		item := command.AckItem{Txid: p.log[offset].txid, Status: status}
		if status != command.AckCompleted && g.oneIn(2) {
			item.Error, item.HasError = pick(g, []string{"", "boom", "no stock"}), true
		}
		if g.oneIn(60) {
			item.Txid = "unknown"
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		items = append(items, command.AckItem{Txid: string(g.txid()), Status: status})
	}
	return items
}

// part settles a batch that was claimed, or acks out of the blue.
func (g *generator) part() (group string, part command.AckPart, tenant command.Tenant) {
	if len(g.claims) > 0 && !g.oneIn(12) {
		// Mostly a recent claim, whose lease is live still.
		at := len(g.claims) - 1 - g.random.IntN(1+g.random.IntN(min(len(g.claims), 16)))
		claimed := g.claims[at]
		batch := pick(g, claimed.batches)
		part = command.AckPart{Partition: batch.Partition, Lease: claimed.claim.Lease}
		if g.oneIn(15) {
			part.Lease = command.LeaseID{}
		}
		end := batch.LastOffset + 1
		if g.oneIn(15) {
			end += 2
		}
		if p := g.model.partitions[batch.Partition]; p != nil {
			part.Items = g.items(p, batch.FirstOffset, end)
			return claimed.claim.Group, part, claimed.claim.Tenant
		}
	}
	part = command.AckPart{Partition: g.partitionID()}
	if g.oneIn(4) {
		part.Lease = g.uuid()
	}
	tenant = g.tenant()
	p := g.model.partitions[part.Partition]
	if p == nil || p.tail() == 0 {
		part.Items = []command.AckItem{{Txid: "nothing", Status: g.status()}}
		return g.group(), part, tenant
	}
	if !g.oneIn(10) {
		tenant = p.queue.tenant
	}
	at := g.random.Uint64N(p.tail())
	part.Items = g.items(p, at, at+1+g.random.Uint64N(3))
	return g.group(), part, tenant
}

func (g *generator) ack() command.Command {
	group, part, tenant := g.part()
	c := command.Ack{Tenant: tenant, Group: group, Parts: []command.AckPart{part}}
	if g.oneIn(4) {
		_, more, _ := g.part()
		c.Parts = append(c.Parts, more)
	}
	return c
}

func (g *generator) someLease() (command.Tenant, command.LeaseID) {
	if len(g.claims) == 0 || g.oneIn(10) {
		return g.tenant(), g.uuid()
	}
	claimed := pick(g, g.claims)
	return claimed.claim.Tenant, claimed.claim.Lease
}

func (g *generator) extend() command.Command {
	tenant, lease := g.someLease()
	return command.Extend{Tenant: tenant, Lease: lease, Seconds: 1 + g.random.Uint64N(30)}
}

func (g *generator) handBack() command.Command {
	if len(g.claims) == 0 {
		return command.Tick{}
	}
	claimed := g.claims[len(g.claims)-1-g.random.IntN(min(len(g.claims), 6))]
	c := command.HandBack{
		Tenant: claimed.claim.Tenant, Lease: claimed.claim.Lease, Group: claimed.claim.Group,
		CommitOnDelivery: claimed.claim.CommitOnDelivery,
	}
	for _, batch := range claimed.batches {
		c.Parts = append(c.Parts, command.HandBackPart{
			Partition: batch.Partition, FirstOffset: batch.FirstOffset, LastOffset: batch.LastOffset,
		})
	}
	return c
}

func (g *generator) register() command.Command {
	c := command.Register{
		Tenant: g.tenant(), Queue: g.queue(), Group: g.group(), CreateQueue: g.oneIn(2), Subscription: g.subscription(),
	}
	c.Conflation = c.Group == "last-value"
	return c
}

func (g *generator) deleteGroup() command.Command {
	return command.DeleteGroup{
		Tenant: g.tenant(), Group: g.group(), Queue: g.queue(), AllQueues: g.oneIn(4), DeleteMetadata: g.oneIn(2),
	}
}

func (g *generator) seek() command.Command {
	c := command.Seek{
		Tenant: g.tenant(), Group: g.group(), Queue: g.queue(), Partition: g.partitionName(), AllPartitions: g.oneIn(3),
		ToEnd: g.oneIn(2), TimestampMicros: g.instant(),
	}
	if c.AllPartitions && g.oneIn(3) {
		c.After = g.random.Uint64N(g.model.lastPartition + 1)
	}
	return c
}

func (g *generator) transaction() command.Command {
	c := command.Transaction{Tenant: g.tenant()}
	for range g.random.IntN(3) {
		group, part, tenant := g.part()
		c.Tenant = tenant
		if g.oneIn(4) {
			group = g.group()
		}
		c.Acks = append(c.Acks, command.TransactionAck{Group: group, AckPart: part})
		if g.oneIn(4) {
			c.RequiredLeases = append(c.RequiredLeases, part.Lease)
		}
	}
	if g.oneIn(12) {
		_, lease := g.someLease()
		c.RequiredLeases = append(c.RequiredLeases, lease)
	}
	if !g.oneIn(3) {
		c.Pushes = g.groups(1 + g.random.IntN(2))
	}
	for range g.random.IntN(3) * g.random.IntN(2) {
		position := command.Position{
			Queue: g.queue(), Group: g.group(), Partition: g.partitionName(), HasOffset: !g.oneIn(4), HasMetadata: g.oneIn(2),
		}
		if g.oneIn(12) {
			position.Queue = "never made"
		}
		if position.HasMetadata {
			position.Metadata = g.text(g.random.IntN(20))
		}
		if queue := g.model.queue(c.Tenant, position.Queue); queue != nil && queue.parts[position.Partition] != nil {
			position.Offset = g.random.Int64N(int64(queue.parts[position.Partition].tail()) + 1)
		}
		if g.oneIn(10) {
			position.Offset = pick(g, []int64{-1, 1 << 40})
		}
		if g.oneIn(3) {
			position.Subscription = g.subscription()
		}
		c.Positions = append(c.Positions, position)
	}
	if g.oneIn(2) {
		c.KVLimits, c.KV = g.kvLimits(), g.kvOps(c.Tenant, 1+g.random.IntN(3), false)
	}
	if g.oneIn(2) {
		c.Timers = g.timerOps(c.Tenant, 1+g.random.IntN(3))
	}
	return c
}
