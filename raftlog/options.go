package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog/command"
	"queen/raftlog/transfer"
)

const (
	// logFileBytes is the size of a log file. Smaller ones are rotated more often, which stalls appends for some
	// milliseconds each; larger ones keep more of what was cut, since files go as a whole.
	logFileBytes = 32 << 20
	// maxAppendEntries is how many entries the library sends, appends or applies at once (measurements 3.1: more gains
	// nothing, since our entries are batches already).
	maxAppendEntries = 64
	// maxRecordBytes is the largest record of the log store, 64 MiB by its own limit, less what we put around an entry.
	maxRecordBytes = 62914560
)

// Options are the settings of a Node. Zero values are not defaults: start from DefaultOptions, which Validate expects.
type Options struct {
	// Required.

	// Dir is the directory of this group's log; it is created when missing.
	Dir string
	// NodeID is QUEEN_RAFT_NODE_ID.
	NodeID uint64
	// Incarnation and BootNonce are the directory and the process, and Witnesses what the members had shown before: see Witness.
	Incarnation, BootNonce string
	Witnesses              []Witness

	// Usual: the variables of cluster 1.4 and 1.6, with their units in the name.

	ElectionMs        int
	HeartbeatMs       int
	PipelineEntries   int
	BatchMaxCommands  int
	BatchMaxBytes     int
	EntryMaxBytes     int
	CommandQueueDepth int
	DurableEveryMs    int
	DurableBytes      int64
	LogKeepEntries    uint64
	IdleTickMs        int
	MaxClockSkewMs    int
	// LeaderLeaseMs is QUEEN_CONSUME_LEADER_LEASE_MS; 0 is its default.
	LeaderLeaseMs int
	// Settings are written into every entry that this node proposes.
	Settings command.Settings

	// Fine tuning.

	// MaxEntryKeys and MaxEntryStateBytes bound what applying one entry writes, summed over Proposal.Weight: the store
	// writes an entry as one transaction, and transactions have a limit.
	MaxEntryKeys       int
	MaxEntryStateBytes int
	// LogMaxBytes is how much log is kept at most behind the durable point, if LogKeepEntries would keep more: start
	// reads all of it.
	LogMaxBytes int64
	// LogCacheBytes is the most memory for recent entries, kept for followers (cluster 1.4).
	LogCacheBytes int64
	// LastStampMicros is the greatest stamp that the state machine has applied, as it stood when it was opened.
	LastStampMicros uint64

	// NewestIndex is the newest entry of which the state machine has found a trace, 0 for none: a log that ends below it is
	// damaged (cluster 18).
	NewestIndex uint64

	// Clock is the wall and the monotonic clock.
	Clock Clock
	// Logger receives events; the library's own lines come at debug level.
	Logger zerolog.Logger
	// SlowCommand is from when on the Observer is told of a slow command; 0 is never.
	SlowCommand time.Duration
	// Failed is told, once, why the group has stopped on this node: any goroutine, at once. It must not block nor call the Node. Nil
	// is told nothing.
	Failed func(err error)
	// Observer is told how long the steps of the write path take; nil observes nothing.
	Observer Observer
	// Faults is called at the crash points of cluster 19 with the point's name; nil does nothing.
	Faults func(point string)
	// Network connects the nodes of the group. Nil is a group of one voter without a port (cluster 1.3).
	Network Network
	// Address is the raft address of this node in the membership.
	Address string
	// Voters is the membership that an empty directory starts with. Empty means this node alone.
	Voters []Voter
	// Join makes an empty directory wait to be added to a group instead.
	Join bool
	// ForwardStreams is how many links carry the commands of a node to its leader.
	ForwardStreams int
	// Kinds is the newest format that this build reads (cluster 15.2).
	Kinds int
	// PurgeHoldSeconds is QUEEN_RAFT_PURGE_HOLD_S.
	PurgeHoldSeconds int
	// Disk describes the data volume, at once; nil is one that is never full. At DiskLowPercent and more, the log does not wait
	// for a silent member.
	Disk           func() Disk
	DiskLowPercent float64
	// Guarded says whether this node takes part in nothing (cluster 2.6): its calls fail, and those of others are answered with errors.
	// Any goroutine, at once. Nil is never.
	Guarded func() bool
	// Outside says whether the group does not count this node in any more, beyond what its log says: it was removed, or others do not
	// accept its directory. What waits here then is dropped with ErrNoLeader. Any goroutine, at once. Nil is never.
	Outside func() bool
	// Admit asks for room for a command of another node (cluster 11.1). It must not block, and calls admitted once, at once or from any
	// goroutine: with what gives the room back, nil for nothing to give back, or with the reason why there is none: one of
	// ErrQueueFull and ErrClosed. Nil has room for everything.
	Admit func(c *Foreign, admitted func(release func(), refusal error))
	// RidersFor returns what Proposal.Riders is for a command of another node; nil where nothing rides.
	RidersFor func(encoded []byte) func() []Proposal
	// Call answers what another node sends with CallLeader, while this one leads. ctx ends when the other node gives up.
	Call func(ctx context.Context, request []byte) ([]byte, error)
	// Install is told, at once, that the leader's log begins behind what this node has, and that it needs the state of the
	// leader, at least as of the index: it is to fetch that (see StateFrom), close this Node, put the state in place, call
	// Installed and open again. Its error says why the state is not there yet.
	Install func(leader, index uint64) error
	// OpenState opens the state as it is now for a node that needs it, and says up to which entry it goes.
	OpenState func() (state transfer.Source, index uint64, err error)

	// fileBytes is logFileBytes, except in tests.
	fileBytes int
}

