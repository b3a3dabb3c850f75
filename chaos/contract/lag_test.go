package contract

import (
	"fmt"
	"math"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// needAge ends the test unless a lag in seconds, read between two instants, is the age of a stamp, perhaps in whole seconds.
func needAge(t *testing.T, what string, seconds float64, stamp, before, after time.Time) {
	t.Helper()
	if least, most := before.Sub(stamp)-time.Second, after.Sub(stamp)+stampSlack; seconds < least.Seconds() || seconds > most.Seconds() {
		t.Fatalf("%s: want the age of %v, from %v to %v, got %v s", what, stamp, least, most, seconds)
	}
}

// stampOf is the write stamp of a message of the scene.
func stampOf(t *testing.T, s *scene, offset int) time.Time {
	t.Helper()
	stamp, err := time.Parse(time.RFC3339Nano, messageStamp(t, s, offset))
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}

// TestLagIsTheAgeOfTheOldestUnconsumedMessage: 9.9, 9.10, 10.1, 10.2 and 10.3. All of them measure from the cursor of
// their reader, 9.9 and 9.10 from that of the slowest one, whether or not the message is leased.
func TestLagIsTheAgeOfTheOldestUnconsumedMessage(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, privateBroker(t, nil).Client(), nil, 2)
	slow, fast := s.as("slow"), s.as("fast")
	held := slow.redelivered(0, 1, 1)
	needEmpty(t, s.client.Pop("elsewhere", "wait=true&timeout=2500")) // the second append is younger than the first by that
	s.push(1)
	needVerdicts(t, fast.claim(2, 0, 1, 1).ack(completed(1)), released)
	first, second := stampOf(t, s, 0), stampOf(t, s, 2)
	needLags(t, slow, first)
	needLags(t, fast, second)
	needSlowestLag(t, s, first)
	needVerdicts(t, held.ack(completed(1)), released)
	needLags(t, slow, second)
	needSlowestLag(t, s, second)
	needVerdicts(t, slow.redelivered(2, 2, 1).ack(completed(2)), released)
	needLags(t, slow, time.Time{})
	needSlowestLag(t, s, second) // fast is the slower one now
	needVerdicts(t, fast.redelivered(2, 2, 1).ack(completed(2)), released)
	needSlowestLag(t, s, time.Time{})
}

// needLags ends the test unless the reads of section 10 show the lag of the reader as the age of the stamp; the zero time
// means that it has none.
func needLags(t *testing.T, s *scene, stamp time.Time) {
	t.Helper()
	before := time.Now()
	row := groupRows(t, s.client, s.queue)[s.group]
	detail := fetchInto[groupDetail](t, s.client, groupPath(s.group))[s.queue].Partitions[0]
	lagging := laggingRows(t, s.client, s.group, 0)
	after := time.Now()
	if detail.TimeLagSeconds == nil {
		t.Fatalf("10.3: got %+v", detail)
	}
	if stamp.IsZero() {
		if row.MaxTimeLag != 0 || row.PartitionsWithLag != 0 || row.TotalLag != 0 || *detail.TimeLagSeconds != 0 || detail.OffsetLag != 0 || len(lagging) != 0 {
			t.Fatalf("%s is caught up, got %+v, %+v and %+v", s.group, row, detail, lagging)
		}
		return
	}
	needAge(t, "10.1 maxTimeLag of "+s.group, row.MaxTimeLag, stamp, before, after)
	needAge(t, "10.3 timeLagSeconds of "+s.group, *detail.TimeLagSeconds, stamp, before, after)
	if len(lagging) != 1 || lagging[0].OffsetLag != detail.OffsetLag || lagging[0].OffsetLag != row.TotalLag {
		t.Fatalf("10.2: want the lag of 10.1 and 10.3, %d messages, got %+v", row.TotalLag, lagging)
	}
	needAge(t, "10.2 time_lag_seconds of "+s.group, lagging[0].TimeLagSeconds, stamp, before, after)
	if hours := lagging[0].LagHours; hours == nil || math.Abs(*hours*3600-lagging[0].TimeLagSeconds) > 1 {
		t.Fatalf("10.2: want lag_hours to be time_lag_seconds in hours, got %+v", lagging[0])
	}
	if oldest := lagging[0].OldestUnconsumedAt; oldest == nil || !microStamp.MatchString(*oldest) || *oldest != stamp.Format("2006-01-02T15:04:05.000000Z") {
		t.Fatalf("10.2: want oldest_unconsumed_at %v, got %v", stamp, oldest)
	}
}

