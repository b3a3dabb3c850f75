package partition

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

const (
	testQueue     = 7
	testPartition = 9
	second        = 1_000_000
	testStart     = 1_700_000_000 * second
)

// replica is a store with a machine over it. One replica keeps its machine as long as it can, the other loads it anew for
// every call: both must do and answer the same (I1, I10).
type replica struct {
	store   *rowtest.Memory
	machine *Machine
	fresh   bool
}

func (r *replica) begin(t *rapid.T, reload bool) *Machine {
	r.store.NextEntry()
	if r.fresh || reload || r.machine == nil {
		machine, err := Load(r.store, testQueue, testPartition)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		r.machine = machine
	}
	return r.machine
}

// world drives two replicas and the model.
type world struct {
	replicas    []*replica
	model       model
	now         uint64
	dedupWindow uint64
	hashWindow  uint64
	nextID      uint64
	// modelKnowsHashes is false when the hash window varies: then the replicas are compared with each other only.
	modelKnowsHashes bool
}

func newWorld() *world {
	return &world{replicas: []*replica{{store: newMemory()}, {store: newMemory(), fresh: true}}, now: testStart,
		model: model{places: map[string][]uint64{}}, modelKnowsHashes: true}
}

func (w *world) newInput(t *rapid.T, pool int) input {
	w.nextID++
	in := input{payload: strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "payload"))}
	binary.BigEndian.PutUint64(in.id[8:], w.nextID)
	in.id[0] = 1
	switch rapid.IntRange(0, 3).Draw(t, "naming") {
	case 0:
	case 1:
		in.txid = fmt.Sprintf("unique-%d", w.nextID)
	default:
		in.txid = fmt.Sprintf("t%d", rapid.IntRange(0, pool).Draw(t, "txid"))
	}
	return in
}

// both runs a call on both replicas and compares answers and stores.
func both[T any](t *rapid.T, w *world, what string, call func(m *Machine, s *rowtest.Memory) (T, error)) T {
	reload := rapid.IntRange(0, 19).Draw(t, "reload") == 0
	answers := make([]T, len(w.replicas))
	for i, r := range w.replicas {
		var err error
		if answers[i], err = call(r.begin(t, reload), r.store); err != nil {
			t.Fatalf("%s on replica %d: %v", what, i, err)
		}
	}
	if !reflect.DeepEqual(answers[0], answers[1]) {
		t.Fatalf("%s: the kept machine answers %+v, the loaded one %+v", what, answers[0], answers[1])
	}
	kept, loaded := w.replicas[0], w.replicas[1]
	if err := kept.store.Compare(loaded.store); err != nil {
		t.Fatalf("%s: stores differ: %v", what, err)
	}
	if kept.store.Puts != loaded.store.Puts || kept.store.PutBytes != loaded.store.PutBytes {
		t.Fatalf("%s: the kept machine wrote %d rows, the loaded one %d", what, kept.store.Puts, loaded.store.Puts)
	}
	return answers[0]
}

func (w *world) push(t *rapid.T, inputs []input) {
	in := AppendInput{StampMicros: w.now, Chunk: encodeInputs(inputs), Count: uint32(len(inputs)),
		DedupWindowMicros: w.dedupWindow, HashWindowMicros: w.hashWindow}
	judgement := both(t, w, "check", func(m *Machine, s *rowtest.Memory) (Judgement, error) { return m.CheckDuplicates(s, in) })
	got := both(t, w, "append", func(m *Machine, s *rowtest.Memory) (AppendOutput, error) { return m.Append(s, s, in) })
	if !slices.Equal(judgement.all(), got.Duplicates) {
		t.Fatalf("checked %+v, appended %+v", judgement, got)
	}
	if !w.modelKnowsHashes {
		w.follow(inputs, got)
		return
	}
	want := w.model.append(inputs, w.now, w.dedupWindow, w.hashWindow)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("append of %+v at %d:\n got %+v\nwant %+v", inputs, w.now, got, want)
	}
}

// follow makes the model store what the machine has stored.
func (w *world) follow(inputs []input, out AppendOutput) {
	dropped := map[uint32]bool{}
	for _, d := range out.Duplicates {
		dropped[d.Item] = true
	}
	var kept []input
	for i, in := range inputs {
		if !dropped[uint32(i)] {
			kept = append(kept, in)
		}
	}
	w.model.append(kept, w.now, 0, 0)
}

