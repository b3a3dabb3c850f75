package wire

import (
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"

	"queen/raftlog/command"
)

func TestTimerOperations(t *testing.T) {
	schedule := TimerOp{Queue: "q", Key: "k", Txid: "t", HasTxid: true, Partition: "Default", DelayMicros: 1_500_000, Payload: []byte(`{"n":1}`)}
	changed := func(change func(op *TimerOp)) []TimerOp {
		op := schedule
		change(&op)
		return []TimerOp{op}
	}
	const required = `"queue":"q","timerKey":"k","delayMs":1500,"txn":"t","payload":"eyJuIjoxfQ=="`
	for body, want := range map[string][]TimerOp{
		`{"operations":[]}`: {},
		`[]`:                {},
		`{"operations":[{"op":"schedule",` + required + `}]}`:                                                   {schedule},
		`{"more":[1],"operations":[{"op":"reschedule",` + required + `,"partition":null,"more":{"_x":1}}]}`:     {schedule},
		`[{"op":"schedule",` + required + `,"partition":"p","payloadZstd":false,"encrypted":true}]`:             changed(func(op *TimerOp) { op.Partition, op.Encrypted = "p", true }),
		`[{"op":"schedule",` + required + `,"payloadZstd":true,"payload":"AAAA"}]`:                              changed(func(op *TimerOp) { op.Zstd, op.Payload = true, []byte{0, 0, 0} }),
		`[{"op":"schedule",` + required + `,"payloadZstd":true,"payload":""}]`:                                  changed(func(op *TimerOp) { op.Zstd, op.Payload = true, []byte{} }),
		`[{"op":"schedule",` + required + `,"delayMs":-5000}]`:                                                  changed(func(op *TimerOp) { op.DelayMicros = -5_000_000 }),
		`[{"op":"schedule",` + required + `,"delayMs":0.0001}]`:                                                 changed(func(op *TimerOp) { op.DelayMicros = 1 }),
		`[{"op":"schedule",` + required + `,"delayMs":1e400}]`:                                                  changed(func(op *TimerOp) { op.DelayMicros = maxDelayMicros }),
		`[{"op":"schedule",` + required + `,"delayMs":-1e15}]`:                                                  changed(func(op *TimerOp) { op.DelayMicros = -maxDelayMicros }),
		`[{"op":"schedule",` + required + `,"timerKey":"\u00e9/\u0000"}]`:                                       changed(func(op *TimerOp) { op.Key = "é/\x00" }),
		`[{"op":"cancel","queue":"q","timerKey":"k"}]`:                                                          {{Cancel: true, Queue: "q", Key: "k"}},
		`[{"op":"cancel","queue":"q","timerKey":"k","txn":null}]`:                                               {{Cancel: true, Queue: "q", Key: "k"}},
		`[{"op":"cancel","queue":"q","timerKey":"k","txn":"","delayMs":"x","payload":7,"partition":""}]`:        {{Cancel: true, Queue: "q", Key: "k", HasTxid: true}},
		`[{"op":"cancel","queue":"q","timerKey":"k","txn":"t"},{"op":"cancel","queue":"q2","timerKey":"k"}]`:    {{Cancel: true, Queue: "q", Key: "k", Txid: "t", HasTxid: true}, {Cancel: true, Queue: "q2", Key: "k"}},
		`{"operations":7,"operations":[{"op":"cancel","queue":"q","timerKey":"a"}]}`:                            {{Cancel: true, Queue: "q", Key: "a"}},
		`[{"op":"cancel","queue":"q","timerKey":"k"},{"op":"cancel","queue":"q","timerKey":"k/"}]`:              {{Cancel: true, Queue: "q", Key: "k"}, {Cancel: true, Queue: "q", Key: "k/"}},
		`[{"op":"cancel","queue":"qk","timerKey":"x"},{"op":"cancel","queue":"q","timerKey":"kx","more":true}]`: {{Cancel: true, Queue: "qk", Key: "x"}, {Cancel: true, Queue: "q", Key: "kx"}},
	} {
		got, err := DecodeTimers([]byte(body), 2)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", body, got, err, want)
		}
	}
}

