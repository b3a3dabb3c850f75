package contract

import (
	"fmt"
	"strings"
	"testing"
)

// TestTransactionAckEffects: 8.6, acks have the effects of 6.5, also within a transaction that succeeds, and several
// of one lease are judged together.
func TestTransactionAckEffects(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		marks   []mark
		dlq     []bool
		cursor  int
		charged int
		filed   []int64
	}{
		{"completed to the end", []mark{completed(0, 1, 2, 3)}, []bool{false, false, false, false}, 4, 0, nil},
		{"failed charges once", []mark{completed(0), failed(1, 2)}, []bool{false, false, false}, 1, 1, nil},
		{"retry charges nothing", []mark{completed(0, 1), retried(2)}, []bool{false, false, false}, 2, 0, nil},
		{"dlq files", []mark{completed(0), dlqed(1)}, []bool{false, true}, 2, 0, []int64{1}},
		{"several dlq", []mark{dlqed(0, 2), failed(3)}, []bool{true, true, false}, 1, 0, []int64{0, 2}},
		{"completed above a signal redelivers", []mark{failed(1), completed(0, 2, 3)}, []bool{false, false, false, false}, 1, 1, nil},
		{"any letter case", []mark{{status: "OK", offsets: []int{0}}, {status: "Nack", offsets: []int{1}}}, []bool{false, false}, 1, 1, nil},
	}
	for _, c := range cases {
		t.Run("8.6 "+c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 3}, 5)
			batch := s.claim(4, 0, 3, 1)
			out := s.queue + "-out"
			reply := s.client.Transaction(operations(batch.operations(c.marks...), []any{pushOperation(out, "t")}))
			needCommitted(t, reply)
			for i, want := range c.dlq {
				if result := reply.Results[i]; result.Type != "ack" || result.DLQ != want || result.Error != nil {
					t.Errorf("result %d: want dlq %v, got %+v", i, want, result)
				}
			}
			s.needCursor(c.cursor)
			s.needDeadLetters(c.filed...)
			needStored(t, s.client, out, "t")
			needVerdicts(t, s.redelivered(c.cursor, 4, anyAttempt).ack(retried(c.cursor)), released)
			s.needCharged(c.charged)
		})
	}
}

// TestTransactionMayDeadLetterAndCommit: 8.6, with retryLimit 0 the message is filed, the pushes commit and the source
// is empty.
func TestTransactionMayDeadLetterAndCommit(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 0}, 1)
	batch := s.redelivered(0, 0, 1)
	out := s.queue + "-out"
	reply := s.client.Transaction(operations([]any{pushOperation(out, "t")}, batch.operations(failed(0).because("no luck"))))
	needCommitted(t, reply)
	if !reply.Results[1].DLQ {
		t.Fatalf("want dlq true, got %v", reply.Response)
	}
	letter := s.needDeadLetters(0)[0]
	if letter.ErrorMessage == nil || *letter.ErrorMessage != "no luck" {
		t.Fatalf("want the reason of the ack, got %+v", letter)
	}
	needStored(t, s.client, out, "t")
	s.needNothing()
}

// TestTransactionSpansLeasesQueuesAndGroups: 8.6, all or nothing over all of them.
func TestTransactionSpansLeasesQueuesAndGroups(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprintf("8.6 commits %v", commits), func(t *testing.T) {
			t.Parallel()
			a, b := newScene(t, nil, 2), newScene(t, nil, 2)
			other := a.as("other")
			batches := []claim{a.redelivered(0, 1, 1), other.redelivered(0, 1, 1), b.redelivered(0, 1, 1)}
			first, second := a.queue+"-1", a.queue+"-2"
			inPartition := pushOperation(first, "u")
			inPartition["partition"] = "p"
			body := operations(batches[0].operations(completed(0, 1)), []any{pushOperation(first, "t")},
				batches[1].operations(completed(0)), []any{inPartition, pushOperation(second, "v")}, batches[2].operations(completed(1)))
			if !commits {
				body["operations"] = append(body["operations"].([]any), batches[2].operations(completed(50))...)
				needRolledBack(t, a.client.Transaction(body), "rejected_ack")
				for _, reader := range []*scene{a, other, b} {
					reader.needCursor(0)
				}
				needStored(t, a.client, first)
				needStored(t, a.client, second)
				return
			}
			needCommitted(t, a.client.Transaction(body))
			a.needCursor(2)
			other.needCursor(1)
			b.needCursor(2)
			needMessages(t, a.client.PopPartition(first, "Default", "autoAck=true"), "t")
			needMessages(t, a.client.PopPartition(first, "p", "autoAck=true"), "u")
			needStored(t, a.client, second, "v")
		})
	}
}

// TestTransactionPushCreatesAsAPushDoes: 8.6 and 4.4, implicit defaults and the labels of a dotted name.
func TestTransactionPushCreatesAsAPushDoes(t *testing.T) {
	t.Parallel()
	queue := "billing-" + uniqueName(t) + ".invoice.v2"
	needCommitted(t, suite.client.Transaction(operations([]any{pushOperation(queue, "t")})))
	detail := queueDetail(t, suite.client, queue)
	if detail.Namespace != strings.TrimSuffix(queue, ".invoice.v2") || detail.Task != "invoice" {
		t.Errorf("want the labels of the name, got %q and %q", detail.Namespace, detail.Task)
	}
	if detail.Options["leaseTime"] != 60.0 {
		t.Errorf("want the implicit leaseTime 60, got %v", detail.Options["leaseTime"])
	}
}

