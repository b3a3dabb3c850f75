package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// EncryptionKeyBytes is the length of an AES-256 key.
const EncryptionKeyBytes = 32

// EncryptionKey is one payload key and the id under which stored records name it (cluster 15.3).
type EncryptionKey struct {
	ID    string
	Bytes [EncryptionKeyBytes]byte
}

// String hides the key: only its id may appear in texts.
func (k EncryptionKey) String() string { return "encryption key " + k.ID }

const (
	allowedKey  = "[<id>:]<64 hex characters>"
	allowedKeys = "a comma list of [<id>:]<64 hex characters>"
	// derivedKeyIDBytes is how much of the key's SHA-256 names a key without an id, in hex characters.
	derivedKeyIDBytes = 8
)

func parseKey(text string) (EncryptionKey, error) {
	id, digits, hasID := strings.Cut(text, ":")
	if !hasID {
		digits = text
	} else if !isWord(id) {
		return EncryptionKey{}, errNotAllowed
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != EncryptionKeyBytes {
		return EncryptionKey{}, errNotAllowed
	}
	if !hasID {
		sum := sha256.Sum256(raw)
		id = hex.EncodeToString(sum[:])[:derivedKeyIDBytes]
	}
	return EncryptionKey{ID: id, Bytes: [EncryptionKeyBytes]byte(raw)}, nil
}

func parseCurrentKey(text string) (*EncryptionKey, error) {
	key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	return &key, nil
}

func parseOldKeys(text string) ([]EncryptionKey, error) {
	var keys []EncryptionKey
	for _, item := range strings.Split(text, ",") {
		key, err := parseKey(item)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// TestFault ends the process at the Nth passage of a crash point (cluster 19).
type TestFault struct {
	Point string
	Nth   int // from 1
}

// errUnknownPoint marks the one refusal that exits with 2 (cluster 17.2).
var errUnknownPoint = errors.New("unknown crash point")

const (
	allowedFaults = "point[:nth],… with the crash points of the cluster specification and nth from 1 to 1000000000"
	// highestNth bounds the passages of a crash point; no test waits for more.
	highestNth = 1_000_000_000
)

func parseFaults(text string) ([]TestFault, error) {
	var faults []TestFault
	for _, item := range strings.Split(text, ",") {
		point, nthText, hasNth := strings.Cut(item, ":")
		nth := int64(1)
		if hasNth {
			var err error
			if nth, err = parseWhole(nthText); err != nil || nth < 1 || nth > highestNth {
				return nil, errNotAllowed
			}
		}
		if !isCrashPoint(point) {
			return nil, fmt.Errorf("find crash point %q: %w", point, errUnknownPoint)
		}
		faults = append(faults, TestFault{Point: point, Nth: int(nth)})
	}
	return faults, nil
}

// CrashPoints lists every point that QUEEN_TEST_FAULTS may name, in the order of cluster 19.
func CrashPoints() []string {
	return strings.Fields(`
		batcher.drained planner.planned propose.sent log.appended log.flushed
		commit.before_apply apply.mid_entry apply.store_committed
		durable.files_synced durable.store_committed
		snapshot.sealed snapshot.built snapshot.part_sent snapshot.install_staged snapshot.install_activated
		gc.before_unlink gc.after_unlink compaction.before compaction.after
		transfer.started
		identity.written formation.sent rejoin.demoted rejoin.reset
		membership.plan_recorded membership.learner_added membership.step_committed membership.changed
		recover.marker_written recover.log_written skip.journal_written
		backup.part_written restore.part_written`)
}

func isCrashPoint(name string) bool {
	for _, point := range CrashPoints() {
		if point == name {
			return true
		}
	}
	return false
}
