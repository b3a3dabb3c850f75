package actors

import (
	"queen/actors/machine/timer"
	"queen/raftlog/command"
	"queen/store/layout"
)

// timers reads the timers out of a store, and checks that they are counted, placed and found by the buckets of their payloads.
func (d *dumper) timers() {
	d.t.Helper()
	chunks := 0
	rows := d.rows([]byte{layout.FamilyTimer})
	for _, r := range rows {
		row, err := timer.DecodeRow(r.key, r.value)
		d.check(err)
		payload, err := row.Payload(d.view)
		d.check(err)
		d.dump.timer(row.Tenant, &command.TimerOp{
			Queue: row.Queue, Key: row.Key, MessageID: row.MessageID, Partition: row.Partition, Txid: row.Txid, ProducerSub: row.ProducerSub,
			Zstd: row.Zstd, Encrypted: row.Encrypted, Payload: payload,
		}, row.Number, row.DueMicros, row.DeliverMicros, row.CreatedMicros, row.UpdatedMicros, row.Attempts, row.LastError)
		if string(d.get(layout.TimerDue(row.DueMicros, row.DeliverMicros, row.Number))) != string(r.key) {
			d.t.Fatalf("timer %q is not where it is due", row.Key)
		}
		if row.Chunk != nil {
			chunks++
			if d.get(layout.TimerChunk(row.Chunk.Bucket, r.key)) == nil {
				d.t.Fatalf("timer %q is not found by its bucket", row.Key)
			}
		}
	}
	usage, err := timer.Total(d.view)
	d.check(err)
	if places := len(d.rows(layout.TimersDue())); places != len(rows) || usage.Pending != uint64(len(rows)) || len(d.rows([]byte{layout.FamilyTimerChunk})) != chunks {
		d.t.Fatalf("%d timers have %d places, %d are counted", len(rows), places, usage.Pending)
	}
}
