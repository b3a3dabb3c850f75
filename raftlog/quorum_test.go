package raftlog

import (
	"fmt"
	"testing"
	"time"
)

func TestQuorumInstantIsThatOfTheSlowestVoterOfTheBestMajority(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		at   []time.Duration
		want time.Duration
	}{
		{nil, longAgo},
		{[]time.Duration{9 * s}, 9 * s},
		{[]time.Duration{9 * s, longAgo}, longAgo},
		{[]time.Duration{9 * s, 4 * s}, 4 * s},
		{[]time.Duration{9 * s, longAgo, longAgo}, longAgo},
		{[]time.Duration{9 * s, longAgo, 4 * s}, 4 * s},
		{[]time.Duration{9 * s, 5 * s, 4 * s}, 5 * s},
		{[]time.Duration{4 * s, 9 * s, 5 * s, 6 * s}, 5 * s},
		{[]time.Duration{9 * s, 8 * s, 3 * s, 2 * s, longAgo}, 3 * s},
	} {
		if got := quorumInstant(c.at); got != c.want {
			t.Errorf("%v: got %v, want %v", c.at, got, c.want)
		}
	}
}

// TestAnswerCountsFromTheSendingOfItsQuestion: cluster 9, and only for the leader and the term that it recognises.
func TestAnswerCountsFromTheSendingOfItsQuestion(t *testing.T) {
	const sent = 10 * time.Second
	answer := func(leader, term uint64, heardMs int64) *report {
		return &report{frame: MemberFrame{Leader: leader, Term: term, HeardMs: heardMs}, sent: sent, heard: sent + time.Second}
	}
	for name, c := range map[string]struct {
		report *report
		want   time.Duration
	}{
		"no answer":           {nil, longAgo},
		"recognised just now": {answer(1, 5, 0), sent},
		"heard a while ago":   {answer(1, 5, 70), sent - 70*time.Millisecond},
		"never heard":         {answer(1, 5, -1), longAgo},
		"another leader":      {answer(2, 5, 0), longAgo},
		"no leader":           {answer(0, 5, 0), longAgo},
		"an earlier term":     {answer(1, 4, 0), longAgo},
	} {
		if got := c.report.recognised(1, 5); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestSkewsOfPeersAreAgainstTheOwnClock(t *testing.T) {
	states := []MemberState{
		{ID: 1, Live: true, LastAckMs: 5, ClockSkewMs: 0},
		{ID: 2, Live: true, LastAckMs: 7, ClockSkewMs: -30},
		{ID: 3, LastAckMs: 9000, ClockSkewMs: 100},
		{ID: 4, LastAckMs: -1},
	}
	want := []Peer{
		{ID: 1, Live: true, LastAckMs: 5, SkewMs: 30, Measured: true},
		{ID: 3, LastAckMs: 9000, SkewMs: 130, Measured: true},
		{ID: 4, LastAckMs: -1},
	}
	got := peersOf(states, 2)
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	if got := peersOf(states, 4)[0]; got.Measured {
		t.Errorf("a node that the leader has not heard knows %+v", got)
	}
}

// TestQuorumAgeFollowsTheMajority: cluster 7.2, what /health goes by.
func TestQuorumAgeFollowsTheMajority(t *testing.T) {
	c := openCluster(t)
	leader := c.leader(t, -1)
	fresh := func(i int) bool {
		status := c.nodes[i].Status()
		return status.LeaderID != 0 && status.QuorumAckMs >= 0 && status.QuorumAckMs < 500 && c.nodes[i].QuorumAge() < time.Second
	}
	for i := range c.nodes {
		eventually(t, "an acknowledgement", func() bool { return fresh(i) })
	}
	for i := range c.nodes {
		c.isolate(i)
	}
	for i := range c.nodes {
		last := int64(0)
		eventually(t, fmt.Sprintf("node %d to notice that there is no majority", i+1), func() bool {
			status := c.nodes[i].Status()
			if status.QuorumAckMs < last {
				t.Fatalf("the age falls from %d to %d", last, status.QuorumAckMs)
			}
			last = status.QuorumAckMs
			return last > 1000 && status.LeaderID == 0 && c.nodes[i].QuorumAge() > time.Second
		})
	}
	c.connect((leader + 1) % 3)
	c.connect((leader + 2) % 3)
	c.isolate(leader) // connecting a node connects it to all
	for _, i := range []int{(leader + 1) % 3, (leader + 2) % 3} {
		eventually(t, "an acknowledgement of the new majority", func() bool { return fresh(i) })
	}
	if fresh(leader) {
		t.Error("a node that hears nobody knows of an acknowledgement")
	}
}
