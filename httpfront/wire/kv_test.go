package wire

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"queen/raftlog/command"
)

var usualKV = KVBounds{Ops: 256, Keys: 1024, ValueBytes: 64 << 10}

func TestKVOperationsAreDecoded(t *testing.T) {
	for text, want := range map[string]command.KVOp{
		`{"op":"get","ns":"app","key":"a/\u00e9","expect":"x"}`: {Kind: command.KVGet, Namespace: "app", Key: "a/é"},
		`{"op":"getMany","ns":"app","keys":["b","a","b"]}`:      {Kind: command.KVGetMany, Namespace: "app", Keys: []string{"b", "a", "b"}},
		`{"op":"getMany","ns":"app","keys":[]}`:                 {Kind: command.KVGetMany, Namespace: "app", Keys: []string{}},
		`{"op":"getPrefix","ns":"app","prefix":"a","after":"ab","limit":5000,"keysOnly":true,"key":7}`: {
			Kind: command.KVGetPrefix, Namespace: "app", Key: "a", After: "ab", Limit: 1000, KeysOnly: true},
		`{"op":"getPrefix","ns":"app","prefix":"a","after":null,"limit":null,"keysOnly":null}`: {
			Kind: command.KVGetPrefix, Namespace: "app", Key: "a", Limit: 100},
		`{"op":"put","ns":"app","key":"k","value": { "a b" : [ 1.50 , "\ud800" ] } ,"ttlSeconds":5,"expect":3,"required":true}`: {
			Kind: command.KVPut, Namespace: "app", Key: "k", Value: []byte(`{"a b":[1.50,"\ud800"]}`), TTLSeconds: 5, Expect: 3, HasExpect: true, Required: true},
		`{"op":"putIfAbsent","ns":"app","key":"k","value":null,"forever":true,"expect":0,"required":null}`: {
			Kind: command.KVPutIfAbsent, Namespace: "app", Key: "k", Value: []byte("null"), HasExpect: true},
		`{"op":"delete","ns":"app","key":"k","expect":99999999999999999999,"value":1,"ttlSeconds":0}`: {
			Kind: command.KVDelete, Namespace: "app", Key: "k", Expect: math.MaxUint64, HasExpect: true},
		`{"op":"incr","ns":"app","key":"k","delta":-1.5e3,"min":0,"max":9007199254740993,"forever":true}`: {
			Kind: command.KVIncr, Namespace: "app", Key: "k", Delta: "-1.5e3", Min: "0", Max: "9007199254740993"},
		`{"op":"incr","ns":"app","key":"k","delta":1,"min":null,"ttlSeconds":99999999999999999999}`: {
			Kind: command.KVIncr, Namespace: "app", Key: "k", Delta: "1", TTLSeconds: math.MaxUint64},
		`{"op":"set","op":"check","ns":"app","key":"k","expect":7}`: {Kind: command.KVCheck, Namespace: "app", Key: "k", Expect: 7, HasExpect: true},
	} {
		for _, body := range []string{"[" + text + "]", `{"more":1,"operations":[` + text + `]}`} {
			raw := []byte(body)
			got, err := DecodeKV(raw, &usualKV)
			clear(raw) // nothing may alias it
			if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("%s:\ngot  %+v, %v\nwant %+v", body, got, err, want)
			}
		}
	}
}

