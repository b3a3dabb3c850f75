package actors

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// A call over many partitions is split at its groups, which are independent, into commands of this size, so that one
// entry stays within a store transaction (architecture 7).
const (
	splitKeys  = 4096
	splitBytes = 1 << 20
)

// Push stores groups of messages and returns one result per group, in order. A group that fits into no entry gets a
// refusal of its own.
func (b *Broker) Push(tenant command.Tenant, groups []command.PushGroup, span Span) ([]command.PushGroupResult, error) {
	results := make([]command.PushGroupResult, 0, len(groups))
	calls := splitCalls(groups, weighPush, func(part []command.PushGroup) Proposal {
		push := &command.Push{Tenant: tenant, Groups: part}
		return Proposal{Item: command.Item{Command: push}, Span: span, Riders: b.riders(push)}
	})
	err := b.runAll(calls, span.Deadline, func(call *splitCall, result command.Result, err error) error {
		if errors.Is(err, ErrTooLarge) {
			for range call.parts {
				results = append(results, command.PushGroupResult{Refusal: &command.Refusal{
					Code: "too_large", Text: "the messages for one partition exceed one log entry",
				}})
			}
			return nil
		}
		if err == nil {
			results = append(results, result.(*command.PushResult).Groups...)
		}
		return err
	})
	return results, err
}

// Ack settles the parts of an ack call and returns one result per part, in order.
func (b *Broker) Ack(tenant command.Tenant, group string, parts []command.AckPart, span Span) ([]command.AckPartResult, error) {
	results := make([]command.AckPartResult, 0, len(parts))
	calls := splitCalls(parts, weighAckPart, func(part []command.AckPart) Proposal {
		return Proposal{Item: command.Item{Command: &command.Ack{Tenant: tenant, Group: group, Parts: part}}, Span: span}
	})
	err := b.runAll(calls, span.Deadline, func(call *splitCall, result command.Result, err error) error {
		if errors.Is(err, ErrTooLarge) {
			// Nothing else makes an ack so large: the parts of a call are split.
			for range call.parts {
				results = append(results, command.AckPartResult{
					Items: refuseAll(&parts[len(results)], command.AckTooManyDeadLetters),
				})
			}
			return nil
		}
		if err == nil {
			results = append(results, result.(*command.AckResult).Parts...)
		}
		return err
	})
	return results, err
}

// splitCall is one command of a call.
type splitCall struct {
	proposal Proposal
	parts    int
	done     chan outcome
	id       command.RequestID
}

// weight is what a part of a call writes, and its own bytes.
type weight struct{ keys, bytes, payload int }

func weighPush(g []command.PushGroup) weight {
	keys, bytes := weighGroups(g)
	return weight{keys, bytes, len(g[0].Chunk)}
}

func weighAckPart(p []command.AckPart) weight {
	keys, bytes := weighParts(p)
	payload := 0
	for i := range p[0].Items {
		payload += len(p[0].Items[i].Txid) + len(p[0].Items[i].Error)
	}
	return weight{keys, bytes, payload}
}

// splitCalls packs the parts of a call into as few commands as their size allows; a part that is larger goes alone.
func splitCalls[T any](parts []T, weigh func([]T) weight, propose func([]T) Proposal) []splitCall {
	calls := make([]splitCall, 0, 1)
	for len(parts) > 0 {
		n, sum := 0, weight{}
		for n < len(parts) {
			w := weigh(parts[n : n+1])
			if n > 0 && (sum.keys+w.keys > splitKeys || sum.bytes+w.bytes > splitBytes || sum.payload+w.payload > splitBytes) {
				break
			}
			sum = weight{sum.keys + w.keys, sum.bytes + w.bytes, sum.payload + w.payload}
			n++
		}
		calls = append(calls, splitCall{proposal: propose(parts[:n]), parts: n})
		parts = parts[n:]
	}
	return calls
}

// splitWindow is how many commands of one call are on their way at a time, so that the commands of others find their way
// in between.
const splitWindow = 2

// runAll proposes the commands of a call, in order, and hands their outcomes to each, in order. The first error ends it:
// what has not been proposed by then is not.
func (b *Broker) runAll(calls []splitCall, deadline time.Time, each func(*splitCall, command.Result, error) error) error {
	var failure error
	proposed := 0
	for i := range calls {
		for ; failure == nil && proposed < min(i+splitWindow, len(calls)); proposed++ {
			call := &calls[proposed]
			call.done = make(chan outcome, 1)
			call.id = b.submit(call.proposal, call.done)
		}
		if i == proposed {
			break
		}
		result, err := b.await(calls[i].id, deadline, calls[i].done)
		if failure == nil {
			failure = each(&calls[i], result, err)
		}
	}
	return failure
}

// partitionID looks a partition up by name; 0 when it does not exist here yet.
func (b *Broker) partitionID(queueID uint64, name string) uint64 {
	view := b.store.View()
	defer view.Close()
	return partitionIDIn(view, queueID, name)
}

func partitionIDIn(r store.Reader, queueID uint64, name string) uint64 {
	row, err := r.Get(layout.PartitionName(queueID, name))
	if err != nil || row == nil {
		return 0
	}
	p, err := catalog.DecodePartitionName(queueID, name, row)
	if err != nil {
		return 0
	}
	return p.ID
}

// PartitionByUUID finds the id of a partition by the UUID that console reads show; ok is false when there is none. It is a
// linearizable read.
func (b *Broker) PartitionByUUID(ctx context.Context, wanted uuid.UUID) (id uint64, ok bool, err error) {
	view, err := b.View(ctx)
	if err != nil {
		return 0, false, err
	}
	defer view.Close()
	row, err := view.Get(layout.PartitionUUID(wanted))
	if err != nil || len(row) != 8 {
		return 0, false, err
	}
	return layout.LastNumber(row), true, nil
}

// PartitionQueue finds the queue of a partition; ok is false when there is no such partition here.
func (b *Broker) PartitionQueue(id uint64) (queueID uint64, ok bool) {
	view := b.store.View()
	defer view.Close()
	row, err := view.Get(layout.Partition(id))
	if err != nil || row == nil {
		return 0, false
	}
	p, err := catalog.DecodePartition(id, row)
	if err != nil {
		return 0, false
	}
	return p.QueueID, true
}

// CountPartitions counts the partitions of a queue, up to a limit: about 1 µs each. What cannot be read is not counted.
func (b *Broker) CountPartitions(queueID, limit uint64) (count uint64) {
	view := b.store.View()
	defer view.Close()
	_ = view.Scan(layout.HeadsOf(queueID), nil, func(_, _ []byte) bool {
		count++
		return count < limit
	})
	return count
}
