package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"
)

// needCounted ends the test unless all the places of 9.5 to 9.9 that count a queue agree with the backlog of its
// measuring reader. The lists show the backlog without what is leased, the others with it.
func needCounted(t *testing.T, s *scene, total, backlog, processing, dead int) {
	t.Helper()
	waiting := counts{total, backlog - processing, processing, total - backlog, dead}
	whole := counts{total, backlog, processing, total - backlog, dead}
	rows, at := queueRows(t, s.client, s.queue)
	if at < 0 || rows[at].Messages != waiting {
		t.Errorf("9.6: want %+v, got %+v", waiting, rows[at].Messages)
	}
	if detail := queueDetail(t, s.client, s.queue); detail.Totals != whole {
		t.Errorf("9.7: want %+v, got %+v", whole, detail.Totals)
	}
	depth := queueDepth(t, s.client, s.queue, "")
	if depth.Pending != backlog || depth.Processing != processing || depth.Ready != backlog-processing || depth.Group != nil {
		t.Errorf("9.8: want pending %d, processing %d, got %+v", backlog, processing, depth)
	}
	pending := 0
	for _, row := range partitionRows(t, s.client, s.queue) {
		pending += row.Pending
	}
	if pending != backlog {
		t.Errorf("9.9: want pending %d, got %d", backlog, pending)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// TestCountingFollowsTheSlowestNamedGroup: 9.5, queue mode measures only when there is no named group, and without
// any reader the backlog is all that is retained.
func TestCountingFollowsTheSlowestNamedGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 10)
	needCounted(t, s, 10, 10, 0, 0)
	mode := s.as("")
	needVerdicts(t, mode.claim(6, 0, 5, 1).ack(completed(5)), released)
	needCounted(t, s, 10, 4, 0, 0)
	leased := mode.claim(2, 6, 7, 1)
	needCounted(t, s, 10, 4, 2, 0)
	needVerdicts(t, leased.ack(completed(6)), kept)
	needCounted(t, s, 10, 3, 1, 0)
	slow, fast := s.as("slow"), s.as("fast")
	needVerdicts(t, fast.claim(9, 0, 8, 1).ack(completed(8)), released)
	needCounted(t, s, 10, 1, 0, 0) // a named group measures, although queue mode is slower
	batch := slow.claim(3, 0, 2, 1)
	needCounted(t, s, 10, 10, 3, 0)
	needVerdicts(t, batch.ack(dlqed(1), completed(0)), filed, released)
	needCounted(t, s, 10, 8, 0, 1)
	needVerdicts(t, slow.redelivered(2, 9, 1).ack(completed(9)), released)
	needCounted(t, s, 10, 1, 0, 1) // fast is the slower one now
}

// TestQueueListShowsRows: 9.6.
func TestQueueListShowsRows(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"namespace": "n", "task": "t"}, 3)
	second := newScene(t, nil, 1)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 2)...)
	reply := s.client.Get("/api/v1/resources/queues?namespace=nothing&task=nothing")
	need(t, reply, 200)
	found := -1
	list, _ := reply.Object()["queues"].([]any)
	for i, entry := range list {
		row := entry.(map[string]any)
		if row["name"] == s.queue {
			found = i
			needExactKeys(t, row, "id", "name", "queue", "namespace", "task", "storage", "partitions", "segments", "messages", "retainedBytes",
				"options", "createdAt", "kvRows", "kvBytes", "timerRows", "timerBytes")
			needExactKeys(t, row["messages"].(map[string]any), "total", "pending", "processing", "completed", "deadLetter")
			needExactKeys(t, row["segments"].(map[string]any), "segments", "messages")
		}
		if row["name"] == second.queue && found >= 0 {
			t.Error("the list is not newest first")
		}
	}
	if found < 0 {
		t.Fatal("namespace and task are ignored, but the queue is missing")
	}
	rows, at := queueRows(t, s.client, s.queue)
	row := rows[at]
	if !uuidV7.MatchString(row.ID) || row.Queue != s.queue || row.Namespace != "n" || row.Task != "t" || row.Storage != "segments" ||
		row.Partitions != 2 || row.Segments.Messages != 5 || row.Segments.Segments < 2 || row.Segments.Segments > 5 || row.RetainedBytes <= 0 ||
		time.Since(row.CreatedAt).Abs() > time.Minute || row.KVRows != 0 || row.KVBytes != 0 || row.TimerRows != 0 || row.TimerBytes != 0 {
		t.Errorf("got %+v", row)
	}
	if !slices.IsSortedFunc(rows, func(a, b queueRow) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		t.Error("the list is not newest first")
	}
}

