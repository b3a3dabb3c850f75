package contract

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen/chaos/cluster"
	"queen/chaos/contract/harness"
)

// volume is the file system of the data of a broker, filled and emptied by reserving room in files that hold nothing.
type volume struct {
	t   *testing.T
	dir string
}

// measure returns the bytes in use and the bytes that can be in use.
func (v volume) measure() (used, total float64) {
	v.t.Helper()
	var stat syscall.Statfs_t
	if err := syscall.Statfs(v.dir, &stat); err != nil {
		v.t.Fatal(err)
	}
	block := float64(stat.Bsize)
	used = float64(stat.Blocks-stat.Bfree) * block
	return used, used + float64(stat.Bavail)*block
}

// fillTo brings the use of the volume to a percentage and returns the file that takes the room.
func (v volume) fillTo(percent float64) (path string) {
	v.t.Helper()
	used, total := v.measure()
	bytes := int64(percent/100*total - used)
	file, err := os.CreateTemp(v.dir, "filling-")
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, bytes); err != nil {
		v.t.Skipf("this volume cannot be filled: %v", err)
	}
	return file.Name()
}

func (v volume) remove(path string) {
	v.t.Helper()
	if err := os.Remove(path); err != nil {
		v.t.Fatal(err)
	}
}

// 2.10, cluster 11.3: the gate closes from the high mark on and stays closed until use is below the low mark. The marks lie
// a little above what is in use, so that a file can bring it there and back.
func TestDiskGateClosesAtTheHighMarkAndOpensBelowTheLow_2_10(t *testing.T) {
	t.Parallel()
	v := volume{t, t.TempDir()}
	used, total := v.measure()
	base := math.Ceil(100 * used / total)
	if base > 85 {
		t.Skipf("the volume is %.0f %% full: there is no room for the marks", base)
	}
	low, high := base+2, base+4
	broker := privateBroker(t, map[string]string{"QUEEN_RAFT_DISK_LOW_PCT": fmt.Sprint(low), "QUEEN_RAFT_DISK_HIGH_PCT": fmt.Sprint(high)})
	client := broker.Client()
	status := func() int { return client.Push(harness.Item{Queue: "q", Payload: 1}).Status }
	await := func(want int) {
		t.Helper()
		eventually(t, delivery, func() (bool, string) { // the volume is measured once a second
			got := status()
			return got == want, fmt.Sprint("status ", got)
		})
	}
	needFor := func(want int, during time.Duration) {
		t.Helper()
		end := time.Now().Add(during)
		eventually(t, during+promptly, func() (bool, string) {
			if got := status(); got != want {
				t.Fatalf("between the marks: want status %d, got %d", want, got)
			}
			return time.Now().After(end), "the time is not over"
		})
	}
	const severalMeasures = 2500 * time.Millisecond
	between := v.fillTo((low + high) / 2)
	needFor(201, severalMeasures)
	above := v.fillTo(high + 1)
	await(507)
	v.remove(above)
	needFor(507, severalMeasures)
	v.remove(between)
	await(201)
	log := brokerLog(t, broker)
	for _, full := range []string{"true", "false"} { // cluster 11.3: the line that operators look for
		if strings.Count(log, "raft storage pressure changed full="+full) != 1 {
			t.Errorf("want one line full=%s in the log", full)
		}
	}
}

// refusedForStorage is the text of a 507 (cluster 11.3).
var refusedForStorage = regexp.MustCompile(`^the data volume of node 1 is \d+\.\d% full$`)

// needStorageFull ends the test unless the answer is the refusal of the disk gate.
func needStorageFull(t *testing.T, answer harness.Response) {
	t.Helper()
	needEnvelope(t, answer, 507, "storage_full")
	needExactKeys(t, answer.Object(), "error", "code", "node")
	if answer.Object()["node"] != json.Number("1") || !refusedForStorage.MatchString(answer.Text("error")) {
		t.Fatalf("got %v", answer)
	}
}

