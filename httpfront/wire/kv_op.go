package wire

import (
	"slices"
	"strconv"
	"strings"

	"queen/raftlog/command"
)

const (
	// kvTenantBytes and kvPlaceBytes bound namespace and key, with the tenant, by the key of the store (state 2.5).
	kvTenantBytes = 36
	kvPlaceBytes  = 511
	// defaultKVPage and maxKVPage are the rows of a page (state 2.8, 2.11).
	defaultKVPage = 100
	maxKVPage     = 1000
)

// kvNames are the operations, by kind. Answers repeat the name that was asked for.
var kvNames = [...]string{
	command.KVGet: "get", command.KVGetMany: "getMany", command.KVGetPrefix: "getPrefix", command.KVPut: "put",
	command.KVPutIfAbsent: "putIfAbsent", command.KVDelete: "delete", command.KVIncr: "incr", command.KVCheck: "check",
}

// KVOpName is the name of an operation.
func KVOpName(kind command.KVOpKind) string { return kvNames[kind] }

// rawKVOp holds the members of an operation as text; nil is an absent one.
type rawKVOp struct {
	kind, namespace, key, keys, prefix, after, limit, keysOnly []byte
	value, ttl, forever, expect, required, delta, min, max     []byte
	// tenant tells that the operation names one. addressed tells that it says what it does and to which row.
	tenant, addressed bool
}

// readKVOp collects the members of an operation, which the scanner has found valid.
func readKVOp(text []byte) (o *rawKVOp, isObject bool) {
	o = &rawKVOp{}
	s := scanner{data: text}
	if !s.open('{') {
		return nil, false
	}
	for s.member() {
		field := o.field(s.name)
		o.tenant = o.tenant || namesTenant(s.name)
		o.addressed = o.addressed || field == &o.kind || field == &o.namespace || field == &o.key || string(s.name) == "namespace"
		if value := s.value(); field != nil {
			*field = value
		}
	}
	return o, true
}

// field is where the value of a member goes; nil for one that nobody reads.
func (o *rawKVOp) field(name []byte) *[]byte {
	switch string(name) {
	case "op":
		return &o.kind
	case "ns":
		return &o.namespace
	case "key":
		return &o.key
	case "keys":
		return &o.keys
	case "prefix":
		return &o.prefix
	case "after":
		return &o.after
	case "limit":
		return &o.limit
	case "keysOnly":
		return &o.keysOnly
	case "value":
		return &o.value
	case "ttlSeconds":
		return &o.ttl
	case "forever":
		return &o.forever
	case "expect":
		return &o.expect
	case "required":
		return &o.required
	case "delta":
		return &o.delta
	case "min":
		return &o.min
	case "max":
		return &o.max
	}
	return nil
}

// decode validates an operation in the order of state 2.5.
func (o *rawKVOp) decode(op *command.KVOp, bounds *KVBounds, path string) (err error) {
	name, _ := textString(o.kind)
	kind := command.KVOpKind(max(slices.Index(kvNames[:], name), 0)) // no name is none
	if kind == 0 {
		return kvRefusal("kv_unknown_op", "%s: unknown op %s", path, compact(o.kind))
	}
	if op.Kind = kind; o.tenant {
		return kvRefusal(reasonKVTenant, "%s: a tenant is not named in an operation", path)
	}
	if op.Namespace, err = kvNamespace(o.namespace, path); err != nil {
		return err
	}
	switch kind {
	case command.KVGetPrefix:
		return o.page(op, bounds, path)
	case command.KVGetMany:
		return o.many(op, bounds, path)
	}
	if op.Key, err = kvKey(o.key, op.Namespace, path+": key"); err != nil || kind == command.KVGet {
		return err
	}
	return o.write(op, bounds, path)
}

// kvKey reads the key of a row.
func kvKey(raw []byte, namespace, path string) (string, error) {
	key, ok := textString(raw)
	switch {
	case !ok:
		return "", kvRefusal(reasonKVBadKey, "%s must be a string", path)
	case key == "":
		return "", kvRefusal(reasonKVBadKey, "%s must not be empty", path)
	case strings.IndexByte(key, 0) >= 0:
		return "", kvRefusal(reasonKVBadKey, "%s must not hold a zero byte", path)
	}
	return key, kvPlaceFits(namespace, key, path)
}

func kvPlaceFits(namespace, key, path string) error {
	if kvTenantBytes+len(namespace)+len(key) > kvPlaceBytes {
		return kvTooLarge("kv_key_too_large", "%s and its namespace exceed %d bytes together", path, kvPlaceBytes-kvTenantBytes)
	}
	return nil
}

// page reads a getPrefix.
func (o *rawKVOp) page(op *command.KVOp, bounds *KVBounds, path string) (err error) {
	if bounds.InTransaction {
		return kvRefusal("kv_get_prefix_not_allowed_in_transaction", "%s: a prefix cannot be read in a transaction", path)
	}
	prefix, ok := textString(o.prefix)
	if !ok || prefix == "" {
		return kvRefusal("kv_prefix_required", "%s: prefix must be a string that is not empty", path)
	}
	op.Key = prefix
	if err := kvPlaceFits(op.Namespace, prefix, path+": prefix"); err != nil {
		return err
	}
	if op.After, err = kvText(o.after, path, "after"); err != nil {
		return err
	}
	if op.Limit, err = kvPageLimit(o.limit, path); err != nil {
		return err
	}
	if op.KeysOnly, ok = switched(o.keysOnly); !ok {
		return kvRefusal(reasonKVBadRequest, "%s: keysOnly must be true or false", path)
	}
	return nil
}

