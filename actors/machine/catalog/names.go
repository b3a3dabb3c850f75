package catalog

import (
	"hash/maphash"

	"github.com/google/uuid"

	"queen/actors/machine/recent"
)

// namesRemembered bounds the names that are remembered: some 70 bytes each, in memory that the garbage collector need not
// look at, so that a push to a partition that was not used for long need not look for its name in the store.
const namesRemembered = 1 << 21

// nameMemory remembers partitions by queue and name. A name stands in it as a hash of 128 bits with seeds of this process: nobody
// can make two names meet, and by chance they do not.
type nameMemory struct {
	seeds [2]maphash.Seed
	known *recent.Map[nameHash, named]
}

type nameHash [2]uint64

// named is a Partition without what it was looked up by.
type named struct {
	id            uint64
	uuid          uuid.UUID
	createdMicros uint64
}

func newNames() *nameMemory {
	return &nameMemory{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		known: recent.New[nameHash, named](namesRemembered),
	}
}

func (n *nameMemory) hash(queue uint64, name string) nameHash {
	key := partitionKey{queue, name}
	return nameHash{maphash.Comparable(n.seeds[0], key), maphash.Comparable(n.seeds[1], key)}
}

func (n *nameMemory) get(queue uint64, name string) (*Partition, bool) {
	found, ok := n.known.Get(n.hash(queue, name))
	if !ok {
		return nil, false
	}
	return &Partition{ID: found.id, QueueID: queue, UUID: found.uuid, Name: name, CreatedMicros: found.createdMicros}, true
}

func (n *nameMemory) put(p *Partition) {
	n.known.Put(n.hash(p.QueueID, p.Name), named{id: p.ID, uuid: p.UUID, createdMicros: p.CreatedMicros})
}

func (n *nameMemory) forget(p *Partition) { n.known.Delete(n.hash(p.QueueID, p.Name)) }
