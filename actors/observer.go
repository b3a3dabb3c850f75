package actors

import (
	"time"

	"queen/raftlog/command"
)

// Observer is told what is applied on this node, for metrics. Its methods must be quick, must not block and must not call
// the broker back.
type Observer interface {
	// Applied tells the outcome of one command, after the store has committed it and before its request is answered; in
	// the order of the log, from one goroutine.
	Applied(stampMicros uint64, c command.Command, result command.Result)
	// EntryApplied tells how long executing one entry took, StoreWritten how long the store took to commit it, DurablePoint
	// how long a durable point took.
	EntryApplied(took time.Duration)
	StoreWritten(took time.Duration)
	DurablePoint(took time.Duration)
	// RetentionScanned tells how many partitions a retention pass has looked at and how many had something due.
	RetentionScanned(visited, due int)
}

// unobserved is the observer of a broker that was given none.
type unobserved struct{}

func (unobserved) Applied(uint64, command.Command, command.Result) {}
func (unobserved) EntryApplied(time.Duration)                      {}
func (unobserved) StoreWritten(time.Duration)                      {}
func (unobserved) DurablePoint(time.Duration)                      {}
func (unobserved) RetentionScanned(int, int)                       {}
