package bench

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The fake broker's library keeps one clock goroutine for the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// small is a run that takes a fraction of a second.
func small(mode Mode, server string) Options {
	options := Defaults()
	options.Mode, options.Server = mode, server
	options.Partitions, options.Batch, options.Clients, options.Consumers = 7, 5, 4, 3
	options.PopWait = 20 * time.Millisecond
	options.Warmup, options.Duration, options.DrainTimeout = 20*time.Millisecond, 150*time.Millisecond, 400*time.Millisecond
	return options
}

func mustRun(t *testing.T, options Options) Result {
	t.Helper()
	result, err := Run(t.Context(), options, io.Discard)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return result
}

func TestMixedRunAccountsForEveryMessage(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"plain":                           func(*Options) {},
		"one partition, many producers":   func(o *Options) { o.Partitions = 1; o.Clients = 8 },
		"spread":                          func(o *Options) { o.Spread = true; o.PopPartitions = 3 },
		"several queues":                  func(o *Options) { o.Queues = 3 },
		"more queues than consumers":      func(o *Options) { o.Queues = 5; o.Consumers = 2 },
		"group and odd queue name":        func(o *Options) { o.Group = `g "1"`; o.Queue = `a b/c%2F"` },
		"commit on delivery":              func(o *Options) { o.AutoAck = true },
		"prefill":                         func(o *Options) { o.Prefill = 100 },
		"open loop":                       func(o *Options) { o.Rate = 2000 },
		"batch of one":                    func(o *Options) { o.Batch = 1 },
		"more partitions than one client": func(o *Options) { o.Partitions = 1000; o.Clients = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			options := small(ModeMixed, startFakeBroker(t, faults{}))
			change(&options)
			result := mustRun(t, options)
			check := result.Check
			if result.Failed() || check.Pushed == 0 || check.Acked != check.Pushed || check.Redelivered+check.Foreign+check.Uncertain != 0 {
				t.Errorf("check = %+v, errors %v", check, result.Errors)
			}
			if result.Push.Count == 0 || result.Pop.Count == 0 || result.Delivery.Count == 0 || result.Total.Messages == 0 {
				t.Errorf("nothing was measured: %+v", result)
			}
		})
	}
}

func TestMixedRunNoticesWhatABrokerMustNotDo(t *testing.T) {
	for name, row := range map[string]struct {
		faults faults
		count  func(Check) int64
	}{
		"lost message":            {faults{loseEvery: 50}, func(c Check) int64 { return c.Missing }},
		"message stored twice":    {faults{storeTwiceEvery: 50}, func(c Check) int64 { return c.Duplicates }},
		"messages swapped":        {faults{swapEvery: 20}, func(c Check) int64 { return c.OutOfOrder }},
		"lease handed out twice":  {faults{ignoreLeaseEvery: 5}, func(c Check) int64 { return c.Duplicates }},
		"acked message back":      {faults{forgetAckEvery: 10}, func(c Check) int64 { return c.Duplicates }},
		"payload altered":         {faults{alterEvery: 50}, func(c Check) int64 { return c.Altered }},
		"wrong partition":         {faults{misplaceEvery: 50}, func(c Check) int64 { return c.Misplaced }},
		"fresh txid is duplicate": {faults{callDuplicateEvery: 50}, func(c Check) int64 { return c.FalseDuplicates }},
	} {
		t.Run(name, func(t *testing.T) {
			options := small(ModeMixed, startFakeBroker(t, row.faults))
			if name == "lease handed out twice" {
				options.Partitions = 2 // so that consumers meet
			}
			result := mustRun(t, options)
			if !result.Failed() || row.count(*result.Check) == 0 {
				t.Errorf("not noticed: %+v, errors %v", result.Check, result.Errors)
			}
		})
	}
}

func TestMixedRunAcceptsWhatABrokerMayDo(t *testing.T) {
	for name, row := range map[string]struct {
		faults faults
		kind   string // of the error that is counted
	}{
		"refused ack comes again":     {faults{refuseAckEvery: 10}, `ack item: "invalid or expired lease"`},
		"answer cut after the commit": {faults{cutAnswerEvery: 7}, "push: 503 retry"},
		"overloaded":                  {faults{overloadEvery: 7}, "push: 429 overloaded"},
		"item refused":                {faults{itemErrorEvery: 20}, "push item: "},
	} {
		t.Run(name, func(t *testing.T) {
			result := mustRun(t, small(ModeMixed, startFakeBroker(t, row.faults)))
			if result.Failed() || result.Errors[row.kind] == 0 || result.Check.Acked != result.Check.Pushed {
				t.Errorf("check %+v, errors %v", result.Check, result.Errors)
			}
		})
	}
}

func TestRedeliveryIsCountedApart(t *testing.T) {
	result := mustRun(t, small(ModeMixed, startFakeBroker(t, faults{refuseAckEvery: 5})))
	if result.Check.Redelivered == 0 || result.Failed() {
		t.Errorf("check = %+v", result.Check)
	}
}

