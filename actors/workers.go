package actors

import (
	"sync"
	"time"

	"queen/actors/machine/catalog"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
	"queen/store/layout"
)

// RetentionConfig paces the background work of the leader (cluster 1.8).
type RetentionConfig struct {
	// Interval is RETENTION_INTERVAL.
	Interval time.Duration
	// BatchAppends is RETENTION_BATCH_SIZE.
	BatchAppends uint32
	// VisitPartitions is QUEEN_RAFT_RETENTION_VISIT.
	VisitPartitions int
}

// workers are the goroutines of a broker besides its actors: those that act by the clock, and scans.
type workers struct {
	mu      sync.Mutex // guards stopped, and that none begins after wait
	stopped bool
	group   sync.WaitGroup
}

func (w *workers) start(b *Broker) {
	for _, run := range []func(){b.runClock, b.runRetention, b.runSweep, b.runTraceSweep, b.runKVSweep, b.runTimers, b.runMover} {
		w.run(run)
	}
}

// run begins a goroutine; false when wait was called before.
func (w *workers) run(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.group.Go(f)
	}
	return !w.stopped
}

func (w *workers) wait() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.group.Wait()
}

// every calls f at an interval until the broker stops.
func (b *Broker) every(interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-b.stopped.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

const (
	// clockInterval is how late a timed wake-up may be.
	clockInterval = 5 * time.Millisecond
	// unloadEvery is how many ticks pass between two looks for idle groups.
	unloadEvery = 2000
)

// runClock wakes the groups whose schedule has something due, while this node leads, and unloads idle ones. Without leader
// nobody is parked here; what was due by then is woken when this node leads.
func (b *Broker) runClock() {
	ticks := 0
	var due []*groupActor
	b.every(clockInterval, func() {
		now := b.log.Now()
		due = due[:0]
		if b.log.Leads() {
			due = b.groups.due(now, due)
		}
		for _, actor := range due {
			actor.shared.nextWakeMicros.Store(0)
			actor.Tell(&wakeNote{nowMicros: now})
		}
		if ticks++; ticks%unloadEvery == 0 {
			b.unload(now)
		}
	})
}

// unload takes the groups out of memory that nobody has asked for a while.
func (b *Broker) unload(nowMicros uint64) {
	for _, actor := range b.groups.all() {
		if b.idle(actor, nowMicros) {
			b.groups.stop(actor)
		}
	}
}

func (b *Broker) idle(actor *groupActor, nowMicros uint64) bool {
	last := actor.shared.lastPopMicros.Load()
	return b.config.IdleUnload > 0 && actor.shared.waiters.Load() == 0 &&
		nowMicros > last+uint64(b.config.IdleUnload.Microseconds())
}

// ensureScanned starts the scan that fills the schedule of a group, once in the life of its actor.
func (b *Broker) ensureScanned(actor *groupActor, group *catalog.Group) {
	if actor.shared.scanned.CompareAndSwap(false, true) {
		b.startScan(actor, group)
	}
}

// rescan fills the schedule of a group again.
func (b *Broker) rescan(actor *groupActor) {
	if !actor.shared.scanned.Load() {
		return // its first pop starts the scan
	}
	queue := b.directory.QueueByID(actor.queueID)
	if queue == nil {
		return
	}
	for _, group := range queue.Groups {
		if group.ID == actor.id {
			b.startScan(actor, group)
		}
	}
}

// scansAtOnce bounds the scans that run at one time: a discovery pop may begin one for each of a thousand queues.
const scansAtOnce = 8

func (b *Broker) startScan(actor *groupActor, group *catalog.Group) {
	if !b.started.Load() || b.stopped.Err() != nil {
		return
	}
	number := actor.shared.scans.Add(1)
	b.workers.run(func() {
		select {
		case b.scanSlots <- struct{}{}:
			defer func() { <-b.scanSlots }()
		case <-b.stopped.Done():
			return
		}
		if err := actor.Call(&scanNote{}); err != nil {
			return // it has died or is not in memory any more: its next pop starts another scan
		}
		view := b.store.View()
		defer view.Close()
		if err := scan(view, actor, number, group.Subscription, b.log.Now, b.machine.publishedHolds()); err != nil {
			b.logger.Error().Str("target", "actors").Uint64("queue", actor.queueID).Uint64("group", actor.id).Err(err).
				Msg("partitions of a group could not be scanned")
		}
	})
}

// backgroundDeadline bounds a command of the background work.
const backgroundDeadline = 30 * time.Second

// runRetention looks, pass by pass, through the partitions of the queues that have something to remove.
func (b *Broker) runRetention() {
	pass := retentionPass{b: b}
	b.every(b.config.Retention.Interval, pass.run)
}

// retentionPass remembers where the last pass ended, so that each looks at a bounded number of partitions.
type retentionPass struct {
	b     *Broker
	after map[uint64]uint64
}

func (p *retentionPass) run() {
	if !p.b.log.Leads() {
		return
	}
	if p.after == nil {
		p.after = map[uint64]uint64{}
	}
	left := p.b.config.Retention.VisitPartitions
	for _, queue := range p.b.directory.All() {
		if left <= 0 || p.b.stopped.Err() != nil {
			return
		}
		left -= p.queue(queue, left)
	}
}

// retainPartitions is how many partitions one retention command names.
const retainPartitions = 64

// retainAgain is how soon a partition with more due is looked at again (messaging 15).
const retainAgain = 40 * time.Millisecond

func (p *retentionPass) queue(queue *QueueView, limit int) (visited int) {
	due, visited, last := p.due(queue, limit)
	p.b.config.Observer.RetentionScanned(visited, len(due))
	p.after[queue.ID] = last
	for len(due) > 0 && p.b.stopped.Err() == nil && p.b.log.Leads() {
		n := min(len(due), retainPartitions)
		more := p.propose(due[:n])
		due = append(due[n:], more...)
		if len(more) > 0 && len(due) == len(more) {
			select {
			case <-time.After(retainAgain):
			case <-p.b.stopped.Done():
			}
		}
	}
	return visited
}

// due lists partitions whose oldest append or hash rows may go; apply decides.
func (p *retentionPass) due(queue *QueueView, limit int) (due []uint64, visited int, last uint64) {
	view := p.b.store.View()
	defer view.Close()
	now := p.b.log.Now()
	o := &queue.Options
	rules := partition.Retention{EvictMicros: uint64(o.MaxWaitTimeSeconds) * microsPerSecond}
	if o.RetentionEnabled {
		rules.AgeMicros = uint64(o.RetentionSeconds) * microsPerSecond
		rules.CompletedMicros = uint64(o.CompletedRetentionSeconds) * microsPerSecond
		rules.CommittedBelow = ^uint64(0)
	}
	_ = view.Scan(layout.HeadsOf(queue.ID), layout.Head(queue.ID, p.after[queue.ID]+1), func(key, value []byte) bool {
		if visited++; visited > limit {
			return false
		}
		last = layout.LastNumber(key)
		head, err := partition.DecodeHead(value)
		idle := idleSince(head.Messages(), head.LastStampMicros, now, p.b.config.PartitionCleanupDays)
		if err == nil && (idle || head.MayRetain(now, hashWindow(o, p.b.config.TxidWindowMinSeconds), rules)) {
			due = append(due, last)
		}
		return true
	})
	if visited <= limit {
		last = 0 // the next pass begins anew
	}
	return due, visited, last
}

func (p *retentionPass) propose(partitions []uint64) (more []uint64) {
	c := &command.Retain{Partitions: make([]command.RetainPartition, len(partitions))}
	for i, id := range partitions {
		c.Partitions[i] = command.RetainPartition{Partition: id, MaxAppends: p.b.config.Retention.BatchAppends}
	}
	result, err := p.b.Execute(Until(time.Now().Add(backgroundDeadline)), c)
	if err != nil {
		return nil
	}
	return result.(*command.RetainResult).More
}

const (
	sweepInterval = 200 * time.Millisecond
	// sweepKeys is how many rows one sweep deletes.
	sweepKeys = 2000
)

// runSweep deletes the rows of deleted queues and groups in steps.
func (b *Broker) runSweep() {
	b.every(sweepInterval, func() {
		for b.log.Leads() && b.hasTrash() && b.stopped.Err() == nil {
			if _, err := b.Execute(Until(time.Now().Add(backgroundDeadline)), &command.Sweep{MaxKeys: sweepKeys}); err != nil {
				return
			}
		}
	})
}

func (b *Broker) hasTrash() (found bool) {
	view := b.store.View()
	defer view.Close()
	_ = view.Scan([]byte{layout.FamilyTrash}, nil, func(_, _ []byte) bool {
		found = true
		return false
	})
	return found
}
