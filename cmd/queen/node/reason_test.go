package node

import (
	"errors"
	"testing"

	"queen/actors"
	"queen/raftlog"
)

// TestReasonsInTheWordsOfTheBroker: what the log says is what a client hears of in the end (cluster 8.5).
func TestReasonsInTheWordsOfTheBroker(t *testing.T) {
	unknown := raftlog.ErrOutcomeUnknown
	for name, c := range map[string]struct{ log, want error }{
		"too many commands":                      {raftlog.ErrQueueFull, actors.ErrOverloaded},
		"too many, after a leader change":        {errors.Join(raftlog.ErrQueueFull, unknown), actors.ErrRetry},
		"no leader":                              {raftlog.ErrNoLeader, actors.ErrNoLeader},
		"deadline":                               {raftlog.ErrDeadline, actors.ErrDeadline},
		"deadline of what was proposed":          {errors.Join(raftlog.ErrDeadline, unknown), actors.ErrDeadline},
		"client gone":                            {raftlog.ErrGone, actors.ErrGone},
		"too large":                              {raftlog.ErrTooLarge, actors.ErrTooLarge},
		"another leader":                         {raftlog.ErrNotLeader, actors.ErrRetry},
		"stopping":                               {raftlog.ErrClosed, actors.ErrRetry},
		"storage failed":                         {raftlog.ErrStorage, actors.ErrRetry},
		"apply failed":                           {raftlog.ErrApply, actors.ErrRetry},
		"apply failed, the command was proposed": {errors.Join(raftlog.ErrApply, unknown), actors.ErrRetry},
	} {
		if got := reason(c.log); !errors.Is(got, c.want) || !errors.Is(got, c.log) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
