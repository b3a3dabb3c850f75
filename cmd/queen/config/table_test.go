package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// numberRows is cluster 1.2 to 1.13 once more, read from the specification by hand: name, default on a single node, lowest
// and highest value; a leading 0, stands for the extra value 0.
const numberRows = `
PORT 6632 1 65535
QUEEN_MAX_BODY_BYTES 67108864 1024 1073741824
POP_DEFAULT_TIMEOUT_MS 30000 1 60000
DEFAULT_TIMEOUT - 1 60000
QUEEN_STMT_TIMEOUT_MS 30000 1 60000
QUEEN_SHUTDOWN_DRAIN_MS 30000 0 300000
QUEEN_RAFT_NODE_ID 1 1 4294967295
QUEEN_RAFT_PROMOTE_MAX_LAG 1000 0 10000000
QUEEN_RAFT_CLUSTER_VERSION_MS 1000 0,100 60000
QUEEN_RAFT_ELECTION_MS 150 50 30000
QUEEN_RAFT_HEARTBEAT_MS 50 10 5000
QUEEN_RAFT_PURGE_HOLD_S 600 0 604800
QUEEN_RAFT_LOG_KEEP 4096 16 10000000
QUEEN_RAFT_LOG_CACHE_MB 512 1 65536
QUEEN_RAFT_FWD_STREAMS 4 1 64
QUEEN_RAFT_NO_QUORUM_FAIL_MS 0 0,500 60000
QUEEN_RAFT_IDLE_TICK_MS 10000 0,1000 600000
QUEEN_RAFT_DURABLE_EVERY_MS 1000 10 60000
QUEEN_RAFT_DURABLE_BYTES 268435456 1048576 17179869184
QUEEN_RAFT_READY_LAG_MS 2000 0 600000
QUEEN_RAFT_READY_LAG_ENTRIES 1000 0 10000000
QUEEN_RAFT_READY_QUORUM_MS 5000 0,500 600000
QUEEN_RAFT_DISK_HIGH_PCT 85 1 99
QUEEN_RAFT_DISK_LOW_PCT 80 1 98
QUEEN_RAFT_PIPELINE 4 1 1024
QUEEN_RAFT_BATCH_MAX_CMDS 4096 1 65536
QUEEN_RAFT_BATCH_MAX_BYTES 262144 4096 33554432
QUEEN_RAFT_ENTRY_MAX_BYTES 50331648 1048576 62914560
QUEEN_RAFT_COMMAND_QUEUE_DEPTH 16384 64 1048576
QUEEN_RAFT_REQUEST_ID_WINDOW_S 60 60 3600
QUEEN_RAFT_TXN_WINDOW_MIN_S 900 0 604800
QUEEN_RAFT_SLOW_COMMAND_MS 50 1 60000
QUEEN_RAFT_ADMIT_MAX_MB 128 0 65536
QUEEN_RAFT_ADMIT_HOLD_MS 15000 0 60000
QUEEN_RAFT_ADMIT_FWD_HOLD_MS 2000 0 60000
QUEEN_CONSUME_CHECKPOINT_MS 0 0 100
QUEEN_CONSUME_ROWS_PER_COMMAND 4096 1 65536
QUEEN_CONSUME_LEADER_LEASE_MS 120 10 24000
QUEEN_CONSUME_IDLE_UNLOAD_S 600 0 86400
QUEEN_RAFT_MAX_CLOCK_SKEW_MS 500 0 60000
QUEEN_RAFT_POP_REPLY_MARGIN_MS 50 0 5000
QUEEN_STORE_CACHE_MB 512 16 1048576
QUEEN_STORE_SCRUB_EVERY_S 21600 0,60 2592000
QUEEN_STORE_SCRUB_ROWS_PER_S 2000 1 10000000
RETENTION_INTERVAL 5000 100 3600000
RETENTION_BATCH_SIZE 1000 1 1000000
QUEEN_RAFT_RETENTION_VISIT 8192 1 10000000
QUEEN_RAFT_RETENTION_SCAN_PER_S 50000 1 100000000
PARTITION_CLEANUP_DAYS 30 1 3650
QUEEN_RAFT_TRACE_RETENTION_S 604800 60 31536000
QUEEN_KV_MAX_VALUE_BYTES 65536 1 16777216
QUEEN_KV_MAX_READ_BYTES 4194304 65536 268435456
QUEEN_KV_MAX_OPS_PER_CALL 256 1 4096
QUEEN_KV_MAX_KEYS_PER_CALL 1024 1 4096
QUEEN_KV_MAX_TENANTS 10000 1 10000000
QUEEN_KV_READ_RATE 200 1 10000000
QUEEN_KV_READ_BURST 400 1 10000000
QUEEN_KV_WRITE_RATE 100 1 10000000
QUEEN_KV_WRITE_BURST 200 1 10000000
QUEEN_RAFT_KV_SWEEP_MS 1000 10 3600000
QUEEN_RAFT_KV_SWEEP_LIMIT 512 1 1000000
QUEEN_TIMERS_MAX_HORIZON_S 7776000 1 315360000
QUEEN_TIMERS_MAX_OPS_PER_CALL 256 1 4096
QUEEN_TIMERS_MAX_PAYLOAD_BYTES 1048576 1 67108864
QUEEN_RAFT_TIMER_TICK_MS 50 0,5 60000
QUEEN_RAFT_TIMER_FIRE_BATCH 256 1 65536
QUEEN_RAFT_TIMER_FIRE_MAX_BYTES 4194304 4096 67108864
QUEEN_SWEEPER_BACKOFF_MIN_MS 1000 1 3600000
QUEEN_SWEEPER_BACKOFF_MAX_MS 60000 1 3600000
QUEEN_SWEEPER_TRANSIENT_BACKOFF_MS 1000 1 3600000
QUEEN_SWEEPER_MAX_ATTEMPTS 5 1 1000
QUEEN_EPHEMERAL_MEMBER_TTL_MS 4000 200 600000
QUEEN_EPHEMERAL_MAX_BYTES 268435456 0 1099511627776
QUEEN_EPHEMERAL_QUEUE_MAX_BYTES 16777216 1 1099511627776
QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH 10000 1 100000000
QUEEN_EPHEMERAL_LEASE_S 30 1 86400
QUEEN_EPHEMERAL_RETRY_LIMIT 5 0 1000
QUEEN_EPHEMERAL_IMPLICIT_IDLE_S 300 0 86400
QUEEN_EPHEMERAL_RATE 5000 1 100000000
QUEEN_EPHEMERAL_BURST 10000 1 100000000
JWT_JWKS_REFRESH_INTERVAL 3600 5 604800
JWT_JWKS_TIMEOUT_MS 5000 100 60000
JWT_CLOCK_SKEW 30 0 3600
QUEEN_RAFT_GROUPS 1 1 64
QUEEN_PROXY_PORT - 1 65535
QUEEN_PROXY_MAX_BODY_BYTES 16777216 1024 1073741824
QUEEN_PROXY_MAX_BATCH_ITEMS 10000 1 1000000
QUEEN_PROXY_LONGPOLL_MAX_MS 90000 1000 600000
QUEEN_PROXY_CELL_MAX_PARKED 5000 1 1000000
METRICS_FLUSH_MS 60000 1000 3600000
QUEEN_METRICS_GROUP_LAG_MAX_CURSORS 200000 0 100000000
QUEEN_DASH_NODE_RETENTION_H 168 1 8760
QUEEN_DASH_QUEUE_RETENTION_H 24 1 8760
QUEEN_DASH_MAX_QUEUE_ROWS 500000 1000 100000000
QUEEN_DASH_SIZES_MAX 10000 1 1000000
QUEEN_BACKUP_EVERY_S 86400 60 31536000
QUEEN_BACKUP_KEEP 7 1 10000`

