package actors

import (
	"time"

	"queen/raftlog/command"
)

// HandBack undoes what a pop got when its answer could not be delivered (messaging 5.5.9).
func (b *Broker) HandBack(r *PopRequest, o *PopOutcome) {
	claim := &command.Claim{Tenant: r.Tenant, Group: r.Group, Lease: o.Lease, CommitOnDelivery: r.CommitOnDelivery}
	b.handBack(claim, &command.ClaimResult{Batches: o.Batches})
}

// handBack undoes a claim of a pop of this node. No other node does it: this one alone knows whether an answer was delivered.
func (b *Broker) handBack(claim *command.Claim, result *command.ClaimResult) {
	if len(result.Batches) == 0 {
		return
	}
	back := &command.HandBack{
		Tenant: claim.Tenant, Lease: claim.Lease, Group: claim.Group, CommitOnDelivery: claim.CommitOnDelivery,
		Parts: make([]command.HandBackPart, len(result.Batches)),
	}
	for i := range result.Batches {
		batch := &result.Batches[i]
		back.Parts[i] = command.HandBackPart{Partition: batch.Partition, FirstOffset: batch.FirstOffset, LastOffset: batch.LastOffset}
	}
	// Nobody waits for the outcome: if it cannot be proposed, the lease expires instead. It is pending all the same, so that
	// it counts as unanswered until it is applied.
	p := Proposal{Item: command.Item{Command: back}, Span: Until(time.Now().Add(handBackDeadline))}
	p.Keys, p.Bytes = weigh(back)
	b.propose(p, func(command.Result) {}, func(error) {})
}

// handBackDeadline bounds how long a hand-back waits for a leader.
const handBackDeadline = 30 * time.Second
