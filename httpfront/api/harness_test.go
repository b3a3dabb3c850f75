package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"queen/actors"
	"queen/httpfront"
	"queen/httpfront/api/history"
	"queen/raftlog"
	"queen/raftlog/command"
	"queen/store"
)

// testNode is a whole node in this process: store, actors, log, handlers and HTTP, over a temporary directory.
type testNode struct {
	t       *testing.T
	api     *API
	raft    *raftlog.Node
	url     string
	address string
	ahead   atomic.Uint64                 // microseconds that reads see the log's time ahead, so that a test can let time pass
	change  atomic.Pointer[func(*Health)] // what Health says otherwise
	leader  string                        // what Leader answers
	leaders atomic.Uint64                 // what LeaderChanges answers
	peers   []Peer                        // what Peers answers
	looks   atomic.Int64                  // linearizable views that were opened since the start
}

// Health implements Node.
func (n *testNode) Health() Health {
	h := Health{Version: "1.2.3", NodeID: 1, Kinds: 7, Identity: "ok", DiskPercent: 12}
	if n.raft != nil {
		h.Status = n.raft.Status()
		h.LeaderID, h.Term = h.Status.LeaderID, h.Status.Term
	}
	if change := n.change.Load(); change != nil {
		(*change)(&h)
	}
	return h
}

// Leader implements Node.
func (n *testNode) Leader() string { return n.leader }

// LeaderChanges implements Node.
func (n *testNode) LeaderChanges() uint64 { return n.leaders.Load() }

// Members implements Node.
func (n *testNode) Members() Members {
	return Members{Self: 1, Voters: []uint64{1}, Members: []MemberView{{NodeID: 1, Role: "voter", State: "leader", Local: true}}}
}

// Peers implements Node.
func (n *testNode) Peers() []Peer { return n.peers }

// LiveWithin implements Node.
func (n *testNode) LiveWithin() time.Duration { return 2 * time.Second }

// openGate never refuses.
type openGate struct{}

func (openGate) Closed() *httpfront.Error { return nil }

// noCipher has no key.
type noCipher struct{}

func (noCipher) Usable() bool                { return false }
func (noCipher) Seal([]byte) ([]byte, error) { return nil, io.ErrUnexpectedEOF }
func (noCipher) Open([]byte) ([]byte, error) { return nil, io.ErrUnexpectedEOF }

type testMachine struct{ broker *actors.Broker }

func (m testMachine) Apply(entries []raftlog.CommittedEntry) error {
	for _, e := range entries {
		if err := m.broker.Apply(e.Index, e.Term, e.Data); err != nil {
			return err
		}
	}
	return m.broker.Flush()
}

func (m testMachine) AppliedIndex() (index, term uint64) { return m.broker.AppliedIndex() }
func (m testMachine) DurablePoint() (uint64, error)      { return m.broker.DurablePoint() }
func (l testLog) Now() uint64                            { return l.raft.Now() + l.ahead.Load() }
func (l testLog) Leads() bool                            { return l.raft.Leads() }
func (l testLog) Settled(id command.RequestID)           { l.raft.Settled(id) }
func (l testLog) Propose(p actors.Proposal) error        { return l.raft.Propose(l.proposal(&p)) }
func (l testLog) ReadIndex(ctx context.Context) (now uint64, e error) {
	l.looks.Add(1)
	_, now, e = l.raft.ReadPoint(ctx)
	return now + l.ahead.Load(), e
}

// CallLeader of a group of one voter finds no other leader.
func (l testLog) CallLeader(context.Context, []byte) ([]byte, error) {
	return nil, actors.ErrNoLeader
}

type testLog struct {
	raft  *raftlog.Node
	ahead *atomic.Uint64
	looks *atomic.Int64
}

func (l testLog) proposal(p *actors.Proposal) raftlog.Proposal {
	proposal := raftlog.Proposal{Item: p.Item, Gone: p.Gone, Dropped: p.Dropped, Weight: raftlog.Weight{Keys: p.Keys, Bytes: p.Bytes}}
	if !p.Arrived.IsZero() {
		proposal.ArrivedMonotonic = l.raft.Monotonic() - time.Since(p.Arrived)
	}
	if riders := p.Riders; riders != nil {
		proposal.Riders = func() (list []raftlog.Proposal) {
			for _, rider := range riders() {
				list = append(list, l.proposal(&rider))
			}
			return list
		}
	}
	return proposal
}

// startNode runs a node whose history is written every interval. It is stopped when the test ends.
func startNode(t *testing.T, flushEvery time.Duration) *testNode {
	t.Helper()
	return startNodeWith(t, flushEvery, httpfront.Config{MaxBodyBytes: 1 << 20, AdmitBytes: 1 << 20})
}

