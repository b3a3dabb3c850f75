package bench

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// faults makes a fake broker break one promise. Each counts events and strikes at every n-th; 0 never strikes.
type faults struct {
	loseEvery            int64 // pushed messages: answered as queued, not stored
	storeTwiceEvery      int64 // pushed messages: two copies in the log
	swapEvery            int64 // pushed messages: stored before its predecessor
	alterEvery           int64 // delivered messages: another payload
	misplaceEvery        int64 // delivered messages: another partition name
	ignoreLeaseEvery     int64 // pops: leased partitions are handed out again
	forgetAckEvery       int64 // ack groups: answered as success, the cursor stays
	refuseAckEvery       int64 // ack groups: the lease has expired, the batch comes again (allowed)
	callDuplicateEvery   int64 // pushed messages: called duplicate and not stored
	itemErrorEvery       int64 // pushed messages: error status, not stored (allowed)
	cutAnswerEvery       int64 // push and ack calls: done, then answered 503 (allowed)
	overloadEvery        int64 // push calls: 429 (allowed)
	stallOnce            time.Duration
	refuseEverythingWith int // status
}

// fakeBroker keeps a queue in memory and speaks as much of the contract as the generator uses. Its answers are made by
// encoding/json, so that the generator's shortcuts meet ordinary JSON.
type fakeBroker struct {
	faults  faults
	strikes [16]atomic.Int64
	stalled atomic.Bool

	mutex      sync.Mutex
	partitions map[string]*fakePartition
	order      []*fakePartition
	leases     int
	changed    chan struct{} // closed and replaced when something may be ready
}

type fakePartition struct {
	id       int
	queue    string
	name     string
	messages []fakeMessage
	known    map[string]bool
	cursor   int
	leased   int // messages of the live lease; 0: none
	leaseID  string
	done     map[string]bool // leases whose batch was acked
}

type fakeMessage struct {
	TransactionID string          `json:"transactionId"`
	Data          json.RawMessage `json:"data"`
	Offset        int             `json:"offset"`
	PartitionID   string          `json:"partitionId"`
	Partition     string          `json:"partition"`
	LeaseID       string          `json:"leaseId"`
	TraceID       *string         `json:"traceId"`
}

// startFakeBroker serves on a loopback port until the test ends and returns the base URL.
func startFakeBroker(t *testing.T, faults faults) string {
	t.Helper()
	broker := &fakeBroker{faults: faults, partitions: map[string]*fakePartition{}, changed: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &fasthttp.Server{Handler: broker.handle, NoDefaultServerHeader: true, MaxIdleWorkerDuration: 20 * time.Millisecond}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Shutdown(); err != nil {
			t.Errorf("stop fake broker: %v", err)
		}
		<-served
	})
	return "http://" + listener.Addr().String()
}

// strike counts an event of one kind and tells whether the fault happens.
func (b *fakeBroker) strike(kind int, every int64) bool {
	return every > 0 && b.strikes[kind].Add(1)%every == 0
}

func (b *fakeBroker) handle(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	if b.faults.refuseEverythingWith != 0 {
		answer(ctx, b.faults.refuseEverythingWith, map[string]string{"error": "no", "code": "bad_request"})
		return
	}
	if b.faults.stallOnce > 0 && b.stalled.CompareAndSwap(false, true) {
		<-time.After(b.faults.stallOnce)
	}
	switch {
	case path == "/api/v1/push":
		b.push(ctx)
	case strings.HasPrefix(path, "/api/v1/pop/queue/"):
		b.pop(ctx, strings.TrimPrefix(path, "/api/v1/pop/queue/"))
	case path == "/api/v1/ack/batch":
		b.ack(ctx)
	case path == "/metrics/prometheus":
		ctx.WriteString("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\nqueen_process_resident_memory_bytes 1e6\n")
	default:
		answer(ctx, 404, map[string]string{"error": "not found", "code": "no_such_route"})
	}
}

func answer(ctx *fasthttp.RequestCtx, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	ctx.SetStatusCode(status)
	ctx.SetBody(body)
}

