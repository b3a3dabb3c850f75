package actors

import (
	"errors"

	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/lease"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
)

// claimMaxBytes is how many payload bytes one pop takes, its first message aside (messaging 2.11).
const claimMaxBytes = 64 << 20

// unmeasuredBytes is how much a batch may hold at most for its payloads to count with their upper bound: measuring would
// read every reference of the batch.
const unmeasuredBytes = 256 << 10

// discoveryLeaseMs is the lease of a discovery pop that names none (messaging 5.6); handlers send it as LeaseMs.
const discoveryLeaseMs = 60_000

// claimProgress is what a claim has gathered so far.
type claimProgress struct {
	*command.Claim
	result    *command.ClaimResult
	messages  uint64 // still to take
	bytesLeft uint64
	// full is set once a message did not fit into the payload limit: the claim ends there, and does not look for smaller
	// ones further on.
	full   bool
	leased []leasedMembers
}

// leasedMembers are what the lease of a claim holds in one queue.
type leasedMembers struct {
	queueID uint64
	members []lease.Member
}

func (c *claimProgress) ended() bool { return c.messages == 0 || c.full }

// lease adds a member to what the claim's lease holds in a queue.
func (c *claimProgress) lease(queueID uint64, member lease.Member) {
	for i := range c.leased {
		if c.leased[i].queueID == queueID {
			c.leased[i].members = append(c.leased[i].members, member)
			return
		}
	}
	c.leased = append(c.leased, leasedMembers{queueID, []lease.Member{member}})
}