func (w *world) opPush(t *rapid.T) {
	pool := rapid.SampledFrom([]int{3, 60, 1000}).Draw(t, "pool")
	inputs := make([]input, rapid.SampledFrom([]int{1, 1, 2, 5, 40}).Draw(t, "messages"))
	for i := range inputs {
		inputs[i] = w.newInput(t, pool)
	}
	w.push(t, inputs)
}

func (w *world) opBurst(t *rapid.T) {
	for range rapid.IntRange(5, 40).Draw(t, "pushes") {
		w.now += 1000
		w.push(t, []input{w.newInput(t, 500)})
	}
}

// opHugePush stores an append whose hashes do not stand with its reference.
func (w *world) opHugePush(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		w.opPush(t)
		return
	}
	inputs := make([]input, rapid.IntRange(1020, 1100).Draw(t, "messages"))
	first := rapid.IntRange(0, 3).Draw(t, "first")
	for i := range inputs {
		w.nextID++
		binary.BigEndian.PutUint64(inputs[i].id[8:], w.nextID)
		inputs[i].txid = fmt.Sprintf("t%d", first+i)
	}
	w.push(t, inputs)
}

func (w *world) opTime(t *rapid.T) {
	w.now += uint64(rapid.SampledFrom([]int{1, 1000, second, 5 * second, 40 * second}).Draw(t, "micros"))
}

func (w *world) rules(t *rapid.T) Retention {
	age := func(label string) uint64 {
		return uint64(rapid.SampledFrom([]int{0, 0, 0, 2, 10, 60}).Draw(t, label)) * second
	}
	return Retention{EvictMicros: age("evict"), AgeMicros: age("age"), CompletedMicros: age("completed"),
		CommittedBelow:     w.offset(t, "committed"),
		Held:               rapid.Bool().Draw(t, "held"),
		HoldCommittedBelow: w.offset(t, "sink"),
		HoldMicros:         age("hold")}
}

func (w *world) offset(t *rapid.T, label string) uint64 {
	return rapid.Uint64Range(0, w.model.tail()+1).Draw(t, label)
}

func (w *world) opRetain(t *rapid.T) {
	in := RetainInput{NowMicros: w.now, HashWindowMicros: w.hashWindow, Rules: w.rules(t),
		MaxAppends: uint32(rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "appends"))}
	got := both(t, w, "retain", func(m *Machine, s *rowtest.Memory) (RetainOutput, error) { return m.Retain(s, s, in) })
	appends, messages := w.model.retain(w.now, in.Rules, in.MaxAppends)
	if got.Appends != appends || got.Messages != messages {
		t.Fatalf("retain %+v removed %d appends, %d messages in place of %d, %d", in, got.Appends, got.Messages, appends, messages)
	}
	due := w.model.removed < w.model.tail() && w.model.due(w.model.messages[w.model.removed], w.now, in.Rules)
	if due && !got.More {
		t.Fatalf("retain %+v leaves due appends without saying so", in)
	}
	if next := got.NextDueMicros; next > w.now && w.model.removed < w.model.tail() {
		oldest := w.model.messages[w.model.removed]
		if w.model.due(oldest, next-1, in.Rules) {
			t.Fatalf("an append is due before %d under %+v", next, in.Rules)
		}
	}
}

func (w *world) opResolve(t *rapid.T) {
	from := w.offset(t, "from")
	in := ResolveInput{From: from, End: rapid.Uint64Range(from, w.model.tail()+2).Draw(t, "end"), Leased: rapid.Bool().Draw(t, "leased"),
		NowMicros: w.now, HashWindowMicros: w.hashWindow}
	var txids []string
	for i := range rapid.IntRange(1, 30).Draw(t, "items") {
		switch offset := max(from, w.model.removed) + uint64(i); {
		case rapid.IntRange(0, 3).Draw(t, "kind") > 0 && offset < w.model.tail():
			txids = append(txids, w.model.messages[offset].txid)
		case rapid.Bool().Draw(t, "known") && w.model.tail() > 0:
			txids = append(txids, w.model.messages[w.offset(t, "any")%w.model.tail()].txid)
		default:
			txids = append(txids, fmt.Sprintf("t%d", rapid.IntRange(0, 1000).Draw(t, "txid")))
		}
		in.Hashes = append(in.Hashes, HashTxid([]byte(txids[i])))
	}
	got := both(t, w, "resolve", func(m *Machine, s *rowtest.Memory) ([]Resolution, error) { return m.Resolve(s, in) })
	for i, txid := range txids {
		want := w.model.resolve(txid, in.From, in.End, in.Leased, w.now, w.hashWindow)
		if w.modelKnowsHashes && got[i] != want {
			t.Fatalf("resolve %q in [%d, %d) leased %v: %+v in place of %+v", txid, in.From, in.End, in.Leased, got[i], want)
		}
	}
}

