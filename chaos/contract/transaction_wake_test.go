package contract

import (
	"testing"

	"queen/chaos/contract/harness"
)

// TestTransactionReleaseWakesAParkedPop: 8.6 and 5.7, waiters are woken by what a transaction releases or moves, not
// only by what it pushes.
func TestTransactionReleaseWakesAParkedPop(t *testing.T) {
	t.Parallel()
	acks := func(marks ...mark) func(*scene, claim) map[string]any {
		return func(_ *scene, batch claim) map[string]any { return operations(batch.operations(marks...)) }
	}
	cases := map[string]struct {
		body    func(s *scene, batch claim) map[string]any
		first   int
		attempt int
	}{
		"completed to the end of the batch": {acks(completed(0, 1)), 2, 1},
		"failed":                            {acks(completed(0), failed(1)), 1, 2},
		"retry":                             {acks(retried(0)), 0, 2},
		"dlq":                               {acks(dlqed(0)), 1, 1},
		"an ack without a lease":            {func(s *scene, _ claim) map[string]any { return operations(ackOperations(s, "", completed(1))) }, 2, 1},
		"a position write":                  {func(s *scene, _ claim) map[string]any { return position(s, 1) }, 1, 1},
	}
	for name, c := range cases {
		for route, pop := range waitingRoutes {
			t.Run("8.6 "+name+", "+route, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil, 4)
				batch := s.claim(2, 0, 1, 1)
				reply := parkBeside(s, pop, func() { needCommitted(t, s.client.Transaction(c.body(s, batch))) })
				s.needClaim(reply, c.first, 3, c.attempt)
			})
		}
	}
}

// TestPositionWriteWakesAParkedPop: 8.1 and 8.6, a group that has consumed everything is taken back.
func TestPositionWriteWakesAParkedPop(t *testing.T) {
	t.Parallel()
	for route, pop := range waitingRoutes {
		t.Run("8.6 "+route, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 3)
			needVerdicts(t, s.redelivered(0, 2, 1).ack(completed(2)), released)
			reply := parkBeside(s, pop, func() { needCommitted(t, s.client.Transaction(position(s, 1))) })
			s.needClaim(reply, 1, 2, 1)
		})
	}
}

// waitingRoutes are the two routes on which a pop waits.
var waitingRoutes = map[string]func(s *scene, more ...string) harness.PopReply{
	"wildcard": func(s *scene, more ...string) harness.PopReply { return s.pop(wholeBacklog, more...) },
	"pinned":   func(s *scene, more ...string) harness.PopReply { return s.pinned(wholeBacklog, more...) },
}

// parkBeside parks a pop of the scene that finds nothing yet, does something, and returns what the pop then got: far
// within its timeout.
func parkBeside(s *scene, pop func(*scene, ...string) harness.PopReply, do func()) harness.PopReply {
	s.t.Helper()
	needEmpty(s.t, pop(s))
	waiting := make(parked, 1)
	waiter := *s                                                                // learns its partition id apart
	go func() { waiting <- pop(&waiter, "wait=true", waitFor(3*delivery/2)) }() // ends with its pop
	do()
	reply := <-waiting
	if reply.Elapsed > delivery {
		s.t.Fatalf("woken only after %v", reply.Elapsed)
	}
	return reply
}
