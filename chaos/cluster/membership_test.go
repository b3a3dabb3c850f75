package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestR27OneToFiveAndBack: a single node grows to three and to five voters and shrinks to one, under load.
func TestR27OneToFiveAndBack(t *testing.T) {
	play(t, "R27", stage{nodes: 1, spares: 4}, func(s *scene) {
		s.acked(50)
		from := s.now()
		first := s.Node(1)
		for _, pair := range [][]uint64{{2, 3}, {4, 5}} {
			for _, id := range pair {
				s.must(s.Node(id).Launch())
				s.changed(first, s.AddLearner(id))
			}
			s.changed(first, Promote(pair...))
			s.must(s.AwaitHealthy(formsWithin))
			s.voters(s.Running(), s.idsOf(s.Running()))
			s.acked(50)
		}
		_, err := s.AwaitLevel(formsWithin, s.Running()...)
		if err != nil {
			s.acked(1) // the load goes on, so they are level only now and then
			_, err = s.AwaitLevel(formsWithin, s.Running()...)
		}
		s.must(err)
		s.changed(s.Node(3), SetVoters(1))
		s.voters([]*Node{first}, []uint64{1})
		for _, node := range s.Nodes()[1:] {
			s.must(node.Stop())
		}
		s.acked(50)
		to := s.now()
		s.within("slowestWrite", s.pulse.Slowest(from, to), time.Second, from, to)
	})
}

// changed sends a change of the membership, which must be answered as committed.
func (s *scene) changed(through *Node, change Change) {
	s.Helper()
	if reply := through.Apply(change); reply.Err != nil || reply.Status != 200 {
		s.must(fmt.Errorf("%v through node %d: %v", change, through.ID, reply))
	}
}

// voters waits until each of the nodes shows the voters in its health.
func (s *scene) voters(nodes []*Node, want []uint64) {
	s.Helper()
	for _, node := range nodes {
		s.must(Eventually(formsWithin, fmt.Sprintf("the voters %v on node %d", want, node.ID), func() error {
			health, err := node.Health()
			if err == nil && !slices.Equal(slices.Sorted(slices.Values(health.Raft.Voters)), want) {
				return fmt.Errorf("they are %v", health.Raft.Voters)
			}
			return err
		}))
	}
}

func (s *scene) idsOf(nodes []*Node) []uint64 {
	var ids []uint64
	for _, node := range nodes {
		ids = append(ids, node.ID)
	}
	return ids
}

// planWithin is how long a plan may take after the leader that began it is gone.
const planWithin = 10 * time.Second

// TestR21LeaderKilledDuringAChange: the leader is killed shortly after a change was sent, and the next one finishes it.
func TestR21LeaderKilledDuringAChange(t *testing.T) {
	play(t, "R21", stage{spares: 2, every: 20 * time.Millisecond}, func(s *scene) {
		s.acked(50)
		for _, id := range []uint64{4, 5} {
			s.must(s.Node(id).Launch())
			s.changed(s.leading(), s.AddLearner(id))
		}
		slowest := time.Duration(0)
		for range sized(50, 4) {
			view := s.view()
			change, target := s.chooseChange(view)
			slowest = max(slowest, s.killDuring(change, view.Voters, target))
		}
		s.record.Set("slowestPlan", slowest)
		s.settleAtFive()
	})
}

// chooseChange picks one of the four kinds that makes sense now, and gives the voters that it leads to.
func (s *scene) chooseChange(view View) (Change, []uint64) {
	voters := slices.Sorted(slices.Values(view.Voters))
	if s.random.IntN(4) == 0 {
		// The same process under another name of the same host.
		address := s.Node(3).broker.Address()
		if s.random.IntN(2) == 0 {
			address = strings.Replace(address, "127.0.0.1", "localhost", 1)
		}
		return SetHTTP(3, address), voters
	}
	switch {
	case slices.Equal(voters, []uint64{1, 2, 3}):
		return Promote(4, 5), []uint64{1, 2, 3, 4, 5}
	case s.random.IntN(2) == 0 && len(voters) == 5:
		return Remove(5), []uint64{1, 2, 3, 4}
	default:
		return SetVoters(1, 2, 3), []uint64{1, 2, 3}
	}
}

// killDuring sends a change, kills the leader up to 40 ms later, and waits until the plan is done or was never made. It returns how
// long that took, and leaves all five nodes running and known.
func (s *scene) killDuring(change Change, before, target []uint64) time.Duration {
	s.Helper()
	leader := s.leading()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		leader.Apply(change) // its outcome is unknown when the leader dies
	}()
	from := s.now()
	<-time.After(time.Duration(s.random.Int64N(int64(40 * time.Millisecond))))
	leader.Kill()
	<-answered
	_, err := s.AwaitLeader(formsWithin)
	s.must(err)
	s.must(Eventually(planWithin, fmt.Sprintf("an end of the plan of %v", change), func() error {
		view, err := s.leaderView()
		if err != nil {
			return err
		}
		if err := between(view, before, target); err != nil {
			return err
		}
		if view.Pending() {
			return fmt.Errorf("the plan is %s", view.Plan)
		}
		return nil
	}))
	took := s.now() - from
	s.must(leader.Launch())
	s.known(leader)
	// Whoever has left is taken in again as a learner, so that the next change finds five nodes.
	view := s.view()
	for id := uint64(1); id <= 5; id++ {
		if !slices.Contains(view.Voters, id) && !slices.Contains(view.Learners, id) {
			s.changed(s.leading(), s.AddLearner(id))
		}
	}
	s.acked(10)
	return took
}

// known waits until a node that was started hears a leader again, or has learned that it is no member.
func (s *scene) known(node *Node) {
	s.Helper()
	s.must(Eventually(formsWithin, fmt.Sprintf("node %d knows its place", node.ID), func() error {
		health, err := node.Health()
		if err == nil && health.Raft.LeaderID == 0 && health.Raft.Identity != "removed" {
			return fmt.Errorf("%v", health)
		}
		return err
	}))
}

// between checks that a voter set is the old one or the target, or between the two while the plan is pending.
func between(view View, before, target []uint64) error {
	voters := slices.Sorted(slices.Values(view.Voters))
	switch {
	case slices.Equal(voters, slices.Sorted(slices.Values(before))), slices.Equal(voters, target):
		return nil
	case !view.Pending():
		return fmt.Errorf("the voters are %v without a plan, they were %v and should be %v: %w", voters, before, target, errFinal)
	}
	for _, id := range voters {
		if !slices.Contains(before, id) && !slices.Contains(target, id) {
			return fmt.Errorf("node %d is a voter; they were %v and should be %v: %w", id, before, target, errFinal)
		}
	}
	return nil
}

// settleAtFive makes all five nodes voters, so that each is read at the end.
func (s *scene) settleAtFive() {
	s.Helper()
	s.changed(s.leading(), SetVoters(1, 2, 3, 4, 5))
	s.must(s.AwaitHealthy(formsWithin, s.Nodes()...))
	s.voters(s.Nodes(), []uint64{1, 2, 3, 4, 5})
}

// view asks the leader for the membership, until one answers.
func (s *scene) view() View {
	s.Helper()
	var view View
	s.must(Eventually(formsWithin, "the membership", func() (err error) {
		view, err = s.leaderView()
		return err
	}))
	return view
}

func (s *scene) leaderView() (View, error) {
	leader, err := s.Leader()
	if err != nil {
		return View{}, err
	}
	return leader.Membership()
}
