package raftlog

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"queen/raftlog/command"
	"queen/raftlog/link"
)

// forward sends what waits to the leader, and keeps it until it is applied here, refused, or the links end. Called by the
// goroutine of the uplink, which alone moves commands out of the queue while another node leads.
func (p *proposer) forward(links *uplinks) {
	p.mu.Lock()
	if p.term != 0 || p.closed != nil || p.queue.len() == 0 {
		p.mu.Unlock()
		return
	}
	taken := p.queue.takeAll()
	for i := range taken {
		p.sent[taken[i].request] = taken[i]
	}
	p.sentCount.Store(int64(len(p.sent)))
	p.mu.Unlock()

	now := p.options.Clock.Monotonic()
	for i := range taken {
		item := &taken[i]
		if !item.usable(now) {
			p.settled(item.request)
			continue
		}
		if !links.command(item.toLink(now)) {
			links.end()
			return
		}
		links.counts.sent.Add(1)
	}
}

// toLink is the command as it travels.
func (p *pending) toLink(now time.Duration) *link.Command {
	c := &link.Command{ID: p.request, Keys: uint32(p.weight.Keys), Bytes: uint32(p.weight.Bytes), Encoded: p.encoded}
	if p.deadline > 0 {
		c.LeftMs = uint32(max(min((p.deadline-now).Milliseconds(), 1<<32-1), 1))
	}
	return c
}

// settled forgets a command that was sent: it has been applied here.
func (p *proposer) settled(id command.RequestID) {
	if p.sentCount.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sent, id)
	p.sentCount.Store(int64(len(p.sent)))
}

// takeBack returns what was sent to the queue, in the order in which it was made. Called by the goroutine of the uplink when
// its links have ended.
func (p *proposer) takeBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.pushFront(p.takeSentLocked(func(*pending) bool { return true }))
	p.signal()
}

// takeSentLocked removes and returns the sent commands that fit, in the order of their numbers. Nobody knows whether they are in
// the log.
func (p *proposer) takeSentLocked(fits func(*pending) bool) (taken []pending) {
	for id, item := range p.sent {
		if fits(&item) {
			item.attempted = true
			taken = append(taken, item)
			delete(p.sent, id)
		}
	}
	p.sentCount.Store(int64(len(p.sent)))
	slices.SortFunc(taken, func(a, b pending) int { return cmp.Compare(a.request.Sequence, b.request.Sequence) })
	return taken
}

// refusedBy returns what ends a command that the leader will not propose, or puts it back when another node may.
func (p *proposer) refusedBy(links func() *uplinks) link.Refused {
	return func(id command.RequestID, number link.Reason) { p.refusedByLeader(links, id, errorOf(number)) }
}

func (p *proposer) refusedByLeader(links func() *uplinks, id command.RequestID, reason error) {
	p.mu.Lock()
	item, known := p.sent[id]
	delete(p.sent, id)
	p.sentCount.Store(int64(len(p.sent)))
	if known && elsewhere(reason) {
		item.attempted = true
		p.queue.pushFront([]pending{item})
	}
	p.mu.Unlock()
	switch {
	case elsewhere(reason):
		if current := links(); current != nil {
			current.end()
		}
	case known:
		// The leader has not proposed it, and nobody else has been asked since it was sent here.
		item.drop(reason)
	}
}

// takeForwarded takes a command of another node in. The leader answers for it only until it is in the log.
func (n *Node) takeForwarded(from uint64, c link.Command, refused func(link.Reason)) {
	n.counts.served.Add(1)
	proposal := Proposal{
		Encoded: c.Encoded,
		Item:    command.Item{Request: c.ID},
		Weight:  Weight{Keys: int(c.Keys), Bytes: int(c.Bytes)},
		Dropped: func(err error) {
			if errors.Is(err, ErrOutcomeUnknown) {
				err = ErrNotLeader // the other node asks again, and learns it from the log
			}
			refused(reasonOf(err))
		},
	}
	if c.LeftMs > 0 {
		proposal.DeadlineMonotonic = n.options.Clock.Monotonic() + time.Duration(c.LeftMs)*time.Millisecond
	}
	if n.options.RidersFor != nil {
		proposal.Riders = n.options.RidersFor(c.Encoded)
	}
	n.admit(&Foreign{From: from, Encoded: c.Encoded, Left: time.Duration(c.LeftMs) * time.Millisecond}, func(release func(), refusal error) {
		if refusal == nil {
			if refusal = n.proposer.proposeForeign(&proposal, release); refusal != nil && release != nil {
				release()
			}
		}
		if refusal != nil {
			refused(reasonOf(refusal))
		}
	})
}

// Foreign is a command of another node that asks for room.
type Foreign struct {
	From uint64
	// Encoded is the item as command.AppendItem wrote it.
	Encoded []byte
	// Left is the time until its deadline; 0 without one.
	Left time.Duration
}

func (n *Node) admit(c *Foreign, admitted func(release func(), refusal error)) {
	if n.options.Admit == nil {
		admitted(nil, nil)
		return
	}
	n.options.Admit(c, admitted)
}
