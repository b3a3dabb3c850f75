package membership

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"queen/raftlog/command"
	"queen/store/layout"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// memory is a Reader and Writer over a map.
type memory map[string][]byte

func (m memory) Get(key []byte) ([]byte, error) { return m[string(key)], nil }
func (m memory) Put(key, value []byte)          { m[string(key)] = append([]byte{}, value...) }
func (m memory) Delete(key []byte)              { delete(m, string(key)) }

func (m memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(key, string(prefix)) && key >= string(from) && !visit([]byte(key), m[key]) {
			return nil
		}
	}
	return nil
}

// must makes a change that is not refused.
func (m memory) must(t testing.TB, index uint64, c command.Membership) *command.MembershipState {
	t.Helper()
	state, refusal, err := Change(m, m, Moment{Index: index, StampMicros: index * 1_000_000}, &c)
	if err != nil || refusal != nil {
		t.Fatalf("change %d: %v, %v", index, refusal, err)
	}
	loaded, err := Load(m)
	if err != nil || !reflect.DeepEqual(loaded, state) {
		t.Fatalf("change %d: loaded %+v, %v, want %+v", index, loaded, err, state)
	}
	return state
}

func (m memory) mustRefuse(t testing.TB, index uint64, c command.Membership, code string) {
	t.Helper()
	before := maps.Clone(m)
	_, refusal, err := Change(m, m, Moment{Index: index}, &c)
	if err != nil || refusal == nil || refusal.Code != code {
		t.Fatalf("change %d: %v, %v, want %s", index, refusal, err, code)
	}
	if !reflect.DeepEqual(before, m) {
		t.Fatalf("a refused change has written")
	}
}

func row(id uint64, incarnation string) command.Member {
	return command.Member{NodeID: id, Raft: fmt.Sprintf("n%d:7400", id), HTTP: fmt.Sprintf("n%d:6632", id), Incarnation: incarnation,
		BootNonce: "1-0011223344556677", Kinds: 7}
}

