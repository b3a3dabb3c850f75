package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"queen/raftlog/command"
)

// StateMachine is what the Node needs from the state. The actors implement it.
type StateMachine interface {
	// Apply executes committed entries in log order and returns when their effects are visible to readers. It is called
	// by one goroutine at a time and not again after an error. It publishes the results of the requests itself.
	//
	// An error, or a panic, is an apply failure: the entry behind AppliedIndex could not be applied, those in front of it
	// were. The group stops on this node, the process stays up (cluster 13).
	Apply(entries []CommittedEntry) error
	// AppliedIndex returns the index and the term of the last entry that was applied; zeros when there is none. It may be
	// called by any goroutine.
	AppliedIndex() (index, term uint64)
	// DurablePoint makes everything that was applied when it was called durable, and returns the index up to which that
	// holds. It runs beside Apply, one call at a time. An error means that the store cannot be trusted any more.
	DurablePoint() (uint64, error)
}

// CommittedEntry is one entry of the log. Data is what command.DecodeEntry reads; it is immutable, and the state machine
// may keep it.
type CommittedEntry struct {
	Index uint64
	Term  uint64
	Data  []byte
}

// ApplyFailure describes the entry at which this node stopped applying.
type ApplyFailure struct {
	Index  uint64
	Term   uint64
	Digest string
	// Command is the name of the entry's first command, Effect says how many it has of each name.
	Command, Effect string
	Err             error
}

// Error implements error.
func (f *ApplyFailure) Error() string {
	return fmt.Sprintf("apply entry %d of term %d, digest=%s: %v", f.Index, f.Term, f.Digest, f.Err)
}

// Unwrap makes errors.Is find ErrApply and the cause.
func (f *ApplyFailure) Unwrap() []error { return []error{ErrApply, f.Err} }

// extensionBytes is the size of what a proposer puts next to an entry: the term in which it means to propose it, and the
// number of the entry in that term, 8 bytes each.
//
// The library may take over an entry into a later term than the one for which it was made: a leader that loses and wins
// leadership finds it in its channel. Such an entry would come in front of the first entry of its term, with a stamp of the
// past. Every node sees both terms and skips it alike; the proposer proposes its commands again.
const extensionBytes = 16

func appendExtensions(dst []byte, term, number uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, term)
	return binary.LittleEndian.AppendUint64(dst, number)
}

func readExtensions(data []byte) (term, number uint64) {
	if len(data) != extensionBytes {
		return 0, 0
	}
	return binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
}

// fsm connects the library's apply goroutine with the StateMachine.
type fsm struct {
	options *Options
	machine StateMachine
	gate    *appliedGate
	// committed is told about what is about to be applied.
	committed func(logs []*raft.Log)
	// applied is told about every entry of which this node may be the proposer, in log order.
	applied func(term, number uint64)
	// grown is told how many bytes of entries were applied.
	grown func(bytes int)
	// failed is told about the apply failure.
	failed func(*ApplyFailure)
	// advanced is told up to which index everything is applied.
	advanced func(index uint64)
	self     raft.ServerID

	// held is the index up to which the state machine has applied; only the apply goroutine changes it.
	held    uint64
	stopped bool
	entries []CommittedEntry

	// member tells whether this node is in the newest committed membership.
	member atomic.Bool

	mu          sync.Mutex
	memberships []membership
	// first is the membership in the log as it was opened, for the time until a committed one is known.
	first []raft.Server
}

// membership is a configuration that was committed at an index.
type membership struct {
	index         uint64
	configuration raft.Configuration
}

// maxMemberships bounds the history of memberships that lie above the durable index; the oldest go first, and with them
// only the chance to cut the log up to an index so far back.
const maxMemberships = 64

// errNotApplied is the response of the library's future, which nobody reads.
var errNotApplied = errors.New("not applied")

