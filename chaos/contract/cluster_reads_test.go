package contract

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"queen/chaos/cluster"
	"queen/chaos/contract/harness"
)

// patience keeps a leader that is slow because the machine, or the network between the nodes, is.
var patience = map[string]string{"QUEEN_RAFT_ELECTION_MS": "3000"}

// liveWithinMs is how long a silent member is live then (cluster 0).
const liveWithinMs = 9000

func patientCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	return privateCluster(t, patience)
}

// cluster 8.1: a node that is far away from its leader serves its clients all the same, only later.
func TestNodeFarFromItsLeaderServes_8_1(t *testing.T) {
	t.Parallel()
	const late = 100 * time.Millisecond
	nodes := patientCluster(t)
	former, others := leaderOf(t, nodes)
	leader, far := others[0], others[1]
	for _, link := range []cluster.Link{{From: leader.ID, To: far.ID}, {From: far.ID, To: leader.ID}} {
		nodes.Network.Set(link, cluster.Rule{Delay: late})
	}
	if moved := former.Transfer(leader.ID); !moved.OK { // the links to it are opened over the slow network
		t.Fatalf("the leadership did not move: %v", moved.Response)
	}
	s := newSceneAt(t, far.Client().WithDeadline(time.Minute), nil, 3)
	needVerdicts(t, s.claim(1, 0, 0, 1).ack(completed(0)), released)
	need(t, far.Client().Get(queuePath(s.queue)), 200)
}

// cluster 1.4: the most streams that may be asked for.
func TestMostForwardStreams_1(t *testing.T) {
	t.Parallel()
	nodes := privateCluster(t, map[string]string{"QUEEN_RAFT_FWD_STREAMS": "64", "QUEEN_RAFT_ELECTION_MS": "3000"})
	for _, node := range nodes.Nodes() {
		newSceneAt(t, node.Client().WithDeadline(time.Minute), nil, 1)
	}
}

// cluster 9: what one node has acknowledged is seen by a read through any other one, also through a follower that applies it late.
func TestReadsSeeWhatAnotherNodeAcknowledged_9(t *testing.T) {
	t.Parallel()
	const late = 200 * time.Millisecond
	nodes := patientCluster(t)
	leader, others := leaderOf(t, nodes)
	follower := others[0].Client()
	need(t, follower.Get("/api/v1/resources/queues"), 200)
	nodes.Network.Set(cluster.Link{From: leader.ID, To: others[0].ID}, cluster.Rule{Delay: late})

	reads := func(queue string) []string {
		named := url.QueryEscape(queue)
		return []string{
			queuePath(queue), queuePath(queue) + "/depth", queuePath(queue) + "/depth?group=g", queuePath(queue) + "/sizes",
			"/api/v1/status/queues/" + named, "/api/v1/resources/queues", "/api/v1/status/queues", "/api/v1/resources/partitions?queue=" + named,
			"/api/v1/messages?queue=" + named,
		}
	}
	for i := range reads("") {
		queue := uniqueName(t)
		pushOne(t, leader.Client(), harness.Item{Queue: queue, Payload: 1})
		path := reads(queue)[i]
		if answer := follower.Get(path); answer.Status != 200 || !strings.Contains(string(answer.Body), queue) {
			t.Errorf("%s after a push: got %v", path, answer)
		}
		need(t, leader.Client().Configure(queue, map[string]any{"namespace": "changed"}), 200)
		if i == 0 {
			answer := follower.Get(path)
			if need(t, answer, 200); answer.Text("namespace") != "changed" {
				t.Errorf("%s after a change: got %v", path, answer)
			}
		}
		need(t, leader.Client().DeleteQueue(queue), 200)
		switch answer := follower.Get(path); {
		case i <= 4 && answer.Status != 404:
			t.Errorf("%s after the deletion: got %v", path, answer)
		case i > 4 && (answer.Status != 200 || strings.Contains(string(answer.Body), fmt.Sprintf("%q", queue))):
			t.Errorf("%s after the deletion: got %v", path, answer)
		}
	}
	for i := range 3 { // each of them was late, or none of this shows anything
		queue := uniqueName(t)
		pushOne(t, leader.Client(), harness.Item{Queue: queue, Payload: 1})
		if answer := follower.Get(queuePath(queue)); answer.Elapsed < late/2 {
			t.Errorf("read %d was answered after %v", i, answer.Elapsed)
		}
	}
}

// fillLog writes until the log of the leader begins behind an entry.
func fillLog(t *testing.T, leader *cluster.Node, behind uint64) {
	t.Helper()
	item := harness.Item{Queue: "filling", Payload: incompressible(256 << 10)}
	eventually(t, 3*delivery, func() (bool, string) {
		for range 16 {
			need(t, leader.Client().Push(item).Response, 201)
		}
		purged, err := leader.Purged()
		return err == nil && purged > behind, fmt.Sprint("the log is cut up to ", purged, err)
	})
}

// cluster 9, 12: a node that fetches the state of its leader says so at once, and serves again when it has it.
func TestNodeThatFetchesAStateAnswersRetry_9(t *testing.T) {
	t.Parallel()
	nodes := privateCluster(t, map[string]string{
		"QUEEN_RAFT_PURGE_HOLD_S": "1", "QUEEN_RAFT_LOG_KEEP": "16", "QUEEN_RAFT_DURABLE_EVERY_MS": "100",
	})
	leader, others := leaderOf(t, nodes)
	away := others[0]
	before, err := away.Health()
	if err != nil {
		t.Fatal(err)
	}
	away.Kill()
	fillLog(t, leader, before.Raft.Applied)
	s := newSceneAt(t, away.Client(), nil, 0)
	s.group = "g"
	for _, other := range nodes.Others(away.ID) { // what is offered arrives, its parts do not
		nodes.Network.Set(cluster.Link{From: other.ID, To: away.ID}, cluster.Rule{Deaf: 8 << 10})
	}
	if err := away.Launch(); err != nil {
		t.Fatal(err)
	}
	view := awaitHealth(t, away, 503, func(view healthView) bool {
		return view.Raft.LeaderID != nil && len(view.Reasons) > 0 && view.Raft.Identity == "ok"
	})
	if view.Reasons[0] != "booting" {
		view = awaitHealth(t, away, 503, func(view healthView) bool { return view.Reasons[0] == "booting" && view.Raft.LeaderID != nil })
	}
	answers := []harness.Response{away.Client().Get("/api/v1/messages"), away.Client().Pop(s.queue, "wait=true&timeout=30000").Response}
	for _, write := range writes(s, deadLease) {
		answers = append(answers, away.Client().Post(write.path, write.body))
	}
	for _, answer := range answers {
		needEnvelope(t, answer, 503, "retry")
		needRetryAfter1(t, answer)
		if answer.Text("leader") != httpOf(nodes, uint64(*view.Raft.LeaderID)) || answer.Elapsed > promptly {
			t.Errorf("want the leader, at once, got %v", answer)
		}
	}
	nodes.Network.Heal()
	if err := nodes.AwaitHealthy(2*delivery, away); err != nil {
		t.Fatal(err)
	}
	need(t, away.Client().Get("/api/v1/messages"), 200)
	if installed, err := away.Logged("raft: snapshot installed index="); err != nil || installed != 1 {
		t.Errorf("%d snapshots were installed, %v", installed, err)
	}
}
