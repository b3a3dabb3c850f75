package raftlog

import (
	"time"

	"queen/raftlog/command"
)

// stallTime is how long entries may be in flight although the log has nothing that is not applied (cluster 5, rule 3).
const stallTime = 5 * time.Second

// flight is an entry that is proposed and not yet settled: seen applied, or its term ended.
type flight struct {
	number uint64
	items  []pending
}

// lead begins a term. Called by the leadership goroutine.
func (p *proposer) lead(term uint64) {
	p.mu.Lock()
	p.requeueLocked()
	p.term, p.number, p.appended, p.ready, p.held = term, 0, 0, false, false
	p.changedLocked()
	p.mu.Unlock()
	p.signal()
}

// follow ends a term. Called by the leadership goroutine.
func (p *proposer) follow() {
	p.mu.Lock()
	p.requeueLocked()
	p.term, p.ready, p.held = 0, false, false
	p.changedLocked()
	p.mu.Unlock()
	p.signal()
	if p.toLeader != nil {
		p.toLeader()
	}
}

// requeueLocked puts the commands in flight back to the front of the queue. Nobody knows whether they are in the log.
func (p *proposer) requeueLocked() {
	var items []pending
	for i := range p.flight {
		items = append(items, p.flight[i].items...)
	}
	p.flight, p.flying = nil, 0
	for i := range items {
		items[i].attempted = true
	}
	p.queue.pushFront(items)
}

// applied settles an entry. Called by the apply goroutine, in log order.
func (p *proposer) applied(term, number uint64) {
	p.mu.Lock()
	settled, slow := p.appliedLocked(term, number)
	p.mu.Unlock()
	p.tellSlow(slow)
	for i := range settled {
		settled[i].settle() // may let others in, which come here
	}
}

// slowCommand is a command that took longer than Options.SlowCommand from its arrival until it was applied.
type slowCommand struct {
	name string
	took time.Duration
}

// appliedLocked is applied. It returns the commands that have room to give back, and those that were slow.
func (p *proposer) appliedLocked(term, number uint64) (rooms []pending, slow []slowCommand) {
	if term != p.term {
		return nil, nil
	}
	settled, now := 0, p.options.Clock.Monotonic()
	var lost []pending
	for settled < len(p.flight) && p.flight[settled].number <= number {
		if entry := &p.flight[settled]; entry.number < number {
			// The library refused it: entries of a term are applied in the order in which they were proposed.
			lost = append(lost, entry.items...)
		} else {
			rooms = appendRooms(rooms, entry.items)
			slow = p.appendSlow(slow, entry.items, now)
		}
		p.flying -= len(p.flight[settled].items)
		settled++
	}
	rest := copy(p.flight, p.flight[settled:])
	clear(p.flight[rest:])
	p.flight = p.flight[:rest]
	for i := range lost {
		lost[i].attempted = true
	}
	p.queue.pushFront(lost)
	if !p.ready {
		p.ready = true
		p.changedLocked()
	}
	p.idleLocked()
	if p.queue.len() > 0 && p.room() {
		p.signal()
	}
	return rooms, slow
}

// slowLogEvery is how often a slow command gets a line in the log: on a slow disk all of them are.
const slowLogEvery = time.Second

// tellSlow reports slow commands. Called by the apply goroutine.
func (p *proposer) tellSlow(slow []slowCommand) {
	for _, was := range slow {
		p.options.observer().CommandSlow(was.name, was.took)
	}
	if now := p.options.Clock.Monotonic(); len(slow) > 0 && now-p.slowLogged >= slowLogEvery {
		p.slowLogged = now
		p.logger.Warn().Str("command", slow[0].name).Int64("ms", slow[0].took.Milliseconds()).Int("of_entry", len(slow)).
			Msg("raft: slow command")
	}
}

func (p *proposer) appendSlow(slow []slowCommand, items []pending, now time.Duration) []slowCommand {
	for i := range items {
		took := now - items[i].arrived
		if items[i].arrived > 0 && p.options.SlowCommand > 0 && took > p.options.SlowCommand {
			slow = append(slow, slowCommand{command.ItemOp(items[i].encoded).String(), took})
		}
	}
	return slow
}

func appendRooms(rooms, items []pending) []pending {
	for i := range items {
		if items[i].release != nil {
			rooms = append(rooms, items[i])
		}
	}
	return rooms
}

// noteAppended is called by the library's main goroutine when this node's log has the entry. It says whether the entry is
// of this node's own term.
func (p *proposer) noteAppended(term, number uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term != p.term {
		return false
	}
	p.appended = max(p.appended, number)
	if p.queue.len() > 0 && p.room() {
		p.signal()
	}
	return true
}

// restartLocked proposes again what is in flight, when the log has nothing that is not applied: the library lost it, which
// nothing else would ever tell.
func (p *proposer) restartLocked(now time.Duration) {
	if p.term == 0 || len(p.flight) == 0 || now-p.lastProposed < stallTime || !p.logSettled() {
		return
	}
	p.logger.Warn().Uint64("term", p.term).Int("entries", len(p.flight)).
		Msg("this node still leads: the pipeline restarts from the log's end")
	p.requeueLocked()
	p.appended = p.number
	if !p.ready {
		p.number, p.appended = 0, 0
	}
	p.signal()
}
