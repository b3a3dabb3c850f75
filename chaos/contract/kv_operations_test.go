package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// state.md 2.2: the elements, member by member.
func TestKVElements_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	s.needs(`{"op":"get","key":"a"}`, `{"op":"get","found":false,"key":"a"}`)
	s.needs(`{"op":"put","key":"a","value":{ "x" : [1.50, null] },"forever":true}`,
		`{"op":"put","applied":true,"key":"a","value":{"x":[1.50,null]},"version":"*"}`)
	s.needs(`{"op":"get","key":"a"}`,
		`{"op":"get","found":true,"key":"a","value":{"x":[1.50,null]},"version":"*","expiresAt":null,"updatedAt":"*"}`)
	s.needs(`{"op":"putIfAbsent","key":"b","value":null,"ttlSeconds":60}`,
		`{"op":"putIfAbsent","applied":true,"key":"b","value":null,"version":"*"}`)
	got := s.needs(`{"op":"get","key":"b"}`,
		`{"op":"get","found":true,"key":"b","value":null,"version":"*","expiresAt":"*","updatedAt":"*"}`)
	for _, name := range []string{"expiresAt", "updatedAt"} { // 1.5
		if text, _ := got[name].(string); !stateTime.MatchString(text) {
			t.Errorf("%s is %q", name, text)
		}
	}
	s.needs(`{"op":"putIfAbsent","key":"a","value":1,"forever":true}`,
		`{"op":"putIfAbsent","applied":false,"reason":"exists","key":"a","value":{"x":[1.50,null]},"version":"*"}`)
	s.needs(`{"op":"incr","key":"n","delta":2,"forever":true}`, `{"op":"incr","applied":true,"key":"n","value":2,"version":"*"}`)
	s.needs(`{"op":"getMany","keys":["n","zz","b","zz","aa"]}`, `{"op":"getMany","rows":[
		{"key":"b","value":null,"version":"*","expiresAt":"*","updatedAt":"*"},
		{"key":"n","value":2,"version":"*","expiresAt":null,"updatedAt":"*"}],"missing":["zz","aa"],"truncated":false}`)
	s.needs(`{"op":"getPrefix","prefix":"b"}`, `{"op":"getPrefix","rows":[
		{"key":"b","value":null,"version":"*","expiresAt":"*","updatedAt":"*"}],"truncated":false,"nextAfter":null}`)
	s.needs(`{"op":"getPrefix","prefix":"b","keysOnly":true}`, `{"op":"getPrefix","rows":[
		{"key":"b","version":"*","expiresAt":"*","updatedAt":"*"}],"truncated":false,"nextAfter":null}`)
	s.needs(`{"op":"check","key":"zz","expect":0}`, `{"op":"check","applied":true,"key":"zz","version":0}`)
	s.needs(`{"op":"check","key":"zz","expect":7}`, `{"op":"check","applied":false,"reason":"absent","key":"zz","value":null,"version":0}`)
	s.needs(`{"op":"delete","key":"zz"}`, `{"op":"delete","applied":false,"reason":"absent","key":"zz","value":null,"version":0}`)
	version := versionOf(s.call(`{"op":"get","key":"a"}`)[0])
	s.needs(`{"op":"delete","key":"a"}`, fmt.Sprintf(`{"op":"delete","applied":true,"key":"a","value":null,"version":%s}`, version))

	t.Run("a bare array is a call too, and an empty one", func(t *testing.T) {
		s := s.in(t)
		answer := s.client.Post("/api/v1/kv", "["+s.list(`{"op":"get","key":"n"}`)+"]")
		need(t, answer, 200)
		elementsOf(t, answer, 1)
		needBody(t, s.client.Post("/api/v1/kv", "[]"), 200, `{"results":[]}`)
	})
	t.Run("members that an operation does not use are ignored", func(t *testing.T) {
		s.in(t).needs(`{"op":"get","key":"zz","expect":-1,"ttlSeconds":"x","more":[]}`, `{"op":"get","found":false,"key":"zz"}`)
	})
	t.Run("the version of a write is the one that a get reports", func(t *testing.T) {
		s := s.in(t)
		if version := s.put("v", "1"); versionOf(s.call(`{"op":"get","key":"v"}`)[0]) != version {
			t.Errorf("a get reports another version than %s", version)
		}
	})
}

