package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"queen/chaos/cluster"
	"queen/chaos/contract/harness"
)

// privateCluster starts three nodes of the test's own with additional environment variables; they end with the test.
func privateCluster(t *testing.T, env map[string]string) *cluster.Cluster {
	t.Helper()
	return privateClusterOf(t, cluster.Options{Env: env})
}

// privateClusterOf is privateCluster with whatever else a cluster can be made of. The nodes take one slot together: a test that has
// them is mostly waiting.
func privateClusterOf(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	privateBrokerSlots <- struct{}{}
	t.Cleanup(func() { <-privateBrokerSlots })
	options.Binary, options.Dir, options.Nodes = suite.binary, t.TempDir(), 3
	nodes, err := cluster.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Close(); err != nil {
			t.Error(err)
		}
	})
	return nodes
}

// leaderOf waits for the leader and returns it before the others.
func leaderOf(t *testing.T, nodes *cluster.Cluster) (leader *cluster.Node, others []*cluster.Node) {
	t.Helper()
	leader, err := nodes.AwaitLeader(delivery)
	if err != nil {
		t.Fatal(err)
	}
	return leader, nodes.Others(leader.ID)
}

// post is a call of a test that sends several at one time.
type post struct {
	path string
	body any
}

// sendAll sends the calls at one time and returns the answers in their order.
func sendAll(client *harness.Client, calls []post) []harness.Response {
	return race(len(calls), func(i int) harness.Response { return client.Post(calls[i].path, calls[i].body) })
}

// inDoubt are an ack of every kind and the two moves of a dead letter, each of which would work. They share nothing, so that
// they can be sent at one time.
func inDoubt(s *scene) (calls []post) {
	s.t.Helper()
	graves := s.as("graves")
	needVerdicts(s.t, graves.claim(2, 0, 1, 1).ack(dlqed(0, 1)), filed)
	for i, letter := range graves.needDeadLetters(0, 1) {
		route := []string{"replay", "retry"}[i]
		calls = append(calls, post{replayRoutes[route](graves, letter), nil})
	}
	for i, status := range []string{"completed", "failed", "retry", "dlq"} {
		reader := s.as(status)
		reader.leaseTime = 300
		message := reader.claim(1, 0, 0, 1).messages[0]
		body := single(reader, message, status)
		if i%2 > 0 {
			body = several(reader, ackItem(message, status))
		}
		calls = append(calls, post{ackRoutes[i%2], body})
	}
	return calls
}

