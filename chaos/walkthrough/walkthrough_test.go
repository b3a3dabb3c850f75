package walkthrough

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// tour is one walk through the steps: what a step has to know from those before it.
type tour struct {
	fleet   fleet
	clients [nodeCount]*harness.Client
	held    harness.Message // what the last pop delivered
	stopped int             // the leader that was stopped in step 6
	stored  []string        // transaction ids of everything that was pushed, in order
}

// step is one row of operations 1.4, under its title in the README.
type step struct {
	title string
	do    func(*tour, *testing.T)
}

func steps() []step {
	return []step{
		{"Start", (*tour).start},
		{"Who leads", (*tour).whoLeads},
		{"Push through node 1", func(w *tour, t *testing.T) { w.push(t, 1, "ord-1", 0) }},
		{"Pop through node 2", func(w *tour, t *testing.T) { w.pop(t, 2, "ord-1") }},
		{"Ack through node 3", func(w *tour, t *testing.T) { w.ack(t, 3) }},
		{"Stop the leader", (*tour).stopLeader},
		{"Work through the other two", (*tour).workWithTwo},
		{"Start it again", (*tour).startAgain},
		{"Roll to another release", (*tour).roll},
		{"Lose the majority", (*tour).loseMajority},
		{"Bring it back", (*tour).bringBack},
		{"Remove everything", (*tour).remove},
	}
}

func TestWalkthrough(t *testing.T) {
	w := &tour{fleet: newFleet(t)}
	for node := 1; node <= nodeCount; node++ {
		w.clients[node-1] = harness.NewClient(w.fleet.URL(node))
		t.Cleanup(w.clients[node-1].Close)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for node := 1; node <= nodeCount; node++ {
			log, err := w.fleet.Log(node)
			t.Logf("node %d (%v):\n%s", node, err, tail(log))
		}
	})
	for i, step := range steps() {
		walked := t.Run(fmt.Sprintf("%d %s", i+1, step.title), func(t *testing.T) { step.do(w, t) })
		if !walked {
			return // the next steps build on this one
		}
	}
}

func (w *tour) start(t *testing.T) {
	began := time.Now()
	if err := w.fleet.Up(); err != nil {
		t.Fatal(err)
	}
	within(t, "start of three nodes", time.Since(began), 8*time.Second)
	for node := 1; node <= nodeCount; node++ {
		if health := w.health(node); health.code != http.StatusOK {
			t.Errorf("node %d: %+v", node, health)
		}
	}
}

func (w *tour) whoLeads(t *testing.T) {
	var roles []string
	for node := 1; node <= nodeCount; node++ {
		roles = append(roles, w.health(node).Raft.Role)
	}
	slices.Sort(roles)
	if want := []string{"follower", "follower", "leader"}; !slices.Equal(roles, want) {
		t.Errorf("roles %v, want %v", roles, want)
	}
}

const queue, partition = "orders", "customer-7"

func item(txid string) harness.Item {
	return harness.Item{Queue: queue, Partition: partition, TransactionID: txid, Payload: map[string]any{"total": 42}}
}

// push pushes a new message and expects it at the offset.
func (w *tour) push(t *testing.T, node int, txid string, offset int64) {
	t.Helper()
	reply := w.client(node).Push(item(txid))
	if reply.Status != http.StatusCreated || len(reply.Items) != 1 || reply.Items[0].Status != "queued" || reply.Items[0].Offset == nil || *reply.Items[0].Offset != offset {
		t.Fatalf("push through node %d: %v, want 201, queued, offset %d", node, reply.Response, offset)
	}
	w.stored = append(w.stored, txid)
}

// pop takes the message out of the queue and holds it for ack.
func (w *tour) pop(t *testing.T, node int, txid string) {
	t.Helper()
	reply := w.client(node).Pop(queue, "wait=true&timeout=5000")
	if reply.Status != http.StatusOK || len(reply.Messages) != 1 || reply.Messages[0].TransactionID != txid || string(reply.Messages[0].Data) != `{"total":42}` {
		t.Fatalf("pop through node %d: %v, want %s", node, reply.Response, txid)
	}
	w.held = reply.Messages[0]
}

