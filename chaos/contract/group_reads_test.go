package contract

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// groupRow is a row of 10.1.
type groupRow struct {
	Name                  string
	Topics                []string
	QueueName             string
	Members               int
	PartitionCursors      int
	PartitionsWithLag     int
	TotalLag              int
	MaxTimeLag            float64
	State, Storage, Kind  string
	SubscriptionMode      *string
	SubscriptionTimestamp *string
	SubscriptionCreatedAt *string
	Conflation            bool
}

func groupPath(group string, more ...string) string {
	return "/api/v1/consumer-groups/" + url.PathEscape(group) + strings.Join(more, "")
}

// groupRows lists the rows of 10.1 that name the queue, by group.
func groupRows(t *testing.T, client *harness.Client, queue string) map[string]groupRow {
	t.Helper()
	rows := map[string]groupRow{}
	for _, row := range fetchInto[[]groupRow](t, client, "/api/v1/consumer-groups") {
		if row.QueueName == queue {
			rows[row.Name] = row
		}
	}
	return rows
}

// groupDetail is the answer of 10.3, by queue.
type groupDetail map[string]struct {
	Conflation bool
	Kind       string
	Partitions []struct {
		Partition      string
		WorkerID       *string
		LastConsumedAt *string
		TotalConsumed  int
		OffsetLag      int
		TimeLagSeconds *float64
		LeaseActive    bool
	}
}

// TestGroupListShowsEveryReader: 10.1, one row per group and queue with a cursor.
func TestGroupListShowsEveryReader(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 2)...)
	if rows := groupRows(t, s.client, s.queue); len(rows) != 0 {
		t.Fatalf("want no row without a cursor, got %+v", rows)
	}
	all, mode, conflating := s.as("all"), s.as(""), s.as("conflating")
	needVerdicts(t, all.needClaim(all.pinned(10), 0, 3, 1).ack(completed(0)), kept)
	needMessages(t, all.client.Pop(s.queue, all.query(10)), "b0", "b1")
	needMessages(t, mode.pinned(4, "autoAck=true"), "m0", "m1", "m2", "m3")
	drained := s.client.Pop(s.queue, "batch=100&partitions=2&consumerGroup=stamped&subscriptionFrom=2020-01-01T00:00:00Z&autoAck=true")
	if need(t, drained.Response, 200); len(drained.Messages) != 6 {
		t.Fatalf("want both partitions, got %v", drained.Response)
	}
	needMessages(t, conflating.pinned(1, "conflation=true"), "m3")
	raw := s.client.Get("/api/v1/consumer-groups")
	need(t, raw, 200)
	if len(raw.Array()) == 0 {
		t.Fatalf("want a bare array, got %v", raw)
	}
	needKeys(t, raw.Array()[0].(map[string]any), "name", "topics", "queueName", "members", "partitionCursors", "partitionsWithLag", "totalLag",
		"maxTimeLag", "state", "storage", "kind", "subscriptionMode", "subscriptionTimestamp", "subscriptionCreatedAt", "conflation")
	rows := groupRows(t, s.client, s.queue)
	if len(rows) != 4 {
		t.Fatalf("want four readers, got %+v", rows)
	}
	for name, want := range map[string]struct {
		members, cursors, lagging, lag int
		mode                           string
		conflation                     bool
	}{
		"all":        {2, 2, 2, 5, "all", false},
		queueMode:    {0, 1, 0, 0, "", false},
		"stamped":    {0, 2, 0, 0, "timestamp", false},
		"conflating": {1, 1, 1, 4, "all", true},
	} {
		row := rows[name]
		gotMode := ""
		if row.SubscriptionMode != nil {
			gotMode = *row.SubscriptionMode
		}
		if row.Members != want.members || row.PartitionCursors != want.cursors || row.PartitionsWithLag != want.lagging || row.TotalLag != want.lag ||
			gotMode != want.mode || row.Conflation != want.conflation || !slices.Equal(row.Topics, []string{s.queue}) ||
			row.Storage != "segments" || row.Kind != "queen" || row.MaxTimeLag < 0 || row.MaxTimeLag > 60 {
			t.Errorf("%s: want %+v, got %+v (mode %q)", name, want, row, gotMode)
		}
	}
	if state := rows[queueMode].State; state != "Stable" {
		t.Errorf("a group that consumed is Stable, got %q", state)
	}
	if state := rows["conflating"].State; state != "Dead" {
		t.Errorf("a group that never consumed is Dead, got %q", state)
	}
	if stamp := rows["stamped"].SubscriptionTimestamp; stamp == nil || !strings.HasPrefix(*stamp, "2020-01-01T00:00:00") {
		t.Errorf("want the timestamp of the subscription, got %v", stamp)
	}
}

