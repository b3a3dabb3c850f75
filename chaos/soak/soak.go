package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"queen/chaos/contract/harness"
)

// drainWithin bounds the consumption of what is left at the end.
const drainWithin = 2 * time.Minute

// soak is one run.
type soak struct {
	options         Options
	broker          *harness.Broker
	client          *harness.Client
	started         time.Time
	churning, aging []*lane

	failures failures
	latency  latencies
	consumed atomic.Int64
	cutOff   atomic.Int64 // calls that were not answered
	lateAcks atomic.Int64
}

// Report is what a run saw.
type Report struct {
	Samples  []Sample
	Final    Sample // after the load has ended and the warm lanes are drained
	Kills    int
	Slowest  time.Duration // the longest time from a kill to readiness
	CutOff   int64
	LateAcks int64
	Failures []string // broken promises, at most the first of them
	Failed   int
}

// Run executes a soak. An error is a run that could not go on. The broker is down afterwards.
func Run(options Options) (Report, error) {
	if err := options.validate(); err != nil {
		return Report{}, err
	}
	if options.Data == "" {
		options.Data = filepath.Join(options.Dir, "data")
	}
	broker, err := harness.Start(harness.Options{Binary: options.Binary, Dir: options.Dir, Env: options.env()})
	if err != nil {
		return Report{}, err
	}
	defer broker.Kill()
	s := &soak{options: options, broker: broker, client: broker.Client().WithoutResend(), started: time.Now()}
	defer s.client.Close()
	s.churning, s.aging = newLanes(options)
	if err := s.configure(); err != nil {
		return Report{}, err
	}
	report, err := s.run()
	report.CutOff, report.LateAcks = s.cutOff.Load(), s.lateAcks.Load()
	report.Failures, report.Failed = s.failures.list()
	if err != nil {
		return report, err
	}
	return report, broker.Stop()
}

func (s *soak) configure() error {
	common := map[string]any{"retentionEnabled": true, "dedupWindowSeconds": memorySeconds, "leaseTime": 10}
	for queue, more := range map[string]map[string]any{
		churn:  {"completedRetentionSeconds": int(s.options.Consumed.Seconds())},
		ageing: {"retentionSeconds": int(s.options.Aged.Seconds())},
	} {
		for name, value := range common {
			more[name] = value
		}
		if reply := s.client.Configure(queue, more); reply.Err != nil || reply.Status != 200 {
			return fmt.Errorf("configure %s: %v", queue, reply)
		}
	}
	return nil
}

// run puts the load on, watches, and drains.
func (s *soak) run() (Report, error) {
	pushing, stopPushing := context.WithCancel(context.Background())
	consuming, stopConsuming := context.WithCancel(context.Background())
	var pushers, poppers sync.WaitGroup
	all := make([]*consumer, consumers)
	for i := range producers {
		one := &producer{
			soak: s, lanes: share(s.churning, i, producers), aging: share(s.aging, i, producers),
			random: rand.New(rand.NewPCG(uint64(i), 7)),
		}
		pushers.Go(func() { one.run(pushing) })
	}
	for i := range consumers {
		all[i] = &consumer{soak: s, lanes: warm(share(s.churning, i, consumers))}
		poppers.Go(func() { all[i].run(consuming) })
	}
	report, err := s.observe()
	stopPushing()
	pushers.Wait()
	stopConsuming()
	poppers.Wait()
	if err != nil {
		return report, err
	}
	return report, s.finish(&report, all)
}

// observe samples until the time is over, and kills the broker when it is due.
func (s *soak) observe() (Report, error) {
	var report Report
	watch := &watcher{soak: s, probed: map[string]int64{}}
	ticker := time.NewTicker(s.options.SampleEvery)
	defer ticker.Stop()
	for time.Since(s.started) < s.options.Duration {
		<-ticker.C
		if due := s.options.Duration * time.Duration(report.Kills+1) / time.Duration(s.options.Kills+1); report.Kills < s.options.Kills && time.Since(s.started) > due {
			if err := s.options.Interrupt(s.broker); err != nil {
				return report, err
			}
			gone := time.Now()
			if err := s.broker.Start(); err != nil {
				return report, err
			}
			took := time.Since(gone)
			report.Kills, report.Slowest = report.Kills+1, max(report.Slowest, took)
			s.options.Log("killed and ready again in %v", took.Round(time.Millisecond))
		}
		if err := watch.look(); err != nil {
			return report, err
		}
		sample, err := s.sample()
		if err != nil {
			return report, err
		}
		s.options.Log("%v", sample)
		report.Samples = append(report.Samples, sample)
	}
	return report, nil
}

// finish drains the warm lanes and looks once more.
func (s *soak) finish(report *Report, all []*consumer) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	var drainers sync.WaitGroup
	for _, one := range all {
		drainers.Go(func() { one.drain(ctx) })
	}
	drainers.Wait()
	last := &watcher{soak: s, probed: map[string]int64{}}
	for _, l := range s.aging { // nothing that is gone may come back
		last.probed[l.name] = l.logStart.Load()
	}
	if err := last.look(); err != nil {
		return err
	}
	var err error
	report.Final, err = s.sample()
	return err
}

// share gives one of n owners its lanes.
func share(lanes []*lane, owner, owners int) []*lane {
	var mine []*lane
	for i := owner; i < len(lanes); i += owners {
		mine = append(mine, lanes[i])
	}
	return mine
}

// warm leaves the cold lanes out.
func warm(lanes []*lane) []*lane {
	var mine []*lane
	for _, l := range lanes {
		if !l.cold {
			mine = append(mine, l)
		}
	}
	return mine
}
