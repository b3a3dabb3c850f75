package actors

import (
	"fmt"

	"github.com/google/uuid"

	"queen/actors/machine/catalog"
	"queen/actors/machine/cursor"
	"queen/actors/machine/kv"
	"queen/actors/machine/partition"
	"queen/actors/machine/timer"
	"queen/raftlog/command"
	"queen/store/layout"
)

// Reasons of a transaction that rolled back (messaging 8.4).
const (
	reasonRejectedAck   = "rejected_ack"
	reasonDuplicate     = "duplicate"
	reasonQueueNotFound = "queue_not_found"
	reasonBadRequest    = "bad_request"
)

// plan is a transaction that has been validated: what is to be changed once every guard has agreed.
type plan struct {
	*command.Transaction
	acks      []plannedAck
	positions []plannedPosition
	// kv is nil when the transaction has no operations on rows.
	kv *kv.Plan
	// rows are the states that earlier acks of this transaction leave behind.
	rows map[rowKey]*cursor.State
	// timers is the plan of the timers; nil when there are none.
	timers *timer.Plan
}

type rowKey struct {
	group     string
	partition uint64
}

type plannedAck struct {
	queue *catalog.Queue
	// group is nil when the queue does not know the group yet: committing makes it.
	group     *catalog.Group
	groupName string
	p         *catalog.Partition
	part      *command.AckPart
	outcome   cursor.AckOutcome
	row       *cursor.State
	tail      uint64
}

type plannedPosition struct {
	queue    *catalog.Queue
	position *command.Position
}

// transaction validates everything without changing anything, then changes everything (messaging 8.6, I6).
func (a *apply) transaction(c *command.Transaction) (command.Result, error) {
	pl := &plan{Transaction: c, rows: map[rowKey]*cursor.State{}}
	guards := []func(*plan) (*command.TransactionResult, error){a.planAcks, a.planPushes, a.planPositions, a.planKV, a.planTimers}
	for _, guard := range guards {
		if refusal, err := guard(pl); refusal != nil || err != nil {
			return refusal, err
		}
	}
	result := &command.TransactionResult{Acks: make([]command.AckPartResult, len(c.Acks)), Pushes: make([]command.PushGroupResult, len(c.Pushes))}
	for i := range pl.acks {
		result.Acks[i].Items = pl.acks[i].outcome.Verdicts
		if err := a.commitAck(&pl.acks[i]); err != nil {
			return nil, err
		}
	}
	for i := range c.Pushes {
		if err := a.pushGroup(c.Tenant, &c.Pushes[i], &result.Pushes[i]); err != nil {
			return nil, err
		}
	}
	for i := range pl.positions {
		if err := a.commitPosition(&pl.positions[i]); err != nil {
			return nil, err
		}
	}
	if err := a.commitKV(pl, result); err != nil {
		return nil, err
	}
	var err error
	result.Timers, err = a.commitTimers(pl)
	return result, err
}

// rolledBack is the refusal of a rider as the outcome of its transaction; nil for none.
func rolledBack(refusal *command.Refusal) *command.TransactionResult {
	if refusal == nil {
		return nil
	}
	return &command.TransactionResult{Reason: refusal.Code, Text: refusal.Text + "; the transaction rolled back"}
}

func rejected(text string) *command.TransactionResult {
	return &command.TransactionResult{Reason: reasonRejectedAck, Text: "QTXN " + text + "; the transaction rolled back"}
}

