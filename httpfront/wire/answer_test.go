package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

var update = flag.Bool("update", false, "write the golden files anew")

// moment is 2026-10-05T09:00:00.123456Z.
const moment = 1_791_190_800_123_456

func answers() map[string][]byte {
	id, lease := uuid.MustParse(someUUID), uuid.MustParse("0199ffff-0000-7000-8000-000000000001")
	message := PopMessage{ID: id, Txid: []byte("ord-1"), Data: []byte(`{"n":1.50}`), CreatedMicros: moment, Offset: 41}
	full := message
	full.Txid, full.TraceID, full.ProducerSub, full.Offset, full.DecryptError = nil, id, []byte("me \"x\""), 42, true
	options := command.ConfigureDefaults()
	options.Namespace, options.Task, options.MaxSize, options.RetentionSinkHold = "billing", "invoice", 7, "sink"
	return map[string][]byte{
		"push_empty": appendPush(nil, nil),
		"push": appendPush(nil, []PushVerdict{
			{MessageID: id, Txid: []byte("ord-1"), Queue: "orders", Status: PushQueued, Offset: 41},
			{MessageID: id, Queue: "q\u2028\"\n\x01", Status: PushDuplicate},
			{MessageID: id, Queue: "orders", Status: PushFailed, Offset: 9, Error: "too large"},
		}),
		"pop": appendPop(nil, &PopAnswer{Queue: "orders", Lease: lease, Group: "__QUEUE_MODE__", Batches: []PopBatch{
			{PartitionID: 17, Partition: "customer-7", Attempt: 1}, {PartitionID: 18, Partition: "", Attempt: 3},
		}, Conflation: true, ConflationConflict: true, Autopilot: &Autopilot{Partitions: 2, Batch: 100}},
			[]PopMessage{message, full}, []PopMessage{message}),
		"pop_commit_on_delivery": appendPop(nil, &PopAnswer{Group: "g", Batches: []PopBatch{
			{PartitionID: 1, Partition: "p", Attempt: 1},
		}}, []PopMessage{message}),
		"pop_nothing": appendPop(nil, &PopAnswer{Queue: "orders", Group: "g", Conflation: true}),
		"ack": AppendAck(nil, []AckVerdict{
			{Txid: "ord-1", LeaseReleased: true},
			{Txid: "ord-2", Error: AckErrorBadLease},
			{Txid: "", DeadLettered: true, Noop: true},
		}),
		"extend":            AppendExtend(nil, someUUID, 3, moment),
		"extend_nothing":    AppendExtend(nil, "x", 0, 0),
		"configure":         AppendConfigure(nil, &ConfigureAnswer{QueueID: id, Queue: "orders", Options: options}),
		"queue_deleted":     AppendQueueDeleted(nil, "orders", true),
		"queue_not_found":   AppendQueueDeleted(nil, "nope", false),
		"transaction_empty": AppendTransaction(nil, &TransactionAnswer{ID: id}),
		"transaction": AppendTransaction(nil, &TransactionAnswer{ID: id, Results: []TransactionResult{
			{Kind: ResultPush, Txid: []byte("t1"), MessageID: lease, Queue: "out"},
			{Kind: ResultPush, MessageID: lease, Queue: "out", Duplicate: true},
			{Kind: ResultAck, AckTxid: "ord-1", DeadLettered: true},
			{Kind: ResultKV, OpIndex: 0, KVOp: &command.KVOp{Kind: command.KVPut, Key: "k", Value: []byte("1")}, KV: &command.KVOpResult{Version: 7}},
			{Kind: ResultTimer, OpIndex: 0, Timer: &TimerResult{Status: command.TimerScheduled, Queue: "q", Key: "k", Txid: "t", MessageID: id, DeliverMicros: moment}},
			{Kind: ResultPosition, OpIndex: 1},
		}}),
		"timers": AppendTimers(nil, []TimerResult{
			{Status: command.TimerScheduled, Queue: "q", Key: "a/b", Txid: "t\"1\"", MessageID: id, DeliverMicros: moment},
			{Status: command.TimerRescheduled, Queue: "q", Key: "k", Txid: "t", MessageID: lease, DeliverMicros: -1},
			{Status: command.TimerCancelled, Queue: "q", Key: "k", Txid: "t", HasTxid: true},
			{Status: command.TimerAbsent, Queue: "q", Key: "k", Txid: "t", HasTxid: true},
			{Status: command.TimerAbsent, Queue: "q", Key: "k"},
		}),
		"state_refusal":           AppendStateRefusal(nil, "timers_bad_request", "timers_bad_op", "why \"not\""),
		"transaction_rolled_back": AppendTransaction(nil, &TransactionAnswer{ID: id, Reason: "duplicate", Error: "QDUP x"}),
		"envelope":                AppendEnvelope(nil, &Envelope{Error: "no", Code: "retry", Leader: "b:1", Invalid: "x", Node: 3}),
		"envelope_without_code":   AppendEnvelope(nil, &Envelope{Error: "Queue not found"}),
		"pop_refusal":             AppendPopRefusal(nil, "namespace or task is required"),
		"success_refusal":         AppendSuccessRefusal(nil, "no"),
		"no_route":                AppendNoRoute(nil, "/api/\xff"),
	}
}

