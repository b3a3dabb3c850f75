package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"queen/store"
)

// resumeEvery is how often a node that has stopped for want of space looks whether there is room again (cluster 11.4).
const resumeEvery = 10 * time.Second

// outOfSpace tells whether an error says that the data volume is full.
func outOfSpace(err error) bool {
	return errors.Is(err, store.ErrNoSpace) || errors.Is(err, unix.ENOSPC)
}

// engineFailed is told why the group has stopped on this node. It does not wait, and only the first reason counts until resumeOnSpace has
// dealt with it.
func (n *Node) engineFailed(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// resumeOnSpace opens the state again after it has stopped for want of space, as soon as the volume has room; the process, the HTTP port
// and the raft port go on meanwhile. It ends when the node stops. A stop for any other reason is for the operator to look at (cluster 18).
func (n *Node) resumeOnSpace(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-n.failed:
			if !outOfSpace(err) {
				continue
			}
			n.releaseReserve()
			if n.awaitSpace(ctx) {
				n.resume(ctx)
			}
		}
	}
}

// findSpace is the step of the start that waits on a full data volume (cluster 11.4): nothing there may be written, and much would be.
func (n *Node) findSpace(ctx context.Context) error {
	free, err := freeBytes(n.config.RaftDirectory)
	if err != nil || free >= n.disk.ReserveBytes() {
		return err
	}
	full := fmt.Errorf("%w: %d bytes are free on the data volume, %d are needed", store.ErrNoSpace, free, n.disk.ReserveBytes())
	n.log.Error().Str("why", full.Error()).Msg("this node stops")
	n.health.broken(full)
	if !n.awaitSpace(ctx) {
		return full
	}
	n.health.mended()
	return nil
}

// awaitSpace returns true when the disk gate of this node is open again, false when ctx has ended.
func (n *Node) awaitSpace(ctx context.Context) bool {
	ticker := time.NewTicker(resumeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
			if n.disk.roomy() {
				return true
			}
		}
	}
}

func (n *Node) resume(ctx context.Context) {
	began := time.Now()
	n.engine.Lock()
	defer n.engine.Unlock()
	if n.halted || n.engineWorks() {
		return
	}
	if err := n.reopenEngine(ctx, func() error { return nil }); err != nil {
		n.log.Error().Err(err).Msg("this node cannot go on after its disk was full")
		return
	}
	n.keepReserve()
	n.log.Info().Int64("ms", time.Since(began).Milliseconds()).Msg("this node goes on: the data volume has room again")
}

// engineWorks tells whether the state is open and its log has not stopped. The caller holds the lock.
func (n *Node) engineWorks() bool {
	return n.raft != nil && n.health.failure.Load() == nil && n.raft.Status().Failure == nil
}

// reopenEngine closes what holds the state of the group, does something to its files, and opens it again. Clients are answered "retry"
// meanwhile, and for good when it fails. The caller holds the lock.
func (n *Node) reopenEngine(ctx context.Context, whileClosed func() error) error {
	n.health.ready.Store(false)
	n.http.Shut()
	n.closeEngine(ctx)
	err := whileClosed()
	if err == nil {
		err = n.openEngine(ctx)
	}
	if err != nil {
		n.broken(err)
		return err
	}
	n.health.mended()
	return nil
}

// openEngine opens what holds the state of the group, and lets clients in. The caller holds the lock.
func (n *Node) openEngine(ctx context.Context) error { return n.take(ctx, n.engineSteps()) }

// broken notes that there is no state to serve from; the process goes on, to be asked about it.
func (n *Node) broken(err error) {
	n.health.broken(err)
	n.engineFailed(err)
}

// closeEngine stops what of it is open: the log first, so that nothing is applied to what is closed.
func (n *Node) closeEngine(ctx context.Context) {
	stop := func(name string, run func() error) {
		if err := run(); err != nil {
			n.log.Warn().Err(err).Msg("raft: the " + name + " of the state that goes did not close in good order")
		}
	}
	if service := n.port.membership.Load(); service != nil {
		service.Close()
	}
	n.port.log.Store(nil) // where a closed log ends, nobody must hear
	if n.broker != nil {
		n.broker.AnswerParked()
	}
	if n.raft != nil {
		stop("log", func() error { return n.raft.Close(ctx) })
		n.broker.Stop()
	}
	if n.store != nil {
		stop("store", n.store.Close)
	}
	n.raft, n.broker, n.store = nil, nil, nil
}
