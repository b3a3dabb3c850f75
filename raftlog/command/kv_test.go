package command

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// kvCodec is a type of this family with its encoding, which has no envelope of its own: entries and results give it one.
type kvCodec struct {
	name   string
	sample any
	append func(value any) []byte
	decode func(d *decoder) any
}

func kvCodecs() []kvCodec {
	tenant := DefaultTenant
	limits := KVLimits{ValueBytes: 65_536, ReadBytes: 4 << 20}
	kv := KV{Tenant: tenant, Limits: limits, Ops: []KVOp{
		{Kind: KVGet, Namespace: "orders", Key: "a"},
		{Kind: KVGetMany, Namespace: "orders", Keys: []string{"b", "c"}},
		{Kind: KVGetPrefix, Namespace: "orders", Key: "scan/", After: "scan/1", Limit: 100, KeysOnly: true},
		{Kind: KVPut, Namespace: "orders", Key: "d", Value: []byte(`{"n":1}`), TTLSeconds: 60, Expect: 300, HasExpect: true},
		{Kind: KVPutIfAbsent, Namespace: "orders", Key: "e", Value: []byte(`null`)},
		{Kind: KVDelete, Namespace: "orders", Key: "f", Required: true},
		{Kind: KVIncr, Namespace: "counters", Key: "g", Delta: "-1.5", Min: "0", Max: "1e3"},
		{Kind: KVCheck, Namespace: "orders", Key: "h", HasExpect: true, Required: true},
	}}
	results := &KVResult{Ops: []KVOpResult{
		{Found: true, Version: 7, Value: []byte(`"x"`), ExpiresMicros: 1_700_000_000_000_000, UpdatedMicros: 1_600_000_000_000_000},
		{Rows: []KVRow{{Key: "b", Value: []byte(`1`), Version: 300, ExpiresMicros: 5, UpdatedMicros: 4}}, Missing: []uint32{1}},
		{Rows: []KVRow{{Key: "scan/2", Version: 9, UpdatedMicros: 4}}, Truncated: true, After: "scan/2"},
		{Version: 8},
		{Reason: KVReasonExists, Version: 3, Value: []byte(`null`)},
		{Reason: KVReasonAbsent},
		{Reason: KVReasonLimit, Value: []byte(`0`)},
		{Reason: KVReasonType, Version: 1 << 53, Value: []byte(`"x"`)},
	}}
	lost := &KVResult{Lost: &KVLost{Op: 300, Reason: KVReasonVersion, Version: 8, Value: []byte(`{"owner":"me"}`)}}
	lock := Lock{Tenant: tenant, Ops: []LockOp{
		{Kind: LockAcquire, Name: "daily", Owner: "host:1:ab", Limit: 3, TTLSeconds: 30},
		{Kind: LockRenew, Name: "weekly", Slot: 2, Token: 300, TTLSeconds: 30, Owner: "host:1:ab"},
		{Kind: LockRelease, Name: "monthly", Slot: 1, Token: 9},
		{Kind: LockGet, Name: "yearly"},
	}}
	locked := &LockResult{Ops: []LockOpResult{
		{Done: true, Already: true, Slot: 2, Token: 300},
		{Holders: []LockHolder{{Slot: 2, Owner: "host:2:cd", Token: 301, SinceMicros: 1, UpdatedMicros: 300, ExpiresMicros: 3}, {}}},
		{Slot: 1, Done: true},
	}}
	appendKV := func(value any) []byte { return value.(KV).appendTo(nil) }
	decodeKV := func(d *decoder) any { return d.kv() }
	appendResult := func(value any) []byte { return value.(*KVResult).appendTo(nil) }
	decodeResult := func(d *decoder) any { return d.kvResult() }
	return []kvCodec{
		{"kv", kv, appendKV, decodeKV},
		{"kv_empty", KV{Tenant: tenant}, appendKV, decodeKV},
		{"kv_sweep", KVSweep{MaxRows: 512}, func(value any) []byte { return value.(KVSweep).appendTo(nil) },
			func(d *decoder) any { return d.kvSweep() }},
		{"lock", lock, func(value any) []byte { return value.(Lock).appendTo(nil) }, func(d *decoder) any { return d.lock() }},
		{"kv_result", results, appendResult, decodeResult},
		{"kv_result_lost", lost, appendResult, decodeResult},
		{"kv_result_sweep", &KVSweepResult{Removed: 300, More: true},
			func(value any) []byte { return value.(*KVSweepResult).appendTo(nil) }, func(d *decoder) any { return d.kvSweepResult() }},
		{"lock_result", locked, func(value any) []byte { return value.(*LockResult).appendTo(nil) },
			func(d *decoder) any { return d.lockResult() }},
	}
}

// read decodes all of data.
func (c *kvCodec) read(data []byte) (any, error) {
	d := decoder{rest: data}
	value := c.decode(&d)
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end")
	}
	return value, d.err
}

