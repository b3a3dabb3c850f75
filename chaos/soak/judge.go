package soak

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// diskPerLive is the promise: disk stays below so many times the live bytes plus a constant.
	diskPerLive = 2
	// diskConstant is what stands beside the messages, whatever there is of them: 256 MiB of nearly dead buckets, which
	// the broker leaves in peace before it moves what is left in them, the open bucket and those that wait to be sealed,
	// the tables and memtable logs of the main database, and the log with its open file.
	diskConstant = 768 << 20
	// memorySlack and memoryGrowth bound the least own memory in the last quarter by the least in the second: what lies in
	// between is garbage that waits for the collector, and memtables.
	memorySlack  = 64 << 20
	memoryGrowth = 1.25
	// latencySlack and latencyGrowth do the same for the latency of a push: a shared machine is noisy.
	latencySlack  = 500 * time.Millisecond
	latencyGrowth = 3
	// settled is how long a quarter must last to say something about growth. In a shorter one the broker is still filling its
	// caches, and the latency tells what else the machine began meanwhile: due pushes queue as soon as it is busy.
	settled = time.Minute
)

// Judge compares the samples with what must stay the same. Latencies and memory are compared in quarters of the run,
// of which the first is the warm-up, when a quarter is long enough.
func (r Report) Judge() []string {
	var found []string
	excess := func(s Sample) int64 { return s.disk() - diskPerLive*s.LiveBytes - diskConstant }
	if len(r.Samples) > 0 {
		worst := slices.MaxFunc(r.Samples, func(a, b Sample) int { return cmp.Compare(excess(a), excess(b)) })
		if excess(worst) > 0 {
			found = append(found, fmt.Sprintf("the disk holds more than %d × live + %d MiB, at worst %v", diskPerLive, diskConstant>>20, worst))
		}
	}
	if len(r.Samples) < 4 {
		return append(found, fmt.Sprintf("%d samples are too few to judge", len(r.Samples)))
	}
	second, last := r.quarter(1), r.quarter(3)
	if last[len(last)-1].At-last[0].At < settled {
		return found
	}
	memoryBefore, memoryAfter := leastOwnMemory(second), leastOwnMemory(last)
	if float64(memoryAfter) > float64(memoryBefore)*memoryGrowth+memorySlack {
		found = append(found, fmt.Sprintf("the own memory grew from %d to %d MiB", memoryBefore>>20, memoryAfter>>20))
	}
	latency := func(s Sample) int64 { return int64(s.PushP99) }
	if before, after := median(second, latency), median(last, latency); after > before*latencyGrowth+int64(latencySlack) {
		found = append(found, fmt.Sprintf("the p99 of a push grew from %v to %v", time.Duration(before), time.Duration(after)))
	}
	return found
}

// Summary is the record of a run.
func (r Report) Summary() string {
	if len(r.Samples) < 4 {
		return "too few samples"
	}
	peak := slices.MaxFunc(r.Samples, func(a, b Sample) int { return cmp.Compare(a.disk(), b.disk()) })
	last := r.Final
	text := fmt.Sprintf("%d messages pushed and %d consumed in %v; %d kills, slowest restart %v; %d calls cut off, %d acks too late\nmost disk %v\nat the end %v",
		last.Pushed, last.Consumed, last.At.Round(time.Second), r.Kills, r.Slowest.Round(time.Millisecond), r.CutOff, r.LateAcks, peak, last)
	for i, name := range []string{"first", "second", "third", "last"} {
		quarter := r.quarter(i)
		text += fmt.Sprintf("\n%s quarter, medians: RSS %d MiB, own %d MiB, push p50 %v p99 %v", name,
			median(quarter, func(s Sample) int64 { return s.ResidentBytes })>>20,
			median(quarter, func(s Sample) int64 { return s.AnonBytes })>>20,
			time.Duration(median(quarter, func(s Sample) int64 { return int64(s.PushP50) })).Round(time.Millisecond/10),
			time.Duration(median(quarter, func(s Sample) int64 { return int64(s.PushP99) })).Round(time.Millisecond/10))
	}
	return text
}

// quarter returns one of the four parts of the samples.
func (r Report) quarter(i int) []Sample {
	n := len(r.Samples)
	return r.Samples[n*i/4 : n*(i+1)/4]
}

func leastOwnMemory(samples []Sample) int64 {
	return slices.MinFunc(samples, func(a, b Sample) int { return cmp.Compare(a.AnonBytes, b.AnonBytes) }).AnonBytes
}

func median(samples []Sample, of func(Sample) int64) int64 {
	values := make([]int64, len(samples))
	for i, sample := range samples {
		values[i] = of(sample)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
