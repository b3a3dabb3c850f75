package catalog

import (
	"testing"

	"github.com/google/uuid"
)

func TestNamesAreRememberedByQueueAndName(t *testing.T) {
	memory := newNames()
	a := &Partition{ID: 7, QueueID: 1, UUID: uuid.UUID{1}, Name: "a", CreatedMicros: 5}
	same := &Partition{ID: 8, QueueID: 2, UUID: uuid.UUID{2}, Name: "a"}
	memory.put(a)
	memory.put(same)
	for _, want := range []*Partition{a, same} {
		if got, ok := memory.get(want.QueueID, want.Name); !ok || *got != *want {
			t.Errorf("want %+v, got %+v", want, got)
		}
	}
	if got, ok := memory.get(1, "b"); ok {
		t.Errorf("want nothing, got %+v", got)
	}
	memory.forget(a)
	if _, ok := memory.get(1, "a"); ok {
		t.Error("a is still known")
	}
	if _, ok := memory.get(2, "a"); !ok {
		t.Error("that of the other queue is forgotten as well")
	}
}
