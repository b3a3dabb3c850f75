package command

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// timerForm is one of the encodings of timers, which stand within those of commands and results.
type timerForm struct {
	name   string
	value  any
	append func(dst []byte, value any) []byte
	read   func(d *decoder) any
}

// timerForms has one filled value of every type.
func timerForms() []timerForm {
	timers := Timers{Tenant: DefaultTenant, Ops: []TimerOp{
		{Kind: TimerSchedule, Queue: "orders", Key: "order/9f1", Txid: "t-1", Partition: "customer-7", DelayMicros: 30_000_000,
			MessageID: testUUID(3), ProducerSub: "alice", Payload: []byte(`{"id":9}`)},
		{Kind: TimerSchedule, Queue: "orders", Key: "k2", Txid: "t-2", Partition: "Default", DelayMicros: -5_000_000,
			MessageID: testUUID(4), Payload: []byte("\x28\xb5\x2f\xfd"), Zstd: true, Inflated: []byte(`[1]`)},
		{Kind: TimerSchedule, Queue: "secret", Key: "k3", Txid: "t-3", MessageID: testUUID(5), Payload: []byte(`{"encrypted":"AA=="}`),
			Encrypted: true},
		{Kind: TimerCancel, Queue: "orders", Key: "k4"},
		{Kind: TimerCancel, Queue: "orders", Key: "k5", HasTxid: true},
		{Kind: TimerCancel, Queue: "orders", Key: "k6", Txid: "t-6", HasTxid: true},
	}}
	fire := TimerFire{Backoff: TimerBackoff{MinMs: 1000, MaxMs: 60_000, TransientMs: 500, MaxAttempts: 5}, Timers: []PlannedTimer{
		{Tenant: DefaultTenant, Queue: "orders", Key: "order/9f1", Number: 300, Payload: []byte(`{"id":9}`)},
		{Tenant: testUUID(1), Queue: "secret", Key: "k3", Number: 301, Payload: []byte(`{"encrypted":"AA=="}`), Encrypted: true},
		{Tenant: testUUID(1), Queue: "secret", Key: "k7", Number: 302, Failure: TimerTransient, Reason: "no key"},
		{Tenant: testUUID(1), Queue: "orders", Key: "k8", Number: 303, Failure: TimerPermanent, Reason: "not zstd"},
	}}
	result := &TimersResult{Ops: []TimerOpResult{
		{Status: TimerScheduled, DeliverMicros: 1_700_000_000_000_000},
		{Status: TimerRescheduled, DeliverMicros: -1_400_000_000_000_000, Fired: true},
		{Status: TimerCancelled, Txid: "t-1", HasTxid: true},
		{Status: TimerAbsent},
		{Status: TimerAbsent, Txid: "t-6", HasTxid: true},
	}}
	fired := &TimerFireResult{Timers: []TimerFireOutcome{
		{Fate: TimerFired, LagMicros: 50_000}, {Fate: TimerPutOff}, {Fate: TimerDead}, {Fate: TimerGone}, {Fate: TimerChanged},
		{Fate: TimerEarly}, {Fate: TimerInClear}, {Fate: TimerNoRoom}, {Fate: TimerPaused},
	}}
	return []timerForm{
		{"timers", timers, func(dst []byte, v any) []byte { return v.(Timers).appendTo(dst) }, func(d *decoder) any { return d.timers() }},
		{"timer_fire", fire, func(dst []byte, v any) []byte { return v.(TimerFire).appendTo(dst) }, func(d *decoder) any { return d.timerFire() }},
		{"timers_result", result, func(dst []byte, v any) []byte { return v.(*TimersResult).appendTo(dst) },
			func(d *decoder) any { return d.timersResult() }},
		{"timer_fire_result", fired, func(dst []byte, v any) []byte { return v.(*TimerFireResult).appendTo(dst) },
			func(d *decoder) any { return d.timerFireResult() }},
	}
}

// decode reads all of data.
func (f *timerForm) decode(data []byte) (any, error) {
	d := &decoder{rest: data}
	value := f.read(d)
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end")
	}
	return value, d.err
}

func TestTimersEqualGoldenFiles(t *testing.T) {
	for _, form := range timerForms() {
		data := form.append(nil, form.value)
		golden(t, form.name, data)
		decoded, err := form.decode(data)
		if err != nil || !reflect.DeepEqual(decoded, form.value) {
			t.Errorf("%s: decoded %+v, %v\nwant %+v", form.name, decoded, err, form.value)
		}
	}
}

