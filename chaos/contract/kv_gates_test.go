package contract

import (
	"fmt"
	"reflect"
	"testing"

	"queen/chaos/contract/harness"
)

const (
	putRow     = `{"op":"put","key":"new","value":1,"forever":true}`
	acquireOne = `[{"op":"acquire","name":"fresh","ttlSeconds":60}]`
)

// keepsWorking ends the test unless what does not grow is served: reads, deletes, checks, releases and renewals.
func keepsWorking(s *rows, permit map[string]any) {
	s.t.Helper()
	s.call(`{"op":"get","key":"old"}`, `{"op":"delete","key":"old"}`, `{"op":"check","key":"old","expect":0}`)
	need(s.t, s.do("DELETE", "older", ""), 200)
	need(s.t, s.do("GET", "older", ""), 200)
	need(s.t, s.client.Get("/api/v1/resources/kv/namespaces"), 200)
	token := tokenOf(permit)
	renewed := s.client.Post("/api/v1/locks", fmt.Sprintf(`[{"op":"renew","name":"held","token":%s,"ttlSeconds":60}]`, token))
	need(s.t, renewed, 200)
	token = tokenOf(elementsOf(s.t, renewed, 1)[0])
	released := s.client.Post("/api/v1/locks", fmt.Sprintf(`[{"op":"release","name":"held","token":%s}]`, token))
	need(s.t, released, 200)
	if elementsOf(s.t, released, 1)[0]["released"] != true {
		s.t.Errorf("got %v", released)
	}
}

// prepare makes the rows and the permit that keepsWorking uses up.
func (s *rows) prepare() (permit map[string]any) {
	s.t.Helper()
	s.put("old", "1")
	s.put("older", "1")
	answer := s.client.Post("/api/v1/locks", `[{"op":"acquire","name":"held","ttlSeconds":600}]`)
	need(s.t, answer, 200)
	return elementsOf(s.t, answer, 1)[0]
}

// growingCalls are the calls that may store more than there is (cluster.md 11.2).
func (s *rows) growingCalls() map[string]func() harness.Response {
	return map[string]func() harness.Response{
		"put":         func() harness.Response { return s.post(putRow) },
		"putIfAbsent": func() harness.Response { return s.post(`{"op":"putIfAbsent","key":"new","value":1,"forever":true}`) },
		"incr":        func() harness.Response { return s.post(`{"op":"incr","key":"new","delta":1,"forever":true}`) },
		"one put among deletes": func() harness.Response {
			return s.post(`{"op":"delete","key":"old"}`, putRow)
		},
		"a put by its path": func() harness.Response { return s.do("PUT", "new", `{"value":1,"forever":true}`) },
		"an acquire":        func() harness.Response { return s.client.Post("/api/v1/locks", acquireOne) },
	}
}

// state.md 1.3, cluster.md 11.2: under disk pressure KV writes are refused, with the code in error and reason; deletes work.
func TestDiskGateOfKV_state1(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{})
	s := newRowsAt(t, broker.Client())
	permit := s.prepare()
	broker.SetEnv("QUEEN_RAFT_DISK_HIGH_PCT", "2")
	broker.SetEnv("QUEEN_RAFT_DISK_LOW_PCT", "1")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, promptly, func() (bool, string) { // the volume is measured once a second
		answer := s.post(putRow)
		return answer.Status == 507, answer.String()
	})
	for name, call := range s.growingCalls() {
		t.Run("refused: "+name, func(t *testing.T) {
			answer := call()
			needRefusal(t, answer, 507, "storage_full", "storage_full")
			if !refusedForStorage.MatchString(answer.Text("detail")) {
				t.Errorf("got %v", answer)
			}
		})
	}
	t.Run("refused: a transaction that puts", func(t *testing.T) {
		needStorageFull(t, s.bundle("", putRow).Response)
	})
	s.value("old", "1")
	if reply := s.bundle("", `{"op":"check","key":"old","expect":0}`, `{"op":"delete","key":"none"}`); !reply.Success {
		t.Errorf("a transaction that deletes: got %v", reply)
	}
	keepsWorking(s, permit)
	s.value("new", "")
}

