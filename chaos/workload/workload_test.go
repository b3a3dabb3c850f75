package workload

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"queen/chaos/ledger"
)

func TestPayloadThatChangedHasNoToken(t *testing.T) {
	const fillerMax = 300
	data, err := json.Marshal(newPayload("p0-t7", fillerMax))
	if err != nil {
		t.Fatal(err)
	}
	if got := tokenOf(data, fillerMax); got != "p0-t7" {
		t.Fatalf("want the token, got %q", got)
	}
	for name, changed := range map[string]string{
		"another token": strings.Replace(string(data), "p0-t7", "p0-t8", 1),
		"cut":           string(data[:len(data)-4]) + `"}`,
		"no JSON":       string(data[:len(data)-1]),
		"null":          "null",
	} {
		if got := tokenOf(json.RawMessage(changed), fillerMax); got == "p0-t7" || got == "p0-t8" {
			t.Errorf("%s: got the token %q", name, got)
		}
	}
}

func TestClosedGateHoldsTheLoadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		if !gate.Pass(context.Background()) {
			t.Fatal("a new gate is open")
		}
		gate.Close()
		gate.Close()
		ctx, cancel := context.WithCancel(context.Background())
		passed := make(chan bool, 2)
		go func() { passed <- gate.Pass(ctx) }()
		synctest.Wait()
		if len(passed) > 0 {
			t.Fatal("the gate is closed")
		}
		gate.Open()
		gate.Open()
		if !<-passed {
			t.Fatal("the gate is open again")
		}
		gate.Close()
		go func() { passed <- gate.Pass(ctx) }()
		cancel()
		if <-passed {
			t.Fatal("the context has ended")
		}
	})
}

func TestAckItemsLeaveOutWhatHasNoStatus(t *testing.T) {
	b := batch{messages: []ledger.Delivery{{Offset: 4}, {Offset: 5}, {Offset: 6}}}
	items := ackItems(b, []string{"", "completed", "dlq"})
	if len(items) != 2 || items[0].Offset != 5 || items[0].Status != "completed" || items[1].Offset != 6 || items[1].Status != "dlq" {
		t.Fatalf("got %+v", items)
	}
}
