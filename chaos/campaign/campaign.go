package campaign

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
	"queen/chaos/workload"
)

// Interruption ends the process of a broker and leaves its directory as the next start will find it. It returns after
// the process has been waited for. When answers of the broker stop to count before it is gone, it books that.
type Interruption func(*harness.Broker, *ledger.History) error

// Kill is SIGKILL.
func Kill(broker *harness.Broker, _ *ledger.History) error {
	broker.Kill()
	return nil
}

// Stop is SIGTERM: an orderly end.
func Stop(broker *harness.Broker, _ *ledger.History) error { return broker.Stop() }

// Options says how a campaign runs. All fields but Env and Log are required.
type Options struct {
	Binary    string
	Dir       string
	Env       map[string]string
	Plan      workload.Plan
	Seed      uint64
	Interrupt Interruption
	Times     int
	// WaitMin and WaitMax bound the time between readiness and the next interruption.
	WaitMin, WaitMax time.Duration
	// AgainOneIn is how many interruptions there are to one that hits the broker a second time while it starts; 0 is never.
	AgainOneIn int
	Log        func(format string, values ...any)
}

// Report counts what a campaign did.
type Report struct {
	Interruptions int
	Messages      int // in the logs at the end
	Pushes        map[ledger.Outcome]int
	Deliveries    int
	Redelivered   int // deliveries with an attempt above 1
	Acks          map[ledger.Outcome]int
	Transactions  map[ledger.Outcome]int
	DeadLetters   int
	SlowestStart  time.Duration
	Elapsed       time.Duration
}

// String is one line for the record.
func (r Report) String() string {
	return fmt.Sprintf("%d interruptions in %v: %d messages stored, pushes %v, %d deliveries (%d again), acks %v, transactions %v, %d dead letters, slowest start %v",
		r.Interruptions, r.Elapsed.Round(time.Second), r.Messages, r.Pushes, r.Deliveries, r.Redelivered, r.Acks, r.Transactions, r.DeadLetters,
		r.SlowestStart.Round(time.Millisecond))
}

// run is one campaign under way.
type run struct {
	options Options
	random  *rand.Rand
	broker  *harness.Broker
	client  *harness.Client
	history *ledger.History
	gate    *workload.Gate
	gone    func() // books the end of the present process
	known   map[ledger.Partition]ledger.Log
	report  Report
}

// Run executes a campaign. Violations are broken promises of the broker; an error is a campaign that could not go on,
// which may be the broker's fault as well. The broker is down afterwards and its directory is left as it is.
func Run(options Options) (Report, []ledger.Violation, error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	r := &run{
		options: options,
		random:  rand.New(rand.NewPCG(options.Seed, 1)),
		history: ledger.NewHistory(options.Plan.Rules()),
		gate:    workload.NewGate(),
	}
	ready, gone := r.history.Launched()
	broker, err := harness.Start(harness.Options{Binary: options.Binary, Dir: options.Dir, Env: options.Env})
	if err != nil {
		return r.report, nil, err
	}
	ready()
	r.broker, r.client, r.gone = broker, broker.Client().WithoutResend(), gone
	defer broker.Kill()
	defer r.client.Close()
	if err := workload.Prepare(r.client, options.Plan); err != nil {
		return r.report, nil, err
	}
	violations, err := r.underLoad()
	r.report.Elapsed = r.history.Now()
	return r.report, violations, err
}

// underLoad interrupts the broker while the load goes on, and judges.
func (r *run) underLoad() ([]ledger.Violation, error) {
	load := workload.Start([]*harness.Client{r.client}, r.options.Plan, r.history, r.gate, r.options.Seed)
	for r.report.Interruptions < r.options.Times {
		violations, err := r.interrupt()
		if err != nil || len(violations) > 0 {
			r.gate.Open()
			load.Stop()
			return violations, err
		}
	}
	load.Stop()
	if err := load.Drain(); err != nil {
		return nil, err
	}
	// The state is read from a process that has replayed everything.
	if _, err := r.interrupt(); err != nil {
		return nil, err
	}
	state, err := workload.ReadState(r.client, r.options.Plan)
	if err != nil {
		return nil, fmt.Errorf("read the final state: %w", err)
	}
	if err := r.broker.Stop(); err != nil {
		return nil, err
	}
	books := r.history.Books()
	r.count(books, state)
	return ledger.Check(books, state), nil
}

