package soak

import (
	"flag"
	"os"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

var (
	duration = flag.Duration("duration", 30*time.Second, "how long the soak lasts")
	rate     = flag.Int("rate", 2000, "messages pushed per second")
	payload  = flag.Int("payload", 1024, "bytes of a payload")
	kills    = flag.Int("kills", 1, "how often the broker is killed")
	given    = flag.String("queen", "", "path of the broker binary to test; empty builds the checkout")
)

// TestChurnGivesBackDiskAndMemory: see the package comment.
func TestChurnGivesBackDiskAndMemory(t *testing.T) {
	binary := *given
	if binary == "" {
		var err error
		if err := harness.LookAtSources(); err != nil {
			t.Fatal(err)
		}
		if binary, err = harness.Build(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	options := DefaultOptions()
	options.Binary, options.Dir, options.Duration, options.MessagesPerSecond = binary, t.TempDir(), *duration, *rate
	options.PayloadBytes, options.Kills, options.Log = *payload, *kills, t.Logf
	report, err := Run(options)
	if err != nil {
		log, _ := os.ReadFile(options.Dir + "/queen.log")
		t.Logf("the end of the log: %s", log[max(0, len(log)-4000):])
		t.Fatal(err)
	}
	for _, failure := range report.Failures {
		t.Error(failure)
	}
	if report.Failed > len(report.Failures) {
		t.Errorf("and %d more", report.Failed-len(report.Failures))
	}
	for _, excess := range report.Judge() {
		t.Error(excess)
	}
	t.Log(report.Summary())
}
