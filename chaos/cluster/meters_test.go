package cluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnexpectedLinesAreFound(t *testing.T) {
	log := strings.Join([]string{
		"2026-10-05T09:00:00.123Z INFO raft: an ERROR in the text is none",
		"2026-10-05T09:00:00.123Z ERROR raft: this node stops why=\"disk\"",
		"2026-10-05T09:00:00.123Z ERROR raft: this node's directory is not the one node 2 knows",
		"2026-10-05T09:00:00.123Z WARN actors: actor restarted kind=group",
		"panic: runtime error: index out of range",
		"2026-10-05T09:00:00.123Z WARN raft: no quorum acknowledgement: this leader steps down",
	}, "\n")
	found, err := unexpected([]byte(log), []string{"directory is not the one"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 3 || !strings.Contains(found[0], "this node stops") || !strings.Contains(found[1], "actor restarted") || !strings.HasPrefix(found[2], "panic") {
		t.Fatalf("got %q", found)
	}
}

func TestAllowanceIsTheWorstOfItsTime(t *testing.T) {
	second := time.Second
	s := &Stalls{
		delays:  []stall{{1 * second, 2 * second, 50 * time.Millisecond}, {5 * second, 6 * second, 80 * time.Millisecond}},
		flushes: []stall{{1 * second, 2 * second, 10 * time.Millisecond}, {1 * second, 2 * second, 3 * time.Millisecond}},
	}
	for _, example := range []struct{ from, to, want time.Duration }{
		{0, 3 * second, 90 * time.Millisecond},
		{0, 10 * second, 120 * time.Millisecond},
		{3 * second, 4 * second, 0},
		{5500 * time.Millisecond, 5600 * time.Millisecond, 80 * time.Millisecond},
	} {
		if got := s.Allowance(example.from, example.to); got != example.want {
			t.Errorf("from %v to %v: want %v, got %v", example.from, example.to, example.want, got)
		}
	}
}

func TestStallMeterSeesAnIdleMachine(t *testing.T) {
	start := time.Now()
	s, err := MeasureStalls(t.TempDir(), func() time.Duration { return time.Since(start) })
	if err != nil {
		t.Fatal(err)
	}
	if err := Eventually(soon, "some time", func() error {
		if s.now() < 3*flushEvery {
			return errors.New("it is young")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestEventuallyGivesTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := Eventually(time.Second, "ten looks", func() error {
			if looks++; looks < 10 {
				return errors.New("too few")
			}
			return nil
		})
		if err != nil || looks != 10 {
			t.Errorf("got %v after %d looks", err, looks)
		}
		if err := Eventually(time.Hour, "nothing", func() error { return errFinal }); !errors.Is(err, errFinal) {
			t.Errorf("got %v", err)
		}
		never := errors.New("never")
		start := time.Now()
		if err := Eventually(time.Second, "nothing", func() error { return never }); !errors.Is(err, never) || time.Since(start) < time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestWatchCountsWhatWasNotReady(t *testing.T) {
	look := func(at time.Duration, status int) Look { return Look{At: at, Health: Health{Status: status}} }
	w := &Watch{looks: map[uint64][]Look{2: {look(10, 200), look(20, 503), look(30, 0), look(40, 200), look(50, 503)}}}
	if count, first := w.Unready(2, 0, 45); count != 2 || first.At != 20 {
		t.Errorf("got %d, first %v", count, first)
	}
	if after, ever := w.FirstWith(2, 200, 15); !ever || after != 25 {
		t.Errorf("got %v %v", after, ever)
	}
	if _, ever := w.FirstWith(2, 200, 45); ever {
		t.Error("it was not ready again")
	}
	if len(w.Looks(3, 0)) != 0 {
		t.Error("nobody looked at node 3")
	}
}

func TestMetricAddsUpItsSeries(t *testing.T) {
	const exposition = "# TYPE refused counter\nrefused{peer=\"1\",reason=\"token\"} 2\nrefused{peer=\"2\",reason=\"token\"} 3\nrefused{reason=\"tls\"} 7\nrefused_total 9\nparked 4\n"
	for _, example := range []struct {
		family, labels string
		want           float64
	}{{"refused", `reason="token"`, 5}, {"refused", "", 12}, {"parked", "", 4}, {"absent", "", 0}} {
		if got, err := sumOf(exposition, example.family, example.labels); err != nil || got != example.want {
			t.Errorf("%+v: got %v, %v", example, got, err)
		}
	}
}
