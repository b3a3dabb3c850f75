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
	"queen/chaos/workload"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the campaign; 0 picks one and prints it")
	cuts  = flag.Int("cuts", 10, "how often the power goes")
	keep  = flag.Bool("keep", false, "keep the image and the log of the broker")
	given = flag.String("queen", "", "path of the broker binary to test; empty builds the checkout")
)

// TestPowerCutKeepsEveryAcknowledgedWrite: all promises of section 16 when the power goes at random moments of mixed
// load, again while the broker recovers.
func TestPowerCutKeepsEveryAcknowledgedWrite(t *testing.T) {
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("reproduce the mixture with -seed %d", chosen)
	binary := *given
	if binary == "" {
		var err error
		if binary, err = harness.Build(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if *keep {
		var err error
		if dir, err = os.MkdirTemp("", "queen-powercut-"); err != nil {
			t.Fatal(err)
		}
		t.Logf("the image and the log are kept: %s", dir)
	}
	volume, err := NewVolume(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := volume.Close(); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(volume.Path(), "queen")
	cutter := NewCutter(volume, data, chosen)
	defer cutter.Close()

	report, violations, err := campaign.Run(campaign.Options{
		Binary: binary, Dir: dir, Env: map[string]string{"QUEEN_RAFT_DIR": data},
		Plan: workload.Mixed(), Seed: chosen, Times: *cuts,
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
