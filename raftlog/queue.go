package raftlog

import "time"

// queue holds the commands that wait to be proposed, oldest first. Its owner holds the lock.
type queue struct {
	items []pending
	head  int
	// bytes is the sum of the encoded commands.
	bytes int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(p pending) {
	q.bytes += len(p.encoded)
	if q.head > 0 && len(q.items) == cap(q.items) {
		// Move to the front before growing.
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, p)
}

// pushFront puts commands in front of all others, in their order.
func (q *queue) pushFront(items []pending) {
	if len(items) == 0 {
		return
	}
	for i := range items {
		q.bytes += len(items[i].encoded)
	}
	if len(items) <= q.head {
		q.head -= len(items)
		copy(q.items[q.head:], items)
		return
	}
	joined := make([]pending, 0, len(items)+q.len())
	joined = append(joined, items...)
	joined = append(joined, q.items[q.head:]...)
	q.items, q.head = joined, 0
}

// front returns the oldest command without removing it; the queue is not empty.
func (q *queue) front() *pending { return &q.items[q.head] }

func (q *queue) pop() pending {
	p := q.items[q.head]
	q.items[q.head] = pending{}
	q.head++
	q.bytes -= len(p.encoded)
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return p
}

// takeBatch removes what one entry may hold at most. What of it is dropped or gone is found out by the caller, without
// the lock.
func (q *queue) takeBatch(dst []pending, o *Options) []pending {
	var size batch
	size.items = dst
	for q.len() > 0 && !size.full(o) && size.fits(q.front(), o) {
		size.add(q.pop())
	}
	return size.items
}

// takeAll empties the queue.
func (q *queue) takeAll() []pending {
	all := append([]pending(nil), q.items[q.head:]...)
	q.items, q.head, q.bytes = nil, 0, 0
	return all
}

// takeExpired removes the commands whose deadline has passed.
func (q *queue) takeExpired(now time.Duration) []pending {
	return q.take(func(p *pending) bool { return p.deadline > 0 && now >= p.deadline })
}

// takeForeign removes the commands of other nodes.
func (q *queue) takeForeign() []pending {
	return q.take(func(p *pending) bool { return p.foreign })
}

func (q *queue) take(fits func(*pending) bool) (taken []pending) {
	kept := q.head
	for i := q.head; i < len(q.items); i++ {
		if p := &q.items[i]; fits(p) {
			taken = append(taken, *p)
			q.bytes -= len(p.encoded)
			continue
		}
		q.items[kept] = q.items[i]
		kept++
	}
	clear(q.items[kept:])
	q.items = q.items[:kept]
	return taken
}
