package raftlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"queen/raftlog/command"
)

// answerer is the cheapest state machine: it decodes entries and tells the request's client.
type answerer struct {
	index, term, durable atomic.Uint64
	entries              atomic.Uint64
	clients              []chan struct{}
	// entryCost and commandCost are the CPU that a store would take.
	entryCost, commandCost time.Duration
}

func (a *answerer) Apply(entries []CommittedEntry) error {
	for i := range entries {
		entry, err := command.DecodeEntry(entries[i].Data)
		if err != nil {
			return err
		}
		for j := range entry.Items {
			if request := entry.Items[j].Request; request.Origin > 0 {
				a.clients[request.Origin-1] <- struct{}{}
			}
		}
		for start := time.Now(); time.Since(start) < a.entryCost+time.Duration(len(entry.Items))*a.commandCost; {
		}
		a.index.Store(entries[i].Index)
		a.term.Store(entries[i].Term)
		a.entries.Add(1)
	}
	return nil
}

func (a *answerer) AppliedIndex() (uint64, uint64) { return a.index.Load(), a.term.Load() }

func (a *answerer) DurablePoint() (uint64, error) {
	a.durable.Store(a.index.Load())
	return a.durable.Load(), nil
}

func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkCommands is one voter on the disk of the temporary directory, with clients each of which waits for its command to
// be applied before it proposes the next one. The state machine takes 50 µs per entry and 3 µs per command.
func BenchmarkCommands(b *testing.B) {
	for _, bytes := range []int{400, 30_000} {
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("bytes=%d/clients=%d", bytes, clients), func(b *testing.B) {
				benchmarkClients(b, clients, bytes)
			})
		}
	}
}

func benchmarkClients(b *testing.B, clients, bytes int) {
	o := DefaultOptions(b.TempDir(), 1)
	machine := &answerer{entryCost: 50 * time.Microsecond, commandCost: 3 * time.Microsecond}
	for range clients {
		machine.clients = append(machine.clients, make(chan struct{}, 1))
	}
	n, err := Open(o, machine)
	if err != nil {
		b.Fatal(err)
	}
	waitLeader(b, n)
	var remaining atomic.Int64
	remaining.Store(int64(b.N))
	latencies := make([][]time.Duration, clients)
	var group sync.WaitGroup
	entries, cpu := machine.entries.Load(), cpuTime()
	b.ResetTimer()
	for client := range clients {
		group.Go(func() {
			c := sized(0, bytes-80)
			c.Item.Request.Origin = uint64(client + 1)
			for remaining.Add(-1) >= 0 {
				start := time.Now()
				c.Item.Request.Sequence++
				if err := n.Propose(c); err != nil {
					b.Error(err)
					return
				}
				<-machine.clients[client]
				latencies[client] = append(latencies[client], time.Since(start))
			}
		})
	}
	group.Wait()
	b.StopTimer()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(b.N)/seconds, "commands/s")
	b.ReportMetric(float64(machine.entries.Load()-entries)/seconds, "entries/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/command")
	if err := n.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReadIndex is what a linearizable read costs on a node that is the only voter.
func BenchmarkReadIndex(b *testing.B) {
	n := openNode(b, DefaultOptions(b.TempDir(), 1), &answerer{})
	waitLeader(b, n)
	b.ReportAllocs()
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			if _, err := n.ReadIndex(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
