package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// groupDeletion is the answer of 10.4.
type groupDeletion struct {
	Success           bool
	ConsumerGroup     string
	QueueName         *string
	DeletedPartitions int
	MetadataDeleted   json.RawMessage
	Queues            []string
}

func deleteGroup(t *testing.T, client *harness.Client, path string) groupDeletion {
	t.Helper()
	reply := client.Delete(path)
	need(t, reply, 200)
	needKeys(t, reply.Object(), "success", "consumerGroup", "queueName", "deletedPartitions", "metadataDeleted", "queues")
	var answer groupDeletion
	if err := reply.Decode(&answer); err != nil || !answer.Success {
		t.Fatalf("want success, got %v (%v)", reply, err)
	}
	return answer
}

// TestGroupDeletion: 10.4, cursors and leases go, on one queue or on all; dead letters stay; a repeat has zeros.
func TestGroupDeletion(t *testing.T) {
	t.Parallel()
	for _, everywhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("10.4 on all queues %v", everywhere), func(t *testing.T) {
			t.Parallel()
			s, second := newScene(t, nil, 3), newScene(t, nil, 2)
			s.group = uniqueName(t)
			second.group = s.group
			pushAll(t, s.client, numbered(s.queue, "b", "b", 1)...)
			batch := s.needClaim(s.pinned(10), 0, 2, 1)
			needVerdicts(t, batch.ack(dlqed(0)), filed)
			needMessages(t, s.client.PopPartition(s.queue, "b", s.query(10)), "b0")
			leased := s.needClaim(s.pinned(10), 1, 2, 1)
			other := second.redelivered(0, 1, 1)
			path := groupPath(s.group, "/queues/", s.queue)
			if everywhere {
				path = groupPath(s.group)
			}
			answer := deleteGroup(t, s.client, path)
			if answer.ConsumerGroup != s.group || (answer.QueueName == nil) != everywhere || answer.QueueName != nil && *answer.QueueName != s.queue {
				t.Errorf("got %+v", answer)
			}
			wantPartitions, wantQueues := 2, []string{s.queue}
			if everywhere {
				wantPartitions, wantQueues = 3, []string{s.queue, second.queue}
			}
			slices.Sort(answer.Queues)
			slices.Sort(wantQueues)
			if answer.DeletedPartitions != wantPartitions || !slices.Equal(answer.Queues, wantQueues) {
				t.Errorf("want %d partitions of %v, got %+v", wantPartitions, wantQueues, answer)
			}
			needVerdicts(t, leased.ack(completed(1)), badLease)
			s.needDeadLetters(0)
			if everywhere {
				needVerdicts(t, other.ack(completed(0)), badLease)
				needBody(t, s.client.Get(groupPath(s.group)), 404, `{"error":"Consumer group not found"}`)
			} else {
				needVerdicts(t, other.ack(completed(0)), kept)
			}
			if again := deleteGroup(t, s.client, path); again.DeletedPartitions != 0 {
				t.Errorf("want zeros on a repeat, got %+v", again)
			}
			reply := s.pop(wholeBacklog, "partitions=10")
			if need(t, reply.Response, 200); len(reply.Messages) != 4 || reply.Messages[0].DeliveryAttempt != 1 {
				t.Errorf("want everything again as attempt 1, got %v", reply.Response)
			}
		})
	}
}

// TestGroupDeletionAndTheRegistration: 10.4, with metadata the next pop registers from its own parameters; without,
// the old registration seeds.
func TestGroupDeletionAndTheRegistration(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		query string // of the deletion
		next  string // of the next pop
		comes int    // messages it gets of the three that are there
	}{
		"default, next is all":  {"", "&subscriptionMode=all", 3},
		"default, next is new":  {"", "&subscriptionMode=new", 0},
		"true, next names none": {"?deleteMetadata=true", "", 0},
		"false, next is new":    {"?deleteMetadata=false", "&subscriptionMode=new", 3},
		"0, next is new":        {"?deleteMetadata=0", "&subscriptionMode=new", 3},
	}
	for name, c := range cases {
		t.Run("10.4 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 3)
			s.group = uniqueName(t)
			needVerdicts(t, s.redelivered(0, 2, 1).ack(completed(2)), released)
			deleteGroup(t, s.client, groupPath(s.group, "/queues/", s.queue, c.query))
			reply := s.client.Pop(s.queue, "batch=10&consumerGroup="+s.group+c.next)
			if c.comes == 0 {
				needEmpty(t, reply)
				return
			}
			s.needClaim(reply, 0, c.comes-1, 1)
		})
	}
	needEnvelope(t, suite.client.Delete(groupPath("nobody", "?deleteMetadata=maybe")), 400, "bad_request")
}

