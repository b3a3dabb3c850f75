package membership

import (
	"context"
	"errors"
	"reflect"
	"time"

	"queen/raftlog"
	"queen/raftlog/command"
	"queen/raftlog/peer"
)

const (
	// stepWithin bounds one try of a step: nobody else can decide anything meanwhile. A change that is begun goes on all the same.
	stepWithin = 3 * time.Second
	// helloWithin is how long a node that is to be added may take to answer its operator (cluster 4.3).
	helloWithin = 10 * time.Second
)

// step makes one change of one server.
func (s *Service) step(ctx context.Context, now *Situation, step command.PlanStep) error {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	plan := now.State.Plan
	node, _ := now.node(step.Node)
	change := raftlog.MembershipChange{ID: step.Node, Address: node.Raft, Against: now.Index}
	switch step.Op {
	case command.StepAdd:
		prepared, err := s.prepare(ctx, now)
		if err != nil || !prepared {
			return err
		}
		change.Op, change.Address = raftlog.AddLearner, plan.Raft
	case command.StepPromote:
		change.Op = raftlog.AddVoter
	case command.StepDemote:
		change.Op = raftlog.Demote
	case command.StepRemove:
		change.Op = raftlog.Remove
	case command.StepReset:
		return s.reset(ctx, now, &node)
	case command.StepAddress:
		if recorded, err := s.recordAddress(ctx, now, &node); recorded || err != nil {
			return err
		}
		if change.Op = raftlog.AddLearner; node.Voter {
			change.Op = raftlog.AddVoter
		}
		change.Address = plan.Raft
	}
	if err := s.Group.ChangeMembership(ctx, change); err != nil {
		return err
	}
	s.Faults("membership.step_committed")
	if step.Op == command.StepDemote {
		s.demoted(plan)
	}
	if step.Op == command.StepAdd {
		s.Faults("membership.learner_added")
		s.mu.Lock()
		s.added[step.Node] = time.Now()
		s.mu.Unlock()
	}
	after := s.situation()
	s.Logger.Warn().Uint64("node", step.Node).Str("op", opName(step.Op)).Uints64("voters", after.voters()).Uint64("index", after.Index).
		Msgf("raft: membership change committed plan=%d", plan.ID)
	return nil
}

// prepare writes the row of a node that is to be added and tells it to which cluster it belongs. It returns true when that is
// done; after it has written the row, the situation is another one.
func (s *Service) prepare(ctx context.Context, now *Situation) (bool, error) {
	plan := now.State.Plan
	hello, refusal := s.askHello(ctx, now, plan.Node, plan.Raft)
	if refusal != nil {
		return false, s.unreachable(ctx, now, refusal)
	}
	row := command.Member{NodeID: plan.Node, Raft: plan.Raft, HTTP: plan.HTTP, Incarnation: hello.Incarnation}
	describe(&row, &hello)
	old, _ := now.State.Member(plan.Node)
	row.AddedIndex = old.AddedIndex
	if !reflect.DeepEqual(row, old) {
		return false, s.State.Change(ctx, &command.Membership{Expect: now.State.Index, Put: []command.Member{row}})
	}
	if hello.ClusterID == "" {
		if err := s.Peers.Adopt(ctx, plan.Node, plan.Raft); err != nil {
			return false, s.unreachable(ctx, now, err)
		}
	}
	return true, nil
}

// unreachable notes that a plan waits for the node that it adds, and drops it when it has waited for too long.
func (s *Service) unreachable(ctx context.Context, now *Situation, why error) error {
	action := now.wait(LearnerUnreachable)
	s.mu.Lock()
	s.waiting = action.Waiting
	s.mu.Unlock()
	if action.Do == DoDrop {
		s.Logger.Warn().Err(why).Msgf("raft: membership plan %d (%s) dropped: no step was possible for %s",
			now.State.Plan.ID, KindName(now.State.Plan.Kind), firstStepWithin)
		return s.end(ctx, now, command.PlanDropped)
	}
	return why
}

// askHello asks a node that is to be added who it is, and whether it may be (cluster 4.2).
func (s *Service) askHello(ctx context.Context, now *Situation, id uint64, address string) (peer.Hello, *Refusal) {
	if s.Peers == nil {
		return peer.Hello{}, Refuse(Retry, "this node has no raft port: start it with QUEEN_RAFT_PEERS naming itself")
	}
	var hello peer.Hello
	for {
		var err error
		if hello, err = s.Peers.Hello(ctx, id, address); err == nil {
			break
		}
		refused, ok := errors.AsType[*peer.RefusedError](err)
		if ok && (refused.Reason == string(peer.Foreign) || refused.Reason == string(peer.TooOld)) {
			return hello, Refuse(Invalid, "node %d: %v", id, err)
		}
		select {
		case <-time.After(failedTurn):
		case <-ctx.Done():
			return hello, Refuse(Retry, "node %d does not answer at %s: %v", id, address, err)
		}
	}
	self := s.Self()
	switch {
	case hello.ClusterID != "" && (hello.ClusterID != self.ClusterID || hello.ClusterEpoch != self.ClusterEpoch):
		return hello, Refuse(Invalid, "node %d has data of another cluster: clusterId=%s epoch=%d", id, hello.ClusterID, hello.ClusterEpoch)
	case hello.Kinds < now.State.Format:
		return hello, Refuse(Invalid, "node %d reads format %d, the cluster writes %d", id, hello.Kinds, now.State.Format)
	case hello.Groups != self.Groups:
		return hello, Refuse(Invalid, "node %d runs %d groups, the cluster %d", id, hello.Groups, self.Groups)
	}
	return hello, nil
}

// recordAddress writes the new addresses of a plan into the members table, if they are not there; else false.
func (s *Service) recordAddress(ctx context.Context, now *Situation, node *Node) (bool, error) {
	plan := now.State.Plan
	row, known := now.State.Member(node.ID)
	if !known {
		return false, errors.New("the members table has no row of the node yet")
	}
	before := row
	if plan.Raft != "" {
		row.Raft = plan.Raft
	}
	if plan.HTTP != "" {
		row.HTTP = plan.HTTP
	}
	if row.Raft == before.Raft && row.HTTP == before.HTTP {
		return false, nil
	}
	return true, s.State.Change(ctx, &command.Membership{Expect: now.State.Index, Put: []command.Member{row}})
}
