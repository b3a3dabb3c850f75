package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"queen/raftlog/command"
)

// quorumless is a broker that waits for outcomes that do not come. The last quorum acknowledgement was ago before now, and
// another one comes after more.
func quorumless(fail, ago, more time.Duration) *Broker {
	last := time.Now().Add(-ago)
	began := time.Now()
	return &Broker{pending: newPending(1), config: Config{NoQuorumFail: fail, QuorumAge: func() time.Duration {
		if now := time.Now(); more > 0 && now.Sub(began) >= more {
			return now.Sub(began.Add(more))
		}
		return time.Since(last)
	}}}
}

func TestWriteGivesUpAfterTheLastQuorumAcknowledgement(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		fail, ago, more, deadline time.Duration
		want                      error
		after                     time.Duration
	}{
		"off": {0, time.Hour, 0, 30 * second, ErrDeadline, 30 * second},
		"fresh acknowledgement counts from itself":   {5 * second, 0, 0, 30 * second, ErrNoQuorum, 5 * second},
		"an old one gives no less time than that":    {5 * second, time.Hour, 0, 30 * second, ErrNoQuorum, 5 * second},
		"a later one begins anew":                    {5 * second, 0, 3 * second, 30 * second, ErrNoQuorum, 8 * second},
		"one just before the end begins anew":        {5 * second, time.Hour, 4900 * time.Millisecond, 30 * second, ErrNoQuorum, 9900 * time.Millisecond},
		"the deadline comes first":                   {5 * second, 0, 0, 2 * second, ErrDeadline, 2 * second},
		"an acknowledgement in time keeps the write": {5 * second, 0, 4 * second, 8 * second, ErrDeadline, 8 * second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := quorumless(c.fail, c.ago, c.more)
			done := make(chan outcome, 1)
			id, _, err := b.pending.open(func(r command.Result) { done <- outcome{result: r} })
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = b.await(id, began.Add(c.deadline), done)
			if took := time.Since(began); !errors.Is(err, c.want) || took != c.after {
				t.Errorf("%s: got %v after %v, want %v after %v", name, err, took, c.want, c.after)
			}
			if b.pending.remove(id) {
				t.Errorf("%s: the request still waits", name)
			}
		})
	}
}

// leaderlessLog confirms no read.
type leaderlessLog struct{ Log }

func (leaderlessLog) ReadIndex(ctx context.Context) (uint64, error) {
	<-ctx.Done()
	return 0, errors.Join(ErrNoLeader, context.Cause(ctx))
}

func TestReadGivesUpAsAWriteDoes(t *testing.T) {
	for name, c := range map[string]struct {
		fail  time.Duration
		want  error
		after time.Duration
	}{
		"off": {0, ErrDeadline, 10 * time.Second},
		"on":  {2 * time.Second, ErrNoQuorum, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := quorumless(c.fail, 0, 0)
			b.log = leaderlessLog{}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := b.View(ctx)
			if took := time.Since(began); !errors.Is(err, c.want) || took != c.after {
				t.Errorf("%s: got %v after %v, want %v after %v", name, err, took, c.want, c.after)
			}
		})
	}
}