// state.md 1.3, cluster.md 11.1: without room for their bytes KV writes are refused, with the code in error and reason.
func TestAdmissionOfKV_state1(t *testing.T) {
	t.Parallel()
	broker := admissionBroker(t, "0")
	s := newRowsAt(t, broker.Client())
	permit := s.prepare()
	holdBudget(t, broker)
	for name, call := range s.growingCalls() {
		t.Run("refused: "+name, func(t *testing.T) { needRefusal(t, call(), 429, "overloaded", "overloaded") })
	}
	s.value("old", "1")
	keepsWorking(s, permit)
}

// state.md 1.2: tenants do not see each other's rows and locks.
func TestTenantsHaveRowsOfTheirOwn_state1(t *testing.T) {
	t.Parallel()
	plain := tenancyBroker(t)
	s := &rows{t, plain, "shared"}
	other := s.through(plain.WithTenant(otherTenant))
	s.put("k", `"ours"`)
	other.value("k", "")
	other.put("k", `"theirs"`)
	s.value("k", `"ours"`)
	other.value("k", `"theirs"`)
	other.put("k2", "1")
	for client, want := range map[*harness.Client]string{plain: `"keys":1`, other.client: `"keys":2`} {
		if got := string(client.Get("/api/v1/resources/kv/namespaces").Body); got != `{"namespaces":[{"namespace":"shared",`+want+`}]}` {
			t.Errorf("got %s", got)
		}
	}
	if rows, _ := s.console("")["rows"].([]any); len(rows) != 1 {
		t.Errorf("got %v", rows)
	}
	if reply := other.bundle("", `{"op":"incr","key":"n","delta":1,"forever":true}`); !reply.Success {
		t.Errorf("got %v", reply)
	}
	s.value("n", "")
	for range 2 {
		for _, client := range []*harness.Client{plain, other.client} {
			answer := client.Post("/api/v1/locks", `[{"op":"acquire","name":"l","ttlSeconds":60,"owner":"o"}]`)
			if elementsOf(t, answer, 1)[0]["acquired"] != true {
				t.Errorf("got %v", answer)
			}
		}
	}
	needBody(t, plain.WithTenant("nope").Post("/api/v1/kv", "[]"), 400, refusedTenant)
	needBody(t, plain.WithTenant("nope").Get("/api/v1/kv/shared/k"), 400, refusedTenant)
}

// state.md 2.1, cluster.md 16: what was answered outlives the process, and versions rise across its end.
func TestRowsSurviveTheProcess_state2(t *testing.T) {
	t.Parallel()
	for name, interrupt := range interruptions {
		t.Run(name, func(t *testing.T) {
			broker := privateBroker(t, nil)
			s := newRowsAt(t, broker.Client())
			permit := s.prepare()
			s.put("large", fmt.Sprintf("%q", incompressible(20<<10)))
			s.call(`{"op":"incr","key":"n","delta":9007199254740993,"ttlSeconds":600}`, `{"op":"delete","key":"older"}`)
			if reply := s.bundle("", `{"op":"put","key":"bundled","value":[1],"forever":true}`); !reply.Success {
				t.Fatalf("got %v", reply)
			}
			before := s.call(`{"op":"getMany","keys":["old","older","large","n","bundled"]}`)[0]
			if err := interrupt(broker); err != nil {
				t.Fatal(err)
			}
			after := s.call(`{"op":"getMany","keys":["old","older","large","n","bundled"]}`)[0]
			if !reflect.DeepEqual(before, after) {
				t.Errorf("before %v\nafter  %v", before, after)
			}
			if version := s.put("next", "1"); !less(tokenOf(permit), version) {
				t.Errorf("version %s behind the token %s", version, tokenOf(permit))
			}
			s.call(`{"op":"incr","key":"n","delta":1,"forever":true}`)
			s.value("n", "9007199254740994")
		})
	}
}
