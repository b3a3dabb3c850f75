package contract

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"queen/chaos/contract/harness"
)

// suite holds what all tests of the package share: the binary and one broker that nobody reconfigures or restarts.
var suite struct {
	binary string
	broker *harness.Broker
	client *harness.Client
}

// parallelTests is how many tests run at one time unless -parallel says otherwise: they wait for the broker far more
// than they compute, so the number of cores is no guide.
const parallelTests = "48"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallelTests); err != nil {
			fmt.Fprintln(os.Stderr, "set the number of parallel tests:", err)
			os.Exit(1)
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "queen-contract-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the broker:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if suite.binary, err = harness.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	data := filepath.Join(dir, "shared")
	if err := os.Mkdir(data, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "make the data directory:", err)
		return 1
	}
	if suite.broker, err = harness.Start(harness.Options{Binary: suite.binary, Dir: data}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.client = suite.broker.Client()
	code := m.Run()
	if err := suite.broker.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the shared broker:", err)
		return max(code, 1)
	}
	return code
}

// TestTheResultIsOfTheseSources makes go test run the package again when the broker has changed.
func TestTheResultIsOfTheseSources(t *testing.T) {
	if err := harness.LookAtSources(); err != nil {
		t.Fatal(err)
	}
}
