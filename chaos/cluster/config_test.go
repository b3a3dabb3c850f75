package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestR11Configuration: a wrong variable ends the start with a line that names it, its value and what is allowed.
func TestR11Configuration(t *testing.T) {
	for name, example := range map[string]struct {
		env  map[string]string
		want []string // in one line of the log
	}{
		"peers without the own id": {
			map[string]string{"QUEEN_RAFT_NODE_ID": "4", "QUEEN_RAFT_PEERS": "1=127.0.0.1:7401/127.0.0.1:6641,2=127.0.0.1:7402/127.0.0.1:6642"},
			[]string{"FATAL: QUEEN_RAFT_PEERS", "127.0.0.1:7401/127.0.0.1:6641", "4"},
		},
		"local with peers": {
			map[string]string{"QUEEN_RAFT_REPLICATOR": "local", "QUEEN_RAFT_PEERS": "1=127.0.0.1:7401/127.0.0.1:6641"},
			[]string{"FATAL: QUEEN_RAFT_REPLICATOR", "local", "QUEEN_RAFT_PEERS"},
		},
		"an id twice": {
			map[string]string{"QUEEN_RAFT_PEERS": "1=127.0.0.1:7401/127.0.0.1:6641,1=127.0.0.1:7402/127.0.0.1:6642"},
			[]string{"FATAL: QUEEN_RAFT_PEERS", "1=127.0.0.1:7402/127.0.0.1:6642"},
		},
		"six voters": {
			map[string]string{"QUEEN_RAFT_PEERS": "1=a:1/a:2,2=b:1/b:2,3=c:1/c:2,4=d:1/d:2,5=e:1/e:2,6=f:1/f:2", "QUEEN_RAFT_TOKEN": Token},
			[]string{"FATAL: QUEEN_RAFT_PEERS", "6=f:1/f:2", "5"},
		},
		"no token between machines": {
			map[string]string{"QUEEN_RAFT_PEERS": "1=a:1/a:2,2=b:1/b:2"},
			[]string{"FATAL: QUEEN_RAFT_TOKEN"},
		},
		"a bad boolean":       {map[string]string{"QUEEN_RAFT_JOIN": "maybe"}, []string{"FATAL: QUEEN_RAFT_JOIN", "maybe", "true"}},
		"out of range":        {map[string]string{"QUEEN_RAFT_ELECTION_MS": "49"}, []string{"FATAL: QUEEN_RAFT_ELECTION_MS", "49", "50", "30000"}},
		"no number":           {map[string]string{"QUEEN_RAFT_PIPELINE": "abc"}, []string{`FATAL: QUEEN_RAFT_PIPELINE="abc": want a whole number from 1 to 1024`}},
		"a malformed key":     {map[string]string{"QUEEN_ENCRYPTION_KEY": "abcd"}, []string{"FATAL: QUEEN_ENCRYPTION_KEY", "64"}},
		"heartbeat too slow":  {map[string]string{"QUEEN_RAFT_HEARTBEAT_MS": "200"}, []string{"FATAL: QUEEN_RAFT_HEARTBEAT_MS", "200"}},
		"a listener too many": {map[string]string{"QUEEN_BIND_ADDR": "127.0.0.1:1"}, []string{"FATAL: QUEEN_BIND_ADDR", "127.0.0.1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			broker, err := harness.Prepare(harness.Options{Binary: brokerBinary, Dir: directory(t), Env: example.env})
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Kill()
			if err := broker.Launch(); err != nil {
				t.Fatal(err)
			}
			status, err := broker.Wait(formsWithin)
			if err != nil || status != 1 {
				t.Fatalf("want exit status 1, got %d, %v", status, err)
			}
			if content := readLog(t, broker); !holdsAll(content, example.want) {
				t.Errorf("want a line with all of %q in:\n%s", example.want, tail([]byte(content)))
			}
		})
	}
	t.Run("an unknown name", func(t *testing.T) {
		broker, err := harness.Start(harness.Options{Binary: brokerBinary, Dir: directory(t), Env: map[string]string{"QUEEN_RAFT_ELECTION": "500"}})
		if err != nil {
			t.Fatal(err)
		}
		defer broker.Kill()
		if content := readLog(t, broker); !holdsAll(content, []string{" WARN ", "config: unknown variable QUEEN_RAFT_ELECTION is ignored", "QUEEN_RAFT_ELECTION_MS"}) {
			t.Errorf("want the warning in:\n%s", content)
		}
	})
}

func readLog(t *testing.T, broker *harness.Broker) string {
	t.Helper()
	content, err := os.ReadFile(broker.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// holdsAll tells whether one line of a log holds all texts.
func holdsAll(log string, texts []string) bool {
	for line := range strings.Lines(log) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}

// stopsWithin is how long an orderly stop takes at most.
const stopsWithin = 5 * time.Second
