package actors

import (
	"sync"

	"queen/raftlog/command"
)

// servedClaim is a claim for a pop of this node, applied here.
type servedClaim struct {
	claim  *command.Claim
	result *command.ClaimResult
}

// expected are the pops of this node that a claim may serve, by the sequence of their id. Every claim names its pop, whoever
// proposes it, and a claim that nobody expects any more is handed back: whether it came too late, or after a leader change,
// or its client has gone.
type expected struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]expectation
}

// expectation is a pop that may get one claim. The channel has room for it; arrived, unless nil, is called when it is there.
type expectation struct {
	claim   chan servedClaim
	arrived func()
}

func (e *expected) add(arrived func()) (sequence uint64, claim chan servedClaim) {
	claim = make(chan servedClaim, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[uint64]expectation{}
	}
	e.last++
	e.waiting[e.last] = expectation{claim, arrived}
	return e.last, claim
}

// remove forgets a pop that waits no more; false when its claim is in the channel, or comes at once.
func (e *expected) remove(sequence uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, waiting := e.waiting[sequence]
	delete(e.waiting, sequence)
	return waiting
}

// resolve gives a claim to the pop that it serves; false when that waits no more.
func (e *expected) resolve(sequence uint64, s servedClaim) bool {
	e.mu.Lock()
	pop, waiting := e.waiting[sequence]
	delete(e.waiting, sequence)
	e.mu.Unlock()
	if waiting {
		pop.claim <- s
		if pop.arrived != nil {
			pop.arrived()
		}
	}
	return waiting
}

func (e *expected) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}

// served is told of every claim for a pop of this node that got something, once it can be read here. What nobody waits for
// any more is handed back, with its attempt.
func (b *Broker) served(claim *command.Claim, result *command.ClaimResult) {
	if !b.expected.resolve(claim.For.Sequence, servedClaim{claim, result}) {
		b.handBack(claim, result)
	}
}

// expecting runs an attempt whose claims name an id of its own. A claim that the attempt does not deliver stays in doubt. A
// pop of another node has its id from there, and is served there.
func (c *popCall) expecting(try func(id command.RequestID) (*PopOutcome, bool, error)) (outcome *PopOutcome, again bool, err error) {
	if c.guest() {
		return try(c.serves)
	}
	c.doubtful = false
	sequence, claim := c.b.expected.add(nil)
	outcome, again, err = try(command.RequestID{Origin: c.b.pending.origin, Sequence: sequence})
	delivered := outcome != nil && len(outcome.Batches) > 0
	switch {
	case delivered:
		c.b.expected.remove(sequence)
	case c.doubtful || !c.b.expected.remove(sequence):
		c.doubts = append(c.doubts, doubt{sequence, claim})
	}
	return outcome, again, err
}
