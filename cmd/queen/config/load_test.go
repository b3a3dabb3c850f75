package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// testHost is a machine without the packaged directory.
func testHost() Host {
	return Host{Hostname: "queen-2", RandomID: "0badcafe", Writable: func(string) bool { return false }}
}

// loadEnv loads NAME=value pairs on the test host.
func loadEnv(pairs ...string) (Config, error) {
	return Load(Input{Environ: pairs, Host: testHost()})
}

func mustLoad(t *testing.T, pairs ...string) Config {
	t.Helper()
	config, err := loadEnv(pairs...)
	if err != nil {
		t.Fatalf("load %q: %v", pairs, err)
	}
	return config
}

func TestEmptyValueMeansDefault(t *testing.T) {
	for _, name := range Names() {
		unset := mustLoad(t)
		empty := mustLoad(t, name+"=")
		if got, want := empty.setting(name), unset.setting(name); got != want {
			t.Errorf("%s= loads %+v, unset loads %+v", name, got, want)
		}
	}
}

func TestBooleanWords(t *testing.T) {
	for _, name := range Switches() {
		// Two rules join these with others; the rules have tests of their own.
		companions := []string{"QUEEN_KV_TRUSTED_PROXY=true", "JWT_SECRET=s"}
		for want, words := range map[string][]string{
			"true":  {"true", "TRUE", "True", "1", "yes", "YES", "on", "On"},
			"false": {"false", "FALSE", "0", "no", "No", "off", "OFF"},
		} {
			for _, word := range words {
				config := mustLoad(t, append(companions, name+"="+word)...)
				if name == "QUEEN_KV_TRUSTED_PROXY" || config.shown(name) == want {
					continue
				}
				t.Errorf("%s=%s shows %q, want %q", name, word, config.shown(name), want)
			}
		}
		for _, word := range []string{"enabled", "2", "y", "t", " true", "-1"} {
			_, err := loadEnv(name + "=" + word)
			want := name + `="` + word + `": want true, false, 1, 0, yes, no, on or off`
			if err == nil || err.Error() != want {
				t.Errorf("%s=%q: error %v, want %s", name, word, err, want)
			}
		}
	}
}

func TestRefusalNamesVariableValueAndRange(t *testing.T) {
	for _, row := range []struct{ pair, want string }{
		{"QUEEN_RAFT_PIPELINE=abc", `QUEEN_RAFT_PIPELINE="abc": want a whole number from 1 to 1024`},
		{"QUEEN_RAFT_PIPELINE=0", `QUEEN_RAFT_PIPELINE="0": want a whole number from 1 to 1024`},
		{"QUEEN_RAFT_PIPELINE=1025", `QUEEN_RAFT_PIPELINE="1025": want a whole number from 1 to 1024`},
		{"QUEEN_RAFT_IDLE_TICK_MS=999", `QUEEN_RAFT_IDLE_TICK_MS="999": want 0 or a whole number from 1000 to 600000`},
		{"LOG_LEVEL=trace", `LOG_LEVEL="trace": want debug, info, warn or error`},
		{"QUEEN_BIND_ADDR=0.0.0.0:80", `QUEEN_BIND_ADDR="0.0.0.0:80": want a host without a port`},
	} {
		_, err := loadEnv(row.pair)
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: error %v, want %s", row.pair, err, row.want)
		}
	}
}

func TestEveryRefusalIsReportedAtOnce(t *testing.T) {
	_, err := loadEnv("PORT=0", "LOG_LEVEL=loud", "QUEEN_RAFT_GROUPS=65")
	problems, ok := errors.AsType[Problems](err)
	if !ok || len(problems) != 3 {
		t.Fatalf("problems = %v, want three", err)
	}
}

func TestNumbersAreDigitsOnly(t *testing.T) {
	for _, value := range []string{"+5", "-5", "5.0", "5e0", "0x5", " 5", "5 ", "5_0", "9223372036854775808", "five"} {
		if _, err := loadEnv("QUEEN_RAFT_PIPELINE=" + value); err == nil {
			t.Errorf("QUEEN_RAFT_PIPELINE=%q was accepted", value)
		}
	}
}

func TestFlagWinsOverEnvironment(t *testing.T) {
	load := func(flag map[string]string) Setting {
		config, err := Load(Input{Environ: []string{"PORT=7000"}, Flags: flag, Host: testHost()})
		if err != nil {
			t.Fatal(err)
		}
		return config.setting("PORT")
	}
	if got := load(map[string]string{"PORT": "7001"}); got.Value != "7001" || got.Source != SourceFlag {
		t.Errorf("flag over environment loads %+v", got)
	}
	if got := load(nil); got.Value != "7000" || got.Source != SourceEnv {
		t.Errorf("environment loads %+v", got)
	}
	if got := load(map[string]string{"PORT": ""}); got.Value != "6632" || got.Source != SourceDefault {
		t.Errorf("empty flag loads %+v", got)
	}
}

func TestUnknownVariableIsWarnedAbout(t *testing.T) {
	config := mustLoad(t, "QUEEN_FOO=1", "QUEEN_RAFT_PIPELIN=8", "QUEENCTL_SERVER=x", "QUEENBEE=1", "POD=1")
	want := []string{
		"config: unknown variable QUEEN_FOO is ignored",
		"config: unknown variable QUEEN_RAFT_PIPELIN is ignored (did you mean QUEEN_RAFT_PIPELINE?)",
	}
	if got := config.Warnings(); !slices.Equal(got, want) {
		t.Errorf("warnings = %q, want %q", got, want)
	}
	if config.RaftPipeline != 4 {
		t.Errorf("a misspelt variable changed the pipeline to %d", config.RaftPipeline)
	}
}