// TestQueueListLanes: 9.6, stats=lanes reduces the rows; any other value is ignored.
func TestQueueListLanes(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 1)...)
	detail := s.client.Get(queuePath(s.queue))
	for query, lanes := range map[string]bool{"?stats=lanes": true, "?stats=full": false, "?stats=": false, "": false} {
		reply := s.client.Get("/api/v1/resources/queues" + query)
		need(t, reply, 200)
		if mark := reply.Text("stats"); (mark == "lanes") != lanes {
			t.Errorf("%s: stats is %q", query, mark)
		}
		for _, entry := range reply.Object()["queues"].([]any) {
			row := entry.(map[string]any)
			if row["name"] != s.queue {
				continue
			}
			needKeys(t, row, "id", "name", "queue", "partitions", "createdAt")
			for key, want := range map[string]any{
				"id": detail.Text("id"), "name": s.queue, "queue": s.queue, "partitions": json.Number("2"), "createdAt": detail.Text("createdAt"),
			} {
				if row[key] != want {
					t.Errorf("%s: want %s %v, got %v", query, key, want, row[key])
				}
			}
			if lanes && len(row) != 5 {
				t.Errorf("want five keys, got %v", row)
			}
			if _, full := row["messages"]; full == lanes {
				t.Errorf("%s: got %v", query, row)
			}
		}
	}
}

// TestQueueDetail: 9.7.
func TestQueueDetail(t *testing.T) {
	t.Parallel()
	before := time.Now()
	s := newScene(t, nil, 2)
	s.push(1)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 4)...)
	needVerdicts(t, s.needClaim(s.pinned(2), 0, 1, 1).ack(completed(0)), kept)
	reply := s.client.Get(queuePath(s.queue))
	need(t, reply, 200)
	needExactKeys(t, reply.Object(), "id", "name", "namespace", "task", "createdAt", "options", "partitions", "segments", "totals", "retainedBytes")
	needExactKeys(t, reply.Object()["partitions"].([]any)[0].(map[string]any), "id", "name", "createdAt", "messages", "stats", "cursor",
		"lastActivity", "oldestMessage", "newestMessage", "retainedBytes")
	detail := queueDetail(t, s.client, s.queue)
	if len(detail.Partitions) != 2 || detail.Segments.Messages != 7 || detail.RetainedBytes <= 0 || detail.Namespace != s.queue {
		t.Fatalf("got %v", reply)
	}
	want := map[string]counts{"Default": {3, 2, 1, 1, 0}, "b": {4, 4, 0, 0, 0}}
	for i, partition := range detail.Partitions {
		raw := reply.Object()["partitions"].([]any)[i].(map[string]any)
		if failed, present := raw["messages"].(map[string]any)["failed"]; !present || failed != nil {
			t.Errorf("failed is null, got %v", raw)
		}
		if !uuidAny.MatchString(partition.ID) || partition.Messages != want[partition.Name] || partition.Stats != partition.Messages ||
			partition.Cursor.BatchesConsumed != 0 || partition.RetainedBytes <= 0 {
			t.Errorf("want %+v, got %+v", want[partition.Name], partition)
		}
		for name, stamp := range map[string]*time.Time{
			"createdAt": &partition.CreatedAt, "lastActivity": partition.LastActivity, "oldestMessage": partition.OldestMessage, "newestMessage": partition.NewestMessage,
		} {
			if stamp == nil || stamp.Before(before.Add(-time.Second)) || stamp.After(time.Now().Add(time.Second)) {
				t.Errorf("%s of %s: got %v", name, partition.Name, stamp)
			}
		}
		if partition.Name == "Default" && !partition.OldestMessage.Before(*partition.NewestMessage) {
			t.Errorf("want two stamps, got %+v", partition)
		}
	}
	if total := (counts{7, 6, 1, 1, 0}); detail.Totals != total {
		t.Errorf("totals: want %+v, got %+v", total, detail.Totals)
	}
	for _, path := range []string{"", "/depth", "/sizes"} {
		needBody(t, s.client.Get(queuePath(s.queue+"-missing")+path), 404, `{"error":"Queue not found"}`)
	}
}

