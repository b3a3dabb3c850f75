package actors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// told spells an outcome without what differs from run to run.
func told(o *PopOutcome, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "lease=%t registered=%t conflation=%t auto=%d/%d", o.Lease != uuid.Nil, o.Registered, o.Conflation,
		o.AutoPartitions, o.AutoBatch)
	for i := range o.Batches {
		b := &o.Batches[i]
		fmt.Fprintf(&text, " %s/%s[%d-%d] attempt=%d last=%t expires=%t", b.Queue, b.PartitionName, b.FirstOffset, b.LastOffset,
			b.Attempt, b.DeliverLastOnly, b.ExpiresMicros > 0)
	}
	return text.String()
}

// popped runs a pop and spells what it got.
func (r *rig) popped(p *PopRequest) string {
	outcome, err := r.Pop(p)
	return told(outcome, err)
}

// popScene is one thing that pops do; at is the member that is asked, other any other member.
type popScene struct {
	name string
	run  func(t *testing.T, c *cluster, at, other *member) []string
	want string // is in one of the lines
}

func popScenes() []popScene {
	ready := func(change ...func(*PopRequest)) func(*testing.T, *cluster, *member, *member) []string {
		return func(_ *testing.T, _ *cluster, at, other *member) (lines []string) {
			for p := range 5 {
				other.push("orders", fmt.Sprint("p", p), "a", "b", "c")
			}
			for range 3 {
				lines = append(lines, at.popped(wildcard("orders", change...)))
			}
			return lines
		}
	}
	of := func(group string) func(*PopRequest) { return func(r *PopRequest) { r.Group = group } }
	subscribe := func(mode command.SubscriptionMode, micros uint64) func(*PopRequest) {
		return func(r *PopRequest) { r.Subscription = command.Subscription{Mode: mode, InstantMicros: micros} }
	}
	return []popScene{
		{"one partition", ready(), "orders/p2[0-2] attempt=1"},
		{"several partitions", ready(func(r *PopRequest) { r.Partitions, r.Batch = 3, 7 }), "orders/p2[0-0]"},
		{"autopilot", ready(func(r *PopRequest) { r.AutoBatch, r.AutoPartitions = true, true }), "auto="},
		{"queue mode", ready(of(command.QueueModeGroup)), "orders/p2[0-2]"},
		{"commit on delivery", ready(func(r *PopRequest) { r.CommitOnDelivery = true }), "lease=false"},
		{"conflation", ready(func(r *PopRequest) { r.Conflation = true }), "last=true"},
		{"pinned", ready(pinnedTo("p3")), "registered="},
		{"pinned, conflation", ready(pinnedTo("p3"), func(r *PopRequest) { r.Conflation = true }), "conflation=true"},
		{"pinned, nobody knows the group, all", ready(pinnedTo("p3"), of("strangers")), "registered=true"},
		{"pinned, nobody knows the group, new", ready(pinnedTo("p3"), of("strangers"), subscribe(command.SubscriptionNew, 0)), "registered=true"},
		{"new group starts at the end", ready(subscribe(command.SubscriptionNew, 0)), "registered=true"},
		{"new group starts at an instant", ready(subscribe(command.SubscriptionTimestamp, 1)), "orders/p2[0-2]"},
		{"missing queue", func(_ *testing.T, _ *cluster, at, other *member) []string {
			lines := []string{at.popped(wildcard("orders")), at.popped(wildcard("nowhere", pinnedTo("p")))}
			other.push("orders", "p", "x")
			return append(lines, at.popped(wildcard("orders")))
		}, "orders/p[0-0]"},
		{"missing partition", func(_ *testing.T, _ *cluster, at, other *member) []string {
			other.push("orders", "p", "x")
			return []string{at.popped(wildcard("orders", pinnedTo("q")))}
		}, "registered=false"},
		{"leased, then nacked", func(_ *testing.T, _ *cluster, at, other *member) []string {
			other.push("orders", "p", "x")
			held := at.pop(wildcard("orders"))
			lines := []string{told(held, nil), at.popped(wildcard("orders"))}
			at.ack(held, command.AckFailed, "x")
			return append(lines, at.popped(wildcard("orders")))
		}, "attempt=2"},
		{"lease of its own length expires", func(_ *testing.T, c *cluster, at, other *member) []string {
			other.push("orders", "p", "x")
			lines := []string{at.popped(wildcard("orders", func(r *PopRequest) { r.LeaseMs = 5000 }))}
			c.moveTime(4 * time.Second)
			lines = append(lines, at.popped(wildcard("orders")))
			c.moveTime(2 * time.Second)
			return append(lines, at.popped(wildcard("orders", waiting)))
		}, "attempt=2"},
		{"woken by a push", func(t *testing.T, c *cluster, at, other *member) []string {
			pop := at.start(wildcard("orders", waiting))
			c.parked("orders", "workers", 1)
			other.push("orders", "p", "x")
			return []string{told(pop.wait(t), nil)}
		}, "orders/p[0-0] attempt=1"},
		{"woken by a push, autopilot", func(t *testing.T, c *cluster, at, other *member) []string {
			pop := at.start(wildcard("orders", waiting, func(r *PopRequest) { r.AutoBatch, r.AutoPartitions = true, true }))
			c.parked("orders", "workers", 1)
			other.push("orders", "p", "x")
			return []string{told(pop.wait(t), nil)}
		}, "auto=1/100 orders/p[0-0]"},
		{"woken by its queue", func(t *testing.T, c *cluster, at, other *member) []string {
			pop := at.start(wildcard("orders", waiting, pinnedTo("p")))
			c.standing(1)
			other.push("orders", "p", "x")
			return []string{told(pop.wait(t), nil)}
		}, "orders/p[0-0] attempt=1"},
		{"woken by its partition", func(t *testing.T, c *cluster, at, other *member) []string {
			other.push("orders", "other", "x")
			pop := at.start(wildcard("orders", waiting, pinnedTo("p"), subscribe(command.SubscriptionNew, 0)))
			c.parked("orders", "workers", 1)
			other.push("orders", "p", "x")
			return []string{told(pop.wait(t), nil)}
		}, "orders/p[0-0] attempt=1"},
		{"long poll that gets nothing", func(t *testing.T, c *cluster, at, other *member) []string {
			other.push("orders", "p", "x")
			at.pop(wildcard("orders"))
			pop := at.start(wildcard("orders", waiting, inTime(300*time.Millisecond)))
			line := told(pop.wait(t), nil)
			if pop.took < 299*time.Millisecond || pop.took > 10*time.Second {
				t.Errorf("a wait of 300 ms took %v", pop.took)
			}
			return []string{line}
		}, "lease=false registered=true"},
		{"long poll on a queue that never comes", func(t *testing.T, c *cluster, at, other *member) []string {
			return []string{at.popped(wildcard("nowhere", waiting, pinnedTo("p"), inTime(200*time.Millisecond)))}
		}, "registered=false"},
		{"wait that is over at once", func(t *testing.T, c *cluster, at, other *member) []string {
			other.push("orders", "p", "x")
			return []string{at.popped(wildcard("orders", waiting, inTime(0)))}
		}, "orders/p[0-0]"},
		{"discovery", func(_ *testing.T, _ *cluster, at, other *member) (lines []string) {
			for _, queue := range []string{"shop.a", "shop.b", "other.c"} {
				other.configure(queue, command.OptionChange{Key: command.OptionNamespace, Text: queue[:len(queue)-2]})
				other.push(queue, "p", "x", "y")
			}
			other.configure("shop.b", seconds(command.OptionPriority, 9))
			for range 3 {
				outcome, err := at.Discover(inShop(1))
				lines = append(lines, told(outcome, err))
			}
			return lines
		}, "registered=true conflation=false"},
		{"discovery commits on delivery", func(_ *testing.T, _ *cluster, at, other *member) (lines []string) {
			other.push("shop.a", "p", "x")
			request := inShop(5)
			request.CommitOnDelivery, request.Task, request.HasTask = true, "a", true
			outcome, err := at.Discover(request)
			return []string{told(outcome, err)}
		}, "lease=false registered=true conflation=false auto=0/0 shop.a/p[0-0]"},
		{"discovery that may not register", func(_ *testing.T, _ *cluster, at, other *member) (lines []string) {
			other.configure("shop.a", command.OptionChange{Key: command.OptionNamespace, Text: "shop"})
			request := inShop(5)
			request.Admit = func(queue string) error { return errors.New(queue + " is not for this group") }
			outcome, err := at.Discover(request)
			return []string{told(outcome, err)}
		}, "error: shop.a is not for this group"},
		{"discovery of nothing", func(_ *testing.T, _ *cluster, at, other *member) (lines []string) {
			outcome, err := at.Discover(inShop(5))
			return []string{told(outcome, err)}
		}, "registered=false"},
	}
}

