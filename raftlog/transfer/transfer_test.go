package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// memory is a Source that lies in memory.
type memory struct {
	names  []string
	parts  [][]byte
	at     int // of the current part, from 1
	fail   error
	closed bool
}

func (m *memory) Next() (string, int64, error) {
	if m.fail != nil {
		return "", 0, m.fail
	}
	if m.at == len(m.parts) {
		return "", 0, io.EOF
	}
	m.at++
	return m.names[m.at-1], int64(len(m.parts[m.at-1])), nil
}

func (m *memory) ReadAt(to []byte, offset int64) (int, error) {
	return bytes.NewReader(m.parts[m.at-1]).ReadAt(to, offset)
}

func (m *memory) Sum() ([32]byte, error) { return sha256.Sum256(m.parts[m.at-1]), nil }

func (m *memory) Bytes() (total int64) {
	for _, part := range m.parts {
		total += int64(len(part))
	}
	return total
}

func (m *memory) Close() error {
	m.closed = true
	return nil
}

// randomSource has parts of no byte, of some, and of several ranges.
func randomSource(random *rand.Rand) *memory {
	m := &memory{}
	for i := range 1 + random.IntN(6) {
		size := []int{0, 1 + random.IntN(5000), MaxRangeBytes, 2*MaxRangeBytes + random.IntN(MaxRangeBytes)}[random.IntN(4)]
		part := make([]byte, size)
		for at := 0; at < size; at += 97 {
			part[at] = byte(random.Uint32())
		}
		m.names = append(m.names, fmt.Sprintf("part-%04d.x", i))
		m.parts = append(m.parts, part)
	}
	return m
}

// fixture is a sender with a clock of its own.
type fixture struct {
	mu      sync.Mutex
	now     time.Time
	opened  []*memory
	sources func() *memory
	sender  *Sender
}

func newFixture(sources func() *memory) *fixture {
	f := &fixture{now: time.Unix(1e9, 0), sources: sources}
	f.sender = NewSender(SenderOptions{
		Open: func(context.Context) (Source, []byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.opened = append(f.opened, f.sources())
			return f.opened[len(f.opened)-1], []byte("members"), nil
		},
		Now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.now
		},
		Logger: zerolog.Nop(),
	})
	return f
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	f.now = f.now.Add(d)
	f.mu.Unlock()
}

func (f *fixture) call(peer uint64) Call {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		return f.sender.Serve(ctx, peer, request), nil
	}
}

func newReceiver(t *testing.T, options ReceiverOptions) *Receiver {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "parts")
	}
	if options.MaxBytes == 0 {
		options.MaxBytes = 1 << 30
	}
	r, err := NewReceiver(options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkParts compares the directory with what was sent.
func checkParts(t *testing.T, dir string, want *memory) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if !slices.Equal(names, want.names) {
		t.Fatalf("received %v, want %v", names, want.names)
	}
	for i, name := range want.names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(content, want.parts[i]) {
			t.Fatalf("part %s differs, err %v", name, err)
		}
	}
}

func TestFetchBringsAllParts(t *testing.T) {
	source := randomSource(rand.New(rand.NewPCG(1, 1)))
	f := newFixture(func() *memory { return source })
	r := newReceiver(t, ReceiverOptions{Accept: func(meta []byte, about int64) error {
		if string(meta) != "members" || about != source.Bytes() {
			return fmt.Errorf("meta %q, about %d", meta, about)
		}
		return nil
	}})
	for range 2 { // the second has nothing to do
		result, err := r.Fetch(t.Context(), f.call(1))
		if err != nil {
			t.Fatal(err)
		}
		if string(result.Meta) != "members" || result.Parts != len(source.parts) || result.Bytes != source.Bytes() || r.Received() != result.Bytes {
			t.Fatalf("result %+v, received %d", result, r.Received())
		}
	}
	checkParts(t, r.options.Dir, source)
	if !source.closed || f.sender.Exports() != 0 {
		t.Fatal("the export is still open")
	}
}

var errBroken = errors.New("connection broke")

