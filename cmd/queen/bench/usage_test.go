package bench

import (
	"os"
	"testing"
)

func TestCPUTimeOfAProcessWithAnOddName(t *testing.T) {
	got, err := parseStat([]byte("12 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0\n"))
	if err != nil || got != 3.0 {
		t.Errorf("cpu = %v, %v; want 3 s", got, err)
	}
	for _, stat := range []string{"", "12 (a) R 1", "12 (a) R 1 2 3 4 5 6 7 8 9 10 x 50 0"} {
		if _, err := parseStat([]byte(stat)); err == nil {
			t.Errorf("%q was accepted", stat)
		}
	}
	if rss, err := processRSS(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("own rss = %d, %v", rss, err)
	}
	if _, err := (&meter{pids: []int{1 << 30}}).read(t.Context()); err == nil {
		t.Error("a process that does not exist has a cpu time")
	}
}

func TestMetricFamilyIsMatchedWhole(t *testing.T) {
	text := []byte("# HELP process_cpu_seconds_total x\nprocess_cpu_seconds_total_more 9\nprocess_cpu_seconds_total 12.5 1700000000\n")
	if got, found := metric(text, "process_cpu_seconds_total"); !found || got != 12.5 {
		t.Errorf("metric = %v, %v", got, found)
	}
	if _, found := metric(text, "missing"); found {
		t.Error("a missing family was found")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"server":     func(o *Options) { o.Server = "localhost:6632" },
		"mode":       func(o *Options) { o.Mode = "both" },
		"batch":      func(o *Options) { o.Batch = 0 },
		"size":       func(o *Options) { o.SizeBytes = minSizeBytes - 1 },
		"clients":    func(o *Options) { o.Clients = maxClients + 1 },
		"partitions": func(o *Options) { o.Queues = 100; o.Partitions = maxPartitions / 10 },
		"rate":       func(o *Options) { o.Rate = -1 },
		"spread":     func(o *Options) { o.Spread = true; o.Partitions = 5 },
		"pop":        func(o *Options) { o.Mode = ModePop },
		"duration":   func(o *Options) { o.Duration = 0 },
	} {
		options := Defaults()
		if err := options.Validate(); err != nil {
			t.Fatalf("the defaults are refused: %v", err)
		}
		change(&options)
		if options.Validate() == nil {
			t.Errorf("%s: bad options were accepted", name)
		}
	}
}