func TestOddSettingsAreWarnedAbout(t *testing.T) {
	for pair, part := range map[string]string{
		"QUEEN_TEST_FAULTS=log.appended":      "QUEEN_TEST_FAULTS is set",
		"QUEEN_TEST_REFUSE_APPLY_KV=ns/key":   "QUEEN_TEST_REFUSE_APPLY_KV is set",
		"QUEEN_STORE_CACHE_MB=64":             "QUEEN_STORE_CACHE_MB changes nothing",
		"QUEEN_RAFT_TOKEN=short":              "QUEEN_RAFT_TOKEN is shorter than 16",
		"QUEEN_RAFT_TOKEN_PREVIOUS=short":     "QUEEN_RAFT_TOKEN_PREVIOUS is shorter than 16",
		"QUEEN_RAFT_CLIENT_OFFLOAD=false":     "QUEEN_RAFT_CLIENT_OFFLOAD=false changes nothing",
		"QUEEN_RAFT_TOKEN=1234567890123456":   "",
		"QUEEN_RAFT_CLIENT_OFFLOAD=true":      "",
		"QUEEN_RAFT_TOKEN_PREVIOUS=" + longID: "",
	} {
		config := mustLoad(t, pair)
		warnings := strings.Join(config.Warnings(), "\n")
		if part == "" && warnings != "" || !strings.Contains(warnings, part) {
			t.Errorf("%s warns %q, want %q in it", pair, warnings, part)
		}
	}
}

const longID = "0123456789abcdef0123456789abcdef"

func TestSecretsAreMaskedEverywhere(t *testing.T) {
	const key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	secrets := map[string]string{
		"QUEEN_RAFT_TOKEN": "raft-secret-token-1", "QUEEN_RAFT_TOKEN_PREVIOUS": "raft-secret-token-0",
		"QUEEN_ENCRYPTION_KEY": key, "QUEEN_ENCRYPTION_KEYS_OLD": "old:" + strings.Repeat("ab", 32),
		"JWT_SECRET": "jwt-secret", "QUEEN_PROXY_CP_TOKEN": "control-plane",
		"QUEEN_PROXY_BOOTSTRAP_API_KEY": "qk_prod_" + strings.Repeat("A", 43),
	}
	for name, secret := range secrets {
		config := mustLoad(t, name+"="+secret)
		if got := config.shown(name); !strings.HasPrefix(got, "***") || len(got) != 3+8 {
			t.Errorf("%s shows %q, want *** and 8 hex characters", name, got)
		}
		if strings.Contains(strings.Join(config.BootLines(), "\n"), secret) {
			t.Errorf("%s stands in the boot lines", name)
		}
	}
	// printf raft-secret-token-1 | sha256sum
	if got := mask("raft-secret-token-1"); got != "***7e127170" {
		t.Errorf("mask = %q", got)
	}
	_, err := loadEnv("QUEEN_ENCRYPTION_KEY=" + key + "00")
	if err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("refusal of a key says %v", err)
	}
	config := mustLoad(t, "JWT_JWKS_URL=https://user:hunter2@keys.example/jwks")
	if got := config.shown("JWT_JWKS_URL"); strings.Contains(got, "hunter2") {
		t.Errorf("JWT_JWKS_URL shows %q", got)
	}
}

func TestUnknownCrashPointExitsWithTwo(t *testing.T) {
	for pair, want := range map[string]int{
		"QUEEN_TEST_FAULTS=no.such.point":                2,
		"QUEEN_TEST_FAULTS=log.appended:0":               1,
		"QUEEN_TEST_FAULTS=log.appended,no.such.point:2": 2,
		"PORT=abc": 1,
	} {
		_, err := loadEnv(pair)
		problems, ok := errors.AsType[Problems](err)
		if !ok || problems.ExitCode() != want {
			t.Errorf("%s: %v, want exit code %d", pair, err, want)
		}
	}
	_, err := loadEnv("PORT=abc", "QUEEN_TEST_FAULTS=no.such.point")
	if problems, _ := errors.AsType[Problems](err); problems.ExitCode() != 1 {
		t.Errorf("a configuration error beside an unknown point exits with %d", problems.ExitCode())
	}
}

func TestBootLinesShowEveryVariable(t *testing.T) {
	config := mustLoad(t, "PORT=7000")
	lines := config.BootLines()
	if len(lines) != len(Names()) || !slices.Contains(lines, "config: PORT=7000") || !slices.Contains(lines, "config: QUEEN_SERVER_ID=queen-2") {
		t.Errorf("boot lines: %q", lines)
	}
}

func TestSharedSettingsTravelInTheHandshake(t *testing.T) {
	config := mustLoad(t, "QUEEN_RAFT_GROUPS=3")
	shared := config.Shared()
	if len(shared) != 8 || shared["QUEEN_RAFT_GROUPS"] != "3" || shared["QUEEN_RAFT_ENTRY_MAX_BYTES"] != "50331648" {
		t.Errorf("shared = %v", shared)
	}
}

func TestFlagNames(t *testing.T) {
	if got := FlagName("QUEEN_RAFT_NODE_ID"); got != "queen-raft-node-id" {
		t.Errorf("flag = %q", got)
	}
}
