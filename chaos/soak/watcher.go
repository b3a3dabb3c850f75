package soak

import (
	"fmt"
	"time"

	"queen/chaos/contract/harness"
)

const (
	// lanesPerFetch is how many partitions one fetch looks at; 1,024 are allowed.
	lanesPerFetch = 256
	// ageSlack is by how much a delivered message of the queue ageing may seem too old: clocks, and the way here.
	ageSlack = time.Second
	// probe is the group that looks at the queue ageing.
	probe = "probe"
)

// fetched is one entry of a fetch answer (messaging.md 13.1).
type fetched struct {
	Records []struct {
		Offset        int64  `json:"offset"`
		TransactionID string `json:"transactionId"`
	} `json:"records"`
	HighWatermark  int64  `json:"highWatermark"`
	LogStartOffset int64  `json:"logStartOffset"`
	Error          string `json:"error"`
}

// watcher looks for messages that must not be there any more. It belongs to the goroutine of the samples.
type watcher struct {
	soak   *soak
	probed map[string]int64 // next offset per partition of the queue ageing
}

// look asks every lane for its first message. A beginning of the log never goes back, whatever happens to the broker.
func (w *watcher) look() error {
	lanes := append(append([]*lane(nil), w.soak.churning...), w.soak.aging...)
	for from := 0; from < len(lanes); from += lanesPerFetch {
		if err := w.fetch(lanes[from:min(from+lanesPerFetch, len(lanes))]); err != nil {
			return err
		}
	}
	return w.probe()
}

func (w *watcher) fetch(lanes []*lane) error {
	entries := make([]any, len(lanes))
	pushed := make([]int64, len(lanes))
	for i, l := range lanes {
		entries[i] = map[string]any{"queue": l.queue, "partition": l.name, "offset": 0, "maxBytes": 1}
		pushed[i] = l.pushed.Load()
	}
	var reply struct {
		Entries []fetched `json:"entries"`
	}
	response := w.soak.client.Post("/api/v1/fetch", map[string]any{"entries": entries})
	if response.Err != nil || response.Status != 200 {
		return fmt.Errorf("fetch: %v", response)
	}
	if err := response.Decode(&reply); err != nil {
		return err
	}
	if len(reply.Entries) != len(lanes) {
		return fmt.Errorf("fetch of %d lanes gave %d entries", len(lanes), len(reply.Entries))
	}
	for i, l := range lanes {
		w.judge(l, pushed[i], reply.Entries[i])
	}
	return nil
}

// judge compares what a lane shows with what was acknowledged before the question.
func (w *watcher) judge(l *lane, pushed int64, entry fetched) {
	if entry.Error == "UNKNOWN_TOPIC_OR_PARTITION" && pushed == 0 {
		return
	}
	seen := l.logStart.Load()
	switch {
	case entry.HighWatermark < pushed:
		w.soak.failures.add("%v ends at %d, %d messages were acknowledged", l, entry.HighWatermark, pushed)
	case entry.LogStartOffset < seen:
		w.soak.failures.add("%v begins at %d again, it began at %d before", l, entry.LogStartOffset, seen)
	case l.queue == churn && l.cold && entry.LogStartOffset != 0:
		w.soak.failures.add("%v begins at %d, nobody consumed it", l, entry.LogStartOffset)
	case l.queue == churn && entry.LogStartOffset > l.pushed.Load():
		w.soak.failures.add("%v begins at %d, behind what was pushed", l, entry.LogStartOffset)
	case entry.LogStartOffset > 0 && (entry.Error != "OFFSET_OUT_OF_RANGE" || len(entry.Records) > 0):
		w.soak.failures.add("%v begins at %d and answers for offset 0 %+v", l, entry.LogStartOffset, entry)
	case entry.LogStartOffset == 0 && pushed > 0 && (len(entry.Records) == 0 || entry.Records[0].TransactionID != l.txid(0)):
		w.soak.failures.add("%v begins at 0 and answers for offset 0 %+v", l, entry)
	}
	l.logStart.Store(max(seen, entry.LogStartOffset))
}

// probe reads the queue ageing: nothing comes twice, nothing comes that is too old.
func (w *watcher) probe() error {
	const rounds = 20
	for range rounds {
		asked := time.Now()
		reply := w.soak.client.Pop(ageing, fmt.Sprintf("batch=%d&partitions=64&commitOnDelivery=true&subscriptionMode=all&consumerGroup=%s", popBatch, probe))
		switch {
		case reply.Err != nil || reply.Status != 200 && reply.Status != 204:
			return fmt.Errorf("probe: %v", reply)
		case len(reply.Messages) == 0:
			return nil
		}
		for _, message := range reply.Messages {
			w.judgeProbed(message, asked)
		}
	}
	return nil
}

func (w *watcher) judgeProbed(message harness.Message, asked time.Time) {
	if next := w.probed[message.Partition]; message.Offset < next {
		w.soak.failures.add("%s/%s offset %d was delivered again, %d was due", ageing, message.Partition, message.Offset, next)
	}
	w.probed[message.Partition] = message.Offset + 1
	if age := asked.Sub(message.CreatedAt); age > w.soak.options.Aged+ageSlack {
		w.soak.failures.add("%s/%s offset %d was delivered at an age of %v, %v is allowed", ageing, message.Partition, message.Offset, age, w.soak.options.Aged)
	}
}
