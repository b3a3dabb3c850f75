package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

const someUUID = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"

func expectError(t *testing.T, body string, err error, code Code, text string) {
	t.Helper()
	refusal, ok := errors.AsType[*Error](err)
	if !ok {
		t.Errorf("%.100s: got %v, want a refusal", body, err)
		return
	}
	if refusal.Code != code || !strings.HasPrefix(refusal.Text, text) {
		t.Errorf("%.100s: got %s %q, want %s %q", body, refusal.Code, refusal.Text, code, text)
	}
}

func TestPushKeepsPayloadsAsTheyWereSent(t *testing.T) {
	body := `{ "items" : [
	  {"queue":"a.b","payload": {"n": 1.50, "n": 12345678901234567890.0} , "transactionId":"t\u00e9","traceId":"` + strings.ToUpper(someUUID) + `"},
	  {"queue":"","partition":"","payload":null,"transactionId":"","producerSub":"x","traceId":7},
	  {"queue":"q","partition":null,"payload":"\ud800","transactionId":null,"unknown":[{}]}
	], "more": {} }`
	items, err := DecodePush([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := []PushItem{
		{Queue: "a.b", Partition: "Default", Txid: []byte("té"), TraceID: uuid.MustParse(someUUID), Payload: []byte(`{"n": 1.50, "n": 12345678901234567890.0}`)},
		{Queue: "", Partition: "", Txid: []byte{}, Payload: []byte(`null`)},
		{Queue: "q", Partition: "Default", Payload: []byte(`"\ud800"`)},
	}
	if !reflect.DeepEqual(items, want) {
		t.Errorf("got  %+v\nwant %+v", items, want)
	}
	if items, err := DecodePush([]byte(`{"items":[]}`)); err != nil || len(items) != 0 {
		t.Errorf("no items: %v, %v", items, err)
	}
}

func TestTheLastOfRepeatedMembersCounts(t *testing.T) {
	for _, body := range []string{
		`{"items":7,"items":[{"queue":"q","payload":1}]}`,
		`{"items":[{"queue":"x"}],"items":[{"queue":"q","payload":1}]}`,
		`{"items":[{"queue":"x","payload":2},{"queue":"y","payload":2}],"items":[{"queue":"q","payload":1}]}`,
		`{"items":[{"queue":5,"payload":2,"queue":"q","payload":1}]}`,
		`{"items":[{"queue":"x","payload":2,"payload":1,"\u0071ueue":"q"}]}`,
	} {
		items, err := DecodePush([]byte(body))
		if err != nil || len(items) != 1 || items[0].Queue != "q" || string(items[0].Payload) != "1" {
			t.Errorf("%s: %+v, %v", body, items, err)
		}
	}
	_, err := DecodePush([]byte(`{"items":[{"queue":"q","payload":1}],"items":null}`))
	expectError(t, "null after items", err, CodeBadBody, "bad push body: items must be an array")
}

func TestBadPushBodiesSayWhy(t *testing.T) {
	long := strings.Repeat("x", MaxTxidBytes)
	if _, err := DecodePush([]byte(`{"items":[{"queue":"q","payload":1,"transactionId":"` + long + `"}]}`)); err != nil {
		t.Errorf("a txid of 65,535 bytes: %v", err)
	}
	for body, text := range map[string]string{
		``:                                  "unexpected end of JSON",
		`nonsense`:                          "unexpected character",
		"{\"items\":[]}\xff":                "the body is not UTF-8",
		`[]`:                                "it is not an object",
		`null`:                              "it is not an object",
		`{}`:                                "missing items",
		`{"items":{}}`:                      "items must be an array",
		`{"items":[]} x`:                    "unexpected data after the JSON value",
		`{"items":[1]}`:                     "items[0] must be an object",
		`{"items":[{"payload":1}]}`:         "items[0] has no queue",
		`{"items":[{"queue":"q"}]}`:         "items[0] has no payload",
		`{"items":[{"queue":"q","data":1}]`: "unexpected end of JSON",
		`{"items":[{"queue":"q","payload":1},{"queue":null,"payload":1}]}`:               "items[1].queue must be a string",
		`{"items":[{"queue":"q","payload":1,"partition":7}]}`:                            "items[0].partition must be a string",
		`{"items":[{"queue":"q","payload":1,"transactionId":{}}]}`:                       "items[0].transactionId must be a string",
		`{"items":[{"queue":"q","payload":1,"transactionId":"\ud800"}]}`:                 "items[0].transactionId must be a string",
		`{"items":[{"queue":"\udc00x","payload":1}]}`:                                    "items[0].queue must be a string",
		`{"items":[{"queue":"q","payload":1,"partition":"\ud800\ud800"}]}`:               "items[0].partition must be a string",
		`{"items":[{"queue":"q","payload":1,"transactionId":"` + long + `x"}]}`:          "items[0].transactionId is longer than 65535 bytes",
		`{"items":[{"queue":"q","payload":1,"transactionId":"` + long[1:] + `\u00e9"}]}`: "items[0].transactionId is longer than 65535 bytes",
		`{"items":[{"queue":"q","payload":` + strings.Repeat("[", 20_000):                "more than 10,000 levels",
		`{"items":[{"queue":"q","payload":01}]}`:                                         "expected a comma or }",
	} {
		_, err := DecodePush([]byte(body))
		expectError(t, body, err, CodeBadBody, "bad push body: "+text)
	}
}

func TestAckAcceptsBothShapes(t *testing.T) {
	for body, want := range map[string]Ack{
		`{"transactionId":"t","partitionId":"17","status":"FAILED","consumerGroup":"g","leaseId":"` + someUUID + `","error":"why"}`: {
			Group: "g", Items: []AckItem{{Txid: "t", Partition: 17, PartitionOK: true, Status: command.AckFailed,
				Lease: uuid.MustParse(someUUID), Error: "why", HasError: true}}},
		`{"transactionId":"t","partitionId":"18446744073709551616","status":"done","leaseId":"nonsense","error":null,"acknowledgments":null}`: {
			Group: command.QueueModeGroup, Items: []AckItem{{Txid: "t", UnknownStatus: true, BadStatus: "done", Lease: command.NoSuchLease}}},
		`{"consumerGroup":"","acknowledgments":[{"transactionId":"a","partitionId":"1","leaseId":""},{"transactionId":"b","partitionId":"-1","status":"dlq","error":""}]}`: {
			Group: "", Items: []AckItem{
				{Txid: "a", Partition: 1, PartitionOK: true},
				{Txid: "b", Status: command.AckDeadLetter, HasError: true},
			}},
	} {
		got, err := DecodeAck([]byte(body))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", body, got, err, want)
		}
	}
	for status, want := range map[string]command.AckStatus{
		"failed": command.AckFailed, "NACK": command.AckFailed, "Retry": command.AckRetry, "dlq": command.AckDeadLetter,
		"completed": command.AckCompleted, "Success": command.AckCompleted, "ACKED": command.AckCompleted, "ok": command.AckCompleted,
	} {
		if got, ok := ParseAckStatus(status); !ok || got != want {
			t.Errorf("status %s: %v, %t", status, got, ok)
		}
	}
	if _, ok := ParseAckStatus(""); ok {
		t.Error("the empty status is known")
	}
}

func TestBadAckBodiesSayWhy(t *testing.T) {
	for body, text := range map[string]string{
		``:                         "unexpected end of JSON",
		`[]`:                       "it is not an object",
		`{}`:                       "missing transactionId",
		`{"transactionId":"t"}`:    "missing partitionId",
		`{"acknowledgments":[]}`:   "acknowledgments is empty",
		`{"acknowledgments":{}}`:   "acknowledgments must be an array",
		`{"acknowledgments":[[]]}`: "acknowledgments[0] must be an object",
		`{"acknowledgments":[{"transactionId":"t","partitionId":17}]}`:     "acknowledgments[0]: partitionId must be a string",
		`{"transactionId":"\ud800","partitionId":"1"}`:                     "transactionId must be a string",
		`{"transactionId":"t","partitionId":"1","leaseId":7}`:              "leaseId must be a string",
		`{"transactionId":"t","partitionId":"1","status":7}`:               "status must be a string",
		`{"transactionId":"t","partitionId":"1","error":7}`:                "error must be a string",
		`{"transactionId":"t","partitionId":"1","consumerGroup":"\udc00"}`: "consumerGroup must be a string",
		`{"transactionId":"t","partitionId":"1","consumerGroup":5}`:        "consumerGroup must be a string",
	} {
		_, err := DecodeAck([]byte(body))
		expectError(t, body, err, CodeBadBody, "bad ack body: "+text)
	}
}

func TestTransactionIsReadInFlatOrder(t *testing.T) {
	body := `{"operations":[
	  {"type":"push","items":[{"queue":"out","partition":"","payload":1,"transactionId":"t1"},{"queue":"out","payload":2}]},
	  {"type":"ack","transactionId":"o","partitionId":"17","leaseId":"` + someUUID + `","consumerGroup":"g","status":"dlq"},
	  {"type":"push","queue":"in","payload":{},"transactionId":"t2","traceId":"` + someUUID + `"}],
	 "requiredLeases":["` + someUUID + `",null,""],"kv":[{"op":"put"}],"timers":null,
	 "positions":[{"queue":"q","consumerGroup":"g","offset":7,"metadata":"m","subscriptionMode":"new"},
	              {"queue":"q","consumerGroup":"g","partition":"p","offset":null}]}`
	got, err := DecodeTransaction([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.MustParse(someUUID)
	want := &Transaction{
		Operations: []Operation{
			{Push: &PushItem{Queue: "out", Partition: "Default", Txid: []byte("t1"), Payload: []byte("1")}},
			{Push: &PushItem{Queue: "out", Partition: "Default", Payload: []byte("2")}},
			{Ack: &AckItem{Txid: "o", Partition: 17, PartitionOK: true, Lease: id, Status: command.AckDeadLetter}, Group: "g"},
			{Push: &PushItem{Queue: "in", Partition: "Default", Txid: []byte("t2"), TraceID: id, Payload: []byte("{}")}},
		},
		RequiredLeases: []command.LeaseID{id},
		KV:             [][]byte{[]byte(`{"op":"put"}`)},
		Positions: []command.Position{
			{Queue: "q", Group: "g", Partition: "Default", Offset: 7, HasOffset: true, Metadata: "m", HasMetadata: true,
				Subscription: command.Subscription{Mode: command.SubscriptionNew}},
			{Queue: "q", Group: "g", Partition: "p"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBadTransactionsAreRefusedOrRolledBack(t *testing.T) {
	long := strings.Repeat("x", MaxTxidBytes+1)
	for _, c := range []struct {
		body     string
		code     Code
		rollBack bool
		text     string
	}{
		{`nonsense`, CodeBadBody, false, "bad transaction body: unexpected character"},
		{`[]`, CodeBadBody, false, "bad transaction body: it is not an object"},
		{`{}`, CodeBadRequest, true, "the transaction has no operations"},
		{`{"operations":[],"kv":null}`, CodeBadRequest, true, "the transaction has no operations"},
		{`{"operations":{}}`, CodeBadBody, false, "bad transaction body: operations must be an array"},
		{`{"kv":7}`, CodeBadBody, false, "bad transaction body: kv must be an array"},
		{`{"operations":[7]}`, CodeBadBody, false, "bad transaction body: operations[0] must be an object"},
		{`{"operations":[{}]}`, CodeBadRequest, false, "operations[0].type must be a string"},
		{`{"operations":[{"type":"pull"}]}`, CodeBadRequest, false, `operations[0]: unknown operation type "pull"`},
		{`{"operations":[{"type":"kv"}]}`, CodeBadRequest, false, "operations[0]: kv operations belong"},
		{`{"operations":[{"type":"push","queue":"q"}]}`, CodeBadRequest, true, "operations[0]: a push needs queue and payload"},
		{`{"operations":[{"type":"push","items":[{"queue":"q"}]}]}`, CodeBadBody, false, "bad transaction body: operations[0].items[0] has no payload"},
		{`{"operations":[{"type":"push","items":{}}]}`, CodeBadBody, false, "bad transaction body: operations[0].items must be an array"},
		{`{"operations":[{"type":"push","queue":"q","payload":1,"transactionId":"` + long + `"}]}`, CodeBadRequest, false, "operations[0].transactionId is longer"},
		{`{"operations":[{"type":"push","items":[{"queue":"q","payload":1,"transactionId":"` + long + `"}]}]}`, CodeBadRequest, false, "operations[0].items[0].transactionId is longer"},
		{`{"operations":[{"type":"ack","partitionId":"1"}]}`, CodeBadBody, false, "bad transaction body: operations[0]: missing transactionId"},
		{`{"operations":[{"type":"ack","transactionId":"t","partitionId":"x"}]}`, CodeBadRequest, true, "operations[0]: partitionId is not a partition id"},
		{`{"operations":[{"type":"ack","transactionId":"t","partitionId":"1","status":"done"}]}`, CodeBadRequest, false, `operations[0]: unknown ack status "done"`},
		{`{"operations":[{"type":"ack","transactionId":"` + long + `","partitionId":"1"}]}`, CodeBadRequest, false, "operations[0].transactionId is longer"},
		{`{"positions":[{"queue":"q"}]}`, CodeBadRequest, true, "positions[0]: missing consumerGroup"},
		{`{"positions":[{"queue":"q","consumerGroup":"g","offset":-1}]}`, CodeBadRequest, true, "positions[0]: offset -1 is not an offset"},
		{`{"positions":[{"queue":"q","consumerGroup":"g","offset":"7"}]}`, CodeBadBody, false, "bad transaction body: positions[0]: offset must be an integer"},
		{`{"positions":[{"queue":"q","consumerGroup":"g","metadata":"` + long + `"}]}`, CodeBadRequest, true, "positions[0]: metadata is longer"},
		{`{"positions":[` + strings.Repeat(`{},`, MaxPositions) + `{}]}`, CodeBadRequest, true, "more than 16384 positions"},
		{`{"operations":[{"type":"push","queue":"q","payload":1}],"requiredLeases":[7]}`, CodeBadBody, false, "bad transaction body: requiredLeases[0]"},
	} {
		_, err := DecodeTransaction([]byte(c.body))
		expectError(t, c.body, err, c.code, c.text)
		if refusal, ok := errors.AsType[*Error](err); ok && refusal.RollBack != c.rollBack {
			t.Errorf("%.100s: roll back is %t", c.body, refusal.RollBack)
		}
	}
}

func TestConfigureTakesOptionsFromEitherPlace(t *testing.T) {
	number := func(key command.OptionKey, n int32) command.OptionChange {
		return command.OptionChange{Key: key, Number: n}
	}
	text := func(key command.OptionKey, s string) command.OptionChange {
		return command.OptionChange{Key: key, Text: s}
	}
	reset := func(key command.OptionKey) command.OptionChange { return command.OptionChange{Key: key, Reset: true} }
	for body, want := range map[string]Configure{
		`{"queue":""}`: {},
		`{"queue":"q","mode":"replace","leaseTime":120,"namespace":"n","task":null,"unknown":1}`: {Queue: "q", Replace: true, Changes: []command.OptionChange{
			text(command.OptionNamespace, "n"), number(command.OptionLeaseTime, 120)}},
		`{"queue":"q","mode":null,"options":null,"namespace":"","task":7,"priority":0}`: {Queue: "q", Changes: []command.OptionChange{
			number(command.OptionPriority, 0)}},
		`{"queue":"q","mode":"merge","namespace":"top","task":"top","leaseTime":1,"options":{"namespace":null,"retryDelay":null,"deadLetterQueue":false,"minPopWaitTime":2147483647}}`: {Queue: "q", Changes: []command.OptionChange{
			reset(command.OptionNamespace), text(command.OptionTask, "top"), reset(command.OptionRetryDelay),
			{Key: command.OptionDeadLetterQueue}, number(command.OptionMinPopWaitTime, 60_000)}},
		`{"queue":"q","options":{"task":7,"retentionSinkHold":{},"encryptionEnabled":true,"retentionSinkHoldMaxSeconds":60}}`: {Queue: "q", Changes: []command.OptionChange{
			reset(command.OptionTask), {Key: command.OptionEncryptionEnabled, Flag: true}, reset(command.OptionRetentionSinkHold),
			number(command.OptionRetentionSinkHoldMaxSeconds, 60)}},
		`{"queue":"q","namespace":null,"task":null,"options":{"namespace":"","ttl":2147483647}}`: {Queue: "q", Changes: []command.OptionChange{
			text(command.OptionNamespace, ""), number(command.OptionTTL, 2147483647)}},
	} {
		got, err := DecodeConfigure([]byte(body))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", body, got, err, want)
		}
	}
}

func TestConfigureRefusalsNameTheOption(t *testing.T) {
	for body, want := range map[string]Error{
		`x`:                                       {Code: CodeBadBody, Text: "bad configure body: unexpected character at byte 0"},
		`[]`:                                      {Code: CodeBadBody, Text: "bad configure body: it is not an object"},
		`{"queue":"q","options":[]}`:              {Code: CodeBadBody, Text: "bad configure body: options must be an object"},
		`{}`:                                      {Code: CodeBadRequest, Text: "queue is required"},
		`{"queue":null}`:                          {Code: CodeBadRequest, Text: "queue is required"},
		`{"queue":"\ud800"}`:                      {Code: CodeBadRequest, Text: "queue is required"},
		`{"queue":"q","mode":"x"}`:                {Code: CodeBadRequest, Text: `mode must be "merge" or "replace", got "x"`},
		`{"queue":"q","mode":{ "a" : [ 1 ] }}`:    {Code: CodeBadRequest, Text: `mode must be "merge" or "replace", got {"a":[1]}`},
		`{"queue":"q","leaseTime":"1"}`:           {Code: CodeBadRequest, Text: "leaseTime must be an integer", Invalid: "leaseTime"},
		`{"queue":"q","retryLimit":1.0}`:          {Code: CodeBadRequest, Text: "retryLimit must be an integer", Invalid: "retryLimit"},
		`{"queue":"q","ttl":1e3}`:                 {Code: CodeBadRequest, Text: "ttl must be an integer", Invalid: "ttl"},
		`{"queue":"q","maxSize":2147483648}`:      {Code: CodeBadRequest, Text: "maxSize must be an integer", Invalid: "maxSize"},
		`{"queue":"q","priority":-1}`:             {Code: CodeBadRequest, Text: "priority must not be negative", Invalid: "priority"},
		`{"queue":"q","leaseTime":0}`:             {Code: CodeBadRequest, Text: "leaseTime must be from 1 to 2147483647", Invalid: "leaseTime"},
		`{"queue":"q","retentionEnabled":1}`:      {Code: CodeBadRequest, Text: "retentionEnabled must be a boolean", Invalid: "retentionEnabled"},
		`{"queue":"q","retentionSinkHold":"a b"}`: {Code: CodeBadRequest, Text: "retentionSinkHold must match [A-Za-z0-9._-]{0,64}", Invalid: "retentionSinkHold"},
		`{"queue":"q","retentionSinkHold":"` + strings.Repeat("a", 65) + `"}`: {Code: CodeBadRequest, Text: "retentionSinkHold must match [A-Za-z0-9._-]{0,64}", Invalid: "retentionSinkHold"},
		`{"queue":"q","retentionSinkHoldMaxSeconds":59}`:                      {Code: CodeBadRequest, Text: "retentionSinkHoldMaxSeconds must be from 60 to 31536000", Invalid: "retentionSinkHoldMaxSeconds"},
		`{"queue":"q","retentionSinkHoldMaxSeconds":31536001}`:                {Code: CodeBadRequest, Text: "retentionSinkHoldMaxSeconds must be from 60 to 31536000", Invalid: "retentionSinkHoldMaxSeconds"},
	} {
		_, err := DecodeConfigure([]byte(body))
		if refusal, ok := errors.AsType[*Error](err); !ok || *refusal != want {
			t.Errorf("%s\ngot  %+v\nwant %+v", body, err, want)
		}
	}
	_, err := DecodeConfigure([]byte(`{"queue":"q","mode":"` + strings.Repeat("é", 100_000) + `"}`))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("the refusal of a long mode has %d bytes", len(err.Error()))
	}
}

func TestExtendTakesAlmostAnything(t *testing.T) {
	for body, want := range map[string]uint64{
		``: 60, `x`: 60, "\xff": 60, `{}`: 60, `{"seconds":null}`: 60, `{"seconds":"5"}`: 60, `[]`: 60,
		`{"seconds":5}`: 5, `{"seconds":0}`: 1, `{"seconds":-1e999}`: 1, `{"seconds":0.2}`: 1, `{"seconds":5.01}`: 6,
		`{"seconds":1e999}`: MaxLeaseSeconds, `{"seconds":99999999999}`: MaxLeaseSeconds, `{"seconds":7,"seconds":8}`: 8,
	} {
		if got := DecodeExtend([]byte(body)); got != want {
			t.Errorf("%s: got %d, want %d", body, got, want)
		}
	}
}

func TestSeekWantsExactlyOneTarget(t *testing.T) {
	const instant = 1_791_190_800_000_000
	for body, want := range map[string]Seek{
		``: {ToEnd: true}, " \n": {ToEnd: true}, `{"toEnd":true}`: {ToEnd: true}, `{"toEnd":true,"timestamp":null}`: {ToEnd: true},
		`{"timestamp":"2026-10-05T09:00:00Z"}`:               {TimestampMicros: instant},
		`{"toEnd":false,"timestamp":"2026-10-05T09:00:00Z"}`: {TimestampMicros: instant},
	} {
		if got, err := DecodeSeek([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for _, body := range []string{
		`{}`, `x`, `{"toEnd":false}`, `{"toEnd":null}`, `{"toEnd":1}`, `{"toEnd":"true"}`, `{"timestamp":"soon"}`, `{"timestamp":5}`,
		`{"toEnd":true,"timestamp":"2026-10-05T09:00:00Z"}`, `{"toEnd":"x","timestamp":"2026-10-05T09:00:00Z"}`, `[]`,
	} {
		_, err := DecodeSeek([]byte(body))
		expectError(t, body, err, CodeBadRequest, "Must specify toEnd=true or a timestamp")
	}
}

func TestSmallBodies(t *testing.T) {
	if micros, err := DecodeSubscription([]byte(`{"subscriptionTimestamp":"1970-01-01"}`)); micros != 0 || err != nil {
		t.Errorf("got %d, %v", micros, err)
	}
	_, err := DecodeSubscription([]byte(`{}`))
	expectError(t, "{}", err, CodeBadRequest, "subscriptionTimestamp is required")
	_, err = DecodeSubscription([]byte(`{"subscriptionTimestamp":7}`))
	expectError(t, "7", err, CodeBadRequest, "subscriptionTimestamp is invalid")

	if _, all, err := DecodePositions(nil); !all || err != nil {
		t.Errorf("no body: %t, %v", all, err)
	}
	entries, all, err := DecodePositions([]byte(`{"entries":[{"queue":"q"},{"queue":"","partition":"p"}]}`))
	if want := []PartitionName{{"q", "Default"}, {"", "p"}}; all || err != nil || !reflect.DeepEqual(entries, want) {
		t.Errorf("got %v, %t, %v", entries, all, err)
	}
	_, _, err = DecodePositions([]byte(`{"entries":[` + strings.Repeat(`{"queue":"q"},`, MaxPositionEntries) + `{"queue":"q"}]}`))
	expectError(t, "many entries", err, CodeBadRequest, "more than 65536 entries")
	_, _, err = DecodePositions([]byte(`{"entries":[{"partition":"p"}]}`))
	expectError(t, "no queue", err, CodeBadBody, "bad positions body: entries[0]: queue must be a string")

	replay, err := DecodeReplay([]byte(`{"queue":" q ","partition":7}`))
	if err != nil || replay.Partition != nil || *replay.Queue != "q" {
		t.Errorf("got %+v, %v", replay, err)
	}
	_, err = DecodeReplay([]byte(`{"queue":" "}`))
	expectError(t, "blank", err, CodeBadRequest, "queue and partition overrides must be non-empty")
	_, err = DecodeReplay([]byte(`{"queue":`))
	expectError(t, "syntax", err, CodeBadBody, "bad replay body: ")
}

func TestFetchClampsNumbersAndRefusesTheRest(t *testing.T) {
	fetch, err := DecodeFetch([]byte(`{"entries":[{"queue":"q","offset":7},{"queue":"q","partition":12,"offset":0,"maxBytes":99999999999999999999}],"maxWaitMs":99999,"minBytes":-7}`))
	want := &Fetch{WaitMs: 30_000, MinBytes: 0, Entries: []FetchEntry{
		{PartitionName: PartitionName{"q", "Default"}, Offset: 7, MaxBytes: 1 << 20},
		{PartitionName: PartitionName{"q", "12"}, MaxBytes: 8 << 20},
	}}
	if err != nil || !reflect.DeepEqual(fetch, want) {
		t.Errorf("got %+v, %v", fetch, err)
	}
	for body, text := range map[string]string{
		`{}`:              "entries is required",
		`{"entries":{}}`:  "entries must be an array",
		`{"entries":[7]}`: "entries[0]: it is not an object",
		`{"entries":[{"queue":"q","offset":-1}]}`:                                   "offset must be non-negative",
		`{"entries":[{"queue":"q"}]}`:                                               "entries[0]: offset must be an integer",
		`{"entries":[{"queue":"q","offset":1.5}]}`:                                  "entries[0]: offset must be an integer",
		`{"entries":[{"queue":7,"offset":1}]}`:                                      "entries[0]: queue must be a string",
		`{"entries":[{"queue":"q","offset":1,"partition":1.5}]}`:                    "entries[0]: partition must be a string or an integer",
		`{"entries":[],"maxWaitMs":"x"}`:                                            "maxWaitMs must be an integer",
		`{"entries":[` + strings.Repeat(`{"queue":"q","offset":1},`, 1024) + `{}]}`: "too many entries",
	} {
		_, err := DecodeFetch([]byte(body))
		expectError(t, body, err, CodeBadRequest, text)
	}
	queries, err := DecodeFetchOffsets([]byte(`{"entries":[{"queue":"q","timestamp":1000},{"queue":"q","timestamp":"1970-01-01T00:00:02"}]}`))
	if err != nil || queries[0].TimestampMicros != 1_000_000 || queries[1].TimestampMicros != 2_000_000 {
		t.Errorf("got %+v, %v", queries, err)
	}
	_, err = DecodeFetchOffsets([]byte(`{"entries":[{"queue":"q"}]}`))
	expectError(t, "no timestamp", err, CodeBadRequest, "entries[0]: timestamp is invalid")
	changed, err := DecodeChanged([]byte(`{"entries":[{"queue":"q","since":5,"after":"c","limit":5000},{"queue":"r"}]}`))
	wantChanged := []ChangedQuery{{Queue: "q", SinceMicros: 5000, HasSince: true, After: "c", Limit: 1000}, {Queue: "r", Limit: 1000}}
	if err != nil || !reflect.DeepEqual(changed, wantChanged) {
		t.Errorf("got %+v, %v", changed, err)
	}
	for body, text := range map[string]string{
		`{"entries":[{"queue":""}]}`:                                   "entries[0]: queue must not be empty",
		`{"entries":[{"queue":"q","since":"x"}]}`:                      "entries[0]: since is not a timestamp",
		`{"entries":[` + strings.Repeat(`{"queue":"q"},`, 64) + `{}]}`: "too many entries",
	} {
		_, err := DecodeChanged([]byte(body))
		expectError(t, body, err, CodeBadRequest, text)
	}
}

func TestTimestampsInManyForms(t *testing.T) {
	base := time.Date(2026, 10, 5, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-10-05T09:00:00Z":           base,
		"2026-10-05t09:00:00z":           base,
		"2026-10-05 09:00:00":            base,
		"2026-10-05T09:00":               base,
		"2026-10-05":                     base.Add(-9 * time.Hour),
		"2026-10-05T11:00:00+02:00":      base,
		"2026-10-05T11:00:00+0200":       base,
		"2026-10-05T05:30:00-03:30":      base,
		"2026-10-05T11:00:00+02":         base,
		"2026-10-05T09:00:00.5Z":         base.Add(500 * time.Millisecond),
		"2026-10-05T09:00:00.123456789Z": base.Add(123456 * time.Microsecond),
		"2024-02-29T00:00:00Z":           time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		"1969-12-31T23:59:59.999999Z":    time.UnixMicro(-1),
		"0000-01-01T00:00:00Z":           time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59.999999Z":    time.UnixMicro(maxMicros),
		// Leap seconds, at the end of a month in UTC.
		"1990-12-31T23:59:60Z":      time.Date(1991, 1, 1, 0, 0, 0, 0, time.UTC),
		"1990-12-31T15:59:60-08:00": time.Date(1991, 1, 1, 0, 0, 0, 0, time.UTC),
		"2016-06-30T23:59:60.75Z":   time.Date(2016, 7, 1, 0, 0, 0, 0, time.UTC),
	} {
		micros, ok := ParseTime(text)
		if !ok || micros != want.UnixMicro() {
			t.Errorf("%s: got %v, %t", text, time.UnixMicro(micros).UTC(), ok)
		}
	}
	for _, text := range []string{
		"", "now", "2026", "2026-13-01", "2026-02-29", "2026-00-10", "2026-10-00", "2026-10-05T24:00:00Z", "2026-10-05T09:60:00Z", "2026-10-05T09:00:61Z",
		"2026-10-05T09:00:60Z", "2026-10-05T23:59:60Z", "2026-10-31T23:59:60+01:00", "2026-10-31T22:59:60Z",
		"2026-10-05T09:00:00.Z", "2026-10-05T09:00:00+", "2026-10-05T09:00:00+25:00", "2026-10-05T09:00:00Zx", "2026-10-05T", "20261005T090000Z", "+2026-10-05", strings.Repeat("1", 1000),
	} {
		if micros, ok := ParseTime(text); ok {
			t.Errorf("%s was read as %v", text, time.UnixMicro(micros).UTC())
		}
	}
}

func TestTimestampsAreWrittenAsTheLibraryWouldDo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 50_000 {
		micros := random.Uint64N(maxMicros + 1)
		if i == 0 {
			micros = 0
		}
		moment := time.UnixMicro(int64(micros)).UTC()
		if got, want := string(AppendTimeMs(nil, micros)), moment.Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		text := AppendTimeMicros(nil, micros)
		if want := moment.Format("2006-01-02T15:04:05.000000Z"); string(text) != want {
			t.Fatalf("got %s, want %s", text, want)
		}
		if back, ok := ParseTime(text); !ok || back != int64(micros) {
			t.Fatalf("%s was read as %d", text, back)
		}
	}
	if got := string(AppendTimeMs(nil, 1<<63)); got != "9999-12-31T23:59:59.999Z" {
		t.Errorf("got %s", got)
	}
}

// decoders are all decoders, for the fuzz target.
var decoders = map[string]func([]byte) error{
	"ack":          func(b []byte) error { _, err := DecodeAck(b); return err },
	"transaction":  func(b []byte) error { _, err := DecodeTransaction(b); return err },
	"configure":    func(b []byte) error { _, err := DecodeConfigure(b); return err },
	"extend":       func(b []byte) error { DecodeExtend(b); return nil },
	"seek":         func(b []byte) error { _, err := DecodeSeek(b); return err },
	"subscription": func(b []byte) error { _, err := DecodeSubscription(b); return err },
	"positions":    func(b []byte) error { _, _, err := DecodePositions(b); return err },
	"fetch":        func(b []byte) error { _, err := DecodeFetch(b); return err },
	"offsets":      func(b []byte) error { _, err := DecodeFetchOffsets(b); return err },
	"changed":      func(b []byte) error { _, err := DecodeChanged(b); return err },
	"trace":        func(b []byte) error { _, err := DecodeTrace(b); return err },
	"timers":       func(b []byte) error { _, err := DecodeTimers(b, 256); return err },
	"switches":     func(b []byte) error { _, err := DecodeSwitches(b); return err },
	"replay":       func(b []byte) error { _, err := DecodeReplay(b); return err },
}

// FuzzDecoders checks that no body makes a decoder panic, and that refusals are refusals.
func FuzzDecoders(f *testing.F) {
	for _, body := range []string{
		`{"acknowledgments":[{"transactionId":"a","partitionId":"1","leaseId":""}]}`,
		`{"operations":[{"type":"push","items":[{"queue":"q","payload":1}]},{"type":"ack","transactionId":"t","partitionId":"1"}],"positions":[{"queue":"q","consumerGroup":"g","offset":1}]}`,
		`{"queue":"q","mode":"merge","options":{"leaseTime":1,"namespace":null}}`, `{"seconds":1.5}`, `{"toEnd":true}`,
		`{"entries":[{"queue":"q","partition":"p","offset":1,"timestamp":"2026-10-05T09:00:00Z","since":1}]}`, `{"subscriptionTimestamp":"x"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, decode := range decoders {
			if err := decode(body); err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Errorf("%s: %v is no refusal", name, err)
				}
			}
		}
	})
}

// FuzzPush checks the promises about pushed messages: names are UTF-8, payloads are JSON and stand in the body.
func FuzzPush(f *testing.F) {
	f.Add(pushBody(2))
	f.Add([]byte(`{"items":[{"queue":"\u0071","partition":"\ud83d\ude00","payload": [1, 2] ,"transactionId":"\n"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := DecodePush(body)
		if err != nil {
			if !strings.HasPrefix(err.Error(), pushPrefix) {
				t.Errorf("text %q", err)
			}
			return
		}
		for _, item := range items {
			if !utf8.ValidString(item.Queue) || !utf8.ValidString(item.Partition) || !utf8.Valid(item.Txid) {
				t.Errorf("not UTF-8: %+v", item)
			}
			value, ok := oracle(item.Payload)
			if !ok || !bytes.Equal(value, item.Payload) || !bytes.Contains(body, item.Payload) {
				t.Errorf("payload %q", item.Payload)
			}
		}
	})
}

func TestManyMembersAndLongNamesCostLittle(t *testing.T) {
	name := strings.Repeat("n", 1<<20)
	items, err := DecodePush(fmt.Appendf(nil, `{"items":[{"queue":"%s","payload":"%s","%s":1}]}`, name, name, name))
	if err != nil || items[0].Queue != name {
		t.Errorf("names of 1 MiB: %v", err)
	}
	body := append([]byte(`{"items":`), bytes.Repeat([]byte(`[`), 64<<20)...)
	if allocated := testing.AllocsPerRun(1, func() { DecodePush(body) }); allocated > 1000 {
		t.Errorf("64 MiB of brackets took %v allocations", allocated)
	}
}
