package contract

import (
	"fmt"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// TestStrongestSignalAtOneOffsetWins: 6.5, dlq > failed > retry > completed.
func TestStrongestSignalAtOneOffsetWins(t *testing.T) {
	t.Parallel()
	order := []string{"completed", "retry", "failed", "dlq"}
	effects := map[string]struct {
		cursor, charged int
		filed           []int64
	}{
		"retry":  {0, 0, nil},
		"failed": {0, 1, nil},
		"dlq":    {1, 0, []int64{0}},
	}
	for weak := range order {
		for strong := weak + 1; strong < len(order); strong++ {
			for _, pair := range [][2]string{{order[weak], order[strong]}, {order[strong], order[weak]}} {
				t.Run(fmt.Sprintf("6.5 %s and %s", pair[0], pair[1]), func(t *testing.T) {
					t.Parallel()
					s := newScene(t, nil, 3)
					reply := s.redelivered(0, 2, 1).ack(mark{status: pair[0], offsets: []int{0}}, mark{status: pair[1], offsets: []int{0}})
					need(t, reply.Response, 200)
					want := effects[order[strong]]
					s.needCursor(want.cursor)
					s.needDeadLetters(want.filed...)
					s.needCharged(want.charged)
				})
			}
		}
	}
}

// TestRetryLimitCountsChargedFailures: 6.5, failure number retryLimit + 1 dead-letters, with retryCount the limit.
func TestRetryLimitCountsChargedFailures(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 3, 5} {
		t.Run(fmt.Sprint("6.5 retryLimit ", limit), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": limit}, 2)
			for attempt := 1; attempt <= limit; attempt++ {
				needVerdicts(t, s.redelivered(0, 1, attempt).ack(failed(0)), released)
				s.needDeadLetters()
			}
			needVerdicts(t, s.redelivered(0, 1, limit+1).ack(failed(0)), filed)
			if letter := s.needDeadLetters(0)[0]; letter.RetryCount != limit {
				t.Fatalf("want retryCount %d, got %+v", limit, letter)
			}
			s.needCursor(1)
			s.redelivered(1, 1, 1)
		})
	}
}

// TestEitherFlagFilesAnExhaustedMessage: 6.5 and 9.2, deadLetterQueue or-ed with dlqAfterMaxRetries; both false drop.
func TestEitherFlagFilesAnExhaustedMessage(t *testing.T) {
	t.Parallel()
	for _, deadLetterQueue := range []bool{true, false} {
		for _, afterMaxRetries := range []bool{true, false} {
			t.Run(fmt.Sprintf("6.5 deadLetterQueue %v, dlqAfterMaxRetries %v", deadLetterQueue, afterMaxRetries), func(t *testing.T) {
				t.Parallel()
				options := map[string]any{"retryLimit": 0, "deadLetterQueue": deadLetterQueue, "dlqAfterMaxRetries": afterMaxRetries}
				s := newScene(t, options, 2)
				reply := s.redelivered(0, 1, 1).ack(failed(0))
				if deadLetterQueue || afterMaxRetries {
					needVerdicts(t, reply, filed)
					s.needDeadLetters(0)
				} else {
					needVerdicts(t, reply, released)
					s.needDeadLetters()
				}
				s.needCursor(1)
			})
		}
	}
}

// TestDlqFilesWhateverTheFlagsSay: 6.5.
func TestDlqFilesWhateverTheFlagsSay(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"deadLetterQueue": false, "dlqAfterMaxRetries": false}, 2)
	needVerdicts(t, s.redelivered(0, 1, 1).ack(dlqed(1)), filed)
	s.needDeadLetters(1)
	s.needCursor(2)
}

// TestSignalsAboveADlqChargeNothing: 6.5, a failed or retry above L answers success.
func TestSignalsAboveADlqChargeNothing(t *testing.T) {
	t.Parallel()
	for _, above := range []mark{failed(2), retried(2)} {
		t.Run("6.5 "+above.status+" above a dlq", func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 4)
			needVerdicts(t, s.redelivered(0, 3, 1).ack(dlqed(0), above), filed, released)
			s.needCursor(1)
			needVerdicts(t, s.redelivered(1, 3, 1).ack(completed(1)), kept)
			needVerdicts(t, s.ackUnfenced(retried(2)), released)
			s.needCharged(0)
		})
	}
}

