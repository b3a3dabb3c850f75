//go:build powercut

package powercut

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"queen/chaos/campaign"
	"queen/chaos/contract/harness"
	"queen/chaos/soak"
	"queen/chaos/workload"
)

var (
	seed     = flag.Uint64("seed", 0, "seed of the campaign; 0 picks one and prints it")
	cuts     = flag.Int("cuts", 10, "how often the power goes")
	duration = flag.Duration("duration", 90*time.Second, "how long the churn lasts")
	keep     = flag.Bool("keep", false, "keep the image and the log of the broker")
	given    = flag.String("queen", "", "path of the broker binary to test; empty builds the checkout")
)

// place is where a test puts the broker: the path of its binary, a directory for its log, and a volume.
type place struct {
	binary, dir, data string
	volume            *Volume
	seed              uint64
}

func newPlace(t *testing.T) place {
	t.Helper()
	at := place{binary: *given, dir: t.TempDir(), seed: *seed}
	if at.seed == 0 {
		at.seed = rand.Uint64()
	}
	t.Logf("reproduce the mixture with -seed %d", at.seed)
	var err error
	if at.binary == "" {
		if err := harness.LookAtSources(); err != nil {
			t.Fatal(err)
		}
		if at.binary, err = harness.Build(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if *keep {
		if at.dir, err = os.MkdirTemp("", "queen-powercut-"); err != nil {
			t.Fatal(err)
		}
		t.Logf("the image and the log are kept: %s", at.dir)
	}
	if at.volume, err = NewVolume(at.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := at.volume.Close(); err != nil {
			t.Error(err)
		}
	})
	at.data = filepath.Join(at.volume.Path(), "queen")
	return at
}

// TestPowerCutKeepsEveryAcknowledgedWrite: all promises of section 16 when the power goes at random moments of mixed
// load, again while the broker recovers.
func TestPowerCutKeepsEveryAcknowledgedWrite(t *testing.T) {
	at := newPlace(t)
	cutter := NewCutter(at.volume, at.data, at.seed)
	defer cutter.Close()
	report, violations, err := campaign.Run(campaign.Options{
		Binary: at.binary, Dir: at.dir, Env: map[string]string{"QUEEN_RAFT_DIR": at.data},
		Plan: workload.Mixed(), Seed: at.seed, Times: *cuts,
		WaitMin: 50 * time.Millisecond, WaitMax: 4 * time.Second, AgainOneIn: 4, Log: t.Logf,
		Interrupt: cutter.Cut,
	})
	t.Log(report)
	if err != nil {
		t.Error(err)
	}
	if err := campaign.Explain(violations); err != nil {
		t.Errorf("%d violations:\n%v", len(violations), err)
	}
}

// TestPowerCutUnderChurnBringsNothingBack: the power goes while buckets are filled, sealed, emptied and dropped.
func TestPowerCutUnderChurnBringsNothingBack(t *testing.T) {
	at := newPlace(t)
	cutter := NewCutter(at.volume, at.data, at.seed)
	defer cutter.Close()
	options := soak.DefaultOptions()
	options.Binary, options.Dir, options.Data = at.binary, at.dir, at.data
	options.Duration, options.Kills, options.Interrupt = *duration, *cuts, cutter.CutFrozen
	options.MessagesPerSecond, options.PayloadBytes, options.Log = 400, 16<<10, t.Logf
	report, err := soak.Run(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range append(report.Failures, report.Judge()...) {
		t.Error(failure)
	}
	t.Log(report.Summary())
}
