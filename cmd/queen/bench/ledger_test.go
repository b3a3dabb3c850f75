package bench

import (
	"testing"

	"pgregory.net/rapid"
)

func testLedger() *ledger {
	return newLedger(2, Options{LeaseSeconds: 60})
}

func id(sequence uint32) identity { return identity{lane: 1, sequence: sequence} }

// leaseUs is the lease of the test ledger.
const leaseUs = 60_000_000

func TestDeliveriesInOrderAreFine(t *testing.T) {
	l := testLedger()
	for sequence := range uint32(10) {
		by := claim{number: uint64(sequence/5 + 1), sentUs: int64(sequence)}
		l.deliver(id(sequence), by, 100)
		l.settle(id(sequence), by.number, true)
	}
	if l.acked.Load() != 10 || l.duplicates.Load()+l.outOfOrder.Load()+l.redelivered.Load() != 0 || len(l.lanes[1].claims) != 0 {
		t.Errorf("acked %d duplicates %d out of order %d, %d claims left", l.acked.Load(), l.duplicates.Load(), l.outOfOrder.Load(), len(l.lanes[1].claims))
	}
}

func TestLedgerJudgesSecondDeliveries(t *testing.T) {
	first, second := claim{number: 1, sentUs: 0}, claim{number: 2, sentUs: 50}
	late := claim{number: 3, sentUs: leaseUs + 1}
	for name, row := range map[string]struct {
		script                              func(*ledger)
		duplicates, redelivered, unresolved int64
	}{
		"twice in one answer": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.deliver(id(0), first, 10)
		}, 1, 0, 0},
		"again after its ack": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.settle(id(0), 1, true)
			l.deliver(id(0), late, leaseUs+2)
		}, 1, 0, 0},
		"again after a refused ack": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.settle(id(0), 1, false)
			l.deliver(id(0), second, 60)
			l.settle(id(0), 2, true)
		}, 0, 1, 0},
		"again while the refusal is on its way": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.deliver(id(0), second, 60)
			l.settle(id(0), 2, true)
			l.settle(id(0), 1, false)
		}, 0, 1, 0},
		"two holders, both acked": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.deliver(id(0), second, 60)
			l.settle(id(0), 2, true)
			l.settle(id(0), 1, true)
		}, 1, 0, 0},
		"two holders until the end": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.deliver(id(0), second, 60)
		}, 0, 0, 1},
		"lease ran out": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.deliver(id(1), first, 10)
			l.deliver(id(0), late, leaseUs+2)
			l.deliver(id(1), late, leaseUs+2)
			l.settle(id(0), 3, true)
			l.settle(id(0), 1, false)
		}, 0, 2, 0},
		"lease ran out, then twice in one answer": {func(l *ledger) {
			l.deliver(id(0), first, 10)
			l.deliver(id(0), late, leaseUs+2)
			l.deliver(id(0), late, leaseUs+2)
		}, 1, 1, 0},
	} {
		l := testLedger()
		row.script(l)
		if l.duplicates.Load() != row.duplicates || l.redelivered.Load() != row.redelivered || l.unresolved() != row.unresolved || l.outOfOrder.Load() != 0 {
			t.Errorf("%s: duplicates %d redelivered %d unresolved %d out of order %d", name, l.duplicates.Load(), l.redelivered.Load(), l.unresolved(), l.outOfOrder.Load())
		}
	}
}

func TestGapIsOutOfOrder(t *testing.T) {
	l := testLedger()
	by := claim{number: 1}
	for _, sequence := range []uint32{0, 2, 1, 3} {
		l.deliver(id(sequence), by, 0)
		l.settle(id(sequence), 1, true)
	}
	if l.outOfOrder.Load() != 1 || l.acked.Load() != 4 || l.lanes[1].acked.next != 4 {
		t.Errorf("out of order %d, acked %d", l.outOfOrder.Load(), l.acked.Load())
	}
	unordered := newLedger(2, Options{LeaseSeconds: 60, AutoAck: true})
	unordered.deliver(id(5), by, 0)
	if unordered.outOfOrder.Load() != 0 {
		t.Error("order was judged without leases")
	}
}

func TestExcludedNumberIsNotMissed(t *testing.T) {
	l := testLedger()
	l.exclude(id(0))
	l.deliver(id(1), claim{number: 1}, 0)
	l.settle(id(1), 1, true)
	if l.outOfOrder.Load() != 0 || l.acked.Load() != 1 || !l.hasAck(id(0)) {
		t.Errorf("out of order %d, acked %d", l.outOfOrder.Load(), l.acked.Load())
	}
	if l.deliver(identity{lane: 2}, claim{}, 0) {
		t.Error("a lane that does not exist was accepted")
	}
}

func TestSequenceSetEqualsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, model := sequenceSet{}, map[uint32]bool{}
		for _, number := range rapid.SliceOf(rapid.Uint32Range(0, 30)).Draw(t, "numbers") {
			set.add(number)
			model[number] = true
			for probe := range uint32(32) {
				if set.has(probe) != model[probe] {
					t.Fatalf("has(%d) = %v after adding %d", probe, set.has(probe), number)
				}
			}
		}
	})
}

func TestLanesCoverEveryPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := Defaults()
		options.Queues = rapid.IntRange(1, 5).Draw(t, "queues")
		options.Partitions = rapid.IntRange(1, 200).Draw(t, "partitions")
		options.Clients = rapid.IntRange(1, 70).Draw(t, "clients")
		options.Spread = rapid.Bool().Draw(t, "spread")
		options.Batch = rapid.IntRange(1, options.Queues*options.Partitions).Draw(t, "batch")
		lanes := newLaneMap(options)
		seen := map[int]bool{}
		for producer := range options.Clients {
			own := map[int]bool{}
			for i := range lanes.perProducer {
				partition := lanes.partition(lanes.lane(producer, i))
				if own[partition] {
					t.Fatalf("producer %d has two lanes into partition %d", producer, partition)
				}
				own[partition], seen[partition] = true, true
			}
			if options.Spread && len(own) < options.Batch {
				t.Fatalf("producer %d cannot spread a batch of %d over %d partitions", producer, options.Batch, len(own))
			}
		}
		if len(seen) != options.Queues*options.Partitions {
			t.Fatalf("%d of %d partitions are used", len(seen), options.Queues*options.Partitions)
		}
	})
}
