package ledger

import (
	"slices"
	"testing"
	"time"
)

// clusterStory is the story told by three nodes, without processes that end.
type clusterStory struct {
	*story
	others map[string]State
}

func newClusterStory() *clusterStory {
	c := &clusterStory{story: newStory(), others: map[string]State{}}
	c.books.Lives = nil
	c.books.Replicated = &Replication{Deadline: ms(100)}
	c.books.Faults = []Span{between(40, 61), between(310, 321)}
	// The first write after each fault bounds what was open in it.
	later := pushed("late", "late", "queued", 6)
	c.books.Pushes = append(c.books.Pushes, Push{between(5000, 5010), Done, []PushItem{later}})
	c.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 7, append(l.Records, Record{6, "late", "late"}) })
	c.state.Positions[storyReader] = 7
	for _, node := range []string{"node 2", "node 3"} {
		c.others[node] = newClusterState(c.state)
	}
	return c
}

// newClusterState copies a state as deeply as the lies below reach.
func newClusterState(of State) State {
	state := State{Logs: map[Partition]Log{}, DeadLetters: slices.Clone(of.DeadLetters), Positions: map[Reader]int64{}}
	for partition, log := range of.Logs {
		log.Records = slices.Clone(log.Records)
		state.Logs[partition] = log
	}
	for reader, next := range of.Positions {
		state.Positions[reader] = next
	}
	return state
}

// judge finds what a run would find: every node against the others, and every node against the books.
func (c *clusterStory) judge() []Violation {
	states := map[string]State{"node 1": c.state}
	for node, state := range c.others {
		states[node] = state
	}
	found := CheckReplicas(states)
	for _, state := range states {
		found = append(found, Check(c.books, state)...)
	}
	return found
}

func (c *clusterStory) changeOther(node string, partition Partition, change func(*Log)) {
	log := c.others[node].Logs[partition]
	change(&log)
	c.others[node].Logs[partition] = log
}

func TestTrueClusterHistoryHasNoViolation(t *testing.T) {
	for _, violation := range newClusterStory().judge() {
		t.Error(violation)
	}
}

func TestBrokenClusterHistoryIsRejected(t *testing.T) {
	for _, lie := range []struct {
		name, rule string
		change     func(*clusterStory)
	}{
		{"a node lacks the last message", "divergent", func(c *clusterStory) {
			c.changeOther("node 3", storyPartition, func(l *Log) { l.Tail, l.Records = 6, l.Records[:6] })
		}},
		{"a node lacks a partition", "divergent", func(c *clusterStory) { delete(c.others["node 2"].Logs, storyOut) }},
		{"a node holds two messages in another order", "divergent", func(c *clusterStory) {
			c.changeOther("node 2", storyOut, func(l *Log) { l.Records[0], l.Records[1] = Record{0, "x1", "u1"}, Record{1, "x0", "u0"} })
		}},
		{"a node holds another payload", "divergent", func(c *clusterStory) {
			c.changeOther("node 3", storyPartition, func(l *Log) { l.Records[4].Token = "t4'" })
		}},
		{"a node has removed the beginning of a log", "divergent", func(c *clusterStory) {
			c.changeOther("node 3", storyPartition, func(l *Log) { l.LogStart = 1 })
		}},
		{"a group stands elsewhere on one node", "divergent", func(c *clusterStory) { c.others["node 2"].Positions[storyReader] = 5 }},
		{"a group is unknown to one node", "divergent", func(c *clusterStory) { delete(c.others["node 2"].Positions, storyReader) }},
		{"a node lacks a dead letter", "divergent", func(c *clusterStory) {
			state := c.others["node 3"]
			state.DeadLetters = nil
			c.others["node 3"] = state
		}},
		{"a node counts the failures of a dead letter otherwise", "divergent", func(c *clusterStory) { c.others["node 3"].DeadLetters[0].RetryCount = 0 }},
		{"a push was acknowledged by a minority and is nowhere after the healing", "lost", func(c *clusterStory) {
			c.books.Pushes = append(c.books.Pushes, Push{between(5100, 5110), Done, []PushItem{pushed("minor", "minor", "queued", 7)}})
		}},
		{"a push was acknowledged by a minority, which kept it", "divergent", func(c *clusterStory) {
			c.books.Pushes = append(c.books.Pushes, Push{between(5100, 5110), Done, []PushItem{pushed("minor", "minor", "queued", 7)}})
			c.setLog(storyPartition, func(l *Log) { l.Tail, l.Records = 8, append(l.Records, Record{7, "minor", "minor"}) })
		}},
		{"two leaders gave one offset to two pushes", "lost", func(c *clusterStory) {
			c.books.Pushes = append(c.books.Pushes, Push{between(5000, 5011), Done, []PushItem{pushed("minor", "minor", "queued", 6)}})
		}},
		{"a push that was sent again through another node is stored twice", "duplicate", func(c *clusterStory) {
			again := Push{between(5020, 5030), Done, []PushItem{pushed("late", "late'", "queued", 7)}}
			c.books.Pushes = append(c.books.Pushes, again)
			grow := func(l *Log) { l.Tail, l.Records = 8, append(slices.Clip(l.Records), Record{7, "late", "late'"}) }
			c.setLog(storyPartition, grow)
			c.changeOther("node 2", storyPartition, grow)
			c.changeOther("node 3", storyPartition, grow)
		}},
		{"a transaction is stored in part on one node", "transaction", func(c *clusterStory) {
			c.books.Transactions[0].Outcome = Unknown
			c.changeOther("node 2", storyOut, func(l *Log) { l.Tail, l.Records = 1, l.Records[:1] })
		}},
		{"two nodes leased one message at the same time", "double lease", func(c *clusterStory) {
			c.books.Pops = append(c.books.Pops, pop(between(141, 148), "L1 of node 2", 1, 0, 1))
		}},
		{"a message was completed through two nodes", "cursor", func(c *clusterStory) {
			c.books.Pops = append(c.books.Pops, pop(between(141, 148), "L1 of node 2", 1, 0, 1))
			c.books.Acks = append(c.books.Acks, ack(between(155, 165), "L1 of node 2", acked("completed", released, 0, 1)...))
		}},
		{"a message came back through another node after its ack", "redelivery", func(c *clusterStory) {
			c.books.Pops = append(c.books.Pops, pop(between(4000, 4010), "L7", 2, 5))
		}},
		{"an ack of unknown outcome took effect after a later write had been acknowledged", "cursor", func(c *clusterStory) {
			c.books.Acks = c.books.Acks[:4] // the one of unknown outcome is the last
			c.books.Pops = append(c.books.Pops,
				pop(between(5020, 5030), "L6", 2, 5, 6), // it has not taken effect here
				pop(between(7100, 7110), "L7", 1, 6))    // and has here
		}},
	} {
		t.Run(lie.name, func(t *testing.T) {
			c := newClusterStory()
			lie.change(c)
			found := c.judge()
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == lie.rule }) {
				t.Fatalf("want a finding of the rule %q, got %v", lie.rule, found)
			}
		})
	}
}

