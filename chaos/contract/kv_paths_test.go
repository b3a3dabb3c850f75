package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// path is the address of a row, whose key is written as it stands in a path.
func (s *rows) path(key string) string { return "/api/v1/kv/" + s.ns + "/" + key }

func (s *rows) do(method, key, body string) harness.Response {
	return s.client.Do(harness.Request{Method: method, Path: s.path(key), Body: []byte(body)})
}

// needOne ends the test unless a path route answers this element.
func (s *rows) needOne(answer harness.Response, want string) {
	s.t.Helper()
	need(s.t, answer, 200)
	needShape(s.t, answer.Object(), want)
}

// state.md 2.10: one operation each, its element bare.
func TestKVPathRoutes_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	miss := s.do("GET", "a", "")
	s.needOne(miss, `{"index":0,"op":"get","found":false,"key":"a"}`)
	if tag := miss.Header.Get("ETag"); tag != "" {
		t.Errorf("a miss has the ETag %s", tag)
	}
	put := s.do("PUT", "a", ` {"value": {"n" :1}, "ttlSeconds": 60} `)
	s.needOne(put, `{"index":0,"op":"put","applied":true,"key":"a","value":{"n":1},"version":"*"}`)
	version := versionOf(put.Object())
	hit := s.do("GET", "a", "")
	s.needOne(hit, `{"index":0,"op":"get","found":true,"key":"a","value":{"n":1},"version":"*","expiresAt":"*","updatedAt":"*"}`)
	if tag := hit.Header.Get("ETag"); tag != `"`+version.String()+`"` {
		t.Errorf("the ETag is %s, the version %s", tag, version)
	}
	need(t, s.client.With("If-Match", `"0"`).Do(harness.Request{Method: "GET", Path: s.path("a")}), 200) // not honoured
	s.needOne(s.do("PUT", "a", `{"value":2,"forever":true,"expect":1}`),
		fmt.Sprintf(`{"index":0,"op":"put","applied":false,"reason":"version","key":"a","value":{"n":1},"version":%s}`, version))
	s.needOne(s.do("PUT", "a", `{"value":2,"forever":true,"expect":0,"required":true}`),
		fmt.Sprintf(`{"ok":false,"reason":"kv_precondition","failedIndex":0,"kvReason":"exists","version":%s,"value":{"n":1}}`, version))
	s.needOne(s.do("PUT", "a", fmt.Sprintf(`{"value":null,"forever":true,"expect":%s}`, version)),
		`{"index":0,"op":"put","applied":true,"key":"a","value":null,"version":"*"}`)
	s.needOne(s.do("DELETE", "a", `{"expect":1,"required":true}`),
		`{"ok":false,"reason":"kv_precondition","failedIndex":0,"kvReason":"version","version":"*","value":null}`)
	s.needOne(s.do("DELETE", "a", ""), `{"index":0,"op":"delete","applied":true,"key":"a","value":null,"version":"*"}`)
	s.needOne(s.do("DELETE", "a", " \n"), `{"index":0,"op":"delete","applied":false,"reason":"absent","key":"a","value":null,"version":0}`)
	s.needOne(s.do("DELETE", "a", "{}"), `{"index":0,"op":"delete","applied":false,"reason":"absent","key":"a","value":null,"version":0}`)
}

// state.md 2.10: the key is everything behind the namespace, percent-decoded.
func TestKVPathKeys_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for path, key := range map[string]string{
		"a/b": "a/b", "c%2Fd": "c/d", "e/": "e/", "f//g": "f//g", "%C3%A9%20%25": "é %", "namespaces": "namespaces", "list/x": "list/x", "a+b": "a+b",
	} {
		need(t, s.do("PUT", path, fmt.Sprintf(`{"value":%q,"forever":true}`, path)), 200)
		s.value(key, fmt.Sprintf("%q", path))
		if got := s.do("GET", path, ""); got.Text("key") != key {
			t.Errorf("%s: got %v", path, got)
		}
	}
	needEnvelope(t, s.client.Get("/api/v1/kv/"+s.ns), 404, "no_such_route")
	needEnvelope(t, s.do("POST", "a", "{}"), 405, "method_not_allowed")
}

