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
	if !p.Arrived.IsZero() {
		proposal.ArrivedMonotonic = l.raft.Monotonic() - time.Since(p.Arrived)
	}
	if dropped := p.Dropped; dropped != nil {
		proposal.Dropped = func(err error) { dropped(reason(err)) }
	}
	proposal.Riders = l.riders(p.Riders)
	return proposal
}

// riders converts what asks for the commands that follow another one; nil stays nil.
func (l logAdapter) riders(ask func() []actors.Proposal) func() []raftlog.Proposal {
	if ask == nil {
		return nil
	}
	return func() []raftlog.Proposal {
		offered := ask()
		proposals := make([]raftlog.Proposal, len(offered))
		for i := range offered {
			proposals[i] = l.proposal(&offered[i])
		}
		return proposals
	}
}

// Now implements actors.Log.
func (l logAdapter) Now() uint64 { return l.raft.Now() }

// Leads implements actors.Log.
func (l logAdapter) Leads() bool { return l.raft.Leads() }

// Settled implements actors.Log.
func (l logAdapter) Settled(id command.RequestID) { l.raft.Settled(id) }

// ReadIndex implements actors.Log.
func (l logAdapter) ReadIndex(ctx context.Context) (nowMicros uint64, err error) {
	_, nowMicros, err = l.raft.ReadPoint(ctx)
	if err != nil {
		return 0, reason(err)
	}
	return nowMicros, nil
}

// CallLeader implements actors.Log. Whatever goes wrong at the leader, or on the way to it, the next try may meet another one.
func (l logAdapter) CallLeader(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := l.raft.CallLeader(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", callReason(err), err)
	}
	return answer, nil
}

// callReason says in the broker's words why a call has no answer. What the leader says of itself comes as ErrNotLeader.
func callReason(err error) error {
	switch {
	case errors.Is(err, raftlog.ErrNotLeader):
		return actors.ErrRetry
	case errors.Is(err, raftlog.ErrNoLeader):
		return actors.ErrNoLeader
	case errors.Is(err, raftlog.ErrClosed), errors.Is(err, raftlog.ErrStorage), errors.Is(err, raftlog.ErrApply):
		return actors.ErrStopping
	}
	return actors.ErrRetry
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
