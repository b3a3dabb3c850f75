package api

import (
	"sync"

	"github.com/google/uuid"

	"queen/actors"
	"queen/httpfront/api/history"
	"queen/raftlog/command"
)

// countPush counts a push for the queues it went to. Most pushes go to one.
func (a *API) countPush(tenant uuid.UUID, groups []command.PushGroup, results []command.PushGroupResult) {
	stored := func(i int) uint64 {
		if results[i].Refusal != nil {
			return 0
		}
		return uint64(groups[i].Count)
	}
	messages, same := uint64(0), 0
	for same < len(groups) && groups[same].Queue == groups[0].Queue {
		messages += stored(same)
		same++
	}
	if same == len(groups) {
		a.history.Pushed(tenant, groups[0].Queue, messages)
		return
	}
	byQueue := map[string]uint64{groups[0].Queue: messages}
	for i := same; i < len(groups); i++ {
		byQueue[groups[i].Queue] += stored(i)
	}
	for queue, messages := range byQueue {
		a.history.Pushed(tenant, queue, messages)
	}
}

// countPop counts what a pop got, by queue: batches of one queue stand together. Without batches it is an empty pop of the
// queue that was asked, if there is one. It returns the number of messages.
func (a *API) countPop(tenant uuid.UUID, asked string, batches []command.ClaimedBatch, delivered []history.Delivery) (messages int) {
	if len(batches) == 0 {
		if a.broker().Directory().Queue(tenant, asked) != nil {
			a.history.Popped(tenant, asked, history.Delivery{})
		}
		return 0
	}
	var sum history.Delivery
	for i := range batches {
		sum.Messages += delivered[i].Messages
		sum.LagMicros += delivered[i].LagMicros
		sum.LagMaxMicros = max(sum.LagMaxMicros, delivered[i].LagMaxMicros)
		if claimed := &batches[i]; claimed.DeliverLastOnly && claimed.Attempt == 1 {
			sum.Conflated += claimed.LastOffset - claimed.FirstOffset
		}
		if i+1 == len(batches) || batches[i+1].Queue != batches[i].Queue {
			a.history.Popped(tenant, batches[i].Queue, sum)
			messages += int(sum.Messages)
			sum = history.Delivery{}
		}
	}
	return messages
}

// settled is what acks did to one queue.
type settled struct{ success, failed, pushed uint64 }

// settle adds the verdicts of a part.
func (s *settled) settle(verdicts []command.AckVerdict) {
	for i := range verdicts {
		if verdicts[i].Error == command.AckOK {
			s.success++
		} else {
			s.failed++
		}
	}
}

// countAck counts an ack request for the queues of its partitions. Most requests have one part.
func (a *API) countAck(tenant uuid.UUID, parts []command.AckPart, results []command.AckPartResult) {
	if len(parts) == 1 {
		if queue := a.queueOf(tenant, parts[0].Partition); queue != nil {
			var s settled
			s.settle(results[0].Items)
			a.history.Acked(tenant, queue.Name, s.success, s.failed)
		}
		return
	}
	byQueue := map[string]*settled{}
	for i := range parts {
		if queue := a.queueOf(tenant, parts[i].Partition); queue != nil {
			settledIn(byQueue, queue.Name).settle(results[i].Items)
		}
	}
	for queue, s := range byQueue {
		a.history.Acked(tenant, queue, s.success, s.failed)
	}
}

func settledIn(byQueue map[string]*settled, queue string) *settled {
	if byQueue[queue] == nil {
		byQueue[queue] = &settled{}
	}
	return byQueue[queue]
}

// countTransaction counts a committed transaction for the queues it touched and returns the messages and acks in it.
func (a *API) countTransaction(call *command.Transaction, result *command.TransactionResult) (pushes, acks int) {
	byQueue := map[string]*settled{}
	for i := range call.Pushes {
		pushes += int(call.Pushes[i].Count)
		settledIn(byQueue, call.Pushes[i].Queue).pushed += uint64(call.Pushes[i].Count)
	}
	for i := range call.Acks {
		acks += len(call.Acks[i].Items)
		if queue := a.queueOf(call.Tenant, call.Acks[i].Partition); queue != nil {
			settledIn(byQueue, queue.Name).settle(result.Acks[i].Items)
		}
	}
	for queue, s := range byQueue {
		a.history.Transacted(call.Tenant, queue, s.pushed, s.success)
	}
	return pushes, acks
}

// ownersRemembered bounds the partitions whose queue is remembered, 16 bytes each and as much again for the map.
const ownersRemembered = 1 << 17

// owners remembers the queues of partitions. Neither changes in the life of a partition, and ids are never used again.
type owners struct {
	mu       sync.RWMutex
	queueIDs map[uint64]uint64
}

func (o *owners) get(partition uint64) (queueID uint64, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	queueID, ok = o.queueIDs[partition]
	return queueID, ok
}

func (o *owners) put(partition, queueID uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queueIDs) >= ownersRemembered {
		clear(o.queueIDs)
	}
	o.queueIDs[partition] = queueID
}

// queueOf finds the queue of a partition of a tenant; nil when there is none any more.
func (a *API) queueOf(tenant uuid.UUID, partitionID uint64) *actors.QueueView {
	queue := a.ownerOf(partitionID)
	if queue == nil || queue.Tenant != tenant {
		return nil
	}
	return queue
}

// ownerOf finds the queue of a partition of any tenant.
func (a *API) ownerOf(partitionID uint64) *actors.QueueView {
	queueID, ok := a.owners.get(partitionID)
	if !ok {
		if queueID, ok = a.broker().PartitionQueue(partitionID); !ok {
			return nil
		}
		a.owners.put(partitionID, queueID)
	}
	return a.broker().Directory().QueueByID(queueID)
}