// TestDlqAboveALowerSignalIsFiledToo: 6.5, all dlq items of a call are filed, wherever they stand in the batch; a
// filed message above the cursor is redelivered and keeps its one row.
func TestDlqAboveALowerSignalIsFiledToo(t *testing.T) {
	t.Parallel()
	t.Run("6.5 above a failed with budget", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 4)
		needVerdicts(t, s.redelivered(0, 3, 1).ack(failed(0), dlqed(2)), released, filed)
		s.needCursor(0)
		row := s.needDeadLetters(2)[0]
		needVerdicts(t, s.redelivered(0, 3, 2).ack(completed(0, 1), dlqed(2)), released, released, filed)
		if again := s.needDeadLetters(2)[0]; again.ID != row.ID {
			t.Fatalf("want the row %s, got %s", row.ID, again.ID)
		}
		s.needCursor(3)
	})
	t.Run("6.5 above a retry", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, nil, 4)
		needVerdicts(t, s.redelivered(0, 3, 1).ack(completed(0), retried(1), dlqed(3)), released, released, filed)
		s.needCursor(1)
		s.needDeadLetters(3)
		s.redelivered(1, 3, 2)
	})
	t.Run("6.5 directly above an exhausted failed the cursor passes it", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, map[string]any{"retryLimit": 0}, 5)
		needVerdicts(t, s.redelivered(0, 4, 1).ack(failed(0), dlqed(1, 2, 4)), filed)
		s.needCursor(3)
		s.needDeadLetters(0, 1, 2, 4)
		s.redelivered(3, 4, 1)
	})
	t.Run("6.5 directly above a dropped message the cursor passes it", func(t *testing.T) {
		t.Parallel()
		options := map[string]any{"retryLimit": 0, "deadLetterQueue": false, "dlqAfterMaxRetries": false}
		s := newScene(t, options, 4)
		needVerdicts(t, s.redelivered(0, 3, 1).ack(failed(0), dlqed(1)), released, filed)
		s.needCursor(2)
		s.needDeadLetters(1)
	})
}

// TestDeadLetterReason: 6.5, the error of its own item, else the first error of the call, else the default.
func TestDeadLetterReason(t *testing.T) {
	t.Parallel()
	text := func(text string) *string { return &text }
	cases := map[string]struct {
		marks []mark
		want  map[int64]*string
	}{
		"its own error":                             {[]mark{completed(0).because("first"), failed(1).because("own")}, map[int64]*string{1: text("own")}},
		"the first error of the call":               {[]mark{completed(0).because("first"), failed(1)}, map[int64]*string{1: text("first")}},
		"the first error also when it stands later": {[]mark{failed(0), completed(1).because("later")}, map[int64]*string{0: text("later")}},
		"none, exhausted":                           {[]mark{failed(0)}, map[int64]*string{0: text("Retries exhausted")}},
		"none, dlq":                                 {[]mark{dlqed(0)}, map[int64]*string{0: nil}},
		"none, a dlq above an exhausted one":        {[]mark{failed(0), dlqed(1)}, map[int64]*string{0: text("Retries exhausted"), 1: nil}},
		"several dlq":                               {[]mark{dlqed(0), dlqed(1).because("b")}, map[int64]*string{0: text("b"), 1: text("b")}},
	}
	for name, c := range cases {
		t.Run("6.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 0}, 2)
			need(t, s.redelivered(0, 1, 1).ack(c.marks...).Response, 200)
			letters := s.deadLetters()
			if len(letters) != len(c.want) {
				t.Fatalf("want %d rows, got %+v", len(c.want), letters)
			}
			for _, letter := range letters {
				want, known := c.want[letter.Offset]
				if !known || (want == nil) != (letter.ErrorMessage == nil) || want != nil && *want != *letter.ErrorMessage {
					t.Fatalf("want %s, got %+v", mustJSON(want), letter)
				}
			}
		})
	}
}

