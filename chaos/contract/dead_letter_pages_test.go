package contract

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"queen/chaos/contract/harness"
)

// fileAll dead-letters everything in the scene's partition in one call, each with an error text of its own.
func fileAll(s *scene) {
	s.t.Helper()
	reply := s.pop(wholeBacklog)
	need(s.t, reply.Response, 200)
	items := make([]harness.AckItem, len(reply.Messages))
	for i, message := range reply.Messages {
		items[i] = message.Ack("dlq")
		items[i].Error = fmt.Sprint("reason ", message.TransactionID)
	}
	needAcked(s.t, s.client.AckBatch(s.group, items...))
}

// TestDeadLetterPages: 11.4, 11.6, 2.11 and the dlq-signatures of 14, with more dead letters than one page, one purge step
// and one sample hold: 100 rows by default and 1,000 at most; total counts all matches, and the sample is of the newest 200
// by default and 1,000 at most.
func TestDeadLetterPages(t *testing.T) {
	t.Parallel()
	const n = 600
	s := newScene(t, nil, n)
	other := s.as("other")
	fileAll(s)
	fileAll(other)
	base := "queue=" + s.queue
	for _, c := range []struct {
		query                      string
		limit, offset, rows, total int
	}{
		{"", 100, 0, 100, 2 * n}, {"&limit=999", 999, 0, 999, 2 * n}, {"&limit=1000", 1000, 0, 1000, 2 * n}, {"&limit=1001", 1000, 0, 1000, 2 * n},
		{"&limit=-3", 1, 0, 1, 2 * n}, {"&limit=1000&offset=1000", 1000, 1000, 200, 2 * n}, {"&offset=-1", 100, 0, 100, 2 * n},
		{"&offset=1200", 100, 1200, 0, 2 * n}, {"&consumerGroup=other&limit=1000", 1000, 0, n, n}, {"&consumerGroup=other&offset=550", 100, 550, 50, n},
	} {
		list := listLetters(t, s.client, base+c.query)
		if list.Pagination.Limit != c.limit || list.Pagination.Offset != c.offset || len(list.Messages) != c.rows || list.Total != c.total {
			t.Errorf("11.4 %q: want %d rows of %d from %d with limit %d, got %d of %d with %+v", c.query, c.rows, c.total, c.offset, c.limit, len(list.Messages),
				list.Total, list.Pagination)
		}
	}
	var ids []string
	for offset := 0; offset < 2*n; offset += 500 {
		page := listLetters(t, s.client, fmt.Sprint(base, "&limit=500&offset=", offset))
		if !slices.IsSortedFunc(page.Messages, func(a, b deadLetter) int { return b.FailedAt.Compare(a.FailedAt) }) {
			t.Error("11.4: the list is not newest first")
		}
		for _, row := range page.Messages {
			ids = append(ids, row.ID)
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 2*n {
		t.Errorf("11.4: the pages repeat or leave out rows: %d of %d", len(slices.Compact(ids)), 2*n)
	}
	for query, sample := range map[string]int{"": 200, "&limit=1": 1, "&limit=0": 1, "&limit=1000": 1000, "&limit=1001": 1000, "&limit=999": 999} {
		answer := fetchInto[struct{ RowsNow, Sample int }](t, s.client, "/api/v1/analytics/dlq-signatures?"+base+query)
		if answer.RowsNow != 2*n || answer.Sample != sample {
			t.Errorf("14 dlq-signatures %q: want %d of %d, got %+v", query, sample, 2*n, answer)
		}
	}
	needJSON(t, s.client.Delete("/api/v1/dlq?"+base+"&consumerGroup=other"), 200,
		fmt.Sprintf(`{"success":true,"deleted":%d,"queue":%q,"consumerGroup":"other"}`, n, s.queue))
	other.needDeadLetters()
	if list := listLetters(t, s.client, base); list.Total != n {
		t.Errorf("want the letters of the other group to stay, got %d", list.Total)
	}
	needJSON(t, s.client.Delete("/api/v1/dlq?"+base), 200, fmt.Sprintf(`{"success":true,"deleted":%d,"queue":%q,"consumerGroup":null}`, n, s.queue))
	needJSON(t, s.client.Get("/api/v1/dlq?"+base), 200, `{"messages":[],"total":0,"pagination":{"limit":100,"offset":0}}`)
	if detail := queueDetail(t, s.client, s.queue); detail.Totals.DeadLetter != 0 || detail.Totals.Total != n {
		t.Errorf("the log is immutable, got %+v", detail.Totals)
	}
	needJSON(t, s.client.Delete("/api/v1/dlq?queue="+s.queue+"-missing&consumerGroup=g"), 200,
		fmt.Sprintf(`{"success":true,"deleted":0,"queue":"%s-missing","consumerGroup":"g"}`, s.queue))
}

// TestDeadLetterTimes: 11.4, from is inclusive and to exclusive, to the microsecond; what does not parse is ignored alone.
func TestDeadLetterTimes(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, 1)
	fileOne(s, "")
	at := s.deadLetters()[0].FailedAt
	for query, comes := range map[string]bool{
		"from=" + iso(at):                                 true,
		"from=" + iso(at.Add(time.Microsecond)):           false,
		"to=" + iso(at):                                   false,
		"to=" + iso(at.Add(time.Microsecond)):             true,
		"from=" + iso(at) + "&to=" + iso(at):              false,
		"from=soon&to=" + iso(at):                         false,
		"from=" + iso(at.Add(time.Microsecond)) + "&to=x": false,
		"from=&to=": true,
	} {
		if list := listLetters(t, s.client, "queue="+s.queue+"&"+query); (list.Total == 1) != comes || len(list.Messages) != list.Total {
			t.Errorf("11.4 %s: the letter of %v comes: want %v, got %+v", query, iso(at), comes, list)
		}
	}
	for _, query := range []string{"limit=", "limit=1.5", "offset=x", "offset="} {
		needEnvelope(t, s.client.Get("/api/v1/dlq?queue="+s.queue+"&"+query), 400, "bad_request")
	}
}

// TestDeadLetterListOfEveryQueue: 11.4, queue is a filter like the others.
func TestDeadLetterListOfEveryQueue(t *testing.T) {
	t.Parallel()
	s, second := newScene(t, nil, 1), newScene(t, nil, 1)
	s.group = uniqueName(t)
	second.group = s.group
	fileOne(s, "")
	fileOne(second, "")
	list := s.client.Get("/api/v1/dlq?consumerGroup=" + s.group)
	needExactKeys(t, list.Object(), "messages", "total", "pagination")
	for _, entry := range list.Object()["messages"].([]any) {
		needExactKeys(t, entry.(map[string]any), "id", "queue", "partition", "partitionId", "consumerGroup", "offset", "messageId", "transactionId",
			"data", "payload", "errorMessage", "retryCount", "createdAt", "failedAt")
		if entry.(map[string]any)["errorMessage"] != nil {
			t.Errorf("without a reason errorMessage is null, got %v", entry)
		}
	}
	rows := listLetters(t, s.client, "consumerGroup="+s.group)
	if rows.Total != 2 || rows.Messages[0].Queue != second.queue || rows.Messages[1].Queue != s.queue {
		t.Errorf("want the newest first, got %+v", rows)
	}
}