// TestKeptRegistrationSeedsFromItsInstant: 10.4, without its metadata deleted a group that began as new is delivered again
// what came since its registration, and nothing older, whatever the next pop says.
func TestKeptRegistrationSeedsFromItsInstant(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group = uniqueName(t)
	needEmpty(t, s.client.Pop(s.queue, "subscriptionMode=new&consumerGroup="+s.group))
	s.push(2)
	needVerdicts(t, s.redelivered(2, 3, 1).ack(completed(3)), released)
	before := groupRows(t, s.client, s.queue)[s.group]
	deleteGroup(t, s.client, groupPath(s.group, "?deleteMetadata=false"))
	s.redelivered(2, 3, 1)
	after := groupRows(t, s.client, s.queue)[s.group]
	if *after.SubscriptionMode != "new" || *after.SubscriptionTimestamp != *before.SubscriptionTimestamp || *after.SubscriptionCreatedAt != *before.SubscriptionCreatedAt {
		t.Errorf("want the registration of %+v, got %+v", before, after)
	}
}

// TestQueueModeIsDeletedAndSoughtLikeAGroup: 10.4, it then starts at the oldest message, or where the seek put it.
func TestQueueModeIsDeletedAndSoughtLikeAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3).as("")
	needVerdicts(t, s.redelivered(0, 2, 1).ack(completed(2)), released)
	deleteGroup(t, s.client, groupPath(queueMode, "/queues/", s.queue))
	needVerdicts(t, s.redelivered(0, 2, 1).ack(completed(0)), kept)
	seek(t, s, "/seek", "")
	s.needNothing()
	s.needCursor(3)
}

// TestGroupDeletionWakesWaiters: 5.7 and 10.4.
func TestGroupDeletionWakesWaiters(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group = uniqueName(t)
	s.redelivered(0, 1, 1)
	parked := parkReader(s)
	deleteGroup(t, s.client, groupPath(s.group, "/queues/", s.queue, "?deleteMetadata=false"))
	s.needClaim(<-parked, 0, 1, 1)
}

// parkReader sends a long poll that finds nothing now and returns once the broker has had time to park it: the short poll
// after it was parked and answered.
func parkReader(s *scene) <-chan harness.PopReply {
	s.t.Helper()
	parked := make(chan harness.PopReply, 1)
	query := s.query(wholeBacklog, "wait=true", waitFor(delivery))
	go func() { parked <- s.client.Pop(s.queue, query) }() // ends with its pop
	needEmpty(s.t, s.pop(1, "wait=true", "timeout=200"))
	return parked
}

// sought is the answer of 10.5.
type sought struct {
	Success           bool
	ConsumerGroup     string
	QueueName         string
	PartitionName     *string
	SeekToEnd         bool
	TargetTimestamp   *string
	PartitionsUpdated int
	Updated           json.RawMessage
}

// seek seeks the queue of the scene; suffix is "/seek" or "/partitions/<name>/seek".
func seek(t *testing.T, s *scene, suffix string, body any) sought {
	t.Helper()
	reply := s.client.Post(groupPath(s.groupName(), "/queues/", s.queue, suffix), body)
	need(t, reply, 200)
	needKeys(t, reply.Object(), "success", "consumerGroup", "queueName", "partitionName", "seekToEnd", "targetTimestamp", "partitionsUpdated", "updated")
	var answer sought
	if err := reply.Decode(&answer); err != nil || !answer.Success || answer.ConsumerGroup != s.groupName() || answer.QueueName != s.queue {
		t.Fatalf("got %v (%v)", reply, err)
	}
	return answer
}

// TestSeekToTheEnd: 10.5, an empty body is toEnd; toEnd false and null count as absent.
func TestSeekToTheEnd(t *testing.T) {
	t.Parallel()
	bodies := map[string]any{"no body": nil, "toEnd": `{"toEnd":true}`, "timestamp null": `{"toEnd":true,"timestamp":null}`}
	for name, body := range bodies {
		t.Run("10.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 3)
			pushAll(t, s.client, numbered(s.queue, "b", "b", 2)...)
			answer := seek(t, s, "/seek", body)
			if answer.PartitionName != nil || !answer.SeekToEnd || answer.TargetTimestamp != nil || answer.PartitionsUpdated != 2 {
				t.Errorf("got %+v", answer)
			}
			s.needNothing()
			s.needCursor(3) // the missing cursor was created
			s.push(1)
			s.redelivered(3, 3, 1)
		})
	}
}

