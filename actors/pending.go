package actors

import (
	"sync"

	"queen/raftlog/command"
)

// pending are the requests of this node that wait for their command to be applied. An entry is found by its id, so no
// result travels between nodes (architecture 1.5). A request is in it exactly as long as it is not settled.
type pending struct {
	origin uint64
	issued *issued
	shards [pendingShards]pendingShard
}

const pendingShards = 16

type pendingShard struct {
	mu      sync.Mutex
	waiting map[command.RequestID]func(command.Result)
}

// newPending makes the requests of an origin. Its number is drawn at every start of a node, so that no id comes twice.
func newPending(origin uint64) *pending {
	p := &pending{origin: origin, issued: newIssued()}
	for i := range p.shards {
		p.shards[i].waiting = map[command.RequestID]func(command.Result){}
	}
	return p
}

func (p *pending) shard(id command.RequestID) *pendingShard {
	return &p.shards[id.Sequence%pendingShards]
}

// open gives a new request its id and registers what is to be called with the result; it must not block. answeredBelow is what
// the command tells of this node's requests. Every request that is opened must be resolved or removed in the end.
func (p *pending) open(done func(command.Result)) (id command.RequestID, answeredBelow uint64, err error) {
	sequence, answeredBelow, err := p.issued.mint()
	if err != nil {
		return command.RequestID{}, 0, err
	}
	id = command.RequestID{Origin: p.origin, Sequence: sequence}
	p.add(id, done)
	return id, answeredBelow, nil
}

// add registers a request that has its id.
func (p *pending) add(id command.RequestID, done func(command.Result)) {
	s := p.shard(id)
	s.mu.Lock()
	s.waiting[id] = done
	s.mu.Unlock()
}

// worthProposing tells whether somebody still waits for the outcome of a request. A command that was applied, or whose caller has
// gone, must not be proposed again.
func (p *pending) worthProposing(id command.RequestID) bool {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waiting := s.waiting[id]
	return waiting
}

// remove forgets a request whose command is dropped or whose caller has gone; false when its result has been handed over
// already.
func (p *pending) remove(id command.RequestID) bool {
	_, waiting := p.take(id)
	return waiting
}

// resolve hands a result to whoever waits for it here, at most once.
func (p *pending) resolve(id command.RequestID, result command.Result) {
	if done, waiting := p.take(id); waiting {
		done(result)
	}
}

// take takes a request out, which settles it: whoever is answered next sees that.
func (p *pending) take(id command.RequestID) (done func(command.Result), waiting bool) {
	s := p.shard(id)
	s.mu.Lock()
	done, waiting = s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if waiting && id.Origin == p.origin {
		p.issued.settle(id.Sequence)
	}
	return done, waiting
}