// TestDepthOfAGroup: 9.8, a partition without its cursor counts with its whole retained range.
func TestDepthOfAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 3)...)
	if depth := queueDepth(t, s.client, s.queue, "g"); depth.Pending != 7 || depth.Ready != 7 || depth.PartitionsPending != 2 || depth.PartitionsReady != 2 {
		t.Fatalf("without a cursor: got %+v", depth)
	}
	needVerdicts(t, s.needClaim(s.pinned(3), 0, 2, 1).ack(completed(0)), kept)
	raw := s.client.Get(queuePath(s.queue) + "/depth?group=g")
	needExactKeys(t, raw.Object(), "queue", "group", "pending", "processing", "ready", "partitionsPending", "partitionsReady", "conflation",
		"effectivePending", "effectiveReady", "partitions")
	depth := queueDepth(t, s.client, s.queue, "g")
	if depth.Queue != s.queue || depth.Group == nil || *depth.Group != "g" || depth.Pending != 6 || depth.Processing != 2 || depth.Ready != 4 ||
		depth.Conflation || depth.EffectivePending != 6 || depth.EffectiveReady != 4 || depth.PartitionsPending != 2 {
		t.Fatalf("got %+v", depth)
	}
	for _, partition := range depth.Partitions {
		want := map[string][3]int{"Default": {3, 2, 1}, "b": {3, 0, 3}}[partition.Partition]
		if got := [3]int{partition.Pending, partition.Processing, partition.Ready}; got != want {
			t.Errorf("%s: want %v, got %v", partition.Partition, want, got)
		}
	}
	needExactKeys(t, firstObject(raw.Object()["partitions"]), "partition", "pending", "processing", "ready")
	needMessages(t, s.as("").pinned(1, "autoAck=true"), "m0")
	if mode := queueDepth(t, s.client, s.queue, queueMode); mode.Group == nil || *mode.Group != queueMode || mode.Pending != 6 || mode.Processing != 0 {
		t.Errorf("queue mode is a group like the others, got %+v", mode)
	}
}

// TestDepthOfAConflatingGroup: 9.8, one message per partition is what it is to receive.
func TestDepthOfAConflatingGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 4)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 3)...)
	needMessages(t, s.pop(1, "conflation=true", "partitions=1"), "m3")
	depth := queueDepth(t, s.client, s.queue, s.group)
	if !depth.Conflation || depth.Pending != 7 || depth.Processing != 4 || depth.PartitionsPending != 2 || depth.PartitionsReady != 1 ||
		depth.EffectivePending != 2 || depth.EffectiveReady != 1 {
		t.Fatalf("got %+v", depth)
	}
	if depth := queueDepth(t, s.client, s.queue, ""); depth.Conflation || depth.EffectivePending != depth.Pending {
		t.Fatalf("without group conflation is false, got %+v", depth)
	}
}

// TestDepthDoesNotSubtractDelays: 9.8, neither the visibility delays nor a retry delay.
func TestDepthDoesNotSubtractDelays(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"delayedProcessing", "windowBuffer", "retryDelay"} {
		t.Run("9.8 "+option, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{option: 3_600_000}, 3)
			if option == "retryDelay" {
				failFirst(s)
			}
			s.needNothing()
			for _, group := range []string{s.group, ""} {
				depth := queueDepth(t, s.client, s.queue, group)
				if depth.Pending != 3 || depth.Ready != 3 || depth.Processing != 0 || depth.EffectiveReady != 3 || depth.PartitionsReady != 1 ||
					depth.Partitions[0].Ready != 3 {
					t.Errorf("group %q: got %+v", group, depth)
				}
			}
		})
	}
}

// TestQueueSizes: 9.8, bytes by partition.
func TestQueueSizes(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	big := numbered(s.queue, "big", "b", 1)
	big[0].Payload = incompressible(100_000)
	pushAll(t, s.client, big...)
	answer := fetchInto[struct {
		Queue      string
		Partitions map[string]int64
		Truncated  *bool
	}](t, s.client, queuePath(s.queue)+"/sizes")
	if answer.Queue != s.queue || len(answer.Partitions) != 2 || answer.Truncated != nil || answer.Partitions["Default"] <= 0 ||
		answer.Partitions["big"] < 50_000 {
		t.Fatalf("got %+v", answer)
	}
}

// TestRetainedBytesAgree: 9.6 to 9.8, the list, the detail, its partitions and the sizes show the same bytes, which grow with
// what is stored.
func TestRetainedBytesAgree(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	before := int64(0)
	for _, partition := range []string{"a", "b"} {
		heavy := numbered(s.queue, partition, "heavy", 1)
		heavy[0].Payload = incompressible(50_000)
		pushAll(t, s.client, heavy...)
		rows, at := queueRows(t, s.client, s.queue)
		detail := queueDetail(t, s.client, s.queue)
		sizes := fetchInto[struct{ Partitions map[string]int64 }](t, s.client, queuePath(s.queue)+"/sizes").Partitions
		sum, byName := int64(0), map[string]int64{}
		for _, row := range detail.Partitions {
			byName[row.Name] = row.RetainedBytes
			sum += row.RetainedBytes
		}
		if !maps.Equal(byName, sizes) || detail.RetainedBytes != sum || rows[at].RetainedBytes != sum || sum < before+50_000 || sum > before+100_000 {
			t.Fatalf("got %d in the list, %d in the detail, %v in its partitions, sizes %v", rows[at].RetainedBytes, detail.RetainedBytes, byName, sizes)
		}
		before = sum
	}
}