func TestNewClusterKnowsNobodyAndWritesTheFirstFormat(t *testing.T) {
	state, err := Load(memory{})
	if err != nil || !reflect.DeepEqual(state, &command.MembershipState{Format: command.FormatVersion}) {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestIncarnationIsAsOldAsItsFirstEntry(t *testing.T) {
	m := memory{}
	m.must(t, 10, command.Membership{Put: []command.Member{row(2, "a"), row(1, "b")}})
	later := row(2, "a")
	later.BootNonce, later.AddedIndex = "2-0011223344556677", 99
	state := m.must(t, 20, command.Membership{Expect: 10, Put: []command.Member{later}})
	if got := state.Members[1]; got.AddedIndex != 10 || got.BootNonce != later.BootNonce {
		t.Fatalf("%+v", got)
	}
	state = m.must(t, 30, command.Membership{Expect: 20, Put: []command.Member{row(2, "c")}})
	if got := state.Members[1]; got.AddedIndex != 30 {
		t.Fatalf("another incarnation is as old as the one before: %+v", got)
	}
	state = m.must(t, 40, command.Membership{Expect: 30, Delete: []uint64{2, 7}})
	if len(state.Members) != 1 || state.Members[0].NodeID != 1 {
		t.Fatalf("%+v", state.Members)
	}
}

func TestChangeAgainstAnOldStateIsRefused(t *testing.T) {
	m := memory{}
	m.must(t, 10, command.Membership{Put: []command.Member{row(1, "a")}})
	m.mustRefuse(t, 11, command.Membership{Put: []command.Member{row(1, "b")}}, "membership_changed")
	m.mustRefuse(t, 11, command.Membership{Expect: 9, Delete: []uint64{1}}, "membership_changed")
}

func TestOnePlanIsPending(t *testing.T) {
	m := memory{}
	plan := func(id uint64) *command.Plan {
		return &command.Plan{ID: id, Kind: command.PlanRemove, Node: 3, Steps: []command.PlanStep{{Op: command.StepRemove, Node: 3}}}
	}
	state := m.must(t, 1, command.Membership{Begin: plan(7)})
	if state.Plan.StartedMs != 1000 {
		t.Fatalf("started at %d, the entry was made at 1000", state.Plan.StartedMs)
	}
	m.mustRefuse(t, 2, command.Membership{Expect: 1, Begin: plan(8)}, "in_flight")
	state = m.must(t, 3, command.Membership{Expect: 1, End: command.PlanAborted, Begin: plan(8)})
	if state.Plan.ID != 8 || state.EndOf(7) != command.PlanAborted || state.EndOf(8) != command.PlanGoesOn {
		t.Fatalf("%+v", state)
	}
	for i := range uint64(maxEnded + 1) {
		state = m.must(t, 4+i, command.Membership{Expect: 3 + i, End: command.PlanDone, Begin: plan(9 + i)})
	}
	if len(state.Ended) != maxEnded || state.EndOf(8+maxEnded) != command.PlanDone || state.EndOf(7) != command.PlanGoesOn {
		t.Fatalf("%+v", state.Ended)
	}
}

func TestTableIsBounded(t *testing.T) {
	m := memory{}
	var rows []command.Member
	for id := range uint64(maxRows) {
		rows = append(rows, row(id+1, "a"))
	}
	m.must(t, 1, command.Membership{Put: rows})
	m.mustRefuse(t, 2, command.Membership{Expect: 1, Put: []command.Member{row(maxRows+1, "a")}}, "membership_invalid")
}

func TestFormatNeverFalls(t *testing.T) {
	m := memory{}
	for i, raise := range []uint32{9, 0, 8, 10} {
		state := m.must(t, uint64(i+1), command.Membership{Expect: uint64(i), Format: raise})
		if want := []uint32{9, 9, 9, 10}[i]; state.Format != want {
			t.Fatalf("format %d after %d, want %d", state.Format, raise, want)
		}
	}
}

func TestDamagedRowIsAnError(t *testing.T) {
	for _, key := range [][]byte{layout.Meta("membership"), layout.Member(1)} {
		m := memory{string(key): []byte("{")}
		if _, err := Load(m); !errors.Is(err, ErrBadRow) {
			t.Errorf("key %x: %v", key, err)
		}
	}
}

// The store of a released version must stay readable for ever, so its rows are pinned.
func TestRowsEqualGoldenFile(t *testing.T) {
	m := memory{}
	full := row(300, "00112233-4455-6677-8899-aabbccddeeff")
	full.KeyIDs = []string{"ab12cd34", "k2"}
	m.must(t, 1, command.Membership{Put: []command.Member{row(1, "a"), full}, Begin: &command.Plan{ID: 1, Kind: command.PlanAddress, Node: 1}})
	m.must(t, 2, command.Membership{Expect: 1, End: command.PlanDropped, Begin: &command.Plan{ID: 1 << 53, Kind: command.PlanVoters,
		Voters: []uint64{1, 300}, Node: 300, Raft: "r:1", HTTP: "h:1", Force: true, Steps: []command.PlanStep{{Op: command.StepPromote, Node: 300}}}})
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&text, "%s %s\n", hex.EncodeToString([]byte(key)), m[key])
	}
	path := filepath.Join("testdata", "golden.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Fatalf("rows differ from %s:\n%s\nwant\n%s", path, text.String(), want)
	}
}

// Commands of several leaders reach the log in any order: only the first that was made against a state changes it.
func TestEveryStateHasOneSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memory{}
		state, _ := Load(m)
		changed := map[uint64]bool{}
		for index := uint64(1); index <= 30; index++ {
			expect := rapid.Uint64Range(0, index-1).Draw(t, "expect")
			c := command.Membership{Expect: expect, Put: []command.Member{row(rapid.Uint64Range(1, 4).Draw(t, "id"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "incarnation"))}}
			after, refusal, err := Change(m, m, Moment{Index: index}, &c)
			if err != nil {
				t.Fatal(err)
			}
			if (refusal == nil) != (expect == state.Index) || refusal == nil && changed[expect] {
				t.Fatalf("change %d against %d, the state is of %d: %v", index, expect, state.Index, refusal)
			}
			if refusal == nil {
				changed[expect] = true
				state = after
			}
			for i, member := range state.Members {
				if member.AddedIndex == 0 || member.AddedIndex > state.Index || i > 0 && member.NodeID <= state.Members[i-1].NodeID {
					t.Fatalf("table %+v", state.Members)
				}
			}
		}
	})
}
