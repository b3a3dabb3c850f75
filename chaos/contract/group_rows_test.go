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

// TestGroupListRow: 10.1, exactly its keys; members are distinct live leases, not leased partitions; a group is listed
// once for each queue on which it has a cursor.
func TestGroupListRow(t *testing.T) {
	t.Parallel()
	s, second := newScene(t, nil, 2), newScene(t, nil, 1)
	s.group = uniqueName(t)
	second.group = s.group
	pushAll(t, s.client, spread(s.queue, 3, 1)...)
	before := time.Now()
	both := s.client.Pop(s.queue, s.query(3, "partitions=2", "leaseSeconds=60"))
	if need(t, both.Response, 200); both.PartitionsClaimed != 2 {
		t.Fatalf("want two partitions under one lease, got %v", both.Response)
	}
	need(t, s.client.Pop(s.queue, s.query(1, "leaseSeconds=60")).Response, 200)
	needMessages(t, second.pop(1, "autoAck=true"), "m0")
	for _, entry := range s.client.Get("/api/v1/consumer-groups").Array() {
		needExactKeys(t, entry.(map[string]any), "name", "topics", "queueName", "members", "partitionCursors", "partitionsWithLag", "totalLag",
			"maxTimeLag", "state", "storage", "kind", "subscriptionMode", "subscriptionTimestamp", "subscriptionCreatedAt", "conflation")
	}
	row, other := groupRows(t, s.client, s.queue)[s.group], groupRows(t, s.client, second.queue)[s.group]
	if row.Members != 2 || row.PartitionCursors < 3 || row.State != "Dead" || row.Kind != "queen" || row.Storage != "segments" {
		t.Errorf("want two leases and nothing consumed, got %+v", row)
	}
	if other.Members != 0 || other.PartitionCursors != 1 || other.PartitionsWithLag != 0 || other.TotalLag != 0 || other.MaxTimeLag != 0 || other.State != "Stable" {
		t.Errorf("want a group that has consumed everything, got %+v", other)
	}
	for _, row := range []groupRow{row, other} {
		created, err := time.Parse(time.RFC3339Nano, *row.SubscriptionCreatedAt)
		if err != nil || created.Before(before.Add(-time.Second)) || created.After(time.Now().Add(time.Second)) || !microStamp.MatchString(*row.SubscriptionCreatedAt) {
			t.Errorf("subscriptionCreatedAt: got %v (%v)", *row.SubscriptionCreatedAt, err)
		}
	}
	needAcked(t, s.client.AckMessages("retry", both.Messages...))
	if row := groupRows(t, s.client, s.queue)[s.group]; row.Members != 1 {
		t.Errorf("want one lease, got %+v", row)
	}
}

// TestUnregisteredReadersHaveNoSubscription: 10.1, queue mode and a group that only popped one partition.
func TestUnregisteredReadersHaveNoSubscription(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	pinned, mode := s.as("pinned"), s.as("")
	pinned.needClaim(pinned.pinned(1), 0, 0, 1)
	mode.redelivered(0, 0, 1)
	rows := groupRows(t, s.client, s.queue)
	for _, name := range []string{"pinned", queueMode} {
		row, listed := rows[name]
		if !listed || row.SubscriptionMode != nil || row.SubscriptionTimestamp != nil || row.SubscriptionCreatedAt != nil || row.Members != 1 {
			t.Errorf("%s: want nulls, got %+v (listed: %v)", name, row, listed)
		}
	}
}