// ApplyBatch implements raft.BatchingFSM.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	f.options.fault("commit.before_apply")
	responses := make([]any, len(logs))
	if f.stopped {
		for i := range responses {
			responses[i] = errNotApplied
		}
		return responses
	}
	f.committed(logs)
	bytes := 0
	f.entries = f.entries[:0]
	for _, log := range logs {
		switch log.Type {
		case raft.LogConfiguration:
			f.noteMembership(log.Index, raft.DecodeConfiguration(log.Data))
		case raft.LogCommand:
			if term, _ := readExtensions(log.Extensions); term == log.Term && log.Index > f.held {
				f.entries = append(f.entries, CommittedEntry{Index: log.Index, Term: log.Term, Data: log.Data})
				bytes += len(log.Data)
			}
		}
	}
	if len(f.entries) > 0 {
		if failure := f.apply(); failure != nil {
			f.stopped = true
			f.failed(failure)
			return responses
		}
		f.held = f.entries[len(f.entries)-1].Index
		clear(f.entries)
		f.grown(bytes)
	}
	f.gate.advance(logs[len(logs)-1].Index)
	f.advanced(logs[len(logs)-1].Index)
	for _, log := range logs {
		if term, number := readExtensions(log.Extensions); term == log.Term && log.Type == raft.LogCommand {
			f.applied(term, number)
		}
	}
	return responses
}

// apply calls the state machine and makes an error of a panic: one that left this goroutine would end the process.
func (f *fsm) apply() (failure *ApplyFailure) {
	defer func() {
		if problem := recover(); problem != nil {
			failure = f.failure(fmt.Errorf("panic: %v\n%s", problem, debug.Stack()))
		}
	}()
	if err := f.machine.Apply(f.entries); err != nil {
		return f.failure(err)
	}
	return nil
}

func (f *fsm) failure(err error) *ApplyFailure {
	at := 0
	held, _ := f.machine.AppliedIndex()
	for at < len(f.entries)-1 && f.entries[at].Index <= held {
		at++
	}
	entry := &f.entries[at]
	failure := &ApplyFailure{Index: entry.Index, Term: entry.Term, Digest: command.Digest(entry.Data), Err: err}
	failure.Command, failure.Effect = describeEntry(entry.Data)
	return failure
}

func (f *fsm) noteMembership(index uint64, configuration raft.Configuration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.memberships); n > 0 && f.memberships[n-1].index >= index {
		return
	}
	f.memberships = append(f.memberships, membership{index, configuration})
	f.member.Store(f.holds(configuration.Servers))
	if len(f.memberships) > maxMemberships {
		f.memberships = append(f.memberships[:0], f.memberships[1:]...)
	}
}

// noteFirst takes in the membership in the log as it was opened.
func (f *fsm) noteFirst(servers []raft.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first = servers; len(f.memberships) == 0 {
		f.member.Store(f.holds(servers))
	}
}

func (f *fsm) holds(servers []raft.Server) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == f.self })
}

// committedServers is the newest membership that is committed and applied here; that of the log while none is known to be.
func (f *fsm) committedServers() []raft.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.memberships); n > 0 {
		return f.memberships[n-1].configuration.Servers
	}
	return f.first
}

// newest returns the newest membership that was committed here; index 0 when there is none.
func (f *fsm) newest() membership {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.memberships) == 0 {
		return membership{}
	}
	return f.memberships[len(f.memberships)-1]
}

// membershipAt returns the membership that was committed at the index.
func (f *fsm) membershipAt(index uint64) (membership, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.memberships) - 1; i >= 0; i-- {
		if f.memberships[i].index <= index {
			f.memberships = append(f.memberships[:0], f.memberships[i:]...)
			return f.memberships[0], true
		}
	}
	return membership{}, false
}

// membershipOf returns the membership that was committed at the index, and forgets nothing.
func (f *fsm) membershipOf(index uint64) (membership, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.memberships) - 1; i >= 0; i-- {
		if f.memberships[i].index <= index {
			return f.memberships[i], true
		}
	}
	return membership{}, false
}

// Apply implements raft.FSM; the library calls ApplyBatch instead.
func (f *fsm) Apply(log *raft.Log) any { return f.ApplyBatch([]*raft.Log{log})[0] }

// Snapshot implements raft.FSM. The library is configured never to ask: durable points are driven by the keeper.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	return nil, errors.New("snapshots are recorded at durable points")
}

// Restore implements raft.FSM. It is reached only by an installed snapshot, which snapshotStore.Create refuses.
func (f *fsm) Restore(source io.ReadCloser) error {
	return errors.Join(errors.New("state does not travel inside the library's snapshots"), source.Close())
}
