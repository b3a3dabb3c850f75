package actors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"queen/raftlog/command"
	"queen/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// testDeadline is how long a condition may take on a busy machine.
const testDeadline = 20 * time.Second

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(testDeadline)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s did not happen within %v", what, testDeadline)
		case <-tick.C:
		}
	}
}

// testBucketBytes makes buckets fill up, so that chunks are spread, moved and dropped. It is the same in every run of a log:
// it decides where chunks go.
const testBucketBytes = 512 << 10

func openStore(t testing.TB, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, BucketBytes: testBucketBytes, ReserveBytes: -1, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// machine is a broker that is fed entries by a test in place of a log.
type machine struct {
	t      testing.TB
	dir    string
	store  *store.Store
	broker *Broker
	// results holds the answer to every request, in every entry that has it, as canonical JSON.
	results map[answered]string
	closed  bool

	mu sync.Mutex
	// awaited are the entries that are to answer a request, in their order.
	awaited map[command.RequestID][]uint64
}

func newMachine(t testing.TB, dir string) *machine {
	t.Helper()
	m := &machine{t: t, dir: dir, results: map[answered]string{}}
	m.open()
	t.Cleanup(m.close)
	return m
}

func (m *machine) open() {
	m.t.Helper()
	m.store = openStore(m.t, m.dir)
	broker, err := NewBroker(Config{Store: m.store, Log: zerolog.Nop()})
	if err != nil {
		m.t.Fatal(err)
	}
	calm(broker)
	m.broker, m.closed = broker, false
	m.awaited = map[command.RequestID][]uint64{}
}

// close stops the actors and closes the store in good order.
func (m *machine) close() {
	m.t.Helper()
	if m.closed {
		return
	}
	m.closed = true
	m.broker.Stop()
	if err := m.store.Close(); err != nil {
		m.t.Errorf("close store: %v", err)
	}
}

// restart stops in good order and begins again.
func (m *machine) restart() {
	m.t.Helper()
	m.close()
	m.open()
}

// crash begins again with the files as they are, as after kill -9: nothing above the durable point counts.
func (m *machine) crash() {
	m.t.Helper()
	dir := copyLive(m.t, m.dir)
	m.close()
	m.dir = dir
	m.open()
}

// logged is one entry of a recorded log.
type logged struct {
	index, term uint64
	data        []byte
	// requests are the ids of the commands; those without one are zero.
	requests []command.RequestID
}

// newLogged encodes an entry.
func newLogged(index, term uint64, e *command.Entry) *logged {
	l := &logged{index: index, term: term, data: command.EncodeEntry(e)}
	for i := range e.Items {
		l.requests = append(l.requests, e.Items[i].Request)
	}
	return l
}

// answered names the answer that a request gets by an entry.
type answered struct {
	index   uint64
	request command.RequestID
}

// apply executes an entry. Its results are complete after the next flush.
func (m *machine) apply(e *logged) error {
	m.mu.Lock()
	for _, id := range e.requests {
		if id != (command.RequestID{}) {
			m.awaited[id] = append(m.awaited[id], e.index)
			m.await(id)
		}
	}
	m.mu.Unlock()
	return m.broker.Apply(e.index, e.term, e.data)
}

// await waits for the next answer to a request. The lock is held.
func (m *machine) await(id command.RequestID) {
	m.broker.pending.add(id, func(result command.Result) {
		m.mu.Lock()
		defer m.mu.Unlock()
		indexes := m.awaited[id]
		m.results[answered{indexes[0], id}] = canonical(result)
		if m.awaited[id] = indexes[1:]; len(indexes) > 1 {
			m.await(id)
		}
	})
}

func (m *machine) mustApply(e *logged) {
	m.t.Helper()
	if err := m.apply(e); err != nil {
		m.t.Fatalf("apply entry %d: %v", e.index, err)
	}
}

func (m *machine) flush() {
	m.t.Helper()
	if err := m.broker.Flush(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) durablePoint() {
	m.t.Helper()
	if _, err := m.broker.DurablePoint(); err != nil {
		m.t.Fatal(err)
	}
}

// stateHash is the fingerprint of everything that is stored.
func (m *machine) stateHash() [32]byte {
	m.t.Helper()
	view := m.store.View()
	defer view.Close()
	hash, err := m.store.StateHash(view)
	if err != nil {
		m.t.Fatal(err)
	}
	return hash
}

// testOrigin is the node that requests come from.
const testOrigin = 7

// canonical spells a result so that equal results are equal texts: no lists and empty lists are one.
func canonical(result command.Result) string {
	encoded, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	encoded = bytes.ReplaceAll(encoded, []byte("[]"), []byte("null"))
	return fmt.Sprintf("%T%s", result, encoded)
}

// copyLive copies the directory of an open store that has nothing to write, as a kill would leave it: with the page cache.
// It tries again when files come, go or grow meanwhile, for such a copy would show a state that never was.
func copyLive(t testing.TB, from string) string {
	t.Helper()
	for range 100 {
		to := t.TempDir()
		before, err := listing(from)
		if err == nil {
			err = copyTree(from, to)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if after, listed := listing(from); err == nil && listed == nil && maps.Equal(before, after) {
			return to
		}
	}
	t.Fatal("the directory of the store never stood still")
	return ""
}

// listing maps the names of the files below a directory to their sizes.
func listing(dir string) (map[string]int64, error) {
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files[path] = info.Size()
		}
		return err
	})
	return files, err
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		return copySparse(path, filepath.Join(to, name))
	})
}

// copySparse copies what a file holds and leaves its holes out: logs of the store are mapped files of many megabytes.
func copySparse(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		start, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole is left
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(in.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		data := make([]byte, end-start)
		if _, err := in.ReadAt(data, start); err != nil {
			return err
		}
		if _, err := out.WriteAt(data, start); err != nil {
			return err
		}
		at = end
	}
	return nil
}