// 2.7, 6.3 and 11.5, cluster 8.4: an ack, a nack or the move of a dead letter whose fate is not learnt before its deadline is
// outcome_unknown where the leader has changed meanwhile and timeout where it has not; other writes are timeout. The same call
// sent again is answered as the first one would have been.
//
// The node that is asked hears everybody, but what it forwards stays behind a large push which its network holds.
func TestAckThatALeaderChangeCutsIsInDoubt_2_7(t *testing.T) {
	t.Parallel()
	const (
		heldBytes = 8 << 10 // more than the nodes say without being asked
		soon      = 500 * time.Millisecond
		longer    = 8 * time.Second
	)
	// One stream, so that nothing overtakes the push; patience, so that no leader is replaced because the machine is busy.
	nodes := privateCluster(t, map[string]string{"QUEEN_RAFT_FWD_STREAMS": "1", "QUEEN_RAFT_ELECTION_MS": "2000"})
	leader, others := leaderOf(t, nodes)
	asked, next := others[0], others[1]
	s := newSceneAt(t, asked.Client(), nil, 3)
	doubtful := inDoubt(s)
	bystander := s.as("others")
	bystander.leaseTime = 300
	bystander.group = uniqueName(t)
	var certain []post
	for _, write := range writes(bystander, bystander.claim(1, 0, 0, 1).lease) {
		if !strings.HasPrefix(write.path, "/api/v1/ack") {
			certain = append(certain, post{write.path, write.body})
		}
	}

	sent := func() float64 {
		count, err := asked.Metric("queen_raft_forward_total", `"sent"`)
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	awaitSent := func(from float64, more int) {
		t.Helper()
		eventually(t, delivery, func() (bool, string) {
			got := int(sent() - from)
			return got >= more, fmt.Sprintf("%d of %d are on their way", got, more)
		})
	}
	for _, other := range nodes.Others(asked.ID) {
		nodes.Network.Set(cluster.Link{From: asked.ID, To: other.ID}, cluster.Rule{Deaf: heldBytes})
	}
	before := sent()
	held := make(chan harness.PushReply, 1)
	go func() { // ends with its push
		held <- asked.Client().WithDeadline(time.Minute).Push(harness.Item{Queue: s.queue + "-held", Payload: incompressible(32 * heldBytes)})
	}()
	awaitSent(before, 1)

	for i, answer := range sendAll(asked.Client().WithDeadline(soon), doubtful) {
		if needDeadlinePassed(t, answer); answer.Elapsed < soon {
			t.Errorf("%s: answered after %v", doubtful[i].path, answer.Elapsed)
		}
	}

	before = sent()
	answers := make(chan []harness.Response, 1)
	calls := append(append([]post{}, doubtful...), certain...)
	go func() { answers <- sendAll(asked.Client().WithDeadline(longer), calls) }() // ends with its calls
	awaitSent(before, len(calls))
	if moved := leader.Transfer(next.ID); !moved.OK {
		t.Fatalf("the leadership did not move: %v", moved.Response)
	}
	eventually(t, delivery, func() (bool, string) {
		health, err := asked.Health()
		return err == nil && health.Raft.LeaderID == next.ID, fmt.Sprint(health, err)
	})
	for i, answer := range <-answers {
		if i >= len(doubtful) {
			needDeadlinePassed(t, answer)
			continue
		}
		needEnvelope(t, answer, 503, "outcome_unknown")
		needExactKeys(t, answer.Object(), "error", "code")
		needRetryAfter1(t, answer)
		if answer.Elapsed < longer {
			t.Errorf("%s: answered after %v", calls[i].path, answer.Elapsed)
		}
	}

	nodes.Network.Heal()
	<-held
	for i, answer := range sendAll(asked.Client(), doubtful) {
		path := doubtful[i].path
		if !strings.HasPrefix(path, "/api/v1/ack") {
			if answer.Status != 404 { // what was held may have arrived
				needReplayed(t, answer, "moved")
			}
			continue
		}
		reply := harness.AckReply{Response: answer}
		if err := answer.Decode(&reply.Items); err != nil {
			t.Fatal(err)
		}
		want := released
		if strings.Contains(fmt.Sprint(doubtful[i].body), "status:dlq") {
			want = filed
		}
		needVerdicts(t, reply, want)
	}
	graves := s.as("graves")
	graves.needDeadLetters()
	for group, cursor := range map[string]int{"completed": 1, "failed": 0, "retry": 0, "dlq": 1} {
		s.as(group).needCursor(cursor)
	}
}

// 2.7 and 5.4, cluster 8.3: on a node whose majority is gone a pop is no_leader, whether it waits or not; a write and a read
// are timeout when their deadline comes first, and no_quorum when QUEEN_RAFT_NO_QUORUM_FAIL_MS does. What is refused works
// again once there is a majority.
func TestNodeWithoutAMajority_2_7(t *testing.T) {
	t.Parallel()
	const fail = 3 * time.Second
	nodes := privateCluster(t, map[string]string{
		"QUEEN_RAFT_READY_QUORUM_MS": "1000", "QUEEN_RAFT_NO_QUORUM_FAIL_MS": fmt.Sprint(fail.Milliseconds()),
	})
	_, others := leaderOf(t, nodes)
	left := others[0]
	gone := nodes.Others(left.ID)
	s := newSceneAt(t, left.Client(), nil, 3)
	s.group, s.leaseTime = uniqueName(t), 300
	doubtful := inDoubt(s)
	calls := append([]post{}, doubtful...)
	for _, write := range writes(s, s.claim(1, 0, 0, 1).lease) {
		calls = append(calls, post{write.path, write.body})
	}
	for _, node := range gone {
		node.Kill()
	}

	pops := []func(query string) harness.PopReply{
		func(query string) harness.PopReply { return s.client.Pop(s.queue, query) },
		func(query string) harness.PopReply { return s.client.PopPartition(s.queue, s.partition, query) },
		func(query string) harness.PopReply { return s.client.Discover("namespace=" + s.queue + "&" + query) },
	}
	queries := []string{"wait=false", "wait=true&timeout=60000"}
	popped := make(chan []harness.PopReply, 1)
	go func() { // ends with its pops
		popped <- race(len(pops)*len(queries), func(i int) harness.PopReply { return pops[i/len(queries)](queries[i%len(queries)]) })
	}()
	const soon = time.Second
	for i, answer := range sendAll(s.client.WithDeadline(soon), calls) {
		if needDeadlinePassed(t, answer); answer.Elapsed < soon || answer.Elapsed >= fail+promptly {
			t.Errorf("%s: answered after %v", calls[i].path, answer.Elapsed)
		}
	}
	for i, reply := range <-popped {
		needBody(t, reply.Response, 503, `{"error":"no leader is known","code":"no_leader"}`)
		if needRetryAfter1(t, reply.Response); reply.Elapsed > time.Second+promptly {
			t.Errorf("pop %d: answered after %v", i, reply.Elapsed)
		}
	}
	read := make(chan harness.Response, 1)
	go func() { read <- s.client.Get("/api/v1/messages?queue=" + s.queue) }() // ends with its read
	for i, answer := range append(sendAll(s.client, calls), <-read) {
		needBody(t, answer, 503, `{"error":"no majority of the voters answers","code":"no_quorum"}`)
		if needRetryAfter1(t, answer); answer.Elapsed < fail {
			t.Errorf("call %d: answered after %v", i, answer.Elapsed)
		}
	}

	if err := gone[0].Launch(); err != nil {
		t.Fatal(err)
	}
	if err := nodes.AwaitHealthy(2*delivery, left, gone[0]); err != nil {
		t.Fatal(err)
	}
	for i, answer := range sendAll(s.client, doubtful) {
		if answer.Status != 200 && (answer.Status != 404 || strings.HasPrefix(doubtful[i].path, "/api/v1/ack")) {
			t.Errorf("%s: got %v", doubtful[i].path, answer)
		}
	}
	s.as("fresh").claim(1, 0, 0, 1)
}

// 2.9: a write without timeoutMs has 30 s, one with too large a value 60 s. It takes a lost majority to see them pass.
func TestDefaultDeadlineOfAWriteAndItsCap_2_9(t *testing.T) {
	t.Parallel()
	if !longRun() {
		t.Skip("the deadlines take a minute: QUEEN_CONTRACT_LONG=1")
	}
	nodes := privateCluster(t, nil)
	_, others := leaderOf(t, nodes)
	s := newSceneAt(t, others[0].Client(), nil, 2)
	s.group, s.leaseTime = uniqueName(t), 300
	var calls []post
	for _, write := range writes(s, s.claim(1, 0, 0, 1).lease) {
		calls = append(calls, post{write.path, write.body}, post{write.path + "?timeoutMs=600000", write.body})
	}
	for _, node := range nodes.Others(others[0].ID) {
		node.Kill()
	}
	for i, answer := range sendAll(s.client, calls) {
		want := []time.Duration{30 * time.Second, 60 * time.Second}[i%2]
		if needDeadlinePassed(t, answer); answer.Elapsed < want || answer.Elapsed > want+promptly {
			t.Errorf("%s: want %v, answered after %v", calls[i].path, want, answer.Elapsed)
		}
	}
}
