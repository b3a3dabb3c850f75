//go:build actorkill

package actors

import (
	"math/rand/v2"
	"testing"
)

// striker kills one passage in oneIn, from a seed. The kinds that pass seldom are struck more often.
func striker(seed uint64, oneIn int) func(Kind) bool {
	random := rand.New(rand.NewPCG(seed, 3))
	return func(kind Kind) bool {
		rate := oneIn
		switch kind {
		case KindApply, KindDeadLetters, KindTraces:
			rate = max(1, oneIn/8)
		}
		return random.IntN(rate) == 0
	}
}

// TestKilledActorsChangeNothing applies one log with and without deaths of random actors, some commands with two in a row.
// Results and state are the same, byte by byte (I10).
func TestKilledActorsChangeNothing(t *testing.T) {
	r := record(t, recordedSeed(t, 20260102), recordedCommands(t, 10_000))
	m := newMachine(t, t.TempDir())
	m.broker.system.chaos.strikes = striker(r.seed, 60)
	random := rand.New(rand.NewPCG(r.seed, 2))
	for i := range r.entries {
		m.mustApply(&r.entries[i])
		if random.IntN(3) == 0 {
			m.flush()
		}
	}
	m.flush()
	r.same(t, m)
	c := &m.broker.system.chaos
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range m.broker.system.Kinds() {
		if c.killed[kind] < 10 {
			t.Errorf("seed %d: only %d actors of kind %s were killed", r.seed, c.killed[kind], kind)
		}
	}
	t.Logf("seed %d: killed %v", r.seed, c.killed)
}

// TestKilledGroupsLoseNothing kills actors of every kind while pops, acks and pushes go on: no pop hangs, nothing is lost or
// delivered twice.
func TestKilledGroupsLoseNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		oneIn int
		only  Kind
	}{{"groups", 15, KindGroup}, {"all kinds", 100, ""}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			strikes := striker(recordedSeed(t, 20260103), c.oneIn)
			chaos := &r.system.chaos
			chaos.mu.Lock()
			chaos.strikes = func(kind Kind) bool { return (c.only == "" || kind == c.only) && strikes(kind) }
			chaos.mu.Unlock()
			r.consumeUnder(t, func() {})
			chaos.mu.Lock()
			defer chaos.mu.Unlock()
			if chaos.killed[KindGroup] < 10 {
				t.Errorf("only %v were killed", chaos.killed)
			}
		})
	}
}

// TestKilledGroupsLoseNothingOfOtherNodes kills actors of all members while pops of all of them wait at the leader, and
// leadership moves.
func TestKilledGroupsLoseNothingOfOtherNodes(t *testing.T) {
	c := newCluster(t, 3)
	seed := recordedSeed(t, 20260104)
	for i, m := range c.members {
		chaos := &m.system.chaos
		chaos.mu.Lock()
		chaos.strikes = striker(seed+uint64(i), 60)
		chaos.mu.Unlock()
	}
	ticks := 0
	consumeThrough(t, c.rigs(), func() {
		if ticks++; ticks%100 == 0 {
			c.elect(ticks / 100 % 3)
		}
	})
	c.forgotten()
	c.sameState()
	for i, m := range c.members {
		chaos := &m.system.chaos
		chaos.mu.Lock()
		if chaos.killed[KindGroup] < 10 {
			t.Errorf("of member %d only %v were killed", i, chaos.killed)
		}
		chaos.mu.Unlock()
	}
}
