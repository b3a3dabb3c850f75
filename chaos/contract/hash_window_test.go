package contract

import (
	"fmt"
	"testing"

	"queen/chaos/contract/harness"
)

// TestTxidsResolveForTheHashWindow: 4.6 and 6.4, a txid resolves for the longest of dedupWindowSeconds,
// completedRetentionSeconds and the floor, which is 900 s unless it is set, while the dedup decision goes by
// dedupWindowSeconds alone. A `retry` without a lease shows it: it answers success when the txid resolves and changes nothing.
func TestTxidsResolveForTheHashWindow_4_6(t *testing.T) {
	t.Parallel()
	short := func(completed int) map[string]any {
		return map[string]any{"dedupWindowSeconds": 1, "completedRetentionSeconds": completed}
	}
	floorless := privateBroker(t, map[string]string{"QUEEN_RAFT_TXN_WINDOW_MIN_S": "0"}).Client()
	longer := []*scene{
		newHashScene(t, floorless, short(3600)),
		newHashScene(t, floorless, map[string]any{"dedupWindowSeconds": 3600, "completedRetentionSeconds": 0}),
		newHashScene(t, suite.client, short(0)), // the floor of 900 s
	}
	lapsing := newHashScene(t, floorless, short(0)) // the youngest: when its hash is gone, the others are older
	eventually(t, delivery, func() (bool, string) {
		reply := lapsing.ackUnfenced(retried(0))
		need(t, reply.Response, 200)
		return verdictOf(reply.Items[0]) == unresolvable, reply.String()
	})
	for i, s := range longer {
		needVerdicts(t, s.ackUnfenced(retried(0)), kept)
		if next, _ := s.positionOf(); next != 0 {
			t.Fatalf("a retry without a lease moved the cursor to %d", next)
		}
		if i == 1 {
			continue // its dedup window is the long one
		}
		eventually(t, delivery, func() (bool, string) {
			reply := s.client.Push(harness.Item{Queue: s.queue, Payload: 2, TransactionID: txid(0)})
			need(t, reply.Response, 201)
			return reply.Items[0].Status == "queued" && *reply.Items[0].Offset == 1, fmt.Sprint(reply)
		})
	}
}

// newHashScene is a queue of one message whose partition id is known and that the group has not read.
func newHashScene(t *testing.T, client *harness.Client, options map[string]any) *scene {
	t.Helper()
	s := newSceneAt(t, client, options, 1)
	finder := s.as("finder")
	needMessages(t, finder.pop(1, "commitOnDelivery=true"), txid(0))
	s.partitionID = finder.partitionID
	return s
}