// TestGroupDetail: 10.3.
func TestGroupDetail(t *testing.T) {
	t.Parallel()
	s, second := newScene(t, nil, 4), newScene(t, nil, 1)
	s.group = uniqueName(t)
	second.group = s.group
	needBody(t, s.client.Get(groupPath(s.group)), 404, `{"error":"Consumer group not found"}`)
	batch := s.claim(3, 0, 2, 1)
	needVerdicts(t, batch.ack(completed(0)), kept)
	needMessages(t, second.pop(1, "autoAck=true"), "m0")
	raw := s.client.Get(groupPath(s.group))
	need(t, raw, 200)
	partitions := raw.Object()[s.queue].(map[string]any)["partitions"].([]any)
	needKeys(t, partitions[0].(map[string]any), "partition", "workerId", "lastConsumedAt", "totalConsumed", "offsetLag", "timeLagSeconds", "leaseActive")
	detail := fetchInto[groupDetail](t, s.client, groupPath(s.group))
	if len(detail) != 2 || len(detail[s.queue].Partitions) != 1 || detail[s.queue].Kind == "" || detail[s.queue].Conflation {
		t.Fatalf("want two queues, got %v", raw)
	}
	mine, other := detail[s.queue].Partitions[0], detail[second.queue].Partitions[0]
	if mine.Partition != "Default" || !mine.LeaseActive || mine.WorkerID == nil || *mine.WorkerID != batch.lease || mine.LastConsumedAt != nil ||
		mine.TotalConsumed != 1 || mine.OffsetLag != 3 {
		t.Errorf("got %+v", mine)
	}
	if other.LeaseActive || other.WorkerID != nil || other.OffsetLag != 0 || other.TotalConsumed != 1 {
		t.Errorf("got %+v", other)
	}
}

// TestLaggingGroups: 10.2, the partitions whose oldest unconsumed message is at least that old.
func TestLaggingGroups(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	s.group = uniqueName(t)
	batch := s.claim(2, 0, 1, 1)
	needVerdicts(t, batch.ack(completed(0)), kept)
	mine := func(minimum int) []laggingRow {
		t.Helper()
		return laggingRows(t, s.client, s.group, minimum)
	}
	eventually(t, delivery, func() (bool, string) {
		rows := mine(1)
		return len(rows) == 1, fmt.Sprintf("%+v", rows)
	})
	got := mine(1)[0]
	if got.QueueName != s.queue || got.PartitionName != "Default" || !uuidAny.MatchString(got.PartitionID) || got.WorkerID == nil ||
		*got.WorkerID != batch.lease || got.OffsetLag != 2 || got.TimeLagSeconds < 1 || got.TimeLagSeconds > 60 || got.LastConsumedAt != nil ||
		got.LagHours == nil || got.OldestUnconsumedAt == nil || got.Kind == nil {
		t.Errorf("got %+v", got)
	}
	if rows := fetchInto[[]laggingRow](t, s.client, "/api/v1/consumer-groups/lagging"); slices.ContainsFunc(rows, func(r laggingRow) bool { return r.ConsumerGroup == s.group }) {
		t.Error("the default minimum is 3600 seconds")
	}
	needEnvelope(t, s.client.Get("/api/v1/consumer-groups/lagging?minLagSeconds=long"), 400, "bad_request")
	needVerdicts(t, batch.ack(completed(1)), released)
	needVerdicts(t, s.redelivered(2, 2, 1).ack(completed(2)), released)
	if rows := mine(0); len(rows) != 0 {
		t.Errorf("a group that is caught up does not lag, got %+v", rows)
	}
}

