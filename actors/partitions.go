package actors

import (
	"queen/actors/machine/partition"
	"queen/store"
)

// partitionActor is the apply actor's grip on an active partition.
type partitionActor struct {
	*Handle
	queueID uint64
	id      uint64
	place   int // in the ring
}

// partitions are the active partition actors, at most limit of them. They belong to the apply actor, which alone spawns,
// calls and stops them; so passivation cannot lose a message.
type partitions struct {
	system *System
	limit  int
	active map[uint64]*partitionActor
	// ring and hand are the clock that picks whom to passivate: an actor that was used since the hand passed it last stays.
	ring []*partitionActor
	hand int
}

// partitionsActive bounds the partitions in memory: about 2 KiB each in some twenty objects, which the garbage collector
// visits again and again. Activation costs a few microseconds, so a larger number buys little.
const partitionsActive = 50_000

func newPartitions(system *System, limit int) *partitions {
	return &partitions{system: system, limit: limit, active: map[uint64]*partitionActor{}}
}

// get returns the actor of a partition and activates it when it is not in memory.
func (p *partitions) get(queueID, id uint64) *partitionActor {
	if actor := p.active[id]; actor != nil {
		actor.used = true
		return actor
	}
	actor := &partitionActor{queueID: queueID, id: id}
	actor.Handle = p.system.Spawn(KindPartition, func() Behavior {
		return &holder[*partition.Machine]{load: func(reader store.Reader) (*partition.Machine, error) {
			return partition.Load(reader, queueID, id)
		}}
	})
	p.active[id] = actor
	if len(p.ring) < p.limit {
		actor.place = len(p.ring)
		p.ring = append(p.ring, actor)
		return actor
	}
	p.replace(actor)
	return actor
}

// replace moves the hand to the next actor that is unused and puts the new one in its place.
func (p *partitions) replace(actor *partitionActor) {
	for p.ring[p.hand] != nil && p.ring[p.hand].used {
		p.ring[p.hand].used = false
		p.hand = (p.hand + 1) % len(p.ring)
	}
	if old := p.ring[p.hand]; old != nil {
		delete(p.active, old.id)
		old.Stop()
	}
	p.ring[p.hand], actor.place = actor, p.hand
	p.hand = (p.hand + 1) % len(p.ring)
}

// drop stops the actor of a partition that is deleted.
func (p *partitions) drop(id uint64) {
	actor := p.active[id]
	if actor == nil {
		return
	}
	delete(p.active, id)
	p.ring[actor.place] = nil
	actor.Stop()
}

// stop stops all of them.
func (p *partitions) stop() {
	for _, actor := range p.active {
		actor.Stop()
	}
}
