package cluster

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Record collects what a run has measured, for one line of JSON. Times are in milliseconds.
type Record struct {
	mutex  sync.Mutex
	values map[string]any
}

// NewRecord begins the record of a scenario.
func NewRecord(scenario string, seed uint64) *Record {
	return &Record{values: map[string]any{"scenario": scenario, "seed": seed}}
}

// Set notes a value.
func (r *Record) Set(name string, value any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if duration, is := value.(time.Duration); is {
		name, value = name+"Ms", float64(duration.Microseconds())/1000
	}
	r.values[name] = value
}

// String is the line.
func (r *Record) String() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	line, err := json.Marshal(r.values)
	if err != nil {
		return fmt.Sprintf(`{"error":%q}`, err)
	}
	return string(line)
}