// claim reserves batches for a pop (messaging 5.5). Targets that lost their race are passed over.
func (a *apply) claim(c *command.Claim) (command.Result, error) {
	progress := &claimProgress{Claim: c, result: &command.ClaimResult{}, messages: c.Batch, bytesLeft: claimMaxBytes}
	for i := range c.Parts {
		if err := a.claimPart(progress, &c.Parts[i]); err != nil {
			return nil, err
		}
	}
	for _, held := range progress.leased {
		err := a.inLeases(held.queueID, func(t *lease.Table) error {
			t.Grant(a.batch, c.Lease, held.members)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if c.For.Origin == a.pending.origin && len(progress.result.Batches) > 0 {
		// Here and not where requests are answered: a claim that is repeated gets its old result and serves nobody again.
		a.after = append(a.after, func() { a.served(c, progress.result) })
	}
	return progress.result, nil
}

func (a *apply) claimPart(c *claimProgress, part *command.ClaimPart) error {
	queue, group, err := a.claimGroup(c, part)
	if err != nil || group == nil {
		return err
	}
	for _, target := range part.Targets {
		p, err := a.target(queue, target)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if err := a.claimTarget(c, queue, group, p, part.Seed); err != nil {
			return err
		}
	}
	return nil
}

// claimGroup finds the group that claims; a pinned pop of a group that nobody registered makes it.
func (a *apply) claimGroup(c *claimProgress, part *command.ClaimPart) (queue *catalog.Queue, group *catalog.Group, err error) {
	err = a.inCatalog(func(m *catalog.Machine) error {
		if queue = m.Queue(c.Tenant, part.Queue); queue == nil {
			return nil
		}
		group = m.Group(queue.ID, c.Group)
		if group == nil && (c.Group == command.QueueModeGroup || part.Seed.Mode != command.SubscriptionNone) {
			group = m.EnsureGroup(a.batch, a.at(), queue, c.Group)
			a.changed(queue.ID)
		}
		return nil
	})
	return queue, group, err
}

func (a *apply) target(queue *catalog.Queue, target command.ClaimTarget) (p *catalog.Partition, err error) {
	err = a.inCatalog(func(m *catalog.Machine) (err error) {
		if target.Partition == 0 {
			p, err = m.Partition(a.batch, queue.ID, target.Name)
			return err
		}
		p, err = m.PartitionByID(a.batch, target.Partition)
		if p != nil && p.QueueID != queue.ID {
			p = nil
		}
		return err
	})
	return p, err
}

// visibility is what the options of a queue hide from a claim (messaging 5.11, 15).
func (a *apply) visibility(queue *catalog.Queue, p *catalog.Partition) (partition.Visibility, error) {
	o := &queue.Options
	rules, err := a.ageRules(queue, p) // rule 2 hides nothing
	return partition.Visibility{
		NowMicros:          a.now,
		DelayMicros:        uint64(o.DelayedProcessingSeconds) * microsPerSecond,
		WindowBufferMicros: uint64(o.WindowBufferSeconds) * microsPerSecond,
		Retention:          rules,
	}, err
}

// claimTarget asks the partition what is visible and lets the group take it.
func (a *apply) claimTarget(c *claimProgress, queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, seed command.Subscription) error {
	var taken cursor.ClaimOutput
	var claimed bool
	var expires uint64
	leaseMicros := c.LeaseMs * 1000
	if c.LeaseMs == 0 {
		leaseMicros = uint64(queue.Options.LeaseTimeSeconds) * microsPerSecond
	}
	// Judged before the group is asked: the rules may depend on its own cursor, and an actor is not called from within
	// itself.
	visibility, err := a.visibility(queue, p)
	if err != nil {
		return err
	}
	s := a.rowStep(queue, group, p, seed)
	var failure error
	s.step = func(row *cursor.State) bool {
		if c.ended() {
			s.effect = rowEffect{kind: effectPassedOver}
			return false
		}
		var window cursor.Window
		var end, next uint64
		window, end, next, failure = a.deliverable(queue, group, p, row, c, visibility)
		if failure != nil {
			return false
		}
		taken, claimed = row.Claim(a.now, cursor.ClaimInput{
			Window: window, Holds: a.holds, Max: c.messages, MaxEnd: end, Lease: c.Lease, LeaseMicros: leaseMicros,
			Term: a.term, CommitOnDelivery: c.CommitOnDelivery, Conflating: group.Conflation,
		})
		switch {
		case !claimed && c.full:
			s.effect = rowEffect{kind: effectPassedOver}
		case !claimed:
			blocked := row.BlockedUntil(a.holds)
			if blocked > a.now && window.VisibleEnd > max(row.Cursor, window.LogStart) {
				s.effect = rowEffect{kind: effectMissed, untilMicros: blocked, byLease: row.LeaseLive(a.now, a.holds)}
			} else {
				s.effect = rowEffect{kind: effectMissed, untilMicros: next}
			}
		case c.CommitOnDelivery:
			s.effect = rowEffect{kind: effectReleased, backlog: window.VisibleEnd > row.Cursor || next != 0, untilMicros: 0}
			if window.VisibleEnd <= row.Cursor {
				s.effect.untilMicros = next
			}
		default:
			expires, _ = row.LeaseEnd(a.holds)
			s.effect = rowEffect{kind: effectClaimed, untilMicros: expires}
		}
		return claimed
	}
	if err := a.inGroup(queue, group, s); err != nil {
		return err
	}
	if failure != nil || !claimed {
		return failure
	}
	return a.gather(c, queue, group, p, taken, expires)
}

// deliverable returns the window of a partition for a row, the end that the payload limit sets, and when more becomes
// visible.
func (a *apply) deliverable(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, row *cursor.State, c *claimProgress, visibility partition.Visibility) (window cursor.Window, end, next uint64, err error) {
	end = cursor.NoCap
	a.partitions.claimed(p.ID)
	err = a.inPartition(queue, p, func(m *partition.Machine) (err error) {
		from := max(row.Cursor, m.LogStart())
		window.LogStart, window.VisibleEnd, next, err = m.Visible(a.batch, from, visibility)
		if err != nil {
			return err
		}
		first, last, ready := row.Deliverable(a.now, window, a.holds)
		if !ready {
			return nil
		}
		limit := partition.ByteLimit{First: first, End: min(last, first+min(c.messages, last)), MaxBytes: c.bytesLeft}
		if group.Conflation { // only the newest is delivered
			limit.First, limit.End = last-1, last
		}
		limit.AtLeastOne = len(c.result.Batches) == 0
		end, err = m.EndWithin(a.batch, limit)
		c.full = end < limit.End
		return err
	})
	return window, end, next, err
}

// gather adds a batch to the result of the claim.
func (a *apply) gather(c *claimProgress, queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, taken cursor.ClaimOutput, expires uint64) error {
	first := taken.First
	if group.Conflation {
		first = taken.Last
	}
	count := taken.Last - first + 1
	c.messages -= min(count, c.messages)
	err := a.inPartition(queue, p, func(m *partition.Machine) error {
		bytes := count * m.LargestPayloadBytes()
		if bytes > unmeasuredBytes {
			var err error
			if bytes, err = m.PayloadBytes(a.batch, first, taken.Last+1); err != nil {
				return err
			}
		}
		c.bytesLeft -= min(bytes, c.bytesLeft)
		return nil
	})
	if err != nil {
		return err
	}
	c.result.Batches = append(c.result.Batches, command.ClaimedBatch{
		Queue: queue.Name, QueueID: queue.ID, Partition: p.ID, PartitionName: p.Name,
		FirstOffset: taken.First, LastOffset: taken.Last, Attempt: taken.Attempt,
		DeliverLastOnly: group.Conflation, ExpiresMicros: expires,
	})
	if !c.CommitOnDelivery {
		c.lease(queue.ID, lease.Member{Group: group.ID, Partition: p.ID})
	}
	return nil
}

// unlist takes a member out of a lease that no longer holds it.
func (a *apply) unlist(queueID uint64, old uuid.UUID, member lease.Member) error {
	if old == uuid.Nil {
		return nil
	}
	return a.inLeases(queueID, func(t *lease.Table) error {
		return t.Release(a.batch, a.batch, old, member)
	})
}

// rowStep prepares a step on the cursor row of a partition. The row of a group that meets the partition for the first
// time is made from its registration, or from the seed of a pinned pop (messaging 5.8).
func (a *apply) rowStep(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition, seed command.Subscription) *rowStep {
	s := &rowStep{reader: a.batch, writer: a.batch, partition: p.ID, nowMicros: a.now}
	s.seed = func() (cursor.State, bool, error) {
		subscription := group.Subscription
		if !group.Registered() {
			subscription = seed
		}
		start, err := a.firstOffset(queue, p, subscription)
		return cursor.New(start), err == nil, err
	}
	return s
}

func (a *apply) firstOffset(queue *catalog.Queue, p *catalog.Partition, s command.Subscription) (start uint64, err error) {
	err = a.inPartition(queue, p, func(m *partition.Machine) (err error) {
		switch s.Mode {
		case command.SubscriptionNew, command.SubscriptionTimestamp:
			instant := s.InstantMicros
			if instant == 0 {
				instant = a.now
			}
			start, err = m.FirstAtOrAfter(a.batch, instant)
		default:
			start = m.LogStart()
		}
		return err
	})
	return start, err
}

// inGroup runs a step on a row of a group. The table of the lease that the row has named until then, released or expired,
// forgets it.
func (a *apply) inGroup(queue *catalog.Queue, group *catalog.Group, s *rowStep) error {
	err := errStopped
	for errors.Is(err, errStopped) { // it was idle and has just been unloaded
		err = a.call(a.groups.get(queue.ID, group.ID).Handle, s)
	}
	if err == nil {
		err = s.err
	}
	if err != nil {
		return err
	}
	return a.unlist(queue.ID, s.left, lease.Member{Group: group.ID, Partition: s.partition})
}

// handBack undoes a claim that nobody received (messaging 5.5.9).
func (a *apply) handBack(c *command.HandBack) (command.Result, error) {
	result := &command.HandBackResult{}
	for _, part := range c.Parts {
		undone, err := a.handBackPart(c, part)
		if err != nil {
			return nil, err
		}
		if undone {
			result.Undone++
		}
	}
	return result, nil
}

func (a *apply) handBackPart(c *command.HandBack, part command.HandBackPart) (undone bool, err error) {
	queue, group, p, _, err := a.locate(c.Tenant, part.Partition, c.Group)
	if err != nil || group == nil {
		return false, err
	}
	s := a.rowStep(queue, group, p, command.Subscription{})
	s.seed = nil
	s.step = func(row *cursor.State) bool {
		if c.CommitOnDelivery {
			undone = row.UndoDelivery(a.now, part.FirstOffset, part.LastOffset, a.holds)
		} else {
			undone = row.UndoClaim(c.Lease)
		}
		if undone {
			s.effect = rowEffect{kind: effectReleased, backlog: true}
		}
		return undone
	}
	err = a.inGroup(queue, group, s)
	return undone, err
}
