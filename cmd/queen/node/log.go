package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/actors"
	"queen/raftlog"
	"queen/raftlog/command"
)

// stateMachine lets the log drive the broker.
type stateMachine struct{ broker *actors.Broker }

// Apply implements raftlog.StateMachine.
func (s stateMachine) Apply(entries []raftlog.CommittedEntry) error {
	for i := range entries {
		if err := s.broker.Apply(entries[i].Index, entries[i].Term, entries[i].Data); err != nil {
			return err
		}
	}
	return s.broker.Flush()
}

// AppliedIndex implements raftlog.StateMachine.
func (s stateMachine) AppliedIndex() (index, term uint64) { return s.broker.AppliedIndex() }

// DurablePoint implements raftlog.StateMachine.
func (s stateMachine) DurablePoint() (uint64, error) { return s.broker.DurablePoint() }

// logAdapter shows the log to the broker in the broker's own words.
type logAdapter struct{ raft *raftlog.Node }

// Propose implements actors.Log.
func (l logAdapter) Propose(p actors.Proposal) error {
	proposal := l.proposal(&p)
	if err := l.raft.Propose(proposal); err != nil {
		return reason(err)
	}
	return nil
}

func (l logAdapter) proposal(p *actors.Proposal) raftlog.Proposal {
	proposal := raftlog.Proposal{
		Item:   p.Item,
		Weight: raftlog.Weight{Keys: p.Keys, Bytes: p.Bytes},
		Gone:   p.Gone,
	}
	if !p.Deadline.IsZero() {
		proposal.DeadlineMonotonic = l.raft.Monotonic() + time.Until(p.Deadline)
	}
	if dropped := p.Dropped; dropped != nil {
		proposal.Dropped = func(err error) { dropped(reason(err)) }
	}
	if riders := p.Riders; riders != nil {
		proposal.Riders = func() []raftlog.Proposal {
			offered := riders()
			proposals := make([]raftlog.Proposal, len(offered))
			for i := range offered {
				proposals[i] = l.proposal(&offered[i])
			}
			return proposals
		}
	}
	return proposal
}

// Now implements actors.Log.
func (l logAdapter) Now() uint64 { return l.raft.Now() }

// Leads implements actors.Log.
func (l logAdapter) Leads() bool { return l.raft.Leads() }

// Settled implements actors.Log.
func (l logAdapter) Settled(id command.RequestID) { l.raft.Settled(id) }

// ReadIndex implements actors.Log.
func (l logAdapter) ReadIndex(ctx context.Context) error {
	_, err := l.raft.ReadIndex(ctx)
	if err != nil {
		return reason(err)
	}
	return nil
}

// CallLeader implements actors.Log. A group of one voter has no other leader: this node leads it, or nobody does.
func (l logAdapter) CallLeader(context.Context, []byte) ([]byte, error) {
	if err := l.raft.Failed(); err != nil {
		return nil, fmt.Errorf("%w: %w", actors.ErrStopping, err)
	}
	if l.raft.Leads() {
		return nil, actors.ErrRetry
	}
	return nil, actors.ErrNoLeader
}

// reason says in the broker's words why a command was not taken or not applied.
func reason(err error) error {
	if errors.Is(err, raftlog.ErrOutcomeUnknown) && !errors.Is(err, raftlog.ErrDeadline) {
		return fmt.Errorf("%w: %w", actors.ErrRetry, err)
	}
	for _, known := range []struct{ log, broker error }{
		{raftlog.ErrQueueFull, actors.ErrOverloaded},
		{raftlog.ErrNoLeader, actors.ErrNoLeader},
		{raftlog.ErrDeadline, actors.ErrDeadline},
		{raftlog.ErrGone, actors.ErrGone},
		{raftlog.ErrTooLarge, actors.ErrTooLarge},
		{context.DeadlineExceeded, actors.ErrDeadline},
		{raftlog.ErrNotLeader, actors.ErrRetry},
		{raftlog.ErrClosed, actors.ErrRetry},
		{raftlog.ErrStorage, actors.ErrRetry},
		{raftlog.ErrApply, actors.ErrRetry},
	} {
		if errors.Is(err, known.log) {
			return fmt.Errorf("%w: %w", known.broker, err)
		}
	}
	return err
}
