package api

import (
	"errors"
	"time"

	"queen/actors"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// transactionMaxPartitions is how many (queue, partition) pairs one transaction may push to (messaging 2.11).
const transactionMaxPartitions = 16_384

// transactionPlan is a transaction as a command, with the way back from its parts to the flat results.
type transactionPlan struct {
	call  *command.Transaction
	push  *pushPlan
	items []wire.PushItem
	// place says for each operation where it went: to an item of push, or to an item of an ack part.
	place []ackPlace
}

// transaction acks, pushes, moves positions, changes rows and timers, all or nothing (messaging 8).
func (a *API) transaction(r *httpfront.Request) error {
	answer := &wire.TransactionAnswer{ID: newID(r.Arrived)}
	body, err := wire.DecodeTransaction(r.Body())
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.RollBack {
		answer.Reason, answer.Error = string(refusal.Code), refusal.Text
		r.JSONOwned(200, wire.AppendTransaction(nil, answer))
		return nil
	}
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	plan, err := a.planTransaction(r, body)
	if err != nil {
		return a.failTransaction(r, answer, err)
	}
	if len(plan.call.Pushes) > transactionMaxPartitions {
		answer.Reason, answer.Error = "too_large", "the transaction pushes to too many partitions"
		r.JSONOwned(200, wire.AppendTransaction(nil, answer))
		return nil
	}
	applied, err := a.broker().Execute(span, plan.call)
	if err != nil {
		return a.failTransaction(r, answer, err)
	}
	result := applied.(*command.TransactionResult)
	plan.fill(answer, body, result)
	a.countKV(plan.call.KV, ridersOf(result), time.Since(r.Arrived))
	if answer.Reason == "" {
		a.stats.transacted(a.countTransaction(plan.call, result))
	}
	r.JSONOwned(rolledBackStatus(answer.Reason), wire.AppendTransaction(nil, answer))
	return nil
}

// rolledBackStatus is the status of a transaction that rolled back: 200, and 403 where something must change before the bundle works, a
// quota or what an operator has turned off (messaging 8.5). It is never a 503, so that nobody sends it again in a loop.
func rolledBackStatus(reason string) int {
	switch httpfront.Code(reason) {
	case httpfront.CodeKVQuotaExceeded, httpfront.CodeKVDisabled, httpfront.CodeTimersDisabled:
		return 403
	}
	return 200
}

// failTransaction answers a refusal in the body of 8.4 where messaging 8.5 wants it so.
func (a *API) failTransaction(r *httpfront.Request, answer *wire.TransactionAnswer, err error) error {
	var refusal *httpfront.Error
	var invalid *wire.Error
	switch {
	case errors.As(err, &invalid) && invalid.RollBack:
		answer.Reason, answer.Error = string(invalid.Code), invalid.Text
		r.JSONOwned(200, wire.AppendTransaction(nil, answer))
	case errors.As(err, &invalid) && invalid.Reason != "":
		answer.Reason, answer.Error = invalid.Reason, invalid.Text
		r.JSONOwned(httpfront.Refuse(httpfront.Code(invalid.Code), "").HTTPStatus(), wire.AppendTransaction(nil, answer))
	case errors.Is(err, actors.ErrTooLarge):
		answer.Reason, answer.Error = "too_large", "the transaction exceeds one log entry"
		r.JSONOwned(200, wire.AppendTransaction(nil, answer))
	case errors.As(err, &refusal) && refusal.Code == httpfront.CodeEncryptionUnavailable:
		answer.Reason, answer.Error = string(refusal.Code), refusal.Text
		r.Ctx.Response.Header.Set("Retry-After", "1")
		r.JSONOwned(refusal.HTTPStatus(), wire.AppendTransaction(nil, answer))
	default:
		return err
	}
	return nil
}

func (a *API) planTransaction(r *httpfront.Request, body *wire.Transaction) (*transactionPlan, error) {
	plan := &transactionPlan{
		call: &command.Transaction{Tenant: r.Tenant, RequiredLeases: body.RequiredLeases, Positions: body.Positions},
	}
	fences := fence(body)
	acks := map[transactionAckKey]int{}
	for i := range body.Operations {
		op := &body.Operations[i]
		if op.Push != nil {
			if err := checkNames(op.Push.Queue, op.Push.Partition); err != nil {
				return nil, err
			}
			plan.place = append(plan.place, ackPlace{part: -1, item: len(plan.items)})
			plan.items = append(plan.items, *op.Push)
			continue
		}
		if err := checkNames("", op.Group); err != nil {
			return nil, err
		}
		plan.place = append(plan.place, plan.addAck(op, fences, acks))
	}
	for i := range body.Positions {
		position := &body.Positions[i]
		longer := position.Group
		if len(position.Partition) > len(longer) {
			longer = position.Partition
		}
		if err := checkNames(position.Queue, longer); err != nil {
			return nil, err
		}
	}
	if err := a.planKV(r, plan, body); err != nil {
		return nil, err
	}
	if err := a.planTransactionTimers(r, plan, body); err != nil {
		return nil, err
	}
	if len(plan.items) == 0 {
		return plan, nil
	}
	if refusal := a.gate.Closed(); refusal != nil {
		return nil, refusal
	}
	push, err := a.planPush(r, plan.items)
	if err != nil {
		return nil, err
	}
	plan.push, plan.call.Pushes = push, push.groups
	return plan, nil
}

type transactionAckKey struct {
	group     string
	partition uint64
	lease     command.LeaseID
}

// addAck puts an ack to those of its (group, partition, lease): they are judged together (messaging 8.6).
func (p *transactionPlan) addAck(op *wire.Operation, only command.LeaseID, acks map[transactionAckKey]int) ackPlace {
	lease := op.Ack.Lease
	if isZero(lease) {
		lease = only
	}
	key := transactionAckKey{op.Group, op.Ack.Partition, lease}
	part, ok := acks[key]
	if !ok {
		part = len(p.call.Acks)
		acks[key] = part
		p.call.Acks = append(p.call.Acks, command.TransactionAck{
			Group: op.Group, AckPart: command.AckPart{Partition: op.Ack.Partition, Lease: lease},
		})
	}
	items := &p.call.Acks[part].Items
	*items = append(*items, command.AckItem{
		Txid: op.Ack.Txid, Status: op.Ack.Status, Error: op.Ack.Error, HasError: op.Ack.HasError,
	})
	return ackPlace{part: part, item: len(*items) - 1}
}

// fence is the lease of an ack that names none: the only one that the transaction names at all, else none (messaging 8.2).
func fence(body *wire.Transaction) command.LeaseID {
	var only command.LeaseID
	consider := func(lease command.LeaseID) bool {
		if isZero(lease) || lease == only {
			return true
		}
		if !isZero(only) {
			return false
		}
		only = lease
		return true
	}
	for _, lease := range body.RequiredLeases {
		if !consider(lease) {
			return command.LeaseID{}
		}
	}
	for i := range body.Operations {
		if ack := body.Operations[i].Ack; ack != nil && !consider(ack.Lease) {
			return command.LeaseID{}
		}
	}
	return only
}

// fill turns the outcome into the flat results (messaging 8.3).
func (p *transactionPlan) fill(answer *wire.TransactionAnswer, body *wire.Transaction, result *command.TransactionResult) {
	answer.Reason, answer.Error = result.Reason, result.Text
	if answer.Reason != "" {
		answer.Lost = lostKV(body, result)
		return
	}
	progress := make([]groupProgress, len(result.Pushes))
	for i := range body.Operations {
		place := p.place[i]
		if place.part >= 0 {
			verdict := &result.Acks[place.part].Items[place.item]
			answer.Results = append(answer.Results, wire.TransactionResult{
				Kind: wire.ResultAck, AckTxid: body.Operations[i].Ack.Txid, DeadLettered: verdict.DeadLettered,
			})
			continue
		}
		var v wire.PushVerdict
		v.MessageID = p.push.ids[place.item]
		at := p.push.place[place.item]
		progress[at.group].settle(&v, &result.Pushes[at.group], at.position)
		answer.Results = append(answer.Results, wire.TransactionResult{
			Kind: wire.ResultPush, Txid: p.items[place.item].Txid, MessageID: v.MessageID,
			Queue: p.items[place.item].Queue, Duplicate: v.Status == wire.PushDuplicate,
		})
	}
	p.fillKV(answer, result)
	p.fillTimers(answer, result)
	for i := range body.Positions {
		answer.Results = append(answer.Results, wire.TransactionResult{Kind: wire.ResultPosition, OpIndex: i})
	}
}
