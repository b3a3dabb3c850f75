package api

import (
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// ack settles messages, single or batch (messaging 6).
func (a *API) ack(r *httpfront.Request) error {
	body, err := wire.DecodeAck(r.Body())
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.WriteTimeout)
	if err == nil {
		err = checkNames("", body.Group)
	}
	if err != nil {
		return err
	}
	call := &command.Ack{Tenant: r.Tenant, Group: body.Group}
	places := groupAcks(body.Items, call)
	result := &command.AckResult{}
	if result.Parts, err = a.broker().Ack(r.Tenant, call.Group, call.Parts, span); err != nil {
		return err
	}
	verdicts := make([]wire.AckVerdict, len(body.Items))
	for i := range body.Items {
		verdicts[i] = ackVerdict(&body.Items[i], places[i], call, result)
	}
	a.stats.acked(len(verdicts))
	a.countAck(r.Tenant, call.Parts, result.Parts)
	r.Answer(200, func(dst []byte) []byte { return wire.AppendAck(dst, verdicts) })
	return nil
}

// ackPlace is where an item went: its part and its place there; part is -1 for an item that fails by itself.
type ackPlace struct{ part, item int }

// groupAcks sorts items into parts by partition and lease, in the order of their first items (messaging 6.4.1).
func groupAcks(items []wire.AckItem, call *command.Ack) []ackPlace {
	type key struct {
		partition uint64
		lease     command.LeaseID
	}
	places := make([]ackPlace, len(items))
	parts := map[key]int{}
	for i := range items {
		item := &items[i]
		if !item.PartitionOK || item.UnknownStatus {
			places[i].part = -1
			continue
		}
		k := key{item.Partition, item.Lease}
		part, ok := parts[k]
		if !ok {
			part = len(call.Parts)
			parts[k] = part
			call.Parts = append(call.Parts, command.AckPart{Partition: item.Partition, Lease: item.Lease})
		}
		places[i] = ackPlace{part: part, item: len(call.Parts[part].Items)}
		call.Parts[part].Items = append(call.Parts[part].Items, command.AckItem{
			Txid: item.Txid, Status: item.Status, Error: item.Error, HasError: item.HasError,
		})
	}
	return places
}

func ackVerdict(item *wire.AckItem, place ackPlace, call *command.Ack, result *command.AckResult) wire.AckVerdict {
	v := wire.AckVerdict{Txid: item.Txid}
	switch {
	case item.UnknownStatus:
		v.Error = wire.AckErrorStatus(item.BadStatus)
	case !item.PartitionOK:
		v.Error = wire.AckErrorPartitionID
	default:
		verdict := &result.Parts[place.part].Items[place.item]
		v.Error = ackText(verdict.Error, call.Parts[place.part].Partition)
		v.LeaseReleased, v.DeadLettered, v.Noop = verdict.LeaseReleased, verdict.DeadLettered, verdict.Noop
	}
	return v
}

// extend prolongs a lease (messaging 7). The answer is a 200 whatever became of it.
func (a *API) extend(r *httpfront.Request) error {
	span, err := a.span(r, a.config.WriteTimeout)
	if err != nil {
		return err
	}
	id := r.Param("leaseId")
	lease, ok := wire.ParseUUID(id)
	result := &command.ExtendResult{}
	if ok && !isZero(lease) {
		applied, err := a.broker().Execute(span, &command.Extend{
			Tenant: r.Tenant, Lease: lease, Seconds: wire.DecodeExtend(r.Body()),
		})
		if err != nil {
			return err
		}
		result = applied.(*command.ExtendResult)
	}
	r.JSONOwned(200, wire.AppendExtend(nil, id, result.Renewed, result.ExpiresMicros))
	return nil
}
