package harness

import (
	"runtime"
	"testing"
)

// TestPortIsClaimedOnce: a port that was found belongs to this process until it ends, whoever listens on it.
func TestPortIsClaimedOnce(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	if err := claim(port); (err != nil) != (runtime.GOOS == "linux") {
		t.Errorf("claimed again: %v", err)
	}
}
