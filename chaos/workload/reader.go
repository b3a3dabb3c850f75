package workload

import (
	"encoding/json"
	"fmt"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

const (
	// fetchMaxBytes is the most that one entry of a fetch returns.
	fetchMaxBytes = 8 << 20
	// deadLetterPage is the largest page of the dead-letter list.
	deadLetterPage = 1000
)

// fetchReply is the answer of a fetch (messaging.md 13.1).
type fetchReply struct {
	Entries []struct {
		Records []struct {
			Offset        int64           `json:"offset"`
			TransactionID string          `json:"transactionId"`
			Payload       json.RawMessage `json:"payload"`
		} `json:"records"`
		HighWatermark  int64  `json:"highWatermark"`
		LogStartOffset int64  `json:"logStartOffset"`
		Error          string `json:"error"`
	} `json:"entries"`
}

// ReadLogs reads every partition of the plan by offset; from gives what is known already, which is not read again.
// A partition that nobody has pushed to yet is missing in the result.
func ReadLogs(client *harness.Client, plan Plan, from map[ledger.Partition]ledger.Log) (map[ledger.Partition]ledger.Log, error) {
	logs := map[ledger.Partition]ledger.Log{}
	for _, partition := range plan.Partitions() {
		log, exists, err := readLog(client, partition, from[partition], plan.PayloadMax)
		if err != nil {
			return nil, err
		}
		if exists {
			logs[partition] = log
		}
	}
	return logs, nil
}

func readLog(client *harness.Client, partition ledger.Partition, log ledger.Log, payloadMax int) (ledger.Log, bool, error) {
	log.Records = append([]ledger.Record(nil), log.Records...)
	next := int64(len(log.Records))
	for {
		var reply fetchReply
		response := client.Post("/api/v1/fetch", map[string]any{"entries": []any{map[string]any{
			"queue": partition.Queue, "partition": partition.Name, "offset": next, "maxBytes": fetchMaxBytes,
		}}})
		if response.Err != nil || response.Status != 200 {
			return log, false, fmt.Errorf("fetch %v from %d: %v", partition, next, response)
		}
		if err := response.Decode(&reply); err != nil {
			return log, false, err
		}
		if len(reply.Entries) != 1 {
			return log, false, fmt.Errorf("fetch %v: %v", partition, response)
		}
		entry := reply.Entries[0]
		switch {
		case entry.Error == "UNKNOWN_TOPIC_OR_PARTITION" && next == 0:
			return log, false, nil
		case entry.Error != "":
			return log, false, fmt.Errorf("fetch %v from %d: %s", partition, next, entry.Error)
		}
		log.LogStart, log.Tail = entry.LogStartOffset, entry.HighWatermark
		for _, record := range entry.Records {
			log.Records = append(log.Records, ledger.Record{
				Offset: record.Offset, TransactionID: record.TransactionID, Token: tokenOf(record.Payload, payloadMax),
			})
			next = record.Offset + 1
		}
		if len(entry.Records) == 0 || next >= log.Tail {
			return log, true, nil
		}
	}
}

// ReadState reads all that the ledger judges at the end.
func ReadState(client *harness.Client, plan Plan) (ledger.State, error) {
	state := ledger.State{Positions: map[ledger.Reader]int64{}}
	var err error
	if state.Logs, err = ReadLogs(client, plan, nil); err != nil {
		return state, err
	}
	for _, queue := range plan.Queues {
		rows, err := readDeadLetters(client, queue.Name, plan.PayloadMax)
		if err != nil {
			return state, err
		}
		state.DeadLetters = append(state.DeadLetters, rows...)
		for _, group := range queue.Groups {
			if err := readPositions(client, queue, group, state.Positions); err != nil {
				return state, err
			}
		}
	}
	return state, nil
}

func readDeadLetters(client *harness.Client, queue string, payloadMax int) ([]ledger.DeadLetter, error) {
	var rows []ledger.DeadLetter
	for {
		var reply struct {
			Messages []struct {
				Partition     string          `json:"partition"`
				ConsumerGroup string          `json:"consumerGroup"`
				Offset        int64           `json:"offset"`
				MessageID     string          `json:"messageId"`
				TransactionID string          `json:"transactionId"`
				Data          json.RawMessage `json:"data"`
				RetryCount    int             `json:"retryCount"`
			} `json:"messages"`
			Total int `json:"total"`
		}
		response := client.Get(fmt.Sprintf("/api/v1/dlq?queue=%s&limit=%d&offset=%d", queue, deadLetterPage, len(rows)))
		if response.Err != nil || response.Status != 200 {
			return nil, fmt.Errorf("list dead letters of %s: %v", queue, response)
		}
		if err := response.Decode(&reply); err != nil {
			return nil, err
		}
		for _, row := range reply.Messages {
			rows = append(rows, ledger.DeadLetter{
				Partition: ledger.Partition{Queue: queue, Name: row.Partition}, Group: row.ConsumerGroup, Offset: row.Offset,
				MessageID: row.MessageID, TransactionID: row.TransactionID, Token: tokenOf(row.Data, payloadMax), RetryCount: row.RetryCount,
			})
		}
		if len(reply.Messages) == 0 {
			if len(rows) != reply.Total {
				return nil, fmt.Errorf("list dead letters of %s: %d rows, the total is %d", queue, len(rows), reply.Total)
			}
			return rows, nil
		}
	}
}

func readPositions(client *harness.Client, queue Queue, group string, positions map[ledger.Reader]int64) error {
	var entries []any
	for i := range queue.Partitions {
		entries = append(entries, map[string]any{"queue": queue.Name, "partition": queue.partition(i).Name})
	}
	response := client.Post("/api/v1/consumer-groups/"+group+"/positions", map[string]any{"entries": entries})
	if response.Err != nil || response.Status != 200 {
		return fmt.Errorf("read positions of %s: %v", group, response)
	}
	var reply struct {
		Entries []struct {
			Partition string `json:"partition"`
			Offset    *int64 `json:"offset"`
		} `json:"entries"`
	}
	if err := response.Decode(&reply); err != nil {
		return err
	}
	for _, entry := range reply.Entries {
		if entry.Offset != nil {
			reader := ledger.Reader{Partition: ledger.Partition{Queue: queue.Name, Name: entry.Partition}, Group: group}
			positions[reader] = *entry.Offset
		}
	}
	return nil
}
