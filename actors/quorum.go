package actors

import (
	"context"
	"time"
)

// quorumWatch tells a request that waits when to give up because no majority answers (cluster 8.3): NoQuorumFail after the newest
// quorum acknowledgement, but no earlier than that long after the request came.
type quorumWatch struct {
	broker *Broker
	timer  *time.Timer
}

// watchQuorum begins a watch; with NoQuorumFail 0 it never fires.
func (b *Broker) watchQuorum() quorumWatch {
	w := quorumWatch{broker: b}
	if b.config.NoQuorumFail > 0 {
		w.timer = time.NewTimer(b.config.NoQuorumFail)
	}
	return w
}

// C fires when lost is worth asking.
func (w quorumWatch) C() <-chan time.Time {
	if w.timer == nil {
		return nil
	}
	return w.timer.C
}

// lost tells whether to give up, and sets the timer again when not. Called after C has fired.
func (w quorumWatch) lost() bool {
	left := w.broker.config.NoQuorumFail - w.broker.config.QuorumAge()
	if left <= 0 {
		return true
	}
	w.timer.Reset(left)
	return false
}

func (w quorumWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// untilNoQuorum is a context that ends, with the cause ErrNoQuorum, when a read is to give up.
func (b *Broker) untilNoQuorum(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.config.NoQuorumFail <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watch := b.watchQuorum()
	go func() {
		defer watch.stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-watch.C():
				if watch.lost() {
					cancel(ErrNoQuorum)
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