// TestSeekToATimestamp: 10.5, the next message is the first one stamped at or after it, by append; backwards it is a
// replay. The lease is released, failures and attempts are cleared.
func TestSeekToATimestamp(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 3}, 2)
	s.push(3) // a second append
	batch := s.redelivered(0, 4, 1)
	stamp := func(offset int) string { return messageStamp(t, s, offset) }
	needVerdicts(t, batch.ack(failed(0)), released)
	leased := s.redelivered(0, 4, 2)
	for _, step := range []struct {
		body string
		next int
	}{
		{fmt.Sprintf(`{"timestamp":%q}`, stamp(2)), 2},
		{fmt.Sprintf(`{"timestamp":%q}`, stamp(4)), 2}, // by append
		{`{"timestamp":"2020-01-01T00:00:00+02:00"}`, 0},
		{`{"timestamp":"2100-01-01T00:00:00"}`, 5},
		{`{"toEnd":false,"timestamp":"2020-01-01T00:00:00.000Z"}`, 0},
	} {
		answer := seek(t, s, "/partitions/Default/seek", step.body)
		if answer.PartitionName == nil || *answer.PartitionName != "Default" || answer.SeekToEnd || answer.TargetTimestamp == nil || answer.PartitionsUpdated != 1 {
			t.Errorf("%s: got %+v", step.body, answer)
		}
		s.needCursor(step.next)
		needVerdicts(t, leased.ack(failed(4)), badLease)
		if step.next < 5 {
			leased = s.redelivered(step.next, 4, 1)
		} else {
			s.needNothing()
		}
	}
	needVerdicts(t, leased.ack(retried(0)), released)
	s.needCharged(0)
}

// messageStamp is the write stamp of a message with microseconds (11.1).
func messageStamp(t *testing.T, s *scene, offset int) string {
	t.Helper()
	for _, row := range browse(t, s.client, "queue="+s.queue) {
		if row.Offset == int64(offset) && row.Partition == s.partition {
			return row.CreatedAt
		}
	}
	t.Fatalf("no message at offset %d", offset)
	return ""
}

// TestSeekWakesWaiters: 5.7 and 10.5.
func TestSeekWakesWaiters(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	needVerdicts(t, s.redelivered(0, 1, 1).ack(completed(1)), released)
	parked := parkReader(s)
	seek(t, s, "/seek", `{"timestamp":"2020-01-01T00:00:00Z"}`)
	s.needClaim(<-parked, 0, 1, 1)
}

// TestSeekDoesNotTouchDedup: 10.5.
func TestSeekDoesNotTouchDedup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	seek(t, s, "/seek", `{"toEnd":true}`)
	reply := s.client.Push(harness.Item{Queue: s.queue, Payload: 0, TransactionID: "m1"})
	if need(t, reply.Response, 201); reply.Items[0].Status != "duplicate" || *reply.Items[0].Offset != 1 {
		t.Fatalf("want a duplicate of offset 1, got %v", reply)
	}
}

// TestSeekRefusals: 10.5.
func TestSeekRefusals(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	path := groupPath(s.group, "/queues/", s.queue)
	want := `{"success":false,"error":"Must specify toEnd=true or a timestamp"}`
	for _, body := range []string{
		`{}`, `{"toEnd":false}`, `{"toEnd":null,"timestamp":null}`, `{"toEnd":true,"timestamp":"2020-01-01T00:00:00Z"}`, `{"timestamp":"soon"}`, `{"timestamp":5}`,
		`{"toEnd":"yes"}`,
	} {
		for _, suffix := range []string{"/seek", "/partitions/Default/seek"} {
			reply := s.client.Post(path+suffix, body)
			if need(t, reply, 400); !sameJSON(reply.Body, []byte(want)) {
				t.Errorf("10.5 %s %s: want %s, got %v", suffix, body, want, reply)
			}
		}
	}
	long := groupPath(strings.Repeat("g", 412-len(s.queue)), "/queues/", s.queue, "/seek")
	needEnvelope(t, s.client.Post(long, `{"toEnd":true}`), 413, "name_too_long")
	empty := uniqueName(t)
	need(t, s.client.Configure(empty, nil), 200)
	for target, text := range map[string]string{
		groupPath(s.group, "/queues/", s.queue, "-missing/seek"):                    "Queue not found or has no partitions",
		groupPath(s.group, "/queues/", empty, "/seek"):                              "Queue not found or has no partitions",
		groupPath(s.group, "/queues/", s.queue, "/partitions/nothing/seek"):         "Partition not found",
		groupPath(s.group, "/queues/", s.queue, "-missing/partitions/Default/seek"): "Partition not found",
	} {
		reply := s.client.Post(target, `{"toEnd":true}`)
		queue, _, _ := strings.Cut(strings.Split(target, "/queues/")[1], "/")
		want := fmt.Sprintf(`{"success":false,"error":%q,"consumerGroup":%q,"queueName":%q,"partitionsUpdated":0}`, text, s.group, queue)
		if need(t, reply, 404); !sameJSON(reply.Body, []byte(want)) {
			t.Errorf("10.5 %s: want %s, got %v", target, want, reply)
		}
	}
}

// TestSeekForwardsSkipsWithoutDeadLetters: 10.5, and a later replay delivers what was skipped.
func TestSeekForwardsSkipsWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	seek(t, s, "/partitions/Default/seek", nil)
	s.needNothing()
	s.needDeadLetters()
	seek(t, s, "/partitions/Default/seek", map[string]any{"timestamp": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)})
	s.redelivered(0, 2, 1)
}
