package command

import (
	"bytes"
	"reflect"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func testUUID(b byte) uuid.UUID {
	var id uuid.UUID
	for i := range id {
		id[i] = b + byte(i)
	}
	return id
}

func testChunk(count, payloadBytes int) []byte {
	var chunk []byte
	for i := range count {
		message := Message{ID: testUUID(byte(i)), Payload: bytes.Repeat([]byte{'x'}, payloadBytes)}
		if i%2 == 1 {
			message.Txid = []byte("order-1")
			message.ProducerSub = []byte("alice")
			message.TraceID = testUUID(200)
			message.Encrypted = true
		}
		chunk = AppendMessage(chunk, &message)
	}
	return chunk
}

type namedCommand struct {
	name    string
	command Command
}

// sampleCommands has one filled value of every command type. TestEveryOpcodeHasASample keeps it complete.
func sampleCommands() []namedCommand {
	tenant, lease := DefaultTenant, testUUID(10)
	push := PushGroup{Queue: "orders.eu.new", Partition: "customer-7", Count: 2, Chunk: testChunk(2, 5)}
	part := AckPart{Partition: 300, Lease: lease, Items: []AckItem{
		{Txid: "t-1", Status: AckCompleted},
		{Txid: "t-2", Status: AckFailed, Error: "boom", HasError: true},
		{Txid: "t-3", Status: AckDeadLetter, HasError: true},
		{Txid: "t-4", Status: AckRetry},
	}}
	kv, timers := sampleKV(), sampleTimers()
	return []namedCommand{
		{"term_start", TermStart{Node: 3, HoldMs: 500}},
		{"tick", Tick{}},
		{"push", Push{Tenant: tenant, Groups: []PushGroup{push, {Queue: "q", Count: 1, Chunk: testChunk(1, 0)}}}},
		{"ack", Ack{Tenant: tenant, Group: "workers", Parts: []AckPart{part, {Partition: 1}}}},
		{"extend", Extend{Tenant: tenant, Lease: lease, Seconds: 60}},
		{"claim", Claim{Tenant: tenant, Lease: lease, Group: "workers", Batch: 100, LeaseMs: 30000,
			CommitOnDelivery: true, Parts: []ClaimPart{
				{Queue: "orders", Targets: []ClaimTarget{{Partition: 9}, {Name: "new"}},
					Seed: Subscription{Mode: SubscriptionTimestamp, InstantMicros: 1_700_000_000_000_000}},
				{Queue: "other", Targets: []ClaimTarget{{Partition: 1 << 40}}},
			}}},
		{"claim_for_another_node", Claim{Tenant: tenant, Lease: lease, Group: "workers", Batch: 250,
			Parts: []ClaimPart{{Queue: "orders", Targets: []ClaimTarget{{Partition: 9}}}},
			For:   RequestID{Origin: 0x1112131415161718, Sequence: 77}, AutoPartitions: 4, AutoBatch: 250}},
		{"hand_back", HandBack{Tenant: tenant, Lease: lease, Group: "workers", CommitOnDelivery: true,
			Parts: []HandBackPart{{Partition: 9, FirstOffset: 100, LastOffset: 199}}}},
		{"register", Register{Tenant: tenant, Queue: "orders", Group: "workers", CreateQueue: true, Conflation: true,
			Subscription: Subscription{Mode: SubscriptionNew}}},
		{"configure", Configure{Tenant: tenant, Queue: "orders", Replace: true, Changes: []OptionChange{
			{Key: OptionLeaseTime, Number: 30}, {Key: OptionPriority, Number: -5},
			{Key: OptionNamespace, Text: "shop"}, {Key: OptionEncryptionEnabled, Flag: true},
			{Key: OptionRetryDelay, Reset: true}}}},
		{"delete_queue", DeleteQueue{Tenant: tenant, Queue: "orders"}},
		{"delete_group", DeleteGroup{Tenant: tenant, Group: "workers", Queue: "orders", AllQueues: true, After: 9,
			DeleteMetadata: true}},
		{"seek", Seek{Tenant: tenant, Group: "workers", Queue: "orders", Partition: "p", AllPartitions: true,
			After: 77, ToEnd: true, TimestampMicros: -1}},
		{"subscription", ChangeSubscription{Tenant: tenant, Group: "workers", TimestampMicros: 1_700_000_000_000_000, After: 300}},
		{"transaction", Transaction{Tenant: tenant, RequiredLeases: []LeaseID{lease, NoSuchLease},
			Pushes: []PushGroup{push}, Acks: []TransactionAck{{Group: "workers", AckPart: part}},
			Positions: []Position{{Queue: "orders", Group: "workers", Partition: "p", Offset: -1, HasOffset: true,
				Metadata: "m", HasMetadata: true,
				Subscription: Subscription{Mode: SubscriptionAll}}},
			KVLimits: kv.Limits, KV: kv.Ops, Timers: timers.Ops}},
		{"dead_letter_delete", DeadLetterDelete{Tenant: tenant, ByAddress: true, Partition: 5, Txid: "t-1",
			Queue: "orders", Group: "workers", AnyGroup: true}},
		{"dead_letter_replay", DeadLetterReplay{Tenant: tenant, Row: testUUID(50), ByAddress: true, Partition: 5,
			Txid: "t-1", Queue: "orders", HasQueue: true, Destination: "p2", HasPartition: true,
			MessageID: testUUID(60)}},
		{"dead_letter_replay_sealed", DeadLetterReplay{Tenant: tenant, Row: testUUID(50), MessageID: testUUID(60), Sealed: []byte(`{"encrypted":"AA=="}`)}},
		{"retain", Retain{Partitions: []RetainPartition{{Partition: 5, MaxAppends: 1000}, {Partition: 6}}}},
		{"sweep", Sweep{MaxKeys: 4096}},
		{"move_chunks", MoveChunks{Bucket: 12, Partition: 5, MaxBytes: 1 << 20}},
		{"trace", Trace{Tenant: tenant, Partition: "300", Txid: "t-1", Group: "workers", EventType: "info", Worker: "queen-1",
			Names: []string{"order", ""}, Data: []byte(`{"step":1}`)}},
		{"trace_sweep", TraceSweep{BeforeMicros: 1_700_000_000_000_000, MaxKeys: 2000}},
		{"membership", Membership{Expect: 300, Format: FormatVersion, Delete: []uint64{2, 300}, End: PlanDone,
			Put: []Member{
				{NodeID: 4, Raft: "q4:7400", HTTP: "q4:6632", Incarnation: testUUID(1).String(), BootNonce: "1-0011223344556677",
					Kinds: FormatVersion, KeyIDs: []string{"ab12cd34", "k2"}},
				{NodeID: 1, AddedIndex: 2},
			},
			Begin: &Plan{ID: 1 << 63, Kind: PlanVoters, Voters: []uint64{1, 3, 4}, Node: 4, Raft: "q4:7400", HTTP: "q4:6632", Force: true,
				Steps: []PlanStep{{Op: StepPromote, Node: 4}, {Op: StepRemove, Node: 2}}, StartedMs: 1_700_000_000_000}}},
		{"kv", kv},
		{"kv_sweep", KVSweep{MaxRows: 512}},
		{"lock", Lock{Tenant: tenant, Ops: []LockOp{
			{Kind: LockAcquire, Name: "daily", Owner: "host:1:ab", Limit: 3, TTLSeconds: 30},
			{Kind: LockRenew, Name: "weekly", Slot: 2, Token: 300, TTLSeconds: 30, Owner: "host:1:ab"},
			{Kind: LockRelease, Name: "monthly", Slot: 1, Token: 9},
			{Kind: LockGet, Name: "yearly"}}}},
		{"timers", timers},
		{"timer_fire", TimerFire{Backoff: TimerBackoff{MinMs: 1000, MaxMs: 60_000, TransientMs: 500, MaxAttempts: 5}, Timers: []PlannedTimer{
			{Tenant: tenant, Queue: "orders", Key: "order/9f1", Number: 300, Payload: []byte(`{"id":9}`)},
			{Tenant: testUUID(1), Queue: "secret", Key: "k3", Number: 301, Payload: []byte(`{"encrypted":"AA=="}`), Encrypted: true},
			{Tenant: testUUID(1), Queue: "secret", Key: "k7", Number: 302, Failure: TimerTransient, Reason: "no key"},
			{Tenant: testUUID(1), Queue: "orders", Key: "k8", Number: 303, Failure: TimerPermanent, Reason: "not zstd"}}}},
		{"switches", Switches{On: SwitchTimersFire, Off: SwitchKV | SwitchTimersSchedule}},
	}
}

func sampleKV() KV {
	return KV{Tenant: DefaultTenant, Limits: KVLimits{ValueBytes: 65_536, ReadBytes: 4 << 20}, Ops: []KVOp{
		{Kind: KVGet, Namespace: "orders", Key: "a"},
		{Kind: KVGetMany, Namespace: "orders", Keys: []string{"b", "c"}},
		{Kind: KVGetPrefix, Namespace: "orders", Key: "scan/", After: "scan/1", Limit: 100, KeysOnly: true},
		{Kind: KVPut, Namespace: "orders", Key: "d", Value: []byte(`{"n":1}`), TTLSeconds: 60, Expect: 300, HasExpect: true},
		{Kind: KVPutIfAbsent, Namespace: "orders", Key: "e", Value: []byte(`null`)},
		{Kind: KVDelete, Namespace: "orders", Key: "f", Required: true},
		{Kind: KVIncr, Namespace: "counters", Key: "g", Delta: "-1.5", Min: "0", Max: "1e3"},
		{Kind: KVCheck, Namespace: "orders", Key: "h", HasExpect: true, Required: true},
	}}
}

func sampleTimers() Timers {
	return Timers{Tenant: DefaultTenant, Ops: []TimerOp{
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
}

func sampleHeader() Header {
	return Header{StampMicros: 1_700_000_000_123_456, Seed: testUUID(1), Settings: Settings{
		TxidWindowMinSeconds: 900, RequestIDWindowSeconds: 60, PartitionCleanupDays: 30}}
}

// drawValue fills any struct of this package with random values, so that a field added to a command is drawn without
// anybody having to remember it.
func drawValue(t *rapid.T, v reflect.Value) {
	switch group := v.Addr().Interface().(type) {
	case *PushGroup:
		count := rapid.IntRange(1, 3).Draw(t, "messages")
		*group = PushGroup{
			Queue:     rapid.String().Draw(t, "queue"),
			Partition: rapid.String().Draw(t, "partition"),
			Count:     uint32(count),
			Chunk:     testChunk(count, rapid.IntRange(0, 20).Draw(t, "payload")),
		}
		return
	case *AckStatus:
		*group = AckStatus(rapid.Uint8Max(uint8(AckDeadLetter)).Draw(t, "status"))
		return
	case *SubscriptionMode:
		*group = SubscriptionMode(rapid.Uint8Max(uint8(SubscriptionTimestamp)).Draw(t, "mode"))
		return
	case *OptionKey:
		*group = OptionKey(rapid.Uint8Range(1, uint8(OptionRetentionSinkHoldMaxSeconds)).Draw(t, "option"))
		return
	case *PlanEnd:
		*group = PlanEnd(rapid.Uint8Max(uint8(PlanDropped)).Draw(t, "end"))
		return
	case *PlanKind:
		*group = PlanKind(rapid.Uint8Range(uint8(PlanLearner), uint8(PlanRejoin)).Draw(t, "kind"))
		return
	case *StepOp:
		*group = StepOp(rapid.Uint8Range(uint8(StepAdd), uint8(StepReset)).Draw(t, "op"))
		return
	case *AckError:
		*group = AckError(rapid.Uint8Max(uint8(AckTooManyDeadLetters)).Draw(t, "error"))
		return
	case *ReplayOutcome:
		*group = ReplayOutcome(rapid.Uint8Max(uint8(ReplayInClear)).Draw(t, "outcome"))
		return
	case *KVOpKind:
		*group = KVOpKind(rapid.Uint8Range(uint8(KVGet), uint8(KVCheck)).Draw(t, "kind"))
		return
	case *KVReason:
		*group = KVReason(rapid.Uint8Max(uint8(KVReasonType)).Draw(t, "reason"))
		return
	case *LockOpKind:
		*group = LockOpKind(rapid.Uint8Range(uint8(LockAcquire), uint8(LockGet)).Draw(t, "kind"))
		return
	case *TimerOpKind:
		*group = TimerOpKind(rapid.Uint8Range(uint8(TimerSchedule), uint8(TimerCancel)).Draw(t, "kind"))
		return
	case *TimerFailure:
		*group = TimerFailure(rapid.Uint8Max(uint8(TimerPermanent)).Draw(t, "failure"))
		return
	case *TimerStatus:
		*group = TimerStatus(rapid.Uint8Range(uint8(TimerScheduled), uint8(TimerAbsent)).Draw(t, "status"))
		return
	case *TimerFate:
		*group = TimerFate(rapid.Uint8Range(uint8(TimerFired), uint8(TimerPaused)).Draw(t, "fate"))
		return
	case *int: // of results, where they count something
		*group = rapid.IntMin(0).Draw(t, "count")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawValue(t, v.Field(i))
		}
		fitTimer(v.Addr().Interface())
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			drawValue(t, v.Index(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "present") {
			v.Set(reflect.New(v.Type().Elem()))
			drawValue(t, v.Elem())
		}
	case reflect.Array:
		for i := range v.Len() {
			drawValue(t, v.Index(i))
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		number := rapid.Uint64().Draw(t, "number")
		if v.OverflowUint(number) {
			number &= 1<<v.Type().Bits() - 1
		}
		v.SetUint(number)
	case reflect.Int32, reflect.Int64:
		number := rapid.Int64().Draw(t, "signed")
		if v.OverflowInt(number) {
			number = int64(int32(number))
		}
		v.SetInt(number)
	default:
		t.Fatalf("no generator for %s", v.Type())
	}
}

// fitTimer empties the fields that the kind of a drawn value does not have.
func fitTimer(value any) {
	switch value := value.(type) {
	case *TimerOp:
		if value.Kind == TimerCancel {
			*value = TimerOp{Kind: value.Kind, Queue: value.Queue, Key: value.Key, Txid: value.Txid, HasTxid: value.HasTxid}
			if !value.HasTxid {
				value.Txid = ""
			}
			return
		}
		if value.HasTxid = false; !value.Zstd {
			value.Inflated = nil
		}
	case *PlannedTimer:
		if value.Failure == TimerFires {
			value.Reason = ""
		} else {
			value.Payload, value.Encrypted = nil, false
		}
	case *TimerOpResult:
		if value.HasTxid = value.Status == TimerCancelled || value.Status == TimerAbsent && value.HasTxid; !value.HasTxid {
			value.Txid = ""
		}
		if value.Status >= TimerCancelled {
			value.DeliverMicros, value.Fired = 0, false
		}
	case *TimerFireOutcome:
		if value.Fate != TimerFired {
			value.LagMicros = 0
		}
	}
}

// drawEntry draws an entry of up to four random commands of random types.
func drawEntry(t *rapid.T) Entry {
	samples := sampleCommands()
	var entry Entry
	drawValue(t, reflect.ValueOf(&entry.Header).Elem())
	for range rapid.IntRange(0, 4).Draw(t, "commands") {
		sample := rapid.SampledFrom(samples).Draw(t, "type")
		value := reflect.New(reflect.TypeOf(sample.command)).Elem()
		drawValue(t, value)
		item := Item{Command: value.Interface().(Command)}
		drawValue(t, reflect.ValueOf(&item.Request).Elem())
		item.AnsweredBelow = rapid.Uint64().Draw(t, "answered")
		entry.Items = append(entry.Items, item)
	}
	return entry
}
