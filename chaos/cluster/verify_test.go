package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

// hashNode is a node that answers nothing but its state hash, a new one at each look.
func hashNode(t *testing.T, id uint64, answers ...string) *Node {
	t.Helper()
	var looks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		look := min(int(looks.Add(1)), len(answers)) - 1
		if r.URL.Path != stateHashPath || look < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		index, hash, _ := strings.Cut(answers[look], " ")
		_, _ = fmt.Fprintf(w, `{"index":%s,"hash":%q}`, index, hash)
	}))
	t.Cleanup(server.Close)
	return &Node{ID: id, client: harness.NewClient(server.URL)}
}

func TestStateHashesMustBecomeTheSame(t *testing.T) {
	for name, example := range map[string]struct {
		nodes []*Node
		want  error
	}{
		"the same":             {[]*Node{hashNode(t, 1, "7 a"), hashNode(t, 2, "7 a"), hashNode(t, 3, "7 a")}, nil},
		"one is behind":        {[]*Node{hashNode(t, 1, "7 a"), hashNode(t, 2, "5 x", "6 y", "7 a")}, nil},
		"another at one index": {[]*Node{hashNode(t, 1, "7 a"), hashNode(t, 2, "7 a"), hashNode(t, 3, "7 b")}, errFinal},
		"another later on":     {[]*Node{hashNode(t, 1, "6 a", "8 c"), hashNode(t, 2, "7 a", "8 d")}, errFinal},
		"no such route":        {[]*Node{hashNode(t, 1)}, errFinal},
	} {
		if err := awaitSame(example.nodes); !errors.Is(err, example.want) {
			t.Errorf("%s: want %v, got %v", name, example.want, err)
		}
	}
}

func TestStaleReadIsFound(t *testing.T) {
	partition := ledger.Partition{Queue: "q", Name: "p"}
	logs := func(records int) map[ledger.Partition]ledger.Log {
		return map[ledger.Partition]ledger.Log{partition: {Records: make([]ledger.Record, records)}}
	}
	if found := shrunk("node 2", logs(3), logs(4)); len(found) > 0 {
		t.Errorf("a log grows, got %v", found)
	}
	for name, found := range map[string][]ledger.Violation{
		"shorter": shrunk("node 2", logs(3), logs(2)),
		"gone":    shrunk("node 2", logs(3), nil),
	} {
		if len(found) != 1 || found[0].Rule != "stale" {
			t.Errorf("%s: got %v", name, found)
		}
	}
}

func TestVoterSetOutsideOfThePlanIsFound(t *testing.T) {
	pending, none := json.RawMessage(`{"id":1}`), json.RawMessage(`null`)
	before, target := []uint64{1, 2, 3}, []uint64{1, 2, 3, 4, 5}
	for name, example := range map[string]struct {
		view View
		want error
	}{
		"as before":               {View{Voters: []uint64{3, 2, 1}, Plan: none}, nil},
		"as wanted":               {View{Voters: []uint64{1, 2, 3, 4, 5}, Plan: none}, nil},
		"half way, plan pending":  {View{Voters: []uint64{1, 2, 3, 4}, Plan: pending}, nil},
		"half way without a plan": {View{Voters: []uint64{1, 2, 3, 4}, Plan: none}, errFinal},
		"a stranger":              {View{Voters: []uint64{1, 2, 3, 6}, Plan: pending}, errFinal},
	} {
		if err := between(example.view, before, target); !errors.Is(err, example.want) {
			t.Errorf("%s: want %v, got %v", name, example.want, err)
		}
	}
}
