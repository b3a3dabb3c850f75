package actors

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/trace"
	"queen/raftlog/command"
	"queen/store/layout"
)

// stranger is a tenant that owns nothing.
var stranger = uuid.MustParse("00000000-0000-0000-0000-0000000000bb")

// trace records a trace and returns its result.
func (r *rig) trace(c command.Trace) *command.TraceResult {
	r.t.Helper()
	result, err := r.Execute(soon(), &c)
	if err != nil {
		r.t.Fatalf("trace: %v", err)
	}
	return result.(*command.TraceResult)
}

// tracesAt lists the traces of an address, newest first.
func (r *rig) tracesAt(tenant command.Tenant, partition, txid string) (found []*trace.Stored) {
	r.t.Helper()
	view := r.LocalView()
	defer view.Close()
	reads := trace.Reads{Reader: view, Check: context.Background().Err}
	err := reads.At(tenant, partition, txid, func(t *trace.Stored) (bool, error) {
		found = append(found, t)
		return true, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

func (r *rig) storedTraces() uint64 {
	r.t.Helper()
	stored, err := r.Traces()
	if err != nil {
		r.t.Fatal(err)
	}
	return stored
}

func TestTraceOfAForeignPartitionIsRefused(t *testing.T) {
	r := newRig(t)
	id := strconv.FormatUint(r.push("q", "p", "t").Partition, 10)
	if result := r.trace(command.Trace{Tenant: stranger, Partition: id, Txid: "t", Data: []byte("1")}); !result.Foreign {
		t.Errorf("got %+v", result)
	}
	if stored := r.storedTraces(); stored != 0 {
		t.Errorf("%d traces are stored", stored)
	}
	if result := r.trace(command.Trace{Tenant: command.DefaultTenant, Partition: id, Txid: "t", Data: []byte("1")}); result.Foreign {
		t.Error("the owner is refused")
	}
}

func TestTraceKeepsTheNamesOfAQueueThatIsDeleted(t *testing.T) {
	r := newRig(t)
	id := strconv.FormatUint(r.push("q", "p", "t").Partition, 10)
	recorded := r.trace(command.Trace{Tenant: command.DefaultTenant, Partition: id, Txid: "t", Worker: "w", Data: []byte("1")})
	if _, err := r.Execute(soon(), &command.DeleteQueue{Tenant: command.DefaultTenant, Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	found := r.tracesAt(command.DefaultTenant, id, "t")
	if len(found) != 1 || found[0].ID != recorded.ID || found[0].Queue != "q" || found[0].PartitionName != "p" || found[0].Worker != "w" {
		t.Fatalf("got %+v", found)
	}
	// A trace that comes now is kept too, without names.
	r.trace(command.Trace{Tenant: command.DefaultTenant, Partition: id, Txid: "t", Data: []byte("2")})
	if found = r.tracesAt(command.DefaultTenant, id, "t"); len(found) != 2 || found[0].Placed || !found[1].Placed {
		t.Fatalf("got %+v", found)
	}
}

func TestTraceIsFoundByBothFormsOfItsPartition(t *testing.T) {
	r := newRig(t)
	id := r.push("q", "p", "t").Partition
	view := r.LocalView()
	defer view.Close()
	row, err := view.Get(layout.Partition(id))
	if err != nil {
		t.Fatal(err)
	}
	partition, err := catalog.DecodePartition(id, row)
	if err != nil {
		t.Fatal(err)
	}
	byUUID := partition.UUID.String()
	r.trace(command.Trace{Tenant: command.DefaultTenant, Partition: strings.ToUpper(byUUID), Txid: "t", Data: []byte("1")})
	for _, form := range []string{byUUID, strconv.FormatUint(id, 10)} {
		found := r.tracesAt(command.DefaultTenant, form, "t")
		if len(found) != 1 || found[0].Partition != strconv.FormatUint(id, 10) || found[0].Queue != "q" {
			t.Errorf("%s: got %+v", form, found)
		}
	}
}

func TestTracesGoWhenTheirTimeIsOver(t *testing.T) {
	r := newRig(t, func(c *Config) { c.TraceRetention = time.Hour })
	for i := range 1000 { // more than one step
		r.trace(command.Trace{Tenant: command.DefaultTenant, Partition: "1", Txid: fmt.Sprint(i), Names: []string{"n"}, Data: []byte("1")})
	}
	r.log.ahead(59 * time.Minute)
	r.trace(command.Trace{Tenant: command.DefaultTenant, Partition: "1", Txid: "young", Names: []string{"n"}, Data: []byte("1")})
	if stored := r.storedTraces(); stored != 1001 {
		t.Fatalf("%d traces are left before the hour is over", stored)
	}
	r.log.ahead(2 * time.Minute)
	eventually(t, "removal of all old traces", func() bool { return r.storedTraces() == 1 })
	if found := r.tracesAt(command.DefaultTenant, "1", "young"); len(found) != 1 {
		t.Errorf("the young trace: %+v", found)
	}
	if found := r.tracesAt(command.DefaultTenant, "1", "0"); found != nil {
		t.Errorf("an old trace: %+v", found)
	}
}

// A trace must not be accepted by its weight and then write more than an entry may hold.
func TestTraceWithTooManyNamesFitsNoEntry(t *testing.T) {
	c := &command.Trace{Names: make([]string, MaxEntryKeys/trace.NameKeys+1)}
	if keys, _ := weigh(c); keys <= MaxEntryKeys {
		t.Errorf("%d names weigh %d keys", len(c.Names), keys)
	}
}
