package node

import (
	"slices"
	"strings"
	"testing"

	"queen/cmd/queen/config"
)

func load(t *testing.T, environment ...string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Input{Environ: environment, Host: config.Host{
		RandomID: "01234567", Writable: func(string) bool { return false },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	if names := withoutEffect(load(t)); len(names) > 0 {
		t.Errorf("nothing is set, but %v are said to have no effect", names)
	}
	got := withoutEffect(load(t, "QUEEN_KV_READ_RATE=5", "QUEEN_KV_MAX_VALUE_BYTES=5", "QUEEN_KV_TRUSTED_PROXY=true", "QUEEN_RAFT_KV_SWEEP_MS=50", "QUEEN_PROXY_ENFORCE=true", "QUEEN_RAFT_PIPELINE=8"))
	if want := []string{"QUEEN_KV_READ_RATE", "QUEEN_PROXY_ENFORCE"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("%v have no effect, want %v", got, want)
	}
}

func TestListsNameSettingsThatExist(t *testing.T) {
	var names []string
	for _, setting := range load(t).Settings() {
		names = append(names, setting.Name)
	}
	for _, name := range idleSettings {
		if !slices.Contains(names, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
	for _, family := range idleFamilies {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, family) }) {
			t.Errorf("there is no setting %s…", family)
		}
	}
}

func TestMissingFeaturesStopTheStart(t *testing.T) {
	if err := checkSupported(load(t)); err != nil {
		t.Errorf("nothing is asked for, but: %v", err)
	}
	if err := checkSupported(load(t, "QUEEN_TEST_REFUSE_APPLY_KV=ns/key")); err != nil {
		t.Errorf("a row that refuses to apply is there, but: %v", err)
	}
	err := checkSupported(load(t, "QUEEN_BACKUP_DIR=/backups"))
	if err == nil || !strings.Contains(err.Error(), "QUEEN_BACKUP_DIR") {
		t.Errorf("got %v, want a refusal that names QUEEN_BACKUP_DIR", err)
	}
}