// otherRows holds the defaults of everything that is not a number, on the test host.
const otherRows = `
QUEEN_BIND_ADDR 0.0.0.0
QUEEN_SERVER_ID queen-2
QUEEN_CELL_ID -
QUEEN_TLS_CERT -
QUEEN_TLS_KEY -
LOG_LEVEL info
QUEEN_LOG_JSON false
DEFAULT_SUBSCRIPTION_MODE new
QUEEN_RAFT_REPLICATOR -
QUEEN_RAFT_PEERS -
QUEEN_RAFT_LISTEN -
QUEEN_RAFT_TOKEN -
QUEEN_RAFT_TOKEN_PREVIOUS -
QUEEN_RAFT_TLS_CERT -
QUEEN_RAFT_TLS_KEY -
QUEEN_RAFT_TLS_CA -
QUEEN_RAFT_DIR ./queen-data
QUEEN_RAFT_JOIN false
QUEEN_RAFT_AUTO_REJOIN true
QUEEN_RAFT_FORCE_RECOVER -
QUEEN_RAFT_APPLY_SKIP -
QUEEN_PARTITION_CLEANUP_ENABLED true
QUEEN_KV_REQUIRE_GRANT false
QUEEN_EPHEMERAL_REQUIRE_GRANT false
QUEEN_ENCRYPTION_KEY -
QUEEN_ENCRYPTION_KEYS_OLD -
JWT_ENABLED false
JWT_ALGORITHM HS256
JWT_SECRET -
JWT_PUBLIC_KEY -
JWT_JWKS_URL -
JWT_ISSUER -
JWT_AUDIENCE -
JWT_REQUIRE_EXP true
JWT_ROLES_CLAIM role
JWT_ROLES_ARRAY_CLAIM roles
JWT_ROLE_ADMIN admin
JWT_ROLE_READ_WRITE read-write
JWT_ROLE_READ_ONLY read-only
JWT_ROLE_WRITE_ONLY write-only
JWT_SKIP_PATHS /health,/metrics/prometheus,/metrics,/
QUEEN_TENANCY_HEADER false
QUEEN_KV_TRUSTED_PROXY false
QUEEN_TENANT_GROUPS -
QUEEN_RAFT_CLIENT_OFFLOAD true
QUEEN_PROXY_ENFORCE false
QUEEN_PROXY_CP_TOKEN -
QUEEN_PROXY_BOOTSTRAP_TENANT -
QUEEN_PROXY_BOOTSTRAP_API_KEY -
QUEEN_METRICS_TENANT_LABEL true
QUEEN_BACKUP_DIR -
QUEEN_TEST_REFUSE_APPLY_KV -
QUEEN_TEST_FAULTS -`

