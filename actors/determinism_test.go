package actors

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"queen/raftlog/command"
)

// recording is a log with what applying it straight gave.
type recording struct {
	seed    uint64
	entries []logged
	results map[answered]string
	hash    [32]byte
	dump    string
	// outcomes are the rows of the request-id window, reached counts what happened to them.
	outcomes string
	reached  modelReached
	// addresses are where the traces are.
	addresses []traceAddress
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
		want := state.entry(e, l.index, l.term)
		g.learn(e, want)
		for i := range want {
			if _, skip := want[i].(notModelled); skip || l.requests[i] == (command.RequestID{}) {
				continue
			}
			if slices.Contains(l.requests[i+1:], l.requests[i]) {
				continue // what came of it the last time in the entry is what is kept, and may be that it is answered
			}
			if got := m.results[answered{l.index, l.requests[i]}]; got != canonical(want[i]) {
				t.Fatalf("seed %d, entry %d, command %d at %d: %T%+v\n got %s\nwant %s", seed, l.index, i,
					e.Header.StampMicros+uint64(i), e.Items[i].Command, e.Items[i].Command, got, canonical(want[i]))
			}
		}
		commands -= len(e.Items)
	}
	r.results, r.hash, r.addresses = m.results, m.stateHash(), state.addresses()
	r.dump, r.outcomes = m.dump(r.addresses...), m.dumpOutcomes()
	if want := state.dump(); r.dump != want {
		t.Fatalf("seed %d: the state differs from the model's:\n%s", seed, difference(r.dump, want))
	}
	if want := state.outcomes.dump(); r.outcomes != want {
		t.Fatalf("seed %d: the outcomes differ from the model's:\n%s", seed, difference(r.outcomes, want))
	}
	r.reached = state.outcomes.reached
	kinds := make([]string, 0, len(g.kinds))
	for kind, n := range g.kinds {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	slices.SortFunc(kinds, cmp.Compare[string])
	t.Logf("seed %d: %d entries, %v, %d partitions, %d letters left, requests %+v, now +%d s", seed, len(r.entries), kinds,
		len(state.partitions), len(state.letters), r.reached, (g.now-generatedEpoch)/modelSecond)
	return r
}

// outcomes are what a recorded log must have led to: a log that never gets there proves nothing about it.
var outcomes = [...]struct{ kind, part string }{
	{"PushResult", `"Duplicates":null`}, {"PushResult", `"Item":`},
	{"AckResult", `"Error":0`}, {"AckResult", `"Error":1`}, {"AckResult", `"Error":2`}, {"AckResult", `"Error":3`},
	{"AckResult", `"Error":4`}, {"AckResult", `"Noop":true`}, {"AckResult", `"DeadLettered":true`},
	{"AckResult", `"LeaseReleased":true`},
	{"ClaimResult", `"Attempt":1`}, {"ClaimResult", `"Attempt":3`}, {"ClaimResult", `"DeliverLastOnly":true`},
	{"ClaimResult", `"Batches":null`},
	{"ExtendResult", `"Renewed":0`}, {"ExtendResult", `"Renewed":2`}, {"HandBackResult", `"Undone":1`},
	{"TransactionResult", `"Reason":""`}, {"TransactionResult", "rejected_ack"}, {"TransactionResult", "duplicate"},
	{"TransactionResult", "queue_not_found"}, {"TransactionResult", "bad_request"},
	{"DeadLetterReplayResult", `"Outcome":0`}, {"DeadLetterReplayResult", `"Outcome":1`},
	{"DeadLetterDeleteResult", `"Deleted":1`}, {"RetainResult", `"Appends":1`}, {"RetainResult", `"More":[`},
	{"SweepResult", `"More":true`}, {"SweepResult", `"More":false`}, {"MoveChunksResult", `"Bytes":0`}, {"MoveChunksResult", `"More":true`},
	{"DeleteQueueResult", "true"}, {"DeleteGroupResult", `"MetadataDeleted":true`}, {"SeekResult", `"Updated":1`},
	{"ChangeSubscriptionResult", `"Updated":1`}, {"Refusal", "outcome_unknown"}, {"Refusal", "membership_changed"}, {"Refusal", "in_flight"}, {"TraceResult", `"Foreign":true`}, {"TraceSweepResult", `"More":true`},
	{"KVResult", `"Reason":1`}, {"KVResult", `"Reason":2`}, {"KVResult", `"Reason":3`}, {"KVResult", `"Reason":4`}, {"KVResult", `"Reason":5`},
	{"KVResult", `"Lost":{`}, {"KVResult", `"Truncated":true`}, {"KVSweepResult", `"More":true`}, {"KVSweepResult", `"More":false`},
	{"TransactionResult", "kv_precondition"}, {"TransactionResult", `"Found":true`},
	{"Refusal", "kv_disabled"}, {"TransactionResult", "kv_disabled"},
	{"LockResult", `"Done":true`}, {"LockResult", `"Already":true`}, {"LockResult", `"Done":false`},
	{"TimersResult", `"Status":1`}, {"TimersResult", `"Status":2`}, {"TimersResult", `"Status":3`}, {"TimersResult", `"Status":4`},
	{"TimersResult", `"Fired":true`}, {"TimersResult", `"Fired":false`}, {"Refusal", "timers_disabled"}, {"Refusal", "timers_bad_op"},
	{"TimerFireResult", `"Fate":1`}, {"TimerFireResult", `"Fate":2`}, {"TimerFireResult", `"Fate":3`}, {"TimerFireResult", `"Fate":4`},
	{"TimerFireResult", `"Fate":5`}, {"TimerFireResult", `"Fate":6`}, {"TimerFireResult", `"Fate":7`}, {"TimerFireResult", `"Fate":9`},
	{"TransactionResult", "timers_disabled"}, {"TransactionResult", `"Timers":[`}, {"SwitchesResult", `"Off":0`},
}

