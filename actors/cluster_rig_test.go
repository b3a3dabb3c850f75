package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// cluster is a replicated log without network and disk: members over stores of their own apply one row of entries, each at
// its own pace. What is proposed anywhere waits for a leader and is committed at once when there is one.
type cluster struct {
	t       testing.TB
	members []*member
	queue   chan offered
	stop    chan struct{}
	done    sync.WaitGroup
	// taken tells that a proposal has been taken out of the queue and is not committed yet.
	taken atomic.Bool

	mu sync.Mutex
	// moved is called with mu held, and wakes whoever waits for a change of the fields below.
	moved *sync.Cond
	// leader is the place of the leader, -1 for none.
	leader  int
	term    uint64
	entries []committed
	stamp   uint64
	stopped bool
	// frozen keeps what is proposed from being committed.
	frozen bool
	// ahead is how much the leader's time is ahead of the clock.
	ahead time.Duration
}

// offered is a proposal of a member.
type offered struct {
	from *member
	Proposal
}

type committed struct {
	term  uint64
	kinds []string
	data  []byte
}

// member is one node of a cluster. The embedded rig has no log of its own.
type member struct {
	*rig
	cluster *cluster
	place   int
	// Guarded by cluster.mu.
	applied int
	// slow keeps the member from applying; cut keeps it from hearing of anybody, while it goes on to believe that it leads.
	slow, cut bool
	// links are the ends of the calls that this member serves.
	links map[*link]bool
	// before and after are called around a call to the leader; what after says replaces the answer. Nil does nothing.
	before func()
	after  func(answer []byte, err error) ([]byte, error)
}

// link is a call under way.
type link struct {
	broken chan struct{}
	from   *member
}

func newCluster(t testing.TB, size int, change ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, queue: make(chan offered, memoryLogDepth), stop: make(chan struct{}), leader: -1}
	c.moved = sync.NewCond(&c.mu)
	for i := range size {
		b, s := newBroker(t, change...)
		m := &member{rig: &rig{Broker: b, t: t, store: s}, cluster: c, place: i, links: map[*link]bool{}}
		c.members = append(c.members, m)
		c.done.Go(m.run)
		b.Start(m)
	}
	c.done.Go(c.run)
	t.Cleanup(c.close)
	c.elect(0)
	return c
}

// close stops all members in the order of a process.
func (c *cluster) close() {
	for _, m := range c.members {
		m.AnswerParked()
	}
	c.set(func() {
		c.stopped = true
		for _, m := range c.members {
			m.breakLinks(nil)
		}
	})
	close(c.stop)
	c.done.Wait()
	for _, m := range c.members {
		m.Stop()
		if err := m.store.Close(); err != nil {
			c.t.Errorf("close store: %v", err)
		}
	}
}

// set changes something that others wait for.
func (c *cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.moved.Broadcast()
}

// wait returns when the condition holds, or with false when ctx ends.
func (c *cluster) wait(ctx context.Context, condition func() bool) bool {
	end := context.AfterFunc(ctx, func() { c.set(func() {}) })
	defer end()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !condition() {
		if ctx.Err() != nil || c.stopped {
			return false
		}
		c.moved.Wait()
	}
	return true
}

// elect makes a member the leader: the old one is told, and the term begins with an entry of its own.
func (c *cluster) elect(place int) {
	c.depose()
	c.set(func() {
		c.term++
		c.append(&command.Entry{Items: []command.Item{{Command: command.TermStart{Node: uint64(place + 1)}}}})
	})
	m := c.members[place]
	if !c.wait(testContext(c.t), func() bool { return m.applied == len(c.entries) }) {
		c.t.Fatal("the new leader does not apply the first entry of its term")
	}
	c.set(func() { c.leader = place })
}

// depose leaves the cluster without leader.
func (c *cluster) depose() {
	old := -1
	c.set(func() { old, c.leader = c.leader, -1 })
	if old >= 0 {
		c.members[old].LeadershipLost()
	}
}

// crash breaks every call that the leader serves before it is deposed, as if its process ended. It goes on to apply.
func (c *cluster) crash() {
	c.set(func() {
		m := c.members[c.leader]
		c.leader = -1
		m.breakLinks(nil)
	})
}

