package membership

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/peer"
)

// Group is the Raft group, as a *raftlog.Node shows it.
type Group interface {
	Leads() bool
	Leadership() <-chan raftlog.LeadershipChange
	Status() raftlog.Status
	Membership() raftlog.Membership
	Members() []raftlog.MemberState
	MembersAgeMs() int64
	ChangeMembership(ctx context.Context, c raftlog.MembershipChange) error
	TransferTo(ctx context.Context, to uint64) (raftlog.Transfer, error)
	HandingOver() bool
	Now() uint64
}

// State is the replicated state. Its methods may be called by any goroutine.
type State interface {
	// Membership returns what is applied here, and a channel that is closed when there is something newer.
	Membership() (*command.MembershipState, <-chan struct{})
	// Change proposes a change and returns when it is applied here. A *command.Refusal says that nothing was changed; after
	// any other error that is unknown.
	Change(ctx context.Context, c *command.Membership) error
}

// Peers are the other nodes. A *peer.RefusedError says what a node that was reached thinks of this one, or the other way round.
type Peers interface {
	// Hello asks the node at an address who it is.
	Hello(ctx context.Context, id uint64, address string) (peer.Hello, error)
	// Adopt tells the node at an address to which cluster it belongs from now on.
	Adopt(ctx context.Context, id uint64, address string) error
	// Serves tells whether a process of a member takes part in the group, as far as this node is connected to it.
	Serves(id uint64) bool
	// Reset has a member empty its directory, whose incarnation the order names, and returns who it is then.
	Reset(ctx context.Context, id uint64, address string, order ResetOrder) (peer.Hello, error)
	// Relay sends a request to the leader.
	Relay(ctx context.Context, leader uint64, r *Request) (Answer, error)
}

// Options are the settings of a Service. All are required, if not said otherwise.
type Options struct {
	Group Group
	State State
	// Peers is nil in a node without a raft port.
	Peers Peers
	// Self describes this node, as in a handshake; it is asked again and again.
	Self func() peer.Hello
	// Founders are the rows that a new cluster begins with: the first members (cluster 3.2).
	Founders []command.Member
	// PromoteMaxLag is QUEEN_RAFT_PROMOTE_MAX_LAG.
	PromoteMaxLag uint64
	// LiveWithin is how long a silent member is live (cluster 0).
	LiveWithin time.Duration
	// FormatEvery is QUEEN_RAFT_CLUSTER_VERSION_MS; 0 never raises the format.
	FormatEvery time.Duration
	// AutoRejoin is QUEEN_RAFT_AUTO_REJOIN: members that have lost their directory return by themselves (cluster 2.6).
	AutoRejoin bool
	// Returned is told of every return that this node has driven; nil tells nobody.
	Returned func(node uint64)
	// Applied is told of every membership that is applied here, the newest one at least. It must not block; nil tells nobody.
	Applied func(*command.MembershipState)
	Logger  zerolog.Logger
	// Faults is called at the crash points of cluster 19; nil does nothing.
	Faults func(point string)
}

// Service looks after the membership while its node leads, and answers for it always.
type Service struct {
	Options
	stop context.CancelFunc
	done sync.WaitGroup
	// kick wakes run.
	kick chan struct{}

	// deciding has a place for the one who looks at the situation, until what was decided is applied.
	deciding chan struct{}

	mu sync.Mutex
	// met are the members as they described themselves last, when this node accepted them.
	met map[uint64]peer.Hello
	// verdicts are what this node thought of each node last, seen where it was reached.
	verdicts map[uint64]peer.Verdict
	seen     map[uint64]string
	// added is when this leader added a member.
	added map[uint64]time.Time
	// returning is the return under way, replacing the plan of one that an operator has asked for here last, returns those of the last hour, given up the members that return no more.
	returning returning
	replacing uint64
	returns   map[uint64][]time.Time
	givenUp   map[uint64]bool
	// waiting is what holds the plan up, as this leader has found.
	waiting Code
	// placed tells that this leader has looked at its own address.
	placed bool
	// formatAt is when the format was looked at last, evenAt which voter set was warned about.
	formatAt time.Time
	evenAt   int
}

