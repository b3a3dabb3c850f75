package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
)

// Result is what a run measured. Rates and latencies are those of the measured window.
type Result struct {
	Run        string  `json:"run"`
	Mode       Mode    `json:"mode"`
	Server     string  `json:"server"`
	Loop       string  `json:"loop"` // open or closed
	Rate       float64 `json:"rate,omitempty"`
	Batch      int     `json:"batch"`
	SizeBytes  int     `json:"sizeBytes"`
	Queues     int     `json:"queues"`
	Partitions int     `json:"partitions"`
	Spread     bool    `json:"spread"`
	Clients    int     `json:"clients,omitempty"`
	Consumers  int     `json:"consumers,omitempty"`
	Group      string  `json:"group,omitempty"`

	Window Window `json:"window"`
	// Total spans load and drain; only in mixed mode, where it is the rate at which the broker took messages from end to end.
	Total *Span `json:"total,omitempty"`

	Push *Percentiles `json:"push,omitempty"`
	Pop  *Percentiles `json:"pop,omitempty"` // pops that brought messages, their wait included
	Ack  *Percentiles `json:"ack,omitempty"`
	// Delivery is the time from the scheduled push to the arrival at a consumer, per message.
	Delivery *Percentiles `json:"delivery,omitempty"`
	// StartLag is how late the generator began the requests of an open loop: its own share of the latency, or a broker
	// that answers too slowly for the number of clients.
	StartLag *Percentiles `json:"startLag,omitempty"`
	// Unstarted counts requests that were due and never began; their latency counts as the time they had waited.
	Unstarted int64 `json:"unstarted"`

	ServerUse    *Use  `json:"serverUse,omitempty"`
	GeneratorUse Use   `json:"generatorUse"`
	ServerRSS    int64 `json:"serverRssBytes,omitempty"`

	Errors map[string]int64 `json:"errors"`
	Check  *Check           `json:"check,omitempty"`
}

// Window holds the counts and rates of the measured window.
type Window struct {
	Seconds         float64 `json:"seconds"`
	Pushed          int64   `json:"pushed"`
	PushedPerSecond float64 `json:"pushedPerSecond"`
	PushCalls       int64   `json:"pushCalls"`
	Popped          int64   `json:"popped"`
	PoppedPerSecond float64 `json:"poppedPerSecond"`
	PopCalls        int64   `json:"popCalls"`
	EmptyPops       int64   `json:"emptyPops"`
	Acked           int64   `json:"acked"`
	AckedPerSecond  float64 `json:"ackedPerSecond"`
	AckCalls        int64   `json:"ackCalls"`
}

// Span is a number of messages over a time.
type Span struct {
	Seconds   float64 `json:"seconds"`
	Messages  int64   `json:"messages"`
	PerSecond float64 `json:"perSecond"`
}

// Use is CPU time. Per message it is divided by the pushed, popped or, in mixed mode, acked messages of the same time, which in
// mixed mode is load and drain together.
type Use struct {
	CPUSeconds          float64 `json:"cpuSeconds"`
	CPUMicrosPerMessage float64 `json:"cpuMicrosPerMessage"`
	Source              string  `json:"source"`
}

// Check is the verdict of the ledger.
type Check struct {
	Pushed          int64 `json:"pushed"`
	Acked           int64 `json:"acked"`
	Missing         int64 `json:"missing"`
	Duplicates      int64 `json:"duplicates"`
	OutOfOrder      int64 `json:"outOfOrder"`
	Misplaced       int64 `json:"misplaced"`
	Altered         int64 `json:"altered"`
	FalseDuplicates int64 `json:"falseDuplicates"`
	// The rest is allowed: what came again after a refused ack or a lease that ran out, pushes without a known outcome, and
	// messages of others in the same queues.
	Redelivered int64 `json:"redelivered"`
	Uncertain   int64 `json:"uncertain"`
	Foreign     int64 `json:"foreign"`
	OK          bool  `json:"ok"`
}

// Failed tells whether the run found a delivery that breaks the broker's promises.
func (r Result) Failed() bool { return r.Check != nil && !r.Check.OK }

// round keeps three decimals: more would be noise.
func round(value float64) float64 { return math.Round(value*1000) / 1000 }

func perSecond(count int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return round(float64(count) / seconds)
}

// result puts a finished run together.
func (r *run) result(m measurement) Result {
	options := r.options
	result := Result{
		Run: r.id, Mode: options.Mode, Server: options.Server, Loop: "closed", Rate: options.Rate, Batch: options.Batch,
		SizeBytes: options.SizeBytes, Queues: options.Queues, Partitions: options.Partitions, Spread: options.Spread,
		Group: options.Group, Window: window(m.windowFirst.counts, m.windowEnd.counts), Unstarted: m.unstarted,
		ServerRSS: m.windowEnd.serverRSS, Errors: r.tally.failed(),
	}
	if options.Rate > 0 {
		result.Loop = "open"
	}
	first, last, messages := m.windowFirst, m.windowEnd, result.Window.Pushed
	switch options.Mode {
	case ModePush:
		result.Clients = options.Clients
	case ModePop:
		result.Consumers, messages = options.Consumers, result.Window.Popped
	case ModeMixed:
		result.Clients, result.Consumers = options.Clients, options.Consumers
		first, last = m.loadStart, m.drained
		messages = last.acked - first.acked
		seconds := float64(last.atUs-first.atUs) / 1e6
		result.Total = &Span{Seconds: round(seconds), Messages: messages, PerSecond: perSecond(messages, seconds)}
	}
	result.GeneratorUse = use(last.ownCPU-first.ownCPU, messages, "proc")
	if first.source != "" && last.source == first.source {
		server := use(last.serverCPU-first.serverCPU, messages, last.source)
		result.ServerUse = &server
	}
	for _, kind := range []struct {
		recorder *latencies
		into     **Percentiles
	}{
		{r.pushLatency, &result.Push}, {r.popLatency, &result.Pop}, {r.ackLatency, &result.Ack},
		{r.deliveryLatency, &result.Delivery}, {r.startLag, &result.StartLag},
	} {
		if percentiles := kind.recorder.percentiles(); percentiles.Count > 0 {
			*kind.into = &percentiles
		}
	}
	if r.ledger != nil {
		check := r.verdict()
		result.Check = &check
	}
	return result
}

