package walkthrough

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"queen/chaos/contract/harness"
)

var (
	backend    = flag.String("backend", "processes", "what the nodes are: processes or compose")
	patience   = flag.Float64("patience", 6, "how many times the promised time a step may take; 1 asserts the README as it stands")
	given      = flag.String("queen", "", "path of the broker binary to test; empty builds the checkout")
	composeCLI = flag.String("compose", "docker compose", "the command of Compose v2")
)

func TestMain(m *testing.M) {
	if os.Getenv(standinVariable) != "" {
		os.Exit(standin())
	}
	flag.Parse()
	os.Exit(m.Run())
}

// build compiles this checkout as a release with its own number.
func build(t *testing.T, version string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "queen")
	output, err := exec.Command("go", "build", "-o", binary, "-ldflags", "-X queen/cmd/queen/version.number="+version, "queen/cmd/queen").CombinedOutput()
	if err != nil {
		t.Fatalf("build queen: %v\n%s", err, output)
	}
	return binary
}

// newFleet makes the fleet that the flags ask for; it goes with the test.
func newFleet(t *testing.T) fleet {
	t.Helper()
	switch *backend {
	case "processes":
		first := *given
		if first == "" {
			first = build(t, firstVersion)
		}
		made, err := newProcesses(processOptions{Binary: first, Next: build(t, nextVersion), Parent: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, made.close()) })
		return made
	case "compose":
		buildImage(t, firstVersion)
		buildImage(t, nextVersion)
		made, err := newCompose(composeOptions{Command: *composeCLI, Image: testImage, Version: firstVersion, Next: nextVersion, Parent: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, made.close()) })
		return made
	default:
		t.Fatalf("-backend %q: want processes or compose", *backend)
		return nil
	}
}

const (
	firstVersion = "1.0.0-first"
	nextVersion  = "1.0.0-next"
	testImage    = "queen-walkthrough"
)

// buildImage builds an image of this checkout as a release with its own number, and removes it after the test.
func buildImage(t *testing.T, version string) {
	t.Helper()
	if output, err := run([]string{"QUEEN_IMAGE=" + testImage}, "../../deploy/image/build", version, version); err != nil {
		t.Fatal(err, output)
	}
	t.Cleanup(func() {
		if _, err := run(nil, "docker", "rmi", testImage+":"+version); err != nil {
			t.Error(err)
		}
	})
}

func closed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(fmt.Errorf("remove the nodes: %w", err))
	}
}

// TestTheResultIsOfTheseSources makes go test run the package again when the broker has changed.
func TestTheResultIsOfTheseSources(t *testing.T) {
	if err := harness.LookAtSources(); err != nil {
		t.Fatal(err)
	}
}
