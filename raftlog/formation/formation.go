package formation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"queen/raftlog/identity"
	"queen/raftlog/peer"
)

// Kind is how a node came to its cluster.
type Kind int

const (
	// Member is a directory that belonged to a cluster before.
	Member Kind = iota
	// Formed is a directory that was empty and belongs to the first members now.
	Formed
	// Join is a directory that is empty and waits to be added to a cluster.
	Join
)

// String returns the name of the kind.
func (k Kind) String() string { return [...]string{"member", "formed", "join"}[k] }

// Outcome is what a node is after Run.
type Outcome struct {
	Kind Kind
	// ClusterID and ClusterEpoch are those of the cluster; for Join, as the peers told, empty when none did. The identity of
	// a node that joins stays without one until it is added.
	ClusterID    string
	ClusterEpoch uint64
	// Record is the formation record, from which the first entry of the log is made while identity.Identity.Began is false.
	// It is nil for a node that was added.
	Record *identity.Formation
}

const (
	kindState = "formation.state"
	kindForm  = "formation.form"
)

const (
	// askTimeout bounds one question to one peer.
	askTimeout = 2 * time.Second
	// DefaultInterval is how often the peers are asked.
	DefaultInterval = 500 * time.Millisecond
	// warnEvery is how often a waiting node says what it waits for, warnAfter how long the others get to start first.
	warnEvery = 10 * time.Second
	warnAfter = 2 * time.Second
	// firstEpoch is the epoch of a cluster that was formed.
	firstEpoch = 1
	// maxMembers is the most voters of a cluster.
	maxMembers = 5
)

// Options are the settings of Run. All are required, if not said otherwise.
type Options struct {
	// Self is QUEEN_RAFT_NODE_ID. Peers is QUEEN_RAFT_PEERS; empty, or this node alone, forms at once.
	Self  uint64
	Peers []Peer
	// Join is QUEEN_RAFT_JOIN.
	Join     bool
	Identity *identity.Store
	// Admin serves the purpose admin; nil for a node without a raft port, which has no peers.
	Admin *peer.Router
	// Interval is DefaultInterval, except in tests.
	Interval time.Duration
	Clock    peer.Clock
	Logger   zerolog.Logger
	// Faults is called at the crash points of cluster 19; nil does nothing.
	Faults func(point string)
}

// formation is a run, and after it the handlers that go on answering.
type formation struct {
	Options
	// taken is told when a record has been taken.
	taken    chan struct{}
	warnings warnings

	// mu is held while a record is compared with the identity and written, and while the question of another node is
	// answered: an answer is from before a record was taken, or from after it.
	mu sync.Mutex
	// asked are the incarnations of the nodes that were answered last. A record of an earlier incarnation of its maker, still
	// on its way, must not come after that answer: the maker's later one may make a record from it.
	asked map[uint64]string
}

// Run brings a node to its cluster, as the package's description says. An empty directory returns when it is formed or
// joins, or when ctx ends. Other nodes' questions are answered from then on, also after Run has returned.
func Run(ctx context.Context, options Options) (Outcome, error) {
	f := prepare(options)
	if f.Admin != nil {
		f.Admin.Handle(kindState, f.answerState)
		f.Admin.Handle(kindForm, f.answerForm)
	}
	if outcome, done := f.outcome(Member); done {
		return outcome, nil
	}
	if f.alone() {
		if f.state().Joins {
			return f.joins(state{}), nil
		}
		if err := f.take(f.record(nil)); err != nil {
			return Outcome{}, err
		}
		outcome, _ := f.outcome(Formed)
		return outcome, nil
	}
	return f.rounds(ctx)
}

func prepare(options Options) *formation {
	f := &formation{Options: options, taken: make(chan struct{}, 1), asked: map[uint64]string{}}
	f.Peers = sorted(f.Peers)
	if f.Faults == nil {
		f.Faults = func(string) {}
	}
	return f
}

// alone tells whether no other node is listed.
func (f *formation) alone() bool {
	return len(f.Peers) == 0 || len(f.Peers) == 1 && f.Peers[0].ID == f.Self
}

