package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// rows is a namespace that one test has for itself. Operations are written as JSON without their ns.
type rows struct {
	t      *testing.T
	client *harness.Client
	ns     string
}

func newRows(t *testing.T) *rows { return newRowsAt(t, suite.client) }

func newRowsAt(t *testing.T, client *harness.Client) *rows {
	t.Helper()
	return &rows{t, client, fmt.Sprintf("n%d", nameCounter.Add(1))}
}

// in is the namespace in the hands of a subtest, through a client that may be another one.
func (s *rows) in(t *testing.T) *rows { return &rows{t, s.client, s.ns} }

func (s *rows) through(client *harness.Client) *rows { return &rows{s.t, client, s.ns} }

// body is the text of a call.
func (s *rows) body(ops ...string) string { return `{"operations":[` + s.list(ops...) + `]}` }

func (s *rows) list(ops ...string) string {
	return strings.ReplaceAll(strings.Join(ops, ","), `{"op"`, `{"ns":"`+s.ns+`","op"`)
}

func (s *rows) post(ops ...string) harness.Response {
	return s.client.Post("/api/v1/kv", s.body(ops...))
}

// call runs operations and ends the test unless each has an element, in order.
func (s *rows) call(ops ...string) []map[string]any {
	s.t.Helper()
	answer := s.post(ops...)
	need(s.t, answer, 200)
	needExactKeys(s.t, answer.Object(), "results")
	return elementsOf(s.t, answer, len(ops))
}

func elementsOf(t *testing.T, answer harness.Response, count int) []map[string]any {
	t.Helper()
	list, _ := answer.Object()["results"].([]any)
	elements := make([]map[string]any, len(list))
	for i := range list {
		elements[i], _ = list[i].(map[string]any)
		if elements[i] == nil || elements[i]["index"] != json.Number(fmt.Sprint(i)) {
			t.Fatalf("element %d: got %v", i, answer)
		}
	}
	if len(list) != count {
		t.Fatalf("want %d elements, got %v", count, answer)
	}
	return elements
}

// needs runs one operation and ends the test unless its element, without its index, is this JSON; "*" stands for any value but null.
func (s *rows) needs(op, want string) map[string]any {
	s.t.Helper()
	element := s.call(op)[0]
	delete(element, "index")
	needShape(s.t, element, want)
	return element
}

// put writes a row that never expires and returns its version.
func (s *rows) put(key, value string) json.Number {
	s.t.Helper()
	element := s.call(fmt.Sprintf(`{"op":"put","key":%q,"value":%s,"forever":true}`, key, value))[0]
	if element["applied"] != true {
		s.t.Fatalf("got %v", element)
	}
	return versionOf(element)
}

func versionOf(element map[string]any) json.Number {
	version, _ := element["version"].(json.Number)
	return version
}

// value ends the test unless a key has this value; empty wants that there is no row.
func (s *rows) value(key, want string) {
	s.t.Helper()
	op := fmt.Sprintf(`{"op":"get","key":%q}`, key)
	if want == "" {
		s.needs(op, fmt.Sprintf(`{"op":"get","found":false,"key":%q}`, key))
		return
	}
	element := s.call(op)[0]
	if got, err := json.Marshal(element["value"]); err != nil || element["found"] != true || !sameJSON(got, []byte(want)) {
		s.t.Fatalf("want %s, got %v", want, element)
	}
}

// needShape ends the test unless a value is this JSON; "*" stands for any value but null.
func needShape(t *testing.T, got any, want string) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(want))
	decoder.UseNumber()
	var wanted any
	if err := decoder.Decode(&wanted); err != nil {
		t.Fatalf("the test wants %s: %v", want, err)
	}
	if !fits(got, wanted) {
		text, _ := json.Marshal(got)
		t.Fatalf("got  %s\nwant %s", text, want)
	}
}

func fits(got, want any) bool {
	if want == "*" {
		return got != nil
	}
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(object)), slices.Sorted(maps.Keys(want))) {
			return false
		}
		for key := range want {
			if !fits(object[key], want[key]) {
				return false
			}
		}
		return true
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !fits(list[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(got, want)
	}
}
