package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// numberSettings lists the numbers of cluster 1.2 to 1.13, row by row: name, default on one node ("-" is none), lowest and
// highest allowed value; a lowest value like 0,500 allows 0 besides the range from 500 on.
const numberSettings = "../../cmd/queen/config/testdata/numbers.txt"

// otherSettings are the remaining rows of 1.2 and 1.4 to 1.8: name and default.
var otherSettings = map[string]string{
	"QUEEN_BIND_ADDR": "0.0.0.0", "QUEEN_SERVER_ID": "box-2", "QUEEN_CELL_ID": "", "QUEEN_TLS_CERT": "", "QUEEN_TLS_KEY": "",
	"LOG_LEVEL": "info", "QUEEN_LOG_JSON": "false", "DEFAULT_SUBSCRIPTION_MODE": "new", "QUEEN_PARTITION_CLEANUP_ENABLED": "true",
}

// numberSetting is a row of numberSettings.
type numberSetting struct {
	name, standard string
	low, high      int64
	orZero         bool
}

func numberSettingRows(t *testing.T) []numberSetting {
	t.Helper()
	table, err := os.ReadFile(numberSettings)
	if err != nil {
		t.Fatal(err)
	}
	var rows []numberSetting
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if fields[0] == "QUEEN_RAFT_NODE_ID" {
			continue // a word is allowed besides the numbers
		}
		lowText, orZero := strings.CutPrefix(fields[2], "0,")
		low, lowErr := strconv.ParseInt(lowText, 10, 64)
		high, highErr := strconv.ParseInt(fields[3], 10, 64)
		if err := errors.Join(lowErr, highErr); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, numberSetting{fields[0], strings.TrimPrefix(fields[1], "-"), low, high, orZero})
	}
	return rows
}

// allowed is how a refusal names the range.
func (n numberSetting) allowed() string {
	text := fmt.Sprintf("a whole number from %d to %d", n.low, n.high)
	if n.orZero {
		return "0 or " + text
	}
	return text
}

// commandResult is what one run of the binary left.
type commandResult struct {
	code           int
	stdout, stderr string
}