// outcome returns what this node is when it belongs to a cluster.
func (f *formation) outcome(kind Kind) (Outcome, bool) {
	current := f.Identity.Current()
	return Outcome{
		Kind: kind, ClusterID: current.ClusterID, ClusterEpoch: current.ClusterEpoch, Record: current.Formation,
	}, current.ClusterID != ""
}

// joins is the outcome of a node that waits to be added. told is who has state, if anybody.
func (f *formation) joins(told state) Outcome {
	f.Logger.Info().Uint64("node", f.Self).Str("clusterId", told.ClusterID).Uint64("toldBy", told.NodeID).
		Msg("this fresh node joins an existing cluster")
	return Outcome{Kind: Join, ClusterID: told.ClusterID, ClusterEpoch: told.ClusterEpoch}
}

// rounds asks until there is something to do.
func (f *formation) rounds(ctx context.Context) (Outcome, error) {
	f.warnings.begin(f.Clock)
	ticker := time.NewTicker(f.Interval)
	defer ticker.Stop()
	for {
		self := f.state()
		answers := f.askAll(ctx, &self)
		if outcome, done := f.outcome(Formed); done {
			return outcome, nil // a record came while this node asked
		}
		decided := decide(&self, answers)
		switch {
		case decided.action == adopt:
			if err := f.take(decided.record); err != nil {
				return Outcome{}, err
			}
		case decided.action == join || self.Joins:
			return f.joins(decided.found), nil
		case decided.action == form:
			record := f.record(answers)
			if err := f.take(record); err != nil {
				return Outcome{}, err
			}
			if err := f.send(ctx, record); err != nil {
				return Outcome{}, err
			}
		default:
			f.warnings.log(f.Clock, &f.Logger, &self, &decided)
		}
		if outcome, done := f.outcome(Formed); done {
			return outcome, nil
		}
		select {
		case <-ctx.Done():
			return Outcome{}, fmt.Errorf("first start: %w", ctx.Err())
		case <-f.taken:
		case <-ticker.C:
		}
	}
}

// state returns who this node is.
func (f *formation) state() state {
	current := f.Identity.Current()
	return state{
		NodeID: f.Self, Incarnation: current.Incarnation, Peers: f.Peers, Joins: f.Join || current.Began,
		ClusterID: current.ClusterID, ClusterEpoch: current.ClusterEpoch,
	}
}

