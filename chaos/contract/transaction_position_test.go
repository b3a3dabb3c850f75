package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// positionWith is position with members changed; a nil value is sent as null, the text "absent" leaves the member out.
func positionWith(s *scene, members map[string]any) map[string]any {
	entry := map[string]any{"queue": s.queue, "partition": s.partition, "consumerGroup": s.groupName(), "offset": 0}
	for name, value := range members {
		if entry[name] = value; value == "absent" {
			delete(entry, name)
		}
	}
	return map[string]any{"positions": []any{entry}}
}

// TestPositionLeavesARegistrationAlone: 8.1, subscriptionMode registers a group that is not registered and changes no
// other; without it nothing is registered.
func TestPositionLeavesARegistrationAlone(t *testing.T) {
	t.Parallel()
	cases := []struct {
		before, mode string // "" is none
		after        string // "" is null
		fresh        bool   // whether the group sees what stood in another partition before
	}{
		{"", "all", "all", true},
		{"", "from_beginning", "all", true},
		{"", "new", "new", false},
		{"", "", "", true}, // the next wildcard pop registers it, as all
		{"new", "all", "new", false},
		{"all", "new", "all", true},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("8.1 registered as %q, position with %q", c.before, c.mode), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 2)
			pushAll(t, s.client, numbered(s.queue, "other", "o", 1)...)
			s.group = uniqueName(t)
			if c.before != "" {
				registering := s.client.Pop(s.queue, "batch=1&subscriptionMode="+c.before+"&consumerGroup="+s.group)
				need(t, registering.Response, map[string]int{"new": 204, "all": 200}[c.before])
				deleteGroup(t, s.client, groupPath(s.group, "/queues/", s.queue, "?deleteMetadata=false"))
			}
			mode := any(c.mode)
			if c.mode == "" {
				mode = nil
			}
			needCommitted(t, s.client.Transaction(positionWith(s, map[string]any{"offset": 1, "subscriptionMode": mode})))
			var stored string
			if row := groupRows(t, s.client, s.queue)[s.group]; row.SubscriptionMode != nil {
				stored = *row.SubscriptionMode
			}
			if stored != c.after {
				t.Fatalf("want the mode %q, got %q", c.after, stored)
			}
			want := []string{"m1"}
			if c.fresh {
				want = append(want, "o0")
			}
			if got := s.drained(); !slices.Equal(got, want) {
				t.Fatalf("want %v, got %v", want, got)
			}
		})
	}
}

// drained is what the reader gets until there is nothing left, in the order of the txids.
func (s *scene) drained() []string {
	s.t.Helper()
	var txids []string
	for {
		reply := s.pop(wholeBacklog, "partitions=10", "autoAck=true")
		if reply.Status == 204 {
			slices.Sort(txids)
			return txids
		}
		need(s.t, reply.Response, 200)
		txids = append(txids, reply.TransactionIDs()...)
	}
}

// TestPositionMembers: 8.1 and 8.5, what is missing is an invalid position, what has the wrong type a bad request; absent
// and null are the same.
func TestPositionMembers(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	wrong := map[string][]any{
		"queue": {7, true, []any{}}, "consumerGroup": {7, map[string]any{}}, "partition": {7, false}, "offset": {"1", true, []any{1}},
		"metadata": {7, map[string]any{"a": 1}}, "subscriptionMode": {7, true},
	}
	out := s.queue + "-out"
	bundle := func(body map[string]any) map[string]any {
		body["operations"] = []any{pushOperation(out, "t")}
		return body
	}
	for name, values := range wrong {
		for _, value := range values {
			t.Run(fmt.Sprintf("8.5 %s is %v", name, value), func(t *testing.T) {
				needRefused400(t, s.client.Transaction(bundle(positionWith(s, map[string]any{name: value}))).Response)
			})
		}
	}
	for _, entry := range []any{"first", 7, []any{}} {
		t.Run(fmt.Sprintf("8.5 a position that is %v", entry), func(t *testing.T) {
			needRefused400(t, s.client.Transaction(bundle(map[string]any{"positions": []any{entry}})).Response)
		})
	}
	for _, name := range []string{"queue", "consumerGroup"} {
		for _, value := range []any{"absent", nil} {
			t.Run(fmt.Sprintf("8.4 %s is %v", name, value), func(t *testing.T) {
				needRolledBack(t, s.client.Transaction(bundle(positionWith(s, map[string]any{name: value}))), "bad_request")
			})
		}
	}
	for _, offset := range []any{1.5, -1, 4, uint64(1) << 63} {
		t.Run(fmt.Sprintf("8.1 offset is %v", offset), func(t *testing.T) {
			needRolledBack(t, s.client.Transaction(bundle(positionWith(s, map[string]any{"offset": offset}))), "bad_request")
		})
	}
	needStored(t, s.client, out)
	if _, moved := s.positionOf(); moved {
		t.Fatal("a refused position made a cursor")
	}
	for _, offset := range []any{"absent", nil} {
		needCommitted(t, s.client.Transaction(positionWith(s, map[string]any{"offset": offset, "metadata": "kept", "partition": "absent", "subscriptionMode": nil})))
		if stored := storedPosition(t, s); stored.Offset != nil || stored.Metadata == nil || *stored.Metadata != "kept" {
			t.Fatalf("want the metadata alone, got %+v", stored)
		}
	}
	needCommitted(t, s.client.Transaction(positionWith(s, map[string]any{"offset": 3, "partition": nil, "metadata": nil})))
	s.needCursor(3)
}

// TestPositionMetadataIsCountedInBytes: 8.1, at most 4,096 of them.
func TestPositionMetadataIsCountedInBytes(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	longest := strings.Repeat("é", 2048)
	needCommitted(t, s.client.Transaction(positionWith(s, map[string]any{"metadata": longest})))
	needRolledBack(t, s.client.Transaction(positionWith(s, map[string]any{"metadata": longest + "x"})), "bad_request")
	if stored := storedPosition(t, s); stored.Metadata == nil || *stored.Metadata != longest {
		t.Fatalf("got %+v", stored)
	}
}

// TestPositionOfQueueMode: 8.1 and section 1, the reserved group has positions like any other.
func TestPositionOfQueueMode(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3).as("")
	batch := s.redelivered(0, 2, 1)
	needCommitted(t, s.client.Transaction(position(s, 2)))
	needVerdicts(t, batch.ack(completed(2)), badLease)
	s.redelivered(2, 2, 1)
}
