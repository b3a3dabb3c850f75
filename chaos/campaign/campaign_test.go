package campaign

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/workload"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the campaigns; 0 picks one and prints it")
	kills = flag.Int("kills", 20, "how often the crash campaign kills the broker")
	stops = flag.Int("stops", 6, "how often the restart campaign stops the broker")
	given = flag.String("queen", "", "path of the broker binary to test; empty builds the checkout")
	keep  = flag.Bool("keep", false, "keep the directories of failed campaigns")
)

var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if *given != "" {
		binary = *given
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "queen-campaign-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the binary:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary, err = harness.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// directory makes one for a broker, which goes with the test.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "queen-campaign-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && *keep {
			t.Logf("the directory is kept: %s", filepath.Clean(dir))
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// start runs a broker that ends with the test.
func start(t *testing.T) *harness.Broker {
	t.Helper()
	broker, err := harness.Start(harness.Options{Binary: binary, Dir: directory(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Kill)
	return broker
}

// options are those that all campaigns share.
func options(t *testing.T) Options {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("reproduce the mixture with -seed %d", chosen)
	return Options{
		Binary: binary, Dir: directory(t), Plan: workload.Mixed(), Seed: chosen, Interrupt: Kill,
		WaitMin: 50 * time.Millisecond, WaitMax: 1500 * time.Millisecond, Log: t.Logf,
	}
}

// judge runs a campaign and fails the test for every broken promise.
func judge(t *testing.T, options Options) Report {
	t.Helper()
	report, violations, err := Run(options)
	t.Log(report)
	if err != nil {
		t.Error(err)
	}
	if err := Explain(violations); err != nil {
		t.Errorf("%d violations:\n%v", len(violations), err)
	}
	return report
}

// TestKilledAtRandomKeepsEveryPromise: section 16 under SIGKILL at random moments of mixed load, some of them while
// the broker starts.
func TestKilledAtRandomKeepsEveryPromise(t *testing.T) {
	options := options(t)
	options.Times, options.AgainOneIn = *kills, 5
	judge(t, options)
}

// TestOrderlyRestartsKeepEveryPromise: the same under SIGTERM. Each stop must end in exit status 0.
func TestOrderlyRestartsKeepEveryPromise(t *testing.T) {
	options := options(t)
	options.Interrupt, options.Times = Stop, *stops
	judge(t, options)
}

// TestTheResultIsOfTheseSources makes go test run the package again when the broker has changed.
func TestTheResultIsOfTheseSources(t *testing.T) {
	if err := harness.LookAtSources(); err != nil {
		t.Fatal(err)
	}
}
