package actors

import (
	"errors"

	"queen/actors/machine/catalog"
	"queen/actors/machine/partition"
	"queen/raftlog/command"
)

// push stores the groups of a push, each on its own (messaging 4.4).
func (a *apply) push(c *command.Push) (command.Result, error) {
	result := &command.PushResult{Groups: make([]command.PushGroupResult, len(c.Groups))}
	for i := range c.Groups {
		if err := a.pushGroup(c.Tenant, &c.Groups[i], &result.Groups[i]); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func (a *apply) pushGroup(tenant command.Tenant, g *command.PushGroup, out *command.PushGroupResult) error {
	at, err := a.ensurePartition(tenant, g.Queue, g.Partition)
	if err != nil {
		return err
	}
	if at.queue.Options.EncryptionEnabled && inClear(g) {
		return errInClear
	}
	in := a.appendInput(at.queue, g)
	var stored partition.AppendOutput
	err = a.inPartition(at.queue, at.partition, func(m *partition.Machine) (err error) {
		stored, err = m.Append(a.batch, a.batch, in)
		return err
	})
	if err != nil {
		return err
	}
	out.Partition, out.FirstOffset, out.Duplicates = at.partition.ID, stored.FirstOffset, stored.Duplicates
	if stored.Stored > 0 {
		a.appended(at.queue, appendedPartition{id: at.partition.ID, name: at.partition.Name, created: at.created})
	}
	return nil
}

// errInClear is why a command is taken back that would store a payload in clear in a queue that encrypts (messaging 4.5). The node that
// made it had not applied the option yet; it has by the time that the client tries again.
var errInClear = errors.New("a payload in clear for a queue that encrypts")

// inClear tells whether a payload of a group is not encrypted.
func inClear(g *command.PushGroup) bool {
	var message command.Message
	for rest := g.Chunk; len(rest) > 0; {
		var err error
		if rest, err = command.NextMessage(rest, &message); err != nil || !message.Encrypted {
			return true
		}
	}
	return false
}

func (a *apply) appendInput(queue *catalog.Queue, g *command.PushGroup) partition.AppendInput {
	return partition.AppendInput{
		StampMicros:       a.now,
		Chunk:             g.Chunk,
		Count:             g.Count,
		DedupWindowMicros: uint64(queue.Options.DedupWindowSeconds) * microsPerSecond,
		HashWindowMicros:  a.hashWindowMicros(&queue.Options),
	}
}

// place is a partition of a queue; created tells that the command has made it.
type place struct {
	queue     *catalog.Queue
	partition *catalog.Partition
	created   bool
}

// ensurePartition finds a partition by names and makes what is missing (messaging 4.4.2).
func (a *apply) ensurePartition(tenant command.Tenant, queueName, name string) (at place, err error) {
	err = a.inCatalog(func(m *catalog.Machine) (err error) {
		var queueCreated bool
		at.queue, queueCreated = m.EnsureQueue(a.batch, a.at(), tenant, queueName)
		if queueCreated {
			a.changed(at.queue.ID)
		}
		at.partition, at.created, err = m.EnsurePartition(a.batch, a.batch, a.at(), at.queue, name)
		return err
	})
	return at, err
}

// inPartition runs a step of the machine of a partition.
func (a *apply) inPartition(queue *catalog.Queue, p *catalog.Partition, run func(m *partition.Machine) error) error {
	a.partitionStep = step[*partition.Machine]{reader: a.batch, run: run}
	if err := a.call(a.partitions.get(queue.ID, p.ID).Handle, &a.partitionStep); err != nil {
		return err
	}
	return a.partitionStep.err
}