func TestBadTimerOperationsSayWhy(t *testing.T) {
	const required = `"queue":"q","timerKey":"k","delayMs":1500,"txn":"t","payload":"eyJuIjoxfQ=="`
	schedule := func(more string) string { return `[{"op":"schedule",` + required + more + `}]` }
	without := func(name string) string {
		return strings.Replace(schedule(""), `"`+name+`":`, `"`+name+`_":`, 1)
	}
	cases := map[string]string{
		``:                      TimersBadBody,
		`{`:                     TimersBadBody,
		`7`:                     TimersBadBody,
		`{}`:                    TimersBadBody,
		`{"operations":null}`:   TimersBadBody,
		`{"operations":{}}`:     TimersBadBody,
		"[]\xff":                TimersBadBody,
		`[1,2,3]`:               TimersTooManyOps,
		`[7]`:                   TimersBadOp,
		`[[]]`:                  TimersBadOp,
		`[{}]`:                  TimersBadOp,
		`[{"op":7}]`:            TimersBadOp,
		`[{"op":"fire"}]`:       TimersBadOp,
		without("queue"):        TimersQueueRequired,
		without("timerKey"):     TimersBadOp,
		without("txn"):          TimersBadOp,
		without("delayMs"):      TimersDelayRequired,
		without("payload"):      TimersPayloadRequired,
		`[{"op":"cancel"}]`:     TimersQueueRequired,
		schedule(`,"queue":""`): TimersQueueRequired,
		schedule(`,"queue":7`):  TimersQueueRequired,
		`[{"op":"cancel","queue":"q","timerKey":""}]`:                    TimersBadOp,
		`[{"op":"cancel","queue":"q","timerKey":"k","txn":7}]`:           TimersBadOp,
		schedule(`,"timerKey":"\ud800"`):                                 TimersBadOp,
		schedule(`,"txn":""`):                                            TimersBadOp,
		schedule(`,"txn":7`):                                             TimersBadOp,
		schedule(`,"txn":"` + strings.Repeat("t", MaxTxidBytes+1) + `"`): TimersBadOp,
		schedule(`,"partition":""`):                                      TimersBadOp,
		schedule(`,"partition":7`):                                       TimersBadOp,
		schedule(`,"payloadZstd":1`):                                     TimersBadOp,
		schedule(`,"encrypted":"true"`):                                  TimersBadOp,
		schedule(`,"delayMs":"1"`):                                       TimersDelayRequired,
		schedule(`,"delayMs":null`):                                      TimersDelayRequired,
		schedule(`,"payload":{}`):                                        TimersPayloadRequired,
		schedule(`,"payload":"eyJuIjoxfQ"`):                              TimersPayloadNotBase64,
		schedule(`,"payload":"eyJu\nIjoxfQ=="`):                          TimersPayloadNotBase64,
		schedule(`,"payload":"eyJuIjoxfR=="`):                            TimersPayloadNotBase64, // bits behind the last byte
		schedule(`,"payload":"-_-_"`):                                    TimersPayloadNotBase64,
		schedule(`,"payloadZstd":true,"payload":"!"`):                    TimersPayloadNotBase64,
		schedule(`,"payload":""`):                                        TimersPayloadNotJSON,
		schedule(`,"payload":"` + base64.StdEncoding.EncodeToString([]byte(`{"n":1} x`)) + `"`):    TimersPayloadNotJSON,
		schedule(`,"payload":"` + base64.StdEncoding.EncodeToString([]byte("\"\xff\"")) + `"`):     TimersPayloadNotJSON,
		`[{"op":"cancel","queue":"q","timerKey":"k"},{"op":"cancel","queue":"q","timerKey":"k"}]`:  TimersBadOp,
		`[{"op":"schedule",` + required + `},{"op":"cancel","queue":"q","timerKey":"k","txn":""}]`: TimersBadOp,
	}
	for _, field := range []string{"_x", "_", "producerSub", "producer_sub", "messageId", "message_id", "tenant", "tenantId", "tenant_id", "_tenant",
		"deliverAt", "deliver_at", "delaySeconds", "delay_seconds", "attempts", "claimToken", "claim_token", "claimedUntil"} {
		cases[schedule(`,"`+field+`":null`)] = TimersServerOwnedField
		cases[`[{"`+field+`":1,"op":"cancel","queue":"q","timerKey":"k"}]`] = TimersServerOwnedField
	}
	for body, reason := range cases {
		_, err := DecodeTimers([]byte(body), 2)
		refusal, ok := errors.AsType[*Error](err)
		if !ok || refusal.Code != CodeTimersBadRequest || refusal.Reason != reason || refusal.Text == "" || refusal.RollBack {
			t.Errorf("%.200s: want %s, got %+v", body, reason, err)
		}
	}
}

func TestSwitchesBodies(t *testing.T) {
	for body, want := range map[string]command.Switches{
		`{"kv":false}`: {Off: command.SwitchKV},
		`{"kv":null,"timersSchedule":true,"timersFire":false,"more":1}`: {On: command.SwitchTimersSchedule, Off: command.SwitchTimersFire},
		`{"timersFire":false,"timersFire":true}`:                        {On: command.SwitchTimersFire},
	} {
		if got, err := DecodeSwitches([]byte(body)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
	for body, want := range map[string]struct {
		code Code
		text string
	}{
		``:                                 {CodeBadBody, "bad switches body: "},
		`[]`:                               {CodeBadBody, "bad switches body: it is not an object"},
		`{}`:                               {CodeBadRequest, "kv, timersSchedule or timersFire is required"},
		`{"kvEnabled":true}`:               {CodeBadRequest, "kv, timersSchedule or timersFire is required"},
		`{"kv":null}`:                      {CodeBadRequest, "kv, timersSchedule or timersFire is required"},
		`{"kv":true,"timersSchedule":"x"}`: {CodeBadRequest, "timersSchedule must be true or false"},
	} {
		_, err := DecodeSwitches([]byte(body))
		expectError(t, body, err, want.code, want.text)
	}
}

func TestInstantsBefore1970AreWritten(t *testing.T) {
	for micros, want := range map[int64]string{
		0: "1970-01-01T00:00:00.000000Z", moment: "2026-10-05T09:00:00.123456Z", -1: "1969-12-31T23:59:59.999999Z",
		moment - maxDelayMicros: "1926-10-05T09:00:00.123456Z",
	} {
		if got := string(AppendInstant(nil, micros)); got != want {
			t.Errorf("%d: got %s, want %s", micros, got, want)
		}
	}
}

func FuzzDecodeTimers(f *testing.F) {
	f.Add([]byte(`{"operations":[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1500,"txn":"t","payload":"eyJuIjoxfQ==","payloadZstd":true}]}`))
	f.Add([]byte(`[{"op":"cancel","queue":"q","timerKey":"k","txn":null}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ops, err := DecodeTimers(body, 4)
		if err != nil {
			if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Reason == "" {
				t.Fatalf("undeclared error %v", err)
			}
			return
		}
		for i := range ops {
			op := &ops[i]
			if len(ops) > 4 || op.Queue == "" || op.Key == "" || !op.Cancel && (op.Txid == "" || op.Partition == "" || !op.Zstd && !validJSON(op.Payload)) {
				t.Fatalf("%+v", op)
			}
		}
	})
}