// mustReach fails when the log has not led to one of the outcomes.
func (r *recording) mustReach(t *testing.T) {
	t.Helper()
	for _, outcome := range outcomes {
		count := 0
		for _, result := range r.results {
			if strings.HasPrefix(result, "*command."+outcome.kind+"{") && strings.Contains(result, outcome.part) {
				count++
			}
		}
		if count == 0 {
			t.Errorf("seed %d: no %s of the log has %s", r.seed, outcome.kind, outcome.part)
		}
	}
	reached := r.reached
	if min(reached.repeated, reached.repeatedInEntry, reached.answered, reached.unwanted, reached.old) == 0 {
		t.Errorf("seed %d: something has never happened to a request: %+v", r.seed, reached)
	}
}

// same compares another run over the same log with the recording.
func (r *recording) same(t *testing.T, m *machine) {
	t.Helper()
	for request, want := range r.results {
		if got := m.results[request]; got != want {
			t.Fatalf("seed %d: request %+v\n got %s\nwant %s", r.seed, request, got, want)
		}
	}
	if m.stateHash() != r.hash {
		if outcomes := m.dumpOutcomes(); outcomes != r.outcomes {
			t.Fatalf("seed %d: the outcomes differ:\n%s", r.seed, difference(outcomes, r.outcomes))
		}
		if dump := m.dump(r.addresses...); dump != r.dump {
			t.Fatalf("seed %d: the state differs:\n%s", r.seed, difference(dump, r.dump))
		}
		t.Fatalf("seed %d: the logical state is the same, but not its bytes", r.seed)
	}
}

// TestOneLogGivesOneState applies one log three times: straight, with restarts half of which are unclean, and
// through the model. Results and state are the same (I1, I2).
func TestOneLogGivesOneState(t *testing.T) {
	commands := recordedCommands(t, 10_000)
	r := record(t, recordedSeed(t, 20260101), commands)
	r.mustReach(t)
	restarts := min(50, commands/1000)
	every := max(1, len(r.entries)/(2*restarts))
	random := rand.New(rand.NewPCG(r.seed, 2))
	m := newMachine(t, t.TempDir())
	m.few()
	restarted := 0
	for at := 0; at < len(r.entries); at++ {
		m.mustApply(&r.entries[at])
		if random.IntN(3) == 0 {
			m.flush() // otherwise the next entry reads what has not been committed yet
		}
		// A term begins behind a restart, as in life; the others come at random.
		newTerm := at+1 < len(r.entries) && r.entries[at+1].term > r.entries[at].term
		switch roll := random.IntN(every); {
		case newTerm || roll == 0:
			m.flush()
			at = m.again(r.entries, at, random.IntN(2) == 0)
			restarted++
		case roll == 1:
			m.flush()
			m.durablePoint()
		}
	}
	m.flush()
	r.same(t, m)
	if restarted < restarts {
		t.Errorf("seed %d: %d restarts in place of %d", r.seed, restarted, restarts)
	}
}

// again restarts a machine after an entry and returns which one it stands at then.
func (m *machine) again(entries []logged, at int, unclean bool) int {
	m.t.Helper()
	if unclean {
		m.crash()
	} else {
		m.restart()
	}
	m.few()
	applied, _ := m.broker.AppliedIndex()
	if !unclean && applied != entries[at].index {
		m.t.Fatalf("after a clean restart at entry %d the state is that of %d", entries[at].index, applied)
	}
	return slices.IndexFunc(entries, func(e logged) bool { return e.index == applied })
}

// few leaves room for a handful of active partitions only, so that they are passivated all the time.
func (m *machine) few() { m.broker.machine.partitions = newPartitions(m.broker.system, 4) }
