package node

import (
	"slices"
	"testing"

	"queen/cmd/queen/config"
	"queen/raftlog"
)

func healthy() readiness {
	return readiness{identity: identityOK, voter: true, leader: true, led: true, quorumAckMs: 40}
}

// TestReadyRule is the table of cluster 7.2 at its defaults, if not said otherwise.
func TestReadyRule(t *testing.T) {
	defaults := limits{quorumMs: 5000, lagMs: 2000, lagEntries: 1000}
	unchecked := limits{quorumMs: 0, lagMs: 2000, lagEntries: 1000}
	for name, c := range map[string]struct {
		change func(*readiness)
		limits limits
		want   []string
	}{
		"healthy":              {func(*readiness) {}, defaults, nil},
		"booting":              {func(r *readiness) { r.booting = true }, defaults, []string{"booting"}},
		"waiting to be added":  {func(r *readiness) { *r = readiness{booting: true, identity: identityJoining, quorumAckMs: -1} }, defaults, []string{"booting", "identity", "no_leader", "quorum"}},
		"removed":              {func(r *readiness) { r.identity = identityRemoved }, defaults, []string{"identity"}},
		"learner behind":       {func(r *readiness) { r.voter = false }, defaults, []string{"lag"}},
		"learner caught up":    {func(r *readiness) { r.voter, r.caughtUp = false, true }, defaults, nil},
		"failover":             {func(r *readiness) { r.leader, r.quorumAckMs = false, 1900 }, defaults, nil},
		"no leader yet":        {func(r *readiness) { r.leader, r.led, r.quorumAckMs = false, false, -1 }, defaults, []string{"no_leader", "quorum"}},
		"quorum at the limit":  {func(r *readiness) { r.quorumAckMs = 5000 }, defaults, nil},
		"lost majority":        {func(r *readiness) { r.leader, r.quorumAckMs = false, 5001 }, defaults, []string{"quorum"}},
		"quorum unchecked":     {func(r *readiness) { r.quorumAckMs = 60_000 }, unchecked, nil},
		"unchecked, no leader": {func(r *readiness) { r.leader = false }, unchecked, []string{"no_leader"}},
		"many entries, just":   {func(r *readiness) { r.lagEntries, r.lagMs = 1_000_000, 2000 }, defaults, nil},
		"few entries, long":    {func(r *readiness) { r.lagEntries, r.lagMs = 999, 600_000 }, defaults, nil},
		"behind":               {func(r *readiness) { r.lagEntries, r.lagMs = 1000, 2001 }, defaults, []string{"lag"}},
		"thresholds of 0":      {func(r *readiness) { r.lagMs = 1 }, limits{quorumMs: 5000}, []string{"lag"}},
		"learner far behind":   {func(r *readiness) { r.voter, r.lagEntries, r.lagMs = false, 5000, 5000 }, defaults, []string{"lag"}},
		"storage failed":       {func(r *readiness) { r.storageFailed = true }, defaults, []string{"storage"}},
		"apply failed":         {func(r *readiness) { r.applyFailed = true }, defaults, []string{"apply_failure"}},
		"stopping":             {func(r *readiness) { r.stopping = true }, defaults, []string{"stopping"}},
	} {
		r := healthy()
		c.change(&r)
		if got := r.reasons(c.limits); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestLimitsAreTheSettings(t *testing.T) {
	got := limitsOf(&config.Config{RaftReadyQuorumMs: 1, RaftReadyLagMs: 2, RaftReadyLagEntries: 3})
	if got != (limits{quorumMs: 1, lagMs: 2, lagEntries: 3}) {
		t.Errorf("got %+v", got)
	}
}

func TestIdentityOfANode(t *testing.T) {
	member, stranger := &raftlog.Status{Member: true}, &raftlog.Status{}
	for name, c := range map[string]struct {
		inCluster, wasMember bool
		status               *raftlog.Status
		want                 string
	}{
		"empty directory":                 {false, false, nil, identityJoining},
		"empty directory with a log":      {false, false, stranger, identityJoining},
		"a member's directory, booting":   {true, true, nil, identityOK},
		"member":                          {true, true, member, identityOK},
		"adopted, its log is still short": {true, false, stranger, identityJoining},
		"removed":                         {true, true, stranger, identityRemoved},
		"added":                           {true, false, member, identityOK},
	} {
		if got := identityOf(c.inCluster, c.wasMember, c.status); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
