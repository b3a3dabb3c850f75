package contract

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// metricSample is one line of the page: a family with its labels, and the value.
type metricSample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	metricLine  = regexp.MustCompile(`^(queen_[a-z_]+)(?:\{(.*)\})? (\S+)$`)
	metricLabel = regexp.MustCompile(`([a-z]+)="((?:[^"\\]|\\.)*)"`)
)

// metricsPage reads /metrics/prometheus.
func metricsPage(t *testing.T, client *harness.Client) []metricSample {
	t.Helper()
	answer := client.Get("/metrics/prometheus")
	need(t, answer, 200)
	var page []metricSample
	for line := range strings.Lines(string(answer.Body)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := metricLine.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("%q is no sample", line)
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			t.Fatalf("%q has no value", line)
		}
		sample := metricSample{parts[1], map[string]string{}, value}
		for _, label := range metricLabel.FindAllStringSubmatch(parts[2], -1) {
			sample.labels[label[1]] = label[2]
		}
		page = append(page, sample)
	}
	return page
}

// metric is the value of the only sample with this name that has these labels, given as name=value; NaN when there is none.
func metric(t *testing.T, client *harness.Client, name string, labels ...string) float64 {
	t.Helper()
	found := math.NaN()
	for _, sample := range metricsPage(t, client) {
		if sample.name != name || slices.ContainsFunc(labels, func(pair string) bool {
			label, want, _ := strings.Cut(pair, "=")
			got, has := sample.labels[label]
			return !has || got != want
		}) {
			continue
		}
		if !math.IsNaN(found) {
			t.Fatalf("%s %v: more than one sample", name, labels)
		}
		found = sample.value
	}
	return found
}

// needMetric ends the test unless the sample has the value.
func needMetric(t *testing.T, client *harness.Client, want float64, name string, labels ...string) {
	t.Helper()
	if got := metric(t, client, name, labels...); got != want {
		t.Fatalf("%s %v: want %v, got %v", name, labels, want, got)
	}
}

// awaitMetric polls until the value of the sample is one that fits.
func awaitMetric(t *testing.T, client *harness.Client, fits func(value float64) bool, name string, labels ...string) {
	t.Helper()
	eventually(t, delivery, func() (bool, string) {
		got := metric(t, client, name, labels...)
		return fits(got), fmt.Sprintf("%s %v is %v", name, labels, got)
	})
}