// TestGroupDetailValues: 10.3, exactly its keys; the lease while it lives; the conflation of the registration.
func TestGroupDetailValues(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	s.group = uniqueName(t)
	conflating := newScene(t, nil, 2)
	conflating.group = s.group
	needMessages(t, conflating.pop(1, "conflation=true"), "m1")
	s.leaseTime = 4
	batch := s.claim(2, 0, 1, 1)
	read := func() groupDetail { return fetchInto[groupDetail](t, s.client, groupPath(s.group)) }
	detail := read()
	if !detail[conflating.queue].Conflation || detail[s.queue].Conflation || detail[s.queue].Kind != "queen" || len(detail) != 2 {
		t.Errorf("got %+v", detail)
	}
	mine := detail[s.queue].Partitions[0]
	if !mine.LeaseActive || mine.WorkerID == nil || *mine.WorkerID != batch.lease || mine.OffsetLag != 3 || mine.TotalConsumed != 0 {
		t.Errorf("leased: got %+v", mine)
	}
	eventually(t, delivery, func() (bool, string) { // the lease is over
		mine = read()[s.queue].Partitions[0]
		return !mine.LeaseActive && mine.WorkerID == nil, fmt.Sprintf("%+v", mine)
	})
	if row := groupRows(t, s.client, s.queue)[s.group]; row.Members != 0 {
		t.Errorf("an expired lease is no member, got %+v", row)
	}
	object := s.client.Get(groupPath(s.group)).Object()[s.queue].(map[string]any)
	needExactKeys(t, object, "conflation", "kind", "partitions")
	needExactKeys(t, firstObject(object["partitions"]), "partition", "workerId", "lastConsumedAt", "totalConsumed", "offsetLag", "timeLagSeconds", "leaseActive")
}

// TestGroupDeletionAnswer: 10.4, metadataDeleted says whether a registration went; a group that does not exist is zeros.
func TestGroupDeletionAnswer(t *testing.T) {
	t.Parallel()
	pop := func(s *scene) { s.redelivered(0, 1, 1) }
	pinned := func(s *scene) { s.needClaim(s.pinned(10), 0, 1, 1) }
	nothing := func(*scene) {}
	for name, c := range map[string]struct {
		read     func(s *scene)
		query    string
		cursors  int
		metadata bool
	}{
		"registered":                        {pop, "", 1, true},
		"registered, true":                  {pop, "?deleteMetadata=true", 1, true},
		"registered, 1":                     {pop, "?deleteMetadata=1", 1, true},
		"registered, false":                 {pop, "?deleteMetadata=false", 1, false},
		"never registered":                  {pinned, "", 1, false},
		"does not exist":                    {nothing, "", 0, false},
		"does not exist, its metadata kept": {nothing, "?deleteMetadata=false", 0, false},
	} {
		for _, everywhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("10.4 %s, on all queues %v", name, everywhere), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil, 2)
				s.group = uniqueName(t)
				c.read(s)
				path, queueName := groupPath(s.group, "/queues/", s.queue, c.query), string(mustJSON(s.queue))
				if everywhere {
					path, queueName = groupPath(s.group, c.query), "null"
				}
				queues := "[]"
				if c.cursors > 0 {
					queues = string(mustJSON([]string{s.queue}))
				}
				needJSON(t, s.client.Delete(path), 200, fmt.Sprintf(
					`{"success":true,"consumerGroup":%q,"queueName":%s,"deletedPartitions":%d,"metadataDeleted":%v,"queues":%s}`,
					s.group, queueName, c.cursors, c.metadata, queues))
				if rows := groupRows(t, s.client, s.queue); len(rows) != 0 {
					t.Errorf("want no cursor to be left, got %+v", rows)
				}
			})
		}
	}
	missing := uniqueName(t)
	needJSON(t, suite.client.Delete(groupPath("g", "/queues/", missing)), 200, fmt.Sprintf(
		`{"success":true,"consumerGroup":"g","queueName":%q,"deletedPartitions":0,"metadataDeleted":false,"queues":[]}`, missing))
}

// TestGroupDeletionAcrossQueues: 10.4, one registration among the queues is enough for metadataDeleted, whichever queue is
// visited last.
func TestGroupDeletionAcrossQueues(t *testing.T) {
	t.Parallel()
	for _, registeredAt := range []int{0, 1} {
		group := uniqueName(t)
		queues := make([]string, 2)
		for i := range queues {
			s := newScene(t, nil, 1)
			s.group, queues[i] = group, s.queue
			if i == registeredAt {
				s.redelivered(0, 0, 1)
			} else {
				s.needClaim(s.pinned(1), 0, 0, 1)
			}
		}
		answer := deleteGroup(t, suite.client, groupPath(group))
		slices.Sort(answer.Queues)
		slices.Sort(queues)
		if answer.DeletedPartitions != 2 || string(answer.MetadataDeleted) != "true" || !slices.Equal(answer.Queues, queues) {
			t.Errorf("registered on queue %d: got %+v", registeredAt, answer)
		}
	}
}

