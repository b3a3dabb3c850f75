package timer

import (
	"github.com/google/uuid"

	"queen/raftlog/command"
)

// Append is what a command pushes for one partition: the messages of timers in the order in which they fire. No txid stands
// in it twice, so that the window of the queue alone decides what is a duplicate (messaging 4.6).
type Append struct {
	Tenant uuid.UUID
	Group  command.PushGroup
	// Items are the positions, in the command, of the timers that the messages are from.
	Items []int
}

// appends gathers what a command pushes.
type appends struct {
	list []Append
	// open is the last Append of a partition.
	open map[destination]*openAppend
}

type destination struct {
	tenant           uuid.UUID
	queue, partition string
}

type openAppend struct {
	at    int
	txids map[string]struct{}
}

func (a *appends) add(item int, row *Row, payload []byte, encrypted bool) {
	to := destination{row.Tenant, row.Queue, row.Partition}
	open := a.open[to]
	if open != nil {
		if _, repeated := open.txids[row.Txid]; repeated {
			open = nil
		}
	}
	if open == nil {
		open = &openAppend{at: len(a.list), txids: map[string]struct{}{}}
		if a.open == nil {
			a.open = map[destination]*openAppend{}
		}
		a.open[to] = open
		a.list = append(a.list, Append{Tenant: row.Tenant, Group: command.PushGroup{Queue: row.Queue, Partition: row.Partition}})
	}
	open.txids[row.Txid] = struct{}{}
	into := &a.list[open.at]
	into.Group.Count++
	into.Group.Chunk = command.AppendMessage(into.Group.Chunk, row.message(payload, encrypted))
	into.Items = append(into.Items, item)
}

// message is the message of a timer.
func (row *Row) message(payload []byte, encrypted bool) *command.Message {
	return &command.Message{
		ID: row.MessageID, Txid: []byte(row.Txid), ProducerSub: []byte(row.ProducerSub), Payload: payload, Encrypted: encrypted,
	}
}
