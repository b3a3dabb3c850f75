package contract

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

var (
	isoMillis = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	isoMicros = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
)

func TestIdentifiersAndTimes_2_12(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushed := pushAll(t, suite.client, numbered(queue, "p", "m", 3)...)
	popped := suite.client.Pop(queue, "leaseSeconds=60")
	needMessageCount(t, popped, 3)
	rows, _ := popped.Object()["messages"].([]any)
	detail := suite.client.Get("/api/v1/resources/queues/" + queue)
	need(t, detail, 200)
	partition := firstObject(detail.Object()["partitions"])

	t.Run("message, lease and queue ids are UUIDv7", func(t *testing.T) {
		for _, id := range []string{pushed[0].MessageID, popped.LeaseID, popped.Messages[0].ID, detail.Text("id")} {
			if !uuidV7.MatchString(id) {
				t.Errorf("got %q", id)
			}
		}
		if popped.Messages[1].ID != pushed[1].MessageID {
			t.Errorf("the pop shows id %q of message %q", popped.Messages[1].ID, pushed[1].MessageID)
		}
	})
	t.Run("partitionId is decimal on the message plane", func(t *testing.T) {
		if _, err := strconv.ParseUint(popped.PartitionID, 10, 64); err != nil {
			t.Errorf("got %q", popped.PartitionID)
		}
		changed := suite.client.Post("/api/v1/partitions/changed", map[string]any{"entries": []any{map[string]any{"queue": queue}}})
		need(t, changed, 200)
		if row := firstObject(firstObject(changed.Object()["entries"])["partitions"]); row["id"] != popped.PartitionID {
			t.Errorf("want id %q, got %v", popped.PartitionID, row)
		}
	})
	t.Run("console reads show a partition UUID", func(t *testing.T) {
		id, _ := partition["id"].(string)
		if !uuidAny.MatchString(id) {
			t.Errorf("got %v", partition)
		}
		for _, read := range []struct{ path, list string }{
			{"/api/v1/messages?queue=" + queue, "messages"},
			{"/api/v1/resources/partitions?queue=" + queue, "partitions"},
		} {
			answer := suite.client.Get(read.path)
			if row := firstObject(answer.Object()[read.list]); row["partitionId"] != id {
				t.Errorf("%s: want partitionId %q, got %v", read.path, id, row)
			}
		}
		// Routes with an address accept both forms.
		for _, form := range []string{id, popped.PartitionID} {
			need(t, suite.client.Get("/api/v1/messages/"+form+"/m0"), 200)
		}
	})
	t.Run("createdAt of a pop has milliseconds, and one append one stamp", func(t *testing.T) {
		stamps := map[string]bool{}
		for _, row := range rows {
			message, _ := row.(map[string]any)
			created, _ := message["createdAt"].(string)
			if stamps[created] = true; !isoMillis.MatchString(created) {
				t.Errorf("got %q", created)
			}
		}
		if len(stamps) != 1 {
			t.Errorf("want one createdAt for one append, got %v", stamps)
		}
		if age := time.Since(popped.Messages[0].CreatedAt); age < -time.Second || age > time.Minute {
			t.Errorf("createdAt is %v ago", age)
		}
	})
	t.Run("lease expiries have milliseconds", func(t *testing.T) {
		answer := suite.client.Extend(popped.LeaseID, nil)
		for _, key := range []string{"newExpiresAt", "expiresAt", "lease_expires_at"} {
			if got := answer.Text(key); !isoMillis.MatchString(got) {
				t.Errorf("%s: got %q", key, got)
			}
		}
	})
	t.Run("management reads have microseconds", func(t *testing.T) {
		for _, got := range []any{detail.Object()["createdAt"], partition["createdAt"],
			firstObject(suite.client.Get("/api/v1/messages?queue=" + queue).Object()["messages"])["createdAt"]} {
			if text, _ := got.(string); !isoMicros.MatchString(text) {
				t.Errorf("got %v", got)
			}
		}
	})
}

// firstObject returns the first element of a decoded array when it is an object, else nil.
func firstObject(value any) map[string]any {
	array, _ := value.([]any)
	if len(array) == 0 {
		return nil
	}
	object, _ := array[0].(map[string]any)
	return object
}

func TestWriteStampsRiseStrictlyWithinAPartition_2_12(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	const appends = 20
	done := make(chan harness.PushReply, appends)
	for i := range appends {
		go func() { done <- suite.client.Push(numbered(queue, "", strconv.Itoa(i)+"-", 2)...) }()
	}
	for range appends {
		need(t, (<-done).Response, 201)
	}
	reply := fetch(t, queue, "Default", 0)
	if len(reply.Records) != 2*appends {
		t.Fatalf("want %d records, got %d", 2*appends, len(reply.Records))
	}
	for i := 2; i < len(reply.Records); i += 2 {
		before, here, twin := reply.Records[i-1], reply.Records[i], reply.Records[i+1]
		if !here.TS.After(before.TS) || !here.TS.Equal(twin.TS) {
			t.Fatalf("stamps around offset %d: %v, %v, %v", i, before.TS, here.TS, twin.TS)
		}
	}
}