// TestFetchGoesOnOverABadConnection: requests and answers are lost, answers damaged.
func TestFetchGoesOnOverABadConnection(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 2))
		source := randomSource(random)
		source.names = append(source.names, "z")
		source.parts = append(source.parts, make([]byte, 3*MaxRangeBytes))
		f := newFixture(func() *memory { return source })
		r := newReceiver(t, ReceiverOptions{})
		served, broken := 0, 0
		call := func(ctx context.Context, request []byte) ([]byte, error) {
			if random.IntN(3) == 0 {
				broken++
				return nil, errBroken
			}
			served++
			answer := f.sender.Serve(ctx, 1, request)
			switch random.IntN(5) {
			case 0:
				broken++
				return nil, errBroken
			case 1:
				answer[len(answer)-1] ^= 4
			}
			return answer, nil
		}
		complete := false
		for range 1000 {
			_, err := r.Fetch(t.Context(), call)
			if complete = err == nil; complete {
				break
			}
			if !errors.Is(err, errBroken) && !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrDamaged) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if !complete {
			t.Fatalf("seed %d: never complete", seed)
		}
		checkParts(t, r.options.Dir, source)
		if len(f.opened) > 2 { // the first begin may have been lost or damaged
			t.Logf("seed %d: %d exports were opened", seed, len(f.opened))
		}
	}
}

