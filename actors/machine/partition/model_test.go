package partition

import (
	"slices"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// model is the log as the text of the specification describes it: a list of messages, looked through from end to end.
type model struct {
	messages []modelMessage
	removed  uint64
	last     uint64
	segments uint64
	// places are the offsets of each txid, ascending.
	places map[string][]uint64
}

type modelMessage struct {
	id      uuid.UUID
	txid    string
	payload string
	named   bool
	stamp   uint64
	// first and end are the bounds of its append.
	first, end uint64
}

// input is a message of a push; txid is empty when the client named none.
type input struct {
	id      uuid.UUID
	txid    string
	payload string
}

func (i input) effective() string {
	if i.txid != "" {
		return i.txid
	}
	return i.id.String()
}

func encodeInputs(inputs []input) []byte {
	var chunk []byte
	for _, in := range inputs {
		chunk = command.AppendMessage(chunk, &command.Message{ID: in.id, Txid: []byte(in.txid), Payload: []byte(in.payload)})
	}
	return chunk
}

func (m *model) tail() uint64 { return uint64(len(m.messages)) }

func within(stamp, now, window uint64) bool { return now < stamp+window && window > 0 }

func (m *model) append(inputs []input, now, dedupWindow, hashWindow uint64) AppendOutput {
	out := AppendOutput{FirstOffset: m.tail()}
	var stored []modelMessage
	storedAs := map[string]command.Duplicate{}
	for i, in := range inputs {
		if in.txid != "" {
			if original, found := storedAs[in.txid]; found {
				original.Item = uint32(i)
				out.Duplicates = append(out.Duplicates, original)
				continue
			}
			if original, found := m.original(in.txid, now, dedupWindow, hashWindow); found {
				original.Item = uint32(i)
				out.Duplicates = append(out.Duplicates, original)
				continue
			}
		}
		offset := m.tail() + uint64(len(stored))
		storedAs[in.effective()] = command.Duplicate{ID: in.id, Offset: offset}
		stored = append(stored, modelMessage{id: in.id, txid: in.effective(), payload: in.payload, named: in.txid != ""})
	}
	if len(stored) == 0 {
		return out
	}
	out.Stored = uint32(len(stored))
	out.StampMicros = now
	if now <= m.last {
		out.StampMicros = m.last + 1
	}
	m.last = out.StampMicros
	for i := range stored {
		stored[i].stamp = out.StampMicros
		stored[i].first, stored[i].end = out.FirstOffset, out.FirstOffset+uint64(len(stored))
		m.places[stored[i].txid] = append(m.places[stored[i].txid], out.FirstOffset+uint64(i))
	}
	m.messages = append(m.messages, stored...)
	m.segments++
	return out
}

// original finds the lowest remembered message with a txid, provided that one of them is in the dedup window.
func (m *model) original(txid string, now, dedupWindow, hashWindow uint64) (lowest command.Duplicate, duplicate bool) {
	have := false
	for _, offset := range m.places[txid] {
		stored := m.messages[offset]
		if !within(stored.stamp, now, max(hashWindow, dedupWindow)) {
			continue
		}
		if !have {
			lowest, have = command.Duplicate{ID: stored.id, Offset: offset}, true
		}
		duplicate = duplicate || within(stored.stamp, now, dedupWindow)
	}
	return lowest, duplicate
}

func (m *model) resolve(txid string, from, end uint64, leased bool, now, hashWindow uint64) Resolution {
	from, end = max(from, m.removed), min(end, m.tail())
	answer := Resolution{}
	for _, offset := range m.places[txid] {
		stored := m.messages[offset]
		fresh := within(stored.stamp, now, hashWindow)
		if offset >= from && offset < end && (leased || fresh) {
			return Resolution{Kind: InRange, Offset: offset}
		}
		if offset < from && (fresh || (offset >= m.removed && offset+consumedMessages >= from)) {
			answer = Resolution{Kind: Below, Offset: offset}
		}
	}
	return answer
}

// due is section 15 for one message.
func (m *model) due(stored modelMessage, now uint64, rules Retention) bool {
	older := func(age uint64) bool { return age != 0 && now > stored.stamp && now-stored.stamp > age }
	if older(rules.EvictMicros) {
		return true
	}
	heldBySink := rules.Held && stored.end > rules.HoldCommittedBelow && !older(rules.HoldMicros)
	rule1 := older(rules.AgeMicros)
	rule2 := older(rules.CompletedMicros) && stored.end <= rules.CommittedBelow
	return (rule1 || rule2) && !heldBySink
}

func (m *model) retain(now uint64, rules Retention, maxAppends uint32) (appends uint32, messages uint64) {
	for m.removed < m.tail() && appends < maxAppends && m.due(m.messages[m.removed], now, rules) {
		end := m.messages[m.removed].end
		messages += end - m.removed
		m.removed = end
		appends++
		m.segments--
	}
	return appends, messages
}

func (m *model) visible(from uint64, v Visibility) (first, end uint64) {
	rules := v.Retention
	rules.CompletedMicros = 0
	first = max(from, m.removed)
	for first < m.tail() && m.due(m.messages[first], v.NowMicros, rules) {
		first++
	}
	end = first
	if m.last != 0 && v.WindowBufferMicros > 0 && v.NowMicros < m.last+v.WindowBufferMicros {
		return first, first
	}
	for end < m.tail() && m.messages[end].stamp+v.DelayMicros <= max(v.NowMicros, m.messages[end].stamp) &&
		(v.DelayMicros == 0 || m.messages[end].stamp+v.DelayMicros <= v.NowMicros) {
		end++
	}
	return first, end
}

func (m *model) endWithin(limit ByteLimit) uint64 {
	bytes := uint64(0)
	for offset := limit.First; offset < limit.End; offset++ {
		bytes += uint64(len(m.messages[offset].payload))
		if bytes > limit.MaxBytes && (offset > limit.First || !limit.AtLeastOne) {
			return offset
		}
	}
	return limit.End
}

func (m *model) firstAtOrAfter(stamp uint64) uint64 {
	at, _ := slices.BinarySearchFunc(m.messages[m.removed:], stamp, func(stored modelMessage, stamp uint64) int {
		if stored.stamp < stamp {
			return -1
		}
		return 1
	})
	return m.removed + uint64(at)
}
