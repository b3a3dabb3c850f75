package actors

import (
	"github.com/google/uuid"

	"queen/raftlog/command"
)

// modelPartition is a log: a list of all messages ever, of which the first start ones have been removed.
type modelPartition struct {
	id      uint64
	queue   *modelQueue
	uuid    uuid.UUID
	name    string
	created uint64
	log     []modelMessage
	start   uint64
	last    uint64
	// places are the offsets of each txid, ascending.
	places map[string][]uint64
}

type modelMessage struct {
	command.Message
	txid  string
	stamp uint64
	// end is where its append ends.
	end uint64
}

func (p *modelPartition) tail() uint64 { return uint64(len(p.log)) }

const modelSecond = 1_000_000

func within(stamp, now, window uint64) bool { return window > 0 && now < stamp+window }

func (m *model) dedupWindow(o *command.Options) uint64 {
	return uint64(o.DedupWindowSeconds) * modelSecond
}

func (m *model) hashWindow(o *command.Options) uint64 {
	seconds := max(uint64(o.DedupWindowSeconds), uint64(o.CompletedRetentionSeconds), uint64(m.settings.TxidWindowMinSeconds))
	return seconds * modelSecond
}

// messages reads a chunk.
func messages(chunk []byte, count uint32) (list []command.Message) {
	for range count {
		var message command.Message
		rest, err := command.NextMessage(chunk, &message)
		if err != nil {
			panic(err)
		}
		chunk = rest
		list = append(list, message)
	}
	return list
}

// refuseClear refuses payloads in clear for queues that encrypt; nil when there is none.
func (m *model) refuseClear(tenant command.Tenant, groups []command.PushGroup) command.Result {
	for i := range groups {
		queue := m.queue(tenant, groups[i].Queue)
		if queue == nil || !queue.options.EncryptionEnabled {
			continue
		}
		for _, message := range messages(groups[i].Chunk, groups[i].Count) {
			if !message.Encrypted {
				return &command.Refusal{Code: "retry", Text: "the queue has begun to encrypt, and the node that took this had not heard of it"}
			}
		}
	}
	return nil
}

func (m *model) push(tenant command.Tenant, g *command.PushGroup) command.PushGroupResult {
	queue := m.ensureQueue(tenant, g.Queue)
	p := m.ensurePartition(queue, g.Partition)
	result := command.PushGroupResult{Partition: p.id, FirstOffset: p.tail()}
	var kept []modelMessage
	inCall := map[string]command.Duplicate{}
	for i, message := range messages(g.Chunk, g.Count) {
		txid := string(message.EffectiveTxid(nil))
		if len(message.Txid) > 0 {
			original, found := inCall[txid]
			if !found {
				original, found = m.original(p, txid)
			}
			if found {
				original.Item = uint32(i)
				result.Duplicates = append(result.Duplicates, original)
				continue
			}
		}
		inCall[txid] = command.Duplicate{ID: message.ID, Offset: p.tail() + uint64(len(kept))}
		kept = append(kept, modelMessage{Message: message, txid: txid})
	}
	if len(kept) == 0 {
		return result
	}
	p.last = max(m.now, p.last+1)
	end := p.tail() + uint64(len(kept))
	for _, message := range kept {
		message.stamp, message.end = p.last, end
		p.places[message.txid] = append(p.places[message.txid], p.tail())
		p.log = append(p.log, message)
	}
	return result
}

// original finds the lowest remembered message with a txid, provided that one with it is in the dedup window.
func (m *model) original(p *modelPartition, txid string) (lowest command.Duplicate, found bool) {
	o := &p.queue.options
	known := false
	for _, offset := range p.places[txid] {
		message := &p.log[offset]
		if !within(message.stamp, m.now, m.hashWindow(o)) {
			continue
		}
		if !known {
			lowest, known = command.Duplicate{ID: message.ID, Offset: offset}, true
		}
		found = found || within(message.stamp, m.now, m.dedupWindow(o))
	}
	return lowest, found
}

// duplicateIn finds the first message of a push that is in the dedup window already.
func (m *model) duplicateIn(tenant command.Tenant, g *command.PushGroup) (offset uint64, found bool) {
	queue := m.queue(tenant, g.Queue)
	if queue == nil || queue.parts[g.Partition] == nil {
		return 0, false
	}
	for _, message := range messages(g.Chunk, g.Count) {
		if len(message.Txid) == 0 {
			continue
		}
		if original, found := m.original(queue.parts[g.Partition], string(message.Txid)); found {
			return original.Offset, true
		}
	}
	return 0, false
}

