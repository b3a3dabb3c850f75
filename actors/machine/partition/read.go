package partition

import (
	"fmt"

	"queen/raftlog/command"
)

// MessageRange names the messages [First, End) of a partition.
type MessageRange struct {
	Queue, Partition uint64
	First, End       uint64
}

// ReadMessages hands the retained messages of a range to visit, in order, until it returns false. It reads from any view;
// the message is valid inside visit only. What retention has removed is left out.
func ReadMessages(r Reader, messages MessageRange,
	visit func(offset, stampMicros uint64, m *command.Message) (more bool, err error)) error {
	head, err := ReadHead(r, messages.Queue, messages.Partition)
	if err != nil {
		return err
	}
	l := log{r: r, partition: messages.Partition, head: &head, memo: new(pageMemo)}
	err = l.ascend(messages.First, messages.End, func(a *Append) (bool, error) {
		goOn := true
		err := forEachMessage(r, a, func(place uint32, m *command.Message) (bool, error) {
			offset := a.Base + uint64(place)
			if offset < messages.First {
				return true, nil
			}
			if offset >= messages.End {
				goOn = false
				return false, nil
			}
			var err error
			goOn, err = visit(offset, a.StampMicros, m)
			return goOn, err
		})
		return goOn, err
	})
	if err != nil {
		return fmt.Errorf("read messages of partition %d: %w", messages.Partition, err)
	}
	return nil
}

// AppendRange selects appends of a partition by stamp.
type AppendRange struct {
	Queue, Partition uint64
	// FromMicros is inclusive, ToMicros exclusive; ToMicros 0 means no upper bound.
	FromMicros, ToMicros uint64
	// NewestFirst turns the order round (messaging 11.1).
	NewestFirst bool
}

// ForEachAppend hands the retained appends of a range to visit until it returns false. It reads from any view; ReadAppend
// opens an append while that view lives.
func ForEachAppend(r Reader, appends AppendRange, visit func(a *Append) (more bool, err error)) error {
	head, err := ReadHead(r, appends.Queue, appends.Partition)
	if err != nil {
		return err
	}
	l := log{r: r, partition: appends.Partition, head: &head, memo: new(pageMemo)}
	first, err := l.offsetAt(appends.FromMicros)
	end := head.Tail
	if err == nil && appends.ToMicros > 0 {
		end, err = l.offsetAt(appends.ToMicros)
	}
	if err == nil && appends.NewestFirst {
		err = l.descend(first, end, visit)
	} else if err == nil {
		err = l.ascend(first, end, visit)
	}
	if err != nil {
		return fmt.Errorf("walk appends of partition %d: %w", appends.Partition, err)
	}
	return nil
}

// ReadAppend hands the messages of an append to visit, in order, until it returns false. The message is valid inside
// visit only.
func ReadAppend(r Reader, a *Append, visit func(offset uint64, m *command.Message) (more bool, err error)) error {
	return forEachMessage(r, a, func(place uint32, m *command.Message) (bool, error) {
		return visit(a.Base+uint64(place), m)
	})
}

// FindTxid returns the lowest retained offset that carries a transaction id (messaging 11.2). It walks through the
// references of the whole log: for the console, not for the hot path.
func FindTxid(r Reader, queue, partition uint64, hash Hash) (offset uint64, found bool, err error) {
	err = ForEachAppend(r, AppendRange{Queue: queue, Partition: partition}, func(a *Append) (bool, error) {
		hashes, err := hashesOf(r, a)
		if err != nil {
			return false, err
		}
		for place := 0; place < len(hashes); place += hashBytes {
			if equalHash(hashes[place:place+hashBytes], hash[:]) {
				offset, found = a.Base+uint64(place/hashBytes), true
				return false, nil
			}
		}
		return true, nil
	})
	return offset, found, err
}

func (l *log) offsetAt(stampMicros uint64) (uint64, error) {
	a, found, err := l.firstAppendAt(stampMicros)
	if err != nil || !found {
		return l.head.Tail, err
	}
	return a.Base, nil
}

// StampOf returns the stamp of the append that holds a retained offset; 0 when there is no such message.
func StampOf(r Reader, queue, partition, offset uint64) (stampMicros uint64, err error) {
	head, err := ReadHead(r, queue, partition)
	if err != nil || offset < head.LogStart || offset >= head.Tail {
		return 0, err
	}
	l := log{r: r, partition: partition, head: &head, memo: new(pageMemo)}
	a, err := l.appendAt(offset)
	return a.StampMicros, err
}