func TestKVRefusalsSayWhere(t *testing.T) {
	for body, want := range map[string]struct{ reason, text string }{
		``:                                      {"kv_bad_body", "unexpected end"},
		`7`:                                     {"kv_bad_body", "it is neither an array of operations"},
		`[{"op":"get","ns":"app","key":"k"},7]`: {"kv_bad_request", "operations[1] must be an object"},
		`[{"op":"get","ns":"app","key":"\ud800"}]`:                               {"kv_bad_key", "operations[0]: key must be a string"},
		`[{"op":"getMany","ns":"app","keys":["a",7]}]`:                           {"kv_bad_key", "operations[0]: keys[1] must be a string"},
		`[{"op":"get","ns":"\ud800","key":"k"}]`:                                 {"kv_bad_namespace", "operations[0]: ns must match"},
		`[{"op":"check","ns":"app","key":"k","expect":1,"required":1}]`:          {"kv_bad_request", "operations[0]: required must be true"},
		`[{"op":"getPrefix","ns":"app","prefix":"p","limit":"1"}]`:               {"kv_bad_request", "operations[0]: limit must be a number"},
		`[{"op":"getPrefix","ns":"app","prefix":"p","after":1}]`:                 {"kv_bad_request", "operations[0]: after must be a string"},
		`[{"op":"getPrefix","ns":"app","prefix":"p","keysOnly":0}]`:              {"kv_bad_request", "operations[0]: keysOnly must be true"},
		`[{"op":"incr","ns":"app","key":"k","delta":1,"min":"","forever":true}]`: {"kv_bad_request", "operations[0]: min must be a number"},
	} {
		_, err := DecodeKV([]byte(body), &usualKV)
		refusal, ok := errors.AsType[*Error](err)
		if !ok || refusal.Code != "kv_bad_request" || refusal.Reason != want.reason || !strings.HasPrefix(refusal.Text, want.text) {
			t.Errorf("%s: got %+v, want %+v", body, err, want)
		}
	}
}

// A value is measured without its white space, and no more of it is kept than it takes to see that it is too long.
func TestKVValueIsMeasuredCompact(t *testing.T) {
	bounds := KVBounds{Ops: 1, Keys: 1, ValueBytes: 4}
	put := func(value string) ([]command.KVOp, error) {
		return DecodeKV([]byte(`[{"op":"put","ns":"app","key":"k","forever":true,"value":`+value+`}]`), &bounds)
	}
	if ops, err := put("[ 1 ,\n" + strings.Repeat("\t ", 1000) + "]"); err == nil {
		t.Errorf("a bad value was taken: %+v", ops)
	}
	if ops, err := put(" [ 12" + strings.Repeat("\t ", 1000) + "] "); err != nil || string(ops[0].Value) != "[12]" {
		t.Errorf("got %+v, %v", ops, err)
	}
	for _, long := range []string{`[123]`, `"abc"`, `{"a":1}`} {
		_, err := put(long)
		if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Code != "payload_too_large" || refusal.Reason != "kv_value_too_large" {
			t.Errorf("%s: got %v", long, err)
		}
	}
}

