package api

import (
	"queen/actors"
	"queen/actors/machine/catalog"
	"queen/actors/machine/partition"
	"queen/actors/query"
)

// The statuses of a message in the browser (messaging 11.1).
const (
	statusPending    = "pending"
	statusProcessing = "processing"
	statusCompleted  = "completed"
	statusDeadLetter = "dead_letter"
)

// openSource reads what the rows of a partition show besides its messages.
func openSource(q *query.Reads, queue *actors.QueueView, identity *catalog.Partition) (*query.Source, error) {
	head, err := partition.ReadHead(q.View(), queue.ID, identity.ID)
	if err != nil {
		return nil, err
	}
	source := &query.Source{Queue: queue, Partition: identity, Head: head, Dead: q.DeadPlaces(identity.ID)}
	for _, group := range sortedGroups(queue) {
		standing, err := q.Standing(group, identity.ID, &head)
		if err != nil {
			return nil, err
		}
		if standing != nil {
			source.Standings = append(source.Standings, standing)
		}
	}
	return source, nil
}

// judge tells what the groups have made of messages (messaging 11.1). It needs their offsets only.
type judge struct {
	standings []*query.Standing
	groups    int
	dead      map[uint64]query.Dead
}

// newJudge judges the messages [first, end) of a partition.
func newJudge(source *query.Source, first, end uint64) (*judge, error) {
	dead, err := source.Dead.In(first, end)
	if err != nil {
		return nil, err
	}
	j := &judge{standings: source.Standings, dead: dead}
	for _, group := range source.Queue.Groups {
		if !group.QueueMode() {
			j.groups++
		}
	}
	return j, nil
}

// verdict is what a row shows of it.
type verdict struct {
	status string
	// queueStatus is empty when queue mode has no cursor.
	queueStatus    string
	bus            busStatus
	leaseExpiresAt micros
}

// status is the status of a message alone.
func (j *judge) status(offset uint64) string {
	v := j.verdict(offset)
	return v.status
}

func (j *judge) verdict(offset uint64) verdict {
	letter, dead := j.dead[offset]
	v := verdict{bus: busStatus{TotalGroups: j.groups}}
	named, leased, queuePassed := 0, false, false
	for _, s := range j.standings {
		past := offset < s.Cursor
		covered := !past && s.Leased > 0 && offset < s.Cursor+s.Leased
		if covered {
			leased = true
			v.leaseExpiresAt = micros(s.ExpiresMicros)
		}
		if s.Group.QueueMode() {
			queuePassed = past
			v.queueStatus = statusOf(letter.QueueMode, covered, past)
			continue
		}
		named++
		if past {
			v.bus.ConsumedBy++
		}
	}
	done := queuePassed
	if named > 0 {
		done = v.bus.ConsumedBy == named
	}
	v.status = statusOf(dead, leased, done)
	return v
}

func statusOf(dead, leased, done bool) string {
	switch {
	case dead:
		return statusDeadLetter
	case leased:
		return statusProcessing
	case done:
		return statusCompleted
	default:
		return statusPending
	}
}
