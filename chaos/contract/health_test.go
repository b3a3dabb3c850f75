package contract

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// healthView is the answer of /health (14, cluster 7.1).
type healthView struct {
	Status, Engine, Version string
	Reasons                 []string
	Raft                    struct {
		Role           string
		Leader         bool
		LeaderID       *int
		Term           int
		Applied        int
		Commit         int
		Lag            int
		LagEntries     int
		QuorumAckMs    int
		StorageReady   bool
		ClusterVersion int
		Kinds          int
		ClusterID      string
		ClusterEpoch   int
		NodeID         int
		Identity       string
		Voters         []int
		Learners       []int
		DiskPct        float64
		StorageFull    bool
		Apply          struct {
			Failure any
			Skipped []any
		}
	}
}

// needHealth decodes an answer of /health with this status; its members are exact in any state of the node.
func needHealth(t *testing.T, answer harness.Response, status int) healthView {
	t.Helper()
	need(t, answer, status)
	var view healthView
	if err := answer.Decode(&view); err != nil {
		t.Fatal(err)
	}
	needExactKeys(t, answer.Object(), "status", "engine", "version", "reasons", "raft")
	raft, _ := answer.Object()["raft"].(map[string]any)
	needExactKeys(t, raft, "role", "leader", "leaderId", "term", "applied", "commit", "lag", "lagEntries", "quorumAckMs", "storageReady",
		"clusterVersion", "kinds", "clusterId", "clusterEpoch", "nodeId", "identity", "voters", "learners", "diskPct", "storageFull", "apply")
	apply, _ := raft["apply"].(map[string]any)
	needExactKeys(t, apply, "failure", "skipped")
	want := map[int]string{200: "healthy", 503: "settling"}[status]
	if view.Status != want || view.Engine != "raft" || view.Version == "" || view.Reasons == nil || (len(view.Reasons) == 0) != (status == 200) {
		t.Fatalf("want %s, with reasons when it is settling, got %v", want, answer)
	}
	return view
}

// TestHealthValues: 14 and cluster 7.1, what every field of one ready voter says, and what a write and a restart change.
func TestHealthValues(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	before := needHealth(t, client.Get("/health"), 200)
	raft := before.Raft
	if raft.Role != "leader" || !raft.Leader || raft.LeaderID == nil || *raft.LeaderID != raft.NodeID || raft.NodeID != 1 || raft.Term < 1 {
		t.Errorf("the only voter leads itself, got %+v", raft)
	}
	if !slices.Equal(raft.Voters, []int{1}) || raft.Learners == nil || len(raft.Learners) != 0 || raft.Identity != "ok" {
		t.Errorf("want one voter and no learner, got %+v", raft)
	}
	if raft.Lag != 0 || raft.LagEntries != 0 || raft.QuorumAckMs < 0 || raft.QuorumAckMs > 5000 || raft.Applied < 1 || raft.Commit < raft.Applied {
		t.Errorf("the leader is level with itself, got %+v", raft)
	}
	if !raft.StorageReady || raft.StorageFull || raft.DiskPct <= 0 || raft.DiskPct >= 100 || raft.Apply.Failure != nil || raft.Apply.Skipped == nil ||
		len(raft.Apply.Skipped) != 0 {
		t.Errorf("nothing is wrong with the storage, got %+v", raft)
	}
	if raft.ClusterVersion < 1 || raft.Kinds < raft.ClusterVersion {
		t.Errorf("want a format that this build reads, got %+v", raft)
	}
	if printed, err := exec.Command(suite.binary, "version").Output(); err != nil || !strings.Contains(string(printed), before.Version) {
		t.Errorf("want the version that the binary prints, got %q and %q (%v)", before.Version, printed, err)
	}
	pushAll(t, client, numbered("q", "", "m", 1)...)
	if after := needHealth(t, client.Get("/health"), 200).Raft; after.Applied <= raft.Applied || after.Commit <= raft.Commit || after.Term != raft.Term {
		t.Errorf("an answered push has been applied, got %+v after %+v", after, raft)
	}
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	again := needHealth(t, client.Get("/health"), 200).Raft
	if again.ClusterID != raft.ClusterID || again.NodeID != raft.NodeID || again.ClusterEpoch != raft.ClusterEpoch || again.Term <= raft.Term {
		t.Errorf("the identity survives and the term rises, got %+v after %+v", again, raft)
	}
}

// TestHealthIsSettlingUntilReady: 14 and cluster 7.2, a node that boots answers /health at once, with 503 and the reasons,
// and 200 from when it is ready on.
func TestHealthIsSettlingUntilReady(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client().WithoutResend()
	settling := 0
	for range 5 { // a boot may be faster than the look at it
		if err := broker.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := broker.Launch(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 2*delivery, func() (bool, string) {
			for range 100 { // closer than the pause of eventually
				answer := client.Get("/health")
				switch {
				case answer.Err != nil: // it does not listen yet
				case answer.Status == 200:
					needHealth(t, answer, 200)
					return true, ""
				default:
					settling++
					if reasons := needHealth(t, answer, 503).Reasons; !knownReasons(reasons) {
						t.Fatalf("got %v", answer)
					}
				}
			}
			return false, "it is not ready"
		})
		if settling > 0 {
			return
		}
	}
	t.Fatal("five boots and no answer that says settling")
}

