package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stateTime is the form of the times of the state surfaces (state.md 1.5).
var stateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// state.md 2.6: in a call with writes every read sees all of them, wherever it stands, and all share one instant.
func TestKVReadsSeeAllWritesOfTheirCall_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	elements := s.call(`{"op":"get","key":"a"}`, `{"op":"put","key":"a","value":1,"forever":true}`, `{"op":"put","key":"b","value":2,"forever":true}`,
		`{"op":"getMany","keys":["b","a"]}`, `{"op":"getPrefix","prefix":"a"}`)
	if elements[0]["found"] != true || elements[0]["version"] != elements[1]["version"] {
		t.Errorf("the get saw %v", elements[0])
	}
	many, _ := elements[3]["rows"].([]any)
	if len(many) != 2 || len(elements[4]["rows"].([]any)) != 1 {
		t.Fatalf("got %v", elements)
	}
	if many[0].(map[string]any)["updatedAt"] != many[1].(map[string]any)["updatedAt"] {
		t.Errorf("the rows of one call have two instants: %v", many)
	}
	if deleted := s.call(`{"op":"delete","key":"a"}`, `{"op":"get","key":"a"}`); deleted[1]["found"] != false {
		t.Errorf("a read behind the deletion sees %v", deleted[1])
	}
}

// state.md 2.7: a row with a TTL of 1 s is there at once and gone 1.5 s later, for every operation.
func TestKVRowsExpire_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for _, key := range []string{"get", "putIfAbsent", "check", "delete", "kept"} {
		elements := s.call(fmt.Sprintf(`{"op":"put","key":%q,"value":{"v":1},"ttlSeconds":1}`, key), fmt.Sprintf(`{"op":"get","key":%q}`, key))
		if elements[1]["found"] != true {
			t.Errorf("%s is not found at once: %v", key, elements[1])
		}
	}
	s.call(`{"op":"put","key":"incr","value":{},"ttlSeconds":1}`)
	s.call(`{"op":"put","key":"kept","value":2,"forever":true}`) // never inherits
	s.call(`{"op":"incr","key":"short","delta":5,"ttlSeconds":1}`)
	first := s.call(`{"op":"incr","key":"window","delta":1,"ttlSeconds":500}`, `{"op":"get","key":"window"}`)[1]
	second := s.call(`{"op":"incr","key":"window","delta":1,"ttlSeconds":1000}`, `{"op":"get","key":"window"}`)[1]
	if first["expiresAt"] != second["expiresAt"] || second["value"] != json.Number("2") {
		t.Errorf("an incr moves the expiry: %v, %v", first, second)
	}
	time.Sleep(1500 * time.Millisecond) // the rule is about this time
	s.value("get", "")
	s.value("kept", "2")
	for _, c := range []struct{ op, applied string }{
		{`{"op":"putIfAbsent","key":"putIfAbsent","value":1,"forever":true}`, "true"},
		{`{"op":"check","key":"check","expect":0}`, "true"}, {`{"op":"delete","key":"delete"}`, "false"},
	} {
		if element := s.call(c.op)[0]; fmt.Sprint(element["applied"]) != c.applied {
			t.Errorf("%s: got %v", c.op, element)
		}
	}
	if element := s.call(`{"op":"incr","key":"incr","delta":1,"forever":true}`, `{"op":"get","key":"incr"}`)[1]; element["value"] != json.Number("1") || element["expiresAt"] != nil {
		t.Errorf("got %v", element)
	}
	if element := s.call(`{"op":"incr","key":"short","delta":1,"ttlSeconds":1000}`)[0]; element["value"] != json.Number("1") {
		t.Errorf("got %v", element)
	}
	rest := s.call(`{"op":"getMany","keys":["get","kept"]}`, `{"op":"getPrefix","prefix":"g"}`)
	if missing, _ := rest[0]["missing"].([]any); len(missing) != 1 || len(rest[1]["rows"].([]any)) != 0 {
		t.Errorf("got %v", rest)
	}
}

// state.md 1.5: a TTL beyond 100 years counts as 100 years.
func TestKVLongestLife_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for _, seconds := range []string{"3155760000", "3155760001", "9223372036854775807", "99999999999999999999"} {
		row := s.call(fmt.Sprintf(`{"op":"put","key":%q,"value":1,"ttlSeconds":%s}`, seconds, seconds), fmt.Sprintf(`{"op":"get","key":%q}`, seconds))[1]
		expires, err := time.Parse(time.RFC3339, row["expiresAt"].(string))
		if life := time.Until(expires).Seconds(); err != nil || life < 3155760000-60 || life > 3155760000+60 {
			t.Errorf("%s: expires at %v", seconds, row["expiresAt"])
		}
	}
}

