package actors

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// recording is a log with what applying it straight gave.
type recording struct {
	seed    uint64
	entries []logged
	results map[uint64]string
	hash    [32]byte
	dump    string
}

// recordedCommands is the size of the log, from QUEEN_TEST_LOG_COMMANDS.
func recordedCommands(t testing.TB, usual int) int {
	t.Helper()
	text := os.Getenv("QUEEN_TEST_LOG_COMMANDS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("read QUEEN_TEST_LOG_COMMANDS: %v", err)
	}
	return n
}

// recordedSeed is the seed of the log, from QUEEN_TEST_SEED.
func recordedSeed(t testing.TB, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv("QUEEN_TEST_SEED")
	if text == "" {
		return usual
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("read QUEEN_TEST_SEED: %v", err)
	}
	return seed
}

// record generates a log and applies it to a machine and to the model as it grows; every result must be the same, and in
// the end the whole state.
func record(t *testing.T, seed uint64, commands int) *recording {
	t.Helper()
	r := &recording{seed: seed}
	state := newModel()
	g := newGenerator(seed, state)
	m := newMachine(t, t.TempDir())
	for commands > 0 {
		e, l := g.entry(commands)
		m.mustApply(l)
		m.flush()
		r.entries = append(r.entries, *l)
		want := state.entry(e, l.term)
		g.learn(e, want)
		for i := range want {
			if _, skip := want[i].(notModelled); skip {
				continue
			}
			if got := m.results[l.first+uint64(i)]; got != canonical(want[i]) {
				t.Fatalf("seed %d, entry %d, command %d at %d: %T%+v\n got %s\nwant %s", seed, l.index, i,
					e.Header.StampMicros+uint64(i), e.Items[i].Command, e.Items[i].Command, got, canonical(want[i]))
			}
		}
		commands -= l.count
	}
	r.results, r.hash, r.dump = m.results, m.stateHash(), m.dump()
	if want := state.dump(); r.dump != want {
		t.Fatalf("seed %d: the state differs from the model's:\n%s", seed, difference(r.dump, want))
	}
	kinds := make([]string, 0, len(g.kinds))
	for kind, n := range g.kinds {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	slices.SortFunc(kinds, cmp.Compare[string])
	t.Logf("seed %d: %d entries, %v, %d partitions, %d letters left, now +%d s", seed, len(r.entries), kinds,
		len(state.partitions), len(state.letters), (g.now-generatedEpoch)/modelSecond)
	return r
}

// same compares another run over the same log with the recording.
func (r *recording) same(t *testing.T, m *machine) {
	t.Helper()
	for sequence, want := range r.results {
		if got := m.results[sequence]; got != want {
			t.Fatalf("seed %d: request %d\n got %s\nwant %s", r.seed, sequence, got, want)
		}
	}
	if m.stateHash() != r.hash {
		if dump := m.dump(); dump != r.dump {
			t.Fatalf("seed %d: the state differs:\n%s", r.seed, difference(dump, r.dump))
		}
		t.Fatalf("seed %d: the logical state is the same, but not its bytes", r.seed)
	}
}

// TestOneLogGivesOneStateHowever applies one log three times: straight, with restarts half of which are unclean, and
// through the model. Results and state are the same (I1, I2).
func TestOneLogGivesOneState(t *testing.T) {
	commands := recordedCommands(t, 10_000)
	r := record(t, recordedSeed(t, 20260101), commands)
	restarts := min(50, commands/1000)
	random := rand.New(rand.NewPCG(r.seed, 2))
	m := newMachine(t, t.TempDir())
	m.few()
	for at := 0; at < len(r.entries); at++ {
		m.mustApply(&r.entries[at])
		if random.IntN(3) == 0 {
			m.flush() // otherwise the next entry reads what has not been committed yet
		}
		switch random.IntN(max(1, len(r.entries)/(2*restarts))) {
		case 0:
			m.flush()
			m.durablePoint()
		case 1:
			m.flush()
			unclean := random.IntN(2) == 0
			if unclean {
				m.crash()
			} else {
				m.restart()
			}
			m.few()
			applied, _ := m.broker.AppliedIndex()
			if !unclean && applied != r.entries[at].index {
				t.Fatalf("seed %d: after a clean restart at entry %d the state is that of %d", r.seed, r.entries[at].index, applied)
			}
			at = slices.IndexFunc(r.entries, func(e logged) bool { return e.index == applied })
		}
	}
	m.flush()
	r.same(t, m)
}

// few leaves room for a handful of active partitions only, so that they are passivated all the time.
func (m *machine) few() { m.broker.machine.partitions = newPartitions(m.broker.system, 4) }
