package soak

import (
	"fmt"
	"sync"
)

// failuresKept bounds what one run remembers: after the first the others rarely say anything new.
const failuresKept = 20

// failures collects broken promises from all goroutines.
type failures struct {
	mutex sync.Mutex
	kept  []string
	all   int
}

func (f *failures) add(format string, values ...any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.all++
	if len(f.kept) < failuresKept {
		f.kept = append(f.kept, fmt.Sprintf(format, values...))
	}
}

// list returns what was kept and how much there was.
func (f *failures) list() ([]string, int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]string(nil), f.kept...), f.all
}