// firstOffset is where a subscription begins in a partition.
func (m *model) firstOffset(p *modelPartition, s command.Subscription) uint64 {
	if s.Mode != command.SubscriptionNew && s.Mode != command.SubscriptionTimestamp {
		return p.start
	}
	instant := s.InstantMicros
	if instant == 0 {
		instant = m.now
	}
	for offset := p.start; offset < p.tail(); offset++ {
		if p.log[offset].stamp >= instant {
			return offset
		}
	}
	return p.tail()
}

// modelRules are the rules of section 15 for one partition.
type modelRules struct {
	evict, age, completed uint64
	committed             uint64
	held                  bool
	heldBelow, heldFor    uint64
}

func (m *model) rules(p *modelPartition) (r modelRules) {
	o := &p.queue.options
	r.evict = uint64(o.MaxWaitTimeSeconds) * modelSecond
	if !o.RetentionEnabled {
		return r
	}
	r.age = uint64(o.RetentionSeconds) * modelSecond
	r.completed = uint64(o.CompletedRetentionSeconds) * modelSecond
	if o.RetentionSinkHold != "" {
		r.held, r.heldFor = true, uint64(o.RetentionSinkHoldMaxSeconds)*modelSecond
		if sink := p.queue.groups[o.RetentionSinkHold]; sink != nil && sink.rows[p.id] != nil {
			r.heldBelow = sink.rows[p.id].Cursor
		}
	}
	any := false
	for _, group := range p.queue.groups {
		at := uint64(0)
		switch row := group.rows[p.id]; {
		case row != nil:
			at = row.Cursor
		case group.registered():
			at = m.firstOffset(p, group.subscription)
		default:
			continue
		}
		if !any || at < r.committed {
			r.committed, any = at, true
		}
	}
	return r
}

func (r *modelRules) due(message *modelMessage, now uint64) bool {
	older := func(age uint64) bool { return age > 0 && now > message.stamp+age }
	if older(r.evict) {
		return true
	}
	if r.held && message.end > r.heldBelow && !older(r.heldFor) {
		return false
	}
	return older(r.age) || older(r.completed) && message.end <= r.committed
}

// visible is the range of messages from an offset on that may be delivered now.
func (m *model) visible(p *modelPartition, from uint64) (first, end uint64) {
	o := &p.queue.options
	hidden := m.rules(p)
	hidden.completed = 0
	for first = max(from, p.start); first < p.tail() && hidden.due(&p.log[first], m.now); first++ {
	}
	if within(p.last, m.now, uint64(o.WindowBufferSeconds)*modelSecond) {
		return first, first
	}
	delay := uint64(o.DelayedProcessingSeconds) * modelSecond
	for end = first; end < p.tail() && (delay == 0 || p.log[end].stamp+delay <= m.now); end++ {
	}
	return first, end
}

func (m *model) retain(c *command.Retain) command.Result {
	result := &command.RetainResult{}
	for _, target := range c.Partitions {
		p := m.partitions[target.Partition]
		if p == nil {
			continue
		}
		rules := m.rules(p)
		left := target.MaxAppends
		for p.start < p.tail() && rules.due(&p.log[p.start], m.now) {
			if left == 0 {
				result.More = append(result.More, p.id)
				break
			}
			left--
			result.Appends++
			result.Messages += p.log[p.start].end - p.start
			p.start = p.log[p.start].end
		}
		m.cleanUp(p)
	}
	return result
}

// cleanUp deletes a partition that has been empty and idle for days and that nothing refers to.
func (m *model) cleanUp(p *modelPartition) {
	idle := uint64(m.settings.PartitionCleanupDays) * 24 * 3600 * modelSecond
	if idle == 0 || p.start < p.tail() || max(p.last, p.created)+idle >= m.now {
		return
	}
	if p.tail() > 0 && within(p.last, m.now, m.hashWindow(&p.queue.options)) {
		return
	}
	for _, letter := range m.letters {
		if letter.partition == p.id {
			return
		}
	}
	for _, group := range p.queue.groups {
		if row := group.rows[p.id]; row != nil && row.LeaseLive(m.now, m.holds) {
			return
		}
	}
	for _, group := range p.queue.groups {
		delete(group.rows, p.id)
		delete(group.positions, p.id)
	}
	delete(p.queue.parts, p.name)
	delete(m.partitions, p.id)
}
