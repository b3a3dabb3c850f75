package raftlog

import (
	"time"

	"queen/raftlog/command"
)

// batch is what becomes one entry. It is pure: no clock, no lock, no log.
type batch struct {
	items  []pending
	bytes  int
	weight Weight
}

// fits says whether the command may join: an empty batch takes anything that Propose let in, a batch with something in it
// stays within the limits of batches.
func (b *batch) fits(p *pending, o *Options) bool {
	if len(b.items) == 0 {
		return true
	}
	return len(b.items) < o.BatchMaxCommands &&
		b.bytes+len(p.encoded) <= o.BatchMaxBytes &&
		b.weight.Keys+p.weight.Keys <= o.MaxEntryKeys &&
		b.weight.Bytes+p.weight.Bytes <= o.MaxEntryStateBytes
}

func (b *batch) add(p pending) {
	b.items = append(b.items, p)
	b.bytes += len(p.encoded)
	b.weight.Keys += p.weight.Keys
	b.weight.Bytes += p.weight.Bytes
}

// full says that there is no point in looking for more: only what is smaller than anything could still join.
func (b *batch) full(o *Options) bool {
	return len(b.items) >= o.BatchMaxCommands || b.bytes >= o.BatchMaxBytes
}

// admit adds the command with its riders, unless it is to be dropped, which it does. It returns the riders that did not
// fit.
func (b *batch) admit(p pending, now time.Duration, o *Options) (left []pending) {
	if !p.usable(now) {
		return nil
	}
	riders := p.riders
	p.riders = nil
	b.add(p)
	if riders == nil {
		return nil
	}
	for _, proposal := range riders() {
		rider, err := o.prepare(&proposal)
		if err != nil {
			(&pending{dropped: proposal.Dropped}).drop(err)
			continue
		}
		rider.riders = nil
		if len(left) > 0 || !b.fits(&rider, o) {
			left = append(left, rider)
			continue
		}
		if rider.usable(now) {
			b.add(rider)
		}
	}
	return left
}

// encode returns the entry. It is one allocation, which the log and the state machine share from then on.
func (b *batch) encode(header *command.Header) []byte {
	data := make([]byte, 0, b.bytes+command.MaxEntryOverheadBytes)
	data = command.AppendHeader(data, header, len(b.items))
	for i := range b.items {
		data = append(data, b.items[i].encoded...)
	}
	return command.AppendChecksum(data)
}