// needSlowestLag ends the test unless the partition list and the overview of a broker with one partition show the age of
// the stamp; the zero time means that everything is consumed.
func needSlowestLag(t *testing.T, s *scene, stamp time.Time) {
	t.Helper()
	before := time.Now()
	row := partitionRows(t, s.client, s.queue)[0]
	lag := readOverview(t, s.client).Lag
	after := time.Now()
	if stamp.IsZero() {
		if row.LagSeconds != nil || row.Pending != 0 || lag.Time.Max != 0 || lag.Time.Avg != 0 || lag.Offset.Max != 0 || lag.Offset.Avg != 0 {
			t.Fatalf("everything is consumed, got %+v and %+v", row, lag)
		}
		return
	}
	if row.LagSeconds == nil {
		t.Fatalf("9.9: got %+v", row)
	}
	needAge(t, "9.9 lagSeconds", *row.LagSeconds, stamp, before, after)
	needAge(t, "9.10 lag.time.max", lag.Time.Max, stamp, before, after)
	needAge(t, "9.10 lag.time.avg", lag.Time.Avg, stamp, before, after)
}

// laggingRow is a row of 10.2.
type laggingRow struct {
	ConsumerGroup      string   `json:"consumer_group"`
	QueueName          string   `json:"queue_name"`
	PartitionName      string   `json:"partition_name"`
	PartitionID        string   `json:"partition_id"`
	WorkerID           *string  `json:"worker_id"`
	Kind               *string  `json:"kind"`
	OffsetLag          int      `json:"offset_lag"`
	TimeLagSeconds     float64  `json:"time_lag_seconds"`
	LagHours           *float64 `json:"lag_hours"`
	OldestUnconsumedAt *string  `json:"oldest_unconsumed_at"`
	LastConsumedAt     *string  `json:"last_consumed_at"`
}

// laggingRows lists the rows of 10.2 that name the group.
func laggingRows(t *testing.T, client *harness.Client, group string, minimum int) []laggingRow {
	t.Helper()
	var mine []laggingRow
	for _, row := range fetchInto[[]laggingRow](t, client, fmt.Sprint("/api/v1/consumer-groups/lagging?minLagSeconds=", minimum)) {
		if row.ConsumerGroup == group {
			mine = append(mine, row)
		}
	}
	return mine
}

// TestLaggingListRow: 10.2, exactly its keys; worker_id is the live lease id, null without one, and so is
// last_consumed_at always. A row appears once the lag has reached the minimum.
func TestLaggingListRow(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 2)
	s.group = uniqueName(t)
	start := stampOf(t, s, 0)
	held := s.claim(1, 0, 0, 1)
	eventually(t, delivery, func() (bool, string) {
		if rows := laggingRows(t, s.client, s.group, 2); len(rows) == 1 {
			return true, ""
		}
		return false, "the group is not in the list"
	})
	if waited := time.Since(start); waited < 2*time.Second-stampSlack {
		t.Fatalf("in the list of those 2 s behind after %v", waited)
	}
	for _, worker := range []string{held.lease, ""} {
		if worker == "" {
			needVerdicts(t, held.ack(retried(0)), released)
		}
		row := laggingRows(t, s.client, s.group, 0)[0]
		if row.LastConsumedAt != nil || row.Kind == nil || *row.Kind != "queen" || row.PartitionName != "Default" || row.QueueName != s.queue ||
			(row.WorkerID == nil) != (worker == "") || worker != "" && *row.WorkerID != worker {
			t.Errorf("want the worker %q, got %+v", worker, row)
		}
	}
	if rows := laggingRows(t, s.client, s.group, 1000); len(rows) != 0 {
		t.Errorf("nobody is 1000 s behind, got %+v", rows)
	}
	raw := s.client.Get("/api/v1/consumer-groups/lagging?minLagSeconds=0")
	needExactKeys(t, firstObject(raw.Value()), "consumer_group", "queue_name", "partition_name", "partition_id", "worker_id", "kind",
		"offset_lag", "time_lag_seconds", "lag_hours", "oldest_unconsumed_at", "last_consumed_at")
}

// TestLaggingState: 10.1, a group is Lagging beyond 300 seconds, whether or not it ever consumed.
func TestLaggingState(t *testing.T) {
	t.Parallel()
	if !longRun() {
		t.Skip("it takes five minutes: QUEEN_CONTRACT_LONG=1")
	}
	s := newScene(t, map[string]any{"dedupWindowSeconds": 0}, 2)
	stable := s.as("stable")
	needVerdicts(t, stable.claim(1, 0, 0, 1).ack(completed(0)), released)
	s.claim(1, 0, 0, 1)
	stamp := stampOf(t, s, 0)
	for want := map[string]string{"stable": "Stable", s.group: "Dead"}; time.Since(stamp) < 299*time.Second; elapse(t, 20*time.Second) {
		for group, state := range want {
			if row := groupRows(t, s.client, s.queue)[group]; row.State != state && row.MaxTimeLag < 300 {
				t.Fatalf("%s: want %s, got %+v", group, state, row)
			}
		}
	}
	eventually(t, delivery, func() (bool, string) {
		rows := groupRows(t, s.client, s.queue)
		return rows["stable"].State == "Lagging" && rows[s.group].State == "Lagging", fmt.Sprintf("%+v", rows)
	})
	if row := groupRows(t, s.client, s.queue)["stable"]; row.MaxTimeLag <= 300 {
		t.Fatalf("got %+v", row)
	}
}
