package contract

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// The path names the queue; the pop answer shows which name the server read.
func TestPathSegmentsAreSplitRawAndDecodedAfterwards_2_2(t *testing.T) {
	t.Parallel()
	cases := []struct{ rule, segment, name string }{
		{"%2F is part of a name", "a%2Fb", "a/b"},
		{"lower case escapes", "a%2fb", "a/b"},
		{"%25 is a percent sign", "a%2525", "a%25"},
		{"+ is a plus sign", "a+b", "a+b"},
		{"%20 is a space", "a%20b", "a b"},
		{"raw UTF-8 bytes", "é😀", "é😀"},
		{"encoded UTF-8 bytes", "%C3%A9%F0%9F%98%80", "é😀"},
		{"a half-encoded character", "\xc3%A9", "é"},
		{"a percent sign that starts no escape", "50%-off", "50%-off"},
		{"a percent sign with one hex digit", "%4", "%4"},
		{"a percent sign before other letters", "%zz%41", "%zzA"},
		{"a percent sign at the end", "x%", "x%"},
		{"legal punctuation", "a:b@c!$&'()*,;=~-_.", "a:b@c!$&'()*,;=~-_."},
		{"quotes and braces as some clients send them", `{"a"}|^[b]` + "`", `{"a"}|^[b]` + "`"},
		{"a single dot inside a name", "v1.2", "v1.2"},
		{"an encoded question mark and hash", "a%3Fb%23c", "a?b#c"},
		{"an encoded NUL", "a%00b", "a\x00b"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			prefix := uniqueName(t)
			name := prefix + c.name
			pushOne(t, suite.client, harness.Item{Queue: name, Payload: 1, TransactionID: "t"})
			answer := suite.client.Get("/api/v1/pop/queue/" + prefix + c.segment + "?consumerGroup=g&subscriptionMode=all")
			need(t, answer, 200)
			if got := answer.Text("queue"); got != name {
				t.Fatalf("segment %q was read as %q, want %q", c.segment, got, name)
			}
			if messages, _ := answer.Object()["messages"].([]any); len(messages) != 1 {
				t.Fatalf("want the pushed message, got %v", answer)
			}
		})
	}
}

func TestSegmentThatIsNotUTF8IsABadRequest_2_2(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/resources/queues/%ff", "/api/v1/resources/queues/\xc3\x28", "/api/v1/resources/queues/%C3x/depth"} {
		needEnvelope(t, suite.client.Get(path), 400, "bad_request")
	}
	for _, path := range []string{"/api/v1/pop/queue/%ff", "/api/v1/pop/queue/q/partition/%80"} {
		answer := suite.client.Get(path)
		need(t, answer, 400)
		needExactKeys(t, answer.Object(), "success", "error", "messages")
	}
	need(t, suite.client.Post("/api/v1/consumer-groups/%ff/queues/q/seek", "{}"), 400)
	// A client of the KV store branches on the body of its surface (state 1.3).
	for _, path := range []string{"/api/v1/kv/ns/%ff", "/api/v1/kv/%80/k", "/api/v1/kv/ns/a/\xc3\x28"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			answer := suite.client.Do(harness.Request{Method: method, Path: path, Body: []byte(`{"value":1,"forever":true}`)})
			needRefusal(t, answer, 400, "kv_bad_request", "kv_bad_request")
		}
	}
}

func TestEmptySegmentIsTheEmptyName_2_2(t *testing.T) {
	t.Parallel()
	partition := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: "", Partition: partition, Payload: 1, TransactionID: "t"})
	t.Run("wildcard", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/pop/queue/?subscriptionMode=all&batch=10000&partitions=64&consumerGroup=" + partition)
		need(t, answer, 200)
		var reply harness.PopReply
		if err := answer.Decode(&reply); err != nil {
			t.Fatal(err)
		}
		if reply.Queue != "" {
			t.Fatalf("want the queue named \"\", got %q", reply.Queue)
		}
	})
	t.Run("pinned", func(t *testing.T) {
		answer := suite.client.Get("/api/v1/pop/queue//partition/" + partition + "?subscriptionMode=all&consumerGroup=p" + partition)
		need(t, answer, 200)
		if answer.Text("partition") != partition || answer.Text("queue") != "" {
			t.Fatalf("got %v", answer)
		}
	})
	t.Run("the partition named empty", func(t *testing.T) {
		queue := uniqueName(t)
		need(t, suite.client.Post("/api/v1/push", `{"items":[{"queue":"`+queue+`","partition":"","payload":1}]}`), 201)
		answer := suite.client.Get("/api/v1/pop/queue/" + queue + "/partition/")
		need(t, answer, 200)
		if answer.Text("partition") != "" {
			t.Fatalf("got %v", answer)
		}
	})
}

func TestSlashesAreNotMergedAndDotsNotResolved_2_2(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api//v1/push", "/api/v1//push", "/api/v1/x/../push", "/api/v1/./push", "/api/v1/push/"} {
		answer := suite.client.Post(path, `{"items":[]}`)
		needEnvelope(t, answer, 404, "no_such_route")
		if got := answer.Text("path"); got != path {
			t.Errorf("path %q is echoed as %q", path, got)
		}
	}
	prefix := uniqueName(t)
	for _, name := range []string{".", ".."} {
		// The dots stand in the partition's place so that the test keeps a queue of its own.
		pushOne(t, suite.client, harness.Item{Queue: prefix, Partition: name, Payload: 1})
		answer := suite.client.Get("/api/v1/pop/queue/" + prefix + "/partition/" + name)
		need(t, answer, 200)
		if got := answer.Text("partition"); got != name {
			t.Errorf("want partition %q, got %q", name, got)
		}
	}
}

