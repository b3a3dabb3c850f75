package api

import (
	"encoding/json"
	"fmt"
	"slices"

	"queen/actors"
	"queen/actors/machine/partition"
	"queen/actors/query"
	"queen/raftlog/command"
)

// messageBrowser builds one page of the message list in two steps, so that the size of the answer is known before payloads
// are read: choose finds the messages, page reads them.
type messageBrowser struct {
	api    *API
	q      *query.Reads
	filter *messageFilter

	queueMode bool
	busGroups map[string]bool

	choices []choice
	rows    int
	// payloadBytes is what the payloads of the page take at most, textBytes what their transaction ids take; full is set
	// once the page has no room for the next row.
	payloadBytes, textBytes uint64
	full                    bool
}

// choice is what a page takes of one append: the offsets, newest first.
type choice struct {
	source  *query.Source
	in      partition.Append
	judge   *judge
	offsets []uint64
}

// choose finds the messages of the page. Without a status filter whole appends are skipped by their counts, so a page deep
// down costs about the same as the first one.
func (b *messageBrowser) choose(queues []*actors.QueueView) error {
	b.busGroups = map[string]bool{}
	if b.filter.to == 0 {
		return nil
	}
	merge := query.NewNewest(b.q, b.filter.from, b.filter.to, b.openSource)
	for _, queue := range queues {
		if err := b.addQueue(merge, queue); err != nil {
			return err
		}
	}
	skip, err := uint64(b.filter.Offset), error(nil)
	if b.filter.status == "" {
		if skip, err = merge.Skip(skip); err != nil {
			return err
		}
	}
	for b.rows < int(b.filter.Limit) && !b.full {
		source, in, err := merge.Next()
		if err != nil || source == nil {
			return err
		}
		if err := b.chooseFrom(source, in, &skip); err != nil {
			return err
		}
	}
	return nil
}

// addQueue adds the partitions of a queue to the merge, and its groups to the reading mode.
func (b *messageBrowser) addQueue(merge *query.Newest, queue *actors.QueueView) error {
	for _, group := range sortedGroups(queue) {
		has, err := b.q.HasCursor(group)
		if err != nil {
			return err
		}
		if has && group.QueueMode() {
			b.queueMode = true
		} else if has {
			b.busGroups[group.Name] = true
		}
	}
	if b.filter.partition != "" {
		id, ok, err := b.q.PartitionByName(queue.ID, b.filter.partition)
		if err != nil || !ok {
			return err
		}
		head, err := partition.ReadHead(b.q.View(), queue.ID, id)
		if err == nil {
			merge.Add(queue, id, &head)
		}
		return err
	}
	return b.q.EachPartition(queue.ID, 0, func(id uint64, head *partition.Head) (bool, error) {
		merge.Add(queue, id, head)
		return true, nil
	})
}

// openSource loads a partition whose appends are looked at.
func (b *messageBrowser) openSource(queue *actors.QueueView, id uint64) (*query.Source, error) {
	identity, err := b.q.MaybeIdentity(id)
	if err != nil || identity == nil {
		return nil, err
	}
	return openSource(b.q, queue, identity)
}

// chooseFrom takes what the page wants of an append.
func (b *messageBrowser) chooseFrom(source *query.Source, in *partition.Append, skip *uint64) error {
	first, end := max(in.Base, source.Head.LogStart), in.End()
	if b.filter.status == "" {
		end -= min(*skip, end-first)
		*skip = 0
	}
	judge, err := newJudge(source, first, end)
	if err != nil {
		return err
	}
	var offsets []uint64
	for offset := end; offset > first && b.rows+len(offsets) < int(b.filter.Limit); offset-- {
		if b.filter.status != "" {
			if judge.status(offset-1) != b.filter.status {
				continue
			}
			if *skip > 0 {
				*skip--
				continue
			}
		}
		offsets = append(offsets, offset-1)
	}
	if len(offsets) == 0 {
		return nil
	}
	return b.take(choice{source: source, in: *in, judge: judge, offsets: offsets})
}

