package actors

import (
	"queen/raftlog/command"
)

func (g *generator) configure() command.Command {
	c := command.Configure{Tenant: g.tenant(), Queue: g.queue(), Replace: g.oneIn(6)}
	for range 1 + g.random.IntN(3) {
		c.Changes = append(c.Changes, g.optionChange())
	}
	return c
}

// optionChange keeps every window below generatedWindowSeconds.
func (g *generator) optionChange() command.OptionChange {
	number := func(key command.OptionKey, of ...int32) command.OptionChange {
		return command.OptionChange{Key: key, Number: pick(g, of)}
	}
	flag := func(key command.OptionKey) command.OptionChange {
		return command.OptionChange{Key: key, Flag: g.oneIn(2)}
	}
	switch g.random.IntN(16) {
	case 0:
		return number(command.OptionLeaseTime, 1, 5, 60)
	case 1:
		return number(command.OptionRetryLimit, 0, 1, 3)
	case 2:
		return number(command.OptionRetryDelay, 0, 200, 3000)
	case 3:
		return command.OptionChange{Key: command.OptionRetryDelay, Reset: true}
	case 4:
		return flag(command.OptionDeadLetterQueue)
	case 5:
		return flag(command.OptionDLQAfterMaxRetries)
	case 6:
		return number(command.OptionDelayedProcessing, 0, 0, 0, 1, 3)
	case 7:
		return number(command.OptionWindowBuffer, 0, 0, 0, 1, 2)
	case 8:
		return flag(command.OptionRetentionEnabled)
	case 9:
		return number(command.OptionRetentionSeconds, 0, 0, 5, 120)
	case 10:
		return number(command.OptionCompletedRetentionSeconds, 0, 1, 20)
	case 11:
		return number(command.OptionMaxWaitTimeSeconds, 0, 0, 0, 10, 300)
	case 12:
		return command.OptionChange{Key: command.OptionRetentionSinkHold, Text: pick(g, []string{"", "audit", "nobody"})}
	case 13:
		return number(command.OptionDedupWindowSeconds, 0, 10, 3600)
	case 14:
		return flag(command.OptionEncryptionEnabled)
	default:
		return number(command.OptionRetentionSinkHoldMaxSeconds, 60, 200)
	}
}

func (g *generator) deleteLetters() command.Command {
	c := command.DeadLetterDelete{Tenant: g.tenant(), Queue: g.queue(), Group: g.group(), AnyGroup: g.oneIn(3)}
	if len(g.model.letters) > 0 && g.oneIn(2) {
		letter := pick(g, g.model.letters)
		c = command.DeadLetterDelete{Tenant: c.Tenant, ByAddress: true, Partition: letter.partition, Txid: letter.message.txid}
	}
	return c
}

func (g *generator) replay() command.Command {
	c := command.DeadLetterReplay{Tenant: g.tenant(), Row: g.uuid(), MessageID: g.uuid()}
	if len(g.model.letters) > 0 {
		letter := pick(g, g.model.letters)
		if !g.oneIn(5) {
			c.Tenant = g.model.byID[letter.queue].tenant
		}
		c.Row = letter.id
		if c.ByAddress = g.oneIn(2); c.ByAddress {
			c.Row, c.Partition, c.Txid = [16]byte{}, letter.partition, letter.message.txid
		}
	}
	if c.HasQueue = g.oneIn(4); c.HasQueue {
		c.Queue = g.queue()
	}
	if c.HasPartition = g.oneIn(4); c.HasPartition {
		c.Destination = g.partitionName()
	}
	if g.oneIn(2) {
		c.Sealed = []byte(`{"encrypted":"c2VhbGVk"}`)
	}
	return c
}

func (g *generator) retain() command.Command {
	c := command.Retain{}
	for range 1 + g.random.IntN(4) {
		c.Partitions = append(c.Partitions, command.RetainPartition{
			Partition: g.partitionID(), MaxAppends: pick(g, []uint32{1, 5, 1000}),
		})
	}
	return c
}

// moveChunks empties one of the old buckets; the newest are left alone by the machine itself.
func (g *generator) moveChunks() command.Command {
	c := command.MoveChunks{
		Bucket: 1 + g.random.Uint32N(5), Partition: g.partitionID(), MaxBytes: pick(g, []uint32{1, 1, 4096, 512 << 10}),
	}
	if g.oneIn(3) {
		c.Partition = command.NoPartition
	}
	return c
}
