package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// locks are operations on one lock that a test has for itself. Operations are written as JSON without their name.
type locks struct {
	t      *testing.T
	client *harness.Client
	name   string
}

func newLocks(t *testing.T) *locks { return &locks{t, suite.client, uniqueName(t)} }

func (l *locks) post(op string) harness.Response {
	return l.client.Post("/api/v1/locks", `{"operations":[`+strings.Replace(op, `{"op"`, fmt.Sprintf(`{"name":%q,"op"`, l.name), 1)+`]}`)
}

// needs runs an operation and ends the test unless its element, without index and name, is this JSON.
func (l *locks) needs(op, want string) map[string]any {
	l.t.Helper()
	answer := l.post(op)
	need(l.t, answer, 200)
	needExactKeys(l.t, answer.Object(), "results")
	element := elementsOf(l.t, answer, 1)[0]
	if element["name"] != l.name {
		l.t.Fatalf("got %v", answer)
	}
	delete(element, "index")
	delete(element, "name")
	needShape(l.t, element, want)
	return element
}

func tokenOf(element map[string]any) json.Number {
	token, _ := element["token"].(json.Number)
	return token
}

// acquired is the element of a permit that an owner has got.
func (l *locks) acquired(slot int, owner, more string) string {
	return fmt.Sprintf(`{"op":"acquire","acquired":true,"slot":%d,"token":"*","owner":%s,%s"guard":{"op":"check","ns":"queen-locks","key":"%s#%d","expect":"*","required":true}}`,
		slot, owner, more, l.name, slot)
}

// state.md 4.3, 4.4: a lock from its acquire to its release.
func TestLockLifeCycle_state4(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	l.needs(`{"op":"get"}`, `{"op":"get","held":false,"holders":[]}`)
	first := l.needs(`{"op":"acquire","ttlSeconds":60,"owner":"me"}`, l.acquired(0, `"me"`, ""))
	token := tokenOf(first)
	if guard, _ := first["guard"].(map[string]any); guard["expect"] != token {
		t.Fatalf("the guard expects %v, the token is %s", guard["expect"], token)
	}
	again := l.needs(`{"op":"acquire","ttlSeconds":600,"owner":"me"}`, l.acquired(0, `"me"`, `"already":true,`))
	held := l.needs(`{"op":"get"}`, `{"op":"get","held":true,"holders":[{"slot":0,"owner":"me","token":"*","since":"*","renewedAt":"*","expiresAt":"*"}]}`)
	holder := held["holders"].([]any)[0].(map[string]any)
	if tokenOf(again) != token || tokenOf(holder) != token || holder["since"] != holder["renewedAt"] {
		t.Fatalf("another acquire of the owner has changed something: %v, %v", again, held)
	}
	l.needs(`{"op":"acquire","ttlSeconds":60,"owner":"you"}`, `{"op":"acquire","acquired":false,"reason":"held","holders":[{"slot":0,"owner":"me"}]}`)
	l.needs(`{"op":"acquire","ttlSeconds":60}`, `{"op":"acquire","acquired":false,"reason":"held","holders":[{"slot":0,"owner":"me"}]}`)

	renewed := fmt.Sprintf(`{"op":"renew","renewed":true,"slot":0,"token":"*","guard":{"op":"check","ns":"queen-locks","key":"%s#0","expect":"*","required":true}}`, l.name)
	second := l.needs(fmt.Sprintf(`{"op":"renew","token":%s,"ttlSeconds":60}`, token), renewed)
	if !less(token, tokenOf(second)) {
		t.Fatalf("the token went from %s to %s", token, tokenOf(second))
	}
	lost := `{"op":"renew","renewed":false,"reason":"lost","slot":0,"holders":[{"slot":0,"owner":"me"}]}`
	l.needs(fmt.Sprintf(`{"op":"renew","token":%s,"ttlSeconds":60}`, token), lost)
	l.needs(fmt.Sprintf(`{"op":"renew","token":%s,"ttlSeconds":60,"slot":0,"owner":"you"}`, token), lost)
	third := l.needs(fmt.Sprintf(`{"op":"renew","token":%s,"ttlSeconds":60,"owner":"me"}`, token), renewed) // stale, and the owner's
	if !less(tokenOf(second), tokenOf(third)) {
		t.Fatalf("the token went from %s to %s", tokenOf(second), tokenOf(third))
	}
	renewedHolder := l.needs(`{"op":"get"}`, `{"op":"get","held":true,"holders":["*"]}`)["holders"].([]any)[0].(map[string]any)
	if renewedHolder["since"] != holder["since"] || renewedHolder["renewedAt"] == holder["renewedAt"] {
		t.Fatalf("a renewal keeps since and moves renewedAt: %v, then %v", holder, renewedHolder)
	}
	l.needs(fmt.Sprintf(`{"op":"release","token":%s}`, token), `{"op":"release","released":false,"reason":"lost","slot":0,"holders":[{"slot":0,"owner":"me"}]}`)
	l.needs(fmt.Sprintf(`{"op":"release","token":%s,"slot":0}`, tokenOf(third)), `{"op":"release","released":true,"slot":0}`)
	l.needs(fmt.Sprintf(`{"op":"release","token":%s}`, tokenOf(third)), `{"op":"release","released":false,"reason":"lost","slot":0,"holders":[]}`)
	l.needs(fmt.Sprintf(`{"op":"renew","token":%s,"ttlSeconds":5,"owner":"me"}`, tokenOf(third)), `{"op":"renew","renewed":false,"reason":"lost","slot":0,"holders":[]}`)
	l.needs(`{"op":"get"}`, `{"op":"get","held":false,"holders":[]}`)
	anonymous := l.needs(`{"op":"acquire","ttlSeconds":60,"owner":null}`, l.acquired(0, "null", ""))
	if !less(tokenOf(third), tokenOf(anonymous)) {
		t.Errorf("a later holder has the token %s, an earlier one %s", tokenOf(anonymous), tokenOf(third))
	}
	l.needs(`{"op":"acquire","ttlSeconds":60}`, `{"op":"acquire","acquired":false,"reason":"held","holders":[{"slot":0,"owner":null}]}`)
}