// runQueen runs one command of the binary to its end, with these environment variables and no others.
func runQueen(t *testing.T, env map[string]string, arguments ...string) commandResult {
	t.Helper()
	command := exec.CommandContext(t.Context(), suite.binary, arguments...)
	command.Dir = t.TempDir()
	command.Env = []string{"HOME=" + command.Dir}
	for name, value := range env {
		command.Env = append(command.Env, name+"="+value)
	}
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return commandResult{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// shownSetting is a row of `config show`.
type shownSetting struct{ Name, Value, Source, Default, Allowed string }

// showSettings runs `config show` and returns its rows by name.
func showSettings(t *testing.T, env map[string]string, flags ...string) map[string]shownSetting {
	t.Helper()
	result := runQueen(t, env, append([]string{"config", "show", "-o", "json"}, flags...)...)
	if result.code != 0 {
		t.Fatalf("exit %d: %s", result.code, result.stderr)
	}
	return readSettings(t, []byte(result.stdout))
}

func readSettings(t *testing.T, list []byte) map[string]shownSetting {
	t.Helper()
	var shown struct{ Settings []shownSetting }
	if err := json.Unmarshal(list, &shown); err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	byName := map[string]shownSetting{}
	for _, setting := range shown.Settings {
		byName[setting.Name] = setting
	}
	return byName
}

// TestSettingsRoute_1_1_8: cluster 1.1.8 and 7.4, the route lists what the node runs with as `config show` does, secrets
// masked, and refuses whoever names a tenant.
func TestSettingsRoute_1_1_8(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("5", 64)
	host := map[string]string{"HOSTNAME": "box-2"} // the default of QUEEN_SERVER_ID
	client := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": secret, "RETENTION_INTERVAL": "777", "HOSTNAME": "box-2"}).Client()
	answer := client.Get("/api/v1/system/config")
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "settings")
	got, want := readSettings(t, answer.Body), showSettings(t, host)
	for name, setting := range want {
		if shown := got[name]; shown.Name != name || shown.Default != setting.Default || shown.Allowed != setting.Allowed {
			t.Errorf("want %+v, got %+v", setting, shown)
		}
	}
	if len(got) != len(want) {
		t.Errorf("want %d settings, got %d", len(want), len(got))
	}
	if shown := got["RETENTION_INTERVAL"]; shown.Value != "777" || shown.Source != "env" {
		t.Errorf("got %+v", shown)
	}
	if strings.Contains(string(answer.Body), secret) || !strings.HasPrefix(got["QUEEN_ENCRYPTION_KEY"].Value, "***") {
		t.Errorf("the key is shown: %+v", got["QUEEN_ENCRYPTION_KEY"])
	}
	needEnvelope(t, client.WithTenant(defaultTenant).Get("/api/v1/system/config"), 403, "forbidden")
}

// cluster 1.2 to 1.13: every row has the default and the allowed values of the table.
func TestSettingsHaveTheDefaultsOfTheirTables_1(t *testing.T) {
	t.Parallel()
	shown := showSettings(t, map[string]string{"HOSTNAME": "box-2"})
	need := func(name, standard, allowed string) {
		got := shown[name]
		if got.Value != standard || got.Default != standard || got.Source != "default" || allowed != "" && got.Allowed != allowed {
			t.Errorf("%s: want default %q, allowed %q, got %+v", name, standard, allowed, got)
		}
	}
	for _, row := range numberSettingRows(t) {
		need(row.name, row.standard, row.allowed())
	}
	for name, standard := range otherSettings {
		need(name, standard, "")
	}
	if got := showSettings(t, nil)["QUEEN_SERVER_ID"].Value; !strings.HasPrefix(got, "queen-") || len(got) != len("queen-")+8 {
		t.Errorf("without HOSTNAME the server is called %q", got)
	}
}

// cluster 1.4, 1.6, 1.7: the defaults that follow other settings.
func TestDefaultsThatFollowOtherSettings_1(t *testing.T) {
	t.Parallel()
	cluster := map[string]string{"QUEEN_RAFT_PEERS": "1=127.0.0.1:7400/127.0.0.1:6632,2=127.0.0.1:7401/127.0.0.1:6633,3=127.0.0.1:7402/127.0.0.1:6634"}
	for _, row := range []struct {
		env        map[string]string
		name, want string
	}{
		{map[string]string{"QUEEN_RAFT_ELECTION_MS": "5000"}, "QUEEN_CONSUME_LEADER_LEASE_MS", "400"},
		{map[string]string{"QUEEN_RAFT_ELECTION_MS": "400"}, "QUEEN_CONSUME_LEADER_LEASE_MS", "320"},
		{map[string]string{"QUEEN_RAFT_PIPELINE": "1022", "QUEEN_RAFT_BATCH_MAX_BYTES": "1048576"}, "QUEEN_RAFT_ADMIT_MAX_MB", "1024"},
		{map[string]string{"QUEEN_RAFT_PIPELINE": "100", "QUEEN_RAFT_BATCH_MAX_BYTES": "1048576"}, "QUEEN_RAFT_ADMIT_MAX_MB", "128"},
		{cluster, "QUEEN_RAFT_ELECTION_MS", "500"},
		{cluster, "QUEEN_RAFT_HEARTBEAT_MS", "100"},
		{cluster, "QUEEN_CONSUME_LEADER_LEASE_MS", "400"},
	} {
		if got := showSettings(t, row.env)[row.name]; got.Value != row.want || got.Source != "default" {
			t.Errorf("%v: want %s=%s, got %+v", row.env, row.name, row.want, got)
		}
	}
}

// needRefusedSettings ends the test unless `config check` refuses exactly these lines, in any order.
func needRefusedSettings(t *testing.T, env map[string]string, lines ...string) {
	t.Helper()
	result := runQueen(t, env, "config", "check")
	var fatal []string
	for line := range strings.Lines(result.stderr) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "FATAL: "); found {
			fatal = append(fatal, text)
		}
	}
	slices.Sort(lines)
	if slices.Sort(fatal); result.code != 1 || !slices.Equal(fatal, lines) {
		t.Errorf("%v: want exit 1 with\n%s\ngot exit %d with\n%s", env, strings.Join(lines, "\n"), result.code, strings.Join(fatal, "\n"))
	}
}

// needAcceptedSettings ends the test unless `config check` is content.
func needAcceptedSettings(t *testing.T, env map[string]string) {
	t.Helper()
	if result := runQueen(t, env, "config", "check"); result.code != 0 || strings.Contains(result.stderr, "FATAL") {
		t.Errorf("%v: want exit 0, got %+v", env, result)
	}
}

