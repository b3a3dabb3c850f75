package membership

import (
	"cmp"
	"context"
	"errors"
	"time"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/peer"
)

// errElsewhere says that this node does not lead, or not any more: the same request goes to the leader.
var errElsewhere = errors.New("another node leads")

// catchUpWithin is how long a request waits for learners that are live and not caught up (cluster 4.3).
const catchUpWithin = 10 * time.Second

// change carries out a change while this node leads: it makes a plan and waits for its end. Errors: a *Refusal, errElsewhere, and
// that of ctx.
func (s *Service) change(ctx context.Context, r *Request) error {
	s.Logger.Warn().Str("by", r.By).Bool("force", r.Force).Uint64("plan", r.ID).
		Msgf("raft: membership change requested by an operator: %s", r.about())
	patience := time.Now().Add(catchUpWithin)
	asked := false
	for {
		if !s.Group.Leads() {
			return errElsewhere
		}
		state, _ := s.State.Membership()
		if state.EndOf(r.ID) != command.PlanGoesOn {
			return s.await(ctx, r.ID)
		}
		if r.Kind == command.PlanRejoin && r.Node == s.Self().NodeID {
			return s.yield(ctx)
		}
		decision, err := s.tryChange(ctx, r, asked)
		var pause time.Duration
		switch {
		case errors.Is(err, errAsk):
			if err := s.ask(ctx, r); err != nil {
				return err
			}
			asked = true
		case isRefusal(err) || errors.Is(err, errUncommitted):
			pause = busyTurn // somebody else was faster: look again
		case err != nil:
			return err
		case decision.Await != 0:
			return s.await(ctx, decision.Await)
		case decision.CatchUp != nil:
			if refusal := s.stillBehind(decision.CatchUp, patience); refusal != nil {
				return refusal
			}
			pause = busyTurn
		case decision.Plan != nil:
			s.Faults("membership.plan_recorded")
			s.wake()
			return s.await(ctx, decision.Plan.ID)
		default:
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// yield hands leadership over because this node is to be replaced; the next leader goes on with the request.
func (s *Service) yield(ctx context.Context) error {
	_, err := s.Group.TransferTo(ctx, 0)
	switch {
	case errors.Is(err, raftlog.ErrNoTarget):
		return Refuse(NoQuorum, "no other voter is live")
	case errors.Is(err, raftlog.ErrTransferring):
		return Refuse(Busy, "leadership is being handed over")
	}
	return errElsewhere // or the hand-over failed, and the request comes back
}

var (
	// errAsk says that another node must be asked before the change can be decided.
	errAsk = errors.New("another node is to be asked")
	// errUncommitted says that a change of the membership is not committed yet.
	errUncommitted = errors.New("a change of the membership is not committed")
)

// tryChange decides, and writes down what was decided.
func (s *Service) tryChange(ctx context.Context, r *Request, asked bool) (Decision, error) {
	if err := s.decide(ctx); err != nil {
		return Decision{}, err
	}
	defer s.decided()
	now := s.situation()
	if !now.Committed && now.State.Plan == nil {
		return Decision{}, errUncommitted
	}
	if change := s.upkeep(now); change != nil {
		return Decision{}, cmp.Or(s.State.Change(ctx, change), errUncommitted)
	}
	decision, refusal := now.Decide(r)
	if refusal != nil {
		return decision, refusal
	}
	switch {
	case decision.Abort:
		s.Logger.Warn().Msgf("raft: membership plan %d (%s) aborted by an operator", now.State.Plan.ID, KindName(now.State.Plan.Kind))
		return decision, s.end(ctx, now, command.PlanAborted)
	case decision.Plan == nil:
		return decision, nil
	case !asked && r.Raft != "" && !(r.Kind == command.PlanAddress && r.Force):
		return decision, errAsk
	}
	if r.Kind == command.PlanRejoin {
		s.mu.Lock()
		s.replacing = r.ID
		s.mu.Unlock()
	}
	return decision, s.State.Change(ctx, now.begin(decision.Plan))
}

// stillBehind refuses a promotion when waiting for its learners is in vain.
func (s *Service) stillBehind(learners []uint64, patience time.Time) *Refusal {
	now := s.situation()
	for _, id := range learners {
		node, _ := now.node(id)
		switch {
		case !node.Live:
			return Refuse(LearnerBehind, "learner %d is not live", id)
		case time.Now().After(patience):
			return Refuse(LearnerBehind, "learner %d lacks %d entries, at most %d are allowed", id, now.behind(&node), s.PromoteMaxLag)
		}
	}
	return nil
}

// ask asks the node at a new address who it is.
func (s *Service) ask(ctx context.Context, r *Request) error {
	ctx, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	now := s.situation()
	if r.Kind == command.PlanLearner {
		if _, refusal := s.askHello(ctx, now, r.Node, r.Raft); refusal != nil {
			return refusal
		}
		return nil
	}
	row, _ := now.State.Member(r.Node)
	var hello peer.Hello
	err := errors.New("this node has no raft port")
	if s.Peers != nil {
		hello, err = s.Peers.Hello(ctx, r.Node, r.Raft)
	}
	switch {
	case err != nil:
		return Refuse(AddressMismatch, "node %d does not answer at %s: %v", r.Node, r.Raft, err)
	case hello.Incarnation != row.Incarnation:
		return Refuse(AddressMismatch, "another directory of node %d answers at %s", r.Node, r.Raft)
	}
	return nil
}

// await waits for the end of a plan, as this node applies it.
func (s *Service) await(ctx context.Context, id uint64) error {
	for {
		state, changed := s.State.Membership()
		switch state.EndOf(id) {
		case command.PlanDone:
			return nil
		case command.PlanAborted:
			return Refuse(MembershipChanged, "plan %d was aborted", id)
		case command.PlanDropped:
			return Refuse(MembershipChanged, "plan %d was dropped: no step of it was possible for %s", id, firstStepWithin)
		}
		if state.Plan == nil || state.Plan.ID != id {
			return Refuse(MembershipChanged, "plan %d has ended", id)
		}
		if !s.Group.Leads() {
			return errElsewhere
		}
		look := time.NewTimer(idleTurn)
		select {
		case <-changed:
		case <-look.C: // leadership may have gone
		case <-ctx.Done():
			look.Stop()
			return context.Cause(ctx)
		}
		look.Stop()
	}
}

// transfer hands leadership over (cluster 5.4).
func (s *Service) transfer(ctx context.Context, r *Request) (raftlog.Transfer, error) {
	if !s.Group.Leads() {
		return raftlog.Transfer{}, errElsewhere
	}
	now := s.situation()
	if r.Node != now.Self {
		if refusal := s.checkTransfer(now, r.Node); refusal != nil {
			return raftlog.Transfer{}, refusal
		}
	}
	done, err := s.Group.TransferTo(ctx, r.Node)
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, raftlog.ErrNotLeader), errors.Is(err, raftlog.ErrClosed):
		return done, errElsewhere
	case errors.Is(err, raftlog.ErrTransferring):
		return done, Refuse(Busy, "leadership is being handed over already")
	case errors.Is(err, raftlog.ErrNoTarget) && r.Node != 0 && s.othersLive(now):
		return done, Refuse(LearnerBehind, "node %d does not answer", r.Node)
	case errors.Is(err, raftlog.ErrNoTarget):
		return done, Refuse(NoQuorum, "no other voter is live")
	case errors.Is(err, raftlog.ErrTransferFailed):
		return done, Refuse(Timeout, "%v", err)
	}
	return done, err
}

func (s *Service) checkTransfer(now *Situation, to uint64) *Refusal {
	if plan := now.State.Plan; plan != nil && plan.Kind != command.PlanRejoin {
		return Refuse(InFlight, "plan %d (%s) is pending", plan.ID, KindName(plan.Kind))
	}
	node, member := now.node(to)
	switch {
	case to == 0:
	case !member:
		return Refuse(NotAMember, "node %d is no member", to)
	case !node.Voter:
		return Refuse(LearnerBehind, "node %d is no voter", to)
	case node.Live && node.Heard && now.behind(&node) > now.MaxLag:
		return Refuse(LearnerBehind, "node %d lacks %d entries", to, now.behind(&node))
	}
	return nil
}

func (s *Service) othersLive(now *Situation) bool {
	for _, node := range now.Nodes {
		if node.Voter && node.Live && node.ID != now.Self {
			return true
		}
	}
	return false
}