// metricFamilies are the rows of operations 3.4 whose features a node alone has: what its labels are, and which values the
// table names. A value * is open. The consumption engine keeps no parts beside its partitions. The families of other nodes (peers, rejoins), of the scrub, of rates, ephemeral
// queues, backups and the proxy port come with their features.
var metricFamilies = map[string]string{
	"queen_uptime_seconds": "", "queen_build_info": "version=* kinds=*", "queen_process_resident_memory_bytes": "", "queen_malloc_bytes": "",
	"queen_event_loop_lag_avg_milliseconds": "", "queen_parked_long_polls": "", "queen_process_push_messages_total": "",
	"queen_process_pop_messages_total": "", "queen_process_ack_messages_total": "", "queen_process_push_requests_total": "",
	"queen_process_pop_requests_total": "", "queen_process_ack_requests_total": "", "queen_http_requests_total": "route=* status=*",
	"queen_http_request_seconds": "route=*", "queen_disk_used_percent": "",

	"queen_actors":               "kind=apply|catalog|partition|group|leases|dead_letters|traces|kv|timers",
	"queen_actor_restarts_total": "kind=apply|catalog|partition|group|leases|dead_letters|traces|kv|timers",
	"queen_actor_mailbox_depth":  "kind=apply|catalog|partition|group|leases|dead_letters|traces|kv|timers",

	"queen_raft_index": "kind=log|committed|applied|durable", "queen_raft_term": "", "queen_raft_leader": "", "queen_raft_leader_changes_total": "",
	"queen_raft_quorum_ack_age_seconds": "", "queen_raft_last_commit_age_seconds": "", "queen_raft_inflight": "", "queen_raft_proposals_total": "",
	"queen_raft_log_storage": "kind=files|bytes", "queen_raft_storage_full": "", "queen_raft_store_operations_total": "kind=get|put|delete|seek",
	"queen_raft_snapshots_total": "kind=built|sent|installed", "queen_raft_snapshot_bytes_total": "kind=sent|received",
	"queen_raft_identity":      "state=ok|joining|removed|replaced|rolled_back|superseded|foreign|too_old",
	"queen_raft_traces_stored": "", "queen_raft_retention_scan": "kind=visited|due|removed",

	"queen_raft_batch_commands": "", "queen_raft_group_bytes": "", "queen_raft_queue_wait_seconds": "", "queen_raft_arrival_to_proposed_seconds": "",
	"queen_raft_commit_seconds": "", "queen_raft_log_fsync_seconds": "", "queen_apply_seconds": "", "queen_store_write_seconds": "",
	"queen_raft_durable_point_seconds": "", "queen_raft_checkpoint_rows": "", "queen_raft_push_h_total_seconds": "", "queen_raft_pop_h_total_seconds": "",
	"queen_raft_slow_commands_total": "command=*",

	"queen_raft_admit_bytes": "kind=cap|held", "queen_raft_admit_total": "outcome=waited|refused",
	"queen_raft_admit_forwarded_total": "outcome=admitted|refused", "queen_raft_admit_waiting": "",
	"queen_raft_forward_total": "kind=sent|served|streams_opened", "queen_raft_command_queue_depth": "",

	"queen_dlq_depth_by_queue": "queue=*", "queen_queue_conflated_per_minute": "queue=*", "queen_queue_pop_lag_milliseconds": "queue=* stat=avg|max",
	"queen_consumer_group_lag": "queue=* group=*", "queen_consumer_group_lag_seconds": "queue=* group=*", "queen_consumer_group_lag_complete": "",
	"queen_consume_cold_claims_total": "", "queen_consume_engine": "kind=groups|partitions", "queen_consume_parts_total": "kind=loaded|unloaded",

	"queen_kv_bytes_total": "", "queen_kv_ops_total": "op=* outcome=*", "queen_kv_op_duration_milliseconds": "op=*",
	"queen_locks_ops_total": "op=* outcome=*", "queen_locks_op_duration_milliseconds": "op=*",

	"queen_timers_pending": "", "queen_timers_fired_total": "", "queen_timers_fire_lag_seconds": "", "queen_timers_schedule_rejected_total": "reason=timers_bad_op",

	"queen_store_corruption_total": "", "queen_encryption_missing_key_queues": "", "queen_decrypt_failures_total": "",
}

// metricHistograms are the rows of the table that are histograms.
var metricHistograms = []string{
	"queen_kv_op_duration_milliseconds", "queen_locks_op_duration_milliseconds",
	"queen_http_request_seconds", "queen_raft_batch_commands", "queen_raft_group_bytes", "queen_raft_queue_wait_seconds",
	"queen_raft_arrival_to_proposed_seconds", "queen_raft_commit_seconds", "queen_raft_log_fsync_seconds", "queen_apply_seconds",
	"queen_store_write_seconds", "queen_raft_durable_point_seconds", "queen_raft_checkpoint_rows", "queen_raft_push_h_total_seconds",
	"queen_raft_pop_h_total_seconds", "queen_timers_fire_lag_seconds",
}

// histogramOf is the family of a sample that belongs to a histogram, and what it is of it.
func histogramOf(name string) (family, part string) {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if family, cut := strings.CutSuffix(name, part); cut && slices.Contains(metricHistograms, family) {
			return family, part
		}
	}
	return name, ""
}