// cluster 1.1.4, 1.1.5: both ends of each range are allowed, one step beyond is FATAL and named, never clamped.
func TestNumbersBeyondTheirRangeAreFatal_1_1(t *testing.T) {
	t.Parallel()
	rows := numberSettingRows(t)
	check := func(value func(numberSetting) (string, bool)) (env map[string]string, refusals []string) {
		env = map[string]string{}
		for _, row := range rows {
			if text, has := value(row); has {
				env[row.name] = text
				refusals = append(refusals, fmt.Sprintf("%s=%q: want %s", row.name, text, row.allowed()))
			}
		}
		return env, refusals
	}
	number := func(n int64, has bool) (string, bool) { return strconv.FormatInt(n, 10), has }
	highest, _ := check(func(row numberSetting) (string, bool) { return number(row.high, true) })
	needAcceptedSettings(t, highest)
	lowest, _ := check(func(row numberSetting) (string, bool) { return number(row.low, true) })
	lowest["QUEEN_RAFT_DISK_HIGH_PCT"] = "2" // must be above the low mark, which is 1
	needAcceptedSettings(t, lowest)
	zeros, _ := check(func(row numberSetting) (string, bool) { return "0", row.orZero })
	needAcceptedSettings(t, zeros)
	for _, value := range []func(numberSetting) (string, bool){
		func(row numberSetting) (string, bool) { return number(row.high+1, true) },
		func(row numberSetting) (string, bool) { return number(row.low-1, row.low > 0) },
		func(numberSetting) (string, bool) { return "abc", true },
		func(numberSetting) (string, bool) { return "-1", true },
		func(numberSetting) (string, bool) { return "5.0", true },
	} {
		env, refusals := check(value)
		needRefusedSettings(t, env, refusals...)
	}
}

// cluster 1.1.3 and the rows of 1.2 that are no numbers: any other word is FATAL, the allowed ones are named, and every
// refusal is reported at once.
func TestWordsThatAreNotAllowedAreFatal_1_1(t *testing.T) {
	t.Parallel()
	const booleans = "true, false, 1, 0, yes, no, on or off"
	env, lines := map[string]string{}, []string{}
	for pair, want := range map[[2]string]string{
		{"QUEEN_LOG_JSON", "maybe"}:                    booleans,
		{"QUEEN_PARTITION_CLEANUP_ENABLED", "2"}:       booleans,
		{"JWT_REQUIRE_EXP", "y"}:                       booleans,
		{"LOG_LEVEL", "trace"}:                         "debug, info, warn or error",
		{"DEFAULT_SUBSCRIPTION_MODE", "newest"}:        "new or all",
		{"QUEEN_BIND_ADDR", "127.0.0.1:80"}:            "a host without a port",
		{"QUEEN_SERVER_ID", strings.Repeat("x", 129)}:  "1 to 128 bytes",
		{"QUEEN_CELL_ID", strings.Repeat("x", 129)}:    "1 to 128 bytes",
		{"QUEEN_RAFT_LOG_KEEP", "9223372036854775808"}: "a whole number from 16 to 10000000",
		{"QUEEN_RAFT_PIPELINE", " 5"}:                  "a whole number from 1 to 1024",
	} {
		env[pair[0]] = pair[1]
		lines = append(lines, fmt.Sprintf("%s=%q: want %s", pair[0], pair[1], want))
	}
	needRefusedSettings(t, env, lines...)
	switches := []string{"QUEEN_LOG_JSON", "QUEEN_PARTITION_CLEANUP_ENABLED", "QUEEN_RAFT_AUTO_REJOIN", "JWT_REQUIRE_EXP",
		"QUEEN_METRICS_TENANT_LABEL", "QUEEN_PROXY_ENFORCE", "QUEEN_RAFT_JOIN"}
	for _, words := range []string{"true TRUE 1 yes Yes on ON", "false False 0 no NO off Off"} {
		env := map[string]string{"QUEEN_SERVER_ID": strings.Repeat("x", 128)}
		for i, word := range strings.Fields(words) {
			env[switches[i]] = word
		}
		shown := showSettings(t, env)
		for _, name := range switches {
			if want := strings.Fields(words)[0]; shown[name].Value != want || shown[name].Source != "env" {
				t.Errorf("%s=%s: want %s, got %+v", name, env[name], want, shown[name])
			}
		}
	}
}

