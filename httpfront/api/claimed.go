package api

import (
	"errors"
	"math"

	"queen/actors/machine/partition"
	"queen/httpfront"
	"queen/httpfront/api/history"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// errLargeAnswer ends the making of an answer that has no room reserved and needs some.
var errLargeAnswer = errors.New("the answer is larger than is free of permits")

// writeClaimed answers with the messages of the claimed ranges. Most answers are small and made at once. One that turns out
// large is measured, waits for room, and is made again; the error is a refusal when there is none.
func (a *API) writeClaimed(r *httpfront.Request, answer *wire.PopAnswer, batches []command.ClaimedBatch) (delivered []history.Delivery, err error) {
	view := a.broker().LocalView()
	defer view.Close()
	claimed := &claimedReader{api: a, view: view, group: answer.Group, batches: batches}
	var body []byte
	r.Answer(200, func(dst []byte) []byte {
		body, delivered, err = claimed.append(dst, answer, httpfront.FreeAnswerBytes)
		return body
	})
	if !errors.Is(err, errLargeAnswer) {
		return delivered, err
	}
	size, err := claimed.bytes()
	if err == nil {
		err = r.ReserveAnswer(size)
	}
	if err != nil {
		return nil, err
	}
	body, delivered, err = claimed.append(make([]byte, 0, size), answer, math.MaxInt)
	r.JSONOwned(200, body)
	return delivered, err
}

// claimedReader reads the messages of claimed ranges from this node's store.
type claimedReader struct {
	api     *API
	view    partition.Reader
	group   string
	batches []command.ClaimedBatch
}

// each visits the messages of a range; they are valid inside visit only.
func (c *claimedReader) each(claimed *command.ClaimedBatch, visit func(offset, stampMicros uint64, m *command.Message) error) error {
	span := partition.MessageRange{
		Queue: claimed.QueueID, Partition: claimed.Partition, First: claimed.FirstOffset, End: claimed.LastOffset + 1,
	}
	if claimed.DeliverLastOnly {
		span.First = claimed.LastOffset
	}
	return partition.ReadMessages(c.view, span, func(offset, stampMicros uint64, m *command.Message) (bool, error) {
		err := visit(offset, stampMicros, m)
		return err == nil, err
	})
}

// popMessageBytes is what a message takes in an answer besides its texts: ids and the names of members.
const popMessageBytes = 450

// bytes is what the answer takes.
func (c *claimedReader) bytes() (size int64, err error) {
	size = popMessageBytes
	for i := range c.batches {
		shared := popMessageBytes + int64(len(c.batches[i].PartitionName)+len(c.group))
		err := c.each(&c.batches[i], func(_, _ uint64, m *command.Message) error {
			size += shared + int64(len(m.Payload)+len(m.Txid)+len(m.ProducerSub))
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return size, nil
}

// append reads the messages straight into the answer; it ends with errLargeAnswer when that exceeds mostBytes.
func (c *claimedReader) append(dst []byte, answer *wire.PopAnswer, mostBytes int) ([]byte, []history.Delivery, error) {
	now := c.api.broker().Now()
	delivered := make([]history.Delivery, len(c.batches))
	w := wire.NewPopWriter(dst, answer)
	for i := range c.batches {
		count := &delivered[i]
		w.Batch(&answer.Batches[i])
		err := c.each(&c.batches[i], func(offset, stampMicros uint64, m *command.Message) error {
			if w.Bytes()+len(m.Payload) > mostBytes {
				return errLargeAnswer
			}
			message := wire.PopMessage{
				ID: m.ID, Txid: m.Txid, TraceID: m.TraceID, Data: m.Payload, ProducerSub: m.ProducerSub,
				CreatedMicros: stampMicros, Offset: offset,
			}
			if m.Encrypted {
				message.Data, message.DecryptError = c.api.open(m.Payload)
			}
			w.Message(&message)
			age := now - min(now, stampMicros)
			count.Messages++
			count.LagMicros += age
			count.LagMaxMicros = max(count.LagMaxMicros, age)
			return nil
		})
		if err != nil {
			return dst, nil, err
		}
	}
	return w.End(), delivered, nil
}
