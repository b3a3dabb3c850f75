package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"queen/actors"
	"queen/raftlog"
)

// TestCallReasons: only what this node says of its own log ends a pop; what the leader says of itself sends it to the next.
func TestCallReasons(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{raftlog.ErrNotLeader, actors.ErrRetry},
		{raftlog.ErrNoLeader, actors.ErrNoLeader},
		{errors.Join(raftlog.ErrNoLeader, context.DeadlineExceeded), actors.ErrNoLeader},
		{raftlog.ErrClosed, actors.ErrStopping},
		{fmt.Errorf("write log: %w", raftlog.ErrStorage), actors.ErrStopping},
		{&raftlog.ApplyFailure{Err: raftlog.ErrApply}, actors.ErrStopping},
		{fmt.Errorf("%w: the leader answered: %w", raftlog.ErrNotLeader, raftlog.ErrClosed), actors.ErrRetry},
		{context.Canceled, actors.ErrRetry},
		{errors.New("the leader cannot read the call"), actors.ErrRetry},
	} {
		if got := callReason(c.err); !errors.Is(got, c.want) {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}
