package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	churn  = "churn"
	ageing = "ageing"
	// reader is the group that consumes the queue churn.
	reader = "reader"
)

// lane is one partition and what is known about it.
type lane struct {
	queue, name string
	cold        bool
	// pushed is the number of messages that were acknowledged. Its producer alone writes it.
	pushed atomic.Int64
	// answered is when the last of them was, on the clock of the producer, which alone uses it.
	answered time.Time
	// consumed is the number of messages that were acked. Its consumer alone writes it.
	consumed atomic.Int64
	// logStart is the highest beginning of the log that was seen. The watcher alone writes it.
	logStart atomic.Int64
}

func newLanes(options Options) (churning, aging []*lane) {
	for i := range options.Partitions {
		churning = append(churning, &lane{queue: churn, name: fmt.Sprintf("p%04d", i), cold: i%coldOneIn == coldOneIn-1})
	}
	for i := range agingPartitions {
		aging = append(aging, &lane{queue: ageing, name: fmt.Sprintf("p%04d", i), cold: true})
	}
	return churning, aging
}

func (l *lane) String() string { return l.queue + "/" + l.name }

// txid is the transactionId of message n.
func (l *lane) txid(n int64) string { return fmt.Sprintf("%s-%d", l.name, n) }

// payload is the payload of message n: a JSON string of the wanted length. It does not compress to nothing.
func (l *lane) payload(n int64, payloadBytes int) json.RawMessage {
	text := make([]byte, 0, payloadBytes+2)
	text = append(text, '"')
	text = fmt.Appendf(text, "%s %d ", l.name, n)
	for state := uint64(n)*2654435761 + 1; len(text) < payloadBytes+1; {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		text = fmt.Appendf(text, "%016x", state)
	}
	text = text[:max(payloadBytes+1, 2)]
	return append(text, '"')
}

// holds reports whether data is the payload of message n.
func (l *lane) holds(data json.RawMessage, n int64, payloadBytes int) bool {
	return bytes.Equal(data, l.payload(n, payloadBytes))
}
