package cursor

import (
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// TestExamples holds the rows of messaging 17.2, in order and under their own words.
func TestExamples(t *testing.T) {
	for _, example := range examples {
		t.Run(example.row, func(t *testing.T) {
			b := newBench(t)
			example.run(b, b.claim(0, 4, 1))
		})
	}
}

var examples = []struct {
	row string
	run func(b *bench, lease uuid.UUID)
}{
	{"completed 0-4", func(b *bench, lease uuid.UUID) {
		out := b.releasing(lease, completed(0, 1, 2, 3, 4))
		b.verdicts(out, releasedOK, releasedOK, releasedOK, releasedOK, releasedOK)
		b.at(5, 0)
		b.live(false)
	}},
	{"the same call again, same lease", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, completed(0, 1, 2, 3, 4))
		b.unchangedBy(func() {
			out := b.keeping(lease, completed(0, 1, 2, 3, 4))
			b.verdicts(out, releasedOK, releasedOK, releasedOK, releasedOK, releasedOK)
		})
	}},
	{"the same call again, no lease", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, completed(0, 1, 2, 3, 4))
		b.unchangedBy(func() {
			b.verdicts(b.keeping(uuid.Nil, completed(0, 1, 2, 3, 4)), noop, noop, noop, noop, noop)
		})
	}},
	{"completed 4 only", func(b *bench, lease uuid.UUID) {
		b.verdicts(b.releasing(lease, completed(4)), releasedOK)
		b.at(5, 0)
	}},
	{"completed 2, then in a new call completed 0", func(b *bench, lease uuid.UUID) {
		b.verdicts(b.keeping(lease, completed(2)), success)
		b.at(3, 0)
		b.live(true)
		b.unchangedBy(func() { b.verdicts(b.keeping(lease, completed(0)), noop) })
		b.claimNothing()
	}},
	{"completed 1, then the lease expires", func(b *bench, lease uuid.UUID) {
		b.keeping(lease, completed(1))
		b.expire()
		b.at(2, 0)
		b.claim(2, 4, 2)
	}},
	{"completed 0, 1; failed 2; completed 3, 4 in one call", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, completed(0, 1), failed(2), completed(3, 4))
		b.at(2, 1)
		b.claim(2, 4, 2)
	}},
	{"failed 2 alone, 0 and 1 acked earlier", func(b *bench, lease uuid.UUID) {
		b.keeping(lease, completed(0, 1))
		b.releasing(lease, failed(2))
		b.at(2, 1)
		b.claim(2, 4, 2)
	}},
	{"failed 2 alone, nothing acked", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, failed(2))
		b.at(0, 1)
		b.claim(0, 4, 2)
	}},
	{"failed 0-4 in one call", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, failed(0, 1, 2, 3, 4))
		b.at(0, 1)
	}},
	{"failed 0 for the fourth time", func(b *bench, lease uuid.UUID) {
		for attempt := uint32(2); attempt <= 4; attempt++ {
			b.filed(b.releasing(lease, failed(0)))
			lease = b.claim(0, 4, attempt)
		}
		out := b.releasing(lease, failed(0))
		b.verdicts(out, filedOK)
		b.filed(out, exhaustedAt(0, 3))
		b.at(1, 0)
		b.claim(1, 4, 1)
	}},
	{"failed 2 alone for the fourth time, nothing acked", func(b *bench, lease uuid.UUID) {
		for attempt := uint32(2); attempt <= 4; attempt++ {
			b.releasing(lease, failed(2))
			lease = b.claim(0, 4, attempt)
		}
		b.filed(b.releasing(lease, failed(2)))
		b.at(0, 3)
		lease = b.claim(0, 1, 5)
		b.keeping(lease, completed(0))
		b.expire()
		lease = b.claim(1, 1, 2+4)
		b.releasing(lease, completed(1))
		b.at(2, 0)
		for attempt := uint32(1); attempt <= 3; attempt++ {
			b.filed(b.releasing(b.claim(2, 4, attempt), failed(2)))
		}
		b.filed(b.releasing(b.claim(2, 4, 4), failed(2)), exhaustedAt(2, 3))
		b.at(3, 0)
	}},
	{"failed 0 for the fourth time, both flags false", func(b *bench, lease uuid.UUID) {
		b.policy.FileDeadLetters = false
		for attempt := uint32(2); attempt <= 4; attempt++ {
			b.releasing(lease, failed(0))
			lease = b.claim(0, 4, attempt)
		}
		out := b.releasing(lease, failed(0))
		b.verdicts(out, releasedOK)
		b.filed(out)
		if !out.Dropped || out.DroppedOffset != 0 {
			b.t.Fatalf("outcome %+v; want 0 dropped", out)
		}
		b.at(1, 0)
		b.claim(1, 4, 1)
	}},
	{"failed 0 three times, then completed 0; failed 1", func(b *bench, lease uuid.UUID) {
		for attempt := uint32(2); attempt <= 4; attempt++ {
			b.releasing(lease, failed(0))
			lease = b.claim(0, 4, attempt)
		}
		before := b.state
		b.filed(b.releasing(lease, completed(0), failed(1)))
		b.at(1, 1)
		b.state = before
		b.keeping(lease, completed(0))
		b.filed(b.releasing(lease, failed(1)))
		b.at(1, 1)
	}},
	{"failed 0-4 twice, then completed 0-4", func(b *bench, lease uuid.UUID) {
		for attempt := uint32(2); attempt <= 3; attempt++ {
			b.filed(b.releasing(lease, failed(0, 1, 2, 3, 4)))
			lease = b.claim(0, 4, attempt)
		}
		b.filed(b.releasing(lease, completed(0, 1, 2, 3, 4)))
		b.at(5, 0)
	}},
	{"six times retry 0", func(b *bench, lease uuid.UUID) {
		for attempt := uint32(2); attempt <= 7; attempt++ {
			b.releasing(lease, retry(0))
			b.at(0, 0)
			lease = b.claim(0, 4, attempt)
		}
		for attempt := uint32(8); attempt <= 10; attempt++ {
			b.filed(b.releasing(lease, failed(0)))
			lease = b.claim(0, 4, attempt)
		}
		b.filed(b.releasing(lease, failed(0)), exhaustedAt(0, 3))
	}},
	{"retry 3, completed 0-2", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, retry(3), completed(0, 1, 2))
		b.at(3, 0)
		b.claim(3, 4, 2)
	}},
	{"retry 3 alone, nothing acked", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, retry(3))
		b.at(0, 0)
		b.claim(0, 4, 2)
	}},
	{"dlq 2 alone, nothing acked", func(b *bench, lease uuid.UUID) {
		out := b.releasing(lease, dlq(2))
		b.verdicts(out, filedOK)
		b.filed(out, Filing{Offset: 2})
		b.at(3, 0)
		b.claim(3, 4, 1)
	}},
	{"dlq 1, completed 0", func(b *bench, lease uuid.UUID) {
		b.filed(b.releasing(lease, dlq(1), completed(0)), Filing{Offset: 1})
		b.at(2, 0)
		b.claim(2, 4, 1)
	}},
	{"dlq 1, completed 0, 2, 3, 4", func(b *bench, lease uuid.UUID) {
		out := b.releasing(lease, dlq(1), completed(0, 2, 3, 4))
		b.verdicts(out, filedOK, releasedOK, releasedOK, releasedOK, releasedOK)
		b.filed(out, Filing{Offset: 1})
		b.at(2, 0)
		b.claim(2, 4, 1)
	}},
	{"dlq 1, dlq 2, completed 0", func(b *bench, lease uuid.UUID) {
		b.filed(b.releasing(lease, dlq(1, 2), completed(0)), Filing{Offset: 1}, Filing{Offset: 2})
		b.at(3, 0)
		b.claim(3, 4, 1)
	}},
	{"dlq 1, dlq 3, completed 0, 2", func(b *bench, lease uuid.UUID) {
		b.filed(b.releasing(lease, dlq(3, 1), completed(0, 2)), Filing{Offset: 1}, Filing{Offset: 3})
		b.at(2, 0)
		b.claim(2, 4, 1)
	}},
	{"wrong, expired or foreign leaseId, any status", func(b *bench, lease uuid.UUID) {
		every := together(completed(0), failed(1), retry(2), dlq(3))
		refused := func(lease uuid.UUID) {
			b.unchangedBy(func() {
				b.verdicts(b.keeping(lease, every), badLease, badLease, badLease, badLease)
			})
		}
		refused(uuid.UUID{0: 9})
		refused(command.NoSuchLease)
		b.expire()
		refused(lease)
	}},
	{"txid of offset 7, above the end, with the lease", func(b *bench, lease uuid.UUID) {
		b.tail = 8
		b.unchangedBy(func() { b.verdicts(b.keeping(lease, completed(7)), unresolved) })
		b.live(true)
	}},
	{"unknown txid completed, with the lease", func(b *bench, lease uuid.UUID) {
		b.unchangedBy(func() { b.verdicts(b.keeping(lease, completed(99)), unresolved) })
		b.verdicts(b.releasing(lease, completed(4)), releasedOK)
	}},
	{"failed 0 after 0 was committed", func(b *bench, lease uuid.UUID) {
		b.keeping(lease, completed(0))
		b.unchangedBy(func() { b.verdicts(b.keeping(lease, failed(0)), unresolved) })
	}},
	{"no lease held, completed 2 without leaseId", func(b *bench, lease uuid.UUID) {
		b.expire()
		b.verdicts(b.keeping(uuid.Nil, completed(2)), success)
		b.at(3, 0)
	}},
	{"no lease held, failed 2 without leaseId, cursor 0", func(b *bench, lease uuid.UUID) {
		b.expire()
		b.unchangedBy(func() { b.verdicts(b.keeping(uuid.Nil, failed(2)), success) })
	}},
	{"lease over partitions a and b, failed in a", func(b *bench, lease uuid.UUID) {
		other := *b
		b.releasing(lease, failed(0))
		other.live(true)
		other.releasing(lease, completed(4))
	}},
	{"retryDelay 500 set explicitly, failed 0", func(b *bench, lease uuid.UUID) {
		b.policy.RetryDelayMicros = 500_000
		b.releasing(lease, failed(0))
		b.now += 499_999
		b.claimNothing()
		if until := b.state.BlockedUntil(b.holds); until != b.now+1 {
			b.t.Fatalf("blocked until %d; want %d", until, b.now+1)
		}
		b.now++
		b.claim(0, 4, 2)
	}},
	{"transaction: completed 0-4 under the lease, sent twice", func(b *bench, lease uuid.UUID) {
		b.checked(lease, completed(0, 1, 2, 3, 4), 0, command.AckOK)
		b.releasing(lease, completed(0, 1, 2, 3, 4))
		b.checked(lease, completed(0, 1, 2, 3, 4), 0, command.AckBadLease)
	}},
	{"transaction: completed 0 unfenced, cursor 5", func(b *bench, lease uuid.UUID) {
		b.releasing(lease, completed(4))
		b.checked(uuid.Nil, completed(0), 0, command.AckOK)
	}},
	{"transaction: completed 0 under the live lease, cursor 2", func(b *bench, lease uuid.UUID) {
		b.keeping(lease, completed(1))
		b.checked(lease, completed(0), 0, command.AckOK)
	}},
	{"transaction: acks under two leases, one expired", func(b *bench, lease uuid.UUID) {
		other := *b
		b.expire()
		b.checked(lease, completed(0), 0, command.AckBadLease)
		other.checked(lease, completed(0), 0, command.AckOK)
	}},
	{"transaction: unknown txid among the acks", func(b *bench, lease uuid.UUID) {
		b.checked(lease, completed(0, 99, 1), 1, command.AckUnresolvable)
		b.expire()
		b.claim(0, 4, 2)
	}},
}
