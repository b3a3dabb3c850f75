// Package envelope encrypts and decrypts the payloads of queues that ask for encryption at rest (state 8): AES-256-GCM
// under a key that has an id, in a JSON envelope that tells the id.
package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// Key is a 256-bit key with the id under which envelopes name it.
type Key struct {
	ID    string
	Bytes [32]byte
}

// Keyring seals with its first key and opens with all of them. The zero value holds no key. Safe for all goroutines.
type Keyring struct {
	current *opened
	byID    map[string]*opened
}

type opened struct {
	id   string
	aead cipher.AEAD
}

const (
	// ivBytes is the iv of the stored form; its first nonceBytes are the nonce of GCM.
	ivBytes    = 16
	nonceBytes = 12
	tagBytes   = 16
)

// ErrNoKey is returned when no key is held that could do what is asked.
var ErrNoKey = errors.New("no key is held for the payload")

// ErrDamaged is returned for an envelope that is not what was sealed.
var ErrDamaged = errors.New("the encrypted payload is damaged")

// New makes a keyring. current is nil for a node that encrypts nothing; old keys only decrypt.
func New(current *Key, old []Key) (*Keyring, error) {
	ring := &Keyring{byID: map[string]*opened{}}
	for i := range old {
		key, err := open(&old[i])
		if err != nil {
			return nil, err
		}
		ring.byID[key.id] = key
	}
	if current != nil {
		key, err := open(current)
		if err != nil {
			return nil, err
		}
		ring.current = key
		ring.byID[key.id] = key
	}
	return ring, nil
}

func open(key *Key) (*opened, error) {
	block, err := aes.NewCipher(key.Bytes[:])
	if err != nil {
		return nil, fmt.Errorf("set up key %s: %w", key.ID, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("set up key %s: %w", key.ID, err)
	}
	return &opened{id: key.ID, aead: aead}, nil
}

// Usable tells whether there is a key to encrypt with.
func (k *Keyring) Usable() bool { return k.current != nil }

// stored is the envelope of state 8.3; encoding/json writes byte slices as standard padded base64.
type stored struct {
	Encrypted []byte `json:"encrypted"`
	IV        []byte `json:"iv"`
	AuthTag   []byte `json:"authTag"`
	KeyID     string `json:"keyId"`
}

// Seal returns the envelope of a payload.
func (k *Keyring) Seal(payload []byte) ([]byte, error) {
	if k.current == nil {
		return nil, ErrNoKey
	}
	iv := make([]byte, ivBytes)
	if _, err := rand.Read(iv); err != nil {
		return nil, fmt.Errorf("draw iv: %w", err)
	}
	sealed := k.current.aead.Seal(nil, iv[:nonceBytes], payload, nil)
	cut := len(sealed) - tagBytes
	return json.Marshal(stored{Encrypted: sealed[:cut], IV: iv, AuthTag: sealed[cut:], KeyID: k.current.id})
}

// Open returns the payload of an envelope. Errors wrap ErrNoKey or ErrDamaged.
func (k *Keyring) Open(envelope []byte) ([]byte, error) {
	var e stored
	if err := json.Unmarshal(envelope, &e); err != nil || len(e.IV) != ivBytes || len(e.AuthTag) != tagBytes {
		return nil, ErrDamaged
	}
	key := k.byID[e.KeyID]
	if key == nil {
		return nil, fmt.Errorf("open envelope of key %s: %w", e.KeyID, ErrNoKey)
	}
	payload, err := key.aead.Open(nil, e.IV[:nonceBytes], append(e.Encrypted, e.AuthTag...), nil)
	if err != nil {
		return nil, fmt.Errorf("open envelope: %w: %w", ErrDamaged, err)
	}
	return payload, nil
}