// fitTimers brings drawn values into the ranges of their enums, and empties the fields that their kind does not have.
func fitTimers(value any) {
	switch value := value.(type) {
	case *Timers:
		for i := range value.Ops {
			op := &value.Ops[i]
			if op.Kind = 1 + op.Kind%TimerCancel; op.Kind == TimerCancel {
				*op = TimerOp{Kind: op.Kind, Queue: op.Queue, Key: op.Key, Txid: op.Txid, HasTxid: op.HasTxid}
				if !op.HasTxid {
					op.Txid = ""
				}
				continue
			}
			if op.HasTxid = false; !op.Zstd {
				op.Inflated = nil
			}
		}
	case *TimerFire:
		for i := range value.Timers {
			timer := &value.Timers[i]
			if timer.Failure %= TimerPermanent + 1; timer.Failure == TimerFires {
				timer.Reason = ""
			} else {
				timer.Payload, timer.Encrypted = nil, false
			}
		}
	case *TimersResult:
		for i := range value.Ops {
			op := &value.Ops[i]
			op.Status = 1 + op.Status%TimerAbsent
			if op.HasTxid = op.Status == TimerCancelled || op.Status == TimerAbsent && op.HasTxid; !op.HasTxid {
				op.Txid = ""
			}
			if op.Status >= TimerCancelled {
				op.DeliverMicros, op.Fired = 0, false
			}
		}
	case *TimerFireResult:
		for i := range value.Timers {
			timer := &value.Timers[i]
			if timer.Fate = 1 + timer.Fate%TimerPaused; timer.Fate != TimerFired {
				timer.LagMicros = 0
			}
		}
	}
}

func TestDecodedTimersAreWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom(timerForms()).Draw(t, "type")
		of, isPointer := reflect.TypeOf(form.value), false
		if of.Kind() == reflect.Pointer {
			of, isPointer = of.Elem(), true
		}
		drawn := reflect.New(of)
		drawValue(t, drawn.Elem())
		fitTimers(drawn.Interface())
		value := drawn.Elem().Interface()
		if isPointer {
			value = drawn.Interface()
		}
		decoded, err := form.decode(form.append(nil, value))
		if err != nil || !reflect.DeepEqual(decoded, value) {
			t.Fatalf("decoded %+v, %v\nwant %+v", decoded, err, value)
		}
	})
}

func TestEveryCutTimerIsRefused(t *testing.T) {
	for _, form := range timerForms() {
		data := form.append(nil, form.value)
		for n := range data {
			if _, err := form.decode(data[:n]); !errors.Is(err, ErrBadEntry) {
				t.Fatalf("%s: %d of %d bytes: %v", form.name, n, len(data), err)
			}
		}
		if _, err := form.decode(append(bytes.Clone(data), 0)); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: a byte after the end: %v", form.name, err)
		}
	}
}

func TestTimersOutsideTheirRangeAreRefused(t *testing.T) {
	forms := timerForms()
	cases := map[string]struct {
		form  timerForm
		value any
	}{
		"kind of an operation":        {forms[0], Timers{Ops: []TimerOp{{Kind: TimerCancel + 1}}}},
		"no kind":                     {forms[0], Timers{Ops: []TimerOp{{}}}},
		"inflated and not compressed": {forms[0], Timers{Ops: []TimerOp{{Kind: TimerSchedule, Inflated: []byte("1")}}}},
		"failure":                     {forms[1], TimerFire{Timers: []PlannedTimer{{Failure: TimerPermanent + 1}}}},
		"status":                      {forms[2], &TimersResult{Ops: []TimerOpResult{{Status: TimerAbsent + 1}}}},
		"no status":                   {forms[2], &TimersResult{Ops: []TimerOpResult{{}}}},
		"fate":                        {forms[3], &TimerFireResult{Timers: []TimerFireOutcome{{Fate: TimerPaused + 1}}}},
		"no fate":                     {forms[3], &TimerFireResult{Timers: []TimerFireOutcome{{}}}},
	}
	for name, c := range cases {
		if _, err := c.form.decode(c.form.append(nil, c.value)); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An inflated payload that is announced and empty has a shorter form.
	schedule := Timers{Ops: []TimerOp{{Kind: TimerSchedule, Zstd: true}}}.appendTo(nil)
	schedule[16+4] |= 1 << 2
	if _, err := forms[0].decode(append(schedule, 0)); !errors.Is(err, ErrBadEntry) {
		t.Errorf("an empty inflated payload: %v", err)
	}
}

// A length field must never make the decoder allocate for elements that the input has no room for.
func TestHostileTimerLengthsAllocateNothing(t *testing.T) {
	long := appendNumber(nil, 1<<40)
	for i, front := range [][]byte{make([]byte, 16), make([]byte, 4), nil, nil} {
		form := timerForms()[i]
		data := append(front, long...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := form.decode(data)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: %v", form.name, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 {
			t.Errorf("%s: %d bytes are allocated for %d of input", form.name, allocated, len(data))
		}
	}
}

func TestStatusesHaveTheirNames(t *testing.T) {
	var names []string
	for status := TimerScheduled; status <= TimerAbsent+1; status++ {
		names = append(names, status.String())
	}
	if got := strings.Join(names, " "); got != "scheduled rescheduled cancelled absent unknown" {
		t.Error(got)
	}
}

func FuzzDecodeTimers(f *testing.F) {
	for _, form := range timerForms() {
		f.Add(form.append(nil, form.value))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, form := range timerForms() {
			value, err := form.decode(data)
			if err != nil {
				if !errors.Is(err, ErrBadEntry) {
					t.Fatalf("undeclared error %v", err)
				}
				continue
			}
			if again := form.append(nil, value); !bytes.Equal(again, data) {
				t.Fatalf("%s: a second encoding of the same value: %x, want %x", form.name, again, data)
			}
		}
	})
}
