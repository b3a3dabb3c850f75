package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen/chaos/contract/harness"
)

// replayRoutes are the two routes of 11.5, which are one move.
var replayRoutes = map[string]func(s *scene, row deadLetter) string{
	"replay": func(_ *scene, row deadLetter) string { return "/api/v1/dlq/" + row.ID + "/replay" },
	"retry": func(s *scene, row deadLetter) string {
		return "/api/v1/messages/" + s.partitionID + "/" + row.TransactionID + "/retry"
	},
}

// needGone ends the test unless the reply is the 404 of 11.5.
func needGone(t *testing.T, reply harness.Response) {
	t.Helper()
	needJSON(t, reply, 404, `{"success":false,"result":"gone","error":"Message not found"}`)
}

// TestReplayAnswer: 11.5, the whole answer, of a move and of a duplicate.
func TestReplayAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	row := s.deadLetters()[0]
	path := replayRoutes["replay"](s, row)
	answer := func(result, id, status string, offset int) string {
		return fmt.Sprintf(`{"success":true,"result":%q,"queue":%q,"partition":"Default","consumerGroup":%q,"dlqId":%q,"originalTransactionId":"m0",`+
			`"replayedAs":{"index":0,"message_id":%q,"transaction_id":"dlq:%s","queueName":%q,"status":%q,"offset":%d},"dlqRowRemoved":%v}`,
			result, s.queue, s.group, row.ID, id, row.ID, s.queue, status, offset, result == "moved")
	}
	pushOne(t, s.client, harness.Item{Queue: s.queue, Payload: 0, TransactionID: "dlq:" + row.ID})
	needJSON(t, s.client.Post(path, nil), 200, answer("duplicate", "00000000-0000-0000-0000-000000000000", "duplicate", 1))
	s.needDeadLetters(0)
	need(t, s.client.Configure(s.queue, map[string]any{"dedupWindowSeconds": 0}), 200)
	moved := s.client.Post(path, nil)
	as, _ := moved.Object()["replayedAs"].(map[string]any)
	id, _ := as["message_id"].(string)
	if needJSON(t, moved, 200, answer("moved", id, "queued", 2)); !uuidV7.MatchString(id) {
		t.Errorf("want a new id, got %v", moved)
	}
	s.needDeadLetters()
}

// TestRetryTakesOverrides: 11.5, on both routes alike.
func TestRetryTakesOverrides(t *testing.T) {
	t.Parallel()
	for name, route := range replayRoutes {
		t.Run("11.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 1)
			fileOne(s, "")
			row := s.deadLetters()[0]
			to := newScene(t, map[string]any{"leaseTime": 44}, 0)
			to.partition = "p"
			waiting := parkReader(to)
			answer := needReplayed(t, s.client.Post(route(s, row), fmt.Sprintf(`{"queue":"\t%s ","partition":" p\n","other":1}`, to.queue)), "moved")
			if answer.Queue != to.queue || answer.Partition != "p" || answer.ReplayedAs.QueueName != to.queue || *answer.ReplayedAs.Offset != 0 {
				t.Fatalf("got %+v", answer)
			}
			reply := <-waiting // an ordinary message wakes who waits for it
			if needMessages(t, reply, "dlq:"+row.ID); reply.Partition != "p" {
				t.Errorf("got %v", reply.Response)
			}
			s.needDeadLetters()
			needGone(t, s.client.Post(route(s, row), nil))
			if detail := queueDetail(t, s.client, s.queue); detail.Totals.Total != 1 {
				t.Errorf("want nothing in the queue it came from, got %+v", detail.Totals)
			}
			needOptions(t, queueDetail(t, s.client, to.queue).Options, withOptions(map[string]any{"leaseTime": 44.0}))
		})
	}
}

// TestRacingReplaysMoveOneCopy: 11.5, append and deletion are one commit: of many calls one moves, the others find nothing.
func TestRacingReplaysMoveOneCopy(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	row := s.deadLetters()[0]
	moved := 0
	for _, reply := range race(12, func(i int) harness.Response {
		return s.client.Post(replayRoutes[[]string{"replay", "retry"}[i%2]](s, row), nil)
	}) {
		if reply.Status == 200 {
			needReplayed(t, reply, "moved")
			moved++
			continue
		}
		needGone(t, reply)
	}
	if moved != 1 {
		t.Errorf("want one move, got %d", moved)
	}
	needStored(t, s.client, s.queue, "m0", "dlq:"+row.ID)
}

