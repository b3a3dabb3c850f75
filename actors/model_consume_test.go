package actors

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queen/actors/machine/cursor"
	"queen/raftlog/command"
)

// row finds the state of a group in a partition and makes it on first contact.
func (m *model) row(group *modelGroup, p *modelPartition, seed command.Subscription) *cursor.State {
	row := group.rows[p.id]
	if row == nil {
		row = m.unmetRow(group, p, seed)
		group.rows[p.id] = row
	}
	return row
}

// unmetRow is what first contact would make.
func (m *model) unmetRow(group *modelGroup, p *modelPartition, seed command.Subscription) *cursor.State {
	if group.registered() {
		seed = group.subscription
	}
	row := cursor.New(m.firstOffset(p, seed))
	return &row
}

func (m *model) claim(c *command.Claim) command.Result {
	result := &command.ClaimResult{}
	left := c.Batch
	for i := range c.Parts {
		part := &c.Parts[i]
		queue := m.queue(c.Tenant, part.Queue)
		if queue == nil {
			continue
		}
		group := queue.groups[c.Group]
		if group == nil {
			if c.Group != command.QueueModeGroup && part.Seed.Mode == command.SubscriptionNone {
				continue
			}
			group = m.ensureGroup(queue, c.Group)
		}
		for _, target := range part.Targets {
			p := m.partitions[target.Partition]
			if target.Partition == 0 {
				p = queue.parts[target.Name]
			}
			if p == nil || p.queue != queue {
				continue
			}
			if batch, taken := m.take(c, group, p, part.Seed, left); taken > 0 {
				left -= taken
				result.Batches = append(result.Batches, batch)
			}
		}
	}
	return result
}

// take claims from one partition; taken is the number of messages.
func (m *model) take(c *command.Claim, group *modelGroup, p *modelPartition, seed command.Subscription, left uint64) (batch command.ClaimedBatch, taken uint64) {
	row := m.row(group, p, seed)
	if left == 0 {
		return batch, 0
	}
	lease := c.LeaseMs * 1000
	if c.LeaseMs == 0 {
		lease = uint64(p.queue.options.LeaseTimeSeconds) * modelSecond
	}
	in := cursor.ClaimInput{
		Holds: m.holds, Max: left, MaxEnd: cursor.NoCap, Lease: c.Lease, LeaseMicros: lease, Term: m.term,
		CommitOnDelivery: c.CommitOnDelivery, Conflating: group.conflation,
	}
	in.Window.LogStart, in.Window.VisibleEnd = m.visible(p, max(row.Cursor, p.start))
	out, ok := row.Claim(m.now, in)
	if !ok {
		return batch, 0
	}
	batch = command.ClaimedBatch{
		Queue: p.queue.name, QueueID: p.queue.id, Partition: p.id, PartitionName: p.name,
		FirstOffset: out.First, LastOffset: out.Last, Attempt: out.Attempt, DeliverLastOnly: group.conflation,
	}
	if !c.CommitOnDelivery {
		batch.ExpiresMicros = m.now + lease
	}
	if group.conflation {
		return batch, 1
	}
	return batch, out.Last - out.First + 1
}

// address finds what the message plane names by a partition id.
func (m *model) address(tenant command.Tenant, partition uint64) (p *modelPartition, refusal command.AckError) {
	p = m.partitions[partition]
	switch {
	case p == nil:
		return nil, command.AckNoPartition
	case p.queue.tenant != tenant:
		return nil, command.AckForeignTenant
	}
	return p, command.AckOK
}

func refusals(n int, reason command.AckError) []command.AckVerdict {
	verdicts := make([]command.AckVerdict, n)
	for i := range verdicts {
		verdicts[i].Error = reason
	}
	return verdicts
}

func (m *model) ack(tenant command.Tenant, name string, part *command.AckPart) []command.AckVerdict {
	p, refusal := m.address(tenant, part.Partition)
	if refusal == command.AckOK && p.queue.groups[name] == nil && part.Lease != uuid.Nil {
		refusal = command.AckBadLease
	}
	if refusal != command.AckOK {
		return refusals(len(part.Items), refusal)
	}
	group := m.ensureGroup(p.queue, name)
	row := m.row(group, p, command.Subscription{})
	outcome := row.Ack(m.now, m.ackCall(p, row, part), m.policy(p))
	m.file(group.name, p, outcome.Filings)
	return outcome.Verdicts
}

func (m *model) policy(p *modelPartition) cursor.Policy {
	o := &p.queue.options
	policy := cursor.Policy{RetryLimit: uint32(o.RetryLimit), FileDeadLetters: o.DeadLetterQueue || o.DLQAfterMaxRetries}
	if o.RetryDelayExplicit {
		policy.RetryDelayMicros = uint64(o.RetryDelayMs) * 1000
	}
	return policy
}