// needJSON ends the test unless the body is this JSON value, with these members and no other.
func needJSON(t *testing.T, reply harness.Response, status int, want string) {
	t.Helper()
	if need(t, reply, status); !sameJSON(reply.Body, []byte(want)) {
		t.Fatalf("want %s, got %v", want, reply)
	}
}

// TestSeekAnswer: 10.5, the whole answer, for a group that has no cursor yet.
func TestSeekAnswer(t *testing.T) {
	t.Parallel()
	for body, c := range map[string]struct {
		toEnd     bool
		timestamp string
		next      int
	}{
		`{"toEnd":true}`: {true, "", 2},
		`{"timestamp":"2020-01-02T03:04:05.678Z"}`:                      {false, "2020-01-02T03:04:05.678Z", 0},
		`{"timestamp":"2020-01-02T03:04:05+02:00","toEnd":false}`:       {false, "2020-01-02T01:04:05Z", 0},
		`{"timestamp":"2120-01-02T03:04:05.123456","unknown":[1,true]}`: {false, "2120-01-02T03:04:05.123456Z", 2},
	} {
		for _, partition := range []string{"", "Default"} {
			t.Run(fmt.Sprintf("10.5 %q %s", partition, body), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil, 2)
				suffix, name := "/seek", "null"
				if partition != "" {
					suffix, name = "/partitions/"+partition+"/seek", string(mustJSON(partition))
				}
				reply := s.client.Post(groupPath(s.group, "/queues/", s.queue, suffix), body)
				target := "null"
				if c.timestamp != "" {
					at, err := time.Parse(time.RFC3339Nano, reply.Text("targetTimestamp"))
					want, wantErr := time.Parse(time.RFC3339Nano, c.timestamp)
					if err != nil || wantErr != nil || !at.Equal(want) {
						t.Fatalf("want the instant %s, got %v", c.timestamp, reply)
					}
					target = string(mustJSON(reply.Text("targetTimestamp")))
				}
				needJSON(t, reply, 200, fmt.Sprintf(`{"success":true,"consumerGroup":%q,"queueName":%q,"partitionName":%s,"seekToEnd":%v,"targetTimestamp":%s,`+
					`"partitionsUpdated":1,"updated":1}`, s.group, s.queue, name, c.toEnd, target))
				s.needCursor(c.next)
			})
		}
	}
}

// TestSeekBetweenAppends: 10.5, the first message stamped at or after the timestamp: its own stamp is enough, a
// microsecond later is the next append.
func TestSeekBetweenAppends(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.push(3)
	for _, step := range []struct {
		offset int
		later  time.Duration
		next   int
	}{{0, -time.Microsecond, 0}, {0, 0, 0}, {1, time.Microsecond, 2}, {2, -time.Microsecond, 2}, {4, 0, 2}, {2, time.Microsecond, 5}} {
		seek(t, s, "/seek", map[string]any{"timestamp": iso(stampOf(t, s, step.offset).Add(step.later))})
		s.needCursor(step.next)
	}
}

