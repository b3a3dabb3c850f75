package bench

import (
	"math/rand/v2"
	"strconv"
)

// A lane is the stream of messages of one producer into one partition. Only its producer numbers them, so that the order in
// which they must be delivered is known: 0, 1, 2, …

// laneMap says which lane belongs to which producer and partition. It is fixed for a run and computed, not stored: lane i of
// producer p is lane p × perProducer + i.
type laneMap struct {
	producers   int
	perProducer int
	partitions  int // over all queues
	queues      int
}

// spreadHeadroom is how many more partitions than messages of one batch a producer has to choose from with --spread.
const spreadHeadroom = 4

// newLaneMap gives every producer its share of the partitions, and more where a spread batch needs more.
func newLaneMap(options Options) laneMap {
	partitions := options.Queues * options.Partitions
	perProducer := (partitions + options.Clients - 1) / options.Clients
	if options.Spread {
		perProducer = max(perProducer, spreadHeadroom*options.Batch)
	}
	return laneMap{
		producers: options.Clients, perProducer: min(perProducer, partitions), partitions: partitions, queues: options.Queues,
	}
}

func (m laneMap) count() int { return m.producers * m.perProducer }

// lane returns the number of a producer's i-th lane.
func (m laneMap) lane(producer, i int) uint32 { return uint32(producer*m.perProducer + i) }

// partition returns the global partition of a lane. Producers begin at different ones, so that together they cover all.
func (m laneMap) partition(lane uint32) int {
	producer, i := int(lane)/m.perProducer, int(lane)%m.perProducer
	return (producer*m.partitions/m.producers + i) % m.partitions
}

// queue returns the queue of a global partition: neighbours lie in different queues.
func (m laneMap) queue(partition int) int { return partition % m.queues }

// appendPartitionName appends the name of a global partition inside its queue.
func (m laneMap) appendPartitionName(dst []byte, partition int) []byte {
	dst = append(dst, 'p')
	return strconv.AppendInt(dst, int64(partition/m.queues), 10)
}

// lanePicker chooses the lanes of one producer's batches.
type lanePicker struct {
	lanes    laneMap
	producer int
	random   *rand.Rand
}

func (p *lanePicker) any() int { return p.random.IntN(p.lanes.perProducer) }

// next returns the lane index after i, for the messages of a spread batch: distinct as long as the batch is not longer than
// the ring.
func (p *lanePicker) next(i int) int { return (i + 1) % p.lanes.perProducer }
