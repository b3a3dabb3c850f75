package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
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

// TestTasksCallWhatIsThere reads Taskfile.yml: every script that a task calls is there and executable, every task says what it does.
func TestTasksCallWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../Taskfile.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tasks map[string]struct {
			Desc string   `yaml:"desc"`
			Deps []string `yaml:"deps"`
			Cmds []string `yaml:"cmds"`
		} `yaml:"tasks"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for name, task := range file.Tasks {
		if task.Desc == "" || len(task.Cmds) == 0 {
			t.Errorf("task %s: description %q, commands %v", name, task.Desc, task.Cmds)
		}
		for _, other := range task.Deps {
			if _, found := file.Tasks[other]; !found {
				t.Errorf("task %s needs the task %s, which is not there", name, other)
			}
		}
		for _, command := range task.Cmds {
			for _, script := range regexp.MustCompile(`^(?:deploy|\.ci)/\S+`).FindAllString(command, -1) {
				scripts++
				if info, err := os.Stat("../../" + script); err != nil || info.Mode()&0o100 == 0 {
					t.Errorf("task %s calls %s: %v", name, script, err)
				}
			}
		}
	}
	if scripts == 0 {
		t.Error("no task calls a script")
	}
}
