package config

import (
	_ "embed"
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
//
//go:embed testdata/numbers.txt
var numberRows string

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
		// Settings from which other defaults follow change those as well; peers: the listener, and the times of a cluster.
		followers := map[string]int{"QUEEN_RAFT_ELECTION_MS": 2, "QUEEN_RAFT_PIPELINE": 2, "QUEEN_RAFT_BATCH_MAX_BYTES": 2, "QUEEN_TENANCY_HEADER": 3, "QUEEN_RAFT_PEERS": 5}
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
		{[]string{"QUEEN_RAFT_PEERS=1=a:7400/a:6632", token}, "QUEEN_RAFT_ELECTION_MS", "500"},
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
