package contract

import (
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// kvFaults is the table of state.md 2.5 for one operation: what is wrong, and the reason.
var kvFaults = []struct{ name, op, reason string }{
	{"no object", `7`, "kv_bad_request"},
	{"null", `null`, "kv_bad_request"},
	{"a put without value", `{"op":"put","key":"k","forever":true}`, "kv_bad_request"},
	{"a putIfAbsent without value", `{"op":"putIfAbsent","key":"k","forever":true}`, "kv_bad_request"},
	{"keys that are none", `{"op":"getMany","keys":"k"}`, "kv_bad_request"},
	{"no keys", `{"op":"getMany"}`, "kv_bad_request"},
	{"a delta that is no number", `{"op":"incr","key":"k","forever":true,"delta":"1"}`, "kv_bad_request"},
	{"no delta", `{"op":"incr","key":"k","forever":true}`, "kv_bad_request"},
	{"an incr with expect", `{"op":"incr","key":"k","forever":true,"delta":1,"expect":0}`, "kv_bad_request"},
	{"a bound that is no number", `{"op":"incr","key":"k","forever":true,"delta":1,"max":"5"}`, "kv_bad_request"},
	{"an unknown op", `{"op":"set","key":"k","value":1,"forever":true}`, "kv_unknown_op"},
	{"an op in capitals", `{"op":"Get","key":"k"}`, "kv_unknown_op"},
	{"an op that is no string", `{"op":1,"key":"k"}`, "kv_unknown_op"},
	{"no key", `{"op":"get"}`, "kv_bad_key"},
	{"an empty key", `{"op":"get","key":""}`, "kv_bad_key"},
	{"a key that is no string", `{"op":"get","key":7}`, "kv_bad_key"},
	{"a zero byte in a key", `{"op":"get","key":"a\u0000b"}`, "kv_bad_key"},
	{"an empty key among many", `{"op":"getMany","keys":["k",""]}`, "kv_bad_key"},
	{"no expiry", `{"op":"put","key":"k","value":1}`, "kv_expiry_not_specified"},
	{"two expiries", `{"op":"put","key":"k","value":1,"forever":true,"ttlSeconds":5}`, "kv_expiry_not_specified"},
	{"not for ever", `{"op":"put","key":"k","value":1,"forever":false}`, "kv_expiry_not_specified"},
	{"an incr without expiry", `{"op":"incr","key":"k","delta":1}`, "kv_expiry_not_specified"},
	{"a ttl of 0", `{"op":"put","key":"k","value":1,"ttlSeconds":0}`, "kv_bad_ttl"},
	{"a negative ttl", `{"op":"put","key":"k","value":1,"ttlSeconds":-5}`, "kv_bad_ttl"},
	{"a ttl with a fraction", `{"op":"put","key":"k","value":1,"ttlSeconds":1.5}`, "kv_bad_ttl"},
	{"a ttl in words", `{"op":"put","key":"k","value":1,"ttlSeconds":"5"}`, "kv_bad_ttl"},
	{"a negative expect", `{"op":"put","key":"k","value":1,"forever":true,"expect":-1}`, "kv_bad_expect"},
	{"an expect with a fraction", `{"op":"delete","key":"k","expect":1.5}`, "kv_bad_expect"},
	{"a null expect", `{"op":"delete","key":"k","expect":null}`, "kv_bad_expect"},
	{"a putIfAbsent that expects a version", `{"op":"putIfAbsent","key":"k","value":1,"forever":true,"expect":3}`, "kv_bad_expect"},
	{"a check without expect", `{"op":"check","key":"k"}`, "kv_bad_expect"},
	{"no prefix", `{"op":"getPrefix"}`, "kv_prefix_required"},
	{"an empty prefix", `{"op":"getPrefix","prefix":""}`, "kv_prefix_required"},
	{"a tenant", `{"op":"get","key":"k","tenant":"x"}`, "kv_tenant_not_an_input"},
	{"a tenantId", `{"op":"get","key":"k","tenantId":null}`, "kv_tenant_not_an_input"},
	{"a _tenant", `{"op":"get","key":"k","_tenant":1}`, "kv_tenant_not_an_input"},
	// The order of the checks: each of these has two faults or more.
	{"order: op before tenant", `{"op":"set","tenant":1}`, "kv_unknown_op"},
	{"order: tenant before key", `{"op":"get","tenant":1}`, "kv_tenant_not_an_input"},
	{"order: key before expiry", `{"op":"put","key":""}`, "kv_bad_key"},
	{"order: a bad ttl before two expiries", `{"op":"put","key":"k","ttlSeconds":0,"forever":true}`, "kv_bad_ttl"},
	{"order: expiry before value", `{"op":"put","key":"k"}`, "kv_expiry_not_specified"},
	{"order: value before expect", `{"op":"put","key":"k","forever":true,"expect":-1}`, "kv_bad_request"},
	{"order: the value of expect before the rules of incr", `{"op":"incr","key":"k","forever":true,"expect":-1}`, "kv_bad_expect"},
}

// state.md 2.5: a fault refuses the whole call, before anything is written.
func TestKVFaultsRefuseTheCall_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for _, fault := range kvFaults {
		t.Run(fault.name, func(t *testing.T) {
			s := s.in(t)
			answer := s.post(`{"op":"put","key":"beside","value":1,"forever":true}`, fault.op)
			needRefusal(t, answer, 400, "kv_bad_request", fault.reason)
			s.value("beside", "")
		})
	}
	for _, body := range []string{``, `{`, `7`, `"x"`, `null`, `{}`, `{"operations":{}}`, `{"operations":null}`, `[{"op":"get"}] x`, "[\"\xff\"]"} {
		t.Run("body "+body, func(t *testing.T) {
			needRefusal(t, s.client.Post("/api/v1/kv", body), 400, "kv_bad_request", "kv_bad_body")
		})
	}
	t.Run("a row that is written twice", func(t *testing.T) {
		s := s.in(t)
		for _, second := range []string{`{"op":"delete","key":"twice"}`, `{"op":"incr","key":"twice","delta":1,"forever":true}`} {
			answer := s.post(`{"op":"put","key":"twice","value":1,"forever":true}`, second)
			needRefusal(t, answer, 400, "kv_bad_request", "kv_duplicate_key_in_call")
		}
		s.value("twice", "")
		s.call(`{"op":"put","key":"twice","value":1,"forever":true}`, `{"op":"check","key":"twice","expect":0}`, `{"op":"get","key":"twice"}`)
	})
}

