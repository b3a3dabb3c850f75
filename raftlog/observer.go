package raftlog

import (
	"time"

	"github.com/hashicorp/raft"
)

// Observer is told how long the steps of the write path take, for metrics. Its methods are called by the goroutines of
// the write path: they must be quick and must not call the Node.
type Observer interface {
	// CommandWaited tells how long one command waited for the proposer.
	CommandWaited(waited time.Duration)
	// RequestProposed tells how long after the arrival of its request at this node one command was proposed.
	RequestProposed(took time.Duration)
	// EntryProposed tells the size of one entry that goes into the log.
	EntryProposed(commands, bytes int)
	// EntryCommitted tells how long an entry of this leader took from its proposal to its commit.
	EntryCommitted(took time.Duration)
	// CommandSlow tells of a command that took longer than Options.SlowCommand from its arrival at this leader until it was applied.
	CommandSlow(name string, took time.Duration)
	// LogFlushed tells how long one flush of a log file took.
	LogFlushed(took time.Duration)
	// StateOpened tells that the state is about to be sent to another node, StateBytesSent that so many bytes of it go out, and
	// StateSent that all of it has come there.
	StateOpened()
	StateBytesSent(bytes int)
	StateSent()
}

// unobserved is the observer of a Node that was given none.
type unobserved struct{}

func (unobserved) CommandWaited(time.Duration)   {}
func (unobserved) RequestProposed(time.Duration) {}
func (unobserved) EntryProposed(int, int)        {}
func (unobserved) EntryCommitted(time.Duration)  {}
func (unobserved) LogFlushed(time.Duration)      {}

func (unobserved) CommandSlow(string, time.Duration) {}
func (unobserved) StateOpened()                      {}
func (unobserved) StateBytesSent(int)                {}
func (unobserved) StateSent()                        {}

// observer is the one that was given, or one that does nothing.
func (o *Options) observer() Observer {
	if o.Observer == nil {
		return unobserved{}
	}
	return o.Observer
}

// observe reports the batch that goes into the log as an entry of so many bytes.
func (b *batch) observe(observer Observer, now time.Duration, bytes int) {
	for i := range b.items {
		if arrived := b.items[i].arrived; arrived > 0 {
			observer.CommandWaited(now - arrived)
		}
		if requested := b.items[i].requested; requested > 0 {
			observer.RequestProposed(now - requested)
		}
	}
	observer.EntryProposed(len(b.items), bytes)
}

// observeCommits is told about entries that have just been committed. It tells the other nodes when this one leads, and reports
// the entries of its term.
func (n *Node) observeCommits(logs []*raft.Log) {
	term, _, _, _ := n.proposer.leadership()
	if term != 0 {
		n.level.told(logs[len(logs)-1].Index)
	} else {
		n.level.committed(logs[len(logs)-1].Index)
	}
	if last := logs[len(logs)-1]; n.herald != nil && term != 0 {
		n.herald.tell(term, last.Index, last.Term)
	}
	if n.options.Observer == nil {
		return
	}
	for _, log := range logs {
		if log.Type == raft.LogCommand && log.Term == term && !log.AppendedAt.IsZero() {
			n.options.Observer.EntryCommitted(time.Since(log.AppendedAt))
		}
	}
}

// watchLeaders counts the leaders that this node hears of, itself included, and makes the uplink follow them.
func (n *Node) watchLeaders() {
	var last raft.ServerID
	n.raft.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		// Called by one goroutine of the library at a time, which must not be held up.
		seen, ok := o.Data.(raft.LeaderObservation)
		if !ok {
			return false
		}
		if seen.LeaderID != "" && seen.LeaderID != last {
			last = seen.LeaderID
			n.leaders.Add(1)
		}
		if n.uplink != nil {
			n.uplink.signal()
		}
		return false
	}))
}
