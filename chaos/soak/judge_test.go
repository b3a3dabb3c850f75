package soak

import (
	"strings"
	"testing"
	"time"
)

// steady is a report in which everything stays the same.
func steady() Report {
	var report Report
	for i := range 16 {
		report.Samples = append(report.Samples, Sample{
			At: time.Duration(i) * time.Minute, LiveBytes: 200 << 20, BucketBytes: 300 << 20, MainBytes: 50 << 20, RaftBytes: 64 << 20,
			ResidentBytes: 300 << 20, AnonBytes: 200 << 20, PushP50: 2 * time.Millisecond, PushP99: 20 * time.Millisecond,
		})
	}
	return report
}

func TestJudgeFindsWhatGrows(t *testing.T) {
	if found := steady().Judge(); len(found) > 0 {
		t.Fatalf("nothing grows: %v", found)
	}
	for want, grow := range map[string]func(i int, s *Sample){
		"the disk holds more": func(i int, s *Sample) { s.BucketBytes = int64(i) * 200 << 20 },
		"the own memory":      func(i int, s *Sample) { s.AnonBytes = int64(100+i*20) << 20 },
		"the p99 of a push":   func(i int, s *Sample) { s.PushP99 = time.Duration(i*i*20) * time.Millisecond },
	} {
		report := steady()
		for i := range report.Samples {
			grow(i, &report.Samples[i])
		}
		if found := strings.Join(report.Judge(), "\n"); !strings.Contains(found, want) {
			t.Errorf("want %q, got %q", want, found)
		}
	}
	short := steady()
	for i := range short.Samples {
		short.Samples[i].At = time.Duration(i) * time.Second
		short.Samples[i].PushP99 = time.Duration(i*i*20) * time.Millisecond
	}
	if found := short.Judge(); len(found) > 0 {
		t.Errorf("a short run says nothing about growth: %v", found)
	}
	if found := (Report{}).Judge(); len(found) == 0 {
		t.Error("a run without samples proves nothing")
	}
}

func TestPayloadFollowsFromTheNumber(t *testing.T) {
	l := &lane{queue: churn, name: "p0001"}
	for _, payloadBytes := range []int{0, 1, 10, 1024} {
		one := l.payload(7, payloadBytes)
		if wanted := max(payloadBytes, 1) + 2; len(one) != wanted || !l.holds(one, 7, payloadBytes) {
			t.Errorf("%d bytes: got %d bytes, want %d", payloadBytes, len(one), wanted)
		}
		if payloadBytes > 10 && l.holds(one, 8, payloadBytes) {
			t.Error("two messages must not have one payload")
		}
	}
}

// TestWatcherFindsWhatComesBack: each way in which a deleted message may show is a failure.
func TestWatcherFindsWhatComesBack(t *testing.T) {
	record := func(offset int64, txid string) fetched {
		entry := fetched{HighWatermark: 100}
		entry.Records = append(entry.Records, struct {
			Offset        int64  `json:"offset"`
			TransactionID string `json:"transactionId"`
		}{offset, txid})
		return entry
	}
	gone := fetched{HighWatermark: 100, LogStartOffset: 40, Error: "OFFSET_OUT_OF_RANGE"}
	stillShown := record(0, "p0001-0")
	stillShown.LogStartOffset = 40
	for name, c := range map[string]struct {
		lane  *lane
		seen  int64
		entry fetched
		fails bool
	}{
		"nothing was removed":              {&lane{queue: churn, name: "p0001"}, 0, record(0, "p0001-0"), false},
		"the beginning is gone":            {&lane{queue: churn, name: "p0001"}, 40, gone, false},
		"the log is shorter than promised": {&lane{queue: churn, name: "p0001"}, 0, fetched{HighWatermark: 99}, true},
		"the log begins earlier again":     {&lane{queue: churn, name: "p0001"}, 41, gone, true},
		"a removed message is shown":       {&lane{queue: churn, name: "p0001"}, 40, stillShown, true},
		"another message stands at 0":      {&lane{queue: churn, name: "p0001"}, 0, record(0, "p0001-3"), true},
		"the first message is missing":     {&lane{queue: churn, name: "p0001"}, 0, fetched{HighWatermark: 100}, true},
		"unconsumed messages were removed": {&lane{queue: churn, name: "p0001", cold: true}, 0, gone, true},
		"the partition is gone":            {&lane{queue: churn, name: "p0001"}, 0, fetched{Error: "UNKNOWN_TOPIC_OR_PARTITION"}, true},
	} {
		s := &soak{}
		c.lane.pushed.Store(100)
		c.lane.logStart.Store(c.seen)
		(&watcher{soak: s}).judge(c.lane, 100, c.entry)
		if found, _ := s.failures.list(); (len(found) > 0) != c.fails {
			t.Errorf("%s: got %v", name, found)
		}
	}
}
