package wire

import (
	"fmt"
	"regexp"
	"strings"

	"queen/raftlog/command"
)

// KVBounds are the settings that a call of the KV store is held to (state 2.5).
type KVBounds struct {
	// Ops and Keys are how many operations and keys a call may have.
	Ops, Keys int
	// ValueBytes is how long a value may be as compact JSON.
	ValueBytes int
	// InTransaction refuses what does not ride in one.
	InTransaction bool
}

// The bounds of the operations in a transaction (state 2.12).
const (
	TransactionKVOps  = 64
	TransactionKVKeys = 256
)

// The codes of refusals, and reasons that more than one place gives (state 2.5).
const (
	codeKVBadRequest Code = "kv_bad_request"
	codeTooLarge     Code = "payload_too_large"

	reasonKVBadBody      = "kv_bad_body"
	reasonKVBadRequest   = "kv_bad_request"
	reasonKVBadNamespace = "kv_bad_namespace"
	reasonKVBadKey       = "kv_bad_key"
	reasonKVTenant       = "kv_tenant_not_an_input"
)

func kvRefusal(reason, format string, args ...any) *Error {
	return &Error{Code: codeKVBadRequest, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

func kvTooLarge(reason, format string, args ...any) *Error {
	return &Error{Code: codeTooLarge, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// DecodeKV reads the body of a call (state 2.2) and validates it (2.5). Nothing of the result aliases the body. The error is an
// *Error with a Reason.
func DecodeKV(body []byte, bounds *KVBounds) ([]command.KVOp, error) {
	list, err := operations(body, bounds.Ops)
	if err != nil {
		return nil, kvRefusal(reasonKVBadBody, "%s", err)
	}
	return DecodeKVOps(list, "operations", bounds)
}

// DecodeKVOps is DecodeKV for the texts of the operations, which stand in a member of that name.
func DecodeKVOps(list [][]byte, name string, bounds *KVBounds) ([]command.KVOp, error) {
	if len(list) > bounds.Ops {
		return nil, kvRefusal("kv_too_many_ops", "more than %d operations", bounds.Ops)
	}
	ops := make([]command.KVOp, len(list))
	for i, element := range list {
		path := fmt.Sprintf("%s[%d]", name, i)
		raw, isObject := readKVOp(element)
		if !isObject {
			return nil, kvRefusal(reasonKVBadRequest, "%s must be an object", path)
		}
		if err := raw.decode(&ops[i], bounds, path); err != nil {
			return nil, err
		}
	}
	if err := checkKVKeys(ops, bounds); err != nil {
		return nil, err
	}
	return ops, checkKVWrites(ops)
}

// checkKVKeys counts the keys that a call names, a page of a prefix by its limit.
func checkKVKeys(ops []command.KVOp, bounds *KVBounds) error {
	keys := 0
	for i := range ops {
		switch ops[i].Kind {
		case command.KVGetMany:
			keys += len(ops[i].Keys)
		case command.KVGetPrefix:
			keys += int(ops[i].Limit)
		default:
			keys++
		}
	}
	if keys > bounds.Keys {
		return kvRefusal("kv_too_many_keys", "more than %d keys", bounds.Keys)
	}
	return nil
}

// checkKVWrites refuses a row that is written twice.
func checkKVWrites(ops []command.KVOp) error {
	type place struct{ namespace, key string }
	written := make(map[place]struct{}, len(ops))
	for i := range ops {
		if !ops[i].Kind.Writes() {
			continue
		}
		at := place{ops[i].Namespace, ops[i].Key}
		if _, again := written[at]; again {
			return kvRefusal("kv_duplicate_key_in_call", "a row is written twice")
		}
		written[at] = struct{}{}
	}
	return nil
}

// DecodeKVGet validates the address of a row that is read.
func DecodeKVGet(namespace, key string) (op command.KVOp, err error) {
	raw := rawKVOp{kind: []byte(`"get"`)}
	return op, raw.decodeAt(&op, namespace, key, &KVBounds{})
}

// DecodeKVPut reads the body of a write of one row, whose address stands in the path (state 2.10).
func DecodeKVPut(body []byte, namespace, key string, bounds *KVBounds) (op command.KVOp, err error) {
	raw, err := readKVBody(body, `"put"`)
	if err == nil {
		err = raw.decodeAt(&op, namespace, key, bounds)
	}
	return op, err
}

// DecodeKVDelete reads the body of the deletion of one row, which may be empty (state 2.10).
func DecodeKVDelete(body []byte, namespace, key string) (op command.KVOp, err error) {
	if len(strings.TrimSpace(string(body))) == 0 {
		body = []byte("{}")
	}
	raw, err := readKVBody(body, `"delete"`)
	if err == nil {
		err = raw.decodeAt(&op, namespace, key, &KVBounds{})
	}
	return op, err
}

// readKVBody reads the body of a path route, which says what the path does not.
func readKVBody(body []byte, kind string) (*rawKVOp, error) {
	s := newScanner(body)
	value := s.value()
	if s.end(); s.err != nil {
		return nil, kvRefusal(reasonKVBadBody, "%s", s.err)
	}
	raw, isObject := readKVOp(value)
	if !isObject {
		return nil, kvRefusal(reasonKVBadRequest, "the body must be an object")
	}
	if raw.addressed {
		return nil, kvRefusal("kv_field_in_path", "op, ns, namespace and key stand in the path and not in the body")
	}
	raw.kind = []byte(kind)
	return raw, nil
}

// decodeAt decodes an operation whose row is named by a path.
func (o *rawKVOp) decodeAt(op *command.KVOp, namespace, key string, bounds *KVBounds) error {
	o.namespace, o.key = AppendString(nil, namespace), AppendString(nil, key)
	return o.decode(op, bounds, "the request")
}

// DecodeKVList reads the body of a page of the console (state 2.11).
func DecodeKVList(body []byte) (*KVList, error) {
	var namespace, prefix, after, limit, keysOnly, expired []byte
	err := objectMembers(body, member{"namespace", &namespace}, member{"prefix", &prefix}, member{"after", &after},
		member{"limit", &limit}, member{"keysOnly", &keysOnly}, member{"includeExpired", &expired})
	if err != nil {
		return nil, kvRefusal(reasonKVBadBody, "%s", err)
	}
	list := &KVList{}
	if list.Namespace, err = kvNamespace(namespace, "the request"); err != nil {
		return nil, err
	}
	for _, text := range []struct {
		name string
		raw  []byte
		into *string
	}{{"prefix", prefix, &list.Prefix}, {"after", after, &list.After}} {
		if *text.into, err = kvText(text.raw, "the request", text.name); err != nil {
			return nil, err
		}
	}
	if list.Limit, err = kvPageLimit(limit, "the request"); err != nil {
		return nil, err
	}
	for _, flag := range []struct {
		name string
		raw  []byte
		into *bool
	}{{"keysOnly", keysOnly, &list.KeysOnly}, {"includeExpired", expired, &list.IncludeExpired}} {
		var ok bool
		if *flag.into, ok = switched(flag.raw); !ok {
			return nil, kvRefusal(reasonKVBadRequest, "%s must be true or false", flag.name)
		}
	}
	return list, nil
}

// KVList asks for a page of the console.
type KVList struct {
	Namespace, Prefix, After string
	Limit                    uint32
	KeysOnly, IncludeExpired bool
}

var kvNamespaces = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func kvNamespace(raw []byte, path string) (string, error) {
	namespace, ok := textString(raw)
	if !ok || !kvNamespaces.MatchString(namespace) {
		return "", kvRefusal(reasonKVBadNamespace, "%s: ns must match %s", path, kvNamespaces)
	}
	return namespace, nil
}