// parked waits until so many pops are parked in a group at the leader.
func (c *cluster) parked(queue, group string, count int64) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d pops parked in %s/%s", count, queue, group), func() bool {
		leader := c.present()
		if leader == nil {
			return false
		}
		actor := leader.groupActor(queue, group)
		return actor != nil && actor.shared.waiters.Load() == count
	})
}

// standing waits until so many pops wait for a queue at the leader.
func (c *cluster) standing(count int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d pops wait for a queue", count), func() bool {
		leader := c.present()
		if leader == nil {
			return false
		}
		leader.directory.mu.RLock()
		defer leader.directory.mu.RUnlock()
		waiting := 0
		for _, bells := range leader.directory.awaiting {
			waiting += len(bells)
		}
		return waiting == count
	})
}

// TestPopThroughAFollowerEqualsOneThroughTheLeader runs every kind of pop through both.
func TestPopThroughAFollowerEqualsOneThroughTheLeader(t *testing.T) {
	c := newCluster(t, 3)
	for _, scene := range popScenes() {
		t.Run(scene.name, func(t *testing.T) {
			var lines [2][]string
			for i, at := range []*member{c.leading(), c.follower(0)} {
				lines[i] = scene.run(t, c, at, c.follower(1))
				c.forgotten()
				c.sameState()
				c.clear()
			}
			for i, line := range lines[0] {
				if lines[1][i] != line {
					t.Errorf("through a follower\n%s\nthrough the leader\n%s", lines[1][i], line)
				}
			}
			if all := strings.Join(lines[0], "\n"); !strings.Contains(all, scene.want) {
				t.Errorf("got\n%s\nwithout %s", all, scene.want)
			}
		})
	}
}

// clear deletes all queues.
func (c *cluster) clear() {
	c.t.Helper()
	leader := c.leading()
	for _, queue := range leader.directory.Queues(command.DefaultTenant) {
		if _, err := leader.Execute(soon(), &command.DeleteQueue{Tenant: command.DefaultTenant, Queue: queue.Name}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.settle()
}

// forgotten checks that no pop has left anything behind.
func (c *cluster) forgotten() {
	c.t.Helper()
	eventually(c.t, "nothing is expected or parked", func() bool {
		for _, m := range c.members {
			if m.expected.count() > 0 || m.guests.Load() > 0 || m.standing.Load() > 0 || m.Parked() > 0 {
				return false
			}
		}
		return true
	})
}