// Voter is a member that votes.
type Voter struct {
	ID      uint64
	Address string
}

// DefaultOptions returns the defaults of cluster 1.4 and 1.6 for a group of one voter in dir.
func DefaultOptions(dir string, nodeID uint64) Options {
	return Options{
		Dir:               dir,
		NodeID:            nodeID,
		ElectionMs:        150,
		HeartbeatMs:       50,
		PipelineEntries:   4,
		BatchMaxCommands:  4096,
		BatchMaxBytes:     262144,
		EntryMaxBytes:     50331648,
		CommandQueueDepth: 16384,
		DurableEveryMs:    1000,
		DurableBytes:      268435456,
		LogKeepEntries:    4096,
		IdleTickMs:        10000,
		MaxClockSkewMs:    500,
		Settings: command.Settings{
			TxidWindowMinSeconds: 900, RequestIDWindowSeconds: 60, PartitionCleanupDays: 30},
		MaxEntryKeys:       8192,
		MaxEntryStateBytes: 64 << 20,
		LogMaxBytes:        64 << 20,
		LogCacheBytes:      512 << 20,
		ForwardStreams:     4,
		Kinds:              command.FormatVersion,
		PurgeHoldSeconds:   600,
		DiskLowPercent:     80,
		fileBytes:          logFileBytes,
		Clock:              SystemClock{},
		Logger:             zerolog.Nop(),
	}
}

// Validate returns an error that names every setting that is out of its range.
func (o *Options) Validate() error {
	var problems []error
	within := func(name string, value, least, most int64) {
		if value < least || value > most {
			problems = append(problems, fmt.Errorf("%s=%d: want %d to %d", name, value, least, most))
		}
	}
	if o.Dir == "" {
		problems = append(problems, errors.New("option Dir is empty"))
	}
	if o.Clock == nil {
		problems = append(problems, errors.New("option Clock is nil"))
	}
	within("NodeID", int64(o.NodeID), 1, 1<<32-1)
	within("ElectionMs", int64(o.ElectionMs), 50, 30000)
	within("HeartbeatMs", int64(o.HeartbeatMs), 10, 5000)
	within("PipelineEntries", int64(o.PipelineEntries), 1, 1024)
	within("BatchMaxCommands", int64(o.BatchMaxCommands), 1, 65536)
	within("BatchMaxBytes", int64(o.BatchMaxBytes), 4096, 33554432)
	within("EntryMaxBytes", int64(o.EntryMaxBytes), int64(o.BatchMaxBytes), maxRecordBytes)
	within("CommandQueueDepth", int64(o.CommandQueueDepth), 64, 1048576)
	within("DurableEveryMs", int64(o.DurableEveryMs), 10, 60000)
	within("DurableBytes", o.DurableBytes, 1<<20, 1<<34)
	within("LogKeepEntries", int64(o.LogKeepEntries), 16, 10000000)
	within("IdleTickMs", int64(o.IdleTickMs), 0, 600000)
	within("MaxClockSkewMs", int64(o.MaxClockSkewMs), 0, 60000)
	within("LeaderLeaseMs", int64(o.LeaderLeaseMs), 0, int64(o.ElectionMs)*4/5)
	within("MaxEntryKeys", int64(o.MaxEntryKeys), 1, 1<<31)
	within("MaxEntryStateBytes", int64(o.MaxEntryStateBytes), 1, 1<<31)
	within("bytes of a log file (start from DefaultOptions)", int64(o.fileBytes), 4096, 1<<30)
	within("ForwardStreams", int64(o.ForwardStreams), 1, 64)
	within("LogCacheBytes", o.LogCacheBytes, 1<<20, 1<<36)
	within("LogMaxBytes", o.LogMaxBytes, 1<<20, 1<<40)
	return errors.Join(problems...)
}

func (o *Options) fault(point string) {
	if o.Faults != nil {
		o.Faults(point)
	}
}

func (o *Options) outside() bool { return o.Outside != nil && o.Outside() }

func (o *Options) guarded() bool { return o.Guarded != nil && o.Guarded() }

func (o *Options) disk() Disk {
	if o.Disk == nil {
		return Disk{}
	}
	return o.Disk()
}

var errNoInstall = errors.New("this node cannot receive state")

func (o *Options) install(leader, index uint64) error {
	if o.Install == nil {
		return errNoInstall
	}
	return o.Install(leader, index)
}
