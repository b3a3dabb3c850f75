package api

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/raftlog"
	"queen/raftlog/command"
)

var sampleLine = regexp.MustCompile(`^([a-z_]+)(\{.*\})? (\S+)$`)

// scrape reads the page: the value of every sample, by name and labels.
func (n *testNode) scrape() map[string]float64 {
	n.t.Helper()
	samples := map[string]float64{}
	for line := range strings.Lines(string(n.call("GET", "/metrics/prometheus", ""))) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		parts := sampleLine.FindStringSubmatch(line)
		if parts == nil {
			n.t.Fatalf("%q is no sample", line)
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			n.t.Fatalf("%q has no value", line)
		}
		if _, twice := samples[parts[1]+parts[2]]; twice {
			n.t.Errorf("%s%s is there twice", parts[1], parts[2])
		}
		samples[parts[1]+parts[2]] = value
	}
	return samples
}

// specified reads the families of operations 3.4 and whether they are histograms.
func specified(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.ReadFile("testdata/families.txt")
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]bool{}
	for scanner := bufio.NewScanner(bytes.NewReader(file)); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		families[fields[0]] = fields[1] == "histogram"
	}
	return families
}

func familyOf(sample string, families map[string]bool) (family string, known bool) {
	name, _, _ := strings.Cut(sample, "{")
	if _, ok := families[name]; ok {
		return name, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut && families[base] {
			return base, true
		}
	}
	return name, false
}

// exercise makes every kind of thing happen that a metric shows.
func exercise(n *testNode) {
	n.push("space.task", "p", 5)
	n.ack("__QUEUE_MODE__", "completed", n.pop("space.task", "batch=2"))
	n.push("last", "p", 5)
	n.ack("g", "completed", n.pop("last", "consumerGroup=g&subscriptionMode=all&conflation=true"))
	n.push("dead", "p", 2)
	n.ack("__QUEUE_MODE__", "dlq", n.pop("dead", "batch=1"))
	n.call("POST", "/api/v1/configure", `{"queue":"dead","options":{"maxWaitTimeSeconds":1}}`)
	n.call("POST", "/api/v1/configure", `{"queue":"secret","options":{"encryptionEnabled":true}}`)
	n.call("POST", "/api/v1/kv", `[{"op":"put","ns":"app","key":"k","value":1,"forever":true}]`)
	n.call("POST", "/api/v1/locks", `[{"op":"acquire","name":"l","ttlSeconds":60}]`)
	n.call("POST", "/api/v1/timers", `{"operations":[
		{"op":"schedule","queue":"later","timerKey":"soon","txn":"a","delayMs":20,"payload":"MQ=="},
		{"op":"schedule","queue":"later","timerKey":"far","txn":"b","delayMs":3600000,"payload":"MQ=="}]}`)
}

func TestEveryExportedFamilyIsSpecified(t *testing.T) {
	n := startNode(t, time.Minute)
	exercise(n)
	families := specified(t)
	for sample := range n.scrape() {
		if family, known := familyOf(sample, families); !known {
			t.Errorf("operations 3.4 does not have %s", family)
		}
	}
}

// What cannot move within a test on one healthy node: a full disk, a defect, a damaged store, a payload without its key,
// requests that wait for room, what is constant.
var still = []string{
	"queen_build_info", "queen_raft_storage_full", "queen_actor_restarts_total", "queen_store_corruption_total",
	"queen_decrypt_failures_total", "queen_raft_admit_total", "queen_raft_admit_bytes", "queen_raft_admit_waiting",
	"queen_raft_term", "queen_raft_leader", "queen_raft_leader_changes_total", "queen_raft_quorum_ack_age_seconds",
	"queen_disk_used_percent", "queen_raft_inflight", "queen_raft_command_queue_depth", "queen_raft_log_storage",
	"queen_event_loop_lag_avg_milliseconds", "queen_consumer_group_lag_complete", "queen_raft_forward_total", "queen_raft_identity",
	"queen_raft_admit_forwarded_total", "queen_raft_snapshots_total", "queen_raft_snapshot_bytes_total", "queen_raft_traces_stored",
	"queen_consume_cold_claims_total",
}