func specRows(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		rows = append(rows, strings.Fields(strings.TrimSpace(line)))
	}
	return rows
}

func TestEveryVariableHasTheDefaultOfTheSpecification(t *testing.T) {
	config := mustLoad(t)
	seen := map[string]bool{}
	for _, row := range append(specRows(numberRows), specRows(otherRows)...) {
		name, want := row[0], strings.TrimPrefix(row[1], "-")
		seen[name] = true
		setting := config.setting(name)
		if setting.Value != want || setting.Default != want || setting.Source != SourceDefault || setting.Allowed == "" {
			t.Errorf("%s loads %+v, want default %q", name, setting, want)
		}
	}
	for _, name := range Names() {
		if !seen[name] {
			t.Errorf("%s is not in the specification", name)
		}
	}
	if len(seen) != len(Names()) {
		t.Errorf("%d variables in the specification, %d in the table", len(seen), len(Names()))
	}
}

func TestEveryNumberKeepsItsRange(t *testing.T) {
	for _, row := range specRows(numberRows) {
		name := row[0]
		lowText, orZero := strings.CutPrefix(row[2], "0,")
		low, errLow := strconv.ParseInt(lowText, 10, 64)
		high, errHigh := strconv.ParseInt(row[3], 10, 64)
		if errLow != nil || errHigh != nil {
			t.Fatalf("bad row %q", row)
		}
		inside, outside := []int64{low, high}, []int64{high + 1}
		if orZero {
			inside, outside = append(inside, 0), append(outside, 1, low-1)
		} else if low > 0 {
			outside = append(outside, 0, low-1)
		}
		for _, value := range inside {
			if problem := rangeProblem(name, value); problem != "" {
				t.Errorf("%s=%d is refused: %s", name, value, problem)
			}
		}
		for _, value := range outside {
			if rangeProblem(name, value) == "" {
				t.Errorf("%s=%d is accepted", name, value)
			}
		}
	}
}

