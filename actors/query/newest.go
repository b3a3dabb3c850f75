package query

import (
	"container/heap"
	"math"

	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/partition"
	"queen/store/layout"
)

// Source is one partition of a merged walk over appends, opened.
type Source struct {
	Queue     *actors.QueueView
	Partition *catalog.Partition
	Head      partition.Head
	Standings []*Standing
	// Dead are the dead letters of the partition, for a walk from the newest append to the oldest.
	Dead DeadPlaces

	// page holds the appends that were read and not yet handed out, the newest first; below says where the next ones are.
	page  []partition.Append
	below uint64
	fills int
}

// How many appends a source reads at a time: few at first, because most sources of a merge over many partitions give few,
// then more and more, because each read begins with a search.
const (
	firstPageAppends = 16
	maxPageAppends   = 4096
)

// place is a partition in the merge. Most are never opened: what is known from the head row decides when their turn comes.
type place struct {
	queue *actors.QueueView
	id    uint64
	// oldest and last are the stamps of its first and its last retained append, messages is how many it holds.
	oldest, last, messages uint64
	// stamp is the place in the order of the merge: that of the next append, or what it is at most while source is nil.
	stamp  uint64
	source *Source
}

// Newest merges the appends of many partitions, the newest stamp first: Add all partitions, perhaps Skip, then Next.
type Newest struct {
	reads *Reads
	// from is inclusive, to exclusive, in microseconds.
	from, to uint64
	open     func(queue *actors.QueueView, id uint64) (*Source, error)
	places   placeHeap
	started  bool
}

// NewNewest makes an empty merge of the appends with stamps in [fromMicros, toMicros). open loads a partition when its turn
// comes; nil leaves it out.
func NewNewest(reads *Reads, fromMicros, toMicros uint64, open func(queue *actors.QueueView, id uint64) (*Source, error)) *Newest {
	return &Newest{reads: reads, from: fromMicros, to: toMicros, open: open}
}

// Add takes a partition in; one that cannot have appends in the range is left out.
func (n *Newest) Add(queue *actors.QueueView, id uint64, head *partition.Head) {
	if head.Messages() == 0 || head.LastStampMicros < n.from || head.OldestStampMicros >= n.to {
		return
	}
	n.places = append(n.places, place{
		queue: queue, id: id, oldest: head.OldestStampMicros, last: head.LastStampMicros, messages: head.Messages(),
		stamp: min(head.LastStampMicros, n.to-1),
	})
}

// younger counts the messages of a place that are stamped at or after an instant and below the end of the range.
func (n *Newest) younger(p *place, micros uint64) (uint64, error) {
	switch {
	case micros >= n.to || micros > p.last:
		return 0, nil
	case micros <= p.oldest && p.last < n.to:
		return p.messages, nil
	}
	head, err := partition.ReadHead(n.reads.view, p.queue.ID, p.id)
	if err != nil {
		return 0, err
	}
	from, err := n.offsetAt(p, &head, micros)
	if err != nil {
		return 0, err
	}
	end, err := n.offsetAt(p, &head, n.to)
	return end - min(from, end), err
}

// offsetAt is the first retained offset of a place that is stamped at or after an instant.
func (n *Newest) offsetAt(p *place, head *partition.Head, micros uint64) (uint64, error) {
	switch {
	case micros <= p.oldest:
		return head.LogStart, nil
	case micros > p.last:
		return head.Tail, nil
	}
	offset := head.Tail
	span := partition.AppendRange{Queue: p.queue.ID, Partition: p.id, FromMicros: micros}
	err := partition.ForEachAppend(n.reads.view, span, func(a *partition.Append) (bool, error) {
		offset = max(a.Base, head.LogStart)
		return false, nil
	})
	return offset, err
}

// walkedMessages is how many messages Skip leaves to be walked over: about as much work as another step of its search.
const walkedMessages = 256

// Skip leaves out the newest appends that hold count messages together, and returns how many messages of the next append
// are still to be left out. It searches for the instant at which so many messages are younger in place of walking over
// them, so that a page costs the same at any depth (operations 10.6).
func (n *Newest) Skip(count uint64) (left uint64, err error) {
	if count, err = n.search(count); err != nil {
		return 0, err
	}
	n.start()
	for count > 0 && len(n.places) > 0 {
		p := &n.places[0]
		if p.source == nil {
			if whole := p.oldest == p.last && p.stamp == p.last; whole && p.messages <= count {
				count -= p.messages
				heap.Pop(&n.places)
				continue
			}
			if err := n.openFirst(); err != nil {
				return 0, err
			}
			continue
		}
		a := &p.source.page[0]
		size := a.End() - max(a.Base, p.source.Head.LogStart)
		if size > count {
			break
		}
		count -= size
		if err := n.advance(); err != nil {
			return 0, err
		}
	}
	return count, nil
}

