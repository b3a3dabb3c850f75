package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

type namedCall struct {
	name string
	call PopCall
}

func samplePopCalls() []namedCall {
	id := RequestID{Origin: 0x1112131415161718, Sequence: 300}
	return []namedCall{
		{"pop_call_wildcard", PopCall{For: id, Tenant: DefaultTenant, Queue: "orders", Group: "workers", Batch: 200,
			AutoBatch: true, AutoPartitions: true, Partitions: 1, Subscription: Subscription{Mode: SubscriptionNew},
			Wait: true, LeftMicros: 29_999_800, AgoMicros: 200}},
		{"pop_call_pinned", PopCall{For: id, Tenant: DefaultTenant, Queue: "orders", Group: "workers", Pinned: true,
			Partition: "customer-7", Batch: 10, Partitions: 1, LeaseMs: 30_000, Conflation: true, Tried: true, Again: true,
			Subscription: Subscription{Mode: SubscriptionTimestamp, InstantMicros: 1_700_000_000_000_000}}},
		{"pop_call_discovery", PopCall{For: id, Tenant: testUUID(3), Group: QueueModeGroup, Discovery: true,
			Namespace: "shop", HasNamespace: true, Task: "", HasTask: true, Batch: 1, Partitions: 64,
			CommitOnDelivery: true, LeftMicros: 30_000_000}},
	}
}

type namedAnswer struct {
	name   string
	answer PopAnswer
}

func samplePopAnswers() []namedAnswer {
	return []namedAnswer{
		{"pop_answer_taken", PopAnswer{Verdict: PopTaken}},
		{"pop_answer_nothing", PopAnswer{Verdict: PopNothing, Registered: true, Conflation: true}},
		{"pop_answer_again", PopAnswer{Verdict: PopAgain, Tried: true}},
		{"pop_answer_doubtful", PopAnswer{Verdict: PopNothing, Registered: true, Doubtful: true}},
		{"pop_answer_refused", PopAnswer{Verdict: PopRefused, Code: "retry", Text: "the entry has no room for the command"}},
		{"pop_answer_overloaded", PopAnswer{Verdict: PopOverloaded}},
	}
}

// golden compares bytes with a file of testdata/golden.
func golden(t *testing.T, name string, data []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".hex")
	if *update {
		if err := os.WriteFile(path, []byte(hex.Dump(data)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.Dump(data); got != string(want) {
		t.Fatalf("bytes differ from %s:\n%s\nwant\n%s", path, got, want)
	}
}

// Nodes of two versions talk to each other during an upgrade, so the bytes of calls are pinned like those of the log.
func TestCallsEqualGoldenFiles(t *testing.T) {
	for _, sample := range samplePopCalls() {
		data := AppendPopCall(nil, &sample.call)
		golden(t, sample.name, data)
		if decoded, err := DecodePopCall(data); err != nil || decoded != sample.call {
			t.Errorf("%s: decoded %+v, %v", sample.name, decoded, err)
		}
	}
	for _, sample := range samplePopAnswers() {
		data := AppendPopAnswer(nil, &sample.answer)
		golden(t, sample.name, data)
		if decoded, err := DecodePopAnswer(data); err != nil || decoded != sample.answer {
			t.Errorf("%s: decoded %+v, %v", sample.name, decoded, err)
		}
	}
}

func TestDecodedCallIsWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var call PopCall
		drawValue(t, reflect.ValueOf(&call).Elem())
		if decoded, err := DecodePopCall(AppendPopCall(nil, &call)); err != nil || decoded != call {
			t.Fatalf("decoded %+v, %v\nwant %+v", decoded, err, call)
		}
		var answer PopAnswer
		drawValue(t, reflect.ValueOf(&answer).Elem())
		answer.Verdict = PopVerdict(rapid.Uint8Range(uint8(PopTaken), uint8(PopOverloaded)).Draw(t, "verdict"))
		if decoded, err := DecodePopAnswer(AppendPopAnswer(nil, &answer)); err != nil || decoded != answer {
			t.Fatalf("decoded %+v, %v\nwant %+v", decoded, err, answer)
		}
	})
}