// TestFamiliesOfAClusterMove: what a node alone does not have.
func TestFamiliesOfAClusterMove(t *testing.T) {
	n := startNode(t, time.Minute)
	want := func(samples map[string]float64) {
		t.Helper()
		page := n.scrape()
		for sample, value := range samples {
			if got, there := page[sample]; !there || got != value {
				t.Errorf("%s: got %v (there: %t), want %v", sample, got, there, value)
			}
		}
	}
	want(map[string]float64{
		`queen_raft_identity{state="ok"}`: 1, `queen_raft_identity{state="replaced"}`: 0, `queen_raft_leader`: 1,
		`queen_raft_forward_total{kind="sent"}`: 0, `queen_raft_forward_total{kind="served"}`: 0, `queen_raft_storage_full`: 0,
	})
	n.api.StateReceived(5)
	n.api.StateInstalled()
	n.api.meters.StateOpened()
	n.api.meters.StateBytesSent(7)
	n.api.meters.StateSent()
	n.api.meters.CommandSlow("Push", time.Second)
	want(map[string]float64{
		`queen_raft_snapshots_total{kind="built"}`: 1, `queen_raft_snapshots_total{kind="sent"}`: 1,
		`queen_raft_snapshots_total{kind="installed"}`: 1, `queen_raft_snapshot_bytes_total{kind="sent"}`: 7,
		`queen_raft_snapshot_bytes_total{kind="received"}`: 5, `queen_raft_slow_commands_total{command="Push"}`: 1,
	})
	change := func(h *Health) {
		h.Identity, h.LeaderID, h.StorageFull = "replaced", 2, true
		h.Status.Forwarded = raftlog.Forwarded{Sent: 3, Served: 4, StreamsOpened: 5}
		h.Status.QuorumAckMs, h.Status.Term, h.Status.LeaderChanges = 250, 77, 9
	}
	n.change.Store(&change)
	skew := -30.0
	n.peers = []Peer{{NodeID: 2, ClockSkewMs: &skew}, {NodeID: 3}}
	n.api.PeerRefused(3, "token")
	n.api.PeerRefused(3, "token")
	want(map[string]float64{
		`queen_raft_identity{state="ok"}`: 0, `queen_raft_identity{state="replaced"}`: 1, `queen_raft_leader`: 0,
		`queen_raft_forward_total{kind="sent"}`: 3, `queen_raft_forward_total{kind="served"}`: 4,
		`queen_raft_forward_total{kind="streams_opened"}`: 5, `queen_raft_storage_full`: 1,
		`queen_raft_peer_clock_skew_seconds{peer="2"}`: -0.03, `queen_raft_peer_refused_total{peer="3",reason="token"}`: 2,
		`queen_raft_quorum_ack_age_seconds`: 0.25, `queen_raft_term`: 77, `queen_raft_leader_changes_total`: 9,
	})
	if _, there := n.scrape()[`queen_raft_peer_clock_skew_seconds{peer="3"}`]; there {
		t.Error("a skew that nobody has measured")
	}
	families := specified(t)
	for sample := range n.scrape() {
		if family, known := familyOf(sample, families); !known {
			t.Errorf("operations 3.4 does not have %s", family)
		}
	}
}

func TestEveryExportedFamilyMoves(t *testing.T) {
	n := startNode(t, time.Minute)
	families := specified(t)
	before := n.scrape()
	exercise(n)
	waiting := make(chan popped, 1)
	go func() { waiting <- n.pop("space.task", "wait=true&timeout=3000&consumerGroup=late") }()
	left := map[string]bool{}
	for sample := range before {
		if family, _ := familyOf(sample, families); family != "" {
			left[family] = true
		}
	}
	for _, family := range still {
		if !left[family] {
			t.Errorf("%s is not exported", family)
		}
		delete(left, family)
	}
	for _, family := range []string{
		"queen_dlq_depth_by_queue", "queen_queue_conflated_per_minute", "queen_queue_pop_lag_milliseconds",
		"queen_consumer_group_lag", "queen_consumer_group_lag_seconds", "queen_kv_ops_total", "queen_kv_op_duration_milliseconds",
		"queen_locks_ops_total", "queen_locks_op_duration_milliseconds",
	} {
		left[family] = true
	}
	var missing []string
	defer func() {
		if len(missing) > 0 {
			t.Errorf("did not move: %v", missing)
		}
	}()
	eventually(t, "every family moves", func() bool {
		n.api.depths.mu.Lock()
		n.api.depths.next = time.Time{}
		n.api.depths.mu.Unlock()
		for sample, value := range n.scrape() {
			if old, had := before[sample]; !had && value != 0 || had && old != value {
				family, _ := familyOf(sample, families)
				delete(left, family)
			}
		}
		missing = slices.Sorted(maps.Keys(left))
		return len(left) == 0
	})
	<-waiting
}