// cluster 1.1, cross-checks: each is FATAL, and what just keeps the rule is not.
func TestSettingsThatContradictEachOtherAreFatal_1_1(t *testing.T) {
	t.Parallel()
	const peer = "1=127.0.0.1:7400/127.0.0.1:6632"
	voters := peer
	for id := 2; id <= 5; id++ {
		voters += fmt.Sprintf(",%d=127.0.0.1:740%d/127.0.0.1:663%d", id, id, id+2)
	}
	needRefusal := func(t *testing.T, env map[string]string, variables ...string) {
		t.Helper()
		result := runQueen(t, env, "config", "check")
		for _, variable := range variables {
			if !strings.Contains(result.stderr, "FATAL: "+variable) {
				t.Errorf("want FATAL: %s…, got %+v", variable, result)
			}
		}
		if result.code != 1 || strings.Count(result.stderr, "FATAL: ") != len(variables) || strings.Count(result.stderr, ": want ") != len(variables) {
			t.Errorf("want exit 1 and %d refusals, got %+v", len(variables), result)
		}
	}
	t.Run("two settings", func(t *testing.T) {
		needRefusal(t, map[string]string{
			"QUEEN_RAFT_DISK_HIGH_PCT": "80", "QUEEN_RAFT_ELECTION_MS": "300", "QUEEN_RAFT_HEARTBEAT_MS": "101",
			"QUEEN_CONSUME_LEADER_LEASE_MS": "241", "QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576", "QUEEN_RAFT_BATCH_MAX_BYTES": "1048577",
			"QUEEN_TLS_CERT": "/c", "QUEEN_RAFT_TLS_KEY": "/k", "QUEEN_TENANCY_HEADER": "true", "JWT_ENABLED": "true",
		}, `QUEEN_RAFT_DISK_LOW_PCT="80"`, `QUEEN_RAFT_HEARTBEAT_MS="101"`, `QUEEN_CONSUME_LEADER_LEASE_MS="241"`,
			`QUEEN_RAFT_ENTRY_MAX_BYTES="1048576"`, `QUEEN_TLS_KEY=""`, `QUEEN_RAFT_TLS_CERT=""`, `QUEEN_TENANCY_HEADER="true"`, `JWT_ENABLED="true"`)
	})
	t.Run("the other half of a pair", func(t *testing.T) {
		needRefusal(t, map[string]string{"QUEEN_TLS_KEY": "/k", "QUEEN_RAFT_TLS_CERT": "/c"}, `QUEEN_TLS_CERT=""`, `QUEEN_RAFT_TLS_KEY=""`)
	})
	for rule, env := range map[string]map[string]string{
		"peers without this node": {"QUEEN_RAFT_PEERS": peer, "QUEEN_RAFT_NODE_ID": "2"},
		"an id below 1":           {"QUEEN_RAFT_PEERS": peer + ",0=127.0.0.1:1/127.0.0.1:2"},
		"a repeated id":           {"QUEEN_RAFT_PEERS": peer + ",1=127.0.0.1:1/127.0.0.1:2"},
		"a repeated address":      {"QUEEN_RAFT_PEERS": peer + ",2=127.0.0.1:7400/127.0.0.1:2"},
		"an empty address":        {"QUEEN_RAFT_PEERS": peer + ",2=127.0.0.1:1/"},
		"six voters":              {"QUEEN_RAFT_PEERS": voters + ",6=127.0.0.1:1/127.0.0.1:2"},
	} {
		t.Run(rule, func(t *testing.T) { needRefusal(t, env, "QUEEN_RAFT_PEERS=") })
	}
	t.Run("the replicator local with peers", func(t *testing.T) {
		needRefusal(t, map[string]string{"QUEEN_RAFT_REPLICATOR": "local", "QUEEN_RAFT_PEERS": peer}, `QUEEN_RAFT_REPLICATOR="local"`)
	})
	open := map[string]string{"QUEEN_RAFT_PEERS": "1=10.0.0.1:7400/10.0.0.1:6632"}
	t.Run("open peers without a token", func(t *testing.T) { needRefusal(t, open, "QUEEN_RAFT_TOKEN=") })
	t.Run("what just keeps the rules", func(t *testing.T) {
		open["QUEEN_RAFT_TOKEN"] = "0123456789abcdef"
		needAcceptedSettings(t, open)
		needAcceptedSettings(t, map[string]string{
			"QUEEN_RAFT_REPLICATOR": "raft", "QUEEN_RAFT_PEERS": voters, "QUEEN_RAFT_DISK_HIGH_PCT": "81", "QUEEN_RAFT_ELECTION_MS": "300",
			"QUEEN_RAFT_HEARTBEAT_MS": "100", "QUEEN_CONSUME_LEADER_LEASE_MS": "240", "QUEEN_RAFT_ENTRY_MAX_BYTES": "1048576",
			"QUEEN_RAFT_BATCH_MAX_BYTES": "1048576", "QUEEN_TLS_CERT": "/c", "QUEEN_TLS_KEY": "/k",
			"QUEEN_TENANCY_HEADER": "true", "QUEEN_KV_TRUSTED_PROXY": "true", "JWT_ENABLED": "true", "JWT_SECRET": "s",
		})
	})
}