// state.md 2.5, 2.10: what a path route refuses.
func TestKVPathFaults_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for _, c := range []struct{ method, key, body, reason string }{
		{"GET", "", "", "kv_bad_key"}, {"GET", "a%00b", "", "kv_bad_key"},
		{"GET", "k?x=1", "", "kv_no_query_string"}, {"PUT", "k?timeoutMs=5", `{"value":1,"forever":true}`, "kv_no_query_string"},
		{"DELETE", "k?expect=1", "", "kv_no_query_string"},
		{"PUT", "k", "", "kv_bad_body"}, {"PUT", "k", "{", "kv_bad_body"}, {"PUT", "k", "[]", "kv_bad_request"},
		{"PUT", "k", `{"forever":true}`, "kv_bad_request"}, {"PUT", "k", `{"value":1}`, "kv_expiry_not_specified"},
		{"PUT", "k", `{"value":1,"ttlSeconds":0}`, "kv_bad_ttl"}, {"PUT", "k", `{"value":1,"forever":true,"expect":null}`, "kv_bad_expect"},
		{"PUT", "k", `{"value":1,"forever":true,"op":"put"}`, "kv_field_in_path"},
		{"PUT", "k", `{"value":1,"forever":true,"ns":"x"}`, "kv_field_in_path"},
		{"PUT", "k", `{"value":1,"forever":true,"namespace":"x"}`, "kv_field_in_path"},
		{"PUT", "k", `{"value":1,"forever":true,"key":"k"}`, "kv_field_in_path"},
		{"PUT", "k", `{"value":1,"forever":true,"tenant":"x"}`, "kv_tenant_not_an_input"},
		{"DELETE", "k", `{"key":"k"}`, "kv_field_in_path"}, {"DELETE", "k", `7`, "kv_bad_request"}, {"DELETE", "k", `{"expect":-1}`, "kv_bad_expect"},
		{"DELETE", "k", `{`, "kv_bad_body"},
	} {
		needRefusal(t, s.do(c.method, c.key, c.body), 400, "kv_bad_request", c.reason)
	}
	s.value("k", "")
	needRefusal(t, s.client.Get("/api/v1/kv/Upper/k"), 400, "kv_bad_request", "kv_bad_namespace")
	needRefusal(t, s.do("GET", strings.Repeat("k", 500), ""), 413, "payload_too_large", "kv_key_too_large")
	needRefusal(t, s.do("PUT", "k", `{"forever":true,"value":"`+strings.Repeat("v", 64<<10)+`"}`), 413, "payload_too_large", "kv_value_too_large")
}

// console reads a page of the namespace as dashboards do.
func (s *rows) console(more string) map[string]any {
	s.t.Helper()
	answer := s.client.Post("/api/v1/resources/kv/list", fmt.Sprintf(`{"namespace":%q%s}`, s.ns, more))
	need(s.t, answer, 200)
	needExactKeys(s.t, answer.Object(), "rows", "truncated", "nextAfter", "bytes")
	return answer.Object()
}

// state.md 2.11: the pages of the console show what is stored, expired or not.
func TestKVConsoleList_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	needShape(t, s.console(""), `{"rows":[],"truncated":false,"nextAfter":null,"bytes":0}`)
	for _, key := range []string{"a/1", "a/2", "b"} {
		s.put(key, `"four"`)
	}
	s.put("a/0", "null")
	row := func(key, value string) string {
		return fmt.Sprintf(`{"key":%q,"value":%s,"version":"*","expiresAt":null,"updatedAt":"*","expired":false}`, key, value)
	}
	needShape(t, s.console(`,"prefix":"b"`), `{"rows":[`+row("b", `"four"`)+`],"truncated":false,"nextAfter":null,"bytes":6}`)
	needShape(t, s.console(`,"after":"a/1","limit":1`), `{"rows":[`+row("a/2", `"four"`)+`],"truncated":true,"nextAfter":"a/2","bytes":6}`)
	needShape(t, s.console(`,"prefix":"b","keysOnly":true`),
		`{"rows":[{"key":"b","version":"*","expiresAt":null,"updatedAt":"*","expired":false}],"truncated":false,"nextAfter":null,"bytes":0}`)
	for limit, want := range map[string]int{"0": 1, "-1": 1, "3": 3, "9999": 4} {
		if rows, _ := s.console(`,"includeExpired":true,"limit":` + limit)["rows"].([]any); len(rows) != want {
			t.Errorf("limit %s: %d rows", limit, len(rows))
		}
	}
	s.call(`{"op":"put","key":"a/0","value":null,"ttlSeconds":1}`)
	time.Sleep(1200 * time.Millisecond) // the row has expired; it is swept some time later
	if rows, _ := s.console("")["rows"].([]any); len(rows) != 3 {
		t.Errorf("got %v", rows)
	}
	for _, row := range s.console(`,"includeExpired":true`)["rows"].([]any) {
		shown := row.(map[string]any)
		if shown["key"] == "a/0" && shown["expired"] != true || shown["key"] != "a/0" && shown["expired"] != false {
			t.Errorf("got %v", shown)
		}
	}
	for _, c := range []struct{ body, reason string }{
		{`{}`, "kv_bad_namespace"}, {`{"namespace":"A"}`, "kv_bad_namespace"}, {`[`, "kv_bad_body"}, {`[]`, "kv_bad_body"}, {``, "kv_bad_body"},
		{`{"namespace":"a","limit":"x"}`, "kv_bad_request"}, {`{"namespace":"a","prefix":7}`, "kv_bad_request"},
		{`{"namespace":"a","keysOnly":1}`, "kv_bad_request"}, {`{"namespace":"a","includeExpired":"no"}`, "kv_bad_request"},
	} {
		needRefusal(t, s.client.Post("/api/v1/resources/kv/list", c.body), 400, "kv_bad_request", c.reason)
	}
	for _, path := range []string{"/api/v1/resources/kv/list?limit=1", "/api/v1/resources/kv/namespaces?x"} {
		method := "POST"
		if strings.Contains(path, "namespaces") {
			method = "GET"
		}
		needRefusal(t, s.client.Do(harness.Request{Method: method, Path: path, Body: []byte(`{"namespace":"a"}`)}), 400, "kv_bad_request", "kv_no_query_string")
	}
}

