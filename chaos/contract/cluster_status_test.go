package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen/chaos/cluster"
)

// memberView is a row of GET /api/v1/raft/members (cluster 7.3).
type memberView struct {
	NodeID         uint64
	Role, State    string
	Reachable      bool
	Local          bool
	Hostname       string
	HTTPAddr       string
	RaftAddr       string
	Term           uint64
	AppliedIndex   uint64
	CommittedIndex uint64
	MatchIndex     *uint64
	HeartbeatAgeMs *int64
	Identity       *string
	ClockSkewMs    *float64
	Error          *string
}

// membersOf asks a node for the members.
func membersOf(t *testing.T, node *cluster.Node) (leader *uint64, members []memberView) {
	t.Helper()
	answer := node.Client().Get("/api/v1/raft/members")
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "clusterId", "clusterEpoch", "leaderId", "term", "self", "voters", "members")
	if answer.Object()["self"] != number(node.ID) || fmt.Sprint(answer.Object()["voters"]) != numbers(1, 2, 3) {
		t.Fatalf("through node %d: got %v", node.ID, answer)
	}
	var view struct {
		LeaderID *uint64
		Members  []memberView
	}
	if err := answer.Decode(&view); err != nil {
		t.Fatal(err)
	}
	for _, row := range answer.Object()["members"].([]any) {
		member := row.(map[string]any)
		needExactKeys(t, member, "nodeId", "role", "state", "reachable", "local", "hostname", "httpAddr", "raftAddr", "term", "lastLogIndex",
			"appliedIndex", "committedIndex", "durableIndex", "purgedIndex", "snapshotIndex", "matchIndex", "lagEntries", "heartbeatAgeMs",
			"inflight", "identity", "clockSkewMs", "diskPct", "log", "store", "version", "kinds", "uptimeSeconds", "host", "error")
		needExactKeys(t, member["log"].(map[string]any), "bytes", "files")
		needExactKeys(t, member["store"].(map[string]any), "mapUsedPct", "usedBytes", "mapBytes", "readersInUse", "maxReaders", "lsmBytes", "valueLogBytes")
		needExactKeys(t, member["host"].(map[string]any), "cpuPct", "rssBytes", "anonBytes", "memTotalBytes", "diskUsedBytes", "diskTotalBytes")
	}
	return view.LeaderID, view.Members
}

// livePeers are the ids of the other members that a node takes for live.
func livePeers(t *testing.T, node *cluster.Node) string {
	t.Helper()
	answer := node.Client().Get("/api/v1/raft/liveness")
	need(t, answer, 200)
	needExactKeys(t, answer.Object(), "nodeId", "role", "term", "leaderId", "quorumAckMs", "liveWithinMs", "peers")
	if answer.Object()["nodeId"] != number(node.ID) || answer.Object()["liveWithinMs"] != number(liveWithinMs) {
		t.Fatalf("got %v", answer)
	}
	live := []uint64{}
	for _, row := range answer.Object()["peers"].([]any) {
		peer := row.(map[string]any)
		needExactKeys(t, peer, "nodeId", "live", "lastAckMs", "clockSkewMs")
		if id, err := peer["nodeId"].(json.Number).Int64(); err == nil && peer["live"] == true {
			live = append(live, uint64(id))
		}
	}
	return numbers(live...)
}

// cluster 7.3: every node tells of all members, of one that is gone too, and of itself without asking anybody.
func TestStatusRoutesOfACluster_7_3(t *testing.T) {
	t.Parallel()
	nodes := patientCluster(t)
	leader, others := leaderOf(t, nodes)
	for _, node := range nodes.Nodes() {
		eventually(t, delivery, func() (bool, string) { // a clock is measured with the first exchange
			leads, members := membersOf(t, node)
			if leads == nil || *leads != leader.ID || len(members) != 3 {
				return false, fmt.Sprint(members)
			}
			for i, member := range members {
				state := "follower"
				if member.NodeID == leader.ID {
					state = "leader"
				}
				if member.NodeID != uint64(i+1) || member.Role != "voter" || member.State != state || !member.Reachable || member.Local != (member.NodeID == node.ID) ||
					member.Hostname != fmt.Sprint("node-", member.NodeID) || member.HTTPAddr != httpOf(nodes, member.NodeID) ||
					member.RaftAddr != nodes.Network.Address(member.NodeID) || member.Term == 0 || member.AppliedIndex == 0 ||
					member.CommittedIndex < member.AppliedIndex || member.Identity == nil || *member.Identity != "ok" || member.Error != nil {
					t.Fatalf("through node %d: %+v", node.ID, member)
				}
				measured := member.MatchIndex != nil && member.HeartbeatAgeMs != nil && (member.Local || member.ClockSkewMs != nil)
				if !measured {
					return false, fmt.Sprintf("through node %d: %+v", node.ID, member)
				}
			}
			return true, ""
		})
		status := node.Client().Get("/api/v1/raft/status")
		need(t, status, 200)
		health, _ := node.Client().Get("/health").Object()["raft"].(map[string]any)
		for name := range health {
			if _, present := status.Object()[name]; !present {
				t.Errorf("%s of /health is not in the status", name)
			}
		}
		if len(status.Object()) != len(health)+4 || status.Object()["self"] != number(node.ID) || status.Object()["singleNode"] != false ||
			status.Object()["engine"] != "raft" || len(status.Object()["groups"].([]any)) != 1 {
			t.Errorf("got %v", status)
		}
	}

	gone, asked := others[0], others[1]
	both := numbers(min(leader.ID, gone.ID), max(leader.ID, gone.ID))
	eventually(t, delivery, func() (bool, string) { return livePeers(t, asked) == both, livePeers(t, asked) })
	gone.Kill()
	eventually(t, delivery, func() (bool, string) { return livePeers(t, asked) == numbers(leader.ID), livePeers(t, asked) })
	_, members := membersOf(t, asked)
	lost := members[gone.ID-1]
	if lost.State != "unreachable" || lost.Reachable || lost.Role != "voter" || lost.Error == nil || *lost.Error == "" || lost.Identity != nil ||
		!strings.HasPrefix(lost.RaftAddr, "127.0.0.1:") {
		t.Errorf("a member that is gone: %+v", lost)
	}
	needEnvelope(t, asked.Client().Get("/api/v1/raft/members?group=1"), 400, "bad_request")
}
