package actors

import (
	"fmt"
	"math/bits"
	"sync"

	window "queen/actors/machine/outcome"
)

// issued hands out the sequences of this node's requests and knows which of them are settled: applied here, dropped before
// they were proposed, or given up. Every command tells the other nodes the lowest one that is not, so that they may forget
// the outcomes below it (cluster 8.4).
//
// It is a bitmap that slides: sequences from lowest to next are issued, and their bits tell which are settled.
type issued struct {
	mu           sync.Mutex
	lowest, next uint64
	settled      [window.Unanswered / 64]uint64
}

// newIssued begins with sequence 1.
func newIssued() *issued { return &issued{lowest: 1, next: 1} }

// mint returns the next sequence and the lowest that is not settled, which may be the new one. ErrOverloaded, wrapped: a
// sequence is open that lies so far back that other nodes would take it for answered.
func (i *issued) mint() (sequence, answeredBelow uint64, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.next-i.lowest >= window.Unanswered {
		return 0, 0, fmt.Errorf("%w: request %d is unanswered and %d have followed it", ErrOverloaded, i.lowest, i.next-i.lowest-1)
	}
	sequence = i.next
	i.next++
	return sequence, i.lowest, nil
}

// settle notes that nobody will ask for the outcome of a sequence any more. Settling one again does nothing.
func (i *issued) settle(sequence uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if sequence < i.lowest || sequence >= i.next {
		return
	}
	i.settled[wordOf(sequence)] |= 1 << (sequence % 64)
	// What is settled from lowest on leaves the bitmap, word by word. Each sequence does once.
	for i.lowest < i.next {
		word := &i.settled[wordOf(i.lowest)]
		run := uint64(bits.TrailingZeros64(^(*word >> (i.lowest % 64))))
		if run == 0 {
			return
		}
		// The word is empty above its settled bits, so the run ends with it, or before.
		*word &^= (1<<run - 1) << (i.lowest % 64)
		i.lowest += run
	}
}

func wordOf(sequence uint64) uint64 { return sequence / 64 % (window.Unanswered / 64) }

// open is how many sequences there are from the lowest that is not settled on.
func (i *issued) open() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.next - i.lowest
}