func knownReasons(reasons []string) bool {
	known := []string{"booting", "no_leader", "quorum", "lag", "storage", "apply_failure", "identity", "encryption", "stopping"}
	return len(reasons) > 0 && !slices.ContainsFunc(reasons, func(reason string) bool { return !slices.Contains(known, reason) })
}

// TestHealthIsSettlingWhileStopping: 14 and cluster 17.1.1, a request that is under way is answered while the node stops,
// and /health says stopping.
func TestHealthIsSettlingWhileStopping(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	const asked = 8 // connections, so that some are known to be busy whatever the broker has read
	var wires []*harness.Wire
	for range asked {
		wire, err := broker.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(wire.Close)
		if err := wire.Send("GET /health HTTP/1.1\r\nHost: queen\r\n\r\nGET /health HTTP/1.1\r\nHost: queen\r\n"); err != nil {
			t.Fatal(err)
		}
		needHealth(t, wire.Receive("GET"), 200) // the second request has begun
		wires = append(wires, wire)
	}
	if err := syscall.Kill(broker.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, promptly, func() (bool, string) {
		connection, err := net.DialTimeout("tcp", broker.Address(), time.Second)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil, "it still accepts connections"
	})
	answered := 0
	for _, wire := range wires {
		if wire.Send("\r\n") != nil {
			continue
		}
		answer := wire.Receive("GET")
		if answer.Err != nil {
			continue
		}
		answered++
		if reasons := needHealth(t, answer, 503).Reasons; !slices.Contains(reasons, "stopping") {
			t.Fatalf("want the reason stopping, got %v", answer)
		}
	}
	if answered == 0 {
		t.Fatal("no request that was under way was answered")
	}
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
}

// cluster 17.1: a second signal cuts what still runs, and the node exits with 0.
func TestSecondSignalCutsTheStopShort_17_1(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_SHUTDOWN_DRAIN_MS": "60000"})
	client := broker.Client()
	pushOne(t, client, harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	wire, err := broker.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wire.Close)
	if err := wire.Send("GET /health HTTP/1.1\r\nHost: queen\r\n\r\nPOST /api/v1/push HTTP/1.1\r\nHost: queen\r\nContent-Length: 100\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	needHealth(t, wire.Receive("GET"), 200) // the push has begun, and its body does not come
	signal := func() {
		t.Helper()
		if err := syscall.Kill(broker.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	signal()
	eventually(t, promptly, func() (bool, string) {
		connection, err := net.DialTimeout("tcp", broker.Address(), time.Second)
		if err == nil {
			_ = connection.Close()
		}
		return err != nil, "it still accepts connections"
	})
	if broker.Exited() {
		t.Fatal("it does not wait for the request")
	}
	signal()
	if status, err := broker.Wait(promptly); err != nil || status != 0 {
		t.Fatalf("exit status %d, %v", status, err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	repeat := client.Push(harness.Item{Queue: "q", Payload: 1, TransactionID: "t"})
	if need(t, repeat.Response, 201); !strings.Contains(string(repeat.Body), `"duplicate"`) {
		t.Errorf("what was acknowledged before the stop: %v", repeat)
	}
}

// TestMetricsMembers: 14, the members are exact: what this server does not measure is 0, and raft is that of /health.
func TestMetricsMembers(t *testing.T) {
	t.Parallel()
	answer := suite.client.Get("/metrics")
	need(t, answer, 200)
	object := answer.Object()
	needExactKeys(t, object, "uptime", "requests", "messages", "memory", "cpu", "engine", "raft")
	memory, _ := object["memory"].(map[string]any)
	for name, value := range memory {
		if zero := value == json.Number("0"); zero == (name == "rss") {
			t.Errorf("memory.%s is %v", name, value)
		}
	}
	for _, name := range []string{"requests", "messages"} {
		counted, _ := object[name].(map[string]any)
		needExactKeys(t, counted, "total", "rate")
	}
	cpu, _ := object["cpu"].(map[string]any)
	needExactKeys(t, cpu, "user", "system")
	if uptime, err := object["uptime"].(json.Number).Float64(); err != nil || uptime <= 0 || object["engine"] != "raft" {
		t.Errorf("got uptime %v of engine %v", object["uptime"], object["engine"])
	}
	health, _ := suite.client.Get("/health").Object()["raft"].(map[string]any)
	raft, _ := object["raft"].(map[string]any)
	for name, value := range health {
		if shown, present := raft[name]; !present || name == "clusterId" && shown != value {
			t.Errorf("raft.%s is %v, /health says %v", name, fmt.Sprint(shown), value)
		}
	}
}
