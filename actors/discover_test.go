package actors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"queen/raftlog/command"
)

// discover is a discovery pop over the namespace "shop" that must not fail.
func (r *rig) discover(partitions int) *PopOutcome {
	r.t.Helper()
	outcome, err := r.Discover(inShop(partitions))
	if err != nil {
		r.t.Fatal(err)
	}
	return outcome
}

func inShop(partitions int) *DiscoverRequest {
	return &DiscoverRequest{
		// The leases outlast what a test moves the time on.
		PopRequest: *wildcard("", func(r *PopRequest) { r.Partitions, r.LeaseMs = partitions, 3_600_000 }),
		Namespace:  "shop", HasNamespace: true,
	}
}

// delivered lists the partitions of an outcome in their order.
func delivered(o *PopOutcome) (names []string) {
	for i := range o.Batches {
		names = append(names, o.Batches[i].Queue+"/"+o.Batches[i].PartitionName)
	}
	return names
}

func TestDiscoveryClaimsByPriorityThenByReadiness(t *testing.T) {
	r := newRig(t)
	for i, queue := range []string{"shop.low", "shop.high", "shop.middle", "other.one"} {
		r.configure(queue, command.OptionChange{Key: command.OptionNamespace, Text: queue[:4]},
			seconds(command.OptionPriority, []int32{1, 9, 5, 100}[i]))
		for p := range 2 {
			r.push(queue, fmt.Sprint("p", p), "x")
		}
	}
	first := r.discover(3)
	if want := []string{"shop.high/p0", "shop.high/p1", "shop.middle/p0"}; !slices.Equal(delivered(first), want) {
		t.Errorf("claimed %v", delivered(first))
	}
	if want := []string{"shop.middle/p1", "shop.low/p0", "shop.low/p1"}; !slices.Equal(delivered(r.discover(64)), want) {
		t.Errorf("the rest is not %v", want)
	}
	if rest := r.discover(1); len(rest.Batches) != 0 || !rest.Registered {
		t.Errorf("got %+v", rest)
	}
	// All batches of one call share the lease: it is extended as a whole.
	result, err := r.Execute(soon(), &command.Extend{Tenant: command.DefaultTenant, Lease: first.Lease, Seconds: 600})
	if err != nil || result.(*command.ExtendResult).Renewed != 3 {
		t.Errorf("extend: %+v, %v", result, err)
	}
}

// TestDiscoveryMergesEqualPrioritiesByReadiness pushes to many queues in a random order and takes it all in pops of many
// sizes.
func TestDiscoveryMergesEqualPrioritiesByReadiness(t *testing.T) {
	r := newRig(t)
	const queues = 12
	for q := range queues {
		r.push(fmt.Sprint("shop.q", q), "first", "x")
	}
	for len(r.discover(queues).Batches) > 0 { // until nothing is left to be found by a scan
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var want []string
	for p := range 150 {
		// Some queues get much more than others.
		name := fmt.Sprintf("shop.q%d/p%d", min(random.IntN(queues), random.IntN(queues)), p)
		r.push(name[:len(name)-len(fmt.Sprint("/p", p))], fmt.Sprint("p", p), "x")
		want = append(want, name)
	}
	for len(want) > 0 {
		limit := 1 + random.IntN(40)
		due := want[:min(limit, len(want))]
		if got := delivered(r.discover(limit)); !slices.Equal(got, due) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, due)
		}
		want = want[len(due):]
	}
}

// TestDiscoveryFindsGroupsThatAreNotInMemory unloads the group of one queue while another always has enough ready.
func TestDiscoveryFindsGroupsThatAreNotInMemory(t *testing.T) {
	r := newRig(t)
	round := 0
	pushA := func() {
		round++
		r.push("shop.a", fmt.Sprint("p", round), "x")
	}
	pushA()
	r.push("shop.b", "p", "x")
	if first := r.discover(2); len(first.Batches) != 2 {
		t.Fatalf("got %v", delivered(first))
	}
	r.push("shop.b", "other", "x")
	r.groups.stop(r.groupActor("shop.b", "workers"))
	pushA()
	pushA()
	if got := delivered(r.discover(1)); len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	eventually(t, "shop.b is scanned", func() bool {
		actor, ask := r.groupActor("shop.b", "workers"), readySince{limit: 1, nowMicros: r.log.Now()}
		return actor != nil && actor.Call(&ask) == nil && len(ask.sinceMicros) > 0
	})
	var got []string
	for range 3 { // one of shop.a, which may be ready longer than the scan knows of shop.b, is before it at most
		pushA()
		got = append(got, delivered(r.discover(1))...)
	}
	if !slices.Contains(got, "shop.b/other") {
		t.Errorf("delivered %v", got)
	}
}

// TestDiscoveryKeepsItsGroupsInMemory looks at a queue again and again of which it takes nothing.
func TestDiscoveryKeepsItsGroupsInMemory(t *testing.T) {
	r := newRig(t, func(c *Config) { c.IdleUnload = time.Minute })
	r.push("shop.a", "p", "x")
	r.push("shop.b", "p", "x")
	r.discover(2)
	r.log.ahead(2 * time.Minute)
	if !r.idle(r.groupActor("shop.b", "workers"), r.log.Now()) {
		t.Fatal("a group is not idle two minutes after its last pop")
	}
	r.push("shop.a", "other", "x")
	if got := delivered(r.discover(1)); !slices.Equal(got, []string{"shop.a/other"}) {
		t.Errorf("got %v", got)
	}
	if r.idle(r.groupActor("shop.b", "workers"), r.log.Now()) {
		t.Error("a group that was just looked at is idle")
	}
}

// BenchmarkDiscover looks over queues of one priority, each with 100 ready partitions, reserves, and gives back.
func BenchmarkDiscover(b *testing.B) {
	const ready = 100
	for _, count := range []int{50, 500, 2000} {
		r := newRig(b)
		for q := range count {
			r.configure(fmt.Sprint("shop.q", q), command.OptionChange{Key: command.OptionNamespace, Text: "shop"})
		}
		r.discover(1)
		request := inShop(1)
		queues, err := r.matching(request, r.log.Now())
		if err != nil || len(queues) != count {
			b.Fatal(len(queues), err)
		}
		for i := range ready {
			for _, queue := range queues {
				found := &foundNote{partitions: []foundPartition{{id: queue.ID*ready + uint64(i)}}, nowMicros: r.log.Now()}
				if err := r.groups.get(queue.ID, queue.Groups["workers"].ID).Call(found); err != nil {
					b.Fatal(err)
				}
			}
		}
		for _, partitions := range []int{1, 64} {
			b.Run(fmt.Sprintf("queues=%d/partitions=%d", count, partitions), func(b *testing.B) {
				request.Partitions = partitions
				b.ReportAllocs()
				for b.Loop() {
					_, reserved := r.reserve(request, queues)
					for _, held := range reserved {
						if err := held.actor.Call(&giveBack{partitions: held.partitions, nowMicros: r.log.Now()}); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
		r.close()
	}
}
