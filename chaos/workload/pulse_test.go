package workload

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

func TestGapAndSlowestOfAPulse(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	beats := []Beat{
		{Start: ms(0), End: ms(5)}, {Start: ms(10), End: ms(300)}, {Start: ms(20), End: ms(60)}, {Start: ms(400)}, {Start: ms(420), End: ms(430)},
	}
	for _, example := range []struct{ from, to, gap, slowest int }{
		{0, 500, 240, 290}, // 60 to 300, which is the write that took longest
		{0, 100, 55, 290},
		{310, 600, 170, 200}, // 430 to the end; one write is open still
		{500, 600, 100, 0},
	} {
		if got := gap(beats, ms(example.from), ms(example.to)); got != ms(example.gap) {
			t.Errorf("from %d to %d: want a gap of %d ms, got %v", example.from, example.to, example.gap, got)
		}
		if got := slowest(beats, ms(example.from), ms(example.to), ms(600)); got != ms(example.slowest) {
			t.Errorf("from %d to %d: want %d ms, got %v", example.from, example.to, example.slowest, got)
		}
	}
}

// TestPulseGoesOnThroughTheOtherNodes: a node that is gone costs a try, not a write.
func TestPulseGoesOnThroughTheOtherNodes(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var asked atomic.Int64
	enough := make(chan struct{})
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 10 {
			close(enough)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`[{"index":0,"status":"queued","offset":0}]`))
	}))
	defer good.Close()
	clients := []*harness.Client{harness.NewClient(gone.URL), harness.NewClient(good.URL)}
	plan := Plan{Queues: []Queue{{Name: "q", Partitions: 2, Pushed: true}}}
	history := ledger.NewReplicatedHistory(plan.Rules(), ledger.Replication{})
	pulse := StartPulse(clients, plan, history, time.Millisecond)
	<-enough
	pulse.Stop()
	beats := pulse.Beats()
	if pulse.Acknowledged() != len(beats) || int(asked.Load()) != len(beats) {
		t.Errorf("%d of %d beats are acknowledged, the node saw %d", pulse.Acknowledged(), len(beats), asked.Load())
	}
	for i, beat := range beats {
		if beat.Tries != 2-beat.Node || beat.Node != i%2 {
			t.Errorf("beat %d: %+v", i, beat)
		}
	}
	if pushes := history.Books().Pushes; len(pushes) < len(beats) {
		t.Errorf("%d pushes are booked for %d beats", len(pushes), len(beats))
	}
}
