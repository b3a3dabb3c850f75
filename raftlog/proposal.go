package raftlog

import (
	"bytes"
	"sync"
	"time"

	"queen/raftlog/command"
)

// Proposal is one command on its way into the log.
//
// Its functions are called by goroutines of the Node; they must be quick, must not block and must not call the Node, save
// Propose.
type Proposal struct {
	// Encoded is the item as command.AppendItem wrote it. The Node reads it until the proposal is applied or dropped;
	// nobody may change it.
	Encoded []byte
	// Item is encoded by Propose, on the caller's goroutine, when Encoded is nil. Its request id is needed in any case.
	Item command.Item
	// DeadlineMonotonic is the instant of the Clock's monotonic time after which the command is not proposed any more;
	// 0 is never.
	DeadlineMonotonic time.Duration
	// ArrivedMonotonic is the instant of the Clock's monotonic time at which the request of the command arrived at this node; 0
	// for a command that is no client's, or whose client was left waiting for something else.
	ArrivedMonotonic time.Duration
	// Weight estimates what applying the command writes.
	Weight Weight
	// Gone is asked right before the command is encoded into an entry, and again before it is proposed a second time:
	// true when the request has been answered or nobody waits for the answer. Nil is never gone.
	Gone func() bool
	// Dropped is called at most once, when the Node will not propose the command (again). It will not be applied, unless
	// the reason wraps ErrOutcomeUnknown: then it had been proposed before and may yet be applied. Nil is allowed.
	Dropped func(reason error)
	// Riders is asked right before the command is encoded, after Gone, when this node leads: what it returns goes into the
	// same entry, behind it, or into the next one when the entry is full. Riders of riders are not asked. Nil is none.
	Riders func() []Proposal
}

// Weight is what applying a command writes into the store.
type Weight struct {
	Keys  int
	Bytes int
}

// pending is a proposal in the queue or in flight.
type pending struct {
	// request is zero for what the Node proposes of itself.
	request  command.RequestID
	encoded  []byte
	deadline time.Duration
	// arrived is the monotonic instant at which the Node took the command in.
	arrived time.Duration
	// requested is Proposal.ArrivedMonotonic.
	requested time.Duration
	weight    Weight
	gone      func() bool
	dropped   func(error)
	riders    func() []Proposal
	// attempted says that the command has been proposed in a term that ended before its entry was seen applied, or was sent to
	// a leader.
	attempted bool
	// release gives back the room that the command takes; nil when it takes none.
	release func()
	// foreign says that the command came from another node, which sends it to the next leader itself.
	foreign bool
}

func (p *pending) drop(reason error) {
	p.settle()
	if p.dropped == nil {
		return
	}
	if p.attempted {
		reason = unknownOutcome(reason)
	}
	p.dropped(reason)
}

// settle is called when the command has come to its end: it was applied or dropped.
func (p *pending) settle() {
	if p.release != nil {
		p.release()
	}
}

// usable says whether the command may be proposed, and drops it when not.
func (p *pending) usable(now time.Duration) bool {
	if p.deadline > 0 && now >= p.deadline {
		p.drop(ErrDeadline)
		return false
	}
	if p.gone != nil && p.gone() {
		p.drop(ErrGone)
		return false
	}
	return true
}

// scratches are buffers to encode items in. Encoded in place, an item would be copied and allocated anew with each doubling.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// scratchMaxBytes is the largest buffer that is kept for the next item.
const scratchMaxBytes = 1 << 20

func encodeItem(item *command.Item) []byte {
	scratch := scratches.Get().(*[]byte)
	written := command.AppendItem((*scratch)[:0], item)
	encoded := bytes.Clone(written)
	if cap(written) <= scratchMaxBytes {
		*scratch = written
		scratches.Put(scratch)
	}
	return encoded
}

// prepare encodes a proposal if need be and refuses what fits into no entry.
func (o *Options) prepare(c *Proposal) (pending, error) {
	encoded := c.Encoded
	if encoded == nil {
		encoded = encodeItem(&c.Item)
	}
	if len(encoded)+command.MaxEntryOverheadBytes > o.EntryMaxBytes ||
		c.Weight.Keys > o.MaxEntryKeys || c.Weight.Bytes > o.MaxEntryStateBytes {
		return pending{}, ErrTooLarge
	}
	return pending{
		request: c.Item.Request, encoded: encoded, deadline: c.DeadlineMonotonic, arrived: o.Clock.Monotonic(),
		requested: c.ArrivedMonotonic, weight: c.Weight, gone: c.Gone, dropped: c.Dropped, riders: c.Riders,
	}, nil
}
