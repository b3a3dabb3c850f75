package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// bundle sends a transaction: operations as they stand in JSON, and operations on rows without their ns.
func (s *rows) bundle(operations string, kv ...string) harness.TransactionReply {
	return s.client.Transaction(`{"operations":[` + operations + `],"kv":[` + s.list(kv...) + `]}`)
}

func pushText(queue, txid string) string {
	return fmt.Sprintf(`{"type":"push","queue":%q,"payload":1,"transactionId":%q}`, queue, txid)
}

// state.md 2.12, messaging 8.3: rows change with the rest, and their results follow in the flat numbering.
func TestKVInATransaction_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	queue := uniqueName(t)
	s.put("old", "1")
	two := fmt.Sprintf(`{"type":"push","items":[{"queue":%q,"payload":1,"transactionId":"a"},{"queue":%q,"payload":1,"transactionId":"b"}]}`, queue, queue)
	position := fmt.Sprintf(`"positions":[{"queue":%q,"consumerGroup":"g","offset":null,"metadata":"m"}]`, queue)
	pushOne(t, s.client, harness.Item{Queue: queue, Payload: 0, TransactionID: "first"})
	reply := s.client.Transaction(`{"operations":[` + two + `],` + position + `,"kv":[` + s.list(
		`{"op":"check","key":"none","expect":0,"required":true}`, `{"op":"put","key":"new","value":{"x":1},"forever":true}`,
		`{"op":"putIfAbsent","key":"old","value":2,"forever":true}`, `{"op":"incr","key":"n","delta":5,"forever":true}`,
		`{"op":"delete","key":"gone"}`, `{"op":"get","key":"new"}`, `{"op":"getMany","keys":["n","zz"]}`) + `]}`)
	need(t, reply.Response, 200)
	needShape(t, reply.Object(), `{"transactionId":"*","success":true,"results":[
		{"index":0,"type":"push","success":true,"transactionId":"a","messageId":"*","queueName":"*"},
		{"index":1,"type":"push","success":true,"transactionId":"b","messageId":"*","queueName":"*"},
		{"index":2,"type":"kv","opIndex":0,"op":"check","applied":true,"key":"none","version":0},
		{"index":3,"type":"kv","opIndex":1,"op":"put","applied":true,"key":"new","value":{"x":1},"version":"*"},
		{"index":4,"type":"kv","opIndex":2,"op":"putIfAbsent","applied":false,"reason":"exists","key":"old","value":1,"version":"*"},
		{"index":5,"type":"kv","opIndex":3,"op":"incr","applied":true,"key":"n","value":5,"version":"*"},
		{"index":6,"type":"kv","opIndex":4,"op":"delete","applied":false,"reason":"absent","key":"gone","value":null,"version":0},
		{"index":7,"type":"kv","opIndex":5,"op":"get","found":true,"key":"new","value":{"x":1},"version":"*","expiresAt":null,"updatedAt":"*"},
		{"index":8,"type":"kv","opIndex":6,"op":"getMany","rows":[{"key":"n","value":5,"version":"*","expiresAt":null,"updatedAt":"*"}],"missing":["zz"],"truncated":false},
		{"index":9,"type":"position","opIndex":0,"success":true}]}`)
	s.value("new", `{"x":1}`)
	s.value("n", "5")
	needStored(t, s.client, queue, "first", "a", "b")

	t.Run("only rows", func(t *testing.T) {
		s := s.in(t)
		alone := s.client.Transaction(`{"kv":[` + s.list(`{"op":"put","key":"alone","value":1,"forever":true}`) + `]}`)
		if need(t, alone.Response, 200); !alone.Success {
			t.Fatalf("got %v", alone)
		}
		s.value("alone", "1")
	})
}

