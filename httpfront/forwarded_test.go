package httpfront

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// forwarded is a command of another node that has asked for permits.
type forwarded struct {
	release func()
	refusal error
	times   int
	took    time.Duration
}

func (s *Server) forward(node uint64, bytes int64, hold time.Duration) *forwarded {
	f := &forwarded{}
	began := time.Now()
	s.AdmitForwarded(node, bytes, hold, func(release func(), refusal error) {
		f.release, f.refusal, f.took = release, refusal, time.Since(began)
		f.times++
	})
	return f
}

// newForwardServer has a budget and no port.
func newForwardServer(t *testing.T, budget int64) *Server {
	t.Helper()
	config := testConfig()
	config.AdmitBytes, config.AdmitHold = budget, 10*time.Second
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.gone.close)
	return s
}

func (f *forwarded) want(t *testing.T, what string, refusal error, took time.Duration) {
	t.Helper()
	if f.times != 1 || !errors.Is(f.refusal, refusal) || f.took != took || (f.release == nil) != (refusal != nil) {
		t.Errorf("%s: answered %d times with %v after %v, want %v after %v", what, f.times, f.refusal, f.took, refusal, took)
	}
}

func TestForwardedCommandsHoldPermitsAtTheLeader(t *testing.T) {
	s := newForwardServer(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		first := s.forward(2, 900, time.Second)
		first.want(t, "room for it", nil, 0)
		if held, _ := s.admission.state(); held != 900 {
			t.Errorf("held %d", held)
		}
		second, third := s.forward(3, 500, 2*time.Second), s.forward(2, 400, 5*time.Second)
		impatient := s.forward(3, 500, 0)
		impatient.want(t, "no time to wait", ErrNoRoom, 0)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		second.want(t, "no room in time", ErrNoRoom, 2*time.Second)
		first.release()
		synctest.Wait()
		third.want(t, "room after a while", nil, 3*time.Second)
		third.release()
		fourth := s.forward(2, 1000, time.Second)
		waits := s.forward(2, 1, time.Hour)
		s.admission.close()
		synctest.Wait()
		waits.want(t, "the server stops", ErrStopping, 0)
		s.forward(2, 1, time.Second).want(t, "the server has stopped", ErrStopping, 0)
		fourth.release()
		if held, waiting := s.admission.state(); held != 0 || waiting != 0 {
			t.Errorf("held %d, %d wait", held, waiting)
		}
	})
	if got := s.stats.admission.forwardAdmitted.Get(); got != 3 {
		t.Errorf("%d admitted", got)
	}
	if got := s.stats.admission.forwardRefused.Get(); got != 2 {
		t.Errorf("%d refused", got)
	}
}

// TestOwnClientsAndFollowersShareThePermits: neither side waits for all of the other.
func TestOwnClientsAndFollowersShareThePermits(t *testing.T) {
	s := newForwardServer(t, 256<<10)
	synctest.Test(t, func(t *testing.T) {
		full := s.forward(2, 256<<10, time.Second)
		var flood []*forwarded
		for range 50 {
			flood = append(flood, s.forward(2, 200<<10, time.Hour))
		}
		own := make(chan admitOutcome, 1)
		go func() { own <- s.admission.acquire(200 << 10) }()
		synctest.Wait()
		full.release()
		for i := 0; len(own) == 0; i++ {
			synctest.Wait()
			if i > 3 {
				t.Fatal("the own client waits behind the whole flood")
			}
			for _, f := range flood {
				if f.release != nil {
					f.release()
					f.release = nil
					break
				}
			}
		}
		if <-own != admitGranted {
			t.Error("refused")
		}
		s.admission.close()
		synctest.Wait()
	})
}

func TestForwardedCommandsAreFreeWithoutABudget(t *testing.T) {
	s := newForwardServer(t, 0)
	f := s.forward(2, 1<<40, 0)
	f.want(t, "no budget", nil, f.took)
	f.release()
}