// ackCall looks the txids of an ack up.
func (m *model) ackCall(p *modelPartition, row *cursor.State, part *command.AckPart) cursor.AckCall {
	lookup := row.Lookup(m.now, part.Lease, p.start, p.tail(), m.holds)
	call := cursor.AckCall{Lease: part.Lease, LogStart: p.start, Holds: m.holds}
	for _, item := range part.Items {
		settled := cursor.AckItem{
			Txid: xxh3.HashString128(item.Txid).Bytes(), Status: item.Status, Error: item.Error, HasError: item.HasError,
		}
		if lookup.Needed {
			settled.Where, settled.Offset = m.resolve(p, item.Txid, lookup)
		}
		call.Items = append(call.Items, settled)
	}
	return call
}

// resolve is messaging 6.4.4 and 6.7 for one txid.
func (m *model) resolve(p *modelPartition, txid string, lookup cursor.Lookup) (where cursor.Resolution, at uint64) {
	from, end := max(lookup.Low, p.start), min(lookup.End, p.tail())
	for _, offset := range p.places[txid] {
		fresh := within(p.log[offset].stamp, m.now, m.hashWindow(&p.queue.options))
		if offset >= from && offset < end && (lookup.Leased || fresh) {
			return cursor.InRange, offset
		}
		if offset < from && (fresh || offset >= p.start && offset+65_536 >= from) {
			where, at = cursor.Below, offset
		}
	}
	return where, at
}

