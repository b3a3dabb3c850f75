package actors

import (
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// generator makes a log of random but meaningful commands. It looks into the model for what there is to ack, extend,
// replay and move; within one entry commands know nothing of each other, as in life.
type generator struct {
	random *rand.Rand
	model  *model
	now    uint64
	index  uint64
	term   uint64
	nodes  generatedNodes
	txids  uint64
	claims []generatedClaim
	kinds  map[string]int
}

// generatedClaim is a claim whose result is known.
type generatedClaim struct {
	claim   command.Claim
	batches []command.ClaimedBatch
}

const (
	// generatedEpoch is when the log begins.
	generatedEpoch = 1_790_000_000 * modelSecond
	// generatedWindowSeconds is the least hash window of the log. No option of a generated queue exceeds it, so that it
	// is the same at all times: what a window forgets while it is short, it does not remember when it grows.
	generatedWindowSeconds = 3600
	generatedCleanupDays   = 2
)

var generatedTenants = []command.Tenant{command.DefaultTenant, uuid.MustParse("00000000-0000-0000-0000-0000000000aa")}

func newGenerator(seed uint64, m *model) *generator {
	return &generator{
		random: rand.New(rand.NewPCG(seed, 1)), model: m, now: generatedEpoch, kinds: map[string]int{},
	}
}

func (g *generator) oneIn(n int) bool { return g.random.IntN(n) == 0 }

func pick[T any](g *generator, of []T) T { return of[g.random.IntN(len(of))] }

func (g *generator) uuid() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(g.random.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// entry makes the next entry, of at most limit commands.
func (g *generator) entry(limit int) (*command.Entry, *logged) {
	g.pass()
	g.index++
	e := &command.Entry{Header: command.Header{
		StampMicros: g.now,
		Settings: command.Settings{
			TxidWindowMinSeconds: generatedWindowSeconds, RequestIDWindowSeconds: 60, PartitionCleanupDays: generatedCleanupDays,
		},
	}}
	id := g.uuid()
	copy(e.Header.Seed[:], id[:])
	count := min(1+g.random.IntN(1+g.random.IntN(60)), limit)
	if g.index == 1 || g.oneIn(150) {
		g.term++
		e.Items = append(e.Items, command.Item{Command: command.TermStart{Node: 1, HoldMs: pick(g, []uint32{0, 500, 2000})}})
	}
	for len(e.Items) < count {
		g.add(e)
	}
	g.now += uint64(len(e.Items))
	return e, newLogged(g.index, g.term, e)
}

// pass lets time go by: mostly milliseconds, now and then long enough for leases, delays, windows or retention.
func (g *generator) pass() {
	micros := uint64(g.random.IntN(5000))
	switch roll := g.random.IntN(2000); {
	case roll == 0:
		micros = 3 * 24 * 3600 * modelSecond
	case roll < 10:
		micros = uint64(60+g.random.IntN(600)) * modelSecond
	case roll < 100:
		micros = uint64(g.random.IntN(8 * modelSecond))
	case roll < 400:
		micros = uint64(g.random.IntN(modelSecond))
	}
	g.now += micros
}

// learn takes in what the claims of an entry got.
func (g *generator) learn(e *command.Entry, results []command.Result) {
	g.nodes.learn(g, e)
	for i := range e.Items {
		claim, isClaim := e.Items[i].Command.(command.Claim)
		result, _ := results[i].(*command.ClaimResult)
		if !isClaim || result == nil || len(result.Batches) == 0 {
			continue
		}
		g.claims = append(g.claims, generatedClaim{claim, result.Batches})
		if len(g.claims) > 64 {
			g.claims = g.claims[1:]
		}
	}
}

// weighted lists the kinds of commands with how often they come in a thousand.
func (g *generator) weighted() []struct {
	weight int
	make   func() command.Command
} {
	return []struct {
		weight int
		make   func() command.Command
	}{
		{155, func() command.Command {
			return command.Push{Tenant: g.tenant(), Groups: g.groups(1 + g.random.IntN(3))}
		}},
		{210, g.claim},
		{190, g.ack},
		{30, g.extend},
		{40, g.handBack},
		{35, g.register},
		{20, g.configure},
		{2, func() command.Command { return command.DeleteQueue{Tenant: g.tenant(), Queue: g.queue()} }},
		{4, g.deleteGroup},
		{12, g.seek},
		{4, func() command.Command {
			return command.ChangeSubscription{Tenant: g.tenant(), Group: g.group(), TimestampMicros: g.instant()}
		}},
		{50, g.transaction},
		{6, g.deleteLetters},
		{12, g.replay},
		{30, g.retain},
		{8, func() command.Command { return command.Sweep{MaxKeys: uint32(1 + g.random.IntN(200))} }},
		{10, g.moveChunks},
		{40, g.trace},
		{4, g.traceSweep},
		{6, g.membership},
		{50, g.kvCall},
		{4, g.kvSweep},
		{24, g.lock},
		{25, g.timers},
		{17, g.timerFire},
		{5, g.switches},
		{5, func() command.Command { return command.Tick{} }},
	}
}

func (g *generator) command() command.Command {
	kinds := g.weighted()
	roll := g.random.IntN(1000)
	for _, kind := range kinds {
		if roll -= kind.weight; roll < 0 {
			return kind.make()
		}
	}
	return command.Tick{}
}

func (g *generator) tenant() command.Tenant {
	if g.oneIn(8) {
		return generatedTenants[1]
	}
	return generatedTenants[0]
}

func (g *generator) queue() string {
	return pick(g, []string{"orders", "orders", "orders", "billing.invoice", "billing.refund.v2", "mail", ""})
}

func (g *generator) partitionName() string {
	return pick(g, []string{"Default", "Default", "a", "b", "c", "", "customer-7"})
}

func (g *generator) group() string {
	return pick(g, []string{command.QueueModeGroup, command.QueueModeGroup, "workers", "workers", "audit", "last-value"})
}

func (g *generator) instant() int64 { return int64(g.now) - int64(g.random.IntN(20*modelSecond)) }

func (g *generator) subscription() command.Subscription {
	s := command.Subscription{Mode: command.SubscriptionMode(1 + g.random.IntN(3))}
	if s.Mode == command.SubscriptionTimestamp || g.oneIn(2) {
		s.InstantMicros = uint64(g.instant())
	}
	return s
}

// groups makes push groups for distinct partitions.
func (g *generator) groups(n int) (groups []command.PushGroup) {
	queue := g.queue()
	taken := map[string]bool{}
	for range n {
		name := g.partitionName()
		if taken[name] {
			continue
		}
		taken[name] = true
		group := command.PushGroup{Queue: queue, Partition: name}
		for range 1 + g.random.IntN(1+g.random.IntN(5)) {
			message := g.message()
			if of := g.model.queue(generatedTenants[0], queue); of != nil && of.options.EncryptionEnabled && !g.oneIn(20) {
				message.Encrypted = true // or the whole command is refused
			}
			if known := g.knownTxid(queue, name); known != "" && g.oneIn(15) {
				message.Txid = []byte(known)
			}
			group.Chunk = command.AppendMessage(group.Chunk, message)
			group.Count++
		}
		groups = append(groups, group)
	}
	return groups
}

// knownTxid is that of one of the last messages of a partition; empty when there is none.
func (g *generator) knownTxid(queue, name string) string {
	of := g.model.queue(generatedTenants[0], queue)
	if of == nil || of.parts[name] == nil || of.parts[name].tail() == 0 {
		return ""
	}
	log := of.parts[name].log
	return log[len(log)-1-g.random.IntN(min(len(log), 20))].txid
}

func (g *generator) message() *command.Message {
	m := &command.Message{ID: g.uuid(), Payload: fmt.Appendf(nil, "%q", g.text(g.random.IntN(80)))}
	if g.oneIn(200) {
		m.Payload = fmt.Appendf(nil, "%q", g.text(20_000)) // too large for the row of a dead letter
	}
	if !g.oneIn(5) {
		m.Txid = g.txid()
	}
	if g.oneIn(4) {
		m.TraceID = g.uuid()
	}
	if g.oneIn(4) {
		m.ProducerSub = []byte("producer")
	}
	m.Encrypted = g.oneIn(10)
	return m
}

// txid repeats one of the last few now and then.
func (g *generator) txid() []byte {
	g.txids++
	if g.oneIn(6) {
		return fmt.Appendf(nil, "t%d", g.txids-uint64(g.random.IntN(int(min(g.txids, 200)))))
	}
	return fmt.Appendf(nil, "t%d", g.txids)
}

func (g *generator) text(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = "abcdefghijklmnop"[g.random.IntN(16)]
	}
	return string(text)
}