// state.md 2.5: what a namespace may be called. It is judged before the key.
func TestKVNamespaceNames_state2(t *testing.T) {
	t.Parallel()
	get := func(namespace string) harness.Response {
		return suite.client.Post("/api/v1/kv", fmt.Sprintf(`[{"op":"get","ns":%s,"key":"k"}]`, namespace))
	}
	for _, good := range []string{`"a"`, `"0"`, `"a.b_c-d"`, `"` + strings.Repeat("n", 64) + `"`} {
		need(t, get(good), 200)
	}
	for _, bad := range []string{`""`, `"A"`, `".a"`, `"-a"`, `"_a"`, `"a b"`, `"a/b"`, `"é"`, `7`, `null`, `"a\n"`, `"` + strings.Repeat("n", 65) + `"`} {
		needRefusal(t, get(bad), 400, "kv_bad_request", "kv_bad_namespace")
	}
	needRefusal(t, suite.client.Post("/api/v1/kv", `[{"op":"get","key":""}]`), 400, "kv_bad_request", "kv_bad_namespace")
}

// state.md 2.5: 413, and up to where things fit.
func TestKVSizes_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	key := strings.Repeat("k", 511-36-len(s.ns))
	s.put(key, "1")
	needRefusal(t, s.post(fmt.Sprintf(`{"op":"get","key":"%sk"}`, key)), 413, "payload_too_large", "kv_key_too_large")
	needRefusal(t, s.post(fmt.Sprintf(`{"op":"getMany","keys":["%sk"]}`, key)), 413, "payload_too_large", "kv_key_too_large")
	text := func(bytes int) string { return `"` + strings.Repeat("v", bytes-2) + `"` }
	put := func(value string) harness.Response {
		return s.post(`{"op":"put","key":"v","value":` + value + `,"forever":true}`)
	}
	need(t, put(text(64<<10)), 200)
	needRefusal(t, put(text(64<<10+1)), 413, "payload_too_large", "kv_value_too_large")
	spaced := "[" + strings.Repeat(" ", 70<<10) + "1]"
	need(t, put(spaced), 200) // measured without white space
	s.value("v", "[1]")
}