// planAcks judges the required leases and the acks, each against the state that the earlier ones leave (guard 1).
func (a *apply) planAcks(pl *plan) (*command.TransactionResult, error) {
	for _, id := range pl.RequiredLeases {
		live, err := a.leaseLive(pl.Tenant, id)
		if err != nil {
			return nil, err
		}
		if !live {
			return rejected(AckErrorText(command.AckBadLease, 0)), nil
		}
	}
	for i := range pl.Acks {
		ack := &pl.Acks[i]
		queue, group, p, refusal, err := a.locate(pl.Tenant, ack.Partition, ack.Group)
		if err != nil {
			return nil, err
		}
		if refusal != command.AckOK {
			return rejected(AckErrorText(refusal, ack.Partition)), nil
		}
		if group == nil && ack.Lease != uuid.Nil {
			return rejected(AckErrorText(command.AckBadLease, ack.Partition)), nil
		}
		planned := plannedAck{queue: queue, group: group, groupName: ack.Group, p: p, part: &ack.AckPart}
		reason, err := a.planAck(pl, &planned)
		if err != nil {
			return nil, err
		}
		if reason != command.AckOK {
			return rejected(AckErrorText(reason, ack.Partition)), nil
		}
		pl.acks = append(pl.acks, planned)
	}
	return nil, nil
}

func (a *apply) planAck(pl *plan, planned *plannedAck) (reason command.AckError, err error) {
	key := rowKey{planned.groupName, planned.p.ID}
	row := pl.rows[key]
	if row == nil {
		if row, err = a.copyRow(planned); err != nil {
			return 0, err
		}
		pl.rows[key] = row
	}
	call, tail, err := a.ackCall(planned.queue, planned.p, row, planned.part)
	if err != nil {
		return 0, err
	}
	if _, reason = row.Check(a.now, call); reason != command.AckOK {
		return reason, nil
	}
	planned.outcome = row.Ack(a.now, call, policy(&planned.queue.Options))
	planned.row, planned.tail = row, tail
	tooMany, err := a.tooManyFilings(planned.queue, planned.p, planned.part, &planned.outcome)
	if tooMany {
		reason = command.AckTooManyDeadLetters
	}
	return reason, err
}

// copyRow reads the row that an ack is about; a group that meets the partition here starts where its registration says.
func (a *apply) copyRow(planned *plannedAck) (*cursor.State, error) {
	if planned.group == nil {
		start, err := a.firstOffset(planned.queue, planned.p, command.Subscription{})
		row := cursor.New(start)
		return &row, err
	}
	var row cursor.State
	s := a.rowStep(planned.queue, planned.group, planned.p, command.Subscription{})
	s.peek = true
	s.step = func(current *cursor.State) bool {
		row = *current
		return false
	}
	err := a.inGroup(planned.queue, planned.group, s)
	return &row, err
}

func (a *apply) leaseLive(tenant command.Tenant, id uuid.UUID) (live bool, err error) {
	err = a.eachMember(tenant, id, func(queue *catalog.Queue, group *catalog.Group, p *catalog.Partition) error {
		s := a.rowStep(queue, group, p, command.Subscription{})
		s.seed = nil
		s.step = func(row *cursor.State) bool {
			live = live || row.HoldsLease(a.now, id, a.holds)
			return false
		}
		return a.inGroup(queue, group, s)
	})
	return live, err
}

func (a *apply) commitAck(planned *plannedAck) error {
	if planned.group == nil {
		group, err := a.ensureGroup(planned.queue, planned.groupName)
		if err != nil {
			return err
		}
		planned.group = group
	}
	s := a.rowStep(planned.queue, planned.group, planned.p, command.Subscription{})
	s.step = func(row *cursor.State) bool {
		*row = *planned.row
		s.effect = ackEffect(row, &planned.outcome, planned.part, planned.tail)
		return planned.outcome.Changed
	}
	if err := a.inGroup(planned.queue, planned.group, s); err != nil {
		return err
	}
	return a.fileAll(planned.queue, planned.group, planned.p, planned.part, planned.outcome.Filings)
}

// planPushes looks for txids that are in the dedup window already (guard 2). Repeats within the call collapse.
func (a *apply) planPushes(pl *plan) (*command.TransactionResult, error) {
	for i := range pl.Pushes {
		g := &pl.Pushes[i]
		duplicate, err := a.duplicateOf(pl.Tenant, g)
		if err != nil {
			return nil, err
		}
		if duplicate != nil {
			return &command.TransactionResult{Reason: reasonDuplicate, Text: fmt.Sprintf(
				"QDUP a pushed message to %s/%s is a duplicate (original offset %d); the transaction rolled back",
				g.Queue, g.Partition, duplicate.Offset)}, nil
		}
	}
	return nil, nil
}