// 2.10, cluster 11.2. The gate closes at 2 % use: any volume that holds a Go toolchain and this repository is fuller.
func TestDiskGateRefusesGrowingWritesOnly_2_10(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	client := broker.Client()
	s := newSceneAt(t, client, nil, 6)
	s.leaseTime = 300
	filing := s.as("filing")
	needVerdicts(t, filing.claim(1, 0, 0, 1).ack(dlqed(0)), filed)
	row := filing.needDeadLetters(0)[0]
	broker.SetEnv("QUEEN_RAFT_DISK_HIGH_PCT", "2")
	broker.SetEnv("QUEEN_RAFT_DISK_LOW_PCT", "1")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	push := fmt.Sprintf(`{"items":[{"queue":%q,"payload":1}]}`, s.queue)
	eventually(t, promptly, func() (bool, string) { // the volume is measured once a second
		answer := client.Post("/api/v1/push", push)
		return answer.Status == 507, answer.String()
	})
	batch := s.claim(4, 0, 3, 1)
	operation := pushOperation(s.queue, "t")
	pushing, err := json.Marshal(operations([]any{operation}))
	if err != nil {
		t.Fatal(err)
	}
	both, err := json.Marshal(operations(batch.operations(completed(0)), []any{operation}))
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]struct{ path, body string }{
		"push":                         {"/api/v1/push", push},
		"a transaction that pushes":    {"/api/v1/transaction", string(pushing)},
		"one that acks and pushes":     {"/api/v1/transaction", string(both)},
		"a trace":                      {"/api/v1/traces", `{"transactionId":"t","partitionId":"1","data":1}`},
		"a replay of a dead letter":    {"/api/v1/dlq/" + row.ID + "/replay", ""},
		"a retry of a dead message":    {"/api/v1/messages/" + s.partitionID + "/m0/retry", ""},
		"a push to a queue to be made": {"/api/v1/push", `{"items":[{"queue":"new","payload":1}]}`},
	} {
		t.Run("refused: "+name, func(t *testing.T) { needStorageFull(t, client.Post(call.path, call.body)) })
	}
	need(t, client.Get(queuePath("new")), 404)
	t.Run("pop, ack, nack, extend and a transaction with only acks work", func(t *testing.T) {
		s := s.in(t)
		needExtended(t, client.Extend(batch.lease, `{"seconds":300}`), batch.lease, 1)
		needVerdicts(t, batch.ack(completed(0)), kept)
		needCommitted(t, client.Transaction(operations(batch.operations(completed(1)))))
		needVerdicts(t, batch.ack(failed(2)), released)
		s.redelivered(2, 5, 2)
		needMessages(t, s.as("fresh").pop(1), "m0")
	})
	t.Run("configure, seek, reads and deletes work", func(t *testing.T) {
		need(t, client.Configure(s.queue, map[string]any{"retryLimit": 1}), 200)
		need(t, client.Configure("made", nil), 200)
		need(t, client.Post(groupPath("fresh")+"/queues/"+s.queue+"/seek", `{"toEnd":true}`), 200)
		need(t, client.Get("/api/v1/messages?queue="+s.queue), 200)
		need(t, client.Delete("/api/v1/messages/"+s.partitionID+"/m0"), 200)
		need(t, client.Delete("/api/v1/dlq?queue="+s.queue), 200)
		deleteGroup(t, client, groupPath("fresh"))
		need(t, client.DeleteQueue(s.queue), 200)
	})
	t.Run("health and metrics say so", func(t *testing.T) {
		raft, _ := client.Get("/health").Object()["raft"].(map[string]any)
		if raft["storageFull"] != true {
			t.Errorf("want storageFull, got %v", raft)
		}
		if page := string(client.Get("/metrics/prometheus").Body); !strings.Contains(page, "\nqueen_raft_storage_full 1\n") {
			t.Error("want queen_raft_storage_full 1")
		}
	})
}

// 2.10, cluster 11.3: the volume of any voter closes the gate for all nodes, that of a learner does not; but a learner whose volume
// would is promoted by force only. The mark of the fourth node lies below what is in use on any volume.
func TestDiskGateIsThatOfAllVoters_2_10(t *testing.T) {
	t.Parallel()
	nodes := privateClusterOf(t, cluster.Options{
		Spares: 1, Env: patience, EnvOf: map[uint64]map[string]string{4: {"QUEEN_RAFT_DISK_HIGH_PCT": "2", "QUEEN_RAFT_DISK_LOW_PCT": "1"}},
	})
	leader, _ := leaderOf(t, nodes)
	full := nodes.Node(4)
	if err := full.Launch(); err != nil {
		t.Fatal(err)
	}
	needChanged(t, leader.Apply(nodes.AddLearner(full.ID)))
	if err := nodes.AwaitHealthy(delivery); err != nil {
		t.Fatal(err)
	}
	push := func(node *cluster.Node) harness.Response {
		return node.Client().Push(harness.Item{Queue: "q", Payload: 1}).Response
	}
	await := func(status int) {
		t.Helper()
		for _, node := range nodes.Nodes() {
			eventually(t, delivery, func() (bool, string) {
				answer := push(node)
				shown, err := node.Metric("queen_raft_storage_full", "")
				closed, _ := node.Client().Get("/health").Object()["raft"].(map[string]any)
				as := status == 507
				return answer.Status == status && err == nil && (shown == 1) == as && closed["storageFull"] == as, fmt.Sprintf("node %d: %v, the metric is %v", node.ID, answer, shown)
			})
		}
	}
	await(201)
	if logged, err := full.Logged(" WARN ", "raft storage pressure changed full=true", "node=4"); err != nil || logged != 1 {
		t.Errorf("%d lines of the learner about its volume, %v", logged, err)
	}
	eventually(t, delivery, func() (bool, string) {
		answer := administer(leader, "POST", "/membership/promote", `{"id":4}`)
		if answer.Status == 200 {
			t.Fatal("a full learner was promoted")
		}
		return answer.Status == 409 && answer.Text("code") == "learner_behind" && strings.Contains(answer.Text("error"), "% full"), answer.String()
	})
	needChanged(t, administer(leader, "POST", "/membership/promote", `{"id":4,"force":true}`))
	await(507)
	for _, node := range nodes.Nodes() {
		answer := push(node)
		needEnvelope(t, answer, 507, "storage_full")
		if answer.Object()["node"] != json.Number("4") || !strings.HasPrefix(answer.Text("error"), "the data volume of node 4 is ") {
			t.Errorf("node %d: got %v", node.ID, answer)
		}
		need(t, node.Client().Configure("q", nil), 200) // not growing
	}
	needChanged(t, leader.Apply(cluster.Remove(full.ID)))
	full.Kill()
	for _, node := range nodes.Founders() {
		eventually(t, delivery, func() (bool, string) {
			answer := push(node)
			return answer.Status == 201, answer.String()
		})
	}
}