func TestKVAnswers(t *testing.T) {
	const stamp = 1_790_000_000_000_001
	row := command.KVRow{Key: `a"`, Value: []byte(`[1]`), Version: 7, UpdatedMicros: stamp, ExpiresMicros: stamp + 1}
	ops := []command.KVOp{
		{Kind: command.KVGet, Key: "k"}, {Kind: command.KVGetPrefix, Key: "a", KeysOnly: true}, {Kind: command.KVPut, Key: "k", Value: []byte("1")},
		{Kind: command.KVDelete, Key: "k"}, {Kind: command.KVCheck, Key: "k"}, {Kind: command.KVCheck, Key: "k"}, {Kind: command.KVGetMany, Keys: []string{"a", "b"}},
	}
	results := []command.KVOpResult{
		{}, {Rows: []command.KVRow{row}, Truncated: true, After: `a"`}, {Version: 8}, {Version: 9}, {Version: 3},
		{Reason: command.KVReasonVersion, Version: 4, Value: []byte("null")}, {Missing: []uint32{1}},
	}
	got := string(AppendKV(nil, ops, &command.KVResult{Ops: results}))
	want := `{"results":[{"index":0,"op":"get","found":false,"key":"k"},` +
		`{"index":1,"op":"getPrefix","rows":[{"key":"a\"","version":7,"expiresAt":"2026-09-21T14:13:20.000002Z","updatedAt":"2026-09-21T14:13:20.000001Z"}],"truncated":true,"nextAfter":"a\""},` +
		`{"index":2,"op":"put","applied":true,"key":"k","value":1,"version":8},` +
		`{"index":3,"op":"delete","applied":true,"key":"k","value":null,"version":9},` +
		`{"index":4,"op":"check","applied":true,"key":"k","version":3},` +
		`{"index":5,"op":"check","applied":false,"reason":"version","key":"k","value":null,"version":4},` +
		`{"index":6,"op":"getMany","rows":[],"missing":["b"],"truncated":false}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	lost := &command.KVResult{Lost: &command.KVLost{Op: 2, Reason: command.KVReasonAbsent}}
	if got := string(AppendKV(nil, ops, lost)); got != `{"ok":false,"reason":"kv_precondition","failedIndex":2,"kvReason":"absent","version":0,"value":null}` {
		t.Errorf("got %s", got)
	}
	page := &KVPage{Rows: []KVPageRow{{&row, true}}, Bytes: 3}
	if got := string(AppendKVPage(nil, page)); got != `{"rows":[{"key":"a\"","value":[1],"version":7,"expiresAt":"2026-09-21T14:13:20.000002Z",`+
		`"updatedAt":"2026-09-21T14:13:20.000001Z","expired":true}],"truncated":false,"nextAfter":null,"bytes":3}` {
		t.Errorf("got %s", got)
	}
}

func TestLostGateOfATransaction(t *testing.T) {
	a := &TransactionAnswer{Reason: "kv_precondition", Error: "no", Lost: &LostGate{&command.KVLost{Op: 1, Reason: command.KVReasonVersion, Version: 5, Value: []byte("{}")}, 4}}
	want := `{"transactionId":"00000000-0000-0000-0000-000000000000","success":false,"ok":false,"reason":"kv_precondition","error":"no","results":[],` +
		`"failedIndex":4,"kvReason":"version","version":5,"value":{}}`
	if got := string(AppendTransaction(nil, a)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzDecodeKV: what is taken is within all bounds, and can be answered.
func FuzzDecodeKV(f *testing.F) {
	for _, seed := range []string{
		`[{"op":"put","ns":"app","key":"k","value":{"a":[1, 2.5e3]},"ttlSeconds":5,"expect":0,"required":true}]`,
		`{"operations":[{"op":"getPrefix","ns":"app","prefix":"a","limit":2},{"op":"incr","ns":"app","key":"n","delta":-0.5,"forever":true}]}`,
		`[{"op":"getMany","ns":"a.b","keys":["a","\u0062"]},{"op":"check","ns":"app","key":"k","expect":7},{"op":"get","ns":"app","key":"x","tenant":1}]`,
	} {
		f.Add([]byte(seed))
	}
	bounds := KVBounds{Ops: 8, Keys: 2000, ValueBytes: 64}
	f.Fuzz(func(t *testing.T, body []byte) {
		ops, err := DecodeKV(body, &bounds)
		if err != nil {
			if refusal, ok := err.(*Error); !ok || refusal.Reason == "" {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		result := &command.KVResult{Ops: make([]command.KVOpResult, len(ops))}
		for i := range ops {
			op := &ops[i]
			stores := op.Kind == command.KVPut || op.Kind == command.KVPutIfAbsent
			if op.Kind < command.KVGet || op.Kind > command.KVCheck || len(op.Value) > bounds.ValueBytes || stores != json.Valid(op.Value) ||
				len(op.Namespace)+len(op.Key) > kvPlaceBytes-kvTenantBytes || op.Key == "" && op.Kind != command.KVGetMany || (op.Kind == command.KVIncr) != (op.Delta != "") {
				t.Fatalf("%s was taken as %+v", body, op)
			}
		}
		if answer := AppendKV(nil, ops, result); !json.Valid(answer) {
			t.Fatalf("the answer is %s", answer)
		}
	})
}
