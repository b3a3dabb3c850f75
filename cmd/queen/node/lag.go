package node

import (
	"sync"
	"time"

	"queen/raftlog"
)

// lag measures how far this node is behind the leader (cluster 7.1).
type lag struct {
	mu sync.Mutex
	// levelAt is when this node was last seen level with the leader's commit.
	levelAt time.Time
}

// measure returns the entries that are committed and not applied here, and the ms since there were none. A node that has never
// been level counts from the Unix epoch.
func (l *lag) measure(status *raftlog.Status, self uint64) (entries uint64, ms int64) {
	if status.LeaderID != self && status.CommitIndex > status.AppliedIndex {
		entries = status.CommitIndex - status.AppliedIndex
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if entries == 0 && status.AppliedIndex > 0 {
		l.levelAt = now
		return 0, 0
	}
	if l.levelAt.IsZero() {
		return entries, now.UnixMilli()
	}
	return entries, now.Sub(l.levelAt).Milliseconds()
}
