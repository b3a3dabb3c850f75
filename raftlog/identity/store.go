package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
)

const (
	identityFile = "identity.json"
	layoutFile   = "layout.json"
)

var (
	// ErrDamaged says that a file is missing while others exist, or is not what was written.
	ErrDamaged = errors.New("the data directory is damaged")
	// ErrOtherNode says that the directory belongs to another QUEEN_RAFT_NODE_ID.
	ErrOtherNode = errors.New("the data directory belongs to another node")
	// ErrGroups says that QUEEN_RAFT_GROUPS is not what the directory was made with.
	ErrGroups = errors.New("QUEEN_RAFT_GROUPS differs from the data directory")
	// ErrNewerFormat says that a newer build made the directory.
	ErrNewerFormat = errors.New("the data directory has a newer format")
	// ErrForeign says that a reset came from another cluster than the one the directory belongs to.
	ErrForeign = errors.New("the data directory belongs to another cluster")
)

// stateDirectories hold the state of the groups: their presence makes a directory not empty.
var stateDirectories = [...]string{"raft", "store", "groups"}

// Options say which directory to open, and for whom.
type Options struct {
	// Dir is QUEEN_RAFT_DIR. It is made when missing.
	Dir string
	// NodeID is QUEEN_RAFT_NODE_ID.
	NodeID uint64
	// Groups is QUEEN_RAFT_GROUPS.
	Groups int
	// Build is the version written into the layout of a new directory.
	Build string
	// NowMs is the wall clock, in ms since the Unix epoch.
	NowMs func() int64
	// Recovering accepts a directory of another node id; the forced recovery rewrites it (cluster 14).
	Recovering bool
	// Faults is called at the crash points of cluster 19; nil does nothing.
	Faults func(point string)
}

// Store is an open identity. Its methods may be called from any goroutine.
type Store struct {
	options Options
	path    string
	layout  Layout
	fresh   bool

	mu       sync.Mutex
	identity Identity
}

// Open reads the identity of a directory, mints one for an empty directory, and writes a new boot nonce. Its errors are
// FATAL lines: they name the file and the remedy.
func Open(options Options) (*Store, error) {
	if options.Faults == nil {
		options.Faults = func(string) {}
	}
	s := &Store{options: options, path: filepath.Join(options.Dir, identityFile)}
	if err := os.MkdirAll(options.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	err := ReadRecord(s.path, &s.identity)
	switch {
	case errors.Is(err, os.ErrNotExist):
		s.fresh = true
		if err := s.requireEmpty(identityFile); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, s.withRemedy(err)
	}
	if err := s.openLayout(); err != nil {
		return nil, err
	}
	if s.fresh {
		s.identity = Identity{NodeID: options.NodeID, Incarnation: uuid.NewString()}
	} else if err := s.check(); err != nil {
		return nil, err
	}
	if s.identity.Resetting {
		if err := s.finishReset(); err != nil {
			return nil, err
		}
	}
	counter, _ := NonceCounter(s.identity.BootNonce)
	return s, s.Update(func(i *Identity) { i.boot(newNonce(counter + 1)) })
}

// check judges an identity that was read.
func (s *Store) check() error {
	i := &s.identity
	if i.NodeID != s.options.NodeID && !s.options.Recovering {
		return fmt.Errorf("%w: %s is of node %d, QUEEN_RAFT_NODE_ID is %d: correct the variable, or QUEEN_RAFT_DIR",
			ErrOtherNode, s.path, i.NodeID, s.options.NodeID)
	}
	if _, ok := NonceCounter(i.BootNonce); !ok || i.Incarnation == "" {
		return s.withRemedy(fmt.Errorf("%w: %s has no incarnation or no boot nonce", ErrDamaged, s.path))
	}
	if i.Began && !i.Resetting {
		log := filepath.Join(s.options.Dir, stateDirectories[0])
		if _, err := os.Stat(log); errors.Is(err, os.ErrNotExist) {
			return s.withRemedy(fmt.Errorf("%w: %s, with the log, the term and the vote, is missing, but %s exists",
				ErrDamaged, log, s.path))
		} else if err != nil {
			return fmt.Errorf("look for the log: %w", err)
		}
	}
	return nil
}

// requireEmpty refuses a directory that lacks a file although it holds state.
func (s *Store) requireEmpty(missing string) error {
	for _, name := range stateDirectories {
		path := filepath.Join(s.options.Dir, name)
		if _, err := os.Stat(path); err == nil {
			return s.withRemedy(fmt.Errorf("%w: %s is missing, but %s exists",
				ErrDamaged, filepath.Join(s.options.Dir, missing), path))
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("look for state: %w", err)
		}
	}
	return nil
}

// withRemedy adds what an operator does about damage (cluster 18).
func (s *Store) withRemedy(err error) error {
	return fmt.Errorf("%w; replace this node: queen cluster replace %d; a single node: restore its backup", err, s.options.NodeID)
}

// Fresh tells whether Open found an empty directory.
func (s *Store) Fresh() bool { return s.fresh }

// Layout returns the content of layout.json.
func (s *Store) Layout() Layout { return s.layout }

// Current returns a copy of the identity.
func (s *Store) Current() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity.clone()
}

// Update changes the identity. When it returns without an error the change is durable; after an error the present one
// counts in this process, and the next Open finds the former one or the new one.
func (s *Store) Update(change func(*Identity)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.identity.clone()
	change(&next)
	if err := WriteRecord(s.path, &next); err != nil {
		return fmt.Errorf("update identity: %w", err)
	}
	s.identity = next
	s.options.Faults("identity.written")
	return nil
}
