package node

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"queen/cmd/queen/config"
)

// faultPoints ends the process at the crash points that QUEEN_TEST_FAULTS names (cluster 19); nil when it names none.
func faultPoints(faults []config.TestFault) func(point string) {
	if len(faults) == 0 {
		return nil
	}
	var mu sync.Mutex
	left := map[string]int{}
	for _, fault := range faults {
		left[fault.Point] = fault.Nth
	}
	return func(point string) {
		mu.Lock()
		defer mu.Unlock()
		if _, wanted := left[point]; !wanted {
			return
		}
		if left[point]--; left[point] == 0 {
			// SIGKILL, so that nothing is tidied up. The lock is held on purpose: nobody passes a point meanwhile.
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}
}
