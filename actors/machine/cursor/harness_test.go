package cursor

import (
	"encoding/binary"
	"testing"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

const (
	second       = uint64(1_000_000)
	leaseSeconds = 60
	startMicros  = uint64(1_800_000_000_000_000)
)

// bench is one group on one partition with a clock: the message at offset o has the txid o.
type bench struct {
	t        *testing.T
	state    State
	now      uint64
	logStart uint64
	tail     uint64
	term     uint64
	holds    Holds
	policy   Policy
	leases   byte
}

// newBench is the set-up of messaging 17.2: five messages, retryLimit 3, dead letters filed.
func newBench(t *testing.T) *bench {
	return &bench{t: t, now: startMicros, tail: 5, term: 1, policy: Policy{RetryLimit: 3, FileDeadLetters: true}}
}

func txidHash(offset uint64) (hash [16]byte) {
	binary.BigEndian.PutUint64(hash[8:], ^offset)
	binary.LittleEndian.PutUint64(hash[:8], offset*0x9e3779b97f4a7c15+1)
	return hash
}

func (b *bench) window() Window { return Window{LogStart: b.logStart, VisibleEnd: b.tail} }

func (b *bench) nextLease() uuid.UUID {
	b.leases++
	return uuid.UUID{15: b.leases}
}

func (b *bench) tryClaim() (ClaimOutput, uuid.UUID, bool) {
	lease := b.nextLease()
	out, ok := b.state.Claim(b.now, ClaimInput{
		Window: b.window(), Holds: b.holds, Max: 100, MaxEnd: NoCap, Lease: lease,
		LeaseMicros: leaseSeconds * second, Term: b.term,
	})
	return out, lease, ok
}

// claim expects a batch and its attempt.
func (b *bench) claim(first, last uint64, attempt uint32) uuid.UUID {
	b.t.Helper()
	out, lease, ok := b.tryClaim()
	if want := (ClaimOutput{First: first, Last: last, Attempt: attempt}); !ok || out != want {
		b.t.Fatalf("claim = %+v, %v; want %+v", out, ok, want)
	}
	return lease
}

func (b *bench) claimNothing() {
	b.t.Helper()
	if out, _, ok := b.tryClaim(); ok {
		b.t.Fatalf("claim = %+v; want nothing", out)
	}
}

// said is one item of an ack in a test.
type said struct {
	status command.AckStatus
	offset uint64
}

func items(status command.AckStatus, offsets ...uint64) []said {
	var list []said
	for _, offset := range offsets {
		list = append(list, said{status, offset})
	}
	return list
}

func completed(offsets ...uint64) []said { return items(command.AckCompleted, offsets...) }
func failed(offsets ...uint64) []said    { return items(command.AckFailed, offsets...) }
func retry(offsets ...uint64) []said     { return items(command.AckRetry, offsets...) }
func dlq(offsets ...uint64) []said       { return items(command.AckDeadLetter, offsets...) }

func together(parts ...[]said) (all []said) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// call resolves the items as the partition would: every txid below the tail is known, the hash window never ends.
func (b *bench) call(lease uuid.UUID, list []said) AckCall {
	lookup := b.state.Lookup(b.now, lease, b.logStart, b.tail, b.holds)
	call := AckCall{Lease: lease, LogStart: b.logStart, Holds: b.holds}
	for _, one := range list {
		item := AckItem{Txid: txidHash(one.offset), Status: one.status}
		switch {
		case !lookup.Needed:
		case one.offset >= lookup.Low && one.offset < lookup.End:
			item.Where, item.Offset = InRange, one.offset
		case one.offset < lookup.Low:
			item.Where = Below
		}
		call.Items = append(call.Items, item)
	}
	return call
}

func (b *bench) ack(lease uuid.UUID, parts ...[]said) AckOutcome {
	return b.state.Ack(b.now, b.call(lease, together(parts...)), b.policy)
}

// releasing expects that the call releases a lease and that no item fails.
func (b *bench) releasing(lease uuid.UUID, parts ...[]said) AckOutcome {
	b.t.Helper()
	out := b.ack(lease, parts...)
	if out.Released == uuid.Nil {
		b.t.Fatalf("ack released nothing: %+v", out)
	}
	for i, verdict := range out.Verdicts {
		if verdict.Error != command.AckOK || !verdict.LeaseReleased && !verdict.Noop {
			b.t.Fatalf("verdict %d = %+v; want success with the lease released", i, verdict)
		}
	}
	return out
}

// keeping expects that the call releases no lease.
func (b *bench) keeping(lease uuid.UUID, parts ...[]said) AckOutcome {
	b.t.Helper()
	out := b.ack(lease, parts...)
	if out.Released != uuid.Nil {
		b.t.Fatalf("ack released a lease: %+v", out)
	}
	return out
}

func (b *bench) at(cursor uint64, failures uint32) {
	b.t.Helper()
	if b.state.Cursor != cursor || b.state.Failures != failures {
		b.t.Fatalf("cursor %d, failures %d; want %d, %d", b.state.Cursor, b.state.Failures, cursor, failures)
	}
}

func (b *bench) live(want bool) {
	b.t.Helper()
	if got := b.state.LeaseLive(b.now, b.holds); got != want {
		b.t.Fatalf("lease live = %v; want %v", got, want)
	}
}

func (b *bench) verdicts(out AckOutcome, want ...command.AckVerdict) {
	b.t.Helper()
	if len(out.Verdicts) != len(want) {
		b.t.Fatalf("%d verdicts; want %d", len(out.Verdicts), len(want))
	}
	for i := range want {
		if out.Verdicts[i] != want[i] {
			b.t.Fatalf("verdict %d = %+v; want %+v", i, out.Verdicts[i], want[i])
		}
	}
}

func (b *bench) filed(out AckOutcome, want ...Filing) {
	b.t.Helper()
	if len(out.Filings) != len(want) {
		b.t.Fatalf("filings %+v; want %+v", out.Filings, want)
	}
	for i := range want {
		got := out.Filings[i]
		got.Item = 0
		if got != want[i] {
			b.t.Fatalf("filing %d = %+v; want %+v", i, got, want[i])
		}
	}
}

func (b *bench) unchangedBy(step func()) {
	b.t.Helper()
	before := string(b.state.AppendTo(nil))
	step()
	if string(b.state.AppendTo(nil)) != before {
		b.t.Fatalf("state changed to %+v", b.state)
	}
}

func (b *bench) expire() { b.now += leaseSeconds * second }

var (
	success     = command.AckVerdict{}
	noop        = command.AckVerdict{Noop: true}
	releasedOK  = command.AckVerdict{LeaseReleased: true}
	filedOK     = command.AckVerdict{LeaseReleased: true, DeadLettered: true}
	badLease    = command.AckVerdict{Error: command.AckBadLease}
	unresolved  = command.AckVerdict{Error: command.AckUnresolvable}
	exhaustedAt = func(offset uint64, count uint32) Filing {
		return Filing{Offset: offset, Error: ReasonExhausted, HasError: true, RetryCount: count}
	}
)

// checked expects the judgement of a transaction, which changes nothing.
func (b *bench) checked(lease uuid.UUID, list []said, item int, reason command.AckError) {
	b.t.Helper()
	b.unchangedBy(func() {
		gotItem, got := b.state.Check(b.now, b.call(lease, list))
		if got != reason || gotItem != item {
			b.t.Fatalf("check = item %d, %v; want item %d, %v", gotItem, got, item, reason)
		}
	})
}
