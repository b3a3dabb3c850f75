package api

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/actors"
	"queen/actors/query"
	"queen/raftlog/command"
	"queen/store"
)

type browsedRow struct {
	Partition string
	Offset    int
	Status    string
	Payload   int
	CreatedAt string
}

func (n *testNode) browse(query string) []browsedRow {
	n.t.Helper()
	var page struct{ Messages []browsedRow }
	n.get("/api/v1/messages?"+query, &page)
	return page.Messages
}

// TestPagesOfMessagesJoinSeamlessly reads random pages at random depths, in appends of many sizes that share stamps over
// partitions, and compares them with the whole list, which is read from the front.
func TestPagesOfMessagesJoinSeamlessly(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	n := startNode(t, time.Minute)
	total := 0
	for range 30 {
		var items []string
		for range 1 + random.IntN(400) {
			items = append(items, fmt.Sprintf(`{"queue":"q","partition":"p%d","payload":%d}`, random.IntN(8), total))
			total++
		}
		n.call("POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	n.ack("__QUEUE_MODE__", "dlq", n.pop("q", "batch=300"))
	n.pop("q", "batch=200&leaseSeconds=600")
	for _, filter := range []string{"queue=q", "queue=q&partition=p3", "queue=q&status=pending", "queue=q&status=dead_letter", "queue=q&status=processing"} {
		var all []browsedRow
		for {
			page := n.browse(fmt.Sprintf("%s&limit=1000&offset=%d", filter, len(all)))
			all = append(all, page...)
			if len(page) < 1000 {
				break
			}
		}
		switch {
		case filter == "queue=q" && len(all) != total,
			strings.HasSuffix(filter, "dead_letter") && len(all) != 300, strings.HasSuffix(filter, "processing") && len(all) != 200:
			t.Errorf("%s: %d rows of %d", filter, len(all), total)
		}
		if !slices.IsSortedFunc(all, func(x, y browsedRow) int { return strings.Compare(y.CreatedAt, x.CreatedAt) }) {
			t.Errorf("%s: not newest first", filter)
		}
		seen := map[string]bool{}
		for _, row := range all {
			seen[fmt.Sprint(row.Partition, "/", row.Offset)] = true
			if strings.Contains(filter, "status=") && !strings.HasSuffix(filter, row.Status) {
				t.Fatalf("%s: got a row that is %s", filter, row.Status)
			}
		}
		if len(seen) != len(all) {
			t.Errorf("%s: %d rows, %d different ones", filter, len(all), len(seen))
		}
		for range 10 {
			offset, limit := random.IntN(len(all)+10), 1+random.IntN(50)
			want := all[min(offset, len(all)):min(offset+limit, len(all))]
			if got := n.browse(fmt.Sprintf("%s&limit=%d&offset=%d", filter, limit, offset)); !slices.Equal(got, want) {
				t.Errorf("%s at %d: got %v\nwant %v", filter, offset, got, want)
			}
		}
	}
	if got := n.browse("queue=q&offset=9223372036854775807"); len(got) != 0 {
		t.Errorf("got %d rows below the last one", len(got))
	}
}

// countingReader counts the reads of a view.
type countingReader struct {
	store.Reader
	reads int
}

func (c *countingReader) Get(key []byte) ([]byte, error) { c.reads++; return c.Reader.Get(key) }
func (c *countingReader) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	c.reads++
	return c.Reader.Scan(prefix, from, visit)
}
func (c *countingReader) ScanReverse(prefix, from []byte, visit func(key, value []byte) bool) error {
	c.reads++
	return c.Reader.ScanReverse(prefix, from, visit)
}

// TestDeepBrowsingCostsTheSameAtAnyOffset keeps operations 10.6.
func TestDeepBrowsingCostsTheSameAtAnyOffset(t *testing.T) {
	const pushes, workers, mostReads = 2000, 64, 300
	n := startNode(t, time.Minute)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	defer client.CloseIdleConnections()
	var wait sync.WaitGroup
	var left atomic.Int64
	left.Store(pushes)
	for range workers {
		wait.Go(func() {
			for left.Add(-1) >= 0 { // each push is an append of its own
				response, err := client.Post(n.url+"/api/v1/push", "", strings.NewReader(`{"items":[{"queue":"q","partition":"p","payload":1}]}`))
				if err != nil || response.StatusCode != 201 {
					t.Error(response, err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	wait.Wait()
	view := n.api.broker().LocalView()
	defer view.Close()
	queues := []*actors.QueueView{n.api.broker().Directory().Queue(command.DefaultTenant, "q")}
	for _, offset := range []int64{0, 1, 300, 700, 1000, 1500, 1900} {
		counting := &countingReader{Reader: view}
		browser := &messageBrowser{
			api: n.api, q: query.New(context.Background(), counting, n.api.broker().Now(), n.api.broker().Holds()),
			filter: &messageFilter{to: n.api.broker().Now() + 1, pagination: pagination{Limit: 10, Offset: offset}},
		}
		check(t, browser.choose(queues))
		if browser.rows != 10 || counting.reads > mostReads {
			t.Errorf("offset %d: %d rows with %d reads, more than %d", offset, browser.rows, counting.reads, mostReads)
		}
		t.Logf("offset %d: %d reads", offset, counting.reads)
	}
}
