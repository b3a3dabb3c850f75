package command

import (
	"errors"
	"fmt"
)

// PopCall asks the leader to find work for a pop of another node (architecture 6). It travels between nodes and never into
// the log. What the claim gets travels back in the log alone; a PopAnswer says everything else.
type PopCall struct {
	// For is the id under which the pop waits at its node.
	For    RequestID
	Tenant Tenant
	Queue  string
	Group  string
	// Pinned pops read Partition alone.
	Pinned    bool
	Partition string
	// Discovery pops read all queues of a namespace or a task, as far as their group is registered there.
	Discovery             bool
	Namespace, Task       string
	HasNamespace, HasTask bool
	// Batch is the most messages that the pop takes, Partitions the most partitions; AutoBatch and AutoPartitions leave
	// them to the leader.
	Batch                     uint64
	Partitions                uint32
	AutoBatch, AutoPartitions bool
	LeaseMs                   uint64
	CommitOnDelivery          bool
	Subscription              Subscription
	Conflation                bool
	Wait                      bool
	// LeftMicros is what is left until the deadline of the pop, AgoMicros how long ago it came to its node. Durations, for
	// the clocks of two nodes differ.
	LeftMicros, AgoMicros uint64
	// Tried tells that the pop does not make its queue any more (messaging 9.11), Again that it has been sent to a leader before.
	Tried, Again bool
}

// PopVerdict is what became of a PopCall.
type PopVerdict uint8

// The verdicts.
const (
	// PopTaken: a claim for the pop got something. Its node learns what from the log.
	PopTaken PopVerdict = 1
	// PopNothing: there is nothing for it, and the leader was leader when it found so.
	PopNothing PopVerdict = 2
	// PopAgain: the node does not lead, or not any more.
	PopAgain PopVerdict = 3
	// PopRefused: no, with a code.
	PopRefused PopVerdict = 4
	// PopOverloaded: too many commands or pops wait at the leader.
	PopOverloaded PopVerdict = 5
)

// PopAnswer answers a PopCall.
type PopAnswer struct {
	Verdict PopVerdict
	// Registered tells whether the group is known on the queue; Conflation is its stored policy then.
	Registered, Conflation bool
	// Tried tells that the pop has made its queue, or found it, and does not make it again.
	Tried bool
	// Doubtful tells that the leader may have made a claim for the pop and does not know what became of it.
	Doubtful bool
	// Code and Text are those of a refusal.
	Code, Text string
}

// callVersion is the version of PopCall and PopAnswer, their first byte.
const callVersion = 1

// ErrBadCall is returned for bytes that are no call or no answer to one.
var ErrBadCall = errors.New("call of another node is malformed")

// AppendPopCall appends the encoding of a call.
func AppendPopCall(dst []byte, c *PopCall) []byte {
	dst = append(dst, callVersion)
	dst = appendRequest(dst, c.For)
	dst = appendUUID(dst, c.Tenant)
	for _, text := range []string{c.Queue, c.Group, c.Partition, c.Namespace, c.Task} {
		dst = appendString(dst, text)
	}
	dst = appendFlags(dst, c.Pinned, c.Discovery, c.HasNamespace, c.HasTask, c.AutoBatch, c.AutoPartitions,
		c.CommitOnDelivery, c.Conflation)
	dst = appendFlags(dst, c.Wait, c.Tried, c.Again)
	dst = appendSubscription(dst, c.Subscription)
	for _, number := range []uint64{c.Batch, uint64(c.Partitions), c.LeaseMs, c.LeftMicros, c.AgoMicros} {
		dst = appendNumber(dst, number)
	}
	return dst
}

// DecodePopCall reads a call. Its strings are copies. Errors wrap ErrBadCall or ErrUnknownFormat.
func DecodePopCall(data []byte) (PopCall, error) {
	d, err := beginCall(data)
	if err != nil {
		return PopCall{}, err
	}
	c := PopCall{For: d.request(), Tenant: d.uuid()}
	c.Queue, c.Group, c.Partition, c.Namespace, c.Task = d.name(), d.name(), d.name(), d.name(), d.name()
	flags := d.flags(8)
	c.Pinned, c.Discovery, c.HasNamespace, c.HasTask = bit(flags, 0), bit(flags, 1), bit(flags, 2), bit(flags, 3)
	c.AutoBatch, c.AutoPartitions, c.CommitOnDelivery, c.Conflation = bit(flags, 4), bit(flags, 5), bit(flags, 6), bit(flags, 7)
	flags = d.flags(3)
	c.Wait, c.Tried, c.Again = bit(flags, 0), bit(flags, 1), bit(flags, 2)
	c.Subscription = d.subscription()
	c.Batch, c.Partitions, c.LeaseMs = d.number(), d.number32(), d.number()
	c.LeftMicros, c.AgoMicros = d.number(), d.number()
	return c, d.endCall()
}

// AppendPopAnswer appends the encoding of an answer.
func AppendPopAnswer(dst []byte, a *PopAnswer) []byte {
	dst = append(dst, callVersion, byte(a.Verdict))
	dst = appendFlags(dst, a.Registered, a.Conflation, a.Tried, a.Doubtful)
	dst = appendString(dst, a.Code)
	return appendString(dst, a.Text)
}

// DecodePopAnswer reads an answer. Errors wrap ErrBadCall or ErrUnknownFormat.
func DecodePopAnswer(data []byte) (PopAnswer, error) {
	d, err := beginCall(data)
	if err != nil {
		return PopAnswer{}, err
	}
	a := PopAnswer{Verdict: PopVerdict(d.byte("verdict"))}
	if a.Verdict < PopTaken || a.Verdict > PopOverloaded {
		d.fail("verdict")
	}
	flags := d.flags(4)
	a.Registered, a.Conflation, a.Tried, a.Doubtful = bit(flags, 0), bit(flags, 1), bit(flags, 2), bit(flags, 3)
	a.Code, a.Text = d.name(), d.name()
	return a, d.endCall()
}

func beginCall(data []byte) (*decoder, error) {
	d := &decoder{rest: data}
	if version := d.byte("version"); d.err == nil && version != callVersion {
		return nil, fmt.Errorf("read call of version %d: %w", version, ErrUnknownFormat)
	}
	return d, nil
}

func (d *decoder) endCall() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end of a call")
	}
	if d.err != nil {
		return fmt.Errorf("%w: %w", ErrBadCall, d.err)
	}
	return nil
}
