package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

const (
	// beatsMax bounds the writes that wait for their acknowledgement. A pulse that has so many leaves beats out.
	beatsMax = 4096
	// beatPause is the pause of a writer between two tries.
	beatPause = 10 * time.Millisecond
	// beatWithin is how long a writer tries at most.
	beatWithin = 2 * time.Minute
)

// Pulse is a steady stream of single pushes, round-robin over the nodes. Each is sent again through the next node, under
// the same transactionId, until it is acknowledged. It does not wait for answers, so it meters a cluster that stands still.
// Its owner calls Stop.
type Pulse struct {
	clients []*harness.Client
	plan    Plan
	history *ledger.History
	stop    context.CancelFunc // of the ticker
	abandon context.CancelFunc // of the writers
	beating sync.WaitGroup     // the ticker
	writers sync.WaitGroup

	mutex   sync.Mutex
	beats   []Beat
	waiting int
	skipped int
}

// Beat is one write of a pulse: when it was due, when it was acknowledged (0 while it waits, or when it was given up), and how
// often it was sent.
type Beat struct {
	Start, End time.Duration // on the clock of the history
	Tries      int
	Node       int // the index of the client that was asked first
}

// StartPulse begins to push so often into the queues of the plan that are pushed to.
func StartPulse(clients []*harness.Client, plan Plan, history *ledger.History, every time.Duration) *Pulse {
	p := &Pulse{clients: clients, plan: plan, history: history}
	writing, abandon := context.WithCancel(context.Background())
	beating, stop := context.WithCancel(writing)
	p.stop, p.abandon = stop, abandon
	p.beating.Go(func() { p.run(beating, writing, every) })
	return p
}

// Abandon is Stop for a cluster that will not acknowledge anything any more.
func (p *Pulse) Abandon() {
	p.abandon()
	p.Stop()
}

// Stop ends the pulse once everything that was sent is acknowledged, or given up after two minutes.
func (p *Pulse) Stop() {
	p.stop()
	p.beating.Wait()
	p.writers.Wait()
}

func (p *Pulse) run(ctx, writing context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		p.mutex.Lock()
		if p.waiting == beatsMax {
			p.skipped++
			p.mutex.Unlock()
			continue
		}
		number := len(p.beats)
		p.waiting++
		p.beats = append(p.beats, Beat{Start: p.history.Now(), Node: number % len(p.clients)})
		p.mutex.Unlock()
		p.writers.Go(func() { p.write(writing, number) })
	}
}

// write sends one message until it is acknowledged.
func (p *Pulse) write(ctx context.Context, number int) {
	queues := p.plan.pushed()
	queue := queues[number%len(queues)]
	load := Load{plan: p.plan, clients: p.clients, history: p.history}
	via := load.route(number)
	deadline := time.Now().Add(beatWithin)
	for try := 1; ctx.Err() == nil && time.Now().Before(deadline); try++ {
		outcome := load.push(via, []ledger.PushItem{{
			Partition: queue.partition(number / len(queues) % queue.Partitions), Offset: -1,
			TransactionID: fmt.Sprintf("beat-%d", number), Token: fmt.Sprintf("beat-%d-%d", number, try),
		}})
		p.mutex.Lock()
		p.beats[number].Tries = try
		if outcome == ledger.Done {
			p.beats[number].End = p.history.Now()
			p.waiting--
			p.mutex.Unlock()
			return
		}
		p.mutex.Unlock()
		pause(ctx, beatPause)
	}
	p.mutex.Lock()
	p.waiting--
	p.mutex.Unlock()
}

// PushOne sends one booked push of one message which is not sent again.
func PushOne(client *harness.Client, history *ledger.History, plan Plan, partition ledger.Partition, token string) (harness.PushReply, ledger.Outcome) {
	load := Load{plan: plan, clients: []*harness.Client{client}, history: history}
	items := []ledger.PushItem{{Partition: partition, TransactionID: token, Token: token, Offset: -1}}
	return load.pushThrough(client, items)
}

// Acknowledged counts the beats that are acknowledged by now.
func (p *Pulse) Acknowledged() int {
	count := 0
	for _, beat := range p.Beats() {
		if beat.End > 0 {
			count++
		}
	}
	return count
}

// Skipped counts the beats that were left out because too many waited.
func (p *Pulse) Skipped() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.skipped
}

// Beats returns all beats so far, in the order in which they were due.
func (p *Pulse) Beats() []Beat {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.beats)
}

// Slowest gives the longest time that a beat which was due between two instants took, or has taken by now.
func (p *Pulse) Slowest(from, to time.Duration) time.Duration {
	return slowest(p.Beats(), from, to, p.history.Now())
}

func slowest(beats []Beat, from, to, now time.Duration) time.Duration {
	worst := time.Duration(0)
	for _, beat := range beats {
		if beat.Start < from || beat.Start > to {
			continue
		}
		end := beat.End
		if end == 0 {
			end = now
		}
		worst = max(worst, end-beat.Start)
	}
	return worst
}

// Gap gives the longest time between two instants in which nothing was acknowledged: the time without a commit, as far as
// clients can tell.
func (p *Pulse) Gap(from, to time.Duration) time.Duration { return gap(p.Beats(), from, to) }

func gap(beats []Beat, from, to time.Duration) time.Duration {
	commits := []time.Duration{from, to}
	for _, beat := range beats {
		if beat.End > from && beat.End < to {
			commits = append(commits, beat.End)
		}
	}
	slices.Sort(commits)
	worst := time.Duration(0)
	for i := 1; i < len(commits); i++ {
		worst = max(worst, commits[i]-commits[i-1])
	}
	return worst
}
