package partition

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"queen/actors/machine/rowtest"
	"queen/raftlog/command"
)

// sink is a Writer that costs nothing, so that benchmarks show the machine; rows are kept for reading.
type sink struct {
	*rowtest.Memory
	ordinal uint32
	last    []byte
}

func (s *sink) Put(key, value []byte)     { s.Set(key, value) }
func (s *sink) ReserveChunk() uint32      { s.ordinal++; return s.ordinal }
func (s *sink) ReleaseChunk(ref ChunkRef) {}
func (s *sink) SetChunk(ordinal uint32, data []byte) ChunkRef {
	s.last = data
	return ChunkRef{Bucket: 1, Entry: 1, Ordinal: ordinal, Bytes: uint32(len(data))}
}
func (s *sink) Chunk(_ ChunkRef, visit func([]byte) error) error { return visit(s.last) }
func (s *sink) Get(key []byte) ([]byte, error)                   { return s.Row(key), nil }

// processor measures the processor time of the benchmark's thread, which other load on the machine does not change.
type processor struct{ started, total time.Duration }

func (p *processor) now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

func (p *processor) start() { p.started = p.now() }
func (p *processor) stop()  { p.total += p.now() - p.started }

// measure runs the loop of a benchmark; pause is called outside of the measured time before every thousandth run.
func measure(b *testing.B, pause func(), run func(i int)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p processor
	b.ReportAllocs()
	p.start()
	i := 0
	for ; b.Loop(); i++ {
		if i%1000 == 0 && pause != nil {
			p.stop()
			b.StopTimer()
			pause()
			b.StartTimer()
			p.start()
		}
		run(i)
	}
	p.stop()
	b.ReportMetric(float64(p.total.Nanoseconds())/float64(i), "cpu-ns/op")
}

const benchWindow = 3600 * second

func benchPush(serial *int, messages int) AppendInput {
	inputs := make([]input, messages)
	for i := range inputs {
		*serial++
		inputs[i] = input{txid: fmt.Sprintf("order-%028d", *serial), payload: strings.Repeat("p", 200)}
	}
	return AppendInput{StampMicros: testStart + uint64(*serial), Chunk: encodeInputs(inputs), Count: uint32(messages),
		DedupWindowMicros: benchWindow, HashWindowMicros: benchWindow}
}

func benchAppend(b *testing.B, messages, window int) {
	s := &sink{Memory: newMemory()}
	m, err := Load(s, testQueue, testPartition)
	if err != nil {
		b.Fatal(err)
	}
	serial := 0
	for serial < window {
		if _, err := m.Append(s, s, benchPush(&serial, 100)); err != nil {
			b.Fatal(err)
		}
	}
	inputs := make([]AppendInput, 1000)
	refill := func() {
		for k := range inputs {
			inputs[k] = benchPush(&serial, messages)
		}
	}
	measure(b, refill, func(i int) {
		if out, err := m.Append(s, s, inputs[i%len(inputs)]); err != nil || len(out.Duplicates) > 0 {
			b.Fatal(out, err)
		}
	})
}

func BenchmarkAppend1(b *testing.B)            { benchAppend(b, 1, 0) }
func BenchmarkAppend100(b *testing.B)          { benchAppend(b, 100, 0) }
func BenchmarkAppend100OfMillion(b *testing.B) { benchAppend(b, 100, 1_000_000) }

// BenchmarkAppendAgain100 pushes what is stored already.
func BenchmarkAppendAgain100(b *testing.B) {
	s := &sink{Memory: newMemory()}
	m, _ := Load(s, testQueue, testPartition)
	serial := 0
	in := benchPush(&serial, 100)
	if _, err := m.Append(s, s, in); err != nil {
		b.Fatal(err)
	}
	in.StampMicros += second
	measure(b, nil, func(int) {
		if out, err := m.Append(s, s, in); err != nil || len(out.Duplicates) != 100 {
			b.Fatal(out, err)
		}
	})
}

func benchResolve(b *testing.B, pushSize int, order func(i int) int) {
	s := &sink{Memory: newMemory()}
	m, _ := Load(s, testQueue, testPartition)
	serial := 0
	for range 5000 / pushSize {
		if _, err := m.Append(s, s, benchPush(&serial, pushSize)); err != nil {
			b.Fatal(err)
		}
	}
	in := ResolveInput{From: 1000, End: 1100, Leased: true, NowMicros: testStart + second, HashWindowMicros: benchWindow}
	for i := range 100 {
		in.Hashes = append(in.Hashes, HashTxid(fmt.Appendf(nil, "order-%028d", 1001+order(i))))
	}
	m.memo = pageMemo{base: 1000, end: 1100}
	measure(b, nil, func(int) {
		answers, err := m.Resolve(s, in)
		if err != nil || answers[99] != (Resolution{Kind: InRange, Offset: 1000 + uint64(order(99))}) {
			b.Fatal(answers, err)
		}
	})
}

func BenchmarkResolve100InOrder(b *testing.B) { benchResolve(b, 100, func(i int) int { return i }) }
func BenchmarkResolve100Backward(b *testing.B) {
	benchResolve(b, 100, func(i int) int { return 99 - i })
}

func BenchmarkLoadSmall(b *testing.B) {
	s := &sink{Memory: newMemory()}
	m, _ := Load(s, testQueue, testPartition)
	serial := 0
	for range 5 {
		if _, err := m.Append(s, s, benchPush(&serial, 1)); err != nil {
			b.Fatal(err)
		}
	}
	measure(b, nil, func(int) {
		if _, err := Load(s, testQueue, testPartition); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkVisibleWithDelay(b *testing.B) {
	s := &sink{Memory: newMemory()}
	m, _ := Load(s, testQueue, testPartition)
	serial := 0
	for range 2000 {
		if _, err := m.Append(s, s, benchPush(&serial, 1)); err != nil {
			b.Fatal(err)
		}
	}
	v := Visibility{NowMicros: m.LastStampMicros() + 500, DelayMicros: 1000}
	measure(b, nil, func(int) {
		if _, _, _, err := m.Visible(s, 10, v); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkForEachMessage is what a chunk costs to decode.
func BenchmarkForEachMessage(b *testing.B) {
	serial := 0
	in := benchPush(&serial, 100)
	var m command.Message
	measure(b, nil, func(int) {
		for rest := in.Chunk; len(rest) > 0; {
			rest, _ = command.NextMessage(rest, &m)
		}
	})
}
