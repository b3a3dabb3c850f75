package main

import (
	"os"
	"strings"
	"testing"
)

// TestSystemdUnitKeepsItsPromises holds the unit against operations 1.3.
func TestSystemdUnitKeepsItsPromises(t *testing.T) {
	text, err := os.ReadFile("../../deploy/systemd/queen.service")
	if err != nil {
		t.Fatal(err)
	}
	directives := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && !strings.HasPrefix(name, "#") {
			directives[name] = value
		}
	}
	for name, want := range map[string]string{
		"ExecStartPre": "/usr/local/bin/queen config check", "ExecStart": "/usr/local/bin/queen serve", "Restart": "on-failure",
		"RestartPreventExitStatus": "1 2", "TimeoutStopSec": "60", "LimitNOFILE": "65536", "ProtectSystem": "strict",
		"EnvironmentFile": "-/etc/queen/queen.env", "User": "queen",
	} {
		if directives[name] != want {
			t.Errorf("%s=%s, want %s", name, directives[name], want)
		}
	}
	if !strings.HasPrefix(directives["StateDirectory"], "queen") {
		t.Errorf("StateDirectory=%s, want queen", directives["StateDirectory"])
	}
}
