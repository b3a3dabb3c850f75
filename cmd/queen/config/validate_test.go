package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestCrossChecks(t *testing.T) {
	const (
		local = "QUEEN_RAFT_PEERS=1=127.0.0.1:7400/127.0.0.1:6632"
		token = "QUEEN_RAFT_TOKEN=0123456789abcdef"
		keyA  = "1111111111111111111111111111111111111111111111111111111111111111"
		keyB  = "2222222222222222222222222222222222222222222222222222222222222222"
	)
	peers := func(list string) string { return "QUEEN_RAFT_PEERS=" + list }
	for name, row := range map[string]struct {
		pairs string // separated by spaces
		want  string // beginning of the only refusal; empty: accepted
	}{
		"local replicator with peers":          {"QUEEN_RAFT_REPLICATOR=local " + local, `QUEEN_RAFT_REPLICATOR="local": want raft, or`},
		"local replicator alone":               {"QUEEN_RAFT_REPLICATOR=local", ""},
		"raft replicator with peers":           {"QUEEN_RAFT_REPLICATOR=raft " + local, ""},
		"openraft replicator with peers":       {"QUEEN_RAFT_REPLICATOR=openraft " + local, ""},
		"peers without this node":              {local + " QUEEN_RAFT_NODE_ID=2", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632": want this node's own id`},
		"peer id zero":                         {local + ",0=[::1]:1/[::1]:2", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,0=[::1]:1/[::1]:2": want ids from 1`},
		"peer id negative":                     {local + ",-3=[::1]:1/[::1]:2", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,-3=`},
		"peer id repeated":                     {local + ",1=[::1]:1/[::1]:2", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,1=[::1]:1/[::1]:2": want every id once`},
		"raft address repeated":                {local + ",2=127.0.0.1:7400/[::1]:2", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,2=127.0.0.1:7400/[::1]:2": want every address once`},
		"http address repeated":                {local + ",2=[::1]:1/127.0.0.1:6632", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,2=[::1]:1/127.0.0.1:6632": want every address once`},
		"http address empty":                   {peers("1=127.0.0.1:7400/"), `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/": want a raft and an http address`},
		"six voters":                           {local + ",2=[::1]:1/[::1]:2,3=[::1]:3/[::1]:4,4=[::1]:5/[::1]:6,5=[::1]:7/[::1]:8,6=[::1]:9/[::1]:10", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,2=[::1]:1/[::1]:2,3=[::1]:3/[::1]:4,4=[::1]:5/[::1]:6,5=[::1]:7/[::1]:8,6=[::1]:9/[::1]:10": want at most 5 voters`},
		"five voters":                          {local + ",2=[::1]:1/[::1]:2,3=[::1]:3/[::1]:4,4=[::1]:5/[::1]:6,5=[::1]:7/[::1]:8", ""},
		"malformed peers":                      {peers("1:a:7400"), `QUEEN_RAFT_PEERS="1:a:7400": want 1 to 5 voters as id=`},
		"peer with a bad port":                 {peers("1=a:0/a:6632"), `QUEEN_RAFT_PEERS="1=a:0/a:6632": want 1 to 5 voters as id=`},
		"peer without a port":                  {peers("1=a/a:6632"), `QUEEN_RAFT_PEERS="1=a/a:6632": want 1 to 5 voters as id=`},
		"trailing comma":                       {local + ",", `QUEEN_RAFT_PEERS="1=127.0.0.1:7400/127.0.0.1:6632,": want 1 to 5 voters as id=`},
		"disk gate upside down":                {"QUEEN_RAFT_DISK_LOW_PCT=85", `QUEEN_RAFT_DISK_LOW_PCT="85": want less than QUEEN_RAFT_DISK_HIGH_PCT=85`},
		"disk gate close":                      {"QUEEN_RAFT_DISK_LOW_PCT=84", ""},
		"heartbeat above a third":              {"QUEEN_RAFT_HEARTBEAT_MS=51", `QUEEN_RAFT_HEARTBEAT_MS="51": want at most a third of QUEEN_RAFT_ELECTION_MS=150`},
		"heartbeat a third":                    {"QUEEN_RAFT_HEARTBEAT_MS=50", ""},
		"leader lease above four fifths":       {"QUEEN_CONSUME_LEADER_LEASE_MS=121", `QUEEN_CONSUME_LEADER_LEASE_MS="121": want at most four fifths`},
		"leader lease four fifths":             {"QUEEN_CONSUME_LEADER_LEASE_MS=120", ""},
		"entry below batch":                    {"QUEEN_RAFT_ENTRY_MAX_BYTES=1048576 QUEEN_RAFT_BATCH_MAX_BYTES=1048577", `QUEEN_RAFT_ENTRY_MAX_BYTES="1048576": want at least QUEEN_RAFT_BATCH_MAX_BYTES=1048577`},
		"entry equal to batch":                 {"QUEEN_RAFT_ENTRY_MAX_BYTES=1048576 QUEEN_RAFT_BATCH_MAX_BYTES=1048576", ""},
		"http certificate without key":         {"QUEEN_TLS_CERT=c", `QUEEN_TLS_KEY="": want a file path, because QUEEN_TLS_CERT is set`},
		"http key without certificate":         {"QUEEN_TLS_KEY=k", `QUEEN_TLS_CERT="": want a file path, because QUEEN_TLS_KEY is set`},
		"http pair":                            {"QUEEN_TLS_CERT=c QUEEN_TLS_KEY=k", ""},
		"raft certificate without key":         {"QUEEN_RAFT_TLS_CERT=c", `QUEEN_RAFT_TLS_KEY="": want a file path`},
		"raft key without certificate":         {"QUEEN_RAFT_TLS_KEY=k", `QUEEN_RAFT_TLS_CERT="": want a file path`},
		"raft authority without certificate":   {"QUEEN_RAFT_TLS_CA=ca", `QUEEN_RAFT_TLS_CERT="": want a file path, because QUEEN_RAFT_TLS_CA is set`},
		"tenancy without trusted proxy":        {"QUEEN_TENANCY_HEADER=true", `QUEEN_TENANCY_HEADER="true": want QUEEN_KV_TRUSTED_PROXY=true`},
		"tenancy with trusted proxy":           {"QUEEN_TENANCY_HEADER=true QUEEN_KV_TRUSTED_PROXY=true", ""},
		"jwt without key material":             {"JWT_ENABLED=true", `JWT_ENABLED="true": want JWT_SECRET, JWT_PUBLIC_KEY or JWT_JWKS_URL`},
		"jwt with a secret":                    {"JWT_ENABLED=true JWT_SECRET=s", ""},
		"jwt with a public key":                {"JWT_ENABLED=true JWT_PUBLIC_KEY=k", ""},
		"jwt with a key set":                   {"JWT_ENABLED=true JWT_JWKS_URL=https://keys.example/j", ""},
		"open peers without protection":        {peers("1=a:7400/a:6632"), `QUEEN_RAFT_TOKEN="": want a token, or QUEEN_RAFT_TLS_CA`},
		"open peers with a token":              {peers("1=a:7400/a:6632") + " " + token, ""},
		"open peers with mutual TLS":           {peers("1=a:7400/a:6632") + " QUEEN_RAFT_TLS_CA=ca QUEEN_RAFT_TLS_CERT=c QUEEN_RAFT_TLS_KEY=k", ""},
		"open peers with only a certificate":   {peers("1=a:7400/a:6632") + " QUEEN_RAFT_TLS_CERT=c QUEEN_RAFT_TLS_KEY=k", `QUEEN_RAFT_TOKEN="": want a token`},
		"loopback peers without protection":    {peers("1=localhost:7400/a:6632,2=[::1]:7401/b:6632"), ""},
		"tenant group beyond the group count":  {"QUEEN_TENANT_GROUPS=00000000-0000-0000-0000-000000000002=1", `QUEEN_TENANT_GROUPS="00000000-0000-0000-0000-000000000002=1": want a group below QUEEN_RAFT_GROUPS=1`},
		"tenant group inside":                  {"QUEEN_TENANT_GROUPS=00000000-0000-0000-0000-000000000002=1 QUEEN_RAFT_GROUPS=2", ""},
		"forced recovery of another node":      {"QUEEN_RAFT_FORCE_RECOVER=2@disk", `QUEEN_RAFT_FORCE_RECOVER="2": want this node's QUEEN_RAFT_NODE_ID=1: it names the ONE surviving node`},
		"forced recovery of this node":         {"QUEEN_RAFT_FORCE_RECOVER=1", ""},
		"two keys of one id":                   {"QUEEN_ENCRYPTION_KEY=a:" + keyA + " QUEEN_ENCRYPTION_KEYS_OLD=a:" + keyB, `QUEEN_ENCRYPTION_KEYS_OLD="***`},
		"one key twice":                        {"QUEEN_ENCRYPTION_KEY=a:" + keyA + " QUEEN_ENCRYPTION_KEYS_OLD=a:" + keyA + ",b:" + keyB, ""},
		"ordinal without a number in HOSTNAME": {"QUEEN_RAFT_NODE_ID=ordinals", `QUEEN_RAFT_NODE_ID="ordinals": want a whole number from 1`},
	} {
		_, err := loadEnv(strings.Split(row.pairs, " ")...)
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), row.want)):
			t.Errorf("%s: error %v, want %s…", name, err, row.want)
		case row.want != "" && len(err.(Problems)) != 1:
			t.Errorf("%s: %d refusals, want one:\n%v", name, len(err.(Problems)), err)
		}
	}
}

func TestOrdinalNeedsATrailingNumber(t *testing.T) {
	for hostname, want := range map[string]uint32{"queen-0": 1, "queen-12": 13, "9": 10, "queen": 0, "": 0, "queen-4294967295": 0} {
		got, err := parseNodeID("ordinal", hostname)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("ordinal on %q = %d, %v; want %d", hostname, got, err, want)
		}
	}
}

