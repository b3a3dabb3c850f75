package membership

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store/layout"
)

// memory is a store that is changed by commands.
type memory struct{ *rowtest.Memory }

func newMemory() memory { return memory{rowtest.NewMemory()} }

// must makes a change that is not refused.
func (m memory) must(t testing.TB, index uint64, c command.Membership) *command.MembershipState {
	t.Helper()
	m.NextEntry()
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
	m.NextEntry()
	before := m.Copied()
	_, refusal, err := Change(m, m, Moment{Index: index}, &c)
	if err != nil || refusal == nil || refusal.Code != code {
		t.Fatalf("change %d: %v, %v, want %s", index, refusal, err, code)
	}
	if !m.Equal(before) {
		t.Fatalf("a refused change has written")
	}
}

func row(id uint64, incarnation string) command.Member {
	return command.Member{NodeID: id, Raft: fmt.Sprintf("n%d:7400", id), HTTP: fmt.Sprintf("n%d:6632", id), Incarnation: incarnation,
		BootNonce: "1-0011223344556677", Kinds: 7}
}

func TestNewClusterKnowsNobodyAndWritesTheFirstFormat(t *testing.T) {
	state, err := Load(newMemory())
	if err != nil || !reflect.DeepEqual(state, &command.MembershipState{Format: command.FormatVersion}) {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestIncarnationIsAsOldAsItsFirstEntry(t *testing.T) {
	m := newMemory()
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
	m := newMemory()
	m.must(t, 10, command.Membership{Put: []command.Member{row(1, "a")}})
	m.mustRefuse(t, 11, command.Membership{Put: []command.Member{row(1, "b")}}, "membership_changed")
	m.mustRefuse(t, 11, command.Membership{Expect: 9, Delete: []uint64{1}}, "membership_changed")
}

func TestOnePlanIsPending(t *testing.T) {
	m := newMemory()
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
	m := newMemory()
	var rows []command.Member
	for id := range uint64(maxRows) {
		rows = append(rows, row(id+1, "a"))
	}
	m.must(t, 1, command.Membership{Put: rows})
	m.mustRefuse(t, 2, command.Membership{Expect: 1, Put: []command.Member{row(maxRows+1, "a")}}, "membership_invalid")
}

func TestFormatNeverFalls(t *testing.T) {
	m := newMemory()
	for i, raise := range []uint32{9, 0, 8, 10} {
		state := m.must(t, uint64(i+1), command.Membership{Expect: uint64(i), Format: raise})
		if want := []uint32{9, 9, 9, 10}[i]; state.Format != want {
			t.Fatalf("format %d after %d, want %d", state.Format, raise, want)
		}
	}
}

func TestDamagedRowIsAnError(t *testing.T) {
	for _, key := range [][]byte{layout.Meta("membership"), layout.Member(1)} {
		m := rowtest.Holding(map[string][]byte{string(key): []byte("{")})
		if _, err := Load(m); !errors.Is(err, ErrBadRow) {
			t.Errorf("key %x: %v", key, err)
		}
	}
}

// The store of a released version must stay readable for ever, so its rows are pinned.
func TestRowsEqualGoldenFile(t *testing.T) {
	m := newMemory()
	full := row(300, "00112233-4455-6677-8899-aabbccddeeff")
	full.KeyIDs = []string{"ab12cd34", "k2"}
	m.must(t, 1, command.Membership{Put: []command.Member{row(1, "a"), full}, Begin: &command.Plan{ID: 1, Kind: command.PlanAddress, Node: 1}})
	m.must(t, 2, command.Membership{Expect: 1, End: command.PlanDropped, Begin: &command.Plan{ID: 1 << 53, Kind: command.PlanVoters,
		Voters: []uint64{1, 300}, Node: 300, Raft: "r:1", HTTP: "h:1", Force: true, Steps: []command.PlanStep{{Op: command.StepPromote, Node: 300}}}})
	var text strings.Builder
	for key, value := range m.All() {
		fmt.Fprintf(&text, "%s %s\n", hex.EncodeToString([]byte(key)), value)
	}
	rowtest.GoldenText(t, "golden.txt", text.String())
}

// Commands of several leaders reach the log in any order: only the first that was made against a state changes it.
func TestEveryStateHasOneSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory()
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