func TestRemadePartitionHasNewIDsAndStartsAtZero_2_12(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	item := harness.Item{Queue: queue, Payload: 1, TransactionID: "t"}
	read := func() (id, uuid string) {
		popped := suite.client.Pop(queue, "leaseSeconds=60")
		needMessages(t, popped, "t")
		if popped.Messages[0].Offset != 0 {
			t.Fatalf("want offset 0, got %d", popped.Messages[0].Offset)
		}
		detail := suite.client.Get("/api/v1/resources/queues/" + queue)
		uuid, _ = firstObject(detail.Object()["partitions"])["id"].(string)
		return popped.PartitionID, uuid
	}
	pushOne(t, suite.client, item)
	firstID, firstUUID := read()
	need(t, suite.client.DeleteQueue(queue), 200)
	pushOne(t, suite.client, item)
	secondID, secondUUID := read()
	if firstID == secondID || firstUUID == secondUUID {
		t.Fatalf("ids %s %s came back as %s %s", firstID, firstUUID, secondID, secondUUID)
	}
}

func TestTimestampWithoutAZoneIsUTC_2_12(t *testing.T) {
	t.Parallel()
	queue := uniqueName(t)
	pushOne(t, suite.client, harness.Item{Queue: queue, Payload: 1, TransactionID: "t"})
	now := time.Now().UTC()
	// Were they read in another zone, the two would fall on the same side of the message.
	for offset, found := range map[time.Duration]bool{-30 * time.Minute: true, 30 * time.Minute: false} {
		for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04:05.000", time.RFC3339, "2006-01-02T15:04:05.000000Z07:00"} {
			stamp := now.Add(offset).Format(layout)
			reply := fetchOffsets(t, queue, stamp)
			if got := reply.Offset != nil; got != found {
				t.Errorf("%s: want found=%v, got %+v", stamp, found, reply)
			}
		}
	}
	t.Run("with an offset", func(t *testing.T) {
		east := now.Add(30 * time.Minute).In(time.FixedZone("", 5*3600)).Format(time.RFC3339)
		if reply := fetchOffsets(t, queue, east); reply.Offset != nil {
			t.Errorf("%s: got %+v", east, reply)
		}
	})
}

// 2.12: the other console reads that show a partition UUID, and the routes addressed by a partition, which take both forms.
func TestPartitionUUIDOfConsoleReads_2_12(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	batch := s.redelivered(0, 3, 1)
	detail := suite.client.Get(queuePath(s.queue))
	partition, _ := firstObject(detail.Object()["partitions"])["id"].(string)
	if !uuidAny.MatchString(partition) {
		t.Fatalf("got %q", partition)
	}
	if got := suite.client.Get("/api/v1/messages/" + s.partitionID + "/m0").Text("partitionId"); got != partition {
		t.Errorf("message detail: want partitionId %s, got %q", partition, got)
	}
	needVerdicts(t, batch.ack(dlqed(0, 1, 2, 3)), filed)
	letters := s.needDeadLetters(0, 1, 2, 3)
	for _, letter := range letters {
		if letter.PartitionID != partition {
			t.Errorf("dead letter: want partitionId %s, got %q", partition, letter.PartitionID)
		}
	}
	raw := firstObject(suite.client.Get("/api/v1/dlq?queue=" + s.queue).Object()["messages"])
	for _, stamp := range []string{"createdAt", "failedAt"} {
		if text, _ := raw[stamp].(string); !isoMicros.MatchString(text) {
			t.Errorf("dead letter: %s is %q", stamp, text)
		}
	}
	for form, txids := range map[string][2]string{s.partitionID: {"m0", "m1"}, partition: {"m2", "m3"}} {
		need(t, suite.client.Get("/api/v1/messages/"+form+"/"+txids[0]), 200)
		needReplayed(t, suite.client.Post("/api/v1/messages/"+form+"/"+txids[0]+"/retry", nil), "moved")
		need(t, suite.client.Delete("/api/v1/messages/"+form+"/"+txids[1]), 200)
	}
	s.needDeadLetters()
	for _, unknown := range []string{"99999999-9999-4999-8999-999999999999", noPartition, "nothing"} {
		need(t, suite.client.Get("/api/v1/messages/"+unknown+"/m0"), 404)
	}
}