// startNodeWith is startNode with another HTTP server.
func startNodeWith(t *testing.T, flushEvery time.Duration, front httpfront.Config) *testNode {
	t.Helper()
	dir := t.TempDir()
	n := &testNode{t: t}
	recorder := history.Open(history.Options{
		Dir: filepath.Join(dir, "history"), FlushEvery: flushEvery, NodeKeep: time.Hour, QueueKeep: time.Hour,
		MaxQueueRows: 1000, Log: zerolog.Nop(),
	})
	n.api = New(Config{
		PushTimeout: 10 * time.Second, PopTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, SizesMax: 100,
		ServerID: "test", Port: 1, Cipher: noCipher{}, History: recorder, GroupLagMaxCursors: 1000,
		KV:     KVConfig{ValueBytes: 64 << 10, ReadBytes: 4 << 20, Ops: 256, Keys: 1024},
		Timers: TimerLimits{MaxOps: 4, MaxPayloadBytes: 1 << 10, HorizonSeconds: 3600, InflatedBytes: 1 << 20},
	}, n, openGate{})
	front.Log = zerolog.Nop()
	server := must(httpfront.New(front))
	server.Handle(n.api.Routes(server))
	port := must(net.Listen("tcp", "127.0.0.1:0"))
	n.address = port.Addr().String()
	n.url = "http://" + n.address
	check(t, server.Start(port))

	state := must(store.Open(store.Options{Dir: filepath.Join(dir, "store"), Logger: zerolog.Nop()}))
	broker := must(actors.NewBroker(actors.Config{
		Store: state, Log: zerolog.Nop(), Observer: n.api.Observer(),
		Retention: actors.RetentionConfig{Interval: 50 * time.Millisecond, BatchAppends: 100, VisitPartitions: 100},
		Timers: actors.TimersConfig{
			Tick: 5 * time.Millisecond, Batch: 256, MaxBytes: 1 << 20, MaxPayloadBytes: 1 << 20,
			Backoff: command.TimerBackoff{MinMs: 10, MaxMs: 20, TransientMs: 10, MaxAttempts: 2},
		},
	}))
	options := raftlog.DefaultOptions(filepath.Join(dir, "raft"), 1)
	options.Observer = n.api.Observer()
	n.raft = must(raftlog.Open(options, testMachine{broker}))
	log := testLog{n.raft, &n.ahead, &n.looks}
	broker.Start(log)
	n.api.Connect(broker)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(log.ReadIndex(ctx))
	n.looks.Store(0)
	server.Open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		broker.AnswerParked()
		check(t, server.Stop(ctx))
		recorder.Close()
		check(t, n.raft.Close(ctx))
		broker.Stop()
		check(t, state.Close())
	})
	return n
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// call sends a request and returns the body; any status but those of success fails the test.
func (n *testNode) call(method, path, body string) []byte {
	n.t.Helper()
	status, answer := n.try(method, path, body)
	if status/100 != 2 {
		n.t.Fatalf("%s %s: got %d %s", method, path, status, answer)
	}
	return answer
}

func (n *testNode) try(method, path, body string) (status int, answer []byte) {
	n.t.Helper()
	request := must(http.NewRequest(method, n.url+path, bytes.NewReader([]byte(body))))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, must(io.ReadAll(response.Body))
}

func (n *testNode) get(path string, into any) {
	n.t.Helper()
	if answer := n.call("GET", path, ""); json.Unmarshal(answer, into) != nil {
		n.t.Fatalf("GET %s: got %s", path, answer)
	}
}

// push stores messages 0 up to count in a partition.
func (n *testNode) push(queue, partition string, count int) {
	n.t.Helper()
	type item struct {
		Queue     string `json:"queue"`
		Partition string `json:"partition"`
		Payload   int    `json:"payload"`
	}
	items := make([]item, count)
	for i := range items {
		items[i] = item{queue, partition, i}
	}
	n.call("POST", "/api/v1/push", string(must(json.Marshal(map[string]any{"items": items}))))
}

type popped struct {
	LeaseID  string `json:"leaseId"`
	Messages []struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
	} `json:"messages"`
}

func (n *testNode) pop(queue, parameters string) (p popped) {
	n.t.Helper()
	if answer := n.call("GET", "/api/v1/pop/queue/"+queue+"?"+parameters, ""); len(answer) > 0 && json.Unmarshal(answer, &p) != nil {
		n.t.Fatalf("got %s", answer)
	}
	return p
}

func (n *testNode) ack(group, status string, p popped) {
	n.t.Helper()
	var items []string
	for _, m := range p.Messages {
		items = append(items, fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"status":%q,"error":"because"}`,
			m.TransactionID, m.PartitionID, p.LeaseID, status))
	}
	body := fmt.Sprintf(`{"consumerGroup":%q,"acknowledgments":[%s]}`, group, strings.Join(items, ","))
	if answer := n.call("POST", "/api/v1/ack/batch", body); bytes.Contains(answer, []byte(`"success":false`)) {
		n.t.Fatalf("ack: got %s", answer)
	}
}

// eventually polls a condition for up to 10 s.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
