package contract

import (
	"bytes"
	"testing"
	"time"
)

// modelRow is a row of the table of 17.2. Before it, five messages 0 to 4 are leased by the reader.
type modelRow struct {
	name    string
	options map[string]any // on top of retryLimit 3
	lease   int            // seconds of the first lease; 0 is the queue's default
	run     func(s *scene, batch claim)
}

// TestReferenceModel plays every row of 17.2 that one partition and one ack call show, for a named group and for
// queue mode alike: the rules of section 6 do not tell them apart.
func TestReferenceModel(t *testing.T) {
	t.Parallel()
	for _, rows := range [][]modelRow{completedRows, failedRows, exhaustedRows, signalRows, refusedRows} {
		for _, row := range rows {
			for name, group := range map[string]string{"named group": "g", "queue mode": ""} {
				t.Run("17.2 "+row.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					options := map[string]any{"retryLimit": 3}
					for key, value := range row.options {
						options[key] = value
					}
					s := newScene(t, options, 5).as(group)
					s.leaseTime = row.lease
					batch := s.claim(5, 0, 4, 1)
					s.leaseTime = 0
					row.run(s, batch)
				})
			}
		}
	}
}

var completedRows = []modelRow{
	{name: "completed 0-4", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(0, 1, 2, 3, 4)), released)
		s.needCursor(5)
		s.needNothing()
	}},
	{name: "the same call again, same lease", run: func(s *scene, batch claim) {
		first := batch.ack(completed(0, 1, 2, 3, 4))
		needVerdicts(s.t, first, released)
		again := batch.ack(completed(0, 1, 2, 3, 4))
		need(s.t, again.Response, 200)
		if !bytes.Equal(first.Body, again.Body) {
			s.t.Fatalf("want the answer of the first time %s, got %s", first.Body, again.Body)
		}
		s.needCursor(5)
	}},
	{name: "the same call again, no lease", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(0, 1, 2, 3, 4)), released)
		needVerdicts(s.t, s.ackUnfenced(completed(0, 1, 2, 3, 4)), noop)
		s.needCursor(5)
	}},
	{name: "completed 4 only", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(4)), released)
		s.needCursor(5)
		s.needNothing()
	}},
	{name: "completed 2, then in a new call completed 0", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(2)), kept)
		s.needCursor(3)
		needVerdicts(s.t, batch.ack(completed(0)), noop)
		s.needCursor(3)
		s.needNothing() // 3 and 4 stay leased
		needVerdicts(s.t, batch.ack(completed(3, 4)), released)
	}},
	{name: "completed 1, then the lease expires", lease: 2, run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(1)), kept)
		s.needCursor(2)
		s.awaited(2, 4, 2)
	}},
	{name: "no lease held, completed 2 without leaseId", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(retried(0)), released)
		needVerdicts(s.t, s.ackUnfenced(completed(2)), kept)
		s.needCursor(3)
		s.redelivered(3, 4, anyAttempt)
	}},
}