// kvText reads a text that may be absent.
func kvText(raw []byte, path, name string) (string, error) {
	if nothing(raw) {
		return "", nil
	}
	text, ok := textString(raw)
	if !ok {
		return "", kvRefusal(reasonKVBadRequest, "%s: %s must be a string", path, name)
	}
	return text, nil
}

// kvPageLimit reads how many rows a page has; a number is clamped, and never refused (state 2.8).
func kvPageLimit(raw []byte, path string) (uint32, error) {
	if nothing(raw) {
		return defaultKVPage, nil
	}
	if kindOf(raw) != kindNumber {
		return 0, kvRefusal(reasonKVBadRequest, "%s: limit must be a number", path)
	}
	// The error of a number beyond float64 comes with ±Inf, which is clamped like any other.
	number, _ := strconv.ParseFloat(string(raw), 64)
	return uint32(min(max(number, 1), maxKVPage)), nil
}

// many reads a getMany.
func (o *rawKVOp) many(op *command.KVOp, bounds *KVBounds, path string) error {
	if kindOf(o.keys) != kindArray {
		return kvRefusal(reasonKVBadRequest, "%s: keys must be an array", path)
	}
	list, _ := elements(o.keys, "keys", bounds.Keys) // it is a valid array; what is left out is too much for the call
	op.Keys = make([]string, len(list))
	for i, raw := range list {
		var err error
		if op.Keys[i], err = kvKey(raw, op.Namespace, path+": keys["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

// write reads what is no read: expiry, value, condition and numbers, in this order.
func (o *rawKVOp) write(op *command.KVOp, bounds *KVBounds, path string) error {
	stores := op.Kind == command.KVPut || op.Kind == command.KVPutIfAbsent
	if stores || op.Kind == command.KVIncr {
		if err := o.expiry(op, path); err != nil {
			return err
		}
	}
	if stores {
		if o.value == nil {
			return kvRefusal(reasonKVBadRequest, "%s: value is required", path)
		}
		op.Value = appendCompact(make([]byte, 0, min(len(o.value), bounds.ValueBytes+1)), o.value, bounds.ValueBytes)
		if len(op.Value) > bounds.ValueBytes {
			return kvTooLarge("kv_value_too_large", "%s: value is longer than %d bytes", path, bounds.ValueBytes)
		}
	}
	if err := o.condition(op, path); err != nil {
		return err
	}
	var ok bool
	if op.Required, ok = switched(o.required); !ok {
		return kvRefusal(reasonKVBadRequest, "%s: required must be true or false", path)
	}
	if op.Kind == command.KVIncr {
		return o.numbers(op, path)
	}
	return nil
}

// expiry reads how long a row lives: exactly one of ttlSeconds and forever says so.
func (o *rawKVOp) expiry(op *command.KVOp, path string) error {
	if o.ttl != nil {
		seconds, ok := whole(o.ttl)
		if !ok || seconds == 0 {
			return kvRefusal("kv_bad_ttl", "%s: ttlSeconds must be an integer above 0", path)
		}
		op.TTLSeconds = seconds
	}
	if forever := string(o.forever) == "true"; forever == (o.ttl != nil) {
		return kvRefusal("kv_expiry_not_specified", "%s: exactly one of ttlSeconds and forever:true is required", path)
	}
	return nil
}

// condition reads expect.
func (o *rawKVOp) condition(op *command.KVOp, path string) error {
	const reason = "kv_bad_expect"
	if o.expect == nil {
		if op.Kind == command.KVCheck {
			return kvRefusal(reason, "%s: check needs expect", path)
		}
		return nil
	}
	version, ok := whole(o.expect)
	if !ok {
		return kvRefusal(reason, "%s: expect must be an integer of at least 0", path)
	}
	if op.Kind == command.KVPutIfAbsent && version != 0 {
		return kvRefusal(reason, "%s: expect of a putIfAbsent can only be 0", path)
	}
	op.Expect, op.HasExpect = version, true
	return nil
}

// numbers reads those of an incr, as text: they are exact decimals (state 2.3).
func (o *rawKVOp) numbers(op *command.KVOp, path string) error {
	if o.expect != nil {
		return kvRefusal(reasonKVBadRequest, "%s: incr has no expect", path)
	}
	for _, number := range []struct {
		name     string
		raw      []byte
		into     *string
		required bool
	}{{"delta", o.delta, &op.Delta, true}, {"min", o.min, &op.Min, false}, {"max", o.max, &op.Max, false}} {
		if nothing(number.raw) && !number.required {
			continue
		}
		if kindOf(number.raw) != kindNumber {
			return kvRefusal(reasonKVBadRequest, "%s: %s must be a number", path, number.name)
		}
		*number.into = string(number.raw)
	}
	return nil
}
