package actors

import (
	"sync"

	"queen/raftlog/command"
)

// pending are the requests of this node that wait for their command to be applied. An entry is found by its id, so no
// result travels between nodes (architecture 1.5).
type pending struct {
	shards [pendingShards]pendingShard
}

const pendingShards = 16

type pendingShard struct {
	mu      sync.Mutex
	waiting map[command.RequestID]func(command.Result)
}

func newPending() *pending {
	p := &pending{}
	for i := range p.shards {
		p.shards[i].waiting = map[command.RequestID]func(command.Result){}
	}
	return p
}

func (p *pending) shard(id command.RequestID) *pendingShard {
	return &p.shards[id.Sequence%pendingShards]
}

// add registers what is to be called with the result; it must not block. The number of entries is bounded by the number
// of requests that are being served.
func (p *pending) add(id command.RequestID, done func(command.Result)) {
	s := p.shard(id)
	s.mu.Lock()
	s.waiting[id] = done
	s.mu.Unlock()
}

// remove forgets a request whose caller has gone; false when its result has been handed over already.
func (p *pending) remove(id command.RequestID) bool {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waiting := s.waiting[id]
	delete(s.waiting, id)
	return waiting
}

// replace changes what is called with the result; false when it has been handed over already.
func (p *pending) replace(id command.RequestID, done func(command.Result)) bool {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waiting := s.waiting[id]
	if waiting {
		s.waiting[id] = done
	}
	return waiting
}

// resolve hands a result to whoever waits for it here, at most once.
func (p *pending) resolve(id command.RequestID, result command.Result) {
	s := p.shard(id)
	s.mu.Lock()
	done := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if done != nil {
		done(result)
	}
}