func TestAnswersAreAsRecorded(t *testing.T) {
	for name, got := range answers() {
		if !json.Valid(got) {
			t.Errorf("%s is no JSON: %s", name, got)
		}
		file := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.TrimSuffix(want, []byte("\n"))) {
			t.Errorf("%s\ngot  %s\nwant %s", name, got, want)
		}
	}
}

func TestAckErrorTexts(t *testing.T) {
	for got, want := range map[string]string{
		AckErrorNoPartition(17):                             "no partition 17",
		AckErrorForeign(17):                                 "partition 17 not owned by this tenant",
		AckErrorStatus("Comple"):                            `unknown ack status "Comple"`,
		AckErrorStatus(strings.Repeat("x", maxEchoedBytes)): `unknown ack status "` + strings.Repeat("x", maxEchoedBytes) + `"`,
		AckErrorStatus("x" + strings.Repeat("ä", 30<<20)):   `unknown ack status "x` + strings.Repeat("ä", 99) + `…"`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// appendPush writes the answer to a push.
func appendPush(dst []byte, verdicts []PushVerdict) []byte {
	dst = append(dst, '[')
	for i := range verdicts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendPushVerdict(dst, i, &verdicts[i])
	}
	return append(dst, ']')
}

// appendPop writes an answer whose batches have these messages.
func appendPop(dst []byte, a *PopAnswer, messages ...[]PopMessage) []byte {
	w := NewPopWriter(dst, a)
	for i := range messages {
		w.Batch(&a.Batches[i])
		for j := range messages[i] {
			w.Message(&messages[i][j])
		}
	}
	return w.End()
}

func BenchmarkPopWriter(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 254)
	payload = append(append([]byte{'"'}, payload...), '"')
	batch := PopBatch{PartitionID: 17, Partition: "customer-7", Attempt: 1}
	var messages []PopMessage
	for i := range 100 {
		messages = append(messages, PopMessage{ID: uuid.MustParse(someUUID), Txid: []byte("019a2b3c-4d5e-7f60-8a1b-000000000000"),
			Data: payload, CreatedMicros: moment, Offset: uint64(i)})
	}
	answer := &PopAnswer{Queue: "orders", Lease: uuid.MustParse(someUUID), Group: "g", Batches: []PopBatch{batch}}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = appendPop(dst[:0], answer, messages)
	}
	b.SetBytes(int64(len(dst)))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/message")
}

func BenchmarkAppendPush(b *testing.B) {
	verdicts := make([]PushVerdict, 100)
	for i := range verdicts {
		verdicts[i] = PushVerdict{MessageID: uuid.MustParse(someUUID), Txid: []byte("019a2b3c-4d5e-7f60-8a1b-000000000000"), Queue: "orders", Offset: uint64(i)}
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = appendPush(dst[:0], verdicts)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/message")
}

func BenchmarkDecodeAck(b *testing.B) {
	var body bytes.Buffer
	body.WriteString(`{"consumerGroup":"g","acknowledgments":[`)
	for i := range 100 {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"transactionId":"019a2b3c-4d5e-7f60-8a1b-000000000000","partitionId":"17","status":"completed","leaseId":"` + someUUID + `"}`)
	}
	body.WriteString(`]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeAck(body.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/ack")
}