// breakLinks ends the calls that a member serves, those of one caller or all; the caller holds cluster.mu.
func (m *member) breakLinks(from *member) {
	for l := range m.links {
		if from == nil || l.from == from {
			close(l.broken)
			delete(m.links, l)
		}
	}
}

func (c *cluster) leading() *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[c.leader]
}

// follower is a member that does not lead; there are several.
func (c *cluster) follower(nth int) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[(c.leader+1+nth)%len(c.members)]
}

// rigs are the brokers of all members.
func (c *cluster) rigs() (list []*rig) {
	for _, m := range c.members {
		list = append(list, m.rig)
	}
	return list
}

// moveTime moves the leader's time on.
func (c *cluster) moveTime(d time.Duration) { c.set(func() { c.ahead += d }) }

// settle waits until every member has applied everything.
func (c *cluster) settle() {
	c.t.Helper()
	rest := func() bool { return c.applied() && len(c.queue) == 0 && !c.taken.Load() }
	if !c.wait(testContext(c.t), rest) {
		c.t.Fatal("the members do not come to rest")
	}
}

// applied tells whether every member has applied everything; the caller holds mu.
func (c *cluster) applied() bool {
	for _, m := range c.members {
		if m.applied < len(c.entries) {
			return false
		}
	}
	return true
}

// kinds lists the commands of every entry.
func (c *cluster) kinds() (list [][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.entries {
		list = append(list, c.entries[i].kinds)
	}
	return list
}

// count tells how many commands of a kind were committed.
func (c *cluster) count(kind string) (n int) {
	for _, kinds := range c.kinds() {
		for _, k := range kinds {
			if k == kind {
				n++
			}
		}
	}
	return n
}

// sameState compares what the members have stored. Nothing is committed meanwhile.
func (c *cluster) sameState() {
	c.t.Helper()
	c.settle()
	c.set(func() { c.frozen = true })
	defer c.set(func() { c.frozen = false })
	if !c.wait(testContext(c.t), c.applied) {
		c.t.Fatal("the members do not come to rest")
	}
	var first [32]byte
	for i, m := range c.members {
		view := m.store.View()
		hash, err := m.store.StateHash(view)
		view.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		if i == 0 {
			first = hash
		} else if hash != first {
			c.t.Errorf("members 0 and %d differ", i)
		}
	}
}

// run commits what is proposed.
func (c *cluster) run() {
	for {
		select {
		case p := <-c.queue:
			c.taken.Store(true)
			c.commit(p)
			c.set(func() { c.taken.Store(false) })
		case <-c.stop:
			for {
				select {
				case p := <-c.queue:
					dropped(&p.Proposal, ErrStopping)
				default:
					return
				}
			}
		}
	}
}

// commit packs an entry of what waits, once there is a leader.
func (c *cluster) commit(first offered) {
	if !c.wait(context.Background(), c.usable) {
		dropped(&first.Proposal, ErrStopping)
		return
	}
	leader := c.present()
	var entry command.Entry
	admit := func(p *Proposal) bool {
		switch {
		case time.Now().After(p.Deadline):
			dropped(p, ErrDeadline)
			return false
		case p.Gone != nil && p.Gone():
			dropped(p, ErrGone)
			return false
		}
		entry.Items = append(entry.Items, p.Item)
		return true
	}
	for p, more := first, true; more; {
		riders := p.Riders
		if p.from != leader && leader != nil {
			riders = leader.RidersFor(command.AppendItem(nil, &p.Item))
		}
		if admit(&p.Proposal) && riders != nil {
			for _, rider := range riders() {
				admit(&rider)
			}
		}
		select {
		case p = <-c.queue:
			more = len(entry.Items) < memoryLogBatch
			if !more {
				c.queue <- p // nobody else takes from the queue, so there is room
			}
		default:
			more = false
		}
	}
	if len(entry.Items) == 0 {
		return
	}
	c.set(func() {
		for !c.usable() && !c.stopped {
			c.moved.Wait()
		}
		c.append(&entry)
	})
}

// usable tells whether something can be committed now; the caller holds mu.
func (c *cluster) usable() bool { return c.leader >= 0 && !c.frozen && !c.members[c.leader].cut }

// present is the leader, nil when it has just been deposed: what was packed is committed by its successor.
func (c *cluster) present() *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader < 0 {
		return nil
	}
	return c.members[c.leader]
}

