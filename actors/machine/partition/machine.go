package partition

import (
	"fmt"

	"queen/store/layout"
)

// Machine is the state of one active partition: the head with its newest references, and an index of transaction ids
// that is built when one is first looked for. It belongs to one goroutine.
type Machine struct {
	queue     uint64
	partition uint64
	head      Head
	memo      pageMemo
	index     *index
}

// Load reads the state of a partition with one Get. A partition that has no head yet is empty.
func Load(r Reader, queue, partition uint64) (*Machine, error) {
	m := &Machine{queue: queue, partition: partition}
	head, err := ReadHead(r, queue, partition)
	if err != nil {
		return nil, err
	}
	head.inline = append([]byte(nil), head.inline...)
	m.head = head
	return m, nil
}

// ReadHead reads the head of a partition from any view. Its slices are valid as long as the view. A partition without a
// head row has the zero head.
func ReadHead(r Reader, queue, partition uint64) (Head, error) {
	row, err := r.Get(layout.Head(queue, partition))
	if err != nil {
		return Head{}, fmt.Errorf("get head of partition %d: %w", partition, err)
	}
	if row == nil {
		return Head{}, nil
	}
	head, err := DecodeHead(row)
	if err != nil {
		return Head{}, fmt.Errorf("read head of partition %d: %w", partition, err)
	}
	return head, nil
}

// Tail is the offset of the next message.
func (m *Machine) Tail() uint64 { return m.head.Tail }

// LogStart is the lowest retained offset.
func (m *Machine) LogStart() uint64 { return m.head.LogStart }

// LastStampMicros is the stamp of the newest append ever; 0 when there was none.
func (m *Machine) LastStampMicros() uint64 { return m.head.LastStampMicros }

// OldestStampMicros is the stamp of the oldest retained append; 0 when nothing is retained.
func (m *Machine) OldestStampMicros() uint64 { return m.head.OldestStampMicros }

// RetainedBytes is what the retained chunks hold.
func (m *Machine) RetainedBytes() uint64 { return m.head.RetainedBytes }

// Segments is the number of retained appends.
func (m *Machine) Segments() uint64 { return m.head.Segments }

// LargestPayloadBytes is the size of the largest payload ever pushed here.
func (m *Machine) LargestPayloadBytes() uint64 { return m.head.LargestPayloadBytes }

// HoldsHashes tells whether a txid of this partition is still inside the hash window, retained or not (messaging 15, the
// last rule).
func (m *Machine) HoldsHashes(nowMicros, hashWindowMicros uint64) bool {
	return m.head.Tail > 0 && inWindow(m.head.LastStampMicros, nowMicros, hashWindowMicros)
}

func (m *Machine) log(r Reader) *log {
	return &log{r: r, partition: m.partition, head: &m.head, memo: &m.memo}
}

func (m *Machine) putHead(w Writer) {
	row := make([]byte, 0, 96+len(m.head.inline))
	w.Put(layout.Head(m.queue, m.partition), m.head.AppendTo(row))
}

// indexFor returns an index that covers everything below the inline part that is inside the hash window. It returns nil
// when there is nothing of that kind.
func (m *Machine) indexFor(l *log, nowMicros, hashWindowMicros uint64) (*index, error) {
	oldest := cutoff(nowMicros, hashWindowMicros)
	if m.index != nil && m.index.coveredMicros <= oldest {
		m.index.forget(oldest)
		return m.index, nil
	}
	h := &m.head
	pages := h.hasPages() && h.pageStamp >= oldest
	rows := h.hashes.rows > 0 && h.hashes.newestStamp >= oldest
	m.index = nil
	if !pages && !rows {
		return nil, nil
	}
	x := &index{coveredMicros: oldest}
	if rows {
		if err := x.loadRows(l, oldest, hashWindowMicros); err != nil {
			return nil, err
		}
	}
	if pages {
		if err := x.loadPages(l, oldest, hashWindowMicros); err != nil {
			return nil, err
		}
	}
	m.index = x
	return x, nil
}

func (x *index) loadPages(l *log, oldest, hashWindowMicros uint64) error {
	first, err := l.firstPageAt(oldest)
	if err != nil {
		return err
	}
	return l.ascend(first.base, l.head.inlineBase, func(a *Append) (bool, error) {
		hashes, err := hashesOf(l.r, a)
		if err != nil {
			return false, err
		}
		x.addAppend(a, hashes, hashWindowMicros)
		return true, nil
	})
}

func (x *index) loadRows(l *log, oldest, hashWindowMicros uint64) error {
	var failure error
	prefix, from := layout.HashesOf(l.partition), layout.Hashes(l.partition, l.head.hashes.floor)
	err := l.r.Scan(prefix, from, func(key, value []byte) bool {
		base := layout.LastNumber(key)
		newest, err := newestRowStamp(base, value)
		if err == nil && newest < oldest {
			return true
		}
		var row hashRow
		if err == nil {
			row, err = decodeHashRow(base, value)
		}
		if err != nil {
			failure = err
			return false
		}
		// What is retained still is known from its page, also when its hashes were moved ahead of it.
		for offset := base; offset < min(row.end(), l.head.LogStart); offset++ {
			x.add(row.hash(offset), offset, row.stamp(offset), hashWindowMicros)
		}
		return true
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return fmt.Errorf("load hash rows of partition %d: %w", l.partition, err)
	}
	return nil
}
