package cluster

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"queen/chaos/ledger"
)

// Nemesis does one kind of harm and undoes it: when it returns without an error, every process runs and the network is whole, though
// the nodes may not be ready yet.
type Nemesis struct {
	Name string
	// Voters is the smallest cluster in which the harm means something.
	Voters int
	Do     func(*Harm) error
}

// Harm is what a nemesis works with. Its choices come from the seed.
type Harm struct {
	*Cluster
	Random  *rand.Rand
	History *ledger.History
	// HoldMin and HoldMax bound how long a harm lasts.
	HoldMin, HoldMax time.Duration
	// CutPower takes the power from a running node and brings it back: the process is gone, with everything that it had not flushed.
	// It is nil where the nodes have no volumes of their own.
	CutPower func(*Node) error
}

// Nemeses lists all kinds of harm that this machine can do (operations.md 10.5), with or without those that cut the power.
func Nemeses(power bool) []Nemesis {
	kinds := []Nemesis{
		{"kill the leader", 3, func(h *Harm) error { return h.killed(h.leader) }},
		{"kill a follower", 3, func(h *Harm) error { return h.killed(h.follower) }},
		{"kill all", 1, (*Harm).killAll},
		{"stop one after the other", 3, (*Harm).rollingRestart},
		{"pause the leader", 3, func(h *Harm) error { return h.paused(h.leader) }},
		{"pause a follower", 3, func(h *Harm) error { return h.paused(h.follower) }},
		{"isolate the leader", 3, func(h *Harm) error { return h.cut(h.leader, func(n *Node) { h.Network.Isolate(n.ID) }) }},
		{"isolate a follower", 3, func(h *Harm) error { return h.cut(h.follower, func(n *Node) { h.Network.Isolate(n.ID) }) }},
		{"a minority with the leader", 5, func(h *Harm) error { return h.cut(h.leader, h.splitAround) }},
		{"a bridge", 3, func(h *Harm) error { return h.cut(h.anyone, h.bridgeOver) }},
		{"a ring of majorities", 5, func(h *Harm) error { return h.cut(h.anyone, h.ring) }},
		{"a deaf leader", 3, func(h *Harm) error { return h.cut(h.leader, func(n *Node) { h.Network.Deafen(n.ID, 0) }) }},
		{"a leader deaf to long replies", 3, func(h *Harm) error { return h.cut(h.leader, func(n *Node) { h.Network.Deafen(n.ID, longReplyBytes) }) }},
		{"a mute leader", 3, func(h *Harm) error { return h.cut(h.leader, func(n *Node) { h.Network.Mute(n.ID) }) }},
		{"a mute follower", 3, func(h *Harm) error { return h.cut(h.follower, func(n *Node) { h.Network.Mute(n.ID) }) }},
		{"slow links", 3, func(h *Harm) error { return h.cut(h.anyone, h.slowLinks) }},
		{"slow flushes", 3, (*Harm).slowFlushes},
		{"transfer", 3, (*Harm).transfers},
		{"remove a member and add it again", 3, (*Harm).removeAndAdd},
		{"wipe a directory", 3, (*Harm).wipe},
		{"kill during a snapshot", 3, (*Harm).killWhileCatchingUp},
		{"pause one and kill another", 5, (*Harm).pauseAndKill},
		{"isolate one and kill another", 5, (*Harm).isolateAndKill},
	}
	if runtime.GOARCH == "amd64" { // see MoveClock
		kinds = append(kinds,
			Nemesis{"move the clock of the leader", 1, func(h *Harm) error { return h.moveClock(h.leader) }},
			Nemesis{"move a clock", 1, func(h *Harm) error { return h.moveClock(h.anyone) }},
			Nemesis{"clocks that jump back and forth", 1, (*Harm).strobeClocks})
	}
	if power {
		kinds = append(kinds,
			Nemesis{"cut the power of the leader", 3, func(h *Harm) error { return h.powerCut(h.leader()) }},
			Nemesis{"cut the power of a follower", 3, func(h *Harm) error { return h.powerCut(h.follower()) }},
			Nemesis{"cut the power of all", 1, func(h *Harm) error { return h.powerCut(h.Founders()...) }})
	}
	return kinds
}

