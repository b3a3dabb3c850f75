package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/raftlog"
)

// stop ends what start has begun, in the order of cluster 17.1. Every step is logged with its milliseconds.
func (n *Node) stop(hurry <-chan struct{}) error {
	if n.health != nil {
		n.health.stopping.Store(true)
	}
	// A state that is being fetched is left; one that is being put in place is waited for.
	n.endRunning()
	n.engine.Lock()
	n.halted = true
	n.engine.Unlock()
	n.background.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), milliseconds(n.config.ShutdownDrainMs))
	defer cancel()
	go func() {
		select {
		case <-hurry:
			cancel()
		case <-ctx.Done():
		}
	}()
	var failures []error
	step := func(name string, run func() error) {
		began := time.Now()
		err := run()
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
		n.log.Info().Str("step", name).Int64("ms", time.Since(began).Milliseconds()).AnErr("err", err).Msg("stop")
	}
	if n.port != nil && n.port.membership.Load() != nil {
		step("let the membership be", func() error { n.port.membership.Load().Close(); return nil })
	}
	if n.raft != nil {
		step("hand leadership over", func() error { n.handOver(ctx); return nil })
	}
	if n.broker != nil {
		step("answer parked pops", func() error { n.broker.AnswerParked(); return nil })
	}
	if n.http != nil {
		step("drain http", func() error {
			// Requests that are cut get no answer; that is no failure of the stop.
			if err := n.http.Stop(ctx); err != nil {
				n.log.Warn().Err(err).Msg("requests were cut")
			}
			return nil
		})
	}
	if n.history != nil {
		step("write history", func() error { n.history.Close(); return nil })
	}
	if n.raft != nil {
		step("hand leadership over again", func() error { n.handOver(ctx); return nil })
		n.port.log.Store(nil) // where a closed log ends, nobody must hear
		step("close log", func() error { return n.raft.Close(ctx) })
	}
	if n.port != nil {
		step("close raft port", n.port.close)
	}
	if n.broker != nil && n.raft != nil {
		step("stop actors", func() error { n.broker.Stop(); return nil })
	}
	if n.store != nil {
		step("close store", func() error { return closeWithin(storeCloseDeadline, n.store.Close) })
	}
	if n.disk != nil {
		n.disk.close()
	}
	if n.auth != nil {
		n.auth.Close()
	}
	if n.stopTLS != nil {
		n.stopTLS()
	}
	if n.directory != nil {
		step("release lock", n.directory.close)
	}
	return errors.Join(failures...)
}

// handOver makes another voter lead, if this node does and there is one (cluster 17.1). A node that cannot stops all the same.
func (n *Node) handOver(ctx context.Context) {
	for range handOverTries {
		_, err := n.raft.TransferTo(ctx, 0)
		switch {
		case err == nil, errors.Is(err, raftlog.ErrNotLeader), errors.Is(err, raftlog.ErrNoTarget):
			return
		}
		n.log.Warn().Err(err).Msg("raft: leadership could not be handed off")
	}
}

// handOverTries is how many voters are asked to take over.
const handOverTries = 2

// storeCloseDeadline is how long the store may take to close. A healthy one takes well below a second; one whose disk has
// failed would try to write for ever.
const storeCloseDeadline = 20 * time.Second

// closeWithin gives up on a close that does not end; the process ends right after.
func closeWithin(limit time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("not closed within %s", limit)
	}
}
