package partition

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/uuid"

	"queen/raftlog/command"
	"queen/store"
	"queen/store/layout"
)

// The store's batch is what the machine writes to and reads from.
var (
	_ Reader = (*store.Batch)(nil)
	_ Reader = (*store.View)(nil)
	_ Writer = (*store.Batch)(nil)
)

const (
	minute = 60 * second
	hour   = 60 * minute
)

// rig is a machine over a store of its own.
type rig struct {
	t       *testing.T
	store   *memory
	machine *Machine
	now     uint64
	serial  uint64
	dedup   uint64
	hashes  uint64
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, store: newMemory(), now: testStart, dedup: hour, hashes: hour}
	r.load()
	return r
}

func (r *rig) load() {
	r.t.Helper()
	r.store.nextEntry()
	machine, err := Load(r.store, testQueue, testPartition)
	if err != nil {
		r.t.Fatal(err)
	}
	r.machine = machine
}

func (r *rig) inputs(txids ...string) []input {
	inputs := make([]input, len(txids))
	for i, txid := range txids {
		r.serial++
		inputs[i] = input{id: uuid.UUID{0: 1, 14: byte(r.serial >> 8), 15: byte(r.serial)}, txid: txid, payload: "1"}
	}
	return inputs
}

func (r *rig) pushInputs(inputs []input) AppendOutput {
	r.t.Helper()
	r.store.nextEntry()
	out, err := r.machine.Append(r.store, r.store, AppendInput{StampMicros: r.now, Chunk: encodeInputs(inputs),
		Count: uint32(len(inputs)), DedupWindowMicros: r.dedup, HashWindowMicros: r.hashes})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) push(txids ...string) AppendOutput {
	r.t.Helper()
	return r.pushInputs(r.inputs(txids...))
}