// TestPositionsRead: 10.7, entries in the order asked, offset null without a cursor; absent entries mean all.
func TestPositionsRead(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	s.group = uniqueName(t)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 2)...)
	needMessages(t, s.pinned(2, "autoAck=true"), "m0", "m1")
	path := groupPath(s.group, "/positions")
	type answer struct {
		ConsumerGroup string
		Entries       []storedPositionEntry
	}
	read := func(body any) answer {
		var got answer
		reply := s.client.Post(path, body)
		need(t, reply, 200)
		if err := reply.Decode(&got); err != nil || got.ConsumerGroup != s.group {
			t.Fatalf("got %v (%v)", reply, err)
		}
		return got
	}
	asked := read(map[string]any{"entries": []any{
		map[string]any{"queue": s.queue, "partition": "b"}, map[string]any{"queue": s.queue}, map[string]any{"queue": s.queue + "-missing"},
	}})
	if len(asked.Entries) != 3 || asked.Entries[0].Offset != nil || asked.Entries[0].Partition != "b" || asked.Entries[1].Partition != "Default" ||
		asked.Entries[1].Offset == nil || *asked.Entries[1].Offset != 2 || asked.Entries[2].Offset != nil || asked.Entries[1].Metadata != nil {
		t.Fatalf("got %+v", asked)
	}
	if every := read(`{}`); len(every.Entries) != 1 || every.Entries[0].Queue != s.queue || every.Entries[0].Partition != "Default" || *every.Entries[0].Offset != 2 {
		t.Fatalf("got %+v", every)
	}
	many := `{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"q"},`, 65537), ",") + `]}`
	needEnvelope(t, s.client.Post(path, many), 400, "bad_request")
}

// TestSubscriptionChange: 10.6, it changes the stored registrations only.
func TestSubscriptionChange(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group = uniqueName(t)
	needMessages(t, s.pop(1, "autoAck=true"), "m0")
	path := groupPath(s.group, "/subscription")
	const stamp = "2031-02-03T04:05:06Z"
	reply := s.client.Post(path, map[string]any{"subscriptionTimestamp": stamp})
	need(t, reply, 200)
	object := reply.Object()
	needKeys(t, object, "success", "consumerGroup", "newTimestamp", "rowsUpdated")
	if object["success"] != true || object["consumerGroup"] != s.group || fmt.Sprint(object["rowsUpdated"]) != "1" {
		t.Fatalf("got %v", reply)
	}
	if parsed, err := time.Parse(time.RFC3339Nano, reply.Text("newTimestamp")); err != nil || parsed.Format(time.RFC3339) != stamp {
		t.Fatalf("want %s, got %v", stamp, reply)
	}
	row := groupRows(t, s.client, s.queue)[s.group]
	if row.SubscriptionMode == nil || *row.SubscriptionMode != "timestamp" {
		t.Errorf("mode all becomes timestamp, got %+v", row)
	}
	s.needCursor(1)
	needMessages(t, s.pop(1, "autoAck=true"), "m1") // no cursor moved
	pushAll(t, s.client, numbered(s.queue, "later", "l", 1)...)
	needEmpty(t, s.pop(10)) // a new cursor comes from the new instant, which lies ahead
	for body, text := range map[string]string{
		`{}`:                                    "subscriptionTimestamp is required",
		`{"subscriptionTimestamp":"yesterday"}`: "subscriptionTimestamp is invalid",
	} {
		refusal := s.client.Post(path, body)
		if need(t, refusal, 400); !sameJSON(refusal.Body, []byte(fmt.Sprintf(`{"success":false,"error":%q}`, text))) {
			t.Errorf("%s: want %q, got %v", body, text, refusal)
		}
	}
}