func (w *world) opVisible(t *rapid.T) {
	from := w.offset(t, "from")
	v := Visibility{NowMicros: w.now, Retention: w.rules(t)}
	v.DelayMicros = uint64(rapid.SampledFrom([]int{0, 1, 30}).Draw(t, "delay")) * second
	v.WindowBufferMicros = uint64(rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "buffer")) * second
	type visible struct{ first, end, next uint64 }
	ask := func(v Visibility) visible {
		return both(t, w, "visible", func(m *Machine, s *rowtest.Memory) (visible, error) {
			first, end, next, err := m.Visible(s, from, v)
			return visible{first, end, next}, err
		})
	}
	got := ask(v)
	first, end := w.model.visible(from, v)
	if got.first >= got.end != (first >= end) || (first < end && (got.first != first || got.end != end)) {
		t.Fatalf("visible from %d with %+v: %+v in place of [%d, %d)", from, v, got, first, end)
	}
	if got.next == 0 {
		if rest := max(first, end); rest < w.model.tail() {
			t.Fatalf("visible from %d with %+v: %d is hidden, yet nothing changes", from, v, rest)
		}
		return
	}
	v.Retention = Retention{}
	before, after := v, v
	before.NowMicros, after.NowMicros = got.next-1, got.next
	if a, b := ask(before), ask(after); b.end-b.first <= a.end-a.first || got.next <= w.now {
		t.Fatalf("visible from %d with %+v changes at %d from %+v to %+v", from, v, got.next, a, b)
	}
}

func (w *world) opClaimBytes(t *rapid.T) {
	if w.model.removed == w.model.tail() {
		return
	}
	limit := ByteLimit{First: rapid.Uint64Range(w.model.removed, w.model.tail()-1).Draw(t, "first"),
		MaxBytes: rapid.Uint64Range(0, 400).Draw(t, "bytes"), AtLeastOne: rapid.Bool().Draw(t, "at least one")}
	limit.End = rapid.Uint64Range(limit.First, w.model.tail()).Draw(t, "end")
	got := both(t, w, "end within", func(m *Machine, s *rowtest.Memory) (uint64, error) { return m.EndWithin(s, limit) })
	if want := w.model.endWithin(limit); got != want {
		t.Fatalf("end within %+v: %d in place of %d", limit, got, want)
	}
	bytes := both(t, w, "payload bytes", func(m *Machine, s *rowtest.Memory) (uint64, error) {
		return m.PayloadBytes(s, limit.First, limit.End)
	})
	for _, stored := range w.model.messages[limit.First:limit.End] {
		bytes -= uint64(len(stored.payload))
	}
	if bytes != 0 {
		t.Fatalf("payload bytes of %+v are off by %d", limit, int64(bytes))
	}
}

func (w *world) opStamp(t *rapid.T) {
	stamp := w.now - uint64(rapid.IntRange(0, 90*second).Draw(t, "age"))
	if len(w.model.messages) > 0 && rapid.Bool().Draw(t, "exact") {
		stamp = w.model.messages[w.offset(t, "of")%w.model.tail()].stamp + uint64(rapid.IntRange(0, 1).Draw(t, "plus"))
	}
	got := both(t, w, "first at", func(m *Machine, s *rowtest.Memory) (uint64, error) { return m.FirstAtOrAfter(s, stamp) })
	if want := w.model.firstAtOrAfter(stamp); got != want {
		t.Fatalf("first at or after %d: %d in place of %d", stamp, got, want)
	}
}

func (w *world) opBucket(t *rapid.T) {
	if rapid.Bool().Draw(t, "next") {
		for _, r := range w.replicas {
			r.store.OpenBucket++
		}
	}
	in := MoveInput{Bucket: rapid.Uint32Range(0, w.replicas[0].store.OpenBucket).Draw(t, "bucket"),
		MaxBytes: rapid.Uint64Range(0, 5000).Draw(t, "bytes")}
	for {
		got := both(t, w, "move", func(m *Machine, s *rowtest.Memory) (MoveOutput, error) { return m.MoveChunks(s, s, in) })
		if !got.More {
			break
		}
		if rapid.IntRange(0, 4).Draw(t, "stop") == 0 {
			return
		}
	}
	for ref := range w.replicas[0].store.Chunks {
		if ref.Bucket == in.Bucket && in.Bucket != w.replicas[0].store.OpenBucket {
			t.Fatalf("chunk %+v was not moved", ref)
		}
	}
}