// state.md 2.11, 2.7: the namespaces in the order of their bytes, with every row that is stored; the sweep takes what has expired.
func TestKVConsoleNamespaces_state2(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_KV_SWEEP_MS": "2500", "QUEEN_RAFT_KV_SWEEP_LIMIT": "1"}).Client()
	namespaces := func() string { return string(client.Get("/api/v1/resources/kv/namespaces").Body) }
	if got := namespaces(); got != `{"namespaces":[]}` {
		t.Errorf("got %s", got)
	}
	at := func(namespace string) *rows { return &rows{t, client, namespace} }
	at("b").put("k", "1")
	at("a.z").put("k", "1")
	at("a").call(`{"op":"put","key":"1","value":1,"ttlSeconds":2}`, `{"op":"put","key":"2","value":1,"ttlSeconds":2}`, `{"op":"put","key":"3","value":1,"forever":true}`)
	at("gone").put("k", "1")
	at("gone").call(`{"op":"delete","key":"k"}`)
	const before = `{"namespaces":[{"namespace":"a","keys":3},{"namespace":"a.z","keys":1},{"namespace":"b","keys":1}]}`
	if got := namespaces(); got != before {
		t.Errorf("got %s", got)
	}
	eventually(t, delivery, func() (bool, string) { // one row a step, as often as there is one
		got := namespaces()
		return got == strings.Replace(before, `"keys":3`, `"keys":1`, 1), got
	})
	at("a").value("3", "1")
}

// operations.md 3.4: what the metrics count.
func TestMetricsOfKV_3_4(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	s := newRowsAt(t, client)
	s.call(`{"op":"put","key":"k","value":"12345","forever":true}`, `{"op":"putIfAbsent","key":"l","value":1,"forever":true}`, `{"op":"get","key":"k"}`)
	s.call(`{"op":"get","key":"none"}`, `{"op":"put","key":"k","value":2,"forever":true,"expect":0}`)
	need(t, s.post(`{"op":"put","key":"k","value":2,"forever":true,"expect":0,"required":true}`, `{"op":"delete","key":"l"}`), 200)
	need(t, client.Transaction(`{"kv":[`+s.list(`{"op":"check","key":"k","expect":0}`)+`]}`).Response, 200)
	need(t, client.Post("/api/v1/locks", `[{"op":"acquire","name":"a","ttlSeconds":60},{"op":"get","name":"b"}]`), 200)
	need(t, client.Post("/api/v1/locks", `[{"op":"acquire","name":"a","ttlSeconds":60},{"op":"release","name":"b","token":5}]`), 200)
	for _, row := range []struct {
		want        float64
		family      string
		op, outcome string
	}{
		{1, "kv", "put", "applied"}, {1, "kv", "putIfAbsent", "applied"}, {2, "kv", "put", "exists"}, {1, "kv", "get", "found"},
		{1, "kv", "get", "missing"}, {1, "kv", "delete", "cancelled"}, {1, "kv", "check", "exists"},
		{1, "locks", "acquire", "applied"}, {1, "locks", "acquire", "held"}, {1, "locks", "get", "free"}, {1, "locks", "release", "lost"},
	} {
		needMetric(t, client, row.want, "queen_"+row.family+"_ops_total", "op="+row.op, "outcome="+row.outcome)
	}
	needMetric(t, client, 3, "queen_kv_op_duration_milliseconds_count", "op=put")
	needMetric(t, client, 2, "queen_locks_op_duration_milliseconds_count", "op=acquire")
	if bytes := metric(t, client, "queen_kv_bytes_total"); bytes < 8 || bytes > 1000 {
		t.Errorf("the rows have %v bytes", bytes)
	}
}
