package wire

import (
	"runtime"
	"strings"
	"testing"
)

// TestListsThatAreTooLongAreNotRead: whoever sends millions of elements where a few are allowed gets a refusal and not the memory.
func TestListsThatAreTooLongAreNotRead(t *testing.T) {
	const elements = 1 << 20
	list := "[" + strings.Repeat("7,", elements) + "7]"
	texts := "[" + strings.Repeat(`"",`, elements) + `""]`
	for name, decode := range map[string]func() error{
		"operations on rows": func() error { _, err := DecodeKV([]byte(list), &usualKV); return err },
		"keys": func() error {
			_, err := DecodeKV([]byte(`[{"op":"getMany","ns":"app","keys":`+texts+`}]`), &usualKV)
			return err
		},
		"operations on locks":  func() error { _, err := DecodeLock([]byte(list)); return err },
		"operations on timers": func() error { _, err := DecodeTimers([]byte(list), 256); return err },
		"positions":            func() error { _, err := DecodeTransaction([]byte(`{"positions":` + list + `}`)); return err },
		"entries of a fetch":   func() error { _, err := DecodeFetch([]byte(`{"entries":` + list + `}`)); return err },
		"riding operations": func() error {
			body, err := DecodeTransaction([]byte(`{"kv":` + list + `}`))
			if err == nil {
				_, err = DecodeKVOps(body.KV, "kv", &KVBounds{Ops: TransactionKVOps, Keys: TransactionKVKeys, InTransaction: true})
			}
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode()
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: %d of them are accepted", name, elements)
		}
		// The body itself is copied once or twice above.
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 12<<20 {
			t.Errorf("%s: %d of them take %d bytes", name, elements, taken)
		}
	}
}
