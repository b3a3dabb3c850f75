package walkthrough

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newStandins makes a local cluster of stand-ins, without starting it.
func newStandins(t *testing.T, behaviour string, environ ...string) *processes {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	made, err := newProcesses(processOptions{Binary: binary, Parent: t.TempDir(), Environ: append(environ, standinVariable+"="+behaviour)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, made.close()) })
	return made
}

// must runs a command of the script that has to succeed.
func must(t *testing.T, p *processes, arguments ...string) string {
	t.Helper()
	output, err := p.call(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// refuses runs a command of the script that has to fail and say why.
func refuses(t *testing.T, p *processes, want string, arguments ...string) {
	t.Helper()
	output, err := p.call(arguments...)
	if err == nil || !strings.Contains(output, want) {
		t.Errorf("%v: %v\n%s\nwant a failure that says %q", arguments, err, output, want)
	}
}

// pids reads the status of a cluster: the process id of each node, 0 for one that is stopped.
func pids(t *testing.T, p *processes) [nodeCount]int {
	t.Helper()
	var found [nodeCount]int
	for line := range strings.Lines(must(t, p, "status")) {
		match := regexp.MustCompile(`^node (\d)  (?:pid (\d+)|stopped)`).FindStringSubmatch(line)
		if match == nil {
			t.Fatalf("status: %s", line)
		}
		node, _ := strconv.Atoi(match[1]) // a digit
		found[node-1], _ = strconv.Atoi(match[2])
	}
	return found
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestLocalClusterStartsWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	must(t, p, "start")
	first := pids(t, p)
	for node := 1; node <= nodeCount; node++ {
		line := fmt.Sprintf("node %d  pid %d  %s  healthy  follower  term 7  applied 41  commit 42\n", node, first[node-1], p.URL(node))
		if status := must(t, p, "status"); first[node-1] == 0 || !strings.Contains(status, line) {
			t.Errorf("status:\n%s\nwant the line %s", status, line)
		}
	}
	must(t, p, "start")
	if again := pids(t, p); again != first {
		t.Errorf("a second start made %v of %v", again, first)
	}
	must(t, p, "kill", "2")
	if now := pids(t, p); now != [nodeCount]int{first[0], 0, first[2]} {
		t.Errorf("%v after the kill of the second of %v", now, first)
	}
	must(t, p, "start")
	if now := pids(t, p); now[0] != first[0] || now[1] == 0 || now[1] == first[1] || now[2] != first[2] {
		t.Errorf("%v after the start of the second of %v", now, first)
	}
}

func TestLocalClusterGivesNodesTheirSettings(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready", "LOG_LEVEL=debug", "QUEEN_STORE_CACHE_MB=64", "QUEEN_RAFT_NODE_ID=9")
	must(t, p, "start")
	token, err := os.ReadFile(filepath.Join(p.directory, "token"))
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{64}$`).Match(token) {
		t.Fatalf("token %q, %v", token, err)
	}
	info, err := os.Stat(filepath.Join(p.directory, "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token has the mode %v, %v", info.Mode(), err)
	}
	var peers string
	for node := 1; node <= nodeCount; node++ {
		settings := get(t, p.URL(node)+"/settings")
		own := regexp.MustCompile(`(?m)^QUEEN_RAFT_PEERS=(.*)$`).FindStringSubmatch(settings)
		if own == nil || peers != "" && own[1] != peers {
			t.Fatalf("node %d has another list of peers than %s:\n%s", node, peers, settings)
		}
		peers = own[1]
		row := regexp.MustCompile(fmt.Sprintf(`(?:^|,)%d=(127\.0\.0\.1:\d+)/%s(?:,|$)`, node, regexp.QuoteMeta(strings.TrimPrefix(p.URL(node), "http://")))).FindStringSubmatch(peers)
		if row == nil {
			t.Fatalf("the peers %s do not name node %d at %s", peers, node, p.URL(node))
		}
		for _, want := range []string{
			fmt.Sprint("QUEEN_RAFT_NODE_ID=", node), fmt.Sprint("QUEEN_SERVER_ID=queen-", node), "QUEEN_RAFT_LISTEN=" + row[1],
			"QUEEN_RAFT_DIR=" + filepath.Join(p.home(node), "data"), "QUEEN_RAFT_TOKEN=" + string(token), "QUEEN_RAFT_REPLICATOR=raft",
			"QUEEN_BIND_ADDR=127.0.0.1", "LOG_LEVEL=debug", "QUEEN_STORE_CACHE_MB=64",
		} {
			if !strings.Contains("\n"+settings, "\n"+want+"\n") {
				t.Errorf("node %d lacks %s:\n%s", node, want, settings)
			}
		}
	}
	must(t, p, "restart", "1")
	if again := get(t, p.URL(1)+"/settings"); !strings.Contains(again, string(token)) {
		t.Error("a restart made another token")
	}
}

func TestLocalClusterStopsInOrder(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	must(t, p, "start")
	first := pids(t, p)
	must(t, p, "pause", "3") // a paused node is woken up to stop
	must(t, p, "stop", "3")
	must(t, p, "stop", "3") // again changes nothing
	must(t, p, "restart", "2")
	must(t, p, "restart", "3") // a node that is down is started
	now := pids(t, p)
	if now[0] != first[0] || now[1] == first[1] || now[1] == 0 || now[2] == first[2] || now[2] == 0 {
		t.Errorf("%v after the restart of two of %v", now, first)
	}
	must(t, p, "stop")
	if now := pids(t, p); now != [nodeCount]int{} {
		t.Errorf("%v run after the stop of all", now)
	}
	for node, times := range map[int]int{1: 1, 2: 2, 3: 2} {
		log, err := p.Log(node)
		if err != nil || strings.Count(log, "standin: stopped in order\n") != times || strings.Count(log, "standin: starting") != times {
			t.Errorf("node %d did not start and stop %d times in one log: %v\n%s", node, times, err, log)
		}
	}
}

func TestLocalClusterPausesAndResumes(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	must(t, p, "start")
	must(t, p, "pause", "2")
	must(t, p, "pause", "2")
	if status := must(t, p, "status"); !regexp.MustCompile(`node 2  pid \d+  \S+  gives no answer`).MatchString(status) {
		t.Errorf("status of a paused node:\n%s", status)
	}
	must(t, p, "resume", "2")
	if status := must(t, p, "status"); strings.Count(status, "healthy") != nodeCount {
		t.Errorf("status after the node went on:\n%s", status)
	}
}

func TestLocalClusterKillsWhatDoesNotStop(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "stubborn", "CLUSTER_STOP_WITHIN_S=1")
	must(t, p, "start")
	if output := must(t, p, "stop"); strings.Count(output, "did not stop within 1 s: killed") != nodeCount {
		t.Errorf("stop says\n%s", output)
	}
	if now := pids(t, p); now != [nodeCount]int{} {
		t.Errorf("%v run after the stop", now)
	}
}

// TestLocalClusterLeavesStrangersAlone gives it the process id of somebody else, as an old file does after a reboot.
func TestLocalClusterLeavesStrangersAlone(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stranger.Wait() }()
	defer func() {
		_ = stranger.Process.Kill() // an error means that it has ended, which the test reports
		<-ended
	}()
	if err := os.MkdirAll(p.home(1), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.home(1), "pid"), fmt.Appendf(nil, "%d 12345\n", stranger.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	if now := pids(t, p); now[0] != 0 {
		t.Errorf("a stranger is taken for node 1: %v", now)
	}
	refuses(t, p, "node 1 does not run", "kill", "1")
	must(t, p, "start")
	must(t, p, "stop")
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger is gone: %v", err)
	}
}

func TestLocalClusterSaysWhyANodeDidNotStart(t *testing.T) {
	t.Parallel()
	refusing := newStandins(t, "refusing")
	refuses(t, refusing, "FATAL: QUEEN_RAFT_PEERS: not today", "start")
	refuses(t, refusing, "node 1 has exited; its log is "+filepath.Join(refusing.home(1), "queen.log"), "start")
	settling := newStandins(t, "settling")
	settling.environ = append(settling.environ, "CLUSTER_HEALTHY_WITHIN_S=1")
	refuses(t, settling, "node 1 is not healthy after 1 s", "start")
	missing := newStandins(t, "ready")
	missing.binary = "/nonexistent/queen"
	refuses(t, missing, "there is no binary at /nonexistent/queen: run `task build`", "start")
}

func TestLocalClusterRefusesWrongUse(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	for _, command := range []string{"kill", "pause", "resume", "restart"} {
		refuses(t, p, "which node?", command)
		refuses(t, p, "which node?", command, "4")
	}
	for _, command := range []string{"kill", "pause", "resume"} {
		refuses(t, p, "node 2 does not run", command, "2")
	}
	refuses(t, p, "which node?", "stop", "x")
	refuses(t, p, "there is no log yet", "logs")
	refuses(t, p, "cluster start", "begin")
	if help := must(t, p, "help"); !strings.Contains(help, "cluster wipe") || strings.Contains(help, "#") {
		t.Errorf("help:\n%s", help)
	}
}

func TestLocalClusterFollowsLogs(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	must(t, p, "start")
	command := exec.Command(p.script, "logs", "2")
	command.Env = append(os.Environ(), p.with(p.binary)...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	// The log that nobody writes to any more is still followed: the test would hang without the limit.
	limit := time.AfterFunc(time.Minute, func() { _ = command.Process.Kill() })
	defer limit.Stop()
	lines := bufio.NewScanner(output)
	starts := 0
	for starts < 2 && lines.Scan() {
		if strings.Contains(lines.Text(), "standin: starting as queen-2") {
			if starts++; starts == 1 {
				must(t, p, "restart", "2")
			}
		}
	}
	if starts != 2 {
		t.Errorf("%d starts seen, want the one before and the one after", starts)
	}
	_ = command.Process.Kill() // an error means that it has ended
	_ = command.Wait()         // killed
}

func TestLocalClusterWipesItsOwn(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	must(t, p, "start")
	left, err := p.Remove()
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	must(t, p, "wipe") // again changes nothing
	must(t, p, "start")
	foreign := filepath.Join(p.directory, "notes.txt")
	if err := os.WriteFile(foreign, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refuses(t, p, p.directory, "wipe")
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("what belongs to somebody else is gone: %v", err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
}

// TestGuardRemovesTheNodes ends the pipe as the end of the test process does.
func TestGuardRemovesTheNodes(t *testing.T) {
	t.Parallel()
	p := newStandins(t, "ready")
	must(t, p, "start")
	if err := p.guard.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.directory); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", p.directory, err)
	}
	var err error
	if p.guard, err = newGuard(p.with(p.binary), p.script, "wipe"); err != nil {
		t.Fatal(err)
	}
}