func TestHostileCallsAreRefused(t *testing.T) {
	call := AppendPopCall(nil, &samplePopCalls()[0].call)
	answer := AppendPopAnswer(nil, &samplePopAnswers()[3].answer)
	for n := range call {
		if _, err := DecodePopCall(call[:n]); !errors.Is(err, ErrBadCall) {
			t.Fatalf("%d of %d bytes of a call: %v", n, len(call), err)
		}
	}
	for n := range answer {
		if _, err := DecodePopAnswer(answer[:n]); !errors.Is(err, ErrBadCall) {
			t.Fatalf("%d of %d bytes of an answer: %v", n, len(answer), err)
		}
	}
	if _, err := DecodePopCall(append(bytes.Clone(call), 0)); !errors.Is(err, ErrBadCall) {
		t.Errorf("a byte after the call: %v", err)
	}
	if _, err := DecodePopAnswer(append(bytes.Clone(answer), 0)); !errors.Is(err, ErrBadCall) {
		t.Errorf("a byte after the answer: %v", err)
	}
	call[0], answer[0] = callVersion+1, callVersion+1
	if _, err := DecodePopCall(call); !errors.Is(err, ErrUnknownFormat) {
		t.Errorf("a newer call: %v", err)
	}
	if _, err := DecodePopAnswer(answer); !errors.Is(err, ErrUnknownFormat) {
		t.Errorf("a newer answer: %v", err)
	}
	for _, verdict := range []byte{0, byte(PopOverloaded) + 1} {
		answer[0], answer[1] = callVersion, verdict
		if _, err := DecodePopAnswer(answer); !errors.Is(err, ErrBadCall) {
			t.Errorf("verdict %d: %v", verdict, err)
		}
	}
}

func FuzzDecodePopCall(f *testing.F) {
	for _, sample := range samplePopCalls() {
		f.Add(AppendPopCall(nil, &sample.call))
	}
	for _, sample := range samplePopAnswers() {
		f.Add(AppendPopAnswer(nil, &sample.answer))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		call, err := DecodePopCall(data)
		if err == nil && !bytes.Equal(AppendPopCall(nil, &call), data) {
			t.Fatalf("a second encoding of %+v: %x", call, data)
		}
		if err != nil && !errors.Is(err, ErrBadCall) && !errors.Is(err, ErrUnknownFormat) {
			t.Fatalf("undeclared error %v", err)
		}
		answer, err := DecodePopAnswer(data)
		if err == nil && !bytes.Equal(AppendPopAnswer(nil, &answer), data) {
			t.Fatalf("a second encoding of %+v: %x", answer, data)
		}
		if err != nil && !errors.Is(err, ErrBadCall) && !errors.Is(err, ErrUnknownFormat) {
			t.Fatalf("undeclared error %v", err)
		}
	})
}

func TestItemReadAloneEqualsItsEntry(t *testing.T) {
	for _, sample := range sampleCommands() {
		item := sampleEntry(sample.command).Items[0]
		encoded := AppendItem(nil, &item)
		decoded, err := DecodeItem(encoded)
		if err != nil || !reflect.DeepEqual(decoded, item) {
			t.Errorf("%s: decoded %+v, %v", sample.name, decoded, err)
		}
		if op := ItemOp(encoded); op != sample.command.Op() {
			t.Errorf("%s: opcode %d", sample.name, op)
		}
		if _, err := DecodeItem(append(bytes.Clone(encoded), 0)); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: a byte after the item: %v", sample.name, err)
		}
		for n := range encoded {
			if _, err := DecodeItem(encoded[:n]); !errors.Is(err, ErrBadEntry) {
				t.Fatalf("%s: %d of %d bytes: %v", sample.name, n, len(encoded), err)
			}
		}
	}
	if op := ItemOp([]byte{1, 2, 3}); op != 0 {
		t.Errorf("opcode %d of no item", op)
	}
}