func TestKVEncodingEqualsGoldenFiles(t *testing.T) {
	for _, c := range kvCodecs() {
		data := c.append(c.sample)
		golden(t, c.name, data)
		if decoded, err := c.read(data); err != nil || !reflect.DeepEqual(decoded, c.sample) {
			t.Errorf("%s: decoded %+v, %v\nwant %+v", c.name, decoded, err, c.sample)
		}
	}
}

// inRange puts the enumerations of a drawn value into their range.
func inRange(value any) {
	switch v := value.(type) {
	case *KV:
		for i := range v.Ops {
			v.Ops[i].Kind = KVGet + v.Ops[i].Kind%KVCheck
		}
	case *KVResult:
		if v.Lost != nil {
			v.Lost.Reason %= KVReasonType + 1
		}
		for i := range v.Ops {
			v.Ops[i].Reason %= KVReasonType + 1
		}
	case *Lock:
		for i := range v.Ops {
			v.Ops[i].Kind = LockAcquire + v.Ops[i].Kind%LockGet
		}
	}
}

func TestDecodedKVIsWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(kvCodecs()).Draw(t, "type")
		of := reflect.TypeOf(c.sample)
		pointer := of.Kind() == reflect.Pointer
		if pointer {
			of = of.Elem()
		}
		drawn := reflect.New(of)
		drawValue(t, drawn.Elem())
		inRange(drawn.Interface())
		value := drawn.Interface()
		if !pointer {
			value = drawn.Elem().Interface()
		}
		data := c.append(value)
		decoded, err := c.read(data)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if pointer {
			clear(data) // results must not alias what they are read from
		}
		if !reflect.DeepEqual(decoded, value) {
			t.Fatalf("decoded %+v\nwant %+v", decoded, value)
		}
	})
}

func TestHostileKVBytesAreRefused(t *testing.T) {
	for _, c := range kvCodecs() {
		data := c.append(c.sample)
		for n := range data {
			if _, err := c.read(data[:n]); !errors.Is(err, ErrBadEntry) {
				t.Fatalf("%s: %d of %d bytes: err = %v", c.name, n, len(data), err)
			}
		}
		if _, err := c.read(append(bytes.Clone(data), 0)); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: a byte after the end: %v", c.name, err)
		}
	}
	codecs := map[string]kvCodec{}
	for _, c := range kvCodecs() {
		codecs[c.name] = c
	}
	for name, value := range map[string]any{
		"kv": KV{Ops: []KVOp{{Kind: 0}}}, "kv_empty": KV{Ops: []KVOp{{Kind: KVCheck + 1}}},
		"lock":           Lock{Ops: []LockOp{{Kind: LockGet + 1}}},
		"kv_result":      &KVResult{Ops: []KVOpResult{{Reason: KVReasonType + 1}}},
		"kv_result_lost": &KVResult{Lost: &KVLost{Reason: KVReasonType + 1}},
	} {
		c := codecs[name]
		if _, err := c.read(c.append(value)); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: %+v is read: %v", name, value, err)
		}
	}
}

// A length field must never make the decoder allocate for elements that the input has no room for.
func TestHostileKVLengthsAllocateNothing(t *testing.T) {
	for _, c := range kvCodecs() {
		data := c.append(c.sample)
		for at := range data {
			hostile := appendNumber(bytes.Clone(data[:at]), 1<<40)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = c.read(hostile)
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 {
				t.Fatalf("%s: a length at byte %d allocates %d bytes", c.name, at, allocated)
			}
		}
	}
}

func TestKVReasonsAreThoseOfClients(t *testing.T) {
	var names []string
	for reason := KVApplied; reason <= KVReasonType+1; reason++ {
		names = append(names, reason.String())
	}
	if want := []string{"", "exists", "absent", "version", "limit", "type", "KVReason(?)"}; !reflect.DeepEqual(names, want) {
		t.Errorf("reasons are %q", names)
	}
	for kind := KVGet; kind <= KVCheck; kind++ {
		if kind.Reads() != (kind < KVPut) || kind.Writes() != (kind >= KVPut && kind < KVCheck) {
			t.Errorf("kind %d reads %v, writes %v", kind, kind.Reads(), kind.Writes())
		}
	}
}

func FuzzDecodeKV(f *testing.F) {
	for i, c := range kvCodecs() {
		f.Add(uint8(i), c.append(c.sample))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		codecs := kvCodecs()
		c := codecs[int(which)%len(codecs)]
		value, err := c.read(data)
		if err != nil {
			if !errors.Is(err, ErrBadEntry) {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		if again := c.append(value); !bytes.Equal(again, data) {
			t.Fatalf("%s: a second encoding of the same value: %x, want %x", c.name, again, data)
		}
	})
}