func TestNamesAreAnyUTF8String_2_2(t *testing.T) {
	t.Parallel()
	prefix := uniqueName(t)
	for _, odd := range []string{" ", "\n\t", "\x00\x7f", "/", "//", "?&#=+%", "ü😀\u202e", `"\`, "<script>", "null", "0"} {
		queue, partition, group := prefix+odd, odd, "g"+odd
		pushOne(t, suite.client, harness.Item{Queue: queue, Partition: partition, Payload: 1, TransactionID: odd})
		popped := suite.client.Pop(queue, "subscriptionMode=all&leaseSeconds=60&consumerGroup="+url.QueryEscape(group))
		needMessages(t, popped, odd)
		if popped.Queue != queue || popped.Partition != partition || popped.ConsumerGroup != group {
			t.Errorf("%q: got queue %q, partition %q, group %q", odd, popped.Queue, popped.Partition, popped.ConsumerGroup)
		}
		needAcked(t, suite.client.AckMessages("completed", popped.Messages...))
		detail := suite.client.Get("/api/v1/resources/queues/" + url.PathEscape(queue))
		need(t, detail, 200)
		if detail.Text("name") != queue {
			t.Errorf("%q: the detail names %q", odd, detail.Text("name"))
		}
	}
}

func TestBooleanParameterForms_2_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for _, name := range []string{"wait", "autoAck", "commitOnDelivery", "conflation", "autopilot"} {
		for _, value := range []string{"true", "1", "false", "0"} {
			if name == "wait" && (value == "true" || value == "1") {
				value += "&timeout=1"
			}
			answer := suite.client.Pop(queue, "consumerGroup=g"+name+value[:1]+"&"+name+"="+value)
			if answer.Status != 204 && answer.Status != 200 {
				t.Errorf("%s=%s: got %v", name, value, answer)
			}
		}
		for _, value := range []string{"yes", "TRUE", "2", "on", "null"} {
			needPopRefusal(t, suite.client.Pop(queue, "consumerGroup=g&"+name+"="+value), name+" must be true, false, 1 or 0")
		}
	}
}

func TestIntegersAreDecimal_2_2(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	for _, name := range []string{"partitions", "timeout", "leaseSeconds"} {
		for _, value := range []string{"x", "0x10", "1.5", "1e3", "ten"} {
			needPopRefusal(t, suite.client.Pop(queue, name+"="+value), name+" must be an integer")
		}
	}
}

// needPopRefusal ends the test unless the pop was refused in the shape of 5.4 with this text.
func needPopRefusal(t *testing.T, reply harness.PopReply, text string) {
	t.Helper()
	need(t, reply.Response, 400)
	object := reply.Object()
	needExactKeys(t, object, "success", "error", "messages")
	if messages, isArray := object["messages"].([]any); object["success"] != false || !isArray || len(messages) != 0 {
		t.Fatalf("want the refusal of a pop, got %v", reply)
	}
	if got := reply.Text("error"); got != text {
		t.Fatalf("want error %q, got %q", text, got)
	}
}

func TestListLimitsAreClampedAndMustBeNumbers_2_2(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/messages", "/api/v1/dlq"} {
		t.Run(path, func(t *testing.T) {
			defaultLimit := map[string]string{"/api/v1/messages": "200", "/api/v1/dlq": "100"}[path]
			for query, want := range map[string][2]string{
				"":                      {defaultLimit, "0"},
				"?limit=7&offset=3":     {"7", "3"},
				"?limit=0":              {"1", "0"},
				"?limit=-5&offset=-5":   {"1", "0"},
				"?limit=1000":           {"1000", "0"},
				"?limit=1001":           {"1000", "0"},
				"?limit=99999&offset=9": {"1000", "9"},
			} {
				answer := suite.client.Get(path + query)
				need(t, answer, 200)
				pagination, _ := answer.Object()["pagination"].(map[string]any)
				if pagination["limit"] != json.Number(want[0]) || pagination["offset"] != json.Number(want[1]) {
					t.Errorf("%s: want %v, got %v", query, want, pagination)
				}
			}
			for _, name := range []string{"limit", "offset"} {
				answer := suite.client.Get(path + "?" + name + "=many")
				need(t, answer, 400)
				if !strings.Contains(answer.Text("error"), name) {
					t.Errorf("the text must name %s: %v", name, answer)
				}
			}
		})
	}
	t.Run("/api/v1/resources/partitions", func(t *testing.T) {
		for _, limit := range []string{"0", "-1", "610", "5000", "999999"} {
			need(t, suite.client.Get("/api/v1/resources/partitions?limit="+limit), 200)
		}
		answer := suite.client.Get("/api/v1/resources/partitions?limit=many")
		need(t, answer, 400)
		if !strings.Contains(answer.Text("error"), "limit") {
			t.Errorf("the text must name limit: %v", answer)
		}
	})
	t.Run("limit 0 of partitions shows one", func(t *testing.T) {
		queue := uniqueName(t)
		pushAll(t, suite.client, harness.Item{Queue: queue, Partition: "a", Payload: 1}, harness.Item{Queue: queue, Partition: "b", Payload: 1})
		answer := suite.client.Get("/api/v1/resources/partitions?limit=0&queue=" + queue)
		need(t, answer, 200)
		if rows, _ := answer.Object()["partitions"].([]any); len(rows) != 1 {
			t.Errorf("want one row, got %v", answer)
		}
	})
}