// New makes a service; Start lets it run.
func New(options Options) *Service {
	if options.Faults == nil {
		options.Faults = func(string) {}
	}
	if options.Returned == nil {
		options.Returned = func(uint64) {}
	}
	if options.Applied == nil {
		options.Applied = func(*command.MembershipState) {}
	}
	return &Service{
		Options: options, kick: make(chan struct{}, 1), deciding: make(chan struct{}, 1), met: map[uint64]peer.Hello{}, verdicts: map[uint64]peer.Verdict{},
		seen: map[uint64]string{}, added: map[uint64]time.Time{},
		returns: map[uint64][]time.Time{}, givenUp: map[uint64]bool{},
	}
}

// Start lets the service run until Close.
func (s *Service) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.done.Go(func() { s.run(ctx) })
}

// Close stops the service and waits for it. Requests that wait end with their deadlines.
func (s *Service) Close() {
	s.stop()
	s.done.Wait()
}

const (
	// idleTurn is how often a leader looks without having been told of anything, busyTurn with a plan that goes on.
	idleTurn = time.Second
	busyTurn = 20 * time.Millisecond
	// failedTurn is the pause after something has failed.
	failedTurn = 200 * time.Millisecond
)

// run takes turns as long as this node leads.
func (s *Service) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		state, changed := s.State.Membership()
		s.Applied(state)
		s.follow(state)
		pause := idleTurn
		if s.Group.Leads() {
			var err error
			if pause, err = s.turn(ctx); err != nil && ctx.Err() == nil {
				s.Logger.Debug().Err(err).Msg("raft: membership")
				pause = failedTurn
			}
		} else {
			s.forgetTerm()
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.kick:
		case <-s.Group.Leadership():
		case <-timer.C:
		}
	}
}

// forgetTerm forgets what only a leader knows.
func (s *Service) forgetTerm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.added)
	s.waiting, s.placed = "", false
}

func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Met takes in a handshake: ours is this node's verdict on the other one. Any goroutine may call it.
func (s *Service) Met(remote *peer.Hello, ours peer.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ours == peer.Superseded {
		return // what counts is the process that supersedes it
	}
	before := s.verdicts[remote.NodeID]
	s.verdicts[remote.NodeID] = ours
	if ours.Binds() && ours != before {
		s.wake()
	}
	if ours == peer.OK {
		s.met[remote.NodeID] = *remote
		s.wake()
	}
}

