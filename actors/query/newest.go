package query

import (
	"container/heap"
	"math"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/partition"
	"queen/store"
	"queen/store/layout"
)

// Source is one partition of a merged walk over appends.
type Source struct {
	Reader    store.Reader
	Queue     *actors.QueueView
	Partition *catalog.Partition
	Head      partition.Head
	Standings []*Standing
	// FromMicros is inclusive, ToMicros exclusive.
	FromMicros, ToMicros uint64

	page []partition.Append
}

// pageAppends is how many appends a source reads at a time.
const pageAppends = 64

// fill reads the next appends, newest first, below what was read before.
func (s *Source) fill() error {
	s.page = s.page[:0]
	span := partition.AppendRange{
		Queue: s.Queue.ID, Partition: s.Partition.ID, FromMicros: s.FromMicros, ToMicros: s.ToMicros, NewestFirst: true,
	}
	err := partition.ForEachAppend(s.Reader, span, func(a *partition.Append) (bool, error) {
		s.page = append(s.page, *a)
		return len(s.page) < pageAppends, nil
	})
	if len(s.page) > 0 {
		s.ToMicros = s.page[len(s.page)-1].StampMicros
	}
	return err
}

// Newest merges the appends of many partitions, the newest stamp first. The zero value is an empty merge.
type Newest struct{ sources sourceHeap }

// Add takes a partition in; one without appends in its range is left out.
func (n *Newest) Add(s *Source) error {
	if s.Head.LastStampMicros < s.FromMicros || s.Head.Messages() == 0 {
		return nil
	}
	if s.ToMicros == 0 {
		s.ToMicros = math.MaxUint64
	}
	if err := s.fill(); err != nil {
		return err
	}
	if len(s.page) > 0 {
		heap.Push(&n.sources, s)
	}
	return nil
}

// Next returns the next append and its partition; nil when there are no more.
func (n *Newest) Next() (*Source, *partition.Append, error) {
	if len(n.sources) == 0 {
		return nil, nil, nil
	}
	s := n.sources[0]
	a := s.page[0]
	if s.page = s.page[1:]; len(s.page) == 0 {
		if err := s.fill(); err != nil {
			return nil, nil, err
		}
	}
	if len(s.page) == 0 {
		heap.Pop(&n.sources)
	} else {
		heap.Fix(&n.sources, 0)
	}
	return s, &a, nil
}

type sourceHeap []*Source

func (h sourceHeap) Len() int { return len(h) }
func (h sourceHeap) Less(i, j int) bool {
	return h[i].page[0].StampMicros > h[j].page[0].StampMicros
}
func (h sourceHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *sourceHeap) Push(x any)   { *h = append(*h, x.(*Source)) }
func (h *sourceHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// MaybeIdentity is Identity for a partition that may be gone: nil then.
func (r *Reads) MaybeIdentity(id uint64) (*catalog.Partition, error) {
	row, err := r.view.Get(layout.Partition(id))
	if err != nil || row == nil {
		return nil, err
	}
	return catalog.DecodePartition(id, row)
}