func less(a, b json.Number) bool {
	x, errX := a.Int64()
	y, errY := b.Int64()
	return errX == nil && errY == nil && x < y
}

// state.md 4.1: permits are rows, visible and deletable as such.
func TestPermitsAreRows_state4(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	permit := l.needs(`{"op":"acquire","ttlSeconds":60,"owner":"me \"and\" é"}`, l.acquired(0, `"me \"and\" é"`, ""))
	s := &rows{t, l.client, "queen-locks"}
	row := s.needs(fmt.Sprintf(`{"op":"get","key":"%s#0"}`, l.name),
		fmt.Sprintf(`{"op":"get","found":true,"key":"%s#0","value":{"owner":"me \"and\" é","since":"*"},"version":%s,"expiresAt":"*","updatedAt":"*"}`, l.name, tokenOf(permit)))
	if since := row["value"].(map[string]any)["since"].(string); since != row["updatedAt"] {
		t.Errorf("since is %s, the row is of %v", since, row["updatedAt"])
	}
	page := l.client.Post("/api/v1/resources/kv/list", fmt.Sprintf(`{"namespace":"queen-locks","prefix":%q}`, l.name+"#"))
	if list, _ := page.Object()["rows"].([]any); len(list) != 1 {
		t.Errorf("got %v", page)
	}
	s.call(fmt.Sprintf(`{"op":"delete","key":"%s#0"}`, l.name))
	l.needs(`{"op":"get"}`, `{"op":"get","held":false,"holders":[]}`)
}

