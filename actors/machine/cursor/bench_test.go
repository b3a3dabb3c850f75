package cursor

import (
	"testing"

	"github.com/google/uuid"
)

func benchmarkAck(b *testing.B, messages uint64) {
	lease := uuid.UUID{15: 1}
	base := State{Attempt: 1, HasAttemptStart: true}
	base.Lease = Lease{ID: lease, End: messages - 1, ExpiresMicros: startMicros + second}
	call := AckCall{Lease: lease}
	for offset := range messages {
		call.Items = append(call.Items, AckItem{Txid: txidHash(offset), Where: InRange, Offset: offset})
	}
	b.ReportAllocs()
	for b.Loop() {
		state := base
		if out := state.Ack(startMicros, call, Policy{RetryLimit: 3}); out.Released == uuid.Nil {
			b.Fatal("nothing released")
		}
	}
}

// BenchmarkAck1 and BenchmarkAck100 complete whole batches in order.
func BenchmarkAck1(b *testing.B)   { benchmarkAck(b, 1) }
func BenchmarkAck100(b *testing.B) { benchmarkAck(b, 100) }

// BenchmarkRepeat10000 answers a large call that is sent again.
func BenchmarkRepeat10000(b *testing.B) {
	bench := releasedBench(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		bench.state.Ack(bench.now, bench.repeat, bench.policy)
	}
}

func BenchmarkClaim(b *testing.B) {
	in := ClaimInput{
		Window: Window{VisibleEnd: 1000}, Max: 100, MaxEnd: NoCap, Lease: uuid.UUID{15: 1}, LeaseMicros: second, Term: 3,
	}
	base := State{}
	b.ReportAllocs()
	for b.Loop() {
		state := base
		if _, ok := state.Claim(startMicros, in); !ok {
			b.Fatal("nothing claimed")
		}
	}
}

func benchmarkState() State {
	state := State{Cursor: 123_456, TotalConsumed: 120_000, Attempt: 2, AttemptStart: 123_456, HasAttemptStart: true, Failures: 1}
	state.Lease = Lease{ID: uuid.UUID{15: 1}, End: 123_999, ExpiresMicros: startMicros, GrantedTerm: 3}
	return state
}

func BenchmarkAppendTo(b *testing.B) {
	state := benchmarkState()
	row := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		row = state.AppendTo(row[:0])
	}
}

func BenchmarkDecode(b *testing.B) {
	row := benchmarkState().AppendTo(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(row); err != nil {
			b.Fatal(err)
		}
	}
}
