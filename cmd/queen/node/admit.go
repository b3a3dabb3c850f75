package node

import (
	"errors"
	"fmt"
	"time"

	"queen/httpfront"
	"queen/raftlog"
	"queen/raftlog/command"
)

// admitter lets commands of other nodes in at the leader, where they share the byte permits with its own clients (cluster 11.1).
type admitter struct {
	ask func(node uint64, bytes int64, hold time.Duration, admitted func(release func(), refusal error))
	// hold is QUEEN_RAFT_ADMIT_FWD_HOLD_MS.
	hold time.Duration
}

// admit is raftlog.Options.Admit.
func (a *admitter) admit(c *raftlog.Foreign, admitted func(release func(), refusal error)) {
	if !needsRoom(command.ItemOp(c.Encoded)) {
		admitted(nil, nil)
		return
	}
	hold := a.hold
	if c.Left > 0 {
		hold = min(hold, c.Left/2)
	}
	a.ask(c.From, int64(len(c.Encoded)), hold, func(release func(), refusal error) {
		admitted(release, admitReason(refusal))
	})
}

// admitReason says in the words of the log why there is no room.
func admitReason(refusal error) error {
	switch {
	case errors.Is(refusal, httpfront.ErrNoRoom):
		return fmt.Errorf("%w: %w", raftlog.ErrQueueFull, refusal)
	case errors.Is(refusal, httpfront.ErrStopping):
		return fmt.Errorf("%w: %w", raftlog.ErrClosed, refusal)
	}
	return refusal
}

// needsRoom tells whether commands of a kind need permits, as the requests do that they are made of: what an ack or a pop frees must
// never wait for room.
func needsRoom(op command.Opcode) bool {
	switch op {
	case command.OpPush, command.OpTransaction, command.OpTrace, command.OpDeadLetterReplay:
		return true
	}
	return false
}