// TestFilingAgainRefreshesTheRow: 6.5, one row per message and group.
func TestFilingAgainRefreshesTheRow(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 1}, 2)
	needVerdicts(t, s.redelivered(0, 1, 1).ack(failed(0).because("one"), dlqed(1).because("two")), released, filed)
	first := s.needDeadLetters(1)[0]
	needVerdicts(t, s.redelivered(0, 1, 2).ack(completed(0)), kept)
	needVerdicts(t, s.ackUnfenced(failed(1)), released)
	needVerdicts(t, s.redelivered(1, 1, anyAttempt).ack(failed(1).because("three")), filed)
	second := s.needDeadLetters(1)[0]
	if second.ID != first.ID || second.ErrorMessage == nil || *second.ErrorMessage != "three" || second.RetryCount != 1 ||
		!second.FailedAt.After(first.FailedAt) {
		t.Fatalf("want the same row with fresh values, got %+v after %+v", second, first)
	}
	other := s.as("other")
	needVerdicts(t, other.redelivered(0, 1, 1).ack(dlqed(1)), filed)
	if row := other.needDeadLetters(1)[0]; row.ID == first.ID {
		t.Fatalf("another group has a row of its own, got %+v", row)
	}
}

// TestSignalWithoutLeaseChangesNothing: 6.5, at or above the cursor while the group holds no lease.
func TestSignalWithoutLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []mark{failed(0, 2), retried(0, 2), dlqed(0, 2)} {
		t.Run("6.5 "+signal.status, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 3}, 3)
			needVerdicts(t, s.redelivered(0, 2, 1).ack(retried(0)), released)
			needVerdicts(t, s.ackUnfenced(signal), kept)
			s.needDeadLetters()
			s.needCursor(0)
			s.needCharged(0)
		})
	}
}

// TestExpiryNeverCharges: 5.6 and 6.5; the attempt counts it all the same.
func TestExpiryNeverCharges(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 3, "leaseTime": 2}, 2)
	s.redelivered(0, 1, 1)
	s.awaited(0, 1, 2)
	needVerdicts(t, s.awaited(0, 1, 3).ack(retried(0)), released)
	need(t, s.client.Configure(s.queue, map[string]any{"leaseTime": 300}), 200)
	s.needCharged(0)
}

// TestAttemptIsClearedWhenTheGroupMovesOn: 5.6 and 6.5, by full completion, a dead letter, a drop, a seek and a
// position write.
func TestAttemptIsClearedWhenTheGroupMovesOn(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
	cases := map[string]struct {
		move  func(s *scene, batch claim)
		first int
	}{
		"full completion": {func(s *scene, batch claim) { needVerdicts(s.t, batch.ack(completed(2)), released) }, 3},
		"a dead letter":   {func(s *scene, batch claim) { needVerdicts(s.t, batch.ack(dlqed(1)), filed) }, 2},
		"a drop": {func(s *scene, batch claim) {
			dropping := map[string]any{"retryLimit": 0, "deadLetterQueue": false, "dlqAfterMaxRetries": false}
			need(s.t, s.client.Configure(s.queue, dropping), 200)
			needVerdicts(s.t, batch.ack(failed(0)), released)
		}, 1},
		"a seek": {func(s *scene, batch claim) {
			path := fmt.Sprintf("/api/v1/consumer-groups/%s/queues/%s/seek", s.group, s.queue)
			need(s.t, s.client.Post(path, map[string]any{"timestamp": start}), 200)
		}, 0},
		"a position write": {func(s *scene, batch claim) { needCommitted(s.t, s.client.Transaction(position(s, 0))) }, 0},
	}
	for name, c := range cases {
		t.Run("6.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, 4)
			needVerdicts(t, s.claim(3, 0, 2, 1).ack(retried(0)), released)
			c.move(s, s.claim(3, 0, 2, 2))
			s.redelivered(c.first, 3, 1)
		})
	}
}

// TestConflatedNeighboursCountAsMentioned: 6.5 and 5.9, the budget of a conflating lease is exhausted at once although
// older messages stand below the one that failed.
func TestConflatedNeighboursCountAsMentioned(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 0}, 5)
	reply := s.pop(10, "conflation=true")
	needMessages(t, reply, "m4")
	needVerdicts(t, s.client.AckMessages("failed", reply.Messages...), filed)
	s.needDeadLetters(4)
	s.needCursor(5)
}

// TestNoopItemDoesNotClaimTheRelease: 6.5, leaseReleased is true on every successful item except on no-ops.
func TestNoopItemDoesNotClaimTheRelease(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 3)
	batch := s.redelivered(0, 2, 1)
	needVerdicts(t, batch.ack(completed(0)), kept)
	needVerdicts(t, batch.ack(completed(0), completed(1), completed(99), completed(2)), noop, released, unresolvable, released)
}

