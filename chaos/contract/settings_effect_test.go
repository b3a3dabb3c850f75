package contract

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestEverySettingIsAFlag_1_1_1: cluster 1.1.1, the flag of a variable is its name in lower case with - for _, on every command
// that reads settings.
func TestEverySettingIsAFlag_1_1_1(t *testing.T) {
	t.Parallel()
	flag := func(name string) string { return "--" + strings.ReplaceAll(strings.ToLower(name), "_", "-") }
	values := map[string]string{
		"QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_SERVER_ID": "by-flag", "QUEEN_CELL_ID": "cell", "QUEEN_TLS_CERT": "/c", "QUEEN_TLS_KEY": "/k",
		"LOG_LEVEL": "error", "QUEEN_LOG_JSON": "true", "DEFAULT_SUBSCRIPTION_MODE": "all", "QUEEN_PARTITION_CLEANUP_ENABLED": "false",
	}
	env := map[string]string{}
	for _, row := range numberSettingRows(t) {
		values[row.name] = strconv.FormatInt(row.high, 10)
		env[row.name] = strconv.FormatInt(row.low, 10) // the flag wins
	}
	var flags []string
	for name, value := range values {
		flags = append(flags, flag(name)+"="+value)
	}
	shown := showSettings(t, env, flags...)
	for name, value := range values {
		if got := shown[name]; got.Value != value || got.Source != "flag" {
			t.Errorf("%s=%s: got %+v", flag(name), value, got)
		}
	}
	var each []string // the others are flags as well, if only empty ones
	for name := range shown {
		each = append(each, flag(name)+"=")
	}
	if result := runQueen(t, nil, append([]string{"config", "check"}, each...)...); result.code != 0 {
		t.Errorf("every setting as an empty flag: got %+v", result)
	}
}

// TestCheckWarnsAboutUnknownVariables_1_1_6: cluster 1.1.6 and 1.1.8, a typo is a warning that names the nearest variable, not
// a refusal; what does not begin with QUEEN_ is nobody's business.
func TestCheckWarnsAboutUnknownVariables_1_1_6(t *testing.T) {
	t.Parallel()
	result := runQueen(t, map[string]string{"QUEEN_RAFT_LOG_KEEPS": "1", "QUEEN_FOO": "1", "RETENTION_INTERVALL": "1"}, "config", "check")
	if result.code != 0 || !strings.Contains(result.stderr, "config: unknown variable QUEEN_FOO is ignored\n") ||
		!strings.Contains(result.stderr, "config: unknown variable QUEEN_RAFT_LOG_KEEPS is ignored (did you mean QUEEN_RAFT_LOG_KEEP?)") ||
		strings.Contains(result.stderr, "RETENTION_INTERVALL") {
		t.Errorf("got %+v", result)
	}
}

// TestTextsOfTheCrossChecks_1_1: cluster 1.1.5, a refusal names the variable, its value and what is allowed beside the setting
// that it contradicts.
func TestTextsOfTheCrossChecks_1_1(t *testing.T) {
	t.Parallel()
	needRefusedSettings(t, map[string]string{
		"QUEEN_RAFT_DISK_LOW_PCT": "85", "QUEEN_RAFT_HEARTBEAT_MS": "51", "QUEEN_RAFT_BATCH_MAX_BYTES": "1048577", "QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576",
		"QUEEN_TLS_CERT": "/c",
	},
		`QUEEN_RAFT_DISK_LOW_PCT="85": want less than QUEEN_RAFT_DISK_HIGH_PCT=85`,
		`QUEEN_RAFT_HEARTBEAT_MS="51": want at most a third of QUEEN_RAFT_ELECTION_MS=150`,
		`QUEEN_RAFT_ENTRY_MAX_BYTES="1048576": want at least QUEEN_RAFT_BATCH_MAX_BYTES=1048577`,
		`QUEEN_TLS_KEY="": want a file path, because QUEEN_TLS_CERT is set`)
}

// TestServerIDIsTheNameOfTheNode_1_2: cluster 1.2, in the metrics and the dashboard's reads.
func TestServerIDIsTheNameOfTheNode_1_2(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_SERVER_ID": "the node", "METRICS_FLUSH_MS": "1000"}).Client()
	for path, list := range map[string]string{"system-metrics": "replicas", "worker-metrics": "workers", "queue-parked-replicas": "replicas"} {
		eventually(t, delivery, func() (bool, string) {
			answer := client.Get("/api/v1/analytics/" + path)
			return firstObject(answer.Object()[list])["hostname"] == "the node", answer.String()
		})
	}
	if worker := firstObject(client.Get("/api/v1/status").Object()["workers"]); worker["hostname"] != "the node" {
		t.Errorf("got %v", worker)
	}
}