// TestEveryMetricFamilyIsExported_3_4: operations 3.4, a page has every family of the table with the labels of the table, and
// no family that is not in it. A histogram has buckets that end with +Inf, a sum and a count.
func TestEveryMetricFamilyIsExported_3_4(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_SLOW_COMMAND_MS": "1"}).Client()
	pushAll(t, client, numbered("q", "", "m", 5_000)...) // slower than a millisecond
	popped := client.Pop("q", "consumerGroup=g&subscriptionMode=all&batch=1")
	needMessages(t, popped, "m0")
	needAcked(t, client.AckMessages("dlq", popped.Messages...))
	need(t, client.Post("/api/v1/kv", `[{"op":"put","ns":"app","key":"k","value":1,"forever":true}]`), 200)
	need(t, client.Post("/api/v1/locks", `[{"op":"get","name":"l"}]`), 200)
	needRefusal(t, client.Post("/api/v1/timers", `[{}]`), 400, "timers_bad_request", "timers_bad_op")
	awaitMetric(t, client, func(value float64) bool { return value > 0 }, "queen_raft_slow_commands_total", "command=Push")
	seen := map[string]map[string]bool{} // label values by family and label
	parts := map[string]map[string]bool{}
	for _, sample := range metricsPage(t, client) {
		family, part := histogramOf(sample.name)
		labels, known := metricFamilies[family]
		if !known {
			t.Errorf("operations 3.4 does not have %s", family)
			continue
		}
		if parts[family] == nil {
			parts[family] = map[string]bool{}
		}
		parts[family][part] = true
		if part == "_bucket" {
			parts[family]["le="+sample.labels["le"]] = true
			delete(sample.labels, "le")
		}
		var want []string
		for label := range strings.FieldsSeq(labels) {
			name, values, _ := strings.Cut(label, "=")
			want = append(want, name)
			if value := sample.labels[name]; values != "*" && !slices.Contains(strings.Split(values, "|"), value) {
				t.Errorf("%s: the table does not have %s=%q", family, name, value)
			}
			key := family + " " + name
			if seen[key] == nil {
				seen[key] = map[string]bool{}
			}
			seen[key][sample.labels[name]] = true
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(sample.labels)); !slices.Equal(got, want) {
			t.Errorf("%s: want the labels %v, got %v", family, want, got)
		}
	}
	for family, labels := range metricFamilies {
		if parts[family] == nil {
			t.Errorf("%s is not exported", family)
			continue
		}
		if slices.Contains(metricHistograms, family) && (parts[family][""] || !parts[family]["_sum"] || !parts[family]["_count"] || !parts[family]["le=+Inf"]) {
			t.Errorf("%s is no histogram: %v", family, slices.Sorted(maps.Keys(parts[family])))
		}
		for label := range strings.FieldsSeq(labels) {
			name, values, _ := strings.Cut(label, "=")
			for value := range strings.SplitSeq(values, "|") {
				if value != "*" && !seen[family+" "+name][value] {
					t.Errorf("%s: no sample has %s=%q", family, name, value)
				}
			}
		}
	}
}

// TestMetricsOfRequests_3_4: operations 3.4, process and HTTP: what went through this node, by route pattern and status.
func TestMetricsOfRequests_3_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	pushAll(t, client, numbered("q", "", "m", 3)...)
	pushAll(t, client, numbered("other", "", "m", 2)...)
	need(t, client.Post("/api/v1/push", `{"items":7}`), 400)
	popped := client.Pop("q", "batch=2")
	needMessageCount(t, popped, 2)
	needEmpty(t, client.Pop("q", ""))
	needAcked(t, client.AckMessages("completed", popped.Messages...))
	for _, row := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{5, "queen_process_push_messages_total", nil}, {2, "queen_process_pop_messages_total", nil}, {2, "queen_process_ack_messages_total", nil},
		{2, "queen_process_push_requests_total", nil}, {2, "queen_process_pop_requests_total", nil}, {1, "queen_process_ack_requests_total", nil},
		{2, "queen_http_requests_total", []string{"route=/api/v1/push", "status=201"}},
		{1, "queen_http_requests_total", []string{"route=/api/v1/push", "status=400"}},
		{1, "queen_http_requests_total", []string{"route=/api/v1/pop/queue/:queue", "status=204"}},
		{3, "queen_http_request_seconds_count", []string{"route=/api/v1/push"}},
		{2, "queen_http_request_seconds_count", []string{"route=/api/v1/pop/queue/:queue"}},
		{0, "queen_parked_long_polls", nil},
	} {
		needMetric(t, client, row.want, row.name, row.labels...)
	}
	health := needHealth(t, client.Get("/health"), 200)
	needMetric(t, client, 1, "queen_build_info", "version="+health.Version, fmt.Sprint("kinds=", health.Raft.Kinds))
	if used := metric(t, client, "queen_disk_used_percent"); math.Abs(used-health.Raft.DiskPct) > 5 {
		t.Errorf("/health says %v %% of the disk are used, the page %v", health.Raft.DiskPct, used)
	}
	for _, bytes := range []string{"queen_process_resident_memory_bytes", "queen_malloc_bytes"} {
		if value := metric(t, client, bytes); value < 1<<20 || value > 1<<40 {
			t.Errorf("%s is %v", bytes, value)
		}
	}
	awaitMetric(t, client, func(value float64) bool { return value > 0 }, "queen_event_loop_lag_avg_milliseconds")
	up := metric(t, client, "queen_uptime_seconds")
	awaitMetric(t, client, func(value float64) bool { return value > up && value < up+60 }, "queen_uptime_seconds")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	needMetric(t, client, 0, "queen_process_push_messages_total")
}