func (r *rig) retain(rules Retention) RetainOutput {
	r.t.Helper()
	r.store.nextEntry()
	out, err := r.machine.Retain(r.store, r.store, RetainInput{NowMicros: r.now, HashWindowMicros: r.hashes, Rules: rules, MaxAppends: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) resolve(from, end uint64, leased bool, txid string) Resolution {
	r.t.Helper()
	r.store.nextEntry()
	answers, err := r.machine.Resolve(r.store, ResolveInput{Hashes: []Hash{HashTxid([]byte(txid))}, From: from, End: end,
		Leased: leased, NowMicros: r.now, HashWindowMicros: r.hashes})
	if err != nil {
		r.t.Fatal(err)
	}
	return answers[0]
}

func (r *rig) wantDuplicate(out AppendOutput, id uuid.UUID, offset uint64) {
	r.t.Helper()
	if len(out.Duplicates) != 1 || out.Duplicates[0].ID != id || out.Duplicates[0].Offset != offset {
		r.t.Errorf("answered %+v in place of a duplicate of %v at %d", out, id, offset)
	}
}

func TestDuplicateOfARemovedMessageKeepsItsIDAndOffset(t *testing.T) {
	r := newRig(t)
	first := r.inputs("a", "b")
	r.pushInputs(first)
	r.push("c")
	r.now += 10 * second
	if out := r.retain(Retention{EvictMicros: second}); out.Appends != 2 || out.Messages != 3 {
		t.Fatalf("retained %+v", out)
	}
	for range 2 {
		r.wantDuplicate(r.push("b"), first[1].id, 1)
		r.load()
	}
	r.now = testStart + hour
	if out := r.push("b"); out.Stored != 1 || out.FirstOffset != 3 {
		t.Errorf("after the window: %+v", out)
	}
}

func TestPushOfDuplicatesOnlyWritesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a", "b")
	puts, stamp, chunks := r.store.puts, r.machine.LastStampMicros(), len(r.store.chunks)
	r.now += second
	if out := r.push("b", "a", "a"); out.Stored != 0 || len(out.Duplicates) != 3 || out.StampMicros != 0 || out.FirstOffset != 2 {
		t.Errorf("answered %+v", out)
	}
	if r.store.puts != puts || len(r.store.chunks) != chunks || r.machine.LastStampMicros() != stamp || r.machine.Tail() != 2 {
		t.Errorf("a push of duplicates left traces")
	}
}

func TestRepeatsCollapseWithoutAWindow(t *testing.T) {
	r := newRig(t)
	r.dedup = 0
	inputs := r.inputs("a", "b", "a", "c", "b")
	out := r.pushInputs(inputs)
	want := []command.Duplicate{{Item: 2, ID: inputs[0].id, Offset: 0}, {Item: 4, ID: inputs[1].id, Offset: 1}}
	if out.Stored != 3 || !slices.Equal(out.Duplicates, want) {
		t.Errorf("answered %+v", out)
	}
	if out = r.push("a"); out.Stored != 1 {
		t.Errorf("with the window off: %+v", out)
	}
}

func TestLowestOffsetIsReportedAfterTheWindowLapsedOnce(t *testing.T) {
	r := newRig(t)
	r.dedup = minute
	first := r.inputs("a")
	r.pushInputs(first)
	for i := range 100 {
		r.push(fmt.Sprint("filler", i))
	}
	r.now += 2 * minute
	if out := r.push("a"); out.Stored != 1 || out.FirstOffset != 101 {
		t.Fatalf("after the window: %+v", out)
	}
	r.now += second
	r.wantDuplicate(r.push("a"), first[0].id, 0)
	r.load()
	r.wantDuplicate(r.push("a"), first[0].id, 0)
}

func TestMessagesWithoutTxidAreNeverDuplicates(t *testing.T) {
	r := newRig(t)
	same := r.inputs("")
	for i := range uint64(3) {
		if out := r.pushInputs([]input{same[0], same[0]}); out.Stored != 2 || out.FirstOffset != 2*i {
			t.Errorf("push %d: %+v", i, out)
		}
	}
	if got := r.resolve(0, 6, true, same[0].id.String()); got != (Resolution{Kind: InRange, Offset: 0}) {
		t.Errorf("its id resolves to %+v", got)
	}
}

func TestStampsRiseStrictly(t *testing.T) {
	r := newRig(t)
	last := uint64(0)
	for _, step := range []int{0, 0, -5, 7, 1, 0} {
		r.now = uint64(int(r.now) + step)
		out := r.push("")
		if out.StampMicros <= last || out.StampMicros < r.now {
			t.Errorf("stamp %d follows %d at %d", out.StampMicros, last, r.now)
		}
		last = out.StampMicros
	}
}

func TestMalformedPushChangesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a")
	before := r.machine.head
	chunk := encodeInputs(r.inputs("b", "c"))
	inputs := map[string]AppendInput{
		"too many":  {Chunk: chunk, Count: 3},
		"too few":   {Chunk: chunk, Count: 1},
		"none":      {Chunk: chunk, Count: 0},
		"cut":       {Chunk: chunk[:len(chunk)-1], Count: 2},
		"empty":     {Count: 1},
		"count lie": {Chunk: chunk, Count: 1 << 31},
	}
	for name, in := range inputs {
		_, err := r.machine.Append(r.store, r.store, in)
		if !errors.Is(err, ErrBadAppend) && !errors.Is(err, command.ErrBadChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r.machine.head.Tail != before.Tail || r.store.puts != 1 || len(r.store.chunks) != 1 {
		t.Errorf("a malformed push left traces")
	}
}

// TestSmallPushIsOneSmallPut: budgets of the hot path and of a cold start.
func TestSmallPushIsOneSmallPut(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		puts, written := r.store.puts, r.store.putBytes
		r.push(fmt.Sprint(i))
		if r.store.puts != puts+1 || r.store.putBytes-written > maxInlineBytes+100 {
			t.Errorf("push %d wrote %d rows, %d bytes", i, r.store.puts-puts, r.store.putBytes-written)
		}
	}
	gets := r.store.gets
	r.load()
	if r.store.gets != gets+1 || r.store.scans != 0 {
		t.Errorf("a cold load took %d gets and %d scans", r.store.gets-gets, r.store.scans)
	}
	r.push("3")
	if r.store.scans != 0 || r.store.gets != gets+1 {
		t.Errorf("a duplicate in the head took %d gets, %d scans", r.store.gets-gets-1, r.store.scans)
	}
}

func TestSmallPartitionStaysSmall(t *testing.T) {
	r := newRig(t)
	r.push("a")
	r.push("b", "c")
	if size := int(unsafe.Sizeof(*r.machine)) + cap(r.machine.head.inline); size > 512 || r.machine.index != nil {
		t.Errorf("a machine with three messages takes %d bytes", size)
	}
	for i := range 5000 {
		r.push(fmt.Sprint(i))
		if size := int(unsafe.Sizeof(*r.machine)) + cap(r.machine.head.inline); size > 2<<10 {
			t.Fatalf("a machine with %d messages takes %d bytes beside its index", i, size)
		}
	}
}

// TestHugeAppendLeavesInBoundedSteps: the hashes of an append that is larger than a step are moved piece by piece.
func TestHugeAppendLeavesInBoundedSteps(t *testing.T) {
	const messages = 2*retainHashMessages + 1000
	r := newRig(t)
	inputs := make([]input, messages)
	for i := range inputs {
		inputs[i] = input{id: uuid.UUID{1, byte(i >> 16), byte(i >> 8), byte(i)}, txid: fmt.Sprint("t", i)}
	}
	r.pushInputs(inputs)
	r.push("after")
	r.now += minute
	steps := 0
	for {
		written := r.store.putBytes
		out := r.retain(Retention{EvictMicros: second})
		steps++
		if r.store.putBytes-written > 600<<10 {
			t.Fatalf("a step wrote %d bytes", r.store.putBytes-written)
		}
		r.load()
		r.wantDuplicate(r.push("t20000"), inputs[20000].id, 20000)
		if !out.More {
			break
		}
		if r.machine.LogStart() != 0 {
			t.Fatalf("the append went before its hashes were safe")
		}
	}
	if steps != 3 || r.machine.LogStart() != r.machine.Tail() || r.machine.head.Segments != 0 {
		t.Errorf("after %d steps: %+v", steps, r.machine.head)
	}
	for _, key := range r.store.keys(layout.HashesOf(testPartition)) {
		if len(r.store.rows[key]) > 64<<10 {
			t.Errorf("a hash row has %d bytes", len(r.store.rows[key]))
		}
	}
	for _, i := range []int{0, 1023, 1024, retainHashMessages, messages - 1} {
		r.wantDuplicate(r.push(inputs[i].txid), inputs[i].id, uint64(i))
	}
	r.now += 2 * hour
	for r.retain(Retention{}).More {
	}
	if left := r.store.keys(layout.HashesOf(testPartition)); len(left) != 0 || r.machine.head.hashes != (hashState{}) {
		t.Errorf("%d hash rows are left, %+v", len(left), r.machine.head.hashes)
	}
}

func TestLeasedMessageResolvesWhateverItsAge(t *testing.T) {
	r := newRig(t)
	for i := range 400 {
		r.push(fmt.Sprint("t", i))
	}
	r.now += 2 * hour
	r.push("new")
	for _, offset := range []uint64{10, 100, 399} {
		txid := fmt.Sprint("t", offset)
		if got := r.resolve(10, 400, true, txid); got != (Resolution{Kind: InRange, Offset: offset}) {
			t.Errorf("%s under a lease: %+v", txid, got)
		}
		if got := r.resolve(10, 401, false, txid); got.Kind != Unknown {
			t.Errorf("%s without a lease: %+v", txid, got)
		}
	}
	if got := r.resolve(10, 400, true, "new"); got.Kind != Unknown {
		t.Errorf("above the batch: %+v", got)
	}
	if got := r.resolve(10, 401, false, "new"); got != (Resolution{Kind: InRange, Offset: 400}) {
		t.Errorf("in the window: %+v", got)
	}
}

// TestConsumedMessagesAreKnownForAWhile: below the cursor a message is known by its age or by its distance (6.7).
func TestConsumedMessagesAreKnownForAWhile(t *testing.T) {
	const messages = consumedMessages + 1000
	r := newRig(t)
	for base := 0; base < messages; base += 500 {
		txids := make([]string, 500)
		for i := range txids {
			txids[i] = fmt.Sprint("t", base+i)
		}
		r.push(txids...)
	}
	tail := r.machine.Tail()
	check := func(offset uint64, want ResolutionKind) {
		t.Helper()
		if got := r.resolve(tail, tail, false, fmt.Sprint("t", offset)); got.Kind != want || (want == Below && got.Offset != offset) {
			t.Errorf("offset %d: %+v", offset, got)
		}
	}
	check(0, Below)
	check(tail-1, Below)
	r.now += 2 * hour
	for range 2 {
		check(tail-1, Below)
		check(tail-consumedMessages, Below)
		check(tail-consumedMessages-1, Unknown)
		r.load()
	}
	r.retain(Retention{EvictMicros: second})
	check(tail-1, Unknown)
}

func TestNothingIsReadWhereNothingIsHidden(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		r.push(fmt.Sprint("t", i))
	}
	r.now += minute
	gets, scans := r.store.gets, r.store.scans
	first, end, next, err := r.machine.Visible(r.store, 17, Visibility{NowMicros: r.now, DelayMicros: second,
		WindowBufferMicros: second, Retention: Retention{AgeMicros: hour, EvictMicros: hour}})
	if first != 17 || end != 200 || next != 0 || err != nil {
		t.Errorf("visible: %d %d %d %v", first, end, next, err)
	}
	if to, err := r.machine.EndWithin(r.store, ByteLimit{First: 17, End: 200, MaxBytes: 64 << 20}); to != 200 || err != nil {
		t.Errorf("end within: %d %v", to, err)
	}
	if r.store.gets != gets || r.store.scans != scans {
		t.Errorf("%d gets, %d scans", r.store.gets-gets, r.store.scans-scans)
	}
}

