package api

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"queen/actors"
	"queen/actors/machine/deadletter"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// deleteMessage deletes the dead letters of an address; the log itself is immutable (messaging 11.3).
func (a *API) deleteMessage(r *httpfront.Request) error {
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	address, txid := r.Param("partitionId"), r.Param("transactionId")
	deleted := 0
	id, ok, err := a.addressedPartition(address, span.Deadline)
	if err != nil {
		return err
	}
	if ok {
		applied, err := a.broker().Execute(span, &command.DeadLetterDelete{
			Tenant: r.Tenant, ByAddress: true, Partition: id, Txid: txid,
		})
		if err != nil {
			return err
		}
		deleted = applied.(*command.DeadLetterDeleteResult).Deleted
	}
	if deleted == 0 {
		return answerJSON(r, 404, struct {
			Success       bool   `json:"success"`
			PartitionID   string `json:"partitionId"`
			TransactionID string `json:"transactionId"`
			Error         string `json:"error"`
			Message       string `json:"message"`
		}{false, address, txid, "Message not found", "No dead letter at this address; messages of the log cannot be deleted"})
	}
	return answerJSON(r, 200, struct {
		Success       bool   `json:"success"`
		PartitionID   string `json:"partitionId"`
		TransactionID string `json:"transactionId"`
		Deleted       int    `json:"deleted"`
	}{true, address, txid, deleted})
}

// addressedPartition reads a partition address: the numeric id of the message plane, or the UUID that console reads show
// (messaging 2.12). What any node has answered with such a UUID is found.
func (a *API) addressedPartition(address string, deadline time.Time) (id uint64, ok bool, err error) {
	if id, ok = wire.ParsePartitionID(address); ok {
		return id, true, nil
	}
	wanted, isUUID := wire.ParseUUID(address)
	if !isUUID {
		return 0, false, nil
	}
	ctx, cancel := contextUntil(deadline)
	defer cancel()
	return a.broker().PartitionByUUID(ctx, wanted)
}

// purgeDeadLetters deletes the dead letters of a queue, of one group or of all (messaging 11.6).
func (a *API) purgeDeadLetters(r *httpfront.Request) error {
	queue, _, err := r.QueryText("queue")
	if err != nil {
		return err
	}
	if queue == "" {
		return answerJSON(r, 400, struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
			Message string `json:"message"`
		}{false, "queue is required", "Bulk DLQ purge requires an exact queue name"})
	}
	group, named, err := r.QueryText("consumerGroup")
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	deleted, more := 0, true
	for more {
		applied, err := a.broker().Execute(span, &command.DeadLetterDelete{
			Tenant: r.Tenant, Queue: queue, Group: group, AnyGroup: !named,
		})
		if err != nil {
			return err
		}
		result := applied.(*command.DeadLetterDeleteResult)
		deleted, more = deleted+result.Deleted, result.More
	}
	answer := struct {
		Success       bool    `json:"success"`
		Deleted       int     `json:"deleted"`
		Queue         string  `json:"queue"`
		ConsumerGroup *string `json:"consumerGroup"`
	}{true, deleted, queue, nil}
	if named {
		answer.ConsumerGroup = &group
	}
	return answerJSON(r, 200, answer)
}

// replayDeadLetter and retryMessage are one move: a copy to the tail of the destination, the row deleted (messaging 11.5).
func (a *API) replayDeadLetter(r *httpfront.Request) error {
	return a.replay(r, func(call *command.DeadLetterReplay, _ time.Time) (ok bool, err error) {
		call.Row, ok = wire.ParseUUID(r.Param("id"))
		return ok, nil
	})
}

func (a *API) retryMessage(r *httpfront.Request) error {
	return a.replay(r, func(call *command.DeadLetterReplay, deadline time.Time) (ok bool, err error) {
		call.ByAddress, call.Txid = true, r.Param("transactionId")
		call.Partition, ok, err = a.addressedPartition(r.Param("partitionId"), deadline)
		return ok, err
	})
}

func replayGone(r *httpfront.Request) error {
	return answerJSON(r, 404, struct {
		Success bool   `json:"success"`
		Result  string `json:"result"`
		Error   string `json:"error"`
	}{false, "gone", "Message not found"})
}