// TestMetricsOfTheLog_3_4: operations 3.4, raft and the write path, of the only voter.
func TestMetricsOfTheLog_3_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_IDLE_TICK_MS": "0", "QUEEN_RAFT_DURABLE_EVERY_MS": "10", "RETENTION_INTERVAL": "100"})
	client := broker.Client()
	histograms := []string{"queen_raft_batch_commands", "queen_raft_group_bytes", "queen_raft_queue_wait_seconds", "queen_raft_arrival_to_proposed_seconds",
		"queen_raft_commit_seconds", "queen_raft_log_fsync_seconds", "queen_apply_seconds", "queen_store_write_seconds", "queen_raft_push_h_total_seconds"}
	before := map[string]float64{}
	for _, name := range histograms {
		before[name] = metric(t, client, name+"_count")
	}
	proposals := metric(t, client, "queen_raft_proposals_total")
	const pushes = 5
	for i := range pushes {
		pushOne(t, client, harness.Item{Queue: "q", Payload: strings.Repeat("x", 10_000), TransactionID: txid(i)})
	}
	if made := metric(t, client, "queen_raft_proposals_total") - proposals; made < pushes {
		t.Errorf("%v entries for %d pushes that waited for one another", made, pushes)
	}
	for _, name := range histograms {
		awaitMetric(t, client, func(value float64) bool { return value >= before[name]+pushes }, name+"_count")
	}
	if bytes := metric(t, client, "queen_raft_group_bytes_sum"); bytes < pushes*10_000 {
		t.Errorf("the entries have %v bytes", bytes)
	}
	needMetric(t, client, pushes, "queen_raft_push_h_total_seconds_count")
	health := needHealth(t, client.Get("/health"), 200).Raft
	needMetric(t, client, float64(health.Term), "queen_raft_term")
	needMetric(t, client, 1, "queen_raft_leader")
	needMetric(t, client, 1, "queen_raft_leader_changes_total")
	needMetric(t, client, 1, "queen_raft_identity", "state=ok")
	needMetric(t, client, 0, "queen_raft_storage_full")
	awaitMetric(t, client, func(value float64) bool { return value >= float64(health.Applied) }, "queen_raft_index", "kind=durable")
	previous := math.Inf(1) // nothing is applied that is not committed, nor committed that is not in the log
	for _, kind := range []string{"durable", "applied", "committed", "log"} {
		index := metric(t, client, "queen_raft_index", "kind="+kind)
		if index < float64(health.Applied) || !math.IsInf(previous, 1) && index < previous {
			t.Errorf("the index %s is %v after %v", kind, index, previous)
		}
		previous = index
	}
	if count := metric(t, client, "queen_raft_durable_point_seconds_count"); count < 1 {
		t.Errorf("%v durable points", count)
	}
	if files, bytes := metric(t, client, "queen_raft_log_storage", "kind=files"), metric(t, client, "queen_raft_log_storage", "kind=bytes"); files < 1 || bytes < pushes*10_000 {
		t.Errorf("the log has %v files with %v bytes", files, bytes)
	}
	t.Run("the commit of an idle leader grows old without ticks, and is new with a write", func(t *testing.T) {
		awaitMetric(t, client, func(value float64) bool { return value > 1 }, "queen_raft_last_commit_age_seconds")
		written := time.Now()
		pushOne(t, client, harness.Item{Queue: "q", Payload: 1})
		if age := metric(t, client, "queen_raft_last_commit_age_seconds"); age > time.Since(written).Seconds()+stampSlack.Seconds() {
			t.Errorf("the newest entry is %v s old", age)
		}
	})
	t.Run("a request counts from its arrival, a command from when it came to the log", func(t *testing.T) {
		const late = time.Second
		arrived, queued := metric(t, client, "queen_raft_arrival_to_proposed_seconds_sum"), metric(t, client, "queen_raft_queue_wait_seconds_sum")
		body := `{"items":[{"queue":"q","payload":1}]}`
		wire := holdBody(t, broker, fmt.Sprint("Content-Length: ", len(body)))
		needEmpty(t, client.PopPartition("elsewhere", "p", "wait=true&"+waitFor(late)))
		if err := wire.Send(body); err != nil {
			t.Fatal(err)
		}
		need(t, wire.Receive("POST"), 201)
		if took := metric(t, client, "queen_raft_arrival_to_proposed_seconds_sum") - arrived; took < (late - stampSlack).Seconds() {
			t.Errorf("the body came %v after the head and the request took %v s to its proposal", late, took)
		}
		if took := metric(t, client, "queen_raft_queue_wait_seconds_sum") - queued; took > late.Seconds()/2 {
			t.Errorf("the command waited %v s for the proposer", took)
		}
	})
	t.Run("the store and its traces", func(t *testing.T) {
		puts := metric(t, client, "queen_raft_store_operations_total", "kind=put")
		popped := client.Pop("q", "batch=1")
		needMessageCount(t, popped, 1)
		needMetric(t, client, 0, "queen_raft_traces_stored")
		need(t, client.Post("/api/v1/traces", map[string]any{"transactionId": popped.Messages[0].TransactionID, "partitionId": popped.PartitionID, "data": 1}), 201)
		awaitMetric(t, client, func(value float64) bool { return value == 1 }, "queen_raft_traces_stored")
		awaitMetric(t, client, func(value float64) bool { return value > puts }, "queen_raft_store_operations_total", "kind=put")
	})
	t.Run("retention counts appends", func(t *testing.T) {
		need(t, client.Configure("q", map[string]any{"maxWaitTimeSeconds": 1}), 200)
		awaitMetric(t, client, func(value float64) bool { return value == pushes+2 }, "queen_raft_retention_scan", "kind=removed")
		for _, kind := range []string{"kind=visited", "kind=due"} {
			if value := metric(t, client, "queen_raft_retention_scan", kind); value < 1 {
				t.Errorf("%s is %v", kind, value)
			}
		}
	})
}