func TestRetentionOfNothingWritesNothing(t *testing.T) {
	r := newRig(t)
	r.push("a")
	puts := r.store.puts
	out := r.retain(Retention{AgeMicros: hour, CompletedMicros: second, Held: true})
	if r.store.puts != puts || out.Appends != 0 || out.More || out.NextDueMicros != 0 {
		t.Errorf("%+v", out)
	}
	out = r.retain(Retention{AgeMicros: hour})
	if want := uint64(testStart + hour + 1); out.NextDueMicros != want {
		t.Errorf("next due %d in place of %d", out.NextDueMicros, want)
	}
}

func TestSweepLeavesNothing(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		r.push(fmt.Sprint("t", i))
		if i == 100 {
			r.now += minute
			r.retain(Retention{EvictMicros: second})
		}
	}
	steps := 0
	for done := false; !done; steps++ {
		r.store.nextEntry()
		var err error
		done, err = Sweep(r.store, r.store, SweepInput{Queue: testQueue, Partition: testPartition, MaxAppends: 50})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(r.store.rows) != 0 || len(r.store.chunks) != 0 || steps < 4 {
		t.Errorf("%d rows and %d chunks are left after %d steps", len(r.store.rows), len(r.store.chunks), steps)
	}
	done, err := Sweep(r.store, r.store, SweepInput{Queue: testQueue, Partition: testPartition, MaxAppends: 50})
	if !done || err != nil {
		t.Errorf("once more: %v %v", done, err)
	}
}