// TestPositionSetsTheNextMessage: 8.1, offset is the next message to deliver, and a held lease is released.
func TestPositionSetsTheNextMessage(t *testing.T) {
	t.Parallel()
	t.Run("8.1 forwards, backwards and to the tail", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 5)
		needCommitted(t, s.client.Transaction(position(s, 3)))
		s.needCursor(3)
		batch := s.redelivered(3, 4, 1)
		needCommitted(t, s.client.Transaction(position(s, 1)))
		needVerdicts(t, batch.ack(failed(3)), badLease)
		next := s.redelivered(1, 4, 1)
		needVerdicts(t, next.ack(completed(1, 2, 3, 4)), released)
		needCommitted(t, s.client.Transaction(position(s, 5)))
		s.needNothing()
		s.push(1)
		s.redelivered(5, 5, 1)
	})
	t.Run("8.1 a missing partition is created, Default when it is not named", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 0)
		need(t, s.client.Configure(s.queue, nil), 200)
		entry := map[string]any{"queue": s.queue, "consumerGroup": s.group, "offset": 0}
		needCommitted(t, s.client.Transaction(map[string]any{"positions": []any{entry}}))
		s.needCursor(0)
		if detail := queueDetail(t, s.client, s.queue); len(detail.Partitions) != 1 || detail.Partitions[0].Name != "Default" {
			t.Fatalf("want the partition Default, got %+v", detail)
		}
	})
	t.Run("8.1 positions and acks of one bundle", func(t *testing.T) {
		t.Parallel()
		s, other := newScene(t, nil, 3), newScene(t, nil, 3)
		batch := s.redelivered(0, 2, 1)
		body := position(other, 2)
		body["operations"] = batch.operations(completed(0, 1, 2))
		needCommitted(t, s.client.Transaction(body))
		s.needCursor(3)
		other.redelivered(2, 2, 1)
	})
}

// TestPositionRefusals: 8.1 and 8.4; a refused bundle moves no other position either.
func TestPositionRefusals(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	needCommitted(t, s.client.Transaction(position(s, 1)))
	cases := map[string]struct {
		change map[string]any
		reason string
	}{
		"above the tail":          {map[string]any{"offset": 4}, "bad_request"},
		"negative":                {map[string]any{"offset": -1}, "bad_request"},
		"missing queue":           {map[string]any{"queue": s.queue + "-missing"}, "queue_not_found"},
		"metadata too long":       {map[string]any{"metadata": strings.Repeat("m", 4097)}, "bad_request"},
		"null, metadata too long": {map[string]any{"offset": nil, "metadata": strings.Repeat("m", 4097)}, "bad_request"},
	}
	for name, c := range cases {
		t.Run("8.1 "+name, func(t *testing.T) {
			other := s.as("other")
			good := position(other, 2)["positions"].([]any)[0]
			bad := map[string]any{"queue": s.queue, "consumerGroup": s.group, "offset": 0}
			for key, value := range c.change {
				bad[key] = value
			}
			needRolledBack(t, s.client.Transaction(map[string]any{"positions": []any{good, bad}}), c.reason)
			s.needCursor(1)
			if next, moved := other.positionOf(); moved {
				t.Errorf("the other position of the bundle moved to %d", next)
			}
		})
	}
}

// TestPositionMetadata: 8.1 and 10.7, null leaves the cursor alone and stores the metadata only.
func TestPositionMetadata(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	long := strings.Repeat("m", 4096)
	for _, step := range []struct {
		offset   any
		metadata string
		next     int
	}{{2, "first", 2}, {nil, "second", 2}, {nil, long, 2}} {
		body := position(s, step.offset)
		body["positions"].([]any)[0].(map[string]any)["metadata"] = step.metadata
		needCommitted(t, s.client.Transaction(body))
		if stored := storedPosition(t, s); stored.Metadata == nil || *stored.Metadata != step.metadata || stored.Offset == nil || *stored.Offset != step.next {
			t.Fatalf("want offset %d and metadata of %d bytes, got %+v", step.next, len(step.metadata), stored)
		}
	}
	s.redelivered(2, 2, 1)
}

// storedPositionEntry is an entry of 10.7.
type storedPositionEntry struct {
	Queue, Partition string
	Offset           *int
	Metadata         *string
}

func storedPosition(t *testing.T, s *scene) storedPositionEntry {
	t.Helper()
	var answer struct{ Entries []storedPositionEntry }
	body := map[string]any{"entries": []any{map[string]any{"queue": s.queue, "partition": s.partition}}}
	reply := s.client.Post("/api/v1/consumer-groups/"+s.groupName()+"/positions", body)
	need(t, reply, 200)
	if err := reply.Decode(&answer); err != nil || len(answer.Entries) != 1 {
		t.Fatalf("want one entry, got %v (%v)", reply, err)
	}
	return answer.Entries[0]
}

// TestPositionRegistersTheGroup: 8.1, subscriptionMode registers a group that is not registered; later pops do not
// change the mode.
func TestPositionRegistersTheGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	pushAll(t, s.client, numbered(s.queue, "other", "o", 2)...)
	body := position(s, 1)
	body["positions"].([]any)[0].(map[string]any)["subscriptionMode"] = "all"
	needCommitted(t, s.client.Transaction(body))
	reply := s.client.Pop(s.queue, "batch=10&partitions=10&subscriptionMode=new&consumerGroup="+s.group)
	needMessages(t, reply, "o0", "o1")
}

// TestPositionBelowTheLogStartResumesThere: 8.1.
func TestPositionBelowTheLogStartResumesThere(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"maxWaitTimeSeconds": 2}, 2)
	awaitRetained(t, s, 0)
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0}), 200)
	s.push(1)
	needCommitted(t, s.client.Transaction(position(s, 0)))
	s.redelivered(2, 2, 1)
}