// rangeProblem parses one value without the cross-checks, which have tests of their own.
func rangeProblem(name string, value int64) string {
	config := Config{}
	problems := config.assign(table(&config, testHost()), map[string]string{name: fmt.Sprint(value)}, nil)
	return problems.Error()
}

func TestEveryVariableFillsItsOwnField(t *testing.T) {
	samples := map[string]string{
		"QUEEN_BIND_ADDR": "127.0.0.1", "QUEEN_SERVER_ID": "s", "QUEEN_CELL_ID": "c", "LOG_LEVEL": "debug",
		"DEFAULT_SUBSCRIPTION_MODE": "all", "QUEEN_RAFT_REPLICATOR": "raft", "QUEEN_RAFT_NODE_ID": "7",
		"QUEEN_RAFT_PEERS": "1=a:1/a:2", "QUEEN_RAFT_LISTEN": "127.0.0.1:7400", "QUEEN_RAFT_FORCE_RECOVER": "1@w",
		"QUEEN_RAFT_APPLY_SKIP": "9", "QUEEN_ENCRYPTION_KEY": strings.Repeat("ab", 32),
		"QUEEN_ENCRYPTION_KEYS_OLD": strings.Repeat("cd", 32), "JWT_ALGORITHM": "auto", "JWT_JWKS_URL": "http://k/j",
		"JWT_SKIP_PATHS": "/x", "QUEEN_TENANT_GROUPS": "00000000-0000-0000-0000-000000000002=0",
		"QUEEN_PROXY_BOOTSTRAP_TENANT": "acme", "QUEEN_PROXY_BOOTSTRAP_API_KEY": "qk_a_" + strings.Repeat("A", 43),
		"QUEEN_TEST_REFUSE_APPLY_KV": "a/b", "QUEEN_TEST_FAULTS": "log.appended:2",
	}
	for _, row := range specRows(numberRows) {
		if samples[row[0]] == "" {
			samples[row[0]] = row[3]
		}
	}
	load := func(environment map[string]string) Config {
		config := Config{}
		if problems := config.assign(table(&config, testHost()), environment, nil); len(problems) > 0 {
			t.Fatalf("%v: %v", environment, problems)
		}
		config.settings = nil
		return config
	}
	standard := load(nil)
	for _, name := range Names() {
		sample := samples[name]
		if sample == "" {
			sample = "sample-text"
			if slices.Contains(Switches(), name) {
				sample = "true"
				if reflect.DeepEqual(load(map[string]string{name: "true"}), standard) {
					sample = "false"
				}
			}
		}
		changed := changedFields(standard, load(map[string]string{name: sample}))
		// Settings from which other defaults follow change those as well.
		followers := map[string]int{"QUEEN_RAFT_ELECTION_MS": 2, "QUEEN_RAFT_PIPELINE": 2, "QUEEN_RAFT_BATCH_MAX_BYTES": 2, "QUEEN_TENANCY_HEADER": 3, "QUEEN_RAFT_PEERS": 2}
		want := max(1, followers[name])
		if len(changed) != want {
			t.Errorf("%s=%s changes the fields %v, want %d", name, sample, changed, want)
		}
	}
}

func changedFields(a, b Config) []string {
	var names []string
	left, right := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range left.NumField() {
		field := left.Type().Field(i)
		if field.IsExported() && !reflect.DeepEqual(left.Field(i).Interface(), right.Field(i).Interface()) {
			names = append(names, field.Name)
		}
	}
	return names
}

