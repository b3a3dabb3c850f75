package api

import (
	"time"

	"github.com/google/uuid"

	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// pushPlan is a push sorted into groups, with the way back from group to item.
type pushPlan struct {
	groups []command.PushGroup
	// place holds, for each item, its group and its position in it.
	place []itemPlace
	ids   []uuid.UUID
}

type itemPlace struct{ group, position uint32 }

// push stores messages (messaging 4).
func (a *API) push(r *httpfront.Request) error {
	items, err := wire.DecodePush(r.Body())
	if err != nil {
		return err
	}
	span, err := a.span(r, a.config.PushTimeout)
	if err == nil {
		err = a.checkPush(r, items)
	}
	if err != nil {
		return err
	}
	if len(items) == 0 {
		r.JSON(201, []byte("[]"))
		return nil
	}
	plan, err := a.planPush(r, items)
	if err != nil {
		return err
	}
	results, err := a.broker().Push(r.Tenant, plan.groups, span)
	if err != nil {
		return err
	}
	a.stats.pushed(len(items))
	a.countPush(r.Tenant, plan.groups, results)
	a.meters.push.Update(time.Since(r.Arrived).Seconds())
	r.Answer(201, func(dst []byte) []byte { return plan.answer(dst, items, results) })
	return nil
}

func (a *API) checkPush(r *httpfront.Request, items []wire.PushItem) error {
	for i := range items {
		item := &items[i]
		if i > 0 && item.Queue == items[i-1].Queue && item.Partition == items[i-1].Partition {
			continue
		}
		if err := checkNames(item.Queue, item.Partition); err != nil {
			return err
		}
	}
	if refusal := a.gate.Closed(); refusal != nil && len(items) > 0 {
		return refusal
	}
	return nil
}

// planPush groups items by partition and writes the messages in the form in which they are stored.
func (a *API) planPush(r *httpfront.Request, items []wire.PushItem) (*pushPlan, error) {
	plan := &pushPlan{place: make([]itemPlace, len(items)), ids: make([]uuid.UUID, len(items))}
	sizes := plan.assign(items)
	for g := range plan.groups {
		plan.groups[g].Chunk = make([]byte, 0, sizes[g])
	}
	encrypts := make([]bool, len(plan.groups))
	for g := range plan.groups {
		encrypt, err := a.encrypts(r.Tenant, plan.groups[g].Queue)
		if err != nil {
			return nil, err
		}
		encrypts[g] = encrypt
	}
	for i := range items {
		plan.ids[i] = newID(r.Arrived)
		group := plan.place[i].group
		message := command.Message{
			ID: plan.ids[i], Txid: items[i].Txid, TraceID: items[i].TraceID,
			ProducerSub: []byte(r.Subject), Payload: items[i].Payload,
		}
		if encrypts[group] {
			if err := a.seal(&message); err != nil {
				return nil, err
			}
		}
		plan.groups[group].Chunk = command.AppendMessage(plan.groups[group].Chunk, &message)
	}
	return plan, nil
}

// messageOverheadBytes is what a stored message takes besides its fields.
const messageOverheadBytes = 32

// assign finds the group of every item and returns how large each chunk will be. Items of one partition mostly stand
// together, so the map is asked only where the names change, and most pushes name one partition and need none.
func (p *pushPlan) assign(items []wire.PushItem) (sizes []int) {
	type names struct{ queue, partition string }
	var known map[names]uint32
	begin := func(item *wire.PushItem) uint32 {
		p.groups = append(p.groups, command.PushGroup{Queue: item.Queue, Partition: item.Partition})
		sizes = append(sizes, 0)
		return uint32(len(p.groups) - 1)
	}
	last := uint32(0)
	for i := range items {
		item := &items[i]
		switch {
		case i == 0:
			last = begin(item)
		case item.Queue != items[i-1].Queue || item.Partition != items[i-1].Partition:
			if known == nil {
				known = map[names]uint32{{items[0].Queue, items[0].Partition}: 0}
			}
			group, ok := known[names{item.Queue, item.Partition}]
			if !ok {
				group = begin(item)
				known[names{item.Queue, item.Partition}] = group
			}
			last = group
		}
		p.place[i] = itemPlace{group: last, position: p.groups[last].Count}
		p.groups[last].Count++
		sizes[last] += messageOverheadBytes + len(item.Txid) + len(item.Payload)
	}
	return sizes
}

// encrypts tells whether the payloads of a queue are to be encrypted, and refuses when they cannot be (messaging 4.5).
func (a *API) encrypts(tenant command.Tenant, name string) (bool, error) {
	queue := a.broker().Directory().Queue(tenant, name)
	if queue == nil || !queue.Options.EncryptionEnabled {
		return false, nil
	}
	if !a.cipher.Usable() {
		return false, httpfront.Refuse(httpfront.CodeEncryptionUnavailable,
			"queue "+name+" asks for encryption and this node has no usable key")
	}
	return true, nil
}

func (a *API) seal(m *command.Message) error {
	envelope, err := a.cipher.Seal(m.Payload)
	if err != nil {
		return httpfront.Refuse(httpfront.CodeEncryptionUnavailable, "the payload could not be encrypted")
	}
	m.Payload, m.Encrypted = envelope, true
	return nil
}

// answer turns the results of the groups into verdicts in the order of the items (messaging 4.2).
func (p *pushPlan) answer(dst []byte, items []wire.PushItem, results []command.PushGroupResult) []byte {
	next := make([]groupProgress, len(results))
	dst = append(dst, '[')
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := wire.PushVerdict{MessageID: p.ids[i], Txid: items[i].Txid, Queue: items[i].Queue}
		place := p.place[i]
		next[place.group].settle(&v, &results[place.group], place.position)
		dst = wire.AppendPushVerdict(dst, i, &v)
	}
	return append(dst, ']')
}

// groupProgress walks through the result of a group in the order of its items.
type groupProgress struct {
	stored     uint64
	duplicates int
}

func (g *groupProgress) settle(v *wire.PushVerdict, result *command.PushGroupResult, position uint32) {
	if result.Refusal != nil {
		v.Status, v.Error = wire.PushFailed, result.Refusal.Text
		return
	}
	if g.duplicates < len(result.Duplicates) && result.Duplicates[g.duplicates].Item == position {
		duplicate := &result.Duplicates[g.duplicates]
		g.duplicates++
		v.Status, v.MessageID, v.Offset = wire.PushDuplicate, duplicate.ID, duplicate.Offset
		return
	}
	v.Offset = result.FirstOffset + g.stored
	g.stored++
}