// TestMovedChunksCanMoveAgain: a bucket that holds moved chunks is emptied like any other.
func TestMovedChunksCanMoveAgain(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		if i%100 == 0 {
			r.store.bucket++
		}
		r.push(fmt.Sprint("t", i))
	}
	for bucket := uint32(1); bucket < 6; bucket++ {
		r.store.bucket = max(r.store.bucket, bucket+1)
		for more := true; more; {
			r.load()
			out, err := r.machine.MoveChunks(r.store, r.store, MoveInput{Bucket: bucket, MaxBytes: 700})
			if err != nil {
				t.Fatal(err)
			}
			if out.Bytes > 700 {
				t.Fatalf("a step moved %d bytes", out.Bytes)
			}
			more = out.More
		}
		for ref := range r.store.chunks {
			if ref.Bucket <= bucket {
				t.Fatalf("chunk %+v is left", ref)
			}
		}
	}
	offset, found, err := FindTxid(r.store, testQueue, testPartition, HashTxid([]byte("t250")))
	if offset != 250 || !found || err != nil {
		t.Errorf("find: %d %v %v", offset, found, err)
	}
}

func TestMissingPageIsReported(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		r.push(fmt.Sprint("t", i))
	}
	r.load()
	pages := r.store.keys(layout.PagesOf(testPartition))
	r.store.Delete([]byte(pages[2]))
	messages := MessageRange{Queue: testQueue, Partition: testPartition, End: 200}
	err := ReadMessages(r.store, messages, func(uint64, uint64, *command.Message) (bool, error) { return true, nil })
	if !errors.Is(err, ErrMissingPage) {
		t.Errorf("read over a hole: %v", err)
	}
}

