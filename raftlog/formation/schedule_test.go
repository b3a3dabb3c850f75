package formation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"queen/raftlog/identity"
	"queen/raftlog/peer"
)

// schedule is a group whose messages are delivered, delayed and lost as a random source decides. It runs the real
// handlers and decisions, one step at a time, without sockets.
type schedule struct {
	t      *testing.T
	random *rand.Rand
	root   string
	peers  []Peer
	dirs   map[uint64]string
	wiped  int
	// up are the processes that run.
	up map[uint64]*formation
	// sent are records on their way, from processes that may be gone.
	sent []sentRecord
	// trail is what happened, for a failure.
	trail []string
}

type sentRecord struct {
	from peer.Hello
	to   uint64
	body []byte
}

func (s *schedule) note(format string, args ...any) {
	s.trail = append(s.trail, fmt.Sprintf(format, args...))
}

func (s *schedule) start(id uint64) {
	store, err := identity.Open(identity.Options{Dir: s.dirs[id], NodeID: id, Groups: 1, NowMs: func() int64 { return 1 }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.up[id] = prepare(Options{Self: id, Peers: s.peers, Identity: store, Clock: &fakeClock{}, Logger: zerolog.Nop()})
	s.note("start %d", id)
}

// stop ends a process. Records that were sent to it are lost; those that it sent are not.
func (s *schedule) stop(id uint64) {
	delete(s.up, id)
	kept := s.sent[:0]
	for _, record := range s.sent {
		if record.to != id {
			kept = append(kept, record)
		}
	}
	s.sent = kept
	s.note("stop %d", id)
}

func (s *schedule) wipe(id uint64) {
	s.wiped++
	s.dirs[id] = filepath.Join(s.root, fmt.Sprintf("%d-%d", id, s.wiped))
	s.note("wipe %d", id)
}

func hello(f *formation) peer.Hello {
	h := peer.Hello{}
	h.Identify(f.Identity.Current())
	return h
}

// round is one round of a process that is empty: it may lose questions, and crash before it acts on the answers.
func (s *schedule) round(id uint64) {
	f := s.up[id]
	self := f.state()
	if self.ClusterID != "" {
		return
	}
	answers := map[uint64]state{}
	for _, listed := range s.peers {
		other := s.up[listed.ID]
		if listed.ID == id || other == nil || s.random.IntN(8) == 0 {
			continue
		}
		body, err := other.answerState(hello(f), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		var answer state
		if err := json.Unmarshal(body, &answer); err != nil {
			s.t.Fatal(err)
		}
		answers[listed.ID] = answer
		if s.random.IntN(4) == 0 {
			s.deliver() // between two answers
		}
	}
	decided := decide(&self, answers)
	s.note("round of %d: action %d with %d answers", id, decided.action, len(answers))
	switch decided.action {
	case adopt:
		if err := f.take(decided.record); err != nil && f.state().ClusterID == "" {
			s.t.Fatal(err)
		}
	case form:
		record := f.record(answers)
		if err := f.take(record); err != nil {
			return // another record came first
		}
		body, err := json.Marshal(record)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, listed := range s.peers {
			if listed.ID != id && s.random.IntN(3) > 0 {
				s.sent = append(s.sent, sentRecord{from: hello(f), to: listed.ID, body: body})
			}
		}
	case wait, join, differ, await:
	}
}

// deliver brings one record to its node, or loses it.
func (s *schedule) deliver() {
	if len(s.sent) == 0 {
		return
	}
	at := s.random.IntN(len(s.sent))
	record := s.sent[at]
	s.sent = append(s.sent[:at], s.sent[at+1:]...)
	if f := s.up[record.to]; f != nil {
		_, err := f.answerForm(record.from, record.body)
		s.note("record of %d (%s) reaches %d: %v", record.from.NodeID, record.from.Incarnation[:4], record.to, err)
	}
}

// check is the invariant: all directories that belong to a cluster belong to one, by one record.
func (s *schedule) check(seed uint64) {
	found := map[string][]uint64{}
	for id, f := range s.up {
		if current := f.Identity.Current(); current.ClusterID != "" {
			found[current.ClusterID] = append(found[current.ClusterID], id)
		}
	}
	for id, dir := range s.dirs {
		var current identity.Identity
		if s.up[id] == nil && identity.ReadRecord(filepath.Join(dir, "identity.json"), &current) == nil && current.ClusterID != "" {
			found[current.ClusterID] = append(found[current.ClusterID], id)
		}
	}
	if len(found) > 1 {
		for _, line := range s.trail {
			s.t.Log(line)
		}
		s.t.Fatalf("seed %d: two clusters: %v", seed, found)
	}
}

// TestNoScheduleMakesTwoClusters starts, stops and wipes nodes, and delays and loses messages, at random.
func TestNoScheduleMakesTwoClusters(t *testing.T) {
	const runs, steps = 20, 60
	seed := rand.Uint64()
	t.Logf("first seed %d", seed)
	formed := 0
	for run := range uint64(runs) {
		s := &schedule{
			t: t, random: rand.New(rand.NewPCG(seed+run, 0)), root: t.TempDir(),
			dirs: map[uint64]string{}, up: map[uint64]*formation{},
		}
		nodes := uint64(2 + 2*s.random.IntN(2))
		for id := uint64(1); id <= nodes; id++ {
			s.peers = append(s.peers, Peer{ID: id, Raft: fmt.Sprint("r", id), HTTP: fmt.Sprint("h", id)})
			s.dirs[id] = filepath.Join(s.root, fmt.Sprint(id))
			s.start(id)
		}
		for range steps {
			id := 1 + s.random.Uint64N(nodes)
			switch action := s.random.IntN(10); {
			case s.up[id] == nil:
				s.start(id)
			case action == 0:
				s.stop(id)
			case action == 1:
				s.stop(id)
				s.wipe(id)
			case action < 4:
				s.deliver()
			default:
				s.round(id)
			}
			s.check(seed + run)
		}
		for _, f := range s.up {
			if f.state().ClusterID != "" {
				formed++
			}
		}
	}
	if formed == 0 {
		t.Error("no run has formed a cluster: nothing was tested")
	}
	t.Logf("%d nodes were formed at the end of %d runs", formed, runs)
}

// TestRecordOnItsWayIsOutdatedByALaterQuestion is the shortest schedule that made two clusters: node 1 sends a record, loses
// its directory and asks again; node 2 answers empty, and then the record arrives.
func TestRecordOnItsWayIsOutdatedByALaterQuestion(t *testing.T) {
	s := &schedule{
		t: t, root: t.TempDir(), dirs: map[uint64]string{}, up: map[uint64]*formation{},
		peers: []Peer{{1, "r1", "h1"}, {2, "r2", "h2"}},
	}
	for id := uint64(1); id <= 2; id++ {
		s.dirs[id] = filepath.Join(s.root, fmt.Sprint(id))
		s.start(id)
	}
	ask := func() map[uint64]state {
		body, err := s.up[2].answerState(hello(s.up[1]), nil)
		if err != nil {
			t.Fatal(err)
		}
		var answer state
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		return map[uint64]state{2: answer}
	}
	form := func() (*identity.Formation, sentRecord) {
		record := s.up[1].record(ask())
		if err := s.up[1].take(record); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return record, sentRecord{from: hello(s.up[1]), to: 2, body: body}
	}
	_, former := form()
	s.stop(1)
	s.wipe(1)
	s.start(1)
	record, latter := form()
	if _, err := s.up[2].answerForm(former.from, former.body); !errors.Is(err, errOutdated) {
		t.Errorf("the former record: %v", err)
	}
	if _, err := s.up[2].answerForm(latter.from, latter.body); err != nil {
		t.Error(err)
	}
	if got := s.up[2].state().ClusterID; got != record.ClusterID {
		t.Errorf("node 2 belongs to %s, want %s", got, record.ClusterID)
	}
	s.check(0)
}