const (
	// longReplyBytes is from where on a leader that is deaf to long replies hears nothing.
	longReplyBytes = 100
	// slowFlushBy is what a flush takes longer under slow flushes.
	slowFlushBy = 300 * time.Millisecond
	// leastClockMove and mostClockMove bound by how much a clock jumps, either way.
	leastClockMove = 11 * time.Millisecond
	mostClockMove  = 288 * time.Second
	// strobeEvery is the pause between two jumps of clocks that jump back and forth.
	strobeEvery = 50 * time.Millisecond
	// linkDelay is how long slow links hold what they carry.
	linkDelay = 50 * time.Millisecond
	// changeWithin bounds one change of the membership, and the way of a wiped node back to its vote.
	changeWithin = 30 * time.Second
)

// hold lets the harm last.
func (h *Harm) hold() {
	<-time.After(h.HoldMin + time.Duration(h.Random.Int64N(int64(h.HoldMax-h.HoldMin)+1)))
}

// leader is the leader, or anybody while nobody leads.
func (h *Harm) leader() *Node {
	leader, err := h.AwaitLeader(2 * time.Second)
	if err != nil {
		return h.anyone()
	}
	return leader
}

// follower is a founder that does not lead.
func (h *Harm) follower() *Node {
	leader := h.leader()
	others := slices.DeleteFunc(slices.Clone(h.Founders()), func(n *Node) bool { return n == leader })
	return others[h.Random.IntN(len(others))]
}

func (h *Harm) anyone() *Node { return h.Founders()[h.Random.IntN(len(h.Founders()))] }

// shuffled gives the ids of the founders in any order, the given one first.
func (h *Harm) shuffled(first *Node) []uint64 {
	ids := []uint64{first.ID}
	for _, i := range h.Random.Perm(len(h.Founders())) {
		if node := h.Founders()[i]; node != first {
			ids = append(ids, node.ID)
		}
	}
	return ids
}

func (h *Harm) killed(choose func() *Node) error {
	node := choose()
	node.Kill()
	h.hold()
	return node.Launch()
}

func (h *Harm) powerCut(nodes ...*Node) error {
	for _, node := range nodes {
		if err := h.CutPower(node); err != nil {
			return fmt.Errorf("cut the power of node %d: %w", node.ID, err)
		}
	}
	if len(nodes) == 1 {
		h.hold()
	}
	var all []error
	for _, node := range nodes {
		all = append(all, node.Launch())
	}
	return errors.Join(all...)
}

func (h *Harm) killAll() error {
	for _, node := range h.Founders() {
		node.Kill()
	}
	var all []error
	for _, node := range h.Founders() {
		all = append(all, node.Launch())
	}
	return errors.Join(all...)
}

func (h *Harm) rollingRestart() error {
	for _, node := range h.Founders() {
		if err := node.Stop(); err != nil {
			return err
		}
		if err := node.Launch(); err != nil {
			return err
		}
		if err := h.AwaitHealthy(changeWithin, node); err != nil {
			return err
		}
	}
	return nil
}

// paused stops a process for a while. What lies in its sockets arrives afterwards, hence the fault in the books.
func (h *Harm) paused(choose func() *Node) error {
	node := choose()
	over := h.History.Fault()
	defer over()
	if err := node.Pause(); err != nil {
		return err
	}
	h.hold()
	return node.Resume()
}

func (h *Harm) cut(choose func() *Node, apply func(*Node)) error {
	apply(choose())
	h.hold()
	h.Network.Heal()
	return nil
}

// splitAround leaves a node with a minority.
func (h *Harm) splitAround(node *Node) {
	ids := h.shuffled(node)
	minority := (len(ids) - 1) / 2
	h.Network.Split(ids[:minority], ids[minority:])
}

func (h *Harm) bridgeOver(node *Node) {
	ids := h.shuffled(node)[1:]
	h.Network.Bridge(node.ID, ids[:len(ids)/2], ids[len(ids)/2:])
}

func (h *Harm) ring(node *Node) { h.Network.Ring(h.shuffled(node)) }

func (h *Harm) slowLinks(node *Node) {
	for _, id := range h.shuffled(node)[1:] {
		h.Network.Set(Link{node.ID, id}, Rule{Delay: linkDelay})
		h.Network.Set(Link{id, node.ID}, Rule{Delay: linkDelay})
	}
}