func TestReplicatedCallIsSettledByALaterWrite(t *testing.T) {
	done := func(start, end int) Push {
		return Push{between(start, end), Done, []PushItem{{Status: "queued"}}}
	}
	for name, example := range map[string]struct {
		call   Span
		faults []Span
		pushes []Push
		want   time.Duration
	}{
		"the first write behind the deadline":      {between(10, 20), nil, []Push{done(100, 110), done(1121, 1130), done(1125, 1140)}, ms(1130)},
		"a write that was sent before it":          {between(10, 20), nil, []Push{done(1119, 1130)}, forever},
		"the earliest answer counts":               {between(10, 20), nil, []Push{done(1121, 1190), done(1125, 1140)}, ms(1140)},
		"a duplicate is no write":                  {between(10, 20), nil, []Push{{between(1121, 1130), Done, []PushItem{{Status: "duplicate"}}}}, forever},
		"a write of unknown outcome is none":       {between(10, 20), nil, []Push{{between(1121, 1130), Unknown, []PushItem{{Status: "queued"}}}}, forever},
		"a call that is still open":                {Span{Start: ms(10)}, nil, []Push{done(5000, 5010)}, forever},
		"the deadline begins after the fault":      {between(10, 20), []Span{between(15, 500)}, []Push{done(1121, 1130), done(1600, 1610)}, ms(1610)},
		"and after the fault that follows at once": {between(10, 20), []Span{between(15, 500), between(490, 900)}, []Push{done(1700, 1710), done(2000, 2010)}, ms(2010)},
		"a fault before the call is over":          {between(510, 520), []Span{between(15, 500)}, []Push{done(1621, 1630)}, ms(1630)},
		"a fault that lasts":                       {between(10, 20), []Span{between(15, 0)}, []Push{done(5000, 5010)}, forever},
	} {
		books := Books{Replicated: &Replication{Deadline: ms(100)}, Faults: example.faults, Pushes: example.pushes}
		if got := books.effectEnd(example.call, books.writeGrace()); got != example.want {
			t.Errorf("%s: want %v, got %v", name, example.want, got)
		}
	}
}

func TestPrefixesOfTwoNodesAgree(t *testing.T) {
	log := func(tokens ...string) map[Partition]Log {
		one := Log{}
		for i, token := range tokens {
			one.Records = append(one.Records, Record{int64(i), token, token})
		}
		return map[Partition]Log{storyPartition: one}
	}
	if found := CheckPrefixes("a", "b", log("x", "y"), log("x")); len(found) > 0 {
		t.Errorf("one node knows more, got %v", found)
	}
	if found := CheckPrefixes("a", "b", log("x", "y"), log("x", "z", "w")); len(found) != 1 || found[0].Rule != "divergent" {
		t.Errorf("want one divergence, got %v", found)
	}
}
