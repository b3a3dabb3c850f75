package actors

import (
	"fmt"
	"testing"

	"queen/raftlog/command"
)

// heard tells whether a wait has been woken; what an applied command wakes is woken before the command is answered.
func heard(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

// await begins a wait for queues of the default tenant that ends with the test at the latest.
func (r *rig) await(queues ...string) (changed <-chan struct{}) {
	changed, end := r.Await(command.DefaultTenant, queues)
	r.t.Cleanup(end)
	return changed
}

func (r *rig) deleteQueue(queue string) {
	r.t.Helper()
	if _, err := r.Execute(soon(), &command.DeleteQueue{Tenant: command.DefaultTenant, Queue: queue}); err != nil {
		r.t.Errorf("delete queue: %v", err)
	}
}

// TestWaitHearsOnlyOfItsQueues: a wait costs nothing while others make queues and partitions, of the same name too when
// the tenant is another (messaging 13.1).
func TestWaitHearsOnlyOfItsQueues(t *testing.T) {
	r := newRig(t)
	r.push("there", "p", "x")
	missing, present, both := r.await("missing"), r.await("there"), r.await("there", "missing", "there")
	for i := range 20 {
		r.push(fmt.Sprint("other", i), "p", "x")
		r.push("other0", fmt.Sprint("p", i+1), "x")
	}
	r.deleteQueue("other1")
	groups := []command.PushGroup{pushGroup("missing", "p", "x"), pushGroup("there", "p", "x")}
	if _, err := r.Push(command.Tenant{7}, groups, soon()); err != nil {
		t.Fatal(err)
	}
	if heard(missing) || heard(present) || heard(both) {
		t.Fatal("woken by what happened to other queues")
	}
	r.push("missing", "p", "x")
	if !heard(missing) || heard(present) || !heard(both) {
		t.Fatal("want the two waits that name the new queue woken, and no other")
	}
	r.push("there", "p", "y")
	if heard(missing) || !heard(present) || !heard(both) {
		t.Fatal("want the two waits that name the queue woken, and no other")
	}
}

func TestDeletedQueueWakesItsReaders(t *testing.T) {
	r := newRig(t)
	r.push("orders", "p", "x")
	changed := r.await("orders")
	r.deleteQueue("orders")
	if !heard(changed) {
		t.Fatal("not woken by the deletion")
	}
	again := r.await("orders")
	r.push("orders", "p", "x")
	if !heard(again) {
		t.Fatal("not woken by the push that makes the queue again")
	}
}

// TestQueueMadeAgainInOneEntryWakes: readers of the old one hear of it although the name was never missing for them.
func TestQueueMadeAgainInOneEntryWakes(t *testing.T) {
	r := newRig(t)
	r.push("orders", "p", "x")
	old := r.Directory().Queue(command.DefaultTenant, "orders").ID
	changed := r.await("orders")
	r.log.gate.Lock()
	r.log.apply(&command.Entry{Items: []command.Item{
		{Command: &command.DeleteQueue{Tenant: command.DefaultTenant, Queue: "orders"}},
		{Command: &command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{pushGroup("orders", "p", "x")}}},
	}})
	r.log.gate.Unlock()
	if queue := r.Directory().Queue(command.DefaultTenant, "orders"); queue == nil || queue.ID == old {
		t.Fatal("the queue was not made again")
	}
	if !heard(changed) {
		t.Fatal("not woken")
	}
}

// TestQueueThatGoesBeforeItsWaitBegins deletes a queue between its look-up and the wait for its id: the wait is for the name
// then, not for an id that nobody announces any more.
func TestQueueThatGoesBeforeItsWaitBegins(t *testing.T) {
	r := newRig(t)
	r.push("orders", "p", "x")
	queue := r.Directory().Queue(command.DefaultTenant, "orders")
	r.arrivals.mu.Lock() // the wait gets as far as its look-up
	began := make(chan struct{})
	var changed <-chan struct{}
	go func() {
		defer close(began)
		changed = r.await("orders")
	}()
	eventually(t, "the wait begins", func() bool { return r.Awaiting() == 1 })
	r.directory.withdraw(queue.Queue) // announced to nobody: the wait has not joined
	r.arrivals.mu.Unlock()
	<-began
	r.directory.publish(queue.Queue, nil)
	if !heard(changed) {
		t.Fatal("the wait is for a queue that was gone when it began")
	}
}

// TestWaitMissesNoQueueThatComesAndGoes makes and deletes a queue while a reader looks, again and again, as a fetch does.
func TestWaitMissesNoQueueThatComesAndGoes(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		var stored command.PushGroupResult
		pushed := make(chan struct{})
		go func() {
			defer close(pushed)
			r.deleteQueue("orders")
			stored = r.push("orders", "p", "x")
		}()
		found := func() (partition uint64) {
			changed, end := r.Await(command.DefaultTenant, []string{"orders"})
			defer end()
			if queue := r.Directory().Queue(command.DefaultTenant, "orders"); queue != nil {
				partition = r.partitionID(queue.ID, "p")
			}
			select {
			case <-pushed:
				if partition == stored.Partition {
					return partition
				}
			default:
			}
			select {
			case <-changed:
			case <-pushed:
				if partition != stored.Partition && !heard(changed) {
					t.Fatalf("round %d: the reader sleeps although the queue was made again", i)
				}
			}
			return 0
		}
		for found() == 0 {
		}
	}
}

// TestEndedWaitLeavesNothing ends waits that were woken and waits that were not, for queues there, missing, gone and new.
func TestEndedWaitLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.push("there", "p", "x")
	r.push("gone", "p", "x")
	var ends []func()
	for range 3 {
		_, end := r.Await(command.DefaultTenant, []string{"there", "there", "gone", "missing", "new"})
		ends = append(ends, end)
	}
	r.push("new", "p", "x")
	r.deleteQueue("gone")
	_, end := r.Await(command.DefaultTenant, []string{"gone", "missing", "new", "there"})
	for _, end := range append(ends, end) {
		end()
	}
	r.directory.mu.RLock()
	names := len(r.directory.awaiting)
	r.directory.mu.RUnlock()
	r.arrivals.mu.Lock()
	ids := len(r.arrivals.queues)
	r.arrivals.mu.Unlock()
	if names != 0 || ids != 0 || r.Awaiting() != 0 {
		t.Errorf("left: %d names, %d ids, %d waits", names, ids, r.Awaiting())
	}
}

// BenchmarkWaitsForOtherQueues is a push that makes a partition beside 1,000 waits for missing queues.
func BenchmarkWaitsForOtherQueues(b *testing.B) {
	r := newRig(b)
	for i := range 1000 {
		r.await(fmt.Sprint("missing", i))
	}
	for i := 0; b.Loop(); i++ {
		r.push("orders", fmt.Sprint("p", i), "x")
	}
}
