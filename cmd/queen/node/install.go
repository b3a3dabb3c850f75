package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"queen/raftlog"
	"queen/raftlog/transfer"
	"queen/store"
)

// errInstalling is what the leader hears until the state is here.
var errInstalling = errors.New("this node fetches the state")

const (
	// installTries is how often a transfer that breaks is taken up again before the leader has to offer the state anew.
	installTries = 60
	// installPause lies between two of them.
	installPause = 500 * time.Millisecond
	// installSpareBytes stay free on the volume while a state comes in.
	installSpareBytes = 256 << 20
)

func (n *Node) storeDirectory() string { return filepath.Join(n.config.RaftDirectory, "store") }
func (n *Node) logDirectory() string   { return filepath.Join(n.config.RaftDirectory, "raft") }
func (n *Node) incoming() string       { return filepath.Join(n.config.RaftDirectory, "snapshots") }

// offered is told that the leader's log begins behind what this node has. It begins to fetch the state, unless that is under way.
func (n *Node) offered(leader, _ uint64) error {
	// Whoever has the lock may be waiting for this call to end, since it closes the log.
	if !n.engine.TryLock() {
		return errInstalling
	}
	defer n.engine.Unlock()
	if n.halted || n.installing {
		return errInstalling
	}
	n.installing = true
	n.health.installing.Store(true)
	n.background.Go(func() {
		if err := n.install(n.running, leader); err != nil {
			n.log.Error().Err(err).Uint64("from", leader).Msg("raft: the state of the leader could not be installed")
		}
		n.engine.Lock()
		n.installing = false
		n.health.installing.Store(false)
		n.engine.Unlock()
	})
	return errInstalling
}

// install puts the state of the leader in the place of this node's own, in the running process (cluster 12). Until it is complete
// in its directory nothing changes; then the state's owners stop, it takes its place, and they start anew.
func (n *Node) install(ctx context.Context, leader uint64) error {
	began := time.Now()
	result, err := n.fetchState(ctx, leader)
	if err != nil {
		return err
	}
	imported, err := store.Import(ctx, n.incoming(), result.Meta, n.storeOptions())
	if err != nil {
		return err
	}
	n.engine.Lock()
	defer n.engine.Unlock()
	if n.halted {
		return nil
	}
	activate := func() error { return store.Activate(n.incoming(), n.storeOptions()) }
	if err := n.reopenEngine(ctx, activate); err != nil {
		return fmt.Errorf("open the installed state: %w", err)
	}
	n.health.handlers.StateInstalled()
	n.log.Info().Msg(fmt.Sprintf("raft: snapshot installed index=%d bytes=%d ms=%d",
		imported.Index, result.Bytes, time.Since(began).Milliseconds()))
	if err := store.CleanStaging(n.incoming()); err != nil {
		n.log.Warn().Err(err).Msg("raft: what is left of a fetched state cannot be removed")
	}
	return nil
}

// fetchState brings the parts of the leader's state into the directory of incoming ones.
func (n *Node) fetchState(ctx context.Context, leader uint64) (transfer.Result, error) {
	room, err := freeBytes(n.config.RaftDirectory)
	if err != nil {
		return transfer.Result{}, err
	}
	receiver, err := transfer.NewReceiver(transfer.ReceiverOptions{Dir: n.incoming(), MaxBytes: room - installSpareBytes})
	if err != nil {
		return transfer.Result{}, err
	}
	defer func() { n.health.handlers.StateReceived(receiver.Received()) }()
	call, closeCall := raftlog.StateFrom(groupPort{n.port.network, n.port.guard}, leader)
	defer closeCall()
	for try := 1; ; try++ {
		result, err := receiver.Fetch(ctx, call)
		if err == nil || ctx.Err() != nil || try == installTries {
			return result, err
		}
		n.log.Debug().Err(err).Msg("raft: the transfer of the state goes on")
		select {
		case <-ctx.Done():
		case <-time.After(installPause):
		}
	}
}

func freeBytes(path string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, fmt.Errorf("measure the data volume: %w", err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

// finishInstallation draws the log level with a state that was put in place before it was known to the log, in this process or before a
// crash.
func (n *Node) finishInstallation() error {
	dir := n.storeDirectory()
	if err := store.CompleteActivation(dir); err != nil {
		return err
	}
	installation, found, err := store.Installed(dir)
	if err != nil || !found {
		return err
	}
	if err := raftlog.Installed(n.logDirectory(), installation.Index, installation.Term, installation.Meta); err != nil {
		return err
	}
	return store.ForgetInstalled(dir)
}

// exportedState shows an export of the store to the log.
func (n *Node) exportedState() (transfer.Source, uint64, error) {
	export, err := n.store.Export()
	if err != nil {
		return nil, 0, err
	}
	return export, export.Index(), nil
}