// TestQueueSizesSayWhenTheyAreTruncated: 9.8, at QUEEN_DASH_SIZES_MAX.
func TestQueueSizesSayWhenTheyAreTruncated(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_DASH_SIZES_MAX": "2"}).Client()
	s := newSceneAt(t, client, nil, 1)
	for _, partition := range []string{"b", "c"} {
		pushAll(t, client, numbered(s.queue, partition, partition, 1)...)
	}
	answer := fetchInto[struct {
		Partitions map[string]int64
		Truncated  bool
	}](t, client, queuePath(s.queue)+"/sizes")
	if len(answer.Partitions) != 2 || !answer.Truncated {
		t.Fatalf("got %+v", answer)
	}
}

// TestPartitionList: 9.9, the partitions with the most pending first, at most limit, clamped.
func TestPartitionList(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 3)...)
	pushAll(t, s.client, numbered(s.queue, "c", "c", 2)...)
	needExactKeys(t, firstObject(s.client.Get("/api/v1/resources/partitions?queue=" + s.queue).Object()["partitions"]),
		"queue", "partition", "partitionId", "pending", "processing", "lagSeconds")
	rows := partitionRows(t, s.client, s.queue)
	var names []string
	for _, row := range rows {
		names = append(names, row.Partition)
		if row.Queue != s.queue || !uuidAny.MatchString(row.PartitionID) || row.LagSeconds == nil || *row.LagSeconds < 0 || *row.LagSeconds > 60 {
			t.Errorf("got %+v", row)
		}
	}
	if !slices.Equal(names, []string{"b", "c", "Default"}) {
		t.Fatalf("want the most pending first, got %v", names)
	}
	for limit, n := range map[string]int{"2": 2, "0": 1, "-5": 1, "999999": 3} {
		if rows := partitionRows(t, s.client, s.queue, "limit="+limit); len(rows) != n {
			t.Errorf("limit %s: want %d rows, got %+v", limit, n, rows)
		}
	}
	needEnvelope(t, s.client.Get("/api/v1/resources/partitions?limit=many"), 400, "bad_request")
	needMessages(t, s.client.PopPartition(s.queue, "c", s.query(1)), "c0")
	ids := map[string]string{}
	for _, partition := range queueDetail(t, s.client, s.queue).Partitions {
		ids[partition.Name] = partition.ID
	}
	for _, row := range partitionRows(t, s.client, s.queue) {
		want := map[string][2]int{"b": {3, 0}, "c": {2, 1}, "Default": {1, 0}}[row.Partition] // the backlog, leased messages included
		if got := [2]int{row.Pending, row.Processing}; got != want || row.PartitionID != ids[row.Partition] {
			t.Errorf("%s of id %s: want pending and processing %v, got %+v", row.Partition, ids[row.Partition], want, row)
		}
	}
	needMessages(t, s.client.PopPartition(s.queue, "b", s.query(10, "autoAck=true")), "b0", "b1", "b2")
	for _, row := range partitionRows(t, s.client, s.queue) {
		if (row.LagSeconds == nil) != (row.Partition == "b") || row.Partition == "b" && row.Pending != 0 {
			t.Errorf("lagSeconds is null when it is caught up, got %+v", row)
		}
	}
}

// TestSegments: 9.6, 9.7 and 11.1, segments.segments is the number of stored records, which the message list shows by
// their lowest offset and the place in them; segments.messages is what is retained.
func TestSegments(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.push(1)
	s.push(3)
	pushAll(t, s.client, numbered(s.queue, "b", "b", 2)...)
	type segment struct {
		partition string
		seq       int64
	}
	segments := map[segment]int{}
	for _, row := range browse(t, s.client, "queue="+s.queue) {
		if row.Segment.Seq+row.Segment.FrameIdx != row.Offset || row.Segment.FrameIdx < 0 {
			t.Errorf("want the place of offset %d, got %+v", row.Offset, row.Segment)
		}
		segments[segment{row.Partition, row.Segment.Seq}]++
	}
	want := segmentCounts{Segments: len(segments), Messages: 8}
	rows, at := queueRows(t, s.client, s.queue)
	if detail := queueDetail(t, s.client, s.queue); detail.Segments != want || rows[at].Segments != want {
		t.Errorf("want %+v, got %+v in the list and %+v in the detail", want, rows[at].Segments, detail.Segments)
	}
	if len(segments) < 2 || segments[segment{"b", 0}] != 2 || segments[segment{"Default", 0}] < 2 {
		t.Errorf("an append lies in one segment, got %v", segments)
	}
}