// planPositions checks the position writes (guard 3).
func (a *apply) planPositions(pl *plan) (*command.TransactionResult, error) {
	for i := range pl.Positions {
		position := &pl.Positions[i]
		planned := plannedPosition{position: position}
		var p *catalog.Partition
		err := a.inCatalog(func(m *catalog.Machine) (err error) {
			if planned.queue = m.Queue(pl.Tenant, position.Queue); planned.queue != nil {
				p, err = m.Partition(a.batch, planned.queue.ID, position.Partition)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if planned.queue == nil {
			return &command.TransactionResult{Reason: reasonQueueNotFound,
				Text: fmt.Sprintf("queue %s of a position does not exist; the transaction rolled back", position.Queue)}, nil
		}
		tail := uint64(0)
		if p != nil {
			if tail, err = a.tail(planned.queue, p); err != nil {
				return nil, err
			}
		}
		if position.HasOffset && (position.Offset < 0 || uint64(position.Offset) > tail) {
			return &command.TransactionResult{Reason: reasonBadRequest,
				Text: fmt.Sprintf("offset %d of a position is outside the log; the transaction rolled back", position.Offset)}, nil
		}
		pl.positions = append(pl.positions, planned)
	}
	return nil, nil
}

func (a *apply) tail(queue *catalog.Queue, p *catalog.Partition) (tail uint64, err error) {
	err = a.inPartition(queue, p, func(m *partition.Machine) error {
		tail = m.Tail()
		return nil
	})
	return tail, err
}

func (a *apply) commitPosition(planned *plannedPosition) error {
	position := planned.position
	at, err := a.ensurePartition(planned.queue.Tenant, position.Queue, position.Partition)
	if err != nil {
		return err
	}
	p := at.partition
	a.announceCreated(&at)
	group, err := a.positionGroup(planned)
	if err != nil {
		return err
	}
	if position.HasMetadata {
		a.batch.Put(layout.Position(planned.queue.ID, group.ID, p.ID), []byte(position.Metadata))
	}
	if !position.HasOffset {
		return nil
	}
	tail, err := a.tail(planned.queue, p)
	if err != nil {
		return err
	}
	var start uint64
	err = a.inPartition(planned.queue, p, func(m *partition.Machine) error {
		start = max(m.LogStart(), uint64(position.Offset))
		return nil
	})
	if err != nil {
		return err
	}
	return a.moveCursor(planned.queue, group, p, start, tail)
}

func (a *apply) positionGroup(planned *plannedPosition) (group *catalog.Group, err error) {
	err = a.inCatalog(func(m *catalog.Machine) error {
		if planned.position.Subscription.Mode == command.SubscriptionNone {
			group = m.EnsureGroup(a.batch, a.at(), planned.queue, planned.position.Group)
		} else {
			group = m.Register(a.batch, a.at(), planned.queue, planned.position.Group, planned.position.Subscription, false)
		}
		a.changed(planned.queue.ID)
		return nil
	})
	return group, err
}

// AckErrorText is the text of a failed ack (messaging 6.6).
func AckErrorText(e command.AckError, partitionID uint64) string {
	switch e {
	case command.AckBadLease:
		return "invalid or expired lease"
	case command.AckUnresolvable:
		return "transaction is unresolvable, already committed, or acknowledgment is stale"
	case command.AckNoPartition:
		return fmt.Sprintf("no partition %d", partitionID)
	case command.AckForeignTenant:
		return fmt.Sprintf("partition %d not owned by this tenant", partitionID)
	case command.AckTooManyDeadLetters:
		return "too many messages to dead-letter in one call; acknowledge fewer at a time"
	default:
		return "the outcome is unknown"
	}
}
