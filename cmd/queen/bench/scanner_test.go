package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTransactionIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := identity{lane: rapid.Uint32().Draw(t, "lane"), sequence: rapid.Uint32().Draw(t, "sequence"), scheduledUs: rapid.Int64Range(0, 1<<45).Draw(t, "us")}
		text := appendTransactionID(nil, "run1", want)
		if got, ok := parseTransactionID(text, "run1"); !ok || got != want {
			t.Fatalf("%s parses as %+v, %v; want %+v", text, got, ok, want)
		}
		if _, ok := parseTransactionID(text, "run2"); ok {
			t.Fatalf("%s is taken for another run", text)
		}
	})
	for _, text := range []string{"", "run1", "run1-", "run1-1-2", "run1-1-2-", "run1-1-2-3-", "run1-1-2-3-4", "run1--2-3", "run1-A-2-3", "run1-1-2-zzzzzzzzzzzzz", "run1-zzzzzzzz-1-1"} {
		if got, ok := parseTransactionID([]byte(text), "run1"); ok {
			t.Errorf("%q parses as %+v", text, got)
		}
	}
}

func TestComposedItemsHaveSizeAndIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := Defaults()
		options.SizeBytes = rapid.IntRange(minSizeBytes, 2000).Draw(t, "size")
		options.Spread = rapid.Bool().Draw(t, "spread")
		options.Queue, options.Queues = "q\"", rapid.IntRange(1, 3).Draw(t, "queues")
		r, err := newRun(options)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newProducer(r, rapid.IntRange(0, options.Clients-1).Draw(t, "producer"))
		if err != nil {
			t.Fatal(err)
		}
		first := rapid.Uint32Range(0, maxUint32-100).Draw(t, "first number")
		for i := range p.next {
			p.next[i] = first
		}
		p.compose(rapid.Int64Range(0, 1<<45).Draw(t, "scheduled"))
		var body struct {
			Items []struct {
				Queue, Partition, TransactionID string
				Payload                         json.RawMessage
			}
		}
		if err := json.Unmarshal(p.body, &body); err != nil || len(body.Items) != options.Batch {
			t.Fatalf("%s: %d items, %v", p.body, len(body.Items), err)
		}
		partitions := map[string]bool{}
		for i, item := range body.Items {
			partition := r.lanes.partition(p.batch[i].lane)
			if item.TransactionID != string(appendTransactionID(nil, r.id, p.batch[i])) || item.Queue != r.queues[r.lanes.queue(partition)] ||
				item.Partition != string(r.lanes.appendPartitionName(nil, partition)) {
				t.Fatalf("item %d is %+v, want %+v in partition %d", i, item, p.batch[i], partition)
			}
			if len(item.Payload) != options.SizeBytes || !carriesMarker(item.Payload, p.batch[i], options.SizeBytes) {
				t.Fatalf("payload %s of %+v", item.Payload, p.batch[i])
			}
			other := p.batch[i]
			other.sequence++
			if carriesMarker(item.Payload, other, options.SizeBytes) || carriesMarker(item.Payload[:len(item.Payload)-1], p.batch[i], options.SizeBytes) {
				t.Fatal("another payload passes for this one")
			}
			partitions[item.Queue+"/"+item.Partition] = true
		}
		if want := map[bool]int{true: options.Batch, false: 1}[options.Spread]; len(partitions) != want {
			t.Fatalf("the batch went to %d partitions, want %d", len(partitions), want)
		}
	})
}