// TestSubscriptionChangeKeepsTheMode: 10.6, mode all becomes timestamp, new stays; all registrations of the group change,
// none of another one, and what is no registration is not counted.
func TestSubscriptionChangeKeepsTheMode(t *testing.T) {
	t.Parallel()
	const stamp = "2031-02-03T04:05:06.000007Z"
	group := uniqueName(t)
	scenes := map[string]*scene{}
	for _, mode := range []string{"all", "new", "timestamp", "none", "other"} {
		s := newScene(t, nil, 1)
		s.group = group
		scenes[mode] = s
	}
	scenes["other"].group = group + "-other"
	first := map[string]string{"all": "subscriptionMode=all", "new": "subscriptionMode=new", "timestamp": "subscriptionFrom=2020-01-01T00:00:00Z", "other": "subscriptionMode=all"}
	for mode, query := range first {
		s := scenes[mode]
		s.client.Pop(s.queue, "consumerGroup="+s.group+"&"+query)
		s.push(1) // a group is listed once it has a cursor, the new one with this message
		need(t, s.client.Pop(s.queue, "autoAck=true&partitions=9&consumerGroup="+s.group).Response, map[string]int{"all": 204, "new": 200, "timestamp": 204, "other": 204}[mode])
	}
	scenes["none"].pinned(1)
	path := groupPath(group, "/subscription")
	needJSON(t, suite.client.Post(path, map[string]any{"subscriptionTimestamp": stamp}), 200,
		fmt.Sprintf(`{"success":true,"consumerGroup":%q,"newTimestamp":%q,"rowsUpdated":3}`, group, stamp))
	for mode, want := range map[string]string{"all": "timestamp", "new": "new", "timestamp": "timestamp", "none": "", "other": "all"} {
		row := groupRows(t, suite.client, scenes[mode].queue)[scenes[mode].group]
		if got := string(mustJSON(row.SubscriptionMode)); got != string(mustJSON(want)) && (want != "" || row.SubscriptionMode != nil) {
			t.Errorf("%s: want mode %q, got %s", mode, want, got)
		}
		if changed := row.SubscriptionTimestamp != nil && *row.SubscriptionTimestamp == stamp; changed != (mode != "none" && mode != "other") {
			t.Errorf("%s: subscriptionTimestamp is %v", mode, row.SubscriptionTimestamp)
		}
	}
	for _, nobody := range []string{queueMode, uniqueName(t)} {
		needJSON(t, suite.client.Post(groupPath(nobody, "/subscription"), map[string]any{"subscriptionTimestamp": stamp}), 200,
			fmt.Sprintf(`{"success":true,"consumerGroup":%q,"newTimestamp":%q,"rowsUpdated":0}`, nobody, stamp))
	}
	for body, text := range map[string]string{
		`{"subscriptionTimestamp":null}`:       "required",
		``:                                     "required",
		`{"subscriptionTimestamp":1770000000}`: "invalid",
		`{"subscriptionTimestamp":""}`:         "invalid",
		`{"subscriptionTimestamp":"now"}`:      "invalid",
	} {
		needJSON(t, suite.client.Post(path, body), 400, fmt.Sprintf(`{"success":false,"error":"subscriptionTimestamp is %s"}`, text))
	}
}

// TestPositionsRequest: 10.7, 65,536 entries are answered; entries that are absent, null or not sent are all positions; an
// unknown group has null offsets.
func TestPositionsRequest(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group = uniqueName(t)
	body := position(s, 1)
	body["positions"].([]any)[0].(map[string]any)["metadata"] = "kept"
	needCommitted(t, s.client.Transaction(body))
	path := groupPath(s.group, "/positions")
	all := fmt.Sprintf(`{"consumerGroup":%q,"entries":[{"queue":%q,"partition":"Default","offset":1,"metadata":"kept"}]}`, s.group, s.queue)
	for _, body := range []string{``, `{}`, `{"entries":null}`, fmt.Sprintf(`{"entries":[{"queue":%q}]}`, s.queue), fmt.Sprintf(`{"entries":[{"queue":%q,"partition":null}]}`, s.queue)} {
		needJSON(t, s.client.Post(path, body), 200, all)
	}
	needJSON(t, s.client.Post(path, `{"entries":[]}`), 200, fmt.Sprintf(`{"consumerGroup":%q,"entries":[]}`, s.group))
	needJSON(t, s.client.Post(groupPath("nobody", "/positions"), fmt.Sprintf(`{"entries":[{"queue":%q}]}`, s.queue)), 200,
		fmt.Sprintf(`{"consumerGroup":"nobody","entries":[{"queue":%q,"partition":"Default","offset":null,"metadata":null}]}`, s.queue))
	for _, body := range []string{`{"entries":{}}`, `{"entries":[7]}`, `{"entries":[{}]}`, `{"entries":[{"queue":7}]}`, `{"entries":[{"queue":"q","partition":7}]}`, `[]`, `{`} {
		needEnvelope(t, s.client.Post(path, body), 400, "bad_body")
	}
	most := `{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"queue":"q"},`, 65_536), ",") + `]}`
	var answer struct{ Entries []json.RawMessage }
	if reply := s.client.Post(path, most); reply.Status != 200 || reply.Decode(&answer) != nil || len(answer.Entries) != 65_536 {
		t.Fatalf("want 65,536 entries, got %d with status %d", len(answer.Entries), reply.Status)
	}
}