// askAll asks every other listed peer who it is. Who does not answer is missing from the result.
func (f *formation) askAll(ctx context.Context, self *state) map[uint64]state {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	answers := map[uint64]state{}
	for _, listed := range self.Peers {
		if listed.ID == f.Self {
			continue
		}
		group.Go(func() {
			answer, err := f.ask(ctx, listed.ID)
			if err != nil {
				f.Logger.Debug().Err(err).Uint64("peer", listed.ID).Msg("first start: a peer does not answer")
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[listed.ID] = answer
		})
	}
	group.Wait()
	return answers
}

func (f *formation) ask(ctx context.Context, id uint64) (state, error) {
	body, err := f.Admin.Ask(ctx, id, kindState, nil)
	if err != nil {
		return state{}, err
	}
	var answer state
	if err := json.Unmarshal(body, &answer); err != nil {
		return state{}, fmt.Errorf("decode answer of node %d: %w", id, err)
	}
	if answer.NodeID != id {
		return state{}, fmt.Errorf("node %d answers as node %d", id, answer.NodeID)
	}
	if answer.Record != nil {
		return answer, check(answer.Record)
	}
	return answer, nil
}

// record names the first members: all listed nodes with the incarnations that they answered.
func (f *formation) record(answers map[uint64]state) *identity.Formation {
	record := &identity.Formation{ClusterID: uuid.NewString(), ClusterEpoch: firstEpoch}
	own := f.Identity.Current().Incarnation
	if len(f.Peers) == 0 {
		record.Members = []identity.FirstMember{{NodeID: f.Self, Incarnation: own}}
	}
	for _, listed := range f.Peers {
		incarnation := answers[listed.ID].Incarnation
		if listed.ID == f.Self {
			incarnation = own
		}
		record.Members = append(record.Members, identity.FirstMember{
			NodeID: listed.ID, Raft: listed.Raft, HTTP: listed.HTTP, Incarnation: incarnation,
		})
	}
	return record
}

// send sends the record to the others. Who does not get it here asks for it.
func (f *formation) send(ctx context.Context, record *identity.Formation) error {
	body, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode formation record: %w", err)
	}
	for _, listed := range f.Peers {
		if listed.ID == f.Self {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		_, err := f.Admin.Ask(asking, listed.ID, kindForm, body)
		cancel()
		if err != nil {
			f.Logger.Info().Err(err).Uint64("peer", listed.ID).Msg("first start: a peer did not take the formation record yet")
			continue
		}
		f.Faults("formation.sent")
	}
	return nil
}

var (
	errNotEmpty   = errors.New("this node belongs to a cluster already")
	errNotForThis = errors.New("the formation record is not for this directory")
	errOutdated   = errors.New("the formation record is not of the one who has asked last")
	errRecord     = errors.New("the formation record is malformed")
)

// take makes this node a first member, durably. Taking the same record again changes nothing.
func (f *formation) take(record *identity.Formation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeLocked(record)
}

func (f *formation) takeLocked(record *identity.Formation) error {
	current := f.Identity.Current()
	if member, found := record.Member(f.Self); !found || member.Incarnation != current.Incarnation {
		return fmt.Errorf("%w: its incarnation is %s", errNotForThis, current.Incarnation)
	}
	if current.ClusterID == record.ClusterID {
		return nil
	}
	refused := false
	err := f.Identity.Update(func(i *identity.Identity) {
		if refused = i.ClusterID != "" || i.Began; refused {
			return
		}
		i.ClusterID, i.ClusterEpoch, i.Formation = record.ClusterID, record.ClusterEpoch, record
	})
	if err != nil {
		return fmt.Errorf("take formation record: %w", err)
	}
	if refused {
		return fmt.Errorf("%w: %q", errNotEmpty, current.ClusterID)
	}
	f.Logger.Info().Uint64("node", f.Self).Str("clusterId", record.ClusterID).Int("voters", len(record.Members)).
		Msg("raft: cluster formed")
	select {
	case f.taken <- struct{}{}:
	default:
	}
	return nil
}

// check refuses a record that no node makes.
func check(record *identity.Formation) error {
	if record.ClusterID == "" || record.ClusterEpoch != firstEpoch ||
		len(record.Members) < 1 || len(record.Members) > maxMembers {
		return fmt.Errorf("%w: cluster %q, epoch %d, %d members",
			errRecord, record.ClusterID, record.ClusterEpoch, len(record.Members))
	}
	for i, member := range record.Members {
		if member.Incarnation == "" || i > 0 && member.NodeID <= record.Members[i-1].NodeID {
			return fmt.Errorf("%w: member %d", errRecord, member.NodeID)
		}
	}
	return nil
}

// answerState tells another node who this one is. The record goes to whom it names only.
func (f *formation) answerState(remote peer.Hello, _ []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[remote.NodeID] = remote.Incarnation
	answer := f.state()
	record := f.Identity.Current().Formation
	if record != nil && names(record, &state{NodeID: remote.NodeID, Incarnation: remote.Incarnation}) {
		answer.Record = record
	}
	return json.Marshal(answer)
}

// answerForm takes the record that the lowest id has made and sent.
func (f *formation) answerForm(remote peer.Hello, body []byte) ([]byte, error) {
	var record identity.Formation
	if err := json.Unmarshal(body, &record); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	if err := check(&record); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.asked[remote.NodeID]
	if maker := record.Members[0]; maker.NodeID != remote.NodeID || maker.Incarnation != last {
		return nil, fmt.Errorf("%w: node %d has asked as %s since", errOutdated, remote.NodeID, last)
	}
	return nil, f.takeLocked(&record)
}