// state.md 2.12, messaging 8.4: a required operation that lost cancels everything.
func TestLostGateCancelsTheTransaction_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	source := newScene(t, nil, 2)
	batch := source.claim(2, 0, 1, 1)
	acks, err := json.Marshal(batch.operations(completed(0), completed(1)))
	if err != nil {
		t.Fatal(err)
	}
	queue := uniqueName(t)
	version := s.put("owned", `{"owner":"me"}`)
	operations := strings.Trim(string(acks), "[]") + "," + pushText(queue, "t")
	reply := s.bundle(operations, `{"op":"put","key":"beside","value":1,"forever":true}`, `{"op":"check","key":"owned","expect":1,"required":true}`)
	needRolledBack(t, reply, "kv_precondition")
	needShape(t, reply.Object(), fmt.Sprintf(`{"transactionId":"*","success":false,"ok":false,"reason":"kv_precondition","error":"*","results":[],
		"failedIndex":4,"kvReason":"version","version":%s,"value":{"owner":"me"}}`, version))
	if strings.Contains(reply.Error, s.ns) || strings.Contains(reply.Error, "owned") {
		t.Errorf("the error names the row: %s", reply.Error)
	}
	s.value("beside", "")
	needStored(t, s.client, queue)
	needVerdicts(t, batch.ack(completed(0), completed(1)), released, released) // its lease is as it was

	for _, c := range []struct {
		op, reason string
		at         int
	}{
		{`{"op":"putIfAbsent","key":"owned","value":1,"forever":true,"required":true}`, "exists", 1},
		{`{"op":"delete","key":"none","required":true}`, "absent", 1},
		{`{"op":"incr","key":"none","delta":2,"max":1,"forever":true,"required":true}`, "limit", 1},
		{`{"op":"incr","key":"owned","delta":2,"forever":true,"required":true}`, "type", 1},
	} {
		reply := s.bundle(pushText(queue, "t"), c.op)
		needRolledBack(t, reply, "kv_precondition")
		if got := reply.Object(); got["failedIndex"] != json.Number(fmt.Sprint(c.at)) || got["kvReason"] != c.reason {
			t.Errorf("%s: got %v", c.op, reply)
		}
	}
	needStored(t, s.client, queue)
	held := s.bundle(pushText(queue, "t"), fmt.Sprintf(`{"op":"check","key":"owned","expect":%s,"required":true}`, version))
	if need(t, held.Response, 200); !held.Success {
		t.Fatalf("got %v", held)
	}
	needStored(t, s.client, queue, "t")
}

// state.md 2.12: the guards are judged in order, and whatever refuses takes the rows with it.
func TestGuardsBeforeKV_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	queue := uniqueName(t)
	pushOne(t, s.client, harness.Item{Queue: queue, Payload: 0, TransactionID: "t"})
	const lost = `{"op":"check","key":"none","expect":1,"required":true}`
	const write = `{"op":"put","key":"written","value":1,"forever":true}`
	ack := fmt.Sprintf(`{"type":"ack","transactionId":"t","partitionId":%q,"status":"completed"}`, noPartition)
	needRolledBack(t, s.bundle(ack, write, lost), "rejected_ack")
	needRolledBack(t, s.bundle(pushText(queue, "t"), write, lost), "duplicate")
	needRolledBack(t, s.client.Transaction(`{"positions":[{"queue":"never-made","consumerGroup":"g","offset":0}],"kv":[`+s.list(write, lost)+`]}`), "queue_not_found")
	s.value("written", "")
}

// state.md 2.12: what is wrong with an operation refuses the transaction in its own body.
func TestKVFaultsInATransaction_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	queue := uniqueName(t)
	refused := func(status int, reason string, ops ...string) {
		t.Helper()
		needTransactionRefusal(t, s.bundle(pushText(queue, "t"), ops...), status, reason)
	}
	for _, fault := range kvFaults {
		if !strings.Contains(fault.op, "getPrefix") {
			refused(400, fault.reason, fault.op)
		}
	}
	for _, page := range []string{`{"op":"getPrefix","prefix":"a"}`, `{"op":"getPrefix"}`} {
		refused(400, "kv_get_prefix_not_allowed_in_transaction", page)
		if reply := s.bundle("", page); !strings.Contains(reply.Error+reply.Text("error"), "prefix") {
			t.Errorf("got %v", reply)
		}
	}
	refused(400, "kv_duplicate_key_in_call", `{"op":"delete","key":"k"}`, `{"op":"put","key":"k","value":1,"forever":true}`)
	refused(413, "kv_value_too_large", `{"op":"put","key":"k","forever":true,"value":"`+strings.Repeat("v", 64<<10)+`"}`)
	refused(413, "kv_key_too_large", `{"op":"get","key":"`+strings.Repeat("k", 500)+`"}`)
	gets := func(n int) []string { return strings.Split(strings.Repeat(`{"op":"get","key":"k"};`, n)[:n*23-1], ";") }
	refused(400, "kv_too_many_ops", gets(65)...)
	many := func(n int) string { return `{"op":"getMany","keys":["k"` + strings.Repeat(`,"k"`, n-1) + `]}` }
	refused(400, "kv_too_many_keys", many(257))
	needStored(t, s.client, queue)
	for _, ops := range [][]string{gets(64), {many(256)}} {
		reply := s.bundle("", ops...)
		if need(t, reply.Response, 200); !reply.Success {
			t.Errorf("got %v", reply)
		}
	}
}