// cluster 1.1.1, 1.1.2, 1.1.8: a flag wins over the environment, an empty value is the default, show names the source.
func TestFlagWinsOverEnvironmentAndEmptyIsTheDefault_1_1(t *testing.T) {
	t.Parallel()
	env := map[string]string{"PORT": "7000", "QUEEN_RAFT_LOG_KEEP": "", "LOG_LEVEL": "warn", "QUEEN_RAFT_PIPELINE": "7"}
	shown := showSettings(t, env, "--port=7001", "--queen-raft-pipeline", "", "--queen-log-json")
	for name, want := range map[string]shownSetting{
		"PORT":                {Value: "7001", Source: "flag"},
		"QUEEN_RAFT_LOG_KEEP": {Value: "4096", Source: "default"},
		"LOG_LEVEL":           {Value: "warn", Source: "env"},
		"QUEEN_RAFT_PIPELINE": {Value: "4", Source: "default"},
		"QUEEN_LOG_JSON":      {Value: "true", Source: "flag"},
	} {
		if got := shown[name]; got.Value != want.Value || got.Source != want.Source {
			t.Errorf("%s: want %s from %s, got %+v", name, want.Value, want.Source, got)
		}
	}
	table := runQueen(t, env, "config", "show")
	if table.code != 0 || !slices.ContainsFunc(strings.Split(table.stdout, "\n"), func(line string) bool {
		return slices.Equal(strings.Fields(line), []string{"PORT", "7000", "env"})
	}) {
		t.Errorf("the table must show PORT 7000 env, got %+v", table)
	}
}

// secretSettings are masked wherever settings are shown; the mask of "s3cret" is *** and 8 hex digits of its SHA-256.
var secretSettings = map[string]string{"QUEEN_RAFT_TOKEN": "s3cret-s3cret-s3cret", "JWT_SECRET": "s3cret"}

const maskOfSecret = "***1ec1c26b"

// cluster 1.1.6, 1.1.7: an unknown variable is a warning; boot logs every setting, secrets masked; a test switch and a
// setting without effect are warnings.
func TestBootLogsTheEffectiveSettings_1_1(t *testing.T) {
	t.Parallel()
	env := map[string]string{"QUEEN_FOO": "1", "QUEEN_RAFT_PIPELIN": "8", "QUEEN_CELL_ID": "cell", "QUEEN_SERVER_ID": "the-server",
		"QUEEN_TEST_FAULTS": "log.appended:999999"}
	for name, secret := range secretSettings {
		env[name] = secret
	}
	broker := privateBroker(t, env)
	log := brokerLog(t, broker)
	for _, line := range []string{
		"WARN queen: config: unknown variable QUEEN_FOO is ignored\n",
		"WARN queen: config: unknown variable QUEEN_RAFT_PIPELIN is ignored (did you mean QUEEN_RAFT_PIPELINE?)\n",
		"INFO queen: config: QUEEN_SERVER_ID=the-server\n",
		"INFO queen: config: QUEEN_RAFT_PIPELINE=4\n",
		"INFO queen: config: JWT_SECRET=" + maskOfSecret + "\n",
		"WARN queen: QUEEN_CELL_ID: has no effect in this build\n",
	} {
		if !strings.Contains(log, line) {
			t.Errorf("the log lacks %q", line)
		}
	}
	if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, " WARN ") && strings.Contains(line, "QUEEN_TEST_FAULTS")
	}) {
		t.Error("a test switch is warned about")
	}
	shown := showSettings(t, env)
	for name := range shown {
		if !strings.Contains(log, "INFO queen: config: "+name+"=") {
			t.Errorf("the log lacks %s", name)
		}
	}
	for name, secret := range secretSettings {
		if got := shown[name].Value; !strings.HasPrefix(got, "***") || len(got) != len("***")+8 {
			t.Errorf("%s is shown as %q", name, got)
		}
		if strings.Contains(log, secret) {
			t.Errorf("%s stands in the log", name)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// cluster 1.2: LOG_LEVEL filters, QUEEN_LOG_JSON changes the form of a line.
func TestLogLevelAndForm_1_2(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"LOG_LEVEL": "warn", "QUEEN_LOG_JSON": "yes", "QUEEN_FOO": "1"})
	lines := strings.Split(strings.TrimSpace(brokerLog(t, broker)), "\n")
	for _, line := range lines {
		var event struct{ TS, Level, Target, Msg string }
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.TS == "" || event.Target == "" || event.Msg == "" {
			t.Fatalf("want ts, level, target and msg, got %q: %v", line, err)
		}
		if level := strings.ToUpper(event.Level); level != "WARN" && level != "ERROR" {
			t.Errorf("LOG_LEVEL=warn lets %q through", line)
		}
	}
	if !strings.Contains(lines[0], "config: unknown variable QUEEN_FOO is ignored") {
		t.Errorf("got %q", lines)
	}
}