// TestPopTimeLeavesOutTheWait_3_4: operations 3.4, a pop counts without its parked time; a consumption command shows its cursor
// rows.
func TestPopTimeLeavesOutTheWait_3_4(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, nil).Client()
	const wait = 2 * time.Second
	waiting := make(chan harness.PopReply, 1)
	go func() { waiting <- client.Pop("q", "wait=true&"+waitFor(delivery)) }() // ends with its pop
	needEmpty(t, client.PopPartition("elsewhere", "p", "wait=true&"+waitFor(wait)))
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	popped := <-waiting
	needMessages(t, popped, "t")
	if sum := metric(t, client, "queen_raft_pop_h_total_seconds_sum"); sum <= 0 || sum > popped.Elapsed.Seconds()-wait.Seconds()/2 {
		t.Errorf("of %v a pop was parked for about %v, and counts with %v s", popped.Elapsed, wait, sum)
	}
	needMetric(t, client, 1, "queen_raft_pop_h_total_seconds_count")
	pushAll(t, client, spread("q", 3, 1)...)
	rows, commands := metric(t, client, "queen_raft_checkpoint_rows_sum"), metric(t, client, "queen_raft_checkpoint_rows_count")
	needMessageCount(t, client.Pop("q", "partitions=3"), 3)
	awaitMetric(t, client, func(value float64) bool { return value == rows+3 }, "queen_raft_checkpoint_rows_sum")
	needMetric(t, client, commands+1, "queen_raft_checkpoint_rows_count")
}