// TestIdleLeaderTicks_1_4: cluster 1.4, an idle leader commits an empty entry every QUEEN_RAFT_IDLE_TICK_MS.
func TestIdleLeaderTicks_1_4(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_IDLE_TICK_MS": "1000"}).Client()
	before := metric(t, client, "queen_raft_index", "kind=committed")
	began := time.Now()
	awaitMetric(t, client, func(value float64) bool { return value >= before+4 }, "queen_raft_index", "kind=committed")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("four ticks came within %v", took)
	}
	if age := metric(t, client, "queen_raft_last_commit_age_seconds"); age > delivery.Seconds() {
		t.Errorf("the newest entry is %v s old", age)
	}
}

// TestDurablePoints_1_4: cluster 1.4, the state is made durable every QUEEN_RAFT_DURABLE_EVERY_MS, or once
// QUEEN_RAFT_DURABLE_BYTES have been applied.
func TestDurablePoints_1_4(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_DURABLE_EVERY_MS": "60000", "QUEEN_RAFT_DURABLE_BYTES": "1048576"}).Client()
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1})
	needEmpty(t, client.PopPartition("elsewhere", "p", "wait=true&timeout=2500"))
	needMetric(t, client, 0, "queen_raft_durable_point_seconds_count")
	for range 3 {
		pushOne(t, client, harness.Item{Queue: "q", Payload: incompressible(1 << 20)})
	}
	awaitMetric(t, client, func(value float64) bool { return value >= 1 }, "queen_raft_durable_point_seconds_count")
}

// TestEntriesHoldUpToTheirCommands_1_6: cluster 1.6, QUEEN_RAFT_BATCH_MAX_CMDS bounds the commands of an entry, however many
// wait.
func TestEntriesHoldUpToTheirCommands_1_6(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_BATCH_MAX_CMDS": "1", "QUEEN_RAFT_PIPELINE": "1"}).Client()
	const pushes = 100
	var all sync.WaitGroup
	replies := make([]harness.PushReply, pushes)
	for i := range replies {
		all.Go(func() { replies[i] = client.Push(harness.Item{Queue: "q", Payload: i}) })
	}
	all.Wait()
	for _, reply := range replies {
		need(t, reply.Response, 201)
	}
	entries, commands := metric(t, client, "queen_raft_batch_commands_count"), metric(t, client, "queen_raft_batch_commands_sum")
	if entries != commands || commands < pushes {
		t.Errorf("%v commands in %v entries", commands, entries)
	}
}

// TestRetentionVisitsSoManyPartitions_1_8: cluster 1.8, a pass looks at QUEEN_RAFT_RETENTION_VISIT partitions, and the next pass
// goes on behind them: none is forgotten.
func TestRetentionVisitsSoManyPartitions_1_8(t *testing.T) {
	t.Parallel()
	const partitions, pass = 4, time.Second
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_RETENTION_VISIT": "1", "RETENTION_INTERVAL": fmt.Sprint(pass.Milliseconds())}).Client()
	pushAll(t, client, spread("q", partitions, 1)...)
	need(t, client.Configure("q", map[string]any{"maxWaitTimeSeconds": 1}), 200)
	var first time.Time
	eventually(t, 2*delivery, func() (bool, string) {
		left := queueDetail(t, client, "q").Totals.Total
		if first.IsZero() && left < partitions {
			first = time.Now()
		}
		return left == 0, fmt.Sprintf("%d of %d are left", left, partitions)
	})
	if took := time.Since(first); took < (partitions-2)*pass {
		t.Errorf("the partitions after the first one took %v, one a pass of %v", took, pass)
	}
}

// TestTracesGoWithTheirAge_1_8: cluster 1.8, QUEEN_RAFT_TRACE_RETENTION_S.
func TestTracesGoWithTheirAge_1_8(t *testing.T) {
	t.Parallel()
	if !longRun() {
		t.Skip("the shortest retention is a minute: QUEEN_CONTRACT_LONG=1")
	}
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_TRACE_RETENTION_S": "60"}).Client()
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	popped := client.Pop("q", "")
	needMessages(t, popped, "t")
	made := time.Now()
	need(t, client.Post("/api/v1/traces", map[string]any{"transactionId": "t", "partitionId": popped.PartitionID, "data": 1}), 201)
	needMetric(t, client, 1, "queen_raft_traces_stored")
	eventually(t, 5*time.Minute, func() (bool, string) {
		return metric(t, client, "queen_raft_traces_stored") == 0, "the trace is still there"
	})
	if lived := time.Since(made); lived < time.Minute-stampSlack {
		t.Errorf("it went after %v", lived)
	}
}
