package membership

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Draw draws the id of a request.
func Draw() uint64 {
	var id [8]byte
	rand.Read(id[:])                                  //nolint:errcheck // never fails: it ends the process instead
	return max(binary.BigEndian.Uint64(id[:])>>11, 1) // whole in the numbers of JSON
}

const (
	// viewWithin is how long the leader may take to describe the membership, before a follower shows its own view.
	viewWithin = 2 * time.Second
	// leaderWithin is how long a request waits for a leader to be known, or to be reached.
	leaderWithin = 5 * time.Second
	// relayTurn is the pause before the leader is looked for again.
	relayTurn = 50 * time.Millisecond
)

// Serve answers a request, through the leader when that is another node.
func (s *Service) Serve(ctx context.Context, r Request) Answer {
	if refusal := r.Check(); refusal != nil {
		return refusal.Answer()
	}
	if r.Call == CallView {
		return s.serveView(ctx, &r)
	}
	var failing time.Time // since when; a request may have waited long before
	var failed uint64     // which leader
	for {
		leader := s.Group.Status().LeaderID
		answer, err := s.serveOnce(ctx, leader, &r)
		if err == nil {
			return answer
		}
		if failing.IsZero() || failed != leader {
			failing, failed = time.Now(), leader
		}
		switch impatient := time.Since(failing) > leaderWithin; {
		case ctx.Err() != nil && failed == 0:
			return Refuse(NoLeader, "no leader is known").Answer()
		case ctx.Err() != nil:
			return Refuse(Timeout, "the change goes on: read the membership and repeat").Answer()
		case impatient && leader != 0:
			return Refuse(LeaderUnreachable, "the leader, node %d, cannot be reached: %v", leader, err).Answer()
		case impatient:
			return Refuse(NoLeader, "no leader is known").Answer()
		}
		select {
		case <-time.After(relayTurn):
		case <-ctx.Done():
		}
	}
}

// Relayed answers the request of another node. An empty answer says that this node does not lead.
func (s *Service) Relayed(ctx context.Context, r Request) Answer {
	if refusal := r.Check(); refusal != nil {
		return refusal.Answer()
	}
	answer, err := s.lead(ctx, &r)
	if err != nil {
		return Answer{}
	}
	return answer
}

// serveOnce answers a request here or through the leader. An error says that neither was possible, now.
func (s *Service) serveOnce(ctx context.Context, leader uint64, r *Request) (Answer, error) {
	switch {
	case s.Group.Leads():
		return s.lead(ctx, r)
	case leader == 0 || leader == s.Self().NodeID || s.Peers == nil:
		return Answer{}, errElsewhere
	}
	if deadline, bounded := ctx.Deadline(); bounded {
		r.LeftMs = max(time.Until(deadline).Milliseconds(), 1)
	}
	answer, err := s.Peers.Relay(ctx, leader, r)
	if err == nil && answer.Status == 0 {
		err = errElsewhere
	}
	return answer, err
}

// lead answers a request while this node leads. An error says that it does not.
func (s *Service) lead(ctx context.Context, r *Request) (Answer, error) {
	switch r.Call {
	case CallView:
		if !s.Group.Leads() {
			return Answer{}, errElsewhere
		}
		return s.viewAnswer(), nil
	case CallTransfer:
		done, err := s.transfer(ctx, r)
		if err != nil {
			return refused(err)
		}
		return answer(200, struct {
			OK   bool   `json:"ok"`
			From uint64 `json:"from"`
			To   uint64 `json:"to"`
			Term uint64 `json:"term"`
			Ms   int64  `json:"ms"`
		}{true, done.From, done.To, done.Term, done.Took.Milliseconds()}), nil
	}
	if err := s.change(ctx, r); err != nil {
		return refused(err)
	}
	return answer(200, struct {
		OK         bool  `json:"ok"`
		Membership *View `json:"membership"`
	}{true, s.View()}), nil
}

// refused makes an answer of an error; those that say that another node leads stay errors.
func refused(err error) (Answer, error) {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Answer(), nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Refuse(Timeout, "the change goes on: read the membership and repeat").Answer(), nil
	}
	return Answer{}, fmt.Errorf("%w: %w", errElsewhere, err)
}

func (s *Service) serveView(ctx context.Context, r *Request) Answer {
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	if answer, err := s.serveOnce(ctx, s.Group.Status().LeaderID, r); err == nil {
		return answer
	}
	return s.viewAnswer()
}

func (s *Service) viewAnswer() Answer {
	return answer(200, struct {
		Engine     string `json:"engine"`
		Membership *View  `json:"membership"`
	}{"raft", s.View()})
}