// cluster 1.1.5, 17.2: a refused setting stops the start with 1, an unknown crash point and a wrong command line with 2,
// and none of them leaves anything behind. What this build cannot do stops the start as well.
func TestServeRefusesBadSettings_1_1(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule      string
		env       map[string]string
		arguments []string
		code      int
		text      string
	}{
		{"a number", map[string]string{"QUEEN_RAFT_PIPELINE": "abc"}, nil, 1, `FATAL: QUEEN_RAFT_PIPELINE="abc": want a whole number from 1 to 1024`},
		{"a flag", nil, []string{"--queen-raft-pipeline=0"}, 1, `FATAL: QUEEN_RAFT_PIPELINE="0": want a whole number from 1 to 1024`},
		{"a cross-check", map[string]string{"QUEEN_TENANCY_HEADER": "true"}, nil, 1, `FATAL: QUEEN_TENANCY_HEADER="true": want QUEEN_KV_TRUSTED_PROXY=true`},
		{"an encryption key", map[string]string{"QUEEN_ENCRYPTION_KEY": "abc"}, nil, 1, "FATAL: QUEEN_ENCRYPTION_KEY="},
		{"an unknown crash point", map[string]string{"QUEEN_TEST_FAULTS": "no.point"}, nil, 2, "FATAL: QUEEN_TEST_FAULTS="},
		{"an unknown flag", nil, []string{"--nope"}, 2, "unknown flag: --nope"},
		{"several groups", map[string]string{"QUEEN_RAFT_GROUPS": "2"}, nil, 1, "QUEEN_RAFT_GROUPS: this build does not support"},
		{"the proxy port", map[string]string{"QUEEN_PROXY_PORT": "6711"}, nil, 1, "QUEEN_PROXY_PORT: this build does not support"},
		{"backups", map[string]string{"QUEEN_BACKUP_DIR": "/tmp"}, nil, 1, "QUEEN_BACKUP_DIR: this build does not support"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			dir := t.TempDir() + "/data"
			env := map[string]string{"QUEEN_RAFT_DIR": dir, "QUEEN_BIND_ADDR": "127.0.0.1", "PORT": "1"}
			for name, value := range row.env {
				env[name] = value
			}
			result := runQueen(t, env, append([]string{"serve"}, row.arguments...)...)
			if result.code != row.code || !strings.Contains(result.stdout+result.stderr, row.text) {
				t.Errorf("want exit %d and %q, got %+v", row.code, row.text, result)
			}
			needMissing(t, dir)
		})
	}
}

// cluster 1.2, 17.1.4: QUEEN_SHUTDOWN_DRAIN_MS bounds the wait for running requests at a stop.
func TestStopWaitsForRunningRequestsUpToTheDrain_1_2(t *testing.T) {
	t.Parallel()
	const drain = 300 * time.Millisecond
	broker := privateBroker(t, map[string]string{"QUEEN_SHUTDOWN_DRAIN_MS": strconv.FormatInt(drain.Milliseconds(), 10)})
	holdBody(t, broker, "Content-Length: 100")
	began := time.Now()
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < drain || took > drain+10*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// brokerLog is what the broker has printed so far.
func brokerLog(t *testing.T, broker *harness.Broker) string {
	t.Helper()
	log, err := os.ReadFile(broker.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// needMissing ends the test unless nothing has this path.
func needMissing(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s must not exist: %v", path, err)
	}
}
