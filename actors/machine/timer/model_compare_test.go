package timer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen/raftlog/command"
	"queen/store/layout"
)

// compare holds everything that can be read against the model.
func (tr *trial) compare(t *rapid.T) {
	order := tr.m.inOrder()
	due, pending := tr.next()
	if pending != (len(order) > 0) {
		t.Fatalf("pending is %v with %d timers", pending, len(order))
	}
	if first := tr.m.timers[append(order, timerName{})[0]]; pending && due != first.due() {
		t.Fatalf("next is due at %d, want %d", due, first.due())
	}
	total, err := Total(tr.space)
	if err != nil || total.Pending != uint64(len(order)) {
		t.Fatalf("%+v in all, %v", total, err)
	}
	for _, tenant := range drawnTenants {
		var want Usage
		for _, queue := range drawnQueues {
			var names []timerName
			for name := range tr.m.timers {
				if name.tenant == tenant && name.queue == queue {
					names = append(names, name)
				}
			}
			slices.SortFunc(names, func(a, b timerName) int { return strings.Compare(a.key, b.key) })
			tr.compareQueue(t, tenant, queue, names)
			want.Pending += uint64(len(names))
			for _, name := range names {
				want.PayloadBytes += uint64(len(tr.m.timers[name].op.Payload))
			}
		}
		if got := tr.usage(tenant); got != want {
			t.Fatalf("tenant has %+v, want %+v", got, want)
		}
	}
	tr.compareOrder(t)
}

// compareQueue compares lists, counts and peeks.
func (tr *trial) compareQueue(t *rapid.T, tenant uuid.UUID, queue string, want []timerName) {
	var rows []*Row
	for after, more := "", true; more; {
		page, truncated, err := tr.reads().List(tenant, queue, after, 2)
		if err != nil || truncated && len(page) != 2 {
			t.Fatalf("page of %d rows, truncated %v, %v", len(page), truncated, err)
		}
		if rows, more = append(rows, page...), truncated; truncated {
			after = page[1].Key
		}
	}
	if len(rows) != len(want) {
		t.Fatalf("queue %s has %q, want %d", queue, keysOf(rows), len(want))
	}
	for i, row := range rows {
		timer := tr.m.timers[want[i]]
		got := modelTimer{op: command.TimerOp{Kind: command.TimerSchedule, Queue: row.Queue, Key: row.Key, Txid: row.Txid, Partition: row.Partition,
			DelayMicros: timer.op.DelayMicros, MessageID: row.MessageID, ProducerSub: row.ProducerSub, Zstd: row.Zstd, Encrypted: row.Encrypted,
			Inflated: timer.op.Inflated}, deliver: row.DeliverMicros, notUntil: timer.notUntil, created: row.CreatedMicros,
			updated: row.UpdatedMicros, attempts: row.Attempts, reason: row.LastError}
		_, got.op.Payload = tr.peek(tenant, queue, row.Key)
		if fmt.Sprint(got) != fmt.Sprint(timer) || row.DueMicros != timer.due() {
			t.Fatalf("row %+v\nwant %+v", got, timer)
		}
	}
	for _, prefix := range []string{"a", "a/", "é", "\x00"} {
		n := uint64(0)
		for _, name := range want {
			if strings.HasPrefix(name.key, prefix) {
				n++
			}
		}
		if got, err := tr.reads().Count(tenant, queue, prefix); err != nil || got != n {
			t.Fatalf("%d keys begin with %q, %v, want %d", got, prefix, err, n)
		}
	}
}

// compareOrder looks for places without timers, and what the machine remembers of the places.
func (tr *trial) compareOrder(t *rapid.T) {
	var places []place
	if err := tr.space.Scan(layout.TimersDue(), nil, func(key, value []byte) bool {
		p, err := placeOf(key)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
		return true
	}); err != nil || len(places) != len(tr.m.timers) {
		t.Fatalf("%d places of %d timers, %v", len(places), len(tr.m.timers), err)
	}
	known := tr.machine.front
	n := len(known.places)
	if n > len(places) || !slices.Equal(known.places, places[:n]) {
		t.Fatalf("the front is %+v, the order %+v", known.places, places)
	}
	if n < len(places) && (known.complete || places[n].compare(known.reached) <= 0) {
		t.Fatalf("the front ends at %+v, complete %v, the next is %+v", known.reached, known.complete, places[n])
	}
}