// members are the rows of a tenant that name a lease.
func (m *model) members(tenant command.Tenant, lease uuid.UUID) (rows []*cursor.State) {
	if lease == uuid.Nil {
		return nil
	}
	for _, queue := range m.tenantQueues(tenant) {
		for _, group := range queue.groups {
			for _, row := range group.rows {
				if row.Lease.ID == lease {
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

func (m *model) extend(c *command.Extend) command.Result {
	result := &command.ExtendResult{}
	for _, row := range m.members(c.Tenant, c.Lease) {
		expires, ok := row.Extend(m.now, c.Lease, c.Seconds*modelSecond, m.term, m.holds)
		if !ok {
			continue
		}
		if result.Renewed == 0 || expires < result.ExpiresMicros {
			result.ExpiresMicros = expires
		}
		result.Renewed++
	}
	return result
}

func (m *model) handBack(c *command.HandBack) command.Result {
	result := &command.HandBackResult{}
	for _, part := range c.Parts {
		p, refusal := m.address(c.Tenant, part.Partition)
		if refusal != command.AckOK || p.queue.groups[c.Group] == nil || p.queue.groups[c.Group].rows[p.id] == nil {
			continue
		}
		row := p.queue.groups[c.Group].rows[p.id]
		undone := false
		if c.CommitOnDelivery {
			undone = row.UndoDelivery(m.now, part.FirstOffset, part.LastOffset, m.holds)
		} else {
			undone = row.UndoClaim(c.Lease)
		}
		if undone {
			result.Undone++
		}
	}
	return result
}

func (m *model) seek(c *command.Seek) command.Result {
	queue := m.queue(c.Tenant, c.Queue)
	if queue == nil {
		return &command.SeekResult{}
	}
	var targets []*modelPartition
	for id := uint64(1); id <= m.lastPartition; id++ {
		p := m.partitions[id]
		if p == nil || p.queue != queue {
			continue
		}
		if c.AllPartitions && p.id > c.After || !c.AllPartitions && p.name == c.Partition {
			targets = append(targets, p)
		}
	}
	if len(targets) == 0 {
		return &command.SeekResult{}
	}
	group := m.ensureGroup(queue, c.Group)
	result := &command.SeekResult{Updated: len(targets), Last: targets[len(targets)-1].id}
	for _, p := range targets {
		to := p.tail()
		if !c.ToEnd {
			to = m.firstOffset(p, command.Subscription{
				Mode: command.SubscriptionTimestamp, InstantMicros: uint64(max(c.TimestampMicros, 1)),
			})
		}
		m.place(group, p, to)
	}
	return result
}

func (m *model) place(group *modelGroup, p *modelPartition, offset uint64) {
	if group.rows[p.id] == nil {
		row := cursor.New(offset)
		group.rows[p.id] = &row
	}
	group.rows[p.id].Seek(offset)
}

// transaction validates on copies first.
func (m *model) transaction(c *command.Transaction) command.Result {
	refused := func(reason, text string) command.Result {
		return &command.TransactionResult{Reason: reason, Text: text + "; the transaction rolled back"}
	}
	for _, lease := range c.RequiredLeases {
		live := false
		for _, row := range m.members(c.Tenant, lease) {
			live = live || row.HoldsLease(m.now, lease, m.holds)
		}
		if !live {
			return refused("rejected_ack", "QTXN "+modelAckText(command.AckBadLease, 0))
		}
	}
	type key struct {
		group     string
		partition uint64
	}
	copies := map[key]*cursor.State{}
	outcomes := make([]cursor.AckOutcome, len(c.Acks))
	for i := range c.Acks {
		ack := &c.Acks[i]
		p, reason := m.address(c.Tenant, ack.Partition)
		if reason == command.AckOK {
			group := p.queue.groups[ack.Group]
			if group == nil && ack.Lease != uuid.Nil {
				reason = command.AckBadLease
			} else {
				at := key{ack.Group, p.id}
				if copies[at] == nil {
					copies[at] = m.copyRow(group, p)
				}
				call := m.ackCall(p, copies[at], &ack.AckPart)
				if _, reason = copies[at].Check(m.now, call); reason == command.AckOK {
					outcomes[i] = copies[at].Ack(m.now, call, m.policy(p))
				}
			}
		}
		if reason != command.AckOK {
			return refused("rejected_ack", "QTXN "+modelAckText(reason, ack.Partition))
		}
	}
	for i := range c.Pushes {
		if offset, found := m.duplicateIn(c.Tenant, &c.Pushes[i]); found {
			return refused("duplicate", fmt.Sprintf("QDUP a pushed message to %s/%s is a duplicate (original offset %d)",
				c.Pushes[i].Queue, c.Pushes[i].Partition, offset))
		}
	}
	for i := range c.Positions {
		if reason, text := m.checkPosition(c.Tenant, &c.Positions[i]); reason != "" {
			return refused(reason, text)
		}
	}
	if refusal := m.refuseKV(); refusal != nil && len(c.KV) > 0 {
		return refused(refusal.Code, refusal.Text)
	}
	call := &command.KV{Tenant: c.Tenant, Limits: c.KVLimits, Ops: c.KV}
	rows, writes, refusal := m.judgeKV(call)
	switch {
	case refusal != nil:
		return refused(refusal.Code, refusal.Text)
	case rows.Lost != nil:
		lost := refused("kv_precondition", "a required kv operation lost its precondition").(*command.TransactionResult)
		lost.KV.Lost = rows.Lost
		return lost
	}
	if refusal := m.refuseTimers(c.Tenant, c.Timers); refusal != nil {
		if refusal.Code == "retry" {
			return refusal // of the command, not of a guard
		}
		return refused(refusal.Code, refusal.Text)
	}
	if refusal := m.refuseClear(c.Tenant, c.Pushes); refusal != nil {
		return refusal
	}
	result := &command.TransactionResult{}
	for i := range c.Acks {
		p := m.partitions[c.Acks[i].Partition]
		group := m.ensureGroup(p.queue, c.Acks[i].Group)
		group.rows[p.id] = copies[key{group.name, p.id}]
		m.file(group.name, p, outcomes[i].Filings)
		result.Acks = append(result.Acks, command.AckPartResult{Items: outcomes[i].Verdicts})
	}
	for i := range c.Pushes {
		result.Pushes = append(result.Pushes, m.push(c.Tenant, &c.Pushes[i]))
	}
	for i := range c.Positions {
		m.commitPosition(c.Tenant, &c.Positions[i])
	}
	m.writeRows(writes)
	m.readRows(call, rows)
	result.KV = *rows
	result.Timers = m.changeTimers(c.Tenant, c.Timers)
	return result
}

func (m *model) copyRow(group *modelGroup, p *modelPartition) *cursor.State {
	if group == nil {
		row := cursor.New(p.start)
		return &row
	}
	if group.rows[p.id] == nil {
		return m.unmetRow(group, p, command.Subscription{})
	}
	row := *group.rows[p.id]
	return &row
}

func (m *model) checkPosition(tenant command.Tenant, position *command.Position) (reason, text string) {
	queue := m.queue(tenant, position.Queue)
	if queue == nil {
		return "queue_not_found", fmt.Sprintf("queue %s of a position does not exist", position.Queue)
	}
	tail := uint64(0)
	if p := queue.parts[position.Partition]; p != nil {
		tail = p.tail()
	}
	if position.HasOffset && (position.Offset < 0 || uint64(position.Offset) > tail) {
		return "bad_request", fmt.Sprintf("offset %d of a position is outside the log", position.Offset)
	}
	return "", ""
}

func (m *model) commitPosition(tenant command.Tenant, position *command.Position) {
	queue := m.queue(tenant, position.Queue)
	p := m.ensurePartition(queue, position.Partition)
	var group *modelGroup
	if position.Subscription.Mode == command.SubscriptionNone {
		group = m.ensureGroup(queue, position.Group)
	} else {
		group = m.registerGroup(queue, position.Group, position.Subscription, false)
	}
	if position.HasMetadata {
		group.positions[p.id] = position.Metadata
	}
	if position.HasOffset {
		m.place(group, p, max(p.start, uint64(position.Offset)))
	}
}

func modelAckText(reason command.AckError, partition uint64) string {
	switch reason {
	case command.AckBadLease:
		return "invalid or expired lease"
	case command.AckUnresolvable:
		return "transaction is unresolvable, already committed, or acknowledgment is stale"
	case command.AckNoPartition:
		return fmt.Sprintf("no partition %d", partition)
	default:
		return fmt.Sprintf("partition %d not owned by this tenant", partition)
	}
}