var failedRows = []modelRow{
	{name: "completed 0, 1; failed 2; completed 3, 4 in one call", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(0, 1), failed(2), completed(3, 4)), released)
		s.needCursor(2)
		needVerdicts(s.t, s.redelivered(2, 4, 2).ack(retried(2)), released)
		s.needCharged(1)
	}},
	{name: "failed 2 alone, 0 and 1 acked earlier", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(0, 1)), kept)
		needVerdicts(s.t, batch.ack(failed(2)), released)
		s.needCursor(2)
		needVerdicts(s.t, s.redelivered(2, 4, 2).ack(retried(2)), released)
		s.needCharged(1)
	}},
	{name: "failed 2 alone, nothing acked", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(failed(2)), released)
		s.needCursor(0)
		needVerdicts(s.t, s.redelivered(0, 4, 2).ack(retried(0)), released)
		s.needCharged(1)
	}},
	{name: "failed 0-4 in one call", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(failed(0, 1, 2, 3, 4)), released)
		s.needCursor(0)
		needVerdicts(s.t, s.redelivered(0, 4, 2).ack(retried(0)), released)
		s.needCharged(1)
	}},
	{name: "failed 0 three times, then completed 0; failed 1", run: func(s *scene, batch claim) {
		batch = failThrice(s, batch, 0)
		needVerdicts(s.t, batch.ack(completed(0), failed(1)), released)
		s.needCursor(1)
		s.needDeadLetters()
		s.needCharged(1)
	}},
	{name: "failed 0-4 twice, then completed 0-4", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(failed(0, 1, 2, 3, 4)), released)
		needVerdicts(s.t, s.redelivered(0, 4, 2).ack(failed(0, 1, 2, 3, 4)), released)
		needVerdicts(s.t, s.redelivered(0, 4, 3).ack(completed(0, 1, 2, 3, 4)), released)
		s.needNothing()
		s.needDeadLetters()
		other := s.as("other")
		needVerdicts(s.t, other.redelivered(0, 4, 1).ack(completed(0, 1, 2, 3, 4)), released)
		other.needNothing()
	}},
	{name: "no lease held, failed 2 without leaseId, cursor 0", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(retried(0)), released)
		needVerdicts(s.t, s.ackUnfenced(failed(2)), kept)
		s.needCursor(0)
		s.needCharged(0)
	}},
	{
		name: "retryDelay 500 set explicitly, failed 0", options: map[string]any{"retryDelay": 500},
		run: func(s *scene, batch claim) {
			before := time.Now()
			needVerdicts(s.t, batch.ack(failed(0)), released)
			s.awaited(0, 4, 2)
			if waited := time.Since(before); waited < 500*time.Millisecond-stampSlack {
				s.t.Fatalf("redelivered %v after the failure, the retry delay is 500ms", waited)
			}
		},
	},
}

var exhaustedRows = []modelRow{
	{name: "failed 0 for the fourth time", run: func(s *scene, batch claim) {
		batch = failThrice(s, batch, 0)
		s.needDeadLetters()
		needVerdicts(s.t, batch.ack(failed(0)), filed)
		if letter := s.needDeadLetters(0)[0]; letter.RetryCount != 3 {
			s.t.Fatalf("want retryCount 3, got %+v", letter)
		}
		s.needCursor(1)
		s.redelivered(1, 4, 1)
	}},
	{name: "failed 2 alone for the fourth time, nothing acked", run: func(s *scene, batch claim) {
		batch = failThrice(s, batch, 2)
		needVerdicts(s.t, batch.ack(failed(2)), released)
		s.needDeadLetters()
		s.needCursor(0)
		below := s.redelivered(0, 1, 5)
		needVerdicts(s.t, below.ack(completed(0, 1)), released)
		needVerdicts(s.t, s.redelivered(2, 4, 1).ack(retried(2)), released)
		s.needCharged(0)
	}},
	{
		name:    "failed 0 for the fourth time, both flags false",
		options: map[string]any{"deadLetterQueue": false, "dlqAfterMaxRetries": false},
		run: func(s *scene, batch claim) {
			batch = failThrice(s, batch, 0)
			needVerdicts(s.t, batch.ack(failed(0)), released)
			s.needDeadLetters()
			s.needCursor(1)
			s.redelivered(1, 4, 1)
		},
	},
}

// failThrice fails the offset under the claim and under the next two, and returns the claim after them. The offset
// is not below the cursor, which stays at 0.
func failThrice(s *scene, batch claim, offset int) claim {
	s.t.Helper()
	for attempt := 2; attempt <= 4; attempt++ {
		needVerdicts(s.t, batch.ack(failed(offset)), released)
		s.needCursor(0)
		batch = s.redelivered(0, 4, attempt)
	}
	return batch
}

