package kv

import (
	"fmt"

	"github.com/google/uuid"

	"queen/raftlog/command"
)

// Moment is what a command is executed under.
type Moment struct {
	// NowMicros is the stamp of the command, and the one instant of all that it does.
	NowMicros uint64
	Quota     Quota
}

// The codes of the refusals.
const (
	// CodeQuota refuses growth beyond the quota (state 2.5).
	CodeQuota = "kv_quota_exceeded"
	// codeError says that the group has no versions left to give.
	codeError = "kv_error"
	// codeBadRequest and codeDuplicate refuse what no node proposes, because it validates before.
	codeBadRequest = "kv_bad_request"
	codeDuplicate  = "kv_duplicate_key_in_call"
)

// Plan is a call that was judged and has not changed anything yet.
type Plan struct {
	tenant    uuid.UUID
	nowMicros uint64
	limits    command.KVLimits
	ops       []command.KVOp
	results   []command.KVOpResult
	changes   []change
	lost      *command.KVLost
	refusal   *command.Refusal
	counters  counters
}

// Judge decides a call without changing anything. The operations of a transaction are judged in the same way (state 2.12).
func Judge(r Reader, c *command.KV, at Moment) (*Plan, error) {
	p := &Plan{
		tenant: c.Tenant, nowMicros: at.NowMicros, limits: c.Limits, ops: c.Ops, results: make([]command.KVOpResult, len(c.Ops)),
	}
	if p.validate(); p.refusal != nil {
		return p, nil
	}
	for i := range c.Ops {
		if c.Ops[i].Kind.Reads() {
			continue
		}
		if err := p.op(r, i); err != nil {
			return nil, err
		}
		if p.refusal != nil {
			return p, nil
		}
		if result := &p.results[i]; result.Reason != command.KVApplied && c.Ops[i].Required {
			p.lost = &command.KVLost{Op: uint32(i), Reason: result.Reason, Version: result.Version, Value: result.Value}
			return p, nil
		}
	}
	return p, p.weigh(r, at.Quota)
}

// Refusal is why nothing of the call may happen; nil when nothing stands against it.
func (p *Plan) Refusal() *command.Refusal { return p.refusal }

// Lost is the operation with required that lost its condition and cancels the call; nil when there is none.
func (p *Plan) Lost() *command.KVLost { return p.lost }

func (p *Plan) refuse(code, text string) { p.refusal = &command.Refusal{Code: code, Text: text} }

// validate refuses what no node proposes, because a command decides about the state of every node: operations on what is no
// row, writes without a value, and a row that is written twice.
func (p *Plan) validate() {
	seen := make(map[place]struct{}, len(p.ops))
	for i := range p.ops {
		op := &p.ops[i]
		if op.Kind.Reads() {
			continue
		}
		at := place{op.Namespace, op.Key}
		if !at.valid() {
			p.refuse(codeBadRequest, "an operation names no row")
			return
		}
		if !op.Kind.Writes() {
			continue
		}
		if _, again := seen[at]; again {
			p.refuse(codeDuplicate, "a row is written twice")
			return
		}
		seen[at] = struct{}{}
		if (op.Kind == command.KVPut || op.Kind == command.KVPutIfAbsent) && len(op.Value) == 0 {
			p.refuse(codeBadRequest, "a write has no value")
			return
		}
	}
}

// weigh refuses a plan for which there are neither versions nor room left.
func (p *Plan) weigh(r Reader, quota Quota) (err error) {
	if len(p.changes) == 0 {
		return nil
	}
	if p.counters, err = readCounters(r); err != nil {
		return err
	}
	if p.counters.lastVersion+uint64(len(p.changes)) > MaxVersion {
		p.refuse(codeError, "there are no versions left")
		return nil
	}
	return p.hold(r, quota)
}

// Commit does what was judged and evaluates the reads, of which each sees all the writes (state 2.6). r shows everything that
// is written to w. The plan must neither be refused nor lost, and nothing else may have written rows since it was judged.
func (p *Plan) Commit(r Reader, w Writer) (*command.KVResult, error) {
	if err := p.write(r, w); err != nil {
		return nil, err
	}
	return p.read(r)
}

// write does the changes; without any it writes nothing.
func (p *Plan) write(r Reader, w Writer) error {
	if p.refusal != nil || p.lost != nil {
		panic("BUG: a kv call that nothing may come of is committed")
	}
	if len(p.changes) == 0 {
		return nil
	}
	x := &writing{w: w, account: account{counters: p.counters}}
	for i := range p.changes {
		c := &p.changes[i]
		if c.remove {
			x.remove(p.tenant, c.at, c.old)
			continue
		}
		row := &Row{ExpiresMicros: c.expiresMicros, UpdatedMicros: p.nowMicros}
		x.put(p.tenant, c.at, c.old, row, c.value, c.inline())
		*c.version = row.Version
	}
	if err := x.account.write(r, w); err != nil {
		return fmt.Errorf("commit kv call: %w", err)
	}
	return nil
}

// Execute judges a call and commits it. The result is a *command.Refusal or a *command.KVResult.
func Execute(r Reader, w Writer, c *command.KV, at Moment) (command.Result, error) {
	p, err := Judge(r, c, at)
	switch {
	case err != nil:
		return nil, err
	case p.refusal != nil:
		return p.refusal, nil
	case p.lost != nil:
		return &command.KVResult{Lost: p.lost}, nil
	default:
		return p.Commit(r, w)
	}
}

// Read evaluates a call without writes, which needs no entry (state 2.6): reads, and checks.
func Read(r Reader, c *command.KV, nowMicros uint64) (command.Result, error) {
	for i := range c.Ops {
		if c.Ops[i].Kind.Writes() {
			panic("BUG: a kv call that writes is read")
		}
	}
	return Execute(r, nil, c, Moment{NowMicros: nowMicros, Quota: Quota{NoLimit, NoLimit}})
}
