package partition

import (
	"fmt"

	"queen/raftlog/command"
)

// Visibility is what keeps stored messages from being delivered. Zero fields do not apply.
type Visibility struct {
	NowMicros uint64
	// DelayMicros: a message is visible once it is so old (messaging 5.11).
	DelayMicros uint64
	// WindowBufferMicros: nothing is visible while the last write is younger.
	WindowBufferMicros uint64
	// Retention hides what is due under rule 1 or maxWaitTimeSeconds before a pass has removed it (messaging 15). Rule 2
	// hides nothing.
	Retention Retention
}

// Visible returns the range of visible messages at or above an offset, end exclusive; first == end when there is none.
// nextChangeMicros is when the next hidden message appears if nothing is pushed, 0 when none is hidden. It reads nothing
// when no delay and no age applies.
func (m *Machine) Visible(r Reader, from uint64, v Visibility) (first, end, nextChangeMicros uint64, err error) {
	h := &m.head
	first, end = max(from, h.LogStart), h.Tail
	if first >= end {
		return end, end, 0, nil
	}
	l := m.log(r)
	aged, err := v.Retention.agedBelow(l, v.NowMicros)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("find aged messages of partition %d: %w", m.partition, err)
	}
	if first = max(first, aged); first >= end {
		return end, end, 0, nil
	}
	if hidden := h.LastStampMicros + v.DelayMicros; v.DelayMicros > 0 && hidden > v.NowMicros {
		a, found, err := l.firstAppendAt(cutoff(v.NowMicros, v.DelayMicros))
		if err != nil {
			return 0, 0, 0, fmt.Errorf("find delayed messages of partition %d: %w", m.partition, err)
		}
		if found && a.End() <= first {
			// A cursor above hidden messages waits for the one that it stands on.
			a, err = l.appendAt(first)
		}
		if err != nil {
			return 0, 0, 0, fmt.Errorf("find delayed messages of partition %d: %w", m.partition, err)
		}
		if found {
			end = max(a.Base, first)
			nextChangeMicros = a.StampMicros + v.DelayMicros
		}
	}
	if quiet := h.LastStampMicros + v.WindowBufferMicros; v.WindowBufferMicros > 0 && quiet > v.NowMicros {
		if first >= end {
			quiet = max(quiet, nextChangeMicros)
		}
		return first, first, quiet, nil
	}
	return first, end, nextChangeMicros, nil
}

// FirstAtOrAfter returns the first retained offset that is stamped at or after stampMicros, by append; the tail when there
// is none (messaging 5.8, 10.5, 13.2).
func (m *Machine) FirstAtOrAfter(r Reader, stampMicros uint64) (uint64, error) {
	a, found, err := m.log(r).firstAppendAt(stampMicros)
	if err != nil {
		return 0, fmt.Errorf("find stamp %d in partition %d: %w", stampMicros, m.partition, err)
	}
	if !found {
		return m.head.Tail, nil
	}
	return a.Base, nil
}

// ByteLimit asks how far a claim may go within a number of payload bytes.
type ByteLimit struct {
	// First and End are the range that the claim could take, End exclusive.
	First, End uint64
	// MaxBytes is what is left of the call's payload bytes (messaging 2.11, 5.5.1).
	MaxBytes uint64
	// AtLeastOne takes the first message even when it is larger: for the first one of a call.
	AtLeastOne bool
}

// EndWithin returns the end, exclusive, of the longest prefix of the range whose payloads fit. It reads nothing when even
// the largest payload of the partition would fit that often.
func (m *Machine) EndWithin(r Reader, limit ByteLimit) (end uint64, err error) {
	if limit.First >= limit.End {
		return limit.First, nil
	}
	if limit.First < m.head.LogStart || limit.End > m.head.Tail {
		return 0, fmt.Errorf("measure [%d, %d) of partition %d: %w", limit.First, limit.End, m.partition, ErrBadRange)
	}
	count, largest := limit.End-limit.First, m.head.LargestPayloadBytes
	if largest == 0 || count <= limit.MaxBytes/largest {
		return limit.End, nil
	}
	end, _, err = m.measure(r, limit)
	return end, err
}

// PayloadBytes returns the exact size of the payloads of [first, end), as they were pushed.
func (m *Machine) PayloadBytes(r Reader, first, end uint64) (uint64, error) {
	if first >= end {
		return 0, nil
	}
	_, bytes, err := m.measure(r, ByteLimit{First: first, End: end, MaxBytes: 1<<64 - 1})
	return bytes, err
}

// measure adds payloads up until the limit; it opens only those chunks that the range or the limit cuts.
func (m *Machine) measure(r Reader, limit ByteLimit) (end, bytes uint64, err error) {
	end = limit.First
	err = m.log(r).ascend(limit.First, limit.End, func(a *Append) (bool, error) {
		whole := a.Base >= limit.First && a.End() <= limit.End
		if whole && bytes+a.PayloadBytes <= limit.MaxBytes {
			end, bytes = a.End(), bytes+a.PayloadBytes
			return true, nil
		}
		full := false
		err := forEachMessage(r, a, func(place uint32, message *command.Message) (bool, error) {
			offset := a.Base + uint64(place)
			if offset < limit.First {
				return true, nil
			}
			size := payloadBytes(message)
			forced := limit.AtLeastOne && offset == limit.First
			if full = offset >= limit.End || (bytes+size > limit.MaxBytes && !forced); full {
				return false, nil
			}
			end, bytes = offset+1, bytes+size
			return true, nil
		})
		return !full && bytes <= limit.MaxBytes, err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("measure payloads of partition %d: %w", m.partition, err)
	}
	return end, bytes, nil
}