// interrupt ends the process once, starts it again and judges what can be judged under load.
func (r *run) interrupt() ([]ledger.Violation, error) {
	wait := r.options.WaitMin + time.Duration(r.random.Int64N(int64(r.options.WaitMax-r.options.WaitMin)+1))
	<-time.After(wait)
	if err := r.end(); err != nil {
		return nil, err
	}
	if r.options.AgainOneIn > 0 && r.random.IntN(r.options.AgainOneIn) == 0 {
		_, r.gone = r.history.Launched()
		if err := r.broker.Launch(); err != nil {
			return nil, err
		}
		<-time.After(time.Duration(r.random.Int64N(int64(300 * time.Millisecond))))
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	var ready func()
	ready, r.gone = r.history.Launched()
	start := time.Now()
	if err := r.broker.Start(); err != nil {
		return nil, fmt.Errorf("start after interruption %d: %w", r.report.Interruptions, err)
	}
	ready()
	took := time.Since(start)
	r.report.SlowestStart = max(r.report.SlowestStart, took)
	r.gate.Open()
	violations, err := r.judgeLogs()
	r.options.Log("interruption %d after %v: ready at %v in %v, %d messages, %d violations",
		r.report.Interruptions, wait.Round(time.Millisecond), (r.history.Now() - time.Since(start) + took).Round(time.Millisecond), took.Round(time.Millisecond), r.stored(), len(violations))
	return violations, err
}

// end interrupts the process and keeps the load back until the next one is ready.
func (r *run) end() error {
	r.report.Interruptions++
	err := r.options.Interrupt(r.broker, r.history)
	r.gone()
	r.gate.Close()
	if err != nil {
		return fmt.Errorf("interruption %d: %w", r.report.Interruptions, err)
	}
	return nil
}

// rereadOneIn is how many checks go on from what is known to one that reads the logs from their beginning.
const rereadOneIn = 8

func (r *run) judgeLogs() ([]ledger.Violation, error) {
	known := r.known
	if r.random.IntN(rereadOneIn) == 0 {
		known = nil
	}
	before := r.history.Books()
	logs, err := workload.ReadLogs(r.client, r.options.Plan, known)
	if err != nil {
		return nil, fmt.Errorf("read the logs after interruption %d: %w", r.report.Interruptions, err)
	}
	after := r.history.Books()
	violations := ledger.CheckLogs(before, after, logs)
	for partition, log := range r.known {
		if len(logs[partition].Records) < len(log.Records) {
			violations = append(violations, ledger.Violation{Rule: "lost", Detail: fmt.Sprintf("%v shrank from %d to %d records", partition, len(log.Records), len(logs[partition].Records))})
		}
	}
	r.known = logs
	return violations, nil
}

func (r *run) stored() int {
	stored := 0
	for _, log := range r.known {
		stored += len(log.Records)
	}
	return stored
}

func (r *run) count(books ledger.Books, state ledger.State) {
	r.report.Pushes, r.report.Acks, r.report.Transactions = map[ledger.Outcome]int{}, map[ledger.Outcome]int{}, map[ledger.Outcome]int{}
	for _, log := range state.Logs {
		r.report.Messages += len(log.Records)
	}
	for _, push := range books.Pushes {
		r.report.Pushes[push.Outcome]++
	}
	for _, pop := range books.Pops {
		r.report.Deliveries += len(pop.Messages)
		for _, message := range pop.Messages {
			if message.Attempt > 1 {
				r.report.Redelivered++
			}
		}
	}
	for _, ack := range books.Acks {
		r.report.Acks[ack.Outcome]++
	}
	for _, transaction := range books.Transactions {
		r.report.Transactions[transaction.Outcome]++
	}
	r.report.DeadLetters = len(state.DeadLetters)
}

// Explain joins violations into one error, at most so many of them; nil for none.
func Explain(violations []ledger.Violation) error {
	const shown = 20
	var all []error
	for i, violation := range violations {
		if i == shown {
			all = append(all, fmt.Errorf("and %d more", len(violations)-shown))
			break
		}
		all = append(all, errors.New(violation.String()))
	}
	return errors.Join(all...)
}