func (w *tour) ack(t *testing.T, node int) {
	t.Helper()
	reply := w.client(node).Ack("", w.held.Ack("completed"))
	if reply.Status != http.StatusOK || len(reply.Items) != 1 || !reply.Items[0].Success || !reply.Items[0].LeaseReleased {
		t.Fatalf("ack through node %d: %v, want success and leaseReleased", node, reply.Response)
	}
}

// handedOff is the line of a node that gave its leadership away in order.
var handedOff = regexp.MustCompile(`raft: leadership handed off to=(\d+) ms=(\d+)`)

func (w *tour) stopLeader(t *testing.T) {
	w.stopped = int(*w.health(1).Raft.LeaderID)
	others := w.others(w.stopped)
	stopping := make(chan error, 1)
	began := time.Now()
	go func() { stopping <- w.fleet.Stop(w.stopped) }()
	var leader uint64
	eventually(t, "another node leads", time.Second+w.commandTime(), func() bool {
		for _, node := range others {
			if raft := w.health(node).Raft; raft.LeaderID != nil && *raft.LeaderID != uint64(w.stopped) {
				leader = *raft.LeaderID
				return true
			}
		}
		return false
	})
	t.Logf("node %d leads %v after the command to stop node %d", leader, time.Since(began).Round(time.Millisecond), w.stopped)
	if err := <-stopping; err != nil {
		t.Fatal(err)
	}
	log, err := w.fleet.Log(w.stopped)
	if err != nil {
		t.Fatal(err)
	}
	matches := handedOff.FindAllStringSubmatch(log, -1)
	if len(matches) == 0 {
		t.Fatalf("node %d has not logged a hand-off:\n%s", w.stopped, tail(log))
	}
	last := matches[len(matches)-1]
	ms, err := strconv.Atoi(last[2])
	if err != nil || last[1] != strconv.FormatUint(leader, 10) {
		t.Errorf("%q: want to=%d", last[0], leader)
	}
	within(t, "hand-off", time.Duration(ms)*time.Millisecond, 120*time.Millisecond)
}

// commandTime is what the command itself may need before a node hears of it.
func (w *tour) commandTime() time.Duration {
	if _, containers := w.fleet.(*compose); containers {
		return time.Second
	}
	return 200 * time.Millisecond
}

func (w *tour) workWithTwo(t *testing.T) {
	others := w.others(w.stopped)
	w.push(t, others[0], "ord-2", 1)
	w.pop(t, others[1], "ord-2")
	w.ack(t, others[0])
}

func (w *tour) startAgain(t *testing.T) {
	if err := w.fleet.Start(w.stopped); err != nil {
		t.Fatal(err)
	}
	// An idle leader commits a tick now and then: the three are compared until one look meets no tick.
	eventually(t, "the node that was away is level", 5*time.Second, func() bool {
		returned := w.health(w.stopped).Raft
		if returned.LeaderID == nil {
			return false
		}
		leader := w.health(int(*returned.LeaderID)).Raft
		return returned.Applied == returned.Commit && returned.Commit == leader.Commit && returned.Lag == 0
	})
}

func (w *tour) roll(t *testing.T) {
	began := time.Now()
	for node := 1; node <= nodeCount; node++ {
		if err := w.fleet.Roll(node); err != nil {
			t.Fatal(err)
		}
		if version := w.health(node).Version; version != nextVersion {
			t.Errorf("node %d runs %s, want %s", node, version, nextVersion)
		}
	}
	reply := w.client(2).Push(item("ord-1"))
	if reply.Status != http.StatusCreated || len(reply.Items) != 1 || reply.Items[0].Status != "duplicate" {
		t.Errorf("an earlier push: %v, want duplicate", reply.Response)
	}
	within(t, "roll of three nodes", time.Since(began), 18*time.Second)
	w.everythingIsThere(t, "after-the-roll")
}

// everythingIsThere reads everything through every node, as a group of its own each.
func (w *tour) everythingIsThere(t *testing.T, group string) {
	t.Helper()
	for node := 1; node <= nodeCount; node++ {
		reply := w.client(node).Pop(queue, fmt.Sprintf("consumerGroup=%s-%d&subscriptionMode=all&batch=100", group, node))
		if reply.Status != http.StatusOK || !slices.Equal(reply.TransactionIDs(), w.stored) {
			t.Errorf("node %d holds %v, want %v: %v", node, reply.TransactionIDs(), w.stored, reply.Response)
		}
	}
}