// state.md 4.4: twelve callers with limit 3 hold three permits in distinct slots, and a freed one goes to whoever asks next.
func TestSemaphoreNeverExceedsItsLimit_state4(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	answers := make(chan harness.Response, 12)
	var all sync.WaitGroup
	for i := range cap(answers) {
		all.Go(func() { answers <- l.post(fmt.Sprintf(`{"op":"acquire","ttlSeconds":60,"limit":3,"owner":"o%d"}`, i)) })
	}
	all.Wait()
	close(answers)
	slots, held := map[string]json.Number{}, 0
	for answer := range answers {
		need(t, answer, 200)
		element := elementsOf(t, answer, 1)[0]
		if element["acquired"] == true {
			slots[fmt.Sprint(element["slot"])] = tokenOf(element)
			continue
		}
		if held++; element["reason"] != "held" || len(element["holders"].([]any)) != 3 {
			t.Errorf("got %v", element)
		}
	}
	if len(slots) != 3 || held != 9 || slots["0"] == "" || slots["1"] == "" || slots["2"] == "" {
		t.Fatalf("slots %v, %d held", slots, held)
	}
	if holders, _ := l.needs(`{"op":"get"}`, `{"op":"get","held":true,"holders":["*","*","*"]}`)["holders"].([]any); holders[1].(map[string]any)["slot"] != json.Number("1") {
		t.Errorf("got %v", holders)
	}
	l.needs(`{"op":"acquire","ttlSeconds":60}`, `{"op":"acquire","acquired":false,"reason":"held","holders":["*"]}`) // looks at slot 0 only
	l.needs(fmt.Sprintf(`{"op":"release","token":%s,"slot":1}`, slots["1"]), `{"op":"release","released":true,"slot":1}`)
	l.needs(`{"op":"acquire","ttlSeconds":60,"limit":3,"owner":"late"}`, l.acquired(1, `"late"`, ""))
	l.needs(`{"op":"acquire","ttlSeconds":60,"limit":4,"owner":"more"}`, l.acquired(3, `"more"`, ""))
}

// state.md 4.4: a lease of 1 s is free 1.3 s later, and its guard refuses a transaction from then on.
func TestLockExpiresAndFences_state4(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	permit := l.needs(`{"op":"acquire","ttlSeconds":60,"owner":"slow"}`, l.acquired(0, `"slow"`, ""))
	queue := uniqueName(t)
	guarded := func(txid string) harness.TransactionReply {
		guard, err := json.Marshal(permit["guard"])
		if err != nil {
			t.Fatal(err)
		}
		return l.client.Transaction(`{"operations":[` + pushText(queue, txid) + `],"kv":[` + string(guard) + `]}`)
	}
	if reply := guarded("in-time"); !reply.Success {
		t.Fatalf("got %v", reply)
	}
	permit = l.needs(fmt.Sprintf(`{"op":"renew","token":%s,"ttlSeconds":1}`, tokenOf(permit)), `{"op":"renew","renewed":true,"slot":0,"token":"*","guard":"*"}`)
	time.Sleep(1300 * time.Millisecond) // the rule is about this time
	needRolledBack(t, guarded("too-late"), "kv_precondition")
	next := l.needs(`{"op":"acquire","ttlSeconds":60,"owner":"next"}`, l.acquired(0, `"next"`, ""))
	reply := guarded("too-late")
	needRolledBack(t, reply, "kv_precondition")
	if got := reply.Object(); got["kvReason"] != "version" || got["version"] != next["token"] || got["value"].(map[string]any)["owner"] != "next" || got["failedIndex"] != json.Number("1") {
		t.Errorf("got %v", reply)
	}
	needStored(t, l.client, queue, "in-time")
}

// state.md 4.2: several operations in one call, each on a name of its own; one that loses keeps no other back.
func TestLockCallOfSeveral_state4(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	body := func(ops ...string) string {
		return strings.ReplaceAll("["+strings.Join(ops, ",")+"]", "NAME", l.name)
	}
	l.needs(`{"op":"acquire","ttlSeconds":60}`, l.acquired(0, "null", ""))
	answer := l.client.Post("/api/v1/locks", body(`{"op":"acquire","name":"NAME","ttlSeconds":60}`, `{"op":"acquire","name":"NAME-2","ttlSeconds":60}`,
		`{"op":"get","name":"NAME-3"}`, `{"op":"release","name":"NAME-4","token":5,"slot":7}`))
	need(t, answer, 200)
	elements := elementsOf(t, answer, 4)
	if elements[0]["acquired"] != false || elements[1]["acquired"] != true || elements[2]["held"] != false || elements[3]["released"] != false || elements[3]["slot"] != json.Number("7") {
		t.Errorf("got %v", answer)
	}
	needBody(t, l.client.Post("/api/v1/locks", "[]"), 200, `{"results":[]}`)
}