// TestAckOfCommitOnDeliveryIsNoop: 5.6 and 6.7.
func TestAckOfCommitOnDeliveryIsNoop(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	reply := s.pop(wholeBacklog, "commitOnDelivery=true")
	needMessages(t, reply, "m0", "m1")
	needVerdicts(t, s.client.AckMessages("completed", reply.Messages...), noop)
	needVerdicts(t, s.client.AckMessages("failed", reply.Messages...), unresolvable)
	s.needCursor(2)
}

// TestFailedItems: 6.6, every error of an item; all its flags are false and the lease it names survives.
func TestFailedItems(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	batch := s.redelivered(0, 1, 1)
	ids := map[string]string{
		"abc":       "partitionId is not a partition id",
		"":          "partitionId is not a partition id",
		"1.5":       "partitionId is not a partition id",
		"0x11":      "partitionId is not a partition id",
		noPartition: "no partition " + noPartition,
	}
	for id, text := range ids {
		for _, status := range []string{"completed", "failed", "retry", "dlq"} {
			items := []harness.AckItem{{TransactionID: "m0", PartitionID: id, LeaseID: batch.lease, Status: status}, batch.messages[0].Ack("bogus")}
			needVerdicts(t, s.client.AckBatch(s.group, items...), refused(text), refused(`unknown ack status "bogus"`))
		}
	}
	needVerdicts(t, batch.ack(completed(0, 1)), released)
}

// TestBudgetIsJudgedAtThePositionOfTheGroup: 6.5 and 17.1, the failures count from before the call unless the call
// completes something below L; what lies below the cursor already is not completed by it.
func TestBudgetIsJudgedAtThePositionOfTheGroup(t *testing.T) {
	t.Parallel()
	const limit = 2
	cases := map[string]struct {
		last    []mark
		verdict []verdict
		cursor  int
		retries map[int64]int // retryCount by offset
	}{
		"failed and a no-op":                {[]mark{completed(0), failed(1)}, []verdict{noop, filed}, 2, map[int64]int{1: limit}},
		"failed above a completed":          {[]mark{completed(1), failed(2)}, []verdict{released, released}, 2, nil},
		"dlq at the position":               {[]mark{dlqed(1)}, []verdict{filed}, 2, map[int64]int{1: limit}},
		"dlq above a completed":             {[]mark{completed(1), dlqed(2)}, []verdict{released, filed}, 3, map[int64]int{2: 0}},
		"retry at the position":             {[]mark{retried(1)}, []verdict{released}, 1, nil},
		"failed above an unmentioned":       {[]mark{failed(2)}, []verdict{released}, 1, nil},
		"failed and dlq, one call, one row": {[]mark{failed(1), dlqed(1)}, []verdict{filed, filed}, 2, map[int64]int{1: limit}},
	}
	for name, c := range cases {
		t.Run("6.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": limit}, 4)
			needVerdicts(t, s.redelivered(0, 3, 1).ack(completed(0)), kept)
			needVerdicts(t, s.ackUnfenced(failed(1)), released)
			for range limit - 1 {
				needVerdicts(t, s.redelivered(1, 3, anyAttempt).ack(failed(1)), released)
			}
			needVerdicts(t, s.redelivered(1, 3, anyAttempt).ack(c.last...), c.verdict...)
			s.needCursor(c.cursor)
			letters := s.deadLetters()
			if len(letters) != len(c.retries) {
				t.Fatalf("want %d dead letters, got %+v", len(c.retries), letters)
			}
			for _, letter := range letters {
				if want, known := c.retries[letter.Offset]; !known || letter.RetryCount != want {
					t.Fatalf("want the retryCounts %v, got %+v", c.retries, letter)
				}
			}
		})
	}
}