// check compares everything that can be read with the model.
func (w *world) check(t *rapid.T) {
	r := w.replicas[0]
	head, err := ReadHead(r.store, testQueue, testPartition)
	if err != nil {
		t.Fatalf("read head: %v", err)
	}
	if head.Tail != w.model.tail() || head.LogStart != w.model.removed || head.Segments != w.model.segments ||
		head.LastStampMicros != w.model.last || int(head.Segments) != len(r.store.Chunks) {
		t.Fatalf("head %+v does not fit: start %d, tail %d, %d segments", head, w.model.removed, w.model.tail(), w.model.segments)
	}
	bytes := uint64(0)
	for ref := range r.store.Chunks {
		bytes += uint64(ref.Bytes)
	}
	if bytes != head.RetainedBytes {
		t.Fatalf("retained bytes are %d in place of %d", head.RetainedBytes, bytes)
	}
	at := w.model.removed
	messages := MessageRange{Queue: testQueue, Partition: testPartition, End: w.model.tail()}
	err = ReadMessages(r.store, messages, func(offset, stamp uint64, m *command.Message) (bool, error) {
		want := w.model.messages[at]
		if offset != at || stamp != want.stamp || m.ID != want.id || string(m.Payload) != want.payload {
			t.Fatalf("read %d %d %v in place of %d %+v", offset, stamp, m.ID, at, want)
		}
		at++
		return true, nil
	})
	if err != nil || at != w.model.tail() {
		t.Fatalf("read up to %d in place of %d: %v", at, w.model.tail(), err)
	}
	w.checkBrowsing(t)
}

func (w *world) checkBrowsing(t *rapid.T) {
	appends := AppendRange{Queue: testQueue, Partition: testPartition, NewestFirst: true}
	at := w.model.tail()
	err := ForEachAppend(w.replicas[0].store, appends, func(a *Append) (bool, error) {
		if a.End() != at || a.StampMicros != w.model.messages[a.Base].stamp {
			t.Fatalf("append %+v in place of one that ends at %d", a, at)
		}
		at = a.Base
		return true, nil
	})
	if err != nil || at != w.model.removed {
		t.Fatalf("browsed down to %d in place of %d: %v", at, w.model.removed, err)
	}
}

func (w *world) actions(t *rapid.T) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"push": w.opPush, "push again": w.opPush, "burst": w.opBurst, "huge push": w.opHugePush, "time": w.opTime,
		"retain": w.opRetain, "resolve": w.opResolve, "visible": w.opVisible, "bytes": w.opClaimBytes, "stamp": w.opStamp,
		"bucket": w.opBucket,
		"":       w.check,
	}
}

// TestMachineActsLikeTheList: whatever happens to the log, machine and list agree (I3, I7), and a machine that has lived
// long does the same as one that was just loaded (I1, I10).
func TestMachineActsLikeTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.hashWindow = uint64(rapid.SampledFrom([]int{5, 30, 120}).Draw(t, "hash window")) * second
		actions := w.actions(t)
		actions["dedup window"] = func(t *rapid.T) {
			w.dedupWindow = min(w.hashWindow, uint64(rapid.SampledFrom([]int{0, 2, 30, 120}).Draw(t, "dedup window"))*second)
		}
		t.Repeat(actions)
	})
}

// TestChangingWindowsKeepReplicasEqual: when the hash window grows and shrinks, what is still known depends on the stored
// state alone (I1).
func TestChangingWindowsKeepReplicasEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.modelKnowsHashes = false
		actions := w.actions(t)
		actions["windows"] = func(t *rapid.T) {
			w.hashWindow = uint64(rapid.SampledFrom([]int{0, 5, 30, 120}).Draw(t, "hash window")) * second
			w.dedupWindow = min(w.hashWindow, uint64(rapid.SampledFrom([]int{0, 2, 30, 120}).Draw(t, "dedup window"))*second)
		}
		t.Repeat(actions)
	})
}