func TestDefaultsThatFollowOtherSettings(t *testing.T) {
	const three = "QUEEN_RAFT_PEERS=1=a:7400/a:6632,2=b:7401/b:6632,3=c:7402/c:6632"
	token := "QUEEN_RAFT_TOKEN=0123456789abcdef"
	for _, row := range []struct {
		pairs      []string
		name, want string
	}{
		{[]string{three, token}, "QUEEN_RAFT_ELECTION_MS", "500"},
		{[]string{three, token}, "QUEEN_RAFT_HEARTBEAT_MS", "100"},
		{[]string{three, token}, "QUEEN_CONSUME_LEADER_LEASE_MS", "400"},
		{[]string{three, token, "QUEEN_RAFT_ELECTION_MS=400"}, "QUEEN_CONSUME_LEADER_LEASE_MS", "320"},
		{[]string{three, token, "QUEEN_RAFT_ELECTION_MS=5000"}, "QUEEN_CONSUME_LEADER_LEASE_MS", "400"},
		{[]string{three, token, "QUEEN_RAFT_NODE_ID=2"}, "QUEEN_RAFT_LISTEN", "0.0.0.0:7401"},
		{[]string{three, token, "QUEEN_RAFT_NODE_ID=ordinal"}, "QUEEN_RAFT_LISTEN", "0.0.0.0:7402"},
		{[]string{"QUEEN_RAFT_PEERS=1=a:7400/a:6632", token}, "QUEEN_RAFT_ELECTION_MS", "150"},
		{[]string{"QUEEN_RAFT_PIPELINE=1022", "QUEEN_RAFT_BATCH_MAX_BYTES=1048577"}, "QUEEN_RAFT_ADMIT_MAX_MB", "1025"},
		{[]string{"QUEEN_TENANCY_HEADER=on", "QUEEN_KV_TRUSTED_PROXY=on"}, "QUEEN_KV_REQUIRE_GRANT", "true"},
		{[]string{"QUEEN_TENANCY_HEADER=on", "QUEEN_KV_TRUSTED_PROXY=on"}, "QUEEN_EPHEMERAL_REQUIRE_GRANT", "true"},
		{[]string{"QUEEN_TENANCY_HEADER=on", "QUEEN_KV_TRUSTED_PROXY=on", "QUEEN_KV_REQUIRE_GRANT=off"}, "QUEEN_KV_REQUIRE_GRANT", "false"},
		{[]string{"QUEEN_RAFT_NODE_ID=ordinal"}, "QUEEN_RAFT_NODE_ID", "3"},
	} {
		config := mustLoad(t, row.pairs...)
		if got := config.shown(row.name); got != row.want {
			t.Errorf("%q: %s = %q, want %q", row.pairs, row.name, got, row.want)
		}
	}
	config, err := Load(Input{Host: Host{RandomID: "0badcafe"}})
	if err != nil || config.ServerID != "queen-0badcafe" {
		t.Errorf("server id without HOSTNAME = %q, %v", config.ServerID, err)
	}
	for pairs, want := range map[string]Milliseconds{"": 30000, "POP_DEFAULT_TIMEOUT_MS=7": 7, "DEFAULT_TIMEOUT=5": 5} {
		config := mustLoad(t, pairs)
		if got := config.PopWaitMs(); got != want {
			t.Errorf("%q: a pop waits %d ms, want %d", pairs, got, want)
		}
	}
}

func TestDataDirectoryIsChosenWithoutLitter(t *testing.T) {
	for writable, want := range map[bool]string{true: PackagedDirectory, false: LocalDirectory} {
		config, err := Load(Input{Host: Host{Hostname: "h", Writable: func(string) bool { return writable }}})
		if err != nil || config.RaftDirectory != want {
			t.Errorf("writable=%v: directory %q, %v", writable, config.RaftDirectory, err)
		}
		if line := config.DirectoryLine(); !strings.Contains(line, want+" (QUEEN_RAFT_DIR is not set and "+PackagedDirectory) {
			t.Errorf("line = %q", line)
		}
	}
	config := mustLoad(t, "QUEEN_RAFT_DIR=elsewhere")
	if line := config.DirectoryLine(); line != "data directory elsewhere (QUEEN_RAFT_DIR is set)" {
		t.Errorf("line = %q", line)
	}
	directory := t.TempDir()
	file := filepath.Join(directory, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{directory: true, file: false, filepath.Join(directory, "missing"): false} {
		if got := writableDirectory(path); got != want {
			t.Errorf("writableDirectory(%s) = %v, want %v", path, got, want)
		}
	}
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 1 {
		t.Errorf("the question left %v, %v", entries, err)
	}
}
