package command

import (
	"errors"
	"reflect"
	"testing"
)

// TestValuesOutsideTheirEnumerationsAreRefused covers the commands and results of KV, locks and timers.
func TestValuesOutsideTheirEnumerationsAreRefused(t *testing.T) {
	for name, c := range map[string]Command{
		"kv operation 0":              KV{Ops: []KVOp{{Kind: 0}}},
		"kv operation":                KV{Ops: []KVOp{{Kind: KVCheck + 1}}},
		"lock operation 0":            Lock{Ops: []LockOp{{Kind: 0}}},
		"lock operation":              Lock{Ops: []LockOp{{Kind: LockGet + 1}}},
		"timer operation 0":           Timers{Ops: []TimerOp{{}}},
		"timer operation":             Timers{Ops: []TimerOp{{Kind: TimerCancel + 1}}},
		"inflated and not compressed": Timers{Ops: []TimerOp{{Kind: TimerSchedule, Inflated: []byte("1")}}},
		"failure of a timer":          TimerFire{Timers: []PlannedTimer{{Failure: TimerPermanent + 1}}},
		"rider of a transaction":      Transaction{KV: []KVOp{{Kind: KVCheck + 1}}},
	} {
		if _, err := DecodeItem(AppendItem(nil, &Item{Command: c})); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, r := range map[string]Result{
		"kv reason":         &KVResult{Ops: []KVOpResult{{Reason: KVReasonType + 1}}},
		"kv reason of loss": &KVResult{Lost: &KVLost{Reason: KVReasonType + 1}},
		"timer status 0":    &TimersResult{Ops: []TimerOpResult{{}}},
		"timer status":      &TimersResult{Ops: []TimerOpResult{{Status: TimerAbsent + 1}}},
		"timer fate 0":      &TimerFireResult{Timers: []TimerFireOutcome{{}}},
		"timer fate":        &TimerFireResult{Timers: []TimerFireOutcome{{Fate: TimerPaused + 1}}},
	} {
		if _, err := DecodeResult(AppendResult(nil, r)); !errors.Is(err, ErrBadResult) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An inflated payload that is announced and empty has a shorter form.
	schedule := Timers{Ops: []TimerOp{{Kind: TimerSchedule, Zstd: true}}}.appendTo(nil)
	schedule[16+4] |= 1 << 2
	if d := (&decoder{rest: append(schedule, 0)}); d.timers().Ops != nil || !errors.Is(d.err, ErrBadEntry) {
		t.Errorf("an empty inflated payload: %v", d.err)
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
