package actors

import (
	"bytes"
	"slices"

	"github.com/google/uuid"

	"queen/actors/machine/cursor"
	"queen/raftlog/command"
)

// modelLetter is a dead letter.
type modelLetter struct {
	id            uuid.UUID
	queue         uint64
	partition     uint64
	partitionUUID uuid.UUID
	partitionName string
	group         string
	offset        uint64
	message       modelMessage
	reason        string
	hasReason     bool
	retries       uint32
	failed        uint64
}

// file stores dead letters, at most one per message and group.
func (m *model) file(group string, p *modelPartition, filings []cursor.Filing) {
	for _, filing := range filings {
		m.minted++
		var letter *modelLetter
		for _, known := range m.letters {
			if known.partition == p.id && known.offset == filing.Offset && known.group == group {
				letter = known
			}
		}
		if letter == nil {
			letter = &modelLetter{
				id: m.mint('d', m.minted), queue: p.queue.id, partition: p.id, partitionUUID: p.uuid, partitionName: p.name,
				group: group, offset: filing.Offset, message: p.log[filing.Offset],
			}
			m.letters = append(m.letters, letter)
		}
		letter.reason, letter.hasReason = filing.Error, filing.HasError
		letter.retries, letter.failed = filing.RetryCount, m.now
	}
}

// lettersAt lists the dead letters of an address, oldest first.
func (m *model) lettersAt(tenant command.Tenant, partition uint64, txid string) (letters []*modelLetter) {
	for _, letter := range m.letters {
		if letter.partition == partition && letter.message.txid == txid && m.byID[letter.queue].tenant == tenant {
			letters = append(letters, letter)
		}
	}
	sortLetters(letters)
	return letters
}

func sortLetters(letters []*modelLetter) {
	slices.SortFunc(letters, func(a, b *modelLetter) int { return bytes.Compare(a.id[:], b.id[:]) })
}

func (m *model) forget(gone []*modelLetter) {
	m.letters = slices.DeleteFunc(m.letters, func(l *modelLetter) bool { return slices.Contains(gone, l) })
}

func (m *model) deleteLetters(c *command.DeadLetterDelete) command.Result {
	var gone []*modelLetter
	if c.ByAddress {
		gone = m.lettersAt(c.Tenant, c.Partition, c.Txid)
	} else if queue := m.queue(c.Tenant, c.Queue); queue != nil {
		for _, letter := range m.letters {
			if letter.queue == queue.id && (c.AnyGroup || letter.group == c.Group) {
				gone = append(gone, letter)
			}
		}
		sortLetters(gone)
		gone = gone[:min(len(gone), 512)]
	}
	m.forget(gone)
	return &command.DeadLetterDeleteResult{Deleted: len(gone), More: !c.ByAddress && len(gone) == 512}
}

func (m *model) replay(c *command.DeadLetterReplay) command.Result {
	var letter *modelLetter
	if c.ByAddress {
		if letters := m.lettersAt(c.Tenant, c.Partition, c.Txid); len(letters) > 0 {
			letter = letters[0]
		}
	} else {
		for _, known := range m.letters {
			if known.id == c.Row && m.byID[known.queue].tenant == c.Tenant {
				letter = known
			}
		}
	}
	if letter == nil {
		return &command.DeadLetterReplayResult{}
	}
	result := &command.DeadLetterReplayResult{
		Row: letter.id, Group: letter.group, OriginalTxid: letter.message.txid,
		Queue: m.byID[letter.queue].name, Partition: letter.partitionName,
	}
	if c.HasQueue {
		result.Queue = c.Queue
	}
	if c.HasPartition {
		result.Partition = c.Destination
	}
	again := letter.message.Message
	again.ID, again.Txid = c.MessageID, []byte("dlq:"+letter.id.String())
	destination := m.queue(c.Tenant, result.Queue)
	inClear := destination != nil && destination.options.EncryptionEnabled && !again.Encrypted
	if inClear && c.Sealed != nil {
		again.Payload, again.Encrypted, inClear = c.Sealed, true, false
	}
	push := &command.PushGroup{
		Queue: result.Queue, Partition: result.Partition, Count: 1, Chunk: command.AppendMessage(nil, &again),
	}
	if offset, found := m.duplicateIn(c.Tenant, push); found {
		result.Outcome, result.Offset = command.ReplayDuplicate, offset
		return result
	}
	if inClear {
		result.Outcome = command.ReplayInClear
		return result
	}
	result.Outcome, result.Offset = command.ReplayMoved, m.push(c.Tenant, push).FirstOffset
	m.forget([]*modelLetter{letter})
	return result
}
