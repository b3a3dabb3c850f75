package catalog

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/uuid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
	"queen/store/layout"
)

func TestCatalogRowFormats(t *testing.T) {
	id := uuid.MustParse("01020304-0506-7708-890a-0b0c0d0e0f10")
	for _, c := range []struct{ name, got, want string }{
		{"queue", string(encodeJSON(&Queue{
			ID: 3, UUID: id, Tenant: command.DefaultTenant, Name: "a.b", CreatedMicros: 7, Options: command.ImplicitDefaults("a.b"),
		})), `{"id":3,"uuid":"01020304-0506-7708-890a-0b0c0d0e0f10","tenant":"00000000-0000-0000-0000-000000000001",` +
			`"name":"a.b","createdMicros":7,"options":{"Namespace":"a","Task":"b","Priority":0,"LeaseTimeSeconds":60,` +
			`"RetryLimit":3,"RetryDelayMs":1000,"RetryDelayExplicit":false,"MaxSize":0,"TTLSeconds":3600,` +
			`"DeadLetterQueue":true,"DLQAfterMaxRetries":true,"DelayedProcessingSeconds":0,"WindowBufferSeconds":0,` +
			`"RetentionEnabled":false,"RetentionSeconds":0,"CompletedRetentionSeconds":0,"MaxWaitTimeSeconds":0,` +
			`"MinPopWaitTimeMs":0,"EncryptionEnabled":false,"DedupWindowSeconds":3600,"RetentionSinkHold":"",` +
			`"RetentionSinkHoldMaxSeconds":604800}}`},
		{"group", string(encodeJSON(&Group{
			ID: 4, QueueID: 3, Name: "g", Subscription: command.Subscription{Mode: command.SubscriptionNew, InstantMicros: 9},
			Conflation: true, CreatedMicros: 8,
		})), `{"id":4,"queueId":3,"name":"g","subscription":{"Mode":2,"InstantMicros":9},"conflation":true,"createdMicros":8}`},
		{"partition", hex.EncodeToString(appendPartition(nil, &Partition{ID: 5, QueueID: 3, UUID: id, Name: "p", CreatedMicros: 7})),
			"01" + "0000000000000003" + "0000000000000007" + "0102030405067708890a0b0c0d0e0f10" + "70"},
		{"partition name", hex.EncodeToString(appendPartitionName(nil, &Partition{ID: 5, QueueID: 3, UUID: id, Name: "p", CreatedMicros: 7})),
			"0000000000000005" + "0000000000000007" + "0102030405067708890a0b0c0d0e0f10"},
	} {
		if c.got != c.want {
			t.Errorf("%s row is\n%s\nwant\n%s", c.name, c.got, c.want)
		}
	}
	rows := rowtest.NewMemory()
	m := &Machine{lastIDs: lastIDs{1, 2, 3}}
	m.putLastIDs(rows)
	if got := hex.EncodeToString(rows.Row(layout.Meta("last-ids"))); got != "000000000000000100000000000000020000000000000003" {
		t.Errorf("row of the last ids is %s", got)
	}
}

func TestDamagedCatalogRowsAreRefused(t *testing.T) {
	for name, rows := range map[string]map[string][]byte{
		"queue":    {string(layout.Queue(1)): []byte("{")},
		"last ids": {string(layout.Meta("last-ids")): {1, 2}},
		"group":    {string(layout.Group(1, 2)): []byte("nonsense")},
	} {
		if _, err := Load(rowtest.Holding(rows)); !errors.Is(err, ErrBadRow) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	rows := rowtest.Holding(map[string][]byte{string(layout.Partition(1)): {9}, string(layout.PartitionName(1, "p")): {1}})
	m := mustLoad(t, rows)
	if _, err := m.PartitionByID(rows, 1); !errors.Is(err, ErrBadRow) {
		t.Errorf("the error is %v", err)
	}
	if _, err := m.Partition(rows, 1, "p"); !errors.Is(err, ErrBadRow) {
		t.Errorf("the error is %v", err)
	}
}

func FuzzPartitionRow(f *testing.F) {
	f.Add(appendPartition(nil, &Partition{ID: 5, QueueID: 3, Name: "p", CreatedMicros: 7}))
	codec := rowtest.Codec[*Partition]{
		Encode: func(p *Partition) []byte { return appendPartition(nil, p) },
		Decode: func(row []byte) (*Partition, error) { return DecodePartition(5, row) },
		Bad:    ErrBadRow,
	}
	f.Fuzz(func(t *testing.T, row []byte) { codec.Exact(t, row) })
}

func FuzzPartitionNameRow(f *testing.F) {
	f.Add(appendPartitionName(nil, &Partition{ID: 5, QueueID: 3, Name: "p", CreatedMicros: 7}))
	codec := rowtest.Codec[*Partition]{
		Encode: func(p *Partition) []byte { return appendPartitionName(nil, p) },
		Decode: func(row []byte) (*Partition, error) { return DecodePartitionName(3, "p", row) },
		Bad:    ErrBadRow,
	}
	f.Fuzz(func(t *testing.T, row []byte) { codec.Exact(t, row) })
}

func FuzzQueueAndGroupRows(f *testing.F) {
	f.Add([]byte(`{"id":1}`))
	queues := rowtest.Codec[*Queue]{Encode: func(q *Queue) []byte { return encodeJSON(q) }, Decode: DecodeQueue, Bad: ErrBadRow}
	groups := rowtest.Codec[*Group]{Encode: func(g *Group) []byte { return encodeJSON(g) }, Decode: DecodeGroup, Bad: ErrBadRow}
	f.Fuzz(func(t *testing.T, row []byte) {
		queues.Stable(t, row)
		groups.Stable(t, row)
	})
}
