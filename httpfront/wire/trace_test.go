package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"queen/raftlog/command"
)

func TestTraceBodies(t *testing.T) {
	for body, want := range map[string]Trace{
		`{"transactionId":"t","partitionId":"17","data":{"a": 1.50}}`: {Txid: "t", Partition: "17", Group: command.QueueModeGroup,
			EventType: "info", Data: []byte(`{"a": 1.50}`)},
		`{"transactionId":"\u00e9","partitionId":"p","data":null,"consumerGroup":"g","eventType":"error","traceNames":["a","","a"],"more":[]}`: {
			Txid: "é", Partition: "p", Group: "g", EventType: "error", Names: []string{"a", "", "a"}, Data: []byte("null")},
		`{"transactionId":"t","partitionId":"1","data":"\ud800","consumerGroup":null,"eventType":null,"traceNames":null}`: {
			Txid: "t", Partition: "1", Group: command.QueueModeGroup, EventType: "info", Data: []byte(`"\ud800"`)},
		`{"transactionId":"t","partitionId":"1","data":[],"consumerGroup":"","eventType":"","traceNames":"one"}`: {
			Txid: "t", Partition: "1", Names: []string{"one"}, Data: []byte("[]")},
		`{"transactionId":"t","partitionId":"1","data":false,"traceNames":[]}`: {Txid: "t", Partition: "1",
			Group: command.QueueModeGroup, EventType: "info", Data: []byte("false")},
		`{"data":0,"transactionId":1,"transactionId":"t","partitionId":null,"partitionId":"1"}`: {Txid: "t", Partition: "1",
			Group: command.QueueModeGroup, EventType: "info", Data: []byte("0")},
	} {
		got, err := DecodeTrace([]byte(body))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", body, got, err, want)
		}
	}
}

func TestBadTraceBodiesSayWhy(t *testing.T) {
	const required = "transactionId and partitionId are required"
	rest := `"transactionId":"t","partitionId":"1","data":1,`
	names := strings.Repeat(`"n",`, MaxTraceNames)
	for body, want := range map[string]struct {
		code Code
		text string
	}{
		``:                                       {CodeBadBody, "bad trace body: unexpected end of JSON"},
		`[]`:                                     {CodeBadBody, "bad trace body: it is not an object"},
		"{}\xff":                                 {CodeBadBody, "bad trace body: the body is not UTF-8"},
		`{}`:                                     {CodeBadRequest, required},
		`{"transactionId":"t","data":1}`:         {CodeBadRequest, required},
		`{"partitionId":"1","data":1}`:           {CodeBadRequest, required},
		`{"transactionId":"","partitionId":"1"}`: {CodeBadRequest, required},
		`{"transactionId":"t","partitionId":null}`: {CodeBadRequest, required},
		`{"transactionId":"t","partitionId":"1"}`:  {CodeBadRequest, "data is required"},
		`{"transactionId":7,"partitionId":"1"}`:    {CodeBadBody, "bad trace body: transactionId must be a string"},
		`{"transactionId":"t","partitionId":17}`:   {CodeBadBody, "bad trace body: partitionId must be a string"},
		`{"transactionId":"\ud800"}`:               {CodeBadBody, "bad trace body: transactionId must be a string"},
		`{` + rest + `"consumerGroup":1}`:          {CodeBadBody, "bad trace body: consumerGroup must be a string"},
		`{` + rest + `"eventType":{}}`:             {CodeBadBody, "bad trace body: eventType must be a string"},
		`{` + rest + `"traceNames":{}}`:            {CodeBadBody, "bad trace body: traceNames must be a string or an array"},
		`{` + rest + `"traceNames":["a",null]}`:    {CodeBadBody, "bad trace body: traceNames[1] must be a string"},
		`{` + rest + `"traceNames":"\udc00"}`:      {CodeBadBody, "bad trace body: traceNames has an unpaired surrogate"},
		`{` + rest + `"traceNames":[` + names + `"n"]}`: {CodeBadRequest,
			fmt.Sprintf("traceNames has more than %d names", MaxTraceNames)},
	} {
		_, err := DecodeTrace([]byte(body))
		expectError(t, body, err, want.code, want.text)
	}
	if trace, err := DecodeTrace([]byte(`{` + rest + `"traceNames":[` + names[:len(names)-1] + `]}`)); err != nil ||
		len(trace.Names) != MaxTraceNames {
		t.Errorf("%d names: %v", MaxTraceNames, err)
	}
}

func FuzzDecodeTrace(f *testing.F) {
	f.Add([]byte(`{"transactionId":"t","partitionId":"1","data":{"a":[1]},"traceNames":["a","b"]}`))
	f.Add([]byte(`{"transactionId":"t","partitionId":"1","data":null,"traceNames":"n","eventType":"e"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		trace, err := DecodeTrace(body)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		if trace.Txid == "" || trace.Partition == "" || len(trace.Data) == 0 || len(trace.Names) > MaxTraceNames {
			t.Fatalf("accepted %+v", trace)
		}
	})
}