// TestEmptiedPartition: 9.5 to 9.8, what a partition shows when retention has removed its messages: a last activity, but
// neither an oldest nor a newest message.
func TestEmptiedPartition(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	written := queueDetail(t, s.client, s.queue).Partitions[0]
	need(t, s.client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
	awaitRetained(t, s, 0)
	needCounted(t, s, 0, 0, 0, 0)
	detail := queueDetail(t, s.client, s.queue)
	if detail.Segments != (segmentCounts{}) || detail.RetainedBytes != 0 || len(detail.Partitions) != 1 {
		t.Fatalf("got %+v", detail)
	}
	emptied := detail.Partitions[0]
	if emptied.OldestMessage != nil || emptied.NewestMessage != nil || emptied.RetainedBytes != 0 || emptied.LastActivity == nil ||
		!emptied.LastActivity.Equal(*written.LastActivity) || emptied.ID != written.ID {
		t.Errorf("want what is left of %+v, got %+v", written, emptied)
	}
	rows, at := queueRows(t, s.client, s.queue)
	if rows[at].Segments != (segmentCounts{}) || rows[at].RetainedBytes != 0 || rows[at].Partitions != 1 {
		t.Errorf("got %+v", rows[at])
	}
}

// TestPartitionWithoutMessages: 9.7 and section 1, a partition that a position write has named.
func TestPartitionWithoutMessages(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{}, 0)
	needCommitted(t, s.client.Transaction(position(s, 0)))
	reply := s.client.Get(queuePath(s.queue))
	detail := queueDetail(t, s.client, s.queue)
	if len(detail.Partitions) != 1 || detail.Partitions[0].CreatedAt.IsZero() || detail.Totals != (counts{}) {
		t.Fatalf("got %v", reply)
	}
	raw := firstObject(reply.Object()["partitions"])
	needKeys(t, raw, "lastActivity", "oldestMessage", "newestMessage")
	for _, key := range []string{"oldestMessage", "newestMessage"} {
		if raw[key] != nil {
			t.Errorf("%s: want null, got %v", key, raw[key])
		}
	}
}

// TestTotalConsumed: 9.7 and 10.3, the messages that a reader has consumed, in the queue detail the measuring one. What it
// is delivered again after a seek counts again.
func TestTotalConsumed(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 6)
	s.group = uniqueName(t)
	ofQueue := func() int { return queueDetail(t, s.client, s.queue).Partitions[0].Cursor.TotalConsumed }
	ofGroup := func(s *scene) int {
		return fetchInto[groupDetail](t, s.client, groupPath(s.group))[s.queue].Partitions[0].TotalConsumed
	}
	needBoth := func(queue int, groups map[string]int) {
		t.Helper()
		if got := ofQueue(); got != queue {
			t.Fatalf("9.7: want %d, got %d", queue, got)
		}
		for group, want := range groups {
			if got := ofGroup(s.as(group)); got != want {
				t.Fatalf("10.3: want %d for %s, got %d", want, group, got)
			}
		}
	}
	if got := ofQueue(); got != 0 {
		t.Fatalf("want 0 without a reader, got %d", got)
	}
	other := s.as(uniqueName(t))
	batch := s.redelivered(0, 5, 1)
	needBoth(0, map[string]int{s.group: 0}) // leased is not consumed
	needVerdicts(t, batch.ack(completed(2)), kept)
	needBoth(3, map[string]int{s.group: 3})
	needMessages(t, other.pop(1, "autoAck=true"), "m0")
	needBoth(1, map[string]int{s.group: 3, other.group: 1}) // the slower one measures
	seek(t, other, "/seek", `{"toEnd":true}`)
	needBoth(3, map[string]int{s.group: 3, other.group: 1}) // a seek consumes nothing
	seek(t, other, "/seek", `{"timestamp":"2020-01-01T00:00:00Z"}`)
	needMessages(t, other.pop(2, "autoAck=true"), "m0", "m1")
	needBoth(3, map[string]int{s.group: 3, other.group: 3})
}
