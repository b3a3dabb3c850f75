package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"queen/raftlog/command"
)

func TestLockOperationsAreDecoded(t *testing.T) {
	for text, want := range map[string]command.LockOp{
		`{"op":"acquire","name":"a b/é","ttlSeconds":5}`: {Kind: command.LockAcquire, Name: "a b/é", TTLSeconds: 5, Limit: 1},
		`{"op":"acquire","name":"n","ttlSeconds":5,"owner":"o","limit":1024,"slot":"x"}`: {
			Kind: command.LockAcquire, Name: "n", TTLSeconds: 5, Limit: 1024, Owner: "o"},
		`{"op":"renew","name":"n","token":9007199254740991,"ttlSeconds":1,"slot":3,"owner":null}`: {
			Kind: command.LockRenew, Name: "n", Token: 9007199254740991, TTLSeconds: 1, Slot: 3},
		`{"op":"release","name":"n","token":1,"slot":null,"ttlSeconds":0}`: {Kind: command.LockRelease, Name: "n", Token: 1},
		`{"op":"get","name":"n","limit":-1,"token":"x"}`:                   {Kind: command.LockGet, Name: "n"},
	} {
		raw := []byte("[" + text + "]")
		got, err := DecodeLock(raw)
		clear(raw) // nothing may alias it
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestLockRefusalsSayWhere(t *testing.T) {
	_, err := DecodeLock([]byte(`[{"op":"get","name":"a"},{"op":"get","name":"` + "\u0085" + `"}]`))
	refusal, ok := errors.AsType[*Error](err)
	if !ok || refusal.Code != "locks_bad_request" || refusal.Reason != "locks_bad_name" || !strings.HasPrefix(refusal.Text, "operations[1]: name") {
		t.Errorf("got %+v", err)
	}
}

func guardOf(name string, slot uint32, token uint64) command.KVOp {
	return command.KVOp{Kind: command.KVCheck, Namespace: "queen-locks", Key: name, Expect: token, HasExpect: true, Required: true}
}

func TestLockAnswers(t *testing.T) {
	holders := []command.LockHolder{{Slot: 1, Owner: "o", Token: 9, SinceMicros: 1_790_000_000_000_000, UpdatedMicros: 1_790_000_000_000_001}, {Slot: 2}}
	ops := []command.LockOp{
		{Kind: command.LockAcquire, Name: "a"}, {Kind: command.LockAcquire, Name: "b", Owner: "o"}, {Kind: command.LockRenew, Name: "c"},
		{Kind: command.LockRelease, Name: "d"}, {Kind: command.LockGet, Name: "e"},
	}
	results := []command.LockOpResult{
		{Holders: holders}, {Done: true, Already: true, Slot: 2, Token: 5}, {Slot: 3}, {Done: true, Slot: 4}, {Done: true, Holders: holders[:1]},
	}
	got := string(AppendLock(nil, ops, &command.LockResult{Ops: results}, guardOf))
	want := `{"results":[{"index":0,"op":"acquire","name":"a","acquired":false,"reason":"held","holders":[{"slot":1,"owner":"o"},{"slot":2,"owner":null}]},` +
		`{"index":1,"op":"acquire","name":"b","acquired":true,"slot":2,"token":5,"owner":"o","guard":{"op":"check","ns":"queen-locks","key":"b","expect":5,"required":true},"already":true},` +
		`{"index":2,"op":"renew","name":"c","renewed":false,"reason":"lost","slot":3,"holders":[]},` +
		`{"index":3,"op":"release","name":"d","released":true,"slot":4},` +
		`{"index":4,"op":"get","name":"e","held":true,"holders":[{"slot":1,"owner":"o","token":9,"since":"2026-09-21T14:13:20.000000Z","renewedAt":"2026-09-21T14:13:20.000001Z","expiresAt":null}]}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzDecodeLock: what is taken is within all bounds, and can be answered.
func FuzzDecodeLock(f *testing.F) {
	f.Add([]byte(`[{"op":"acquire","name":"n","ttlSeconds":5,"owner":"o","limit":3},{"op":"get","name":"m"}]`))
	f.Add([]byte(`{"operations":[{"op":"renew","name":"n","token":7,"ttlSeconds":1,"slot":2},{"op":"release","name":"m","token":7}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ops, err := DecodeLock(body)
		if err != nil {
			if refusal, ok := err.(*Error); !ok || refusal.Reason == "" {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		for i := range ops {
			op := &ops[i]
			acquires, fenced := op.Kind == command.LockAcquire, op.Kind == command.LockRenew || op.Kind == command.LockRelease
			if op.Kind < command.LockAcquire || op.Kind > command.LockGet || op.Name == "" || len(op.Name) > maxLockText || len(op.Owner) > maxLockText ||
				acquires != (op.Limit > 0) || op.Limit > maxLockLimit || op.Slot >= maxLockLimit || fenced != (op.Token > 0) {
				t.Fatalf("%s was taken as %+v", body, op)
			}
		}
		if answer := AppendLock(nil, ops, &command.LockResult{Ops: make([]command.LockOpResult, len(ops))}, guardOf); !json.Valid(answer) {
			t.Fatalf("the answer is %s", answer)
		}
	})
}