// append commits an entry; the caller holds mu.
func (c *cluster) append(entry *command.Entry) {
	c.stamp = max(c.stamp, uint64(time.Now().Add(c.ahead).UnixMicro()))
	entry.Header = command.Header{StampMicros: c.stamp, Seed: uuid.New(), Settings: command.Settings{TxidWindowMinSeconds: 900}}
	c.stamp += uint64(len(entry.Items))
	var kinds []string
	for i := range entry.Items {
		kinds = append(kinds, fmt.Sprintf("%T", entry.Items[i].Command))
	}
	c.entries = append(c.entries, committed{c.term, kinds, command.EncodeEntry(entry)})
}

// run applies what is committed.
func (m *member) run() {
	c := m.cluster
	for index := 1; ; index++ {
		ready := func() bool { return m.applied < len(c.entries) && !m.slow }
		if !c.wait(context.Background(), ready) {
			return
		}
		c.mu.Lock()
		e := c.entries[index-1]
		c.mu.Unlock()
		err := m.Apply(uint64(index), e.term, e.data)
		if err == nil {
			err = m.Flush()
		}
		if err != nil {
			c.t.Errorf("member %d: %v", m.place, err)
			return
		}
		c.set(func() { m.applied++ })
	}
}

// Propose implements Log.
func (m *member) Propose(p Proposal) error {
	select {
	case <-m.cluster.stop:
		return ErrStopping
	default:
	}
	select {
	case m.cluster.queue <- offered{m, p}:
		return nil
	default:
		return ErrOverloaded
	}
}

// Now implements Log.
func (m *member) Now() uint64 {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.stamp, uint64(time.Now().Add(c.ahead).UnixMicro()))
}

// Leads implements Log.
func (m *member) Leads() bool {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader == m.place
}

// Settled implements Log. Nothing is proposed a second time here.
func (m *member) Settled(command.RequestID) {}

// ReadIndex implements Log.
func (m *member) ReadIndex(ctx context.Context) (uint64, error) {
	c := m.cluster
	index := -1
	applied := func() bool {
		if index < 0 && c.leader >= 0 && !m.cut {
			index = len(c.entries)
		}
		return index >= 0 && m.applied >= index
	}
	switch {
	case c.wait(ctx, applied):
		return m.Now(), nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%w: %w", ErrDeadline, ctx.Err()) // what the log says that waits for the word of the others
	}
	return 0, ErrNoLeader
}

var errLinkBroken = fmt.Errorf("%w: the link is broken", ErrRetry)

// CallLeader implements Log.
func (m *member) CallLeader(ctx context.Context, request []byte) ([]byte, error) {
	c := m.cluster
	if m.before != nil {
		m.before()
	}
	call := &link{broken: make(chan struct{}), from: m}
	var leader *member
	c.set(func() {
		if c.leader >= 0 && !m.cut && !c.stopped {
			leader = c.members[c.leader]
			leader.links[call] = true
		}
	})
	switch leader {
	case nil:
		return nil, ErrNoLeader
	case m:
		return nil, fmt.Errorf("%w: this node leads", ErrRetry)
	}
	defer c.set(func() { delete(leader.links, call) })
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		bytes []byte
		err   error
	}
	answers := make(chan answer, 1)
	c.done.Go(func() {
		bytes, err := leader.ServeCall(serving, request)
		answers <- answer{bytes, err}
	})
	var a answer
	select {
	case a = <-answers:
	case <-call.broken:
		a.err = errLinkBroken
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err != nil && !errors.Is(a.err, ErrRetry) {
		a.err = fmt.Errorf("%w: %w", ErrRetry, a.err)
	}
	if m.after != nil {
		return m.after(a.bytes, a.err)
	}
	return a.bytes, a.err
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}