// Reached takes in where a member was reached. Any goroutine may call it.
func (s *Service) Reached(id uint64, address string) {
	known := ""
	for _, member := range s.Group.Membership().Members {
		if member.ID == id {
			known = member.Address
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.seen[id]
	delete(s.seen, id)
	if known == "" || known == address {
		return
	}
	s.seen[id] = address
	if before != address {
		s.Logger.Warn().Msgf("member %d answers at %s, the membership says %s", id, address, known)
	}
}

// situation is what this node, which leads, knows now.
func (s *Service) situation() *Situation {
	state, _ := s.State.Membership()
	membership := s.Group.Membership()
	now := &Situation{
		Self: s.Self().NodeID, Index: membership.Index, Committed: membership.Committed, LastLog: s.Group.Status().LastIndex,
		MaxLag: s.PromoteMaxLag, State: state, NowMs: s.Group.Now() / 1000, HandingOver: s.Group.HandingOver(),
	}
	serves := map[uint64]bool{}
	if s.Peers != nil {
		for _, member := range membership.Members {
			serves[member.ID] = s.Peers.Serves(member.ID)
		}
	}
	heard := map[uint64]raftlog.MemberState{}
	for _, member := range s.Group.Members() {
		heard[member.ID] = member
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now.Returned = s.returnedLocked()
	for _, member := range membership.Members {
		said := heard[member.ID]
		added, anew := s.added[member.ID]
		before := anew && time.Duration(said.LastAckMs)*time.Millisecond >= time.Since(added) // of a directory that is no more
		now.Nodes = append(now.Nodes, Node{
			ID: member.ID, Voter: member.Voter, Raft: member.Address, LastLog: said.LastLog,
			Live:  member.ID == now.Self || said.Live || time.Since(s.added[member.ID]) < s.LiveWithin,
			Heard: member.ID == now.Self || said.ID != 0 && said.LastAckMs >= 0 && !before,
			Full:  said.Full, DiskPercent: said.DiskPercent, Verdict: s.verdicts[member.ID], Serves: serves[member.ID],
		})
	}
	return now
}

// turn does the next thing there is to do, if any, and returns how long to wait before the next turn.
func (s *Service) turn(ctx context.Context) (time.Duration, error) {
	if err := s.decide(ctx); err != nil {
		return 0, err
	}
	defer s.decided()
	now := s.situation()
	if change := s.upkeep(now); change != nil {
		return 0, s.State.Change(ctx, change)
	}
	if moved, err := s.recordOwnAddress(ctx, now); moved || err != nil {
		return 0, err
	}
	action := now.Next()
	s.mu.Lock()
	if action.Do != DoStep || action.Step.Op != command.StepAdd && action.Step.Op != command.StepReset {
		s.waiting = action.Waiting // whether a node can be added or reset shows only when it is tried
	}
	s.mu.Unlock()
	switch action.Do {
	case DoStep:
		return 0, s.step(ctx, now, action.Step)
	case DoHandOver:
		_, err := s.Group.TransferTo(ctx, 0)
		return busyTurn, err
	case DoFinish:
		return 0, s.end(ctx, now, command.PlanDone)
	case DoDrop:
		s.Logger.Warn().Str("waiting", string(action.Waiting)).Msgf("raft: membership plan %d (%s) dropped: no step was possible for %s",
			now.State.Plan.ID, KindName(now.State.Plan.Kind), firstStepWithin)
		return 0, s.end(ctx, now, command.PlanDropped)
	case DoWait:
		return busyTurn, nil
	}
	if now.State.Plan != nil {
		return busyTurn, nil
	}
	if began, err := s.beginReturn(ctx, now); began || err != nil {
		return 0, err
	}
	if s.FormatEvery > 0 {
		return min(idleTurn, s.FormatEvery), nil
	}
	return idleTurn, nil
}

// decide waits until nobody else decides; decided lets the next one.
func (s *Service) decide(ctx context.Context) error {
	select {
	case s.deciding <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Service) decided() { <-s.deciding }

// end ends the plan, and removes the rows of whoever is no member.
func (s *Service) end(ctx context.Context, now *Situation, how command.PlanEnd) error {
	change := &command.Membership{Expect: now.State.Index, End: how}
	for _, row := range now.State.Members {
		if _, member := now.node(row.NodeID); !member {
			change.Delete = append(change.Delete, row.NodeID)
		}
	}
	if err := s.State.Change(ctx, change); err != nil {
		return err
	}
	s.Faults("membership.changed")
	s.warnEven(now)
	return nil
}

// warnEven warns once about an even number of voters (cluster 4.3).
func (s *Service) warnEven(now *Situation) {
	voters := now.voters()
	s.mu.Lock()
	warn := len(voters)%2 == 0 && s.evenAt != len(voters)
	s.evenAt = len(voters)
	s.mu.Unlock()
	if warn {
		s.Logger.Warn().Msgf("raft: %d voters: an even number needs a larger majority and survives no more failures", len(voters))
	}
}

// isRefusal tells whether the state has refused a change: somebody else was faster.
func isRefusal(err error) bool {
	_, refused := errors.AsType[*command.Refusal](err)
	return refused
}
