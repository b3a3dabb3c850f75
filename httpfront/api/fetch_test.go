package api

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// fetching is a fetch of the first record of partitions p of some queues, on its way.
type fetching struct {
	n      *testNode
	answer chan string
}

func (n *testNode) fetch(queues ...string) *fetching {
	n.t.Helper()
	f := &fetching{n: n, answer: make(chan string, 1)}
	body := fetchBody(queues...)
	looks, waits := n.looks.Load(), n.api.broker().Awaiting()
	go func() { f.answer <- string(n.call("POST", "/api/v1/fetch", body)) }() // ends with its fetch
	eventually(n.t, "the fetch has looked and waits", func() bool {
		return n.looks.Load() > looks && n.api.broker().Awaiting() > waits
	})
	return f
}

func fetchBody(queues ...string) string {
	entries := make([]string, len(queues))
	for i, queue := range queues {
		entries[i] = fmt.Sprintf(`{"queue":%q,"partition":"p","offset":0}`, queue)
	}
	return fmt.Sprintf(`{"entries":[%s],"maxWaitMs":30000}`, strings.Join(entries, ","))
}

// finds waits for the answer, which has one record.
func (f *fetching) finds() {
	f.n.t.Helper()
	select {
	case answer := <-f.answer:
		if strings.Count(answer, `"payload"`) != 1 {
			f.n.t.Errorf("want one record, got %s", answer)
		}
	case <-time.After(10 * time.Second):
		f.n.t.Fatal("the fetch sleeps although its record is there")
	}
	if waits := f.n.api.broker().Awaiting(); waits != 0 {
		f.n.t.Errorf("%d waits are left", waits)
	}
}

// TestFetchLooksOnlyWhenItsQueuesChange counts the looks of a fetch that waits for a missing queue while others make queues
// and partitions (messaging 13.1).
func TestFetchLooksOnlyWhenItsQueuesChange(t *testing.T) {
	n := startNode(t, time.Minute)
	waiting := n.fetch("missing", "missing too", "missing")
	for i := range 20 {
		n.push(fmt.Sprint("other", i), "p", 1)
		n.push("other0", fmt.Sprint("p", i), 1)
	}
	n.call("DELETE", "/api/v1/resources/queues/other1", "")
	n.push("missing too", "p", 1)
	waiting.finds()
	// The first look, one when the queue is made, and one when its message can be read.
	if looks := n.looks.Load(); looks > 3 {
		t.Errorf("looked %d times", looks)
	}
}

func TestFetchFollowsAQueueThatIsMadeAgain(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("q", "other", 1)
	for range 3 {
		waiting := n.fetch("q")
		n.call("DELETE", "/api/v1/resources/queues/q", "")
		n.push("q", "p", 1)
		waiting.finds()
		n.call("DELETE", "/api/v1/resources/queues/q", "")
	}
}

func TestFetchOfAClientThatLeavesWaitsForNothing(t *testing.T) {
	n := startNode(t, time.Minute)
	n.push("there", "other", 1)
	client := must(net.Dial("tcp", n.address))
	body := fetchBody("there", "missing")
	must(fmt.Fprintf(client, "POST /api/v1/fetch HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	eventually(t, "the fetch waits", func() bool { return n.api.broker().Awaiting() == 1 })
	check(t, client.Close())
	eventually(t, "its wait ends with its client", func() bool { return n.api.broker().Awaiting() == 0 })
}

// TestFetchThatDoesNotWaitHoldsNothing: without maxWaitMs a fetch looks once.
func TestFetchThatDoesNotWaitHoldsNothing(t *testing.T) {
	n := startNode(t, time.Minute)
	n.call("POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":0}]}`)
	if n.looks.Load() != 1 || n.api.broker().Awaiting() != 0 {
		t.Errorf("%d looks, %d waits", n.looks.Load(), n.api.broker().Awaiting())
	}
}

// TestFetchEndsWithItsWait: without a majority a fetch gives up at the deadline of a read, or right after its wait.
func TestFetchEndsWithItsWait(t *testing.T) {
	arrived := time.Unix(1000, 0)
	for wait, want := range map[time.Duration]time.Duration{
		0: 30 * time.Second, 5 * time.Second: 30 * time.Second, 28 * time.Second: 30 * time.Second, 30 * time.Second: 32 * time.Second,
	} {
		if got := fetchDeadline(arrived, arrived.Add(wait), 30*time.Second).Sub(arrived); got != want {
			t.Errorf("a wait of %v ends after %v, want %v", wait, got, want)
		}
	}
}
