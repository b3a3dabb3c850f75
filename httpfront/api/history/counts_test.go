package history

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

func testOptions(dir string) Options {
	return Options{
		Dir: dir, FlushEvery: time.Minute, NodeKeep: 168 * time.Hour, QueueKeep: 24 * time.Hour, MaxQueueRows: 1000,
		Log: zerolog.Nop(),
	}
}

func noNode() NodeRow { return NodeRow{} }

// allRows reads every row of the default tenant.
func allRows(t *testing.T, r *Recorder) []QueueRow {
	t.Helper()
	var rows []QueueRow
	w := NewWindow(time.Unix(0, 0), time.Now().Add(time.Hour))
	if err := r.EachQueueRow(defaultTenant, w, func(_ int64, row *QueueRow) { rows = append(rows, *row) }); err != nil {
		t.Fatal(err)
	}
	return rows
}

func sumOf(rows []QueueRow, queue string) (sum Tally) {
	for i := range rows {
		if rows[i].Queue == queue {
			sum.Add(&rows[i].Tally)
		}
	}
	return sum
}

func TestEveryCountEndsInExactlyOneRow(t *testing.T) {
	r := Open(testOptions(""))
	r.sample = noNode
	const goroutines, each = 4, 2000
	var counting, flushing sync.WaitGroup
	stop := make(chan struct{})
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.turn()
				r.flush(time.Now())
			}
		}
	})
	for range goroutines {
		counting.Go(func() {
			for i := range uint64(each) {
				r.Pushed(defaultTenant, "q", 2)
				r.Popped(defaultTenant, "q", Delivery{Messages: 1, LagMicros: 10, LagMaxMicros: i, Conflated: 3})
				r.Popped(defaultTenant, "q", Delivery{})
				r.Acked(defaultTenant, "q", 4, 5)
				r.Transacted(defaultTenant, "q", 1, 1)
				r.Retained(defaultTenant, "q", 6)
				r.Changed(defaultTenant, "q", PartitionsCreated, 7)
			}
		})
	}
	counting.Wait()
	close(stop)
	flushing.Wait()
	// The last rows need a later instant than the ones before.
	r.flush(r.began.Add(time.Second))
	got := sumOf(allRows(t, r), "q")
	const n = goroutines * each
	want := Tally{LagMaxMicros: each - 1, Counts: Counts{
		PushRequests: n, PushMessages: 3 * n, PopRequests: 2 * n, PopMessages: n, PopEmpty: n, AckRequests: n, AckSuccess: 5 * n,
		AckFailed: 5 * n, Transactions: n, RetentionMessages: 6 * n, RetentionEvents: n, PartitionsCreated: 7 * n,
		Conflated: 3 * n, LagMicros: 10 * n,
	}}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRowsAreWrittenAtWholeIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(13 * time.Second) // within the interval
		r := Open(testOptions(""))
		r.Start(noNode)
		r.Pushed(defaultTenant, "q", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.Pushed(defaultTenant, "q", 10)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		frames := r.queues.between(0, time.Now().Add(time.Hour).UnixMilli())
		if len(frames) != 2 {
			t.Fatalf("want the rows of 2 intervals, got %d", len(frames))
		}
		for _, f := range frames {
			if f.EndMs%60_000 != 0 {
				t.Errorf("a row ends at %d, which is no whole minute", f.EndMs)
			}
		}
		r.Close()
	})
}

func TestCloseWritesWhatWasCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Open(testOptions(""))
		r.Start(noNode)
		time.Sleep(time.Second)
		r.Pushed(defaultTenant, "q", 5)
		r.Close()
		if got := sumOf(allRows(t, r), "q"); got.Counts[PushMessages] != 5 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestLastMinuteFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Open(testOptions(""))
		r.Start(noNode)
		defer r.Close()
		r.Popped(defaultTenant, "q", Delivery{Messages: 2, LagMicros: 3000, LagMaxMicros: 2000, Conflated: 7})
		seen := func() uint64 {
			for _, recent := range r.LastMinute() {
				if recent.Queue == "q" {
					return recent.Counts[Conflated]
				}
			}
			return 0
		}
		if seen() != 7 {
			t.Errorf("at once: want 7, got %d", seen())
		}
		time.Sleep(45 * time.Second)
		if seen() != 7 {
			t.Errorf("after 45 s: want 7, got %d", seen())
		}
		time.Sleep(30 * time.Second)
		if seen() != 0 {
			t.Errorf("after 75 s: want 0, got %d", seen())
		}
	})
}

func TestIdleQueuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Open(testOptions(""))
		r.Start(noNode)
		defer r.Close()
		r.Pushed(defaultTenant, "busy once", 1)
		r.Park(defaultTenant, "waited for", 1)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		r.mu.RLock()
		left := len(r.counters)
		r.mu.RUnlock()
		if left != 1 {
			t.Errorf("want the queue that is waited for, got %d queues", left)
		}
		r.Park(defaultTenant, "waited for", -1)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		r.mu.RLock()
		defer r.mu.RUnlock()
		if len(r.counters) != 0 {
			t.Errorf("want none, got %d", len(r.counters))
		}
	})
}

func TestATenantSeesItsOwnRows(t *testing.T) {
	r := Open(testOptions(""))
	r.sample = noNode
	other := uuid.MustParse("00000000-0000-0000-0000-0000000000ff")
	r.Pushed(defaultTenant, "q", 1)
	r.Pushed(other, "q", 100)
	r.flush(r.began.Add(time.Second))
	if got := sumOf(allRows(t, r), "q"); got.Counts[PushMessages] != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestLatenessIsMeasuredOverAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Open(testOptions(""))
		r.Start(noNode)
		defer r.Close()
		r.lateMicros.Store(1) // replaced by the first window: fake timers are never late
		time.Sleep(latenessWindow + time.Second)
		synctest.Wait()
		if got := r.LatenessMs(); got != 0 {
			t.Errorf("want 0, got %v", got)
		}
	})
}

func BenchmarkPushed(b *testing.B) {
	r := Open(testOptions(""))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Pushed(defaultTenant, "orders.created", 1)
		}
	})
}

func BenchmarkPopped(b *testing.B) {
	r := Open(testOptions(""))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Popped(defaultTenant, "orders.created", Delivery{Messages: 1, LagMicros: 5, LagMaxMicros: 5})
		}
	})
}