func window(first, last counts) Window {
	seconds := float64(last.atUs-first.atUs) / 1e6
	w := Window{
		Seconds: round(seconds), Pushed: last.pushed - first.pushed, PushCalls: last.pushCalls - first.pushCalls,
		Popped: last.popped - first.popped, PopCalls: last.popCalls - first.popCalls, EmptyPops: last.emptyPops - first.emptyPops,
		Acked: last.acked - first.acked, AckCalls: last.ackCalls - first.ackCalls,
	}
	w.PushedPerSecond, w.PoppedPerSecond, w.AckedPerSecond = perSecond(w.Pushed, seconds), perSecond(w.Popped, seconds), perSecond(w.Acked, seconds)
	return w
}

func use(cpuSeconds float64, messages int64, source string) Use {
	u := Use{CPUSeconds: round(cpuSeconds), Source: source}
	if messages > 0 {
		u.CPUMicrosPerMessage = round(cpuSeconds * 1e6 / float64(messages))
	}
	return u
}

// verdict closes the ledger. Only a mixed run consumes everything, so only there can a message be missing.
func (r *run) verdict() Check {
	check := Check{
		Pushed: r.tally.pushed.Load(), Acked: r.certainlyAcked(), Duplicates: r.ledger.duplicates.Load() + r.ledger.unresolved(),
		OutOfOrder: r.ledger.outOfOrder.Load(), Misplaced: r.ledger.misplaced.Load(), Altered: r.ledger.altered.Load(),
		FalseDuplicates: r.tally.falseRepeats.Load(), Redelivered: r.ledger.redelivered.Load(),
		Uncertain: int64(len(r.tally.uncertain)), Foreign: r.ledger.foreign.Load(),
	}
	if r.options.Mode == ModeMixed {
		check.Missing = max(0, check.Pushed-check.Acked)
	}
	check.OK = check.Missing+check.Duplicates+check.OutOfOrder+check.Misplaced+check.Altered+check.FalseDuplicates == 0
	return check
}

// WriteTable prints a result for people.
func (r Result) WriteTable(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, values ...any) { fmt.Fprintf(table, format+"\n", values...) }
	row("run\t%s\t%s, %s loop, batch %d, %d B, %d x %d partitions", r.Run, r.Mode, r.Loop, r.Batch, r.SizeBytes, r.Queues, r.Partitions)
	row("window\t%.1f s", r.Window.Seconds)
	for _, rate := range []struct {
		name  string
		count int64
		value float64
	}{
		{"pushed", r.Window.Pushed, r.Window.PushedPerSecond}, {"popped", r.Window.Popped, r.Window.PoppedPerSecond},
		{"acked", r.Window.Acked, r.Window.AckedPerSecond},
	} {
		if rate.count > 0 {
			row("%s\t%d\t%.0f msg/s", rate.name, rate.count, rate.value)
		}
	}
	if r.Total != nil {
		row("end to end\t%d\t%.0f msg/s over %.1f s, drain included", r.Total.Messages, r.Total.PerSecond, r.Total.Seconds)
	}
	for _, latency := range []struct {
		name  string
		value *Percentiles
	}{{"push", r.Push}, {"pop", r.Pop}, {"ack", r.Ack}, {"delivery", r.Delivery}, {"start lag", r.StartLag}} {
		if l := latency.value; l != nil {
			row("%s ms\tp50 %.2f\tp90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f", latency.name, l.P50Ms, l.P90Ms, l.P99Ms, l.P999Ms, l.MaxMs)
		}
	}
	if r.Unstarted > 0 {
		row("unstarted\t%d\trequests were due and never began", r.Unstarted)
	}
	if r.ServerUse != nil {
		row("server cpu\t%.2f s\t%.2f us/msg, rss %d MiB (%s)", r.ServerUse.CPUSeconds, r.ServerUse.CPUMicrosPerMessage, r.ServerRSS>>20, r.ServerUse.Source)
	}
	row("generator cpu\t%.2f s\t%.2f us/msg", r.GeneratorUse.CPUSeconds, r.GeneratorUse.CPUMicrosPerMessage)
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		row("error\t%d\t%s", r.Errors[kind], kind)
	}
	if c := r.Check; c != nil {
		word := map[bool]string{true: "OK", false: "WRONG"}[c.OK]
		row("check\t%s\tpushed %d acked %d missing %d duplicates %d out of order %d misplaced %d altered %d false duplicates %d",
			word, c.Pushed, c.Acked, c.Missing, c.Duplicates, c.OutOfOrder, c.Misplaced, c.Altered, c.FalseDuplicates)
		row("\t\tredelivered %d uncertain %d foreign %d", c.Redelivered, c.Uncertain, c.Foreign)
	}
	return table.Flush()
}