var signalRows = []modelRow{
	{name: "six times retry 0", run: func(s *scene, batch claim) {
		for attempt := 2; attempt <= 7; attempt++ {
			needVerdicts(s.t, batch.ack(retried(0)), released)
			batch = s.redelivered(0, 4, attempt)
		}
		needVerdicts(s.t, batch.ack(failed(0)), released) // the first of the four
		s.needCharged(1)
	}},
	{name: "retry 3, completed 0-2", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(retried(3), completed(0, 1, 2)), released)
		s.needCursor(3)
		needVerdicts(s.t, s.redelivered(3, 4, 2).ack(retried(3)), released)
		s.needCharged(0)
	}},
	{name: "retry 3 alone, nothing acked", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(retried(3)), released)
		s.needCursor(0)
		needVerdicts(s.t, s.redelivered(0, 4, 2).ack(retried(0)), released)
		s.needCharged(0)
	}},
	{name: "dlq 2 alone, nothing acked", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(dlqed(2)), filed)
		s.needDeadLetters(2)
		s.needCursor(3)
		s.redelivered(3, 4, 1)
	}},
	{name: "dlq 1, completed 0", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(dlqed(1), completed(0)), filed, released)
		s.needDeadLetters(1)
		s.needCursor(2)
		s.redelivered(2, 4, 1)
	}},
	{name: "dlq 1, completed 0, 2, 3, 4", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(dlqed(1), completed(0, 2, 3, 4)), filed, released, released, released, released)
		s.needDeadLetters(1)
		s.needCursor(2)
		s.redelivered(2, 4, 1)
	}},
	{name: "dlq 1, dlq 2, completed 0", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(dlqed(1, 2), completed(0)), filed, filed, released)
		s.needDeadLetters(1, 2)
		s.needCursor(3)
		s.redelivered(3, 4, 1)
	}},
	{name: "dlq 1, dlq 3, completed 0, 2", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(dlqed(1, 3), completed(0, 2)), filed, filed, released, released)
		row := s.needDeadLetters(1, 3)[1]
		s.needCursor(2)
		again := s.redelivered(2, 4, 1)
		needVerdicts(s.t, again.ack(dlqed(3).because("second time")), filed)
		if kept := s.needDeadLetters(1, 3)[1]; kept.ID != row.ID {
			s.t.Fatalf("want the row %s to be kept, got %+v", row.ID, kept)
		}
	}},
}

var refusedRows = []modelRow{
	{name: "wrong or foreign leaseId, any status", run: func(s *scene, batch claim) {
		foreign := s.as("other").redelivered(0, 4, 1)
		for _, lease := range []string{"018f2f60-0000-7000-8000-000000000000", "not a lease", foreign.lease} {
			for _, status := range []string{"completed", "failed", "retry", "dlq"} {
				items := s.items(lease, mark{status: status, offsets: []int{0, 4}})
				needVerdicts(s.t, s.client.AckBatch(s.group, items...), badLease)
			}
		}
		s.needDeadLetters()
		s.needCursor(0)
		needVerdicts(s.t, batch.ack(completed(0, 1, 2, 3, 4)), released)
	}},
	{name: "expired leaseId, any status", lease: 1, run: func(s *scene, batch claim) {
		current := s.awaited(0, 4, 2)
		for _, mark := range []mark{completed(0, 4), failed(0, 4), retried(0, 4), dlqed(0, 4)} {
			needVerdicts(s.t, batch.ack(mark), badLease)
		}
		s.needDeadLetters()
		s.needCursor(0)
		needVerdicts(s.t, current.ack(completed(0, 1, 2, 3, 4)), released)
	}},
	{name: "txid of offset 7, above the end, with the lease", run: func(s *scene, batch claim) {
		s.push(3)
		needVerdicts(s.t, batch.ack(completed(7)), unresolvable)
		s.needCursor(0)
		needVerdicts(s.t, batch.ack(completed(0, 1, 2, 3, 4)), released)
		s.redelivered(5, 7, 1)
	}},
	{name: "unknown txid completed, with the lease", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(99)), unresolvable)
		s.needCursor(0)
		needVerdicts(s.t, batch.ack(completed(0, 1, 2, 3, 4)), released)
	}},
	{name: "failed 0 after 0 was committed", run: func(s *scene, batch claim) {
		needVerdicts(s.t, batch.ack(completed(0)), kept)
		needVerdicts(s.t, batch.ack(failed(0)), unresolvable)
		needVerdicts(s.t, s.ackUnfenced(failed(0)), unresolvable)
		s.needDeadLetters()
		s.needCursor(1)
		needVerdicts(s.t, batch.ack(completed(1, 2, 3, 4)), released)
		needVerdicts(s.t, s.ackUnfenced(failed(0)), unresolvable)
	}},
}