// state.md 4.5: the table of the refusals.
func TestLockFaults_state4(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 256)
	refused := func(body, reason string) {
		t.Helper()
		needRefusal(t, suite.client.Post("/api/v1/locks", body), 400, "locks_bad_request", reason)
	}
	for _, body := range []string{``, `{`, `7`, `{}`, `{"operations":{}}`, "[\"\xff\"]"} {
		refused(body, "locks_bad_body")
	}
	for op, reason := range map[string]string{
		`7`: "locks_bad_request", `{"op":"lock","name":"l"}`: "locks_unknown_op", `{"name":"l"}`: "locks_unknown_op",
		`{"op":"get"}`: "locks_bad_name", `{"op":"get","name":""}`: "locks_bad_name", `{"op":"get","name":"a#b"}`: "locks_bad_name",
		`{"op":"get","name":"a\nb"}`: "locks_bad_name", `{"op":"get","name":7}`: "locks_bad_name", `{"op":"get","name":"a` + long + `"}`: "locks_bad_name",
		`{"op":"acquire","name":"l"}`:                                        "locks_ttl_required",
		`{"op":"acquire","name":"l","ttlSeconds":0}`:                         "locks_bad_ttl",
		`{"op":"acquire","name":"l","ttlSeconds":1.5}`:                       "locks_bad_ttl",
		`{"op":"acquire","name":"l","forever":true}`:                         "locks_ttl_required",
		`{"op":"acquire","name":"l","ttlSeconds":1,"owner":""}`:              "locks_bad_owner",
		`{"op":"acquire","name":"l","ttlSeconds":1,"owner":7}`:               "locks_bad_owner",
		`{"op":"acquire","name":"l","ttlSeconds":1,"owner":"\u0007"}`:        "locks_bad_owner",
		`{"op":"acquire","name":"l","ttlSeconds":1,"owner":"n` + long + `"}`: "locks_bad_owner",
		`{"op":"acquire","name":"l","ttlSeconds":1,"limit":0}`:               "locks_bad_limit",
		`{"op":"acquire","name":"l","ttlSeconds":1,"limit":1025}`:            "locks_bad_limit",
		`{"op":"acquire","name":"l","ttlSeconds":1,"limit":"3"}`:             "locks_bad_limit",
		`{"op":"renew","name":"l","ttlSeconds":1}`:                           "locks_token_required",
		`{"op":"renew","name":"l","token":1}`:                                "locks_ttl_required",
		`{"op":"renew","name":"l","token":"1","ttlSeconds":1}`:               "locks_bad_token",
		`{"op":"renew","name":"l","token":-1,"ttlSeconds":1}`:                "locks_bad_token",
		`{"op":"renew","name":"l","token":1,"ttlSeconds":1,"slot":-1}`:       "locks_bad_slot",
		`{"op":"release","name":"l","token":1,"slot":1024}`:                  "locks_bad_slot",
		`{"op":"release","name":"l"}`:                                        "locks_token_required",
		`{"op":"get","name":"l","tenant":"x"}`:                               "locks_tenant_not_an_input",
		`{"op":"get","name":"l","tenantId":1}`:                               "locks_tenant_not_an_input",
		`{"op":"get","name":"l","_tenant":null}`:                             "locks_tenant_not_an_input",
		`{"op":"get","name":"l"},{"op":"acquire","name":"l","ttlSeconds":1}`: "locks_duplicate_in_call",
		`{"op":"get","name":"1"},{"op":"get","name":"2"},{"op":"get","name":"3"},` + `{"op":"get","name":"4"},{"op":"acquire","name":"5","ttlSeconds":1,"limit":97}`: "locks_too_many_keys",
	} {
		refused("["+op+"]", reason)
	}
	ops := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"op":"release","name":"many-%d","token":1}`, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	refused(ops(65), "locks_too_many_ops")
	need(t, suite.client.Post("/api/v1/locks", ops(64)), 200)
	need(t, suite.client.Post("/api/v1/locks", `[{"op":"get","name":"1"},{"op":"get","name":"2"},{"op":"get","name":"3"},`+
		`{"op":"get","name":"4"},{"op":"acquire","name":"five","ttlSeconds":1,"limit":96}]`), 200)
	need(t, suite.client.Post("/api/v1/locks", `[{"op":"acquire","name":"`+long+`","ttlSeconds":1,"limit":1024,"owner":"`+long+`"}]`), 200)
}
