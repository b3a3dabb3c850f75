package contract

import (
	"testing"

	"queen/chaos/contract/harness"
)

// awaitForgotten waits until the dedup window of the scene has passed its messages: the oldest txid can be stored again.
func (s *scene) awaitForgotten(offset int) {
	s.t.Helper()
	eventually(s.t, delivery, func() (bool, string) {
		reply := s.client.Push(harness.Item{Queue: s.queue, Partition: s.partition, Payload: 0, TransactionID: txid(offset)})
		need(s.t, reply.Response, 201)
		return reply.Items[0].Status == "queued", reply.String()
	})
}

// TestTxidResolvesWithinTheHashWindow: 6.4.4 and section 1, the hash window is the longest of dedupWindowSeconds,
// completedRetentionSeconds and 900 s; the dedup decision uses dedupWindowSeconds alone (4.6).
func TestTxidResolvesWithinTheHashWindow(t *testing.T) {
	t.Parallel()
	noFloor := privateBroker(t, map[string]string{"QUEEN_RAFT_TXN_WINDOW_MIN_S": "0"}).Client()
	cases := map[string]struct {
		client    *harness.Client
		completed int
		want      verdict
	}{
		"the floor of 900 s":              {suite.client, 0, kept},
		"completedRetentionSeconds":       {noFloor, 3600, kept},
		"neither of them is long enough":  {noFloor, 1, unresolvable},
		"the floor when the other is low": {suite.client, 1, kept},
	}
	t.Run("windows", func(t *testing.T) { // the broker lives until all of them are through
		for name, c := range cases {
			t.Run("6.4.4 "+name, func(t *testing.T) {
				s := newSceneAt(t, c.client, map[string]any{"dedupWindowSeconds": 1, "completedRetentionSeconds": c.completed}, 3)
				needVerdicts(t, s.redelivered(0, 2, 1).ack(retried(0)), released)
				s.awaitForgotten(2)
				needVerdicts(t, s.ackUnfenced(completed(1)), c.want)
				s.needCursor(map[bool]int{true: 2, false: 0}[c.want == kept])
			})
		}
	})
}

// TestCompletedAfterRetentionIsNoopWithinTheHashWindow: 6.7. What retention has removed is recognised as committed by
// its txid alone, so only while that is within the hash window.
func TestCompletedAfterRetentionIsNoopWithinTheHashWindow(t *testing.T) {
	t.Parallel()
	client := privateBroker(t, map[string]string{"QUEEN_RAFT_TXN_WINDOW_MIN_S": "0", "RETENTION_INTERVAL": "100"}).Client()
	for name, c := range map[string]struct {
		window int
		want   verdict
	}{"within": {3600, noop}, "beyond": {1, unresolvable}} {
		t.Run("6.7 "+name, func(t *testing.T) {
			s := newSceneAt(t, client, map[string]any{"dedupWindowSeconds": c.window}, 3)
			batch := s.redelivered(0, 2, 1)
			needVerdicts(t, batch.ack(completed(0)), kept)
			needVerdicts(t, batch.ack(completed(1, 2)), released)
			need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 1}), 200)
			awaitRetained(t, s, 0)
			need(t, client.Configure(s.queue, map[string]any{"maxWaitTimeSeconds": 0}), 200)
			if c.want != noop {
				s.awaitForgotten(2)
			}
			needVerdicts(t, s.ackUnfenced(completed(0, 1)), c.want)
			needVerdicts(t, s.ackUnfenced(failed(0)), unresolvable)
			needVerdicts(t, batch.ack(failed(0)), badLease)
			s.needCursor(3)
		})
	}
}