// TestMetricsOfAdmission_3_4: operations 3.4, the permits and who waited for them or was refused.
func TestMetricsOfAdmission_3_4(t *testing.T) {
	t.Parallel()
	broker := admissionBroker(t, "2000")
	client := broker.Client()
	needMetric(t, client, 1<<20, "queen_raft_admit_bytes", "kind=cap")
	needMetric(t, client, 0, "queen_raft_admit_bytes", "kind=held")
	var held []*harness.Wire
	for range 4 {
		held = append(held, holdBody(t, broker, fmt.Sprint("Content-Length: ", smallBody)))
	}
	needMetric(t, client, 1<<20, "queen_raft_admit_bytes", "kind=held")
	needOverloaded(t, client.Push(harness.Item{Queue: "q", Payload: 1}).Response)
	awaitMetric(t, client, func(value float64) bool { return value == 1 }, "queen_raft_admit_total", "outcome=refused")
	needMetric(t, client, 0, "queen_raft_admit_waiting")
	waited := metric(t, client, "queen_raft_admit_total", "outcome=waited")
	waiting := make(chan harness.PushReply, 1)
	go func() { waiting <- client.Push(harness.Item{Queue: "q", Payload: 1}) }() // ends with its push
	awaitMetric(t, client, func(value float64) bool { return value == 1 }, "queen_raft_admit_waiting")
	for _, wire := range held {
		wire.Close()
	}
	need(t, (<-waiting).Response, 201)
	needMetric(t, client, waited+1, "queen_raft_admit_total", "outcome=waited")
	needMetric(t, client, 1, "queen_raft_admit_total", "outcome=refused")
	awaitMetric(t, client, func(value float64) bool { return value == 0 }, "queen_raft_admit_bytes", "kind=held")
}

// TestMetricsOfQueues_3_4: operations 3.4, depths and lags, computed from the state; series of the default tenant carry no
// tenant.
func TestMetricsOfQueues_3_4(t *testing.T) {
	t.Parallel()
	client := tenancyBroker(t)
	for _, tenant := range []string{"", otherTenant} {
		client, labels := client, []string{"queue=q"}
		if tenant != "" {
			client, labels = client.WithTenant(tenant), append(labels, "tenant="+tenant)
		}
		s := &scene{t: t, client: client, queue: "q", partition: "Default", group: "g"}
		s.push(4)
		s.needClaim(s.as("fast").pop(wholeBacklog, "commitOnDelivery=true"), 0, 3, 1)
		fileOne(s, "")
		of := func(more ...string) []string { return append(slices.Clone(labels), more...) }
		only := func(value float64) func(float64) bool { return func(got float64) bool { return got == value } }
		pick := func(name string, want func(float64) bool, more ...string) {
			t.Helper()
			eventually(t, delivery, func() (bool, string) {
				var got []float64
				for _, sample := range metricsPage(t, client) {
					if sample.name == name && sample.labels["tenant"] == tenant && !slices.ContainsFunc(of(more...), func(pair string) bool {
						label, value, _ := strings.Cut(pair, "=")
						return sample.labels[label] != value
					}) {
						got = append(got, sample.value)
					}
				}
				return len(got) == 1 && want(got[0]), fmt.Sprintf("%s %v: %v", name, of(more...), got)
			})
		}
		pick("queen_dlq_depth_by_queue", only(1))
		pick("queen_consumer_group_lag", only(3), "group=g")
		pick("queen_consumer_group_lag", only(0), "group=fast")
		pick("queen_consumer_group_lag_seconds", func(age float64) bool { return age > 0 && age < 60 }, "group=g")
		pick("queen_consumer_group_lag_seconds", only(0), "group=fast")
		pick("queen_queue_pop_lag_milliseconds", func(age float64) bool { return age > 0 && age < 60_000 }, "stat=max")
		pick("queen_queue_pop_lag_milliseconds", func(age float64) bool { return age > 0 && age < 60_000 }, "stat=avg")
		pick("queen_queue_conflated_per_minute", only(0))
	}
	needMetric(t, client, 1, "queen_consumer_group_lag_complete")
}

