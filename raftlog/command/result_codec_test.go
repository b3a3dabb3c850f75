package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type namedResult struct {
	name   string
	result Result
}

// sampleResults has one filled value of every result type. TestEveryResultKindHasASample keeps it complete.
func sampleResults() []namedResult {
	pushes := []PushGroupResult{
		{Partition: 300, FirstOffset: 70_000},
		{Partition: 5, FirstOffset: 9, Duplicates: []Duplicate{{Item: 2, ID: testUUID(1), Offset: 128}, {Item: 300, ID: testUUID(2)}}},
		{Refusal: &Refusal{Code: "too_large", Text: "no"}},
	}
	acks := []AckPartResult{
		{Items: []AckVerdict{{}, {LeaseReleased: true}, {DeadLettered: true, LeaseReleased: true}, {Noop: true}}},
		{Items: []AckVerdict{{Error: AckBadLease}, {Error: AckTooManyDeadLetters}}},
		{},
	}
	options := ConfigureDefaults()
	options.Namespace, options.Task, options.RetentionSinkHold = "billing", "invoice", "audit"
	options.Priority, options.RetryDelayExplicit, options.RetentionEnabled = -3, true, true
	kv := KVResult{Ops: []KVOpResult{
		{Found: true, Version: 7, Value: []byte(`"x"`), ExpiresMicros: 1_700_000_000_000_000, UpdatedMicros: 1_600_000_000_000_000},
		{Rows: []KVRow{{Key: "b", Value: []byte(`1`), Version: 300, ExpiresMicros: 5, UpdatedMicros: 4}}, Missing: []uint32{1}},
		{Rows: []KVRow{{Key: "scan/2", Version: 9, UpdatedMicros: 4}}, Truncated: true, After: "scan/2"},
		{Version: 8},
		{Reason: KVReasonExists, Version: 3, Value: []byte(`null`)},
		{Reason: KVReasonAbsent},
		{Reason: KVReasonLimit, Value: []byte(`0`)},
		{Reason: KVReasonType, Version: 1 << 53, Value: []byte(`"x"`)},
	}}
	timers := []TimerOpResult{
		{Status: TimerScheduled, DeliverMicros: 1_700_000_000_000_000},
		{Status: TimerRescheduled, DeliverMicros: -1_400_000_000_000_000, Fired: true},
		{Status: TimerCancelled, Txid: "t-1", HasTxid: true},
		{Status: TimerAbsent},
		{Status: TimerAbsent, Txid: "t-6", HasTxid: true},
	}
	return []namedResult{
		{"refusal", &Refusal{Code: "payload_too_large", Text: "the command writes more than one log entry may hold"}},
		{"done", Done{}},
		{"push", &PushResult{Groups: pushes}},
		{"ack", &AckResult{Parts: acks}},
		{"extend", &ExtendResult{Renewed: 2, ExpiresMicros: 1_700_000_000_000_000}},
		{"claim", &ClaimResult{Batches: []ClaimedBatch{
			{Queue: "orders", QueueID: 1, Partition: 300, PartitionName: "customer-7", FirstOffset: 5, LastOffset: 104, Attempt: 2,
				ExpiresMicros: 1_700_000_000_000_000},
			{Queue: "orders", QueueID: 1, Partition: 2, FirstOffset: 9, LastOffset: 9, Attempt: 1, DeliverLastOnly: true},
		}}},
		{"hand_back", &HandBackResult{Undone: 3}},
		{"register", &RegisterResult{QueueID: 1, GroupID: 200, Mode: SubscriptionTimestamp, Conflation: true}},
		{"configure", &ConfigureResult{QueueID: 9, QueueUUID: testUUID(7), Options: options}},
		{"delete_queue", &DeleteQueueResult{Existed: true}},
		{"delete_group", &DeleteGroupResult{Partitions: 4, MetadataDeleted: true, Queues: []string{"orders", ""}, More: true, Last: 512}},
		{"seek", &SeekResult{Updated: 512, More: true, Last: 900}},
		{"subscription", &ChangeSubscriptionResult{Updated: 1, More: true, Last: 3}},
		{"transaction", &TransactionResult{Reason: "duplicate", Text: "QTXN no", Pushes: pushes, Acks: acks, KV: kv, Timers: timers}},
		{"dead_letter_delete", &DeadLetterDeleteResult{Deleted: 512, More: true}},
		{"dead_letter_replay", &DeadLetterReplayResult{Outcome: ReplayDuplicate, Row: testUUID(3), Queue: "orders", Partition: "p",
			Group: "workers", OriginalTxid: "t-1", Offset: 77}},
		{"retain", &RetainResult{Appends: 1000, Messages: 100_000, More: []uint64{5, 1 << 40}}},
		{"sweep", &SweepResult{More: true}},
		{"move_chunks", &MoveChunksResult{Bytes: 1 << 20, More: true}},
		{"trace", &TraceResult{ID: testUUID(9), Foreign: true}},
		{"trace_sweep", &TraceSweepResult{Removed: 12, More: true}},
		{"kv", &kv},
		{"kv_lost", &KVResult{Lost: &KVLost{Op: 300, Reason: KVReasonVersion, Version: 8, Value: []byte(`{"owner":"me"}`)}}},
		{"kv_sweep", &KVSweepResult{Removed: 300, More: true}},
		{"lock", &LockResult{Ops: []LockOpResult{
			{Done: true, Already: true, Slot: 2, Token: 300},
			{Holders: []LockHolder{{Slot: 2, Owner: "host:2:cd", Token: 301, SinceMicros: 1, UpdatedMicros: 300, ExpiresMicros: 3}, {}}},
			{Slot: 1, Done: true},
		}}},
		{"timers", &TimersResult{Ops: timers}},
		{"timer_fire", &TimerFireResult{Timers: []TimerFireOutcome{
			{Fate: TimerFired, LagMicros: 50_000}, {Fate: TimerPutOff}, {Fate: TimerDead}, {Fate: TimerGone}, {Fate: TimerChanged},
			{Fate: TimerEarly}, {Fate: TimerInClear}, {Fate: TimerNoRoom}, {Fate: TimerPaused},
		}}},
		{"switches", &SwitchesResult{Off: SwitchKV | SwitchTimersFire}},
	}
}

