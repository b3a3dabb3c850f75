package actors

import (
	"sync/atomic"

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
	// loads may be read by any goroutine.
	loads partitionLoads
}

// partitionLoads count comings and goings, for the metrics.
type partitionLoads struct{ loaded, unloaded, byClaims atomic.Uint64 }

// partitionsActive bounds the partitions in memory: about 2 KiB each in some twenty objects, which the garbage collector
// visits again and again. Activation costs a few microseconds, so a larger number buys little.
const partitionsActive = 50_000

func newPartitions(system *System, limit int) *partitions {
	return &partitions{system: system, limit: limit, active: map[uint64]*partitionActor{}}
}

// get returns the actor of a partition and activates it when it is not in memory. A partition that a command has made before it was
// taken back was never there, and its id may have gone to one of another queue.
func (p *partitions) get(queueID, id uint64) *partitionActor {
	if actor := p.active[id]; actor != nil && actor.queueID == queueID {
		actor.used = true
		return actor
	}
	p.drop(id)
	p.loads.loaded.Add(1)
	actor := p.activate(func() Behavior {
		return &holder[*partition.Machine]{load: func(reader store.Reader) (*partition.Machine, error) {
			return partition.Load(reader, queueID, id)
		}}
	})
	actor.queueID, actor.id = queueID, id
	p.active[id] = actor
	return actor
}

// activate returns an actor with this behavior: a new one while there is room, else one whose partition is passivated for
// it. Handing the actor over costs 1 µs; stopping it and spawning another makes 22 objects and wakes two goroutines.
func (p *partitions) activate(make func() Behavior) *partitionActor {
	if len(p.ring) < p.limit {
		actor := &partitionActor{Handle: p.system.Spawn(KindPartition, make), place: len(p.ring)}
		p.ring = append(p.ring, actor)
		return actor
	}
	place := p.turn()
	actor := p.ring[place]
	if actor == nil {
		actor = &partitionActor{Handle: p.system.Spawn(KindPartition, make), place: place}
		p.ring[place] = actor
		return actor
	}
	delete(p.active, actor.id)
	p.loads.unloaded.Add(1)
	actor.Become(make)
	return actor
}

// turn moves the hand past the actors that were used since it came by last, and returns the place it stops at.
func (p *partitions) turn() (place int) {
	for p.ring[p.hand] != nil && p.ring[p.hand].used {
		p.ring[p.hand].used = false
		p.hand = (p.hand + 1) % len(p.ring)
	}
	place = p.hand
	p.hand = (p.hand + 1) % len(p.ring)
	return place
}

// claimed notes that a claim is about to ask a partition.
func (p *partitions) claimed(id uint64) {
	if p.active[id] == nil {
		p.loads.byClaims.Add(1)
	}
}

// drop stops the actor of a partition that is deleted.
func (p *partitions) drop(id uint64) {
	actor := p.active[id]
	if actor == nil {
		return
	}
	delete(p.active, id)
	p.loads.unloaded.Add(1)
	p.ring[actor.place] = nil
	actor.Stop()
}

// stop stops all of them.
func (p *partitions) stop() {
	for _, actor := range p.active {
		actor.Stop()
	}
}