type replayAnswer struct {
	Success      bool            `json:"success"`
	Result       string          `json:"result"`
	Queue        string          `json:"queue"`
	Partition    string          `json:"partition"`
	Group        string          `json:"consumerGroup"`
	DLQID        uuid.UUID       `json:"dlqId"`
	OriginalTxid string          `json:"originalTransactionId"`
	ReplayedAs   json.RawMessage `json:"replayedAs"`
	RowRemoved   bool            `json:"dlqRowRemoved"`
}

// replay checks the body first, so that a bad one is refused alike whether or not the address is one. address puts what the path names
// into the call, and tells whether it can name anything.
func (a *API) replay(r *httpfront.Request, address func(call *command.DeadLetterReplay, deadline time.Time) (ok bool, err error)) error {
	var call command.DeadLetterReplay
	addressed := false
	span, err := a.span(r, a.config.WriteTimeout)
	if err == nil {
		err = a.prepareReplay(r, &call)
	}
	if err == nil {
		addressed, err = address(&call, span.Deadline)
	}
	if err != nil {
		return err
	}
	if !addressed {
		return replayGone(r)
	}
	if refusal := a.gate.Closed(); refusal != nil {
		return refusal
	}
	result, err := a.executeReplay(span, &call)
	if err == nil && result.Outcome == command.ReplayInClear {
		// What lies in clear is sealed on its way into a queue that encrypts. Where it is, and what its destination does, is
		// known only where the command is applied, so that a second one goes out.
		call.Row, call.ByAddress = result.Row, false
		if call.Sealed, err = a.sealedDeadLetter(result.Row); err == nil {
			result, err = a.executeReplay(span, &call)
		}
		if err == nil && result.Outcome == command.ReplayInClear {
			err = actors.ErrRetry // the row has not come to this node's state yet
		}
	}
	if err != nil {
		return err
	}
	if result.Outcome == command.ReplayGone {
		return replayGone(r)
	}
	moved := result.Outcome == command.ReplayMoved
	verdict := wire.PushVerdict{MessageID: call.MessageID, Txid: actors.ReplayTxid(result.Row), Queue: result.Queue, Offset: result.Offset}
	answer := replayAnswer{
		Success: true, Result: "moved", Queue: result.Queue, Partition: result.Partition, Group: result.Group, DLQID: result.Row,
		OriginalTxid: result.OriginalTxid, RowRemoved: moved,
	}
	if !moved {
		answer.Result, verdict.Status, verdict.MessageID = "duplicate", wire.PushDuplicate, uuid.Nil
	}
	answer.ReplayedAs = wire.AppendPushVerdict(nil, 0, &verdict)
	return answerJSON(r, 200, answer)
}

func (a *API) executeReplay(span actors.Span, call *command.DeadLetterReplay) (*command.DeadLetterReplayResult, error) {
	applied, err := a.broker().Execute(span, call)
	if err != nil {
		return nil, err
	}
	return applied.(*command.DeadLetterReplayResult), nil
}

// sealedDeadLetter returns the encrypted form of a payload that is stored in clear; nil when the row is gone by now.
func (a *API) sealedDeadLetter(id uuid.UUID) (sealed []byte, err error) {
	view := a.broker().LocalView()
	defer view.Close()
	row, err := deadletter.Find(view, id)
	if err != nil || row == nil {
		return nil, err
	}
	err = row.Stored(view, func(stored []byte) error {
		message, err := deadletter.DecodeMessage(stored)
		if err != nil {
			return err
		}
		if !a.cipher.Usable() {
			return httpfront.Refuse(httpfront.CodeEncryptionUnavailable, "the destination asks for encryption and this node has no usable key")
		}
		if err := a.seal(&message); err != nil {
			return err
		}
		sealed = message.Payload
		return nil
	})
	return sealed, err
}

func (a *API) prepareReplay(r *httpfront.Request, call *command.DeadLetterReplay) error {
	to, err := wire.DecodeReplay(r.Body())
	if err != nil {
		return err
	}
	if to.Queue != nil {
		call.Queue, call.HasQueue = *to.Queue, true
	}
	if to.Partition != nil {
		call.Destination, call.HasPartition = *to.Partition, true
	}
	if err := checkNames(call.Queue, call.Destination); err != nil {
		return err
	}
	call.Tenant, call.MessageID = r.Tenant, newID(time.Now())
	return nil
}