// state.md 2.12, 3.7, messaging 8.3: rows and timers ride in one transaction, rows before timers, and the guard of a row takes the timers
// with it.
func TestKVAndTimersRideTogether_state2(t *testing.T) {
	t.Parallel()
	s := newRows(t)
	queue := uniqueName(t)
	bundle := func(push string, timers []timerOp, kv ...string) harness.TransactionReply {
		list, err := json.Marshal(timers)
		if err != nil {
			t.Fatal(err)
		}
		return s.client.Transaction(`{"operations":[` + pushText(queue, push) + `],"timers":` + string(list) + `,"kv":[` + s.list(kv...) +
			`],"positions":[{"queue":"` + queue + `","consumerGroup":"g","offset":0}]}`)
	}
	pushOne(t, s.client, harness.Item{Queue: queue, Payload: 0, TransactionID: "first"})
	reply := bundle("a", []timerOp{scheduleOf(queue, "k", farAway), cancelOf(queue, "none")},
		`{"op":"incr","key":"n","delta":1,"forever":true}`, `{"op":"get","key":"n"}`)
	if need(t, reply.Response, 200); !reply.Success {
		t.Fatalf("got %v", reply)
	}
	needShape(t, reply.Object()["results"], fmt.Sprintf(`[
		{"index":0,"type":"push","success":true,"transactionId":"a","messageId":"*","queueName":%[1]q},
		{"index":1,"type":"kv","opIndex":0,"op":"incr","applied":true,"key":"n","value":1,"version":"*"},
		{"index":2,"type":"kv","opIndex":1,"op":"get","found":true,"key":"n","value":1,"version":"*","expiresAt":null,"updatedAt":"*"},
		{"index":3,"type":"timer","opIndex":0,"ok":true,"status":"scheduled","queue":%[1]q,"timerKey":"k","txn":"k","messageId":"*","deliverAt":"*"},
		{"index":4,"type":"timer","opIndex":1,"ok":false,"status":"absent","queue":%[1]q,"timerKey":"none"},
		{"index":5,"type":"position","opIndex":0,"success":true}]`, queue))

	lost := bundle("b", []timerOp{cancelOf(queue, "k"), scheduleOf(queue, "now", 0)},
		`{"op":"incr","key":"n","delta":1,"forever":true}`, `{"op":"check","key":"n","expect":0,"required":true}`)
	needRolledBack(t, lost, "kv_precondition")
	if got := lost.Object()["failedIndex"]; got != json.Number("2") {
		t.Errorf("the failed index is %v", got)
	}
	needStored(t, s.client, queue, "first", "a")
	s.value("n", "1")
	if _, keys := listTimers(t, s.client, queue, ""); fmt.Sprint(keys) != "[k]" {
		t.Errorf("pending are %v", keys)
	}
	needTransactionRefusal(t, bundle("b", []timerOp{scheduleOf(queue, "", 0)}, `{"op":"incr","key":"n","delta":1,"forever":true}`), 400, "bad_request")
	needTransactionRefusal(t, bundle("b", []timerOp{cancelOf(queue, "k")}, `{"op":"incr","key":"n"}`), 400, "kv_expiry_not_specified")
	s.value("n", "1")
}