// search lowers the end of the range for as long as that leaves out no more than count messages, and returns how many are
// still to be left out.
func (n *Newest) search(count uint64) (left uint64, err error) {
	low, high := uint64(math.MaxUint64), uint64(0)
	for i := range n.places {
		low, high = min(low, max(n.from, n.places[i].oldest)), max(high, n.places[i].stamp+1)
	}
	// At high no message is younger, at low all are.
	skipped := uint64(0)
	for low < high && count-skipped > walkedMessages {
		middle, younger := low+(high-low)/2, uint64(0)
		for i := range n.places {
			if i%checkEvery == 0 && n.reads.ctx.Err() != nil {
				return 0, n.reads.ctx.Err()
			}
			in, err := n.younger(&n.places[i], middle)
			if err != nil {
				return 0, err
			}
			if younger += in; younger > count {
				break
			}
		}
		if younger <= count {
			high, skipped = middle, younger
		} else {
			low = middle + 1
		}
	}
	if skipped > 0 {
		n.lower(high)
	}
	return count - skipped, nil
}

// lower ends the range at an earlier instant.
func (n *Newest) lower(toMicros uint64) {
	n.to = toMicros
	kept := n.places[:0]
	for _, p := range n.places {
		if p.oldest < toMicros {
			p.stamp = min(p.stamp, toMicros-1)
			kept = append(kept, p)
		}
	}
	n.places = kept
}

func (n *Newest) start() {
	if !n.started {
		n.started = true
		heap.Init(&n.places)
	}
}

// openFirst loads the first place, whose turn has come, and puts it where its newest append belongs.
func (n *Newest) openFirst() error {
	if err := n.reads.ctx.Err(); err != nil {
		return err
	}
	p := &n.places[0]
	source, err := n.open(p.queue, p.id)
	if err != nil {
		return err
	}
	if source == nil {
		heap.Pop(&n.places)
		return nil
	}
	p.source = source
	source.below = n.to
	return n.refill()
}

// refill reads the next appends of the first place and puts it where they belong.
func (n *Newest) refill() error {
	p := &n.places[0]
	s := p.source
	s.page = s.page[:0]
	wanted := min(firstPageAppends<<min(s.fills, 8), maxPageAppends)
	s.fills++
	if s.below > n.from {
		span := partition.AppendRange{Queue: p.queue.ID, Partition: p.id, FromMicros: n.from, ToMicros: s.below, NewestFirst: true}
		err := partition.ForEachAppend(n.reads.view, span, func(a *partition.Append) (bool, error) {
			s.page = append(s.page, *a)
			return len(s.page) < wanted, nil
		})
		if err != nil {
			return err
		}
	}
	if len(s.page) == 0 {
		heap.Pop(&n.places)
		return nil
	}
	s.below = s.page[len(s.page)-1].StampMicros
	p.stamp = s.page[0].StampMicros
	heap.Fix(&n.places, 0)
	return nil
}

// advance goes past the first append of the first place.
func (n *Newest) advance() error {
	p := &n.places[0]
	if p.source.page = p.source.page[1:]; len(p.source.page) == 0 {
		return n.refill()
	}
	p.stamp = p.source.page[0].StampMicros
	heap.Fix(&n.places, 0)
	return nil
}

// Next returns the next append and its partition; nil when there are no more.
func (n *Newest) Next() (*Source, *partition.Append, error) {
	n.start()
	for len(n.places) > 0 {
		if n.places[0].source == nil {
			if err := n.openFirst(); err != nil {
				return nil, nil, err
			}
			continue
		}
		s := n.places[0].source
		a := s.page[0]
		return s, &a, n.advance()
	}
	return nil, nil, nil
}

// placeHeap has the place with the newest stamp first. Appends of one push may share a stamp: then the youngest partition
// comes first, so that one page goes on exactly where the one before has ended.
type placeHeap []place

func (h placeHeap) Len() int { return len(h) }
func (h placeHeap) Less(i, j int) bool {
	if h[i].stamp != h[j].stamp {
		return h[i].stamp > h[j].stamp
	}
	return h[i].id > h[j].id
}
func (h placeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *placeHeap) Push(x any)   { *h = append(*h, x.(place)) }
func (h *placeHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = place{}
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