func TestListForms(t *testing.T) {
	const digest = "0123456789abcdef"
	config := mustLoad(t, "QUEEN_RAFT_APPLY_SKIP=7,g3/9:"+strings.ToUpper(digest), "QUEEN_RAFT_FORCE_RECOVER=1@Disk_1.a-b",
		"QUEEN_TEST_FAULTS=log.appended,gc.after_unlink:3", "JWT_SKIP_PATHS=/a,/b/", "QUEEN_ENCRYPTION_KEY="+strings.Repeat("00", 32))
	if want := []ApplySkip{{Index: 7}, {Group: 3, Index: 9, Digest: digest}}; !reflect.DeepEqual(config.RaftApplySkip, want) {
		t.Errorf("skips = %+v", config.RaftApplySkip)
	}
	if want := (ForceRecover{NodeID: 1, Word: "Disk_1.a-b"}); config.RaftForceRecover != want {
		t.Errorf("recovery = %+v", config.RaftForceRecover)
	}
	if want := []TestFault{{"log.appended", 1}, {"gc.after_unlink", 3}}; !reflect.DeepEqual(config.TestFaults, want) {
		t.Errorf("faults = %+v", config.TestFaults)
	}
	if want := []string{"/a", "/b/"}; !reflect.DeepEqual(config.JWTSkipPaths, want) {
		t.Errorf("skip paths = %q", config.JWTSkipPaths)
	}
	// The SHA-256 of 32 zero bytes begins with 66687aad.
	if config.EncryptionKey == nil || config.EncryptionKey.ID != "66687aad" {
		t.Errorf("key id = %v", config.EncryptionKey)
	}
}

func TestMalformedListsAreRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"QUEEN_RAFT_APPLY_SKIP":         {"0", "x", "g64/1", "3/1", "1:abc", "1:" + strings.Repeat("g", 16), "1,", "-1"},
		"QUEEN_RAFT_FORCE_RECOVER":      {"0", "x", "1@", "1@a b", "1@" + strings.Repeat("a", 65), "@a"},
		"QUEEN_ENCRYPTION_KEY":          {"ab", ":" + strings.Repeat("ab", 32), strings.Repeat("zz", 32), "a,b:" + strings.Repeat("ab", 32)},
		"QUEEN_ENCRYPTION_KEYS_OLD":     {strings.Repeat("ab", 32) + ",", "x"},
		"QUEEN_TENANT_GROUPS":           {"a=0", "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000002=64", "00000000-0000-0000-0000-000000000002=0,00000000-0000-0000-0000-000000000002=0"},
		"QUEEN_RAFT_LISTEN":             {"7400", "host", "a:0", "a:65536", "a b:1"},
		"QUEEN_BIND_ADDR":               {"localhost:80", "[::1]:80", "a b", "a/b"},
		"QUEEN_SERVER_ID":               {strings.Repeat("x", 129)},
		"QUEEN_PROXY_BOOTSTRAP_TENANT":  {"Acme", "-a", "a b", strings.Repeat("a", 64)},
		"QUEEN_PROXY_BOOTSTRAP_API_KEY": {"qk_a_short", "pk_a_" + strings.Repeat("A", 43), "qk__" + strings.Repeat("A", 43), "qk_PROD_" + strings.Repeat("A", 43)},
		"JWT_JWKS_URL":                  {"keys.example", "ftp://keys.example/", "http://"},
		"JWT_SKIP_PATHS":                {"health", "/a,,/b"},
		"JWT_ALGORITHM":                 {"none", "hs256", "ES256"},
		"QUEEN_TEST_REFUSE_APPLY_KV":    {"key", "/key", "ns/"},
		"QUEEN_RAFT_REPLICATOR":         {"etcd"},
		"DEFAULT_SUBSCRIPTION_MODE":     {"newest"},
	} {
		for _, value := range values {
			if _, err := loadEnv(name + "=" + value); err == nil {
				t.Errorf("%s=%q was accepted", name, value)
			}
		}
	}
}

func FuzzLoadNeverPanics(f *testing.F) {
	for _, name := range Names() {
		f.Add(name, "1=a:1/b:2,g3/9:0123456789abcdef@x")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		config, err := loadEnv(name + "=" + value)
		if err == nil && len(config.Validate()) != 0 {
			t.Fatalf("%s=%q loads although it does not validate", name, value)
		}
	})
}