func TestGaugesOfQueuesSayWhatHappened(t *testing.T) {
	n := startNode(t, time.Minute)
	exercise(n)
	page := n.scrape()
	for sample, want := range map[string]float64{
		`queen_dlq_depth_by_queue{queue="dead"}`:                              1,
		`queen_queue_conflated_per_minute{queue="last"}`:                      4,
		`queen_queue_conflated_per_minute{queue="space.task"}`:                0,
		`queen_consumer_group_lag{queue="space.task",group="__QUEUE_MODE__"}`: 3,
		`queen_consumer_group_lag{queue="last",group="g"}`:                    0,
		`queen_consumer_group_lag_complete`:                                   1,
		`queen_encryption_missing_key_queues`:                                 1,
		`queen_process_push_messages_total`:                                   12,
		`queen_process_push_requests_total`:                                   3,
		`queen_process_pop_messages_total`:                                    4,
		`queen_process_ack_messages_total`:                                    4,
		`queen_build_info{version="1.2.3",kinds="7"}`:                         1,
		`queen_raft_leader`:                                                   1,
	} {
		if got, ok := page[sample]; !ok || got != want {
			t.Errorf("%s: want %v, got %v (there: %t)", sample, want, got, ok)
		}
	}
	if lag := page[`queen_queue_pop_lag_milliseconds{queue="last",stat="max"}`]; lag <= 0 || lag > 10_000 {
		t.Errorf("the age at delivery is %v ms", lag)
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	e := &exposition{}
	e.sample("f", 1.5, queueLabels(command.DefaultTenant, "a\"b\\c\nd")...)
	if got, want := e.buffer.String(), `f{queue="a\"b\\c\nd"} 1.5`+"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestTheLagWalkEndsAtItsBudget(t *testing.T) {
	n := startNode(t, time.Minute)
	for _, partition := range []string{"a", "b", "c"} {
		n.push("wide", partition, 1)
	}
	n.pop("wide", "consumerGroup=g&subscriptionMode=all&partitions=3&batch=10")
	n.api.config.GroupLagMaxCursors = 2
	if found := n.api.measureDepths(); found.complete || len(found.groups) != 0 {
		t.Errorf("3 partitions with a budget of 2: got %+v", found)
	}
	n.api.config.GroupLagMaxCursors = 3
	if found := n.api.measureDepths(); !found.complete || len(found.groups) != 1 {
		t.Errorf("3 partitions with a budget of 3: got %+v", found)
	}
}

func TestDepthsAreComputedNowAndThenOnly(t *testing.T) {
	var d depths
	walks := 0
	walk := func() *depthGauges { walks++; return &depthGauges{} }
	began := time.Now()
	for range 3 {
		d.current(began, walk)
	}
	d.current(began.Add(depthsLeast/2), walk)
	if walks != 1 {
		t.Errorf("want 1 walk, got %d", walks)
	}
	d.current(began.Add(depthsLeast+time.Second), walk)
	if walks != 2 {
		t.Errorf("want 2 walks, got %d", walks)
	}
}

func TestLabelsOfAnyNameAreReadable(t *testing.T) {
	for name, want := range map[string]string{
		"orders":       "orders",
		"größe €":      "größe €",
		"\x00":         "\u2400",
		"a\x00b\x1f\r": "a\u2400b\u241f\u240d",
		"\x7f":         "\u2421",
		`a"b\c`:        `a\"b\\c`,
		"a\nb":         `a\nb`,
		"\xff":         "\ufffd",
	} {
		if got := escapeLabel(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	n := startNode(t, time.Minute)
	n.call("POST", "/api/v1/push", `{"items":[{"queue":"\u0000","partition":"p","payload":1}]}`)
	n.pop("%00", "consumerGroup=g")
	page := string(n.call("GET", "/metrics/prometheus", ""))
	if strings.ContainsFunc(page, func(c rune) bool { return c < ' ' && c != '\n' }) || !strings.Contains(page, "{queue=\"\u2400\"") {
		t.Errorf("got\n%q", page)
	}
}

func TestThePageShowsTheDeepestSeriesAndCountsTheOthers(t *testing.T) {
	e := &exposition{}
	depths := map[int]int{}
	var keys []int
	for key := range maxSeries + 7 {
		depths[key] = key
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y int) int { return depths[y] - depths[x] })
	kept := largest(e, "family", keys, func(x, y int) int { return x - y })
	if len(kept) != maxSeries || kept[0] != 7 || !slices.IsSorted(kept) {
		t.Errorf("kept %d from %d", len(kept), kept[0])
	}
	if !slices.Equal(e.truncated, []truncation{{"family", 7}}) {
		t.Errorf("truncated: %v", e.truncated)
	}
}
