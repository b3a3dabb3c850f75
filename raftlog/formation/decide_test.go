package formation

import (
	"reflect"
	"testing"

	"queen/raftlog/identity"
)

func TestDecisions(t *testing.T) {
	peers := []Peer{{1, "r1", "h1"}, {2, "r2", "h2"}, {3, "r3", "h3"}}
	empty := func(id uint64) state { return state{NodeID: id, Incarnation: "i", Peers: peers} }
	record := func(incarnation string) *identity.Formation {
		return &identity.Formation{ClusterID: "c", ClusterEpoch: 1, Members: []identity.FirstMember{
			{NodeID: 1, Incarnation: incarnation}, {NodeID: 2, Incarnation: incarnation}, {NodeID: 3, Incarnation: "i"},
		}}
	}
	formed := func(id uint64, record *identity.Formation) state {
		return state{NodeID: id, Incarnation: "i", Peers: peers, ClusterID: "c", ClusterEpoch: 1, Record: record}
	}
	joins := func(id uint64) state { s := empty(id); s.Joins = true; return s }
	other := func(id uint64) state { s := empty(id); s.Peers = peers[:2]; return s }
	answers := func(states ...state) map[uint64]state {
		all := map[uint64]state{}
		for _, s := range states {
			all[s.NodeID] = s
		}
		return all
	}
	for name, row := range map[string]struct {
		self    uint64
		answers map[uint64]state
		want    action
		missing []uint64
	}{
		"nobody answers":                 {1, nil, wait, []uint64{2, 3}},
		"one is missing":                 {1, answers(empty(3)), wait, []uint64{2}},
		"one waits to be added":          {1, answers(empty(2), joins(3)), wait, []uint64{3}},
		"all empty, lowest id":           {1, answers(empty(2), empty(3)), form, nil},
		"all empty, another id":          {2, answers(empty(1), empty(3)), await, nil},
		"lists differ":                   {1, answers(empty(2), other(3)), differ, nil},
		"lists differ, one missing":      {1, answers(other(3)), differ, []uint64{2}},
		"a record for this node":         {1, answers(empty(2), formed(3, record("i"))), adopt, nil},
		"a record, others missing":       {1, answers(formed(3, record("i"))), adopt, nil},
		"a record and foreign state":     {1, answers(formed(2, nil), formed(3, record("i"))), adopt, nil},
		"a record of a former directory": {1, answers(empty(2), formed(3, record("former"))), join, nil},
		"state without a record":         {1, answers(empty(2), formed(3, nil)), join, nil},
		"state, others missing":          {2, answers(formed(3, nil)), join, nil},
		"state before differing lists":   {1, answers(other(2), formed(3, nil)), join, nil},
	} {
		self := empty(row.self)
		got := decide(&self, row.answers)
		if got.action != row.want || row.want != adopt && row.want != join && !reflect.DeepEqual(got.missing, row.missing) {
			t.Errorf("%s: action %d missing %v, want %d missing %v", name, got.action, got.missing, row.want, row.missing)
		}
	}
}

func TestRecordsAreChecked(t *testing.T) {
	member := func(id uint64) identity.FirstMember { return identity.FirstMember{NodeID: id, Incarnation: "i"} }
	good := func() *identity.Formation {
		return &identity.Formation{ClusterID: "c", ClusterEpoch: 1, Members: []identity.FirstMember{member(1), member(3)}}
	}
	if err := check(good()); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*identity.Formation){
		"no cluster":     func(f *identity.Formation) { f.ClusterID = "" },
		"no epoch":       func(f *identity.Formation) { f.ClusterEpoch = 0 },
		"no members":     func(f *identity.Formation) { f.Members = nil },
		"six members":    func(f *identity.Formation) { f.Members = append(f.Members, member(4), member(5), member(6), member(7)) },
		"twice one":      func(f *identity.Formation) { f.Members[1] = member(1) },
		"not in order":   func(f *identity.Formation) { f.Members[0] = member(4) },
		"no incarnation": func(f *identity.Formation) { f.Members[0].Incarnation = "" },
	} {
		f := good()
		change(f)
		if err := check(f); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