// exactBytes is the size of a chunk from which on the payloads that a page takes of it are measured; those of smaller
// ones count as if the whole chunk was taken.
const exactBytes = 16 << 10

// take adds a choice to the page, without the rows for which the page has no room.
func (b *messageBrowser) take(c choice) error {
	sizes := map[uint64]uint64{}
	if c.in.Chunk.Bytes >= exactBytes {
		err := b.read(&c, func(offset uint64, m *command.Message) error {
			sizes[offset] = uint64(len(m.Payload))
			b.textBytes += uint64(len(m.Txid) + len(m.ProducerSub))
			return nil
		})
		if err != nil {
			return err
		}
	} else {
		sizes[c.offsets[0]] = uint64(c.in.Chunk.Bytes)
	}
	for i, offset := range c.offsets {
		if size := sizes[offset]; b.rows > 0 && b.payloadBytes+size > b.api.pageBytes {
			c.offsets, b.full = c.offsets[:i], true
			break
		}
		b.payloadBytes += sizes[offset]
		b.rows++
	}
	if len(c.offsets) > 0 {
		b.choices = append(b.choices, c)
	}
	return nil
}

// read visits the messages of a choice, oldest first.
func (b *messageBrowser) read(c *choice, visit func(offset uint64, m *command.Message) error) error {
	left := len(c.offsets)
	return partition.ReadAppend(b.q.View(), &c.in, func(offset uint64, m *command.Message) (bool, error) {
		if offset != c.offsets[left-1] {
			return true, nil
		}
		left--
		return left > 0, visit(offset, m)
	})
}

func (b *messageBrowser) answerBytes() int64 {
	return shownBytes(b.rows, b.payloadBytes) + int64(b.textBytes)
}

// page reads the messages that were chosen into the answer.
func (b *messageBrowser) page() ([]byte, error) {
	dst := append(make([]byte, 0, b.answerBytes()), `{"messages":`...)
	start := len(dst)
	for i := range b.choices {
		var err error
		if dst, err = b.appendRows(dst, &b.choices[i]); err != nil {
			return nil, err
		}
	}
	// Every row begins with a comma; the first one has to be the bracket.
	if len(dst) == start {
		dst = append(dst, ' ')
	}
	dst[start] = '['
	rest, err := json.Marshal(struct {
		Total      int         `json:"total"`
		Pagination pagination  `json:"pagination"`
		Mode       readingMode `json:"mode"`
	}{b.rows, b.filter.pagination, b.mode()})
	if err != nil {
		return nil, fmt.Errorf("encode page: %w", err)
	}
	return append(append(dst, "],"...), rest[1:]...), nil
}

// appendRows appends the rows of a choice. They are read oldest first and shown newest first: turning all of them round,
// and then each of them back, takes no memory.
func (b *messageBrowser) appendRows(dst []byte, c *choice) ([]byte, error) {
	start := len(dst)
	var ends []int
	err := b.read(c, func(offset uint64, m *command.Message) error {
		row := newMessageRow(c.source, &c.in, offset, m, c.judge.verdict(offset))
		var err error
		dst, err = b.api.appendShown(append(dst, ','), row, m.Payload, m.Encrypted)
		ends = append(ends, len(dst))
		return err
	})
	rows := dst[start:]
	slices.Reverse(rows)
	for at, i := 0, len(ends)-1; i >= 0; i-- {
		begin := start
		if i > 0 {
			begin = ends[i-1]
		}
		size := ends[i] - begin
		slices.Reverse(rows[at : at+size])
		at += size
	}
	return dst, err
}

func (b *messageBrowser) mode() readingMode { return modeOf(b.queueMode, b.busGroups) }

// modeOf names the kinds of readers that have cursors.
func modeOf(queueMode bool, busGroups map[string]bool) readingMode {
	mode := readingMode{HasQueueMode: queueMode, BusGroupsCount: len(busGroups), Type: "none"}
	switch {
	case queueMode && len(busGroups) > 0:
		mode.Type = "hybrid"
	case queueMode:
		mode.Type = "queue"
	case len(busGroups) > 0:
		mode.Type = "bus"
	}
	return mode
}