// state.md 2.1: versions of a key rise, also across delete, expiry and re-creation.
func TestKVVersionsRise_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	last := int64(0)
	rise := func(version json.Number) {
		t.Helper()
		n, err := version.Int64()
		if err != nil || n <= last {
			t.Fatalf("version %s behind %d", version, last)
		}
		last = n
	}
	rise(s.put("k", "1"))
	rise(s.put("k", "1"))
	s.call(`{"op":"delete","key":"k"}`)
	rise(s.put("k", "1"))
	rise(versionOf(s.call(`{"op":"incr","key":"k","delta":1,"forever":true}`)[0]))
	before := last
	s.call(`{"op":"check","key":"k","expect":0}`, `{"op":"put","key":"k","value":9,"forever":true,"expect":1}`)
	if got := versionOf(s.call(`{"op":"get","key":"k"}`)[0]); got.String() != fmt.Sprint(before) {
		t.Errorf("what was not applied has moved the version from %d to %s", before, got)
	}
}

// state.md 2.3: the table, row by row, without a row and with one.
func TestKVConditions_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	for _, c := range []struct{ name, op, none, same, other string }{
		{"put", `{"op":"put","key":"K","value":2,"forever":true}`, "", "", ""},
		{"put that expects none", `{"op":"put","key":"K","value":2,"forever":true,"expect":0}`, "", "exists", "exists"},
		{"putIfAbsent", `{"op":"putIfAbsent","key":"K","value":2,"forever":true}`, "", "exists", "exists"},
		{"putIfAbsent that says so", `{"op":"putIfAbsent","key":"K","value":2,"forever":true,"expect":0}`, "", "exists", "exists"},
		{"put that expects a version", `{"op":"put","key":"K","value":2,"forever":true,"expect":V}`, "absent", "", "version"},
		{"delete", `{"op":"delete","key":"K"}`, "absent", "", ""},
		{"delete that expects a version", `{"op":"delete","key":"K","expect":V}`, "absent", "", "version"},
		{"delete that expects none", `{"op":"delete","key":"K","expect":0}`, "absent", "exists", "exists"},
		{"check of none", `{"op":"check","key":"K","expect":0}`, "", "exists", "exists"},
		{"check of a version", `{"op":"check","key":"K","expect":V}`, "absent", "", "version"},
		{"incr", `{"op":"incr","key":"K","delta":1,"forever":true}`, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			verdict := func(key, version, want string) {
				t.Helper()
				element := s.call(strings.NewReplacer("K", key, "V", version).Replace(c.op))[0]
				if reason, _ := element["reason"].(string); element["applied"] != (want == "") || reason != want {
					t.Fatalf("want %q, got %v", want, element)
				}
			}
			key := strings.ReplaceAll(c.name, " ", "-")
			verdict(key+"-none", "5", c.none)
			if c.none != "" {
				s.value(key+"-none", "")
			}
			verdict(key+"-same", s.put(key+"-same", "1").String(), c.same)
			verdict(key+"-other", "1"+s.put(key+"-other", "1").String(), c.other)
			if c.other != "" {
				s.value(key+"-other", "1")
			}
		})
	}
	t.Run("of many that come at once one applies", func(t *testing.T) {
		s := s.in(t)
		applied := make(chan map[string]any, 12)
		var all sync.WaitGroup
		for i := range cap(applied) {
			all.Go(func() {
				answer := s.post(fmt.Sprintf(`{"op":"putIfAbsent","key":"race","value":%d,"forever":true}`, i))
				if list, _ := answer.Object()["results"].([]any); len(list) == 1 {
					element, _ := list[0].(map[string]any)
					applied <- element
				}
			})
		}
		all.Wait()
		close(applied)
		wins, seen := 0, 0
		winner := s.call(`{"op":"get","key":"race"}`)[0]
		for element := range applied {
			seen++
			if element["applied"] == true {
				wins++
			}
			if element["value"] != winner["value"] || element["version"] != winner["version"] {
				t.Errorf("want the winner %v, got %v", winner, element)
			}
		}
		if wins != 1 || seen != cap(applied) {
			t.Errorf("%d of %d applied", wins, seen)
		}
	})
}