func TestScanPopReadsAnyLayout(t *testing.T) {
	body := `{ "success":true, "extra":{"messages":[{"a":"]}"}]}, "messages" : [
		{"id":"x","transactionId":"t-1","data":{"q":"\"}]\\"},"partitionId":"17","partition":"p \"1\"","leaseId":"L","createdAt":null},
		{"data":null,"offset":-1.5e3,"leaseId":"","partitionId":"18","transactionId":"t-2","partition":""} ], "partitionsClaimed":1 }`
	var got []string
	if !scanPop([]byte(body), func(d *delivery) {
		got = append(got, strings.Join([]string{string(d.transactionID), string(d.partitionID), string(d.partition), string(d.leaseID), string(d.payload)}, "|"))
	}) {
		t.Fatal("the answer was not understood")
	}
	want := []string{`t-1|17|p \"1\"|L|{"q":"\"}]\\"}`, `t-2|18|||null`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBrokenAnswersAreNoticed(t *testing.T) {
	for _, body := range []string{
		"", "{", "[]", `{"messages":[`, `{"messages":[{"transactionId":"a"}]}`, `{"messages":[{"transactionId":1,"partitionId":"1"}]}`,
		`{"success":true}`, `{"messages":[{"transactionId":"a\"`,
	} {
		if scanPop([]byte(body), func(*delivery) {}) {
			t.Errorf("pop answer %q was accepted", body)
		}
	}
	for _, body := range []string{"", "{}", "[", `[{"status":"queued"}]`, `[{"status":"queued"},{"status":"buffered"}]`, `[{},{}]`, `[{"status":"queued"},{"status":"queued"},{"status":"queued"}]`} {
		if scanPush([]byte(body), 2, func(int, pushedStatus, []byte) {}) {
			t.Errorf("push answer %q was accepted", body)
		}
		if scanAck([]byte(body), 4, func(int, bool, []byte) {}) {
			t.Errorf("ack answer %q was accepted", body)
		}
	}
}

func TestCountingEqualsParsing(t *testing.T) {
	// Names and reasons that contain the counted texts must not count.
	items := []map[string]any{
		{"index": 0, "status": "queued", "queueName": `"status":"queued"`, "success": true, "noop": false},
		{"index": 1, "status": "error", "error": `"status":"queued" "success":true`, "success": false, "noop": false},
	}
	body, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	if allQueued(body, 2) || !allQueued(body, 1) || allAcked(body, 2) || !allAcked(body, 1) {
		t.Errorf("counting is fooled by %s", body)
	}
	items[0]["noop"] = true
	if body, err = json.Marshal(items[:1]); err != nil || allAcked(body, 1) {
		t.Errorf("a no-op passes for a settled ack: %s, %v", body, err)
	}
}

// FuzzScanPop holds the scanner against encoding/json with payloads of any kind around the fields that it looks for.
func FuzzScanPop(f *testing.F) {
	f.Add("t-1", []byte(`{"x":[1,2,{"y":"\\\""}]}`), "  ")
	f.Add("a\"b\\", []byte(`"]}"`), "\n\t")
	f.Add("", []byte(`-1.5e3`), "")
	f.Fuzz(func(t *testing.T, transactionID string, payload []byte, space string) {
		if !json.Valid(payload) || strings.Trim(space, " \t\r\n") != "" {
			return
		}
		quoted, err := json.Marshal(transactionID)
		if err != nil {
			t.Fatal(err)
		}
		message := `{"data":` + string(payload) + space + `,"transactionId":` + string(quoted) + `,"x":` + string(payload) + `,"partitionId":"7"}`
		body := `{"a":` + string(payload) + `,` + space + `"messages":[` + message + `,` + message + space + `]` + space + `}`
		count := 0
		ok := scanPop([]byte(body), func(d *delivery) {
			count++
			if string(d.transactionID) != string(quoted[1:len(quoted)-1]) || string(d.payload) != string(bytes.TrimSpace(payload)) {
				t.Fatalf("%q: read %q with %q", body, d.transactionID, d.payload)
			}
		})
		if !ok || count != 2 {
			t.Fatalf("%q: ok %v, %d messages", body, ok, count)
		}
	})
}

func FuzzScanTerminates(f *testing.F) {
	f.Add([]byte(`[{"status":"queued","error":null,"success":true}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		scanPush(body, 1, func(int, pushedStatus, []byte) {})
		scanAck(body, 1, func(int, bool, []byte) {})
		if value := (&scanner{data: body}).value(); value != nil && len(value) > len(body) {
			t.Fatal("more was read than there is")
		}
	})
}