// TestReplayIsOneCommitAcrossAKill: 11.5 and 16.1, whatever a kill cuts, every message is in one place: among the dead
// letters or, once, in the log. What was answered has happened.
func TestReplayIsOneCommitAcrossAKill(t *testing.T) {
	t.Parallel()
	const n, before = 60, 10
	broker := privateBroker(t, nil)
	s := newSceneAt(t, broker.Client(), nil, n)
	offsets := make([]int, n)
	for i := range offsets {
		offsets[i] = i
	}
	need(t, s.redelivered(0, n-1, 1).ack(dlqed(offsets...)).Response, 200)
	rows := s.deadLetters()
	answered := make(chan string, n)
	go func() { // ends when all calls are answered or broken
		defer close(answered)
		for _, row := range rows {
			if reply := s.client.Post(replayRoutes["replay"](s, row), nil); reply.Status == 200 {
				answered <- row.ID
			}
		}
	}()
	moved := map[string]bool{}
	for len(moved) < before {
		moved[<-answered] = true
	}
	if err := broker.Crash(); err != nil {
		t.Fatal(err)
	}
	for id := range answered {
		moved[id] = true
	}
	left := map[string]bool{}
	for _, row := range s.deadLetters() {
		left[row.ID] = true
	}
	copies := map[string]int{}
	for _, id := range browsedTxids(browse(t, s.client, "limit=1000&queue="+s.queue)) {
		copies[strings.TrimPrefix(id, "dlq:")]++
	}
	for _, row := range rows {
		if stays := left[row.ID]; copies[row.ID] != map[bool]int{true: 0, false: 1}[stays] || stays && moved[row.ID] {
			t.Errorf("%s: %d copies, still a dead letter: %v, its move answered: %v", row.ID, copies[row.ID], stays, moved[row.ID])
		}
		if reply := s.client.Post(replayRoutes["replay"](s, row), nil); left[row.ID] {
			needReplayed(t, reply, "moved")
		} else {
			needGone(t, reply)
		}
	}
	if detail := queueDetail(t, s.client, s.queue); detail.Totals.Total != 2*n || detail.Totals.DeadLetter != 0 {
		t.Errorf("want every message and its copy, got %+v", detail.Totals)
	}
}

// TestReplayKeepsTheProducer: 11.5, 11.1 and 11.2, the producerSub is that of the original, whoever replays.
func TestReplayKeepsTheProducer(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"JWT_ENABLED": "true", "JWT_SECRET": jwtSecret}).Client()
	as := func(sub string) *harness.Client {
		return client.WithToken(harness.Token(jwtSecret, claims("admin", map[string]any{"sub": sub})))
	}
	s := newSceneAt(t, as("alice"), nil, 1)
	s.client = as("operator")
	fileOne(s, "")
	needReplayed(t, as("bob").Post(replayRoutes["retry"](s, s.deadLetters()[0]), nil), "moved")
	rows := browse(t, s.client, "queue="+s.queue)
	if len(rows) != 2 {
		t.Fatalf("got %+v", rows)
	}
	for _, row := range rows {
		detail := s.client.Get("/api/v1/messages/" + row.PartitionID + "/" + row.TransactionID)
		if row.ProducerSub == nil || *row.ProducerSub != "alice" || detail.Text("producerSub") != "alice" {
			t.Errorf("want the producer of the original, got %+v and %v", row, detail)
		}
	}
	popped := s.pop(10)
	if need(t, popped.Response, 200); len(popped.Messages) != 1 || popped.Messages[0].ProducerSub == nil || *popped.Messages[0].ProducerSub != "alice" {
		t.Errorf("got %v", popped.Response)
	}
}

// TestReplayAndTheDiskGate: 11.5 and 2.10, a replay is a growing write: 507, and the row stays. Deleting rows is none.
func TestReplayAndTheDiskGate(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	s := newSceneAt(t, broker.Client(), nil, 2)
	fileOne(s, "")
	fileOne(s, "")
	rows := s.deadLetters()
	broker.SetEnv("QUEEN_RAFT_DISK_HIGH_PCT", "2") // any volume that holds a toolchain is fuller
	broker.SetEnv("QUEEN_RAFT_DISK_LOW_PCT", "1")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, delivery, func() (bool, string) { // the volume is measured once a second; an unknown id moves nothing
		reply := s.client.Post("/api/v1/dlq/"+deadLease+"/replay", nil)
		return reply.Status == 507, reply.String()
	})
	for _, route := range replayRoutes {
		needEnvelope(t, s.client.Post(route(s, rows[0]), nil), 507, "storage_full")
	}
	s.needDeadLetters(0, 1)
	need(t, s.client.Delete("/api/v1/messages/"+s.partitionID+"/m0"), 200)
	needJSON(t, s.client.Delete("/api/v1/dlq?queue="+s.queue), 200,
		fmt.Sprintf(`{"success":true,"deleted":1,"queue":%q,"consumerGroup":null}`, s.queue))
}