// TestExhaustedAboveAnUnmentionedOne: 6.5, what the call completed below it does not help: the claims end below L until
// the cursor has reached it, by an ack or by a write of the position.
func TestExhaustedAboveAnUnmentionedOne(t *testing.T) {
	t.Parallel()
	bounded := func(t *testing.T) *scene {
		t.Helper()
		s := newScene(t, map[string]any{"retryLimit": 0}, 6)
		needVerdicts(t, s.redelivered(0, 5, 1).ack(completed(0), failed(3)), released)
		s.needDeadLetters()
		s.needCursor(1)
		return s
	}
	moves := map[string]struct {
		move        func(s *scene)
		first, last int
	}{
		"the claim ends below it": {func(*scene) {}, 1, 2},
		"an ack below it keeps the bound": {func(s *scene) {
			batch := s.redelivered(1, 2, anyAttempt)
			needVerdicts(s.t, batch.ack(completed(1), retried(2)), released)
		}, 2, 2},
		"an ack up to it ends the bound": {func(s *scene) {
			needVerdicts(s.t, s.redelivered(1, 2, anyAttempt).ack(completed(2)), released)
		}, 3, 5},
		"a position below it keeps the bound": {func(s *scene) { needCommitted(s.t, s.client.Transaction(position(s, 0))) }, 0, 2},
		"a position at it ends the bound":     {func(s *scene) { needCommitted(s.t, s.client.Transaction(position(s, 3))) }, 3, 5},
		"a position above it ends the bound": {func(s *scene) {
			needCommitted(s.t, s.client.Transaction(position(s, 4)))
			needCommitted(s.t, s.client.Transaction(position(s, 0)))
		}, 0, 5},
	}
	for name, c := range moves {
		t.Run("6.5 "+name, func(t *testing.T) {
			t.Parallel()
			s := bounded(t)
			c.move(s)
			s.redelivered(c.first, c.last, anyAttempt)
		})
	}
}

// TestMoveClearsFailuresAndRetryDelay: 17.1, whatever moves the cursor sets the failures to 0 and ends a retry delay.
func TestMoveClearsFailuresAndRetryDelay(t *testing.T) {
	t.Parallel()
	moves := map[string]struct {
		move  func(s *scene)
		first int
	}{
		"a position write":            {func(s *scene) { needCommitted(s.t, s.client.Transaction(position(s, 0))) }, 0},
		"a seek":                      {func(s *scene) { seek(s.t, s, "/seek", `{"timestamp":"2001-01-01T00:00:00Z"}`) }, 0},
		"a completed without a lease": {func(s *scene) { needVerdicts(s.t, s.ackUnfenced(completed(0)), kept) }, 1},
	}
	for name, c := range moves {
		t.Run("17.1 "+name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]any{"retryLimit": 3, "retryDelay": 600_000}, 3)
			needVerdicts(t, s.redelivered(0, 2, 1).ack(failed(0)), released)
			s.needNothing()
			c.move(s)
			batch := s.redelivered(c.first, 2, anyAttempt)
			need(t, s.client.Configure(s.queue, map[string]any{"retryDelay": 0}), 200)
			needVerdicts(t, batch.ack(retried(c.first)), released)
			s.needCharged(0)
		})
	}
}

// TestBoundBelowAnExhaustedMessageEndsWithTheLog: 17.1, the bound is ignored once the log start has reached it. The
// hold of a sink lets retention take exactly what stands below it.
func TestBoundBelowAnExhaustedMessageEndsWithTheLog(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, retentionBroker(t), map[string]any{"retryLimit": 0}, 2)
	s.push(3)
	needVerdicts(t, s.redelivered(0, 4, 1).ack(failed(2)), released)
	needVerdicts(t, s.redelivered(0, 1, 2).ack(retried(0)), released)
	sink := s.as("sink")
	needVerdicts(t, sink.claim(2, 0, 1, 1).ack(completed(1)), released)
	need(t, s.client.Configure(s.queue, map[string]any{"retentionEnabled": true, "retentionSeconds": 1, "retentionSinkHold": "sink"}), 200)
	awaitRetained(t, s, 3)
	s.redelivered(2, 4, anyAttempt)
}

// TestCommitOnDeliveryClearsTheCounters: 17.1, such a claim moves the cursor: failures and attempt begin anew.
func TestCommitOnDeliveryClearsTheCounters(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]any{"retryLimit": 3}, 3)
	for attempt := 1; attempt <= 2; attempt++ {
		needVerdicts(t, s.redelivered(0, 2, attempt).ack(failed(0)), released)
	}
	s.needClaim(s.pop(1, "commitOnDelivery=true"), 0, 0, 1)
	needVerdicts(t, s.redelivered(1, 2, 1).ack(retried(1)), released)
	s.needCharged(0)
}