func (b *fakeBroker) push(ctx *fasthttp.RequestCtx) {
	if b.strike(0, b.faults.overloadEvery) {
		answer(ctx, 429, map[string]string{"error": "full", "code": "overloaded"})
		return
	}
	var request struct {
		Items []struct {
			Queue, Partition, TransactionID string
			Payload                         json.RawMessage
		}
	}
	if err := json.Unmarshal(ctx.PostBody(), &request); err != nil {
		answer(ctx, 400, map[string]string{"error": "bad push body: " + err.Error(), "code": "bad_body"})
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var results []map[string]any
	for i, item := range request.Items {
		partition := b.partition(item.Queue, item.Partition)
		status := b.store(partition, fakeMessage{TransactionID: item.TransactionID, Data: append(json.RawMessage(nil), item.Payload...)})
		results = append(results, map[string]any{"index": i, "status": status, "transaction_id": item.TransactionID, "queueName": item.Queue})
	}
	b.wake()
	if b.strike(1, b.faults.cutAnswerEvery) {
		answer(ctx, 503, map[string]string{"error": "leadership is moving", "code": "retry"})
		return
	}
	answer(ctx, 201, results)
}

func (b *fakeBroker) partition(queue, name string) *fakePartition {
	key := queue + "/" + name
	partition := b.partitions[key]
	if partition == nil {
		partition = &fakePartition{id: len(b.order) + 1, queue: queue, name: name, known: map[string]bool{}, done: map[string]bool{}}
		b.partitions[key] = partition
		b.order = append(b.order, partition)
	}
	return partition
}

// store appends one message and returns its status.
func (b *fakeBroker) store(partition *fakePartition, message fakeMessage) string {
	switch {
	case partition.known[message.TransactionID]:
		return "duplicate"
	case b.strike(2, b.faults.callDuplicateEvery):
		return "duplicate"
	case b.strike(3, b.faults.itemErrorEvery):
		return "error"
	}
	partition.known[message.TransactionID] = true
	if b.strike(4, b.faults.loseEvery) {
		return "queued"
	}
	partition.messages = append(partition.messages, message)
	last := len(partition.messages) - 1
	if b.strike(5, b.faults.storeTwiceEvery) {
		partition.messages = append(partition.messages, message)
	}
	if last > partition.cursor+partition.leased && b.strike(6, b.faults.swapEvery) {
		partition.messages[last-1], partition.messages[last] = partition.messages[last], partition.messages[last-1]
	}
	return "queued"
}

func (b *fakeBroker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *fakeBroker) pop(ctx *fasthttp.RequestCtx, queue string) {
	query := ctx.QueryArgs()
	deadline := time.After(time.Duration(query.GetUintOrZero("timeout")) * time.Millisecond)
	for {
		b.mutex.Lock()
		messages := b.claim(queue, query.GetUintOrZero("batch"), query.GetUintOrZero("partitions"), query.GetBool("commitOnDelivery"))
		changed := b.changed
		b.mutex.Unlock()
		if len(messages) > 0 {
			answer(ctx, 200, map[string]any{"success": true, "queue": queue, "leaseId": messages[0].LeaseID, "messages": messages})
			return
		}
		if !query.GetBool("wait") {
			ctx.SetStatusCode(204)
			return
		}
		select {
		case <-changed:
		case <-deadline:
			ctx.SetStatusCode(204)
			return
		}
	}
}

// claim takes messages of partitions that are not leased.
func (b *fakeBroker) claim(queue string, batch, maxPartitions int, commit bool) []fakeMessage {
	ignoreLease := b.strike(7, b.faults.ignoreLeaseEvery)
	b.leases++
	leaseID := fmt.Sprintf("lease-%d", b.leases)
	var taken []fakeMessage
	for _, partition := range b.order {
		if maxPartitions == 0 || len(taken) >= batch {
			break
		}
		if partition.queue != queue || partition.leased > 0 && !ignoreLease || partition.cursor >= len(partition.messages) {
			continue
		}
		maxPartitions--
		end := min(len(partition.messages), partition.cursor+batch-len(taken))
		for i := partition.cursor; i < end; i++ {
			message := partition.messages[i]
			message.Offset, message.PartitionID, message.Partition, message.LeaseID = i, strconv.Itoa(partition.id), partition.name, leaseID
			if b.strike(8, b.faults.alterEvery) {
				message.Data = json.RawMessage(`{"id":"0.0","pad":"` + strings.Repeat("x", 4096) + `"}`)
			}
			if b.strike(9, b.faults.misplaceEvery) {
				message.Partition += "0"
			}
			taken = append(taken, message)
		}
		if commit {
			partition.cursor = end
		} else {
			partition.leased, partition.leaseID = end-partition.cursor, leaseID
		}
	}
	return taken
}

func (b *fakeBroker) ack(ctx *fasthttp.RequestCtx) {
	var request struct {
		ConsumerGroup   string
		Acknowledgments []struct{ TransactionID, PartitionID, Status, LeaseID string }
	}
	if err := json.Unmarshal(ctx.PostBody(), &request); err != nil || request.ConsumerGroup == "" {
		answer(ctx, 400, map[string]string{"error": "bad ack body", "code": "bad_body"})
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	verdicts := map[string]bool{} // by partition
	var results []map[string]any
	for i, item := range request.Acknowledgments {
		success, decided := verdicts[item.PartitionID]
		if !decided {
			success = b.ackGroup(item.PartitionID, item.LeaseID)
			verdicts[item.PartitionID] = success
		}
		result := map[string]any{"index": i, "transactionId": item.TransactionID, "success": success, "error": nil, "noop": false}
		if !success {
			result["error"] = "invalid or expired lease"
		}
		results = append(results, result)
	}
	b.wake()
	if b.strike(10, b.faults.cutAnswerEvery) {
		answer(ctx, 503, map[string]string{"error": "cut by a leader change", "code": "outcome_unknown"})
		return
	}
	answer(ctx, 200, results)
}

// ackGroup settles the lease of one partition. A repeated ack of the last lease is answered as the first time.
func (b *fakeBroker) ackGroup(partitionID, leaseID string) bool {
	id, err := strconv.Atoi(partitionID)
	if err != nil || id < 1 || id > len(b.order) {
		return false
	}
	partition := b.order[id-1]
	if partition.done[leaseID] {
		return true
	}
	if partition.leaseID != leaseID || partition.leased == 0 {
		return false
	}
	if b.strike(11, b.faults.refuseAckEvery) {
		partition.leased, partition.leaseID = 0, ""
		return false
	}
	if !b.strike(12, b.faults.forgetAckEvery) {
		partition.cursor += partition.leased
	}
	partition.leased, partition.done[leaseID] = 0, true
	return true
}