func TestPushRunCounts(t *testing.T) {
	options := small(ModePush, startFakeBroker(t, faults{}))
	options.PIDs = []int{os.Getpid()}
	result := mustRun(t, options)
	window := result.Window
	off := window.Pushed - 5*window.PushCalls // calls that one of the two counters has seen already
	if window.Pushed == 0 || off < -20 || off > 20 || result.Check != nil || result.Push.P50Ms <= 0 || result.Push.MaxMs < result.Push.P999Ms {
		t.Errorf("result = %+v, push %+v", result, result.Push)
	}
	if result.ServerUse == nil || result.ServerUse.Source != "proc" || result.ServerRSS == 0 {
		t.Errorf("use of a given process = %+v, rss %d", result.ServerUse, result.ServerRSS)
	}
}

func TestServerUseComesFromMetricsWithoutProcesses(t *testing.T) {
	result := mustRun(t, small(ModePush, startFakeBroker(t, faults{})))
	if result.ServerUse == nil || result.ServerUse.Source != "metrics" || result.ServerRSS != 1_000_000 {
		t.Errorf("use = %+v, rss %d", result.ServerUse, result.ServerRSS)
	}
}

func TestPopRunConsumesWhatWasPrefilled(t *testing.T) {
	options := small(ModePop, startFakeBroker(t, faults{}))
	options.Prefill, options.Warmup, options.Duration = 500, 0, 20*time.Second
	began := time.Now()
	result := mustRun(t, options)
	if result.Failed() || result.Check.Pushed < 500 || result.Check.Acked != result.Check.Pushed {
		t.Errorf("check = %+v", result.Check)
	}
	if time.Since(began) > options.Duration/2 {
		t.Error("the run went on after everything was consumed")
	}
}

func TestForeignMessagesAreNotJudged(t *testing.T) {
	server := startFakeBroker(t, faults{})
	first := small(ModePush, server)
	first.Queue = "shared"
	pushed := mustRun(t, first)
	second := small(ModeMixed, server)
	second.Queue = "shared"
	result := mustRun(t, second)
	if result.Failed() || result.Check.Foreign < pushed.Window.Pushed {
		t.Errorf("check = %+v", result.Check)
	}
}

func TestOpenLoopLatencyCountsFromTheSchedule(t *testing.T) {
	const stall = 300 * time.Millisecond
	options := small(ModePush, startFakeBroker(t, faults{stallOnce: stall}))
	options.PIDs = []int{os.Getpid()} // no call of the metrics route, which would meet the stall
	options.Batch, options.Clients, options.Rate, options.Warmup, options.Duration = 1, 1, 500, 0, 500*time.Millisecond
	result := mustRun(t, options)
	// 150 of the 250 requests were due while the only client waited; a generator that omits them has a median near 0.
	if result.Push.P50Ms < 40 || result.Push.Count < 240 {
		t.Errorf("push = %+v", result.Push)
	}
}

func TestRequestsThatNeverStartCount(t *testing.T) {
	options := small(ModePush, startFakeBroker(t, faults{stallOnce: 250 * time.Millisecond}))
	options.PIDs = []int{os.Getpid()}
	options.Batch, options.Clients, options.Rate, options.Warmup, options.Duration = 1, 1, 100_000, 0, 200*time.Millisecond
	result := mustRun(t, options)
	if result.Unstarted < 15_000 || result.Push.Count < 19_000 || result.Push.P50Ms < 50 {
		t.Errorf("unstarted %d, push %+v", result.Unstarted, result.Push)
	}
}

func TestRefusedRunEndsWithTheReason(t *testing.T) {
	for mode, want := range map[Mode]string{ModePush: "push to", ModeMixed: "status 400 bad_request: no"} {
		_, err := Run(t.Context(), small(mode, startFakeBroker(t, faults{refuseEverythingWith: 400})), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", mode, err, want)
		}
	}
}

func TestUnreachableServerDoesNotHang(t *testing.T) {
	options := small(ModePush, "http://127.0.0.1:1")
	options.PIDs = []int{os.Getpid()}
	result := mustRun(t, options)
	if result.Window.Pushed != 0 || result.Errors["push: network dial"] == 0 {
		t.Errorf("errors = %v", result.Errors)
	}
}

func TestInterruptEndsARun(t *testing.T) {
	options := small(ModeMixed, startFakeBroker(t, faults{}))
	options.Duration = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, options, io.Discard); err == nil {
		t.Error("an interrupted run has no error")
	}
}

func TestProgressAndTable(t *testing.T) {
	options := small(ModeMixed, startFakeBroker(t, faults{}))
	options.Duration = 1200 * time.Millisecond
	options.Rate = 1000
	var progress, table bytes.Buffer
	result, err := Run(t.Context(), options, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "pushed") {
		t.Errorf("progress = %q", progress.String())
	}
	if err := result.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"mixed, open loop", "end to end", "push ms", "delivery ms", "server cpu", "check", "OK"} {
		if !strings.Contains(table.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, table.String())
		}
	}
}
