package actors

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"queen/raftlog/command"
	"queen/store"
)

// feeder applies entries that it makes on the way.
type feeder struct {
	b      *testing.B
	broker *Broker
	index  uint64
	now    uint64
	next   uint64
	unread int
	// requests gives the commands ids of requests, all of which are answered 4 entries later; sequence is the last one.
	requests bool
	sequence uint64
	recent   [4]uint64
}

func newFeeder(b *testing.B) *feeder {
	b.Helper()
	s, err := store.Open(store.Options{Dir: b.TempDir(), ReserveBytes: -1, Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	broker, err := NewBroker(Config{Store: s, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	calm(broker)
	b.Cleanup(func() {
		broker.Stop()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return &feeder{b: b, broker: broker, now: uint64(time.Now().UnixMicro())}
}

// entry applies commands; like the log, it waits for the store every few entries only.
func (f *feeder) entry(commands ...command.Command) {
	f.index++
	f.now += 1000
	e := command.Entry{Header: command.Header{
		StampMicros: f.now, Settings: command.Settings{TxidWindowMinSeconds: 900},
	}}
	for _, c := range commands {
		item := command.Item{Command: c}
		if f.requests {
			f.sequence++
			item.Request = command.RequestID{Origin: testOrigin, Sequence: f.sequence}
			item.AnsweredBelow = f.recent[f.index%4]
		}
		e.Items = append(e.Items, item)
	}
	f.recent[f.index%4] = f.sequence
	if err := f.broker.Apply(f.index, 1, command.EncodeEntry(&e)); err != nil {
		f.b.Fatal(err)
	}
	if f.unread++; f.unread == 4 {
		f.flush()
	}
}

func (f *feeder) flush() {
	f.unread = 0
	if err := f.broker.Flush(); err != nil {
		f.b.Fatal(err)
	}
}

// txids makes so many txids that have not been there before.
func (f *feeder) txids(count int) []string {
	list := make([]string, count)
	for i := range list {
		f.next++
		var text [36]byte
		list[i] = string(strconv.AppendUint(text[:28], 1<<40+f.next, 10))
	}
	return list
}

func (f *feeder) push(queue, partition string, txids []string) command.Push {
	group := command.PushGroup{Queue: queue, Partition: partition, Count: uint32(len(txids))}
	payload := make([]byte, 256)
	group.Chunk = make([]byte, 0, len(txids)*(len(payload)+64))
	for _, txid := range txids {
		group.Chunk = command.AppendMessage(group.Chunk, &command.Message{ID: uuid.UUID{1}, Txid: []byte(txid), Payload: payload})
	}
	return command.Push{Tenant: command.DefaultTenant, Groups: []command.PushGroup{group}}
}

// BenchmarkApplyPush applies entries of pushes over 1,000 partitions, with and without requests that are remembered.
func BenchmarkApplyPush(b *testing.B) {
	for _, c := range []struct {
		pushes, messages int
		requests         bool
	}{{50, 1, false}, {50, 1, true}, {10, 100, false}, {10, 100, true}, {1, 1, false}, {1, 1, true}} {
		b.Run(fmt.Sprintf("pushes=%d/messages=%d/requests=%t", c.pushes, c.messages, c.requests), func(b *testing.B) {
			f := newFeeder(b)
			f.requests = c.requests
			b.ReportAllocs()
			at, began := 0, cpuTime()
			for b.Loop() {
				commands := make([]command.Command, c.pushes)
				for i := range commands {
					commands[i] = f.push("orders", fmt.Sprint("p", at%1000), f.txids(c.messages))
					at++
				}
				f.entry(commands...)
			}
			f.flush()
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*c.pushes*c.messages), "µs/msg")
			b.ReportMetric(float64((cpuTime()-began).Nanoseconds())/1000/float64(b.N*c.pushes*c.messages), "cpu-µs/msg")
		})
	}
}

// cpuTime is what this process has used, on all cores: on a busy machine it tells more than the clock.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkApplyPushPopAck applies pushes of 100 messages, claims of them and acks, 8 partitions an entry.
func BenchmarkApplyPushPopAck(b *testing.B) {
	f := newFeeder(b)
	const each, messages = 8, 100
	f.entry(command.Register{
		Tenant: command.DefaultTenant, Queue: "orders", Group: "workers", CreateQueue: true,
		Subscription: command.Subscription{Mode: command.SubscriptionAll},
	})
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		var pushes, claims, acks []command.Command
		for range each {
			name, id, txids := fmt.Sprint("p", at%1000), uint64(at%1000+1), f.txids(messages)
			at++
			lease := uuid.UUID{byte(at), byte(at >> 8), byte(at >> 16), byte(at >> 24), 1}
			pushes = append(pushes, f.push("orders", name, txids))
			claims = append(claims, command.Claim{
				Tenant: command.DefaultTenant, Lease: lease, Group: "workers", Batch: messages,
				Parts: []command.ClaimPart{{Queue: "orders", Targets: []command.ClaimTarget{{Partition: id}}}},
			})
			ack := command.AckPart{Partition: id, Lease: lease}
			for _, txid := range txids {
				ack.Items = append(ack.Items, command.AckItem{Txid: txid})
			}
			acks = append(acks, command.Ack{Tenant: command.DefaultTenant, Group: "workers", Parts: []command.AckPart{ack}})
		}
		f.entry(pushes...)
		f.entry(claims...)
		f.entry(acks...)
	}
	f.flush()
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*each*messages), "µs/msg")
}

// nothing is a behavior that only says that it was there.
type nothing struct{ done chan struct{} }

func (n *nothing) Receive(any) {
	if n.done != nil {
		n.done <- struct{}{}
	}
}

// BenchmarkWakeUp compares an inline call with a message that wakes the actor up, and waits for it (DESIGN.md).
func BenchmarkWakeUp(b *testing.B) {
	system := NewSystem(zerolog.Nop())
	defer system.Stop()
	message := new(int)
	b.Run("call", func(b *testing.B) {
		h := system.Spawn(KindPartition, func() Behavior { return &nothing{} })
		defer h.Stop()
		b.ReportAllocs()
		for b.Loop() {
			if err := h.Call(message); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, fan := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("tell and wait, actors=%d", fan), func(b *testing.B) {
			done := make(chan struct{}, fan)
			handles := make([]*Handle, fan)
			for i := range handles {
				handles[i] = system.Spawn(KindPartition, func() Behavior { return &nothing{done: done} })
				defer handles[i].Stop()
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, h := range handles {
					h.Tell(message)
				}
				for range handles {
					<-done
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*fan), "ns/actor")
		})
	}
}

// BenchmarkLineInAnyOrder lets waiters into one line in a random order, as they come to a new leader.
func BenchmarkLineInAnyOrder(b *testing.B) {
	for _, count := range []int{500, 5000} {
		b.Run(fmt.Sprint("waiters=", count), func(b *testing.B) {
			began := time.Now()
			waiters := make([]*waiter, count)
			for i, place := range rand.Perm(count) {
				waiters[i] = &waiter{since: began.Add(time.Duration(place))}
			}
			for b.Loop() {
				line := list.New()
				for _, w := range waiters {
					w.stand(line)
				}
			}
		})
	}
}