// page reads the keys of a getPrefix and where it says that the next page begins.
func (s *rows) page(more string) (keys []string, truncated bool, next any) {
	s.t.Helper()
	element := s.call(`{"op":"getPrefix",` + more + `}`)[0]
	list, _ := element["rows"].([]any)
	for _, row := range list {
		keys = append(keys, row.(map[string]any)["key"].(string))
	}
	return keys, element["truncated"] == true, element["nextAfter"]
}

// state.md 2.8: pages and prefixes.
func TestKVPages_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for _, key := range []string{"p/1", "p/2", "p/3", "p/4", "p/5", "pX/1", "p%/1", "scan/a", "scanX/a", "é/1", "z"} {
		s.put(key, "1")
	}
	var got []string
	after := ""
	for i, want := range []int{2, 2, 1} {
		keys, truncated, next := s.page(fmt.Sprintf(`"prefix":"p/","limit":2,"after":%q`, after))
		if got = append(got, keys...); len(keys) != want || truncated != (i < 2) {
			t.Fatalf("page %d: %v, truncated %t", i, keys, truncated)
		}
		if truncated {
			after = next.(string)
			if after != keys[len(keys)-1] {
				t.Fatalf("the next page begins behind %s, the last key is %v", after, keys)
			}
		} else if next != nil {
			t.Fatalf("nextAfter is %v", next)
		}
	}
	if strings.Join(got, " ") != "p/1 p/2 p/3 p/4 p/5" {
		t.Errorf("got %v", got)
	}
	for prefix, want := range map[string]string{
		"p": "p%/1 p/1 p/2 p/3 p/4 p/5 pX/1", "p%": "p%/1", "p_": "", "scan/": "scan/a", "é": "é/1", "%": "",
	} {
		if keys, _, _ := s.page(fmt.Sprintf(`"prefix":%q`, prefix)); strings.Join(keys, " ") != want {
			t.Errorf("%s: got %v", prefix, keys)
		}
	}
	for limit, want := range map[string]int{"0": 1, "-5": 1, "1": 1, "3": 3, "2.9": 2, "1e9": 7} {
		if keys, _, _ := s.page(`"prefix":"p","limit":` + limit); len(keys) != want {
			t.Errorf("limit %s: got %v", limit, keys)
		}
	}
}

// state.md 2.8: a page has 100 rows unless it says otherwise, and 1000 at most.
func TestKVPageLimits_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for first := 0; first < 1010; first += 202 {
		var ops []string
		for i := range 202 {
			ops = append(ops, fmt.Sprintf(`{"op":"put","key":"k%04d","value":1,"forever":true}`, first+i))
		}
		s.call(ops...)
	}
	for more, want := range map[string]int{"": 100, `,"limit":null`: 100, `,"limit":1000`: 1000, `,"limit":5000`: 1000} {
		if keys, truncated, _ := s.page(`"prefix":"k"` + more); len(keys) != want || !truncated {
			t.Errorf("%s: %d keys, truncated %t", more, len(keys), truncated)
		}
	}
}

// state.md 2.8: the reads of a call share 4 MiB of values; the row that exceeds them is delivered.
func TestKVReadBudget_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	const rowBytes = 60 << 10
	value := `"` + strings.Repeat("x", rowBytes-2) + `"`
	for first := 0; first < 80; first += 40 {
		var ops []string
		for i := range 40 {
			ops = append(ops, fmt.Sprintf(`{"op":"put","key":"k%02d","value":%s,"forever":true}`, first+i, value))
		}
		s.call(ops...)
	}
	want := 4<<20/rowBytes + 1
	keys, truncated, next := s.page(`"prefix":"k","limit":1000`)
	if len(keys) != want || !truncated || next != keys[len(keys)-1] {
		t.Errorf("%d rows, want %d, truncated %t, next %v", len(keys), want, truncated, next)
	}
	var all []string
	for i := range 80 {
		all = append(all, fmt.Sprintf("%q", fmt.Sprintf("k%02d", i)))
	}
	elements := s.call(`{"op":"getMany","keys":[`+strings.Join(all, ",")+`]}`, `{"op":"getPrefix","prefix":"k"}`)
	first, _ := elements[0]["rows"].([]any)
	second, _ := elements[1]["rows"].([]any)
	if len(first) != want || elements[0]["truncated"] != true || len(second) != 1 || elements[1]["truncated"] != true {
		t.Errorf("%d and %d rows of a shared budget", len(first), len(second))
	}
	if keys, truncated, _ := s.page(`"prefix":"k","limit":1000,"keysOnly":true`); len(keys) != 80 || truncated {
		t.Errorf("%d keys without values, truncated %t", len(keys), truncated)
	}
}