// state.md 2.5: the operations and keys of a call.
func TestKVCallLimits_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	gets := func(n int) []string { return strings.Split(strings.Repeat(`{"op":"get","key":"k"};`, n)[:n*23-1], ";") }
	s.call(gets(256)...)
	needRefusal(t, s.post(gets(257)...), 400, "kv_bad_request", "kv_too_many_ops")
	many := func(n int) string { return `{"op":"getMany","keys":["k"` + strings.Repeat(`,"k"`, n-1) + `]}` }
	s.call(many(1024))
	needRefusal(t, s.post(many(1025)), 400, "kv_bad_request", "kv_too_many_keys")
	s.call(many(24), `{"op":"getPrefix","prefix":"k","limit":1000}`)
	needRefusal(t, s.post(many(25), `{"op":"getPrefix","prefix":"k","limit":1000}`), 400, "kv_bad_request", "kv_too_many_keys")
	s.call(many(1024-100), `{"op":"getPrefix","prefix":"k"}`)
	needRefusal(t, s.post(many(1024-100), `{"op":"get","key":"k"}`, `{"op":"getPrefix","prefix":"k"}`), 400, "kv_bad_request", "kv_too_many_keys")
}

// cluster.md 1.9: the limits are settings.
func TestKVLimitsAreSettings_state2(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{
		"QUEEN_KV_MAX_OPS_PER_CALL": "2", "QUEEN_KV_MAX_KEYS_PER_CALL": "3", "QUEEN_KV_MAX_VALUE_BYTES": "10", "QUEEN_KV_MAX_READ_BYTES": "65536",
	}).Client()
	s := newRowsAt(t, client)
	const get = `{"op":"get","key":"k"}`
	s.call(get, get)
	needRefusal(t, s.post(get, get, get), 400, "kv_bad_request", "kv_too_many_ops")
	needRefusal(t, s.post(`{"op":"getMany","keys":["a","b","c","d"]}`), 400, "kv_bad_request", "kv_too_many_keys")
	s.put("k", `"12345678"`)
	needRefusal(t, s.post(`{"op":"put","key":"k","value":"123456789","forever":true}`), 413, "payload_too_large", "kv_value_too_large")
	s.needs(`{"op":"incr","key":"n","delta":9999999999,"forever":true}`, `{"op":"incr","applied":true,"key":"n","value":9999999999,"version":"*"}`)
	s.needs(`{"op":"incr","key":"n","delta":1,"forever":true}`, `{"op":"incr","applied":false,"reason":"limit","key":"n","value":9999999999,"version":"*"}`)
}

// state.md 1.3: a body beyond QUEEN_MAX_BODY_BYTES has the one body of every route.
func TestKVBodyTooLarge_state1(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_MAX_BODY_BYTES": "1048576"}).Client()
	for _, path := range []string{"/api/v1/kv", "/api/v1/locks"} {
		needEnvelope(t, client.Post(path, `["`+strings.Repeat("x", 1<<20)+`"]`), 413, "payload_too_large")
	}
}

// cluster.md 8.2: timeoutMs is a checked integer here too.
func TestKVDeadlineParameter_state1(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	path := "/api/v1/kv?timeoutMs="
	body := s.body(`{"op":"put","key":"k","value":1,"forever":true}`)
	need(t, suite.client.Post(path+"5000", body), 200)
	needRefusal(t, suite.client.Post(path+"soon", body), 400, "kv_bad_request", "kv_bad_request")
	needRefusal(t, suite.client.Post("/api/v1/locks?timeoutMs=0", `[{"op":"get","name":"l"}]`), 400, "locks_bad_request", "locks_bad_request")
}
