package raftlog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestFailedAppendStopsTheNodeAndAcknowledgesNothing(t *testing.T) {
	machine := &recorder{}
	n := openNode(t, testOptions(t), machine)
	waitLeader(t, n)
	mustPropose(t, n, extend(1))
	wantNumbers(t, machine, 1)
	err := n.log.files.fail("flush log file", "test", syscall.ENOSPC)
	if !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("err = %v", err)
	}
	reasons := make(chan error, 1)
	lost := extend(2)
	lost.Dropped = func(reason error) { reasons <- reason }
	mustPropose(t, n, lost)
	select {
	case reason := <-reasons:
		if !errors.Is(reason, ErrStorage) || !errors.Is(reason, ErrOutcomeUnknown) || !errors.Is(reason, syscall.ENOSPC) {
			t.Fatalf("dropped for %v", reason)
		}
	case <-testContext(t).Done():
		t.Fatal("the command was forgotten")
	}
	if err := n.Propose(extend(3)); !errors.Is(err, ErrStorage) {
		t.Fatalf("err = %v", err)
	}
	if _, err := n.ReadIndex(testContext(t)); !errors.Is(err, ErrStorage) {
		t.Fatalf("err = %v", err)
	}
	if status := n.Status(); status.Role != RoleStopped || !errors.Is(status.Failure, syscall.ENOSPC) {
		t.Fatalf("status = %+v", status)
	}
	if got := machine.numbers(); len(got) != 1 {
		t.Fatalf("applied %v", got)
	}
}

func TestApplyFailureStopsTheGroupAndSaysWhere(t *testing.T) {
	for name, machine := range map[string]*recorder{"error": {failAt: 3}, "panic": {panicAt: 3}} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			stopped := make(chan struct{}) // closed when nothing is taken any more: the status tells of the stop before that
			o.Failed = func(error) { close(stopped) }
			n := openNode(t, o, machine)
			waitLeader(t, n)
			for i := uint64(1); i <= 2; i++ {
				mustPropose(t, n, extend(i))
				wantNumbers(t, machine, i)
			}
			held, _ := machine.AppliedIndex()
			mustPropose(t, n, extend(3))
			select {
			case <-stopped:
			case <-testContext(t).Done():
				t.Fatal("the node does not stop")
			}
			if role := n.Status().Role; role != RoleStopped {
				t.Fatalf("role = %v", role)
			}
			failure := n.Status().ApplyFailure
			if failure == nil || failure.Index != held+1 || len(failure.Digest) != 16 || !errors.Is(failure, ErrApply) {
				t.Fatalf("failure = %+v", failure)
			}
			if name == "error" && !errors.Is(n.Failed(), errRefused) {
				t.Fatalf("failed = %v", n.Failed())
			}
			if err := n.Propose(extend(4)); !errors.Is(err, ErrApply) {
				t.Fatalf("err = %v", err)
			}
			if err := n.WaitApplied(testContext(t), held+1); !errors.Is(err, ErrApply) {
				t.Fatalf("err = %v", err)
			}
		})
	}
}

func TestFailedDurablePointStopsTheNode(t *testing.T) {
	o := testOptions(t)
	o.DurableEveryMs = 10
	n := openNode(t, o, &recorder{failDurable: syscall.EIO})
	eventually(t, "stop", func() bool { return n.Status().Role == RoleStopped })
	if !errors.Is(n.Failed(), ErrStorage) || !errors.Is(n.Failed(), syscall.EIO) {
		t.Fatalf("failed = %v", n.Failed())
	}
}

func TestCloseDropsOrAppliesEveryCommand(t *testing.T) {
	for range 8 {
		machine := &recorder{}
		n, err := Open(testOptions(t), machine)
		if err != nil {
			t.Fatal(err)
		}
		waitLeader(t, n)
		var accepted, dropped, unknown atomic.Int64
		var group sync.WaitGroup
		for client := range uint64(4) {
			group.Go(func() {
				for i := uint64(1); ; i++ {
					c := extend(client<<32 | i)
					c.Dropped = func(reason error) {
						dropped.Add(1)
						if errors.Is(reason, ErrOutcomeUnknown) {
							unknown.Add(1)
						}
					}
					switch err := n.Propose(c); {
					case err == nil:
						accepted.Add(1)
					case !errors.Is(err, ErrQueueFull):
						return
					}
				}
			})
		}
		eventually(t, "work", func() bool { return accepted.Load() > 100 })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		applied := int64(len(machine.numbers()))
		if sum := applied + dropped.Load(); sum < accepted.Load() || sum > accepted.Load()+unknown.Load() {
			t.Fatalf("accepted %d, applied %d, dropped %d of which unknown %d",
				accepted.Load(), applied, dropped.Load(), unknown.Load())
		}
	}
}
