package wire

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"queen/raftlog/command"
)

// Limits of a lock call (state 4.2).
const (
	maxLockOps = 64
	// maxLockSlots is how many slots a call may name, lockGetSlots how many a get counts for.
	maxLockSlots = 4096
	lockGetSlots = 1000
	maxLockLimit = 1024
	maxLockText  = 256
	codeLocks    = Code("locks_bad_request")
)

// lockNames are the operations, by kind.
var lockNames = [...]string{command.LockAcquire: "acquire", command.LockRenew: "renew", command.LockRelease: "release", command.LockGet: "get"}

// LockOpName is the name of an operation.
func LockOpName(kind command.LockOpKind) string { return lockNames[kind] }

func lockRefusal(reason, format string, args ...any) *Error {
	return &Error{Code: codeLocks, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// DecodeLock reads the body of a lock call and validates it (state 4.2, 4.5). Nothing of the result aliases the body. The error is an
// *Error with a Reason.
func DecodeLock(body []byte) ([]command.LockOp, error) {
	list, err := operations(body, maxLockOps)
	if err != nil {
		return nil, lockRefusal("locks_bad_body", "%s", err)
	}
	if len(list) > maxLockOps {
		return nil, lockRefusal("locks_too_many_ops", "more than %d operations", maxLockOps)
	}
	ops := make([]command.LockOp, len(list))
	slots := 0
	for i, element := range list {
		if err := decodeLockOp(&ops[i], element, fmt.Sprintf("operations[%d]", i)); err != nil {
			return nil, err
		}
		switch ops[i].Kind {
		case command.LockAcquire:
			slots += int(ops[i].Limit)
		case command.LockGet:
			slots += lockGetSlots
		default:
			slots++
		}
	}
	if slots > maxLockSlots {
		return nil, lockRefusal("locks_too_many_keys", "%d slots, at most %d are allowed", slots, maxLockSlots)
	}
	seen := make(map[string]struct{}, len(ops))
	for i := range ops {
		seen[ops[i].Name] = struct{}{}
	}
	if len(seen) < len(ops) {
		return nil, lockRefusal("locks_duplicate_in_call", "a name stands in two operations")
	}
	return ops, nil
}

// rawLockOp holds the members of an operation as text; nil is an absent one.
type rawLockOp struct {
	kind, name, owner, limit, slot, token, ttl []byte
	tenant                                     bool
}

func decodeLockOp(op *command.LockOp, text []byte, path string) error {
	s := scanner{data: text}
	if !s.open('{') {
		return lockRefusal("locks_bad_request", "%s must be an object", path)
	}
	var o rawLockOp
	for s.member() {
		o.tenant = o.tenant || namesTenant(s.name)
		switch string(s.name) {
		case "op":
			o.kind = s.value()
		case "name":
			o.name = s.value()
		case "owner":
			o.owner = s.value()
		case "limit":
			o.limit = s.value()
		case "slot":
			o.slot = s.value()
		case "token":
			o.token = s.value()
		case "ttlSeconds":
			o.ttl = s.value()
		default:
			s.value()
		}
	}
	return o.decode(op, path)
}

func (o *rawLockOp) decode(op *command.LockOp, path string) error {
	name, _ := textString(o.kind)
	if op.Kind = command.LockOpKind(max(slices.Index(lockNames[:], name), 0)); op.Kind == 0 { // no name is none
		return lockRefusal("locks_unknown_op", "%s: unknown op %s", path, compact(o.kind))
	}
	if o.tenant {
		return lockRefusal("locks_tenant_not_an_input", "%s: a tenant is not named in an operation", path)
	}
	var ok bool
	if op.Name, ok = lockText(o.name); !ok || strings.IndexByte(op.Name, '#') >= 0 {
		return lockRefusal("locks_bad_name", "%s: name must have 1 to %d bytes, no control character and no #", path, maxLockText)
	}
	reads := map[command.LockOpKind][]func(*command.LockOp, string) error{
		command.LockAcquire: {o.lifetime, o.holder, o.permits},
		command.LockRenew:   {o.fence, o.lifetime, o.place, o.holder},
		command.LockRelease: {o.fence, o.place},
	}
	for _, read := range reads[op.Kind] {
		if err := read(op, path); err != nil {
			return err
		}
	}
	return nil
}

// lockText reads a name or an owner.
func lockText(raw []byte) (string, bool) {
	text, ok := textString(raw)
	return text, ok && text != "" && len(text) <= maxLockText && strings.IndexFunc(text, unicode.IsControl) < 0
}

func (o *rawLockOp) lifetime(op *command.LockOp, path string) error {
	if o.ttl == nil {
		return lockRefusal("locks_ttl_required", "%s: ttlSeconds is required", path)
	}
	var ok bool
	if op.TTLSeconds, ok = whole(o.ttl); !ok || op.TTLSeconds == 0 {
		return lockRefusal("locks_bad_ttl", "%s: ttlSeconds must be an integer above 0", path)
	}
	return nil
}

func (o *rawLockOp) holder(op *command.LockOp, path string) error {
	if nothing(o.owner) {
		return nil
	}
	var ok bool
	if op.Owner, ok = lockText(o.owner); !ok {
		return lockRefusal("locks_bad_owner", "%s: owner must have 1 to %d bytes and no control character", path, maxLockText)
	}
	return nil
}

func (o *rawLockOp) permits(op *command.LockOp, path string) error {
	op.Limit = 1
	if nothing(o.limit) {
		return nil
	}
	limit, ok := whole(o.limit)
	if !ok || limit < 1 || limit > maxLockLimit {
		return lockRefusal("locks_bad_limit", "%s: limit must be from 1 to %d", path, maxLockLimit)
	}
	op.Limit = uint32(limit)
	return nil
}

func (o *rawLockOp) fence(op *command.LockOp, path string) error {
	if o.token == nil {
		return lockRefusal("locks_token_required", "%s: token is required", path)
	}
	var ok bool
	if op.Token, ok = whole(o.token); !ok || op.Token == 0 {
		return lockRefusal("locks_bad_token", "%s: token must be an integer above 0", path)
	}
	return nil
}

func (o *rawLockOp) place(op *command.LockOp, path string) error {
	if nothing(o.slot) {
		return nil
	}
	slot, ok := whole(o.slot)
	if !ok || slot >= maxLockLimit {
		return lockRefusal("locks_bad_slot", "%s: slot must be from 0 to %d", path, maxLockLimit-1)
	}
	op.Slot = uint32(slot)
	return nil
}
