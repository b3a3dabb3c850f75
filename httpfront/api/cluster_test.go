package api

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// keys are the members of a JSON object, sorted.
func keys(t *testing.T, body []byte) []string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func member(t *testing.T, body []byte, name string) json.RawMessage {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return object[name]
}

func wantKeys(t *testing.T, body []byte, names ...string) {
	t.Helper()
	slices.Sort(names)
	if got := keys(t, body); !slices.Equal(got, names) {
		t.Errorf("got %q\nwant %q", got, names)
	}
}

// TestClusterRoutesHaveTheirMembers: the names of cluster 7.1 and 7.3, no more and no less.
func TestClusterRoutesHaveTheirMembers(t *testing.T) {
	n := startNode(t, time.Hour)
	n.peers = []Peer{{NodeID: 2}}
	inRaft := []string{"role", "leader", "leaderId", "term", "applied", "commit", "lag", "lagEntries", "quorumAckMs", "storageReady",
		"clusterVersion", "kinds", "clusterId", "clusterEpoch", "nodeId", "identity", "voters", "learners", "diskPct", "storageFull", "apply"}
	health := n.call("GET", "/health", "")
	wantKeys(t, health, "status", "engine", "version", "reasons", "raft")
	wantKeys(t, member(t, health, "raft"), inRaft...)
	status := n.call("GET", "/api/v1/raft/status", "")
	wantKeys(t, status, append(slices.Clone(inRaft), "self", "singleNode", "engine", "groups")...)
	var groups []json.RawMessage
	if err := json.Unmarshal(member(t, status, "groups"), &groups); err != nil || len(groups) != 1 {
		t.Fatalf("groups %s", member(t, status, "groups"))
	}
	wantKeys(t, groups[0], "group", "role", "leader", "leaderId", "term", "applied", "commit", "lag", "lagEntries", "quorumAckMs",
		"storageReady", "clusterVersion", "apply")

	liveness := n.call("GET", "/api/v1/raft/liveness", "")
	wantKeys(t, liveness, "nodeId", "role", "term", "leaderId", "quorumAckMs", "liveWithinMs", "peers")
	if got := string(member(t, liveness, "peers")); got != `[{"nodeId":2,"live":false,"lastAckMs":null,"clockSkewMs":null}]` {
		t.Errorf("peers %s", got)
	}

	answer := n.call("GET", "/api/v1/raft/members?group=0", "")
	wantKeys(t, answer, "clusterId", "clusterEpoch", "leaderId", "term", "self", "voters", "members")
	var members []json.RawMessage
	if err := json.Unmarshal(member(t, answer, "members"), &members); err != nil || len(members) != 1 {
		t.Fatalf("members %s", member(t, answer, "members"))
	}
	wantKeys(t, members[0], "nodeId", "role", "state", "reachable", "local", "hostname", "httpAddr", "raftAddr", "term", "lastLogIndex",
		"appliedIndex", "committedIndex", "durableIndex", "purgedIndex", "snapshotIndex", "matchIndex", "lagEntries",
		"heartbeatAgeMs", "inflight", "identity", "clockSkewMs", "diskPct", "log", "store", "version", "kinds", "uptimeSeconds", "host", "error")
	wantKeys(t, member(t, members[0], "log"), "bytes", "files")
	wantKeys(t, member(t, members[0], "store"), "mapUsedPct", "usedBytes", "mapBytes", "readersInUse", "maxReaders", "lsmBytes", "valueLogBytes")
	wantKeys(t, member(t, members[0], "host"), "cpuPct", "rssBytes", "anonBytes", "memTotalBytes", "diskUsedBytes", "diskTotalBytes")
	if status, body := n.try("GET", "/api/v1/raft/members?group=1", ""); status != 400 {
		t.Errorf("group 1: %d %s", status, body)
	}
}

func TestStateHashTellsStatesApart(t *testing.T) {
	n := startNode(t, time.Hour)
	type hashed struct {
		Index uint64
		Hash  string
	}
	var before, again, after hashed
	n.get("/api/v1/system/raft/state-hash", &before)
	n.get("/api/v1/system/raft/state-hash", &again)
	n.push("q", "p", 1)
	n.get("/api/v1/system/raft/state-hash", &after)
	if len(before.Hash) != 64 || before.Index == again.Index && before != again {
		t.Errorf("the same state twice: %+v, %+v", before, again)
	}
	if after.Index <= before.Index || after.Hash == before.Hash {
		t.Errorf("before a push %+v, after it %+v", before, after)
	}
	n.api.hashing.Store(true)
	if status, body := n.try("GET", "/api/v1/system/raft/state-hash", ""); status != 429 {
		t.Errorf("two at a time: %d %s", status, body)
	}
}