// The outcome window of a released version must stay readable for ever, so the bytes of every result are pinned.
func TestResultEncodingEqualsGoldenFiles(t *testing.T) {
	for _, sample := range sampleResults() {
		t.Run(sample.name, func(t *testing.T) {
			data := AppendResult(nil, sample.result)
			path := filepath.Join("testdata", "golden", "result", sample.name+".hex")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
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
			decoded, err := DecodeResult(data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(decoded, sample.result) {
				t.Fatalf("decoded %+v\nwant %+v", decoded, sample.result)
			}
		})
	}
}

func TestEveryResultKindHasASample(t *testing.T) {
	have := map[ResultKind]bool{}
	for _, sample := range sampleResults() {
		have[sample.result.(encodableResult).kind()] = true
	}
	for kind := ResultRefusal; kind <= ResultSwitches; kind++ {
		if !have[kind] && kind != ResultKind(OpMembership) { // which is Done
			t.Errorf("result kind %d has no sample", kind)
		}
	}
}

// drawResult draws a random result of a random type.
func drawResult(t *rapid.T) Result {
	sample := rapid.SampledFrom(sampleResults()).Draw(t, "type")
	of := reflect.TypeOf(sample.result)
	if of.Kind() != reflect.Pointer {
		return sample.result
	}
	value := reflect.New(of.Elem())
	drawValue(t, value.Elem())
	return value.Interface()
}

func TestDecodedResultIsWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		result := drawResult(t)
		data := AppendResult([]byte("in front"), result)[len("in front"):]
		decoded, err := DecodeResult(data)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		// It must not alias the bytes, which may be those of a chunk that is read.
		clear(data)
		if !reflect.DeepEqual(decoded, result) {
			t.Fatalf("decoded %+v\nwant %+v", decoded, result)
		}
	})
}

