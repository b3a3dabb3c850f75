package raftlog

import (
	"errors"
	"fmt"
)

// Reasons why a proposal was refused by Propose or reported to Dropped. All of them mean that the proposal is not
// applied, unless ErrOutcomeUnknown is in the chain as well.
var (
	// ErrQueueFull says that CommandQueueDepth commands wait already.
	ErrQueueFull = errors.New("the command queue is full")
	// ErrNotLeader says that another node leads the group; the same request goes to that node.
	ErrNotLeader = errors.New("this node does not lead the group")
	// ErrNoLeader says that no leader became known in time.
	ErrNoLeader = errors.New("the group has no leader")
	// ErrClosed says that the node is stopping.
	ErrClosed = errors.New("the node is stopping")
	// ErrDeadline says that the deadline of the proposal passed before it was proposed.
	ErrDeadline = errors.New("the deadline passed before the command was proposed")
	// ErrGone says that nobody waits for the proposal any more.
	ErrGone = errors.New("nobody waits for the command any more")
	// ErrTooLarge says that the command fits into no entry.
	ErrTooLarge = errors.New("the command is larger than an entry may be")
	// ErrStorage says that the log or the store of this node cannot be trusted to keep what it is given.
	ErrStorage = errors.New("the storage of this node failed")
	// ErrApply says that an entry could not be applied and this node has stopped applying.
	ErrApply = errors.New("an entry could not be applied")
	// ErrOutcomeUnknown marks a reason of a proposal that had been proposed before: it may still be applied.
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

// ErrDamaged is returned by Open for a directory whose files are not what was written: a checksum differs, a file is
// missing, or log and store do not fit together. The text names the file and, where there is one, the index.
var ErrDamaged = errors.New("the data directory is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// unknownOutcome adds ErrOutcomeUnknown to the reason of a proposal that had been proposed before.
func unknownOutcome(reason error) error {
	return fmt.Errorf("%w: %w", reason, ErrOutcomeUnknown)
}
