package api

import (
	"testing"
	"time"
)

func TestLagOfAGroupWithoutACursorFollowsItsRegistration(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("q", "old", 5)
	n.pop("q", "consumerGroup=now")                                      // registered, with nothing to claim
	n.pop("q", "consumerGroup=all&subscriptionMode=all&leaseSeconds=60") // claims the old partition
	n.push("q", "old", 2)
	n.push("q", "young", 3)
	const passed = 7 * time.Second
	n.ahead.Store(uint64(passed.Microseconds()))
	found := n.api.measureDepths()
	lags := map[string]uint64{}
	for key, group := range found.groups {
		lags[key.group] = group.messages
		if group.messages > 0 && (group.seconds < passed.Seconds() || group.seconds > 60) {
			t.Errorf("%s is behind by %v s", key.group, group.seconds)
		}
	}
	if lags["now"] != 5 || lags["all"] != 10 {
		t.Errorf("want 5 and 10 messages, got %v", lags)
	}
}

func TestStatusCountsLeasesAndDeadLetters(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("q", "a", 2)
	n.push("q", "b", 2)
	n.push("r", "a", 1)
	n.ack("__QUEUE_MODE__", "dlq", n.pop("r", "batch=1"))
	n.pop("q", "partitions=2&batch=4")
	n.pop("q", "consumerGroup=g&subscriptionMode=all&batch=1")
	var answer struct {
		Queues          int
		Messages        statusMessages
		Leases          struct{ Active, PartitionsWithLeases int }
		DeadLetterQueue struct{ TotalMessages, AffectedQueues int }
	}
	n.get("/api/v1/status", &answer)
	if answer.Queues != 2 || answer.Leases.Active != 2 || answer.Leases.PartitionsWithLeases != 3 ||
		answer.DeadLetterQueue.TotalMessages != 1 || answer.DeadLetterQueue.AffectedQueues != 1 || answer.Messages.Total != 5 {
		t.Errorf("got %+v", answer)
	}
}

func TestLivenessListsTheWidestQueuesFirst(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("narrow", "a", 7)
	for _, partition := range []string{"a", "b", "c"} {
		n.push("ns.wide", partition, 1)
	}
	n.pop("ns.wide", "batch=1")
	var answer struct{ Rows []livenessRow }
	n.get("/api/v1/analytics/partition-liveness", &answer)
	if len(answer.Rows) != 2 {
		t.Fatalf("got %+v", answer)
	}
	got := answer.Rows[0]
	if got.NewestWriteAt <= got.OldestWriteAt {
		t.Errorf("written from %d to %d", got.OldestWriteAt, got.NewestWriteAt)
	}
	got.OldestWriteAt, got.NewestWriteAt = 0, 0
	want := livenessRow{
		Queue: "ns.wide", Namespace: "ns", Task: "wide", Partitions: 3, Live1h: 3, Live24h: 3, Live7d: 3, Created24h: 3, Pending: 2,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSignaturesAreThoseOfTheNewestDeadLetters(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("q", "p", 4)
	n.ack("__QUEUE_MODE__", "dlq", n.pop("q", "batch=4"))
	var answer signaturesAnswer
	n.get("/api/v1/analytics/dlq-signatures?queue=q&limit=3", &answer)
	if answer.RowsNow != 4 || answer.Sample != 3 || len(answer.Signatures) != 1 || answer.Signatures[0] != (signatureRow{"because", 3, 1}) {
		t.Errorf("got %+v", answer)
	}
	if len(answer.ByDay) != 1 || len(answer.Groups) != 1 || answer.Groups[0].Key != "__QUEUE_MODE__" || answer.AvgBytes != 1 {
		t.Errorf("got %+v", answer)
	}
}
