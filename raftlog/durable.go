package raftlog

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

const (
	// recordEveryEntries is how far the snapshot record may lie behind the durable index. At start the library reads what
	// lies between the record and the end of the log, twice and one entry at a time.
	recordEveryEntries = 1024
	// recordEveryBytes is the same in bytes.
	recordEveryBytes = 16 << 20
)

// keeper makes durable points and cuts the log behind them. It runs beside applying, on one goroutine.
type keeper struct {
	options   *Options
	log       *logStore
	fsm       *fsm
	snapshots *snapshotStore
	logger    zerolog.Logger
	failed    func(error)
	// keepFrom returns the lowest index that other members may need, 0 keeps everything; nil is none.
	keepFrom func() uint64

	// durable is the index of the last durable point.
	durable atomic.Uint64
	// unflushed and unrecorded count the bytes applied since the last durable point and since the last record.
	unflushed  atomic.Int64
	unrecorded atomic.Int64
	wake       chan struct{}
	stop       chan struct{}
	done       chan struct{}
}

func newKeeper(o *Options, log *logStore, snapshots *snapshotStore, logger zerolog.Logger) *keeper {
	return &keeper{
		options: o, log: log, snapshots: snapshots, logger: logger,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// grown is called by the apply goroutine.
func (k *keeper) grown(bytes int) {
	k.unrecorded.Add(int64(bytes))
	if k.unflushed.Add(int64(bytes)) >= k.options.DurableBytes {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

func (k *keeper) run() {
	defer close(k.done)
	ticker := time.NewTicker(time.Duration(k.options.DurableEveryMs) * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-ticker.C:
		case <-k.wake:
		}
		if err := k.point(false); err != nil {
			k.failed(err)
			return
		}
	}
}

// close stops the goroutine and waits for it.
func (k *keeper) close() {
	close(k.stop)
	<-k.done
}

// point makes a durable point when something was applied since the last one. final records it in any case.
func (k *keeper) point(final bool) error {
	applied, _ := k.fsm.machine.AppliedIndex()
	if applied > k.durable.Load() {
		bytes := k.unflushed.Load()
		durable, err := k.fsm.machine.DurablePoint()
		if err != nil {
			return fmt.Errorf("make durable point: %w: %w", ErrStorage, err)
		}
		k.durable.Store(durable)
		k.unflushed.Add(-bytes)
	}
	return k.record(k.durable.Load(), final)
}

// record writes the snapshot record when it has fallen far enough behind, and cuts the log.
func (k *keeper) record(durable uint64, final bool) error {
	last := k.snapshots.current()
	if durable <= last.Index {
		return nil
	}
	cuttable := durable
	if k.keepFrom != nil {
		cuttable = min(cuttable, max(k.keepFrom(), 1)-1)
	}
	target := k.log.cutTarget(durable, cuttable, k.options.LogKeepEntries, k.options.LogMaxBytes)
	if !final && target == 0 && durable-last.Index < recordEveryEntries && k.unrecorded.Load() < recordEveryBytes {
		return nil
	}
	var entry raft.Log
	if err := k.log.GetLog(durable, &entry); err != nil {
		return fmt.Errorf("read term of entry %d: %w", durable, err)
	}
	members, ok := k.fsm.membershipAt(durable)
	if !ok {
		// More than maxMemberships changes since the durable index: the next durable point lies behind them.
		return nil
	}
	bytes := k.unrecorded.Load()
	err := k.snapshots.put(snapshotRecord{
		Index: durable, Term: entry.Term,
		MembershipIndex: members.index, Servers: members.configuration.Servers,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	k.unrecorded.Add(-bytes)
	if target == 0 {
		return nil
	}
	if err := k.log.cut(target); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	k.logger.Debug().Uint64("index", target).Uint64("durable", durable).Msg("raft: log cut")
	return nil
}
