package actors

import (
	"time"

	"queen/actors/machine/kv"
	"queen/actors/machine/partition"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

const (
	moveInterval = 2 * time.Second
	// moveSlackBytes is how much more than twice the live bytes the buckets may take before anything is moved: the open
	// bucket and those that wait to be sealed or dropped.
	moveSlackBytes = 256 << 20
	// moveLiveShare is the share of live bytes up to which a bucket is worth emptying.
	moveLiveShare = 0.5
	// moveStepBytes is how much one command copies.
	moveStepBytes = 512 << 10
	// moveVisitsPerTick bounds the partitions looked at per tick.
	moveVisitsPerTick = 20_000
)

// mover empties old buckets that hold little that is still referenced, so that their space comes back (architecture 7).
// It goes through the rows outside of partitions first, and then through the partitions with a cursor of its own; apply decides
// what is moved.
type mover struct {
	b *Broker
	// bucket is the one being emptied, queue and after where the walk goes on, moved whether the walk has moved anything.
	bucket uint32
	// rows tells that the rows outside of partitions are still to be looked at.
	rows   bool
	queues []*QueueView
	after  uint64
	moved  bool
	// given is the newest bucket that a whole walk could not empty: something other than messages holds it.
	given uint32
}

func (b *Broker) runMover() {
	m := mover{b: b}
	b.every(moveInterval, m.tick)
}

func (m *mover) tick() {
	if !m.b.log.Leads() {
		return
	}
	if m.bucket == 0 && !m.choose(m.b.store.Usage()) {
		return
	}
	if m.rows && !m.emptyRows() {
		return
	}
	visits := 0
	for len(m.queues) > 0 && visits < moveVisitsPerTick && m.b.stopped.Err() == nil {
		found, last, n := m.holders(m.queues[0].ID, moveVisitsPerTick-visits)
		visits += n
		for _, id := range found {
			if !m.empty(id) {
				return
			}
		}
		if m.after = last; last == 0 {
			m.queues = m.queues[1:]
		}
	}
	if len(m.queues) == 0 {
		if !m.moved {
			m.given = m.bucket
		}
		m.bucket = 0
	}
}

// choose begins with the oldest bucket when the disk holds much more than is live.
func (m *mover) choose(u store.Usage) bool {
	bloated := u.BucketDiskBytes > 2*int64(u.LiveChunkBytes)+moveSlackBytes
	if !bloated || u.OldestBucket == 0 || u.OldestBucket <= m.given || u.OldestLiveShare > moveLiveShare {
		return false
	}
	m.bucket, m.rows, m.queues, m.after, m.moved = u.OldestBucket, true, m.b.directory.All(), 0, false
	return true
}

// emptyRows moves what rows outside of partitions have in the bucket; false when it has to be tried again later.
func (m *mover) emptyRows() bool {
	hold, err := m.rowsRefer()
	if err != nil {
		m.b.logger.Error().Str("target", "actors").Uint32("bucket", m.bucket).Err(err).Msg("rows of a bucket could not be looked for")
		return false
	}
	m.rows = hold && !m.empty(command.NoPartition)
	return !m.rows
}

func (m *mover) rowsRefer() (bool, error) {
	view := m.b.store.View()
	defer view.Close()
	if values, err := kv.HoldsChunksIn(view, m.bucket); values || err != nil {
		return values, err
	}
	return timer.HoldsChunksIn(view, m.bucket)
}

// holders lists partitions of a queue that refer to the bucket, from where the walk stands; last is 0 at the end.
func (m *mover) holders(queueID uint64, limit int) (found []uint64, last uint64, visited int) {
	view := m.b.store.View()
	defer view.Close()
	more := false
	_ = view.Scan(layout.HeadsOf(queueID), layout.Head(queueID, m.after+1), func(key, _ []byte) bool {
		if visited == limit || m.b.stopped.Err() != nil {
			more = true
			return false
		}
		visited++
		last = layout.LastNumber(key)
		if refersTo(view, queueID, last, m.bucket) {
			found = append(found, last)
		}
		return true
	})
	if !more {
		last = 0
	}
	return found, last, visited
}

// refersTo walks the references of a partition from the oldest one on, as far as an old bucket may be found.
func refersTo(view *store.View, queueID, id uint64, bucket uint32) (found bool) {
	_ = partition.ForEachAppend(view, partition.AppendRange{Queue: queueID, Partition: id},
		func(a *partition.Append) (bool, error) {
			found = a.Chunk.Bucket == bucket
			return !found, nil
		})
	return found
}

// empty moves what one partition, or the rows outside of them, have in the bucket; false when it has to be tried again later.
func (m *mover) empty(id uint64) bool {
	for m.b.stopped.Err() == nil && m.b.log.Leads() {
		result, err := m.b.Execute(Until(time.Now().Add(backgroundDeadline)), &command.MoveChunks{
			Bucket: m.bucket, Partition: id, MaxBytes: moveStepBytes,
		})
		if err != nil {
			return false
		}
		step := result.(*command.MoveChunksResult)
		m.moved = m.moved || step.Bytes > 0
		if !step.More {
			return true
		}
	}
	return false
}