const lastTxid = "ord-9"

func (w *tour) loseMajority(t *testing.T) {
	for node := 1; node <= 2; node++ {
		if err := w.fleet.Stop(node); err != nil {
			t.Fatal(err)
		}
	}
	lost := time.Now()
	pushed := make(chan harness.PushReply, 1)
	go func() { pushed <- w.client(3).Push(item(lastTxid)) }()
	eventually(t, "node 3 is not ready", 5*time.Second, func() bool { return w.health(3).code == http.StatusServiceUnavailable })
	t.Logf("node 3 answers 503 %v after the majority was lost", time.Since(lost).Round(time.Millisecond))

	reply := <-pushed
	if reply.Status != http.StatusServiceUnavailable || reply.Header.Get("Retry-After") != "1" ||
		string(reply.Body) != `{"error":"the request deadline elapsed","code":"timeout"}` {
		t.Errorf("push without a majority: %v, retry-after %q", reply.Response, reply.Header.Get("Retry-After"))
	}
	if reply.Elapsed < 29*time.Second {
		t.Errorf("it was given up after %v, want 30s", reply.Elapsed)
	}
	within(t, "push without a majority", reply.Elapsed-30*time.Second, time.Second)
	if code := w.health(3).code; code != http.StatusServiceUnavailable {
		t.Errorf("node 3 answers %d at the end", code)
	}
}

func (w *tour) bringBack(t *testing.T) {
	for node := 1; node <= 2; node++ { // not all: Compose waits for none that is unhealthy, as node 3 is until its next check
		if err := w.fleet.Start(node); err != nil {
			t.Fatal(err)
		}
	}
	reply := w.client(3).Push(item(lastTxid))
	if reply.Status != http.StatusCreated || len(reply.Items) != 1 || reply.Items[0].Status != "queued" && reply.Items[0].Status != "duplicate" {
		t.Fatalf("the same push again: %v, want queued or duplicate", reply.Response)
	}
	t.Logf("the push that nobody knew the fate of: %s", reply.Items[0].Status)
	w.stored = append(w.stored, lastTxid)
	w.everythingIsThere(t, "in-the-end")
}

func (w *tour) remove(t *testing.T) {
	left, err := w.fleet.Remove()
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

func (w *tour) client(node int) *harness.Client { return w.clients[node-1] }

// others lists the other nodes in order.
func (w *tour) others(node int) []int {
	return slices.DeleteFunc([]int{1, 2, 3}, func(other int) bool { return other == node })
}

// health is what the walkthrough reads of /health.
type health struct {
	Version string
	Raft    struct {
		Role     string
		LeaderID *uint64 `json:"leaderId"`
		Applied  uint64
		Commit   uint64
		Lag      int64
	}
	code int
}

// health asks a node; one that gives no answer has the code 0.
func (w *tour) health(node int) health {
	reply := w.client(node).Get("/health")
	answer := health{code: reply.Status}
	if reply.Err != nil || json.Unmarshal(reply.Body, &answer) != nil {
		return health{}
	}
	return answer
}

// within logs a measured time and fails the test when it is longer than promised, times the patience.
func within(t *testing.T, what string, took, promised time.Duration) {
	t.Helper()
	t.Logf("%s: %v (promised %v)", what, took.Round(time.Millisecond), promised)
	if took > patient(promised) {
		t.Errorf("%s took %v, want %v at most", what, took, patient(promised))
	}
}

func patient(promised time.Duration) time.Duration {
	return time.Duration(float64(promised) * *patience)
}

// eventually looks until a condition holds, and fails the test after the promised time, times the patience.
func eventually(t *testing.T, what string, promised time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patient(promised))
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patient(promised), what)
		}
		<-look.C
	}
}

// tail is the end of a log, for a failure message.
func tail(log string) string { return log[max(0, len(log)-4000):] }

// TestReadmeHasTheSteps keeps the README and this test telling the same (promise 1).
func TestReadmeHasTheSteps(t *testing.T) {
	content, err := os.ReadFile("../../deploy/compose/three-node/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, step := range steps() {
		want = append(want, fmt.Sprintf("### %d. %s", i+1, step.title))
	}
	if got := regexp.MustCompile(`(?m)^### .*$`).FindAllString(string(content), -1); !slices.Equal(got, want) {
		t.Errorf("the README has the steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