// slowFlushes slows the disks of a minority and of one more.
func (h *Harm) slowFlushes() error {
	ids := h.shuffled(h.anyone())
	slow := ids[:1+h.Random.IntN(len(ids)/2+1)]
	for _, id := range slow {
		if h.Node(id).Flushes() == nil {
			return errors.New("slow flushes: the cluster was not made for them")
		}
		h.Node(id).Flushes().Delay(slowFlushBy)
	}
	h.hold()
	for _, id := range slow {
		h.Node(id).Flushes().Delay(0)
	}
	return nil
}

func (h *Harm) transfers() error {
	for range 3 {
		h.anyone().Transfer(0) // the codes are another scenario's matter
		h.hold()
	}
	return nil
}

// removeAndAdd takes a follower out, with its process running, and brings it back as a voter.
func (h *Harm) removeAndAdd() error {
	node := h.follower()
	if err := h.insist(Remove(node.ID)); err != nil {
		return err
	}
	h.hold()
	for _, change := range []Change{h.AddLearner(node.ID), Promote(node.ID)} {
		if err := h.insist(change); err != nil {
			return err
		}
	}
	return nil
}

// insist repeats a change until it is answered as made; every change may be repeated.
func (h *Harm) insist(change Change) error {
	return Eventually(changeWithin, change.String(), func() error {
		leader, err := h.Leader()
		if err != nil {
			return err
		}
		if reply := leader.Apply(change); reply.Err != nil || reply.Status != 200 {
			return fmt.Errorf("through node %d: %v", leader.ID, reply)
		}
		return nil
	})
}

// wipe takes the directory of a follower away and waits until it is a voter again.
func (h *Harm) wipe() error {
	node := h.follower()
	node.Kill()
	if err := node.Wipe(); err != nil {
		return err
	}
	if err := node.Launch(); err != nil {
		return err
	}
	return h.AwaitHealthy(changeWithin, node)
}

// killWhileCatchingUp keeps a follower away until it lacks much, and kills it again while it catches up.
func (h *Harm) killWhileCatchingUp() error {
	node := h.follower()
	node.Kill()
	h.hold()
	for range 3 {
		if err := node.Launch(); err != nil {
			return err
		}
		<-time.After(time.Duration(h.Random.Int64N(int64(800 * time.Millisecond))))
		node.Kill()
	}
	return node.Launch()
}

func (h *Harm) pauseAndKill() error {
	ids := h.shuffled(h.leader())
	over := h.History.Fault()
	defer over()
	if err := h.Node(ids[0]).Pause(); err != nil {
		return err
	}
	h.Node(ids[1]).Kill()
	h.hold()
	return errors.Join(h.Node(ids[0]).Resume(), h.Node(ids[1]).Launch())
}

func (h *Harm) isolateAndKill() error {
	ids := h.shuffled(h.leader())
	h.Network.Isolate(ids[0])
	h.Node(ids[1]).Kill()
	h.hold()
	h.Network.Heal()
	return h.Node(ids[1]).Launch()
}

// clockMove is how far a clock jumps: small and large ones are equally likely.
func (h *Harm) clockMove() time.Duration {
	spread := math.Log(float64(mostClockMove) / float64(leastClockMove))
	by := time.Duration(float64(leastClockMove) * math.Exp(h.Random.Float64()*spread))
	if h.Random.IntN(2) == 0 {
		return -by
	}
	return by
}

// moveClock sets a clock wrong for a while.
func (h *Harm) moveClock(choose func() *Node) error {
	node := choose()
	if err := node.MoveClock(h.clockMove()); err != nil {
		return err
	}
	h.hold()
	return node.MoveClock(0)
}

// strobeClocks has the clocks of all nodes jump together, each by another way, and sets them right.
func (h *Harm) strobeClocks() error {
	by := map[*Node]time.Duration{}
	for _, node := range h.Founders() {
		by[node] = h.clockMove()
	}
	jumps := int((h.HoldMin + h.HoldMax) / 2 / strobeEvery)
	for jump := range jumps {
		for _, node := range h.Founders() {
			off := time.Duration(jump%2) * by[node]
			if err := node.MoveClock(off); err != nil {
				return err
			}
		}
		<-time.After(strobeEvery)
	}
	var all []error
	for _, node := range h.Founders() {
		all = append(all, node.MoveClock(0))
	}
	return errors.Join(all...)
}
