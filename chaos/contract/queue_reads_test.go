package contract

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// counts is the messages object of 9.6, 9.7 and 9.10.
type counts struct {
	Total, Pending, Processing, Completed, DeadLetter int
}

// segmentCounts is the segments object of 9.6 and 9.7.
type segmentCounts struct{ Segments, Messages int }

// queueView is the answer of 9.7.
type queueView struct {
	ID, Name, Namespace, Task string
	CreatedAt                 time.Time
	Options                   map[string]any
	Partitions                []partitionView
	Segments                  segmentCounts
	Totals                    counts
	RetainedBytes             int64
}

type partitionView struct {
	ID, Name      string
	CreatedAt     time.Time
	Messages      counts
	Stats         counts
	Cursor        struct{ TotalConsumed, BatchesConsumed int }
	LastActivity  *time.Time
	OldestMessage *time.Time
	NewestMessage *time.Time
	RetainedBytes int64
}

// queueRow is a row of 9.6.
type queueRow struct {
	ID, Name, Queue, Namespace, Task, Storage string
	Partitions                                int
	Segments                                  segmentCounts
	Messages                                  counts
	RetainedBytes                             int64
	Options                                   map[string]any
	CreatedAt                                 time.Time
	KVRows, KVBytes, TimerRows, TimerBytes    int
}

// depthView is the answer of the depth route of 9.8.
type depthView struct {
	Queue                              string
	Group                              *string
	Pending, Processing, Ready         int
	PartitionsPending, PartitionsReady int
	Conflation                         bool
	EffectivePending, EffectiveReady   int
	Partitions                         []struct {
		Partition                  string
		Pending, Processing, Ready int
	}
}

// partitionRow is a row of 9.9.
type partitionRow struct {
	Queue, Partition, PartitionID string
	Pending, Processing           int
	LagSeconds                    *float64
}

// fetchInto gets a path that must answer 200 and decodes its body.
func fetchInto[T any](t *testing.T, client *harness.Client, path string) T {
	t.Helper()
	var answer T
	reply := client.Get(path)
	need(t, reply, 200)
	if err := reply.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func queuePath(queue string) string { return "/api/v1/resources/queues/" + url.PathEscape(queue) }

func queueDetail(t *testing.T, client *harness.Client, queue string) queueView {
	t.Helper()
	return fetchInto[queueView](t, client, queuePath(queue))
}

func queueDepth(t *testing.T, client *harness.Client, queue, group string) depthView {
	t.Helper()
	path := queuePath(queue) + "/depth"
	if group != "" {
		path += "?group=" + url.QueryEscape(group)
	}
	return fetchInto[depthView](t, client, path)
}

func partitionRows(t *testing.T, client *harness.Client, queue string, more ...string) []partitionRow {
	t.Helper()
	query := strings.Join(append([]string{"queue=" + url.QueryEscape(queue)}, more...), "&")
	return fetchInto[struct{ Partitions []partitionRow }](t, client, "/api/v1/resources/partitions?"+query).Partitions
}

// queueRows lists the queues of the tenant, and which row is the one of this name.
func queueRows(t *testing.T, client *harness.Client, queue string) (rows []queueRow, at int) {
	t.Helper()
	rows = fetchInto[struct{ Queues []queueRow }](t, client, "/api/v1/resources/queues").Queues
	for i, row := range rows {
		if row.Name == queue {
			return rows, i
		}
	}
	return rows, -1
}

// awaitRetained polls until the queue retains exactly n messages.
func awaitRetained(t *testing.T, s *scene, n int) {
	t.Helper()
	eventually(t, delivery, func() (bool, string) {
		total := queueDetail(t, s.client, s.queue).Totals.Total
		return total == n, fmt.Sprintf("%d messages retained, want %d", total, n)
	})
}