// TestBrokenCallCostsOneRange counts what is asked for again.
func TestBrokenCallCostsOneRange(t *testing.T) {
	source := &memory{names: []string{"a", "b"}, parts: [][]byte{make([]byte, 5*MaxRangeBytes), make([]byte, 5*MaxRangeBytes)}}
	f := newFixture(func() *memory { return source })
	r := newReceiver(t, ReceiverOptions{})
	reads, broken := 0, 0
	call := func(ctx context.Context, message []byte) ([]byte, error) {
		answer := f.sender.Serve(ctx, 1, message)
		if request, err := decodeRequest(message); err != nil || request.op != opRead {
			return answer, err
		}
		if reads++; reads == 3 || reads == 8 {
			broken++
			return nil, errBroken
		}
		return answer, nil
	}
	for range 2 {
		if _, err := r.Fetch(t.Context(), call); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if _, err := r.Fetch(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if reads != 10+broken+1 || len(f.opened) != 1 { // and one to learn that there are no more
		t.Fatalf("%d reads, %d broken, %d exports", reads, broken, len(f.opened))
	}
	checkParts(t, r.options.Dir, source)
}

func TestPartThatIsAlwaysDamagedIsGivenUp(t *testing.T) {
	source := &memory{names: []string{"a", "b"}, parts: [][]byte{{1}, {2, 3}}}
	f := newFixture(func() *memory { return source })
	r := newReceiver(t, ReceiverOptions{})
	damage := true
	call := func(ctx context.Context, message []byte) ([]byte, error) {
		answer := f.sender.Serve(ctx, 1, message)
		if request, err := decodeRequest(message); damage && err == nil && request.part == 2 {
			answer[len(answer)-1] ^= 1
		}
		return answer, nil
	}
	if _, err := r.Fetch(t.Context(), call); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.options.Dir, "b")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a damaged part has its name: %v", err)
	}
	damage = false
	if _, err := r.Fetch(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	checkParts(t, r.options.Dir, source)
}

func TestFetchBeginsAnewWhenTheExportIsGone(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	f := newFixture(func() *memory {
		source := randomSource(random)
		return &memory{names: append(source.names, "z"), parts: append(source.parts, make([]byte, 2*MaxRangeBytes))}
	})
	r := newReceiver(t, ReceiverOptions{})
	reads := 0
	call := func(ctx context.Context, message []byte) ([]byte, error) {
		if reads++; reads == 3 {
			f.sender.CloseAll("test")
		}
		return f.sender.Serve(ctx, 1, message), nil
	}
	if _, err := r.Fetch(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if len(f.opened) != 2 {
		t.Fatalf("%d exports", len(f.opened))
	}
	checkParts(t, r.options.Dir, f.opened[1])

	r = newReceiver(t, ReceiverOptions{})
	always := func(ctx context.Context, message []byte) ([]byte, error) {
		answer := f.sender.Serve(ctx, 1, message)
		f.sender.CloseAll("test")
		return answer, nil
	}
	if _, err := r.Fetch(t.Context(), always); !errors.Is(err, errGone) {
		t.Fatalf("a sender that always forgets: %v", err)
	}
}

func TestAtMostTwoExportsAtATime(t *testing.T) {
	f := newFixture(func() *memory { return randomSource(rand.New(rand.NewPCG(4, 4))) })
	begin := func(peer uint64) error {
		answer, err := f.call(peer)(t.Context(), (&request{op: opBegin}).encode())
		if err != nil {
			return err
		}
		_, err = decodeBegun(answer)
		return err
	}
	for peer := uint64(1); peer <= 2; peer++ {
		if err := begin(peer); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin(3); !errors.Is(err, ErrBusy) {
		t.Fatalf("third export: %v", err)
	}
	if err := begin(2); err != nil { // instead of its first
		t.Fatal(err)
	}
	if !f.opened[1].closed || f.opened[0].closed || f.sender.Exports() != 2 {
		t.Fatal("the first export of the second peer is not closed")
	}
	f.pass(59 * time.Second)
	if _, err := f.call(1)(t.Context(), (&request{op: opEnd, id: exportID{1}}).encode()); err != nil {
		t.Fatal(err)
	}
	f.pass(time.Second)
	if err := begin(3); err != nil {
		t.Fatalf("after 60 s: %v", err)
	}
	if !f.opened[0].closed || f.sender.Exports() != 1 {
		t.Fatal("idle exports are still open")
	}
	f.sender.Close()
	if f.sender.Exports() != 0 || !f.opened[len(f.opened)-1].closed {
		t.Fatal("an export survived Close")
	}
	if err := begin(1); !errors.Is(err, ErrBusy) {
		t.Fatalf("begin after Close: %v", err)
	}
}

func TestExportInUseIsNotIdleButNotForEver(t *testing.T) {
	f := newFixture(func() *memory {
		return &memory{names: []string{"a"}, parts: [][]byte{make([]byte, 2*MaxRangeBytes)}}
	})
	answer, err := f.call(1)(t.Context(), (&request{op: opBegin}).encode())
	if err != nil {
		t.Fatal(err)
	}
	export, err := decodeBegun(answer)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		answer, err := f.call(1)(t.Context(), (&request{op: opRead, id: export.id, part: 1, limit: 10}).encode())
		if err != nil {
			return err
		}
		_, err = decodePiece(answer)
		return err
	}
	for range 700 {
		if err := read(); err != nil {
			t.Fatal(err)
		}
		f.pass(59 * time.Second)
	}
	f.pass(50 * time.Second)
	for range 40 {
		err = read()
		f.pass(59 * time.Second)
	}
	if !errors.Is(err, errGone) {
		t.Fatalf("an export older than 12 h: %v", err)
	}
}

func TestExportBelongsToItsPeer(t *testing.T) {
	f := newFixture(func() *memory { return &memory{names: []string{"a"}, parts: [][]byte{{1}}} })
	answer := f.sender.Serve(t.Context(), 1, (&request{op: opBegin}).encode())
	export, err := decodeBegun(answer)
	if err != nil {
		t.Fatal(err)
	}
	f.sender.Serve(t.Context(), 2, (&request{op: opEnd, id: export.id}).encode())
	if _, err := decodePiece(f.sender.Serve(t.Context(), 2, (&request{op: opRead, id: export.id, part: 1, limit: 1}).encode())); !errors.Is(err, errGone) {
		t.Fatalf("read by another peer: %v", err)
	}
	if _, err := decodePiece(f.sender.Serve(t.Context(), 1, (&request{op: opRead, id: export.id, part: 1, limit: 1}).encode())); err != nil {
		t.Fatal(err)
	}
}

func TestSenderRefusesWhatMakesNoSense(t *testing.T) {
	f := newFixture(func() *memory { return &memory{names: []string{"a", "b"}, parts: [][]byte{{1, 2, 3}, {4}}} })
	export, err := decodeBegun(f.sender.Serve(t.Context(), 1, (&request{op: opBegin}).encode()))
	if err != nil {
		t.Fatal(err)
	}
	good := request{op: opRead, id: export.id, part: 1, limit: 2}
	if _, err := decodePiece(f.sender.Serve(t.Context(), 1, good.encode())); err != nil {
		t.Fatal(err)
	}
	bad := map[string][]byte{"empty": nil, "version": {9, 1}, "operation": {messageVersion, 9}, "cut": good.encode()[:20],
		"long": append(good.encode(), 0)}
	for name, change := range map[string]func(*request){
		"part 0":            func(r *request) { r.part = 0 },
		"part far ahead":    func(r *request) { r.part = 3 },
		"middle of next":    func(r *request) { r.part, r.offset = 2, 1 },
		"behind the end":    func(r *request) { r.offset = 4 },
		"negative":          func(r *request) { r.offset = -1 },
		"no limit":          func(r *request) { r.limit = 0 },
		"limit beyond most": func(r *request) { r.limit = MaxRangeBytes + 1 },
	} {
		r := good
		change(&r)
		bad[name] = r.encode()
	}
	for name, message := range bad {
		if _, err := openAnswer(f.sender.Serve(t.Context(), 1, message)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := decodePiece(f.sender.Serve(t.Context(), 1, good.encode())); err != nil {
		t.Fatalf("a good read after bad ones: %v", err)
	}
}

func TestSourceThatFailsEndsTheExport(t *testing.T) {
	source := &memory{fail: errors.New("disk")}
	f := newFixture(func() *memory { return source })
	r := newReceiver(t, ReceiverOptions{})
	if _, err := r.Fetch(t.Context(), f.call(1)); !errors.Is(err, ErrSender) {
		t.Fatal(err)
	}
	if !source.closed {
		t.Fatal("the source is open")
	}
}

// hostile answers reads with a piece of its choice.
func hostile(p piece) Call {
	return func(_ context.Context, message []byte) ([]byte, error) {
		r, err := decodeRequest(message)
		if err != nil {
			return nil, err
		}
		if r.op == opBegin {
			return (&begun{id: exportID{1}}).encode(), nil
		}
		answer, room := newPiece(len(p.data))
		copy(room, p.data)
		return p.encode(answer, len(room)), nil
	}
}

func TestReceiverRefusesWhatASenderMustNotSay(t *testing.T) {
	data := []byte{1, 2, 3}
	sum := sha256.Sum256(data)
	tests := map[string]struct {
		p    piece
		want error
	}{
		"path":               {piece{name: "../x", size: 3, last: true, sum: sum, data: data}, ErrProtocol},
		"absolute path":      {piece{name: "/x", size: 3, last: true, sum: sum, data: data}, ErrProtocol},
		"dots":               {piece{name: "..", size: 3, last: true, sum: sum, data: data}, ErrProtocol},
		"empty name":         {piece{name: "", size: 3, last: true, sum: sum, data: data}, ErrProtocol},
		"half":               {piece{name: "x.half", size: 3, last: true, sum: sum, data: data}, ErrProtocol},
		"part twice":         {piece{name: "x", size: 3, last: true, sum: sum, data: data}, ErrProtocol},
		"huge part":          {piece{name: "x", size: 1 << 50, data: data}, ErrLimit},
		"larger than all":    {piece{name: "x", size: 2000, data: data}, ErrLimit},
		"negative size":      {piece{name: "x", size: -1, data: data}, ErrProtocol},
		"more than its size": {piece{name: "x", size: 2, data: data}, ErrProtocol},
		"last before end":    {piece{name: "x", size: 30, last: true, sum: sum, data: data}, ErrProtocol},
		"not last at end":    {piece{name: "x", size: 3, data: data}, ErrProtocol},
		"no progress":        {piece{name: "x", size: 3}, ErrProtocol},
		"wrong sum":          {piece{name: "x", size: 3, last: true, data: data}, ErrDamaged},
		"nothing":            {piece{noMore: true}, ErrProtocol},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, ReceiverOptions{MaxBytes: 1000})
			if _, err := r.Fetch(t.Context(), hostile(test.p)); !errors.Is(err, test.want) {
				t.Fatalf("err %v", err)
			}
			entries, err := os.ReadDir(filepath.Dir(r.options.Dir))
			if err != nil || len(entries) != 1 {
				t.Fatal("something was written beside the directory", entries, err)
			}
		})
	}
	r := newReceiver(t, ReceiverOptions{MaxParts: 3})
	parts := byte(0)
	endless := func(ctx context.Context, message []byte) ([]byte, error) {
		parts++
		return hostile(piece{name: fmt.Sprint("p", parts), size: 3, last: true, sum: sum, data: data})(ctx, message)
	}
	if _, err := r.Fetch(t.Context(), endless); !errors.Is(err, ErrLimit) || parts > 5 {
		t.Fatalf("endless parts: %v after %d", err, parts)
	}
	long := func(context.Context, []byte) ([]byte, error) { return make([]byte, MaxResponseBytes+1), nil }
	if _, err := newReceiver(t, ReceiverOptions{}).Fetch(t.Context(), long); !errors.Is(err, ErrProtocol) {
		t.Fatalf("long answer: %v", err)
	}
}

func TestReceiverMayRefuseAnExport(t *testing.T) {
	f := newFixture(func() *memory { return randomSource(rand.New(rand.NewPCG(6, 6))) })
	old := errors.New("older than mine")
	r := newReceiver(t, ReceiverOptions{Accept: func([]byte, int64) error { return old }})
	if _, err := r.Fetch(t.Context(), f.call(1)); !errors.Is(err, old) {
		t.Fatal(err)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	f := newFixture(func() *memory { return randomSource(rand.New(rand.NewPCG(7, 7))) })
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	call := func(ctx context.Context, message []byte) ([]byte, error) {
		if calls++; calls == 2 {
			cancel()
		}
		return f.sender.Serve(ctx, 1, message), nil
	}
	if _, err := newReceiver(t, ReceiverOptions{}).Fetch(ctx, call); !errors.Is(err, context.Canceled) || calls != 2 {
		t.Fatalf("err %v after %d calls", err, calls)
	}
}

func TestPaceIsAskedForEveryRange(t *testing.T) {
	source := &memory{names: []string{"a", "b"}, parts: [][]byte{make([]byte, MaxRangeBytes+5), nil}}
	f := newFixture(func() *memory { return source })
	var paced []int
	var sent int
	f.sender.options.Pace = func(_ context.Context, bytes int) error {
		paced = append(paced, bytes)
		return nil
	}
	f.sender.options.Faults = func(point string) {
		if point == FaultPartSent {
			sent++
		}
	}
	if _, err := newReceiver(t, ReceiverOptions{}).Fetch(t.Context(), f.call(1)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(paced, []int{MaxRangeBytes, 5}) || sent != 2 {
		t.Fatalf("paced %v, %d parts sent", paced, sent)
	}
}

// TestPeersMayAskAtOnce is for the race detector; two receivers say that they are the same peer.
func TestPeersMayAskAtOnce(t *testing.T) {
	f := newFixture(func() *memory { return randomSource(rand.New(rand.NewPCG(8, 8))) })
	var all sync.WaitGroup
	for peer := range uint64(4) {
		r := newReceiver(t, ReceiverOptions{})
		all.Go(func() {
			for {
				_, err := r.Fetch(t.Context(), f.call(peer%3))
				if err == nil || peer%3 == 0 && errors.Is(err, errGone) {
					return
				}
				if !errors.Is(err, ErrBusy) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func FuzzMessages(f *testing.F) {
	f.Add((&request{op: opRead, id: exportID{1}, part: 2, offset: 3, limit: 4}).encode())
	f.Add((&begun{id: exportID{1}, about: 7, meta: []byte("m")}).encode())
	answer, room := newPiece(2)
	f.Add((&piece{name: "x", size: 2, last: true, data: room}).encode(answer, 2))
	f.Add(encodeFailure(statusBusy, "busy"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decodeRequest(data); err == nil && !bytes.Equal(r.encode(), data) {
			t.Fatalf("request %x does not come back", data)
		}
		if b, err := decodeBegun(data); err == nil && !bytes.Equal(b.encode(), data) {
			t.Fatalf("answer %x does not come back", data)
		}
		if p, err := decodePiece(data); err == nil {
			answer, room := newPiece(len(p.data))
			copy(room, p.data)
			if !bytes.Equal(p.encode(answer, len(room)), data) {
				t.Fatalf("piece %x does not come back", data)
			}
		}
	})
}