func TestPayloadSizeIsThatOfTheClearText(t *testing.T) {
	for size := range 40 {
		text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, size))
		envelope := fmt.Sprintf(`{"encrypted":"%s","iv":"AAAA","authTag":"AAAA","keyId":"1"}`, text)
		sealed := &command.Message{Payload: []byte(envelope), Encrypted: true}
		if got := payloadBytes(sealed); got != uint64(size) {
			t.Errorf("%d bytes in an envelope count as %d", size, got)
		}
		sealed.Encrypted = false
		if got := payloadBytes(sealed); got != uint64(len(envelope)) {
			t.Errorf("a payload that looks like an envelope counts as %d", got)
		}
	}
}

// TestMoveLooksThroughBoundedPages: a step that finds nothing to copy ends all the same, and the next one goes on.
func TestMoveLooksThroughBoundedPages(t *testing.T) {
	const pages = movePages + 100
	r := newRig(t)
	txids := make([]string, 70)
	for i := range pages {
		if i == pages-1 {
			r.store.bucket = 2
		}
		for k := range txids {
			txids[k] = fmt.Sprint(i, "-", k)
		}
		r.dedup = 0
		r.push(txids...)
	}
	r.store.bucket = 3
	// Everything may have been moved once, so every page has to be looked at.
	r.machine.head.moves.end = r.machine.Tail()
	for step, want := range []MoveOutput{{More: true}, {Chunks: 1}} {
		r.store.nextEntry()
		got, err := r.machine.MoveChunks(r.store, r.store, MoveInput{Bucket: 2, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if got.More != want.More || got.Chunks != want.Chunks {
			t.Errorf("step %d: %+v", step, got)
		}
		r.load()
	}
}

// TestHashesOutliveTheirMessages: a partition may be cleaned up only when no txid is remembered any more.
func TestHashesOutliveTheirMessages(t *testing.T) {
	r := newRig(t)
	if r.machine.HoldsHashes(r.now, r.hashes) {
		t.Error("a partition that never held anything remembers something")
	}
	r.push("a")
	r.now += minute
	r.retain(Retention{EvictMicros: second})
	if head := r.machine.head; head.Messages() != 0 || !r.machine.HoldsHashes(r.now, r.hashes) {
		t.Errorf("the hash went with its message: %+v", head)
	}
	if r.machine.HoldsHashes(r.now+hour, r.hashes) {
		t.Error("the hash outlives its window")
	}
}

// TestRepeatedItemsOfAnAckDoNotHideOthers: a txid that a call names twice counts once.
func TestRepeatedItemsOfAnAckDoNotHideOthers(t *testing.T) {
	r := newRig(t)
	for i := range 500 {
		r.push(fmt.Sprint("t", i))
	}
	in := ResolveInput{From: 10, End: 480, Leased: true, NowMicros: r.now, HashWindowMicros: r.hashes}
	want := []uint64{10, 300, 300, 300, 400, 5}
	for _, offset := range want {
		in.Hashes = append(in.Hashes, HashTxid(fmt.Appendf(nil, "t%d", offset)))
	}
	answers, err := r.machine.Resolve(r.store, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, answer := range answers {
		kind := InRange
		if want[i] < in.From {
			kind = Below
		}
		if answer != (Resolution{Kind: kind, Offset: want[i]}) {
			t.Errorf("item %d: %+v in place of %v at %d", i, answer, kind, want[i])
		}
	}
}