func TestEveryCutResultIsRefused(t *testing.T) {
	for _, sample := range sampleResults() {
		data := AppendResult(nil, sample.result)
		for n := range data {
			if _, err := DecodeResult(data[:n]); !errors.Is(err, ErrBadResult) {
				t.Fatalf("%s: %d of %d bytes: err = %v", sample.name, n, len(data), err)
			}
		}
	}
}

func TestHostileResultsAreRefused(t *testing.T) {
	cases := map[string]struct {
		data []byte
		want error
	}{
		"kind zero":              {[]byte{0, resultVersion}, ErrUnknownFormat},
		"unknown kind":           {[]byte{200, resultVersion}, ErrUnknownFormat},
		"unknown version":        {[]byte{byte(ResultDone), resultVersion + 1}, ErrUnknownFormat},
		"byte after the end":     {[]byte{byte(ResultDone), resultVersion, 0}, ErrBadResult},
		"unknown flag":           {[]byte{byte(ResultSweep), resultVersion, 2}, ErrBadResult},
		"number in longer form":  {[]byte{byte(ResultHandBack), resultVersion, 0x85, 0}, ErrBadResult},
		"unknown verdict":        {[]byte{byte(ResultAck), resultVersion, 1, 1, 0x80}, ErrBadResult},
		"unknown ack error":      {[]byte{byte(ResultAck), resultVersion, 1, 1, byte(AckTooManyDeadLetters) + 1}, ErrBadResult},
		"unknown mode":           {AppendResult(nil, &RegisterResult{Mode: SubscriptionTimestamp + 1}), ErrBadResult},
		"unknown replay outcome": {AppendResult(nil, &DeadLetterReplayResult{Outcome: ReplayInClear + 1}), ErrBadResult},
		"count beyond an int":    {AppendResult(nil, &HandBackResult{Undone: -1}), ErrBadResult},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeResult(c.data); !errors.Is(err, c.want) {
				t.Fatalf("err = %v, want %v", err, c.want)
			}
		})
	}
}

// A length field must never make the decoder allocate for elements that the input has no room for.
func TestHostileResultLengthsAllocateNothing(t *testing.T) {
	for _, kind := range []ResultKind{ResultPush, ResultAck, ResultClaim} {
		data := appendNumber([]byte{byte(kind), resultVersion}, 1<<40)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeResult(data)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrBadResult) {
			t.Fatalf("kind %d: err = %v", kind, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 {
			t.Fatalf("kind %d: allocated %d bytes for %d bytes of input", kind, allocated, len(data))
		}
	}
}

func TestForeignResultPanics(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "BUG:") {
			t.Fatalf("recovered %q", text)
		}
	}()
	AppendResult(nil, "no result")
}

func FuzzDecodeResult(f *testing.F) {
	for _, sample := range sampleResults() {
		f.Add(AppendResult(nil, sample.result))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := DecodeResult(data)
		if err != nil {
			if !errors.Is(err, ErrBadResult) && !errors.Is(err, ErrUnknownFormat) {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		if again := AppendResult(nil, result); !bytes.Equal(again, data) {
			t.Fatalf("a second encoding of the same value: %x, want %x", again, data)
		}
	})
}

func BenchmarkResultOfPush(b *testing.B) {
	result := &PushResult{Groups: []PushGroupResult{{Partition: 700, FirstOffset: 70_000}}}
	data := AppendResult(nil, result)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		buffer := make([]byte, 0, 2*len(data))
		for b.Loop() {
			buffer = AppendResult(buffer[:0], result)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeResult(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