// TestMetricsOfTheConsumption_3_4: operations 3.4 and cluster 1.7, what is loaded, and the claims that had to load it; a group
// that is idle for QUEEN_CONSUME_IDLE_UNLOAD_S unloads, and a group that comes back misses nothing.
func TestMetricsOfTheConsumption_3_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_CONSUME_IDLE_UNLOAD_S": "1"})
	client := broker.Client()
	pushAll(t, client, spread("q", 3, 2)...)
	needMessageCount(t, client.Pop("q", "batch=1&autoAck=true"), 1)
	if err := broker.Restart(); err != nil { // nothing is loaded after it
		t.Fatal(err)
	}
	needMetric(t, client, 0, "queen_consume_engine", "kind=partitions")
	needMetric(t, client, 0, "queen_consume_engine", "kind=groups")
	needMetric(t, client, 0, "queen_actors", "kind=partition")
	needMetric(t, client, 0, "queen_consume_cold_claims_total")
	needMessageCount(t, client.Pop("q", "batch=2&partitions=2&autoAck=true"), 2)
	awaitMetric(t, client, func(value float64) bool { return value >= 1 && value <= 2 }, "queen_consume_cold_claims_total")
	loaded := metric(t, client, "queen_consume_parts_total", "kind=loaded")
	if running := metric(t, client, "queen_consume_engine", "kind=partitions"); running < 1 || loaded < running {
		t.Errorf("%v partitions are loaded of %v that ever were", running, loaded)
	}
	eventually(t, 3*delivery, func() (bool, string) { // idle groups are looked for every ten seconds or so
		groups := metric(t, client, "queen_consume_engine", "kind=groups")
		return groups == 0, fmt.Sprint(groups, " groups are loaded")
	})
	needMessageCount(t, client.Pop("q", "batch=10&partitions=3&autoAck=true"), 3)
	if now := metric(t, client, "queen_actors", "kind=partition"); now != metric(t, client, "queen_consume_engine", "kind=partitions") {
		t.Errorf("%v partition actors run", now)
	}
	unloaded := metric(t, client, "queen_consume_parts_total", "kind=unloaded")
	needDeleted(t, client, "q")
	awaitMetric(t, client, func(value float64) bool { return value > unloaded }, "queen_consume_parts_total", "kind=unloaded")
}

// TestMetricsOfEncryption_3_4: operations 3.4, the queues that encrypt without a usable key, and the payloads that were handed
// out as they are stored.
func TestMetricsOfEncryption_3_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": strings.Repeat("0123456789abcdef", 4)})
	client := broker.Client()
	for _, queue := range []string{"secret", "second"} {
		need(t, client.Configure(queue, map[string]any{"encryptionEnabled": true}), 200)
	}
	pushAll(t, client, numbered("secret", "", "m", 3)...)
	needMetric(t, client, 0, "queen_encryption_missing_key_queues")
	needMessageCount(t, client.Pop("secret", "batch=1&autoAck=true"), 1)
	needMetric(t, client, 0, "queen_decrypt_failures_total")
	broker.SetEnv("QUEEN_ENCRYPTION_KEY", "")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, client, func(value float64) bool { return value == 2 }, "queen_encryption_missing_key_queues")
	needMessageCount(t, client.Pop("secret", "batch=2&autoAck=true"), 2)
	needMetric(t, client, 2, "queen_decrypt_failures_total")
}

// TestGroupLagEndsAtItsCursors_3_4: operations 3.4 and cluster 1.13, with more cursors than
// QUEEN_METRICS_GROUP_LAG_MAX_CURSORS the lags say that they are not complete.
func TestGroupLagEndsAtItsCursors_3_4(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_METRICS_GROUP_LAG_MAX_CURSORS": "2"})
	client := broker.Client()
	pushAll(t, client, spread("q", 3, 1)...)
	needMessageCount(t, client.Pop("q", "batch=10&partitions=3&autoAck=true"), 3)
	awaitMetric(t, client, func(value float64) bool { return value == 0 }, "queen_consumer_group_lag_complete")
	broker.SetEnv("QUEEN_METRICS_GROUP_LAG_MAX_CURSORS", "3")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, client, func(value float64) bool { return value == 1 }, "queen_consumer_group_lag_complete")
}