// TestReplayIntoAnEncryptingQueue: 11.5, 4.5 and state.md 8, a row that is stored in clear is encrypted on its way into a
// queue that encrypts, and never stored there in clear: without a usable key it stays where it is. An envelope is moved as
// it is, with or without a key.
func TestReplayIntoAnEncryptingQueue(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, map[string]string{"QUEEN_ENCRYPTION_KEY": strings.Repeat("0123456789abcdef", 4)})
	client := broker.Client()
	clear, secret := newSceneAt(t, client, nil, 3), newSceneAt(t, client, map[string]any{"encryptionEnabled": true}, 2)
	for _, s := range []*scene{clear, secret} {
		for range s.pushed {
			fileOne(s, "")
		}
	}
	toSecret, toClear := map[string]any{"queue": secret.queue, "partition": "moved"}, map[string]any{"queue": clear.queue, "partition": "moved"}
	replay := func(s *scene, row int, route string, to any) harness.Response {
		letters := s.deadLetters()
		return client.Post(replayRoutes[route](s, letters[row]), to)
	}
	needStoredAs := func(queue string, encrypted ...bool) {
		t.Helper()
		rows := browse(t, client, "partition=moved&queue="+queue)
		slices.Reverse(rows)
		got := make([]bool, len(rows))
		for i, row := range rows {
			got[i] = row.IsEncrypted
		}
		if !slices.Equal(got, encrypted) {
			t.Fatalf("%s: want encrypted %v, got %v", queue, encrypted, got)
		}
	}
	needReplayed(t, replay(clear, 0, "replay", toSecret), "moved")
	needReplayed(t, replay(clear, 0, "retry", toSecret), "moved")
	needReplayed(t, replay(secret, 0, "replay", toClear), "moved")
	needStoredAs(secret.queue, true, true)
	needStoredAs(clear.queue, true)
	popped := client.PopPartition(secret.queue, "moved", "batch=10")
	if needMessageCount(t, popped, 2); string(popped.Messages[0].Data) != "0" || string(popped.Messages[1].Data) != "1" {
		t.Errorf("the wire never shows it, got %v", popped.Response)
	}
	// A queue that has begun to encrypt since, and a payload that does not fit into the row.
	own := newSceneAt(t, client, map[string]any{}, 0)
	large := incompressible(200_000)
	pushOne(t, client, harness.Item{Queue: own.queue, Payload: large, TransactionID: "m0"})
	fileOne(own, "")
	need(t, client.Configure(own.queue, map[string]any{"encryptionEnabled": true}), 200)
	needReplayed(t, replay(own, 0, "retry", nil), "moved")
	copied := browse(t, client, "limit=1&queue="+own.queue)[0]
	if !copied.IsEncrypted || copied.Offset != 1 || !sameJSON(copied.Data, mustJSON(large)) {
		t.Errorf("got the copy at offset %d, encrypted %v, with %d bytes", copied.Offset, copied.IsEncrypted, len(copied.Data))
	}
	broker.SetEnv("QUEEN_ENCRYPTION_KEY", "")
	if err := broker.Restart(); err != nil {
		t.Fatal(err)
	}
	for route := range replayRoutes {
		reply := replay(clear, 0, route, toSecret)
		if needEnvelope(t, reply, 503, "encryption_unavailable"); reply.Header.Get("Retry-After") != "1" {
			t.Errorf("want Retry-After 1, got %q", reply.Header.Get("Retry-After"))
		}
	}
	clear.needDeadLetters(2)
	needStoredAs(secret.queue, true, true)
	needReplayed(t, replay(secret, 0, "retry", toSecret), "moved")
	needReplayed(t, replay(clear, 0, "replay", toClear), "moved")
	needStoredAs(secret.queue, true, true, true)
	needStoredAs(clear.queue, true, false)
}