// state.md 2.3: counters are exact decimals, held to bounds and not saturated.
func TestKVCounters_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	incr := func(key, more, want string) {
		t.Helper()
		s.needs(fmt.Sprintf(`{"op":"incr","key":%q,"forever":true,%s}`, key, more), want)
	}
	applied := func(key, value string) string {
		return fmt.Sprintf(`{"op":"incr","applied":true,"key":%q,"value":%s,"version":"*"}`, key, value)
	}
	lost := func(key, reason, value string) string {
		return fmt.Sprintf(`{"op":"incr","applied":false,"reason":%q,"key":%q,"value":%s,"version":"*"}`, reason, key, value)
	}
	for i, want := range []string{applied("c", "1"), applied("c", "2"), applied("c", "3"), lost("c", "limit", "3")} {
		t.Run(fmt.Sprint("call ", i), func(t *testing.T) { s.in(t); incr("c", `"delta":1,"max":3`, want) })
	}
	s.value("c", "3")
	incr("c", `"delta":-4,"min":0`, lost("c", "limit", "3"))
	incr("c", `"delta":-3,"min":0`, applied("c", "0"))
	incr("fresh", `"delta":10,"max":5`, `{"op":"incr","applied":false,"reason":"limit","key":"fresh","value":0,"version":0}`)
	s.value("fresh", "")
	incr("wide", `"delta":9007199254740993`, applied("wide", "9007199254740993"))
	incr("wide", `"delta":1e3`, applied("wide", "9007199254741993"))
	incr("wide", `"delta":0.1`, applied("wide", "9007199254741993.1"))
	incr("wide", `"delta":123456789012345678901234567890`, applied("wide", "123456789012354686100489309883.1"))
	incr("far", `"delta":1e70000`, `{"op":"incr","applied":false,"reason":"limit","key":"far","value":0,"version":0}`)
	s.put("text", `"1"`)
	incr("text", `"delta":1`, lost("text", "type", `"1"`))
	s.put("object", `{}`)
	incr("object", `"delta":1`, lost("object", "type", `{}`))
	s.call(`{"op":"delete","key":"c"}`)
	incr("c", `"delta":1`, applied("c", "1"))
}

// state.md 2.4, 2.3: a lost condition concerns its own operation only, unless it is required: then nothing of the call applies.
func TestKVRequired_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	version := s.put("old", `{"deep":[1,"x"]}`)
	s.put("text", `"t"`)
	elements := s.call(`{"op":"put","key":"old","value":1,"forever":true,"expect":0}`, `{"op":"put","key":"new","value":1,"forever":true}`)
	if elements[0]["applied"] != false || elements[1]["applied"] != true {
		t.Fatalf("got %v", elements)
	}
	for _, c := range []struct{ op, want string }{
		{`{"op":"put","key":"old","value":1,"forever":true,"expect":0,"required":true}`,
			fmt.Sprintf(`{"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"exists","version":%s,"value":{"deep":[1,"x"]}}`, version)},
		{`{"op":"putIfAbsent","key":"old","value":1,"forever":true,"required":true}`,
			fmt.Sprintf(`{"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"exists","version":%s,"value":{"deep":[1,"x"]}}`, version)},
		{`{"op":"delete","key":"none","required":true}`,
			`{"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"absent","version":0,"value":null}`},
		{`{"op":"check","key":"old","expect":1,"required":true}`,
			fmt.Sprintf(`{"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"version","version":%s,"value":{"deep":[1,"x"]}}`, version)},
		{`{"op":"incr","key":"none","delta":5,"max":1,"forever":true,"required":true}`,
			`{"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"limit","version":0,"value":0}`},
		{`{"op":"incr","key":"text","delta":5,"forever":true,"required":true}`,
			`{"ok":false,"reason":"kv_precondition","failedIndex":1,"kvReason":"type","version":"*","value":"t"}`},
	} {
		answer := s.post(`{"op":"put","key":"beside","value":1,"forever":true}`, c.op, `{"op":"delete","key":"later","required":true}`)
		need(t, answer, 200)
		needShape(t, answer.Object(), c.want)
		s.value("beside", "")
	}
	answer := s.post(`{"op":"check","key":"old","expect":1,"required":true}`) // without a write
	need(t, answer, 200)
	if answer.Object()["failedIndex"] != json.Number("0") || answer.Text("kvReason") != "version" {
		t.Errorf("got %v", answer)
	}
	if held := s.call(fmt.Sprintf(`{"op":"check","key":"old","expect":%s,"required":true}`, version))[0]; held["applied"] != true {
		t.Errorf("got %v", held)
	}
}
